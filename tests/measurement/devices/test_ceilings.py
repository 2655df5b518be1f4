"""Ceilings: plans, arithmetic, machine code of the probes, fake and real GPU."""

import re
import subprocess
import time
from collections import Counter
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.cubins import machine_code
from kernels.cubins.build import PROBES, TENSOR_PROBE
from kernels.cubins.compile import architecture, build_cubin
from kernels.cubins.toolchain import find_disassembler
from measurement.devices import ceilings, probes
from measurement.devices.ceilings import ROUNDS, Ceiling, gpu_ceilings
from measurement.devices.cpu_ceilings import cpu_ceilings
from measurement.devices.discovery import driver
from measurement.devices.pieces import Trial, fastest
from measurement.devices.probes import SLOT_BYTES
from tests.support import ROOT
from tests.support.fake_cuda import FakeCuda

SOURCE = (ROOT / PROBES.source).read_text()
KIB, MIB, GIB = 2**10, 2**20, 2**30
H100 = (50 * MIB, 78 * GIB)
LEVELS = ("shared", "l1", "l2")  # read by the whole GPU
READS = ["read_shared", "read_through_l1", "read_past_l1"]


class FakeLibrary:
    """Programs for the ceilings of a CPU that take no time."""

    def touch(self, array, threads):
        assert not array.ctypes.data % 64

    def fma_flop_per_s(self, threads):
        return 1e9

    def triad_bytes_per_s(self, a, b, c, repeats, threads):
        assert repeats * 3 * a.nbytes > 40 * MIB, "some milliseconds, also of a small cache"
        return 2e9


@pytest.mark.parametrize(
    ("caches", "threads", "sizes"),
    [
        ({1: 48 * KIB, 3: 96 * MIB}, 1, {"memory": 3 * 192 * MIB, "l1": 24 * KIB, "l3": 48 * MIB}),
        ({3: 96 * MIB}, 2, {"memory": 3 * 192 * MIB}),
        ({}, 1, {"memory": 3 * 64 * MIB}),
        ({3: GIB}, 2, {"memory": 3 * GIB}),
    ],
)
def test_arrays_of_cpu_ceilings_exceed_all_caches_or_fill_half_of_one(caches, threads, sizes):
    levels = [{"level": level, "bytes": size} for level, size in caches.items()]
    found = cpu_ceilings(FakeLibrary(), levels, threads)
    measured = {one.quantity.removesuffix("_bytes_per_s"): one.size_bytes for one in found}
    assert measured == {"fp32_flop_per_s": None} | sizes
    assert {one.threads for one in found} == {threads}


@given(st.integers(1, 3000), st.integers(0, 10))
def test_the_pointer_ring_is_one_cycle_through_every_slot(slots, seed):
    successors = probes.random_ring(slots, seed)
    assert (successors.shape, successors.dtype) == ((slots,), np.uint32), "as lay_ring reads it"
    at, seen = 0, set()
    for _ in range(slots):
        at = int(successors[at])
        seen.add(at)
    assert at == 0
    assert seen == set(range(slots))


