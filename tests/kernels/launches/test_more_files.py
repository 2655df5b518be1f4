"""Files with sizes in numbers of tiles, own code for beta = 0, casts, and launches to deduce."""

from functools import partial

import pytest

from kernels.host_execution.compiler import CompilerError, NotSupported, unchecked_lines
from kernels.host_execution.limited import limited
from kernels.launches.library import Source
from kernels.launches.lines import judged, verdict_line
from kernels.launches.verdict import judge
from tests.support import for_test_all

# Each block computes tiles of 16 x 16 until none is left. The sizes are only in macros.
TILES = """
#define EDGE 16
#define M_TILES 256
#define N_TILES 256
#define K_TILES 256
#define M_GLOBAL (EDGE * M_TILES)
#define N_GLOBAL (EDGE * N_TILES)
#define K_GLOBAL (EDGE * K_TILES)
#define STRIDE N_GLOBAL
__global__ void multiply(const float *A, const float *B, float *C) {
    __shared__ float a[EDGE][EDGE], b[EDGE][EDGE];
    const int x = threadIdx.x, y = threadIdx.y;
    for (int tile = blockIdx.x; tile < M_TILES * N_TILES; tile += gridDim.x) {
        const int row = tile / N_TILES * EDGE + y, column = tile % N_TILES * EDGE + x;
        float sum = 0;
        for (int k = 0; k < K_TILES; ++k) {
            a[y][x] = A[row * K_GLOBAL + k * EDGE + x];
            b[y][x] = B[(k * EDGE + y) * STRIDE + column];
            __syncthreads();
            for (int i = 0; i < EDGE; ++i) sum += a[y][i] * b[i][x];
            __syncthreads();
        }
        C[row * STRIDE + column] = sum;
    }
}
int main() {
    float *A, *B, *C;
    cudaDeviceProp gpu;
    enum { THREADS = EDGE };
    multiply<<<gpu.multiProcessorCount, dim3(THREADS, THREADS)>>>(A, B, C);
}
"""


@pytest.mark.slow
def test_sizes_that_macros_define_as_tiles_times_edge_are_varied(tmp_path):
    # At sizes below a tile, the kernel divides by zero.
    def judged_alone(source):
        return limited(partial(judge, tmp_path / "tiles.cu", source, "multiply"), 60.0, 2**30)

    judged = judged_alone(TILES)
    assert (judged.multiple, judged.is_fixed) == (16, False)
    assert any(shape.m != shape.n != shape.k for shape in judged.shapes)
    wrong = TILES.replace("[row * K_GLOBAL", "[row * STRIDE")
    assert judged_alone(wrong).multiple == 0


FACTORS = """
__global__ void multiply(const float *A, const float *B, float *C, int M, int N, int K, float alpha,
                         float beta) {
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || column >= N) return;
    float sum = 0, &c = C[row * N + column];
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + column];
    c = beta == 0 ? alpha * sum : alpha * sum + beta * c;
}
"""


@pytest.mark.slow
def test_a_kernel_that_ignores_alpha_for_beta_zero_is_wrong(tmp_path):
    assert judge(tmp_path / "factors.cu", FACTORS, "multiply").multiple == 1
    wrong = judge(tmp_path / "factors.cu", FACTORS.replace("? alpha * sum", "? sum"), "multiply")
    assert wrong.multiple == 0
    assert "beta = 0" in str(wrong.fault)


# A type that only a compiler deduces, and pairs of half in place of half.
FUNCTOR = """
template <class Last>
__global__ void multiply(const float *A, const float *B, float *C, int M, int N, int K, Last last) {
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || column >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + column];
    C[row * N + column] = last(sum);
}
struct Same {
    __device__ float operator()(float x) const { return x; }
};
void launch(const float *A, const float *B, float *C, int M, int N, int K) {
    multiply<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K, Same());
}
"""
PAIRS = """
#include <cuda_fp16.h>
__global__ void multiply(const half2 *A, const half2 *B, half2 *C, int M, int N, int K) {
    const int row = blockIdx.y * 16 + threadIdx.y, pair = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || pair >= N / 2) return;
    float left[2] = {0}, right = 0;
    for (int k = 0; k < K; ++k) {
        const half2 a = A[(row * K + k) / 2];
        const float value = __half2float((row * K + k) % 2 ? a.y : a.x);
        const float2 b = __half22float2(B[(k * N) / 2 + pair]);
        left[1] += value * b.x;
        right += value * b.y;
    }
    C[(row * N) / 2 + pair] = __floats2half2_rn(left[0] + left[1], right);
}
// launch: multiply<<<dim3(CEIL_DIV(N / 2, 16), CEIL_DIV(M, 16)), dim3(16, 16)>>>(
"""
PAIRS = PAIRS.rstrip() + "(const half2 *)A, (const half2 *)B, (half2 *)C, M, N, K)\n"


