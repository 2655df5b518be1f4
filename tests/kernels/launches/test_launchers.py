"""Launches in other files of a repository, by functions of the host, and under conditions."""

from pathlib import Path

import pytest

from base.errors import StudyError
from kernels.host_execution.binding import KernelFault
from kernels.host_execution.compiler import CompilerError, NotSupported
from kernels.launches.device import for_the_device
from kernels.launches.elsewhere import own, with_launcher
from kernels.launches.in_files import launches, of_file
from kernels.launches.includes import with_includes
from kernels.launches.infer import unknown
from kernels.launches.lines import judged, judged_or_assumed
from kernels.launches.pieces import kernels_of
from kernels.launches.shim import scope_of
from kernels.launches.verdict import judge, kernels_to_judge
from tests.support import for_make_test, for_test_all

# A tile of T x T elements of C by T * T threads in a row; the file does not say what T is.
TILED = """template <int T>
__global__ void tiled(const float *left, const float *right, float *out, int M, int N, int K) {
    const int row = blockIdx.y * T + threadIdx.x / T, column = blockIdx.x * T + threadIdx.x % T;
    float sum = 0;
    for (int i = 0; i < K && row < M && column < N; ++i)
        sum += left[row * K + i] * right[i * N + column];
    if (row < M && column < N) out[row * N + column] = sum;
}
"""
RUNNER = """#include "kernels/tiled.cuh"
void run(const float *a, const float *b, float *c, int m, int n, int k) {
    constexpr int EDGE = 8;
    dim3 blocks;
    blocks = dim3((n + EDGE - 1) / EDGE, (m + EDGE - 1) / EDGE);
    tiled<EDGE><<<blocks, EDGE * EDGE>>>(a, b, c, m, n, k);
}
"""
PLAIN = TILED.replace("template <int T>\n", "#define T 8\n")


def repository(folder: Path, files: dict[str, str]) -> Path:
    """Write the files of a clone; return the first one."""
    (folder / ".git").mkdir()
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder / next(iter(files))


def with_its_launcher(path: Path) -> str:
    return with_launcher(path, with_includes(path, path.read_text()))


def calls(text: str) -> list[str]:
    return [launch.call for launch in launches(text)]


def test_the_launch_is_found_in_the_file_that_includes_the_kernel(tmp_path):
    path = repository(tmp_path, {"src/kernels/tiled.cuh": TILED, "src/runner.cu": RUNNER})
    text = "\n".join(judged(path))
    assert "tiled.cuh: tiled: correct\n" in text
    assert "launch (found at line 6 of runner.cu): --launch 'constexpr int EDGE = 8; dim3" in text
    assert "tiled<EDGE><<<blocks, EDGE * EDGE>>>(a, b, c, m, n, k)" in text


def test_macros_of_a_launching_file_apply_but_its_own_kernels_are_not_judged(tmp_path):
    kernel = TILED.replace("template <int T>\n", "")
    runner = "#define T 8\n" + RUNNER.replace("<EDGE><", "<").replace("tiled.cuh", "tiled.cu")
    more = kernel.replace("tiled", "another") + runner.replace("tiled<", "another<")
    more = runner + more.replace('#include "kernels/tiled.cu"\nvoid run', "void run_another")
    path = repository(tmp_path, {"kernels/tiled.cu": kernel, "runner.cu": more})
    text = with_its_launcher(path)
    assert text.index("#define T 8") < text.index("void tiled")
    assert "another" in text
    assert "another" not in own(text)
    assert kernels_to_judge(path, text, None, None) == ["tiled"]


@pytest.mark.parametrize(("kind", "is_used"), [("float", True), ("double", False)])
def test_the_launch_is_found_in_a_file_that_declares_the_kernel(tmp_path, kind, is_used):
    inputs = f"const {kind} *, const {kind} *"
    declaration = f"__global__ void tiled({inputs}, {kind} *, int, int, int);\n"
    runner = declaration + RUNNER.partition("\n")[2].replace("tiled<EDGE>", "tiled")
    both = '#include "side.cuh"\n'
    files = {"fp32/tiled.cu": both + PLAIN, "main.cu": both + runner, "side.cuh": "int side;\n"}
    text = with_its_launcher(repository(tmp_path, files))
    assert ("<<<blocks, EDGE * EDGE>>>" in text) == is_used
    assert text.count("int side;") == 1


