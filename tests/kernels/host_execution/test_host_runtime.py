"""Host execution of small kernels: counts, faults, unsupported features."""

import re

import numpy as np
import pytest

from base.errors import StudyError
from kernels.catalog.entries import VARIANTS
from kernels.catalog.product import Product
from kernels.host_execution import compiler
from kernels.host_execution.binding import Kernel, KernelFault
from kernels.host_execution.check import check_largest
from kernels.host_execution.compiler import build_kernel, unsupported
from kernels.products.shape import Shape


@pytest.fixture(scope="module")
def host_builds(tmp_path_factory):
    """Folder of the builds of this module's tests."""
    return tmp_path_factory.mktemp("builds")


def compiled(folder, tmp_path, body, parameters="float *p", mode="counted", before=""):
    """Compile ``kernel(parameters) { body }``; the body begins at line 2 after `before`."""
    source = tmp_path / "kernel.cu"
    source.write_text(f'{before}extern "C" __global__ void kernel({parameters}) {{\n{body}\n}}\n')
    return Kernel(
        build_kernel("kernel", source, {}, mode, folder), source, "kernel", mode == "counted"
    )


TID = "threadIdx.x"
COUNTED = [
    # body, bytes of each access, then (requests, wavefronts, ideal) of 64 threads' shared stores
    (f"__shared__ float s[64]; s[{TID}] = 1;", (2, 2, 2)),
    (f"__shared__ float s[128]; s[2 * {TID}] = 1;", (2, 4, 2)),
    (f"__shared__ float s[64 * 33]; s[33 * {TID}] = 1;", (2, 2, 2)),
    (f"__shared__ float s[64 * 32]; s[32 * {TID}] = 1;", (2, 64, 2)),
    (f"__shared__ double s[64]; s[{TID}] = 1;", (2, 4, 4)),
    (f"__shared__ float4 s[64]; s[{TID}] = make_float4(1, 2, 3, 4);", (2, 8, 8)),
    (f"__shared__ float4 s[512]; s[8 * {TID}] = make_float4(1, 2, 3, 4);", (2, 64, 8)),
    (f"__shared__ float s[64]; if ({TID} < 40) s[{TID}] = 1;", (2, 2, 2)),
    (f"__shared__ float s[64]; if ({TID} % 32 == 5) s[{TID}] = 1;", (2, 2, 2)),
    (f"__shared__ float s[64]; if ({TID} == 5) s[{TID}] = 1;", (1, 1, 1)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("body", "expected"), COUNTED)
def test_wavefronts_of_shared_stores(host_builds, tmp_path, body, expected):
    kernel = compiled(host_builds, tmp_path, body)
    run = kernel.run((1,), (64,), [np.zeros(1, np.float32)])
    (count,) = run.counts
    assert (count.line, count.operation) == (2, "shared_store")
    assert (count.requests, count.transactions, count.ideal) == expected


@pytest.mark.parametrize(
    ("index", "sectors", "lines"),
    [
        *(("i", 8, 2), ("i + 1", 10, 4), ("0", 2, 2), ("8 * i", 64, 16)),
        *(("2 * i", 16, 4), ("63 - i", 8, 2), ("i / 8", 2, 2)),
    ],
)
def test_sectors_and_lines_of_global_loads(host_builds, tmp_path, index, sectors, lines):
    # 64 threads are two warps; shifted by a word, each touches one sector and one line more.
    body = f"const int i = {TID}; p[512 + i] = p[{index}];"
    run = compiled(host_builds, tmp_path, body).run((1,), (64,), [np.zeros(1024, np.float32)])
    load = next(count for count in run.counts if count.operation == "global_load")
    assert load.accesses == 64
    assert load.requests == 2
    assert (load.transactions, load.lines) == (sectors, lines)


def test_visits_of_a_loop_are_requests_of_their_own(host_builds, tmp_path):
    body = f"for (int k = 0; k < 5 + ({TID} >= 32); ++k) p[64 * k + {TID}] = k;"
    p = np.zeros(64 * 6, np.float32)
    run = compiled(host_builds, tmp_path, body).run((1,), (64,), [p])
    (count,) = run.counts
    assert (count.accesses, count.requests, count.transactions) == (11 * 32, 11, 44)
    assert p.reshape(6, 64)[4].tolist() == [4.0] * 64


def test_store_to_what_several_threads_read_since_the_barrier(host_builds, tmp_path):
    body = f"__shared__ float s[32];\ns[{TID}] = 1;\n__syncthreads();\np[{TID}] = s[0];\n"
    body += f"if ({TID} == 31) s[0] = 2;"
    kernel = compiled(host_builds, tmp_path, body)
    with pytest.raises(KernelFault) as found:
        kernel.run((1,), (32,), [np.zeros(32, np.float32)])
    assert str(found.value) == (
        f"{tmp_path}/kernel.cu:6: kernel, block (0, 0, 0), thread (31, 0, 0): store of 4 bytes at "
        "byte 0 of shared memory races with several threads at line 5: no barrier is between them"
    )


def test_race_between_a_load_and_an_earlier_store_of_another_block(host_builds, tmp_path):
    kernel = compiled(host_builds, tmp_path, "p[blockIdx.x] = 1;\n p[2] = p[0];")
    with pytest.raises(KernelFault, match=r"kernel\.cu:3: kernel, block \(1, 0, 0\).*at line 2"):
        kernel.run((2,), (1,), [np.zeros(3, np.float32)])


def test_threads_may_exchange_global_memory_across_a_barrier(host_builds, tmp_path):
    body = f"p[{TID}] = {TID};\n__syncthreads();\nconst float q = p[31 - {TID}];\n"
    body += f"__syncthreads();\np[{TID}] = q;"
    p = np.zeros(32, np.float32)
    compiled(host_builds, tmp_path, body).run((1,), (32,), [p])
    assert p.tolist() == list(range(31, -1, -1))


def test_a_kernel_runs_again_after_a_fault(host_builds, tmp_path):
    body = f"__shared__ float s[32]; s[{TID}] = 1; __syncthreads(); p[{TID}] = s[31 - {TID}];"
    kernel = compiled(host_builds, tmp_path, body)
    for _ in range(2):
        small, whole = np.zeros(31, np.float32), np.zeros(32, np.float32)
        with pytest.raises(KernelFault, match="byte 124 of buffer 0 is out of bounds"):
            kernel.run((1,), (32,), [small])
        kernel.run((1,), (32,), [whole])
        assert whole.tolist() == [1.0] * 32
        assert small.tolist() == [0.0] * 31


def test_all_built_in_indices(host_builds, tmp_path):
    body = (
        "const int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);\n"
        "const int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);\n"
        "p[b * blockDim.x * blockDim.y * blockDim.z + t] = factor * t + b;"
    )
    kernel = compiled(host_builds, tmp_path, body, "int factor, float *p", "fused")
    p = np.zeros((24, 30), np.float32)
    kernel.run((2, 3, 4), (5, 3, 2), [100, p])
    np.testing.assert_array_equal(p, 100 * np.arange(30) + np.arange(24)[:, None])


@pytest.mark.parametrize("bytes_", [1, 2])
def test_narrow_elements_are_refused_by_name(host_builds, tmp_path, bytes_):
    kind = {1: "char", 2: "short"}[bytes_]
    kernel = compiled(host_builds, tmp_path, f"(({kind} *)p)[0] = 1;")
    with pytest.raises(KernelFault, match=rf"kernel\.cu:2: .* accesses of {bytes_} bytes are not"):
        kernel.run((1,), (1,), [np.zeros(1, np.float32)])


UNSUPPORTED = [
    ('asm("bar.sync 0;");', "asm: host execution does not support inline PTX"),
    ("p[0] = __shfl_down_sync(~0u, p[0], 1);", "__shfl_down_sync: .* warp shuffles"),
    ("p[0] = __ballot_sync(~0u, 1);", "__ballot_sync: .* warp votes"),
    ("__syncwarp();", "__syncwarp: .* barriers other than __syncthreads"),
    ("__syncthreads_and(1);", "__syncthreads_and: .* barriers other than __syncthreads"),
    ("atomicAdd(p, 1.0f);", "atomicAdd: .* atomics"),
    ("nvcuda::wmma::fill_fragment(f, 0);", "nvcuda: .* tensor cores"),
    ("__half h;", "__half: .* 16-bit numbers"),
    ("p[0] = __ldcg(p + 1);", "__ldcg: .* loads with cache hints"),
    ("p[0] = clock();", "clock: .* services of the device"),
    ("child<<<1, 1>>>();", "<<<: .* launches from the device"),
]


@pytest.mark.parametrize(("statement", "message"), UNSUPPORTED)
def test_unsupported_features_are_named_with_their_line(host_builds, tmp_path, statement, message):
    with pytest.raises(StudyError) as refused:
        compiled(host_builds, tmp_path, f"// asm is a word here\n/* and\n here */ {statement}")
    assert re.search(rf"kernel\.cu:4: {message}", str(refused.value))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("line", "feature"),
    [
        ("#include <mma.h>", "a kernel in more than one file"),
        ("__managed__ float table[4];", "managed memory"),
        ("namespace cg = cooperative_groups;", "cooperative groups"),
    ],
)
def test_unsupported_declarations_are_named(line, feature):
    assert unsupported(f"\n{line}\n")[::2] == (2, feature)


