"""User-supplied kernels in the styles of public repositories, with the right verdict on each.

`KERNELS` maps a name to a source text and a verdict. The verdict is "correct", "unsupported" or a
regular expression that the fault's message must match, including the line number of the fault.
Most kernels are made from another one by a small edit, which their name describes:
``smem: no barrier before the sum``.
"""

CORRECT, UNSUPPORTED = "correct", "unsupported"
KERNELS: dict[str, tuple[str, str]] = {}

# Messages by kind of fault.
BOUNDS = "is out of bounds"
INDEX = "is outside its array"
RACE = "no barrier is between them"
BLOCKS_RACE = "of this or an earlier block"
UNWRITTEN = "no thread of the block wrote it"
TWO_BARRIERS = "while .* waits at the barrier at line"
MISALIGNED = "is misaligned"
WRONG = "stores C.* bit for bit .* are wrong"
MISSING = "does not store C.* are wrong"
OTHER_ORDER = "is within the error bound; declare tolerance=bound"
ENDLESS = "does this loop end"
TOO_LARGE = "does an index exceed 32 bits"
OVERFLOW = "a signed integer overflows"
ZERO = "divides an integer by zero"
ASSERTION = "an assertion fails"


def edited(base: str, *edits: tuple[str, str]) -> str:
    """Return the text of a kernel after the edits; each old text must occur exactly once."""
    text = KERNELS[base][0]
    for old, new in edits:
        assert text.count(old) == 1, (base, old, text.count(old))
        text = text.replace(old, new)
    return text


def correct(base: str, name: str, *edits: tuple[str, str]) -> None:
    """Add a correct kernel, made from another one."""
    KERNELS[f"{base}: {name}"] = edited(base, *edits), CORRECT


def fault(base: str, name: str, old: str, new: str, at: str, says: str) -> None:
    """Add a kernel with one fault; its message must name a line containing `at`, then `says`."""
    text = edited(base, (old, new))
    lines = [str(line) for line, code in enumerate(text.split("\n"), start=1) if at in code]
    assert lines, (base, name, at)
    KERNELS[f"{base}: {name}"] = text, rf":(?:{'|'.join(lines)}): .*(?:{says})"


def base(name: str, text: str, verdict: str = CORRECT) -> None:
    """Add a kernel."""
    KERNELS[name] = text.lstrip("\n"), verdict


# ---- One element of C a thread

base(
    "naive_rows",
    r"""
// try: tile=32x32 threads=32x32 x=rows
extern "C" __global__ void naive_rows(const float *A, const float *B, float *C, int M, int N,
                                      int K) {
    const uint x = blockIdx.x * blockDim.x + threadIdx.x;
    const uint y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < M && y < N) {
        float tmp = 0.0;
        for (int i = 0; i < K; ++i) {
            tmp += A[x * K + i] * B[i * N + y];
        }
        C[x * N + y] = tmp;
    }
}
""",
)
correct(
    "naive_rows",
    "fused by name",
    ("tmp += A[x * K + i] * B[i * N + y];", "tmp = fmaf(A[x * K + i], B[i * N + y], tmp);"),
)
correct(
    "naive_rows",
    "read-only cache, 64-bit sizes",
    ("const uint x = b", "const size_t x = (size_t)b"),
    ("A[x * K + i] * B[i * N + y]", "__ldg(&A[x * K + i]) * __ldg(B + i * N + y)"),
)
correct(
    "naive_rows",
    "const after the type, extern block",
    ('extern "C" __global__', 'extern "C" {\n__global__'),
    ("const float *A, const float *B", "float const *const A, float const* __restrict B"),
    ("int M, int N", "int const M, int N"),
    ("    }\n}\n", "    }\n}\n}\n"),
)
correct(
    "naive_rows",
    "rounded by name",
    (
        "tmp += A[x * K + i] * B[i * N + y];",
        "tmp = __fadd_rn(tmp, __fmul_rn(A[x * K + i], B[i * N + y]));",
    ),
)
fault("naive_rows", "row guard off by one", "x < M", "x <= M", "A[x * K + i]", BOUNDS)
fault("naive_rows", "no guard of the column", "x < M && y < N", "x < M", "B[i * N + y]", BOUNDS)
fault("naive_rows", "loop over k off by one", "i < K", "i <= K", "A[x * K + i]", BOUNDS)
fault("naive_rows", "last step of k is dropped", "i < K", "i < K - 1", "C[x * N + y]", WRONG)
fault("naive_rows", "B read as transposed", "B[i * N + y]", "B[y * K + i]", "C[x * N + y]", WRONG)
fault("naive_rows", "adds to C as it was", "] = tmp", "] += tmp", "C[x * N + y]", WRONG)
fault("naive_rows", "sum is not initialised", "tmp = 0.0", "tmp", "C[x * N + y]", WRONG)
fault(
    "naive_rows",
    "two threads compute one row",
    "blockIdx.x * blockDim.x + threadIdx.x",
    "blockIdx.x * blockDim.y + threadIdx.x / 2",
    "C[x * N + y]",
    MISSING,
)

base(
    "coalesced",
    r"""
// try: tile=32x32 threads=1024 x=rows
template <const int BLOCKSIZE>
__device__ void coalesced_body(int N, const float *A, const float *B, float *C) {
    const int cRow = blockIdx.x * BLOCKSIZE + (threadIdx.x / BLOCKSIZE);
    const int cCol = blockIdx.y * BLOCKSIZE + (threadIdx.x % BLOCKSIZE);
    if (cRow >= N || cCol >= N) return;
    float sum = 0.0f;
    for (int i = 0; i < N; ++i) {
        sum += A[cRow * N + i] * B[i * N + cCol];
    }
    C[cRow * N + cCol] = sum;
}

extern "C" __global__ void coalesced(const float *__restrict__ A, const float *__restrict__ B,
                                     float *__restrict__ C, int N) {
    coalesced_body<32>(N, A, B, C);
}
""",
)
correct(
    "coalesced",
    "four sums",
    ("threads=1024", "threads=1024 tolerance=bound"),
    ("float sum = 0.0f;", "float part[4] = {};"),
    ("sum += A", "part[i & 3] += A"),
    ("= sum;", "= (part[0] + part[1]) + (part[2] + part[3]);"),
)
correct(
    "coalesced",
    "from the last step of k, with a bound",
    ("threads=1024", "threads=1024 tolerance=bound"),
    ("int i = 0; i < N; ++i", "int i = N; i-- > 0;"),
)
fault(
    "coalesced",
    "from the last step of k, bit for bit",
    "int i = 0; i < N; ++i",
    "int i = N; i-- > 0;",
    "C[cRow * N + cCol]",
    OTHER_ORDER,
)
fault(
    "coalesced",
    "unsigned index counts down past zero",
    "int i = 0; i < N; ++i",
    "unsigned i = N - 1; i >= 0; --i",
    "A[cRow * N + i]",
    BOUNDS,
)
fault(
    "coalesced",
    "offsets in bytes overflow",
    "A[cRow * N + i]",
    "*(const float *)((const char *)A + (cRow * N + i) * 4)",
    "coalesced_body<32>",
    OVERFLOW,
)  # inlined there
fault(
    "coalesced",
    "unsigned offsets in bytes wrap around",
    "A[cRow * N + i]",
    "*(const float *)((const char *)A + (unsigned)(cRow * N + i) * 4u)",
    "coalesced_body<32>",
    TOO_LARGE,
)
fault(
    "coalesced",
    "column is the row",
    "threadIdx.x % BLOCKSIZE",
    "threadIdx.x / BLOCKSIZE",
    "C[cRow * N + cCol]",
    MISSING,
)
fault(
    "coalesced",
    "only the first lane stores",
    "    C[cRow",
    "    if (threadIdx.x % 32 == 0) C[cRow",
    "C[cRow * N + cCol]",
    MISSING,
)

