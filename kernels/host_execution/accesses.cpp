// In a build that is instrumented with -fsanitize=thread, the runtime takes the sanitizer's place:
// every load and store of the source calls it before it happens, to be checked and counted. What it
// finds and counts: __init__.py.

#include "runtime.h"

using namespace host_execution;

namespace {

// ---- Counting: the accesses of a warp become requests

// Sorts values, and leaves one of each; returns how many those are.
uint32_t make_distinct(uint32_t *values, uint32_t count) {
    std::sort(values, values + count);
    return std::unique(values, values + count) - values;
}

// Sectors (or lines) of so many bytes that the lanes' accesses fall into. An aligned access lies
// within one.
uint32_t parts(const uint32_t *addresses, uint32_t count, uint32_t bytes) {
    uint32_t values[WARP], kept = 0;
    bool rising = true;
    for (uint32_t i = 0; i < count; ++i) {
        const uint32_t part = addresses[i] / bytes;
        if (kept && values[kept - 1] == part) continue;
        rising &= !kept || values[kept - 1] < part;
        values[kept++] = part;
    }
    return rising ? kept : make_distinct(values, kept);
}

// Wavefronts of lanes that are served together: the most distinct words that one bank has to give.
uint32_t wavefronts(const uint32_t *addresses, uint32_t count, uint32_t bytes) {
    uint32_t lowest = addresses[0], highest = addresses[0];
    for (uint32_t i = 1; i < count; ++i) {
        lowest = std::min(lowest, addresses[i]);
        highest = std::max(highest, addresses[i]);
    }
    if (highest + bytes - lowest <= WAVEFRONT_BYTES) return 1;  // no two words in one bank
    uint32_t words[2 * BANKS], kept = 0;
    for (uint32_t i = 0; i < count; ++i) {
        for (uint32_t byte = 0; byte < bytes; byte += WORD_BYTES) {
            words[kept++] = (addresses[i] + byte) / WORD_BYTES;
        }
    }
    kept = make_distinct(words, kept);
    uint32_t in_bank[BANKS] = {}, most = 0;
    for (uint32_t i = 0; i < kept; ++i) {
        most = std::max(most, ++in_bank[words[i] % BANKS]);
    }
    return most;
}

// Those lanes of a request, from `begin` to before `end`, that take part in it.
struct Lanes {
    uint32_t addresses[WARP], count = 0;

    Lanes(const uint32_t *address_of, uint32_t active, uint32_t begin, uint32_t end) {
        for (uint32_t lane = begin; lane < end; ++lane) {
            addresses[count] = address_of[lane];
            count += active >> lane & 1;
        }
    }
};

// Whether lanes that are neighbours, or those at a distance of two, access the same address.
bool in_pairs(const uint32_t *address_of, uint32_t active, uint32_t begin, uint32_t end) {
    for (uint32_t distance = 1; distance <= 2; ++distance) {
        bool alike = true;
        for (uint32_t lane = begin; lane < end; ++lane) {
            const uint32_t both = 1u << lane | 1u << (lane ^ distance);
            alike &= (active & both) != both || address_of[lane] == address_of[lane ^ distance];
        }
        if (alike) return true;
    }
    return false;
}

// Lanes whose words fill a wavefront are served together, in phases; two phases together where the
// lanes read in pairs.
void count_request(Count &count, const uint32_t *address_of, uint32_t active) {
    const Lanes all(address_of, active, 0, WARP);
    count.accesses += all.count;
    ++count.requests;
    if (!count.is_shared) {
        count.transactions += parts(all.addresses, all.count, SECTOR_BYTES);
        count.lines += parts(all.addresses, all.count, LINE_BYTES);
        return;
    }
    const uint32_t phase = WAVEFRONT_BYTES / count.bytes;
    for (uint32_t begin = 0, end; begin < WARP; begin = end) {
        end = begin + phase;
        const uint32_t both = begin + 2 * phase;
        const bool is_first = begin % (2 * phase) == 0 && both <= WARP;
        if (is_first && in_pairs(address_of, active, begin, both)) end = both;
        const Lanes lanes(address_of, active, begin, end);
        if (!lanes.count) continue;
        count.transactions += wavefronts(lanes.addresses, lanes.count, count.bytes);
        ++count.ideal;
    }
}

// Walks the traces of a warp's lanes side by side, as a card runs them: lanes in the same basic
// block advance together. First come the lanes that are deepest in calls, of these those in the
// lowest block: without optimisation, g++ places a loop before what follows it, and a condition's
// branches before where they meet. So lanes meet again after a branch, and in the same turn of a
// loop.
class Walk {
   public:
    explicit Walk(Worker &w) : w(w) {
    }

