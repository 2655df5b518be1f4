// Cooperative groups and the functions of warps that compare or combine values, for g++. Groups of
// lanes are masks; lanes of a group are numbered by rank.

#pragma once

#include "functions.h"

HOST_FUNCTION(unsigned, __activemask, (), host_active_mask())

// The values of a group's lanes, folded in the order of lanes.
template <typename T, typename Operation>
HOST_INLINE T host_folded(unsigned mask, T value, Operation operation, unsigned before = 32) {
    static_assert(sizeof(T) <= 8, "lanes exchange at most 8 bytes");
    uint64_t bits = 0, all[warpSize];
    __builtin_memcpy(&bits, &value, sizeof value);
    unsigned left = host_gather(mask, bits, all) & ((1ull << before) - 1);
    T folded;
    __builtin_memcpy(&folded, &all[__builtin_ctz(left)], sizeof folded);
    while (left &= left - 1) {
        T next;
        __builtin_memcpy(&next, &all[__builtin_ctz(left)], sizeof next);
        folded = operation(folded, next);
    }
    return folded;
}

template <typename T>
HOST_INLINE unsigned __match_any_sync(unsigned mask, T value) {
    uint64_t bits = 0, all[warpSize];
    __builtin_memcpy(&bits, &value, sizeof value);
    unsigned same = 0;
    for (unsigned left = host_gather(mask, bits, all); left; left &= left - 1) {
        const unsigned lane = __builtin_ctz(left);
        same |= unsigned(all[lane] == bits) << lane;
    }
    return same;
}

template <typename T>
HOST_INLINE unsigned __match_all_sync(unsigned mask, T value, int *all_match) {
    const bool all = (__match_any_sync(mask, value) & mask) == mask;
    *all_match = all;
    return all ? mask : 0;
}

namespace cooperative_groups {

#define HOST_OPERATION(NAME, RESULT)                   \
    template <typename T>                              \
    struct NAME {                                      \
        __forceinline__ T operator()(T a, T b) const { \
            return RESULT;                             \
        }                                              \
    };
HOST_OPERATION(plus, a + b)
HOST_OPERATION(less, b < a ? b : a)
HOST_OPERATION(greater, a < b ? b : a)
HOST_OPERATION(bit_and, a &b)
HOST_OPERATION(bit_or, a | b)
HOST_OPERATION(bit_xor, a ^ b)

}  // namespace cooperative_groups

#define HOST_REDUCE(NAME, OPERATION)                                         \
    template <typename T>                                                    \
    HOST_INLINE T __reduce_##NAME##_sync(unsigned mask, T value) {           \
        return host_folded(mask, value, cooperative_groups::OPERATION<T>()); \
    }
HOST_REDUCE(add, plus)
HOST_REDUCE(min, less)
HOST_REDUCE(max, greater)
HOST_REDUCE(and, bit_and)
HOST_REDUCE(or, bit_or)
HOST_REDUCE(xor, bit_xor)

HOST_INLINE unsigned host_thread_rank() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
HOST_INLINE unsigned host_block_threads() {
    return blockDim.x * blockDim.y * blockDim.z;
}

namespace cooperative_groups {

// Lanes of a warp.
struct host_group {
    unsigned mask;

