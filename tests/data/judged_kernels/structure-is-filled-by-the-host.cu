// All arguments are fields of a structure, and the sizes constants of main.
struct Product {
    float *result;
    const float *left, *right;
    int rows, columns, terms;
};
__global__ void multiply(const Product p) {
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    if (row >= p.rows || column >= p.columns) return;
    float sum = 0;
    for (int i = 0; i < p.terms; ++i) sum += p.left[row * p.terms + i] * p.right[i * p.terms + column]; // twin:     for (int i = 0; i < p.terms; ++i) sum += p.left[row * p.terms + i] * p.right[i * p.columns + column];
    p.result[row * p.columns + column] = sum;
}
void run(float *x, float *y, float *z, int m, int n, int k) {
    Product p;
    p.left = x;
    p.right = y;
    p.result = z;
    p.rows = m;
    p.columns = n;
    p.terms = k;
    multiply<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>(p);
}
// expected: mine.cu:11: multiply
