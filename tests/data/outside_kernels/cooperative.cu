// launch: cooperative<<<dim3(CEIL_DIV(n, 16), CEIL_DIV(n, 16)), dim3(16, 16)>>>(a, b, c, n)
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void cooperative(const float *a, const float *b, float *c, int n) {
    const auto block = cg::this_thread_block();
    const int i = block.group_index().y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n && i < n && j < n; ++k) sum += a[i * n + k] * b[k * n + j];
    block.sync();
    if (i < n && j < n) c[i * n + j] = sum;
}
// expected: correct
