# What the rules share: the checked configuration, what it asks of this host, and paths. It is read
# before every run, so nothing here imports pandas: that alone takes a second.

import fcntl
import json
import os
import re
import shlex
from contextlib import contextmanager, suppress
from pathlib import Path

import yaml

from analysis.schema import TABLES
from cpu_reference.library import find_gcc
from kernels.cubins.compile import architecture
from kernels.host_execution.compiler import find_gxx
from study.plan import builds
from kernels.cubins.toolchain import find_nvcc
from measurement.recording import files as recording_files
from study.config import in_scope, load, validate
from measurement.devices.discovery import select
from base.files import code_digest, write_atomic
from measurement.recorder.provenance import git

# `python` in a rule is the one that runs Snakemake, with the same packages.
os.environ.update(PATH=os.pathsep.join([str(Path(sys.executable).parent), *os.get_exec_path()]))
CONFIG_IN_FORCE = "results/config.yaml"
OPEN_FILES = []  # for as long as Snakemake runs


@contextmanager
def one_line_errors():
    """End Snakemake with the message of a StudyError, before anything runs."""
    try:
        yield
    except StudyError as error:
        sys.exit(f"error: {error}")


def last_scope():
    """Return the scope of the run before, which has measured what is there; quick if it was none."""
    with suppress(StudyError):
        return load(CONFIG_IN_FORCE).study.scope
    return "quick"


def files_below(folder):
    """Return the files of a folder of this project, sorted, without what Python left there."""
    return sorted(
        str(path)
        for path in Path(folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )


def sources(package):
    """Return the Python files of a package: an edit of one reruns the rules that name it."""
    return [path for path in files_below(package) if path.endswith(".py")]


def matching(*patterns):
    """Return the files of this project that the patterns stand for."""
    return sorted(str(path) for pattern in patterns for path in Path().glob(pattern))


def cubins(names):
    """Return the cubins that the study needs for the named architectures."""
    stems = [build.stem for build in builds(CONFIG.study)]
    return [f"results/cubins/{name}/{stem}.cubin" for name in names for stem in stems]


def recording_folders(entry):
    """Return where the recordings of an entry of the config's gpus lie."""
    return entry.folders or [f"results/recordings/{entry.id}"]


def recording_files_in(folder):
    """Return the files of the recording in a folder."""
    names = [recording_files.PROVENANCE, *recording_files.TABLES, recording_files.MANIFEST]
    return [f"{folder}/{name}" for name in names]


def recording_options():
    """Return the options that tell the analysis which recordings there are."""
    return " ".join(
        shlex.quote(f"--recording={entry.id}={place}")
        for entry in CONFIG.gpus
        for place in ([outcome(entry.id)] if entry.slurm else recording_folders(entry))
    )


def outcome(name):
    """Return the file that says where the recording of a cluster's GPU is, or why it is missing."""
    return f"results/measured/{name}.json"


def try_again(name):
    """Forget that a GPU of the cluster is missing, so that it is measured now."""
    with suppress(OSError):
        if "missing" in json.loads(Path(outcome(name)).read_text()):
            Path(outcome(name)).unlink()


def recorded_architectures(entry):
    """Return the architectures of the GPUs in an entry's recordings; raises RecordingError.

    They are built for in the full study only: what became of the kernels that were measured stands
    in the recording.
    """
    found = {}
    for folder in map(Path, entry.folders):
        recording_files.check_manifest(folder)
        found[folder] = recording_files.read_provenance(folder)
    recording_files.check_sessions(found)
    devices = [device for provenance in found.values() for device in provenance["devices"]]
    names = {architecture(device["compute_capability"]) for device in devices}
    return sorted(names) if CONFIG.study.scope == "full" else []


def live_architectures(entry):
    """Return the architectures of the GPUs that an entry measures here; raises StudyError."""
    devices = select(entry.device)
    return sorted({architecture(device.compute_capability) for device in devices})


def device_options(entry):
    """Return the options that tell the recorder which GPUs an entry measures, and in which way."""
    return f"--device={shlex.quote(str(entry.device))}{' --at-once' if entry.at_once else ''}"


with one_line_errors():
    # The scope may be given as `--config scope=full`. All else is as --config and --configfile say.
    given = config.pop("scope", None) or config.get("study", {}).get("scope") or last_scope()
    config.update(in_scope(config, given))
    CONFIG = validate(config, "config.yaml")
    WHOLE = validate(in_scope(config, "full"), "config.yaml")
    LIVE = {entry.id: entry for entry in CONFIG.gpus if entry.device is not None}
    CLUSTER = {entry.id: entry for entry in CONFIG.gpus if entry.slurm}
    ARCHITECTURES = {
        entry.id: recorded_architectures(entry) if entry.folders else live_architectures(entry)
        for entry in CONFIG.gpus
        if not entry.slurm
    }
    if LIVE:
        find_gcc()
    find_gxx()
    NVCC = find_nvcc(CONFIG.toolchain.nvcc) if any(ARCHITECTURES.values()) else None

STUDY = CONFIG.study.plain()  # in the parameters of a rule that reads the configuration in force
MEASURED_SOURCES = [
    path
    for path in files_below("kernels") + files_below("cpu_reference")
    if path.endswith((".cu", ".c"))
]
RECORDINGS = [
    path
    for entry in CONFIG.gpus
    for folder in ([] if entry.slurm else recording_folders(entry))
    for path in recording_files_in(folder)
] + [outcome(name) for name in CLUSTER]
if workflow.is_main_process:
    for name in CLUSTER:
        try_again(name)

# A resource is unlimited until someone caps it: one GPU measures one thing at a time.
if "gpu" not in workflow.global_resources:
    workflow.register_resource("gpu", 1)


onstart:
    # The measurement reads the configuration in force from this file. A dry run writes nothing.
    write_atomic(CONFIG_IN_FORCE, yaml.safe_dump(config, sort_keys=False))
    # Locked until this process ends, however it does: `workflow/run.py` knows by it that Snakemake's
    # own lock is not one that was left behind. Where that script runs this, it has it locked.
    OPEN_FILES.append(open(".snakemake/alive", "a+"))
    with suppress(BlockingIOError):
        fcntl.flock(OPEN_FILES[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        OPEN_FILES[-1].truncate(0)
        print(os.getpid(), end="", file=OPEN_FILES[-1], flush=True)
