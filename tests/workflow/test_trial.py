"""gemm-study try: user-supplied kernels and functions, and one-line errors."""

import os
import pickle
import re
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

import study.config
from analysis.data.recordings import load, sources
from base.errors import StudyError
from base.files import sha256
from kernels.catalog.entries import VARIANTS
from kernels.catalog.product import Product, with_entry
from kernels.catalog.user_supplied import catalog_of, read, source_text, variant
from kernels.catalog.variant import UserCall, UserKernel
from kernels.cubins.build import build_for
from kernels.host_execution.check import predict
from kernels.launches import lines as launch_lines
from kernels.launches.program import Program
from kernels.products.shape import Shape
from measurement.recording import recording
from tests.support import ROOT, for_make_test
from tests.support.compilers import stand_in
from tests.support.fakes import CALLED, CONFIG, FakeHardware, Fault
from tests.support.supplied import supplied
from workflow import roofline, timed_trial, trial
from workflow.trial import Wanted

PAGE = ROOT / "docs" / "how-to" / "try-a-kernel.md"
H100 = ROOT / "data" / "recordings" / "h100-sxm-5"
MINE = """// A thread an element of C, columns along x.
// launch: mine<<<dim3(CEIL_DIV(n, 8), CEIL_DIV(n, 8)), dim3(8, 8)>>>(a, b, c, n)
__global__ void mine(const float *a, const float *b, float *c, int n) {
    const int row = blockIdx.y * 8 + threadIdx.y, column = blockIdx.x * 8 + threadIdx.x;
    __shared__ float part[8][8];
    float sum = 0.0f;
    for (int k = 0; k < n; k += 8) {
        part[threadIdx.y][threadIdx.x] =
            row < n && k + threadIdx.x < n ? a[row * n + k + threadIdx.x] : 0.0f;
        __syncthreads();  // the tile is complete
        for (int i = 0; i < 8 && k + i < n; ++i)
            sum += part[threadIdx.y][i] * (column < n ? b[(k + i) * n + column] : 0.0f);
        __syncthreads();  // before the next
    }
    if (row < n && column < n) c[row * n + column] = sum;
}
"""


@pytest.fixture
def path(tmp_path, monkeypatch, patch):
    monkeypatch.chdir(tmp_path)
    for module in (trial, timed_trial):
        patch(module, TRIED=tmp_path / "tried")
    (tmp_path / "mine.cu").write_text(MINE)
    (tmp_path / "config.yaml").write_text(CONFIG)
    return Path("mine.cu")


@pytest.fixture
def card(tmp_path, stand_ins):
    """A fake GPU and a fake compiler, which lists no architectures."""
    nvcc = stand_in(tmp_path / "nvcc")
    local = f"toolchain: {{ nvcc: {nvcc} }}\nstudy: {{ series: [] }}\n"
    (tmp_path / "config.local.yaml").write_text(local)
    return FakeHardware(tmp_path)


def attempted(path, wanted=None, hardware=None):
    """Return the lines of an attempt, and its exit status."""
    report = trial.attempt(path, Path("config.yaml"), wanted or Wanted(), hardware)
    lines = []
    while True:
        try:
            lines.append(next(report))
        except StopIteration as end:
            return lines, end.value


HEADER = "__global__ void mine(const float *a, const float *b, float *c, int n) {"

# A template in a file with a host: leading dimensions, α and β, column-major.
HOSTED = """#include <cublas_v2.h>
template <int EDGE> __global__ void naive(int m, int n, int k, float alpha, const float *A, int lda,
                                          const float *B, int ldb, float beta, float *C, int ldc) {
    int i = blockIdx.x * EDGE + threadIdx.x, j = blockIdx.y * EDGE + threadIdx.y;
    if (i >= m || j >= n) return;
    float sum = 0;
    for (int p = 0; p < k; ++p) sum += A[i + p * lda] * B[p + j * ldb];
    C[i + j * ldc] = alpha * sum + beta * C[i + j * ldc];
}
void run(cublasHandle_t handle, int m, int n, int k, float *A, float *B, float *C) {
    dim3 block(16, 16), grid((m + 15) / 16, (n + 15) / 16);
    naive<16><<<grid, block>>>(m, n, k, 1.0f, A, m, B, k, 0.0f, C, m);
}
"""


