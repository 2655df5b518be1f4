// CUDA C++ as far as the kernels of this project use it, for g++: what nvcc declares without any
// #include, with one fiber of the runtime for each thread of a block. See __init__.py.

#pragma once

#define __global__
#define __device__
#define __host__
#define __constant__ __attribute__((section("host_constant")))
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// Each worker has shared memory of its own: it runs one block at a time.
#define __shared__ thread_local

#include <stddef.h>
#include <stdint.h>

typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

constexpr int warpSize = 32;

struct uint3 {
    unsigned x, y, z;
};
struct __align__(8) float2 {
    float x, y;
};
struct __align__(16) float4 {
    float x, y, z, w;
};
struct __align__(16) uint4 {
    unsigned x, y, z, w;
};

struct __align__(8) uint2 {
    unsigned x, y;
};
struct __align__(8) int2 {
    int x, y;
};
struct __align__(16) int4 {
    int x, y, z, w;
};
struct float3 {
    float x, y, z;
};
struct __align__(16) double2 {
    double x, y;
};
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {
    }
};

static __forceinline__ float2 make_float2(float x, float y) {
    return {x, y};
}

static __forceinline__ float4 make_float4(float x, float y, float z, float w) {
    return {x, y, z, w};
}

static __forceinline__ uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return {x, y, z, w};
}

static __forceinline__ int2 make_int2(int x, int y) {
    return {x, y};
}

static __forceinline__ int4 make_int4(int x, int y, int z, int w) {
    return {x, y, z, w};
}

static __forceinline__ double2 make_double2(double x, double y) {
    return {x, y};
}

extern "C" {
float fmaf(float, float, float);
double fma(double, double, double);
float fabsf(float);
double fabs(double);
float fmaxf(float, float);
float fminf(float, float);
double fmax(double, double);
double fmin(double, double);
float rintf(float);
float sqrtf(float);
double sqrt(double);
float floorf(float);
double floor(double);
float ceilf(float);
double ceil(double);
void __syncthreads();
int __syncthreads_or(int);
// A word of shared memory that tensor cores read: checked as any load, but not counted.
unsigned host_tensor_operand(const unsigned *);
// The runtime knows which thread runs. To a thread they are constants, and no memory accesses.
__attribute__((const)) uint3 host_thread_index();
__attribute__((const)) uint3 host_block_index();
__attribute__((const)) uint3 host_block_size();
__attribute__((const)) uint3 host_grid_size();
}

#define threadIdx host_thread_index()
#define blockIdx host_block_index()
#define blockDim host_block_size()
#define gridDim host_grid_size()

// With the compiler's own contraction off, these are what their names say.
#define __fmaf_rn fmaf
#define __fma_rn fma

static __forceinline__ float __fadd_rn(float a, float b) {
    return a + b;
}

static __forceinline__ float __fmul_rn(float a, float b) {
    return a * b;
}

static __forceinline__ int __mul24(int a, int b) {
    return a * b;
}

static __forceinline__ int __umul24(unsigned a, unsigned b) {
    return a * b;
}

template <typename T>
static __forceinline__ T __ldg(const T *address) {
    return *address;
}

static __forceinline__ unsigned min(unsigned a, unsigned b) {
    return a < b ? a : b;
}

static __forceinline__ unsigned max(unsigned a, unsigned b) {
    return a > b ? a : b;
}

static __forceinline__ int min(int a, int b) {
    return a < b ? a : b;
}

static __forceinline__ int max(int a, int b) {
    return a > b ? a : b;
}

static __forceinline__ int __float_as_int(float value) {
    int bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

static __forceinline__ float __int_as_float(int bits) {
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

// A number as one of 16 bits (IEEE 754's binary16), rounded to nearest, ties to even.
static inline unsigned host_to_half(float value) {
    const unsigned bits = __float_as_int(value), magnitude = bits & 0x7fffffff;
    const unsigned sign = bits >> 16 & 0x8000;
    if (magnitude > 0x7f800000) return sign | 0x7e00;   // not a number
    if (magnitude >= 0x477ff000) return sign | 0x7c00;  // 65520 and more: infinity
    if (magnitude < 0x38800000) {                       // below 2^-14: a multiple of 2^-24
        return sign | static_cast<unsigned>(rintf(fabsf(value) * 0x1p24f));
    }
    return sign | (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
}

static inline float host_from_half(unsigned half) {
    const unsigned exponent = half >> 10 & 31, sign = (half & 0x8000) << 16;
    if (exponent == 0) return (sign ? -0x1p-24f : 0x1p-24f) * static_cast<int>(half & 0x3ff);
    const unsigned more = exponent == 31 ? 0x70000000 : 0x38000000;  // infinity stays what it is
    return __int_as_float(sign | ((half & 0x7fff) << 13) + more);
}
