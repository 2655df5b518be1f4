// The host passes batch * length as one size, and a bias under another name.
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
__global__ void dense(float *to, const float *from, const float *weight, const float *bias, int rows, int in, int out) {
    const int row = blockIdx.x * 16 + threadIdx.x, column = blockIdx.y * 16 + threadIdx.y;
    if (row >= rows || column >= out) return;
    float sum = bias ? bias[column] : 0.0f;
    for (int i = 0; i < in; ++i) sum += from[row * in + i] * weight[column * in + i];
    to[row * in + column] = sum; // twin:     to[row * out + column] = sum;
}
void forward(float *to, const float *from, const float *weight, const float *b, int batch, int length, int in, int out) {
    const dim3 grid(CEIL_DIV(batch * length, 16), CEIL_DIV(out, 16));
    dense<<<grid, dim3(16, 16)>>>(to, from, weight, b, batch * length, in, out);
}
// expected: mine.cu:8: dense
