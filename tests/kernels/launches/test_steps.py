"""Products of several launches in order: how they are found, judged, and packed for a GPU."""

import re

import pytest

from base.errors import StudyError
from kernels.launches.expression import main_of, written
from kernels.launches.lines import judged
from kernels.launches.program import Program, write
from kernels.launches.sequences import sequences
from kernels.products.shape import Shape
from tests.support import ROOT

CORRECT = {
    path.stem: re.sub(r"^.*// twin: ?(.*)$", r"\1", path.read_text(), flags=re.MULTILINE)
    for path in (ROOT / "tests/data/judged_kernels").glob("steps_*.cu")
}
SPLIT = CORRECT["steps_split-parts-overlap"]
ATOMIC = CORRECT["steps_atomic-half-of-the-zeros"]
TRANSPOSE = CORRECT["steps_transpose-rows-for-columns"]
APART = CORRECT["steps_apart-c-without-beta"]
WITHOUT_HOST = SPLIT[: SPLIT.index("void multiply")]
FILL = "__global__ void fill(float *x, int n) { if (threadIdx.x < n) x[threadIdx.x] = 1; }\n"
COMPARE = """
__global__ void compare(const float *x, const float *y, int *differs, int n) {
    if (threadIdx.x < n && x[threadIdx.x] != y[threadIdx.x]) *differs = 1;
}
"""
PLAIN = """
__global__ void product(const float *A, const float *B, float *C, int n) { C[0] = A[0] * B[0]; }
"""


def names(text: str, option: str | None = None) -> list[list[str]]:
    return [[step.name for step in steps] for steps in sequences(text, option)]


@pytest.mark.parametrize(
    ("text", "steps", "main"),
    [
        (SPLIT, ["cudaMalloc", "partial_products", "add_parts"], "partial_products"),
        (ATOMIC, ["cudaMemset", "add_products"], "add_products"),
        (TRANSPOSE, ["cudaMalloc", "transpose", "multiply_transposed"], "multiply_transposed"),
    ],
)
def test_the_launches_of_a_product_with_several_steps_are_found_in_order(text, steps, main):
    assert names(text) == [steps]
    assert main_of(sequences(text, None)[0]).name == main


def test_launches_written_as_text_can_be_read_again():
    for text in (SPLIT, ATOMIC, TRANSPOSE):
        (steps,) = sequences(text, None)
        (again,) = sequences(text, written(steps))
        assert written(again) == written(steps)


@pytest.mark.parametrize(
    "launched",
    [
        "fill<<<1, 32>>>(A, n); product<<<1, 1>>>(A, B, C, n);",
        "product<<<1, 1>>>(A, B, C, n); product<<<1, 1>>>(A, B, C, n);",
        "product<<<1, 1>>>(A, B, Cref, n); product<<<1, 1>>>(A, B, C, n); "
        "compare<<<1, 32>>>(C, Cref, differs, n);",
    ],
)
def test_unrelated_launches_do_not_become_steps_of_a_product(launched):
    host = (
        f"void run(float *A, float *B, float *C, float *Cref, int *differs, int n) {{{launched}}}"
    )
    assert names(FILL + COMPARE + PLAIN + host) == []


def test_a_buffer_that_another_function_allocates_is_found():
    host = """
int main() { int m, n; float *parts; cudaMalloc(&parts, 4 * m * n); }
void run(const float *a, const float *b, float *c, float *d_parts, int m, int n, int k) {
    partial_products<<<dim3(n, m), 1>>>(a, b, d_parts, m, n, k, k);
    add_parts<<<m, n>>>(d_parts, c, m * n, 1);
}
"""
    text = WITHOUT_HOST + host
    ((memory, *_),) = sequences(text, None)
    assert memory.arguments == "d_parts, 4 * m * n"


def test_an_error_names_a_buffer_that_nothing_allocates(tmp_path):
    path = tmp_path / "mine.cu"
    path.write_text(WITHOUT_HOST)
    launches = (
        "partial_products<<<dim3(N, M, 2), 1>>>(A, B, W, M, N, K, K); "
        "add_parts<<<M, N>>>(W, C, M * N, 1)"
    )
    with pytest.raises(StudyError, match=r"A, B, W, C; .*allocate others there: cudaMalloc\(&W"):
        list(judged(path, launches))


def test_a_product_with_too_many_launches_is_refused(tmp_path):
    path = tmp_path / "mine.cu"
    path.write_text(ATOMIC)
    launch = "add_products<<<1, 1>>>(A, B, C, M, N, K, K)"
    with pytest.raises(StudyError, match="a product of 10 launches; use at most 8"):
        list(judged(path, "; ".join(9 * ["cudaMemset(C, 0, 4)"] + [launch])))


def program_of(text, folder):
    path = folder / "mine.cu"
    path.write_text(text)
    lines = judged(path)
    try:
        while True:
            next(lines)
    except StopIteration as end:
        (verdict,) = end.value
    return Program(write(verdict, None, folder))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "workspace", "symbols"),
    [
        (SPLIT, 4 * 4 * 40 * 100, ["partial_products", "add_parts"]),
        (ATOMIC, 0, ["host_memset", "add_products"]),
        (APART, 0, ["gemm"]),
    ],
)
def test_the_steps_of_a_product_are_packed_with_their_arguments_for_a_gpu(
    tmp_path, text, workspace, symbols
):
    program, shape = program_of(text, tmp_path), Shape(1, 40, 100, 9)
    assert program.workspace_bytes(shape) == -(-workspace // 256) * 256
    packed = program.packed(shape, [1 << 30, 2 << 30, 3 << 30], 4 << 30)
    assert [re.match(r"_Z\d+(\w+?)(?:PK|Pv|Pf)", each.symbol)[1] for each in packed] == symbols
    pointers = {
        value
        for each in packed
        for argument in each.arguments
        if (value := int.from_bytes(argument, "little") >> 30)
    }
    assert pointers >= ({1, 2, 3, 4} if workspace else {1, 2, 3})


KERNEL = """
static __global__ void gemm(const float *A, const float *B, float *C, int N) {
    const int row = blockIdx.y * 8 + threadIdx.y, column = blockIdx.x * 8 + threadIdx.x;
    if (row >= N || column >= N) return;
    float sum = 0;
    for (int i = 0; i < N; ++i) sum += A[row * N + i] * B[i * N + column];
    C[row * N + column] = sum;
}
// launch: gemm<<<dim3(CEIL_DIV(N, 8), CEIL_DIV(N, 8)), dim3(8, 8)>>>(A, B, C, N)
"""


@pytest.mark.parametrize(
    "text", [KERNEL, "namespace\n{" + KERNEL.replace("static ", "") + "}  // namespace\n"]
)
def test_the_driver_finds_kernels_that_their_file_hides_from_other_files(tmp_path, text):
    (packed,) = program_of(text, tmp_path).packed(Shape.square(64), [1 << 30] * 3)
    assert re.fullmatch(r"_Z\w*4gemmE?PKfS\d?_Pfi", packed.symbol)
