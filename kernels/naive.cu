// One thread computes one element of C from global memory. threadIdx.x runs along the ROWS of C, so
// the 32 lanes of a warp read 32 different rows of A: each load of A fetches 32 sectors for 32
// words, because the words are n apart. The store of C is scattered in the same way, and only the
// load of B is cheap, since all lanes read the same word. Memory transactions therefore limit this
// kernel. It is the baseline of source V (Tables 1 and 2).

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
