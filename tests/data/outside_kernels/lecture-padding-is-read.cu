// launch: lecture<<<dim3(CEIL_DIV(n, 8), CEIL_DIV(n, 8)), dim3(8, 8)>>>(a, b, c, n)
#define IDX(i, j, ld) ((i) * (ld) + (j))

extern "C" __global__ void lecture(const float *a, const float *b, float *c, int n) {
    __shared__ float left[8][8 + 1], right[8][8 + 1];
    const int i = blockIdx.y * 8 + threadIdx.y, j = blockIdx.x * 8 + threadIdx.x;
    auto load = [=](const float *matrix, int row, int column) {
        return row < n && column < n ? matrix[IDX(row, column, n)] : 0.0f;
    };
    float sum = 0.0f;
    for (int t = 0; t < (n + 8 - 1) / 8; ++t) {
        left[threadIdx.y][threadIdx.x] = load(a, i, t * 8 + threadIdx.x);
        right[threadIdx.y][threadIdx.x] = load(b, t * 8 + threadIdx.y, j);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 8; ++k)
            sum = fmaf(left[threadIdx.y][k], right[k][threadIdx.x + 1], sum);
        __syncthreads();
    }
    if (i < n && j < n) c[IDX(blockIdx.y * 8 + threadIdx.y, j, n)] = sum;
}
// expected: :(?:17): .*(?:is uninitialised)
