// launch: pipelined<<<dim3(CEIL_DIV(n, 32), CEIL_DIV(n, 32)), dim3(16, 16), 2*(32*8+8*32)*4>>>(A, B, C, n)
extern "C" __global__ void pipelined(const float *A, const float *B, float *C, int n) {
    extern __shared__ __align__(16) float stages[];
    constexpr int STAGE = 32 * 8 + 8 * 32;
    const int tx = threadIdx.x, ty = threadIdx.y, tid = ty * 16 + tx;
    const int row0 = blockIdx.y * 32, col0 = blockIdx.x * 32;
    const int ar = row0 + tid / 8, ak = tid % 8, bk = tid / 32, bc = col0 + tid % 32;
    const int tiles = (n + 7) / 8;
    float nextA, nextB, acc[2][2] = {{0, 0}, {0, 0}};
    auto fetch = [&](int k0) {
        nextA = ar < n && k0 + ak < n ? A[ar * n + k0 + ak] : 0.0f;
        nextB = k0 + bk < n && bc < n ? B[(k0 + bk) * n + bc] : 0.0f;
    };
    auto keep = [&](float *stage) {
        stage[tid] = nextA;
        stage[256 + tid] = nextB;
    };
    fetch(0);
    keep(stages);
    __syncthreads();  // first
    for (int t = 0; t < tiles; ++t) {
        const float *As = stages + t % 2 * STAGE, *Bs = As + 256;
        if (t + 1 < tiles) fetch((t + 1) * 8);
        for (int k = 0; k < 8; ++k) {
            for (int i = 0; i < 2; ++i) {
                for (int j = 0; j < 2; ++j)
                    acc[i][j] += As[(ty + 16 * i) * 8 + k] * Bs[k * 32 + tx + 16 * j];
            }
        }
        if (t + 2 < tiles) keep(stages + (t + 1) % 2 * STAGE);
        __syncthreads();  // next
    }
    for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 2; ++j) {
            const int r = row0 + ty + 16 * i, c = col0 + tx + 16 * j;
            if (r < n && c < n) C[r * n + c] = acc[i][j];
        }
    }
}
// expected: :(?:36): .*(?:elements wrong)
