// What a launch is made of for nvcc, which instantiates the kernels and launches nothing.

#ifndef HOST_CONFIGURE
#ifndef CEIL_DIV
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
#endif
struct HostLaunch;
static HostLaunch *host_launches;
static unsigned host_launch_count;
static char host_elements[32];
static unsigned long long host_bytes[32];
template <typename Element>
static char host_element(Element *) {
    return 0;
}
struct HostConfiguration {
    HostConfiguration(dim3, dim3, size_t = 0, cudaStream_t = nullptr) {
    }
};
template <typename... Parameters>
struct HostBound {
    void (*kernel)(Parameters...);
    void operator()(Parameters...) const {
    }
};
template <typename... Parameters>
static HostBound<Parameters...> host_at(void (*kernel)(Parameters...), HostConfiguration) {
    return {kernel};
}
#endif
