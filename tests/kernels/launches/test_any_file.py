"""Files as people have them: macros, constants, structures, several kernels, included headers."""

import math
import re
from functools import partial
from pathlib import Path

import pytest

from kernels.host_execution.binding import KernelFault
from kernels.host_execution.compiler import CompilerError, NotSupported
from kernels.host_execution.limited import limited
from kernels.launches.accesses import counted
from kernels.launches.checks import at_large_sizes
from kernels.launches.constants import settable
from kernels.launches.device import for_the_device
from kernels.launches.in_files import launches, of_file
from kernels.launches.includes import enabled, read, with_includes
from kernels.launches.infer import geometries, guesses
from kernels.launches.lines import judged
from kernels.launches.pieces import kernels_of
from kernels.launches.program import _FOR_NVCC, write
from kernels.launches.roles import matrices, meanings
from kernels.launches.shim import scope_of
from kernels.launches.verdict import judge
from tests.support import for_test_all

ONE_PER_THREAD = """
__global__ void multiply({parameters}) {{
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    {body}
}}
"""
BODY = """if (row >= {m} || column >= {n}) return;
    float sum = 0;
    for (int i = 0; i < {k}; ++i) sum += {a} * {b};
    {c} = sum;"""
PLAIN = ONE_PER_THREAD.format(
    parameters="const float *a, const float *b, float *c, int m, int n, int k",
    body=BODY.format(
        m="m", n="n", k="k", a="a[row * k + i]", b="b[i * n + column]", c="c[row * n + column]"
    ),
)
# Column-major, with macros that have the names of the matrices.
MACROS = """
#define A(i, j) A[(i) + (j) * lda]
#define B(i, j) B[(i) + (j) * ldb]
#define C(i, j) C[(i) + (j) * ldc]
""" + ONE_PER_THREAD.format(
    parameters="int M, int N, int K, float *A, int lda, float *B, int ldb, float *C, int ldc",
    body=BODY.format(m="M", n="N", k="K", a="A(row, i)", b="B(i, column)", c="C(row, column)"),
)
STRUCTURES = """
typedef struct { int width; int height; float *elements; } Matrix;
""" + ONE_PER_THREAD.format(
    parameters="const Matrix A, const Matrix B, Matrix C",
    body=BODY.format(
        m="A.height",
        n="B.width",
        k="A.width",
        a="A.elements[row * A.width + i]",
        b="B.elements[i * B.width + column]",
        c="C.elements[row * C.width + column]",
    ),
)
CONSTANTS = """
#include <vector>
// The size of the matrices.
const int N = 1 << 12;
""" + ONE_PER_THREAD.format(
    parameters="const float *a, const float *b, float *c",
    body=BODY.format(
        m="N", n="N", k="N", a="a[row * N + i]", b="b[i * N + column]", c="c[row * N + column]"
    ),
)
DERIVED = CONSTANTS.replace(
    "\n\n", "\nstatic const int parts = N / 2; // of a row\nconst int all = 2 * parts;\n", 1
).replace("i < N", "i < all")
# K is the size of an array, so no size is varied.
PARTLY = "#define M 48\n#define N 64\n#define K 16\n" + ONE_PER_THREAD.format(
    parameters="const float *a, const float *b, float *c",
    body="float line[K];\n    for (int i = 0; i < K; ++i) line[i] = a[row * K + i];\n    "
    + BODY.format(m="M", n="N", k="K", a="line[i]", b="b[i * N + column]", c="c[row * N + column]"),
)
BIAS = ONE_PER_THREAD.format(
    parameters="float *out, const float *in, const float *weight, const float *bias, int B, "
    "int C, int OC",
    body=BODY.format(
        m="B", n="OC", k="C", a="in[row * C + i]", b="weight[column * C + i]", c="float &to"
    ).replace("float &to", "out[row * OC + column]")
    + "\n    if (bias) out[row * OC + column] = sum + bias[column];",
)
ROUNDED_DOWN = (
    PLAIN.replace("if (row >= m || column >= n) return;", "")
    + """
int main() {
    int m = atoi(argv[1]), n = atoi(argv[2]), k = atoi(argv[3]);
    float *h_a, *h_b, *d_a, *d_b, *d_c;
    multiply<<<dim3(n / 16, m / 16), dim3(16, 16)>>>(d_a, d_b, d_c, m, n, k);
}
"""
)
# A second kernel, a type and a host function that the host cannot compile.
# A block is as long as the steps between the large sizes that are checked.
FLAT = """
__global__ void multiply(const float *a, const float *b, float *c, int m, int n, int k) {
    const int place = blockIdx.x * blockDim.x + threadIdx.x, row = place / n, column = place % n;
    float sum = 0;
    for (int i = 0; i < k && row < m; ++i) sum += a[row * k + i] * b[i * n + column];
    if (row < m) c[place] = sum;
}
// launch: multiply<<<CEIL_DIV(M * N, 1024), 1024>>>(A, B, C, M, N, K)
"""
OTHERS = """
#include <cuda_fp16.h>
#include <torch/extension.h>
struct Packed { half2 values[4]; };
#define ASYNC(to, from) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to))
__device__ void copy(half *to, const half *from) { ASYNC(to, from); }
__global__ void convert(half *to, const float *from, int n) { copy(to, nullptr); }
#include <vector>
vector<int> sizes{16, 32};
void wrapper(torch::Tensor a);
template void run<half>(half *);
"""
ROUNDED_UP = "static int rounded_up(int a, int b) { return (a + b - 1) / b; }\n"
OTHERS += ROUNDED_UP
CALLED = """
void product(float *a, float *b, float *c, int m, int n, int k) {
    dim3 grid(rounded_up(n, 16), rounded_up(m, 16));
    multiply<<<grid, dim3(16, 16)>>>(a, b, c, m, n, k);
}
"""