@pytest.mark.parametrize("condition", ["ifdef __CUDACC__", "if __CUDA_ARCH__ >= 800"])
def test_code_for_gpus_only_is_ignored(condition):
    text = f"""#{condition}
#if WIDE
asm("a");
#else
asm("b");
#endif
#else
atomicAdd(p, 1);
#endif
asm("c");
"""
    assert unsupported(text) == (8, "atomicAdd", "atomics")
    without = text.replace("atomicAdd(p, 1);", "")
    assert unsupported(without) == (10, "asm", "inline PTX")
    assert unsupported(without.replace("#else\n\n#endif", "#endif"))[0] == 8
    assert unsupported(text.replace(condition, "if 1"))[0] == 3


def test_a_barrier_that_votes_tells_all_threads_of_the_block(host_builds, tmp_path):
    body = (
        "const int t = threadIdx.x; p[4 * blockIdx.x + t] ="
        " 10 * __syncthreads_or(t == 2 && blockIdx.x == 1) + __syncthreads_or(t == blockIdx.x);"
    )
    for mode in compiler.MODES:
        p = np.zeros(12, np.float32)
        compiled(host_builds, tmp_path, body, mode=mode).run((3,), (4,), [p])
        np.testing.assert_array_equal(p, [1] * 4 + [11] * 4 + [1] * 4)
    body = "if (threadIdx.x) __syncthreads_or(1); else __syncthreads();"
    kernel = compiled(host_builds, tmp_path, body)
    with pytest.raises(KernelFault, match="waits at this barrier"):
        kernel.run((1,), (2,), [np.zeros(1, np.float32)])


