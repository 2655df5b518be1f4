// What the two halves of the runtime share: runtime.cpp runs the threads of a grid, accesses.cpp
// checks and counts their loads and stores.

#pragma once

#undef _FORTIFY_SOURCE  // its longjmp refuses to change stacks

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cuda.h"

namespace host_execution {

constexpr uint32_t WARP = 32;
constexpr uint32_t MAX_THREADS = 1024;
constexpr uint32_t SECTOR_BYTES = 32;
constexpr uint32_t LINE_BYTES = 128;
constexpr uint32_t BANKS = 32;
constexpr uint32_t WORD_BYTES = 4;
constexpr uint32_t MAX_ACCESS_BYTES = 16;  // of a thread
constexpr uint32_t WAVEFRONT_BYTES = BANKS * WORD_BYTES;
constexpr size_t STATIC_SHARED_BYTES = 48 * 1024, DYNAMIC_SHARED_BYTES = 227 * 1024;
constexpr size_t VARIABLE_BYTES = size_t(1) << 28;  // of the file's variables
// Not a power of two: else the tops of all stacks fall into the same sets of the cache.
constexpr size_t STACK_BYTES = 65536 + 320;
// Instead of a thread: several lanes of one warp, whose number is added, or of several warps.
constexpr uint16_t LANES = 0x8000, SEVERAL = 0xffff;
// Fills shared memory before each block of a counted run: NaN as float32 and, in two words, as
// float64. Other runs find other values (`Launch::fill`).
constexpr uint32_t POISON_WORD = 0x7fffffff;

enum FaultKind : int32_t {
    NO_FAULT,
    OUT_OF_BOUNDS,
    OUTSIDE_ARRAY,
    MISALIGNED,
    SHARED_RACE,
    GLOBAL_RACE,
    UNINITIALISED,
    DIFFERENT_BARRIERS,
    APART,
    ENDLESS,
    STACK_OVERFLOW,
    SIGNAL,    // `bytes` is its number
    OVERFLOW,  // of a signed integer
    ENDLESS_BARRIERS,
    ASYNC_SIZE,
    SHARED_SIZE,
    NOT_IN_MASK,        // a lane calls a warp function whose mask lacks it
    COPIES_OVERLAP,     // a copy to where another one is still under way
    NOT_INITIALISED,    // a load from the result before anything is stored there
    SHUFFLE_FROM_NONE,  // of a lane that has ended, or is not in the mask
    PARTIAL_WARP,       // an instruction of all lanes of a warp
    FRAGMENT_STRIDE,    // of `bytes`
    NEVER_COMPLETE,     // a phase of a barrier object
    NO_BARRIER_OBJECT,  // where one is used
    STORE_TO_COPY,      // a store to where a copy is under way
    NOT_SHARED,         // the target of an asynchronous copy
    VARIABLE_SIZE,      // no fault: host execution cannot follow so many
};

// The structures up to `Launch` are those of binding.py.

// Code addresses are relative to the kernel's library, and those of the instruction after the call.
struct Fault {
    int32_t kind;
    int32_t buffer;  // index of the buffer nearest to a global access, -1 for shared memory
    uint64_t code, other_code;
    int64_t byte;  // of the access, from the beginning of its buffer or of shared memory
    uint32_t bytes, is_store;
    uint32_t block[3], thread, other_thread;  // threads: x + width * (y + height * z)
};

// What a block did that may cause a later fault or a wrong product: a read of uninitialised shared
// memory, or an overflow. The block runs from epoch `begin` to `end`.
struct Cause {
    uint32_t begin, end;
    Fault fault;
};

// The last accesses to a word of global memory. Loads are recorded where a kernel stores its
// result.
struct Writer {
    uint32_t epoch;  // when the unit was written; 0: never
    uint16_t thread, site;
    uint32_t read_epoch;
    uint16_t reader, read_site;
};

struct Buffer {
    char *begin;
    uint64_t bytes;
    Writer *writers;  // one a unit
    uint32_t is_written;
    uint32_t is_result;      // nothing is stored there before the first launch
    uint32_t unit, padding;  // bytes: an element, at most a word
    const uint8_t *stored;   // of a result: whether earlier launches stored to a unit; may be null
};

struct Count {
    uint64_t code;
    uint32_t is_shared, is_store, bytes, padding;
    uint64_t accesses, requests;
    uint64_t transactions, ideal;  // sectors and 0 of global, wavefronts and the fewest of shared
    uint64_t lines;                // of global, 0 of shared
};

struct Launch {
    void (*entry)(void **);
    void **arguments;
    uint32_t grid[3], block[3];
    uint64_t dynamic_shared_bytes;
    Buffer *buffers;
    uint32_t buffer_count;
    uint32_t instrumented;   // 0: nothing is counted; of faults, only divergent barriers are found
    uint32_t fill;           // each word of shared memory before a block
    uint32_t last_block;     // 1: it runs alone; addresses are checked, and stores recorded
    uint32_t count_count;    // what `host_counts` will write
    uint32_t cause_count;    // what `host_causes` will write
    uint32_t useful_blocks;  // that add to a buffer, or store where no other has
    uint64_t store_count;    // what `host_stores` will write
    char *constants;         // those declared __constant__
    uint64_t constant_bytes;
    Fault fault;
};

// The last accesses to a word of shared memory, or to a byte of it (`Worker::unit`): by which lanes
// of a warp, and when on the clock of the warp.
struct Word {
    uint32_t write_epoch, read_epoch;
    uint16_t writer, reader, write_site, read_site;
    uint32_t write_lanes, read_lanes, write_time, read_time;
};

// One load or store of the source.
struct Site {
    Count count;
    uint16_t number;  // from 1
    bool is_atomic;
};

struct Access {
    uint64_t code;
    uint64_t offset;  // in its buffer, or in shared memory
    uint32_t bytes;
    bool is_store, is_atomic;
    int32_t buffer;  // -1: shared memory
};

// A store to a word that another thread has written since the last barrier: no race if the value
// stays the same.
struct Overwrite {
    Access access;
    const char *address;  // null: there is none
    uint32_t bytes;       // a bit for each that was written
    uint32_t other_thread;
    uint64_t other_code;
    char before[MAX_ACCESS_BYTES];
};

// A copy to shared memory that a thread has started. `zeros` of its bytes are not read.
struct Copy {
    char *to;
    const char *from;
    uint32_t bytes, zeros, group;
    uint64_t code;
};

// A thread's way since the last barrier: the basic blocks that it enters, and its accesses. A block
// is its code address and, above it, the depth of the stack in units of 16 bytes. An access is
// ACCESS, the number of its site and its address.
using Trace = std::vector<uint64_t>;
constexpr uint64_t ACCESS = 1ull << 63;
// A trace of this length takes 8 MiB, those of a warp 256 MiB.
constexpr size_t MAX_TRACE = 1 << 20;
constexpr uint32_t MAX_BARRIERS = 1 << 13;  // of a block that is counted

enum State { RUNS, AT_BARRIER, AT_MEETING, AT_ACTIVE_MASK, AT_PHASE, ENDED };

// What a lane gives to the other lanes that it meets.
struct Gift {
    uint64_t words[8];
};

// A barrier object (cuda::barrier) in its phase. A time is that before which accesses are ordered.
struct Phased {
    uint32_t expected, pending;
    uint64_t phase;
    uint32_t made_epoch, made_time, maker;          // its init()
    std::vector<uint32_t> arriving, completed;      // time of each thread
    uint32_t warps[WARP];                           // and of each warp, in completed phases
    std::vector<std::pair<uint32_t, Copy>> copies;  // with their threads, until the phase ends
};

struct Fiber {
    jmp_buf place;
    ucontext_t start;
    uint3 index;  // threadIdx
    bool started;
    State state;
    uint64_t barrier;              // code address, also of a meeting
    uint32_t mask;                 // lanes that meet
    Gift given;                    // what this lane brings to a meeting
    uint32_t together;             // lanes of the last meeting
    bool orders;                   // whether a meeting is a __syncwarp
    uint32_t known[WARP];          // the time before which each lane's accesses are ordered
    std::vector<uint32_t> others;  // likewise of each thread, after a wait at a barrier object
    uint32_t warps[WARP];          // likewise of each warp
    const Phased *object;          // that it waits at, for the end of `phase`
    uint64_t phase;
    uint32_t group;            // of asynchronous copies that a commit will end
    std::vector<Copy> copies;  // that may still be under way
};

struct Worker {
    Launch *launch;
    bool running;
    jmp_buf scheduler;
    std::vector<Fiber> fibers;
    char *stacks;
    uint3 thread_index, block_index, block_size, grid_size;
    uint32_t thread, threads, lane;
    Gift received[WARP];  // what the lanes of the last meetings gave
    uint32_t epoch;       // one for each stretch between barriers, never 0
    uint32_t time;        // of the warp: number of its __syncwarp
    std::unordered_map<const void *, Phased> objects;  // of the block, by address
    int vote, outcome;          // threads that vote at a barrier, and those of the last one
    uint32_t block_start;       // first epoch of the block
    uint32_t useful_block = 0;  // the last one in `Launch::useful_blocks`, by its first epoch
    std::vector<Cause> causes;  // the first of each block
    Overwrite overwrite;
    char *code;  // where the kernel's library lies
    size_t code_bytes, library_bytes;
    char *shared;  // static shared memory
    size_t shared_bytes;
    size_t shared_module;  // the loader's number of the library that declares it
    char *dynamic_shared;
    char *variables;  // what the kernel's library declares outside of functions and may write
    Buffer variable_buffer;
    std::vector<Writer> variable_writers;
    std::vector<Word> words;                        // of static shared memory, then of dynamic
    uint32_t unit;                                  // bytes per element of `words`
    std::unordered_map<uint64_t, uint64_t> stores;  // to the last buffer: code by byte
    std::deque<Site> sites;
    std::vector<Site *> site_at[2];        // by code address, of global and of shared accesses
    Trace traces[WARP];                    // of the warp's lanes since the last barrier
    std::vector<uint64_t> buffer_address;  // of each buffer in the GPU's memory

