// The launch of a user-supplied kernel, evaluated by the compiler for one product at a time. Python
// generates `host_configure`, which evaluates the launch in a scope with the user's names.

#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim
#undef assert
#undef printf

#ifndef CEIL_DIV
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
#endif

typedef const void *cudaStream_t;

// What the launch of a persistent kernel asks its GPU: the values of an H100.
struct cudaDeviceProp {
    int multiProcessorCount = 132, maxThreadsPerBlock = 1024, maxThreadsPerMultiProcessor = 2048;
    int warpSize = 32, major = 9, minor = 0;
    size_t sharedMemPerBlock = 48 << 10, sharedMemPerBlockOptin = 227 << 10;
    size_t sharedMemPerMultiprocessor = 228 << 10;
};

struct HostConfiguration {
    dim3 grid, block;
    size_t shared;
    HostConfiguration(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t = nullptr)
        : grid(grid), block(block), shared(shared) {
    }
};

// The letter of the elements that a pointer is to, in elements.py; 0: unknown.
static inline char host_element(const void *) {
    return 0;
}
#define HOST_ELEMENT(LETTER, TYPE)                  \
    static inline char host_element(const TYPE *) { \
        return LETTER;                              \
    }
HOST_ELEMENT('f', float)
HOST_ELEMENT('f', float2)
HOST_ELEMENT('f', float4)
HOST_ELEMENT('d', double)
HOST_ELEMENT('d', double2)
HOST_ELEMENT('h', half)
HOST_ELEMENT('h', half2)
HOST_ELEMENT('b', nv_bfloat16)
HOST_ELEMENT('b', nv_bfloat162)
HOST_ELEMENT('i', int)
HOST_ELEMENT('u', unsigned)
HOST_ELEMENT('c', signed char)
HOST_ELEMENT('c', char)
HOST_ELEMENT('c', char4)
HOST_ELEMENT('C', unsigned char)
HOST_ELEMENT('C', uchar4)
extern "C" char host_elements[32];
char host_elements[32];  // of the scope's pointers
extern "C" uint64_t host_bytes[32];
uint64_t host_bytes[32];  // of memory that a step allocates for a pointer, else 0

// One launch as the runtime takes it. `arguments` point into `values`.
struct HostLaunch {
    void (*entry)(void **);
    unsigned grid[3], block[3];
    size_t shared;
    unsigned count;
    unsigned bytes[32];
    void *arguments[33];  // the first is the kernel's address
    alignas(16) char values[1024];
};

static HostLaunch host_launches[8];
static unsigned host_launch_count, host_value_bytes;

template <typename... Parameters>
__attribute__((no_sanitize("thread"))) static void host_entry_of(void **arguments) {
    host_call(reinterpret_cast<void (*)(Parameters...)>(arguments[0]), arguments + 1);
}

template <typename... Parameters>
struct HostBound {
    void (*kernel)(Parameters...);
    HostConfiguration configuration;

    template <typename Value>
    __attribute__((no_sanitize("thread"))) static void put(HostLaunch &launch, Value value) {
        const unsigned place = host_value_bytes;
        host_value_bytes += (sizeof value + 15) / 16 * 16;
        __builtin_memcpy(launch.values + place, &value, sizeof value);
        launch.arguments[1 + launch.count] = launch.values + place;
        launch.bytes[launch.count++] = sizeof value;
    }

    __attribute__((no_sanitize("thread"))) void operator()(Parameters... values) const {
        HostLaunch &launch = host_launches[host_launch_count++ % 8];
        launch.entry = host_entry_of<Parameters...>;
        launch.arguments[0] = reinterpret_cast<void *>(kernel);
        const dim3 sizes[] = {configuration.grid, configuration.block};
        unsigned *const targets[] = {launch.grid, launch.block};
        for (int i = 0; i < 2; ++i) {
            targets[i][0] = sizes[i].x;
            targets[i][1] = sizes[i].y;
            targets[i][2] = sizes[i].z;
        }
        launch.shared = configuration.shared;
        launch.count = host_value_bytes = 0;
        (put(launch, values), ...);
    }
};

template <typename... Parameters>
static HostBound<Parameters...> host_at(void (*kernel)(Parameters...), HostConfiguration where) {
    return {kernel, where};
}
