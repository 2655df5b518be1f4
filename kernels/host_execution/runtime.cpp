// The runtime under a kernel that g++ compiled: it runs the threads of a block as fibers, one after
// the other up to each barrier, and the blocks of a grid one by one.

#include "runtime.h"

#include <link.h>
#include <signal.h>

namespace host_execution {

__thread Worker *worker;

}  // namespace host_execution

using namespace host_execution;

extern "C" void *__tls_get_addr(size_t *);

// Dynamic shared memory of whatever kernel this worker runs.
extern thread_local __attribute__((aligned(256))) char smem[];
thread_local __attribute__((aligned(256))) char smem[DYNAMIC_SHARED_BYTES];

namespace {

thread_local Worker own_worker;

// ---- Fibers

void run_threads() {
    for (;;) {
        Worker &w = *worker;
        w.launch->entry(w.launch->arguments);
        settle(w);
        end_copies(w);
        Fiber &fiber = worker->fibers[worker->thread];
        fiber.state = ENDED;
        if (_setjmp(fiber.place) == 0) _longjmp(worker->scheduler, 1);
    }
}

void start(Worker &w, Fiber &fiber) {
    fiber.started = true;
    getcontext(&fiber.start);
    fiber.start.uc_stack.ss_sp = w.stacks + STACK_BYTES * (&fiber - w.fibers.data());
    fiber.start.uc_stack.ss_size = STACK_BYTES;
    fiber.start.uc_link = nullptr;
    makecontext(&fiber.start, run_threads, 0);
    setcontext(&fiber.start);
}

__attribute__((noinline)) void resume(Worker &w, Fiber &fiber) {
    w.thread_index = fiber.index;
    if (_setjmp(w.scheduler) != 0) return;
    if (!fiber.started) start(w, fiber);
    _longjmp(fiber.place, 1);
}

bool has_cause(const Worker &w) {
    return !w.causes.empty() && w.causes.back().begin == w.block_start;
}

Fault of_thread(const Worker &w, Fault fault) {
    fault.thread = w.thread;
    std::memcpy(fault.block, &w.block_index, sizeof fault.block);
    return fault;
}

}  // namespace

[[noreturn]] void host_execution::stop(const Fault &fault) {
    Worker &w = *worker;
    const bool is_race = fault.kind == SHARED_RACE || fault.kind == GLOBAL_RACE;
    w.launch->fault = has_cause(w) && !is_race ? w.causes.back().fault : of_thread(w, fault);
    _longjmp(w.scheduler, 1);
}

void host_execution::suspect(const Fault &fault) {
    Worker &w = *worker;
    if (!has_cause(w)) w.causes.push_back({w.block_start, w.block_start, of_thread(w, fault)});
}