    ~Worker() {
        if (stacks) munmap(stacks, STACK_BYTES * MAX_THREADS);
    }
};

// Of the operating system's thread that runs the grid. It has no constructor, for which each use
// would have to ask.
extern __thread Worker *worker;

// Ends the launch with a fault of the thread that runs, or with the cause of the fault. A race has
// no other cause.
[[noreturn]] void stop(const Fault &fault);

inline Fault fault_at(FaultKind kind, uint64_t code, uint32_t bytes = 0, int64_t byte = 0) {
    Fault fault = {};
    fault.kind = kind;
    fault.buffer = -1;
    fault.code = code;
    fault.byte = byte;
    fault.bytes = bytes;
    return fault;
}

// Records what may cause a fault of this block.
void suspect(const Fault &fault);

// Waits for the other lanes of `mask`, and gives them something; `orders`: a __syncwarp.
Fiber &meet(uint32_t mask, const Gift &gift, bool orders, void *caller);

// Checks a load or store before it happens, and counts it if it is `counted`.
void check_access(const void *address, uint32_t bytes, bool is_store, bool is_counted,
                  void *caller);

void check_alignment(const void *address, uint32_t bytes, bool is_store, void *caller);

// Ends an asynchronous copy of the thread that runs.
void complete(const Copy &copy);

// Checks an access to a barrier object, which is atomic except for `is_first`.
void check_object(const void *object, bool is_first, void *caller);

void end_overwrite(Worker &w);

// Called where a thread ends: its copies may still be under way.
void end_copies(Worker &w);

// Called by each event of a thread: was its last store a race?
inline void settle(Worker &w) {
    if (w.overwrite.address) end_overwrite(w);
}

inline uint64_t code_address(const Worker &w, void *caller) {
    return static_cast<char *>(caller) - w.code;
}

// Groups the accesses of a warp since the last barrier into requests.
void end_warp(Worker &w);

}  // namespace host_execution
