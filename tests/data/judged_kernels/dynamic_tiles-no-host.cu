// Two tiles in one dynamic array, addressed through pointers.
extern __shared__ float pool[];
__global__ void dynamic_tiles(const float *__restrict__ A, const float *__restrict__ B,
                              float *__restrict__ C, const int M, const int N, const int K) {
    const int edge = blockDim.x, tx = threadIdx.x, ty = threadIdx.y;
    float *tileA = pool, *tileB = pool + edge * edge;
    const int row = blockIdx.y * edge + ty, col = blockIdx.x * edge + tx;
    float acc = 0.f;
    const int steps = (K + edge - 1) / edge;
    for (int s = 0; s < steps; ++s) {
        const int ka = s * edge + tx, kb = s * edge + ty;
        tileA[ty * edge + tx] = (row < M && ka < K) ? A[row * K + ka] : 0.f;
        tileB[ty * edge + tx] = (kb < K && col < N) ? B[kb * N + col] : 0.f;
        __syncthreads();
#pragma unroll
        for (int e = 0; e < edge; ++e) acc += tileA[ty * edge + e] * tileB[e * edge + tx];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = acc;
}
// expected: correct
