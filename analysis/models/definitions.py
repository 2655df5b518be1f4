"""The models of a kernel's time: the source's M0, and what it leaves out, one thing at a time.

Every model is a sum: so many seconds a unit of work, times the units that a launch has of it, over
a few kinds of work. Its parameters, the seconds a unit, are not negative. M0 to M3 count the
accesses of threads as the source does; from M4 on, what warps ask of the memories is counted (see
`analysis.models.work`).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.stats.estimates import FloatArray
from kernels.catalog.entries import VARIANTS
from kernels.catalog.product import BASELINE_BLOCK
from kernels.theory.cost import WARP

# The kernels that the source's model speaks of; of the naive one, the source's launch alone.
MODELLED = ("naive", "buffered_column", "buffered_row", "block")
# All of source V's: those whose counts M4 and what follows describe with the same constants.
SOURCE_V = tuple(name for name, entry in VARIANTS.items() if entry.origin.startswith("V"))
# Kernels of which a warp's accesses to global memory go to a line each.
_UNCOALESCED = ("naive", "buffered_column")

# The sets of kernels that are fitted together: those that the source's model speaks of, and all of
# the source's, in all blocks. Roles of a cell: orders that take no part in the fit, and kernels of
# other sources, are predicted only.
MODELLED_SET, ALL_SET = "modelled", "all"
FITTED, HELD_OUT, UNSEEN = "fitted", "held out", "unseen"
CONSTANT, RHO = "tau0", "rho"
# Terms from M5 on were chosen by looking at times of this GPU: others had no say in them.
CHOSEN_ON = "NVIDIA H100 80GB HBM3"
Column = Callable[[pd.DataFrame], FloatArray]


@dataclass(frozen=True)
class Model:
    """One model: `units` are, by the name of a parameter, the units of work that it is charged for.

    `adds` says in words what distinguishes it from the model `after`, `meaning` why; `ratio` names
    the two parameters of a global and of a shared access, whose ratio is ρ.
    """

    name: str
    adds: str
    meaning: str
    units: dict[str, Column]
    ratio: tuple[str, str]
    after: str | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters, in the order of the columns of `design`."""
        return tuple(self.units)

    def design(self, cells: pd.DataFrame) -> FloatArray:
        """Return the units of work of each cell, shape (cells, parameters); NaN: not known.

        `cells` has variant, n, block_size and the columns of `analysis.models.work.COLUMNS`.
        """
        return np.column_stack([column(cells) for column in self.units.values()])


def m0_eta(rho: npt.ArrayLike, block_size: npt.ArrayLike) -> FloatArray:
    """Return M0's speedup of `block` over `naive`, η = ρB/(ρ + B); arguments broadcast, no units."""
    rho, block_size = np.asarray(rho, float), np.asarray(block_size, float)
    with np.errstate(divide="ignore"):  # ρ = 0 has η = 0, ρ = ∞ has η = B
        return np.asarray(1 / (1 / block_size + 1 / rho))


def utilisation(block_size: npt.ArrayLike) -> FloatArray:
    """Return u(B) = B²/(32·⌈B²/32⌉), the share of its warps' lanes that a B×B block fills."""
    threads = np.asarray(block_size, float) ** 2
    return np.asarray(threads / (WARP * np.ceil(threads / WARP)))


def is_modelled(cells: pd.DataFrame) -> pd.Series:
    """Tell which cells M0 speaks of: `MODELLED`, the naive kernel in blocks of 32×32 alone."""
    swept = (cells["variant"] == "naive") & (cells["block_size"] != BASELINE_BLOCK).fillna(True)
    return cells["variant"].isin(MODELLED) & ~swept


def _m0_global(cells: pd.DataFrame) -> FloatArray:
    """Global accesses: naive 2n³, buffered n³ + n², block 2n³/B; NaN for what is not modelled."""
    n, block = _float(cells, "n"), _float(cells, "block_size")
    return _by_kernel(cells, 2 * n**3, n**3 + n**2, 2 * n**3 / block)


def _m0_shared(cells: pd.DataFrame) -> FloatArray:
    """Shared accesses: naive none, buffered n³, block 2n³; NaN for what is not modelled."""
    n = _float(cells, "n")
    return _by_kernel(cells, 0 * n, n**3, 2 * n**3)


def _by_kernel(
    cells: pd.DataFrame, naive: FloatArray, buffered: FloatArray, block: FloatArray
) -> FloatArray:
    kinds = [cells["variant"].map(lambda v: VARIANTS[v].family) == kind for kind in _FAMILIES]
    found = np.select(kinds, [naive, buffered, block], np.nan)
    return np.where(is_modelled(cells), found, np.nan)


_FAMILIES = ("naive", "buffered", "block")


