// try: block=8 tile=BLOCKxBLOCKxBLOCK threads=BLOCKxBLOCK
#define IDX(i, j, ld) ((i) * (ld) + (j))

extern "C" __global__ void lecture(const float *a, const float *b, float *c, int n) {
    __shared__ float left[BLOCK][BLOCK + 1], right[BLOCK][BLOCK + 1];
    const int i = blockIdx.y * BLOCK + threadIdx.y, j = blockIdx.x * BLOCK + threadIdx.x;
    auto load = [=](const float *matrix, int row, int column) {
        return row < n && column < n ? matrix[IDX(row, column, n)] : 0.0f;
    };
    float sum = 0.0f;
    for (int t = 0; t < (n + BLOCK - 1) / BLOCK; ++t) {
        left[threadIdx.y][threadIdx.x] = load(a, i, t * BLOCK + threadIdx.x);
        right[threadIdx.y][threadIdx.x] = load(b, t * BLOCK + threadIdx.y, j);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BLOCK; ++k)
            sum = fmaf(left[threadIdx.y][k], right[k][threadIdx.x], sum);
        __syncthreads();
    }
    if (i < n && j < n) c[IDX(blockIdx.y * BLOCK + threadIdx.y, j, n)] = sum;
}
// expected: correct
