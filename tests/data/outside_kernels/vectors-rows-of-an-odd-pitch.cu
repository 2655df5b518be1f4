// launch: vectors<<<dim3(CEIL_DIV(n, 32), CEIL_DIV(n, 32)), 64>>>(A, B, C, n)
#define GUARDED 1
#define FETCH_FLOAT4(element) (reinterpret_cast<const float4 *>(&(element))[0])
#define STORE_FLOAT4(element) (reinterpret_cast<float4 *>(&(element))[0])

__device__ __forceinline__ float4 load4(const float *matrix, int row, int col, int n) {
#if GUARDED
    float part[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) part[i] = row < n && col + i < n ? matrix[row * n + col + i] : 0;
    return make_float4(part[0], part[1], part[2], part[3]);
#else
    return FETCH_FLOAT4(matrix[row * n + col]);
#endif
}

extern "C" __global__ void vectors(const float *__restrict__ A, const float *__restrict__ B,
                                   float *__restrict__ C, int n) {
    __shared__ __align__(16) float As[8][32];  // transposed
    __shared__ __align__(16) float Bs[8][33];
    const int tid = threadIdx.x, tr = tid / 8 * 4, tc = tid % 8 * 4;
    const int aRow = tid / 2, aCol = tid % 2 * 4, bRow = tid / 8, bCol = tid % 8 * 4;
    const int row0 = blockIdx.y * 32, col0 = blockIdx.x * 32;
    float acc[4][4] = {};
    for (int k0 = 0; k0 < n; k0 += 8) {
        const float4 a = load4(A, row0 + aRow, k0 + aCol, n);
        As[aCol + 0][aRow] = a.x;
        As[aCol + 1][aRow] = a.y;
        As[aCol + 2][aRow] = a.z;
        As[aCol + 3][aRow] = a.w;
        STORE_FLOAT4(Bs[bRow][bCol]) = load4(B, k0 + bRow, col0 + bCol, n);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            const float4 x = FETCH_FLOAT4(As[k][tr]), y = FETCH_FLOAT4(Bs[k][tc]);
            const float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
            for (int i = 0; i < 4; ++i) {
                for (int j = 0; j < 4; ++j) acc[i][j] += xs[i] * ys[j];
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) {
#if GUARDED
        for (int j = 0; j < 4; ++j) {
            const int row = row0 + tr + i, col = col0 + tc + j;
            if (row < n && col < n) C[row * n + col] = acc[i][j];
        }
#else
        STORE_FLOAT4(C[(row0 + tr + i) * n + col0 + tc]) =
            make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
#endif
    }
}
// expected: :(?:31): .*(?:is misaligned)
