"""The route of the block size from config.yaml to the figure of the models, counted in files."""

import ast
from functools import cache

from tests.support.imports import nodes_of, path_of, reached

# In order. After measurement.recording.schema comes a recording, after base.dictionary a table.
ROUTE = [
    *("study.config", "kernels.catalog.product", "kernels.theory.tiles"),
    *("study.cells", "measurement.recording.schema"),
    *("analysis.data.recordings", "analysis.models.tables", "analysis.models.work"),
    *("analysis.models.definitions", "analysis.models.evaluation", "base.dictionary"),
    "analysis.models.figures",
]
# Modules that read the block size and do not hand it on.
READERS = {
    *("kernels.catalog.entries", "kernels.catalog.variant", "kernels.catalog.walk"),
    "kernels.cubins.build",
    "measurement.devices.cpu",
    *("measurement.recording.consistency", "measurement.sampling.interference"),
    *("measurement.sampling.time_left", "analysis.drawing.style", "analysis.kernels.counts"),
    "analysis.kernels.machine_code",
}
# First and last module of each part of the route, as one imports the other.
PARTS = [
    ("measurement.recorder.record", "study.config"),
    ("study.cells", "kernels.theory.tiles"),
    ("analysis.models.tables", "measurement.recording.schema"),
    ("analysis.models.figures", "base.dictionary"),
    ("analysis.models.figures", "kernels.theory.tiles"),
]
WORDS = {"block_size", "block_sizes"}


@cache
def mentions(path):
    """Return whether code or its table of names, not a docstring or comment, has the block size."""
    names = path.with_suffix(".txt")
    if names.is_file() and WORDS & set(names.read_text().split()):
        return True
    nodes = nodes_of(path)
    texts = {node.value for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in texts:
            if WORDS & set(node.value.split()):
                return True
        elif {getattr(node, field, None) for field in ("id", "attr", "arg", "name")} & WORDS:
            return True
    return False


def test_the_block_size_passes_few_files():
    assert len(ROUTE) <= 13
    assert all(map(mentions, map(path_of, ROUTE)))


def test_every_file_on_the_way_is_on_the_route_or_only_reads():
    between = {
        path
        for first, last in PARTS
        for path in reached(path_of(first))
        if path_of(last) in reached(path) and mentions(path)
    }
    assert between == {*map(path_of, [*ROUTE, *READERS])}
