"""Wrong verdicts of `gemm-study try`: ``python -m benchmarks.judge_outside_kernels``.

The kernels and their right verdicts are in `benchmarks.outside_kernels`. The command prints each
wrong verdict and the share of wrong verdicts. It takes about a minute and needs no GPU.
"""

import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from benchmarks.outside_kernels import CORRECT, KERNELS, UNSUPPORTED
from kernels.catalog.entries import VARIANTS
from kernels.catalog.user_supplied import adopt
from kernels.catalog.variant import UserKernel
from kernels.host_execution.binding import KernelFault
from kernels.host_execution.compiler import NotSupported
from kernels.host_execution.trial import checked


def judge(source: Path) -> str:
    """Return "correct", "unsupported" or the message of the fault."""
    entry = adopt(source)
    assert isinstance(entry, UserKernel)
    try:
        list(checked(entry))
    except NotSupported:
        return UNSUPPORTED
    except KernelFault as fault:
        return str(fault)
    finally:
        del VARIANTS[entry.name]
    return CORRECT


def wrong_verdicts(names: Iterable[str]) -> dict[str, str]:
    """Return the verdict on each kernel that is judged wrongly."""
    wrong = {}
    for name in names:
        text, verdict = KERNELS[name]
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "mine.cu"
            source.write_text(text)
            found = judge(source)
        plain = verdict in (CORRECT, UNSUPPORTED)
        if not (found == verdict if plain else re.search(verdict, found)) or "\n" in found:
            wrong[name] = found
    return wrong


def main() -> int:
    """Judge all kernels; return 1 if a verdict is wrong."""
    wrong = wrong_verdicts(KERNELS)
    for name, found in wrong.items():
        print(f"{name}: {found}")
    unsupported = sum(verdict == UNSUPPORTED for _, verdict in KERNELS.values())
    print(f"{len(KERNELS)} kernels, {unsupported} unsupported: {len(wrong)} wrong verdicts")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
