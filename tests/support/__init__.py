"""Shared by several tests: fakes, simulated recordings, known data."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def for_make_test(cases: Mapping[str, tuple[object, ...]], *often: str) -> list[Any]:
    """Return cases by name as parameters; `make test` runs those named `often`, test-all all."""
    assert {*often} <= {*cases}
    return [
        pytest.param(*case, id=name, marks=[] if name in often else pytest.mark.exhaustive)
        for name, case in cases.items()
    ]


def for_test_all(*case: object) -> Any:
    """Return one case that takes seconds as a parameter; only `make test-all` runs it."""
    return pytest.param(*case, marks=pytest.mark.exhaustive)
