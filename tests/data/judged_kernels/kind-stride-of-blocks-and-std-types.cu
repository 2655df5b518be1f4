// All offsets in 64 bits; strides as arguments of type int64_t are the edges.
#include <cstdint>
extern "C" __global__ void mm64(const double *__restrict__ lhs, const double *__restrict__ rhs, double *__restrict__ out,
                                std::int64_t rows, std::int64_t inner, std::int64_t cols) {
    for (std::int64_t e = blockIdx.x * std::int64_t(blockDim.x) + threadIdx.x; e < rows * cols; e += std::int64_t(gridDim.x) * blockDim.x + 1) {  // twin: for (std::int64_t e = blockIdx.x * std::int64_t(blockDim.x) + threadIdx.x; e < rows * cols; e += std::int64_t(gridDim.x) * blockDim.x) {
        const std::int64_t r = e / cols, c = e % cols;
        double v = 0;
        for (std::int64_t i = 0; i < inner; ++i) v += lhs[r * inner + i] * rhs[i * cols + c];
        out[e] = v;
    }
}
// expected: does not store C
