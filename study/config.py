"""The configuration: what config.yaml may say, read and checked, faults told in one line."""

from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

import cpu_reference.catalog
import kernels.catalog.entries
from base.errors import StudyError
from base.validation import Distinct, OneOrMore, Section, allowed, first_fault, name_in
from kernels.catalog.product import BASELINE, BASELINE_BLOCK, products_of
from kernels.products.shape import LARGEST_SIZE, Shape

# What published times and cubins built here are called where a recording has its id.
_TAKEN = ("published", "tree")
_MOST_BYTES, _MOST_DEPTH = 2**20, 16  # of a file


class ConfigError(StudyError):
    """A faulty configuration; the message names file, key and fault, and what is allowed."""


def _check_shape(text: int | str) -> int | str:
    try:
        Shape.parse(text)
    except StudyError as error:
        raise ValueError(str(error)) from None
    return text


_One = Annotated[int, Field(ge=1, le=1)]

Count = Annotated[int, Field(ge=0, lt=2**53), allowed("a whole number from 0 to 2^53")]
Samples = Annotated[int, Field(ge=1, le=10**6), allowed("a whole number from 1 to 1000000")]
Size = Annotated[
    int,
    Field(ge=1, le=LARGEST_SIZE),
    allowed(f"a whole number from 1 to {LARGEST_SIZE}"),
]
BlockSize = Annotated[int, Field(ge=1, le=32), allowed("a whole number from 1 to 32")]
ShapeText = Annotated[
    int | str,
    AfterValidator(_check_shape),
    allowed(
        "a whole number from 1 or a text such as 17x33x65 (MxKxN) or 3x17x33x65 (a batch of "
        "them), each matrix of less than 2^31 elements"
    ),
]
Share = Annotated[float, Field(gt=0, lt=1), allowed("a number above 0 and below 1")]
# In seconds.
Positive = Annotated[float, Field(gt=0, le=1e6), allowed("a number above 0 to 1e6")]
NotNegative = Annotated[float, Field(ge=0, le=1e6), allowed("a number from 0 to 1e6")]
HangLimit = Annotated[float, Field(ge=1, le=1e6), allowed("a number of seconds from 1 to 1e6")]
Text = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,4096}$"), allowed("a text of one line")]
Variant = Annotated[str, name_in("variant", kernels.catalog.entries.VARIANTS)]
CpuVariant = Annotated[str, name_in("variant", cpu_reference.catalog.VARIANTS)]
Threads = Annotated[_One | Literal["all"], allowed("1 or all")]
Device = Annotated[
    Count | Annotated[str, Field(pattern="[A-Za-z]")],
    allowed("auto, a whole number from 0, or a part of a GPU's name"),
]
SlurmModel = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9_.]+$"),
    allowed("a model of GPU as `scontrol show node` names it (gpu:MODEL:1)"),
]


class BlockSizeLimit(Section):
    """The largest size (the longest edge of a matrix) that is measured with a block size."""

    block_size: BlockSize
    largest_size: Size


class Series(Section):
    """Products of any shape and type of elements; each variant takes what it can of them."""

    variants: OneOrMore[Variant]
    dtypes: OneOrMore[Literal["float32", "float64", "int32"]]
    block_sizes: Distinct[BlockSize]
    shapes: OneOrMore[ShapeText]

    @model_validator(mode="after")
    def _check_variants(self) -> "Series":
        shapes = [Shape.parse(text) for text in self.shapes]
        for name in self.variants:
            if not any(products_of([name], self.dtypes, self.block_sizes, shapes)):
                raise ValueError(
                    f"{name} takes none of the series' shapes with its dtypes and block_sizes; "
                    "`python -m kernels list` shows what it takes"
                )
        return self


class CpuSizeLimit(Section):
    """The largest matrix size that is measured of a CPU variant."""

    variant: CpuVariant
    largest_size: Size


class CpuStudy(Section):
    """What is measured of the CPU: square matrices of float32.

    Block sizes are those of the variants that work in blocks, thread counts those of the parallel
    ones ("all": as many as the process may use CPUs).
    """

    variants: OneOrMore[CpuVariant]
    sizes: OneOrMore[Size]
    size_limits: list[CpuSizeLimit] = Field(default_factory=list)
    block_sizes: OneOrMore[Size]
    threads: OneOrMore[Threads]


class Interference(Section):
    """The kernel whose passes are timed beside the traffic of a host's other GPUs."""

    variant: Variant
    block_size: BlockSize


class Energy(Section):
    """Matrix sizes at which joules a product are read, over launches for so long, in seconds."""

    sizes: OneOrMore[Size]
    length_s: Positive


