"""What tests of several packages ask for."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from measurement import recording
from measurement.discovery import CudaDevice, cuda_devices
from measurement.errors import StudyError
from measurement.recording import Recording
from tests.support import ROOT, simulated

MakeRecording = Callable[..., Recording]


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


@pytest.fixture(scope="session")
def measured_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the report of three recorded GPUs: tables, figures, report.html."""
    from tests.support.report_data import report  # drawing takes a second to import

    base = tmp_path_factory.mktemp("measured")
    config = yaml.safe_load((ROOT / "config.yaml").read_text())
    paths = {e["id"]: ROOT / e["recording"] for e in config["gpus"] if "recording" in e}
    gpus = {name: len(recording.read(path).provenance["devices"]) for name, path in paths.items()}
    chosen = next(
        names
        for count in range(1, len(gpus) + 1)
        for names in itertools.combinations(gpus, count)
        if sum(gpus[name] for name in names) == 3
    )
    report(base, {name: paths[name] for name in chosen})
    return base
