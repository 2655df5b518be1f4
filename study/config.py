"""The study's configuration file: its keys and their allowed values."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

import cpu_reference.catalog
from base.errors import StudyError
from base.validation import (
    Distinct,
    OneOrMore,
    Section,
    allowed,
    check_known,
    first_fault,
    name_in,
    not_empty,
)
from kernels.catalog.baselines import BASELINES, FASTEST_NAIVE, NAIVE, NAIVE_BLOCK
from kernels.catalog.catalog import Catalog
from kernels.catalog.entries import VARIANTS
from kernels.catalog.locations import LOCATIONS
from kernels.catalog.product import Product, products_of
from kernels.products.shape import LARGEST_SIZE, Shape
from kernels.theory.tiles import number_of
from study.config_file import ConfigError, among, changed, in_scope, named, read

# Ids that tables use for published times and for cubins built here.
_TAKEN = ("published", "tree")
_MOST_PRODUCTS = 20_000  # limit for a study on a GPU, and on the CPU


def _check_shape(text: int | str) -> int | str:
    try:
        Shape.parse(text)
    except StudyError as error:
        raise ValueError(str(error)) from None
    return text


def _catalog(info: ValidationInfo) -> Catalog:
    return info.context["catalog"] if info.context else VARIANTS


def _check_variant(name: str, info: ValidationInfo) -> str:
    check_known("variant", name, _catalog(info))
    return name


Count = Annotated[int, Field(ge=0, lt=2**53), allowed("a whole number from 0 to 2^53")]
PositiveCount = Annotated[int, Field(ge=1, le=10**6), allowed("a whole number from 1 to 1000000")]
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
        "a whole number from 1, or a text such as 17x33x65 (MxKxN) or 3x17x33x65 (BATCHxMxKxN), "
        "with less than 2^31 elements per matrix"
    ),
]
# Sizes, of which repeated ones count once.
AnySizes = Annotated[list[Size], AfterValidator(lambda sizes: list(dict.fromkeys(sizes)))]
Sizes = Annotated[AnySizes, AfterValidator(not_empty)]
Share = Annotated[float, Field(gt=0, lt=1), allowed("a number above 0 and below 1")]
# A time in seconds.
Positive = Annotated[float, Field(gt=0, le=1e6), allowed("a number above 0 to 1e6")]
NotNegative = Annotated[float, Field(ge=0, le=1e6), allowed("a number from 0 to 1e6")]
HangLimit = Annotated[float, Field(ge=1, le=1e6), allowed("a number of seconds from 1 to 1e6")]
Text = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,4096}$"), allowed("one line of text")]
Variant = Annotated[str, AfterValidator(_check_variant)]
CpuVariant = Annotated[str, name_in("variant", cpu_reference.catalog.VARIANTS)]
Threads = Annotated[
    Annotated[int, Field(ge=1, le=1024)] | Literal["all"],
    allowed("a whole number from 1 to 1024, or all"),
]
Device = Annotated[
    Count | Annotated[str, Field(pattern="[A-Za-z]")],
    allowed("auto, a whole number from 0, or part of a GPU's name"),
]
SlurmModel = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9_.]+$"),
    allowed("a GPU model as in `scontrol show node` (gpu:MODEL:1)"),
]


class BlockSizeLimit(Section):
    """The range of sizes (longest edge of a matrix) at which one block size is measured."""

    block_size: PositiveCount  # also a tile shape: 64128 is 64 x 128
    smallest_size: Size = 1
    largest_size: Size = LARGEST_SIZE

    def excludes(self, product: Product) -> bool:
        """Return whether a product has this block size and a size outside the range."""
        size = product.shape.largest
        within = self.smallest_size <= size <= self.largest_size
        return number_of(product.block_size) == self.block_size and not within


class Series(Section):
    """Products of any shape and element type; a variant computes those that it supports.

    `host_memory` lists locations of the matrices, by default those of the study.
    """

    variants: OneOrMore[Variant]
    dtypes: OneOrMore[Literal["float32", "float64", "int32", "float16", "bfloat16"]]
    block_sizes: Distinct[BlockSize]
    shapes: OneOrMore[ShapeText]
    host_memory: OneOrMore[Annotated[str, name_in("location", LOCATIONS)]] | None = None

    @model_validator(mode="after")
    def _check_variants(self, info: ValidationInfo) -> "Series":
        shapes = [Shape.parse(text) for text in self.shapes]
        given = (self.dtypes, self.block_sizes, shapes, _catalog(info))
        for name in self.variants:
            if not any(products_of([name], *given)):
                raise ValueError(
                    f"{name} supports none of the series' shapes with its dtypes and block_sizes; "
                    "see `gemm-study list`"
                )
        return self


class CpuSizeLimit(Section):
    """The largest size for a CPU variant, or for a number of threads: one of the two.

    For products that are not square it limits the number of operations.
    """

    variant: CpuVariant | None = None
    threads: PositiveCount | None = None
    largest_size: Size


class CpuStudy(Section):
    """Measurements on the CPU: square float32 matrices; other `shapes` for libraries only.

    Block sizes apply to blocked variants. Thread counts apply to parallel variants ("all": one
    thread per CPU that the process may use); counts above "all" are not measured, and "all" has no
    limit. A variant may use fewer threads than its count for a small product.
    """

    variants: OneOrMore[CpuVariant]
    sizes: Sizes
    shapes: list[ShapeText] = Field(default_factory=list)
    size_limits: list[CpuSizeLimit] = Field(default_factory=list)
    block_sizes: OneOrMore[Size]
    threads: OneOrMore[Threads]

    @model_validator(mode="after")
    def _check_products(self) -> "CpuStudy":
        if any((one.variant is None) == (one.threads is None) for one in self.size_limits):
            raise ValueError("size_limits: give each limit either a variant or threads")
        largest = {limit.variant: limit.largest_size for limit in self.size_limits}
        if all(largest.get(name, LARGEST_SIZE) < min(self.sizes) for name in self.variants):
            raise ValueError("size_limits exclude every size; add smaller sizes, or raise a limit")
        if len(self.variants) * len(self.sizes) * len(self.block_sizes) > _MOST_PRODUCTS:
            raise ValueError(f"has more than {_MOST_PRODUCTS} products; remove sizes")
        return self


class Interference(Section):
    """The kernel that is timed on one GPU, with and without traffic on the host's other GPUs."""

    variant: Variant
    block_size: BlockSize


