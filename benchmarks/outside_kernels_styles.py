"""More user-supplied kernels: each in another style, and once with one fault.

Each fault breaks a kernel that is correct without it. See `benchmarks.outside_kernels`.
"""

# ruff: noqa: E501  the kernels have lines of any length
from benchmarks.outside_kernels import (
    BLOCKS_RACE,
    BOUNDS,
    MISALIGNED,
    MISSING,
    OTHER_ORDER,
    RACE,
    TOO_LARGE,
    TWO_BARRIERS,
    UNSUPPORTED,
    UNWRITTEN,
    WRONG,
    base,
    correct,
    fault,
)

# ---- Views, lambdas, templates

base(
    "views",
    r"""
// try: tile=16x16x16 threads=16x16
template <class T, int Rank = 2> struct View {
    T *ptr; int ext0, ext1;
    __device__ T &operator()(int i, int j) const { return ptr[(size_t)i * ext1 + j]; }
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
""",
)
fault(
    "views", "index order", "[(size_t)i * ext1 + j]", "[(size_t)j * ext0 + i]", "C(i, j) =", WRONG
)

base(
    "templated",
    r"""
// try: tile=64x64x16 threads=256
namespace detail {
template <unsigned V> struct log2_of { static constexpr unsigned value = 1 + log2_of<V / 2>::value; };
template <> struct log2_of<1> { static constexpr unsigned value = 0; };
template <typename T, unsigned BM, unsigned BN, unsigned BK, unsigned TM, unsigned TN>
__device__ __forceinline__ void gemm(const T *__restrict__ lhs, const T *__restrict__ rhs,
                                     T *__restrict__ out, const unsigned dim) {
    constexpr unsigned kThreads = (BM / TM) * (BN / TN), kShift = log2_of<BN / TN>::value;
    static_assert(kThreads == 256);
    __shared__ T lhs_tile[BK][BM + 1], rhs_tile[BK][BN];
    const unsigned tid = threadIdx.x, ty = tid >> kShift, tx = tid & (BN / TN - 1);
    T acc[TM][TN] = {};
    for (unsigned k0 = 0; k0 < dim; k0 += BK) {
#pragma unroll
        for (unsigned e = tid; e < BM * BK; e += kThreads) {
            const unsigned r = blockIdx.y * BM + e / BK, k = k0 + e % BK;
            lhs_tile[e % BK][e / BK] = (r < dim) & (k < dim) ? lhs[r * dim + k] : T(0);
        }
#pragma unroll
        for (unsigned e = tid; e < BK * BN; e += kThreads) {
            const unsigned k = k0 + e / BN, c = blockIdx.x * BN + e % BN;
            rhs_tile[e / BN][e % BN] = (k < dim) & (c < dim) ? rhs[k * dim + c] : T(0);
        }
        __syncthreads();
        for (unsigned k = 0; k < BK; ++k)
            for (unsigned i = 0; i < TM; ++i)
                for (unsigned j = 0; j < TN; ++j)
                    acc[i][j] += lhs_tile[k][ty * TM + i] * rhs_tile[k][tx + j * (BN / TN)];
        if (k0 + BK < dim) __syncthreads();
    }
    for (unsigned i = 0; i < TM; ++i)
        for (unsigned j = 0; j < TN; ++j) {
            const unsigned r = blockIdx.y * BM + ty * TM + i, c = blockIdx.x * BN + tx + j * (BN / TN);
            if (r < dim && c < dim) out[r * dim + c] = acc[i][j];
        }
}
}  // namespace detail
extern "C" __global__ void __launch_bounds__(256)
templated(const float *__restrict__ x, const float *__restrict__ y, float *__restrict__ z, int d) {
    detail::gemm<float, 64, 64, 16, 4, 4>(x, y, z, d);
}
""",
)
fault(
    "templated",
    "no barrier after iteration 3",
    "if (k0 + BK < dim)",
    "if (k0 != 3 * BK)",
    "detail::gemm<",
    RACE,
)

