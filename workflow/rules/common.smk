# Shared by all rules: the validated config, functions of paths and options. This file is read
# before every run, so it must not import pandas, which alone takes a second.

import json
import os
import re
import shlex
from contextlib import suppress
from pathlib import Path

from analysis.schema import TABLES
from base.files import code_digest, date_not_ahead, files_below
from base.files import python_files_below as sources, write_atomic
from base.paths import FOLDERS
from base.version import committed, git
from cpu_reference.library import find_gcc
from kernels.cubins.compile import architecture
from kernels.cubins.toolchain import find_nvcc
from kernels.host_execution.compiler import find_gxx
from measurement.devices.discovery import select
from measurement.recording import files as recording_files
from study.config import load, validate
from study.config_file import dump, in_scope, replaced_by_quick
from study.plan import builds
from workflow.run import locked, sign

# Jobs use the Python that runs Snakemake.
os.environ.update(PATH=os.pathsep.join([str(Path(sys.executable).parent), *os.get_exec_path()]))
CONFIG_IN_FORCE = "results/config.yaml"
FILES = [
    "Snakefile",
    "Makefile",
    "pyproject.toml",
    "uv.lock",
    "README.md",
    "LICENSE",
    "CITATION.cff",
]
OPEN_FILES = []  # until Snakemake ends


def last_scope():
    """Return the scope of the last run; quick before the first run."""
    with suppress(StudyError):
        return load(CONFIG_IN_FORCE).study.scope
    return "quick"


def cubins(names):
    """Return the study's cubins for these architectures."""
    return [f"results/cubins/{name}/{stem}.cubin" for name in names for stem in STEMS]


def recording_folders(entry):
    """Return the folders of the recordings of an entry of gpus in the config."""
    return entry.folders or [f"results/recordings/{entry.id}"]


def recording_files_in(folder):
    """Return the files of the recording in a folder."""
    names = [recording_files.PROVENANCE, *recording_files.TABLES, recording_files.MANIFEST]
    return [f"{folder}/{name}" for name in names]


def recording_options():
    """Return the options --recording of the analysis."""
    return " ".join(
        shlex.quote(f"--recording={entry.id}={place}")
        for entry in CONFIG.gpus
        for place in ([outcome(entry.id)] if entry.slurm else recording_folders(entry))
    )


def outcome(name):
    """Return the file with the recording's folder of a cluster GPU, or why it is missing."""
    return f"results/measured/{name}.json"


def recorded_architectures(entry):
    """Return the architectures of an entry's recordings in the full study, else none.

    Raise RecordingError. The quick study does not compile for GPUs that it does not measure.
    """
    found = {}
    for folder in map(Path, entry.folders):
        if re.search("[{}]", str(folder)):
            raise StudyError(f"recording {folder}: braces are wildcards of Snakemake; rename it")
        recording_files.check_manifest(folder)
        found[folder] = recording_files.read_provenance(folder)
    recording_files.check_sessions(found)
    devices = [device for provenance in found.values() for device in provenance["devices"]]
    names = {architecture(device["compute_capability"]) for device in devices}
    return sorted(names) if CONFIG.study.scope == "full" else []


def live_architectures(entry):
    """Return the architectures of the GPUs that an entry measures here; raise StudyError."""
    return sorted({architecture(device.compute_capability) for device in select(entry.device)})


def device_options(entry):
    """Return the recorder's options for the GPUs of an entry."""
    return f"--device={shlex.quote(str(entry.device))}{' --at-once' if entry.at_once else ''}"


try:
    validate(config, CONFIG_NAMES)
    config.update(in_scope(config, given or config["study"].get("scope") or last_scope()))
    CONFIG = validate(config, CONFIG_NAMES)
    WHOLE = validate(in_scope(config, "full"), CONFIG_NAMES)
    LIVE = {entry.id: entry for entry in CONFIG.gpus if entry.device is not None}
    CLUSTER = {entry.id: entry for entry in CONFIG.gpus if entry.slurm}
    ARCHITECTURES = {
        entry.id: recorded_architectures(entry) if entry.folders else live_architectures(entry)
        for entry in CONFIG.gpus
        if not entry.slurm
    }
    recording_files.check_copies(Path(path) for entry in CONFIG.gpus for path in entry.folders)
    if LIVE:
        find_gcc()
    find_gxx()
    NVCC = find_nvcc(CONFIG.toolchain.nvcc) if any(ARCHITECTURES.values()) else None
except StudyError as error:
    sys.exit(f"error: {error}")

if workflow.is_main_process and (replaced := replaced_by_quick(config, committed("config.yaml"))):
    logger.info(f"note: study.quick replaces your {', '.join(replaced)}; edit it there")
STUDY = CONFIG.study.plain()  # a parameter of rules that read CONFIG_IN_FORCE
STEMS = [build.stem for build in builds(CONFIG.study)]
KERNEL_SOURCES = [path for path in files_below("kernels") if path.endswith(".cu")]
CPU_SOURCES = [path for path in files_below("cpu_reference") if path.endswith(".c")]
RECORDINGS = [
    path
    for entry in CONFIG.gpus
    for folder in ([] if entry.slurm else recording_folders(entry))
    for path in recording_files_in(folder)
] + [outcome(name) for name in CLUSTER]
if workflow.is_main_process:
    date_not_ahead([*files_below(*FOLDERS, "data", "results"), *FILES, *RECORDINGS])
    for file in map(Path, map(outcome, CLUSTER)):  # measure missing GPUs of the cluster again
        with suppress(OSError):
            if "missing" in json.loads(file.read_text()):
                file.unlink()

# Without a limit a resource is unlimited: one GPU job runs at a time.
if "gpu" not in workflow.global_resources:
    workflow.register_resource("gpu", 1)


onstart:
    # One run at a time: `workflow/run.py` removes Snakemake's own lock if this file is not locked.
    # In a run of `workflow/run.py` the file is already locked.
    if "MATMUL_STUDY_EVENTS" not in os.environ:
        try:
            OPEN_FILES.append(locked())
        except StudyError as error:
            sys.exit(f"error: {error}")
        sign(OPEN_FILES[-1], os.getpid())
    # Jobs read the config from this file. A dry run writes nothing.
    write_atomic(CONFIG_IN_FORCE, dump(config))
