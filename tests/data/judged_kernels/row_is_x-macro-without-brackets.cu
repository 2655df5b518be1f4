/* x is the row: slow, and right. A macro indexes. */
#define IDX(r, c, ld) (r * ld + c)
extern "C" __global__ void row_is_x(const float *x, const float *w, float *y, const int rows, const int inner, const int cols)
{
    const int r = threadIdx.x + blockIdx.x * blockDim.x;
    const int c = threadIdx.y + blockIdx.y * blockDim.y;
    if (r < rows && c < cols)
    {
        float total = 0.f;
        int k = inner;
        while (k-- > 0) total += x[IDX(r, k, inner)] * w[IDX(k + 0, c, cols)];
        y[IDX(r, c, cols)] = total;
    }
}
// expected: out of bounds|elements wrong
