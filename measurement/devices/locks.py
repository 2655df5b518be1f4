"""One run at a time on a GPU: whoever measures there holds the lock of a file.

The file is named by the GPU's UUID and lies where every user of the host looks. The kernel takes
the lock back when its holder ends, however it does.
"""

import fcntl
import getpass
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pynvml

from base.errors import StudyError
from measurement.devices.discovery import CudaDevice, driver

_FOLDER = Path("/tmp")  # whatever TMPDIR says


def lock_file(device: CudaDevice) -> Path:
    """Return the file whose lock stands for a GPU of this host."""
    bus = driver().Device(device.index).pci_bus_id()
    pynvml.nvmlInit()
    try:
        handle = pynvml.nvmlDeviceGetHandleByPciBusId(bus.encode())
        return _FOLDER / f"matmul-study-{pynvml.nvmlDeviceGetUUID(handle)}.lock"
    finally:
        pynvml.nvmlShutdown()


@contextmanager
def only_run(device: CudaDevice, file: Path, purpose: str) -> Iterator[None]:
    """Be the one run on a GPU; raises StudyError naming who is, and for what `purpose`."""
    lock = _opened(file)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 4096, 0).decode(errors="replace").strip()
            raise StudyError(
                f"GPU {device.index} ({device.name}): in use by {holder or 'another run'}; let it "
                "end, or choose another GPU"
            ) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"process {os.getpid()} of {_user()}, {purpose}".encode(), 0)
        yield
    finally:
        os.close(lock)


def _opened(file: Path) -> int:
    """Open a lock file that every user may open; it is made where it is not there yet."""
    with suppress(FileNotFoundError):  # an O_CREAT would be refused on another user's file
        return os.open(file, os.O_RDWR)
    lock = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
    with suppress(PermissionError):
        os.fchmod(lock, 0o666)
    return lock


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        return str(os.getuid())
