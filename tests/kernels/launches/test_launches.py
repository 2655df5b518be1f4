"""Kernels as they are: their launches, what their names mean, and the verdicts."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from base.errors import StudyError
from kernels.host_execution.binding import KernelFault
from kernels.launches import checks
from kernels.launches.device import for_the_device
from kernels.launches.in_files import launches
from kernels.launches.lines import judged
from kernels.launches.pieces import pieces
from kernels.launches.roles import matrices, meanings

# One thread per element, and the same with a launcher as in public benchmarks.
NAIVE = """
#include <cublas_v2.h>
#include <iostream>
#define CHECK(call) do { if (call) { std::cerr << "failed"; exit(1); } } while (0)

template <typename T>
__global__ void gemm(int M, int N, int K, T alpha, const T *A, const T *B, T beta, T *C) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || column >= N) return;
    T sum = 0;
    for (int i = 0; i < K; ++i) sum += A[row * K + i] * B[i * N + column];
    C[row * N + column] = alpha * sum + beta * C[row * N + column];
}
"""
MAIN = """
void run(int M, int N, int K, float *d_A, float *d_B, float *d_C) {
    float alpha = 1.5f, beta = 0.5f;
    const dim3 threads(32, 8);
    if (M > 4096) {
        const dim3 blocks(1);
        gemm<float><<<blocks, threads>>>(M, N, K, alpha, d_A, d_B, beta, d_C);
    }
    dim3 blocks((N + threads.x - 1) / threads.x, (M + threads.y - 1) / threads.y);
    gemm<float><<<blocks, threads>>>(M, N, K, alpha, d_A, d_B, beta, d_C);
    CHECK(cudaGetLastError());
}
int main() { std::cout << "a program\\n"; }
"""


def square(body: str, head: str = "const float *a, const float *b, float *c, int n") -> str:
    return f"""