    void run() {
        count_accesses(~0u);  // up to the first block: behind the barrier
        for (;;) {
            const uint32_t lanes = next_block();
            if (!lanes) return;
            count_accesses(lanes);
        }
    }

   private:
    Worker &w;
    size_t places[WARP] = {};

    bool ended(uint32_t lane) const {
        return places[lane] == w.traces[lane].size();
    }

    uint64_t event(uint32_t lane) const {
        return w.traces[lane][places[lane]];
    }

    // Steps into the block that is next; returns the lanes that enter it.
    uint32_t next_block() {
        constexpr uint64_t DEPTH = 0xffffffffull << 32;
        uint64_t least = ~0ull;
        uint32_t lanes = 0;
        for (uint32_t lane = 0; lane < WARP; ++lane) {
            if (ended(lane)) continue;
            const uint64_t key = event(lane) ^ DEPTH;  // deeper is less
            if (key < least) {
                least = key;
                lanes = 0;
            }
            lanes |= static_cast<uint32_t>(key == least) << lane;
        }
        for (uint32_t lane = 0; lane < WARP; ++lane) {
            places[lane] += lanes >> lane & 1;
        }
        return lanes;
    }

    // Counts what these lanes access within their block. Lanes may skip a site: their address there
    // was that of a register.
    void count_accesses(uint32_t lanes) {
        for (;;) {
            uint32_t addresses[WARP] = {}, active = 0;
            uint64_t site = 0;
            for (uint32_t lane = 0; lane < WARP; ++lane) {
                if (!(lanes >> lane & 1) || ended(lane) || !(event(lane) & ACCESS)) continue;
                if (!active) site = event(lane) >> 32;
                if (event(lane) >> 32 != site) continue;
                addresses[lane] = static_cast<uint32_t>(event(lane));
                active |= 1u << lane;
                ++places[lane];
            }
            if (!active) return;
            count_request(w.sites[(site & 0xffff) - 1].count, addresses, active);
        }
    }
};

}  // namespace

void host_execution::end_warp(Worker &w) {
    Walk(w).run();
    for (Trace &trace : w.traces) {
        trace.clear();
    }
}

