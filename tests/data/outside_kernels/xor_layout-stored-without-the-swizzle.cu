// launch: xor_layout<<<dim3(CEIL_DIV(n, 32), CEIL_DIV(n, 32)), dim3(32, 8)>>>(gA, gB, gC, n)
template <int Bits, int Base, int Shift> struct Swizzle {
    static __device__ constexpr int apply(int x) {
        return x ^ ((x >> Shift) & (((1 << Bits) - 1) << Base));
    }
};
extern "C" __global__ void xor_layout(const float *gA, const float *gB, float *gC, int n) {
    using S = Swizzle<3, 2, 3>;
    __shared__ float sA[32 * 32], sB[32 * 32];
    float accum[4] = {};
    for (int kt = 0; kt < (n + 31) / 32; ++kt) {
        for (int p = threadIdx.y; p < 32; p += 8) {
            const int m = blockIdx.y * 32 + p, ka = kt * 32 + threadIdx.x;
            const int kb = kt * 32 + p, nn = blockIdx.x * 32 + threadIdx.x;
            sA[S::apply(p * 32 + threadIdx.x)] = (m < n && ka < n) ? gA[m * n + ka] : 0.0f;
            sB[p * 32 + threadIdx.x] = (kb < n && nn < n) ? gB[kb * n + nn] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < 32; ++k)
            for (int q = 0; q < 4; ++q)
                accum[q] += sA[S::apply((threadIdx.y + 8 * q) * 32 + k)] *
                            sB[S::apply(k * 32 + threadIdx.x)];
        __syncthreads();
    }
    for (int q = 0; q < 4; ++q) {
        const int m = blockIdx.y * 32 + threadIdx.y + 8 * q, nn = blockIdx.x * 32 + threadIdx.x;
        if (m < n && nn < n) gC[m * n + nn] = accum[q];
    }
}
// expected: :(?:27): .*(?:elements wrong)