def lines(folder: Path, text: str, launch: str | None = None) -> list[str]:
    file = folder / "mine.cu"
    file.write_text(text)
    return list(judged(file, launch))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (MACROS, "multiply: correct for column-major matrices"),
        for_test_all(BIAS, "multiply: correct for a transposed B (C = A·Bᵀ)"),
        (ROUNDED_DOWN, "multiply: correct for sizes that are multiples of 16"),
        (OTHERS + PLAIN + CALLED, "multiply: correct"),
        for_test_all(FLAT, "multiply: correct"),
    ],
)
def test_kernels_of_public_files_are_checked_unchanged(
    tmp_path: Path, text: str, says: str
) -> None:
    assert lines(tmp_path, text)[0].endswith(says)


# Code that no compiler reads, a prototype, bounds by a macro, namespaces.
UNUSUAL = """
#if 0
__global__ void multiply(half *nothing) {}
#endif
#define HALF_OF(x) ((x) / 2)
__global__ void multiply(const double *a, const double *b, double *c, int m, int n, int k);
#ifdef OTHER
namespace other {
#else
namespace mine {
#endif
namespace inner { struct Tile { static const int WIDTH = 16; }; }
__constant__ int depth;
using inner::Tile;
__global__ void __launch_bounds__(HALF_OF(512))
tiled(const double *a, const double *b, double *c, unsigned m, size_t n) {
    __shared__ double staged[512];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * Tile::WIDTH + y, column = blockIdx.x * Tile::WIDTH + x;
    double sum = 0;
    for (int i = 0; i < depth; i += Tile::WIDTH) {
        staged[y * 16 + x] = row < m && i + x < depth ? a[row * depth + i + x] : 0;
        staged[256 + y * 16 + x] = column < n && i + y < depth ? b[(i + y) * n + column] : 0;
        __syncthreads();
        for (int j = 0; j < 16; ++j) sum += staged[y * 16 + j] * staged[256 + j * 16 + x];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}
}
"""