# ---- Square tiles in shared memory

base(
    "smem",
    r"""
// try: tile=16x16x16 threads=256
#define BLOCKSIZE 16

extern "C" __global__ void __launch_bounds__(256)
smem_tile(const float *A, const float *B, float *C, int M, int N, int K) {
    const uint threadCol = threadIdx.x % BLOCKSIZE, threadRow = threadIdx.x / BLOCKSIZE;
    const uint row = blockIdx.y * BLOCKSIZE + threadRow, col = blockIdx.x * BLOCKSIZE + threadCol;
    __shared__ float As[BLOCKSIZE * BLOCKSIZE];
    __shared__ float Bs[BLOCKSIZE * BLOCKSIZE];
    A += blockIdx.y * BLOCKSIZE * K;
    B += blockIdx.x * BLOCKSIZE;
    C += blockIdx.y * BLOCKSIZE * N + blockIdx.x * BLOCKSIZE;
    float tmp = 0.0;
    for (int bkIdx = 0; bkIdx < K; bkIdx += BLOCKSIZE) {
        const bool inA = row < M && bkIdx + threadCol < K, inB = col < N && bkIdx + threadRow < K;
        As[threadRow * BLOCKSIZE + threadCol] = inA ? A[threadRow * K + threadCol] : 0.0f;
        Bs[threadRow * BLOCKSIZE + threadCol] = inB ? B[threadRow * N + threadCol] : 0.0f;
        __syncthreads();  // filled
        A += BLOCKSIZE;
        B += BLOCKSIZE * N;
        for (int dotIdx = 0; dotIdx < BLOCKSIZE; ++dotIdx) {
            tmp += As[threadRow * BLOCKSIZE + dotIdx] * Bs[dotIdx * BLOCKSIZE + threadCol];
        }
        __syncthreads();  // used
    }
    if (row < M && col < N) C[threadRow * N + threadCol] = tmp;
}
""",
)
FILLED, USED = "        __syncthreads();  // filled\n", "        __syncthreads();  // used\n"
SUM = "tmp += As["
correct(
    "smem",
    "asserts its launch",
    ("#define BLOCKSIZE 16", "#include <assert.h>\n#define BLOCKSIZE 16"),
    (
        "    float tmp = 0.0;",
        "    assert(blockDim.x == BLOCKSIZE * BLOCKSIZE && K > 0);\n    float tmp = 0.0;",
    ),
)
fault(
    "smem",
    "old elements of A times zeros, where there may be none",
    "        As[threadRow * BLOCKSIZE + threadCol] = inA ? ",
    "        if (bkIdx + threadCol < K) As[threadRow * BLOCKSIZE + threadCol] = inA ? ",
    SUM,
    UNWRITTEN,
)
correct(
    "smem",
    "tiles from the last, with a bound",
    ("threads=256", "threads=256 tolerance=bound"),
    (
        "int bkIdx = 0; bkIdx < K; bkIdx += BLOCKSIZE",
        "int bkIdx = (K - 1) / BLOCKSIZE * BLOCKSIZE; bkIdx >= 0; bkIdx -= BLOCKSIZE",
    ),
    ("A[threadRow * K + threadCol]", "A[threadRow * K + threadCol + bkIdx]"),
    ("B[threadRow * N + threadCol]", "B[(threadRow + bkIdx) * N + threadCol]"),
    ("        A += BLOCKSIZE;\n        B += BLOCKSIZE * N;\n", ""),
)
fault("smem", "no barrier before the sum", FILLED, "", SUM, UNWRITTEN)
fault("smem", "no barrier after the sum", USED, "", SUM, RACE)
for iteration in (1, 3, 5):
    fault(
        "smem",
        f"no barrier before the sum of iteration {iteration}",
        FILLED,
        FILLED.replace("__", f"if (bkIdx != {iteration} * BLOCKSIZE) __"),
        "BLOCKSIZE + threadCol] = in",
        RACE,
    )
fault(
    "smem",
    "no barrier after the sum of iteration 3",
    USED,
    USED.replace("__", "if (bkIdx / BLOCKSIZE != 3) __"),
    SUM,
    RACE,
)
fault(
    "smem",
    "threads outside end early",
    "    float tmp = 0.0;",
    "    if (row >= M || col >= N) return;\n    float tmp = 0.0;",
    SUM,
    UNWRITTEN,
)
fault(
    "smem",
    "a barrier for each half of the block",
    FILLED,
    "if (threadIdx.x < 128)\n__syncthreads();  // lower\nelse\n__syncthreads();  // upper\n",
    "// lower",
    TWO_BARRIERS,
)
fault(
    "smem",
    "barrier for threads inside only",
    FILLED,
    FILLED.replace("__", "if (row < M) __"),
    SUM,
    f"{UNWRITTEN}|{RACE}",
)
fault("smem", "no guard of k", "bkIdx + threadCol < K,", "true,", "A[threadRow * K", BOUNDS)
fault("smem", "no guard of the column of B", "col < N && bkIdx", "bkIdx", "B[threadRow * N", BOUNDS)
fault(
    "smem",
    "no guard of the row of C",
    "if (row < M && col < N)",
    "if (col < N)",
    "C[threadRow * N",
    BOUNDS,
)
fault(
    "smem",
    "no guard of the column of C",
    "if (row < M && col < N)",
    "if (row < M)",
    "C[threadRow * N",
    f"{BOUNDS}|{BLOCKS_RACE}|{RACE}",
)
fault(
    "smem",
    "edge of A is not filled",
    "        As[threadRow * BLOCKSIZE + threadCol] = inA ? A[threadRow * K + threadCol] : 0.0f;",
    "        if (inA) As[threadRow * BLOCKSIZE + threadCol] = A[threadRow * K + threadCol];",
    SUM,
    UNWRITTEN,
)
fault(
    "smem",
    "last tile of k is dropped",
    "bkIdx < K;",
    "bkIdx + BLOCKSIZE < K;",
    "C[threadRow * N",
    WRONG,
)
fault(
    "smem",
    "last part of a tile of k is dropped",
    "bkIdx < K;",
    "bkIdx + BLOCKSIZE <= K;",
    "C[threadRow * N",
    WRONG,
)
fault(
    "smem", "sum over one element too many", "dotIdx < BLOCKSIZE", "dotIdx <= BLOCKSIZE", SUM, INDEX
)
fault(
    "smem",
    "shared tile is a row too small",
    "As[BLOCKSIZE * BLOCKSIZE];",
    "As[(BLOCKSIZE - 1) * BLOCKSIZE];",
    "= inA",
    INDEX,
)
fault(
    "smem",
    "tile of A read as transposed",
    "As[threadRow * BLOCKSIZE + dotIdx]",
    "As[dotIdx * BLOCKSIZE + threadRow]",
    "C[threadRow * N",
    WRONG,
)
fault(
    "smem",
    "stored by the transposed thread",
    "C[threadRow * N + threadCol]",
    "C[threadCol * N + threadRow]",
    "C[threadCol * N",
    WRONG,
)
fault(
    "smem",
    "asserts whole tiles",
    "    float tmp = 0.0;",
    "    assert(K % BLOCKSIZE == 0);\n    float tmp = 0.0;",
    "assert(",
    ASSERTION,
)
fault(
    "smem",
    "divides by a grid that may be small",
    "    float tmp = 0.0;",
    "    const uint group = blockIdx.x / (gridDim.x / 8);\n    float tmp = group * 0.0f;",
    "gridDim.x / 8",
    ZERO,
)

