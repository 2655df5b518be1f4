"""Kernels of Triton, CuPy and Numba, and functions of PyTorch, are checked and timed on a GPU.

The last line of each file in `tests/data/python_kernels` is "correct", or a part of the reason for
which its product is refused. Each file runs in a process of its own, as in a recording. Some run
again with a line changed.
"""

import importlib.util
import subprocess
import sys

import numpy as np
import pytest

from tests.support import ROOT

pytestmark = pytest.mark.gpu("later")
FILES = {path.stem: path.read_text() for path in (ROOT / "tests/data/python_kernels").glob("*.py")}
# File, what is changed, and the outcome of the changed file.
CHANGED = (
    ("triton_tiles", '"ieee"', '"tf32"', "wrong"),
    ("triton_tiles", "constexpr(True)", "constexpr(False)", "wrong"),
    ("triton_tutorial", "float16", "bfloat16", "correct"),
    ("triton_tutorial", "total = tl.dot(a, b, total)", "total = tl.dot(a, b)", "wrong"),
    ("torch_matmul", "allow_tf32 = False", "allow_tf32 = True", "wrong"),
    ("torch_addmm", "beta=0", "beta=1", "wrong"),
    ("cupy_raw_kernel", "row >= M", "row >= M - 1", "wrong"),
    ("numba_naive", "i < C.shape[0]", "i < C.shape[0] - 1", "wrong"),
    ("numba_no_bounds", "c.shape[0] - 1", "c.shape[0]", "no kernel-only time"),  # it copies
)
RUN = """
import importlib
import sys
from pathlib import Path
import workflow.__main__  # as in the worker of a command
from kernels.catalog.product import with_entry
from kernels.catalog.user_supplied import read
from kernels.cubins.compile import architecture, build_all
from kernels.cubins.build import HOLD
from kernels.cubins.toolchain import find_nvcc
from kernels.products.shape import Shape
from measurement.devices.discovery import cuda_devices
from measurement.devices.gpu import GpuSession
from study.cells import Cell
from tests.support.gpu_lock import gpu
from tests.support.tricks import inputs_of, outcome

folder, card = Path(sys.argv[2]), cuda_devices()[0]
importlib.import_module(sys.argv[3])  # it takes seconds, in which others may use the GPU
product = with_entry(read(Path(sys.argv[1])), "float32", Shape.parse("130x200x75"))
one = Cell("gpu0", product, "pinned")
built = build_all(find_nvcc(), [HOLD], architecture(card.compute_capability), folder, 1)
with (
    gpu("alone"),
    GpuSession(card, inputs_of([one]), built, folder, primary=True) as session,
):
    print("outcome:", outcome(session, one, folder, {}) or "correct")
"""


def outcome(name, text, folder):
    library = name.split("_")[0]
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    if library == "numba" and not hasattr(np, "row_stack"):
        pytest.skip("numba-cuda does not support this NumPy")
    path = folder / f"{name}.py"
    path.write_text(text)
    command = [sys.executable, "-c", RUN, str(path), str(folder), library]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    outcomes = [line for line in done.stdout.splitlines() if line.startswith("outcome: ")]
    assert outcomes, done.stderr
    return outcomes[0]


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_python_kernel_is_checked_and_timed(card, nvcc, tmp_path, name):
    expected = FILES[name].rstrip().rpartition("# expected: ")[2]
    assert expected in outcome(name, FILES[name], tmp_path)


@pytest.mark.parametrize(("name", "before", "after", "expected"), CHANGED)
def test_a_wrong_python_kernel_is_refused(card, nvcc, tmp_path, name, before, after, expected):
    assert before in FILES[name]
    assert expected in outcome(name, FILES[name].replace(before, after), tmp_path)