DYNAMIC = (
    UNUSUAL.replace("__shared__ double staged[512]", "extern __shared__ double staged[]")
    .replace("namespace mine {", "")
    .removesuffix("}\n")
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [UNUSUAL, pytest.param(DYNAMIC, marks=pytest.mark.exhaustive)],
    ids=["namespaces", "dynamic"],
)
def test_kernels_with_unusual_declarations_are_found_and_checked(tmp_path: Path, text: str) -> None:
    assert lines(tmp_path, text)[0].endswith("tiled: correct (double)")


# Two elements of C per thread, by the numbers of a template.
TEMPLATE = """
template <int BM, int BN, int TN>
__global__ void gemm(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ float row_of[BM][BN / TN];
    const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * BM + y;
    for (int j = x * TN; j < (x + 1) * TN; ++j) {
        const int column = blockIdx.x * BN + j;
        row_of[y][x] = 0;
        if (row < M && column < N) {
            for (int i = 0; i < K; ++i) row_of[y][x] += A[row * K + i] * B[i * N + column];
            C[row * N + column] = row_of[y][x] + SHIFTED;
        }
    }
}
"""


OF_THE_HOST = """
#include <algorithm>
#include <thrust/device_vector.h>
#include <vector>
struct ToFloat : public thrust::unary_function<half, float> {
    __host__ __device__ float operator()(half x) { return __half2float(x); }
};
double largest(thrust::device_vector<float> &c) { return thrust::reduce(c.begin(), c.end()); }
template <typename T>
__global__ void multiply(int m, int n, int k, const void *a, const void *b, void *c) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (std::min(x - n, y - m) >= 0 || std::max(x - n, y - m) >= 0) return;
    T sum = 0;
    for (int i = 0; i < k; ++i) {
        sum += static_cast<const T *>(a)[y * k + i] * static_cast<const T *>(b)[i * n + x];
    }
    static_cast<T *>(c)[y * n + x] = sum;
}
template <>
__global__ void multiply<half>(int m, int n, int k, const void *a, const void *b, void *c) {}
int blocks(int n) { return std::max(1, (n + 7) / 8); }
void call(int m, int n, int k, const void *a, const void *b, void *c) {
    const dim3 grid(blocks(n), blocks(m)), block(8, 8);
    multiply<half><<<grid, block>>>(m, n, k, a, b, c);
    multiply<float><<<grid, block>>>(m, n, k, a, b, c);
    multiply<thrust::complex<float>><<<grid, block>>>(m, n, k, a, b, c);
}
"""
BY_ITS_CALL = """
template <typename T>
__global__ void multiply(const T *a, const T *b, T *c, int m, int n, int k) {
    static_assert(sizeof(T) == 2, "two bytes");
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= n || y >= m) return;
    float sum = 0;
    for (int i = 0; i < k; ++i) sum += __half2float(a[y * k + i]) * __half2float(b[i * n + x]);
    c[y * n + x] = __float2half(sum);
}
template <typename T>
void call(const T *a, const T *b, T *c, int m, int n, int k) {
    multiply<T><<<dim3((n + 7) / 8, (m + 7) / 8), dim3(8, 8)>>>(a, b, c, m, n, k);
}
template void call<__half>(const __half *, const __half *, __half *, int, int, int);
"""


@pytest.mark.parametrize(
    ("text", "says"), [(OF_THE_HOST, ": correct$"), (BY_ITS_CALL, r": correct \(half\)$")]
)
def test_host_libraries_are_ignored_and_host_calls_give_element_types(
    tmp_path: Path, text: str, says: str
) -> None:
    source = tmp_path / "file.cu"
    source.write_text(text)
    assert re.search(says, next(judged(source)))


@pytest.mark.exhaustive
def test_a_kernel_with_unknown_element_type_is_not_called_wrong(tmp_path: Path) -> None:
    source = tmp_path / "file.cu"
    source.write_text(OF_THE_HOST.replace("T sum = 0", "T sum = 1"))
    with pytest.raises(NotSupported, match="takes its matrices as void"):
        list(judged(source))


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_kernel_with_guessed_template_arguments_is_not_called_wrong(tmp_path: Path) -> None:
    """The block that the kernel needs, 8 by 64 threads, is that of no guess."""
    text = TEMPLATE.replace("SHIFTED", "row_of[63][x % 8] * 0")
    with pytest.raises(NotSupported, match="write it, such as --launch 'constexpr int BM"):
        lines(tmp_path, text.replace("BN / TN", "8"))


