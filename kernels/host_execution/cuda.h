// CUDA C++ as far as the kernels of this project use it, for g++: what nvcc declares without any
// #include, with one fiber of the runtime for each thread of a block. See __init__.py.

#pragma once

// The C++ library's functions on numbers, without extensions of GNU and special functions, which
// take three times as long to parse, and without the C library's names, which a kernel may have.
#undef _GNU_SOURCE
#define _DEFAULT_SOURCE 1
#include <bits/c++config.h>
#undef _GLIBCXX_USE_STD_SPEC_FUNCS
#ifndef _STDLIB_H
#define _STDLIB_H
#endif
extern "C" int abs(int) noexcept;
extern "C" long labs(long) noexcept;
extern "C" long long llabs(long long) noexcept;
extern "C" double exp10(double) noexcept;
extern "C" float exp10f(float) noexcept;
#include <math.h>

#include <cstddef>
#include <cstdint>

#define __global__
#define __device__
#define __host__
#define __constant__ __attribute__((section("host_constant")))
#define __grid_constant__
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define HOST_INLINE static __forceinline__
#define HOST_FUNCTION(RESULT, NAME, PARAMETERS, ...) \
    HOST_INLINE RESULT NAME PARAMETERS {             \
        return __VA_ARGS__;                          \
    }
#define __align__(bytes) __attribute__((aligned(bytes)))
// nvcc accepts it after __shared__, too.
#define alignas __align__
// Each worker has shared memory of its own: it runs one block at a time. Without `__constinit`, g++
// guards an array of a class by a variable.
#define __shared__ __constinit thread_local

// HOST_EACH(ROW, a, b, c) is ROW(a) ROW(b) ROW(c), for up to 16 names. A macro cannot call itself,
// so HOST_FIRST leaves a call for the next name, and each scan of the result expands one.
#define HOST_EACH(ROW, ...) HOST_SCAN_4(HOST_SCAN_4(HOST_SCAN_4(HOST_FIRST(ROW, __VA_ARGS__))))
#define HOST_FIRST(ROW, NAME, ...) ROW(NAME) __VA_OPT__(HOST_REST HOST_EMPTY(ROW, __VA_ARGS__))
#define HOST_REST() HOST_FIRST
#define HOST_EMPTY ()
#define HOST_SCAN_4(...) HOST_SCAN(HOST_SCAN(HOST_SCAN(HOST_SCAN(__VA_ARGS__))))
#define HOST_SCAN(...) __VA_ARGS__

typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

constexpr int warpSize = 32;

