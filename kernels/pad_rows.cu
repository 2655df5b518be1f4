// Copies A and B to rows that are aligned to 16 bytes. The bulk tensor copy engine (TMA), which
// feeds sgemm_stream_k, cannot read other rows, so this copy precedes the product if 4 does not
// divide the length of a row. Each row and column is as long as the next multiple of 4, and zeros
// fill the space beyond the matrices. The padded B precedes the padded A. A launch with fewer
// blocks copies A only; with m = 0 it copies B only.
//
// A block of 256 threads stores 4096 words, four vectors per thread. All words are loaded before
// the first is stored, so that their latencies overlap.

#define THREADS 256
#define VECTORS 4  // per thread
#define VECTOR 4   // words per vector
#define WORDS (THREADS * VECTORS * VECTOR)

static __device__ __forceinline__ unsigned padded(unsigned edge) {
    return (edge + VECTOR - 1) / VECTOR * VECTOR;
}

extern "C" __global__ void __launch_bounds__(THREADS, 4)
    pad_rows(const ELEMENT *a, const ELEMENT *b, ELEMENT *c, int m, int n, int k) {
    const unsigned of_a = (padded(m) * padded(k) + WORDS - 1) / WORDS;  // blocks that copy A
    const bool is_a = blockIdx.x < of_a;
    const unsigned rows = is_a ? m : k, columns = is_a ? k : n, width = padded(columns);
    const unsigned words = padded(rows) * width;
    const float *from = is_a ? a : b;
    float *to = is_a ? c + static_cast<size_t>(padded(n)) * padded(k) : c;
    const unsigned first = (blockIdx.x - (is_a ? 0 : of_a)) * WORDS + threadIdx.x * VECTOR;
    float loaded[VECTORS][VECTOR];
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        const unsigned at = first + i * THREADS * VECTOR, row = at / width, column = at % width;
        const float *vector = from + static_cast<size_t>(row) * columns + column;
#pragma unroll
        for (int j = 0; j < VECTOR; ++j) {
            loaded[i][j] = row < rows && column + j < columns ? vector[j] : 0.0f;
        }
    }
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        const unsigned at = first + i * THREADS * VECTOR;
        if (at < words) {
            *reinterpret_cast<float4 *>(to + at) =
                make_float4(loaded[i][0], loaded[i][1], loaded[i][2], loaded[i][3]);
        }
    }
}