namespace {

// ---- Signals: a division by zero, an address that is none, an assertion

constexpr int SIGNALS[] = {SIGFPE, SIGSEGV, SIGBUS, SIGILL, SIGABRT};

// Makes a fault of a signal that a kernel's thread raised. Any other ends the process as ever.
void on_signal(int number, siginfo_t *, void *context) {
    Worker *const w = worker;
    if (!w || !w->running) {
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    const greg_t *registers = static_cast<ucontext_t *>(context)->uc_mcontext.gregs;
    uint64_t code = registers[REG_RIP] - reinterpret_cast<uint64_t>(w->code);
    if (code < w->code_bytes) {
        ++code;  // as after a call
    } else {     // in a function of another library: the last block that was entered
        const Trace &trace = w->traces[w->lane];
        auto last = std::find_if(trace.rbegin(), trace.rend(),
                                 [](uint64_t event) { return !(event & ACCESS); });
        code = last == trace.rend() ? 0 : static_cast<uint32_t>(*last);
    }
    stop(fault_at(SIGNAL, code, number));
}

// At each launch: others may have changed the handlers since the last one.
void handle_signals() {
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (int number : SIGNALS) {
        sigaction(number, &action, nullptr);
    }
    thread_local char stack[64 << 10];  // a thread's own may be what has no room
    stack_t alternative = {};
    alternative.ss_sp = stack;
    alternative.ss_size = sizeof stack;
    sigaltstack(&alternative, nullptr);
}

// ---- Launch

// Finds the kernel's library: its code, and the number and size of the thread-local memory that
// holds what it declares as static shared memory, and nothing else.
int find_library(dl_phdr_info *info, size_t, void *data) {
    Worker &w = *static_cast<Worker *>(data);
    const auto base = reinterpret_cast<char *>(info->dlpi_addr);
    const auto wanted = reinterpret_cast<char *>(w.launch->entry);
    const ElfW(Phdr) *tls = nullptr, *writable = nullptr;
    bool found = false;
    size_t code_end = 0, end = 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr) &header = info->dlpi_phdr[i];
        if (header.p_type == PT_TLS) tls = &header;
        if (header.p_type != PT_LOAD) continue;
        const char *from = base + header.p_vaddr;
        if (wanted >= from && wanted < from + header.p_memsz) found = true;
        end = std::max(end, header.p_vaddr + header.p_memsz);
        if (header.p_flags & PF_X) code_end = end;
        if (header.p_flags & PF_W) writable = &header;
    }
    if (!found) return 0;
    w.code = base;
    w.code_bytes = code_end;
    w.library_bytes = end;
    w.variables = writable ? base + writable->p_vaddr : nullptr;
    w.variable_buffer = {
        w.variables, writable ? writable->p_memsz : 0, nullptr, 1, 0, WORD_BYTES, 0};
    w.shared_bytes = tls ? tls->p_memsz : 0;
    w.shared_module = info->dlpi_tls_modid;
    return 1;
}

