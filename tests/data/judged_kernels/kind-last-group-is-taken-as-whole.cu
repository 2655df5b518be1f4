// Bands of 8 block columns for the L2 cache; the last band may be narrower.
constexpr int kTile = 16, kBand = 8;
__global__ void banded(int M, int N, int K, const float *A, const float *B, float *C) {
    const int tiles_m = (M + kTile - 1) / kTile, tiles_n = (N + kTile - 1) / kTile;
    const int band = blockIdx.x / (kBand * tiles_m), within = blockIdx.x % (kBand * tiles_m);
    const int width = min(kBand, tiles_n);  // twin: const int width = min(kBand, tiles_n - band * kBand);
    const int bm = within / width, bn = band * kBand + within % width;
    const int row = bm * kTile + threadIdx.y, col = bn * kTile + threadIdx.x;
    if (row >= M || col >= N) return;
    float x = 0.f;
    for (int k = 0; k < K; ++k) x += A[row * K + k] * B[k * N + col];
    C[row * N + col] = x;
}
void launch_banded(int M, int N, int K, const float *A, const float *B, float *C) {
    const int blocks = ((M + kTile - 1) / kTile) * ((N + kTile - 1) / kTile);
    banded<<<blocks, dim3(kTile, kTile)>>>(M, N, K, A, B, C);
}
// expected: elements wrong
