# What the rules share: the checked configuration, what it asks of this host, and paths.

import os
import re
import shlex
from contextlib import contextmanager
from pathlib import Path

import yaml

from analysis.schema import TABLES
from cpu_reference.library import find_gcc
from kernels.build import architecture
from kernels.catalog import variant
from kernels.cubins import parse_build
from kernels.host_execution.compiler import find_gxx
from kernels.plan import builds
from kernels.toolchain import find_nvcc
from measurement import recording
from measurement.config import validate
from measurement.discovery import select
from measurement.files import write_atomic
from measurement.provenance import git

# `python` in a rule is the one that runs Snakemake, with the same packages.
os.environ.update(PATH=os.pathsep.join([str(Path(sys.executable).parent), *os.get_exec_path()]))


@contextmanager
def one_line_errors():
    """End Snakemake with the message of a StudyError, before anything runs."""
    try:
        yield
    except StudyError as error:
        sys.exit(f"error: {error}")


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


def cubins(names):
    """Return the cubins that the study needs for the named architectures."""
    return [
        f"results/cubins/{name}/{build.stem}.cubin"
        for name in names
        for build in builds(CONFIG.study)
    ]


def recording_folder(entry):
    """Return where the recording of an entry of the config's gpus lies."""
    return entry.recording or f"results/recordings/{entry.id}"


def recording_files(folder):
    """Return the files of the recording in a folder."""
    return [
        f"{folder}/{name}" for name in ["provenance.json", *recording.TABLES, recording.MANIFEST]
    ]


def recording_options():
    """Return the options that tell the analysis which recordings there are."""
    return " ".join(
        shlex.quote(f"--recording={entry.id}={recording_folder(entry)}") for entry in CONFIG.gpus
    )


def recorded_architectures(entry):
    """Return the architectures of the GPUs in an entry's recording; raises RecordingError."""
    devices = recording.read(entry.recording).provenance["devices"]
    return sorted({architecture(device["compute_capability"]) for device in devices})


def live_architectures(entry):
    """Return the architectures of the GPUs that an entry measures here; raises StudyError."""
    devices = select(entry.device)
    return sorted({architecture(device.compute_capability) for device in devices})


with one_line_errors():
    CONFIG = validate(config, "config.yaml")  # as --config and --configfile have made it
    LIVE = {entry.id: entry.device for entry in CONFIG.gpus if entry.device is not None}
    ARCHITECTURES = {
        entry.id: recorded_architectures(entry) if entry.recording else live_architectures(entry)
        for entry in CONFIG.gpus
    }
    if LIVE:
        find_gcc()
    find_gxx()
    NVCC = find_nvcc(CONFIG.toolchain.nvcc) if any(ARCHITECTURES.values()) else None

CUBINS = cubins(sorted({name for names in ARCHITECTURES.values() for name in names}))
MEASURED_SOURCES = [
    path
    for path in files_below("kernels") + files_below("cpu_reference")
    if path.endswith((".cu", ".c"))
]
RECORDINGS = [path for entry in CONFIG.gpus for path in recording_files(recording_folder(entry))]

# A resource is unlimited until someone caps it: one GPU measures one thing at a time.
if "gpu" not in workflow.global_resources:
    workflow.register_resource("gpu", 1)


onstart:
    # The measurement reads the configuration in force from this file. A dry run writes nothing.
    write_atomic("results/config.yaml", yaml.safe_dump(config, sort_keys=False))
