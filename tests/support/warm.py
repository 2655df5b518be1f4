"""Processes that begin with their libraries imported: forks of a server that has done it once.

What starts hundreds of interpreters spends most of its time on imports otherwise. A process has the
environment in which the first of them was asked for, unless it is given one.
"""

import gc
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.support import ROOT

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["snakemake.cli", "measurement.recorder.record", "tests.support.fakes"]
)
_OWN = ("analysis", "base", "cpu_reference", "kernels", "measurement", "study", "tests")


def run_module(
    name: str, *arguments: str, cwd: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Do what ``python -m name`` does in a folder; of the study it imports what lies there."""
    with tempfile.TemporaryDirectory() as folder:
        said = [Path(folder) / stream for stream in ("stdout", "stderr")]
        told = (name, arguments, cwd, dict(environment or os.environ), said)
        process = CONTEXT.Process(target=_run, args=told)
        process.start()
        process.join()
        texts = [path.read_text() for path in said]
        return subprocess.CompletedProcess([name, *arguments], process.exitcode, *texts)


def _run(
    name: str, arguments: tuple[str, ...], cwd: Path, environment: dict[str, str], said: list[Path]
) -> None:
    gc.freeze()
    for number, path in enumerate(said, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    for module in [each for each in sys.modules if each.split(".")[0] in _OWN]:
        del sys.modules[module]
    sys.path[:] = [str(cwd), *(each for each in sys.path if Path(each or ".") not in (ROOT, cwd))]
    sys.argv = [name, *arguments]
    runpy.run_module(name, run_name="__main__", alter_sys=True)