void prepare(Worker &w, Launch &launch) {
    w.launch = &launch;
    w.dynamic_shared = smem;
    if (!w.stacks) {
        w.stacks =
            static_cast<char *>(mmap(nullptr, STACK_BYTES * MAX_THREADS, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
        w.fibers.resize(MAX_THREADS);
    }
    w.block_size = {launch.block[0], launch.block[1], launch.block[2]};
    w.grid_size = {launch.grid[0], launch.grid[1], launch.grid[2]};
    w.threads = launch.block[0] * launch.block[1] * launch.block[2];
    w.epoch = 0;
    w.causes.clear();
    w.stores.clear();
    w.overwrite.address = nullptr;
    uint3 index = {0, 0, 0};
    for (uint32_t thread = 0; thread < w.threads; ++thread) {
        w.fibers[thread].index = index;
        if (++index.x < launch.block[0]) continue;
        index.x = 0;
        if (++index.y < launch.block[1]) continue;
        index.y = 0;
        ++index.z;
    }
    dl_iterate_phdr(find_library, &w);
    // Not in find_library: the loader is locked there, and making the thread's copy takes the lock
    // that another thread holds which loads a library and waits for that one.
    const uint64_t bytes = w.shared_bytes + launch.dynamic_shared_bytes;
    if (w.shared_bytes > STATIC_SHARED_BYTES || bytes > DYNAMIC_SHARED_BYTES) {
        launch.fault.kind = SHARED_SIZE;
        launch.fault.bytes = std::min<uint64_t>(bytes, ~0u);
        return;
    }
    size_t place[2] = {w.shared_module, 0};
    w.shared = w.shared_bytes ? static_cast<char *>(__tls_get_addr(place)) : nullptr;
    w.useful_block = 0;
    w.sites.clear();
    for (Trace &trace : w.traces) {
        trace.clear();  // of a launch that ended with a fault
    }
    if (!launch.instrumented) return;
    w.unit = WORD_BYTES;
    w.words.assign((w.shared_bytes + launch.dynamic_shared_bytes) / WORD_BYTES + 1, Word{});
    for (auto &sites : w.site_at) {
        sites.assign(w.code_bytes + 1, nullptr);
    }
    w.buffer_address.clear();
    uint64_t next = 0;  // a GPU's allocations begin at multiples of 256 bytes
    for (uint32_t i = 0; i < launch.buffer_count; ++i) {
        w.buffer_address.push_back(next);
        next += (launch.buffers[i].bytes + 255) / 256 * 256;
    }
    w.buffer_address.push_back(next);  // of the variables
    if (w.variable_buffer.bytes > VARIABLE_BYTES) {
        launch.fault.kind = VARIABLE_SIZE;
        return;
    }
    w.variable_writers.assign(w.variable_buffer.bytes / WORD_BYTES + 1, Writer{});
    w.variable_buffer.writers = w.variable_writers.data();
}

// The lanes that wait for the same lanes as this one, 0 if one of those does not wait. Lanes that
// have ended do not take part.
uint32_t meeting(const Fiber *lanes, uint32_t count, uint32_t mask) {
    uint32_t waiting = 0;
    for (uint32_t lane = 0; lane < count; ++lane) {
        const Fiber &fiber = lanes[lane];
        if (!(mask >> lane & 1) || fiber.state == ENDED) continue;
        if (fiber.state != AT_MEETING || fiber.mask != mask) return 0;
        waiting |= 1u << lane;
    }
    return waiting;
}

// Adds what is known of times to what was known.
void learn(std::vector<uint32_t> &times, const std::vector<uint32_t> &more) {
    times.resize(std::max(times.size(), more.size()));
    for (size_t i = 0; i < more.size(); ++i) {
        times[i] = std::max(times[i], more[i]);
    }
}

// After a __syncwarp, each of its lanes is ordered behind all that any of them was ordered behind.
void order(Worker &w, Fiber *lanes, uint32_t count, uint32_t together) {
    ++w.time;
    for (uint32_t left = w.objects.empty() ? 0 : together; left; left &= left - 1) {
        const Fiber &from = lanes[__builtin_ctz(left)];
        for (uint32_t to = from.others.empty() ? 0 : together; to; to &= to - 1) {
            Fiber &fiber = lanes[__builtin_ctz(to)];
            learn(fiber.others, from.others);
            for (uint32_t warp = 0; warp < WARP; ++warp) {
                fiber.warps[warp] = std::max(fiber.warps[warp], from.warps[warp]);
            }
        }
    }
    for (uint32_t of = 0; of < count; ++of) {
        uint32_t latest = together >> of & 1 ? w.time : 0;
        for (uint32_t each = 0; each < count; ++each) {
            if (together >> each & 1) latest = std::max(latest, lanes[each].known[of]);
        }
        for (uint32_t each = 0; each < count; ++each) {
            if (together >> each & 1) lanes[each].known[of] = latest;
        }
    }
}

// Lets lanes run on, with what each of them gave. Each reads it before the next meeting ends.
void release(Worker &w, Fiber *lanes, uint32_t together) {
    for (uint32_t left = together; left; left &= left - 1) {
        const uint32_t lane = __builtin_ctz(left);
        w.received[lane] = lanes[lane].given;
        lanes[lane].together = together;
        lanes[lane].state = RUNS;
    }
}

// Where no lane can run on, the lanes that ask at one place which lanes are active are together.
bool release_active(Worker &w, Fiber *lanes, uint32_t count) {
    uint32_t together = 0;
    uint64_t place = 0;
    for (uint32_t lane = 0; lane < count; ++lane) {
        if (lanes[lane].state != AT_ACTIVE_MASK) continue;
        if (!together) place = lanes[lane].barrier;
        together |= static_cast<uint32_t>(lanes[lane].barrier == place) << lane;
    }
    release(w, lanes, together);
    return together;
}

// Lets the lanes that wait for each other run on.
bool end_meetings(Worker &w, uint32_t first) {
    Fiber *const lanes = &w.fibers[first];
    const uint32_t count = std::min(WARP, w.threads - first);
    bool any = false;
    for (uint32_t lane = 0; lane < count; ++lane) {
        if (lanes[lane].state != AT_MEETING) continue;
        const uint32_t together = meeting(lanes, count, lanes[lane].mask);
        if (!(together >> lane & 1)) continue;
        any = true;
        if (lanes[lane].orders) order(w, lanes, count, together);
        release(w, lanes, together);
    }
    return any || release_active(w, lanes, count);
}

// Lets every thread of a warp run to its next barrier or to its end.
void run_warp(Worker &w, uint32_t first) {
    do {
        const uint32_t last = std::min(first + WARP, w.threads);
        for (volatile uint32_t thread = first; thread < last; thread = thread + 1) {
            Fiber &fiber = w.fibers[thread];
            if (fiber.state != RUNS) continue;
            w.thread = thread;
            w.lane = thread % WARP;
            resume(w, fiber);
            if (w.launch->fault.kind) return;
        }
    } while (end_meetings(w, first));
}

void report(Worker &w, FaultKind kind, uint32_t thread, uint32_t other) {
    Fault &fault = w.launch->fault;
    w.thread = thread;
    fault = of_thread(w, fault_at(kind, w.fibers[thread].barrier));
    fault.other_thread = other;
    fault.other_code = w.fibers[other].barrier;
}

// All threads that have not ended must wait at one and the same barrier; and `barriers`, those that
// they have passed, must not be too many for a loop that ends. GPUs from sm_70 ignore threads that
// have ended. Returns whether all have.
bool check_barrier(Worker &w, uint32_t barriers) {
    uint32_t waits = MAX_THREADS;
    for (uint32_t thread = 0; thread < w.threads; ++thread) {
        const Fiber &fiber = w.fibers[thread];
        if (fiber.state == ENDED) continue;
        if (fiber.state == AT_MEETING) {
            const uint32_t first = thread - thread % WARP;
            const uint32_t last = std::min(first + WARP, w.threads) - 1;
            uint32_t other = first;
            while (other < last &&
                   (!(fiber.mask >> (other - first) & 1) || w.fibers[other].state == ENDED ||
                    (w.fibers[other].state == AT_MEETING && w.fibers[other].mask == fiber.mask)))
                ++other;
            report(w, APART, thread, other);
            return false;
        }
        if (fiber.state == AT_PHASE) {
            report(w, NEVER_COMPLETE, thread, thread);
            return false;
        }
        if (waits == MAX_THREADS) waits = thread;
        // Without optimisation a barrier has one address.
        if (w.launch->instrumented && fiber.barrier != w.fibers[waits].barrier) {
            report(w, DIFFERENT_BARRIERS, waits, thread);
            return false;
        }
    }
    if (waits == MAX_THREADS) return true;
    if (w.launch->instrumented && barriers >= MAX_BARRIERS)
        report(w, ENDLESS_BARRIERS, waits, waits);
    return false;
}

// Lets threads run on that wait at barrier objects for phases that have ended.
bool end_phases(Worker &w) {
    bool any = false;
    if (w.objects.empty()) return any;
    for (uint32_t thread = 0; thread < w.threads; ++thread) {
        Fiber &fiber = w.fibers[thread];
        if (fiber.state != AT_PHASE || fiber.object->phase <= fiber.phase) continue;
        fiber.state = RUNS;
        any = true;
    }
    return any;
}

// No block finds what the one before has left in shared memory.
void poison(Worker &w) {
    uint32_t *const parts[] = {reinterpret_cast<uint32_t *>(w.shared),
                               reinterpret_cast<uint32_t *>(w.dynamic_shared)};
    std::fill_n(parts[0], w.shared_bytes / WORD_BYTES, w.launch->fill);
    std::fill_n(parts[1], w.launch->dynamic_shared_bytes / WORD_BYTES, w.launch->fill);
}

void run_block(Worker &w) {
    w.block_start = ++w.epoch;
    w.vote = 0;
    w.time = 0;
    poison(w);
    for (uint32_t thread = 0; thread < w.threads; ++thread) {
        Fiber &fiber = w.fibers[thread];
        fiber.state = RUNS;
        fiber.group = 0;
        std::fill_n(fiber.known, WARP, 0);
        fiber.copies.clear();
        fiber.others.clear();
    }
    w.objects.clear();
    for (uint32_t barriers = 0;; ++barriers) {
        do {
            for (uint32_t first = 0; first < w.threads; first += WARP) {
                run_warp(w, first);
                if (w.launch->fault.kind) return;
                if (w.launch->instrumented) end_warp(w);
            }
        } while (end_phases(w));
        const bool ended = check_barrier(w, barriers);
        if (has_cause(w)) w.causes.back().end = w.epoch;
        if (w.launch->fault.kind || ended) return;
        ++w.epoch;
        w.outcome = w.vote;
        w.vote = 0;
        for (uint32_t thread = 0; thread < w.threads; ++thread) {
            Fiber &fiber = w.fibers[thread];
            if (fiber.state == AT_BARRIER) fiber.state = RUNS;
            std::fill_n(fiber.known, WARP, 0);
        }
    }
}

void run_grid(Worker &w) {
    uint3 &block = w.block_index;
    if (w.launch->last_block) {
        block = {w.grid_size.x - 1, w.grid_size.y - 1, w.grid_size.z - 1};
        run_block(w);
        return;
    }
    for (block.z = 0; block.z < w.grid_size.z; ++block.z) {
        for (block.y = 0; block.y < w.grid_size.y; ++block.y) {
            for (block.x = 0; block.x < w.grid_size.x; ++block.x) {
                run_block(w);
                if (w.launch->fault.kind) return;
            }
        }
    }
}

}  // namespace

// ---- What the binding calls

// Runs a kernel to its end or to its first fault. Launches of several threads do not disturb each
// other.
extern "C" void host_launch(Launch *launch) {
    worker = &own_worker;
    Worker &w = *worker;
    prepare(w, *launch);
    if (launch->fault.kind) return;
    handle_signals();
    w.running = true;
    run_grid(w);
    w.running = false;
    if (launch->fault.kind) {  // its fibers are somewhere within the kernel
        for (Fiber &fiber : w.fibers) {
            fiber.started = false;
        }
    }
    launch->count_count = w.sites.size();
    launch->cause_count = w.causes.size();
    launch->store_count = w.stores.size();
}

// Writes what the last launch of this worker counted.
extern "C" void host_counts(Count *counts) {
    for (const Site &site : own_worker.sites) {
        *counts++ = site.count;
    }
}

extern "C" void host_causes(Cause *causes) {
    std::copy(own_worker.causes.begin(), own_worker.causes.end(), causes);
}

// The bytes of the last buffer that were stored to, and the code of the last store to each.
extern "C" void host_stores(uint64_t *bytes, uint64_t *codes) {
    for (const auto &[byte, code] : own_worker.stores) {
        *bytes++ = byte;
        *codes++ = code;
    }
}

extern "C" int host_has_fma() {
    return __builtin_cpu_supports("fma");
}

namespace {

template <typename Element>
void multiply(const Element *a, const Element *b, Element *c, size_t m, size_t n, size_t k,
              bool fused) {
    std::fill(c, c + m * n, Element(0));
    for (size_t row = 0; row < m; ++row) {
        for (size_t step = 0; step < k; ++step) {
            const Element element = a[row * k + step];
            for (size_t column = 0; column < n; ++column) {
                const Element other = b[step * n + column];
                Element &sum = c[row * n + column];
                if constexpr (std::is_floating_point_v<Element>)
                    sum = fused ? std::fma(element, other, sum) : sum + element * other;
                else
                    sum += element * other;  // modulo 2^32: there is nothing to round
            }
        }
    }
}

}  // namespace

// c = a * b for row-major matrices, each element summed in the order of k. `fused`: each step is
// one FMA, else a product that is rounded and then a sum.
#define HOST_REFERENCE(NAME, TYPE)                                                           \
    extern "C" void host_reference_##NAME(const TYPE *a, const TYPE *b, TYPE *c, uint64_t m, \
                                          uint64_t n, uint64_t k, int fused) {               \
        multiply(a, b, c, m, n, k, fused);                                                   \
    }
