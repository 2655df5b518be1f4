"""Numbers in the text of source V and properties of its GPU, outside its tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from analysis.data.published import numbered_rows
from analysis.stats.rounding import half_unit
from base.errors import StudyError

FIELDS = ["statement", "n", "value", "factor", "said"]
STATEMENTS = (
    "best_flop_per_s",
    "speedup_over_cpu",
    "tuned_cpu_speedup",
    "tuned_cpu_least_flop_per_s",
    "tuned_cpu_most_flop_per_s",
    "link_bytes_per_s",
)


@dataclass(frozen=True)
class Statement:
    """A number in SI units for matrices of size n; `rounding` is half a unit of its last digit."""

    n: int
    value: float
    rounding: float


def read(path: Path) -> Mapping[str, Statement]:
    """Return the statements by name; raise StudyError naming a wrong or missing row."""
    found: dict[str, Statement] = {}
    for number, line in numbered_rows(path, FIELDS):
        try:
            n, value, factor = int(line["n"]), float(line["value"]), float(line["factor"])
        except ValueError:
            n, value, factor = 0, 0.0, 0.0
        if min(n, value, factor) <= 0:
            raise StudyError(f"{path}: row {number}: n, value and factor must be numbers above 0")
        found[line["statement"]] = Statement(n, value * factor, half_unit(value) * factor)
    missing = [name for name in STATEMENTS if name not in found]
    if missing:
        raise StudyError(f"{path}: row {missing[0]!r} is missing; restore the file from git")
    return found
