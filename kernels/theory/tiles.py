"""Block sizes, and the tile shapes of some kernels, read from tables in their sources.

Recordings, tables and the compiler option ``-DBLOCK=`` denote both by one number: B, or ``rows *
1000 + columns`` of a tile of C (128256 is 128×256). Only this module converts.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from base.paths import ROOT

_ROW = re.compile(r"^    \{((?:\d+, ){6}\d+)\},", re.MULTILINE)
_WORD_BYTES = 4  # bytes of a float32
_ROWS = 1000  # factor of the rows in the number of a tile shape


@dataclass(frozen=True)
class TileShape:
    """The tile shape of a kernel: rows and columns of C per block and per thread, and stages.

    `step` is K per stage. Each of the `slices` groups of threads works on its own part of a stage,
    with its own sums.
    """

    rows: int
    columns: int
    thread_rows: int
    thread_columns: int
    step: int
    stages: int
    slices: int

    def __str__(self) -> str:
        return f"{self.rows}×{self.columns}"

    @property
    def number(self) -> int:
        """The number that denotes this shape in recordings, tables and ``-DBLOCK=``."""
        return self.rows * _ROWS + self.columns

    @property
    def slice_threads(self) -> int:
        """The threads of one slice, which together sum a whole tile of C."""
        return self.rows // self.thread_rows * (self.columns // self.thread_columns)

    @property
    def threads(self) -> int:
        """Threads per block."""
        return self.slices * self.slice_threads

    @property
    def pitch(self) -> int:
        """The words from one row of A's transposed tile to the next, in shared memory."""
        return self.rows + 4

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared bytes of a block: all stages, or afterwards the sums of all slices."""
        stages = self.stages * self.step * (self.pitch + self.columns)
        sums = self.slices * self.rows * self.columns if self.slices > 1 else 0
        return max(stages, sums) * _WORD_BYTES


# None: the variant has no block size.
BlockSize = int | TileShape | None


def number_of(block_size: BlockSize) -> int | None:
    """Return the number that denotes a block size in recordings and tables."""
    return block_size.number if isinstance(block_size, TileShape) else block_size


def block_size_of(number: int | None, sizes: Iterable[BlockSize]) -> BlockSize:
    """Return the block size in `sizes` that a number denotes, or the number if there is none."""
    return next((size for size in sizes if number_of(size) == number), number)


def shown(number: int) -> str:
    """Return the text for a block size's number: "32", or "128×256" for a tile shape."""
    rows, columns = divmod(number, _ROWS)
    return f"{rows}×{columns}" if rows else str(columns)


def _read(kernel: str) -> tuple[TileShape, ...]:
    rows = _ROW.findall((ROOT / "kernels" / f"{kernel}.cu").read_text())
    return tuple(TileShape(*map(int, row.split(", "))) for row in rows)


TILES = _read("sgemm_top")
STREAM_K_TILES = _read("sgemm_stream_k")