base(
    "lambdas",
    r"""
// try: tile=32x32x8 threads=16x16
extern "C" __global__ void lambdas(const float *A, const float *B, float *C, const int n) {
    __shared__ float sA[2][8][32 + 4], sB[2][8][32 + 4];
    const int t = threadIdx.y * 16 + threadIdx.x;
    auto row = [&](int local) { return (int)blockIdx.y * 32 + local; };
    auto col = [&](int local) { return (int)blockIdx.x * 32 + local; };
    auto at = [n](const float *m, int r, int c) -> float { return r < n && c < n ? m[r * n + c] : 0; };
    auto stage = [&](int buffer, int k0) {
        sA[buffer][t % 8][t / 8] = at(A, row(t / 8), k0 + t % 8);
        sB[buffer][t / 32][t % 32] = at(B, k0 + t / 32, col(t % 32));
    };
    float c00 = 0, c01 = 0, c10 = 0, c11 = 0;
    stage(0, 0);
    __syncthreads();
    for (int k0 = 0, cur = 0; k0 < n; k0 += 8, cur ^= 1) {
        if (k0 + 8 < n) stage(cur ^ 1, k0 + 8);
        [&] {
            for (int k = 0; k < 8; ++k) {
                const float a0 = sA[cur][k][threadIdx.y], a1 = sA[cur][k][threadIdx.y + 16];
                const float b0 = sB[cur][k][threadIdx.x], b1 = sB[cur][k][threadIdx.x + 16];
                c00 += a0 * b0; c01 += a0 * b1; c10 += a1 * b0; c11 += a1 * b1;
            }
        }();
        __syncthreads();
    }
    auto put = [&](int r, int c, float value) { if (r < n && c < n) C[r * n + c] = value; };
    put(row(threadIdx.y), col(threadIdx.x), c00);
    put(row(threadIdx.y), col(threadIdx.x + 16), c01);
    put(row(threadIdx.y + 16), col(threadIdx.x), c10);
    put(row(threadIdx.y + 16), col(threadIdx.x + 16), c11);
}
""",
)
fault(
    "lambdas",
    "no barrier in iteration 5",
    "        }();\n        __syncthreads();",
    "        }();\n        if (k0 != 40) __syncthreads();",
    "s",
    RACE,
)

# ---- Vectors

base(
    "quads",
    r"""
// try: tile=64x64x16 threads=16x16
#ifndef GUARDED
#define GUARDED 0
#endif
#define OFFSET(row, col, ld) ((row) * (ld) + (col))
#define FLOAT4(pointer) (reinterpret_cast<float4 *>(&(pointer))[0])
#define CONST4(pointer) (reinterpret_cast<const float4 *>(&(pointer))[0])
extern "C" __global__ void quads(const float *__restrict__ a, const float *__restrict__ b,
                                 float *__restrict__ c, const int M, const int N, const int K) {
    __shared__ alignas(16) float s_a[16][64];
    alignas(16) __shared__ float s_b[16][64];
    const int tid = threadIdx.y * blockDim.x + threadIdx.x;
    const int load_a_m = tid >> 2, load_a_k = (tid & 3) << 2;
    const int load_b_k = tid >> 4, load_b_n = (tid & 15) << 2;
    float r_c[4][4] = {0.0};
    for (int bk = 0; bk < (K + 15) / 16; bk++) {
        const int m = blockIdx.y * 64 + load_a_m, ka = bk * 16 + load_a_k;
        const int kb = bk * 16 + load_b_k, n = blockIdx.x * 64 + load_b_n;
        float4 va = {0, 0, 0, 0}, vb = va;
        if (!GUARDED || (K % 4 == 0 && m < M && ka < K)) va = CONST4(a[OFFSET(m, ka, K)]);
        else if (m < M) {
            if (ka < K) va.x = a[OFFSET(m, ka, K)];
            if (ka + 1 < K) va.y = a[OFFSET(m, ka + 1, K)];
            if (ka + 2 < K) va.z = a[OFFSET(m, ka + 2, K)];
            if (ka + 3 < K) va.w = a[OFFSET(m, ka + 3, K)];
        }
        if (!GUARDED || (N % 4 == 0 && kb < K && n < N)) vb = CONST4(b[OFFSET(kb, n, N)]);
        else if (kb < K) {
            if (n < N) vb.x = b[OFFSET(kb, n, N)];
            if (n + 1 < N) vb.y = b[OFFSET(kb, n + 1, N)];
            if (n + 2 < N) vb.z = b[OFFSET(kb, n + 2, N)];
            if (n + 3 < N) vb.w = b[OFFSET(kb, n + 3, N)];
        }
        s_a[load_a_k][load_a_m] = va.x;
        s_a[load_a_k + 1][load_a_m] = va.y;
        s_a[load_a_k + 2][load_a_m] = va.z;
        s_a[load_a_k + 3][load_a_m] = va.w;
        FLOAT4(s_b[load_b_k][load_b_n]) = vb;
        __syncthreads();
#pragma unroll
        for (int tk = 0; tk < 16; tk++) {
            const float4 x = FLOAT4(s_a[tk][threadIdx.y * 4]), y = FLOAT4(s_b[tk][threadIdx.x * 4]);
            const float *const px = &x.x, *const py = &y.x;
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++) r_c[i][j] += px[i] * py[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; i++) {
        const int m = blockIdx.y * 64 + threadIdx.y * 4 + i, n = blockIdx.x * 64 + threadIdx.x * 4;
        if (m >= M) break;
        for (int j = 0; j < 4; j++)
            if (n + j < N) c[OFFSET(m, n + j, N)] = r_c[i][j];
    }
}
""",
)
fault(
    "quads",
    "vectors where rows are even",
    "K % 4 == 0 && m < M",
    "K % 2 == 0 && m < M",
    "va = CONST4",
    f"{MISALIGNED}|{BOUNDS}",
)

