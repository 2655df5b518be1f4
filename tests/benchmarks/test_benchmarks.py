"""The benchmarks that need a GPU, with fakes of nvbench, kernel_tuner and sessions."""

import ctypes
import json
import re
import subprocess
import sys
from contextlib import nullcontext
from enum import IntEnum
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from base.errors import StudyError, exit_status
from benchmarks import compare_tables, compare_with_cublas, nvbench_kernels, tuner_kernels
from benchmarks import compare_with_nvbench as against
from benchmarks import tuner_cells as tuned
from benchmarks.cells import CELLS, SIZES
from benchmarks.compare_with_nvbench import Times, compare, read_nvbench, read_ours, table
from kernels.products.matrices import Inputs
from kernels.products.shape import Shape
from kernels.theory.tiles import number_of
from measurement.devices.discovery import CudaDevice
from measurement.devices.session import KernelTime
from study.cells import Cell, cell, gpu_cells
from study.config import BlockSizeLimit, load
from study.plan import builds
from tests.support import ROOT
from tests.support.products import product_of

CARD = CudaDevice(0, "Stand-in", "8.6")
KERNELS = nvbench_kernels.KERNELS


def nvbench_json():
    """Results in nvbench's layout: 0.2 ms with warm caches, 0.3 ms cold."""

    def state(launches):
        time = {"name": "value", "type": "float64", "value": str((launches + 0.5) * 2e-4)}
        summaries = [{"tag": "nv/cold/sample_size", "data": []}]
        summaries += [{"tag": "nv/cold/time/gpu/median", "data": [time]}]
        axis = {"name": "Launches", "type": "int64", "value": str(launches)}
        names = {"name": f"Device=0 Launches={launches}", "axis_values": [axis]}
        return names | {"is_skipped": False, "summaries": summaries}

    states = {
        nvbench_kernels.label(*kernel): [state(1), state(nvbench_kernels.train(kernel[2]))]
        for kernel in KERNELS
    }
    return {"benchmarks": [{"name": name, "states": each} for name, each in states.items()]}


def test_medians_are_of_the_rounds():
    taken = ((1.00, 1.5, 1.0, 1.0, 2.0), (1.98, 2.5, 1.9, 2.0, 2.5), (3.12, 4.1, 3.0, 3.0, 4.0))
    rounds = [Times(*each) for each in taken]
    found = compare(("block", 32, 1024), rounds)
    assert found.times == Times(1.98, 2.5, 1.9, 2.0, 2.5)
    assert (found.ratio, found.flushed_ratio) == (0.99, 1.0)
    assert found.stamped_ratio == pytest.approx(1.98 / 1.9)
    assert found.within
    assert np.isnan([found.ratio_low, found.ratio_high]).all()  # three rounds have no interval
    found = compare(("block", 32, 1024), 3 * rounds)
    assert (found.ratio_low, found.ratio_high) == pytest.approx((0.99, 1.04))
    for warm_s, flushed_s, within in ((8.1, 11.4, (True, False)), (16.0, 11.0, (False, True))):
        found = compare(("block", 32, 256), [Times(8.0, 10.8, 8.0, warm_s, flushed_s)])
        assert (found.within, found.flushed_within) == within


@pytest.mark.parametrize(("ratio", "within"), [(0.979, "NO"), (0.981, "yes"), (1.021, "NO")])
def test_more_than_two_percent_is_outside(ratio, within):
    rounds = 6 * [Times(ratio * 1e-3, 2e-3, ratio * 1e-3, 1e-3, 2e-3)]
    found = compare(("block_unroll4", 32, 2048), rounds)
    assert found.within == (within == "yes")
    words = table([found]).splitlines()[1].split()
    assert (words[0], words.pop(8), words.pop(11)) == ("block_unroll4", within, "yes")
    expected = [32, 2048, 1e3 * ratio, 1e3, ratio, ratio, ratio, 2e3, 2e3, 1, 1e3 * ratio, 1]
    assert [float(number) for number in words[1:]] == pytest.approx(expected)