class Energy(Section):
    """Matrix sizes at which energy, power and clock are measured, during `length_s` of launches.

    `fastest` is the number of variants measured at each size (default: all).
    """

    sizes: Sizes
    length_s: Positive
    fastest: PositiveCount | None = None


class Throughput(Section):
    """Sequences of products, with their copies, over several streams.

    Each variant has its fastest block size. `streams` lists numbers of streams for independent
    products; `reuse` lists numbers of products that share A.
    """

    variants: OneOrMore[Variant]
    sizes: Sizes
    streams: OneOrMore[Annotated[int, Field(ge=1, le=64)]]
    reuse: OneOrMore[PositiveCount]


class ProtocolSettings(Section):
    """How many samples a cell gets (see `measurement.sampling.protocol`); times are in seconds."""

    confidence: Share  # level of the interval of a median
    samples: PositiveCount  # samples per cell if they fit in the budget
    gpu_cell_budget_s: Positive
    cpu_cell_budget_s: Positive
    single_run_s: Positive  # a longer run is the only sample of its cell
    warm_up_s: NotNegative  # warm-up before each sample of a cell with a shorter run
    cpu_warm_run_s: NotNegative  # one warm run before each sample of a CPU cell with a shorter run
    caches: Literal["warm", "flushed"] = "warm"  # state of the caches before a kernel-only sample
    cold_starts: Count
    hang_limit_s: HangLimit  # a cell without a result for this long fails


