"""Ceilings: what is planned for a card, the arithmetic, the probes' code, and a real card."""

import itertools
import re
import shutil
import subprocess
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.build import architecture, build_cubin
from kernels.catalog import PROBES
from kernels.toolchain import find_nvcc
from measurement import ceilings
from measurement.ceilings import ROUNDS, SLOT_BYTES, Ceiling, gpu_ceilings, timer_ceilings
from measurement.discovery import driver
from measurement.errors import StudyError

ROOT = Path(__file__).resolve().parent.parent
SOURCE = (ROOT / PROBES.source).read_text()
KIB, MIB, GIB = 2**10, 2**20, 2**30
H100 = (50 * MIB, 78 * GIB)


@given(st.integers(1, 3000), st.integers(0, 10))
def test_ring_is_one_cycle_through_every_slot(slots, seed):
    successors = ceilings.random_ring(slots, seed)
    assert successors.shape == (slots,)
    assert successors.dtype == np.uint32, "as lay_ring reads it"
    at, seen = 0, set()
    for _ in range(slots):
        at = int(successors[at])
        seen.add(at)
    assert at == 0
    assert seen == set(range(slots))


def test_ring_is_in_no_order_that_could_be_fetched_ahead():
    successors = ceilings.random_ring(8192).astype(int)
    steps = Counter((successors - np.arange(8192)).tolist())
    assert max(steps.values()) < 10
    assert (successors != ceilings.random_ring(8192, seed=1)).any()
    np.testing.assert_array_equal(successors, ceilings.random_ring(8192))


def test_rings_of_every_cyclic_order_are_equally_likely():
    cycles = Counter(tuple(ceilings.random_ring(4, seed).tolist()) for seed in range(3000))
    assert len(cycles) == 6
    assert min(cycles.values()) > 400


