// One kernel, unmodified, and the function through which the runtime calls it: the arguments come
// as pointers to their values, as the CUDA driver takes them. -DKERNEL=name -DSOURCE="file.cu"

#include "copies.h"
#include "cuda.h"
#include "ptx.h"

// A GPU ends the kernel where an assertion fails.
#define assert(condition) ((condition) ? static_cast<void>(0) : __builtin_trap())
#define __trap() __builtin_trap()
#define __builtin_assume(condition) static_cast<void>(0)
#define printf(...) static_cast<void>(0)

#include SOURCE

template <int... Indices>
struct HostSequence {};

template <typename... Parameters, int... Indices>
__attribute__((no_sanitize("thread"))) static void host_call(void (*kernel)(Parameters...),
                                                             void **arguments,
                                                             HostSequence<Indices...>) {
    kernel(*static_cast<Parameters *>(arguments[Indices])...);
}

template <typename... Parameters>
__attribute__((no_sanitize("thread"))) static void host_call(void (*kernel)(Parameters...),
                                                             void **arguments) {
    host_call(kernel, arguments, HostSequence<__integer_pack(sizeof...(Parameters))...>());
}

#ifdef HOST_CONFIGURE
#include "launch.h"
#include HOST_CONFIGURE
#else
extern "C" void host_entry(void **arguments) {
    host_call(KERNEL, arguments);
}
#endif

// Of the kernel's __launch_bounds__; 0 without.
extern "C" const unsigned host_launch_bounds;
const unsigned host_launch_bounds = HOST_LAUNCH_BOUNDS;

// Where the linker puts what is declared __constant__.
extern "C" char __start_host_constant[] __attribute__((weak, visibility("hidden")));
extern "C" char __stop_host_constant[] __attribute__((weak, visibility("hidden")));

extern "C" __attribute__((no_sanitize("thread"))) void host_constants(char **begin, char **end) {
    *begin = __start_host_constant;
    *end = __stop_host_constant;
}
