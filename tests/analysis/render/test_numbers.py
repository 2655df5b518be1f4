"""Numbers in the page: their digits, and the markup with their cells."""

import math

import pytest

from analysis import schema
from analysis.render import numbers
from analysis.render.numbers import show
from analysis.render.query import rows
from analysis.schema import BLOCK, MS, PERCENT, TIMES, US, Unit
from tests.support.report_data import EVIL, gpu_cell, interval, recording, tables

PRINTED_S = Unit(1.0, "s", None)

CELLS = [gpu_cell("card", "block", 512, 0.0123456), gpu_cell("card", EVIL, 512, 0.5, spread=None)]


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    return rows(tables(folder, recordings=[recording("card")], summary=CELLS), "summary")


@pytest.mark.parametrize(
    ("unit", "texts"),
    [
        (MS, {0.0012345678: "1.235", 0.0099995: "9.999", 12.3456789: "12\u202f346"}),
        (MS, {2.048: "2048", 1.5e-12: "1.500×10⁻⁹", 1.5e12: "1.500×10¹⁵", 0.0: "0"}),
        (BLOCK, {32: "32", 128256: "128×256"}),
        (TIMES, {math.inf: "∞", -math.inf: "−∞", math.nan: "undefined", -0.5: "−0.500"}),
        (PRINTED_S, {0.055: "0.055", 0.5: "0.5", 1300.0: "1300"}),
        (
            TIMES,
            {1.0: "1.00", 1.00046: "1.0005", 0.97993: "0.9799", 1.0204: "1.0204", 1.05: "1.05"},
        ),
        (PERCENT, {0.256: "26"}),
        (US, {1.5e-6: "1.50"}),
        (schema.MIB, {3.0 * 2**20: "3"}),
        (schema.GIB, {3.0 * 2**30: "3.00"}),
        (schema.COUNT, {4096.0: "4096", 17180.0: "17\u202f180"}),
    ],
)
def test_numbers_on_the_page_have_the_digits_of_their_unit(unit, texts):
    assert {value: show(value, unit, value) for value in texts} == texts


def test_a_bound_has_the_decimals_of_its_value_and_about_gives_orders_of_magnitude(tmp_path, cells):
    texts = {(0.00123, 0.0012345): "1.230", (0.0099, 0.0123): "9.90", (1.23, 0.0012): "1230.00"}
    texts |= {(123.456, 0.001234): "123\u202f456", (1.234e-7, 0.012): "0.00"}
    texts |= {(-1.234e-7, 0.012): "0.00"}
    assert {each: show(each[0], MS, each[1]) for each in texts} == texts
    texts = {7680.0: "about 8000", 12.0: "about 10", 9.6: "about 10", 0.86: "about 0.9"}
    texts |= {exact: show(exact, TIMES, exact) for exact in (0.0, math.inf, -math.inf)}
    assert {value: numbers.about(value, TIMES) for value in texts} == texts
    speedups = [{"source": name, "speedup": 7680.4} for name in ("c", "published")]
    speedups += [{"source": "c", "speedup": 0.0862}]
    speedups += [{"source": "c"} | interval("speedup", 12.34, 0.01)]
    one, printed, slow, known = rows(tables(tmp_path, speedups=speedups), "speedups")
    text = str(numbers.interval(one, "speedup"))
    assert text == '<data data-at="speedups 0 speedup">about 8000×</data>'
    assert ">about 0.09×<" in str(numbers.number(slow, "speedup"))
    assert ">12.3×<" in str(numbers.number(known, "speedup"))
    assert ">7680×<" in str(numbers.number(printed, "speedup")), "as it is printed"
    known, single = cells
    for above, text in ((single, "about 40×"), (known, "1.00×")):
        assert f">{text}<" in str(numbers.ratio((above, "total_s"), (known, "total_s")))
    assert "about" not in numbers.share((single, "total_s"), (known, "total_s"))