@pytest.mark.slow
def test_an_option_defines_macros_and_errors_name_undefined_ones(tmp_path: Path) -> None:
    file = tmp_path / "mine.cu"
    file.write_text(PLAIN.replace("float", "REAL").replace("blockDim.x", "TILE"))
    with pytest.raises(CompilerError, match=r"^\S+mine\.cu:2: .* give it by -D REAL="):
        list(judged(file, defines=["OTHER"]))
    told = list(judged(file, defines=["TILE=16", "REAL=float"]))
    assert told[0].endswith("multiply: correct")


@pytest.mark.slow
def test_every_kernel_of_a_file_is_checked_and_the_wrong_one_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.cu"
    first = PLAIN.replace("multiply", "unchecked").replace("float sum", "clock64(); float sum")
    second = PLAIN.replace("multiply", "faulty").replace("row * k", "row * n")
    calls = [CALLED.replace("multiply", name) for name in ("unchecked", "faulty", "multiply")]
    file.write_text(first + second + PLAIN + ROUNDED_UP + "".join(calls))
    told: list[str] = []
    with pytest.raises(KernelFault, match="faulty"):
        told.extend(line for line in judged(file))
    assert "unchecked: " in told[0]
    assert "faulty: " in told[1]
    assert told[2].endswith("multiply: correct")


@pytest.mark.slow
def test_large_checked_sizes_are_multiples_that_the_kernel_needs(tmp_path: Path) -> None:
    text = PLAIN.replace("row >= m || column >= n", "row >= m")
    launch = "multiply<<<dim3(CEIL_DIV(N, 64), M), 64>>>(a, b, c, M, N, K)"
    assert lines(tmp_path, text, launch)[0].endswith("multiples of 64")


@pytest.mark.slow
def test_a_printed_launch_with_structures_can_be_passed_as_option(tmp_path: Path) -> None:
    verdict, *_, printed = lines(tmp_path, STRUCTURES)
    assert verdict.endswith("multiply: correct")
    launch = printed.partition("--launch '")[2].removesuffix("'")
    assert lines(tmp_path, STRUCTURES, launch)[0].endswith("multiply: correct")


def test_pointer_expressions_in_a_launch_become_parameter_names() -> None:
    caller = """void run(Tensor a, Tensor b, Tensor c) {
    CHECK_SHAPE(a, 0)
    CHECK_SHAPE(b, (1))
    const auto m = a.size(0), n = b.size(1);
    float *start = a.data();
    multiply << <dim3(n / 16, m / 16), 256>> >((float *)start, b.data<float>(), c.p, m, n, 8);
}"""
    (launch,) = of_file(PLAIN + caller, None)
    kinds = scope_of(PLAIN + caller, [launch]).pointers
    assert kinds == {"a": "const float *", "b": "const float *", "c": "float *"}
    assert str(launch) == (
        "const auto m = a.size(0), n = b.size(1); "
        "multiply<<<dim3(n / 16, m / 16), 256>>>(a, b, c, m, n, 8)"
    )


def test_code_that_only_other_kernels_need_is_removed() -> None:
    device = for_the_device(OTHERS + PLAIN + CALLED, {"multiply", "rounded_up"})
    assert "rounded_up" in device
    for absent in ("asm", "half2", "torch::", "convert", "template", "sizes"):
        assert absent not in device


