"""GPU locks: one process at a time, and an error that names the owner."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from base.errors import StudyError
from measurement.devices import locks
from measurement.devices.discovery import CudaDevice
from measurement.devices.locks import lock_file, only_run
from tests.support import ROOT
from tests.support.fake_cuda import FakeCuda, FakeNvml

CARD = CudaDevice(1, "NVIDIA H200", "9.0")
HOLD = """
import sys
from pathlib import Path
from measurement.devices.discovery import CudaDevice
from measurement.devices.locks import only_run
with only_run(CudaDevice(1, "NVIDIA H200", "9.0"), Path(sys.argv[1]), "recording into x"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_file_is_named_by_its_gpu_and_every_user_may_lock_it(monkeypatch, tmp_path):
    monkeypatch.setattr(locks, "driver", lambda: FakeCuda(2 * [("NVIDIA H200", (9, 0))]))
    monkeypatch.setattr(locks, "pynvml", FakeNvml(2))
    assert lock_file(CARD) == Path("/tmp", "matmul-study-GPU-5ca1ab1e-1.lock")
    mask = os.umask(0o077)
    try:
        with only_run(CARD, tmp_path / "lock", "counting"):
            pass
    finally:
        os.umask(mask)
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o666


@pytest.mark.slow
def test_a_second_run_gets_the_owner_in_its_error_and_the_gpu_after_the_owners_end(tmp_path):
    file = tmp_path / "lock"
    command = [sys.executable, "-c", HOLD, str(file)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, **pipes) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StudyError) as refused, only_run(CARD, file, "counting"):
            pytest.fail("two runs on one GPU")
        holder.kill()
        holder.wait()
        with only_run(CARD, file, "counting"):
            assert file.read_text().startswith(f"process {os.getpid()} of ")
    user = locks._user()
    assert str(refused.value) == (
        f"GPU 1 (NVIDIA H200): in use by process {holder.pid} of {user}, recording into x; wait "
        "for its end or choose another GPU"
    )
