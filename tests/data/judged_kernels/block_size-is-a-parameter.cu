// The threads of a block are a parameter of the host, which one of the calls gives.
__global__ void multiply(float *out, const float *in, const float *weight, int B, int C, int OC) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= B * OC) return;
    float sum = 0;
    for (int c = 0; c < C; ++c) sum += in[i / OC * C + c] * weight[c * OC + i % OC];
    out[i] = sum;
}
void forward(float *out, const float *in, const float *weight, int B, int C, int OC, const int block_size) {
    const int blocks = (B * OC + block_size - 1) / block_size;
    multiply<<<blocks, block_size>>>(out, in, weight, B, C, OC);
}
int main(int count, char **given) {
    float *out, *in, *weight;
    for (int size = 32; size < 1024; size *= 2) forward(out, in, weight, 8, 64, 32, size);
    forward(out, in, weight, 8, 64, 32, 128);
}
// expected: correct