HOST_REFERENCE(float32, float)
HOST_REFERENCE(float64, double)
HOST_REFERENCE(uint32, uint32_t)

// ---- What a kernel calls

// What g++ calls to copy and to fill (--wrap).
extern "C" void *__wrap_memcpy(void *to, const void *from, size_t bytes) {
    return std::memcpy(to, from, bytes);
}

extern "C" void *__wrap_memmove(void *to, const void *from, size_t bytes) {
    return std::memmove(to, from, bytes);
}

extern "C" void *__wrap_memset(void *to, int value, size_t bytes) {
    return std::memset(to, value, bytes);
}

namespace {

void wait(State state, void *caller) {
    Worker &w = *worker;
    settle(w);
    Fiber &fiber = w.fibers[w.thread];
    fiber.state = state;
    fiber.barrier = code_address(w, caller);
    if (_setjmp(fiber.place) == 0) _longjmp(w.scheduler, 1);
}

}  // namespace

extern "C" void __syncthreads() {
    wait(AT_BARRIER, __builtin_return_address(0));
}

extern "C" int __syncthreads_count(int predicate) {
    worker->vote += predicate != 0;
    wait(AT_BARRIER, __builtin_return_address(0));
    return worker->outcome;
}

Fiber &host_execution::meet(uint32_t mask, const Gift &gift, bool orders, void *caller) {
    Worker &w = *worker;
    if (!(mask >> w.lane & 1)) stop(fault_at(NOT_IN_MASK, code_address(w, caller), mask));
    Fiber &fiber = w.fibers[w.thread];
    fiber.mask = mask;
    fiber.given = gift;
    fiber.orders = orders;
    wait(AT_MEETING, caller);
    return fiber;
}

