"""User-supplied kernels are judged correctly, and faults are reported at their lines."""

import re
from functools import partial
from math import lcm

import pytest

from kernels.catalog.entries import VARIANTS
from kernels.catalog.product import Product
from kernels.catalog.user_supplied import adopt
from kernels.host_execution.binding import KernelFault
from kernels.host_execution.check import check, check_largest
from kernels.host_execution.compiler import NotSupported
from kernels.host_execution.limited import limited
from kernels.products.shape import Shape
from tests.support.outside_kernels import CORRECT, KERNELS, MISJUDGED, UNSUPPORTED

pytestmark = pytest.mark.slow

SECONDS, MEMORY_BYTES = 20, 2 << 30
LARGEST_BYTES = 64 << 30  # address space; the check touches few pages
LEAST, LEAST_UNEVEN, ITERATIONS = 64, 70, 5
NOT_SQUARE = {"square": (), "single": ("17x33x65",), "batched": ("17x33x65", "3x17x33x65")}


def sizes(tile):
    """Return a size that the tile divides, and a size that no tile edge above 1 divides."""
    steps = ITERATIONS * tile[2]
    width = lcm(*tile)
    uneven = max(LEAST_UNEVEN, steps + 6)
    while any(edge > 1 and uneven % edge == 0 for edge in tile):
        uneven += 1
    return width * -(-max(LEAST, steps) // width), uneven


def products(entry):
    """Yield the products that a kernel is checked with."""
    for dtype in entry.dtypes:
        for block in entry.block_sizes or (None,):
            squares = map(Shape.square, sizes(entry.tile(block or 0)))
            for shape in (*squares, *map(Shape.parse, NOT_SQUARE[entry.shapes])):
                yield Product(entry.name, dtype, shape, block)


def judge(source, builds):
    """Return "correct", "unsupported" or the message of the fault."""
    entry = adopt(source)
    try:
        for product in products(entry):
            limited(partial(check, product, folder=builds), SECONDS, MEMORY_BYTES)
        limited(partial(check_largest, product, folder=builds), SECONDS, LARGEST_BYTES)
    except NotSupported:
        return UNSUPPORTED
    except KernelFault as fault:
        return str(fault)
    finally:
        del VARIANTS[entry.name]
    return CORRECT


def case(name):
    """Return the parameter of a test, marked if host execution is known to judge it wrongly."""
    why = MISJUDGED.get(name)
    marks = [pytest.mark.xfail(reason=why, raises=AssertionError)] if why else []
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", [case(name) for name in KERNELS])
def test_verdict(name, host_builds, tmp_path):
    text, verdict = KERNELS[name]
    source = tmp_path / "mine.cu"
    source.write_text(text)
    found = judge(source, host_builds)
    if verdict in (CORRECT, UNSUPPORTED):
        assert found == verdict
    else:
        assert re.search(verdict, found), f"{found} is not /{verdict}/"
    assert "\n" not in found


def test_there_are_enough_kernels_of_each_sort():
    verdicts = [verdict for _, verdict in KERNELS.values()]
    changes = {
        name.rpartition(": ")[2]
        for name, (_, verdict) in KERNELS.items()
        if verdict not in (CORRECT, UNSUPPORTED)
    }
    assert len({text for text, _ in KERNELS.values()}) == len(KERNELS) >= 60
    assert verdicts.count(CORRECT) >= 25
    assert len(changes) >= 20
    assert 0 < verdicts.count(UNSUPPORTED) <= len(KERNELS) / 10
    assert MISJUDGED.keys() <= KERNELS.keys()
