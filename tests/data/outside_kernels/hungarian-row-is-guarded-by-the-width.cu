// launch: hungarian<<<dim3(CEIL_DIV(m, 32), CEIL_DIV(n, 32)), dim3(32, 32)>>>(pfA, pfB, pfC, m, n, k)
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
    if (nRow <= nM && nCol < nN) ELEM(&C, nRow, nCol) = fAccumulator;
}
// expected: :(?:20): .*(?:is out of bounds)
