"""What tests of several packages ask for."""

from collections.abc import Callable

import pytest

from measurement.discovery import CudaDevice, cuda_devices
from measurement.errors import StudyError
from measurement.recording import Recording
from tests.support import cache, simulated

MakeRecording = Callable[..., Recording]


def pytest_configure() -> None:
    """Remove what no run has asked for in a week."""
    cache.tidy()


@pytest.fixture(scope="session")
def make_recording() -> MakeRecording:
    """Write a simulated recording to a folder: `simulated.make_recording`."""
    return simulated.make_recording


@pytest.fixture(scope="session")
def gpu_recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A simulated recording of one GPU and its host; shared by tests, not to be changed."""
    return simulated.make_recording(tmp_path_factory.mktemp("recordings") / "card")


@pytest.fixture(scope="session")
def cpu_recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A small simulated recording of a host without GPU; shared by tests, not to be changed."""
    folder = tmp_path_factory.mktemp("recordings") / "host"
    return simulated.make_recording(folder, gpus=0, sizes=(256, 512))


@pytest.fixture(scope="session")
def card() -> CudaDevice:
    """The first GPU of this host; where there is none, what asks for it is skipped."""
    try:
        cards = cuda_devices()
    except StudyError as error:
        pytest.skip(str(error))
    if not cards:
        pytest.skip("no NVIDIA GPU on this host")
    return cards[0]
