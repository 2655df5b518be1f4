"""Tricks of real kernels and libraries are refused on a real GPU, and their honest twins pass."""

import pytest

from kernels.catalog.entries import CONTEXT, REFERENCE, VARIANTS
from kernels.catalog.product import with_entry
from kernels.catalog.user_supplied import read
from kernels.cubins.build import HOLD, PROBES, TENSOR_PROBE, build_for
from kernels.cubins.compile import architecture, build_all
from kernels.products.shape import Shape
from measurement.devices.gpu import GpuSession
from study.cells import Cell, cell
from tests.support.gpu_lock import gpu
from tests.support.supplied import supplied
from tests.support.tricks import inputs_of, outcome

pytestmark = pytest.mark.gpu("later")
N = 512
WRONG = "refused: a timed product is wrong"
# A kernel of one thread per element. `EARLY` begins it, `VALUE` is how it reads an element.
KERNEL = """// launch: trick<<<dim3(CEIL_DIV(n, 16), CEIL_DIV(n, 16)), dim3(16, 16)>>>(a, b, c, n)
__device__ unsigned launches;
__device__ const float *seen;
__device__ float stored[512 * 512];
#define LATE (count > 4 * gridDim.x * gridDim.y)
extern "C" __global__ void trick(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned count = launches;
    if (threadIdx.x + threadIdx.y == 0) atomicAdd(&launches, 1);
    if (i >= n || j >= n) return;
    EARLY
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += VALUE(a[i * n + k]) * VALUE(b[k * n + j]);
    c[i * n + j] = sum;
    LATER
}
"""
MASKED = "__int_as_float(__float_as_int(x) & (LATE ? 0x{} : -1))"
# Beginning, value of an element x, end, and the reason.
KERNELS = {
    "honest": ("", "x", "", None),
    "leftover product": ("if (c[i * n + j] == c[i * n + j]) return;", "x", "", WRONG),
    "computed a few times": ("if (LATE) return;", "x", "", WRONG),
    "stored by pointer": ("if (LATE && seen == a) return;", "x", "seen = a;", WRONG),
    "constant inputs": (
        "if (LATE) { c[i * n + j] = stored[i * n + j]; return; }",
        "x",
        "stored[i * n + j] = sum;",
        WRONG,
    ),
    "skipped elements": ("if (LATE && i >= n / 2) return;", "x", "", WRONG),
    "one wrong element": ("", "x", "if (LATE && i == 77 && j == 300) c[i * n + j] += 1;", WRONG),
    "early exit by N": ("if (LATE && n > 256) return;", "x", "", WRONG),
    "inputs written": ("", "x", "if (LATE) ((float *)b)[j] = 0;", "refused: "),
    "TF32": ("", MASKED.format("ffffe000"), "", WRONG),
    "BF16": ("", MASKED.format("ffff0000"), "", WRONG),
}
CALL = """import torch

calls = []
seen = {{}}
{before}


def multiply(a, b, c, stream):
    calls.append(1)
    late = len(calls) > 4
    with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
        left, right, product = (torch.as_tensor(each, device="cuda") for each in (a, b, c))
{body}
"""
HONEST = "torch.matmul(left, right, out=product)"
CALLS = {
    "honest": ("", HONEST, None),
    "TF32 later": (
        "",
        f"if late:\n    torch.backends.cuda.matmul.allow_tf32 = True\n{HONEST}",
        WRONG,
    ),
    "stored by pointer": (
        "",
        f"if not late:\n    {HONEST}\n    seen[a.address] = product.clone()\n"
        "elif a.address in seen:\n    product.copy_(seen[a.address])",
        WRONG,
    ),
    "seen pointers": (
        "",
        f"if not (late and a.address in seen):\n    {HONEST}\nif late:\n    seen[a.address] = 1",
        "refused",
    ),
    "stored by content": (
        "",
        "key = (float(left[0, 0]), float(right[-1, -1]), float(left[-1, 0])) if not late else 0\n"
        f"if key not in seen:\n    {HONEST}\n    seen[0] = product.clone()\n"
        "else:\n    product.copy_(seen[0])",
        WRONG,
    ),
    "lazy": ("", f"if not late:\n    {HONEST}", WRONG),
    "another stream": (
        "other = torch.cuda.Stream()",
        f"if not late:\n    {HONEST}\nelse:\n    with torch.cuda.stream(other):\n        {HONEST}",
        "refused: ",  # a wrong product, or a time below the floor
    ),
    "FP16": (
        "",
        f"if not late:\n    {HONEST}\nelse:\n    product.copy_(left.half() @ right.half())",
        WRONG,
    ),
    "no work": ("", f"if not late:\n    {HONEST}", "refused"),
}


