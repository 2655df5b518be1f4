"""The schema of provenance.json, which describes how a recording was made."""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from base.validation import Section
from study.cells import CPU

FORMAT: Literal[6] = 6
# The folder of user-supplied sources in a recording's list of sources; the name is fixed.
USER_SUPPLIED = "brought"
# The clock of the host may be set during a recording.
CLOCK_SLACK_S = 60.0
_MOST_SOURCE = 2**16  # longest user-supplied source, in characters

Number = Annotated[int, Field(ge=1, le=2**53)]
Count = Annotated[int, Field(ge=0, le=2**53)]
Real = Annotated[float, Field(ge=0, le=2**53)]
# Names and versions: printable ASCII, so two different names never look alike.
Name = Annotated[str, Field(pattern=r"^[!-~]([ -~]{0,198}[!-~])?$")]


def _check_date(text: str) -> str:
    datetime.fromisoformat(text)
    return text


Utc = Annotated[
    str,
    Field(pattern=r"^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"),
    AfterValidator(_check_date),
]
# Patterns of the paths of sources: of user-supplied ones, and of files of the project.
_USER_SUPPLIED_PATH = rf"{USER_SUPPLIED}/[A-Za-z0-9_]+\.(?:cu|py)"
UserSuppliedPath = Annotated[str, Field(pattern=f"^{_USER_SUPPLIED_PATH}$")]
_TREE_PATH = r"[A-Za-z0-9_]+(/[A-Za-z0-9_]+)*\.(?:cu|c)"
SourcePath = Annotated[str, Field(pattern=f"^(?:{_TREE_PATH}|{_USER_SUPPLIED_PATH})$")]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