@pytest.mark.slow
@pytest.mark.parametrize(("text", "multiple"), [(FUNCTOR, 1), (PAIRS, 2)])
def test_kernels_with_deduced_template_arguments_and_casts_pass(tmp_path, text, multiple):
    assert judge(tmp_path / "mine.cu", text, "multiply").multiple == multiple


# A block of 8 x 8 x 4 threads, which no guess has.
DEEP_BLOCK = """
__global__ void multiply(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ float parts[4][8][8];
    const int row = blockIdx.y * 8 + threadIdx.y, column = blockIdx.x * 8 + threadIdx.x;
    float sum = 0;
    if (row < M && column < N)
        for (int k = threadIdx.z; k < K; k += 4) sum += A[row * K + k] * B[k * N + column];
    parts[threadIdx.z][threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    for (int z = 1; z < 4; ++z) parts[0][threadIdx.y][threadIdx.x] += parts[z][0][0];
    if (row < M && column < N) C[row * N + column] = parts[0][threadIdx.y][threadIdx.x];
}
"""


@pytest.mark.slow
def test_a_kernel_with_three_dimensional_blocks_is_not_called_wrong_by_a_guess(tmp_path):
    with pytest.raises(NotSupported, match="no launch was found"):
        judge(tmp_path / "deep.cu", DEEP_BLOCK, "multiply")


ARRAYS = """
#include <cuda_fp16.h>
__global__ void multiply(const half *A, const half *B, half *C, int M, int N, int K) {
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    half sums[2][2] = {__float2half(0.0f)};
    if (row >= M || column >= N) return;
    for (int k = 0; k < K; ++k)
        sums[1][1] = __hfma(A[row * K + k], B[k * N + column], sums[1][1]);
    C[row * N + column] = sums[1][1];
}
"""


@pytest.mark.exhaustive
def test_half_elements_after_the_first_initial_value_are_zero(tmp_path):
    assert judge(tmp_path / "half.cu", ARRAYS, "multiply").multiple == 1
    unset = ARRAYS.replace(" = {__float2half(0.0f)}", "")
    assert judge(tmp_path / "half.cu", unset, "multiply").multiple == 0


def test_unchecked_lines_of_included_files_are_not_counted_as_the_kernels():
    header = "#if __CUDA_ARCH__ >= 800\nint a;\n#endif\n" + 12 * "\n" + "int b;\n"
    text = f'#line 1 "first.h"\n{header}#line 2 "kernel.cu"\nint c;\n'
    assert unchecked_lines(text, {}) == []
    other = "#if __CUDA_ARCH__ < 800\nint d;\n#endif\n"
    assert unchecked_lines(text + other, {}) == [4]


def test_a_launch_given_as_option_is_never_replaced_by_a_guess(tmp_path):
    option = "multiply<<<1, 256>>>(A, B)"
    with pytest.raises(CompilerError, match=r"mine\.cu: multiply: its launch: no match for call"):
        judge(tmp_path / "mine.cu", FACTORS, "multiply", option)


# Each thread stores an element behind its own, the last one behind C.
BEHIND = """
__global__ void multiply(const float *a, const float *b, float *c, int n) {
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += a[row * n + i] * b[i * n + column];
    c[row * n + column + 1] = sum;
}
void run(const float *a, const float *b, float *c, int n) {
    multiply<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(a, b, c, n);
}
"""


@pytest.mark.exhaustive
def test_a_kernel_with_wrong_bounds_runs_only_with_bounds_checks(tmp_path, monkeypatch):
    modes, library = set(), Source.library

    def recorded(source, mode):
        modes.add(mode)
        return library(source, mode)

    monkeypatch.setattr(Source, "library", recorded)
    judged = judge(tmp_path / "mine.cu", BEHIND, "multiply")
    assert "is out of bounds" in str(judged.fault)
    assert modes <= {"launch", "counted"}, "others would store into memory of this process"


