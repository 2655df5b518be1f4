"""The schema of a recording's tables: columns, types, limits and keys.

`measurement.recording.provenance_schema` is the schema of provenance.json.
`measurement.recording.consistency` states the rules between rows, tables and provenance. This
module does not import pandas.
"""

import re
from dataclasses import dataclass, field

import numpy as np

from kernels.products.elements import ELEMENTS

_LARGEST = 2.0**53
_INT_MAX = 2.0**31 - 1  # of the kernels' sizes
MOST_CHARACTERS = 4096  # per text
# The columns that identify a kernel, a cell, and a build.
KERNEL = ["device", "variant", "dtype", "batch", "m", "n", "k", "block_size"]
CELL = [*KERNEL, "host_memory", "threads"]
SETTING = ["pieces", "staging_threads", "chunk_bytes"]  # of a run in pieces
BUILD = ["architecture", "variant", "dtype", "block_size", "build"]


@dataclass(frozen=True)
class Column:
    """The values of a column: `kind` is its pandas type.

    Numbers are from `least` to `most`. A text is one of `words` or matches `pattern`.
    """

    kind: str
    least: float = 0.0
    most: float = _LARGEST
    words: tuple[str, ...] = ()
    pattern: str = ""

    def text_fault(self, text: str) -> str | None:
        """Return why a text is invalid; None if it is valid."""
        if self.words:
            return None if text in self.words else f"{text!r} is not one of {sorted(self.words)}"
        if self.pattern and not re.fullmatch(self.pattern, text):
            return f"{text!r:.60} is not valid"
        try:
            check_text(text)
        except ValueError as error:
            return str(error)
        return None

    def number_fault(self, values: np.ndarray, given: np.ndarray) -> tuple[int, str] | None:
        """Return the index of the first invalid number, and why; None if all are valid.

        `given` is False where a value is missing.
        """
        wrong = given & ~((self.least <= values) & (values <= self.most) & ~np.signbit(values))
        if not wrong.any():
            return None
        at = int(wrong.argmax())
        return at, f"is {values[at]:.16g}, not from {self.least:g} to {self.most:.16g}"


def check_text(text: str) -> None:
    """Raise ValueError if a text is too long or contains an unprintable character.

    Line breaks, control characters except tabs, and marks of the writing direction are unprintable.
    """
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"a text has {len(text)} characters, more than {MOST_CHARACTERS}")
    plain = text.replace("\t", " ")
    if not plain.isprintable() or (not plain.isascii() and max(plain) > "\uffff"):
        strange = next(c for c in plain if not c.isprintable() or c > "\uffff")
        raise ValueError(f"a text contains the character U+{ord(strange):04X}")


def one_line(text: str) -> str:
    """Return a text as `check_text` allows it: other characters are replaced, the end is cut."""
    plain = "".join(c if c.isprintable() and c <= "\uffff" else " " for c in text)
    return plain[:MOST_CHARACTERS]


@dataclass(frozen=True)
class Table:
    """A table: its columns in order, the columns that may have gaps, and its unique `keys`."""

    columns: tuple[str, ...]
    gaps: frozenset[str]
    keys: tuple[tuple[str, ...], ...]
    kinds: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        kinds = {name: COLUMNS[name].kind for name in self.columns}
        object.__setattr__(self, "kinds", kinds)


def _text(*words: str, pattern: str = "") -> Column:
    return Column("string", words=words, pattern=pattern)


def _whole(least: float = 0.0, most: float = _LARGEST) -> Column:
    return Column("Int64", least, most)


_NUMBER, _SECONDS = Column("float64"), Column("float64", 1e-12, 1e10)
_ERROR = Column("float64", most=float("inf"))  # infinite if a product overflowed
_NAME, _EDGE = _text(pattern="[A-Za-z0-9_.]{1,200}"), _whole(1, _INT_MAX)

COLUMNS = {
    **dict.fromkeys(("variant", "quantity", "opcode", "metric", "matrices"), _NAME),
    **dict.fromkeys(("batch", "m", "n", "k", "block_size", "threads"), _EDGE),
    **dict.fromkeys(("round", "position", "sm_clock_hz", "memory_clock_hz"), _whole()),
    **dict.fromkeys(("temperature_celsius", "throttle_reasons", "size_bytes"), _whole()),
    **dict.fromkeys(("cpu_clock_before_hz", "cpu_clock_after_hz"), _whole()),
    **dict.fromkeys(("worst_row", "worst_column", "neighbours", "bits"), _whole()),
    **dict.fromkeys(("static_shared_bytes", "stack_bytes"), _whole(most=_INT_MAX)),
    **dict.fromkeys(("spill_store_bytes", "spill_load_bytes"), _whole(most=_INT_MAX)),
    **dict.fromkeys(("total_s", "host_s", "h2d_s", "kernel_s", "d2h_s"), _SECONDS),
    **dict.fromkeys(("init_s", "context_s", "module_s", "allocation_s"), _SECONDS),
    **dict.fromkeys(("duration_s", "launch_s", "kernel_batch_s", "time_unix_s"), _SECONDS),
    **dict.fromkeys(("copies_s", "run_s"), _SECONDS),
    **dict.fromkeys(("power_w", "idle_power_w", "energy_j"), _NUMBER),
    **dict.fromkeys(("value", "worst_units", "rms_units"), _NUMBER),
    **dict.fromkeys(("worst_error", "worst_bound"), _ERROR),
    **dict.fromkeys(("launches", "count", "gpus", *SETTING), _whole(1)),
    "used": _whole(most=1),
    "device": _text(pattern="cpu|gpu[0-9]{1,4}"),
    "dtype": _text(*ELEMENTS),
    "host_memory": _text("pinned", "pageable"),
    "other_threads_s": Column("float64", most=1e10),  # 0 for a single thread
    "build": _text("exact", "guarded"),
    "status": _text("passed", "failed", "not_launchable"),
    "reason": _text(),
    "architecture": _text(pattern="sm_[0-9]{2,3}[af]?"),
    "registers_per_thread": _whole(most=255),
    "nvcc": _text(pattern="[A-Za-z0-9_.+ -]{1,200}"),
    "cubin_sha256": _text(pattern="[0-9a-f]{64}"),
    "scope": _text("kernel", "loop"),
    "caches": _text("warm", "flushed"),
}