def lines_sha256(lines: Sequence[str]) -> str:
    """Return the SHA-256 of a source from its lines."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def check_lines(lines: list[str]) -> list[str]:
    """Return the lines of a source; raise ValueError if it is too long for a recording."""
    size = sum(len(line) + 1 for line in lines)
    if size > _MOST_SOURCE:
        raise ValueError(f"has {size} characters, more than {_MOST_SOURCE}")
    return lines


Lines = Annotated[list[str], AfterValidator(check_lines)]


class Cache(Section):
    """A data cache of one CPU; `shared_by` is the number of CPUs that share the cache."""

    level: Annotated[int, Field(ge=1, le=4)]
    bytes: Number
    shared_by: Number


class HostFacts(Section):
    """The host and its CPU.

    `usable_cpus` is the size of the process's affinity mask. `usable_threads` is also limited by
    the CPU quota of its control group; parallel CPU variants use this number. `caches` begins with
    the nearest cache; it is empty if they are unknown. Family, model number and stepping identify
    the processor, whose name a virtual machine may hide; None: unknown.
    """

    cpu_model: Name
    cpu_family: Count | None = None
    cpu_number: Count | None = None
    cpu_stepping: Count | None = None
    logical_cpus: Number
    usable_cpus: Number
    usable_threads: Number
    caches: list[Cache]
    memory_bytes: Number
    os: Name


class DeviceFacts(Section):
    """One GPU; a value is None if the driver does not report it.

    `machine_start` is equal for sessions on this GPU since one start of its host; None: unknown.
    """

    device: Annotated[str, Field(pattern="^gpu[0-9]{1,4}$")]
    name: Name
    compute_capability: Annotated[str, Field(pattern=r"^[0-9]{1,3}\.[0-9]{1,3}$")]
    multiprocessors: Number
    memory_bytes: Number
    limits: dict[Annotated[str, Field(pattern="^[a-z0-9_]{1,60}$")], Number]
    sm_clock_max_hz: Count | None
    memory_clock_max_hz: Count | None
    ecc: bool | None
    pcie_generation: Count | None
    pcie_width: Count | None
    power_limit_w: Real | None
    persistence_mode: Count | None
    machine_start: Sha256 | None = None


class Software(Section):
    """Versions of the software; None for software that is not installed or of unknown version."""

    driver: Name | None
    cuda_driver: Name | None
    cublas: Name | None
    nvcc: Name | None
    gcc: Name | None
    blas: Name | None
    blas_version: Name | None
    blas_architecture: Name | None
    python: Name | None
    packages: dict[Name, Name | None]


class Compile(Section):
    """Flags of the compilers."""

    nvcc_flags: list[Name]
    gcc_flags: list[Name]


class Git(Section):
    """The commit of the tree, and whether files were changed since; None: unknown."""

    commit: Name | None
    dirty: bool | None
    changed: Annotated[list[str], Field(default_factory=list)]  # the changed files


class Phase(Section):
    """The duration of one phase of the measurement.

    `busy_s` is the device's time in transfers and kernels (on a CPU, in products), including runs
    that are not samples.
    """

    device: str
    phase: Literal[
        "start",
        "ceilings",
        "cold_starts",
        "checking",
        "second_check",
        "pilot",
        "sampling",
        "kernels",
        "energy",
        "pieces",
        "throughput",
        "neighbours",
    ]
    wall_s: Real
    busy_s: Real


class Counters(Section):
    """When and by which version of ncu hardware counters were added, on a GPU of the same model."""

    counted_utc: Utc
    ncu: Name


class Accuracy(Section):
    """When errors of products were added, on a GPU of the same model."""

    added_utc: Utc


class _Facts(Section):
    """A mapping with required keys; all other keys are ignored."""

    model_config = ConfigDict(extra="ignore")


class ConfiguredSeries(_Facts):
    """One series in the study of a recorded configuration."""

    variants: list[str]
    dtypes: list[str]


class Configured(_Facts):
    """The section `study` of a recorded configuration."""

    sizes: list[Number]
    variants: list[str] = Field(default_factory=list)
    dtypes: list[str] = Field(default_factory=list)
    series: list[ConfiguredSeries] = Field(default_factory=list)
    holdout_sizes: list[Number] = Field(default_factory=list)
    protocol: dict[str, int | float | str] = Field(default_factory=dict)


class Provenance(Section):
    """A whole provenance.json.

    `simulated`: the times were computed, not measured. `configuration` is the section `study` of
    the recorded config as plain JSON. `attempts` is the number of processes that made the
    recording, more than one if it was interrupted. `machine_start` is equal for sessions on one
    host since the same start of it; None: unknown. `at_once`: several GPUs were measured at the
    same time. `texts` contains the lines of the user-supplied `sources`, `imports` the versions of
    the packages that user-supplied calls imported where they were timed.
    """

    format: Literal[6]
    simulated: bool
    started_utc: Utc
    finished_utc: Utc
    host: HostFacts
    devices: Annotated[list[DeviceFacts], Field(max_length=64)]
    software: Software
    compile: Compile
    git: Git
    configuration: Configured
    seed: Count
    sources: dict[SourcePath, Sha256]
    texts: dict[UserSuppliedPath, Lines] = Field(default_factory=dict)
    imports: dict[Name, Name | None] = Field(default_factory=dict)
    attempts: Number
    machine_start: Sha256 | None = None
    at_once: bool = False
    phases: Annotated[list[Phase], Field(max_length=10_000)]
    counters: Counters | None = None
    accuracy: Accuracy | None = None

    @property
    def run_s(self) -> float:
        """The time from start to end of the recording, in seconds."""
        begin, end = map(datetime.fromisoformat, (self.started_utc, self.finished_utc))
        return (end - begin).total_seconds()

    @model_validator(mode="after")
    def _check(self) -> "Provenance":
        names = [gpu.device for gpu in self.devices]
        if len(set(names)) < len(names):
            raise ValueError(f"devices: a name is listed twice in {', '.join(names)}")
        if self.run_s < 0:
            raise ValueError("finished_utc: is before started_utc")
        for at, phase in enumerate(self.phases):
            if phase.device not in (CPU, *names):
                raise ValueError(f"phases[{at}]: {phase.device} is not one of devices")
            if max(phase.wall_s, phase.busy_s) > self.run_s + CLOCK_SLACK_S:
                raise ValueError(f"phases[{at}]: longer than the recording ({self.run_s:g} s)")
        for path, lines in self.texts.items():
            if self.sources.get(path) != lines_sha256(lines):
                raise ValueError(f"texts: {path} differs from its SHA-256 in sources")
        return self
