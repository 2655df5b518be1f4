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
    const uint32_t phase = std::min(WARP, WAVEFRONT_BYTES / count.bytes);
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

// Walks the traces of a warp's lanes side by side, as a GPU runs them: lanes in the same basic
// block advance together. First come the lanes that are deepest in calls, of these those in the
// lowest block: without optimisation, g++ places a loop before what follows it, and a condition's
// branches before where they meet. So lanes meet again after a branch, and in the same
// iteration of a loop.
class Walk {
   public:
    explicit Walk(Worker &w) : w(w) {
        for (uint32_t lane = 0; lane < WARP; ++lane) {
            next[lane] = w.traces[lane].data();
            ends[lane] = next[lane] + w.traces[lane].size();
        }
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
    const uint64_t *next[WARP], *ends[WARP];  // events of each lane

    // Steps into the block that is next; returns the lanes that enter it.
    uint32_t next_block() {
        constexpr uint64_t DEPTH = 0xffffffffull << 32;
        uint64_t least = ~0ull;
        uint32_t lanes = 0;
        for (uint32_t lane = 0; lane < WARP; ++lane) {
            if (next[lane] == ends[lane]) continue;
            const uint64_t key = *next[lane] ^ DEPTH;  // deeper is less
            if (key < least) {
                least = key;
                lanes = 0;
            }
            lanes |= static_cast<uint32_t>(key == least) << lane;
        }
        for (uint32_t lane = 0; lane < WARP; ++lane) {
            next[lane] += lanes >> lane & 1;
        }
        return lanes;
    }

    // Counts what these lanes access within their block. Lanes may skip a site: their address there
    // was that of a register.
    void count_accesses(uint32_t lanes) {
        for (;;) {
            uint32_t addresses[WARP] = {}, active = 0;
            uint64_t site = 0;
            for (uint32_t left = lanes; left; left &= left - 1) {
                const uint32_t lane = __builtin_ctz(left);
                if (next[lane] == ends[lane] || !(*next[lane] & ACCESS)) continue;
                const uint64_t event = *next[lane];
                if (!active) site = event >> 32;
                if (event >> 32 != site) continue;
                addresses[lane] = static_cast<uint32_t>(event);
                active |= 1u << lane;
                ++next[lane];
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
        stop(fault_at(ENDLESS, code_address(w, caller)));
    }
    trace.push_back(event);
}

inline void log(Worker &w, Site &site, uint32_t address) {
    append(w, ACCESS | static_cast<uint64_t>(site.number) << 32 | address,
           w.code + site.count.code);
}

// ---- Checks

Fault fault_of(FaultKind kind, const Access &access, uint32_t other_thread = 0,
               uint64_t other_code = 0) {
    Fault fault = fault_at(kind, access.code, access.bytes, access.offset);
    fault.buffer = access.buffer;
    fault.other_code = other_code;
    fault.is_store = access.is_store;
    fault.other_thread = other_thread;
    return fault;
}

// A store over what `other` has written since the last barrier: a race if it changes the value, as
// in compute-sanitizer's racecheck. The store follows; `settle` compares.
void overwrite(Worker &w, const Access &access, const char *address, uint32_t byte, uint32_t unit,
               uint32_t other_thread, uint64_t other_code) {
    Overwrite &o = w.overwrite;
    if (!o.address) {
        o = {access, address, 0, other_thread, other_code, {}};
        std::memcpy(o.before, address, access.bytes);
    }
    o.bytes |= ((1u << unit) - 1) << byte;
}

// Whether a __syncwarp, or a barrier object, is between the access of these lanes and this one. If
// they are of several warps, `lanes` are the warps.
inline bool is_ordered(const Worker &w, uint16_t other, uint32_t lanes, uint32_t time) {
    const Fiber &fiber = w.fibers[w.thread];
    const uint32_t warp = other & LANES ? other & ~LANES : other / WARP;
    const bool is_near = warp == w.thread / WARP;
    if (!is_near && fiber.others.empty()) return false;
    const uint32_t *const known = other == SEVERAL ? fiber.warps
                                  : is_near        ? fiber.known
                                                   : &fiber.others[warp * WARP];
    // Of several lanes, only the last access has a time: it is ordered if their warp's arrival is.
    const bool is_several = lanes & (lanes - 1) && other != SEVERAL && !fiber.others.empty();
    const bool is_arrived = is_several && time < fiber.warps[warp];
    for (uint32_t left = is_near ? lanes & ~(1u << w.lane) : lanes; left; left &= left - 1) {
        if (time >= known[__builtin_ctz(left)] && !is_arrived) return false;
    }
    return true;
}

// A thread, or it and another one, as a number.
inline uint16_t joined(const Worker &w, uint16_t other) {
    const uint16_t warp = w.thread / WARP;
    if (other == w.thread) return other;
    return other / WARP == warp || other == (LANES | warp) ? LANES | warp : SEVERAL;
}

// Adds the thread that runs to those of an access, if there `were` any.
inline void join(const Worker &w, bool were, uint16_t &threads, uint32_t &lanes) {
    const uint16_t before = threads;
    threads = were ? joined(w, before) : w.thread;
    if (threads == SEVERAL) {
        const uint32_t warp = before & LANES ? before & ~LANES : before / WARP;
        lanes = (before == SEVERAL ? lanes : 1u << warp) | 1u << (w.thread / WARP);
    } else {
        lanes = (were ? lanes : 0) | 1u << w.lane;
    }
}

// Between two barriers, the threads of a block may only read what no other of them writes, and
// write only the same values to one word. Atomic operations are no race with each other.
inline void check_word(Worker &w, Word &word, const Site &site, const Access &access,
                       const char *address, uint32_t byte) {
    const uint16_t thread = w.thread;
    const bool is_new = word.write_epoch != w.epoch || word.writer == thread ||
                        is_ordered(w, word.writer, word.write_lanes, word.write_time);
    const Site *const writer = is_new ? nullptr : &w.sites[word.write_site - 1];
    const bool both_atomic = writer && access.is_atomic && writer->is_atomic;
    if (writer && !both_atomic) {
        const uint64_t code = writer->count.code;
        if (!access.is_store || access.is_atomic || writer->is_atomic) {
            stop(fault_of(SHARED_RACE, access, word.writer, code));
        }
        overwrite(w, access, address, byte, w.unit, word.writer, code);
    }
    if ((!access.is_store || access.is_atomic) && word.write_epoch < w.block_start) {
        suspect(fault_of(UNINITIALISED, access));
    }
    const bool was_read =
        word.read_epoch == w.epoch && !is_ordered(w, word.reader, word.read_lanes, word.read_time);
    if (access.is_store) {
        if (was_read && word.reader != thread) {
            const uint64_t code = w.sites[word.read_site - 1].count.code;
            const bool was_unwritten = word.write_epoch < w.block_start;
            stop(fault_of(was_unwritten ? UNINITIALISED : SHARED_RACE, access, word.reader, code));
        }
        // Others' atomic operations are not ordered with this thread's store before its own one.
        const bool hides_store = access.is_atomic && word.write_epoch == w.epoch &&
                                 word.writer == thread && word.write_time == w.time &&
                                 !w.sites[word.write_site - 1].is_atomic;
        if (hides_store) return;
        join(w, writer, word.writer, word.write_lanes);
        word.write_epoch = w.epoch;
        word.write_site = site.number;
        word.write_time = w.time;
        return;
    }
    join(w, was_read, word.reader, word.read_lanes);
    word.read_epoch = w.epoch;
    word.read_site = site.number;
    word.read_time = w.time;
}

// Whether a thread of another block did it, or another one of this block since the last barrier.
inline bool is_unordered(const Worker &w, uint32_t epoch, uint16_t thread) {
    return epoch && (epoch < w.block_start || (epoch == w.epoch && thread != w.thread));
}

// No thread may read what a thread of another block has written, or what another thread of its
// block has written since the last barrier, nor write another value there or over what they read.
inline void check_writer(Worker &w, Writer &writer, const Site &site, const Access &access,
                         const char *address, uint32_t byte, uint32_t unit) {
    if (is_unordered(w, writer.epoch, writer.thread)) {
        const Site &other = w.sites[writer.site - 1];
        if (!access.is_store || access.is_atomic != other.is_atomic) {
            stop(fault_of(GLOBAL_RACE, access, writer.thread, other.count.code));
        }
        if (!access.is_atomic) {
            overwrite(w, access, address, byte, unit, writer.thread, other.count.code);
        }
    }
    if (!access.is_store) {
        if (writer.read_epoch && writer.read_epoch < w.block_start)
            return;  // that may race already
        const bool is_first = writer.read_epoch != w.epoch || writer.reader == w.thread;
        writer.reader = is_first ? w.thread : SEVERAL;
        writer.read_epoch = w.epoch;
        if (is_first) writer.read_site = site.number;
        return;
    }
    if (is_unordered(w, writer.read_epoch, writer.reader) && !access.is_atomic) {
        const uint64_t code = w.sites[writer.read_site - 1].count.code;
        overwrite(w, access, address, byte, unit, writer.reader, code);
    }
    // What other blocks add to must not be what this block has stored: an addition does not order
    // it.
    const bool is_added = access.is_atomic && writer.epoch >= w.block_start;
    if (is_added && !w.sites[writer.site - 1].is_atomic) return;
    writer.epoch = w.epoch;
    writer.thread = w.thread;
    writer.site = site.number;
}

Site &new_site(Worker &w, const Access &access, bool is_shared) {
    w.sites.emplace_back();
    Site &site = w.sites.back();
    site.count = {access.code, is_shared, access.is_store, access.bytes, 0, 0, 0, 0, 0};
    site.number = w.sites.size();
    site.is_atomic = access.is_atomic;
    w.site_at[is_shared][access.code] = &site;
    return site;
}

inline Site &checked_site(Worker &w, const Access &access) {
    if (access.offset & (access.bytes - 1)) stop(fault_of(MISALIGNED, access));
    const bool is_shared = access.buffer < 0;
    Site *site = w.site_at[is_shared][access.code];
    return site ? *site : new_site(w, access, is_shared);
}

// From now on there is a `Word` for each byte.
void split_words(Worker &w) {
    std::vector<Word> bytes;
    bytes.reserve(w.words.size() * WORD_BYTES);
    for (const Word &word : w.words) {
        bytes.insert(bytes.end(), WORD_BYTES, word);
    }
    w.words.swap(bytes);
    w.unit = 1;
}

inline Site &shared_access(Worker &w, const Access &access, const char *address) {
    Site &site = checked_site(w, access);
    if (access.bytes < w.unit) split_words(w);
    Word *words = &w.words[w.unit == 1 ? access.offset : access.offset / WORD_BYTES];
    for (uint32_t byte = 0; byte < access.bytes; byte += w.unit) {
        check_word(w, *words++, site, access, address, byte);
    }
    return site;
}

inline Site &global_access(Worker &w, const Access &access, const char *address) {
    Site &site = checked_site(w, access);
    const uint32_t number = access.buffer;
    Buffer &buffer =
        number < w.launch->buffer_count ? w.launch->buffers[number] : w.variable_buffer;
    const uint32_t unit = buffer.unit;
    Writer *writers = buffer.writers + access.offset / unit;
    const bool is_tracked = access.bytes >= unit;
    if (buffer.is_result && is_tracked && !access.is_store && !writers->epoch &&
        !(buffer.stored && buffer.stored[access.offset / unit])) {
        stop(fault_of(NOT_INITIALISED, access));
    }
    const bool is_new = access.is_store && (access.is_atomic || !writers->epoch);
    if (is_tracked && is_new && number < w.launch->buffer_count &&
        w.useful_block != w.block_start) {
        w.useful_block = w.block_start;
        ++w.launch->useful_blocks;
    }
    buffer.is_written |= access.is_store || number + 1 >= w.launch->buffer_count;
    if (buffer.is_written && is_tracked) {
        for (uint32_t byte = 0; byte < access.bytes; byte += unit) {
            check_writer(w, *writers++, site, access, address, byte, unit);
        }
    }
    return site;
}

// Takes the access for one to the buffer that it is nearest to.
[[noreturn]] void stop_out_of_bounds(Worker &w, char *address, Access access) {
    const Launch &launch = *w.launch;
    if (address >= w.dynamic_shared && address < w.dynamic_shared + DYNAMIC_SHARED_BYTES) {
        access.offset = address - w.dynamic_shared + w.shared_bytes;
        stop(fault_of(OUT_OF_BOUNDS, access));
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
    stop(fault_of(OUT_OF_BOUNDS, access));
}

inline bool within(const char *address, const char *begin, uint64_t bytes, Access &access) {
    access.offset = address - begin;
    return access.offset < bytes && access.offset + access.bytes <= bytes;
}

enum Space { REGISTER, SHARED, GLOBAL, CONSTANT };

// Finds the memory that an access is to: its buffer, and its offset there.
inline Space locate(Worker &w, char *address, Access &access) {
    const Launch &launch = *w.launch;
    access.buffer = -1;
    if (within(address, w.shared, w.shared_bytes, access)) return SHARED;
    if (within(address, w.dynamic_shared, launch.dynamic_shared_bytes, access)) {
        access.offset += w.shared_bytes;
        return SHARED;
    }
    for (access.buffer = 0; access.buffer < static_cast<int32_t>(launch.buffer_count);
         ++access.buffer) {
        const Buffer &buffer = launch.buffers[access.buffer];
        if (within(address, buffer.begin, buffer.bytes, access)) return GLOBAL;
    }
    if (within(address, launch.constants, launch.constant_bytes, access)) return CONSTANT;
    if (within(address, w.variables, w.variable_buffer.bytes, access)) return GLOBAL;
    const bool is_load = !access.is_store;
    if (is_load && within(address, w.code, w.library_bytes, access)) return CONSTANT;
    access.buffer = -1;
    stop_out_of_bounds(w, address, access);
}

inline bool is_register(const Worker &w, const char *address) {
    return static_cast<size_t>(address - w.stacks) < STACK_BYTES * MAX_THREADS;
}

// Every load and store of the kernel, before it happens.
inline void on_access(char *address, uint32_t bytes, bool is_store, uint64_t code,
                      bool is_atomic = false, bool is_counted = true) {
    Worker &w = *worker;
    if (is_register(w, address)) return;
    settle(w);
    Access access = {code, 0, bytes, is_store, is_atomic, -1};
    const Space space = locate(w, address, access);
    if (!w.launch->instrumented) {
        const bool is_last = access.buffer == static_cast<int32_t>(w.launch->buffer_count) - 1;
        if (space == GLOBAL && is_last && is_store) w.stores[access.offset] = code;
    } else if (space == SHARED) {
        Site &site = shared_access(w, access, address);
        if (is_counted) log(w, site, access.offset);
    } else if (space == GLOBAL) {
        Site &site = global_access(w, access, address);
        if (is_counted) log(w, site, w.buffer_address[access.buffer] + access.offset);
    }
}

// Arrays and structures that are set or copied as a whole, and what is less aligned than its size,
// as a structure of three floats: word by word, or byte by byte.
void on_range(char *begin, uint64_t bytes, bool is_store, uint64_t code) {
    if (is_register(*worker, begin)) return;
    const uint32_t part = bytes % WORD_BYTES ? 1 : WORD_BYTES;
    for (uint64_t byte = 0; byte < bytes; byte += part) {
        on_access(begin + byte, part, is_store, code);
    }
}

char *bytes_at(const void *address) {
    return static_cast<char *>(const_cast<void *>(address));
}

// An access by the runtime itself.
void check(const void *address, uint32_t bytes, bool is_store, bool is_atomic, uint64_t code,
           bool is_counted = false) {
    if (!worker->launch->instrumented && !worker->launch->last_block) return;
    on_access(bytes_at(address), bytes, is_store, code, is_atomic, is_counted);
}

// While a copy is under way, nothing else may be stored where it writes.
void check_target(Worker &w, const Copy &copy) {
    if (!w.launch->instrumented) return;
    Access access = {copy.code, 0, copy.bytes, true, false, -1};
    locate(w, copy.to, access);
    for (uint32_t byte = 0; byte < copy.bytes; byte += WORD_BYTES) {
        if (!std::memcmp(copy.to + byte, &POISON_WORD, WORD_BYTES)) continue;
        const Word &word = w.words[(access.offset + byte) / w.unit];
        stop(fault_of(STORE_TO_COPY, access, word.writer, w.sites[word.write_site - 1].count.code));
    }
}

}  // namespace

void host_execution::complete(const Copy &copy) {
    check_target(*worker, copy);
    check(copy.to, copy.bytes, true, false, copy.code);
    std::memcpy(copy.to, copy.from, copy.bytes - copy.zeros);
    std::memset(copy.to + copy.bytes - copy.zeros, 0, copy.zeros);
}

void host_execution::check_alignment(const void *place, uint32_t bytes, bool is_store,
                                     void *caller) {
    Worker &w = *worker;
    char *const address = bytes_at(place);
    if (!w.launch->instrumented || is_register(w, address)) return;
    Access access = {code_address(w, caller), 0, bytes, is_store, false, -1};
    locate(w, address, access);
    if (access.offset % bytes) stop(fault_of(MISALIGNED, access));
}

void host_execution::check_object(const void *object, bool is_first, void *caller) {
    check(object, 2 * WORD_BYTES, true, !is_first, code_address(*worker, caller));
}

void host_execution::check_access(const void *address, uint32_t bytes, bool is_store,
                                  bool is_counted, void *caller) {
    check(address, bytes, is_store, false, code_address(*worker, caller), is_counted);
}

extern "C" unsigned host_shared_base = 0;  // the number of the first byte of shared memory

// Shared memory in numbers of 32 bits, as PTX addresses it: static arrays first.
extern "C" unsigned host_shared_number(const void *address) {
    const Worker &w = *worker;
    const char *const place = static_cast<const char *>(address);
    const uint64_t offset = place - w.shared;
    if (offset < w.shared_bytes) return host_shared_base + offset;
    return host_shared_base + (place - w.dynamic_shared) + w.shared_bytes;
}

extern "C" void *host_shared_address(unsigned number) {
    const Worker &w = *worker;
    number -= host_shared_base;
    const int64_t offset = static_cast<int>(number);
    if (number < w.shared_bytes) return w.shared + offset;
    return w.dynamic_shared + offset - w.shared_bytes;
}

void host_execution::end_copies(Worker &w) {
    for (const Copy &copy : w.fibers[w.thread].copies) {
        check_target(w, copy);
    }
}

void host_execution::end_overwrite(Worker &w) {
    const Overwrite o = w.overwrite;
    w.overwrite.address = nullptr;
    for (uint32_t byte = 0; byte < o.access.bytes; ++byte) {
        if (!(o.bytes >> byte & 1) || o.address[byte] == o.before[byte]) continue;
        const FaultKind kind = o.access.buffer < 0 ? SHARED_RACE : GLOBAL_RACE;
        stop(fault_of(kind, o.access, o.other_thread, o.other_code));
    }
}

extern "C" unsigned host_tensor_operand(const unsigned *operand) {
    const uint64_t code = code_address(*worker, __builtin_return_address(0));
    check(operand, WORD_BYTES, false, false, code);
    return *operand;
}

extern "C" uint64_t host_atomic_load(const void *address, unsigned bytes) {
    const uint64_t code = code_address(*worker, __builtin_return_address(0));
    check(address, bytes, true, true, code);
    uint64_t bits = 0;
    std::memcpy(&bits, address, bytes);
    return bits;
}

extern "C" void host_atomic_store(void *address, uint64_t bits, unsigned bytes) {
    std::memcpy(address, &bits, bytes);
}

// A copy to shared memory that is complete only after a wait. Until then the target contains NaN.
static void copy_async(Worker &w, char *target, char *source, size_t bytes, size_t zeros,
                       uint64_t code) {
    if ((bytes != 4 && bytes != 8 && bytes != 16) || zeros > bytes) {
        stop(fault_at(ASYNC_SIZE, code, bytes));
    }
    Access access = {code, 0, static_cast<uint32_t>(bytes), true, false, -1};
    if (is_register(w, target) || locate(w, target, access) != SHARED)
        stop(fault_at(NOT_SHARED, code));
    Fiber &fiber = w.fibers[w.thread];
    for (const Copy &copy : fiber.copies) {
        if (copy.to < target + bytes && target < copy.to + copy.bytes) {
            stop(fault_of(COPIES_OVERLAP, access, w.thread, copy.code));
        }
    }
    if (w.launch->instrumented || w.launch->last_block) {
        if (zeros == 0) on_access(source, bytes, false, code);
        if (zeros % bytes) on_range(source, bytes - zeros, false, code);
        on_access(target, bytes, true, code);
    }
    if (w.launch->instrumented) {
        std::fill_n(reinterpret_cast<uint32_t *>(target), bytes / WORD_BYTES, POISON_WORD);
    }
    fiber.copies.push_back({target, source, static_cast<uint32_t>(bytes),
                            static_cast<uint32_t>(zeros), fiber.group, code});
}

extern "C" void host_copy_async(void *to, const void *from, size_t bytes, size_t zeros) {
    Worker &w = *worker;
    const uint64_t code = code_address(w, __builtin_return_address(0));
    copy_async(w, bytes_at(to), bytes_at(from), bytes, zeros, code);
}

// Asynchronous from global to shared memory, if `bytes` are at least a word; else done at once.
extern "C" void host_copy(void *to, const void *from, size_t bytes, size_t alignment) {
    Worker &w = *worker;
    const uint64_t code = code_address(w, __builtin_return_address(0));
    char *const target = bytes_at(to), *const source = bytes_at(from);
    const auto space_of = [&](char *address, bool is_store) {
        Access access = {code, 0, static_cast<uint32_t>(bytes), is_store, false, -1};
        if (is_register(w, address)) return REGISTER;
        const Space space = locate(w, address, access);
        access.bytes = alignment;
        if (access.offset % alignment) stop(fault_of(MISALIGNED, access));
        return space;
    };
    const Space read = space_of(source, false), written = space_of(target, true);
    if (read == GLOBAL && written == SHARED && bytes >= WORD_BYTES) {
        return copy_async(w, target, source, bytes, 0, code);
    }
    if (w.launch->instrumented || w.launch->last_block) {
        on_access(source, bytes, false, code - 1);  // in the same call, and a site of its own
        on_access(target, bytes, true, code);
    }
    std::memcpy(target, source, bytes);
}

extern "C" void host_commit_copies() {
    ++worker->fibers[worker->thread].group;
}

// Completes the groups of copies except the last `pending`.
extern "C" void host_wait_copies(unsigned pending) {
    Worker &w = *worker;
    Fiber &fiber = w.fibers[w.thread];
    const auto is_done = [&](const Copy &copy) { return copy.group + pending < fiber.group; };
    for (const Copy &copy : fiber.copies) {
        if (is_done(copy)) complete(copy);
    }
    fiber.copies.erase(std::remove_if(fiber.copies.begin(), fiber.copies.end(), is_done),
                       fiber.copies.end());
}

// ---- What g++ calls for -fsanitize=thread and -fsanitize=bounds

static bool is_running() {  // no library is being loaded
    return worker && worker->running;
}

#define HOOK(NAME, BYTES, IS_STORE)                                    \
    extern "C" void __tsan_##NAME(void *address) {                     \
        if (!is_running()) return;                                     \
        on_access(static_cast<char *>(address), BYTES, IS_STORE,       \
                  code_address(*worker, __builtin_return_address(0))); \
    }
#define RANGE_HOOK(NAME, IS_STORE)                                    \
    extern "C" void __tsan_##NAME(void *address, uint64_t bytes) {    \
        if (!is_running()) return;                                    \
        on_range(static_cast<char *>(address), bytes, IS_STORE,       \
                 code_address(*worker, __builtin_return_address(0))); \
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

RANGE_HOOK(read_range, false)
RANGE_HOOK(write_range, true)

extern "C" void __tsan_init() {
}

// What g++ calls for -fsanitize-coverage=trace-pc, in each basic block.
extern "C" void __sanitizer_cov_trace_pc() {
    if (!is_running()) return;
    Worker &w = *worker;
    settle(w);
    const char *top = w.stacks + STACK_BYTES * (w.thread + 1);
    const uint64_t depth = (top - static_cast<char *>(__builtin_frame_address(0))) / 16;
    void *caller = __builtin_return_address(0);
    if (16 * depth > STACK_BYTES - 4096) {
        stop(fault_at(STACK_OVERFLOW, code_address(w, caller)));
    }
    append(w, depth << 32 | code_address(w, caller), caller);
}

extern "C" void __ubsan_handle_out_of_bounds(void *, void *index) {
    const uint64_t code = code_address(*worker, __builtin_return_address(0));
    stop(fault_at(OUTSIDE_ARRAY, code, 0, static_cast<int32_t>(reinterpret_cast<uint64_t>(index))));
}

// ---- What g++ calls for -fsanitize=signed-integer-overflow: the value wraps around, which matters
// only if it reaches an address or the product

static void on_overflow(void *caller) {
    if (!is_running()) return;
    suspect(fault_at(OVERFLOW, code_address(*worker, caller)));
}

#define OVERFLOW_HOOK(NAME)                                    \
    extern "C" void __ubsan_handle_##NAME##_overflow(void *) { \
        on_overflow(__builtin_return_address(0));              \
    }
OVERFLOW_HOOK(add)
OVERFLOW_HOOK(sub)
OVERFLOW_HOOK(mul)
OVERFLOW_HOOK(negate)
OVERFLOW_HOOK(divrem)