@pytest.mark.slow
def test_a_user_kernel_becomes_a_variant_whose_launch_is_evaluated_for_a_gpu(path):
    path.write_text(HOSTED)
    lines = launch_lines.judged(path)
    said = next(lines)
    assert said == "mine.cu: naive: correct for column-major matrices"
    try:
        while True:
            next(lines)
    except StopIteration as end:
        (judged,) = end.value
    entry = trial.write(judged, "block", Path("tried").absolute())
    assert (entry.name, entry.after, entry.shapes) == ("naive_of_a_user", "block", "single")
    assert entry.facts.reads_c
    copies = (pickle.loads(pickle.dumps(entry)), read(Path(entry.file)))
    assert {copy.facts for copy in copies} == {entry.facts}
    build = build_for(with_entry(entry, "float32", Shape.square(33)))
    assert (build.stem, build.source) == ("naive_of_a_user-float32-exact", entry.file)
    (launch,) = Program(entry).packed(Shape(1, 40, 100, 9), [11 << 8, 22 << 8, 33 << 8])
    assert re.fullmatch(r"_Z15naive_of_a_user\w+", launch.symbol)
    # Row-major A·B is column-major Bᵀ·Aᵀ.
    assert launch.configured.grid == (7, 3, 1)
    numbers = [int.from_bytes(value, "little") for value in launch.arguments]
    assert [numbers[place] for place in (0, 1, 2)] == [100, 40, 9]
    assert [numbers[place] for place in (4, 5, 6, 7, 9)] == [22 << 8, 100, 11 << 8, 9, 33 << 8]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("// gemm-study: ", "// ", "does not end with the facts of its launch"),
        ('"threads":64', '"threads":2000', "launch.threads: Input should be less than"),
        ('"tile":[8,8]', '"tile":[8]', "launch.tile.1: Field required"),
        ('"name":"mine"', '"name":"block"', "block is a variant of the catalog"),
        ('"name":"mine"', '"name":"m-1"', "name: String should match"),
        ('"name":"mine"', '"name":"mine","baseline":"none"', "not in the catalog"),
        ('"numbers":["N"]', '"numbers":7', "launch.numbers: Input should be a valid array"),
        ('{"name"', '{"more":1,"name"', "more: Extra inputs"),
    ],
)
def test_wrong_facts_of_a_user_kernel_in_a_recording_are_one_line_errors(path, old, new, message):
    text = Path(supplied(path, MINE).file).read_text()
    assert old in text
    with pytest.raises(StudyError, match=rf"^[^\n]*{re.escape(message)}[^\n]*\Z"):
        variant(path, text.replace(old, new))


def test_python_functions_become_variants_without_being_run(path):
    Path("called.py").write_text(CALLED)
    entry = read(Path("called.py"))
    assert (entry.source, entry.after) == (str(Path("called.py").resolve()), None)
    assert (type(entry), entry.dtypes) == (UserCall, ("float32",))
    assert entry.takes(Shape.parse("17x33x65"))
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    examples = [text for text in blocks if "def multiply" in text]
    assert len(examples) == 2
    for number, text in enumerate(examples):
        file = Path(f"example{number}.py")
        file.write_text(text)
        assert isinstance(read(file), UserCall)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("called", "def multiply", "def product", "1: no function takes two matrices and returns"),
        (
            "called",
            "(a, b, c, stream):",
            "(a):",
            "1: no function .*; or write one function multiply",
        ),
        ("called", "product)", "product", r"7: '\(' was never closed \(Python\)"),
        ("called", "import torch", "\0", "1: .*null bytes"),
        ("block", "", "", "1: block is a variant of the catalog; choose another name"),
    ],
)
def test_a_wrong_python_function_is_a_one_line_error_with_its_line(path, name, old, new, message):
    file = Path(f"{name}.py")
    file.write_text(CALLED.replace(old, new))
    with pytest.raises(StudyError, match=rf"^{name}\.py:{message}"):
        attempted(file)


RAW = (ROOT / "tests/data/python_kernels/cupy_raw_kernel.py").read_text()