base(
    "operators",
    r"""
// try: tile=16x64 threads=16x16
struct alignas(16) vec4 {
    float v[4];
    __device__ vec4 &operator+=(const vec4 &o) {
        for (int i = 0; i < 4; ++i) v[i] += o.v[i];
        return *this;
    }
};
__device__ __forceinline__ vec4 operator*(float s, const vec4 &o) {
    return {s * o.v[0], s * o.v[1], s * o.v[2], s * o.v[3]};
}
union Packed { vec4 vector; float scalar[4]; };
extern "C" __global__ void operators(const float *a, const float *b, float *c, int n) {
    const int y = threadIdx.y + blockDim.y * blockIdx.y, x4 = 4 * (threadIdx.x + blockDim.x * blockIdx.x);
    if (y >= n || x4 >= n) return;
    Packed total = {};
    int k = 0;
    do {
        Packed right = {};
        for (int i = 0; i < 4 && x4 + i < n; ++i) right.scalar[i] = b[(long long)k * n + x4 + i];
        total.vector += a[(long long)y * n + k] * right.vector;
    } while (++k < n);
    float *out = &c[(long long)y * n + x4];
    switch (n - x4) {
        default: out[3] = total.scalar[3]; [[fallthrough]];
        case 3: out[2] = total.scalar[2]; [[fallthrough]];
        case 2: out[1] = total.scalar[1]; [[fallthrough]];
        case 1: out[0] = total.scalar[0];
    }
}
""",
)
fault(
    "operators",
    "A read as transposed",
    "a[(long long)y * n + k]",
    "a[(long long)k * n + y]",
    "out[",
    WRONG,
)

# ---- Lanes of a warp

base(
    "broadcast",
    r"""
// try: tile=8x32x32 threads=32x8
// A warp per row: lanes keep 32 elements of the row of A and hand them round.
extern "C" __global__ void broadcast(const float *a, const float *b, float *c, int m, int n, int k) {
    const unsigned lane = threadIdx.x & 31;
    const int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * 32 + lane;
    float sum = 0.f;
    for (int k0 = 0; k0 < k; k0 += 32) {
        const float mine = row < m && k0 + (int)lane < k ? __ldg(a + row * k + k0 + lane) : 0.f;
        const int steps = min(32, k - k0);
        for (int i = 0; i < steps; ++i) {
            const float left = __shfl_sync(0xffffffffu, mine, i);
            if (col < n) sum = __fmaf_rn(left, __ldg(b + (k0 + i) * n + col), sum);
        }
    }
    if (row < m && col < n) c[row * n + col] = sum;
}
""",
)
fault(
    "broadcast",
    "the next lane's element",
    "mine, i)",
    "mine, i + 1)",
    "c[row * n",
    WRONG,
)
fault(
    "broadcast",
    "only lanes inside take part",
    "            const float left",
    "            if (col >= n) continue;\n            const float left",
    "c[row * n",
    WRONG,
)

base(
    "reductions",
    r"""
// try: tile=8x1 threads=32x8 tolerance=bound
template <unsigned W = 32> __device__ float warp_sum(float v) {
#pragma unroll
    for (unsigned delta = W / 2; delta; delta >>= 1) v += __shfl_xor_sync(~0u, v, delta);
    return v;
}
extern "C" __global__ void reductions(const float *a, const float *b, float *c, int n) {
    const int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x;
    float partial = 0;
    for (int k = threadIdx.x; i < n && k < n; k += warpSize) partial += a[i * n + k] * b[k * n + j];
    const float sum = warp_sum(partial);
    if (threadIdx.x == 0 && i < n) c[i * n + j] = sum;
}
""",
)
fault(
    "reductions",
    "stops a step early",
    "delta; delta >>= 1",
    "delta > 1; delta >>= 1",
    "c[i * n + j]",
    "elements wrong",
)