def test_unrelated_files_are_not_taken_as_launching_the_kernel(tmp_path):
    unrelated = RUNNER.replace('#include "kernels/tiled.cuh"', PLAIN.replace("sum = 0", "sum = 1"))
    path = repository(tmp_path, {"tiled.cu": PLAIN, "other/main.cu": unrelated})
    assert with_its_launcher(path) == PLAIN
    (tmp_path / ".git").rmdir()  # no repository
    (tmp_path / "runner.cu").write_text(RUNNER.replace("kernels/tiled.cuh", "a/tiled.cu"))
    (tmp_path / "a").mkdir()
    (tmp_path / "a/tiled.cu").write_text(PLAIN)
    assert with_its_launcher(tmp_path / "a/tiled.cu") == PLAIN


def test_a_launch_uses_assigned_values_and_its_own_branch_of_an_if():
    text = """void run(float *A, float *B, float *C, int n) {
    dim3 grid, block;
    int rows;
    rows = 1000;
    block.x = 4;
#if KERNEL == 1
    block = dim3(8, 8);
#else
    block = dim3(32, 32);
#endif
#if KERNEL == 2
    block = dim3(16, 16);
#elif KERNEL == 1
    grid = dim3(n / 8, rows / 8);
    k<<<grid, block>>>(A, B, C, n);
#endif
}"""
    (launch,) = launches(text)
    assert launch.declarations == (
        "dim3 grid, block;",
        "int rows;",
        "rows = 1000;",
        "block = dim3(8, 8);",
        "grid = dim3(n / 8, rows / 8);",
    )
    assert "rows = 1000;" not in scope_of(text, [launch]).statements(launch)


def test_a_launch_uses_values_changed_under_conditions_and_changed_parameters(tmp_path):
    text = """
void run(const float *a, const float *b, float *c, int m, int n, int k, int block) {
    block = T * T;
    dim3 grid(n / T), others;
    if (n % (T * (1)) != 0) grid.x++;
    for (int i = 0; i < 9; ++i) grid.x += 1;
    if (m > 5) { others = grid; m += 0; }
    if (m % T) { grid.y = m / T + 1; } else grid.y = m / T;
    tiled<<<grid, block>>>(a, b, c, m, n, k);
}
"""
    text = PLAIN.replace("#define T 8", "#define T 12") + text
    (launch,) = launches(text)
    assert launch.declarations == (
        "int block = T * T;",
        "dim3 grid(n / T), others;",
        "if (n % (T * (1)) != 0) grid.x++;",
        "if (m % T) grid.y = m / T + 1; else grid.y = m / T;",
    )
    path = repository(tmp_path, {"tiled.cu": text})
    assert "tiled: correct\n" in "\n".join(judged(path))


@pytest.mark.parametrize("call", ["run<16>(a, b, c, 64, plan)", "auto chosen = run<16>"])
def test_a_launch_in_a_host_template_with_a_stream_is_read(call):
    text = """template <int EDGE> void run(float *A, float *B, float *C, int n, Plan *plan,
    int blockHeight = 8) {
    k<EDGE><<<n / EDGE, EDGE * blockHeight, 0, plan[0].stream>>>(A, B, C, n);
}
int main() { CALL; }"""
    (launch,) = launches(text.replace("CALL", call))
    assert launch.call == "k<EDGE><<<n / EDGE, EDGE * blockHeight, 0>>>(A, B, C, n)"
    assert launch.declarations == ("constexpr int EDGE = 16;", "constexpr int blockHeight = 8;")