// Gives a value to the lanes of `mask`; returns that of lane `from`. If there is none it is NaN, as
// from shared memory that nothing was stored to: it may still be unused.
extern "C" uint64_t host_exchange(unsigned mask, uint64_t value, unsigned from) {
    void *const caller = __builtin_return_address(0);
    const Fiber &fiber = meet(mask, {{value}}, false, caller);
    from %= WARP;
    if (fiber.together >> from & 1) return worker->received[from].words[0];
    suspect(fault_at(SHUFFLE_FROM_NONE, code_address(*worker, caller), 0, from));
    return static_cast<uint64_t>(POISON_WORD) << 32 | POISON_WORD;
}

// Gives a value to the lanes of `mask` and writes those of all; returns which lanes took part.
extern "C" unsigned host_gather(unsigned mask, uint64_t value, uint64_t *values) {
    const Fiber &fiber = meet(mask, {{value}}, false, __builtin_return_address(0));
    for (uint32_t lane = 0; lane < WARP; ++lane) {
        values[lane] = worker->received[lane].words[0];
    }
    return fiber.together;
}

// The lanes of `mask` whose predicate is true.
extern "C" unsigned host_ballot(unsigned mask, int predicate) {
    const Fiber &fiber = meet(mask, {{predicate != 0}}, false, __builtin_return_address(0));
    unsigned lanes = 0;
    for (uint32_t lane = 0; lane < WARP; ++lane) {
        lanes |= (fiber.together >> lane & worker->received[lane].words[0]) << lane;
    }
    return lanes;
}

