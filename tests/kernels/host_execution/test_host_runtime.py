"""Host execution of small kernels: counts, faults, unsupported features."""

import errno
import re
import tempfile
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from base.errors import StudyError
from kernels.catalog.entries import VARIANTS
from kernels.host_execution import check, compiler
from kernels.host_execution.binding import Configured, Kernel, KernelFault, packed_arguments
from kernels.host_execution.check import zeros
from kernels.host_execution.compiler import NotSupported, build_kernel, unsupported

TEXT = Path(__file__).with_name("cases.txt").read_text()


def cases(section):
    """Return the cases of a section of cases.txt by name: code and expected result."""
    lines = TEXT.partition(f"[{section}]\n")[2].partition("\n\n")[0].rstrip().split("\n")
    return {name: rest for name, *rest in (line.split(" @ ") for line in lines)}


def code_of(cases):
    return {name: code for name, (code, *_) in cases.items()}


TID = "threadIdx.x"
TID_T = f"const int t = {TID};"


@pytest.mark.exhaustive
def test_shared_stores_need_the_wavefronts_of_a_gpu(compiled):
    """Expected: requests, wavefronts and the fewest wavefronts of 64 threads."""
    known = cases("stores")
    body = "\n".join([TID_T, *(f"{{ {statements} }}" for statements in known)])
    run = compiled(body).run((1,), (64,), [np.zeros(1, np.float32)])
    assert {count.operation for count in run.counts} == {"shared_store"}
    found = {c.line: [f"{c.requests} {c.transactions} {c.ideal}"] for c in run.counts}
    assert found == dict(enumerate(known.values(), 3))


def test_global_loads_touch_the_expected_sectors_and_cache_lines(compiled):
    # 64 threads are two warps; shifted by a word, each touches one sector and one line more.
    known = {"i": (8, 2), "i + 1": (10, 4), "0": (2, 2), "8 * i": (64, 16)}
    known |= {"2 * i": (16, 4), "63 - i": (8, 2), "i / 8": (2, 2)}
    body = "\n".join([f"const int i = {TID};", *(f"p[512 + i] = p[{index}];" for index in known)])
    run = compiled(body).run((1,), (64,), [np.zeros(1024, np.float32)])
    loads = {count.line: count for count in run.counts if count.operation == "global_load"}
    for line, index in enumerate(known, 3):
        load = loads[line]
        assert (load.accesses, load.requests) == (64, 2)
        assert (load.transactions, load.lines) == known[index], index


def test_a_store_to_a_word_that_other_threads_read_since_the_barrier_is_a_race(compiled, tmp_path):
    body = f"__shared__ float s[32];\ns[{TID}] = 1;\n__syncthreads();\np[{TID}] = s[0];\n"
    body += f"if ({TID} == 31) s[0] = 2;"
    kernel = compiled(body)
    with pytest.raises(KernelFault) as found:
        kernel.run((1,), (32,), [np.zeros(32, np.float32)])
    assert str(found.value) == (
        f"{tmp_path}/kernel.cu:6: kernel, block (0, 0, 0), thread (31, 0, 0): store of 4 bytes at "
        "byte 0 of shared memory races with several threads at line 5: no barrier is between them"
    )


def test_a_load_of_a_word_that_another_block_stored_is_a_race(compiled):
    kernel = compiled("p[blockIdx.x] = 1;\n p[2] = p[0];")
    with pytest.raises(KernelFault, match=r"kernel\.cu:3: kernel, block \(1, 0, 0\).*at line 2"):
        kernel.run((2,), (1,), [np.zeros(3, np.float32)])


def test_a_kernel_can_run_again_after_a_fault(compiled):
    body = f"__shared__ float s[32]; s[{TID}] = 1; __syncthreads(); p[{TID}] = s[31 - {TID}];"
    kernel = compiled(body)
    for _ in range(2):
        small, whole = np.zeros(31, np.float32), np.zeros(32, np.float32)
        with pytest.raises(KernelFault, match="byte 124 of buffer 0 is out of bounds"):
            kernel.run((1,), (32,), [small])
        kernel.run((1,), (32,), [whole])
        assert whole.tolist() == [1.0] * 32
        assert small.tolist() == [0.0] * 31


