"""All kernels by nvcc: they compile; their resources and their machine code.

nvcc and nvdisasm take longer to start than for most kernels: the kernels for an architecture are
one source file.
"""

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from kernels.catalog.entries import VARIANTS
from kernels.catalog.product import Product, block_sizes
from kernels.cubins import compile as building
from kernels.cubins import machine_code, toolchain
from kernels.cubins.build import Build
from kernels.cubins.machine_code import (
    barriers,
    fma_share,
    fmas,
    instructions,
    loads_by_width,
    parse,
    unrolling,
)
from kernels.cubins.occupancy import LIMITS
from kernels.products.elements import ELEMENTS
from kernels.products.shape import Shape
from tests.support import ROOT
from tests.support.cache import code, made

pytestmark = pytest.mark.slow


def few_blocks(name):
    """Return one block size, or of tiles the largest and the smallest."""
    sizes = block_sizes(VARIANTS[name], [32])
    return [sizes[0], sizes[-1]] if VARIANTS[name].fixed_blocks else sizes


# Every kernel at few block sizes, exact and, if there is one, guarded; of other types than float32
# one build.
WANTED = [
    Build(name, block, dtype, guarded)
    for name, entry in VARIANTS.items()
    if entry.kernel_name == name
    for dtype in entry.dtypes
    for block in few_blocks(name)
    for guarded in ([False, True] if max(entry.tile(block)) > 1 else [False])
    if guarded or dtype == "float32" or max(entry.tile(block)) == 1
]


def launch_of(build):
    return Product(build.variant, build.dtype, Shape.square(1024), build.block_size).launch


# For the oldest architecture, which has the least shared memory and registers: the kernels that
# need most, if they can be launched there.
OLDEST = [
    b
    for b in WANTED
    if b.guarded
    and VARIANTS[b.variant].family in ("register", "buffered")
    and launch_of(b).dynamic_shared_bytes <= LIMITS["7.5"].max_shared_bytes_per_block
]
COMPILED = {"sm_75": OLDEST, "sm_90": WANTED}
NAIVE, BLOCK = (Build(name, 32, "float32", False) for name in ("naive", "block"))
TILE, TENSOR, TMA, SPLIT = (
    Build(name, None, "float32", False)
    for name in ("register_tile", "sgemm_tensor", "sgemm_tensor_tma", "split_parts")
)
INTEGERS, DOUBLES = (Build("mm_tile", 8, dtype, False) for dtype in ("int32", "float64"))
LOOPS = [NAIVE, BLOCK, TILE, INTEGERS, DOUBLES]
ON_TENSOR_CORES = [TENSOR, TMA, SPLIT]
# Compiled together; exhaustive tests also compile for all, and the others of `COMPILED`.
UNITS = {
    "sm_75": [*LOOPS, *ON_TENSOR_CORES],
    "sm_80": ON_TENSOR_CORES[::2],
    "sm_90": [*LOOPS, *ON_TENSOR_CORES],
    "sm_120": LOOPS,
}


def target_of(build, architecture):
    """Return the architecture that nvcc compiles a build for, such as sm_90a."""
    words = building.command(Path("nvcc"), build, architecture, Path("x.cubin"))
    return next(word.removeprefix("-arch=") for word in words if word.startswith("-arch="))


def symbol(build):
    return build.stem.replace("-", "_")


def unit(builds):
    """Return one source file with all builds, in which each kernel has a name of its own."""
    parts = []
    for build in builds:
        text = (ROOT / build.source).read_text()
        macros = {build.variant: symbol(build), "smem": f"smem_{symbol(build)}"} | build.defines
        own = [*macros, *re.findall(r"^ *# *define (\w+)", text, re.MULTILINE)]
        parts += [f"namespace of_{symbol(build)} {{\n"]
        parts += [f"#define {name} {value}\n" for name, value in macros.items()]
        parts += [f'#include "{ROOT / build.source}"\n', *(f"#undef {name}\n" for name in own)]
        parts += ["}\n"]
    return "".join(parts)


class Unit:
    """What ptxas says of each kernel of a unit, and its machine code, by its name."""

    def __init__(self, nvcc, target, source):
        self.disassembler = toolchain.find_disassembler(nvcc)
        flags = ["-cubin", f"-arch={target}", *building.FLAGS]

        def make(out):
            (out / "x.cu").write_text(source)
            command = [nvcc, *flags, "-o", out / "x.cubin", out / "x.cu"]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            (out / "ptxas").write_text(done.stdout + done.stderr)
            if self.disassembler:
                text = machine_code._disassembled(out / "x.cubin", self.disassembler)
                (out / "code").write_text(text)

        inputs = [toolchain.nvcc_version(nvcc), flags, source, code("kernels"), self.disassembler]
        folder = made("unit", inputs, make)
        words = re.split(r"Compiling entry function '(\w+)'", (folder / "ptxas").read_text())
        self.said = dict(zip(words[1::2], words[2::2], strict=True))
        if self.disassembler:
            texts = re.split(r"^(?=\.text\.)", (folder / "code").read_text(), flags=re.M)[1:]
            self.code = {text[6 : text.index(":")]: text for text in texts}

    def resources(self, build):
        said, patterns = self.said[symbol(build)], building._RESOURCES.items()
        return {key: building._resource(pattern, said) for key, pattern in patterns}

    def instructions(self, build):
        if self.disassembler is None:
            pytest.skip("no nvdisasm next to nvcc, on PATH or in this Python environment")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(machine_code, "_disassembled", lambda *_: self.code[symbol(build)])
            return instructions(Path("x.cubin"), self.disassembler, symbol(build))