base(
    "warp_tiles",
    r"""
// try: tile=16x32x32 threads=32x4
// Each warp has a tile of A of its own, with barriers of the warp only.
extern "C" __global__ void warp_tiles(const float *a, const float *b, float *c, int n) {
    __shared__ float own[4][4][32];
    const int lane = threadIdx.x, warp = threadIdx.y;
    const int row0 = blockIdx.y * 16 + warp * 4, col = blockIdx.x * 32 + lane;
    float acc[4] = {0, 0, 0, 0};
    for (int k0 = 0; k0 < n; k0 += 32) {
        for (int r = 0; r < 4; ++r)
            own[warp][r][lane] = row0 + r < n && k0 + lane < n ? a[(row0 + r) * n + k0 + lane] : 0.f;
        __syncwarp();  // filled
        for (int k = 0; k < 32 && k0 + k < n; ++k) {
            const float right = col < n ? b[(k0 + k) * n + col] : 0.f;
            for (int r = 0; r < 4; ++r) acc[r] += own[warp][r][k] * right;
        }
        __syncwarp();  // used
    }
    for (int r = 0; r < 4 && col < n; ++r)
        if (row0 + r < n) c[(row0 + r) * n + col] = acc[r];
}
""",
)
fault(
    "warp_tiles",
    "no barrier of the warp",
    "        __syncwarp();  // used\n",
    "",
    "own[warp]",
    RACE,
)
fault(
    "warp_tiles",
    "the tile of another warp",
    "+= own[warp]",
    "+= own[warp ^ 1]",
    "own[warp",
    UNWRITTEN,
)

# ---- Asynchronous copies

base(
    "async_stages",
    r"""
// try: tile=32x32x16 threads=8x32
#include <cuda_pipeline.h>
constexpr int kStages = 3, kTile = 32, kDepth = 16;
extern "C" __global__ void async_stages(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ float as[kStages][kTile][kDepth];
    __shared__ float bs[kStages][kDepth][kTile];
    const int tid = threadIdx.y * 8 + threadIdx.x, row0 = blockIdx.y * kTile, col0 = blockIdx.x * kTile;
    auto issue = [&](int tile) {
        if (tile * kDepth < k)
            for (int e = tid; e < kTile * kDepth; e += 256) {
                const int r = row0 + e / kDepth, ka = tile * kDepth + e % kDepth;
                const bool in_a = r < m && ka < k;
                __pipeline_memcpy_async(&as[tile % kStages][e / kDepth][e % kDepth],
                                        in_a ? a + r * k + ka : a, 4, in_a ? 0 : 4);
                const int kb = tile * kDepth + e / kTile, col = col0 + e % kTile;
                const bool in_b = kb < k && col < n;
                __pipeline_memcpy_async(&bs[tile % kStages][e / kTile][e % kTile],
                                        in_b ? b + kb * n + col : b, 4, in_b ? 0 : 4);
            }
        __pipeline_commit();
    };
    float acc[4] = {};
    for (int s = 0; s < kStages - 1; ++s) issue(s);
    for (int tile = 0; tile * kDepth < k; ++tile) {
        __pipeline_wait_prior(kStages - 2);
        __syncthreads();
        issue(tile + kStages - 1);
        for (int i = 0; i < kDepth; ++i)
            for (int j = 0; j < 4; ++j)
                acc[j] += as[tile % kStages][threadIdx.y][i] * bs[tile % kStages][i][threadIdx.x + 8 * j];
    }
    for (int j = 0; j < 4; ++j) {
        const int r = row0 + threadIdx.y, col = col0 + threadIdx.x + 8 * j;
        if (r < m && col < n) c[r * n + col] = acc[j];
    }
}
""",
)
fault(
    "async_stages",
    "waits for a stage too few",
    "wait_prior(kStages - 2)",
    "wait_prior(kStages - 1)",
    "acc[j] += as",
    RACE,
)
fault(
    "async_stages",
    "issues before the barrier",
    "        __syncthreads();\n        issue(tile + kStages - 1);",
    "        issue(tile + kStages - 1);\n        __syncthreads();",
    "acc[j] += as",
    RACE,
)