def test_host_constants_that_are_passed_as_sizes_are_varied():
    text = (
        PLAIN
        + """int main() {
    float *A, *B, *C;
    const int PROBLEM = 4096, UP = 4096, IN_K = 4096, THREADS = 64;
    tiled<<<dim3(PROBLEM / 8, UP / 8), THREADS>>>(A, B, C, PROBLEM, PROBLEM, PROBLEM);
}"""
    )
    assert scope_of(text, of_file(text, None)).numbers == {"PROBLEM": "int", "UP": "int"}


def test_pointers_outside_of_functions_are_matrices():
    text = f"""extern float *left;
float *right, *to;
{PLAIN}void run(int n) {{ tiled<<<n / 8, 64>>>(left, right, to, n, n, n); }}"""
    assert [*scope_of(text, of_file(text, None)).pointers] == ["left", "right", "to"]


def test_type_aliases_in_a_function_are_kept_with_the_launch():
    text = """void run(float *A, float *B, float *C, int n) {
    constexpr int EDGE = 8;
    using Block = Tile<EDGE>;
    k<Block><<<n / EDGE, 64>>>(A, B, C, n);
}"""
    (launch,) = launches(text)
    assert launch.declarations == ("constexpr int EDGE = 8;", "using Block = Tile<EDGE>;")


BY_FUNCTIONS = {
    "a function": """template <typename Kernel, typename... Arguments>
void start(Kernel kernel, int blocks, int threads, int bytes, Arguments... given) {
    kernel<<<blocks, threads, bytes>>>(given...);
}
void run(float *A, float *B, float *C, int n) {
    auto chosen = k<8>;
    start(chosen, n / 8, 64, 1 << 10, A, B, C, n);
}""",
    "blocks from a caller": """
void start(float *A, float *B, float *C, int rows, dim3 blocks, const dim3 &threads) {
    k<8><<<blocks, threads, 1 << 10>>>(A, B, C, rows);
}
void run(float *A, float *B, float *C, int n) { start(A, B, C, n, n / 8, 64); }""",
    "the runtime": """void run(float *A, float *B, float *C, int n) {
    void *given[] = {&A, (void *)&B, &C, &n};
    cudaLaunchKernel((const void *)k<8>, n / 8, 64, given, 1 << 10, 0);
}""",
    "the runtime with attributes": """void run(float *A, float *B, float *C, int n) {
    cudaLaunchConfig_t how = {};
    how.gridDim = n / 8;
    how.blockDim = 64;
    how.dynamicSmemBytes = 1 << 10;
    cudaLaunchKernelEx(&how, k<8>, A, B, C, n);
}""",
}


@pytest.mark.parametrize("text", BY_FUNCTIONS.values(), ids=BY_FUNCTIONS)
def test_launches_by_functions_of_the_cuda_runtime_are_found(text):
    assert calls(text) == ["k<8><<<n / 8, 64, 1 << 10>>>(A, B, C, n)"]


def test_a_launch_by_a_macro_is_found(tmp_path):
    macro = "#define START(kernel, blocks, ...) \\\n    kernel<<<blocks, 64>>>(__VA_ARGS__)\n"
    runner = CALLED.replace("tiled<<<", "START(tiled, ").replace(", 64>>>(", ", ")
    path = repository(tmp_path, {"mine.cu": PLAIN + macro + runner})
    assert "launch (found at line 13): --launch 'tiled<<<dim3((N" in "\n".join(judged(path))


def test_aliases_of_pointer_types_are_resolved(tmp_path):
    text = "using In = const float *;\n" + PLAIN.replace("const float *l", "In l")
    path = repository(tmp_path, {"tiled.cu": text.replace("const float *r", "In r")})
    assert "tiled: correct" in "\n".join(judged(path))


def test_global_host_variables_used_as_sizes_are_varied():
    text = (
        PLAIN
        + """int N = 100, K = 100;
const int M = 100;  // hidden by the kernel's parameter
float row_of[M];
int main() { float *A, *B, *C; tiled<<<dim3(N / 8, M / 8), 64>>>(A, B, C, M, N, K); }"""
    )
    assert set(scope_of(text, of_file(text, None)).numbers) == {"M", "N", "K"}