def test_ring_for_the_largest_buffer_is_made_at_once():
    begin = time.perf_counter()
    ceilings.random_ring(GIB // SLOT_BYTES)
    assert time.perf_counter() - begin < 5


def test_chases_of_a_card_stay_in_their_level():
    l1, l2, dram = ceilings.plan_chases(*H100)
    assert [c.level for c in (l1, l2, dram)] == ["l1", "l2", "dram"]
    assert [c.kernel for c in (l1, l2, dram)] == [
        "chase_through_l1",
        "chase_past_l1",
        "chase_past_l1",
    ]
    assert l1.ring_bytes == 16 * KIB
    assert 256 * KIB < l2.ring_bytes <= H100[0] // 4, "well over any L1, well below the L2"
    assert dram.ring_bytes == 200 * MIB
    for resident in (l1, l2):
        assert resident.warm_up * SLOT_BYTES == resident.ring_bytes, "one lap"
    assert dram.warm_up == 0


@given(st.integers(512 * KIB, 512 * MIB), st.integers(0, 200 * GIB))
def test_chases_of_any_card_fit_it(l2_bytes, free_bytes):
    chases = {chase.level: chase for chase in ceilings.plan_chases(l2_bytes, free_bytes)}
    assert chases["l2"].ring_bytes <= l2_bytes // 8
    assert ("dram" in chases) == (24 * l2_bytes <= free_bytes // 6 * 6)
    if "dram" in chases:
        ring = chases["dram"].ring_bytes
        assert ring <= free_bytes // 6
        assert ring == min(4 * l2_bytes, GIB)
        assert chases["dram"].steps <= ring // SLOT_BYTES, "no slot twice"
        assert 2 * ceilings.device_copy_bytes(free_bytes) > l2_bytes, "what clears the L2"


def test_slots_do_not_share_a_line():
    assert SLOT_BYTES >= 128


@pytest.mark.parametrize(
    ("free", "largest", "count"),
    [(80 * GIB, 256 * MIB, 9), (6 * 256 * MIB, 256 * MIB, 9), (6 * 256 * MIB - 6, 64 * MIB, 8)],
)
def test_copies_go_up_by_fours_to_a_sixth_of_memory(free, largest, count):
    sizes = ceilings.copy_sizes(free)
    assert (sizes[0], sizes[-1], len(sizes)) == (4096, largest, count)
    assert all(b == 4 * a for a, b in itertools.pairwise(sizes))


def test_copy_within_the_card_is_a_gibibyte_or_a_sixth():
    assert ceilings.device_copy_bytes(80 * GIB) == GIB
    assert ceilings.device_copy_bytes(3 * GIB) == 512 * MIB
    assert ceilings.device_copy_bytes(3 * GIB - 1) == 511 * MIB
    assert ceilings.copy_sizes(3 * GIB)[-1] <= ceilings.device_copy_bytes(3 * GIB)


def test_rate_counts_two_operations_a_multiply_add():
    """On an H100 at its highest clock, one launch at the theoretical peak."""
    blocks = ceilings.fma_blocks(132, 2048)
    assert blocks * ceilings.FMA_THREADS == 132 * 2048
    assert ceilings.fma_blocks(46, 1536) * ceilings.FMA_THREADS == 46 * 1536
    cycles = ceilings.fma_flop(blocks) / (2 * 128 * 132)
    assert cycles == 2048 / 128 * 8 * ceilings.FMA_STEPS
    assert 4e-3 < cycles / 1.98e9 < 20e-3, "long against a launch, short against the study"


def test_constants_are_those_of_the_source():
    defines = dict(re.findall(r"#define (\w+) (\d+)", SOURCE))
    assert int(defines["CHAINS"]) == ceilings.CHAINS
    assert int(defines["SHARED_POINTERS"]) == ceilings._SHARED_POINTERS


def test_parameters_are_those_of_the_source():
    kinds = {"float": "f", "int": "i", "unsigned long long": "P"}
    kernels = re.findall(r'extern "C" __global__ void (\w+)\(([^)]*)\)', SOURCE)
    types = {
        name: "".join(
            "P" if "*" in parameter else kinds[parameter.rsplit(" ", 1)[0].strip()]
            for parameter in re.split(r",\s*", parameters)
        )
        for name, parameters in kernels
    }
    assert types == ceilings._KERNELS


def test_sum_of_the_chains_is_never_the_one_that_is_stored():
    factor, addend, steps, never = ceilings._FMA_ARGUMENTS
    chain = np.arange(ceilings.FMA_THREADS + ceilings.CHAINS, dtype=np.float32)
    for _ in range(100):
        chain = chain * np.float32(factor) + np.float32(addend)
    assert len(set(chain)) == 1, "converged"
    assert ceilings.CHAINS * chain[0] != never
    assert steps % 32 == 0, "whole turns of the unrolled loop"


def test_smallest_step_of_a_clock_is_the_smallest_that_is_one():
    readings = np.array([100, 100, 140, 140, 170, 300])
    assert ceilings.smallest_step(readings) == 30e-9


def test_rounds_are_interleaved_and_the_first_is_not_kept():
    calls = []

    def measurement(name):
        def measure():
            calls.append(name)
            return [(f"{name}_s", "pinned", 4096, float(len(calls)))]

        return measure

    found = ceilings.in_rounds([measurement("a"), measurement("b")])
    assert calls == ["a", "b"] * (ROUNDS + 1)
    assert found == [
        Ceiling(f"{name}_s", "pinned", 4096, number, float(2 * number + 1 + position))
        for number in range(1, ROUNDS + 1)
        for position, name in enumerate("ab")
    ]


def by_quantity(found):
    """Return values by quantity, host memory and size; each has one of every round."""
    values = {}
    for ceiling in found:
        key = (ceiling.quantity, ceiling.host_memory, ceiling.size_bytes)
        values.setdefault(key, {})[ceiling.round] = ceiling.value
    assert len(found) == ROUNDS * len(values)
    assert {tuple(rounds) for rounds in values.values()} == {tuple(range(1, ROUNDS + 1))}
    return {key: np.array(list(rounds.values())) for key, rounds in values.items()}


def test_clock_of_this_host():
    values = by_quantity(timer_ceilings())
    assert set(values) == {("timer_resolution_s", None, None), ("empty_total_s", None, None)}
    resolution, empty = (
        values[name, None, None] for name in ("timer_resolution_s", "empty_total_s")
    )
    assert (resolution > 0).all()
    assert (resolution < 1e-3).all()
    assert (empty >= 0).all()
    assert (empty < 1e-3).all()


@pytest.fixture(scope="module")
def nvcc():
    """The real compiler of this host."""
    try:
        return find_nvcc()
    except StudyError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(("name", "threads"), [("sm_75", 1024), ("sm_90", 2048), ("sm_120", 1536)])
def test_probes_are_built_like_a_variant(nvcc, tmp_path, name, threads):
    result = build_cubin(nvcc, PROBES, name, tmp_path / f"{PROBES.stem}.cubin")
    assert (result.variant, result.block_size, result.build) == ("probes", None, "exact")
    assert result.static_shared_bytes == 4 * ceilings._SHARED_POINTERS
    assert (result.spill_store_bytes, result.spill_load_bytes, result.stack_bytes) == (0, 0, 0)
    assert result.registers_per_thread * threads <= 65536, "fp32_fma fills the SMs"


@pytest.mark.parametrize("name", ["sm_75", "sm_90", "sm_120"])
def test_probes_keep_their_multiply_adds_and_the_kinds_of_their_loads(nvcc, tmp_path, name):
    disassembler = shutil.which("nvdisasm") or shutil.which(nvcc.with_name("nvdisasm"))
    if not disassembler:
        pytest.skip("no nvdisasm on PATH or beside nvcc")
    cubin = tmp_path / f"{PROBES.stem}.cubin"
    build_cubin(nvcc, PROBES, name, cubin)
    done = subprocess.run([disassembler, cubin], capture_output=True, text=True, check=True)
    found, operations = {}, Counter()
    for line in done.stdout.splitlines():
        if match := re.match(r"\.text\.(\w+):", line):
            found[match[1]] = operations = Counter()
        elif match := re.search(r"/\*[0-9a-f]{4}\*/\s+(?:@!?U?P\d+ )?([A-Z0-9_.]+)", line):
            operations[match[1]] += 1
    assert found["fp32_fma"]["FFMA"] >= 32 * ceilings.CHAINS
    scope = {"chase_through_l1": ("STRONG.SM", "STRONG.CTA"), "chase_past_l1": ("STRONG.GPU",)}
    for kernel, scopes in scope.items():
        loads = {operation for operation in found[kernel] if operation.startswith("LDG")}
        assert loads <= {f"LDG.E.64.{scope}" for scope in scopes}
        assert sum(found[kernel][load] for load in loads) > 16
    assert not any(operation.startswith("LDG") for operation in found["chase_shared"])
    assert sum(n for operation, n in found["chase_shared"].items() if "LDS" in operation) > 16


@pytest.fixture(scope="module")
def measured(card, nvcc, tmp_path_factory):
    """The ceilings of the first GPU of this host, their duration in s, and its device."""
    cubin = tmp_path_factory.mktemp("cubins") / f"{PROBES.stem}.cubin"
    build_cubin(nvcc, PROBES, architecture(card.compute_capability), cubin)
    cuda = driver()
    device = cuda.Device(card.index)
    context = device.make_context()
    try:
        stream = cuda.Stream()
        module = cuda.module_from_file(str(cubin))
        gpu_ceilings(cuda, device, module, stream)  # what the driver keeps, it keeps from now on
        free = cuda.mem_get_info()[0]
        begin = time.perf_counter()
        found, busy_s = gpu_ceilings(cuda, device, module, stream)
        duration_s = time.perf_counter() - begin
        assert 0.1 * duration_s < busy_s < duration_s
        kept = free - cuda.mem_get_info()[0]
        del stream, module
    finally:
        context.pop()
        context.detach()
    return by_quantity(found), duration_s, kept, device


@pytest.mark.gpu
def test_every_quantity_of_a_card_is_measured_in_every_round(measured):
    values = measured[0]
    names = Counter(quantity for quantity, _, _ in values)
    levels = ("shared", "l1", "l2", "dram")
    assert set(names) == {
        "fp32_flop_per_s",
        "device_copy_bytes_per_s",
        "h2d_bytes_per_s",
        "d2h_bytes_per_s",
        *(f"{level}_latency_{unit}" for level in levels for unit in ("s", "cycles")),
        *(f"empty_{part}_s" for part in ("total", "h2d", "kernel", "d2h")),
        "timer_resolution_s",
    }
    copies = {key[1:] for key in values if key[0] == "h2d_bytes_per_s"}
    assert copies == {key[1:] for key in values if key[0] == "d2h_bytes_per_s"}
    assert {memory for memory, _ in copies} == {"pinned", "pageable"}
    assert min(size for _, size in copies) == 4096
    for key, rounds in values.items():
        assert np.isfinite(rounds).all(), key
        assert (rounds >= 0).all(), key


def middle(values, name, memory=None, size=None):
    return float(np.median(values[name, memory, size]))


@pytest.mark.gpu
def test_latency_grows_from_level_to_level(measured):
    values = measured[0]
    levels = ("shared", "l1", "l2", "dram")
    cycles = [middle(values, f"{level}_latency_cycles") for level in levels]
    seconds = [middle(values, f"{level}_latency_s") for level in levels]
    assert cycles == sorted(cycles)
    assert cycles[2] > 3 * cycles[1], "the L2 is not the L1"
    assert cycles[3] > 1.3 * cycles[2], "DRAM is not the L2"
    clocks = np.array(cycles) / seconds
    assert clocks.min() > 0.2e9
    assert clocks.max() < 4e9


@pytest.mark.gpu
def test_rates_are_below_what_the_card_can_do_and_near_it(measured):
    values, _, _, device = measured
    names = driver().device_attribute
    clock_hz = device.get_attribute(names.CLOCK_RATE) * 1e3
    multiprocessors = device.get_attribute(names.MULTIPROCESSOR_COUNT)
    rate = middle(values, "fp32_flop_per_s")
    lanes = 64 if device.compute_capability() in ((7, 0), (7, 5), (8, 0)) else 128
    peak = 2 * lanes * multiprocessors * clock_hz
    assert 0.5 * peak < rate < peak
    size = max(size for name, _, size in values if name == "device_copy_bytes_per_s")
    memory = middle(values, "device_copy_bytes_per_s", size=size)
    largest = max(size for name, _, size in values if name == "h2d_bytes_per_s")
    for way in ("h2d", "d2h"):
        pinned = middle(values, f"{way}_bytes_per_s", "pinned", largest)
        assert 1e9 < pinned < memory
        assert pinned > middle(values, f"{way}_bytes_per_s", "pinned", 4096)
        assert middle(values, f"{way}_bytes_per_s", "pageable", largest) < 1.1 * pinned


@pytest.mark.gpu
def test_empty_pass_is_short_and_its_parts_are_within_it(measured):
    values = measured[0]
    total_s = middle(values, "empty_total_s")
    assert 1e-6 < total_s < 1e-3
    parts_s = [middle(values, f"empty_{part}_s") for part in ("h2d", "kernel", "d2h")]
    assert max(parts_s) < total_s


@pytest.mark.gpu
def test_ceilings_are_short_and_give_memory_back(measured):
    _, duration_s, kept, _ = measured
    assert kept <= 0
    assert duration_s < 5
    assert driver().Context.get_current() is None
