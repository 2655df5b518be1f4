"""Rows of summary.csv that are compared."""

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


def test_kinds_memory_and_size_of_cells():
    assert cells.of_sizes(CELLS).index.tolist() == [0, 1, 2, 3, 6]
    assert CELLS.index[cells.is_source_naive(CELLS)].tolist() == [0]
    assert CELLS.index[cells.is_library(CELLS)].tolist() == [3]
    for rows, memory, size in (([0, 2], "pageable", 2048), ([3], "pinned", 4096)):
        assert cells.compared_memory(CELLS.loc[rows]) == memory
        assert cells.comparison_size(CELLS.loc[rows]) == size
    assert cells.compared_memory(CELLS.loc[[6]]) == "pageable", "without any"
