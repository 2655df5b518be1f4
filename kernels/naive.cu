// One element of C a thread, inner product over global memory. threadIdx.x runs along the ROW of C:
// the lanes of a warp read A with stride n and write C with stride n (uncoalesced), and all read
// the same element of B. This is the baseline of every gain in the study (source V, Tables 1 and
// 2).

extern "C" __global__ void naive(const float *a, const float *b, float *c, int n) {
    const int row = blockIdx.x * BLOCK + threadIdx.x;
    const int column = blockIdx.y * BLOCK + threadIdx.y;
#if GUARDED
    if (row >= n || column >= n) return;
#endif
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        sum += a[row * n + k] * b[k * n + column];
    }
    c[row * n + column] = sum;
}
