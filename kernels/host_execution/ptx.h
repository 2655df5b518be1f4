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

// PTX's lop3: bit 4a + 2b + c of a table for each bit of three words.
HOST_INLINE unsigned host_logic(unsigned a, unsigned b, unsigned c, unsigned table) {
    unsigned result = 0;
    for (int i = 0; i < 8; ++i)
        if (table >> i & 1) result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return result;
}

// PTX's prmt: each digit of the selector is a byte of the pair, or (from 8 on) copies of its sign.
HOST_INLINE unsigned host_permuted(unsigned low, unsigned high, unsigned selector) {
    unsigned result = __byte_perm(low, high, selector);
    for (int i = 0; i < 32; i += 8)
        if (selector >> (i / 2) & 8)
            result = (result & ~(0xffu << i)) | (result >> (i + 7) & 1 ? 0xffu : 0) << i;
    return result;
}

// The transposed matrix of which each lane has two elements.
HOST_INLINE unsigned host_transposed(unsigned word) {
    const unsigned lane = host_lane(), from = 8 * (lane % 4) + lane / 8, shift = lane / 4 % 2 * 16;
    const unsigned low = __shfl_sync(~0u, word, from), high = __shfl_sync(~0u, word, from + 4);
    return (low >> shift & 0xffff) | (high >> shift & 0xffff) << 16;
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
