// launch: views<<<dim3(CEIL_DIV(n, 16), CEIL_DIV(m, 16)), dim3(16, 16)>>>(a_, b_, c_, m, n, k)
template <class T, int Rank = 2> struct View {
    T *ptr; int ext0, ext1;
    __device__ T &operator()(int i, int j) const { return ptr[(size_t)j * ext0 + i]; }
    __device__ bool contains(int i, int j) const { return i < ext0 && j < ext1; }
};
struct Member { int league_rank, team_rank, league_i, league_j; };
template <class F> __device__ void parallel_for(int begin, int end, int step, F const &f) {
    for (int i = begin; i < end; i += step) f(i);
}
extern "C" __global__ void views(const float *a_, const float *b_, float *c_, int M, int N, int K) {
    const View<const float> A{a_, M, K}, B{b_, K, N};
    const View<float> C{c_, M, N};
    __shared__ float scratch[2][16][16];
    const Member team{(int)blockIdx.y, (int)(threadIdx.y * blockDim.x + threadIdx.x),
                      (int)blockIdx.y * 16, (int)blockIdx.x * 16};
    const int ti = team.team_rank / 16, tj = team.team_rank % 16;
    const int i = team.league_i + ti, j = team.league_j + tj;
    float update = 0;
    parallel_for(0, K, 16, [&](const int kk) {
        scratch[0][ti][tj] = A.contains(i, kk + tj) ? A(i, kk + tj) : 0.f;
        scratch[1][ti][tj] = B.contains(kk + ti, j) ? B(kk + ti, j) : 0.f;
        __syncthreads();
        parallel_for(0, 16, 1, [&](const int k) { update += scratch[0][ti][k] * scratch[1][k][tj]; });
        __syncthreads();
    });
    if (C.contains(i, j)) C(i, j) = update;
}
// expected: correct for column-major matrices
