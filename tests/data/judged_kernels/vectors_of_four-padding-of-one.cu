#define FLOAT4(p) (reinterpret_cast<float4 *>(&(p))[0])
#define CFLOAT4(p) (reinterpret_cast<const float4 *>(&(p))[0])
// Needs K and N to be multiples of four.
__global__ void vec4(const float *a, const float *b, float *c, const int M, const int N, const int K) {
    __shared__ float s_a[32][16 + 1];
    __shared__ float s_b[16][64];
    const int tx = threadIdx.x, ty = threadIdx.y, tid = ty * blockDim.x + tx;
    const int row = blockIdx.y * 32 + ty * 2, col = blockIdx.x * 64 + tx * 4;
    float4 r[2] = {make_float4(0, 0, 0, 0), make_float4(0, 0, 0, 0)};
    for (int bk = 0; bk < K; bk += 16) {
        if (tid < 128) {
            const int lr = tid / 4, lc = tid % 4 * 4;
            const int gr = blockIdx.y * 32 + lr, gc = bk + lc;
            FLOAT4(s_a[lr][lc]) = gr < M && gc < K ? CFLOAT4(a[gr * K + gc]) : make_float4(0, 0, 0, 0);
        }
        const int lr = tid / 16, lc = tid % 16 * 4;
        const int gr = bk + lr, gc = blockIdx.x * 64 + lc;
        FLOAT4(s_b[lr][lc]) = gr < K && gc < N ? CFLOAT4(b[gr * N + gc]) : make_float4(0, 0, 0, 0);
        __syncthreads();
        for (int k = 0; k < 16; ++k) {
            const float4 v = FLOAT4(s_b[k][tx * 4]);
            for (int i = 0; i < 2; ++i) {
                const float w = s_a[ty * 2 + i][k];
                r[i].x += w * v.x; r[i].y += w * v.y; r[i].z += w * v.z; r[i].w += w * v.w;
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 2; ++i)
        if (row + i < M && col < N) FLOAT4(c[(row + i) * N + col]) = r[i];
}
void run(const float *a, const float *b, float *c, int M, int N, int K) {
    vec4<<<dim3((N + 63) / 64, (M + 31) / 32), dim3(16, 16)>>>(a, b, c, M, N, K);
}
// expected: misaligned