extern "C" void host_sync_warp(unsigned mask) {
    meet(mask, {}, true, __builtin_return_address(0));
}

extern "C" unsigned host_active_mask() {
    wait(AT_ACTIVE_MASK, __builtin_return_address(0));
    return worker->fibers[worker->thread].together;
}

// ---- Barrier objects

namespace {

Phased &object_at(const void *address, void *caller) {
    check_object(address, false, caller);
    const Worker &w = *worker;
    const auto at = worker->objects.find(address);
    if (at == w.objects.end()) stop(fault_at(NO_BARRIER_OBJECT, code_address(w, caller)));
    const Phased &object = at->second;
    const bool is_near = object.maker / WARP == w.thread / WARP;
    const bool is_ordered =
        object.made_epoch != w.epoch || object.maker == w.thread ||
        (is_near && w.fibers[w.thread].known[object.maker % WARP] > object.made_time);
    if (!is_ordered) stop(fault_at(NO_BARRIER_OBJECT, code_address(w, caller)));
    return at->second;
}

// All have arrived: the copies are there, and what the threads did before is ordered.
void end_phase(Worker &w, Phased &object) {
    const uint32_t thread = w.thread;
    for (const auto &[of, copy] : object.copies) {
        w.thread = of;
        w.lane = of % WARP;
        complete(copy);
    }
    w.thread = thread;
    w.lane = thread % WARP;
    ++w.time;
    for (const auto &[of, copy] : object.copies) {
        object.arriving[of] = w.time;
    }
    object.copies.clear();
    for (uint32_t of = 0; of < w.threads; ++of) {
        if (object.arriving[of]) object.warps[of / WARP] = w.time;
    }
    learn(object.completed, object.arriving);
    object.pending = object.expected;
    ++object.phase;
}

void make(Phased &object, uint32_t expected) {
    const Worker &w = *worker;
    object = {expected, expected, 0, w.epoch, w.time, w.thread, {}, {}, {}, {}};
    object.arriving.resize((w.threads + WARP - 1) / WARP * WARP);
}

// Arrives so many times, and leaves for later phases `leaving` times; returns the phase.
uint64_t arrive(Phased &object, uint32_t times, uint32_t leaving) {
    Worker &w = *worker;
    Fiber &fiber = w.fibers[w.thread];
    const uint32_t first = w.thread - w.lane;
    ++w.time;
    learn(object.arriving, fiber.others);
    for (uint32_t lane = 0; lane < WARP; ++lane) {
        uint32_t &time = object.arriving[first + lane];
        time = lane == w.lane ? w.time : std::max(time, fiber.known[lane]);
    }
    const uint64_t phase = object.phase;
    object.expected -= leaving;
    object.pending -= std::min(object.pending, times);
    if (!object.pending) end_phase(w, object);
    return phase;
}

void wait_for(const Phased &object, uint64_t phase, void *caller) {
    Worker &w = *worker;
    Fiber &fiber = w.fibers[w.thread];
    if (object.phase <= phase) {
        fiber.object = &object;
        fiber.phase = phase;
        wait(AT_PHASE, caller);
    }
    if (fiber.others.empty()) std::fill_n(fiber.warps, WARP, 0);
    learn(fiber.others, object.completed);
    for (uint32_t each = 0; each < WARP; ++each) {
        fiber.warps[each] = std::max(fiber.warps[each], object.warps[each]);
        fiber.known[each] = std::max(fiber.known[each], object.completed[w.thread - w.lane + each]);
    }
}

}  // namespace