@pytest.fixture(scope="module")
def unit_of(nvcc):
    """Return a function: the unit that contains a build for an architecture."""

    @cache
    def of_target(target, is_few):
        architecture = target.removesuffix("a")
        few = UNITS[architecture]
        builds = few if is_few else [b for b in COMPILED[architecture] if b not in few]
        return Unit(nvcc, target, unit(b for b in builds if target_of(b, architecture) == target))

    def unit_of(build, architecture):
        return of_target(target_of(build, architecture), build in UNITS[architecture])

    return unit_of


def static_shared_bytes(build):
    words = {"tile_conflict_free": 32 * 32 + 32 * 33, "outer_product": 16 * 16}
    words |= {"outer_product_unrolled": 16 * 16, "outer_product_prefetch": 2 * 16 * 16}
    words["register_tile"] = 8 * 128 + 8 * 128
    words["register_tile_double_buffered"] = 2 * words["register_tile"]
    words["register_tile_conflict_free"] = 2 * (8 * 132 + 8 * 128)
    words["register_tile_async"] = 2 * (16 * 132 + 16 * 128)
    tiles = VARIANTS[build.variant].family == "block"
    elements = words.get(build.variant, 2 * 32 * 32 if tiles else 0)
    return elements * ELEMENTS[build.dtype].bytes


@pytest.mark.exhaustive
@pytest.mark.parametrize("architecture", COMPILED)
def test_both_builds_of_every_variant_compile_within_its_resources(unit_of, architecture):
    for build in COMPILED[architecture]:
        found = unit_of(build, architecture).resources(build)
        assert found.pop("static_shared_bytes") == static_shared_bytes(build), build
        registers = found.pop("registers_per_thread")
        assert 8 <= registers <= 65536 // launch_of(build).threads_per_block, build
        assert set(found.values()) == {0}, "no stack, nothing spilled"


@pytest.mark.exhaustive
def test_bounds_checks_and_element_type_change_the_instructions_of_every_kernel(unit_of):
    for name in {build.variant for build in WANTED}:
        own = [build for build in WANTED if build.variant == name]
        assert fmas(unit_of(own[0], "sm_90").instructions(own[0]), "kernel")
        codes = [parse(unit_of(b, "sm_90").code[symbol(b)], symbol(b)).instructions for b in own]
        assert all(codes.count(each) == 1 for each in codes), name


def by_architecture(*cases):
    """Return cases (build, architecture, ...): `make test` compiles for sm_90 only."""
    exhaustive = pytest.mark.exhaustive
    return [pytest.param(*c, marks=[] if "sm_90" in c else exhaustive) for c in cases]


@pytest.mark.parametrize(
    ("build", "architecture", "instruction"),
    by_architecture(
        *((TENSOR, *a) for a in (("sm_75", None), ("sm_80", "HMMA"), ("sm_90", "HGMMA"))),
        *((TMA, *a) for a in (("sm_75", None), ("sm_90", "HGMMA"))),
        *((SPLIT, a, None) for a in ("sm_75", "sm_80", "sm_90")),
    ),
    ids=str,
)
def test_tensor_kernels_use_instructions_of_their_architecture(
    unit_of, build, architecture, instruction
):
    if build != SPLIT:
        resources = unit_of(build, architecture).resources(build)
        assert (resources["spill_store_bytes"], resources["spill_load_bytes"]) == (0, 0)
    counts = unit_of(build, architecture).instructions(build)
    found = {count.opcode: count.count for count in counts if count.scope == "loop"}
    assert {name for name in found if name.endswith("MMA")} == ({instruction} - {None})
    if (build, instruction) == (TENSOR, "HGMMA"):
        assert found["HGMMA"] == 3 * 4, "three products of four times 16 steps of k"
        assert unrolling(counts, 64) == 0


@pytest.mark.parametrize("architecture", by_architecture(["sm_75"], ["sm_90"], ["sm_120"]))
def test_main_loops_have_the_unrolling_and_loads_that_the_sources_describe(unit_of, architecture):
    counts = unit_of(NAIVE, architecture).instructions(NAIVE)
    steps = fmas(counts, "loop")
    assert steps in (4, 8, 16)
    assert loads_by_width(counts, "loop") == {32: 2 * steps}
    assert set(loads_by_width(counts, "kernel")) == {32}
    assert loads_by_width(counts, "kernel", "LDS") == {}
    assert barriers(counts, "kernel") == 0
    assert {c.opcode for c in counts} >= {"FFMA", "EXIT", "STG", "BRA"}
    assert 0.1 < fma_share(counts, "loop") < 0.5
    counts = unit_of(BLOCK, architecture).instructions(BLOCK)
    assert fmas(counts, "loop") == 32, "k is unrolled completely"
    assert loads_by_width(counts, "loop") == {32: 2}
    assert barriers(counts, "loop") == barriers(counts, "kernel") == 2
    assert not any(c.opcode == "NOP" for c in counts)
    counts = unit_of(TILE, architecture).instructions(TILE)
    assert unrolling(counts, sums_per_thread=64) == 8
    assert loads_by_width(counts, "loop") == {128: 2}
    assert loads_by_width(counts, "loop", "LDS") == {128: 32}
    assert barriers(counts, "loop") == 2
    assert fma_share(counts, "loop") > 0.8
    for build, opcode, bits in ((INTEGERS, "IMAD", 32), (DOUBLES, "DFMA", 64)):
        counts = unit_of(build, architecture).instructions(build)
        steps = sum(c.count for c in counts if (c.scope, c.opcode) == ("loop", opcode))
        assert fmas(counts, "loop") == steps, "addresses of integers are no FMAs"
        assert steps in (8, 16, 32)
        assert loads_by_width(counts, "loop").keys() == {bits}
