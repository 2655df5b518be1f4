"""File locks: only one process at a time measures on a GPU.

The name of a lock file contains the GPU's UUID, and all users of the host share its folder. Linux
releases the lock when the process that owns it ends, for whatever reason.
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

_FOLDER = Path("/tmp")  # not TMPDIR, which may differ between users


def lock_file(device: CudaDevice) -> Path:
    """Return the lock file of a GPU of this host."""
    bus = driver().Device(device.index).pci_bus_id()
    pynvml.nvmlInit()
    try:
        handle = pynvml.nvmlDeviceGetHandleByPciBusId(bus.encode())
        return _FOLDER / f"gemm-study-{pynvml.nvmlDeviceGetUUID(handle)}.lock"
    finally:
        pynvml.nvmlShutdown()


@contextmanager
def only_run(device: CudaDevice, file: Path, purpose: str) -> Iterator[None]:
    """Lock a GPU for `purpose`; raise StudyError naming the owner if it is already locked."""
    lock = _opened(file)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 4096, 0).decode(errors="replace").strip()
            raise StudyError(
                f"GPU {device.index} ({device.name}): in use by {holder or 'another process'}; "
                "wait for its end or choose another GPU"
            ) from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"process {os.getpid()} of {_user()}, {purpose}".encode(), 0)
        yield
    finally:
        os.close(lock)


def _opened(file: Path) -> int:
    """Open a lock file, or create one that every user may open."""
    with suppress(FileNotFoundError):  # O_CREAT fails on another user's file in /tmp
        return os.open(file, os.O_RDWR)
    lock = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
    with suppress(PermissionError):
        os.fchmod(lock, 0o666)
    return lock


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the user has no name
        return str(os.getuid())
