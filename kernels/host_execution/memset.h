__global__ void host_memset(void *memory, int value, size_t count) {
    const size_t word = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    /* one word per thread, and the bytes behind the last word */
    if (4 * word + 4 <= count) {
        ((unsigned *)memory)[word] = 0x01010101u * (unsigned char)value;
    } else {
        for (size_t i = 4 * word; i < count; ++i)
            ((unsigned char *)memory)[i] = value;
    }
}
