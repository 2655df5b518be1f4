"""Models of a kernel's time: the source's M0, and extensions by one effect at a time.

A model is a sum over kinds of work: units of work of a launch times non-negative seconds per unit
(the parameters). M0 to M3 count the accesses of threads as the source does; from M4, the requests
of warps to the memories are counted (`analysis.models.work`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.stats.estimates import FloatArray
from kernels.catalog.baselines import NAIVE_BLOCK
from kernels.catalog.entries import VARIANTS
from kernels.theory.cost import WARP

# The kernels of the source's model; of naive, only the source's launch.
MODELLED = ("naive", "buffered_column", "buffered_row", "block")
# All kernels of source V, which models from M4 describe with the same constants.
SOURCE_V = tuple(name for name, entry in VARIANTS.items() if entry.origin.startswith("V"))
# Kernels in whose warps each lane accesses another cache line of global memory.
_UNCOALESCED = ("naive", "buffered_column")
_FAMILIES = ("naive", "buffered", "block")  # in the order of the arguments of `_by_kernel`

# Sets of kernels fitted together: kernels of the source's model, and all kernels of the source in
# all block sizes. Roles of a cell: sizes and kernels that take no part in the fit are only
# predicted.
MODELLED_SET, ALL_SET = "modelled", "all"
FITTED, HELD_OUT, UNSEEN = "fitted", "held out", "unseen"
CONSTANT, RHO = "tau0", "rho"
# The terms from M5 were selected with times of this GPU only.
CHOSEN_ON = "NVIDIA H100 80GB HBM3"
Column = Callable[[pd.DataFrame], FloatArray]


@dataclass(frozen=True)
class Model:
    """A model of a kernel's time: its units of work by the name of their parameter.

    `adds` says how it differs from the model `after`; `ratio` names the parameters of a global and
    of a shared access, whose ratio is ρ.
    """

    name: str
    adds: str
    units: Mapping[str, Column]
    ratio: tuple[str, str]
    after: str | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters, in the order of the columns of `design`."""
        return tuple(self.units)

    def design(self, cells: pd.DataFrame) -> FloatArray:
        """Return the units of work of each cell, shape (cells, parameters); NaN: not known.

        `cells` has variant, n, block_size and the columns of `analysis.models.work.COLUMNS`.
        """
        return np.column_stack([column(cells) for column in self.units.values()])


def m0_eta(rho: npt.ArrayLike, block_size: npt.ArrayLike) -> FloatArray:
    """Return M0's speedup of `block` over `naive`, η = ρB/(ρ + B); arguments broadcast."""
    rho, block_size = np.asarray(rho, float), np.asarray(block_size, float)
    with np.errstate(divide="ignore"):  # ρ = 0 has η = 0, ρ = ∞ has η = B
        return np.asarray(1 / (1 / block_size + 1 / rho))


def utilisation(block_size: npt.ArrayLike) -> FloatArray:
    """Return u(B) = B²/(32·⌈B²/32⌉), the share of busy lanes in the warps of a B×B block."""
    threads = np.asarray(block_size, float) ** 2
    return np.asarray(threads / (WARP * np.ceil(threads / WARP)))


def is_modelled(cells: pd.DataFrame) -> pd.Series:
    """Return a mask of the cells that M0 models: `MODELLED`, naive only in blocks of 32×32."""
    swept = (cells["variant"] == "naive") & (cells["block_size"] != NAIVE_BLOCK).fillna(True)
    return cells["variant"].isin(MODELLED) & ~swept


def _m0_global(cells: pd.DataFrame) -> FloatArray:
    """Global accesses: naive 2n³, buffered n³ + n², block 2n³/B; NaN for other cells."""
    n, block = _float(cells, "n"), _float(cells, "block_size")
    return _by_kernel(cells, 2 * n**3, n**3 + n**2, 2 * n**3 / block)


def _m0_shared(cells: pd.DataFrame) -> FloatArray:
    """Shared accesses: naive none, buffered n³, block 2n³; NaN for other cells."""
    n = _float(cells, "n")
    return _by_kernel(cells, 0 * n, n**3, 2 * n**3)


def _by_kernel(cells: pd.DataFrame, *by_family: FloatArray) -> FloatArray:
    kinds = [cells["variant"].map(lambda v: VARIANTS[v].family) == kind for kind in _FAMILIES]
    units = np.select(kinds, list(by_family), np.nan)
    return np.where(is_modelled(cells), units, np.nan)