@pytest.mark.slow
@pytest.mark.exhaustive
def test_cuda_code_in_a_python_file_is_checked_and_faults_have_its_line_numbers(path):
    file = Path("raw.py")
    file.write_text(RAW)
    lines, status = attempted(file)
    assert status == 3
    assert lines[:2] == [
        "raw.py: line 22: matmul_gpu(A, B) returns C, arrays of cupy",
        "tried/raw/raw_cuda.cu: matmul: correct",
    ]
    file.write_text(RAW.replace("B[i * N + column]", "B[i * K + column]"))
    with pytest.raises(StudyError, match=r"^tried/raw/raw_cuda\.cu:1[23]: matmul, .*"):
        attempted(file)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_cuda_code_in_a_python_file_without_a_function_is_built(path):
    file = Path("raw.py")
    file.write_text(RAW.partition("def matmul_gpu")[0])
    lines, status = attempted(file, Wanted(architectures=["sm_90"]))
    assert (status, lines[0]) == (0, "tried/raw/raw_cuda.cu: matmul: correct")


FOUND = """import torch


def matmul(a, b, activation=""):
    return torch.matmul(a, b.to(torch.float16))


raise SystemExit("a benchmark")
"""


def test_a_python_file_without_multiply_is_tried_unchanged(path):
    file = Path("03-matrix-product.py")
    file.write_text(FOUND)
    lines, status = attempted(file)
    assert (status, lines) == (
        3,
        [
            "03-matrix-product.py: line 4: matmul(a, b) returns C, arrays of torch",
            "03-matrix-product.py: line 5: elements are float16; times include the conversions",
            "not checked on the CPU: a Python function runs only on a GPU",
            "to time it on a GPU of this host: add --device 0",
        ],
    )
    copy = Path("tried/call_03_matrix_product/call_03_matrix_product.py")
    assert copy.read_text().startswith(FOUND)
    entry = read(copy)
    assert (entry.call.function, entry.digits) == ("matmul", 11)
    assert entry.roundoffs(1024) == 2 * 1024 + 3 * 2**13 + 4
    again = catalog_of({copy.name: copy.read_text().split("\n")})[entry.name]
    assert again.call == entry.call


# Mistakes in the example of the page: line, text and what replaces it.
MISTAKES = {
    "no launch": (1, "//", "// "),
    "a race": (13, "__syncthreads();", ""),
    "a conflict": (12, "b_tile[i][x]", "b_tile[x][i]"),
    "no code": (7, ";", ""),
    "out of bounds": (10, " && column < n", ""),
}


@pytest.mark.slow
@pytest.mark.parametrize(("number", "old", "new"), for_make_test(MISTAKES, "a race", "no code"))
def test_the_documentation_of_try_shows_the_message_of_each_mistake(path, number, old, new):
    page = PAGE.read_text()
    example, *_ = re.findall(r"```cuda\n(.*?)```", page, re.S)
    lines = example.splitlines(keepends=True)
    assert old in lines[number - 1]
    lines[number - 1] = lines[number - 1].replace(old, new)
    path.write_text("".join(lines))
    try:
        said = [line for line in launch_lines.judged(path) if not line.startswith("checked")]
    except StudyError as fault:
        message = str(fault).partition("; launched as")[0]
        # The compiler's text varies.
        said = [message.split(" ")[0] if message.endswith("(g++)") else message]
    for line in said:
        assert line.replace("// ", "") in page


def test_a_file_that_cannot_contain_a_kernel_is_refused(path):
    os.mkfifo("fifo.cu")
    Path("loop.cu").symlink_to("loop.cu")
    with pytest.raises(StudyError, match=r"^loop\.cu: Too many levels of symbolic links; name"):
        source_text(Path("loop.cu"))
    with pytest.raises(StudyError, match=r"^fifo\.cu: is not a regular file; name a \.cu"):
        source_text(Path("fifo.cu"))
    path.write_text(MINE + "//" * 2**19)
    with pytest.raises(StudyError, match=r"^mine\.cu: is larger than 1 MB; name a file with one"):
        source_text(path)


