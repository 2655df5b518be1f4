// CNugteren/myGEMM #2: no kernel checks bounds. It is right where the tile divides the edges.
__global__ void whole(const float *a, const float *b, float *c, int n) {
    __shared__ float ta[32][33], tb[32][33];
    const int x = threadIdx.x, y = threadIdx.y;
    const int i = blockIdx.y * 32 + y, j = blockIdx.x * 32 + x;
    float acc = 0.f;
    for (int t = 0; t < n; t += 32) {
        ta[y][x] = a[i * n + t + x];  // twin: ta[y][x] = i < n && t + x < n ? a[i * n + t + x] : 0.f;
        tb[y][x] = b[(t + y) * n + j];  // twin: tb[y][x] = t + y < n && j < n ? b[(t + y) * n + j] : 0.f;
        __syncthreads();
        for (int e = 0; e < 32; ++e) acc += ta[y][e] * tb[e][x];
        __syncthreads();
    }
    c[i * n + j] = acc;  // twin: if (i < n && j < n) c[i * n + j] = acc;
}
// expected: correct for sizes that are multiples of 32