@given(st.integers(512 * KIB, 512 * MIB), st.integers(0, 200 * GIB))
def test_pointer_chases_and_sweeps_fit_into_the_caches_and_memory_of_any_gpu(l2_bytes, free_bytes):
    chases = {chase.level: chase for chase in probes.plan_chases(l2_bytes, free_bytes)}
    assert chases["l2"].ring_bytes <= l2_bytes // 8
    assert ("dram" in chases) == (24 * l2_bytes <= free_bytes // 6 * 6)
    if "dram" in chases:
        ring = chases["dram"].ring_bytes
        assert ring <= free_bytes // 6
        assert ring == min(4 * l2_bytes, GIB)
        assert chases["dram"].steps <= ring // SLOT_BYTES, "no slot twice"
        assert 2 * probes.device_copy_bytes(free_bytes) > l2_bytes, "clears the L2"
    swept = probes.plan_sweeps(l2_bytes)[-1].buffer_bytes
    assert swept % probes.TILE_BYTES == 0
    assert l2_bytes // 4 - probes.TILE_BYTES < swept <= l2_bytes // 4
    assert 2 * swept < 2**32, "the kernel adds in 32 bits"


def test_constants_and_parameters_of_probes_equal_those_in_their_source():
    names = ("CHAINS", "SHARED_POINTERS", "READ_THREADS", "READ_LOADS")
    constants = (probes.CHAINS, probes.SHARED_POINTERS, probes.THREADS, probes.READ_LOADS)
    defines = dict(re.findall(r"#define (\w+) (\d+)", SOURCE))
    assert tuple(int(defines[name]) for name in names) == constants
    assert "#define TILE_BYTES (READ_THREADS * READ_LOADS * 16)\n" in SOURCE
    assert probes.TILE_BYTES == probes.THREADS * probes.READ_LOADS * 16
    kinds = {"float": "f", "int": "i", "unsigned": "I", "unsigned long long": "P"}

    def kind(parameter):
        return "P" if "*" in parameter else kinds[parameter.rsplit(" ", 1)[0].strip()]

    kernels = re.findall(r'extern "C" __global__ void (\w+)\(([^)]*)\)', SOURCE)
    types = {name: "".join(map(kind, re.split(r",\s*", those))) for name, those in kernels}
    assert types == probes.KERNELS
    factor, addend, steps, never = probes.FMA_ARGUMENTS
    chain = np.arange(probes.THREADS + probes.CHAINS, dtype=np.float32)
    for _ in range(100):
        chain = chain * np.float32(factor) + np.float32(addend)
    assert len(set(chain)) == 1, "converged"
    assert probes.CHAINS * chain[0] != never, "the stored sum"
    assert steps % 32 == 0, "whole iterations of the unrolled loop"


def probed(capability=(9, 0)):
    options = {"moves_data": False, "L2_CACHE_SIZE": H100[0]}
    cuda = FakeCuda([("H100", capability)], 2 * GIB, (1e3, 1e3, 1e3), **options)
    modules = map(cuda.module_from_file, ("probes", "tensor_probe"))
    return cuda, *gpu_ceilings(cuda, cuda.Device(0), *modules, cuda.Stream())


@pytest.fixture(scope="module")
def faked():
    cuda, found, busy_s = probed()
    return cuda, by_quantity(found), busy_s


def launches_of(cuda, kernel):
    launches = [launch[1:] for launch in cuda.launches if launch[0] == kernel]
    assert len(launches) == 2 * (ROUNDS + 1), "each round one in front of the one that is timed"
    assert len({launch[:2] for launch in launches}) == 1
    return launches[0]


@pytest.mark.parametrize("sweep", probes.plan_sweeps(H100[0]), ids=lambda sweep: sweep.level)
def test_a_sweep_reads_each_memory_level_with_all_threads_of_the_gpu(faked, sweep):
    gpu, values, _ = faked
    (blocks, rows), threads, arguments = launches_of(gpu, sweep.kernel)
    assert (blocks * threads[0], rows, *threads[1:]) == (132 * 2048, 1, 1, 1)
    assert len(arguments) == len(probes.KERNELS[sweep.kernel])
    *buffer, steps, never, sink = arguments
    assert (steps, never) == (sweep.steps, 1)
    assert (len(sink.data), gpu.zeroed[0][0] is sink) == (24, False)
    if sweep.level != "shared":
        assert buffer[1] == sweep.buffer_bytes <= len(buffer[0].data)
        assert gpu.zeroed == [(buffer[0], len(buffer[0].data) // 4)], "its XOR is never 1"
    read = 132 * 2048 * 32 * sweep.steps
    np.testing.assert_array_equal(values[f"{sweep.level}_bytes_per_s", None, None], read / 1.0)


def test_the_tensor_probe_uses_the_whole_gpu_if_it_has_these_tensor_cores(faked):
    gpu, values, _ = faked
    (blocks, _), threads, (steps, never, _) = launches_of(gpu, "fp16_products")
    assert never == float("inf")
    flop = 2 * 64 * 128 * 64 * steps * blocks * threads[0] / 128
    np.testing.assert_array_equal(values["fp16_tensor_flop_per_s", None, None], flop / 1.0)
    names = {ceiling.quantity for ceiling in probed((7, 5))[1]}
    assert "fp32_flop_per_s" in names
    assert "fp16_tensor_flop_per_s" not in names


def test_ceilings_are_measured_in_interleaved_rounds_without_the_first_one():
    calls = []

    def measure(name):
        calls.append(name)
        return [(f"{name}_s", "pinned", 4096, float(len(calls)))]

    found = ceilings.in_rounds([partial(measure, name) for name in "ab"])
    assert calls == ["a", "b"] * (ROUNDS + 1)
    assert found == [
        Ceiling(f"{name}_s", "pinned", 4096, number, float(2 * number + 1 + position))
        for number in range(1, ROUNDS + 1)
        for position, name in enumerate("ab")
    ]


def by_quantity(found):
    values = {}
    for ceiling in found:
        key = (ceiling.quantity, ceiling.host_memory, ceiling.size_bytes)
        values.setdefault(key, {})[ceiling.round] = ceiling.value
    assert len(found) == ROUNDS * len(values)
    assert {tuple(rounds) for rounds in values.values()} == {tuple(range(1, ROUNDS + 1))}
    return {key: np.array(list(rounds.values())) for key, rounds in values.items()}


ARCHITECTURES = {"sm_75": 1024, "sm_90": 2048, "sm_120": 1536}  # threads of a full SM
# Machine-code suffixes of loads through L1, and of loads that bypass it.
THROUGH_L1, PAST_L1 = ("STRONG.SM", "STRONG.CTA"), ("STRONG.GPU",)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_compiled_probes_still_contain_their_loads_and_fmas(nvcc, tmp_path, name):
    result = build_cubin(nvcc, PROBES, name, tmp_path / "probes.cubin")
    assert (result.variant, result.block_size, result.build) == ("probes", None, "exact")
    assert result.static_shared_bytes == max(4 * probes.SHARED_POINTERS, probes.TILE_BYTES)
    assert (result.spill_store_bytes, result.spill_load_bytes, result.stack_bytes) == (0, 0, 0)
    assert result.registers_per_thread * ARCHITECTURES[name] <= 65536, "a full SM holds them all"
    disassembler = find_disassembler(nvcc)
    if not disassembler:
        pytest.skip("no nvdisasm on this host")
    command = [disassembler, tmp_path / "probes.cubin"]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    codes = {kernel: machine_code.parse(listing, kernel) for kernel in probes.KERNELS}
    found = {name: Counter(each.name for each in code.instructions) for name, code in codes.items()}
    assert found["fp32_fma"]["FFMA"] >= 32 * probes.CHAINS
    for kernel, scopes in {"chase_through_l1": THROUGH_L1, "chase_past_l1": PAST_L1}.items():
        loads = {operation for operation in found[kernel] if operation.startswith("LDG")}
        assert loads <= {f"LDG.E.64.{scope}" for scope in scopes}
        assert sum(found[kernel][load] for load in loads) > 16
    assert not any(operation.startswith("LDG") for operation in found["chase_shared"])
    assert sum(n for operation, n in found["chase_shared"].items() if "LDS" in operation) > 16
    through, past = ({f"LDG.E.128.{scope}" for scope in each} for each in (THROUGH_L1, PAST_L1))
    for kernel, names in zip(READS, ({"LDS.128", "LDS.U.128"}, through, past), strict=True):
        body = max(machine_code.loops(codes[kernel]).values(), key=len)
        loop = [codes[kernel].instructions[index] for index in body]
        loads = [instruction.name for instruction in loop if instruction.opcode in ("LDG", "LDS")]
        assert len(loads) == 2 * probes.READ_LOADS, "of the two steps of one iteration"
        assert set(loads) <= names
        # A warp's load takes at least 4 cycles, in which an SM issues 16 instructions.
        assert len(loop) <= 9 * len(loads)


@pytest.fixture(scope="module")
def measured(card, nvcc, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cubins")
    cubins = [folder / f"{build.stem}.cubin" for build in (PROBES, TENSOR_PROBE)]
    for build, cubin in zip((PROBES, TENSOR_PROBE), cubins, strict=True):
        build_cubin(nvcc, build, architecture(card.compute_capability), cubin)
    cuda = driver()
    device = cuda.Device(card.index)
    context = device.make_context()
    try:
        stream = cuda.Stream()
        modules = [cuda.module_from_file(str(cubin)) for cubin in cubins]
        gpu_ceilings(cuda, device, *modules, stream)  # the driver allocates its own memory
        free = cuda.mem_get_info()[0]
        begin = time.perf_counter()
        found, busy_s = gpu_ceilings(cuda, device, *modules, stream)
        duration_s = time.perf_counter() - begin
        assert 0.1 * duration_s < busy_s < duration_s
        kept = free - cuda.mem_get_info()[0]
        del stream, modules
    finally:
        context.pop()
        context.detach()
    return by_quantity(found), duration_s, kept, device


@pytest.mark.gpu("alone")
def test_every_ceiling_of_a_gpu_is_measured_in_every_round(measured):
    values = measured[0]
    names = Counter(quantity for quantity, _, _ in values)
    assert set(names) == {
        "fp32_flop_per_s",
        *["fp16_tensor_flop_per_s"] * (measured[3].compute_capability() >= (8, 0)),
        "device_copy_bytes_per_s",
        *(f"{way}{both}_bytes_per_s" for way in ("h2d", "d2h") for both in ("", "_duplex")),
        *(f"{level}_bytes_per_s" for level in LEVELS),
        *(f"{level}_latency_{unit}" for level in (*LEVELS, "dram") for unit in ("s", "cycles")),
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


def peak_cycles_per_s(device):
    names = driver().device_attribute
    clock_khz, sms = map(device.get_attribute, (names.CLOCK_RATE, names.MULTIPROCESSOR_COUNT))
    return clock_khz * 1e3 * sms


@pytest.mark.gpu("alone")
def test_measured_latency_grows_from_l1_to_l2_to_dram(measured):
    values = measured[0]
    cycles, seconds = (
        [middle(values, f"{level}_latency_{unit}") for level in (*LEVELS, "dram")]
        for unit in ("cycles", "s")
    )
    assert cycles == sorted(cycles)
    assert cycles[2] > 3 * cycles[1], "the L2 is not the L1"
    assert cycles[3] > 1.3 * cycles[2], "DRAM is not the L2"
    clocks = np.array(cycles) / seconds
    assert clocks.min() > 0.2e9
    assert clocks.max() < 4e9


@pytest.mark.gpu("alone")
def test_measured_throughputs_are_just_below_the_theoretical_limits_of_the_gpu(measured):
    values, _, _, device = measured
    rate = middle(values, "fp32_flop_per_s")
    lanes = 64 if device.compute_capability() in ((7, 0), (7, 5), (8, 0)) else 128
    peak = 2 * lanes * peak_cycles_per_s(device)
    assert 0.5 * peak < rate < peak
    (size,) = (size for name, _, size in values if name == "device_copy_bytes_per_s")
    memory = middle(values, "device_copy_bytes_per_s", size=size)
    largest = max(size for name, _, size in values if name == "h2d_bytes_per_s")
    for way in ("h2d", "d2h"):
        pinned = middle(values, f"{way}_bytes_per_s", "pinned", largest)
        assert 1e9 < pinned < memory
        assert pinned > middle(values, f"{way}_bytes_per_s", "pinned", 4096)
        assert middle(values, f"{way}_bytes_per_s", "pageable", largest) < 1.1 * pinned


@pytest.mark.gpu("alone")
def test_l1_and_shared_memory_deliver_up_to_128_bytes_per_cycle_and_sm(measured):
    """L1 and shared memory: near 128 bytes per cycle and SM; the L2 is between L1 and memory."""
    values, _, _, device = measured
    widest = 128 * peak_cycles_per_s(device)
    shared, l1, l2 = (middle(values, f"{level}_bytes_per_s") for level in LEVELS)
    for found in (shared, l1):
        assert 0.35 * widest < found < 1.01 * widest
    copies = [key for key in values if key[0] == "device_copy_bytes_per_s"]
    assert float(np.median(values[copies[0]])) < l2 < 0.7 * l1


@pytest.mark.gpu("alone")
def test_measuring_ceilings_is_quick_and_frees_all_memory(measured):
    values, duration_s, kept, _ = measured
    total_s = middle(values, "empty_total_s")
    parts_s = [middle(values, f"empty_{part}_s") for part in ("h2d", "kernel", "d2h")]
    assert max(1e-6, *parts_s) < total_s < 1e-3
    assert kept <= 0
    assert duration_s < 5
    assert driver().Context.get_current() is None


def test_the_setting_of_pieces_with_the_smallest_median_is_chosen():
    runs = {2: [3.0, 1.0, 3.0], 4: [2.0, 2.0, 9.0], 8: [4.0, 4.0, 0.5]}
    trials = [Trial(count, at, 0.0, s) for count, of in runs.items() for at, s in enumerate(of)]
    assert fastest(trials) == 4