def test_constants_used_as_sizes_are_varied_unless_an_array_depends_on_them() -> None:
    text = (
        "#define DEPTH (2 * 1024)\n"
        + PLAIN
        + "void f() { multiply<<<1, 1>>>(a, b, c, 8, 8, DEPTH); }"
    )
    (launch,) = launches(text)
    assert settable(text, launch, kernels_of(text)["multiply"]) == {"DEPTH": "int"}
    (launch,) = launches(CONSTANTS + "void f() { multiply<<<1, 1>>>(a, b, c); }")
    kernel = kernels_of(CONSTANTS)["multiply"]
    assert settable(CONSTANTS, launch, kernel) == {"N": "int"}
    caller = "const int M = 64; void f() { multiply<<<M / 16, N / 16>>>(a, b, c); }"
    (launch,) = launches(CONSTANTS + caller)
    assert settable(CONSTANTS + caller, launch, kernel) == {"M": "int", "N": "int"}
    kernel = kernels_of(DERIVED)["multiply"]
    (launch,) = launches(DERIVED + "void f() { multiply<<<1, 1>>>(a, b, c); }")
    assert settable(DERIVED, launch, kernel) == {"N": "int"}
    for size in ("N", "parts", "all"):
        text = DERIVED.replace("float sum", f"float x[{size}], sum")
        assert settable(text, launch, kernels_of(text)["multiply"]) == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (CONSTANTS, "correct for sizes that are multiples of 16"),
        (DERIVED, "correct for sizes that are multiples of 16"),
        (PARTLY, "correct at size 48x16x64, which the file fixes"),
    ],
)
def test_sizes_that_a_file_fixes_are_varied_if_all_can_be(
    tmp_path: Path, text: str, says: str
) -> None:
    rows = "M" if "define M" in text else "N"
    main = f"int main() {{ multiply<<<dim3(N / 16, {rows} / 16), dim3(16, 16)>>>(a, b, c); }}"
    assert lines(tmp_path, text + main)[0].endswith(says)


def test_tile_edges_are_the_factors_of_block_indices() -> None:
    code = """__global__ void f(float *a, float *b, float *c, int m, int n, int k) {
    const int ROWS = 2 * 32, bx = blockIdx.x;
    int first = 8 * (blockIdx.y * blockDim.y + threadIdx.y);
    c += ROWS * blockIdx.y * n + (bx << 5);
    const int beyond = blockIdx.x * unknown;
}"""
    guess = next(guesses("f", kernels_of(code)["f"], code))
    assert guess.probe.configuration == "dim3((1 << 5), (2 * 32)), dim3(0)"