def _float(cells: pd.DataFrame, column: str) -> FloatArray:
    return cells[column].to_numpy(dtype=float, na_value=np.nan)


def _one(cells: pd.DataFrame) -> FloatArray:
    return np.ones(len(cells))


def _in_warps(column: Column) -> Column:
    """Return the units of `column` if idle lanes of warps count too."""

    def charged(cells: pd.DataFrame) -> FloatArray:
        is_block = (cells["variant"] == "block").to_numpy()
        share = utilisation(np.where(is_block, _float(cells, "block_size"), NAIVE_BLOCK))
        return column(cells) / share

    return charged


def _of(column: Column, uncoalesced: bool) -> Column:
    """Return the units of `column` for uncoalesced kernels, or for the others; 0 elsewhere."""

    def chosen(cells: pd.DataFrame) -> FloatArray:
        is_chosen = (cells["variant"].isin(_UNCOALESCED) == uncoalesced).to_numpy()
        return np.where(is_chosen, column(cells), 0 * column(cells))

    return chosen


def _counted(name: str) -> Column:
    return lambda cells: _float(cells, name)


def _shared_out(name: str) -> Column:
    """Return the units of the busiest multiprocessor, times the number of multiprocessors."""
    return lambda cells: _float(cells, name) * _float(cells, "imbalance")


_GLOBAL, _SHARED = _in_warps(_m0_global), _in_warps(_m0_shared)
_RHO_T, _RHO_G, _RHO_L = ("t_G", "t_S"), ("c_G", "c_S"), ("c_L", "c_S")
_M0 = {"t_G": _m0_global, "t_S": _m0_shared}
_LANES = {CONSTANT: _one, "t_G": _GLOBAL, "t_S": _SHARED}
_COALESCING = {CONSTANT: _one, "t_N": _of(_GLOBAL, uncoalesced=True)}
_COALESCING |= {"t_G": _of(_GLOBAL, uncoalesced=False), "t_S": _SHARED}
_SECTORS = {CONSTANT: _one, "c_G": _counted("sectors"), "c_S": _counted("wavefronts")}
_ISSUED = {"c_I": _counted("instructions")}
_LINES = {CONSTANT: _one, "c_L": _counted("lines"), "c_S": _counted("wavefronts")}
_WAVES = {CONSTANT: _one, "c_L": _shared_out("lines"), "c_S": _shared_out("wavefronts")}
_WAVES |= {"t_B": _counted("waits")}
_ALL = _WAVES | {"c_I": _shared_out("instructions")}

_MODELS = (
    # Every access of a thread costs the same.
    Model("M0", "the source's model", _M0, _RHO_T),
    # A launch takes time for any size; in published times, the constant is the program's start.
    Model("M1", "a constant for each launch", {CONSTANT: _one} | _M0, _RHO_T, "M0"),
    # A warp takes as long with idle lanes; a block of B×B threads uses a share u(B) of its lanes.
    Model("M2", "idle lanes of warps in small blocks", _LANES, _RHO_T, "M1"),
    # Neighbouring threads of naive and buffered_column read rows of A in different cache lines.
    Model("M3", "a separate cost of uncoalesced accesses", _COALESCING, _RHO_T, "M2"),
    # Memories serve warps: a request costs 32-byte sectors (global) or wavefronts (shared).
    Model("M4", "counted sectors and wavefronts instead of accesses", _SECTORS, _RHO_G, "M3"),
    # A multiprocessor issues a few instructions per cycle, of any kind.
    Model("M5", "instructions issued", _SECTORS | _ISSUED, _RHO_G, "M4"),
    # L1 looks up one 128-byte cache line at a time and serves its four sectors together.
    Model("M6", "cache lines instead of sectors", _LINES, _RHO_L, "M4"),
    # The last wave of blocks leaves multiprocessors idle; between barriers a block waits for its
    # loads, and only other blocks on its multiprocessor can run.
    Model("M7", "waves of blocks and waits at barriers", _WAVES, _RHO_L, "M6"),
    Model("M8", "instructions issued, in addition to lines and waits", _ALL, _RHO_L, "M7"),
)
MODELS = {model.name: model for model in _MODELS}