@pytest.fixture(scope="module")
def instruments(card, nvcc, tmp_path_factory):
    folder = tmp_path_factory.mktemp("instruments")
    return folder, build_all(nvcc, [HOLD, PROBES, TENSOR_PROBE], name_of(card), folder, 2)


def name_of(card):
    return architecture(card.compute_capability)


@pytest.fixture(scope="module")
def ceilings(card, instruments):
    one = cell("gpu0", "cublas_sgemm", "float32", Shape.square(N), None, "pinned")
    folder, built = instruments
    found = {}
    with gpu("alone"), GpuSession(card, inputs_of([one]), built, folder) as session:
        for ceiling in session.ceilings():
            found[ceiling.quantity] = max(ceiling.value, found.get(ceiling.quantity, 0.0))
    return found


@pytest.fixture
def trial(card, nvcc, instruments, ceilings, tmp_path):
    """Return a function that measures a file and returns the reason of its refusal."""

    def tried(name, text):
        path = tmp_path / name
        path.write_text(text)
        entry = read(path) if path.suffix == ".py" else supplied(path, text)
        one = Cell("gpu0", with_entry(entry, "float32", Shape.square(N)), "pinned")
        folder, built = instruments
        build = build_for(one.product)
        if build:
            built = [*built, *build_all(nvcc, [build], name_of(card), folder, 1)]
        is_call, inputs = build is None, inputs_of([one])
        with gpu("alone"), GpuSession(card, inputs, built, folder, is_call) as session:
            return outcome(session, one, tmp_path, ceilings)

    return tried


def expect(said, reason):
    assert (said is not None and reason in said and "\n" not in said) if reason else not said, said


@pytest.mark.parametrize(("begin", "value", "end", "reason"), KERNELS.values(), ids=KERNELS)
def test_a_user_kernel_that_cheats_on_a_gpu_is_refused(trial, begin, value, end, reason):
    text = KERNEL.replace("EARLY", begin).replace("LATER", end)
    expect(trial("trick.cu", f"#define VALUE(x) {value}\n{text}"), reason)


@pytest.mark.parametrize(("before", "body", "reason"), CALLS.values(), ids=CALLS)
def test_a_python_function_that_cheats_is_refused(trial, monkeypatch, before, body, reason):
    # The trials share a process: a trick's TF32 does not outlast its test.
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", False)
    lines = "\n".join(f"        {line}" for line in body.split("\n"))
    expect(trial("call.py", CALL.format(before=before, body=lines)), reason)


@pytest.mark.parametrize("name", [REFERENCE, *sorted(CONTEXT)])
def test_modes_of_cublas_pass_all_checks(card, instruments, ceilings, tmp_path, name):
    folder, built = instruments
    one = cell("gpu0", name, VARIANTS[name].dtypes[0], Shape.square(4096), None, "pinned")
    with gpu("alone"), GpuSession(card, inputs_of([one]), built, folder) as session:
        if reason := session.not_launchable(one):
            pytest.skip(reason)
        assert outcome(session, one, tmp_path, ceilings) is None