SUM = """__global__ void add_product(const float *A, const float *B, const float *C, float *D,
                            int M, int N, int K) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    for (int column = 0; column < N; ++column) {
        float sum = 0;
        for (int i = 0; i < K; ++i) sum += A[row * K + i] * B[i * N + column];
        D[row * N + column] = C[row * N + column] + sum;
    }
}
// launch: add_product<<<M / 64, 64>>>(A, B, C, D, M, N, K)
"""


@pytest.mark.slow
@pytest.mark.parametrize("rows", [64, pytest.param(256, marks=pytest.mark.exhaustive)])
def test_a_kernel_may_add_a_matrix_without_factor_in_a_long_loop(tmp_path, rows):
    path = repository(tmp_path, {"sum.cu": SUM.replace("64", f"{rows}")})
    assert f"correct for sizes that are multiples of {rows}" in next(judged(path))
    path.write_text(SUM.replace("] + sum", "] - sum"))
    with pytest.raises(StudyError, match="elements wrong"):
        list(judged(path))


COMPARISON = """__global__ void compare(const float *a, const float *b, int *differences, int n) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n && a[i] != b[i]) atomicAdd(differences, 1);
}
void check(float *a, float *b, int *d, int n) {
    cudaMemset(d, 0, sizeof(int));
    compare<<<(n + 255) / 256, 256>>>(a, b, d, n);
}
"""


def test_kernels_that_sum_nothing_are_not_judged_as_products(tmp_path):
    path = tmp_path / "mine.cu"
    assert kernels_to_judge(path, COMPARISON + PLAIN, None, None) == ["tiled"]
    with pytest.raises(StudyError, match="no kernel takes three matrices: compare"):
        kernels_to_judge(path, COMPARISON, None, None)


RUN = """#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
void run(float *A, float *B, float *C, int M, int N, int K) {
    dim3 grid(CEIL_DIV(N, 8), CEIL_DIV(M, 8));
    tiled<<<grid, 28>>>(A, B, C, M, N, K);
    tiled<<<grid, 64>>>(A, B, C, M, N, K);
}
"""


@pytest.mark.slow
def test_of_several_launches_the_correct_one_counts(tmp_path):
    judgement = judge(tmp_path / "tiled.cu", PLAIN + RUN, "tiled")
    assert (judgement.multiple, judgement.source.main.line) == (1, 13)


@pytest.mark.slow
def test_a_correct_kernel_passes_if_its_size_names_have_another_meaning(tmp_path):
    text = PLAIN.replace("N", "P").replace("M", "N").replace("P", "M")  # the rows are N
    launch = "tiled<<<dim3(CEIL_DIV(M, 8), CEIL_DIV(N, 8)), 64>>>(A, B, C, N, M, K)"
    assert judge(tmp_path / "tiled.cu", text, "tiled", launch).multiple == 1


def test_a_guessed_launch_names_sizes_as_its_grid_does(tmp_path):
    text = PLAIN.replace("N", "P").replace("K", "N")  # A is M x N, and B is N x P
    text = text.replace("threadIdx.x / T", "threadIdx.y").replace("threadIdx.x % T", "threadIdx.x")
    verdict = judge(tmp_path / "tiled.cu", text, "tiled")
    assert verdict.multiple == 1
    assert verdict.source.main.arguments == "left, right, out, M, N, K"