base(
    "async_vectors",
    r"""
// try: tile=32x32x32 threads=256
extern "C" __global__ void async_vectors(const float *a, const float *b, float *c, int n) {
    __shared__ __align__(16) float tiles[2][2][32 * 32];
    const int t = threadIdx.x, row = t / 8, quad = t % 8 * 4;
    const int gr = blockIdx.y * 32, gc = blockIdx.x * 32;
    float sums[4] = {};
    auto fetch = [&](int at, int k0) {
#if GUARDED
        for (int i = 0; i < 4; ++i) {
            const int k = k0 + quad + i, col = gc + quad + i;
            tiles[at][0][row * 32 + quad + i] = gr + row < n && k < n ? a[(gr + row) * n + k] : 0;
            tiles[at][1][row * 32 + quad + i] = k0 + row < n && col < n ? b[(k0 + row) * n + col] : 0;
        }
#else
        __pipeline_memcpy_async(tiles[at][0] + row * 32 + quad, a + (gr + row) * n + k0 + quad, 16);
        __pipeline_memcpy_async(tiles[at][1] + row * 32 + quad, b + (k0 + row) * n + gc + quad, 16);
#endif
        __pipeline_commit();
    };
    fetch(0, 0);
    for (int k0 = 0, at = 0; k0 < n; k0 += 32, at = !at) {
        __pipeline_wait_prior(0);
        __syncthreads();
        if (k0 + 32 < n) fetch(!at, k0 + 32);
        for (int k = 0; k < 32; ++k)
            for (int i = 0; i < 4; ++i)
                sums[i] += tiles[at][0][row * 32 + k] * tiles[at][1][k * 32 + quad + i];
    }
    for (int i = 0; i < 4; ++i)
        if (gr + row < n && gc + quad + i < n) c[(gr + row) * n + gc + quad + i] = sums[i];
}
""",
)
fault(
    "async_vectors",
    "no wait at all",
    "        __pipeline_wait_prior(0);\n",
    "",
    "c[(gr + row)",
    WRONG,
)

# ---- Layouts and schedules

base(
    "xor_layout",
    r"""
// try: tile=32x32x32 threads=32x8
template <int Bits, int Base, int Shift> struct Swizzle {
    static __device__ constexpr int apply(int x) {
        return x ^ ((x >> Shift) & (((1 << Bits) - 1) << Base));
    }
};
extern "C" __global__ void xor_layout(const float *gA, const float *gB, float *gC, int n) {
    using S = Swizzle<3, 2, 3>;
    __shared__ float sA[32 * 32], sB[32 * 32];
    float accum[4] = {};
    for (int kt = 0; kt < (n + 31) / 32; ++kt) {
        for (int p = threadIdx.y; p < 32; p += 8) {
            const int m = blockIdx.y * 32 + p, ka = kt * 32 + threadIdx.x;
            const int kb = kt * 32 + p, nn = blockIdx.x * 32 + threadIdx.x;
            sA[S::apply(p * 32 + threadIdx.x)] = (m < n && ka < n) ? gA[m * n + ka] : 0.0f;
            sB[S::apply(p * 32 + threadIdx.x)] = (kb < n && nn < n) ? gB[kb * n + nn] : 0.0f;
        }
        __syncthreads();
        for (int k = 0; k < 32; ++k)
            for (int q = 0; q < 4; ++q)
                accum[q] += sA[S::apply((threadIdx.y + 8 * q) * 32 + k)] *
                            sB[S::apply(k * 32 + threadIdx.x)];
        __syncthreads();
    }
    for (int q = 0; q < 4; ++q) {
        const int m = blockIdx.y * 32 + threadIdx.y + 8 * q, nn = blockIdx.x * 32 + threadIdx.x;
        if (m < n && nn < n) gC[m * n + nn] = accum[q];
    }
}
""",
)
fault(
    "xor_layout",
    "stored without the swizzle",
    "sB[S::apply(p * 32 + threadIdx.x)] =",
    "sB[p * 32 + threadIdx.x] =",
    "gC[m * n",
    WRONG,
)

base(
    "rasterised",
    r"""
// try: tile=16x16x16 threads=16x16
// Blocks in groups of four rows, for the reuse of B in L2.
extern "C" __global__ void rasterised(const float *A, const float *B, float *C, int M, int N, int K) {
    const int id = blockIdx.y * gridDim.x + blockIdx.x, per_group = 4 * gridDim.x;
    const int first = id / per_group * 4, height = min(4, (int)gridDim.y - first);
    const int by = first + id % per_group % height, bx = id % per_group / height;
    __shared__ float sa[16][16], sb[16][16];
    const int r = by * 16 + threadIdx.y, s = bx * 16 + threadIdx.x;
    float acc = 0;
    for (int k = 0; k < K; k += 16) {
        sa[threadIdx.y][threadIdx.x] = r < M && k + threadIdx.x < K ? A[r * K + k + threadIdx.x] : 0;
        sb[threadIdx.y][threadIdx.x] = s < N && k + threadIdx.y < K ? B[(k + threadIdx.y) * N + s] : 0;
        __syncthreads();
        for (int i = 0; i < 16; ++i) acc += sa[threadIdx.y][i] * sb[i][threadIdx.x];
        __syncthreads();
    }
    if (r < M && s < N) C[r * N + s] = acc;
}
""",
)
fault(
    "rasterised",
    "two blocks compute one tile",
    "id % per_group % height",
    "id % per_group % 3",
    "C[r * N + s]",
    f"{BLOCKS_RACE}|{MISSING}",
)
fault(
    "rasterised",
    "offset in bytes of 32 bits",
    "B[(k + threadIdx.y) * N + s] : 0",
    "*(const float *)((const char *)B + ((k + threadIdx.y) * N + s) * 4) : 0",
    "C[r * N + s]",
    TOO_LARGE,
)

