"""Processes with imported libraries: forks of a process that has imported them once."""

import gc
import importlib
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.support import ROOT

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["measurement.recorder.record", "tests.support.fakes"])
_OWN = ("analysis", "base", "cpu_reference", "kernels", "measurement", "study", "tests", "workflow")


class Popen(subprocess.Popen):
    """A process; ``sys.executable -m NAME`` is a fork of this one, without its own modules.

    The fork imports packages from its working folder and from PYTHONPATH.
    """

    def __init__(self, args: Any, **options: Any) -> None:
        if [*args[:2]] == [sys.executable, "-m"]:
            _import_snakemake()
            kept, environment = options.get("pass_fds", ()), options.get("env") or os.environ
            options["preexec_fn"] = partial(_become, args[2:], kept, dict(environment))
        super().__init__(args, **options)


@cache
def _import_snakemake() -> None:
    importlib.import_module("snakemake.cli").get_argument_parser()
    importlib.import_module("smart_open")  # which Snakemake imports later


def run_module(
    name: str, *arguments: str, cwd: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m name`` in a folder; modules of the study are imported from there."""
    command = [sys.executable, "-m", name, *arguments]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = Popen(command, cwd=cwd, env=environment, **streams)
    output, errors = process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _become(arguments: list[str], kept: Iterable[int], environment: dict[str, str]) -> None:
    """Run the module `arguments` name; do not return. The streams are in place."""
    status = 1
    try:
        _start_again([*map(str, arguments)], kept, environment)
        runpy.run_module(str(arguments[0]), run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _start_again(arguments: list[str], kept: Iterable[int], environment: dict[str, str]) -> None:
    gc.freeze()
    # Objects of the parent may close their descriptors later, so no new file gets their numbers.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number not in {*kept, nowhere}:
            os.dup2(nowhere, number, inheritable=False)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", 1, closefd=False) for number in (1, 2))
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    for module in [each for each in sys.modules if each.split(".")[0] in _OWN]:
        del sys.modules[module]
    folders = [os.getcwd(), *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    sys.path[:] = [*folders, *(each for each in sys.path if Path(each or ".") != ROOT)]
    sys.argv = arguments
    subprocess.Popen = Popen