__global__ void product({head}) {{
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    {body}
}}
"""


ROWS = "if (row < n && column < n) {{ for (int i = 0; i < n; ++i) sum += {}; c[{}] = sum; }}"
TILED = """
__global__ void tiled(float *C, const float *A, const float *B, int wA, int wB) {
    __shared__ float left[32][32], right[32][32];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * 32 + y, column = blockIdx.x * 32 + x;
    float sum = 0;
    for (int k = 0; k < wA; k += 32) {
        left[y][x] = A[row * wA + k + x];
        right[y][x] = B[(k + y) * wB + column];
        __syncthreads();
        for (int i = 0; i < 32; ++i) sum += left[y][i] * right[i][x];
        __syncthreads();
    }
    C[row * wB + column] = sum;
}
"""


def verdict(folder: Path, text: str, launch: str | None = None) -> list[str]:
    file = folder / "mine.cu"
    file.write_text(text)
    return list(judged(file, launch))


def test_a_launch_in_host_code_is_found_with_its_declarations() -> None:
    first, second = launches(NAIVE + MAIN)
    assert first.line < second.line
    assert second.declarations == (
        "float alpha = 1.5f, beta = 0.5f;",
        "const dim3 threads(32, 8);",
        "dim3 blocks((N + threads.x - 1) / threads.x, (M + threads.y - 1) / threads.y);",
    )
    assert second.kernel == "gemm<float>"
    assert second.arguments == "M, N, K, alpha, d_A, d_B, beta, d_C"


def test_removing_host_code_keeps_line_numbers() -> None:
    text = NAIVE + MAIN
    device = for_the_device(text, {"gemm"})
    assert "__global__ void gemm" in device
    assert "main" not in device
    assert "run(" not in device
    assert device.count("\n") == text.count("\n")
    assert "".join(piece.text for piece in pieces("namespace a { int x; }")) == " int x;"


@pytest.mark.parametrize(
    ("names", "means"),
    [
        (["M", "N", "K", "alpha", "beta"], ["M", "N", "K", "ALPHA", "BETA"]),
        (["m", "k", "n", "lda", "ldb", "ldc"], ["M", "K", "N", "LDA", "LDB", "LDC"]),
        (["wA", "wB"], ["K", "N"]),
        (["numARows", "numACols", "numBCols"], ["M", "K", "N"]),
        (["width"], ["N"]),
        (["m", "n", "p"], ["M", "K", "N"]),
        (["n", "m", "p"], ["M", "K", "N"]),
        (["batch", "M", "N", "K", "strideB"], ["BATCH", "M", "N", "K", "STRIDEB"]),
    ],
)
def test_sizes_are_recognised_by_their_names(names: list[str], means: list[str]) -> None:
    assert list(next(iter(meanings(names))).values()) == means


@pytest.mark.parametrize(
    ("pointers", "means"),
    [
        ({"d_A": "float *", "d_B": "float *", "d_C": "float *"}, "ABC"),
        ({"C": "float *", "A": "float *", "B": "float *"}, "CAB"),
        ({"out": "float *", "x": "const float *", "y": "const float *"}, "CAB"),
    ],
)
def test_matrices_are_recognised_by_name_and_by_const(pointers: dict[str, str], means: str) -> None:
    assert next(iter(matrices(pointers))) == dict(zip(pointers, means, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (NAIVE + MAIN, "gemm: correct"),
        (NAIVE, "gemm: correct"),
        pytest.param(
            TILED, "correct for sizes that are multiples of 32", marks=pytest.mark.exhaustive
        ),
        (
            'extern "C" {'
            + square(ROWS.format("a[row * n + i] * b[i * n + column]", "row * n + column"))
            + "}",
            "product: correct",
        ),
        pytest.param(
            NAIVE.replace("__global__", "__global__ __launch_bounds__(1024)"),
            "gemm: correct",
            marks=pytest.mark.exhaustive,
        ),
        (
            square(ROWS.format("a[row * n + i] * b[column * n + i]", "row * n + column")),
            "correct for a transposed B",
        ),
        pytest.param(
            square(ROWS.format("a[row + i * n] * b[i + column * n]", "row + column * n")),
            "correct for column-major matrices",
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            "#define WIDTH 64\n"
            + square(
                "for (int i = 0; i < WIDTH; ++i) sum += a[row * WIDTH + i] * b[i * WIDTH + column];"
                "c[row * WIDTH + column] = sum;",
                "const float *a, const float *b, float *c",
            ),
            "correct for sizes that are multiples of 16",
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_a_correct_kernel_passes_with_its_layout_and_multiples(
    tmp_path: Path, text: str, says: str
) -> None:
    assert says in verdict(tmp_path, text)[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            square(ROWS.format("a[row * n + i] * b[i * n + column]", "row * n + column")).replace(
                "= sum", "+= sum"
            ),
            "not initialised|not written|uninitialised",
        ),
        (
            TILED.replace("__syncthreads();\n        for", "for"),
            "races with|a barrier may be missing",
        ),
        pytest.param(
            NAIVE.replace("row >= M ||", "row >= N ||"),
            "out of bounds|elements wrong|race|does not store",
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_a_wrong_kernel_is_refused_with_its_cause(tmp_path: Path, text: str, says: str) -> None:
    launch = "gemm<float><<<dim3(CEIL_DIV(N, 16), CEIL_DIV(M, 16)), dim3(16, 16)>>>"
    launch += "(M, N, K, 1.0f, A, B, 0.0f, C)"
    with pytest.raises(KernelFault, match=says):
        verdict(tmp_path, text, launch if "gemm" in text else None)


def test_errors_name_a_missing_or_unknown_kernel(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="no kernel found"):
        verdict(tmp_path, "int main() {}")
    file = tmp_path / "mine.cu"
    file.write_text(TILED)
    with pytest.raises(StudyError, match="--kernel other: not in the file; it contains tiled"):
        list(judged(file, None, "other"))


@pytest.mark.slow
def test_a_printed_launch_is_accepted_as_option_and_files_are_included(tmp_path: Path) -> None:
    (tmp_path / "headers").mkdir()
    (tmp_path / "headers" / "gemm.cuh").write_text(
        "#pragma once\n#include <vector>\ninline int host() { return 1; }\n" + NAIVE
    )
    file = tmp_path / "run.cu"
    file.write_text('#include "gemm.cuh"\n#include "gemm.cuh"\n' + MAIN)
    lines = list(judged(file, folders=[tmp_path / "headers"]))
    assert lines[0].endswith("gemm: correct")
    launch = lines[-1].partition("--launch '")[2].removesuffix("'")
    assert list(judged(file, launch, folders=[tmp_path / "headers"]))[:2] == lines[:2]


@pytest.mark.parametrize(
    ("grid", "tile"),
    [
        (lambda m, n: (-(-m // 96), -(-n // 64)), (96, 64)),
        (lambda m, n: (m // 96, n // 80), (96, 80)),
        (lambda m, n: (-(-m * n // 256),), (1, 256)),
        (lambda m, n: (-(-n // 48),), (checks.ANY, 48)),
    ],
)
def test_the_tile_of_a_block_is_found_from_the_growth_of_the_grid(grid, tile) -> None:
    def configured(shape):
        return SimpleNamespace(grid=grid(shape.m, shape.n))

    trial = SimpleNamespace(reading=SimpleNamespace(is_square=False), configured=configured)
    assert checks.tile_of(trial) == tile


@pytest.mark.parametrize("launch", ["other<<<1, 1>>>(A)", "no launch"])
def test_a_launch_of_a_kernel_that_the_file_lacks_is_refused(tmp_path, launch):
    file = tmp_path / "mine.cu"
    file.write_text(NAIVE)
    with pytest.raises(
        StudyError, match=rf"{re.escape(launch)}: launches no .* 'gemm<<<GRID.* contains gemm$"
    ):
        list(judged(file, launch))


def test_a_pitch_whose_unit_is_unknown_is_refused(tmp_path):
    size = "row * (pitch / sizeof(float))"
    head = "const float *a, const float *b, float *c, int n, int pitch"
    text = square(ROWS.format(f"a[{size} + i] * b[i * n + column]", "row * n + column"), head)
    launch = "product<<<dim3(CEIL_DIV(N, 16), CEIL_DIV(N, 16)), dim3(16, 16)>>>"
    run = "void run(float *A, float *B, float *C, int N, int pitch)"
    host = f"{run} {{\n{launch}(A, B, C, N, pitch);"
    with pytest.raises(StudyError, match=r"^[^\n]*pitch is in bytes or in elements[^\n]*$"):
        verdict(tmp_path, f"#define CEIL_DIV(a, b) ((a + b - 1) / b)\n{text}\n{host}\n}}\n")
    whole = f"{launch}(A, B, C, N, N * sizeof(float))"
    assert "correct" in verdict(tmp_path, text, whole)[0]