base(
    "clamped",
    r"""
// try: tile=32x8 threads=8x32
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
    c[(size_t)i * n + j] = s;
}
""",
)
fault(
    "clamped",
    "adds to C as it was",
    "+ j] = s;",
    "+ j] += s;",
    "c[(size_t)i",
    f"{WRONG}|{RACE}|races",
)

base(
    "grid_tiles",
    r"""
// try: tile=64x64x16 threads=16x16
// Tiles of 16 by 16, four by four of which a block computes in a loop over its grid's stride.
#define FOR_TILES(v, extent) for (int v = blockIdx.v * 16; v < (extent); v += 16 * gridDim.v)
extern "C" __global__ void grid_tiles(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ volatile float U[16][17];
    __shared__ volatile float V[16][17];
    FOR_TILES(y, M) FOR_TILES(x, N) {
        const int i = y + threadIdx.y, j = x + threadIdx.x;
        float w = 0;
        for (int p = 0; p < K; p += 16) {
            U[threadIdx.y][threadIdx.x] = i < M && p + threadIdx.x < K ? A[i * K + p + threadIdx.x] : 0;
            V[threadIdx.y][threadIdx.x] = p + threadIdx.y < K && j < N ? B[(p + threadIdx.y) * N + j] : 0;
            __syncthreads();
            for (int q = 0; q < 16; q++) w += U[threadIdx.y][q] * V[q][threadIdx.x];
            __syncthreads();
        }
        if (i < M && j < N) C[i * N + j] = w;
    }
}
""",
)
fault(
    "grid_tiles",
    "threads outside leave the loop",
    "        float w = 0;",
    "        if (i >= M) break;\n        float w = 0;",
    "C[i * N + j]",
    WRONG,
)

base(
    "unrolled",
    r"""
// try: tile=16x16x8 threads=256
#define STEP(i) s += l[ty][(i)] * r[(i)][tx];
#define STEP4(i) STEP(i) STEP((i) + 1) STEP((i) + 2) STEP((i) + 3)
#define STEP8(i) STEP4(i) STEP4((i) + 4)
extern "C" __global__ void unrolled(const float *L, const float *R, float *P, int n) {
    __shared__ float l[16][8], r[8][16];
    const int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
    const int y0 = blockIdx.y << 4, x0 = blockIdx.x << 4;
    const int lr = threadIdx.x >> 3, lc = threadIdx.x & 7;
    float s = 0;
    const int tiles = n / 8 + (n % 8 > 0);
    for (int z = 0; z < tiles; ++z) {
        if (threadIdx.x < 128)
            l[lr][lc] = y0 + lr < n && z * 8 + lc < n ? L[(y0 + lr) * n + z * 8 + lc] : 0;
        else
            r[ty - 8][tx] = z * 8 + ty - 8 < n && x0 + tx < n ? R[(z * 8 + ty - 8) * n + x0 + tx] : 0;
        __syncthreads();
        STEP8(0)
        __syncthreads();
    }
    if (y0 + ty < n && x0 + tx < n) P[(y0 + ty) * n + x0 + tx] = s;
}
""",
)
fault("unrolled", "a last tile of one step is dropped", "n % 8 > 0", "n % 8 > 1", "P[(y0", WRONG)
fault(
    "unrolled",
    "barrier in each branch",
    "        __syncthreads();\n        STEP8(0)",
    "        if (threadIdx.x < 128) __syncthreads();\n        else __syncthreads();  // other\n"
    "        STEP8(0)",
    "__syncthreads",
    TWO_BARRIERS,
)

