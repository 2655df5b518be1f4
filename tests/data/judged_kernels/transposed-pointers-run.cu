// C = A * B^T, both operands in rows, as in the weights of a layer.
__global__ void linear(float *out, const float *inp, const float *weight, int B, int C, int OC) {
    const int b = blockIdx.x * blockDim.x + threadIdx.x, o = blockIdx.y * blockDim.y + threadIdx.y;
    if (b < B && o < OC) {
        const float *x = inp + b * C, *w = weight + o * C;
        float val = 0.0f;
        for (int i = 0; i < C; i++) val += *x++ * *w++;
        out[b * OC + o] = val;
    }
}
// launch: linear<<<dim3(CEIL_DIV(M, 16), CEIL_DIV(N, 16)), dim3(16, 16)>>>(C, A, B, M, K, N)
// expected: correct
