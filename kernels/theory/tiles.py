"""The shapes of tiles that `sgemm_top` comes in: the table that stands in its source.

A shape is named by ``rows * 1000 + columns`` of its tile of C, which takes the place of a block
size: 128256 is 128×256. The source is compiled with that number, so that the table is said once.
"""

import re
from dataclasses import dataclass

from base.paths import ROOT

_SOURCE = ROOT / "kernels" / "sgemm_top.cu"
_ROW = re.compile(r"^    \{((?:\d+, ){6}\d+)\},", re.MULTILINE)
_WORD_BYTES = 4  # of a float32


ROWS = 1000  # what a row of a tile counts in the number that names its shape


def shown(block_size: int) -> str:
    """Return a block size as text, one that names a shape of tiles as "128×256"."""
    rows, columns = divmod(block_size, ROWS)
    return f"{rows}×{columns}" if rows else str(columns)


@dataclass(frozen=True)
class GemmTile:
    """Rows and columns of C a block and a thread, steps of k a stage, stages, slices of a stage.

    `slices` groups of a block's threads share the steps of each stage; each has a sum of its own.
    """

    rows: int
    columns: int
    thread_rows: int
    thread_columns: int
    step: int
    stages: int
    slices: int

    @property
    def number(self) -> int:
        """What names the shape, in the place of a block size."""
        return self.rows * ROWS + self.columns

    @property
    def slice_threads(self) -> int:
        """Threads that have a whole tile of sums together."""
        return self.rows // self.thread_rows * (self.columns // self.thread_columns)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.slices * self.slice_threads

    @property
    def pitch(self) -> int:
        """Words of a row of A's transposed tile in shared memory."""
        return self.rows + 4

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block: all stages, or afterwards the sums of all slices."""
        stages = self.stages * self.step * (self.pitch + self.columns)
        sums = self.slices * self.rows * self.columns if self.slices > 1 else 0
        return max(stages, sums) * _WORD_BYTES


def _read() -> dict[int, GemmTile]:
    rows = _ROW.findall(_SOURCE.read_text())
    tiles = [GemmTile(*map(int, row.split(", "))) for row in rows]
    return {tile.number: tile for tile in tiles}


TILES = _read()
