// The naive kernel with the two thread indices swapped: threadIdx.x now runs along the COLUMNS of
// C. The lanes of a warp share one word of A and read 32 consecutive words of B, so a load of B
// fetches 4 sectors and one of A a single sector, instead of 32. No instruction is added, which
// makes this the cheapest step of the ladder (source T, second step). Each word is still fetched n
// times, because no thread keeps what its neighbours have loaded: the next kernels use shared
// memory for that.

extern "C" __global__ void naive_coalesced(const float *a, const float *b, float *c, int n) {
    const int column = blockIdx.x * BLOCK + threadIdx.x;
    const int row = blockIdx.y * BLOCK + threadIdx.y;
#if GUARDED
    if (row >= n || column >= n) return;
#endif
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        sum += a[row * n + k] * b[k * n + column];
    }
    c[row * n + column] = sum;
}
