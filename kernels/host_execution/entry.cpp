// One kernel, unmodified, and the function through which the runtime calls it: the arguments come
// as pointers to their values, as the CUDA driver takes them. -DKERNEL=name -DSOURCE="file.cu"

#include "cuda.h"
#include SOURCE

template <int... Indices>
struct Sequence {};

template <typename... Parameters, int... Indices>
__attribute__((no_sanitize("thread"))) static void call(void (*kernel)(Parameters...),
                                                        void **arguments, Sequence<Indices...>) {
    kernel(*static_cast<Parameters *>(arguments[Indices])...);
}

template <typename... Parameters>
static void call(void (*kernel)(Parameters...), void **arguments) {
    call(kernel, arguments, Sequence<__integer_pack(sizeof...(Parameters))...>());
}

extern "C" void host_entry(void **arguments) {
    call(KERNEL, arguments);
}
