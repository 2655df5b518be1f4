// Instruments of timing a kernel without the host in it; one thread each.

__device__ unsigned long long nanoseconds() {
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

// Holds its stream until the host writes `go`, in memory of its own that the card reads: what is
// queued behind it meanwhile then runs without waiting for the host. If the host waits for the card
// in between, neither goes on: so it ends by itself after `limit_ns`, and says so.
extern "C" __global__ void hold(const volatile unsigned *go, unsigned long long limit_ns,
                                volatile unsigned *expired) {
    const unsigned long long start = nanoseconds();
    while (!*go) {
        if (nanoseconds() - start > limit_ns) {
            *expired = 1;
            return;
        }
    }
}

// Notes the time by the card's own clock.
extern "C" __global__ void stamp(unsigned long long *now) {
    *now = nanoseconds();
}