def test_all_built_in_variables_of_cuda_are_available(compiled):
    body = (
        "const int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);\n"
        "const int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);\n"
        "p[b * blockDim.x * blockDim.y * blockDim.z + t] = factor * t + b;"
    )
    kernel = compiled(body, "int factor, float *p", "fused")
    p = np.zeros((24, 30), np.float32)
    kernel.run((2, 3, 4), (5, 3, 2), [100, p])
    np.testing.assert_array_equal(p, 100 * np.arange(30) + np.arange(24)[:, None])


@pytest.mark.parametrize(("statement", "message"), code_of(cases("unsupported")).items())
def test_an_unsupported_feature_of_a_kernel_is_named_with_its_line(compiled, statement, message):
    body = f"// asm is a word here\n/* and\n here */ {statement}"
    with pytest.raises(NotSupported) as refused:
        compiled(body, before='extern "C" int system(const char *); ')
    assert re.search(rf"kernel\.cu:4: {message}", str(refused.value))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("condition", ["ifdef __CUDACC__", "if __CUDA_ARCH__ >= 800"])
def test_code_that_only_a_gpu_compiles_is_ignored_on_the_host(condition):
    lines = ["#if WIDE", 'asm("a");', "#else", 'asm("b");', "#endif", "#else", "atomicInc(p, 1);"]
    text = "\n".join([f"#{condition}", *lines, "#endif", 'asm("c");'])
    assert unsupported(text) == (8, "atomicInc", "these atomics")
    without = text.replace("atomicInc(p, 1);", "")
    assert unsupported(without) == (10, "c", "this inline PTX")
    assert unsupported(without.replace("#else\n\n#endif", "#endif"))[0] == 8
    assert unsupported(text.replace(condition, "if 1"))[0] == 5
    assert unsupported(text.replace(condition, "if 1"), ["-DWIDE"])[0] == 3


def test_conversions_of_all_16_bit_floats_equal_those_of_numpy(compiled):
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    body = (
        "const int i = 256 * blockIdx.x + threadIdx.x;"
        "back[i] = host_from_half(i); bits[i] = host_to_half(p[i]);"
    )
    kernel = compiled(body, "float *p, float *back, unsigned *bits", "fused")
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


def test_accesses_to_operands_of_tensor_cores_are_checked_but_not_counted(compiled):
    before = "#define OPERAND(i) host_tensor_operand((const unsigned *)smem + (i))\n"
    body = (
        "extern __shared__ float smem[]; smem[threadIdx.x] = 1.0f; {barrier}\n"
        "p[threadIdx.x] = OPERAND({index}) == 0x3f800000;"
    )

    def run(barrier, index):
        text = body.format(barrier=barrier, index=index)
        kernel = compiled(text, before=before)
        p = np.zeros(32, np.float32)
        return p, kernel.run((1,), (32,), [p], 128)

    p, done = run("__syncthreads();", "31 - threadIdx.x")
    assert p.all()
    assert not [c for c in done.counts if c.operation == "shared_load" and c.accesses]
    with pytest.raises(KernelFault, match=r"kernel\.cu:4: .* no thread of the block wrote"):
        run("", "31 - threadIdx.x")
    with pytest.raises(KernelFault, match=r"kernel\.cu:4: .* races with thread"):
        run("", "0")
    with pytest.raises(KernelFault, match=r"kernel\.cu:4: .* is out of bounds"):
        run("__syncthreads();", "threadIdx.x + 1")


def test_catalog_kernels_are_supported_and_unsupported_declarations_are_named():
    for source in {entry.source for entry in VARIANTS.values() if entry.source}:
        assert unsupported((compiler.ROOT / source).read_text()) is None
    assert (
        unsupported((compiler.ROOT / "kernels" / "probes.cu").read_text())[2] == "this inline PTX"
    )
    for line, feature in (
        ("#include <curand.h>", "a kernel in more than one file"),
        ("__managed__ float table[4];", "managed memory"),
        ("auto c = cg::this_cluster();", "clusters and several grids"),
    ):
        assert unsupported(f"\n{line}\n")[::2] == (2, feature)


def test_a_kernel_that_does_not_compile_is_a_one_line_error(compiled):
    with pytest.raises(StudyError) as refused:
        compiled("p[0] = __sine(p[0]);")
    assert re.fullmatch(r"\S*/kernel\.cu:2: .*__sine.* \(g\+\+\)", str(refused.value))
    with pytest.raises(StudyError, match=r"kernel\.cu.* frame size"):  # too large for a fiber
        compiled("float f[10000]; for (float &x : f) x = *p; *p = f[99];")