extern "C" void host_object_init(void *address, unsigned expected) {
    check_object(address, true, __builtin_return_address(0));
    make(worker->objects[address], expected);
    std::memset(address, 0, 2 * WORD_BYTES);
}

extern "C" uint64_t host_object_arrive(void *address, unsigned times, unsigned leaving) {
    return arrive(object_at(address, __builtin_return_address(0)), times, leaving);
}

// A barrier that the hardware numbers, for so many threads; `waits`: bar.sync, else bar.arrive. Its
// key is no address of an object in shared memory.
extern "C" void host_numbered_barrier(unsigned number, unsigned threads, int waits) {
    Phased &object = worker->objects[reinterpret_cast<const void *>(uintptr_t(number))];
    if (object.arriving.empty() || object.pending == object.expected) {
        if (object.expected != threads) make(object, threads);
    }
    const uint64_t phase = arrive(object, 1, 0);
    if (waits) wait_for(object, phase, __builtin_return_address(0));
}

// The copies since the last commit belong to the object's phase.
extern "C" void host_object_copies(void *address) {
    Worker &w = *worker;
    Phased &object = object_at(address, __builtin_return_address(0));
    Fiber &fiber = w.fibers[w.thread];
    const auto is_new = [&](const Copy &copy) { return copy.group == fiber.group; };
    for (const Copy &copy : fiber.copies) {
        if (is_new(copy)) object.copies.emplace_back(w.thread, copy);
    }
    fiber.copies.erase(std::remove_if(fiber.copies.begin(), fiber.copies.end(), is_new),
                       fiber.copies.end());
}

extern "C" void host_object_wait(void *address, uint64_t phase) {
    void *const caller = __builtin_return_address(0);
    wait_for(object_at(address, caller), phase, caller);
}

extern "C" unsigned host_lane() {
    return worker->lane;
}

extern "C" uint3 host_thread_index() {
    return worker->thread_index;
}

extern "C" uint3 host_block_index() {
    return worker->block_index;
}

extern "C" uint3 host_block_size() {
    return worker->block_size;
}

extern "C" uint3 host_grid_size() {
    return worker->grid_size;
}