ELEMENT = """
__global__ void multiply(const float *A, const float *B, float *C, NUMBERS) {
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || column >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + column];
    C[row * N + column] = alpha * sum + beta * C[row * N + column];
}
void call(const float *A, const float *B, float *C, int M, int N, int K) {
    const int alpha = 1, beta = 0;
    multiply<<<dim3(CEIL_DIV(N, 16), CEIL_DIV(M, 16)), dim3(16, 16)>>>(A, B, C, ARGUMENTS);
}
"""
BATCH = """
__global__ void multiply(const float *A, const float *B, float *C, int M, int N, int K) {
    for (int i = threadIdx.x; i < M * N; i += blockDim.x) {
        float sum = 0;
        for (int k = 0; k < K; ++k)
            sum += A[(blockIdx.x * M + i / N) * K + k] * B[(blockIdx.x * K + k) * N + i % N];
        C[blockIdx.x * M * N + i] = sum;
    }
}
void call(const float *A, const float *B, float *C, int BATCH, int M, int N, int K) {
    multiply<<<BATCH, 128>>>(A, B, C, M, N, K);
}
"""
# Each thread computes two elements; the grid has no block for fewer than two thirds of a tile.
PAIRS = """
#include <mma.h>
auto constexpr M = 4096, N = 4096, K = 4096;
float host[M * K];
__global__ void multiply(const float *A, const float *B, float *C) {
    const int row = blockIdx.y * 8 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sums[2]{0, 0};
    for (int k = 0; k < K; ++k)
        for (int i = 0; i < 2; ++i) sums[i] += A[row * K + k] * B[k * N + column + 8 * i];
    for (int i = 0; i < 2; ++i) C[row * N + column + 8 * i] = sums[i];
}
void call(const float *A, const float *B, float *C) {
    constexpr int WIDTH{8}, FACTOR{2};
    dim3 block(WIDTH, WIDTH);
    multiply<<<dim3((N + WIDTH - 1) / WIDTH / FACTOR, M / WIDTH), block>>>(A, B, C);
}
"""
NAMED = """
template <typename T> void M(T **pointer, int bytes) { *pointer = (T *)malloc(bytes); }
__global__ void multiply(const float *X_d, const float *Y_d, float *Z_d, int row_X, int col_X,
                         int row_Y, int col_Y, bool add) {
    const int r = blockIdx.y * 16 + threadIdx.y, c = blockIdx.x * 16 + threadIdx.x;
    if (r >= row_X || c >= col_Y) return;
    float sum = add ? Z_d[0] : 0;
    for (int k = 0; k < row_Y; ++k) sum += X_d[r * col_X + k] * Y_d[k * col_Y + c];
    Z_d[r * col_Y + c] = sum;
}
"""
ROUNDED = """
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;
__global__ void multiply(const float *A, const float *B, float *C, int N) {
    __shared__ half a[256], b[256];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0);
    for (int k = 0; k < N; k += 16) {
        for (int i = threadIdx.x; i < 256; i += 32) {
            a[i] = __float2half(A[(blockIdx.y * 16 + i / 16) * N + k + i % 16]);
            b[i] = __float2half(B[(k + i / 16) * N + blockIdx.x * 16 + i % 16]);
        }
        __syncthreads();
        wmma::load_matrix_sync(left, a, 16);
        wmma::load_matrix_sync(right, b, 16);
        wmma::mma_sync(sum, left, right, sum);
        __syncthreads();
    }
    wmma::store_matrix_sync(C + blockIdx.y * 16 * N + blockIdx.x * 16, sum, N, wmma::mem_row_major);
}
"""
SIZES = "int M, int N, int K, float alpha, float beta", "M, N, K, alpha, beta"


