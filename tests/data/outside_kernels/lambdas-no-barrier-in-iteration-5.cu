// launch: lambdas<<<dim3(CEIL_DIV(n, 32), CEIL_DIV(n, 32)), dim3(16, 16)>>>(A, B, C, n)
extern "C" __global__ void lambdas(const float *A, const float *B, float *C, const int n) {
    __shared__ float sA[2][8][32 + 4], sB[2][8][32 + 4];
    const int t = threadIdx.y * 16 + threadIdx.x;
    auto row = [&](int local) { return (int)blockIdx.y * 32 + local; };
    auto col = [&](int local) { return (int)blockIdx.x * 32 + local; };
    auto at = [n](const float *m, int r, int c) -> float { return r < n && c < n ? m[r * n + c] : 0; };
    auto stage = [&](int buffer, int k0) {
        sA[buffer][t % 8][t / 8] = at(A, row(t / 8), k0 + t % 8);
        sB[buffer][t / 32][t % 32] = at(B, k0 + t / 32, col(t % 32));
    };
    float c00 = 0, c01 = 0, c10 = 0, c11 = 0;
    stage(0, 0);
    __syncthreads();
    for (int k0 = 0, cur = 0; k0 < n; k0 += 8, cur ^= 1) {
        if (k0 + 8 < n) stage(cur ^ 1, k0 + 8);
        [&] {
            for (int k = 0; k < 8; ++k) {
                const float a0 = sA[cur][k][threadIdx.y], a1 = sA[cur][k][threadIdx.y + 16];
                const float b0 = sB[cur][k][threadIdx.x], b1 = sB[cur][k][threadIdx.x + 16];
                c00 += a0 * b0; c01 += a0 * b1; c10 += a1 * b0; c11 += a1 * b1;
            }
        }();
        if (k0 != 40) __syncthreads();
    }
    auto put = [&](int r, int c, float value) { if (r < n && c < n) C[r * n + c] = value; };
    put(row(threadIdx.y), col(threadIdx.x), c00);
    put(row(threadIdx.y), col(threadIdx.x + 16), c01);
    put(row(threadIdx.y + 16), col(threadIdx.x), c10);
    put(row(threadIdx.y + 16), col(threadIdx.x + 16), c11);
}
// expected: :(?:1|2|3|4|7|8|9|10|13|14|16|19|20|24): .*(?:no barrier is between them)