base(
    "narrow",
    r"""
// try: tile=16x16x16 threads=16x16
// Flags of one byte and indices of two, in shared memory; a barrier that votes.
extern "C" __global__ void narrow(const float *a, const float *b, float *c, int n) {
    __shared__ float ta[16][16], tb[16][16];
    __shared__ bool inside[16];
    __shared__ unsigned short order[16];
    const int x = threadIdx.x, y = threadIdx.y, i = blockIdx.y * 16 + y, j = blockIdx.x * 16 + x;
    if (y == 0) inside[x] = blockIdx.x * 16 + x < n, order[x] = x;
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        ta[y][order[x]] = i < n && k + x < n ? a[i * n + k + x] : 0;
        tb[y][x] = inside[x] && k + y < n ? b[(k + y) * n + j] : 0;
        if (__syncthreads_and(k + 16 > n && i < 0)) return;
        for (int q = 0; q < 16; ++q) sum += ta[y][q] * tb[q][x];
        __syncthreads();
    }
    if (i < n && inside[x]) c[i * n + j] = sum;
}
""",
)
fault(
    "narrow",
    "a flag is not set",
    "if (y == 0) inside",
    "if (y == 0 && x < 15) inside",
    "order[x]]",
    UNWRITTEN,
)

base(
    "hungarian",
    r"""
// try: tile=32x32x32 threads=32x32 x=rows
// blockIdx.x runs along the rows; names of another world.
typedef struct tagMATRIX { float *pfElements; int nHeight, nWidth; } MATRIX, *PMATRIX;
#define ELEM(pM, nRow, nCol) ((pM)->pfElements[(nRow) * (pM)->nWidth + (nCol)])
extern "C" __global__ void hungarian(float *pfA, float *pfB, float *pfC, int nM, int nN, int nK) {
    MATRIX A = {pfA, nM, nK}, B = {pfB, nK, nN}, C = {pfC, nM, nN};
    __shared__ float fTileA[32][33], fTileB[32][33];
    int nRow = blockIdx.x * 32 + threadIdx.y, nCol = blockIdx.y * 32 + threadIdx.x, nPhase = 0;
    register float fAccumulator = 0.0f;
    while (nPhase * 32 < nK) {
        int nKA = nPhase * 32 + threadIdx.x, nKB = nPhase * 32 + threadIdx.y;
        fTileA[threadIdx.y][threadIdx.x] = (nRow < nM && nKA < nK) ? ELEM(&A, nRow, nKA) : 0.0f;
        fTileB[threadIdx.y][threadIdx.x] = (nKB < nK && nCol < nN) ? ELEM(&B, nKB, nCol) : 0.0f;
        __syncthreads();
        for (int nInner = 0; nInner < 32; nInner++)
            fAccumulator += fTileA[threadIdx.y][nInner] * fTileB[nInner][threadIdx.x];
        __syncthreads();
        nPhase++;
    }
    if (nRow < nM && nCol < nN) ELEM(&C, nRow, nCol) = fAccumulator;
}
""",
)
fault(
    "hungarian",
    "row is guarded by the width",
    "if (nRow < nM && nCol < nN)",
    "if (nRow <= nM && nCol < nN)",
    "ELEM(&C",
    BOUNDS,
)
fault(
    "hungarian",
    "no barrier before the sum of iteration 1",
    "        __syncthreads();\n        for",
    "        if (nPhase != 1) __syncthreads();\n        for",
    "fTile",
    RACE,
)

base(
    "added_up",
    r"""
// try: tile=8x32 threads=32x32 tolerance=bound
// Four groups of a block share the steps of k and add up their sums in shared memory.
extern "C" __global__ void added_up(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ float total[8][32];
    const int group = threadIdx.y / 8, y = threadIdx.y % 8, x = threadIdx.x;
    const int i = blockIdx.y * 8 + y, j = blockIdx.x * 32 + x;
    if (group == 0) total[y][x] = 0;
    __syncthreads();  // zeros
    float sum = 0;
    if (i < m && j < n)
        for (int p = group; p < k; p += 4) sum += a[i * k + p] * b[p * n + j];
    atomicAdd(&total[y][x], sum);
    __syncthreads();  // sums
    if (group == 0 && i < m && j < n) c[i * n + j] = total[y][x];
}
""",
)
fault("added_up", "no zeros", "    if (group == 0) total[y][x] = 0;\n", "", "atomicAdd", UNWRITTEN)
fault(
    "added_up",
    "no barrier after the sums",
    "    __syncthreads();  // sums\n",
    "",
    "total[y][x]",
    RACE,
)
fault(
    "added_up",
    "adds without atomics",
    "atomicAdd(&total[y][x], sum)",
    "total[y][x] += sum",
    "total[y][x] += sum",
    RACE,
)

