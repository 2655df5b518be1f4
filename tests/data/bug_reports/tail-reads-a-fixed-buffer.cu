// xlite-dev/LeetCUDA #514: the tail of a double buffer reads buffer 1, where the last tile lies only
// if their number is even.
#define CEIL(a, b) (((a) + (b) - 1) / (b))
template <const int B = 16>
__global__ void double_buffered(const float *a, const float *b, float *c, int M, int N, int K) {
    __shared__ float sa[2][B][B], sb[2][B][B];
    const int tx = threadIdx.x, ty = threadIdx.y, m = blockIdx.y * B + ty, n = blockIdx.x * B + tx;
    const int tiles = CEIL(K, B);
    float r = 0.f;
    sa[0][ty][tx] = m < M && tx < K ? a[m * K + tx] : 0.f;
    sb[0][ty][tx] = ty < K && n < N ? b[ty * N + n] : 0.f;
    __syncthreads();
    for (int t = 1; t < tiles; ++t) {
        const int now = (t - 1) & 1, next = t & 1, k = t * B;
        sa[next][ty][tx] = m < M && k + tx < K ? a[m * K + k + tx] : 0.f;
        sb[next][ty][tx] = k + ty < K && n < N ? b[(k + ty) * N + n] : 0.f;
        for (int e = 0; e < B; ++e) r += sa[now][ty][e] * sb[now][e][tx];
        __syncthreads();
    }
    const int last = 1;  // twin: const int last = (tiles - 1) & 1;
    for (int e = 0; e < B; ++e) r += sa[last][ty][e] * sb[last][e][tx];
    if (m < M && n < N) c[m * N + n] = r;
}
// expected: elements wrong|uninitialised
