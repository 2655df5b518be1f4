"""Compare predictions of `gemm-study advise` with measurements at random shapes.

Random shapes, locations, products and streams are measured on GPU 0 in the recorder's worker
process, which checks every product. The exit status is 1 if less than 90 % or more than 98 % of the
medians are inside their 95 % intervals, or the median width of the intervals is above 20 %.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

from analysis.data import recordings
from analysis.decide.questions import Question, implementations
from analysis.decide.surface_tables import surfaces_of
from analysis.decide.surfaces import STREAMED, Run, Shaped
from base.errors import StudyError, exit_status
from base.files import write_atomic
from kernels.catalog.locations import LOCATIONS
from kernels.cubins.build import INSTRUMENTS, builds_for
from kernels.cubins.compile import architecture, build_all
from kernels.cubins.toolchain import find_nvcc
from kernels.products.references import CACHE
from kernels.products.shape import Shape
from measurement.devices.discovery import CudaDevice
from measurement.devices.errors import CellError
from measurement.devices.locks import only_run
from measurement.devices.throughput import Batch
from measurement.recorder.hardware import Host
from measurement.sampling.supervisor import Supervisor
from measurement.sampling.worker import Opening, Worker
from study.cells import Cell, cell, problems

_LEAST, _LARGEST, _MOST_FLOP, _RUNS, _LIMIT_S = 64, 8192, 2 * 4096**3, 15, 120.0
_HEADS = f"{'':<16} {'MxKxN':>15} {'data':<10} products streams {'µs':>10}  predicted  ratio  width"
Asked = tuple[Shaped, Shape, Run]


@dataclass(frozen=True)
class Compared:
    """A question with its measured and predicted time in s; ratio and half-width are logarithms."""

    variant: str
    shape: str
    run: Run
    measured_s: float
    predicted_s: float
    log_ratio: float
    half_width: float

    def __str__(self) -> str:
        run, half = self.run, self.half_width
        asked = f"{self.variant:<16} {self.shape:>15} {run.location:<10} {run.products:>8}"
        times = f"{run.streams:>7} {1e6 * self.measured_s:>10.1f} {1e6 * self.predicted_s:>10.1f}"
        inside = abs(self.log_ratio) <= half
        return (
            f"{asked} {times} {math.exp(self.log_ratio):>6.3f} {2 * math.sinh(half):>6.1%} {inside}"
        )


def draw(known: Sequence[Shaped], count: int, seed: int) -> list[Asked]:
    """Return random questions that a recording answers: a quarter are batches, a tenth vectors."""
    if not any(surface.has_shapes for one in known for surface in one.runs.values()):
        raise StudyError("--recording: too few shapes that are not square; record the full study")
    random, chosen = np.random.default_rng(seed), list[Asked]()
    while len(chosen) < count:
        m, n, k = (int(edge) for edge in _LEAST * (_LARGEST / _LEAST) ** random.random(3))
        shape = Shape(1, m, 1 if random.random() < 0.1 else n, k)
        run = Run(str(random.choice([*LOCATIONS])))
        if random.random() < 0.25:
            products, streams = (round(most ** random.random()) for most in (200, 16))
            run = Run(STREAMED, products, min(streams, products), bool(random.integers(2)))
        able = implementations(known, Question("", shape, run))
        if able and shape.flop < _MOST_FLOP:
            chosen.append((able[int(random.integers(len(able)))], shape, run))
    return chosen


def measured_s(device: Supervisor, one: Cell, run: Run) -> float:
    """Return the median time of a run; raise CellError, also for a wrong product."""
    _, verdict = device.call(Worker.check, one)
    if not verdict.passed:
        raise CellError(f"the product is wrong: {verdict.reason}")
    if run.products > 1:
        batch = Batch(run.streams, run.products, not run.independent)
        return median(trial.run_s for trial in device.call(Worker.throughput, one, [batch]))
    return median(device.call(Worker.sample, one).timing.total_s for _ in range(_RUNS))


def compare(
    hardware: Host, gpu: CudaDevice, folder: Path, asked: Sequence[Asked]
) -> Iterator[Compared]:
    """Build the kernels in `folder`; yield each question that can be measured."""
    cells = [cell("gpu0", a.variant, "float32", b, None, run.location) for a, b, run in asked]
    builds, name = builds_for([one.product for one in cells]), architecture(gpu.compute_capability)
    built = build_all(find_nvcc(), [*builds, *INSTRUMENTS], name, folder)
    session = partial(hardware.open_gpu, gpu, builds=built, cubins=folder, partner=None)
    opening = Opening(session, problems(cells), 1, CACHE, 0.001, 0.0, gpu.index)
    with Supervisor("gpu0", opening, _LIMIT_S) as device:
        device.start()
        for each, (one, shape, run) in zip(cells, asked, strict=True):
            (time_s,), (width,) = one.predict(np.array([[shape.m, shape.n, shape.k]], float), run)
            try:
                seconds = measured_s(device, each, run)
            except CellError as error:
                print(f"{each}: {error}", file=sys.stderr)
                continue
            found = (seconds, float(time_s), math.log(time_s / seconds), float(width))
            yield Compared(one.variant, str(shape), run, *found)


def by_location(compared: Sequence[Compared]) -> Iterator[str]:
    """Yield one line per location: share inside the intervals, median ratio and median width."""
    for name in sorted({one.run.location for one in compared}):
        of_place = [one for one in compared if one.run.location == name]
        inside = sum(abs(one.log_ratio) <= one.half_width for one in of_place) / len(of_place)
        ratio = math.exp(median(one.log_ratio for one in of_place))
        width = median(2 * math.sinh(one.half_width) for one in of_place)
        yield f"{name:<10} {len(of_place):>4} runs {inside:>6.1%} {ratio:>6.3f} {width:>6.1%}"


def main(hardware: Host | None = None) -> int:
    """Measure and compare; raise StudyError."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.predict_shapes")
    parser.add_argument("--recording", type=Path, nargs="+", required=True)
    for name, default in (("--count", 60), ("--seed", 1)):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--out", type=Path, help="also write the result to this JSON file")
    given, hardware = parser.parse_args(), hardware or Host()
    found = recordings.sources(recordings.load({"recording": given.recording}))
    source = recordings.with_gpu(found)[0]
    known, compared = surfaces_of([source]).on_gpu(source.label), list[Compared]()
    gpu = hardware.select(0)[0]
    name, asked = gpu.name, draw(known, given.count, given.seed)
    print(f"{name}, predicted from a recording of {source.gpu_name}\n{_HEADS}", flush=True)
    with only_run(gpu, hardware.lock_file(gpu), "predict_shapes"), TemporaryDirectory() as made:
        for one in compare(hardware, gpu, Path(made), asked):
            compared.append(one)
            print(one, flush=True)
    if not compared:
        raise StudyError("no question was measured; see the messages above")
    inside = sum(abs(one.log_ratio) <= one.half_width for one in compared) / len(compared)
    width = median(2 * math.sinh(one.half_width) for one in compared)
    print(*by_location(compared), sep="\n")
    print(f"{len(compared)} questions, {inside:.1%} inside, median width {width:.1%}; worst:")
    print(*sorted(compared, key=lambda one: one.half_width - abs(one.log_ratio))[:5], sep="\n")
    if given.out:
        facts = {"inside": inside, "median_width": width, "compared": [*map(asdict, compared)]}
        write_atomic(given.out, json.dumps(facts | {"measured": name}, indent=2) + "\n")
    return int(not 0.90 <= inside <= 0.98 or width > 0.20)


if __name__ == "__main__":
    sys.exit(exit_status(main))
