"""What a recording's provenance.json holds."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from measurement.validation import Section

FORMAT: Literal[5] = 5

Number = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0)]
Utc = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class _Facts(Section):
    """Facts of which some are required, and any may be added."""

    model_config = ConfigDict(extra="ignore")


class Cache(_Facts):
    """A cache for data of one CPU; `shared_by` counts the CPUs that share it."""

    level: Number
    bytes: Number
    shared_by: Number


class HostFacts(_Facts):
    """The CPU side of the host.

    `usable_cpus` are those of the process's affinity. `usable_threads` are as many, or fewer where
    its control group has a quota of CPU time: all threads of a parallel CPU variant. `caches` are
    the nearest first; empty: not told.
    """

    cpu_model: str
    logical_cpus: Number
    usable_cpus: Number
    usable_threads: Number
    caches: list[Cache]
    memory_bytes: Number
    os: str


class DeviceFacts(_Facts):
    """One GPU."""

    device: Annotated[str, Field(pattern=r"^gpu\d+$")]
    name: str
    compute_capability: Annotated[str, Field(pattern=r"^\d+\.\d+$")]
    multiprocessors: Number
    memory_bytes: Number
    limits: dict[str, Any]


class Git(_Facts):
    """The commit of the tree, and whether it was changed since; None: not known."""

    commit: str | None
    dirty: bool | None


class Phase(_Facts):
    """How long a part of the measurement took.

    For `busy_s` of it the device was busy with transfers and kernels (a CPU: with products), passes
    that are no samples included.
    """

    device: str
    phase: Literal[
        "start",
        "ceilings",
        "cold_starts",
        "checking",
        "pilot",
        "sampling",
        "kernels",
        "energy",
        "batches",
        "neighbours",
    ]
    wall_s: Seconds
    busy_s: Seconds


class Counters(_Facts):
    """When and with what hardware counters were added, on a card of the same name."""

    counted_utc: str
    ncu: str


class Provenance(Section):
    """The whole file.

    `simulated`: the times were computed, not measured. `configuration` is the section `study` of
    the config in force, as plain JSON: keys of older recordings differ. `attempts` counts the
    processes that had a hand in it: more than one where it was interrupted and resumed. `at_once`:
    several GPUs were measured at the same time.
    """

    format: Literal[4, 5]
    simulated: bool
    started_utc: Utc
    finished_utc: Utc
    host: HostFacts
    devices: list[DeviceFacts]
    software: dict[str, Any]
    compile: dict[str, Any]
    git: Git
    configuration: dict[str, Any]
    seed: int
    sources: dict[str, Sha256]
    attempts: Number
    at_once: bool = False
    phases: list[Phase]
    counters: Counters | None = None