correct("smem", "depth is not declared", ("tile=16x16x16", "tile=16x16"))
fault(
    "smem: depth is not declared",
    "no barrier before the sum of iteration 5",
    FILLED,
    FILLED.replace("__", "if (bkIdx != 5 * BLOCKSIZE) __"),
    "BLOCKSIZE + threadCol] = in",
    RACE,
)
correct(
    "smem",
    "edges are neither filled nor used",
    (
        "As[threadRow * BLOCKSIZE + threadCol] = inA ? A[threadRow * K + threadCol] : 0.0f;",
        "if (inA) As[threadRow * BLOCKSIZE + threadCol] = A[threadRow * K + threadCol];",
    ),
    (
        "Bs[threadRow * BLOCKSIZE + threadCol] = inB ? B[threadRow * N + threadCol] : 0.0f;",
        "if (inB) Bs[threadRow * BLOCKSIZE + threadCol] = B[threadRow * N + threadCol];",
    ),
    ("dotIdx < BLOCKSIZE;", "dotIdx < min(BLOCKSIZE, K - bkIdx);"),
)
correct(
    "smem",
    "threads to spare end early",
    ("threads=256", "threads=288"),
    ("bounds__(256)", "bounds__(288)"),
    ("    float tmp = 0.0;", "    if (threadIdx.x >= 256) return;\n    float tmp = 0.0;"),
)
correct(
    "smem",
    "a shared flag of one byte",
    (
        "    float tmp = 0.0;",
        "    __shared__ bool used;\n    if (threadIdx.x == 0) used = K > 0;\n    __syncthreads();\n"
        "    float tmp = 0.0;",
    ),
    ("bkIdx < K;", "used && bkIdx < K;"),
)
correct(
    "smem",
    "all threads store the same",
    (
        "    float tmp = 0.0;",
        "    __shared__ int steps;\n    steps = K;\n    __syncthreads();\n    float tmp = 0.0;",
    ),
    ("bkIdx < K;", "bkIdx < steps;"),
)

base(
    "sample",
    r"""
/* After the samples of a toolkit: sub-matrices of A and B, one after the other. */
// try: tile=16x16x16 threads=16x16
#if GUARDED
#define INSIDE(row, col, rows, cols) ((row) < (rows) && (col) < (cols))
#else
#define INSIDE(row, col, rows, cols) true
#endif

template <int BLOCK_SIZE>
__device__ void sample_body(float *C, const float *A, const float *B, int hA, int wA, int wB) {
    int bx = blockIdx.x, by = blockIdx.y;
    int tx = threadIdx.x, ty = threadIdx.y;
    int aBegin = wA * BLOCK_SIZE * by;
    int aEnd = aBegin + wA - 1;
    int aStep = BLOCK_SIZE;
    int bBegin = BLOCK_SIZE * bx;
    int bStep = BLOCK_SIZE * wB;
    float Csub = 0;
    for (int a = aBegin, b = bBegin, k = 0; a <= aEnd; a += aStep, b += bStep, k += BLOCK_SIZE) {
        __shared__ float As[BLOCK_SIZE][BLOCK_SIZE];
        __shared__ float Bs[BLOCK_SIZE][BLOCK_SIZE];
        As[ty][tx] = INSIDE(by * BLOCK_SIZE + ty, k + tx, hA, wA) ? A[a + wA * ty + tx] : 0;
        Bs[ty][tx] = INSIDE(k + ty, bx * BLOCK_SIZE + tx, wA, wB) ? B[b + wB * ty + tx] : 0;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < BLOCK_SIZE; ++i) {
            Csub += As[ty][i] * Bs[i][tx];
        }
        __syncthreads();
    }
    int c = wB * BLOCK_SIZE * by + BLOCK_SIZE * bx;
    if (INSIDE(by * BLOCK_SIZE + ty, bx * BLOCK_SIZE + tx, hA, wB)) C[c + wB * ty + tx] = Csub;
}

extern "C" __global__ void sample(const float *A, const float *B, float *C, int m, int n, int k) {
    sample_body<16>(C, A, B, m, k, n);
}
""",
)
fault("sample", "no bounds checks at all", "#if GUARDED", "#if 0", "] : 0;", BOUNDS)
fault(
    "sample",
    "one column past the end of a row",
    "(col) < (cols))",
    "(col) <= (cols))",
    "INSIDE(",
    f"{BOUNDS}|{RACE}|{BLOCKS_RACE}",
)
fault("sample", "rows of C for rows of A", "m, k, n);", "k, m, n);", "INSIDE(", f"{BOUNDS}|{WRONG}")
fault("sample", "column of the tile past its end", "Bs[i][tx]", "Bs[i][tx + 1]", "Csub +=", INDEX)