    __forceinline__ unsigned size() const {
        return __popc(mask);
    }
    __forceinline__ unsigned num_threads() const {
        return size();
    }
    __forceinline__ unsigned thread_rank() const {
        return __popc(mask & ((1u << host_lane()) - 1));
    }
    __forceinline__ void sync() const {
        host_sync_warp(mask);
    }
    __forceinline__ unsigned lane_of(unsigned rank) const {
        unsigned left = mask;
        while (rank-- && left)
            left &= left - 1;
        return left ? __builtin_ctz(left) : host_lane();
    }
    // Of lanes, a bit for each rank.
    __forceinline__ unsigned ranks_of(unsigned lanes) const {
        unsigned ranks = 0, rank = 0;
        for (unsigned left = mask; left; left &= left - 1)
            ranks |= (lanes >> __builtin_ctz(left) & 1) << rank++;
        return ranks;
    }
    template <typename T>
    __forceinline__ T shfl(T value, int rank) const {
        return host_shuffle(mask, value, lane_of(rank % size()));
    }
    template <typename T>
    __forceinline__ T shfl_up(T value, unsigned by) const {
        const unsigned rank = thread_rank();
        return host_shuffle(mask, value, rank < by ? host_lane() : lane_of(rank - by));
    }
    template <typename T>
    __forceinline__ T shfl_down(T value, unsigned by) const {
        const unsigned rank = thread_rank();
        return host_shuffle(mask, value, rank + by < size() ? lane_of(rank + by) : host_lane());
    }
    template <typename T>
    __forceinline__ T shfl_xor(T value, unsigned by) const {
        return host_shuffle(mask, value, lane_of(thread_rank() ^ by));
    }
    __forceinline__ int any(int predicate) const {
        return host_ballot(mask, predicate) != 0;
    }
    __forceinline__ int all(int predicate) const {
        return host_ballot(mask, !predicate) == 0;
    }
    __forceinline__ unsigned ballot(int predicate) const {
        return ranks_of(host_ballot(mask, predicate));
    }
    template <typename T>
    __forceinline__ unsigned match_any(T value) const {
        return ranks_of(__match_any_sync(mask, value));
    }
    template <typename T>
    __forceinline__ unsigned match_all(T value, int &all_match) const {
        return ranks_of(__match_all_sync(mask, value, &all_match));
    }
};

struct thread_block {
    static __forceinline__ void sync() {
        __syncthreads();
    }
    static __forceinline__ unsigned thread_rank() {
        return host_thread_rank();
    }
    static __forceinline__ unsigned size() {
        return host_block_threads();
    }
    static __forceinline__ unsigned num_threads() {
        return host_block_threads();
    }
    static __forceinline__ dim3 group_index() {
        return blockIdx;
    }
    static __forceinline__ dim3 thread_index() {
        return threadIdx;
    }
    static __forceinline__ dim3 group_dim() {
        return blockDim;
    }
    static __forceinline__ dim3 dim_threads() {
        return blockDim;
    }
};

HOST_FUNCTION(thread_block, this_thread_block, (), {})

struct grid_group {  // without sync(): blocks run one after the other
    static __forceinline__ unsigned long long block_rank() {
        return blockIdx.x + gridDim.x * (blockIdx.y + 1ull * gridDim.y * blockIdx.z);
    }
    static __forceinline__ unsigned long long num_blocks() {
        return 1ull * gridDim.x * gridDim.y * gridDim.z;
    }
    static __forceinline__ unsigned long long thread_rank() {
        return block_rank() * host_block_threads() + host_thread_rank();
    }
    static __forceinline__ unsigned long long size() {
        return num_blocks() * host_block_threads();
    }
};

HOST_FUNCTION(grid_group, this_grid, (), {})

struct coalesced_group : host_group {};

HOST_FUNCTION(coalesced_group, coalesced_threads, (), {{host_active_mask()}})

// The lanes of an aligned part of a warp.
HOST_INLINE unsigned host_tile(unsigned size) {
    return (size < 32 ? (1u << size) - 1 : ~0u) << (host_lane() & -size & 31);
}

template <unsigned SIZE, typename Parent = void>
struct thread_block_tile : host_group {
    thread_block_tile(host_group lanes) : host_group(lanes) {
    }
    template <typename Other>
    thread_block_tile(const thread_block_tile<SIZE, Other> &tile) : host_group(tile) {
    }
    static_assert(SIZE <= 32 && (SIZE & (SIZE - 1)) == 0, "tiles have 1, 2, 4, 8, 16 or 32 lanes");
    static constexpr __forceinline__ unsigned size() {
        return SIZE;
    }
    static constexpr __forceinline__ unsigned num_threads() {
        return SIZE;
    }
    static __forceinline__ unsigned thread_rank() {
        return host_lane() % SIZE;
    }
    static __forceinline__ unsigned meta_group_rank() {
        return host_thread_rank() / SIZE;
    }
    static __forceinline__ unsigned meta_group_size() {
        return (host_block_threads() + SIZE - 1) / SIZE;
    }
};

template <unsigned SIZE, typename Parent>
HOST_INLINE thread_block_tile<SIZE, Parent> tiled_partition(const Parent &) {
    return host_group{host_tile(SIZE)};
}

struct thread_group : host_group {  // a block, or lanes
    bool is_block;

    __forceinline__ thread_group(thread_block) : host_group{0}, is_block(true) {
    }
    __forceinline__ thread_group(host_group lanes) : host_group(lanes), is_block(false) {
    }
    __forceinline__ void sync() const {
        is_block ? __syncthreads() : host_group::sync();
    }
    __forceinline__ unsigned size() const {
        return is_block ? host_block_threads() : host_group::size();
    }
    __forceinline__ unsigned thread_rank() const {
        return is_block ? host_thread_rank() : host_group::thread_rank();
    }
};

HOST_INLINE thread_group tiled_partition(const thread_group &, unsigned size) {
    return host_group{host_tile(size)};
}

template <typename Label>
HOST_INLINE coalesced_group labeled_partition(const host_group &group, Label label) {
    return {{__match_any_sync(group.mask, label)}};
}
HOST_INLINE coalesced_group binary_partition(const host_group &group, bool side) {
    return labeled_partition(group, int(side));
}

template <typename Group>
HOST_INLINE void sync(const Group &group) {
    group.sync();
}

template <typename T, typename Operation>
HOST_INLINE T reduce(const host_group &group, T value, Operation operation) {
    return host_folded(group.mask, value, operation);
}
template <typename T, typename Operation = plus<T>>
HOST_INLINE T inclusive_scan(const host_group &group, T value, Operation operation = {}) {
    return host_folded(group.mask, value, operation, host_lane() + 1);
}

// What a caller says about the alignment of a copy, beside its bytes.
template <typename Size>
HOST_INLINE size_t host_alignment(const Size &) {
    return 1;
}

// Copies by all threads of a group, in the largest parts that alignment allows.
template <typename Group, typename Size>
HOST_INLINE void host_copy_by(const Group &group, void *to, const void *from, Size size) {
    const size_t bytes = size, alike = size_t(to) | size_t(from) | bytes;
    const unsigned part = alike % 16 == 0 ? 16 : alike % 8 == 0 ? 8 : alike % 4 == 0 ? 4 : 1;
    for (size_t i = size_t(group.thread_rank()) * part; i < bytes; i += group.size() * part) {
        host_copy(static_cast<char *>(to) + i, static_cast<const char *>(from) + i, part,
                  host_alignment(size));
    }
}

template <typename Group, typename T, typename Size>
HOST_INLINE void memcpy_async(const Group &group, T *to, const T *from, Size bytes) {
    host_copy_by(group, to, from, bytes);
    host_commit_copies();
}
template <typename Group, typename T>
HOST_INLINE void memcpy_async(const Group &group, T *to, size_t count, const T *from, size_t has) {
    memcpy_async(group, to, from, sizeof(T) * (count < has ? count : has));
}
template <unsigned PENDING, typename Group>
HOST_INLINE void wait_prior(const Group &group) {
    host_wait_copies(PENDING);
    group.sync();
}
template <typename Group>
HOST_INLINE void wait(const Group &group) {
    wait_prior<0>(group);
}

}  // namespace cooperative_groups