class ProtocolSettings(Section):
    """How a cell is sampled (see `measurement.sampling.protocol`); all lengths of time are in seconds."""

    confidence: Share  # of the interval of a median
    relative_half_width: Share  # of that interval, for which a cell gets enough samples
    min_samples: Samples  # unless they take longer than the budget
    max_samples: Samples
    gpu_cell_budget_s: Positive
    cpu_cell_budget_s: Positive
    single_run_s: Positive  # a longer run is the only sample of its cell
    warm_up_s: NotNegative  # before each sample of a cell with a shorter run
    cpu_warm_run_s: NotNegative  # CPU cells with a shorter run run once before each sample
    caches: Literal["warm", "flushed"] = "warm"  # as a kernel that is timed alone finds them
    cold_starts: Count
    hang_limit_s: HangLimit  # a cell that does not answer for so long has failed

    @field_validator("max_samples")
    @classmethod
    def _check_max_samples(cls, most: int, info: ValidationInfo) -> int:
        least = info.data.get("min_samples", most)
        if most < least:
            raise ValueError(
                f"{most} is less than min_samples; allowed: a whole number from {least}"
            )
        return most


class Study(Section):
    """What is measured: variants on square matrices of float32, other `series`, and the CPU.

    In the scope "quick", the values under `quick` are in the place of the study's own, mappings key
    by key: as much as the three answers need. Without a scope, the study is measured in full.
    """

    scope: Literal["quick", "full"] = "full"
    quick: dict[str, Any] = Field(default_factory=dict, exclude=True)
    seed: Count  # of the random matrices and of the order of the rounds
    dtypes: OneOrMore[Literal["float32"]]
    sizes: OneOrMore[Size]
    holdout_sizes: Distinct[Size]  # left out of the fits, to test their predictions
    variants: OneOrMore[Variant]
    block_sizes: OneOrMore[BlockSize]
    block_size_limits: list[BlockSizeLimit] = Field(default_factory=list)
    series: list[Series] = Field(default_factory=list)
    host_memory: OneOrMore[Literal["pinned", "pageable"]]
    cpu: CpuStudy
    interference: Interference | None = None
    energy: Energy | None = None
    protocol: ProtocolSettings

    @model_validator(mode="before")
    @classmethod
    def _apply_quick(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("scope") == "quick":
            quick = given.get("quick")
            return _changed(given, quick) if isinstance(quick, dict) else given
        return given

    @model_validator(mode="after")
    def _check_quick(self) -> "Study":
        if self.quick and self.scope == "full":
            given = self.plain() | {"scope": "quick", "quick": self.quick}
            try:
                Study.model_validate(given)
            except ValidationError as error:
                raise ValueError(f"with the values of quick in it: {first_fault(error)}") from None
        return self

    @field_validator("holdout_sizes")
    @classmethod
    def _check_holdout_sizes(cls, sizes: list[int], info: ValidationInfo) -> list[int]:
        for size in sizes:
            if size in info.data.get("sizes", []):
                raise ValueError(
                    f"{size} is in study.sizes too; a size is either fitted or held out"
                )
        return sizes

    @field_validator("block_sizes")
    @classmethod
    def _check_baseline(cls, block_sizes: list[int], info: ValidationInfo) -> list[int]:
        if BASELINE in info.data.get("variants", []) and BASELINE_BLOCK not in block_sizes:
            raise ValueError(
                f"lacks {BASELINE_BLOCK}, the block size of the baseline {BASELINE}; add it: every "
                "speedup is over that kernel"
            )
        return block_sizes


def _changed(section: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a section with the values of `changes` in it; mappings are changed key by key."""
    result = dict(section)
    for key, value in changes.items():
        own = result.get(key)
        if isinstance(own, dict) and isinstance(value, dict):
            value = _changed(own, value)
        result[key] = value
    return result


class Gpu(Section):
    """One entry a GPU: a `recording` made earlier, a live `device` of this host, or of a cluster.

    `recordings` are several of one GPU model, each of them a session: one uninterrupted
    measuring on one host. `device` is a CUDA index, a part of a GPU's name, or "auto" for all GPUs
    of this host (none is fine). Several are measured one after the other, or `at_once`. `slurm` is
    a model of GPU as Slurm calls it, of which a node measures one.
    """

    id: Annotated[
        str,
        Field(pattern="^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"),
        allowed("up to 64 letters, digits, '_', '.' and '-', the first a letter or digit"),
    ]
    recording: Text | None = None
    recordings: OneOrMore[Text] | None = None
    device: Device | None = None
    slurm: SlurmModel | None = None
    at_once: bool = False

    @property
    def folders(self) -> list[str]:
        """The recordings that were made earlier; none of a live device."""
        return self.recordings or ([self.recording] if self.recording else [])

    @field_validator("id")
    @classmethod
    def _check_id(cls, name: str) -> str:
        if name in _TAKEN:
            raise ValueError(f"{name} is taken; give the entry another id")
        return name

    @model_validator(mode="after")
    def _check_source(self) -> "Gpu":
        given = (self.recording, self.recordings, self.device, self.slurm)
        if sum(source is not None for source in given) != 1:
            raise ValueError(
                "give one of recording (a folder), recordings (folders, each a session), device "
                "(auto, a CUDA index or a GPU's name) and slurm (a model of GPU)"
            )
        if self.at_once and self.device is None:
            raise ValueError("at_once says how GPUs are measured here; it goes with device alone")
        return self


class Report(Section):
    """What the report is about: `focus` is a GPU by its id or label, by default the first."""

    focus: Text | None = None


class Toolchain(Section):
    """Compilers to use in the place of those on PATH."""

    nvcc: Text | None = None


class Config(Section):
    """The whole file."""

    study: Study
    gpus: list[Gpu]
    report: Report = Report()
    toolchain: Toolchain = Toolchain()

    @field_validator("gpus")
    @classmethod
    def _check_gpus(cls, gpus: list[Gpu]) -> list[Gpu]:
        if not gpus:
            raise ValueError("is empty; add an entry")
        ids = [gpu.id for gpu in gpus]
        for index, name in enumerate(ids):
            first = ids.index(name)
            if first < index:
                raise ValueError(f"{name} is the id of [{first}] and [{index}]; ids must differ")
            other, _, number = name.rpartition("-gpu")
            if other in ids and number.isdecimal():
                raise ValueError(
                    f"{name} is also what the tables call a GPU of {other}, if it has several; "
                    "give the entry another id"
                )
        return gpus

    @field_validator("report")
    @classmethod
    def _check_focus(cls, report: Report, info: ValidationInfo) -> Report:
        focus, ids = report.focus, [gpu.id for gpu in info.data.get("gpus", [])]
        if focus and not any(focus == name or focus.startswith(f"{name}-") for name in ids):
            raise ValueError(f"focus: {focus} is none of gpus; allowed: {', '.join(ids)}")
        return report


def load(path: Path | str, scope: str | None = None) -> Config:
    """Return the configuration in the file `path`; raises ConfigError if missing or faulty.

    A `scope` is in the place of the file's.
    """
    content = read(path)
    return validate(in_scope(content, scope) if scope else content, named(path))


def named(path: Path | str) -> str:
    """Return what messages call a configuration file, and what is laid over it."""
    return f"{path} with {_local(path).name}" if _local(path).exists() else str(path)


def _local(path: Path | str) -> Path:
    """Return the file whose values are in the place of those of a configuration file."""
    return Path(path).with_suffix(f".local{Path(path).suffix}")


def in_scope(content: Any, scope: str) -> Any:
    """Return the content of a configuration file with another scope of the study, if it has one."""
    if not isinstance(content, dict) or not isinstance(content.get("study"), dict):
        return content
    return {**content, "study": {**content["study"], "scope": scope}}


def validate(content: Any, name: str) -> Config:
    """Return the configuration that `content` is (mappings and lists, as read from YAML).

    Raises ConfigError, whose message begins with `name`, if it is none.
    """
    try:
        return Config.model_validate(content)
    except ValidationError as error:
        raise ConfigError(f"{name}: {first_fault(error)}") from None


class _Loader(yaml.SafeLoader):
    """Safe YAML without aliases and without a key given twice, where YAML would drop the first."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        mark = self.peek_event().start_mark
        if self.check_event(yaml.AliasEvent):
            raise yaml.composer.ComposerError(
                problem="an alias (*) stands for another value; write that", problem_mark=mark
            )
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise yaml.composer.ComposerError(
                problem=f"more than {_MOST_DEPTH} levels in each other", problem_mark=mark
            )
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        for index, (key, _) in enumerate(node.value):
            if key.value in keys[:index]:
                raise yaml.constructor.ConstructorError(
                    problem=f"the key {key.value} stands twice", problem_mark=key.start_mark
                )
        return super().construct_mapping(node, deep)


def read(path: Path | str) -> Any:
    """Return the content of a configuration file, unchecked; raises ConfigError if none is there.

    Of ``config.yaml``, the values of a ``config.local.yaml`` beside it are in the place of its own,
    mappings key by key.
    """
    content = _read(path)
    if not _local(path).exists():
        return content
    changes = _read(_local(path))
    if not isinstance(content, dict) or not isinstance(changes or {}, dict):
        raise ConfigError(
            f"{_local(path)}: is not a mapping of keys to values; write keys as in {path}"
        )
    return _changed(content, changes or {})


def _read(path: Path | str) -> Any:
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ConfigError(f"{path}: has more than {_MOST_BYTES} bytes; name a configuration")
        return yaml.load(data.decode(), _Loader)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; name a configuration file") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is no text in UTF-8; name a configuration file") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: {_yaml_fault(error)}; correct the YAML there") from None
    except (ValueError, LookupError, AttributeError, TypeError) as error:  # no date, no number
        raise ConfigError(f"{path}: has a value that is none ({error}); correct it") from None


def _yaml_fault(error: yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return " ".join(str(error).split())
    mark = error.problem_mark
    return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
