"""Kernels with elements of 16 and 8 bits, as they are: verdicts with their error bounds."""

import numpy as np
import pytest

from kernels.host_execution.binding import KernelFault
from kernels.launches import lines
from kernels.launches.reading import ROWS, Operands, Precision
from kernels.products.elements import STORED
from kernels.products.matrices import reference_within
from kernels.products.shape import Shape

EXHAUSTIVE = pytest.mark.exhaustive
TILED = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
__global__ void product(const half *A, const half *B, float *C, int M, int N, int K) {
    __shared__ half left[16][16], right[16][16];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    float sum = 0;
    for (int k = 0; k < K; k += 16) {
        left[y][x] = row < M && k + x < K ? A[row * K + k + x] : half(0);
        right[y][x] = k + y < K && column < N ? B[(k + y) * N + column] : half(0);
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += float(left[y][i]) * float(right[i][x]);
        __syncthreads();
    }
    if (row < M && column < N) C[row * N + column] = sum;
}
"""
SHORT_SUM = TILED.replace("float sum", "half sum").replace("float *C", "half *C")
SHORT_SUM = SHORT_SUM.replace("sum += float(left[y][i]) * float(", "sum += left[y][i] * (")
BYTES = """
#include <cstdint>
__global__ void product(int M, int N, int K, const int8_t *A, const int8_t *B, int32_t *C) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || column >= N) return;
    int sum = 0;
    for (int i = 0; i < K; i += 4) {
        const int8_t *b = B + i * N + column;
        const char4 four = make_char4(b[0], b[N], b[2 * N], b[3 * N]);
        sum = __dp4a(*(const int *)(A + row * K + i), *(const int *)&four, sum);
    }
    C[row * N + column] = sum;
}
"""
# A name of the file itself declares nothing, unlike `__float_to_tf32`.
ROUNDED = """__device__ float tf32_of(float x) {
    return __int_as_float(__float_as_int(x) + 0x1000 & ~0x1fff);
}
"""
TF32 = ROUNDED + TILED.replace("half", "float").replace(
    "sum += float(left[y][i]) * float(right[i][x])",
    "sum += __float_to_tf32(left[y][i]) * __float_to_tf32(right[i][x])",
)


@pytest.fixture(autouse=True)
def without_limits(monkeypatch):
    monkeypatch.setattr(lines, "limited", lambda work, *_: work())


def verdict(folder, text):
    file = folder / "mine.cu"
    file.write_text(text)
    arguments = "M, N, K, A, B, C" if "int8_t" in text else "A, B, C, M, N, K"
    grid = "dim3(CEIL_DIV(N, 16), CEIL_DIV(M, 16)), dim3(16, 16)"
    return next(lines.judged(file, f"product<<<{grid}>>>({arguments})")).partition(": ")[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (TILED, "product: correct (half, float)"),
        pytest.param(
            TILED.replace("half", "nv_bfloat16"),
            "product: correct (bfloat16, float)",
            marks=EXHAUSTIVE,
        ),
        pytest.param(SHORT_SUM, "product: correct (half, sums of 16 bits)", marks=EXHAUSTIVE),
        pytest.param(
            TILED.replace("half", "double").replace("float", "double"),
            "product: correct (double)",
            marks=EXHAUSTIVE,
        ),
        (BYTES, "product: correct (int8, int) for sizes that are multiples of 4"),
        pytest.param(TF32, "product: correct (operands rounded to TF32)", marks=EXHAUSTIVE),
    ],
)
def test_correct_kernels_of_each_element_type_pass(tmp_path, text, says):
    assert verdict(tmp_path, text) == says


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        (TILED, "__syncthreads();\n    }", "}", "races with thread"),
        pytest.param(SHORT_SUM, "k + x < K", "k + x < K - 1", "elements wrong", marks=EXHAUSTIVE),
        pytest.param(
            SHORT_SUM, "left[y][i]", "half(0.99f) * left[y][i]", "elements wrong", marks=EXHAUSTIVE
        ),
        pytest.param(
            TF32,
            "__float_to_tf32(left[y][i])",
            "float(half(left[y][15 - i]))",
            "elements wrong",
            marks=EXHAUSTIVE,
        ),
        (TF32, "__float_to_tf32(", "tf32_of(", "the error is that of TF32 or 16-bit operands"),
        (BYTES, "b[2 * N]", "b[N]", "elements wrong"),
    ],
)
def test_a_wrong_kernel_of_each_element_type_is_found(tmp_path, text, old, new, message):
    assert old in text
    with pytest.raises(KernelFault, match=message):
        verdict(tmp_path, text.replace(old, new))


def test_the_error_bound_covers_rounded_operands_sums_and_results():
    rng = np.random.default_rng(1)
    a, b = rng.uniform(-1, 1, (1, 8, 64)), rng.uniform(-1, 1, (1, 64, 8))
    half = STORED["h"]
    sums = np.zeros((1, 8, 8), np.float16)
    for k in range(64):
        sums = sums + a[..., k : k + 1].astype(np.float16) * b[:, k : k + 1].astype(np.float16)
    product, bound = reference_within(a, b, half.roundoff, half.roundoff, 0.0)
    assert (np.abs(sums - product) <= bound).all()
    assert bound.max() < 2
    assert reference_within(a, b, 0.0, 0.0, 0.0)[1].max() == 0


def test_bfloat16_is_stored_as_rounded_bits():
    stored = STORED["b"].encoded(np.array([1.0, 1 + 2.0**-8, 1 + 3 * 2.0**-8, -2.5]))
    assert STORED["b"].decoded(stored).tolist() == [1.0, 1.0, 1 + 2.0**-6, -2.5]


def test_the_error_bound_grows_with_alpha():
    rng = np.random.default_rng(1)
    a, b, c = (rng.uniform(-1, 1, 64).astype(np.float32) for _ in range(3))
    operands = Operands(Shape.square(8), Precision(), a, b, c)
    product, bound = reference_within(
        a.reshape(1, 8, 8), b.reshape(1, 8, 8), *Precision().roundoffs
    )
    for alpha in (64.0, -64.0):
        wrong = alpha * product + 0.5 * 64 * bound
        assert operands.verdict(ROWS, wrong.astype(np.float32).ravel(), (alpha, 0.0)).passed