def test_headers_of_the_repository_are_included_once_and_in_order(tmp_path: Path) -> None:
    source = tmp_path / "src" / "kernels" / "mine.cu"
    (tmp_path / "README.md").touch()
    for path, text in {
        source: '  #include "first.h"\n#include <second.h>\n#include "first.h"\n#include <vector>',
        tmp_path / "include" / "first.h": "int first;",
        tmp_path / "src" / "common" / "second.h": "int second;",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    text = with_includes(source, read(source))
    assert text.index("int first;") < text.index("int second;")
    assert text.count("int first;") == 1
    assert "#include <vector>" in text
    assert '"first.h"\nint first;\n#line 2 "kernel.cu"' in text


@pytest.mark.slow
def test_a_multi_line_macro_in_a_header_is_expanded(tmp_path: Path) -> None:
    (tmp_path / "sum.h").write_text("#define ADD(to, value) \\\n    to += value\n")
    text = '#include "sum.h"\n' + PLAIN.replace("sum += ", "ADD(sum, ").replace(
        "];\n    c", "]);\n    c"
    )
    assert lines(tmp_path, text)[0].endswith("multiply: correct")


def test_files_with_a_byte_order_mark_or_another_encoding_are_read(tmp_path: Path) -> None:
    file = tmp_path / "mine.cu"
    file.write_bytes(b"\xef\xbb\xbf// caf\xe9\n" + PLAIN.encode())
    assert read(file).startswith("// caf")


def test_sizes_with_unusual_names_are_tried_in_every_order() -> None:
    assert list(next(matrices({"out": "float *", "x": "const float *", "w": "const float *"}))) == [
        "out",
        "x",
        "w",
    ]
    tried = [tuple(choice.values()) for choice in meanings(["BT", "C", "OC"])]
    assert ("M", "K", "N") in tried[:6]
    assert next(meanings(["C", "OC"])) == {"C": "K", "OC": "N"}


def test_template_arguments_of_a_kernel_are_inferred() -> None:
    text = "template <typename T, const int BM = (1 > 0), class U = Pair<int, int>, bool Y>\n"
    piece = kernels_of(text + "__global__ void f() {}")["f"]
    assert piece.template == [
        ("typename", "T", ""),
        ("int", "BM", "(1 > 0)"),
        ("class", "U", "Pair<int, int>"),
        ("bool", "Y", ""),
    ]


def test_inactive_lines_become_empty_and_line_numbers_stay():
    lines = ["#if 0", "a", "#if X", "b", "#else", "c", "#endif", "#else", "d", "#endif", "e"]
    assert [line for line in enabled("\n".join(lines)).splitlines() if line.isalpha()] == ["d", "e"]
    assert len(enabled("\n".join(lines)).splitlines()) == len(lines)


def test_the_launch_of_a_written_program_rounds_its_grid_up():
    macro = re.search(r"#define CEIL_DIV\(a, b\) (.*)", _FOR_NVCC)[1].replace("/", "//")
    assert [eval(macro, {"a": a, "b": 4}) for a in (1, 4, 5)] == [1, 1, 2]


@pytest.mark.parametrize("edges", [(64, 64), (128, 32), (0, 0)])
def test_guessed_blocks_fit_into_a_block_of_1024_threads(edges):
    blocks = [geometry.block for geometry in geometries(edges, 0, (True, True))]
    assert blocks
    assert all(1 <= math.prod(block) <= 1024 for block in blocks)


@pytest.mark.slow
def test_accesses_with_transposed_operands_are_counted_in_a_limited_process(tmp_path):
    path = tmp_path / "mine.cu"
    text = (
        "__global__ void mine(const float *a, const float *b, float *c, int n) {\n"
        "    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;\n"
        "    float sum = 0;\n"
        "    for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[col * n + k];\n"
        "    c[row * n + col] = sum;\n}\n"
    )
    path.write_text(text)
    verdict = judge(path, text, "mine")
    assert verdict.layout == "a transposed B (C = A·Bᵀ)"
    entry = write(verdict, None, tmp_path)
    totals = limited(partial(counted, verdict, entry), 60.0, 2**30)
    assert [product.shape.n for product in totals] == [64, 128]


PERSISTENT = """\
__global__ void mine(const float *a, const float *b, float *c, int n) {
    for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < n * n; at += gridDim.x * blockDim.x) {
        float sum = 0.0f;
        for (int k = 0; k < n; ++k) sum += a[at / n * n + k] * b[k * n + at % n];
        c[at] = sum;
    }
}
int main() {
    float *a, *b, *c;
    int n = 1024, count = 0;
    QUESTION;
    mine<<<BLOCKS, 256>>>(a, b, c, n);
}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question", "blocks"),
    [
        ("cudaDeviceProp prop; cudaGetDeviceProperties(&prop, 0)", "prop.multiProcessorCount"),
        pytest.param(
            *("cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0)", "2 * count"),
            marks=pytest.mark.exhaustive,
        ),
        pytest.param("count = occupancy_of_this_gpu()", "count", marks=pytest.mark.exhaustive),
    ],
)
def test_a_kernel_launched_with_as_many_blocks_as_a_gpu_runs_is_not_called_wrong(
    tmp_path, question, blocks
):
    text = PERSISTENT.replace("QUESTION", question).replace("BLOCKS", blocks)
    verdict = at_large_sizes(judge(tmp_path / "mine.cu", text, "mine"))
    assert (verdict.multiple, verdict.fault) == (1, None)


@pytest.mark.exhaustive
def test_a_wrong_kernel_is_called_wrong_even_if_the_gpu_determines_its_grid(tmp_path):
    text = PERSISTENT.replace("QUESTION", "int blocks = blocks_of_this_gpu()")
    wrong = text.replace("BLOCKS", "blocks").replace("k < n", "k < n - 1")
    assert judge(tmp_path / "mine.cu", wrong, "mine").multiple == 0
