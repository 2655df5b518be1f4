// launch: layered<<<dim3(CEIL_DIV(n, 32), CEIL_DIV(m, 32)), 64>>>(a, b, c, m, n, k)
// Layers of templates over one another: tiles of a block, fragments of a thread.
namespace layers {
template <int M_, int N_, int K_> struct GemmShape {
    static constexpr int kM = M_, kN = N_, kK = K_, kMN = M_ * N_;
};
template <typename Element> struct TensorRef {
    Element *data;
    int stride;
    __device__ __forceinline__ Element &at(int row, int column) const {
        return data[static_cast<long long>(row) * stride + column];
    }
};
template <typename Threadblock, typename Thread> struct Mma {
    static constexpr int kThreads = Threadblock::kMN / Thread::kMN;
    static constexpr int kColumns = Threadblock::kN / Thread::kN;
    struct SharedStorage {
        float A[2][Threadblock::kK][Threadblock::kM + 4];
        float B[2][Threadblock::kK][Threadblock::kN];
    };
    struct Params {
        TensorRef<const float> A, B;
        TensorRef<float> C;
        int m, n, k;
    };
    Params const &params;
    SharedStorage &shared;
    float accum[Thread::kM][Thread::kN];

    __device__ Mma(Params const &params, SharedStorage &shared)
        : params(params), shared(shared), accum{} {}

    __device__ void load(int stage, int k0) {
        for (int i = threadIdx.x; i < Threadblock::kM * Threadblock::kK; i += kThreads) {
            int r = i / Threadblock::kK, k = i % Threadblock::kK;
            int row = blockIdx.y * Threadblock::kM + r;
            bool inside = row < params.m && k0 + k < params.k;
            shared.A[stage][k][r] = inside ? params.A.at(row, k0 + k) : 0;
        }
        for (int i = threadIdx.x; i < Threadblock::kN * Threadblock::kK; i += kThreads) {
            int k = i / Threadblock::kN, c = i % Threadblock::kN;
            int column = blockIdx.x * Threadblock::kN + c;
            bool inside = k0 + k < params.k && column < params.n;
            shared.B[stage][k][c] = inside ? params.B.at(k0 + k, column) : 0;
        }
    }
    __device__ void multiply(int stage, int row, int column) {
        for (int k = 0; k < Threadblock::kK; ++k) {
            for (int i = 0; i < Thread::kM; ++i) {
                for (int j = 0; j < Thread::kN; ++j) {
                    accum[i][j] += shared.A[stage][k][row + i] * shared.B[stage][k][column + j];
                }
            }
        }
    }
    __device__ void operator()() {
        const int row = threadIdx.x / kColumns * Thread::kM;
        const int column = threadIdx.x % kColumns * Thread::kN;
        load(0, 0);
        __syncthreads();
        int stage = 0;
        for (int k0 = 0; k0 < params.k; k0 += Threadblock::kK) {
            if (k0 + Threadblock::kK < params.k) load(stage ^ 1, k0 + Threadblock::kK);
            multiply(stage, row, column);
            __syncthreads();
            stage ^= 1;
        }
        for (int i = 0; i < Thread::kM; ++i) {
            for (int j = 0; j < Thread::kN; ++j) {
                const int r = blockIdx.y * Threadblock::kM + row + i;
                const int c = blockIdx.x * Threadblock::kN + column + j;
                if (r < params.m && c < params.n) params.C.at(r, c) = accum[i][j];
            }
        }
    }
};
}  // namespace layers

extern "C" __global__ void layered(const float *a, const float *b, float *c, int m, int n, int k) {
    using Mma = layers::Mma<layers::GemmShape<32, 32, 8>, layers::GemmShape<4, 4, 1>>;
    __shared__ Mma::SharedStorage shared;
    const Mma::Params params{{a, k}, {b, k}, {c, n}, m, n, k};
    Mma(params, shared)();
}
// expected: :(?:44): .*(?:is out of bounds|elements wrong)
