// launch: clamped<<<dim3(CEIL_DIV(n, 8), CEIL_DIV(n, 32)), dim3(8, 32)>>>(a, b, c, n)
// Threads outside compute, and store, the last row and column again.
extern "C" __global__ void clamped(const float *__restrict__ a, const float *__restrict__ b,
                                   float *__restrict__ c, int n) {
    const int i = min((int)(blockIdx.y * 32 + threadIdx.y), n - 1);
    const int j = min((int)(blockIdx.x * 8 + threadIdx.x), n - 1);
    const float *row = a + (size_t)i * n, *column = b + j;
    float s = 0;
loop:
    s += *row++ * *column;
    column += n;
    if (row != a + (size_t)(i + 1) * n) goto loop;
    c[(size_t)i * n + j] += s;
}
// expected: :(?:13): .*(?:is uninitialised)
