// CUDA C++ as far as the kernels of this project use it, for g++: what nvcc declares without any
// #include, with one fiber of the runtime for each thread of a block. See __init__.py.

#pragma once

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// Each worker has shared memory of its own: it runs one block at a time.
#define __shared__ thread_local

typedef __SIZE_TYPE__ size_t;

struct uint3 {
    unsigned x, y, z;
};
struct __align__(8) float2 {
    float x, y;
};
struct __align__(16) float4 {
    float x, y, z, w;
};

static __forceinline__ float2 make_float2(float x, float y) {
    return {x, y};
}

static __forceinline__ float4 make_float4(float x, float y, float z, float w) {
    return {x, y, z, w};
}

extern "C" {
float fmaf(float, float, float);
double fma(double, double, double);
void __syncthreads();
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

static __forceinline__ int min(int a, int b) {
    return a < b ? a : b;
}

static __forceinline__ int max(int a, int b) {
    return a > b ? a : b;
}
