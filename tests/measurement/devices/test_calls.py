"""Python functions as files contain them are called with the arrays of their library.

Small stand-ins for the libraries compute on the host, at the addresses of the matrices.
"""

import ctypes
import sys
from contextlib import nullcontext
from itertools import product
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from kernels.catalog.user_supplied import called
from measurement.devices.calls import DeviceMatrix, load_call
from measurement.devices.errors import CellError
from tests.support import ROOT

FOLDER = ROOT / "tests/data/python_kernels"
M, N, K = 19, 35, 6
STREAM = 5


class Tensor(np.ndarray):
    """The methods of arrays of PyTorch and Numba that a call uses."""

    def to(self, dtype):
        return self if self.dtype == dtype else self.astype(dtype)

    def copy_(self, other):
        self[...] = other

    def copy_to_device(self, other, stream):
        assert stream.number == STREAM
        self[...] = other


def at_address(matrix, device=None):
    assert device in (None, "cuda")
    flat = (ctypes.c_float * np.prod(matrix.shape)).from_address(matrix.address)
    return np.frombuffer(flat, np.float32).reshape(matrix.shape).view(Tensor)


def with_streams(name, log, **members):
    module = ModuleType(name)
    vars(module).update(members, float32=np.float32, float16=np.float16, Tensor=Tensor)
    module.cuda = SimpleNamespace(ExternalStream=log.append, stream=nullcontext)
    return module


def torch_on_the_host(log):
    def addmm(c, a, b, beta, out):
        out[...] = a @ b + (beta * c if beta else 0)

    module = with_streams("torch", log, as_tensor=at_address, einsum=np.einsum, addmm=addmm)
    module.backends = SimpleNamespace(cuda=SimpleNamespace(matmul=SimpleNamespace()))
    return module


class KernelOfNumba:
    """Runs one thread after the other."""

    def __init__(self, function, cuda):
        self.function, self.cuda = function, cuda

    def __getitem__(self, configuration):
        grid, threads, stream = configuration
        assert stream.number == STREAM

        def launch(*arrays):
            for indices in product(*map(range, np.multiply(grid, threads))):
                self.cuda.grid = lambda _, indices=indices: indices
                self.function(*arrays)

        return launch


def numba_on_the_host(log):
    module = ModuleType("numba")
    module.float32 = np.float32
    cuda = module.cuda = ModuleType("numba.cuda")
    cuda.jit = lambda function: KernelOfNumba(function, cuda)
    cuda.as_cuda_array = at_address
    cuda.to_device = lambda array: array
    cuda.external_stream = lambda number: SimpleNamespace(
        number=number, synchronize=lambda: log.append(number)
    )
    return module


@pytest.fixture
def computed(tmp_path, monkeypatch):
    """Return a function that computes a product with the text of a file."""

    def compute(text):
        log = []
        for name, made in (("torch", torch_on_the_host), ("numba", numba_on_the_host)):
            monkeypatch.setitem(sys.modules, name, made(log))
        monkeypatch.setitem(sys.modules, "numba.cuda", sys.modules["numba"].cuda)
        path = tmp_path / "file.py"
        path.write_text(text)
        facts, _ = called(path, text)
        rng = np.random.default_rng(1)
        a, b = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((M, K), (K, N)))
        c = np.full((M, N), np.nan, np.float32)
        matrices = [DeviceMatrix(each.ctypes.data, each.shape, np.float32) for each in (a, b, c)]
        load_call(path, facts)(*matrices, STREAM)
        return c - a @ b, log

    return compute


KERNEL = """from numba import cuda
@cuda.jit
def matmul(a, b, c):
    {x}, {y} = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = a[row] @ b[:, column]
def main():
    matmul[1, (4, 8)](a, b, c)
"""
ONE_INDEX = KERNEL.replace("{x}, {y} = cuda.grid(2)", "row, column = divmod(cuda.grid(1)[0], 35)")
LINEAR = ONE_INDEX.replace("(4, 8)", "32")


@pytest.mark.parametrize(
    "text",
    [
        (FOLDER / "torch_matmul.py").read_text(),
        (FOLDER / "torch_addmm.py").read_text(),
        KERNEL.format(x="row", y="column"),
        KERNEL.format(x="column", y="row"),
        LINEAR,
        KERNEL.format(x="row", y="column").replace("matmul(a, b, c)", "matmul(c, a, b)"),
        "from numba import cuda\ndef mm(a, b):\n    return a @ b\n",
        "import torch\ndef mm(a, b, c):\n    c[...] = a @ b\n",
    ],
)
def test_a_user_supplied_python_function_computes_the_product(computed, text):
    errors, log = computed(text)
    assert np.abs(errors).max() < 1e-5
    assert log in ([STREAM], [])


def test_half_matrices_are_converted_in_both_directions(computed):
    text = "import torch\nELEMENT = torch.float16\ndef mm(a, b):\n    check(a)\n    return a @ b\n"
    text += "def check(a):\n    assert a.dtype == ELEMENT\n"
    errors, _ = computed(text)
    assert 1e-5 < np.abs(errors).max() < 1e-2


def test_an_error_in_a_user_supplied_function_is_a_one_line_error(computed):
    with pytest.raises(CellError, match=r"^file\.py: AssertionError: square only$"):
        computed("import torch\ndef mm(a, b):\n    assert not 1, 'square only'\n    return a\n")
    with pytest.raises(CellError, match=r"^file\.py: ZeroDivisionError: division by zero$"):
        computed("import torch\nONE = 1 / 0\ndef mm(a, b):\n    return ONE\n")
