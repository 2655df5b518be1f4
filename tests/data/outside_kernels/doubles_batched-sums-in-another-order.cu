// launch: doubles_batched<<<dim3(CEIL_DIV(n, 16), CEIL_DIV(m, 16), BATCH), dim3(16, 16)>>>(a, b, c, m, n, k)
struct Strides { long long a, b, c; };
__device__ Strides strides(int m, int n, int k) { return {1LL * m * k, 1LL * k * n, 1LL * m * n}; }
extern "C" __global__ void doubles_batched(const double *a, const double *b, double *c, int m, int n, int k) {
    const Strides s = strides(m, n, k);
    const double *pa = a + blockIdx.z * s.a, *pb = b + blockIdx.z * s.b;
    __shared__ double ta[16][16], tb[16][16];
    const unsigned i = blockIdx.y * 16u + threadIdx.y, j = blockIdx.x * 16u + threadIdx.x;
    double sum = 0;
    for (unsigned t = 0; t < (k + 15u) / 16u; ++t) {
        const unsigned ka = t * 16 + threadIdx.x, kb = t * 16 + threadIdx.y;
        ta[threadIdx.y][threadIdx.x] = i < m && ka < k ? pa[i * k + ka] : 0;
        tb[threadIdx.y][threadIdx.x] = kb < k && j < n ? pb[kb * n + j] : 0;
        __syncthreads();
        for (unsigned q = 0; q < 16; ++q) sum += ta[threadIdx.y][15 - q] * tb[15 - q][threadIdx.x];
        __syncthreads();
    }
    if (i < m && j < n) c[blockIdx.z * s.c + i * n + j] = sum;
}
// expected: correct