CALLED = """
void run(const float *A, const float *B, float *C, int M, int N, int K) {
    tiled<<<dim3((N + 7) / 8, (M + 7) / 8), 64>>>(A, B, C, M, N, K);
}
"""
ADDS_ONE = ("sum = 0", "sum = 1")
FIRST_OF_BOTH = "sum = (column ? 0 : left[row * K]) + (row ? 0 : right[column])"
STORED = "out[row * N + column] = sum"
# Edits of a kernel and its launch, and what the file does not say.
UNSAID = {
    "a factor": (
        [
            ("int K)", "int K, float share)"),
            ("= sum;", "= sum * share;"),
            ("N, K);", "N, K, 0.5f);"),
        ],
        "the meaning of share is unknown",
    ),
    "blocks for one size": (
        [("(M + 7) / 8", "16"), ADDS_ONE],
        "has a number of blocks that is for one size",
    ),
    "a literal of the host": (
        [
            (
                "int M, int N, int K) {\n    const",
                "int N, int share) {\n    int M = N, K = N; const",
            ),
            ("int M, int N, int K) {\n    tiled", "int N) {\n    int rows = 8; tiled"),
            ("(M + 7) / 8", "(N + 7) / rows"),
            ("M, N, K);", "N, rows);"),
            ADDS_ONE,
        ],
        "the meaning of share is unknown",
    ),
    "a bias": (
        [("int M", "float *bias, int M"), ("sum = 0", "sum = *bias"), ("C, M, N", "C, bias, M, N")],
        "gets no bias",
    ),
    "what C contains": (
        [(STORED, STORED.replace("=", "+=")), ADDS_ONE],
        "reads a matrix that its file sets",
    ),
    "a constant of another file": (
        [("sum = 0", "sum = ONE")],
        "ONE of other.cuh was assumed, which .*tiled.cu does not include",
    ),
    "a part of a matrix": (
        [("left[row * K + i]", "left[row * K + i - 1]"), ("(A, B, C", "(A + 1, B, C")],
        r"gets a part of a matrix, A \+ 1",
    ),
    "threads": (
        [
            ("int K) {\n    tiled", "int K, int threads) {\n    tiled"),
            ("64>>>", "threads>>>"),
            ADDS_ONE,
        ],
        "gets threads from a caller",
    ),
    "rows": (
        [("const float *right", "const float *const *right"), ("[i * N + column]", "[i][column]")],
        "is a pointer to rows",
    ),
    "no product": (
        [("sum += left[row * K + i] * right[i * N + column]", FIRST_OF_BOTH)],
        "is not a product of matrices",
    ),
    "a long loop": (
        [("for (int i = 0", "for (int j = 0; j < 20000; ++j) for (int i = 0")],
        "does this loop end?.*; host execution counts no more",
    ),
    "too many numbers": (
        [(CALLED, ""), ("int K)", "int K, int p, int q, int r, int t, int u, int v)"), ADDS_ONE],
        "the meaning of its parameter p is unknown",
    ),
    "an activation": (
        [("= sum;", "= sum > 0 ? sum : 0;")],
        r"is not a product of matrices: it stores 0 for negative elements of A·B \(ReLU\)",
    ),
    "a first row": (
        [(CALLED, ""), ("int K)", "int K, int first)"), ADDS_ONE],
        "the meaning of its parameter first is unknown",
    ),
}


SLOW_CASES = {"a factor", "a constant of another file", "threads", "no product", "a first row"}
SLOW_CASES |= {"blocks for one size", "an activation", "a literal of the host", "a long loop"}
SLOW_JUDGED = {"sizes with names of others", "strides of a batch", "equal sizes", "adds to C"}


@pytest.mark.slow
@pytest.mark.parametrize(("edits", "reason"), for_make_test(UNSAID, *UNSAID.keys() - SLOW_CASES))
def test_a_kernel_is_not_called_wrong_if_the_file_leaves_its_launch_open(tmp_path, edits, reason):
    text = PLAIN + CALLED
    for before, after in edits:
        assert before in text
        text = text.replace(before, after)
    repository(tmp_path, {"other.cuh": "constexpr int ONE = 1;"})
    with pytest.raises(NotSupported, match=reason):
        judge(tmp_path / "tiled.cu", text, "tiled")