namespace {

inline void append(Worker &w, uint64_t event, void *caller) {
    Trace &trace = w.traces[w.lane];
    if (trace.size() == MAX_TRACE) {
        Fault fault = {};
        fault.kind = ENDLESS;
        fault.code = code_address(w, caller);
        fault.buffer = -1;
        stop(fault);
    }
    trace.push_back(event);
}

inline void log(Worker &w, Site &site, uint32_t address) {
    append(w, ACCESS | static_cast<uint64_t>(site.number) << 32 | address,
           w.code + site.count.code);
}

// ---- Checks

struct Access {
    uint64_t code;
    uint64_t offset;  // in its buffer, or in shared memory
    uint32_t bytes;
    bool is_store;
    int32_t buffer;  // -1: shared memory
};

[[noreturn]] void stop_access(FaultKind kind, const Access &access, uint32_t other_thread = 0,
                              uint64_t other_code = 0) {
    Fault fault = {};
    fault.kind = kind;
    fault.buffer = access.buffer;
    fault.code = access.code;
    fault.other_code = other_code;
    fault.byte = access.offset;
    fault.bytes = access.bytes;
    fault.is_store = access.is_store;
    fault.other_thread = other_thread;
    stop(fault);
}

// Between two barriers, the threads of a block may only read what no other of them writes.
inline void check_word(Worker &w, Word &word, uint16_t site, const Access &access) {
    const uint16_t thread = w.thread;
    if (word.write_epoch == w.epoch && word.writer != thread) {
        stop_access(SHARED_RACE, access, word.writer, w.sites[word.write_site - 1].count.code);
    }
    if (access.is_store) {
        if (word.read_epoch == w.epoch && word.reader != thread) {
            stop_access(SHARED_RACE, access, word.reader, w.sites[word.read_site - 1].count.code);
        }
        word.write_epoch = w.epoch;
        word.writer = thread;
        word.write_site = site;
        return;
    }
    if (word.write_epoch < w.block_start) stop_access(UNINITIALISED, access);
    if (word.read_epoch != w.epoch) {
        word.read_epoch = w.epoch;
        word.reader = thread;
        word.read_site = site;
    } else if (word.reader != thread && word.reader != SEVERAL) {
        word.reader = SEVERAL;
        word.read_site = site;
    }
}

// No thread may write, or read, what a thread of another block has written, or what another thread
// of its block has written since the last barrier.
inline void check_writer(Worker &w, Writer &writer, uint16_t site, const Access &access) {
    const bool same_stretch = writer.epoch == w.epoch && writer.thread != w.thread;
    if (writer.epoch && (writer.epoch < w.block_start || same_stretch)) {
        stop_access(GLOBAL_RACE, access, writer.thread, w.sites[writer.site - 1].count.code);
    }
    if (access.is_store) writer = {w.epoch, static_cast<uint16_t>(w.thread), site};
}

Site &new_site(Worker &w, const Access &access, bool is_shared) {
    w.sites.emplace_back();
    Site &site = w.sites.back();
    site.count = {access.code, is_shared, access.is_store, access.bytes, 0, 0, 0, 0, 0};
    site.number = w.sites.size();
    w.site_at[is_shared][access.code] = &site;
    return site;
}

inline Site &checked_site(Worker &w, const Access &access) {
    if (access.offset & (access.bytes - 1)) stop_access(MISALIGNED, access);
    const bool is_shared = access.buffer < 0;
    Site *site = w.site_at[is_shared][access.code];
    return site ? *site : new_site(w, access, is_shared);
}

inline void shared_access(Worker &w, const Access &access) {
    Site &site = checked_site(w, access);
    Word *words = &w.words[access.offset / WORD_BYTES];
    for (uint32_t byte = 0; byte < access.bytes; byte += WORD_BYTES) {
        check_word(w, *words++, site.number, access);
    }
    log(w, site, access.offset);
}

inline void global_access(Worker &w, const Access &access) {
    Site &site = checked_site(w, access);
    const uint32_t number = access.buffer;
    Buffer &buffer =
        number < w.launch->buffer_count ? w.launch->buffers[number] : w.variable_buffer;
    buffer.is_written |= access.is_store;
    if (buffer.is_written) {
        Writer *writers = buffer.writers + access.offset / WORD_BYTES;
        for (uint32_t byte = 0; byte < access.bytes; byte += WORD_BYTES) {
            check_writer(w, *writers++, site.number, access);
        }
    }
    log(w, site, w.buffer_address[access.buffer] + access.offset);
}

// Takes the access for one to the buffer that it is nearest to.
[[noreturn]] void stop_out_of_bounds(Worker &w, char *address, Access access) {
    const Launch &launch = *w.launch;
    if (address >= w.dynamic_shared && address < w.dynamic_shared + DYNAMIC_SHARED_BYTES) {
        access.offset = address - w.dynamic_shared + w.shared_bytes;
        stop_access(OUT_OF_BOUNDS, access);
    }
    uint64_t smallest = ~0ull;
    for (uint32_t i = 0; i < launch.buffer_count; ++i) {
        const uint64_t before = launch.buffers[i].begin - address;
        const uint64_t after = address - (launch.buffers[i].begin + launch.buffers[i].bytes);
        const uint64_t distance = std::min(before, after);  // the other is negative: very large
        if (distance > smallest) continue;
        smallest = distance;
        access.buffer = i;
        access.offset = address - launch.buffers[i].begin;
    }
    if (static_cast<uint64_t>(address - w.shared + w.shared_bytes) < 3 * w.shared_bytes) {
        access.buffer = -1;
        access.offset = address - w.shared;
    }
    stop_access(OUT_OF_BOUNDS, access);
}

inline bool within(char *address, const char *begin, uint64_t bytes, Access &access) {
    access.offset = address - begin;
    return access.offset < bytes && access.offset + access.bytes <= bytes;
}

// Every load and store of the kernel, before it happens.
inline void on_access(char *address, uint32_t bytes, bool is_store, void *caller) {
    Worker &w = *worker;
    if (static_cast<size_t>(address - w.stacks) < STACK_BYTES * MAX_THREADS) return;  // a register
    Access access = {code_address(w, caller), 0, bytes, is_store, -1};
    if (bytes < WORD_BYTES || bytes > MAX_ACCESS_BYTES) stop_access(ELEMENT_SIZE, access);
    if (within(address, w.shared, w.shared_bytes, access)) return shared_access(w, access);
    const Launch &launch = *w.launch;
    if (within(address, w.dynamic_shared, launch.dynamic_shared_bytes, access)) {
        access.offset += w.shared_bytes;
        return shared_access(w, access);
    }
    for (uint32_t i = 0; i < launch.buffer_count; ++i) {
        if (!within(address, launch.buffers[i].begin, launch.buffers[i].bytes, access)) continue;
        access.buffer = i;
        return global_access(w, access);
    }
    if (within(address, launch.constants, launch.constant_bytes, access)) return;
    access.buffer = launch.buffer_count;
    const Buffer &variables = w.variable_buffer;
    if (within(address, w.variables, variables.bytes, access)) return global_access(w, access);
    access.buffer = -1;
    if (within(address, w.code, w.library_bytes, access) && !is_store) return;  // a constant
    stop_out_of_bounds(w, address, access);
}

}  // namespace

