"""The page's predictions of any shape are those of `advise`."""

import json
import shutil
import subprocess

import numpy as np
import pytest

from analysis.data.store import Store
from analysis.decide.advise import break_even_text, read_table
from analysis.decide.questions import ByShape, Question
from analysis.decide.surfaces import Run
from analysis.render.calculator_data import shapes_data
from base.paths import ROOT
from kernels.catalog.locations import LOCATIONS, bounding
from kernels.products.shape import Shape
from tests.support.simulated_shapes import tables as tables_of_surfaces

NODE = shutil.which("node")
CALCULATE = """
const [text, data, questions] = require("fs").readFileSync(0, "utf8").split("\\u0000");
const shapes = new Function(text + "; return shapes;")();
const found = shapes.read(JSON.parse(data));
const answers = JSON.parse(questions).map(({ shape, run, bounding }) => {
  const [one] = found.onGpu("card", shape, run.place);
  const surface = found.onCpu("card", "best", shape);
  const at = (other) => bounding.map((place) => shapes.onGpu(one, other, { ...run, place }));
  const least = (other) => at(other).reduce((best, each) => (each.time < best.time ? each : best));
  const gpu = least(shape), cpu = shapes.onCpu(surface, shape, run);
  const measured = [...bounding.map((place) => one.places[place]), surface];
  const ranges = measured.map(shapes.longestEdges);
  const even = shapes.breakEven(shape, least, (other) => shapes.onCpu(surface, other, run), ranges);
  const times = [gpu.time, gpu.half, cpu.time, cpu.half];
  return [...times, found.nearest(surface, shape), even];
});
console.log(JSON.stringify(answers));
"""


def drawn(rng):
    """Return a random question."""
    edges = [int(edge) for edge in np.exp(rng.uniform(0, np.log(9000), 3))]
    shape = Shape.square(edges[0]) if rng.random() < 0.2 else Shape(1, *edges)
    place = str(rng.choice([*LOCATIONS]))
    products = int(rng.choice([1, 1, 2, 70]))
    streams = int(rng.integers(1, 20)) if place == "pinned" else 1
    return Question("card", shape, Run(place, products, streams, bool(rng.integers(2))))


def script_answers(tables, questions):
    """Return the answers of report/shapes.js."""
    asked = [
        {
            "shape": [q.shape.m, q.shape.n, q.shape.k],
            "bounding": bounding(q.run.location),
            "run": {
                "place": q.run.location,
                "products": q.run.products,
                "streams": q.run.streams,
                "independent": q.run.independent,
            },
        }
        for q in questions
    ]
    text = (ROOT / "report" / "shapes.js").read_text()
    given = "\0".join([text, json.dumps(shapes_data(tables)), json.dumps(asked)])
    done = subprocess.run(
        [NODE, "-e", CALCULATE], input=given, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.skipif(NODE is None, reason="no Node.js here")
def test_the_page_predicts_the_same_times_as_advise_for_any_shape(tmp_path):
    made = tables_of_surfaces()
    for name, text in made.items():
        (tmp_path / f"{name}.csv").write_text(text)
    tables, rng = Store(tmp_path), np.random.default_rng(11)
    rows = {name: read_table(tmp_path / f"{name}.csv") for name in made}
    rows |= {
        name: [] for name in ("predicted_times", "locations", "location_break_even", "throughput")
    }
    questions = [drawn(rng) for _ in range(40)]
    for asked, there in zip(questions, script_answers(tables, questions), strict=True):
        found = ByShape(asked, rows, "card")
        (gpu,) = found.on_gpu
        assert there[:2] == pytest.approx([gpu.time.time_s, gpu.time.half_width], rel=1e-9), asked
        if asked.shape.is_square:
            continue  # on the CPU, they are predicted by size: see test_browser.py
        cpu = found.on_cpu("best")
        assert there[2:4] == pytest.approx([cpu.time.time_s, cpu.time.half_width], rel=1e-9), asked
        assert there[4] == cpu.name
        even = break_even_text(found.break_even()["best"], "longest edge")
        assert there[5].split(", the")[0] == even.split(", the")[0], asked
