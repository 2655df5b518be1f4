// The naive kernel with threadIdx.x along the COLUMN of C: the lanes of a warp read B and write C
// in consecutive words (coalesced), and share the element of A (source T, second step of its
// ladder).

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
