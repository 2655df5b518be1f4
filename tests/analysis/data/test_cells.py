"""Which rows of summary.csv stand beside each other."""

import pytest

from analysis.data import cells
from tests.support.report_data import cpu_cell, frame, gpu_cell

CELLS = frame(
    "summary",
    [
        gpu_cell("card", "naive", 2048, 0.1),
        gpu_cell("card", "naive", 2048, 0.1, block_size=8),
        gpu_cell("card", "block", 2048, 0.1, block_size=8, memory="pinned"),
        gpu_cell("card", "cublas_sgemm", 4096, 0.1, block_size=None, memory="pinned"),
        gpu_cell("card", "block", 250, 0.1) | {"series": "shapes"},
        gpu_cell("card", "block", 250, float("nan")),
        cpu_cell("card", "naive", 512, 1.0),
    ],
)


def test_sizes_are_the_studys_and_timed():
    assert cells.of_sizes(CELLS).index.tolist() == [0, 1, 2, 3, 6]


def test_the_naive_kernel_counts_in_the_sources_blocks_alone():
    assert CELLS.index[cells.is_source_naive(CELLS)].tolist() == [0]


def test_a_librarys_kernel_is_known():
    assert CELLS.index[cells.is_library(CELLS)].tolist() == [3]


@pytest.mark.parametrize(
    ("rows", "memory", "size"), [([0, 2], "pageable", 2048), ([3], "pinned", 4096)]
)
def test_memory_and_size_are_the_sources_where_they_were_measured(rows, memory, size):
    assert cells.compared_memory(CELLS.loc[rows]) == memory
    assert cells.comparison_size(CELLS.loc[rows]) == size


def test_without_a_kind_of_memory_the_sources_is_meant():
    assert cells.compared_memory(CELLS.loc[[6]]) == "pageable"
