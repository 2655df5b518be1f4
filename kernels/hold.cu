// Instruments that keep the host out of a measured time. Each has one thread.

__device__ unsigned long long nanoseconds() {
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

// Spins until the host sets `go` in mapped memory, so that the launches queued behind it later run
// back to back, without waiting for the host. Exits after `limit_ns` and reports it, because a host
// waiting for the GPU would otherwise deadlock.
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

// Stores the time of the GPU's own clock.
extern "C" __global__ void stamp(unsigned long long *now) {
    *now = nanoseconds();
}