# Edits of a kernel and its launch, and the verdict.
JUDGED = {
    "adds to C": ([(STORED, STORED.replace("=", "+="))], "with the sum in C (C += A·B)"),
    "reads C": ([(STORED, f"{STORED} + 0 * out[row * N + column]")], "with finite numbers in C"),
    "a function of a file that is not included": (
        [("sum = 0", "sum = rest(0)")],
        "not included, but found in the repository: rest of more.cuh\n",
    ),
    "equal sizes": (
        [("right[i * N", "right[i * K"), ("    tiled<", "    assert(M == N && N == K); tiled<")],
        "correct with M = N = K\n",
    ),
    "memory of a function": (
        [
            ("float sum", "extern __shared__ float memory[]; memory[threadIdx.x] = row; float sum"),
            ("void run", "int bytes() { cudaGetDevice(0); int n = 64; return n * 4; }\nvoid run"),
            ("    tiled<", "    static int size = bytes(); tiled<"),
            ("64>>>", "64, size>>>"),
        ],
        "tiled: correct\n",
    ),
    "a number of the command line": (
        [
            ("int K) {\n    const", "int K, int last) {\n    const"),
            ("int K) {\n    tiled", "int K, char **argv) {\n    int n = atoi(argv[1]); tiled"),
            ("N, K);", "N, K, n);"),
        ],
        "tiled: correct\n",
    ),
}
JUDGED |= {
    "unused factors": (
        [("int K) {\n    const", "int K, float alpha) {\n    const"), ("N, K);", "N, K, 2.0f);")],
        "correct with unused alpha\n",
    ),
    "a macro of the build": (
        [("#define T 8\n", "#if FAST\n#define T 8\n"), ("N, K);\n}", "N, K);\n}\n#endif")],
        "checked with -D FAST\n",
    ),
    "columns": (
        [
            ("right[i * N + column]", "right[column * K + i]"),
            ("row * N + column", "column * M + row"),
        ],
        "correct for columns of B and C\n",
    ),
    "columns of C": ([(STORED, "out[column * M + row] = sum")], "correct for columns of C\n"),
    "strides of a batch": (
        [
            ("int K) {\n    const", "int K, int batch_stride_a, int batch_stride_b) {\n    const"),
            ("float sum", "right += blockIdx.z * batch_stride_b; float sum"),
            ("left[row", "left[blockIdx.z * batch_stride_a + row"),
            ("out[row", "out[blockIdx.z * M * N + row"),
            ("(M + 7) / 8)", "(M + 7) / 8, 3)"),
            ("N, K);", "N, K, M * K, K * N);"),
        ],
        "tiled: correct\n",
    ),
    "members of matrices": (
        [
            ("(N + 7) / 8, (M + 7)", "(c.cols + 7) / 8, (c.rows + 7)"),
            ("(A, B, C, M, N, K);", "(a.data, b->data, c.data, c.rows, c.cols, b->rows);"),
        ],
        "tiled: correct\n",
    ),
    "a flag": (
        [
            ("int K) {\n    const", "int K, bool is_short) {\n    const"),
            ("i < K &&", "i < (is_short ? 1 : K) &&"),
            ("N, K);", "N, K, false);"),
        ],
        "tiled: correct\n",
    ),
    "sizes with names of others": (
        [
            ("#define T 8\n", "#define T 8\n#define N 100\n#define M 200\n#define K 300\n"),
            (", int M, int N, int K) {\n    const", ") {\n    const"),
            ("i < K && row < M && column < N", "i < M && row < N && column < K"),
            ("row * K + i] * right[i * N", "row * M + i] * right[i * K"),
            ("(row < M && column < N) out[row * N", "(row < N && column < K) out[row * K"),
            (", int M, int N, int K) {\n    tiled", ") {\n    tiled"),
            (
                "(N + 7) / 8, (M + 7) / 8), 64>>>(A, B, C, M, N, K)",
                "(K + 7) / 8, (N + 7) / 8), 64>>>(A, B, C)",
            ),
        ],
        "tiled: correct\n",
    ),
}
OTHERS = {
    "more.cuh": "KEEPS int rest(int value) { return value; }",
    "other.cuh": "#define KEEPS __device__",
}


