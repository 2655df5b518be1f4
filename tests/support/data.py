"""What tests read from the file beside them with their own name: texts, and tables of cases."""

from pathlib import Path
from typing import Any

import yaml


def cases(module: str) -> dict[str, Any]:
    """Return the content of the YAML file of a test module, by section; `module` is __file__."""
    return yaml.safe_load(Path(module).with_suffix(".yaml").read_text())