base(
    "textbook",
    r"""
// try: tile=16x32x16 threads=16x16
#include <cuda_runtime.h>
#define TILE_WIDTH 16
#define COARSE 2  /* tiles of C a block, side by side */

extern "C" __global__ void textbook(float *M, float *N, float *P, int Width) {
    __shared__ float Mds[TILE_WIDTH][TILE_WIDTH];
    __shared__ float Nds[TILE_WIDTH][TILE_WIDTH];
    int bx = blockIdx.x; int by = blockIdx.y;
    int tx = threadIdx.x; int ty = threadIdx.y;
    int Row = by * TILE_WIDTH + ty;
    int colStart = bx * TILE_WIDTH * COARSE + tx;
    float Pvalue[COARSE];
    for (int c = 0; c < COARSE; ++c) Pvalue[c] = 0.0f;
    for (int ph = 0; ph < ceil(Width / (float)TILE_WIDTH); ++ph) {
        if ((Row < Width) && (ph * TILE_WIDTH + tx) < Width)
            Mds[ty][tx] = M[Row * Width + ph * TILE_WIDTH + tx];
        else
            Mds[ty][tx] = 0.0f;
        for (int c = 0; c < COARSE; ++c) {
            int Col = colStart + c * TILE_WIDTH;
            if ((ph * TILE_WIDTH + ty) < Width && Col < Width)
                Nds[ty][tx] = N[(ph * TILE_WIDTH + ty) * Width + Col];
            else
                Nds[ty][tx] = 0.0f;
            __syncthreads();
            for (int k = 0; k < TILE_WIDTH; ++k) Pvalue[c] += Mds[ty][k] * Nds[k][tx];
            __syncthreads();
        }
    }
    for (int c = 0; c < COARSE; ++c) {
        int Col = colStart + c * TILE_WIDTH;
        if ((Row < Width) && (Col < Width)) P[Row * Width + Col] = Pvalue[c];
    }
}
""",
)
correct("textbook", "more blocks than needed", ("tile=16x32x16", "tile=16x16x16"))
fault(
    "textbook",
    "whole division loses the last tile",
    "ceil(Width / (float)TILE_WIDTH)",
    "Width / TILE_WIDTH",
    "P[Row * Width",
    WRONG,
)
fault(
    "textbook",
    "tile of A is overwritten too early",
    "            __syncthreads();\n        }\n",
    "            if (c == 0) __syncthreads();\n        }\n",
    "Pvalue[c] += Mds",
    RACE,
)
fault("textbook", "sums are not initialised", "Pvalue[c] = 0.0f", "(void)0", "P[Row * Width", WRONG)
fault(
    "textbook",
    "declared tile is larger than the kernel's",
    "COARSE 2",
    "COARSE 1",
    "P[Row * Width",
    MISSING,
)

base(
    "lecture",
    r"""
// try: block=8 tile=BLOCKxBLOCKxBLOCK threads=BLOCKxBLOCK
#define IDX(i, j, ld) ((i) * (ld) + (j))

extern "C" __global__ void lecture(const float *a, const float *b, float *c, int n) {
    __shared__ float left[BLOCK][BLOCK + 1], right[BLOCK][BLOCK + 1];
    const int i = blockIdx.y * BLOCK + threadIdx.y, j = blockIdx.x * BLOCK + threadIdx.x;
    auto load = [=](const float *matrix, int row, int column) {
        return row < n && column < n ? matrix[IDX(row, column, n)] : 0.0f;
    };
    float sum = 0.0f;
    for (int t = 0; t < (n + BLOCK - 1) / BLOCK; ++t) {
        left[threadIdx.y][threadIdx.x] = load(a, i, t * BLOCK + threadIdx.x);
        right[threadIdx.y][threadIdx.x] = load(b, t * BLOCK + threadIdx.y, j);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BLOCK; ++k)
            sum = fmaf(left[threadIdx.y][k], right[k][threadIdx.x], sum);
        __syncthreads();
    }
    if (i < n && j < n) c[IDX(blockIdx.y * BLOCK + threadIdx.y, j, n)] = sum;
}
""",
)
fault(
    "lecture",
    "macro without parentheses",
    "((i) * (ld) + (j))",
    "i * ld + j",
    "c[IDX(",
    f"{BLOCKS_RACE}|{BOUNDS}",
)
fault("lecture", "endless loop over a tile", "++k)", "k += BLOCK / 32)", "k < BLOCK", ENDLESS)
fault("lecture", "endless loop over tiles", "++t)", "t += BLOCK / 32)", "__syncthreads", ENDLESS)
fault(
    "lecture",
    "padding is read",
    "right[k][threadIdx.x]",
    "right[k][threadIdx.x + 1]",
    "c[IDX(",
    WRONG,
)
fault(
    "lecture",
    "bounds checks the row only",
    "row < n && column < n ?",
    "row < n ?",
    "matrix[IDX",
    BOUNDS,
)

# ---- Several elements a thread

base(
    "tiles_1d",
    r"""
// try: tile=32x32x8 threads=256
template <const int BM, const int BN, const int BK, const int TM>
__device__ void tiles_1d_body(int M, int N, int K, const float *A, const float *B, float *C) {
    const int threadCol = threadIdx.x % BN, threadRow = threadIdx.x / BN;
    const int innerColA = threadIdx.x % BK, innerRowA = threadIdx.x / BK;
    const int innerColB = threadIdx.x % BN, innerRowB = threadIdx.x / BN;
    const int rowA = blockIdx.y * BM + innerRowA, colB = blockIdx.x * BN + innerColB;
    __shared__ float As[BM * BK];
    __shared__ float Bs[BK * BN];
    float threadResults[TM] = {0.0};
    for (int bkIdx = 0; bkIdx < K; bkIdx += BK) {
        const int colA = bkIdx + innerColA, rowB = bkIdx + innerRowB;
        As[innerRowA * BK + innerColA] = rowA < M && colA < K ? A[rowA * K + colA] : 0.0f;
        Bs[innerRowB * BN + innerColB] = rowB < K && colB < N ? B[rowB * N + colB] : 0.0f;
        __syncthreads();
        for (int dotIdx = 0; dotIdx < BK; ++dotIdx) {
            float tmpB = Bs[dotIdx * BN + threadCol];
            for (int resIdx = 0; resIdx < TM; ++resIdx) {
                threadResults[resIdx] += As[(threadRow * TM + resIdx) * BK + dotIdx] * tmpB;
            }
        }
        __syncthreads();
    }
    for (int resIdx = 0; resIdx < TM; ++resIdx) {
        const int row = blockIdx.y * BM + threadRow * TM + resIdx;
        if (row < M && colB < N) C[row * N + colB] = threadResults[resIdx];
    }
}

extern "C" __global__ void tiles_1d(const float *A, const float *B, float *C, int M, int N, int K) {
    tiles_1d_body<32, 32, 8, 4>(M, N, K, A, B, C);
}
""",
)
fault(
    "tiles_1d",
    "results past the end",
    "resIdx < TM; ++resIdx) {\n                t",
    "resIdx <= TM; ++resIdx) {\n                t",
    "threadResults[resIdx] +=",
    INDEX,
)
fault(
    "tiles_1d",
    "rows a thread are not adjacent in C",
    "threadRow * TM + resIdx;",
    "threadRow + resIdx * (BM / TM);",
    "C[row * N",
    WRONG,
)
fault("tiles_1d", "m in place of k", "A[rowA * K", "A[rowA * M", "C[row * N", f"{WRONG}")