# Every way in which a check can end before its end: an edit of the kernel, limits, and the reason.
ENDS = {
    "feature": (("sum = 0.0f", 'sum = 0.0f; asm volatile("trap;")'), {}, "inline PTX; remove"),
    "function": (("= sum;", "= __nv_none(sum);"), {}, r"mine\.cu:15: .__nv_none. was not declared"),
    "declared only": (
        ("float sum = 0.0f;", "float none(float), sum = none(0.0f);"),
        {},
        r"mine\.cu:6: none: host execution has no such function",
    ),
    "name": (("mine", "host_entry"), {}, "host_entry: is a name of host execution; rename it"),
    "size of a frame": (
        ("__shared__ float part[8][8]", "float own[9999]; own[n] = 0; __shared__ float part[8][8]"),
        {},
        "the frame size of .* bytes is larger",
    ),
    "no value": (
        ("float sum", "auto none = [](float x) -> float {}; float sum"),
        {},
        "no return statement in function returning non-void",
    ),
    "variables": (
        (HEADER, f"__device__ float much[70000000];\n{HEADER} much[0] = 1;"),
        {},
        "has more than 256 MiB of variables",
    ),
    "endless at large sizes": (
        ("int k = 0; k < n", "unsigned char k = 0; k < n"),
        {"SECONDS": 4.0},
        r"host execution takes more than [\d.]+ s",
    ),
    "memory": (("", ""), {"MEMORY_BYTES": -(2**40)}, "host execution needs more than"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("edit", "limits", "reason"), for_make_test(ENDS, "feature", "memory"))
def test_an_unfinished_check_has_its_own_exit_status(path, card, patch, edit, limits, reason):
    patch(launch_lines, **limits)
    patch(trial, built=lambda *_: iter(()))
    old, new = edit
    assert old in MINE
    path.write_text(MINE.replace(old, new) if old else MINE)
    lines, status = attempted(path)
    assert re.search(reason, lines[0]), lines[0]
    assert lines[0].startswith("not checked on the CPU: ")
    assert not any(line.startswith("checked") for line in lines)
    assert status == trial.UNCHECKED == 3


@pytest.mark.slow
def test_compilation_by_nvcc_is_limited_in_time(path, card, patch):
    patch(trial, SECONDS_WITH_BUILDS=0.0, built=lambda *_: iter(Event().wait, None))
    path.write_text(MINE.replace("float sum", 'asm volatile("none"); float sum'))  # not checked
    lines, status = attempted(path)
    assert any(line.startswith("not built: nvcc takes more than 0 s; simplify") for line in lines)
    assert status == trial.UNCHECKED


@pytest.mark.parametrize(
    ("facts", "sizes"),
    [
        ({"fixed": None, "multiple": 96, "tile": (64, 32)}, [1152, 4224]),
        ({"fixed": None, "multiple": 1, "tile": (1, 1)}, [1024, 4096]),
        ({"fixed": (300, 200, 100)}, [300]),
    ],
)
def test_a_user_kernel_is_timed_at_sizes_that_it_supports(facts, sizes):
    assert timed_trial.sizes_of(Mock(spec=UserKernel, facts=SimpleNamespace(**facts))) == sizes


def test_access_counts_are_extrapolated_to_other_sizes():
    block = [Product("block", "float32", Shape.square(n), 32) for n in (64, 128, 4096)]
    small, twice, large = map(predict, block)
    for operation, total in large.items():
        assert roofline._extended(small[operation], twice[operation], 64, 4096) == total


@pytest.mark.slow
def test_try_checks_builds_times_and_reports_a_kernel(path, card):
    """Checked, counted, built, on the roofline with its baseline, timed, and listed."""
    wanted = Wanted(baseline="naive", recording=H100, architectures=["sm_86"], device=0, sizes=[8])
    lines, status = attempted(path, wanted, card)
    text = "\n".join(lines)
    assert (lines[0], status) == ("mine.cu: mine: correct", 0)
    for line in (
        r"global loads +72 ",
        r"sm_86 +float32 +0 .* 50% +1 +LDG 128\n",
        r"\n  > mine +– +\S+ +(L1|shared memory|L1 \+ shared memory) +\S+ +– +–",
        r"\n  naive +32 +",
        r"\n  > mine +– +8 +float32 +1\.8 ",
        r"\n  block +4 +8 +float32 +1\.8 ",
    ):
        assert re.search(line, text), line
    assert re.fullmatch(r"recording: tried/mine/gpu0-\w{8}", lines[-1])
    made = recording.read(lines[-1].removeprefix("recording: "))
    program = Path("tried/mine/mine.cu")
    assert made.provenance["texts"] == {"brought/mine.cu": program.read_text().split("\n")}
    assert made.provenance["sources"]["brought/mine.cu"] == sha256(program)
    catalog = sources(load({"card": [made.path]}))[0].catalog
    assert isinstance(catalog["mine"], UserKernel)
    assert catalog["mine"].after == "naive"


@pytest.mark.slow
@pytest.mark.exhaustive
def test_try_gives_no_roofline_if_the_study_has_no_recordings(path, card, patch):
    local = Path("config.local.yaml")
    local.write_text(f"{local.read_text()}gpus: [{{ id: mine, device: auto }}]\n")
    patch(trial, built=lambda *_: iter(()))
    lines, status = attempted(path)
    assert status == 0
    assert any(line.startswith("not compared with a roofline: the study has no ") for line in lines)
    assert lines[-1].startswith("to time it on a GPU of this host: ")


@pytest.mark.slow
def test_a_kernel_for_tensor_cores_is_not_on_the_roofline(path, patch):
    patch(trial, built=lambda *_: iter(()))
    path.write_text((ROOT / "tests/data/judged_kernels/fragments-of-global-memory.cu").read_text())
    assert any("not all loads of tensor cores" in line for line in attempted(path)[0])


@pytest.mark.slow
def test_try_checks_times_and_reports_a_python_function(path, card):
    text = CALLED.replace("import torch", "import jinja2")
    Path("called.py").write_text(text)
    wanted = Wanted(baseline="block", recording=H100, device=0, sizes=[8])
    lines, status = attempted(Path("called.py"), wanted, card)
    assert (status, *lines[:2]) == (
        0,
        "called.py: multiply(a, b, c, stream), float32",
        "not checked on the CPU: a Python function runs only on a GPU",
    )
    assert re.search(r"\n  > called +– +8 +float32 +1\.8 ", "\n".join(lines))
    made = Path(lines[-1].removeprefix("recording: "))
    provenance = recording.read(made).provenance
    kept = Path("tried/called/called.py").read_text()
    assert kept.startswith(text)
    assert provenance["texts"] == {"brought/called.py": kept.split("\n")}
    assert provenance["imports"].get("jinja2") == version("jinja2")
    catalog = sources(load({"card": [made]}))[0].catalog
    assert isinstance(catalog["called"], UserCall)
    assert catalog["called"].after == "block"
    assert "called" not in VARIANTS


@pytest.mark.slow
def test_a_python_function_that_needs_whole_tiles_is_not_called_correct_at_all_sizes(path, card):
    Path("called.py").write_text(CALLED)
    ragged = replace(card, faults=(Fault("later", "called", 331),))
    lines, status = attempted(Path("called.py"), Wanted(device=0, sizes=[8]), ragged)
    assert (status, lines[-1]) == (0, "called: correct at N = 8, but not at 331")
    assert any(line.startswith("called, 331: failed: ") for line in lines)


def timed(path, text, sizes, hardware):
    entry = supplied(path, text)
    config = study.config.load(Path("config.yaml"), "quick", VARIANTS.joined(entry))
    return timed_trial.timed(entry, config, ["block"], 0, sizes, hardware)


@pytest.mark.slow
def test_times_beside_those_of_another_element_type_name_both_types(path, card):
    Path("half.py").write_text(FOUND)
    lines, _ = attempted(Path("half.py"), Wanted(baseline="block", device=0, sizes=[8]), card)
    assert lines[-2].endswith(" multiplies in float16, the others in float32")


def test_a_source_that_no_recording_can_contain_is_refused_before_measuring(path, card):
    with pytest.raises(StudyError, match=r"mine\.cu: cannot be recorded: a text contains "):
        list(timed(path, f"{MINE}// \a", [8], card))


@pytest.mark.slow
def test_a_kernel_that_fails_on_the_gpu_ends_with_an_error(path, card):
    broken = replace(card, faults=(Fault("wrong", "mine"),))
    lines = timed(path, MINE, [8], broken)
    rows = [next(lines) for _ in range(3)]
    assert re.match(r"  block +4 +8 ", rows[2])
    with pytest.raises(StudyError, match=r"mine\.cu: mine fails on gpu0: 1 of 64 elements wrong;"):
        list(lines)


@pytest.mark.slow
def test_a_kernel_that_stops_computing_after_the_gate_has_no_times(path, card):
    lazy = replace(card, faults=(Fault("later", "mine", 16, 3),))
    lines = timed(path, MINE, [8, 16], lazy)
    with pytest.raises(StudyError, match=r"mine\.cu: mine fails on gpu0: refused: a timed product"):
        list(lines)
    (folder,) = (each for each in Path("tried/mine").iterdir() if each.is_dir())
    made = recording.read(folder)
    assert set(made.samples["variant"]) == {"block", "blas"}, "no time at N = 8, either"
    assert "mine" not in set(made.kernels["variant"])
    checks = made.checks[made.checks["variant"] == "mine"]
    assert set(checks["status"]) == {"failed"}
    assert set(checks["n"]) == {8, 16}
