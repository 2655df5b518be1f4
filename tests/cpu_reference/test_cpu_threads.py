"""Single-thread times use one thread whatever the environment sets, and are recorded as such."""

import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from cpu_reference.cores import usable_threads
from cpu_reference.library import Library
from kernels.products.matrices import Inputs
from kernels.products.shape import Shape
from measurement.devices.cpu import CpuSession
from measurement.devices.errors import CellError
from measurement.recording import recording
from study.cells import CPU, cell
from tests.support import ROOT
from tests.support.builds import cpu_library
from tests.support.studies import config_text

pytestmark = pytest.mark.slow

CONFIG = config_text(
    {
        "variants": ["naive"],
        "block_sizes": [32],
        "cpu": {
            "variants": ["naive", "packed", "blas"],
            "sizes": [200, 600],
            "size_limits": [{"variant": "naive", "largest_size": 200}],
            "block_sizes": [8],
            "threads": [1, "all"],
        },
    },
    {"samples": 6, "cpu_cell_budget_s": 0.1, "single_run_s": 10, "warm_up_s": 0.001},
)
NUMBERS = {"OMP_NUM_THREADS": "4", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def recorded(folder, numbers, config=CONFIG):
    (folder / "config.yaml").write_text(config)
    command = [sys.executable, "-m", "workflow", "record"]
    command += ["--config", folder / "config.yaml", "--out", folder / "out"]
    others = {name: text for name, text in os.environ.items() if name not in NUMBERS}
    options = {"cwd": ROOT, "env": others | {"CUDA_VISIBLE_DEVICES": ""} | numbers}
    done = subprocess.run(command, **options, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return recording.read(folder / "out")


@pytest.mark.exhaustive
def test_environment_variables_do_not_change_the_threads_of_a_product(tmp_path):
    """Compare each sample's CPU time of other threads with its number of threads."""
    made, counts = recorded(tmp_path, NUMBERS), {1, usable_threads()}
    assert set(made.checks["status"]) == {"passed"}
    for name, wanted in (("naive", {1}), ("packed", counts), ("blas", counts)):
        assert set(made.samples.loc[made.samples["variant"] == name, "threads"]) == wanted
    samples = made.samples[made.samples["total_s"] > 1e-3]
    others = samples["other_threads_s"] / samples["total_s"]
    assert {"naive", "packed", "blas"} == set(samples.loc[samples["threads"] == 1, "variant"])
    single = samples["threads"] == 1
    assert others[single].max() < 0.05
    # On a busy host other threads wait in most samples, but they work more than with one thread.
    assert single.all() or (others[~single].median() > 0.05 and others[~single].max() > 0.2)
    ceilings = made.ceilings[made.ceilings["quantity"] == "fp32_flop_per_s"]
    assert set(ceilings["threads"]) == counts


@pytest.fixture(scope="module")
def library():
    return Library(cpu_library())


def test_every_thread_computes_its_part_of_the_triad(library):
    arrays = np.ones((3, 1001), np.float32)
    for threads in (1, 2, 3, 7):
        library.touch(arrays[0], threads)
        assert (arrays[0] == 1).all()
        arrays[1], arrays[2] = np.arange(1001), 2
        library.triad_bytes_per_s(*arrays, repeats=2, threads=threads)
        assert (arrays[0] == np.arange(1001) + 6).all()


def test_several_threads_may_use_all_cores_but_a_single_one_stays_on_its_core(library):
    inputs = Inputs([("float32", Shape.square(300))], seed=1)
    cores = os.sched_getaffinity(0)
    with CpuSession(library, inputs) as session:
        os.sched_setaffinity(0, {max(cores)})
        try:
            for threads in (1, 2, 1):
                asked = cell(CPU, "packed", "float32", Shape.square(300), threads=threads)
                seen = spied(library, session, asked)
                assert seen == (cores if threads == 2 else {max(cores)})
                assert os.sched_getaffinity(0) == {max(cores)}
        finally:
            os.sched_setaffinity(0, cores)


def spied(library, session, asked):
    seen = []
    prepare = library.prepare

    def watched(*arguments):
        product = prepare(*arguments)
        return lambda: (seen.append(os.sched_getaffinity(0)), product())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "prepare", watched)
        session.run(asked)
    (cores,) = seen
    return cores


@pytest.mark.exhaustive
def test_a_configuration_fails_alone_if_its_threads_cannot_be_started(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_THREAD_LIMIT", "1")
    made = recorded(tmp_path, {}, CONFIG.replace("600", "250"))
    failed = made.checks[made.checks["status"] == "failed"]
    assert set(failed["variant"]) == ({"packed"} if usable_threads() > 1 else set())
    assert failed["reason"].str.contains("unset OMP_THREAD_LIMIT and OMP_DYNAMIC").all()
    assert (failed["threads"] > 1).all()


def test_blas_without_a_number_of_threads_is_not_launchable(library, monkeypatch):
    inputs = Inputs([("float32", Shape.square(8))], seed=1)
    session = CpuSession(library, inputs)
    asked = cell(CPU, "blas", "float32", Shape.square(8), threads=1)
    assert session.not_launchable(asked) is None
    nothing = SimpleNamespace(lib_controllers=())
    monkeypatch.setattr("cpu_reference.blas.ThreadpoolController.select", lambda *_, **__: nothing)
    monkeypatch.setattr(library, "_blas", {})
    assert "install numpy from PyPI" in session.not_launchable(asked)
    other = cell(CPU, "naive", "float32", Shape.square(8), threads=1)
    assert session.not_launchable(other) is None
    with pytest.raises(CellError, match="no kernel_time"):
        session.kernel_time(other, flushed=False)