@pytest.mark.slow
@pytest.mark.parametrize(("edits", "verdict"), for_make_test(JUDGED, *JUDGED.keys() - SLOW_JUDGED))
def test_statements_of_the_host_before_a_launch_are_taken_into_account(tmp_path, edits, verdict):
    text = PLAIN + CALLED
    for before, after in edits:
        assert before in text
        text = text.replace(before, after)
    path = repository(tmp_path, {"tiled.cu": text, **OTHERS})
    assert verdict in "\n".join(judged(path))


def test_a_fault_names_the_file_and_line_of_the_kernel(tmp_path):
    kernel = PLAIN.replace("if (row < M && ", "if (")
    files = {"mine.cu": f'#include "side.cuh"\n{CALLED}', "side.cuh": f"// Above.\n{kernel}"}
    text = "\n".join(judged(repository(tmp_path, files)))
    assert "at other sizes: side.cuh:8: tiled, block" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("(N + 7) / 8, (M", "(M + 7) / 8, (N", "for M = N, because the launch exchanges x and y"),
        for_test_all("(N + 7) / 8, (M", "(M + 7) / 8, (M", "for M = N; launched"),
        for_test_all("right[i * N", "right[i * K", "for M = N = K; launched"),
        for_test_all(*ADDS_ONE, r"\(at size \S+\); launched"),
    ],
)
def test_a_fault_says_if_the_kernel_is_correct_for_equal_sizes(tmp_path, before, after, reason):
    text = PLAIN + CALLED
    assert before in text
    path = repository(tmp_path, {"tiled.cu": text.replace(before, after)})
    with pytest.raises(KernelFault, match=reason):
        list(judged(path))


@pytest.mark.exhaustive
def test_a_kernel_whose_threads_compute_whole_rows_passes(tmp_path):
    text = """__global__ void rows(const float *A, const float *B, float *C, int n) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    for (int column = 0; row < n && column < n; ++column) {
        float sum = 0;
        for (int i = 0; i < n; ++i) sum += A[row * n + i] * B[i * n + column];
        C[row * n + column] = sum;
    }
}
void run(const float *A, const float *B, float *C, int n) {
    rows<<<(n + 255) / 256, 256>>>(A, B, C, n);
}"""
    assert judge(tmp_path / "rows.cu", text, "rows").multiple == 1
    endless = judge(tmp_path / "rows.cu", text.replace("++i)", "i += 0)"), "rows")
    assert "does this loop end?" in str(endless.fault)


# Static shared memory of an extern "C" kernel.
STATIC = PLAIN.replace("__gl", 'extern "C" __gl').replace(") {", ") { __shared__ float s[8];")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (PLAIN.replace("int K)", "int K, int pace)"), "the meaning of its parameter pace"),
        (TILED.replace("int T", "int T, int DEPTH"), "the numbers of its template (T, DEPTH)"),
        (PLAIN + "extern __shared__ float s[];", "the size of its dynamic shared memory"),
        (STATIC, "none that was tried gives a product"),
    ],
)
def test_a_refusal_says_what_about_the_launch_is_unknown(text, reason):
    assert unknown(kernels_of(text)["tiled"], text).startswith(reason)


@pytest.mark.slow
def test_a_branch_on_unset_c_is_a_fault_but_a_load_without_effect_is_not(tmp_path):
    launch = "tiled<<<dim3(CEIL_DIV(N, 8), CEIL_DIV(M, 8)), 64>>>(A, B, C, M, N, K)"
    branch = "if (row < M && column < N && out[row * N + column] != 0) out["
    text = PLAIN.replace("if (row < M && column < N) out[", branch)
    fault = judge(tmp_path / "tiled.cu", text, "tiled", launch).fault
    without_effect = text.replace("!= 0) out", "== sum) sum += 0; if (row < M && column < N) out")
    assert judge(tmp_path / "tiled.cu", without_effect, "tiled", launch).multiple == 1
    assert "is uninitialised: nothing was stored there" in str(fault)