def test_numbers_of_16_bits_are_those_of_the_standard(host_builds, tmp_path):
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    body = (
        "const int i = 256 * blockIdx.x + threadIdx.x;"
        "back[i] = host_from_half(i); bits[i] = host_to_half(p[i]);"
    )
    kernel = compiled(host_builds, tmp_path, body, "float *p, float *back, unsigned *bits", "fused")
    back, bits = np.zeros(2**16, np.float32), np.zeros(2**16, np.uint32)
    rng = np.random.default_rng(1)
    exact = halves.astype(np.float32)
    finite = np.where(np.isfinite(exact), exact, 0)
    between = finite * (1 + rng.uniform(-(2.0**-10), 2.0**-10, exact.size)).astype(np.float32)
    ties = (finite + np.roll(finite, 1)) / 2
    for p in (exact, between, ties, rng.standard_normal(2**16).astype(np.float32)):
        kernel.run((256,), (256,), [p, back, bits])
        with np.errstate(over="ignore"):
            expected = p.astype(np.float16)
        ordinary = ~np.isnan(p)
        assert (bits[ordinary] == expected.view(np.uint16)[ordinary]).all()
        assert np.isnan(bits[~ordinary].astype(np.uint16).view(np.float16)).all()
    np.testing.assert_array_equal(back, exact)


def test_operands_of_tensor_cores_are_checked_and_not_counted(host_builds, tmp_path):
    before = "#define OPERAND(i) host_tensor_operand((const unsigned *)smem + (i))\n"
    body = (
        "extern __shared__ float smem[]; smem[threadIdx.x] = 1.0f; {barrier}\n"
        "p[threadIdx.x] = OPERAND({index}) == 0x3f800000;"
    )

    def run(barrier, index):
        text = body.format(barrier=barrier, index=index)
        kernel = compiled(host_builds, tmp_path, text, before=before)
        p = np.zeros(32, np.float32)
        return p, kernel.run((1,), (32,), [p], 128)

    p, done = run("__syncthreads();", "31 - threadIdx.x")
    assert p.all()
    assert not [
        count for count in done.counts if count.operation == "shared_load" and count.accesses
    ]
    with pytest.raises(KernelFault, match=r"kernel\.cu:4: .* no thread of the block wrote"):
        run("", "31 - threadIdx.x")
    with pytest.raises(KernelFault, match=r"kernel\.cu:4: .* races with thread"):
        run("", "0")
    with pytest.raises(KernelFault, match=r"kernel\.cu:4: .* is out of bounds"):
        run("__syncthreads();", "threadIdx.x + 1")