class Study(Section):
    """The measurements: variants on square float32 matrices, other `series`, and the CPU.

    In the scope "quick", values under `quick` override the study's own, mappings key by key. They
    are enough for the three answers of the report. The default scope is "full". A size in both
    `sizes` and `holdout_sizes` is held out.
    """

    scope: Literal["quick", "full"] = "full"
    quick: dict[str, Any] = Field(default_factory=dict, exclude=True)
    seed: Count  # seed of the random matrices and of the order in rounds
    dtypes: OneOrMore[Literal["float32"]]
    sizes: Sizes
    holdout_sizes: AnySizes  # held out of the fits, to test their predictions
    variants: OneOrMore[Variant]
    block_sizes: OneOrMore[BlockSize]
    block_size_limits: list[BlockSizeLimit] = Field(default_factory=list)
    series: list[Series] = Field(default_factory=list)
    host_memory: OneOrMore[Literal["pinned", "pageable"]]
    cpu: CpuStudy
    interference: Interference | None = None
    energy: Energy | None = None
    throughput: Throughput | None = None
    protocol: ProtocolSettings
    _catalog: Catalog = PrivateAttr(VARIANTS)

    @model_validator(mode="before")
    @classmethod
    def _apply_quick(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("scope") == "quick":
            quick = given.get("quick")
            return changed(given, quick) if isinstance(quick, dict) else given
        return given

    @model_validator(mode="after")
    def _check_quick(self, info: ValidationInfo) -> "Study":
        if self.quick and self.scope == "full":
            given = self.plain() | {"scope": "quick", "quick": self.quick}
            try:
                Study.model_validate(given, context=info.context)
            except ValidationError as error:
                raise ValueError(f"with the values of quick: {first_fault(error)}") from None
        return self

    @field_validator("quick")
    @classmethod
    def _check_quick_keys(cls, quick: dict[str, Any]) -> dict[str, Any]:
        for key in ("scope", "quick"):
            if key in quick:
                raise ValueError(f"{key} is not a value that quick can override; remove it")
        return quick

    @property
    def catalog(self) -> Catalog:
        """The catalog of variants from which the study names some."""
        return self._catalog

    def placed_products(self) -> Iterator[tuple[Product, str]]:
        """Yield the products within `block_size_limits`, each with a location of its matrices.

        Square matrices precede `series`. A product may repeat.
        """
        squares = [Shape.square(n) for n in (*self.sizes, *self.holdout_sizes)]
        studied = products_of(self.variants, self.dtypes, self.block_sizes, squares, self.catalog)
        yield from self._placed(studied, self.host_memory)
        for one in self.series:
            shapes = [Shape.parse(text) for text in one.shapes]
            listed = products_of(one.variants, one.dtypes, one.block_sizes, shapes, self.catalog)
            yield from self._placed(listed, one.host_memory or self.host_memory)

    def _placed(
        self, products: Iterable[Product], locations: Iterable[str]
    ) -> Iterator[tuple[Product, str]]:
        for product in products:
            if any(limit.excludes(product) for limit in self.block_size_limits):
                continue
            for location in filter(product.entry.takes_memory, locations):
                yield product, location

    @model_validator(mode="after")
    def _check_products(self, info: ValidationInfo) -> "Study":
        self._catalog = _catalog(info)
        products = {one for one, _ in islice(self.placed_products(), 4 * _MOST_PRODUCTS + 1)}
        if len(products) > _MOST_PRODUCTS:
            raise ValueError(f"has more than {_MOST_PRODUCTS} products; remove sizes or variants")
        if not products:
            raise ValueError(
                "its variants support none of its sizes with block_size_limits and host_memory; "
                "see `gemm-study list`"
            )
        return self

    @field_validator("block_sizes")
    @classmethod
    def _check_baseline(cls, block_sizes: list[int], info: ValidationInfo) -> list[int]:
        if NAIVE in info.data.get("variants", []) and NAIVE_BLOCK not in block_sizes:
            raise ValueError(
                f"lacks {NAIVE_BLOCK}, the block size of the baseline {NAIVE}; add it, or "
                f"remove {NAIVE}"
            )
        return block_sizes


class Gpu(Section):
    """One GPU of the report: a `device` of this host, a Slurm GPU model, or earlier recordings.

    `recording` is one recording, `recordings` are several of one GPU model. Each is a session: one
    uninterrupted measurement on one host. `device` is a CUDA index, part of a GPU's name, or "auto"
    for all GPUs of this host, if any. Several GPUs are measured one after the other, or together
    with `at_once`. `slurm` is a GPU model as Slurm names it; each node measures one GPU.
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
    at_once: Annotated[bool, allowed("true or false")] = False

    @property
    def folders(self) -> list[str]:
        """The folders of the earlier recordings; empty for a GPU to be measured."""
        return self.recordings or ([self.recording] if self.recording else [])

    @field_validator("id")
    @classmethod
    def _check_id(cls, name: str) -> str:
        if name in _TAKEN:
            raise ValueError(f"{name} is reserved; use another id")
        return name

    @model_validator(mode="after")
    def _check_source(self) -> "Gpu":
        given = (self.recording, self.recordings, self.device, self.slurm)
        if sum(source is not None for source in given) != 1:
            raise ValueError(
                "use exactly one of recording (a folder), recordings (folders, each a session), "
                "device (auto, a CUDA index or a GPU's name) and slurm (a GPU model)"
            )
        if self.at_once and self.device is None:
            raise ValueError("at_once applies to device only; remove it")
        return self


class Report(Section):
    """Settings of the report: `focus` is the id or label of its main GPU (default: the first).

    `baseline` names the variant with which the ladder's kernels are compared.
    """

    focus: Text | None = None
    baseline: Annotated[str, name_in("baseline", BASELINES)] = FASTEST_NAIVE


class Toolchain(Section):
    """Compilers to use instead of those on PATH."""

    nvcc: Text | None = None


class Config(Section):
    """A configuration file with all of its sections."""

    study: Study
    gpus: list[Gpu]
    report: Report = Report()
    toolchain: Toolchain = Toolchain()
    _name: str = PrivateAttr("")

    @property
    def name(self) -> str:
        """The file's name, for messages."""
        return self._name

    @field_validator("gpus")
    @classmethod
    def _check_gpus(cls, gpus: list[Gpu]) -> list[Gpu]:
        if not gpus:
            raise ValueError("is empty; add an entry")
        ids = [gpu.id for gpu in gpus]
        for index, name in enumerate(ids):
            first = ids.index(name)
            if first < index:
                raise ValueError(f"{name} is the id of [{first}] and [{index}]; use different ids")
            other, _, number = name.rpartition("-gpu")
            if other in ids and number.isdecimal():
                raise ValueError(
                    f"{name} is also the name of a GPU of {other} in the tables; use another id"
                )
        return gpus

    @field_validator("report")
    @classmethod
    def _check_focus(cls, report: Report, info: ValidationInfo) -> Report:
        focus, ids = report.focus, [gpu.id for gpu in info.data.get("gpus", [])]
        if focus and not among(focus, ids):
            raise ValueError(f"focus: {focus} is not in gpus; use one of {', '.join(ids)}")
        return report


def load(path: Path | str, scope: str | None = None, catalog: Catalog = VARIANTS) -> Config:
    """Return the configuration in the file `path`; raise ConfigError if missing or faulty.

    `scope` overrides the scope in the file. The file may name the variants in `catalog`.
    """
    content = read(path)
    return validate(in_scope(content, scope) if scope else content, named(path), catalog)


def validate(content: Any, name: str, catalog: Catalog = VARIANTS) -> Config:
    """Return the configuration with this `content` (mappings and lists, as read from YAML).

    Raise ConfigError, beginning with `name`, if it is faulty.
    """
    try:
        config = Config.model_validate(content, context={"catalog": catalog})
        config._name = name
        return config
    except ValidationError as error:
        raise ConfigError(f"{name}: {first_fault(error)}") from None
    except UnicodeEncodeError:
        raise ConfigError(f"{name}: a text contains a surrogate (\\uD800 to \\uDFFF)") from None