def element(numbers: str = SIZES[0], arguments: str = SIZES[1]) -> str:
    return ELEMENT.replace("NUMBERS", numbers).replace("ARGUMENTS", arguments)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (element(), "correct"),
        (element().replace("float alpha, float beta", "int alpha, int beta"), "correct"),
        (element(arguments="M, N, K, 2.0f, 6.0f"), "correct"),
        (element().replace("beta *", "0 *"), "wrong"),
        for_test_all(BATCH, "correct"),
        for_test_all(
            BATCH.replace("(blockIdx.x * K + k)", "k"), "correct with one B for all products"
        ),
        for_test_all(BATCH.replace("(blockIdx.x * M + i / N)", "(blockIdx.x + i / N)"), "wrong"),
        (
            element()
            .replace("A[row * K + k]", "A[k * M + row]")
            .replace("row * N + c", "row + M * c"),
            "correct for columns of A and C",
        ),
        (PAIRS, "correct for sizes that are multiples of 16"),
        for_test_all(PAIRS.replace("8 * i] = sums[i]", "8 * i] = sums[0]"), "wrong"),
        (NAMED, "correct"),
        for_test_all(
            ROUNDED, "correct (operands rounded to half) for sizes that are multiples of 16"
        ),
        for_test_all(ROUNDED.replace("k + i % 16]", "i % 16]"), "wrong"),
    ],
)
def test_launches_of_public_files_are_understood(tmp_path, text, said):
    judged = judge(tmp_path / "mine.cu", text, "multiply")
    assert (verdict_line(judged) if judged.multiple else "wrong") == said


# A class launches the kernel, whose structure contains all matrices and sizes.
IN_A_CLASS = """
struct Product { const float *lhs; const float *rhs; float *dst; int M, N, K; };
namespace device {
__global__ void multiply(const Product p) {
    const int row = blockIdx.y * 8 + threadIdx.y, column = blockIdx.x * 32 + threadIdx.x;
    if (row >= p.M || column >= p.N) return;
    float sum = 0;
    for (int k = 0; k < p.K; ++k) sum += p.lhs[row * p.K + k] * p.rhs[k * p.N + column];
    p.dst[row * p.N + column] = sum;
}
}
void grid(Product p) { device::multiply << <1, 1 >> >(p); }
class Runner : public Benchmark {
  public:
    explicit Runner(const char *name) : Benchmark(name) {}
    void run(const Product &p) override {
        const dim3 grid((p.N + 31) / 32, (p.M + 7) / 8), block(32, 8);
        device::multiply << <grid, block >> >(p);
    }
};
"""


def test_a_structure_with_all_matrices_that_a_method_passes_is_judged(tmp_path):
    judged = judge(tmp_path / "class.cu", IN_A_CLASS, "multiply")
    assert (judged.multiple, judged.source.main.line) == (1, 18)
    wrong = IN_A_CLASS.replace("[row * p.K", "[row * p.M")
    assert judge(tmp_path / "class.cu", wrong, "multiply").multiple == 0


# The caller's vectors give the element type, or nothing does.
OF_VECTORS = """
template <typename T>
__global__ void multiply(const T *A, const T *B, T *C, int M, int N, int K) {
    const int row = blockIdx.y * 8 + threadIdx.y, column = blockIdx.x * 32 + threadIdx.x;
    if (row >= M || column >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += __half2float(A[row * K + k]) * float(B[k * N + column]);
    C[row * N + column] = __float2half(sum);
}
void run(int M, int N, int K) {
    thrust::device_vector<half> first(M * K, 1.0f);
    thrust::device_vector<half> second = random(K * N);
    thrust::device_vector<half> third(M * N);
    multiply<<<dim3((N + 31) / 32, (M + 7) / 8), dim3(32, 8)>>>(
        thrust::raw_pointer_cast(first.data()), thrust::raw_pointer_cast(&second[0]),
        raw_pointer_cast(third.data()), M, N, K);
}
"""


def test_a_template_gets_its_type_from_vectors(tmp_path):
    source = tmp_path / "vectors.cu"
    source.write_text(OF_VECTORS)
    assert next(judged(source)).endswith("multiply: correct (half)")


@pytest.mark.exhaustive
def test_a_template_without_a_known_type_is_not_called_wrong(tmp_path):
    source = tmp_path / "vectors.cu"
    source.write_text(OF_VECTORS.replace("thrust::device_vector<half>", "auto"))
    with pytest.raises(NotSupported, match="gets matrices of an unknown type T; write a launch"):
        list(judged(source))