base(
    "tiles_2d",
    r"""
// try: tile=32x32x8 threads=64
#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))
constexpr int BM = 32, BN = 32, BK = 8, TM = 4, TN = 4;
constexpr int THREADS = (BM * BN) / (TM * TN);
static_assert(BM % TM == 0 && BN % TN == 0, "whole threads");

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    tiles_2d(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ float As[BM * BK], Bs[BK * BN];
    const int threadRow = threadIdx.x / (BN / TN), threadCol = threadIdx.x % (BN / TN);
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
    float threadResults[TM * TN] = {0.0};
    float regM[TM] = {0.0}, regN[TN] = {0.0};
    for (int tile = 0; tile < CEIL_DIV(K, BK); ++tile) {
        for (int i = threadIdx.x; i < BM * BK; i += THREADS) {
            const int r = row0 + i / BK, k = tile * BK + i % BK;
            As[i] = r < M && k < K ? A[r * K + k] : 0.0f;
        }
        for (int i = threadIdx.x; i < BK * BN; i += THREADS) {
            const int k = tile * BK + i / BN, c = col0 + i % BN;
            Bs[i] = k < K && c < N ? B[k * N + c] : 0.0f;
        }
        __syncthreads();
        for (int dotIdx = 0; dotIdx < BK; ++dotIdx) {
            for (int i = 0; i < TM; ++i) regM[i] = As[(threadRow * TM + i) * BK + dotIdx];
            for (int i = 0; i < TN; ++i) regN[i] = Bs[dotIdx * BN + threadCol * TN + i];
            for (int m = 0; m < TM; ++m) {
                for (int n = 0; n < TN; ++n) threadResults[m * TN + n] += regM[m] * regN[n];
            }
        }
        __syncthreads();
    }
    for (int m = 0; m < TM; ++m) {
        for (int n = 0; n < TN; ++n) {
            const int r = row0 + threadRow * TM + m, c = col0 + threadCol * TN + n;
            if (r < M && c < N) C[r * N + c] = threadResults[m * TN + n];
        }
    }
}
""",
)
correct(
    "tiles_2d",
    "two steps at a time, with a bound",
    ("threads=64", "threads=64 tolerance=bound"),
    ("++dotIdx", "dotIdx += 2"),
    (
        "+= regM[m] * regN[n];",
        "+= regM[m] * regN[n] + As[(threadRow * TM + m) * BK + dotIdx + 1]"
        " * Bs[(dotIdx + 1) * BN + threadCol * TN + n];",
    ),
)
fault(
    "tiles_2d: two steps at a time, with a bound",
    "bit for bit",
    " tolerance=bound",
    "",
    "C[r * N + c]",
    OTHER_ORDER,
)
fault(
    "tiles_2d",
    "register column is the row",
    "regM[m] * regN[n];",
    "regM[n] * regN[m];",
    "C[r * N + c]",
    WRONG,
)
fault(
    "tiles_2d",
    "tile is filled with a wrong stride",
    "i < BM * BK; i += THREADS",
    "i < BM * BK; i += THREADS * 2",
    "regM[i] = As",
    UNWRITTEN,
)
correct(
    "tiles_2d",
    "two threads fill one element with the same value",
    ("i < BK * BN; i += THREADS", "i < BK * BN; i += THREADS / 2"),
)
fault(
    "tiles_2d",
    "barrier inside a loop of different lengths",
    "            As[i] = r < M",
    "            if (r < M) __syncthreads();\n            As[i] = r < M",
    "__syncthreads",
    TWO_BARRIERS,
)

base(
    "vectors",
    r"""
// try: tile=32x32x8 threads=64
#define FETCH_FLOAT4(element) (reinterpret_cast<const float4 *>(&(element))[0])
#define STORE_FLOAT4(element) (reinterpret_cast<float4 *>(&(element))[0])

__device__ __forceinline__ float4 load4(const float *matrix, int row, int col, int n) {
#if GUARDED
    float part[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) part[i] = row < n && col + i < n ? matrix[row * n + col + i] : 0;
    return make_float4(part[0], part[1], part[2], part[3]);
#else
    return FETCH_FLOAT4(matrix[row * n + col]);
#endif
}

extern "C" __global__ void vectors(const float *__restrict__ A, const float *__restrict__ B,
                                   float *__restrict__ C, int n) {
    __shared__ __align__(16) float As[8][32];  // transposed
    __shared__ __align__(16) float Bs[8][32];
    const int tid = threadIdx.x, tr = tid / 8 * 4, tc = tid % 8 * 4;
    const int aRow = tid / 2, aCol = tid % 2 * 4, bRow = tid / 8, bCol = tid % 8 * 4;
    const int row0 = blockIdx.y * 32, col0 = blockIdx.x * 32;
    float acc[4][4] = {};
    for (int k0 = 0; k0 < n; k0 += 8) {
        const float4 a = load4(A, row0 + aRow, k0 + aCol, n);
        As[aCol + 0][aRow] = a.x;
        As[aCol + 1][aRow] = a.y;
        As[aCol + 2][aRow] = a.z;
        As[aCol + 3][aRow] = a.w;
        STORE_FLOAT4(Bs[bRow][bCol]) = load4(B, k0 + bRow, col0 + bCol, n);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            const float4 x = FETCH_FLOAT4(As[k][tr]), y = FETCH_FLOAT4(Bs[k][tc]);
            const float xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
            for (int i = 0; i < 4; ++i) {
                for (int j = 0; j < 4; ++j) acc[i][j] += xs[i] * ys[j];
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) {
#if GUARDED
        for (int j = 0; j < 4; ++j) {
            const int row = row0 + tr + i, col = col0 + tc + j;
            if (row < n && col < n) C[row * n + col] = acc[i][j];
        }
#else
        STORE_FLOAT4(C[(row0 + tr + i) * n + col0 + tc]) =
            make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
#endif
    }
}
""",
)
fault(
    "vectors",
    "vectors at any size",
    "#if GUARDED\n    float",
    "#if 0\n    float",
    "load4(",
    MISALIGNED,
)
fault(
    "vectors",
    "shared vector is not aligned",
    "FETCH_FLOAT4(As[k][tr])",
    "FETCH_FLOAT4(As[k][tr + 1])",
    "const float4 x",
    MISALIGNED,
)
fault("vectors", "rows of an odd pitch", "Bs[8][32];", "Bs[8][33];", "STORE_FLOAT4(Bs", MISALIGNED)
fault(
    "vectors", "two components are swapped", "aRow] = a.y", "aRow] = a.z", "make_float4(acc", WRONG
)

base(
    "runtime_vectors",
    r"""
// try: tile=16x64x4 threads=16x16
// Vectors where rows are a multiple of 16 bytes, whatever the size; no shared memory.
extern "C" __global__ void runtime_vectors(const float *a, const float *b, float *c, int m, int n,
                                           int k) {
    const int row = blockIdx.y * 16 + threadIdx.y, col = (blockIdx.x * 16 + threadIdx.x) * 4;
    if (row >= m || col >= n) return;
    float sum[4] = {0, 0, 0, 0};
    const bool vectors = n % 4 == 0;
    for (int step = 0; step < k; ++step) {
        const float *p = b + (size_t)step * n + col;
        const float left = a[(size_t)row * k + step];
        if (vectors) {
            const float4 v = *reinterpret_cast<const float4 *>(p);
            sum[0] += left * v.x, sum[1] += left * v.y, sum[2] += left * v.z, sum[3] += left * v.w;
        } else {
            for (int j = 0; j < 4 && col + j < n; ++j) sum[j] += left * p[j];
        }
    }
    for (int j = 0; j < min(4, n - col); ++j) c[(size_t)row * n + col + j] = sum[j];
}
""",
)
fault(
    "runtime_vectors",
    "offsets in bytes overflow",
    "a[(size_t)row * k + step]",
    "*(const float *)((const char *)a + (row * k + step) * (int)sizeof(float))",
    "sizeof(float)",
    OVERFLOW,
)
fault(
    "runtime_vectors",
    "vectors of pairs where rows are odd",
    "n % 4 == 0",
    "n % 2 == 0",
    "const float4 v",
    f"{MISALIGNED}|{BOUNDS}",
)
fault(
    "runtime_vectors",
    "stores a whole vector at the edge",
    "min(4, n - col)",
    "4",
    "c[(size_t)row",
    f"{BOUNDS}|{RACE}|{BLOCKS_RACE}",
)

