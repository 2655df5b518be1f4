"""The fastest of named candidates, and two of them compared over common candidates."""

from contextlib import nullcontext

import pandas as pd
import pytest

from analysis.data.best import fastest, fastest_of_both
from base.errors import StudyError


def cells(*rows):
    """Return cells of (variant, block size, N, seconds)."""
    frame = pd.DataFrame(rows, columns=["variant", "block_size", "n", "kernel_s"])
    frame = frame.assign(threads=pd.NA, host_memory="pinned")
    return frame.astype({"block_size": "Int64", "threads": "Int64"})


def test_the_fastest_of_each_group_states_how_many_candidates_it_had():
    rows = cells(("a", 8, 1, 2.0), ("b", None, 1, 1.0), ("a", 8, 2, None))
    found = fastest(rows, "kernel_s", ["n"])
    assert found[["variant", "candidates"]].to_numpy().tolist() == [["b", 2]]
    assert fastest(rows[2:], "kernel_s").empty
    twice = pd.concat([rows, rows])
    assert fastest(twice, "kernel_s")["candidates"].tolist() == [4]


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        ([("a", 8, 1, 9e-3), ("b", None, 1, 9.0)], ("b", "a", 2)),
        ([("a", 8, 1, 9e-3), ("c", None, 1, 1e-9)], ("a", "a", 1)),
        ([("a", 16, 1, 1e-3)], None),  # another block size
        ([("a", 8, 2, 1e-3)], None),  # another size
    ],
)
def test_two_sides_are_compared_only_over_candidates_measured_on_both(theirs, expected):
    ours = cells(("a", 8, 1, 5e-3), ("b", None, 1, 5e-4))
    refused = pytest.raises(StudyError, match="share no candidate")
    with nullcontext() if expected else refused:
        one, other = fastest_of_both(ours, cells(*theirs), "kernel_s", ["n"])
        names = (*one["variant"], *other["variant"])
        assert (*names, one["candidates"].item()) == expected
        assert other["candidates"].item() == expected[2]