def test_times_of_nvbench_are_read(tmp_path):
    assert [nvbench_kernels.train(n) for n in (256, 512, 1024, 4096)] == [100, 100, 12, 5]
    path, results = tmp_path / "r.json", nvbench_json()
    path.write_text(json.dumps(results))
    found = read_nvbench(path)
    assert list(found) == KERNELS
    assert all(times == pytest.approx((2e-4, 3e-4)) for times in found.values())
    for change, message in (
        ({"summaries": None}, "n256: results without nv/cold/time/gpu/median"),
        ({"is_skipped": True, "skip_reason": "too short"}, "bNone-n256: skipped: too short"),
    ):
        results["benchmarks"][0]["states"][0] |= change
        path.write_text(json.dumps(results))
        with pytest.raises(StudyError, match=message):
            read_nvbench(path)


class FakeSession(nullcontext):
    """A session whose kernels take `time_s` with warm caches, 1.5 times as much flushed."""

    def __init__(self, time_s):
        super().__init__(self)
        self.time_s, self._on_device = time_s, ADDRESSES

    def kernel_time(self, cell, flushed):
        assert (cell.dtype, cell.shape.is_square) == ("float32", True)
        return KernelTime(3, (1.5 if flushed else 1) * self.time_s)


class FakeBench:
    """`cuda.bench`: runs two trains of each kernel and writes fixed times."""

    registered = ()

    def register(self, called):
        one = SimpleNamespace(called=called, set_name=lambda name: setattr(one, "name", name))
        one.add_int64_axis = lambda axis, values: setattr(one, "axis", (axis, values))
        self.registered = [*self.registered, one]
        return one

    def run_all_benchmarks(self, options):
        assert options[:3] == ["nvbench", "--devices", "0"]
        for one in self.registered:
            axis, trains = one.axis
            assert (axis, trains[0]) == ("Launches", 1)
            for launches in trains:
                one.called(FakeState(launches))
        Path(options[options.index("--json") + 1]).write_text(json.dumps(nvbench_json()))


def code_for(_, builds, architecture, folder, cores):
    (folder / architecture).mkdir()
    for build in builds:
        (folder / architecture / f"{build.stem}.cubin").write_bytes(b"code")


@pytest.mark.parametrize(("ours_s", "status"), [(2.03e-4, 0), (2.2e-4, 1)])
def test_both_are_measured_in_one_process_per_round(
    tmp_path, monkeypatch, patch, capsys, ours_s, status
):
    bench, processes = FakeBench(), []

    def here(command, **_):
        assert command[1:3] == ["-m", "benchmarks.nvbench_kernels"]
        processes.append(command)
        bench.registered = ()
        monkeypatch.setattr("sys.argv", command[2:])
        nvbench_kernels.main()
        return SimpleNamespace(returncode=0)

    of_gpu = {"select": lambda _: [CARD], "find_nvcc": lambda: Path("nvcc"), "_ROUNDS": 2}
    of_gpu |= {"drivers": lambda: {"driver": "600.1", "cuda_driver": "13.9"}}
    patch(against, **of_gpu, nvcc_version=lambda _: "13.9.7", build_all=code_for)
    patch(against.importlib.util, find_spec=lambda _: True)
    patch(against.importlib.metadata, version=lambda _: "0.0")
    fakes = {"cuda.bench": bench, "cuda.bindings": SimpleNamespace(driver=FakeDriver())}
    for name, fake in ({"cuda": SimpleNamespace(bench=bench)} | fakes).items():
        monkeypatch.setitem(sys.modules, name, fake)
    ours = {"GpuSession": lambda *_, primary: FakeSession(ours_s), "Sgemm": fake_sgemm}
    ours |= {"select": lambda _: [CARD], "read_result": lambda _: None, "Inputs": lambda *_: None}
    patch(nvbench_kernels, **ours, stamps=lambda _: lambda _: ours_s)
    patch(subprocess, run=here)
    out = tmp_path / "new" / "out.json"
    patch(sys, argv=["against", "--out", str(out)])
    assert exit_status(against.main) == status
    assert len(processes) == 2
    assert capsys.readouterr().out.count(" NO " if status else " yes ") == 2 * len(KERNELS)
    written = json.loads(out.read_text())
    assert (written["gpu"], written["driver"], written["nvcc"]) == ("Stand-in", "600.1", "13.9.7")
    assert [(k["variant"], k["block_size"], k["n"]) for k in written["kernels"]] == KERNELS
    assert written["kernels"][0]["flushed_ratio"] == pytest.approx(ours_s / 2e-4)
    assert written["kernels"][0]["ratio"] == pytest.approx(ours_s / 2e-4)