base(
    "pipelined",
    r"""
// try: tile=32x32x8 threads=16x16 shared=2*(32*8+8*32)*4
extern "C" __global__ void pipelined(const float *A, const float *B, float *C, int n) {
    extern __shared__ __align__(16) float stages[];
    constexpr int STAGE = 32 * 8 + 8 * 32;
    const int tx = threadIdx.x, ty = threadIdx.y, tid = ty * 16 + tx;
    const int row0 = blockIdx.y * 32, col0 = blockIdx.x * 32;
    const int ar = row0 + tid / 8, ak = tid % 8, bk = tid / 32, bc = col0 + tid % 32;
    const int tiles = (n + 7) / 8;
    float nextA, nextB, acc[2][2] = {{0, 0}, {0, 0}};
    auto fetch = [&](int k0) {
        nextA = ar < n && k0 + ak < n ? A[ar * n + k0 + ak] : 0.0f;
        nextB = k0 + bk < n && bc < n ? B[(k0 + bk) * n + bc] : 0.0f;
    };
    auto keep = [&](float *stage) {
        stage[tid] = nextA;
        stage[256 + tid] = nextB;
    };
    fetch(0);
    keep(stages);
    __syncthreads();  // first
    for (int t = 0; t < tiles; ++t) {
        const float *As = stages + t % 2 * STAGE, *Bs = As + 256;
        if (t + 1 < tiles) fetch((t + 1) * 8);
        for (int k = 0; k < 8; ++k) {
            for (int i = 0; i < 2; ++i) {
                for (int j = 0; j < 2; ++j)
                    acc[i][j] += As[(ty + 16 * i) * 8 + k] * Bs[k * 32 + tx + 16 * j];
            }
        }
        if (t + 1 < tiles) keep(stages + (t + 1) % 2 * STAGE);
        __syncthreads();  // next
    }
    for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 2; ++j) {
            const int r = row0 + ty + 16 * i, c = col0 + tx + 16 * j;
            if (r < n && c < n) C[r * n + c] = acc[i][j];
        }
    }
}
""",
)
correct(
    "pipelined",
    "a tile past the end is fetched, with bounds checked",
    ("if (t + 1 < tiles) fetch", "fetch"),
)
correct(
    "pipelined",
    "memory of another name and type",
    ("float stages[]", "unsigned char raw_memory[]"),
    (
        "    constexpr int STAGE",
        "    float *const stages = reinterpret_cast<float *>(raw_memory);\n    constexpr int STAGE",
    ),
)
NEXT = "        __syncthreads();  // next\n"
fault(
    "pipelined",
    "fetches past the end",
    "        nextA = ar < n && k0 + ak < n ? A",
    "        nextA = ar < n ? A",
    "nextA = ar < n",
    BOUNDS,
)
fault(
    "pipelined",
    "stores past the last stage",
    "(t + 1) % 2 * STAGE",
    "(t + 1) * STAGE",
    "stage[",
    BOUNDS,
)
fault(
    "pipelined",
    "one stage in place of two",
    "stages + (t + 1) % 2 * STAGE",
    "stages + t % 2 * STAGE",
    "acc[i][j] += As",
    RACE,
)
fault(
    "pipelined",
    "no first barrier",
    "    __syncthreads();  // first\n",
    "",
    "acc[i][j] += As",
    UNWRITTEN,
)
fault(
    "pipelined",
    "no barrier in iteration 3",
    NEXT,
    NEXT.replace("__", "if (t != 3) __"),
    "acc[i][j] += As",
    f"{RACE}|{UNWRITTEN}",
)
fault(
    "pipelined",
    "too little shared memory",
    "shared=2*(32*8+8*32)*4",
    "shared=2*(32*8+8*31)*4",
    "stage[256 + tid]",
    BOUNDS,
)
fault(
    "pipelined",
    "last tile is not kept",
    "if (t + 1 < tiles) keep",
    "if (t + 2 < tiles) keep",
    "C[r * n + c]",
    WRONG,
)
fault(
    "pipelined",
    "reads the stage that is filled",
    "t % 2 * STAGE, *Bs",
    "(t + 1) % 2 * STAGE, *Bs",
    "acc[i][j] += As",
    RACE,
)

base(
    "swizzled",
    r"""
// try: tile=32x32x32 threads=32x8
#define SWIZZLE(row, col) ((col) ^ (row))
extern "C" __global__ void swizzled(const float *A, const float *B, float *C, int M, int N, int K) {
    __shared__ float At[32][32], Bs[32][32];  // A transposed, without conflicts
    const int lane = threadIdx.x, warp = threadIdx.y;
    const int row0 = blockIdx.y * 32, col = blockIdx.x * 32 + lane;
    float acc[4] = {0.f, 0.f, 0.f, 0.f};
    for (int k0 = 0; k0 < K; k0 += 32) {
#pragma unroll 4
        for (int r = warp; r < 32; r += 8) {
            const bool in = row0 + r < M && k0 + lane < K;
            At[lane][SWIZZLE(lane, r)] = in ? A[(row0 + r) * K + k0 + lane] : 0.f;
            Bs[r][lane] = k0 + r < K && col < N ? B[(k0 + r) * N + col] : 0.f;
        }
        __syncthreads();
        for (int k = 0; k < 32; ++k) {
            for (int i = 0; i < 4; ++i) acc[i] += At[k][SWIZZLE(k, warp * 4 + i)] * Bs[k][lane];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) {
        const int row = row0 + warp * 4 + i;
        if (row < M && col < N) C[row * N + col] = acc[i];
    }
}
""",
)
fault(
    "swizzled",
    "read with another swizzle",
    "SWIZZLE(k, warp * 4 + i)",
    "SWIZZLE(k + 1 & 31, warp * 4 + i)",
    "C[row * N",
    WRONG,
)
fault(
    "swizzled", "swizzle leaves the tile", "((col) ^ (row))", "((col) ^ ((row) << 1))", "At[", INDEX
)

