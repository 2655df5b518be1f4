"""Kernels of any file on a real GPU: layouts, structures, factors and shared memory on request."""

import re

import pytest

from kernels.catalog.product import with_entry
from kernels.cubins.build import HOLD, build_for
from kernels.cubins.compile import architecture, build_all
from kernels.launches.program import write
from kernels.launches.verdict import judge, kernels_to_judge
from kernels.products.shape import Shape
from measurement.devices.gpu import GpuSession
from study.cells import Cell
from tests.support import ROOT
from tests.support.gpu_lock import gpu
from tests.support.supplied import supplied
from tests.support.tricks import inputs_of, outcome

pytestmark = pytest.mark.gpu("later")
COLUMNS = """
__global__ void columns(int m, int n, int k, float alpha, const float *A, int lda, const float *B,
                        int ldb, float beta, float *C, int ldc) {
    int i = blockIdx.x * 16 + threadIdx.x, j = blockIdx.y * 16 + threadIdx.y;
    if (i >= m || j >= n) return;
    float sum = 0;
    for (int p = 0; p < k; ++p) sum += A[i + p * lda] * B[p + j * ldb];
    C[i + j * ldc] = alpha * sum + beta * C[i + j * ldc];
}
void run(int m, int n, int k, float *A, float *B, float *C) {
    columns<<<dim3((m + 15) / 16, (n + 15) / 16), dim3(16, 16)>>>(m, n, k, 1, A, m, B, k, 0, C, m);
}
"""
STRUCTURES = """
struct Matrix { int width, height; float *elements; };
__global__ void structures(Matrix A, Matrix B, Matrix C) {
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    if (row >= C.height || column >= C.width) return;
    float sum = 0;
    for (int i = 0; i < A.width; ++i)
        sum += A.elements[row * A.width + i] * B.elements[i * B.width + column];
    C.elements[row * C.width + column] = sum;
}
"""
TRANSPOSED = """
template <typename T>
__global__ void transposed(const T *A, const T *B, T *C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || column >= N) return;
    T sum = 0;
    for (int i = 0; i < K; ++i) sum += A[row * K + i] * B[column * K + i];
    C[row * N + column] = sum;
}
"""
SHARED = """
#ifdef __CUDA_ARCH__
#define WIDE 1
#endif
__global__ void shared(const float *A, const float *B, float *C, int N) {
    extern __shared__ float tiles[];
    float *a = tiles, *b = tiles + 80 * 80;
    for (int k = 0; k < N; k += 80) {
        for (int i = threadIdx.x; i < 6400; i += blockDim.x) {
            a[i] = A[(blockIdx.y * 80 + i / 80) * N + k + i % 80];
            b[i] = B[(k + i / 80) * N + blockIdx.x * 80 + i % 80];
        }
        __syncthreads();
        for (int i = threadIdx.x; i < 6400; i += blockDim.x) {
            float sum = k ? C[(blockIdx.y * 80 + i / 80) * N + blockIdx.x * 80 + i % 80] : 0;
            for (int p = 0; p < 80; ++p) sum += a[i / 80 * 80 + p] * b[p * 80 + i % 80];
            C[(blockIdx.y * 80 + i / 80) * N + blockIdx.x * 80 + i % 80] = sum;
        }
        __syncthreads();
    }
}
// launch: shared<<<dim3(N / 80, N / 80), 256, 2 * 80 * 80 * 4>>>(A, B, C, N)
"""
STEPS = [
    re.sub(r"^.*// twin: ?(.*)$", r"\1", path.read_text(), flags=re.MULTILINE)
    for path in (
        ROOT / "tests/data/judged_kernels" / f"steps_{name}.cu"
        for name in (
            "split-parts-overlap",
            "atomic-half-of-the-zeros",
            "transpose-rows-for-columns",
            "apart-c-without-beta",
        )
    )
]


@pytest.mark.parametrize("text", [COLUMNS, STRUCTURES, TRANSPOSED, SHARED, *STEPS])
def test_a_user_supplied_kernel_multiplies_on_a_gpu(card, nvcc, tmp_path, text):
    path = tmp_path / "mine.cu"
    path.write_text(text)
    (name,) = kernels_to_judge(path, text, None, None)
    if text == SHARED:  # the check on the CPU takes a minute
        entry = supplied(path, text)
    else:
        judged = judge(path, text, name)
        assert judged.multiple == 1, judged.fault
        entry = write(judged, None, tmp_path)
    for shape in (Shape.square(160), Shape.parse("48x80x112")):
        if entry.takes(shape):
            one = Cell("gpu0", with_entry(entry, "float32", shape), "pinned")
            builds = [HOLD, build_for(one.product)]
            target = architecture(card.compute_capability)
            built = build_all(nvcc, builds, target, tmp_path / "cubins", 2)
            folder = tmp_path / "cubins"
            with gpu("alone"), GpuSession(card, inputs_of([one]), built, folder) as session:
                assert outcome(session, one, tmp_path, {}) is None
