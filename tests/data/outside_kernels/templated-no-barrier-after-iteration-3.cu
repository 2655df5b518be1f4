// launch: templated<<<dim3(CEIL_DIV(n, 64), CEIL_DIV(n, 64)), 256>>>(x, y, z, n)
namespace detail {
template <unsigned V> struct log2_of { static constexpr unsigned value = 1 + log2_of<V / 2>::value; };
template <> struct log2_of<1> { static constexpr unsigned value = 0; };
template <typename T, unsigned BM, unsigned BN, unsigned BK, unsigned TM, unsigned TN>
__device__ __forceinline__ void gemm(const T *__restrict__ lhs, const T *__restrict__ rhs,
                                     T *__restrict__ out, const unsigned dim) {
    constexpr unsigned kThreads = (BM / TM) * (BN / TN), kShift = log2_of<BN / TN>::value;
    static_assert(kThreads == 256);
    __shared__ T lhs_tile[BK][BM + 1], rhs_tile[BK][BN];
    const unsigned tid = threadIdx.x, ty = tid >> kShift, tx = tid & (BN / TN - 1);
    T acc[TM][TN] = {};
    for (unsigned k0 = 0; k0 < dim; k0 += BK) {
#pragma unroll
        for (unsigned e = tid; e < BM * BK; e += kThreads) {
            const unsigned r = blockIdx.y * BM + e / BK, k = k0 + e % BK;
            lhs_tile[e % BK][e / BK] = (r < dim) & (k < dim) ? lhs[r * dim + k] : T(0);
        }
#pragma unroll
        for (unsigned e = tid; e < BK * BN; e += kThreads) {
            const unsigned k = k0 + e / BN, c = blockIdx.x * BN + e % BN;
            rhs_tile[e / BN][e % BN] = (k < dim) & (c < dim) ? rhs[k * dim + c] : T(0);
        }
        __syncthreads();
        for (unsigned k = 0; k < BK; ++k)
            for (unsigned i = 0; i < TM; ++i)
                for (unsigned j = 0; j < TN; ++j)
                    acc[i][j] += lhs_tile[k][ty * TM + i] * rhs_tile[k][tx + j * (BN / TN)];
        if (k0 != 3 * BK) __syncthreads();
    }
    for (unsigned i = 0; i < TM; ++i)
        for (unsigned j = 0; j < TN; ++j) {
            const unsigned r = blockIdx.y * BM + ty * TM + i, c = blockIdx.x * BN + tx + j * (BN / TN);
            if (r < dim && c < dim) out[r * dim + c] = acc[i][j];
        }
}
}  // namespace detail
extern "C" __global__ void __launch_bounds__(256)
templated(const float *__restrict__ x, const float *__restrict__ y, float *__restrict__ z, int d) {
    detail::gemm<float, 64, 64, 16, 4, 4>(x, y, z, d);
}
// expected: :(?:40): .*(?:no barrier is between them)