base(
    "unusual",
    r"""
// try: tile=32x16x8 threads=16x8 shared=(32*8+8*16)*sizeof
""".replace("*sizeof", "*4")
    + r"""
// Four rows a thread; one dynamic array for both tiles; sizes of the launch instead of constants.
extern __shared__ float both[];
extern "C" __global__ void unusual(const float *const left, const float *const right, float *const out,
                                   const int n) {
    const dim3 me(threadIdx.x, threadIdx.y), us = blockDim;
    const unsigned flat = me.y * us.x + me.x, all = us.x * us.y;
    float *const upper = both, *const lower = &both[32 * 8];
    double ignored = 0;
    float r0 = 0, r1 = 0, r2 = 0, r3 = 0;
    for (int base = 0; base < n;) {
        for (unsigned e = flat; e < 32 * 8; e += all) {
            const int i = blockIdx.y * 32 + e / 8, k = base + e % 8;
            upper[e] = i < n and k < n ? left[i * n + k] : 0;
        }
        if (flat < 8 * 16) {
            const int k = base + flat / 16, j = blockIdx.x * 16 + flat % 16;
            lower[flat] = k < n and j < n ? right[k * n + j] : 0;
        }
        __syncthreads();
        for (int k = 8; k --> 0;) ignored += upper[k];
        for (const float *u = upper + me.y * 8, *l = lower + me.x; u < upper + me.y * 8 + 8; ++u, l += 16)
            r0 += u[0] * *l, r1 += u[64] * *l, r2 += u[128] * *l, r3 += u[192] * *l;
        __syncthreads();
        base += 8;
    }
    const float *const results[] = {&r0, &r1, &r2, &r3};
    for (int q = 0; not(q == 4); ++q) {
        const int i = blockIdx.y * 32 + me.y + 8 * q, j = blockIdx.x * 16 + me.x;
        if (i < n and j < n) out[i * n + j] = *results[q];
    }
}
""",
)
fault(
    "unusual",
    "declared memory is a row too small",
    "shared=(32*8+8*16)*4",
    "shared=(32*8+7*16)*4",
    "lower[flat] =",
    BOUNDS,
)
correct(
    "unusual",
    "sums of two halves",
    ("shared=", "tolerance=bound shared="),
    ("r0 += u[0] * *l,", "r0 = fmaf(u[0], *l, r0),"),
)

base(
    "doubles_batched",
    r"""
// try: tile=16x16x16 threads=16x16 batched=yes
struct Strides { long long a, b, c; };
__device__ Strides strides(int m, int n, int k) { return {1LL * m * k, 1LL * k * n, 1LL * m * n}; }
extern "C" __global__ void doubles_batched(const double *a, const double *b, double *c, int m, int n, int k) {
    const Strides s = strides(m, n, k);
    const double *pa = a + blockIdx.z * s.a, *pb = b + blockIdx.z * s.b;
    __shared__ double ta[16][16], tb[16][16];
    const unsigned i = blockIdx.y * 16u + threadIdx.y, j = blockIdx.x * 16u + threadIdx.x;
    double sum = 0;
    for (unsigned t = 0; t < (k + 15u) / 16u; ++t) {
        const unsigned ka = t * 16 + threadIdx.x, kb = t * 16 + threadIdx.y;
        ta[threadIdx.y][threadIdx.x] = i < m && ka < k ? pa[i * k + ka] : 0;
        tb[threadIdx.y][threadIdx.x] = kb < k && j < n ? pb[kb * n + j] : 0;
        __syncthreads();
        for (unsigned q = 0; q < 16; ++q) sum += ta[threadIdx.y][q] * tb[q][threadIdx.x];
        __syncthreads();
    }
    if (i < m && j < n) c[blockIdx.z * s.c + i * n + j] = sum;
}
""",
)
fault(
    "doubles_batched",
    "last tile of k is not counted",
    "(k + 15u) / 16u",
    "(k + 14u) / 16u",
    "c[blockIdx.z",
    WRONG,
)
fault(
    "doubles_batched",
    "sums in another order",
    "sum += ta[threadIdx.y][q] * tb[q][threadIdx.x]",
    "sum += ta[threadIdx.y][15 - q] * tb[15 - q][threadIdx.x]",
    "c[blockIdx.z",
    OTHER_ORDER,
)

base(
    "cooperative",
    r"""
// try: tile=16x16 threads=16x16
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void cooperative(const float *a, const float *b, float *c, int n) {
    const auto block = cg::this_thread_block();
    const int i = block.group_index().y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n && i < n && j < n; ++k) sum += a[i * n + k] * b[k * n + j];
    block.sync();
    if (i < n && j < n) c[i * n + j] = sum;
}
""",
    UNSUPPORTED,
)
