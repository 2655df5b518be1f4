// launch: operators<<<dim3(CEIL_DIV(n, 64), CEIL_DIV(n, 16)), dim3(16, 16)>>>(a, b, c, n)
struct alignas(16) vec4 {
    float v[4];
    __device__ vec4 &operator+=(const vec4 &o) {
        for (int i = 0; i < 4; ++i) v[i] += o.v[i];
        return *this;
    }
};
__device__ __forceinline__ vec4 operator*(float s, const vec4 &o) {
    return {s * o.v[0], s * o.v[1], s * o.v[2], s * o.v[3]};
}
union Packed { vec4 vector; float scalar[4]; };
extern "C" __global__ void operators(const float *a, const float *b, float *c, int n) {
    const int y = threadIdx.y + blockDim.y * blockIdx.y, x4 = 4 * (threadIdx.x + blockDim.x * blockIdx.x);
    if (y >= n || x4 >= n) return;
    Packed total = {};
    int k = 0;
    do {
        Packed right = {};
        for (int i = 0; i < 4 && x4 + i < n; ++i) right.scalar[i] = b[(long long)k * n + x4 + i];
        total.vector += a[(long long)k * n + y] * right.vector;
    } while (++k < n);
    float *out = &c[(long long)y * n + x4];
    switch (n - x4) {
        default: out[3] = total.scalar[3]; [[fallthrough]];
        case 3: out[2] = total.scalar[2]; [[fallthrough]];
        case 2: out[1] = total.scalar[1]; [[fallthrough]];
        case 1: out[0] = total.scalar[0];
    }
}
// expected: correct for a transposed A (C = Aᵀ·B)
