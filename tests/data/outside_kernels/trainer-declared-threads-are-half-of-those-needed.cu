// launch: trainer<<<dim3(CEIL_DIV(n, 32), CEIL_DIV(n, 32)), dim3(8, 4)>>>(inp, weight, out, n)
#include <stdio.h>
#include <assert.h>
// In the style of a trainer's matmul_forward: each thread has 4 x 4 results.
__device__ float4 ld_vec(const float *p) { return *reinterpret_cast<const float4 *>(p); }
__device__ void st_vec(float *p, float4 val) { *reinterpret_cast<float4 *>(p) = val; }

extern "C" __global__ void __launch_bounds__(64) trainer(const float *inp, const float *weight,
                                                         float *out, int n) {
    int oc = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    __shared__ float lhs_s[32][16];
    __shared__ float rhs_s[16][32];
    int tid = blockDim.x * threadIdx.y + threadIdx.x;
    float vals[4][4] = {};
    for (int so = 0; so < n; so += 16) {
        __syncthreads();
        for (int i = tid; i < 32 * 16; i += blockDim.x * blockDim.y) {
            int r = 32 * blockIdx.y + i / 16, k = so + i % 16;
            lhs_s[i / 16][i % 16] = r < n && k < n ? inp[r * n + k] : 0.0f;
        }
        for (int i = tid; i < 16 * 32; i += blockDim.x * blockDim.y) {
            int k = so + i / 32, c = 32 * blockIdx.x + i % 32;
            rhs_s[i / 32][i % 32] = k < n && c < n ? weight[k * n + c] : 0.0f;
        }
        __syncthreads();
        for (int si = 0; si < 16; ++si) {
            float4 rhs = ld_vec(&rhs_s[si][4 * threadIdx.x]);
            for (int i = 0; i < 4; ++i) {
                float lhs = lhs_s[i + 4 * threadIdx.y][si];
                vals[i][0] += lhs * rhs.x;
                vals[i][1] += lhs * rhs.y;
                vals[i][2] += lhs * rhs.z;
                vals[i][3] += lhs * rhs.w;
            }
        }
    }
    for (int i = 0; i < 4; ++i) {
        int r = 32 * blockIdx.y + 4 * threadIdx.y + i;
        if (r >= n) return;
        if (n % 4 == 0 && oc < n) {
            st_vec(out + r * n + oc, make_float4(vals[i][0], vals[i][1], vals[i][2], vals[i][3]));
        } else {
            for (int j = 0; j < 4 && oc + j < n; ++j) out[r * n + oc + j] = vals[i][j];
        }
    }
}
// expected: :(?:6): .*(?:does not store C)
