"""Which function of a Python file multiplies, what is assumed, and what it needs of the file."""

import ast

import pytest

from base.errors import StudyError
from kernels.catalog.python_calls import needed
from kernels.catalog.user_supplied import called, name_of
from tests.support import ROOT

FOLDER = ROOT / "tests/data/python_kernels"
MULTIPLY = ["multiply(a, b, c, stream), float32"]
ASSUMED = {
    "triton_tutorial": ["line 66: matmul(a, b) returns C, arrays of torch",
        "line 8: elements are float16; times include the conversions"],
    "triton_tiles": ["line 34: matmul(a, b) returns C, arrays of torch"],
    "cupy_matmul": MULTIPLY,
    "cupy_raw_kernel": ["line 22: matmul_gpu(A, B) returns C, arrays of cupy"],
    "numba_naive": ["line 10: fast_matmul(A, B, C) a kernel, arrays of numba",
        "line 36: blocks of 16x16 threads"],
    "numba_launcher": ["line 16: multiply(a, b, out) stores C, arrays of numba"],
    "numba_no_bounds": ["line 17: matmul(a, b) returns C, arrays of numba"],
    "torch_addmm": ["line 6: matmul_into(a, b, out) stores C, arrays of torch"],
    "torch_half": MULTIPLY,
    "torch_matmul": ["line 12: matmul(x, y) returns C, arrays of torch"],
}  # fmt: skip


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_the_product_function_of_a_python_file_is_found_and_assumptions_are_stated(path):
    facts, assumed = called(path, path.read_text())
    assert assumed == ASSUMED[path.stem]
    assert (facts is None) == (assumed == MULTIPLY)


def test_only_statements_that_the_product_function_needs_are_executed():
    def names(stem, function):
        tree = ast.parse((FOLDER / f"{stem}.py").read_text())
        return [ast.unparse(each).split("\n")[-1].strip() for each in needed(tree, function)]

    kept = names("triton_tutorial", "matmul")
    assert kept[:4] == [
        "import torch",
        "import triton",
        "import triton.language as tl",
        "ELEMENT = torch.float16",
    ]
    assert kept[-1] == "torch.manual_seed(0)"
    assert len(kept) == 9
    kept = names("torch_matmul", "matmul")
    assert kept[0] == "import torch"
    assert kept[1] == "torch.backends.cuda.matmul.allow_tf32 = False"
    assert len(kept) == 3
    assert names("numba_naive", "fast_matmul")[1] == "TPB = 16"


KERNEL = "@cuda.jit\ndef {}(a, b, c):\n    {}\n"
NUMBA = "from numba import cuda\n"


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("def matmul(a, b):\n    return a @ b\ndef test_matmul(a, b):\n    return 1\n", "matmul"),
        ("def add(a, b):\n    return a + b\ndef my_gemm(a, b):\n    return a @ b\n", "my_gemm"),
        ("def ref_mm(x, w):\n    return x @ w\n"
         "def fast(x, w, *, relu=False):\n    return x\n", "fast"),
        ("def mm(a, b, out):\n    out += a @ b\n", "mm"),
        ("async def f(a, b): return 1\ndef g(a, b, bias): return 1\n"
         "def h(a, b, n=3): return 1\n", "h"),
        ("@torch.compile\ndef matmul(a, b):\n    return a @ b\n", "matmul"),
        ("@triton.jit\ndef matmul_kernel(a, b, c):\n    pass\n"
         "def run(a, b):\n    matmul_kernel[1](a, b)\n    return b\n"
         "def matmul_torch(a, b):\n    return a @ b\n", "run"),
    ],
)  # fmt: skip
def test_of_several_functions_the_likeliest_product_is_chosen(tmp_path, text, function):
    facts, _ = called(tmp_path / "file.py", "import torch, triton\n" + text)
    assert facts.function == function


@pytest.mark.parametrize(
    ("body", "launch", "x_is_row", "threads"),
    [
        ("i, j = cuda.grid(2); c[i, j] = 0", "matmul[(1, 1), (TPB, 8)](a, a, a)", True, (32, 8)),
        ("x, y = cuda.grid(2); c[y, x] = 0", "matmul[1, (4, 2 * 4)](a, a, a)", False, (4, 8)),
        ("i = cuda.grid(1); c[i // 3, i % 3] = 0", "matmul[n, TPB](a, a, a)", None, (32,)),
        ("c[0, 0] = 0", "matmul[n, n](a, a, a)", None, (16, 16)),
    ],
)
def test_threads_of_a_numba_kernel_are_read_from_its_launch(
    tmp_path, body, launch, x_is_row, threads
):
    text = NUMBA + "TPB = 32\n" + KERNEL.format("matmul", body) + f"def main(a, n):\n    {launch}\n"
    facts, assumed = called(tmp_path / "file.py", text)
    assert (facts.form, facts.x_is_row, facts.threads) == ("kernel", x_is_row, threads)
    assert assumed[1].startswith("assumed: " if launch.endswith("n](a, a, a)") else "line 7: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import torch\n", "1: no function takes two matrices and returns one, or takes three; or"),
        ("import torch\ndef f(a, b):\n    pass\n", "1: no function takes two"),
        ("import torch\ndef reduce(inp, group):\n    return 1\n", "1: no function takes two"),
        ("def matmul(a, b):\n    return a @ b\n", "1: imports none of torch, triton, cupy and"),
        (NUMBA + KERNEL.format("mm_a", "pass") + KERNEL.format("mm_b", "pass"),
         "1: several functions may be the product: mm_a, mm_b; name one with --kernel"),
        ("import torch\ndef f(:\n", "2: .* \\(Python\\)"),
    ],
)  # fmt: skip
def test_a_file_without_exactly_one_product_function_is_a_one_line_error(tmp_path, text, message):
    with pytest.raises(StudyError, match=rf"file\.py:{message}"):
        called(tmp_path / "file.py", text)


@pytest.mark.parametrize(
    ("inside", "after", "elements"),
    [
        ("", "", "float32"),
        ("a = a.to(torch.bfloat16)", "x = torch.float32", "bfloat16"),
        ("a = a.half()", "", "float16"),
        ("t = torch.float32", "x = torch.rand(3, dtype=torch.float16)", "float16"),
        ("", "for t in (torch.float32, torch.float16): pass", "float32"),
    ],
)
def test_the_element_type_is_read_from_the_python_file(tmp_path, inside, after, elements):
    text = f"import torch\ndef mm(a, b):\n    {inside or 'pass'}\n    return a @ b\n{after}\n"
    facts, assumed = called(tmp_path / "file.py", text)
    assert facts.elements == elements
    assert len(assumed) == 1 + (elements != "float32")


def test_an_option_selects_one_of_several_functions(tmp_path):
    text = NUMBA + KERNEL.format("mm_a", "pass") + KERNEL.format("mm_b", "pass")
    assert called(tmp_path / "file.py", text, "mm_b")[0].function == "mm_b"
    with pytest.raises(StudyError, match="--kernel mm_c: is none of its products: mm_a, mm_b"):
        called(tmp_path / "file.py", text, "mm_c")


def test_every_file_name_gives_a_valid_variant_name(tmp_path):
    names = [name_of(tmp_path / f"{stem}.py") for stem in ("mine", "03-matrix-product", "_a", "é")]
    assert names == ["mine", "call_03_matrix_product", "call__a", "call__"]
