"""``python -m workflow`` is ``gemm-study``."""

import sys

from workflow.command import main

if __name__ == "__main__":
    sys.exit(main())
