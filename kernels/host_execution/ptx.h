// What the statements of inline PTX become (ptx.py): registers have the type of their variable, and
// an instruction takes their bits.

#pragma once

#include "tensor.h"

// The bits of a register as another type of its size, or a number of another size.
template <typename To, typename From>
HOST_INLINE To host_as(From from) {
    if constexpr (sizeof(To) == sizeof(From)) {
        To to;
        __builtin_memcpy(&to, &from, sizeof to);
        return to;
    } else {
        return (To)from;
    }
}

template <typename To, typename From>
HOST_INLINE void host_set(To &to, From from) {
    to = host_as<To>(from);
}

// The bytes of an asynchronous copy that are zero: all where a predicate says so, else those beyond
// the bytes to read.
HOST_INLINE unsigned host_zeros(unsigned bytes, bool all) {
    return all ? bytes : 0;
}
template <typename Number>
HOST_INLINE unsigned host_zeros(unsigned bytes, Number read) {
    return bytes - (unsigned)read;
}

// mma.sync with sums of one type, of which each lane has COUNT. The registers are A's, then B's.
template <typename Sum, int COUNT>
HOST_INLINE void host_mma(HostWarpProduct shape, const unsigned *registers, const unsigned *before,
                          unsigned *after) {
    Sum values[COUNT];
    double sums[COUNT];
    __builtin_memcpy(values, before, sizeof values);
    for (int i = 0; i < COUNT; ++i)
        sums[i] = values[i];
    host_multiply_warp(shape, registers, sums);
    for (int i = 0; i < COUNT; ++i)
        host_round(sums[i], values[i]);
    __builtin_memcpy(after, values, sizeof values);
}