extern "C" unsigned host_tensor_operand(const unsigned *operand) {
    Worker &w = *worker;
    if (!w.launch->instrumented) return *operand;
    char *address = const_cast<char *>(reinterpret_cast<const char *>(operand));
    Access access = {code_address(w, __builtin_return_address(0)), 0, WORD_BYTES, false, -1};
    if (!within(address, w.dynamic_shared, w.launch->dynamic_shared_bytes, access)) {
        stop_out_of_bounds(w, address, access);
    }
    access.offset += w.shared_bytes;
    Site &site = checked_site(w, access);
    check_word(w, w.words[access.offset / WORD_BYTES], site.number, access);
    return *operand;
}

// ---- What g++ calls for -fsanitize=thread and -fsanitize=bounds

#define HOOK(NAME, BYTES, IS_STORE)                                                            \
    extern "C" void __tsan_##NAME(void *address) {                                             \
        on_access(static_cast<char *>(address), BYTES, IS_STORE, __builtin_return_address(0)); \
    }
HOOK(read1, 1, false)
HOOK(read2, 2, false)
HOOK(read4, 4, false)
HOOK(read8, 8, false)
HOOK(read16, 16, false)
HOOK(write1, 1, true)
HOOK(write2, 2, true)
HOOK(write4, 4, true)
HOOK(write8, 8, true)
HOOK(write16, 16, true)

// Arrays and structures that are set or copied as a whole. GCC calls this for what is less aligned
// than its size too, as a structure of three floats: a card accesses such word by word.
static void on_range(void *address, uint64_t bytes, bool is_store, void *caller) {
    char *const begin = static_cast<char *>(address);
    const bool has_words = bytes <= MAX_ACCESS_BYTES && bytes % WORD_BYTES == 0;
    const uint32_t part = has_words ? WORD_BYTES : bytes;
    for (uint64_t byte = 0; byte < bytes; byte += part) {
        on_access(begin + byte, part, is_store, caller);
    }
}

extern "C" void __tsan_read_range(void *address, uint64_t bytes) {
    on_range(address, bytes, false, __builtin_return_address(0));
}

extern "C" void __tsan_write_range(void *address, uint64_t bytes) {
    on_range(address, bytes, true, __builtin_return_address(0));
}

extern "C" void __tsan_init() {
}

// What g++ calls for -fsanitize-coverage=trace-pc, in each basic block.
extern "C" void __sanitizer_cov_trace_pc() {
    if (!worker || !worker->running) return;  // a library is being loaded
    Worker &w = *worker;
    const char *top = w.stacks + STACK_BYTES * (w.thread + 1);
    const uint64_t depth = (top - static_cast<char *>(__builtin_frame_address(0))) / 16;
    void *caller = __builtin_return_address(0);
    if (16 * depth > STACK_BYTES - 4096) {
        Fault fault = {};
        fault.kind = STACK_OVERFLOW;
        fault.code = code_address(w, caller);
        stop(fault);
    }
    append(w, depth << 32 | code_address(w, caller), caller);
}

extern "C" void __ubsan_handle_out_of_bounds(void *, void *index) {
    Access access = {code_address(*worker, __builtin_return_address(0)), 0, 0, false, -1};
    access.offset = static_cast<int32_t>(reinterpret_cast<uint64_t>(index));
    stop_access(OUTSIDE_ARRAY, access);
}

// ---- What g++ calls for -fsanitize=signed-integer-overflow

#define OVERFLOW_HOOK(NAME)                                              \
    extern "C" void __ubsan_handle_##NAME##_overflow(void *) {           \
        Fault fault = {};                                                \
        fault.kind = OVERFLOW;                                           \
        fault.code = code_address(*worker, __builtin_return_address(0)); \
        stop(fault);                                                     \
    }
OVERFLOW_HOOK(add)
OVERFLOW_HOOK(sub)
OVERFLOW_HOOK(mul)
OVERFLOW_HOOK(negate)
OVERFLOW_HOOK(divrem)
