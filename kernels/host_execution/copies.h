// cuda::barrier and cuda::pipeline for g++, with the copies that they wait for.

#pragma once

#include "groups.h"

namespace cuda {

enum thread_scope {
    thread_scope_system,
    thread_scope_device,
    thread_scope_block,
    thread_scope_thread,
};

template <size_t ALIGNMENT>
struct aligned_size_t {
    size_t value;
    __forceinline__ explicit aligned_size_t(size_t value) : value(value) {
    }
    __forceinline__ operator size_t() const {
        return value;
    }
    friend __forceinline__ size_t host_alignment(const aligned_size_t &) {
        return ALIGNMENT;
    }
};

template <thread_scope SCOPE>
struct barrier {
    static_assert(SCOPE == thread_scope_block, "barrier objects of a block");
    typedef uint64_t arrival_token;
    uint64_t state;

    friend __forceinline__ void init(barrier *object, long expected) {
        host_object_init(object, expected);
    }
    __forceinline__ arrival_token arrive(long times = 1) {
        return host_object_arrive(this, times, 0);
    }
    __forceinline__ void wait(arrival_token phase) {
        host_object_wait(this, phase);
    }
    __forceinline__ void arrive_and_wait() {
        wait(arrive());
    }
    __forceinline__ void arrive_and_drop() {
        host_object_arrive(this, 1, 1);
    }
};

enum class pipeline_role { producer, consumer };

template <thread_scope SCOPE, unsigned STAGES>
struct pipeline_shared_state {
    barrier<thread_scope_block> full[STAGES], empty[STAGES];
};

// Of a thread, or of a block: then `full` and `empty` are its stages.
template <thread_scope SCOPE>
struct pipeline {
    barrier<thread_scope_block> *full, *empty;
    unsigned stages;
    unsigned long long acquired, committed, waited, released;

    __forceinline__ void producer_acquire() {
        if (full && acquired >= stages)
            host_object_wait(&empty[acquired % stages], acquired / stages - 1);
        ++acquired;
    }
    __forceinline__ void producer_commit() {
        if (full) {
            host_object_copies(&full[committed % stages]);
            host_object_arrive(&full[committed % stages], 1, 0);
        }
        host_commit_copies();
        ++committed;
    }
    __forceinline__ void consumer_wait() {
        if (full)
            host_object_wait(&full[waited % stages], waited / stages);
        else
            host_wait_copies(committed - released - 1);
        ++waited;
    }
    __forceinline__ void consumer_release() {
        if (full) host_object_arrive(&empty[released % stages], 1, 0);
        ++released;
    }
    __forceinline__ void quit() {
    }
};

template <unsigned PENDING>
HOST_INLINE void pipeline_consumer_wait_prior(pipeline<thread_scope_thread> &) {
    host_wait_copies(PENDING);
}

HOST_INLINE pipeline<thread_scope_thread> make_pipeline() {
    return {};
}

template <unsigned STAGES>
HOST_INLINE pipeline<thread_scope_block> host_pipeline(
    pipeline_shared_state<thread_scope_block, STAGES> *state, unsigned producers,
    unsigned consumers) {
    if (host_thread_rank() == 0) {
        for (unsigned i = 0; i < STAGES; ++i) {
            init(&state->full[i], producers);
            init(&state->empty[i], consumers);
        }
    }
    __syncthreads();
    return {state->full, state->empty, STAGES};
}

// All threads of the block produce and consume.
template <typename Group, unsigned STAGES>
HOST_INLINE pipeline<thread_scope_block> make_pipeline(
    const Group &group, pipeline_shared_state<thread_scope_block, STAGES> *state) {
    return host_pipeline(state, group.size(), group.size());
}
template <typename Group, unsigned STAGES>
HOST_INLINE pipeline<thread_scope_block> make_pipeline(
    const Group &group, pipeline_shared_state<thread_scope_block, STAGES> *state,
    pipeline_role role) {
    const unsigned producers = __syncthreads_count(role == pipeline_role::producer);
    return host_pipeline(state, producers, group.size() - producers);
}
template <typename Group, unsigned STAGES>
HOST_INLINE pipeline<thread_scope_block> make_pipeline(
    const Group &group, pipeline_shared_state<thread_scope_block, STAGES> *state,
    size_t producers) {
    return host_pipeline(state, producers, group.size() - producers);
}

struct host_one_thread {
    static __forceinline__ unsigned thread_rank() {
        return 0;
    }
    static __forceinline__ unsigned size() {
        return 1;
    }
};

template <typename Group, typename Size, thread_scope SCOPE>
HOST_INLINE void memcpy_async(const Group &group, void *to, const void *from, Size bytes,
                              pipeline<SCOPE> &) {
    cooperative_groups::host_copy_by(group, to, from, bytes);
}
template <typename Group, typename Size>
HOST_INLINE void memcpy_async(const Group &group, void *to, const void *from, Size bytes,
                              barrier<thread_scope_block> &object) {
    cooperative_groups::host_copy_by(group, to, from, bytes);
    host_object_copies(&object);
}
template <typename Size, typename Target>
HOST_INLINE void memcpy_async(void *to, const void *from, Size bytes, Target &target) {
    memcpy_async(host_one_thread(), to, from, bytes, target);
}

}  // namespace cuda