# 256 threads, and 64 KiB of shared memory, which the file does not say.
MUCH_MEMORY = """
__global__ void multiply(const float *A, const float *B, float *C, int M, int N, int K) {
    extern __shared__ float rows[];
    const int column = blockIdx.x * 64 + threadIdx.x % 64, first = blockIdx.y * 64;
    for (int k = 0; k < K; k += 256) {
        const int place = k + threadIdx.x;
        for (int row = 0; row < 64; ++row)
            rows[row * 256 + threadIdx.x] = place < K ? A[(first + row) * K + place] : 0;
        __syncthreads();
        for (int row = threadIdx.x / 64; row < 64; row += 4) {
            float sum = k ? C[(first + row) * N + column] : 0;
            for (int i = 0; i < 256 && k + i < K; ++i)
                sum += rows[row * 256 + i] * B[(k + i) * N + column];
            C[(first + row) * N + column] = sum;
        }
        __syncthreads();
    }
}
"""


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_kernel_with_unknown_shared_memory_is_not_called_wrong(tmp_path):
    with pytest.raises(NotSupported, match="the size of its dynamic shared memory is unknown"):
        judge(tmp_path / "much.cu", MUCH_MEMORY, "multiply")
    launch = "multiply<<<dim3(N / 64, M / 64), 256, 1 << 16>>>(A, B, C, M, N, K)"
    assert judge(tmp_path / "much.cu", MUCH_MEMORY, "multiply", launch).multiple == 64


UNDER_A_MODE = """__global__ void gemm(
    const float *A, const float *B, float *C, int M, int N, int K, int flag) {
    __shared__ float sums[64][64];
    for (int i = threadIdx.y; i < 64; i += 4)
        for (int j = threadIdx.x; j < 64; j += 32) {
            const int row = blockIdx.y * 64 + i, column = blockIdx.x * 64 + j;
            sums[i][j] = 0;
            for (int k = 0; k < K && row < M && column < N; ++k)
                sums[i][j] += A[row * K + k] * B[k * N + column];
            if (row < M && column < N) C[row * N + column] = sums[i][j] * (flag & 1);
        }
}
void run(const float *A, const float *B, float *C, int M, int N, int K, const char *mode) {
    int flag = 0;
    if (*mode == 'N') flag |= 1;
    dim3 grid((N + 63) / 64, (M + 63) / 64), block(32, 4);
    gemm<<<grid, block>>>(A, B, C, M, N, K, flag);
}
"""


@pytest.mark.exhaustive
def test_a_kernel_whose_launch_cannot_be_evaluated_is_not_called_wrong(tmp_path):
    path = repository(tmp_path, {"mine.cu": UNDER_A_MODE})
    with pytest.raises(CompilerError, match="‘mode’ was not declared"):
        list(judged(path))


def test_an_error_names_a_launch_that_is_not_understood(tmp_path):
    text = (
        MUCH_MEMORY
        + """int main(int argc, char **argv) {
    float *A, *B, *C;
    int M = atoi(argv[1]), N = atoi(argv[2]), K = 64;
    dim3 grid(atoi(argv[3]));
    multiply<<<grid, 256, 1 << 16>>>(A, B, C, M, N, K);
}"""
    )
    with pytest.raises(CompilerError, match="its launch: ‘argv’ was not declared"):
        judge(tmp_path / "much.cu", text, "multiply")


def test_removed_host_code_leaves_only_empty_lines():
    host = "int main() {\n" + "    use_a_library();\n" * 9 + "}\n"
    code = for_the_device(host + PLAIN, {"tiled"})
    assert code == "\n" * host.count("\n") + PLAIN


def test_tensor_maps_are_refused_by_name(tmp_path):
    text = "__global__ void multiply(const __grid_constant__ CUtensorMap a, float *c) { for (;;); }"
    path = repository(tmp_path, {"mine.cu": text})
    with pytest.raises(NotSupported, match="take a CUtensorMap"):
        kernels_to_judge(path, text, None, None)
    (line,) = judged_or_assumed(path, None, None, (), ())
    assert line.startswith("not checked on the CPU: ")
