"""Fixtures of several packages, and the environment of the tests."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from threadpoolctl import threadpool_limits

from base.errors import StudyError
from kernels.cubins.toolchain import find_nvcc
from kernels.host_execution.compiler import BUILDS
from measurement.devices.discovery import CudaDevice, cuda_devices
from measurement.recorder import record as recorder
from measurement.recording import recording
from measurement.recording.recording import Recording
from measurement.sampling import interference, supervisor
from tests.support import builds, cache, fakes, simulated, warm
from tests.support.gpu_lock import gpu
from workflow.__main__ import main

hypothesis.settings.register_profile("any host", deadline=None)  # a busy host is no failure
hypothesis.settings.load_profile("any host")

MakeRecording = Callable[..., Recording]

# Waiting threads of a BLAS or of OpenMP sleep: other tests need the cores.
_ASLEEP = {"OPENBLAS_THREAD_TIMEOUT": "4", "OMP_WAIT_POLICY": "passive"}


def pytest_configure() -> None:
    """Remove cached files that no run has used for a week; set the environment of all processes."""
    cache.tidy()
    for name, value in _ASLEEP.items():
        os.environ.setdefault(name, value)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Let processes share the GPU, except for tests and fixtures marked `gpu("alone")`."""
    marker = item.get_closest_marker("gpu")
    with gpu(*marker.args) if marker else nullcontext():
        return (yield)


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Use one thread for linear algebra: there are more workers than cores."""
    with threadpool_limits(1, "blas"):
        yield


@pytest.fixture(scope="session", autouse=True)
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what killed processes leave behind in a folder that pytest removes."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TMPDIR", str(tmp_path_factory.mktemp("temporary")))
        patched.setattr(tempfile, "tempdir", None)
        yield


@pytest.fixture(autouse=True)
def own_cores() -> Iterator[None]:
    """Fail if a test leaves this process bound to some cores; undo that for other tests."""
    cores = os.sched_getaffinity(0)
    yield
    left = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    assert left == cores, "the test has left this process bound to some cores"


@pytest.fixture(scope="session")
def make_recording() -> MakeRecording:
    """Write a simulated recording to a folder: `simulated.make_recording`."""
    return simulated.make_recording


@pytest.fixture(scope="session")
def gpu_recording() -> Recording:
    """A simulated recording of one GPU and its host; do not change it."""
    return recording.read(simulated.recorded())


@pytest.fixture(scope="session")
def cpu_recording() -> Recording:
    """A small simulated recording of a host without GPU; do not change it."""
    return recording.read(simulated.recorded(gpus=0, sizes=(256, 512), seed=1))


@pytest.fixture(scope="session")
def computed(gpu_recording: Recording, cpu_recording: Recording) -> Path:
    """The folder of all tables of these two, called card and host; do not change it."""
    from tests.support.report_data import chain  # a second to import

    return chain({"card": gpu_recording.path, "host": cpu_recording.path})


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command in this process; return its exit status and output."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["gemm-study", *map(str, arguments)])
        capsys.readouterr()
        return subprocess.CompletedProcess(arguments, main(), *capsys.readouterr())

    return run


@pytest.fixture
def patch(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that replaces attributes of a module until the end of the test."""

    def replace(module: Any, **attributes: Any) -> None:
        for name, value in attributes.items():
            monkeypatch.setattr(module, name, value)

    return replace


@pytest.fixture
def stand_ins(tmp_path_factory: pytest.TempPathFactory, patch: Callable[..., None]) -> None:
    """Record with a cache, a CPU library, worker processes and pauses that take no time."""
    references = tmp_path_factory.mktemp("references")
    patch(recorder, CACHE=references, build_library=builds.cpu_library)
    patch(supervisor, _SPAWN=warm.CONTEXT)
    patch(interference, _SETTLE_S=fakes.SETTLE_S)


@pytest.fixture(scope="session")
def host_builds() -> Path:
    """Folder of the builds for the host, each named by the hash of its inputs."""
    BUILDS.mkdir(parents=True, exist_ok=True)
    return BUILDS


@pytest.fixture(scope="session")
def card() -> CudaDevice:
    """The first GPU of this host; without one, the test is skipped."""
    try:
        cards = cuda_devices()
    except StudyError as error:
        pytest.skip(str(error))
    return cards[0] if cards else pytest.skip("no NVIDIA GPU on this host")


@pytest.fixture(scope="session")
def nvcc() -> Path:
    """The CUDA compiler of this host; without one, the test is skipped."""
    try:
        return find_nvcc()
    except StudyError as error:
        pytest.skip(str(error))
