"""Kernels of Triton, CuPy and Numba, and functions of PyTorch, are checked and timed on a GPU.

The last line of each file in `tests/data/python_kernels` is "correct", or a part of the reason for
which its product is refused. Each file runs in a process of its own, as in a recording.
"""

import importlib.util
import subprocess
import sys

import numpy as np
import pytest

from tests.support import ROOT

pytestmark = pytest.mark.gpu
FILES = sorted((ROOT / "tests/data/python_kernels").glob("*.py"))
RUN = """
import sys
from pathlib import Path
from kernels.catalog.product import with_entry
from kernels.catalog.user_supplied import read
from kernels.cubins.compile import architecture, build_all
from kernels.cubins.build import HOLD
from kernels.cubins.toolchain import find_nvcc
from kernels.products.shape import Shape
from measurement.devices.discovery import cuda_devices
from measurement.devices.gpu import GpuSession
from study.cells import Cell
from tests.support.tricks import inputs_of, outcome

folder, card = Path(sys.argv[2]), cuda_devices()[0]
product = with_entry(read(Path(sys.argv[1])), "float32", Shape.parse("130x200x75"))
one = Cell("gpu0", product, "pinned")
built = build_all(find_nvcc(), [HOLD], architecture(card.compute_capability), folder, 1)
with GpuSession(card, inputs_of([one]), built, folder, primary=True) as session:
    print("outcome:", outcome(session, one, folder, {}) or "correct")
"""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_python_kernel_is_checked_and_timed(card, nvcc, tmp_path, path):
    library = path.stem.split("_")[0]
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    if library == "numba" and not hasattr(np, "row_stack"):
        pytest.skip("Numba does not support this NumPy")
    command = [sys.executable, "-c", RUN, str(path), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    outcomes = [line for line in done.stdout.splitlines() if line.startswith("outcome: ")]
    assert outcomes, done.stderr
    expected = path.read_text().rstrip().rpartition("# expected: ")[2]
    assert expected in outcomes[0]
