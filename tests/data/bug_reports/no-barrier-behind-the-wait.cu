// huggingface/optimum-quanto #332: a thread waits for its own copies, and reads those of others
// without a barrier.
#include <cuda_pipeline.h>
__global__ void fetched(const float *a, const float *b, float *c, int n) {
    __shared__ float ta[16][16], tb[16][16];
    const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        const bool in_a = row < n && k + x < n, in_b = k + y < n && col < n;
        __pipeline_memcpy_async(&ta[y][x], in_a ? a + row * n + k + x : a, 4, in_a ? 0 : 4);
        __pipeline_memcpy_async(&tb[y][x], in_b ? b + (k + y) * n + col : b, 4, in_b ? 0 : 4);
        __pipeline_commit();
        __pipeline_wait_prior(0);
        // twin: __syncthreads();
        for (int i = 0; i < 16; ++i) sum += ta[y][i] * tb[i][x];
        __syncthreads();
    }
    if (row < n && col < n) c[row * n + col] = sum;
}
// expected: :(10|11|13|15|16):.*(races|uninitialised)
