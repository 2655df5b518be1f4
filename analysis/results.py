"""The tables that the analysis wrote, and numbers taken from them that remember where they stand.

The report and its figures know nothing but these CSV files. Every number they show is a `Number`:
the text that a reader sees and, beside it, file, rows and expression, so that anyone (a test, too)
can walk it back to the CSV.
"""

import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from analysis.data.recordings import BASELINE_BLOCK, CPU, ORDERS
from analysis.table_names import TABLES
from kernels.catalog import VARIANTS
from measurement.errors import StudyError

# Read as text whatever is in them: a card may be called "4090" or "NA".
_TEXT = (
    *("recording", "gpu", "device", "gpu_name", "cpu_model", "source", "machine", "variant"),
    *("dtype", "host_memory", "build", "quantity", "cpu_own_variant", "cpu_best_variant"),
    *("status", "reason", "blas", "blas_version", "blas_architecture", "intensity"),
    *("part", "start", "after_variant"),
    *("architecture", "cubin_sha256", "item", "commit", "stale_sources", "phase", "verdict"),
    *("throttle_reasons", "kind", "recording_a", "recording_b", "gpu_a", "gpu_b"),
    *("ncu_metric", "agrees", "explanation", "series", "limiter", "after", "changed", "bound"),
    *("claim", "measured", "above", "below", "rule", "compute_capability", "limit", "unit"),
    *("agree", "system", "side", "stands_at", "implementation", "first"),
    *("direction", "data", "model", "opponent", "place", "kernels"),
    *("parameter", "method", "adds", "role", "worst_variant", "basis", "of"),
)
# The same of one table: elsewhere a value is a number.
_TEXT_OF = {"environment": ("value",)}

LIBRARIES = {name for name, entry in VARIANTS.items() if entry.kernel is None}

# The order at which the source compares its variants (its Figures 1 and 2).
SOURCE_ORDER = 2048

# What a published program of its time used comes first; the tables are built the same way.
HOST_MEMORY_ORDER = ("pageable", "pinned")


class ResultsError(StudyError):
    """A table that the report needs is missing or unreadable; the message says how to make it."""


@dataclass(frozen=True)
class Unit:
    """How a quantity is shown: factor from SI, name, significant digits.

    No digits (None): as short as it can be, for values that were published rounded; 0: a count.
    """

    factor: float
    name: str
    digits: int | None


SECONDS = Unit(1.0, "s", 4)
MILLISECONDS = Unit(1e3, "ms", 4)
MICROSECONDS = Unit(1e6, "µs", 3)
NANOSECONDS = Unit(1e9, "ns", 3)
PICOSECONDS = Unit(1e12, "ps", 3)
CYCLES = Unit(1.0, "cycles", 3)
GIGABYTES = Unit(1e-9, "GB/s", 3)
MEGAHERTZ = Unit(1e-6, "MHz", 4)
GIGAHERTZ = Unit(1e-9, "GHz", 4)
KIBIBYTES = Unit(1 / 1024, "KiB", None)
MEBIBYTES = Unit(1 / 1024**2, "MiB", None)
CELSIUS = Unit(1.0, "°C", 0)
WATTS = Unit(1.0, "W", 3)
GFLOPS = Unit(1e-9, "GFLOP/s", 4)
TIMES = Unit(1.0, "×", 3)
PLAIN = Unit(1.0, "", 3)
FACTOR = Unit(1.0, "", 4)
PERCENT = Unit(100.0, "%", 2)
COUNT = Unit(1.0, "", 0)


def size_unit(size_bytes: float) -> Unit:
    """Return the unit in which a cache of this size is shown."""
    return KIBIBYTES if size_bytes < 1024**2 else MEBIBYTES


def as_published(unit: Unit) -> Unit:
    """Return `unit` for values that were published rounded: no digit is added to them."""
    return replace(unit, digits=None)