def test_times_of_ours_are_the_medians_of_the_windows(tmp_path):
    windows = [[1e-6, 4e-6, 2e-6], [5e-6, 6e-6, 7e-6], [3e-6, 5e-6, 1e-6]]
    path = tmp_path / "ours.json"
    path.write_text(json.dumps({nvbench_kernels.label(*kernel): windows for kernel in KERNELS}))
    assert read_ours(path) == dict.fromkeys(KERNELS, (3e-6, 5e-6, 2e-6))


def test_a_missing_nvbench_and_its_errors_are_named(patch, capsys):
    failed = SimpleNamespace(returncode=2, stdout="", stderr="a line\nerror: no driver\n")
    patch(subprocess, run=lambda *_, **__: failed)
    with pytest.raises(StudyError, match=r"^nvbench: exit status 2: no driver$"):
        against.run_round(Path("cubins"))
    patch(against.importlib.util, find_spec=lambda _: None)
    patch(sys, argv=["against"])
    assert exit_status(against.main) == 2
    assert "run `pip install 'cuda-bench[cu13]==0.3.0'`" in capsys.readouterr().err


class Status(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_ILLEGAL_ADDRESS = 700


ADDRESSES = [4096, 8192, 12288]  # of A, B and C


class FakeDriver:
    """`cuda.bindings.driver`; records launches."""

    def __init__(self):
        self.launches, self.loaded, self.status = [], 0, Status.CUDA_SUCCESS

    def cuModuleLoadData(self, cubin):  # noqa: N802
        assert cubin == b"code"
        self.loaded += 1
        return 0, "module"

    def cuModuleGetFunction(self, module, name):  # noqa: N802
        assert module == "module"
        return 0, name

    def cuModuleUnload(self, module):  # noqa: N802
        assert module == "module"
        self.loaded -= 1
        return (0,)

    def cuLaunchKernel(self, function, *rest):  # noqa: N802
        *geometry, stream, pointers, extra = rest
        addresses = (ctypes.c_void_p * 4).from_address(pointers)
        values = [ctypes.c_uint64.from_address(address).value for address in addresses[:3]]
        values.append(ctypes.c_int.from_address(addresses[3]).value)
        assert values[:3] == ADDRESSES
        self.launches.append((geometry, stream, values[3], extra))
        return (self.status,)


def fake_sgemm(stream):
    def multiply(*arguments):
        assert (stream, [*arguments[:3]]) == (77, ADDRESSES)

    return SimpleNamespace(multiply=multiply, close=lambda: None)


class FakeState:
    def __init__(self, launches):
        self.get_int64 = {"Launches": launches}.get
        self.get_stream = lambda: SimpleNamespace(addressof=lambda: 77)

    def exec(self, launch, *, batched):
        assert not batched
        launch(self)


def test_nvbench_launches_what_the_catalog_says(tmp_path):
    (tmp_path / "block_unroll4-b32-float32-exact.cubin").write_bytes(b"code")
    driver, after = FakeDriver(), []
    kernel = ("block_unroll4", 32, 64)
    note = lambda: after.append(len(driver.launches))  # noqa: E731
    run = nvbench_kernels.benchmark(driver, kernel, tmp_path, ADDRESSES, note)
    run(FakeState(1))
    assert driver.launches == [([2, 2, 1, 32, 8, 1, 0], 77, 64, 0)]
    run(FakeState(2))
    assert driver.launches == 3 * [([2, 2, 1, 32, 8, 1, 0], 77, 64, 0)]
    assert after == [1, 3], "ours comes after nvbench's"
    assert driver.loaded == 0
    driver.status = Status.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(StudyError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        run(FakeState(1))


@pytest.fixture(scope="module")
def parts():
    return tuned.configurations(load(ROOT / "config.yaml"))


def test_recordings_have_the_44_cells_once(parts):
    cells = [each for part in parts for each in gpu_cells(part.study, "gpu0")]
    assert len(cells) == len({(c.variant, c.block_size, c.shape.n) for c in cells}) == 44
    planned = {(name, block) for name, blocks in CELLS.items() for block in blocks}
    assert {(each.variant, each.block_size) for each in cells} == planned
    for part in parts:
        protocol = part.study.protocol
        assert (protocol.min_samples, protocol.max_samples) == (20, 20)
        assert protocol.cold_starts == 0
    config = load(ROOT / "config.yaml")
    limits = [BlockSizeLimit(block_size=2, largest_size=1024)]
    study = config.study.model_copy(update={"block_size_limits": limits})
    with pytest.raises(StudyError, match="block_size_limits"):
        tuned.configurations(config.model_copy(update={"study": study}))


def fake_recording(part, status="passed"):
    cells = gpu_cells(part.study, "gpu0")
    frame = pd.DataFrame([(c.device, c.variant, c.shape.n, c.block_size) for c in cells])
    frame.columns = ["device", "variant", "n", "block_size"]
    phases = [("gpu0", "start", 1.0, 0.0), ("gpu0", "sampling", 4.0, 3.0), ("cpu", "start", 9, 9)]
    keys = ("device", "phase", "wall_s", "busy_s")
    return SimpleNamespace(
        checks=frame.assign(status=status, reason="2 elements wrong"),
        samples=pd.concat([frame] * 20),
        provenance={"phases": [dict(zip(keys, phase, strict=True)) for phase in phases]},
    )


def test_costs_of_both_recordings_are_added(patch, capsys):
    built = []
    fakes = {"select": lambda _: [CARD], "record": lambda part, *_: (fake_recording(part), 7.0)}
    fakes["build_all"] = lambda _, wanted, *__: built.extend(wanted)
    patch(tuned, **fakes, find_nvcc=lambda: Path("nvcc"), tune=lambda backend: (44, 25.0))
    patch(sys, argv=["cells", "--tuner", "nvrtc", "--tuner", "pycuda"])
    assert exit_status(tuned.main) == 0
    cells, _, recording, gpu, idle, nvrtc, pycuda = capsys.readouterr().out.splitlines()
    assert cells.endswith(" 44, at least 20 samples each")
    assert recording.endswith(" 14.00 s")
    assert "10.00 s, within 12 s (start 2.00, sampling 8.00)" in gpu
    assert idle.endswith(" 40%; while sampling 25%")
    assert "25.00 s for 44 cells, including compilation: 2.50×" in nvrtc
    assert pycuda.startswith("kernel_tuner, pycuda ")
    stems = [build.stem for build in built]
    assert len(stems) == len(set(stems)) == 14  # 11 kernels and the instruments


def test_a_tuner_that_fails_does_not_cost_the_others(patch, capsys):
    cost = tuned.Cost(2.0, 8.0, {"sampling": 5.0}, {"sampling": 4.0}, [20] * 44)
    failed = SimpleNamespace(returncode=2, stdout="", stderr="error: no cupy\nException x")
    done = SimpleNamespace(returncode=0, stdout='a line\n{"cells": 44, "seconds": 20}\n')
    answers = {"cupy": failed, "nvrtc": done}
    patch(subprocess, run=lambda command, **_: answers[command[-1]])
    patch(tuned, select=lambda _: [CARD], measure=lambda _: cost)
    patch(sys, argv=["cells", "--tuner", "cupy", "--tuner", "nvrtc"])
    assert exit_status(tuned.main) == 2
    printed = capsys.readouterr()
    assert "20.00 s for 44 cells, including compilation: 4.00×" in printed.out
    assert "here, 2.00× building and recording" in printed.out
    assert printed.err == "error: kernel_tuner with cupy: no cupy\n"


def test_more_than_the_bound_and_a_failed_cell_are_errors(patch, capsys, parts):
    cost = tuned.Cost(wall_s={"sampling": 12.5}, busy_s={"sampling": 5.0}, samples=[20] * 44)
    patch(tuned, select=lambda _: [CARD], measure=lambda _: cost)
    patch(sys, argv=["cells"])
    assert exit_status(tuned.main) == 1
    assert "12.50 s, NOT within 12 s" in capsys.readouterr().out
    with pytest.raises(StudyError, match=r"naive N=256 B=16: failed: 2 elements wrong"):
        tuned.Cost().add(fake_recording(parts[0], status="failed"))


def test_recording_is_made_by_the_command(parts, tmp_path, patch):
    commands, done = [], SimpleNamespace(returncode=0)
    patch(subprocess, run=lambda command, **_: commands.append(command) or done)
    patch(tuned.recording, read=lambda path: path)
    made, taken_s = tuned.record(parts[1], tmp_path / "cubins", tmp_path / "part1")
    assert (made, taken_s > 0) == (tmp_path / "part1", True)
    (command,) = commands
    assert command[1:4] == ["-m", "measurement", "record"]
    assert load(command[command.index("--config") + 1]) == parts[1]
    own = ["--cubins", str(tmp_path / "cubins"), "--out", str(tmp_path / "part1")]
    assert command[-6:] == ["--device", "0", *own]
    assert builds(parts[1].study)


class FakeTuner:
    """kernel_tuner: times every allowed combination of parameters."""

    def __init__(self, failing=None):
        self.failing, self.calls = failing, []

    def tune_kernel(self, name, source, problem_size, arguments, parameters, **options):
        self.calls.append((name, problem_size, options))
        assert f"void {name}(const float *a, const float *b, float *c, int n)" in source
        n = problem_size[0]
        assert [getattr(argument, "shape", None) for argument in arguments] == [(n, n)] * 3 + [()]
        assert (arguments[3], arguments[3].dtype) == (n, np.int32)
        results, names = [], ("BLOCK", "block_size_x", "block_size_y")
        for values in product(*map(parameters.get, names)):
            named = dict(zip(names, values, strict=True))
            if all(eval(rule, {}, named) for rule in options["restrictions"]):
                assert product_of(name, n, values[0]).launch.threads == values[1:]
                time_ms = "failed" if values[0] == self.failing else 1.0
                results.append({"BLOCK": values[0], "time": time_ms})
        return results, {}


@pytest.mark.parametrize("name", CELLS)
def test_tuner_gets_the_geometry_of_the_catalog(name):
    tuner = FakeTuner()
    inputs = Inputs([("float32", Shape.square(256))], seed=1)
    assert tuner_kernels.tune(tuner, "NVCUDA", name, 256, CELLS[name], inputs) == len(CELLS[name])
    ((_, _, options),) = tuner.calls
    assert (options["lang"], options["iterations"]) == ("NVCUDA", 30)
    assert options["grid_div_x"] == options["grid_div_y"] == ["BLOCK"]
    if name == "block":
        with pytest.raises(StudyError, match="block N=256 B=8: no time"):
            tuner_kernels.tune(FakeTuner(failing=8), "CUPY", name, 256, [4, 8], inputs)


def test_tuner_times_every_cell_or_is_one_line(monkeypatch, patch, capsys):
    def tune_kernel(*_, **__):
        raise ImportError("pycuda not installed,\ninstall it")

    tuner, failing = FakeTuner(), SimpleNamespace(tune_kernel=tune_kernel)
    patch(sys, argv=["tuner", "--backend", "pycuda"])
    for module, status in ((tuner, 0), (failing, 2), (None, 2)):
        monkeypatch.setitem(sys.modules, "kernel_tuner", module)
        assert exit_status(tuner_kernels.main) == status
    said = capsys.readouterr()
    assert json.loads(said.out.splitlines()[-1])["cells"] == 44
    assert len(tuner.calls) == len(CELLS) * len(SIZES)
    assert {options["lang"] for _, _, options in tuner.calls} == {"PYCUDA"}
    assert said.err.startswith("error: pycuda not installed, install it\nerror: ")
    assert "run `pip install kernel_tuner==1.4.0`" in said.err
    failed = SimpleNamespace(returncode=2, stdout="", stderr="error: kernel_tuner: not installed")
    patch(subprocess, run=lambda *_, **__: failed)
    with pytest.raises(StudyError, match=r"^kernel_tuner with nvrtc: kernel_tuner: not installed$"):
        tuned.tune("nvrtc")


# ---- compare_with_cublas


class Timed:
    """A session with a fixed time per tile; the library becomes slower with each call."""

    asked = ()

    def not_launchable(self, one):
        return "needs too much" if number_of(one.block_size) == 192128 else None

    def kernel_time(self, one, flushed):
        assert not flushed
        self.asked += (one.variant,)
        if one.variant == "cublas_sgemm":
            return KernelTime(1, 1e-3 * len(self.asked))
        return KernelTime(1, {128256: 2e-3, 64032: 1e-3}[number_of(one.block_size)])


def test_the_fastest_tile_shape_is_compared_in_pairs_of_both_orders():
    session = Timed()
    products = (product_of("sgemm_top", 512, tile) for tile in (128256, 192128, 64032))
    of_tiles = [Cell("gpu0", each, "pinned") for each in products]
    best = compare_with_cublas.fastest(session, of_tiles)
    assert number_of(best.block_size) == 64032
    assert compare_with_cublas.fastest(session, of_tiles[1:2]) is None
    session.asked = ()
    library = cell("gpu0", "cublas_sgemm", "float32", Shape.square(512), None, "pinned")
    found = compare_with_cublas.pairs(session, best, library, 6)
    own, other = "sgemm_top", "cublas_sgemm"
    assert session.asked == (other, own, own, other) * 3
    assert (found.n, found.pairs) == (512, 6)
    assert (found.time_s, found.library_s) == pytest.approx((1e-3, 6.5e-3))
    assert (found.ratio, found.ratio_low, found.ratio_high) == pytest.approx((6.5, 1, 12))
    assert "64032" in str(found)


def test_tables_are_computed_from_every_recording_of_a_commit_with_its_ids(tmp_path):
    for folder in ("old", "older", "unused"):
        (tmp_path / "data" / "recordings" / folder).mkdir(parents=True)
        (tmp_path / "data" / "recordings" / folder / "MANIFEST.sha256").touch()
    gpus = "gpus: [{id: gpu, recordings: [data/recordings/old, data/recordings/older]}, {id: me}]"
    (tmp_path / "config.yaml").write_text(gpus)
    ids = [one.split("=")[0] for one in compare_tables._committed(tmp_path)]
    assert ids == ["gpu", "gpu", "unused"]
    named = dict(one.split("=")[::-1] for one in compare_tables._committed(ROOT))
    folders = {str(path.parent) for path in ROOT.glob("data/recordings/*/MANIFEST.sha256")}
    assert set(named) == folders
    of_study = re.findall(r"data/recordings/[\w-]+", (ROOT / "config.yaml").read_text())
    assert {named[str(ROOT / folder)] for folder in of_study} == {"h100", "h200"}
    assert len({*named.values()}) == 2 + len(folders) - len(of_study)