base(
    "layers",
    r"""
// try: tile=32x32x8 threads=64
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
    const Mma::Params params{{a, k}, {b, n}, {c, n}, m, n, k};
    Mma(params, shared)();
}
""",
)
fault("layers", "stage is not switched", "            stage ^= 1;\n", "", "params.C.at", WRONG)
fault(
    "layers",
    "leading dimension of another matrix",
    "{b, n}",
    "{b, k}",
    "params.B.at",
    f"{BOUNDS}|{WRONG}",
)
fault(
    "layers",
    "loads past the end of k",
    "row < params.m && k0 + k < params.k",
    "row < params.m",
    "params.A.at",
    BOUNDS,
)

base(
    "trainer",
    r"""
// try: tile=32x32x16 threads=8x8
#include <stdio.h>
#include <assert.h>
// In the style of a trainer's matmul_forward: each thread has 4 x 4 results.
__device__ float4 ld_vec(const float *p) { return *reinterpret_cast<const float4 *>(p); }
__device__ void st_vec(float *p, float4 val) { *reinterpret_cast<float4 *>(p) = val; }

extern "C" __global__ void __launch_bounds__(64) trainer(const float *inp, const float *weight,
                                                         float *out, int n) {
    int oc = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    __shared__ float lhs_s[32][16];
    __shared__ float rhs_s[16][32];
    int tid = blockDim.x * threadIdx.y + threadIdx.x;
    float vals[4][4] = {};
    for (int so = 0; so < n; so += 16) {
        __syncthreads();
        for (int i = tid; i < 32 * 16; i += blockDim.x * blockDim.y) {
            int r = 32 * blockIdx.y + i / 16, k = so + i % 16;
            lhs_s[i / 16][i % 16] = r < n && k < n ? inp[r * n + k] : 0.0f;
        }
        for (int i = tid; i < 16 * 32; i += blockDim.x * blockDim.y) {
            int k = so + i / 32, c = 32 * blockIdx.x + i % 32;
            rhs_s[i / 32][i % 32] = k < n && c < n ? weight[k * n + c] : 0.0f;
        }
        __syncthreads();
        for (int si = 0; si < 16; ++si) {
            float4 rhs = ld_vec(&rhs_s[si][4 * threadIdx.x]);
            for (int i = 0; i < 4; ++i) {
                float lhs = lhs_s[i + 4 * threadIdx.y][si];
                vals[i][0] += lhs * rhs.x;
                vals[i][1] += lhs * rhs.y;
                vals[i][2] += lhs * rhs.z;
                vals[i][3] += lhs * rhs.w;
            }
        }
    }
    for (int i = 0; i < 4; ++i) {
        int r = 32 * blockIdx.y + 4 * threadIdx.y + i;
        if (r >= n) return;
        if (n % 4 == 0 && oc < n) {
            st_vec(out + r * n + oc, make_float4(vals[i][0], vals[i][1], vals[i][2], vals[i][3]));
        } else {
            for (int j = 0; j < 4 && oc + j < n; ++j) out[r * n + oc + j] = vals[i][j];
        }
    }
}
""",
)
fault(
    "trainer",
    "barrier at the top of the loop is missing",
    "        __syncthreads();\n        for (int i = tid; i < 32",
    "        for (int i = tid; i < 32",
    "_s[",
    RACE,
)
fault(
    "trainer",
    "declared threads are half of those needed",
    "threads=8x8",
    "threads=8x4",
    "void st_vec(",
    MISSING,
)

base(
    "deep",
    r"""
// try: tile=64x64x64 threads=16x16
extern "C" __global__ void deep(const float *A, const float *B, float *C, int n) {
    __shared__ float As[64][64];
    __shared__ float Bs[64][64];
    const int tx = threadIdx.x, ty = threadIdx.y;
    float acc[4][4] = {};
    for (int k0 = 0; k0 < n; k0 += 64) {
#pragma unroll
        for (int i = ty; i < 64; i += 16) {
            for (int j = tx; j < 64; j += 16) {
                const int ar = blockIdx.y * 64 + i, bc = blockIdx.x * 64 + j;
                As[i][j] = ar < n && k0 + j < n ? A[ar * n + k0 + j] : 0.0f;
                Bs[i][j] = k0 + i < n && bc < n ? B[(k0 + i) * n + bc] : 0.0f;
            }
        }
        __syncthreads();
        for (int k = 0; k < 64; ++k) {
            float a[4], b[4];
            for (int i = 0; i < 4; ++i) a[i] = As[ty * 4 + i][k], b[i] = Bs[k][tx + 16 * i];
            for (int i = 0; i < 4; ++i) {
                acc[i][0] += a[i] * b[0], acc[i][1] += a[i] * b[1];
                acc[i][2] += a[i] * b[2], acc[i][3] += a[i] * b[3];
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
            const int r = blockIdx.y * 64 + ty * 4 + i, c = blockIdx.x * 64 + tx + 16 * j;
            if (r < n && c < n) C[r * n + c] = acc[i][j];
        }
}
""",
)

fault(
    "deep",
    "no barrier after the sum of iteration 3",
    "        __syncthreads();\n    }\n",
    "        if (k0 != 192) __syncthreads();\n    }\n",
    "a[i] = As",
    RACE,
)

# ---- Batches, other types of elements, constants, sums in parts

base(
    "batched",
    r"""
// try: tile=16x16x16 threads=16x16 batched=yes
extern "C" __global__ void batched(const float *A, const float *B, float *C, int m, int n, int k) {
    const size_t batch = blockIdx.z;
    const size_t strideA = (size_t)m * k, strideB = (size_t)k * n, strideC = (size_t)m * n;
    A += batch * strideA, B += batch * strideB, C += batch * strideC;
    __shared__ float As[16][17], Bs[16][17];
    const unsigned row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (unsigned k0 = 0; k0 < (unsigned)k; k0 += 16) {
        const unsigned ak = k0 + threadIdx.x, bk = k0 + threadIdx.y;
        As[threadIdx.y][threadIdx.x] = row < m && ak < k ? A[row * k + ak] : 0;
        Bs[threadIdx.y][threadIdx.x] = bk < k && col < n ? B[bk * n + col] : 0;
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += As[threadIdx.y][i] * Bs[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && col < n) C[row * n + col] = sum;
}
""",
)
fault(
    "batched",
    "stride of another matrix",
    "B += batch * strideB",
    "B += batch * strideC",
    "C[row * n",
    f"{WRONG}|{BOUNDS}",
)
fault(
    "batched",
    "every batch stores to the first",
    "C += batch * strideC",
    "C += 0 * strideC",
    "C[row * n",
    BLOCKS_RACE,
)

base(
    "doubles",
    r"""
// try: tile=16x16x16 threads=16x16
extern "C" __global__ void doubles(const double *__restrict__ a, const double *__restrict__ b,
                                   double *__restrict__ c, int n) {
    __shared__ double as[16][16];
    __shared__ double bs[16][16];
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    double sum = 0.0;
    for (int k0 = 0; k0 < n; k0 += 16) {
        const int ak = k0 + threadIdx.x, bk = k0 + threadIdx.y;
        as[threadIdx.y][threadIdx.x] = (row < n && ak < n) ? a[row * n + ak] : 0.0;
        bs[threadIdx.y][threadIdx.x] = (bk < n && column < n) ? b[bk * n + column] : 0.0;
        __syncthreads();
#pragma unroll 8
        for (int k = 0; k < 16; ++k) {
            sum = fma(as[threadIdx.y][k], bs[k][threadIdx.x], sum);
        }
        __syncthreads();
    }
    if (row < n && column < n) c[row * n + column] = sum;
}
""",
)
fault("doubles", "sum of another precision", "sum = fma(", "sum = (float)fma(", "c[row * n", WRONG)