def _table(columns: str, *keys: str) -> Table:
    """Return a table from the names of its columns; names of columns with gaps end in ``?``."""
    names = columns.split()
    gaps = frozenset(name[:-1] for name in names if name.endswith("?"))
    return Table(
        tuple(name.rstrip("?") for name in names), gaps, tuple(tuple(key.split()) for key in keys)
    )


_OF_KERNEL = "device variant dtype batch m n k block_size?"
_OF_CELL = f"{_OF_KERNEL} host_memory? threads?"
_OF_BUILD = "architecture variant dtype block_size? build"
_RUN = "total_s host_s? h2d_s? kernel_s? d2h_s?"
_A_KERNEL, _A_CELL, _A_BUILD = (" ".join(names) for names in (KERNEL, CELL, BUILD))
# Every table by its file name. A CPU has no host memory, copies and builds; a GPU has no threads.
ALL = {
    "samples.csv.gz": _table(
        f"{_OF_CELL} round position time_unix_s {_RUN} sm_clock_hz? memory_clock_hz? "
        "temperature_celsius? power_w? throttle_reasons? other_threads_s? cpu_clock_before_hz? "
        "cpu_clock_after_hz?",
        f"{_A_CELL} round",
        f"{_A_CELL} time_unix_s",
    ),
    "checks.csv": _table(
        f"{_OF_CELL} build? status reason? worst_row? worst_column? worst_error? worst_bound?",
        _A_CELL,
    ),
    "builds.csv": _table(
        f"{_OF_BUILD} registers_per_thread static_shared_bytes spill_store_bytes spill_load_bytes "
        "stack_bytes nvcc cubin_sha256",
        _A_BUILD,
    ),
    "instructions.csv": _table(
        f"{_OF_BUILD} scope opcode bits count", f"{_A_BUILD} scope opcode bits"
    ),
    "cold_starts.csv": _table(
        f"{_OF_CELL} round init_s context_s module_s allocation_s {_RUN}", f"{_A_CELL} round"
    ),
    "ceilings.csv": _table(
        "device quantity host_memory? size_bytes? threads? round value",
        "device quantity host_memory size_bytes threads round",
    ),
    "neighbours.csv": _table(f"{_OF_CELL} round neighbours {_RUN}", f"{_A_CELL} round neighbours"),
    "kernels.csv.gz": _table(
        f"{_OF_KERNEL} round position time_unix_s caches launches kernel_s sm_clock_hz? "
        "throttle_reasons?",
        f"{_A_KERNEL} round",
        f"{_A_KERNEL} time_unix_s",
    ),
    "energy.csv": _table(
        f"{_OF_KERNEL} launches duration_s launch_s power_w energy_j idle_power_w", _A_KERNEL
    ),
    "pieces.csv": _table(
        f"{_OF_KERNEL} host_memory gpus pieces staging_threads? chunk_bytes? used round copies_s "
        "run_s",
        f"{_A_KERNEL} host_memory {' '.join(SETTING)} round",
    ),
    "batches.csv.gz": _table(f"{_OF_KERNEL} round launches kernel_batch_s", f"{_A_KERNEL} round"),
    "counters.csv": _table(f"{_OF_KERNEL} metric value", f"{_A_KERNEL} metric"),
    "accuracy.csv": _table(f"{_OF_KERNEL} matrices worst_units rms_units", f"{_A_KERNEL} matrices"),
}
# The first three are new in format 5 (pieces.csv is missing in its first recordings), the fourth is
# only in format 4, and the last two may be added later.
_OPTIONAL = (
    "kernels.csv.gz",
    "energy.csv",
    "pieces.csv",
    "batches.csv.gz",
    "counters.csv",
    "accuracy.csv",
)
# Column types of the required and of the optional tables, in the order of the columns.
OPTIONAL = {name: ALL[name].kinds for name in _OPTIONAL}
TABLES = {name: table.kinds for name, table in ALL.items() if name not in _OPTIONAL}
# Tables that the recorder writes.
MEASURED = TABLES | {name: OPTIONAL[name] for name in _OPTIONAL[:3]}