// Vectors of up to four elements, with the alignment that a GPU needs.
#define HOST_VECTORS(NAME, TYPE)                                                \
    struct NAME##1 {                                                            \
        TYPE x;                                                                 \
    };                                                                          \
    struct __align__(2 * sizeof(TYPE)) NAME##2 {                                \
        TYPE x, y;                                                              \
    };                                                                          \
    struct NAME##3 {                                                            \
        TYPE x, y, z;                                                           \
    };                                                                          \
    struct __align__(4 * sizeof(TYPE) < 16 ? 4 * sizeof(TYPE) : 16) NAME##4 {   \
        TYPE x, y, z, w;                                                        \
    };                                                                          \
    HOST_FUNCTION(NAME##1, make_##NAME##1, (TYPE x), {x})                       \
    HOST_FUNCTION(NAME##2, make_##NAME##2, (TYPE x, TYPE y), {x, y})            \
    HOST_FUNCTION(NAME##3, make_##NAME##3, (TYPE x, TYPE y, TYPE z), {x, y, z}) \
    HOST_FUNCTION(NAME##4, make_##NAME##4, (TYPE x, TYPE y, TYPE z, TYPE w), {x, y, z, w})
HOST_VECTORS(char, signed char)
HOST_VECTORS(uchar, unsigned char)
HOST_VECTORS(short, short)
HOST_VECTORS(ushort, unsigned short)
HOST_VECTORS(int, int)
HOST_VECTORS(uint, unsigned)
HOST_VECTORS(longlong, long long)
HOST_VECTORS(ulonglong, unsigned long long)
HOST_VECTORS(float, float)
HOST_VECTORS(double, double)

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {
    }
    constexpr dim3(uint3 sizes) : x(sizes.x), y(sizes.y), z(sizes.z) {
    }
};

// How a conversion rounds: to nearest even, towards zero, up, down.
enum HostRounding { HOST_NEAREST, HOST_TO_ZERO, HOST_UP, HOST_DOWN };

// Operands of tensor cores. A fragment is a part of a matrix; `count` are the elements of a lane.
enum HostOperand { HOST_F16, HOST_BF16, HOST_TF32, HOST_S8, HOST_U8, HOST_F64 };
struct HostFragment {
    HostOperand type;
    unsigned bytes, count, rows, columns;
    bool is_sum;
};
// Of elements of so many bytes; each of the steps along K takes a register per 8 rows.
struct HostWarpProduct {
    HostOperand a, b;
    unsigned bytes, rows, steps;
};

extern "C" {
void *memcpy(void *, const void *, size_t);  // the runtime has them (--wrap)
void *memset(void *, int, size_t);
void __syncthreads();
int __syncthreads_count(int);
// A word of shared memory that tensor cores read: checked as any load, but not counted.
unsigned host_tensor_operand(const unsigned *);
// Indices come from the runtime. They are constants to a thread, so reading them is no access.
__attribute__((const)) uint3 host_thread_index();
__attribute__((const)) uint3 host_block_index();
__attribute__((const)) uint3 host_block_size();
__attribute__((const)) uint3 host_grid_size();
// Values that lanes of a warp exchange; copies to shared memory; checks of atomic operations.
uint64_t host_exchange(unsigned mask, uint64_t value, unsigned from);
unsigned host_gather(unsigned mask, uint64_t value, uint64_t *values);
unsigned host_ballot(unsigned mask, int predicate);
unsigned host_active_mask();
void host_sync_warp(unsigned mask);
void host_copy_async(void *to, const void *from, size_t bytes, size_t zeros);
void host_copy(void *to, const void *from, size_t bytes, size_t alignment);
void host_commit_copies();
void host_wait_copies(unsigned pending);
void host_object_init(void *object, unsigned expected);
uint64_t host_object_arrive(void *object, unsigned times, unsigned leaving);
void host_object_copies(void *object);
void host_object_wait(void *object, uint64_t phase);
void host_numbered_barrier(unsigned number, unsigned threads, int waits);
unsigned host_shared_number(const void *address);
void *host_shared_address(unsigned number);
uint64_t host_atomic_load(const void *address, unsigned bytes);
void host_atomic_store(void *address, uint64_t bits, unsigned bytes);
__attribute__((const)) unsigned host_lane();
// Tensor cores.
void host_load_matrices(unsigned row, unsigned count, int transposed, unsigned *words);
void host_store_matrices(unsigned row, unsigned count, int transposed, const unsigned *words);
void host_multiply_warp(HostWarpProduct shape, const unsigned *registers, double *sums);
void host_fragment_load(HostFragment fragment, void *elements, const void *from, unsigned stride,
                        int in_columns);
void host_fragment_store(HostFragment fragment, const void *elements, void *to, unsigned stride,
                         int in_columns);
void host_fragment_multiply(HostFragment a, HostFragment b, HostFragment c, const void *of_a,
                            const void *of_b, double *sums);
// Numbers of 16 bits.
__attribute__((const)) unsigned host_to_half(double value, HostRounding rounding = HOST_NEAREST);
__attribute__((const)) unsigned host_to_bfloat16(double value,
                                                 HostRounding rounding = HOST_NEAREST);
__attribute__((const)) float host_from_half(unsigned half);
__attribute__((const)) unsigned host_half_fused_sum(unsigned a, unsigned b, unsigned c);
__attribute__((const)) unsigned host_bfloat16_fused_sum(unsigned a, unsigned b, unsigned c);
}

#define threadIdx host_thread_index()
#define blockIdx host_block_index()
#define blockDim host_block_size()
#define gridDim host_grid_size()

HOST_FUNCTION(int, __syncthreads_or, (int predicate), __syncthreads_count(predicate) != 0)
HOST_FUNCTION(int, __syncthreads_and, (int predicate), __syncthreads_count(!predicate) == 0)

#define HOST_LOAD(NAME)                    \
    template <typename T>                  \
    HOST_INLINE T NAME(const T *address) { \
        return *address;                   \
    }
HOST_EACH(HOST_LOAD, __ldg, __ldca, __ldcg, __ldcs, __ldcv, __ldlu)

#define HOST_STORE(NAME)                         \
    template <typename T>                        \
    HOST_INLINE void NAME(T *address, T value) { \
        *address = value;                        \
    }
HOST_EACH(HOST_STORE, __stwb, __stcg, __stcs, __stwt)

// ---- Lanes of a warp

template <typename T>
HOST_INLINE T host_shuffle(unsigned mask, T value, unsigned from) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles exchange 4 or 8 bytes");
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    bits = host_exchange(mask, bits, from);
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

template <typename T>
HOST_INLINE T __shfl_sync(unsigned mask, T value, int from, int width = warpSize) {
    return host_shuffle(mask, value, (host_lane() & -width) | (from & (width - 1)));
}

template <typename T>
HOST_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = warpSize) {
    const unsigned lane = host_lane();
    return host_shuffle(mask, value, (lane & (width - 1)) < by ? lane : lane - by);
}

template <typename T>
HOST_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = warpSize) {
    const unsigned lane = host_lane();
    return host_shuffle(mask, value, (lane & (width - 1)) + by < width ? lane + by : lane);
}

template <typename T>
HOST_INLINE T __shfl_xor_sync(unsigned mask, T value, int by, int width = warpSize) {
    const unsigned lane = host_lane();
    return host_shuffle(mask, value, (lane ^ by) < (lane & -width) + width ? lane ^ by : lane);
}

HOST_FUNCTION(unsigned, __ballot_sync, (unsigned mask, int predicate), host_ballot(mask, predicate))
HOST_FUNCTION(int, __any_sync, (unsigned mask, int predicate), host_ballot(mask, predicate) != 0)
HOST_FUNCTION(int, __all_sync, (unsigned mask, int predicate), host_ballot(mask, !predicate) == 0)
HOST_FUNCTION(void, __syncwarp, (unsigned mask = ~0u), host_sync_warp(mask))

// ---- Copies to shared memory that a thread waits for

HOST_FUNCTION(void, __pipeline_memcpy_async,
              (void *to, const void *from, size_t bytes, size_t zeros = 0),
              host_copy_async(to, from, bytes, zeros))
HOST_FUNCTION(void, __pipeline_commit, (), host_commit_copies())
HOST_FUNCTION(void, __pipeline_wait_prior, (unsigned pending), host_wait_copies(pending))

// ---- Atomic operations: no other thread runs before they are done

template <typename T, typename Result>
HOST_INLINE T host_atomic(T *address, Result result) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "atomic operations have 4 or 8 bytes");
    uint64_t bits = host_atomic_load(address, sizeof(T));
    T old, next;
    __builtin_memcpy(&old, &bits, sizeof old);
    next = result(old);
    __builtin_memcpy(&bits, &next, sizeof next);
    host_atomic_store(address, bits, sizeof(T));
    return old;
}

#define HOST_ATOMIC(NAME, RESULT)                                        \
    template <typename T>                                                \
    HOST_INLINE T NAME(T *address, decltype(T() + T()) value) {          \
        return host_atomic(address, [=](T old) -> T { return RESULT; }); \
    }
HOST_ATOMIC(atomicAdd, old + value)
HOST_ATOMIC(atomicSub, old - value)
HOST_ATOMIC(atomicExch, value)
HOST_ATOMIC(atomicMin, old < value ? old : value)
HOST_ATOMIC(atomicMax, old > value ? old : value)
HOST_ATOMIC(atomicAnd, old &value)
HOST_ATOMIC(atomicOr, old | value)
HOST_ATOMIC(atomicXor, old ^ value)

template <typename T>
HOST_INLINE T atomicCAS(T *address, decltype(T() + T()) expected, decltype(T() + T()) value) {
    return host_atomic(address, [=](T old) -> T { return old == T(expected) ? T(value) : old; });
}

HOST_FUNCTION(void, __threadfence, (), static_cast<void>(0))
HOST_FUNCTION(void, __threadfence_block, (), static_cast<void>(0))