base(
    "integers",
    r"""
// try: tile=8x32 threads=256
extern "C" __global__ void integers(const int *a, const int *b, int *c, int m, int n, int k) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int2 at = make_int2(blockIdx.x * 32 + lane, blockIdx.y * 8 + warp);
    if (at.x >= n || at.y >= m) return;
    unsigned sum = 0;
    for (int i = 0; i < k; i++) sum += (unsigned)a[at.y * k + i] * (unsigned)b[i * n + at.x];
    c[at.y * n + at.x] = (int)sum;
}
""",
)
correct("integers", "from the last", ("int i = 0; i < k; i++", "int i = k - 1; i >= 0; i--"))
fault(
    "integers", "sum of single precision", "unsigned sum = 0", "float sum = 0", "c[at.y * n", WRONG
)

base(
    "constants",
    r"""
// try: tile=32x32x4 threads=32x8
// Offsets of a thread's rows in constant memory; rows of B straight from L1.
__constant__ int ROW_OFFSETS[4] = {0, 8, 16, 24};
constexpr int SUMS = 4;
struct Sums { float value[4]; };

extern "C" __global__ void constants(const float *A, const float *B, float *C, int n) {
    __shared__ float As[32][4];
    const int col = blockIdx.x * 32 + threadIdx.x, row0 = blockIdx.y * 32;
    const int tid = threadIdx.y * 32 + threadIdx.x;
    Sums sums = {};
    for (int k0 = 0; k0 < n; k0 += 4) {
        const int fillRow = tid / 4, fillK = tid % 4, row = row0 + fillRow;
        if (tid < 128)
            As[fillRow][fillK] = row < n && k0 + fillK < n ? A[row * n + k0 + fillK] : 0;
        __syncthreads();
        for (int k = 0; k < min(4, n - k0); ++k) {
            const float right = col < n ? __ldg(&B[(k0 + k) * n + col]) : 0;
            for (int i = 0; i < SUMS; ++i)
                sums.value[i] += As[ROW_OFFSETS[i] + threadIdx.y][k] * right;
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) {
        const int row = row0 + ROW_OFFSETS[i] + threadIdx.y;
        if (row < n && col < n) C[row * n + col] = sums.value[i];
    }
}
""",
)
fault(
    "constants",
    "more threads fill than the tile has",
    "tid < 128",
    "tid <= 128",
    "As[fillRow][fillK] = ",
    INDEX,
)
fault(
    "constants",
    "offset is outside the constants",
    "SUMS = 4",
    "SUMS = 5",
    "sums.value[i] +=",
    INDEX,
)
fault(
    "constants",
    "other threads store over the last rows",
    "{0, 8, 16, 24}",
    "{0, 8, 16, 20}",
    "C[row * n",
    MISSING,
)

correct(
    "constants",
    "rows are structures",
    (
        "struct Sums { float value[4]; };",
        "struct Sums { float value[4]; };\nstruct Row { float k[4]; };",
    ),
    ("__shared__ float As[32][4];", "__shared__ Row As[32];"),
    ("As[fillRow][fillK]", "As[fillRow].k[fillK]"),
    ("As[ROW_OFFSETS[i] + threadIdx.y][k]", "Row(As[ROW_OFFSETS[i] + threadIdx.y]).k[k]"),
)

base(
    "split_k",
    r"""
// try: tile=4x32 threads=32x8 tolerance=bound
// Two groups of a block's threads share the steps of k, and add their sums at the end.
extern "C" __global__ void split_k(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ float partial[4][32];
    const int group = threadIdx.y / 4, line = threadIdx.y % 4;
    const int row = blockIdx.y * 4 + line, col = blockIdx.x * 32 + threadIdx.x;
    const bool inside = row < m && col < n;
    const int half = (k + 1) / 2, begin = group * half, end = min(begin + half, k);
    float sum = 0;
    for (int i = begin; inside && i < end; ++i) sum += a[row * k + i] * b[i * n + col];
    if (group == 1) partial[line][threadIdx.x] = sum;
    __syncthreads();
    if (group == 0 && inside) c[row * n + col] = sum + partial[line][threadIdx.x];
}
""",
)
fault("split_k", "both groups store", "group == 0 && inside", "inside", "c[row * n", "races with")
fault(
    "split_k",
    "halves of an odd k leave one out",
    "(k + 1) / 2",
    "k / 2",
    "c[row * n",
    "elements wrong; worst C",
)
fault(
    "split_k", "no barrier between the halves", "    __syncthreads();\n", "", "c[row * n", UNWRITTEN
)
fault("split_k", "sums in order are declared", " tolerance=bound", "", "c[row * n", OTHER_ORDER)

base(
    "grid_stride",
    r"""
// try: tile=16x16 threads=16x16
extern "C" __global__ void grid_stride(const float *a, const float *b, float *c, int n) {
    const float *const end = a + (long)n * n;
    for (int i = blockIdx.y * blockDim.y + threadIdx.y; i < n; i += gridDim.y * blockDim.y)
        for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < n; j += gridDim.x * blockDim.x) {
            float sum = 0.0f;
            const float *p = a + (long)i * n, *q = b + j;
            do {
                sum += *p * *q;
                q += n;
            } while (++p < a + (long)(i + 1) * n && p < end);
            c[(long)i * n + j] = sum;
        }
}
""",
)
fault(
    "grid_stride",
    "pointer runs past the end",
    "++p < a + (long)(i + 1) * n && p < end",
    "p++ < a + (long)(i + 1) * n",
    "*p * *q",
    BOUNDS,
)

# ---- What host execution does not support

for name, include, body in (
    ("reductions_by_hardware", "", "sum += __reduce_add_sync(0xffffffff, 0);"),
    ("ptx", "", 'asm volatile("cp.async.wait_all;");'),
    (
        "halves",
        "#include <cuda_fp16.h>",
        "const __half rounded = __float2half(sum); sum = __half2float(rounded);",
    ),
    (
        "groups",
        "#include <cooperative_groups.h>",
        "cooperative_groups::this_thread_block().sync();",
    ),
):
    base(
        name,
        f"""
// try: tile=32x32 threads=32x32
{include}
extern "C" __global__ void {name}(const float *a, const float *b, float *c, int n) {{
    const int row = blockIdx.y * 32 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n && row < n && col < n; ++k) sum += a[row * n + k] * b[k * n + col];
    {body}
    if (row < n && col < n) c[row * n + col] = sum;
}}
""",
        UNSUPPORTED,
    )
