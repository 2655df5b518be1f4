// Outer products: the loop over k is outermost, with pointers that run.
template <typename T>
__global__ void outer(const T *A, const T *B, T *C, int m, int n, int k) {
    const int r0 = (blockIdx.y * blockDim.y + threadIdx.y) * 2, c0 = (blockIdx.x * blockDim.x + threadIdx.x) * 2;
    T s[2][2] = {{0, 0}, {0, 0}};
    const T *pa = A + r0 * k, *pb = B + c0;
    for (int p = 0; p < k; ++p, ++pa, pb += n) {
        const T a0 = r0 < m ? pa[0] : T(0), a1 = r0 + 1 < m ? pa[k] : T(0);
        const T b0 = c0 < n ? pb[0] : T(0), b1 = c0 + 1 < n ? pb[1] : T(0);
        s[0][0] += a0 * b0; s[0][1] += a0 * b1; s[1][0] += a1 * b0; s[1][1] += a1 * b1;
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            if (r0 + i < m && c0 + j < n) C[(r0 + i) * n + c0 + j] = s[i][j];
}
template <typename T> void f(const T *A, const T *B, T *C, int m, int n, int k) {
    dim3 t(8, 8), g((n + 15) / 16, (m + 15) / 16);
    outer<T><<<g, t>>>(A, B, C, m, n, k);
}
int main() { f<float>(nullptr, nullptr, nullptr, 1, 1, 1); }
// expected: correct
