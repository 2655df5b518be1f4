__global__ void rows(const float *a, const float *b, float *c, int n) {
    __shared__ float line[1100];
    const int row = blockIdx.y, col = blockIdx.x * 64 + threadIdx.x;
    for (int k = threadIdx.x; k < n; k += 64) line[k] = a[row * n + k];
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < n && col < n; ++k) sum += line[k] * b[k * n + col];
    if (col < n) c[row * n + col] = sum;
}
// launch: rows<<<dim3(CEIL_DIV(N, 64), N), 64>>>(a, b, c, n)
// expected: :4:.*shared memory is out of bounds \(at size 1152\)