def _float(cells: pd.DataFrame, column: str) -> FloatArray:
    return cells[column].to_numpy(dtype=float, na_value=np.nan)


def _one(cells: pd.DataFrame) -> FloatArray:
    return np.ones(len(cells))


def _in_warps(column: Column) -> Column:
    """Return the units of `column` with idle lanes charged like busy ones."""

    def charged(cells: pd.DataFrame) -> FloatArray:
        is_block = (cells["variant"] == "block").to_numpy()
        share = utilisation(np.where(is_block, _float(cells, "block_size"), BASELINE_BLOCK))
        return column(cells) / share

    return charged


def _of(column: Column, uncoalesced: bool) -> Column:
    """Return the units of `column` of the kernels that are uncoalesced, or of all others."""

    def chosen(cells: pd.DataFrame) -> FloatArray:
        own = (cells["variant"].isin(_UNCOALESCED) == uncoalesced).to_numpy()
        return np.where(own, column(cells), 0 * column(cells))

    return chosen


def _counted(name: str) -> Column:
    return lambda cells: _float(cells, name)


def _shared_out(name: str) -> Column:
    """Return the units of the busiest multiprocessor, over all multiprocessors."""
    return lambda cells: _float(cells, name) * _float(cells, "imbalance")


_GLOBAL, _SHARED = _in_warps(_m0_global), _in_warps(_m0_shared)
_ACCESSES = ("t_G", "t_S")
_SECTORS = {CONSTANT: _one, "c_G": _counted("sectors"), "c_S": _counted("wavefronts")}
_LINES = {CONSTANT: _one, "c_L": _counted("lines"), "c_S": _counted("wavefronts")}
_TURNS = {
    CONSTANT: _one,
    "c_L": _shared_out("lines"),
    "c_S": _shared_out("wavefronts"),
    "t_B": _counted("waits"),
}

MODELS: dict[str, Model] = {
    model.name: model
    for model in [
        Model(
            "M0",
            "the source's model",
            "an access of a thread costs the same, whichever thread's it is",
            {"t_G": _m0_global, "t_S": _m0_shared},
            _ACCESSES,
        ),
        Model(
            "M1",
            "a constant for each launch",
            "starting a kernel takes time, however small the matrices; in published totals the "
            "constant is the start of the whole program",
            {CONSTANT: _one, "t_G": _m0_global, "t_S": _m0_shared},
            _ACCESSES,
            "M0",
        ),
        Model(
            "M2",
            "lanes of a warp that a small block leaves idle",
            "a warp of 32 lanes takes as long whether they are used or not; a block of B×B threads "
            "fills u(B) = B²/(32·⌈B²/32⌉) of them, with B = 1 one in 32",
            {CONSTANT: _one, "t_G": _GLOBAL, "t_S": _SHARED},
            _ACCESSES,
            "M1",
        ),
        Model(
            "M3",
            "a cost of its own for uncoalesced accesses",
            "neighbouring threads of the naive kernel and of buffered_column read from different "
            "rows of A, each from a place of its own in memory",
            {
                CONSTANT: _one,
                "t_N": _of(_GLOBAL, uncoalesced=True),
                "t_G": _of(_GLOBAL, uncoalesced=False),
                "t_S": _SHARED,
            },
            _ACCESSES,
            "M2",
        ),
        Model(
            "M4",
            "counted sectors and wavefronts in place of the accesses of threads",
            "memories do not serve threads but warps; a warp's request is charged for the sectors "
            "of 32 bytes that it touches in global memory, and for its wavefronts in shared memory",
            _SECTORS,
            ("c_G", "c_S"),
            "M3",
        ),
        Model(
            "M5",
            "instructions issued",
            "a multiprocessor issues a few instructions a cycle, be they FMAs, loads or addresses",
            _SECTORS | {"c_I": _counted("instructions")},
            ("c_G", "c_S"),
            "M4",
        ),
        Model(
            "M6",
            "lines in place of sectors",
            "the first-level cache looks up a line of 128 bytes at a time and serves its four "
            "sectors at once, so that neighbouring lanes cost no more than one of them",
            _LINES,
            ("c_L", "c_S"),
            "M4",
        ),
        Model(
            "M7",
            "waiting for turns and at barriers",
            "blocks take turns on the multiprocessors, some of which the last leaves idle; and "
            "from barrier to barrier a block waits for its loads, which only other blocks on the "
            "same multiprocessor can use",
            _TURNS,
            ("c_L", "c_S"),
            "M6",
        ),
        Model(
            "M8",
            "instructions issued, beside lines, wavefronts and waiting",
            "as M5 adds them to M4",
            _TURNS | {"c_I": _shared_out("instructions")},
            ("c_L", "c_S"),
            "M7",
        ),
    ]
}
