"""Broken kernels: the change, and the expected fault with its line."""

from dataclasses import dataclass
from string import Template

from kernels.catalog.product import Product
from tests.support import ROOT
from tests.support.products import product_of


@dataclass(frozen=True)
class Mutant:
    """`old` text of a kernel becomes `new`; the fault must name the line that contains `at`."""

    name: str
    kernel: str
    shape: str
    block: int | None
    dtype: str
    says: str
    old: str
    new: str
    at: str

    @property
    def product(self) -> Product:
        return product_of(self.kernel, self.shape, self.block, self.dtype)


def barrier(comment, depth=2):
    return f"{depth * '    '}__syncthreads();  // {comment}\n"


WORDS = {
    "n": "\n",
    "nothing": "",
    "guard": "    if (row >= n || column >= n) return;\n",
    "tile_complete": barrier("the tile is complete"),
    "tiles_complete": barrier("the tiles are complete"),
    "tiles_read": barrier("all threads have read the tiles"),
    "next_tile_complete": barrier("all threads have read this tile, and the next is complete"),
    "next_tiles_complete": barrier(
        "all threads have read these tiles, and the next are complete", 4
    ),
    "differs": "stores C.*bit for bit",
    "earlier": "races with .* of this or an earlier block",
    "first_thread": r"races with thread \(0, 0, 0\)",
    "load": "load of 4 bytes at byte",
    "outside": "is out of bounds",
    "unordered": "no barrier is between them",
    "unwritten": "no thread of the block wrote it",
}
# Two lines per mutant: name @ kernel, shape, block size and type @ fault; old => new @ line.
TABLE = (ROOT / "tests" / "support" / "mutants.txt").read_text()


def _mutant(where, change):
    name, product, says = where.split(" @ ")
    kernel, shape, block, dtype = (*product.split(), "float32")[:4]
    old_new, at = change.split(" @ ")
    old, new = (Template(code).substitute(WORDS) for code in old_new.split(" => "))
    says = Template(says).substitute(WORDS)
    return Mutant(
        name, kernel, shape, None if block == "-" else int(block), dtype, says, old, new, at
    )


_LINES = TABLE.strip().replace("\\\n", "").split("\n")
MUTANTS = [_mutant(*pair) for pair in zip(_LINES[::2], _LINES[1::2], strict=True)]