def test_kernels_of_the_catalog_are_supported():
    for source in {entry.source for entry in VARIANTS.values() if entry.source}:
        assert unsupported((compiler.ROOT / source).read_text()) is None
    found = unsupported((compiler.ROOT / "kernels" / "probes.cu").read_text())
    assert found is not None
    assert found[2] == "inline PTX"


def test_what_does_not_compile_is_one_line(host_builds, tmp_path):
    with pytest.raises(StudyError) as refused:
        compiled(host_builds, tmp_path, "p[0] = __sinf(p[0]);")
    assert re.fullmatch(r"\S*/kernel\.cu:2: .*__sinf.* \(g\+\+\)", str(refused.value))


def test_frames_that_a_fiber_cannot_hold_are_refused(host_builds, tmp_path):
    with pytest.raises(StudyError, match=r"kernel\.cu.* frame size"):
        compiled(host_builds, tmp_path, "float f[10000]; for (float &x : f) x = *p; *p = f[99];")


def test_builds_are_made_once_for_each_content(host_builds, tmp_path, monkeypatch):
    first = compiled(host_builds, tmp_path, "p[0] = 1;")
    calls = []
    monkeypatch.setattr(compiler, "_run", lambda command: calls.append(command[-1].name))
    again = compiled(host_builds, tmp_path, "p[0] = 1;")
    assert calls == []
    assert again._path == first._path
    with pytest.raises(OSError, match="No such file"):  # the compiler was asked, and made nothing
        compiled(host_builds, tmp_path, "p[0] = 2;")
    assert calls == ["entry.o", "whole.so"]


def test_missing_compiler_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    compiler.find_gxx.cache_clear()
    with pytest.raises(StudyError, match=r"^g\+\+: not found on PATH; install it"):
        compiler.find_gxx()


# Before the kernel, in it, and what element 0 is then.
SUPPORTED = {
    "fused multiply-add": ("", "p[0] = __fmaf_rn(2.0f, 3.0f, fmaf(1.0f, 1.0f, 1.0f));", 8),
    "assertion": ("", "assert(blockDim.x == 64); p[0] = 1;", 1),
    "half as a name": ("", "const int half = blockDim.x / 2; p[0] = half;", 32),
    "headers of CUDA": ("#include <cuda_runtime.h>\n#include <cassert>\n", "p[0] = 1;", 1),
    "variable of the file": ("__device__ float one[2] = {3, 4};\n", "p[0] = one[1];", 4),
    "constant": ("__constant__ float table[4] = {1, 2, 3, 4};\n", "p[0] = table[2];", 3),
    "dynamic shared memory of any name": (
        "",
        "extern __shared__ float tile[]; tile[threadIdx.x] = 5; p[0] = tile[threadIdx.x];",
        5,
    ),
    "template": (
        "template <int B> __device__ float twice(float x) { static_assert(B); return B * x; }\n",
        "p[0] = twice<2>(21);",
        42,
    ),
    "read-only loads": ("", "p[0] = __ldg(p + 1) + 7;", 7),
    "printing": ("", 'printf("%f", p[1]); p[0] = 1;', 1),
}


@pytest.mark.parametrize("feature", SUPPORTED)
@pytest.mark.parametrize("mode", ["counted", "separate"])
def test_ordinary_features_are_executed(host_builds, tmp_path, feature, mode):
    before, body, expected = SUPPORTED[feature]
    kernel = compiled(
        host_builds, tmp_path, f"if (threadIdx.x == 0) {{ {body} }}", before=before, mode=mode
    )
    out = np.zeros(64, np.float32)
    kernel.run((1,), (64,), [out], 256)
    assert out[0] == expected


FATAL = {
    "division by zero": ("", "int n = p[0]; p[1] = 7 / n;", "divides an integer by zero"),
    "recursion": (
        "__device__ int deep(int n) { return n ? deep(n - 1) + 1 : 0; }\n",
        "p[0] = deep(100000);",
        "needs more than 60 KiB of stack",
    ),
    "endless loop": ("", "for (int i = 0; i < 8; i += 0) p[0] += i;", "does this loop end"),
    "endless loop without access": ("", "bool go = p[0] == 0; while (go) {}", "does this loop end"),
    "failed assertion": ("", "assert(p[0] == 1);", "an assertion fails"),
    "null pointer": ("", "float *q = nullptr; p[1] = *q;", "out of bounds"),
}