_TO_MACHINE = str.maketrans("−⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "--0123456789", "\u202f")


@dataclass(frozen=True)
class Number:
    """A number as shown (`text`, `unit`) and where it comes from.

    `value` is the number as the CSV has it, in its own text, or for an expression over `rows`
    of `table` the shortest text that reads back as the same float. `expression` is a column name or
    what `pandas.DataFrame.eval` computes over those rows.
    """

    text: str
    unit: str
    value: str
    table: str
    rows: tuple[int, ...]
    expression: str
    says_unit: bool = True

    def __str__(self) -> str:
        return f"{self.text}\u00a0{self.unit}" if self.unit and self.says_unit else self.text

    @property
    def key(self) -> str:
        """The number as shown, as a machine reads it: what a table is sorted by."""
        text = self.text.translate(_TO_MACHINE).replace("×10", "e")
        return {"∞": "Infinity", "-∞": "-Infinity", "undefined": ""}.get(text, text)

    @property
    def is_cell(self) -> bool:
        """Whether this is one cell of the CSV rather than computed from some."""
        return len(self.rows) == 1 and self.expression.isidentifier()

    def bare(self) -> "Number":
        """Return the same number without its unit, for use where the unit is said nearby."""
        return replace(self, says_unit=False)


class Text(str):
    """The text of one CSV cell, which remembers where it stands, and as what it is shown."""

    value: str
    table: str
    row: int
    column: str

    def __new__(cls, shown: str, value: str, table: str, row: int, column: str) -> "Text":
        """Return `shown`, which stands for the CSV's text `value`."""
        text = super().__new__(cls, shown)
        text.value, text.table, text.row, text.column = value, table, row, column
        return text

    def shown_as(self, words: str) -> "Text":
        """Return other words for the same cell, such as "yes" for True."""
        return Text(words, self.value, self.table, self.row, self.column)


class Results:
    """The CSV files of one analysis: `frame` with numbers, `text` exactly as written.

    Row numbers count from 0, without the header, and are the index of both frames.
    """

    def __init__(self, folder: Path | str) -> None:
        """Read every table in `folder`; raise ResultsError naming the first that is missing."""
        self.folder = Path(folder)
        self.bytes = {name: _read(self.folder / f"{name}.csv") for name in TABLES}
        self._frames = {name: self._parse(name) for name in TABLES}
        self._texts = {
            name: pd.read_csv(io.BytesIO(data), dtype=str, keep_default_na=False)
            for name, data in self.bytes.items()
        }

    def _parse(self, name: str) -> pd.DataFrame:
        try:
            return pd.read_csv(
                io.BytesIO(self.bytes[name]),
                dtype=dict.fromkeys((*_TEXT, *_TEXT_OF.get(name, ())), str),
                keep_default_na=False,
                na_values=[""],
            )
        except (ValueError, UnicodeDecodeError) as error:
            raise ResultsError(
                f"{self.folder / name}.csv cannot be read ({error}); "
                "make it again with `python -m analysis tables` and `fit`"
            ) from None

    def frame(self, name: str) -> pd.DataFrame:
        """Return the table `name`, blank cells as NaN."""
        return self._frames[name]

    def text(self, name: str, row: int, column: str) -> Text:
        """Return one cell exactly as the CSV has it."""
        found = str(self._texts[name].at[row, column])
        return Text(found, found, name, int(row), column)

    def cell(
        self, name: str, row: int, column: str, unit: Unit, like: float | None = None
    ) -> Number | None:
        """Return the number in one cell, or None where it is blank or the column does not exist.

        With `like` it is shown with as many decimals as that value (an interval beside its median).
        """
        frame = self._frames[name]
        if column not in frame or pd.isna(frame.at[row, column]):
            return None
        value = float(frame.at[row, column])
        shown = show(value, unit, value if like is None else like)
        return Number(
            shown, unit.name, str(self.text(name, row, column)), name, (int(row),), column
        )

    def interval(
        self, name: str, row: int, column: str, unit: Unit
    ) -> tuple[Number, Number] | None:
        """Return the bounds beside `column`, with its decimals, or None where either is missing."""
        like = float(self._frames[name].at[row, column])
        low, high = (self.cell(name, row, bound, unit, like) for bound in interval_columns(column))
        return (low, high) if low and high else None

    def derived(self, name: str, rows: Sequence[int], expression: str, unit: Unit) -> Number:
        """Return what `expression` gives over `rows` of the table `name`."""
        value = evaluate(self._frames[name], rows, expression)
        where = tuple(int(row) for row in rows)
        return Number(show(value, unit, value), unit.name, repr(value), name, where, expression)


def interval_columns(column: str) -> tuple[str, str]:
    """Return the columns with the bounds of `column`: its name, _low or _high, then its unit."""
    stem, unit = (column[:-2], "_s") if column.endswith("_s") else (column, "")
    return f"{stem}_low{unit}", f"{stem}_high{unit}"


def evaluate(frame: pd.DataFrame, rows: Sequence[int], expression: str) -> float:
    """Return the value of `expression` over `rows`: of the one row, or an aggregate of several."""
    result = frame.loc[list(rows)].eval(expression, engine="python")
    return float(result.iloc[0] if isinstance(result, pd.Series) else result)


def show(value: float, unit: Unit, like: float) -> str:
    """Return `value` in `unit` as text, with the decimals of `like` (an interval's, its median)."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else "undefined"
    scaled = value * unit.factor
    if unit.digits == 0 or scaled == 0:
        return _grouped(scaled, 0)
    magnitude = math.floor(math.log10(abs(scaled)))
    if unit.digits is None:
        text = _grouped(scaled, max(2 - magnitude, 0))
        return text.rstrip("0").rstrip(".") if "." in text else text
    if not -4 <= magnitude < 9:
        return _scientific(scaled, unit.digits)
    decimals = unit.digits - 1 - magnitude
    if like != value and like * unit.factor != 0 and math.isfinite(like):
        # Two digits more at most: a bound of 10 000 beside a value of 1.23 needs no decimals.
        wanted = unit.digits - 1 - math.floor(math.log10(abs(like * unit.factor)))
        decimals = min(wanted, decimals + 2)
    return _grouped(scaled, max(decimals, 0))


def _grouped(scaled: float, decimals: int) -> str:
    """Group digits by thousands from five of them on: 2048, but 17 180."""
    group = "," if abs(scaled) >= 1e4 else ""
    return _minus(f"{scaled:{group}.{decimals}f}".replace(",", "\u202f"))


def _scientific(scaled: float, digits: int) -> str:
    mantissa, exponent = f"{scaled:.{digits - 1}e}".split("e")
    raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return _minus(f"{mantissa}×10{raised}")


def _minus(text: str) -> str:
    return text.replace("-", "−")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        raise ResultsError(
            f"{path} is missing; make it with `python -m analysis tables` and `fit`"
        ) from None


@dataclass(frozen=True)
class Subject:
    """One measured device: a GPU, or the CPU of a host without one."""

    label: str
    recording: str
    is_gpu: bool
    name: str
    cpu_model: str
    simulated: bool
    live: bool
    stale_sources: tuple[str, ...]
    row: int

    @property
    def title(self) -> str:
        """Name and label, once where they are the same."""
        return self.label if self.name == self.label else f"{self.name} ({self.label})"

    @property
    def marked_title(self) -> str:
        """The title where no badge can stand beside it: a simulated subject says so itself."""
        return f"SIMULATED {self.title}" if self.simulated else self.title

    @property
    def marked_cpu(self) -> str:
        """The host's CPU and the recording, marked like `marked_title`."""
        title = f"{self.cpu_model} ({self.recording})"
        return f"SIMULATED {title}" if self.simulated else title


def subjects(results: Results) -> list[Subject]:
    """Return what was measured, in the order of recordings.csv."""
    found = []
    for row in results.frame("recordings").index:
        text = {
            column: results.text("recordings", row, column)
            for column in ("recording", "gpu", "gpu_name", "cpu_model", "stale_sources")
        }
        found.append(
            Subject(
                label=text["gpu"] or text["recording"],
                recording=text["recording"],
                is_gpu=bool(text["gpu"]),
                name=text["gpu_name"] or text["cpu_model"],
                cpu_model=text["cpu_model"],
                simulated=results.text("recordings", row, "simulated") == "True",
                live=results.text("recordings", row, "live") == "True",
                stale_sources=tuple(filter(None, text["stale_sources"].split(";"))),
                row=int(row),
            )
        )
    return found


def is_library(cells: pd.DataFrame) -> pd.Series:
    """Tell which rows of summary.csv are of a library's kernel, not of one of this project."""
    return ~cells["device"].eq(CPU) & cells["variant"].isin(LIBRARIES)


def rows_of(frame: pd.DataFrame) -> list[int]:
    """Return the numbers of the rows of `frame`, rows of a table: what `Results.derived` takes."""
    return [int(index) for index in frame.index]


def order_cells(results: Results) -> pd.DataFrame:
    """Return the rows of summary.csv that are of the study's orders, with their numbers."""
    summary = results.frame("summary")
    return summary[summary["series"] == ORDERS]


def without_swept_naive(cells: pd.DataFrame) -> pd.DataFrame:
    """Return rows of summary.csv with the GPU's naive kernel in blocks of 32×32 alone.

    That launch is the source's, and the baseline of every gain; other variants keep all their block
    sizes, of which a table or figure then takes the best.
    """
    naive = (cells["variant"] == "naive") & (cells["device"] != CPU)
    return cells[~naive | (cells["block_size"] == BASELINE_BLOCK)]


def compared_memory(gpu_cells: pd.DataFrame) -> str:
    """Return the host memory whose total times stand beside the published ones."""
    kinds = set(gpu_cells["host_memory"].dropna())
    return next((kind for kind in HOST_MEMORY_ORDER if kind in kinds), HOST_MEMORY_ORDER[0])


def hosts_of(measured: Sequence[Subject]) -> dict[str, Subject]:
    """Return, by recording, the first subject measured in it: it stands for the host's CPU."""
    return {subject.recording: subject for subject in reversed(measured)}


def comparison_order(gpu_rows: pd.DataFrame) -> int:
    """Return the source's order where it was measured, else the largest that was."""
    orders = {int(n) for n in gpu_rows["n"]}
    return SOURCE_ORDER if SOURCE_ORDER in orders else max(orders)


def slug(text: str) -> str:
    """Return `text` as a part of a file name or an anchor: lower-case letters, digits, hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "unnamed"


def anchors(labels: Sequence[str]) -> dict[str, str]:
    """Return a distinct `slug` for each label: where two labels share one, a number is added."""
    given: dict[str, str] = {}
    for name in dict.fromkeys(labels):
        base = slug(name)[:40]
        given[name] = base if base not in given.values() else f"{base}-{len(given) + 1}"
    return given
