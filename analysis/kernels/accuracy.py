"""Errors of each kernel's products, compared with the library's."""

import pandas as pd

from analysis.data.cells import is_library
from analysis.data.frames import stacked
from analysis.data.recordings import MeasuredSource, labelled, with_gpu
from analysis.domain import SHAPE
from measurement.recording.recording import KERNEL

_SAME = ["device", "dtype", *SHAPE, "matrices"]


def accuracy_table(found: list[MeasuredSource]) -> pd.DataFrame:
    """Return one row per kernel, tile shape and kind of matrices.

    worst_units, rms_units: maximum and root-mean-square error of the elements of C, in units of
    2⁻²⁴·|A|·|B|. over_library: worst_units over that of the library. All sessions have the same
    matrices; the values are the maxima over sessions.
    """
    return stacked("accuracy", [labelled(source, _errors(source)) for source in with_gpu(found)])


def _errors(source: MeasuredSource) -> pd.DataFrame:
    own = source.own(source.recording.accuracy)
    errors = own.groupby([*KERNEL, "matrices"], dropna=False, sort=False, as_index=False)[
        ["worst_units", "rms_units"]
    ].max()
    library = errors.loc[is_library(errors), [*_SAME, "worst_units"]]
    both = errors.merge(library, how="left", on=_SAME, suffixes=("", "_of_library"))
    over_library = both["worst_units"] / both["worst_units_of_library"]
    return errors.assign(over_library=over_library.to_numpy())