@pytest.mark.parametrize("fault", FATAL)
def test_what_would_end_the_process_is_a_fault_with_its_line(host_builds, tmp_path, fault):
    before, body, message = FATAL[fault]
    kernel = compiled(host_builds, tmp_path, body, before=before)
    line = "1" if fault == "recursion" else str(2 + before.count("\n"))
    for _ in range(2):  # and the process goes on
        with pytest.raises(KernelFault, match=rf"kernel\.cu:{line}: .*{message}"):
            kernel.run((1,), (64,), [np.zeros(64, np.float32)])


def test_a_name_of_the_runtime_is_refused(host_builds, tmp_path):
    source = tmp_path / "kernel.cu"
    source.write_text('extern "C" __global__ void host_launch(float *p) { p[0] = 1; }')
    with pytest.raises(StudyError, match="host_launch: is a name of host execution"):
        build_kernel("host_launch", source, {}, "counted", host_builds)


@pytest.mark.parametrize("name", ["ü; $(touch pwned).cu", 'quo"te.cu', "a b.cu"])
def test_a_file_may_have_any_name(host_builds, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "dol$(touch x)lar"
    folder.mkdir()
    source = folder / name
    source.write_text('extern "C" __global__ void kernel(float *p) {\np[64] = 1; }')
    kernel = Kernel(
        build_kernel("kernel", source, {}, "counted", host_builds), source, "kernel", True
    )
    with pytest.raises(KernelFault) as found:
        kernel.run((1,), (1,), [np.zeros(64, np.float32)])
    assert f"{name}:2: " in str(found.value)
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


LOOPS = {
    # Lanes take different turns of a loop: those of one turn make a request together.
    "skipped turns": ("for (int i = 0; i < 4; ++i) { if (i % 2 == t % 2) p[32 * i + t] = i; }", 4),
    "fewer turns": ("for (int i = t; i < 64; i += 32) { if (i < 40) p[i] = 1; }", 2),
    "left early": ("for (int i = 0; i < 4; ++i) { if (i > t) break; p[32 * i + t] = 1; }", 4),
    "after a branch": ("if (t < 8) { p[64] = 1; } p[t] = 1;", 2),
    "nested": (
        "for (int i = 0; i < 2; ++i) for (int j = 0; j <= t % 2; ++j) p[64 * i + 32 * j + t] = 1;",
        4,
    ),
    "in a function": (
        "auto f = [&](int i) { if (t % 2 == i) p[t] = 1; }; f(0); f(1); p[64 + t] = 1;",
        3,
    ),
}


@pytest.mark.parametrize("loop", LOOPS)
def test_lanes_in_one_turn_of_a_loop_make_a_request(host_builds, tmp_path, loop):
    body, requests = LOOPS[loop]
    if loop == "after a branch":
        body = body.replace("p[64] = 1;", "if (t == 0) p[64] = 1;")
    kernel = compiled(host_builds, tmp_path, f"const int t = threadIdx.x; {body}")
    run = kernel.run((1,), (32,), [np.zeros(256, np.float32)])
    assert (
        sum(count.requests for count in run.counts if count.operation == "global_store") == requests
    )


LARGE = {
    "bytes": ("c[0] = *(const float *)((const char *)a + (n - 1) * n * 4);", "overflows"),
    "elements": ("c[0] = a[(n - 1) * n + n - 1];", None),
    "behind the last": ("c[0] = a[(long)n * n * 3];", "outside all memory"),
    "a loop's sum": (
        "int at = 0; for (int i = 0; i < n; ++i) at += n + 2; c[0] = a[at];",
        "overflows",
    ),
}


@pytest.mark.parametrize("index", LARGE)
def test_indices_are_checked_as_far_as_32_bits_reach(host_builds, tmp_path, index):
    body, fault = LARGE[index]
    parameters = "const float *a, float *c, int n"
    kernel = compiled(host_builds, tmp_path, body, parameters, mode="large")
    n = 46340
    options = ((2, 2), (32,), [4 * n * n, 4 * n * n], [n])
    if fault is None:
        kernel.run_last_block(*options)
        return
    with pytest.raises(KernelFault, match=rf"kernel\.cu:2: kernel, block \(1, 1, 0\).*{fault}"):
        kernel.run_last_block(*options)


def test_the_largest_products_of_the_catalog_are_in_bounds(host_builds):
    for name in ("naive", "block"):
        check_largest(Product(name, "float32", Shape.square(64), 32), folder=host_builds)