def test_a_kernel_is_compiled_once_for_equal_content(compiled, host_builds, tmp_path, monkeypatch):
    first = compiled("p[0] = 1;")
    calls = []

    def run(command):
        calls.append(Path(command[command.index("-o") + 1]).name)

    monkeypatch.setattr(compiler, "_run", run)
    (tmp_path / "elsewhere").symlink_to(host_builds)
    again = compiled("p[0] = 1;", folder=tmp_path / "elsewhere")
    assert calls == []
    assert again._path.name == first._path.name
    with pytest.raises(StudyError, match="No such file"):  # g++ was asked, and made nothing
        compiled("p[0] = 2;")
    assert calls == ["whole.so"]


def test_a_missing_g_plus_plus_is_a_one_line_error(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    compiler.find_gxx.cache_clear()
    with pytest.raises(StudyError, match=r"^g\+\+: not found on PATH; install it"):
        compiler.find_gxx()
    with pytest.raises(StudyError, match=r"^nm: not found on PATH; install binutils"):
        compiler._weak_symbols(tmp_path)


def test_temporary_files_of_an_interrupted_compiler_are_removed(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    compiler._run(["sh", "-c", "touch $TMPDIR/left"])
    assert list(tmp_path.iterdir()) == []


SUPPORTED = cases("supported")  # expected: element 0


@pytest.mark.parametrize("feature", SUPPORTED)
@pytest.mark.parametrize("mode", ["counted", "separate"])
def test_ordinary_cuda_features_are_executed_as_on_a_gpu(run_case, feature, mode):
    before = "\n".join(rest[2].replace("\\n", "\n") for rest in SUPPORTED.values() if rest[2:])
    bodies = {name: f"if (!threadIdx.x) {{ {code} }}" for name, code in code_of(SUPPORTED).items()}
    out = np.zeros(64, np.float32)
    run_case(bodies, feature, out, mode=mode, before=before + "\n")
    assert out[0] == float(SUPPORTED[feature][1])


FATAL = cases("fatal")


@pytest.mark.parametrize("fault", FATAL)
def test_a_signal_or_an_endless_loop_is_a_fault_with_its_line(run_case, fault):
    before = "__device__ int deep(int n) { return n ? deep(n - 1) + 1 : 0; }\n"
    line = 1 if fault == "recursion" else 4 + [*FATAL].index(fault)
    for _ in range(2):  # the process continues
        with pytest.raises(KernelFault, match=rf"kernel\.cu:{line}: .*{FATAL[fault][1]}") as raised:
            run_case(code_of(FATAL), fault, np.zeros(64, np.float32), before=before)
        # It may depend on the sizes, unlike a fault in shared memory.
        assert not (raised.value.is_shared and fault in ("division by zero", "failed assertion"))


def test_a_kernel_with_too_many_variables_cannot_be_checked(compiled):
    kernel = compiled("p[0] = v[1];", before="__device__ float v[1l << 32];")
    with pytest.raises(NotSupported, match=r"kernel\.cu: \w+: has more than 256 MiB of variables"):
        kernel.run((1,), (64,), [np.zeros(64, np.float32)])


def test_a_kernel_that_uses_a_name_of_the_runtime_is_refused(host_builds, tmp_path):
    source = tmp_path / "kernel.cu"
    source.write_text('extern "C" __global__ void host_launch(float *p) { p[0] = 1; }')
    with pytest.raises(NotSupported, match="host_launch: is a name of host execution; rename it"):
        build_kernel("host_launch", source, {}, "counted", host_builds)


@pytest.mark.parametrize("name", ["advance", "malloc", "pow10", "step", "write"])
@pytest.mark.parametrize("role", ["kernel", "function"])
def test_a_kernel_may_define_names_that_the_c_library_also_has(host_builds, tmp_path, name, role):
    source = tmp_path / "kernel.cu"
    text = f'extern "C" __global__ void {name}(float *p) {{ p[threadIdx.x] = 7; }}'
    if role == "function":
        text = f"""extern "C" __device__ __noinline__ float {name}(float x) {{ return x + 6; }}
            extern "C" __global__ void kernel(float *p) {{ p[threadIdx.x] = {name}(1); }}"""
    source.write_text(text)
    name = name if role == "kernel" else "kernel"
    values = np.zeros(3, np.float32)
    library = build_kernel(name, source, {}, "separate", host_builds)
    Kernel(library, source, name, counted=False).run((1,), (3,), [values])
    assert values.tolist() == [7, 7, 7]


@pytest.mark.parametrize(
    ("body", "dynamic", "needed"),
    [("p[0] = 1;", 400000, "400,000"), ("__shared__ float s[12289]; s[0] = 1;", 0, "49,156")],
)
def test_more_shared_memory_than_a_block_has_is_a_fault(compiled, body, dynamic, needed):
    with pytest.raises(KernelFault, match=f"needs {needed} bytes of shared memory; use at most"):
        compiled(body).run((1,), (1,), [np.zeros(1, np.float32)], dynamic)


@pytest.mark.parametrize("name", ["ü; $(touch pwned).cu", 'quo"te.cu', "a b.cu"])
def test_a_kernel_file_may_have_any_name(compiled, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "dol$(touch x)lar"
    folder.mkdir()
    kernel = compiled("p[64] = 1;", source=folder / name)
    with pytest.raises(KernelFault) as found:
        kernel.run((1,), (1,), [np.zeros(64, np.float32)])
    assert f"{name}:2: " in str(found.value)
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


LOOPS = cases("loops")  # expected: requests of 32 threads


@pytest.mark.parametrize("loop", LOOPS)
def test_lanes_in_the_same_iteration_of_a_loop_make_one_request(run_case, loop):
    run = run_case(code_of(LOOPS), loop, np.zeros(256, np.float32), 32, common=TID_T)
    stores = [count.requests for count in run.counts if count.operation == "global_store"]
    assert sum(stores) == int(LOOPS[loop][1])


WARPS = {  # of 64 threads
    "broadcast": ("__shfl_sync(~0u, v, 5)", lambda t: t // 32 * 32 + 5),
    "parts of a warp": ("__shfl_sync(~0u, v, 1, 8)", lambda t: t // 8 * 8 + 1),
    "up": ("__shfl_up_sync(~0u, v, 2)", lambda t: t - 2 if t % 32 > 1 else t),
    "down": ("__shfl_down_sync(~0u, v, 16)", lambda t: t + 16 if t % 32 < 16 else t),
    "xor": ("__shfl_xor_sync(~0u, v, 1)", lambda t: t ^ 1),
    "half of the lanes": (
        "t % 2 ? __shfl_sync(0xaaaaaaaa, v, 3) : -1",
        lambda t: t // 32 * 32 + 3 if t % 2 else -1,
    ),
    "ballot": ("__ballot_sync(~0u, t % 32 == 4)", lambda t: 16),
    "any": ("__any_sync(~0u, t == 40)", lambda t: t >= 32),
    "all": ("__all_sync(~0u, t != 40)", lambda t: t < 32),
    "votes": ("__syncthreads_and(t < 63) + 10 * __syncthreads_count(t < 9)", lambda t: 90),
    "any vote": ("10 * __syncthreads_or(t == 2) + __syncthreads_or(t == 64)", lambda t: 10),
}


@pytest.mark.parametrize("operation", WARPS)
@pytest.mark.parametrize("mode", ["counted", "separate"])
def test_shuffles_exchange_values_between_the_lanes_of_a_warp(run_case, operation, mode):
    bodies = {name: f"float v = t; p[t] = {code};" for name, (code, _) in WARPS.items()}
    p = np.zeros(64, np.float32)
    run_case(bodies, operation, p, mode=mode, common=TID_T)
    assert p.tolist() == [WARPS[operation][1](t) for t in range(64)]


SHARED = f"__shared__ float s[64]; __shared__ char bytes[64]; {TID_T}"
JUDGED = cases("judged")


@pytest.mark.parametrize("case", JUDGED)
def test_faulty_code_fails_at_its_line_and_correct_code_passes(run_case, case):
    fault, at = JUDGED[case][1], 3 + [*JUDGED].index(case)
    fails = pytest.raises(KernelFault, match=rf"kernel\.cu:{at}: {fault}")
    with fails if fault != "none" else nullcontext():
        run_case(code_of(JUDGED), case, np.zeros(64, np.float32), common=SHARED)


def test_a_wrong_element_is_explained_by_an_uninitialised_read_of_its_block(compiled):
    body = "__shared__ float s; if (blockIdx.x) s = 1; __syncthreads(); p[blockIdx.x] = s;"
    p = np.zeros(2, np.float32)
    run = compiled(body).run((2,), (1,), [p])
    assert np.isnan(p).tolist() == [True, False]
    assert re.search(r"kernel\.cu:2: .* is uninitialised", run.cause(0, 0) or "")
    assert run.cause(0, 1) is None


LARGE = cases("large")  # expected: a fault, or whether an index overflows without one


@pytest.mark.parametrize("index", LARGE)
def test_indices_are_checked_up_to_the_largest_that_fits_into_32_bits(compiled, index):
    body, expected = LARGE[index]
    parameters = "const float *a, float *c, int n"
    kernel = compiled(body, parameters, mode="large")
    n = 46340
    a, c = (np.zeros(n * n, np.float32) for _ in range(2))  # untouched pages take no memory
    arguments = packed_arguments([a, c, n], [a, c])
    launch = (kernel.addresses(arguments), Configured((2, 2, 1), (32, 1, 1), 0), [a, c])
    if expected in ("True", "False"):
        run = kernel.last_configured_block(*launch)
        assert (run.bytes.tolist(), run.lines, str(bool(run.cause))) == ([0], [2], expected)
        return
    where = r"kernel\.cu:2: kernel, block \(1, 1, 0\)"
    with pytest.raises(KernelFault, match=f"{where}.*{expected}"):
        kernel.last_configured_block(*launch)


def test_if_the_largest_product_does_not_fit_the_error_names_the_remedy(patch):
    def refused(*_):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    patch(check.mmap, mmap=refused)
    with pytest.raises(NotSupported, match=r"needs 3 × 8 GiB of addresses .* raise `ulimit -v`"):
        zeros(2**31, np.float32)


def build(tmp_path, folder, text):
    source = tmp_path / "kernel.cu"
    source.write_text(text)
    return build_kernel("kernel", source, {}, "counted", folder)


PRINT = 'extern "C" int system(const char *)'
CALL = 'extern "C" __global__ void kernel(float *p) {{ {} p[0] = 1; }}\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{PRINT};\n{CALL.format('system(0);')}", "kernel.cu:2: system: host execution has no"),
        (
            f"{PRINT} __attribute__((weak));\n{CALL.format('if (system) system(0);')}",
            "system: undefined weak symbols are refused",
        ),
        (
            'static int run(const char *) __attribute__((weakref("system")));\n'
            + CALL.format('run("id");'),
            "system: undefined weak symbols are refused",
        ),
        ("#define A a##sm\n" + CALL.format('A("nop");'), "not support this inline PTX"),
        ("#define J(x) __a##x\n" + CALL.format('J(sm__)("nop");'), "not support this inline PTX"),
        (CALL.format('as\\\nm("nop");'), "not support this inline PTX"),
        (
            CALL.format('const char *s = "/*"; asm("nop"); s = "*/";'),
            "nop: host execution does not",
        ),
        (
            CALL.format('auto s = R"(" /* )"; asm("nop"); s = R"( */ ")";'),
            "not support this inline PTX",
        ),
        (CALL.format("int s = 'ab\"'; asm(\"nop\"); s = '\"';"), "not support this inline PTX"),
        ('%:include "other.cu"\n' + CALL.format(""), "other.cu: No such file"),
        ('%:include "/proc/self/maps"\n' + CALL.format(""), "not support a kernel in more"),
        ('#in\\\nclude "/etc/passwd"\n' + CALL.format(""), "not support a kernel in more"),
    ],
)
def test_calls_of_host_functions_and_assembly_are_refused_in_every_spelling(
    host_builds, tmp_path, text, message
):
    with pytest.raises(StudyError, match=re.escape(message)):
        build(tmp_path, host_builds, text)


def test_macros_that_paste_names_are_not_mistaken_for_assembly(host_builds, tmp_path):
    text = '#define J(x, y) x##y\n#define COMMENT "/* a */"\n'
    build(tmp_path, host_builds, text + CALL.format("float J(as, n) = 1; p[1] = asn;"))
