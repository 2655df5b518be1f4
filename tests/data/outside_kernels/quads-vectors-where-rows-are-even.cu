// launch: quads<<<dim3(CEIL_DIV(n, 64), CEIL_DIV(m, 64)), dim3(16, 16)>>>(a, b, c, m, n, k)
#ifndef GUARDED
#define GUARDED 0
#endif
#define OFFSET(row, col, ld) ((row) * (ld) + (col))
#define FLOAT4(pointer) (reinterpret_cast<float4 *>(&(pointer))[0])
#define CONST4(pointer) (reinterpret_cast<const float4 *>(&(pointer))[0])
extern "C" __global__ void quads(const float *__restrict__ a, const float *__restrict__ b,
                                 float *__restrict__ c, const int M, const int N, const int K) {
    __shared__ alignas(16) float s_a[16][64];
    alignas(16) __shared__ float s_b[16][64];
    const int tid = threadIdx.y * blockDim.x + threadIdx.x;
    const int load_a_m = tid >> 2, load_a_k = (tid & 3) << 2;
    const int load_b_k = tid >> 4, load_b_n = (tid & 15) << 2;
    float r_c[4][4] = {0.0};
    for (int bk = 0; bk < (K + 15) / 16; bk++) {
        const int m = blockIdx.y * 64 + load_a_m, ka = bk * 16 + load_a_k;
        const int kb = bk * 16 + load_b_k, n = blockIdx.x * 64 + load_b_n;
        float4 va = {0, 0, 0, 0}, vb = va;
        if (!GUARDED || (K % 2 == 0 && m < M && ka < K)) va = CONST4(a[OFFSET(m, ka, K)]);
        else if (m < M) {
            if (ka < K) va.x = a[OFFSET(m, ka, K)];
            if (ka + 1 < K) va.y = a[OFFSET(m, ka + 1, K)];
            if (ka + 2 < K) va.z = a[OFFSET(m, ka + 2, K)];
            if (ka + 3 < K) va.w = a[OFFSET(m, ka + 3, K)];
        }
        if (!GUARDED || (N % 4 == 0 && kb < K && n < N)) vb = CONST4(b[OFFSET(kb, n, N)]);
        else if (kb < K) {
            if (n < N) vb.x = b[OFFSET(kb, n, N)];
            if (n + 1 < N) vb.y = b[OFFSET(kb, n + 1, N)];
            if (n + 2 < N) vb.z = b[OFFSET(kb, n + 2, N)];
            if (n + 3 < N) vb.w = b[OFFSET(kb, n + 3, N)];
        }
        s_a[load_a_k][load_a_m] = va.x;
        s_a[load_a_k + 1][load_a_m] = va.y;
        s_a[load_a_k + 2][load_a_m] = va.z;
        s_a[load_a_k + 3][load_a_m] = va.w;
        FLOAT4(s_b[load_b_k][load_b_n]) = vb;
        __syncthreads();
#pragma unroll
        for (int tk = 0; tk < 16; tk++) {
            const float4 x = FLOAT4(s_a[tk][threadIdx.y * 4]), y = FLOAT4(s_b[tk][threadIdx.x * 4]);
            const float *const px = &x.x, *const py = &y.x;
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++) r_c[i][j] += px[i] * py[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; i++) {
        const int m = blockIdx.y * 64 + threadIdx.y * 4 + i, n = blockIdx.x * 64 + threadIdx.x * 4;
        if (m >= M) break;
        for (int j = 0; j < 4; j++)
            if (n + j < N) c[OFFSET(m, n + j, N)] = r_c[i][j];
    }
}
// expected: :(?:20): .*(?:is misaligned|is out of bounds)
