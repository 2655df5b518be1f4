"""gemm-study try: user-supplied kernels and functions, and one-line errors."""

import os
import pickle
import re
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from threading import Event

import pytest

import study.config
from analysis.data.recordings import load, sources
from base.errors import StudyError
from base.files import sha256
from kernels.catalog.entries import VARIANTS
from kernels.catalog.product import Product, with_entry
from kernels.catalog.user_supplied import KEYS, read
from kernels.catalog.variant import UserCall
from kernels.cubins.build import build_for
from kernels.host_execution import trial as host_trial
from kernels.host_execution.check import predict
from kernels.host_execution.trial import checked
from kernels.products.shape import Shape
from measurement.recording import recording
from tests.support import ROOT
from tests.support.compilers import stand_in
from tests.support.fakes import CALLED, CONFIG, FakeHardware, Fault
from workflow import trial

PAGE = ROOT / "docs" / "how-to" / "try-a-kernel.md"
MINE = """// A thread an element of C, columns along x.
// try: tile=8x8 threads=8x8 baseline=naive
extern "C" __global__ void mine(const float *a, const float *b, float *c, int n) {
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
    patch(trial, RESULTS=tmp_path / "tried")
    (tmp_path / "mine.cu").write_text(MINE)
    (tmp_path / "config.yaml").write_text(CONFIG)
    return Path("mine.cu")


def refusal(path, text):
    path.write_text(text)
    with pytest.raises(StudyError, match=r"^[^\n]+\Z") as refused:
        list(checked(read(path)))
    return str(refused.value)


def test_a_file_becomes_a_variant_and_its_former_key_gets_a_hint(path, capsys):
    text = MINE.replace("tile=8x8", "block=8,16 tile=BLOCKx(BLOCK*2)x4 shared=4*n*BLOCK")
    text = text.replace("threads=8x8", "threads=BLOCKxBLOCK/4 x=rows tolerance=bound")
    path.write_text(text.replace("float", "ELEMENT").replace("int n", "int m, int n, int k"))
    entry = read(path)
    assert (entry.source, entry.after, entry.shapes) == (str(path.resolve()), "naive", "single")
    assert (entry.dtypes, entry.in_order) == (("float32", "float64", "int32"), False)
    assert entry.tile(16) == (16, 32, 4)
    launch = with_entry(entry, "float32", Shape(1, 40, 100, 9), 8).launch
    assert (launch.grid, launch.threads) == ((5, 7, 1), (8, 2))
    assert launch.dynamic_shared_bytes == 4 * 100 * 8
    build = build_for(with_entry(entry, "float64", Shape.square(33), 16))
    assert (build.stem, build.source) == ("mine-b16-float64-guarded", str(path.resolve()))
    assert pickle.loads(pickle.dumps(build)).source == build.source
    assert "mine" not in VARIANTS
    path.write_text(MINE.replace("baseline=", "after="))
    assert read(path).after == "naive"  # a second time, as after an edit
    assert capsys.readouterr().err == "mine.cu:2: after= is now baseline=\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tile=8x8", "tiles=8x8", "2: unknown key tiles; did you mean tile?"),
        ("// try: tile=8x8 threads=8x8 baseline=naive", "", "1: does not declare tile and threads"),
        ("tile=8x8", "tile=8x8 tile=4x4", "2: tile is declared twice"),
        ("tile=8x8", "tile 8x8", "2: tile: not key=value"),
        ("tile=8x8", "tile=8", "2: tile=8: needs 2 or 3 sizes"),
        ("tile=8x8", "tile=BLOCKx8", "2: tile=BLOCKx8: BLOCK is not a formula; use whole numbers"),
        ("tile=8x8", "block=6 tile=8xBLOCK/4", "2: .*BLOCK/4 is 3/2 with BLOCK=6; use a whole"),
        ("tile=8x8", "block=8,x tile=8x8", "2: block=8,x: not a list of block sizes"),
        ("threads=8x8", "threads=64x32", "2: threads=64x32: more than 1024"),
        ("baseline=naive", "baseline=naiv", "2: baseline=naiv: not in the catalog"),
        ("baseline=naive", "x=down", "2: x=down: use columns or rows"),
        ("baseline=naive", "batched=yes", "2: batched=yes: needs the signature with m, n and k"),
        ("tile=8x8", "tile=8x" + "1+" * 999, r"2: tile=8x[1+]{58}: a formula has more than 200 "),
        ("tile=8x8", "x" * 5000 + "=1", "2: unknown key x{60}; allowed: tile, threads"),
        ("mine(", "block(", "3: block is a variant of the catalog; choose another name"),
        ("int n)", "long n)", r"3: mine\(.*\): unsupported signature; write \("),
        ('extern "C" __global__', "static", '1: no kernel: extern "C" __global__'),
    ],
)
def test_a_wrong_declaration_is_one_line_with_its_place(path, old, new, message):
    assert re.match(rf"mine\.cu:{message}", refusal(path, MINE.replace(old, new)))


def test_a_call_becomes_a_variant_without_a_run_as_the_examples_of_the_page(path):
    Path("called.py").write_text(CALLED)
    entry = read(Path("called.py"))
    assert (entry.source, entry.after) == (str(Path("called.py").resolve()), "block")
    assert (type(entry), entry.dtypes) == (UserCall, ("float32",))
    assert entry.takes(Shape.parse("17x33x65"))
    told = PAGE.read_text()
    assert [key for key in KEYS if f"`{key}=" not in told] == []
    found = re.findall(r"```python\n(.*?)```", told, re.DOTALL)
    for number, text in enumerate(text for text in found if "def multiply" in text):
        file = Path(f"example{number}.py")
        file.write_text(text)
        assert isinstance(read(file), UserCall)
    assert number == 1


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("called", "def multiply", "def product", "1: contains no function multiply; write"),
        ("called", ", stream):", "):", "5: multiply: wrong parameters; write def mult"),
        ("called", "product)", "product", r"8: '\(' was never closed \(Python\)"),
        ("called", "import torch", "\0", "1: .*null bytes"),
        (
            "called",
            "baseline=block",
            "tile=8x8",
            "1: tile=8x8: is a key of kernels; for a call, use baseline",
        ),
        ("called", "baseline=block", "baseline=blok", "1: baseline=blok: not in the catalog"),
        ("block", "block", "block", "1: block is a variant of the catalog; choose another name"),
        ("2-calls", "block", "block", "1: the file name is not a valid variant name; use letters"),
    ],
)
def test_a_wrong_call_is_one_line_with_its_place(path, name, old, new, message):
    file = Path(f"{name}.py")
    file.write_text(CALLED.replace(old, new))
    with pytest.raises(StudyError, match=rf"^{name}\.py:{message}"):
        read(file)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("__syncthreads();  // the tile is complete", "", "12: .* a barrier may be missing"),
        ("__syncthreads();  // before the next", "", r"12: .* races with thread .* at line 8"),
        ("if (row < n && column < n) c", "c", r"15: .*\(at size 65, which the tile does not"),
        ("c[row * n + column] = ", "c[row * n + column + n] = ", "15: .* out of bounds"),
        ("b[(k + i) * n + column]", "b[column * n + k + i]", r"15: .*stores C\(0, 0\) = "),
        ("float sum = 0.0f;", "float sum = 0.0f", r"7: expected .* \(g\+\+\)"),
        (
            "baseline=naive",
            "global_loads=n",
            "9,12: mine at size 64: global loads per thread: counted 72, decl",
        ),
    ],
)
def test_a_wrong_kernel_is_one_line_with_its_place(path, old, new, message):
    assert re.match(rf"mine\.cu:{message}", refusal(path, MINE.replace(old, new)))


def all_lines(path):
    """Yield the lines of the check, and of the roofline of the report's GPU."""
    entry = read(path)
    counted = yield from checked(entry)
    focus = trial._focus(study.config.load(ROOT / "config.yaml"))
    yield from trial._roofline(counted, entry.after, focus)[0]


@pytest.mark.slow
def test_the_example_of_the_page_is_right_and_its_mistakes_have_the_printed_messages(path):
    told = PAGE.read_text()
    (example,) = re.findall(r"```cuda\n(.*?)```", told, re.S)
    path.write_text(example)
    assert {line for line in all_lines(path) if line not in told} == set()
    lines = example.splitlines(keepends=True)
    mistakes = [(14, "__syncthreads();", ""), (11, " && column < n", ""), (8, ";", "")]
    for number, old, new in [*mistakes, (13, "b_tile[i][x]", "b_tile[x][i]")]:
        wrong = [*lines[: number - 1], lines[number - 1].replace(old, new), *lines[number:]]
        message = refusal(path, "".join(wrong))
        if message.endswith("(g++)"):  # the compiler's text varies
            message = message[: message.index(" ")]
        assert f"error: {message}" in told


def test_a_file_that_cannot_contain_a_kernel_is_refused(path):
    os.mkfifo("fifo.cu")
    Path("loop.cu").symlink_to("loop.cu")
    with pytest.raises(StudyError, match=r"^loop\.cu: Too many levels of symbolic links; name"):
        read(Path("loop.cu"))
    with pytest.raises(StudyError, match=r"^fifo\.cu: is not a regular file; name a \.cu"):
        read(Path("fifo.cu"))
    path.write_text(MINE + "//" * 2**19)
    with pytest.raises(StudyError, match=r"^mine\.cu: is larger than 1 MB; name a file with one"):
        read(path)


def attempted(path):
    """Return the lines of an attempt, and its exit status."""
    told = trial.attempt(path, Path("config.yaml"))
    lines = []
    while True:
        try:
            lines.append(next(told))
        except StopIteration as end:
            return lines, end.value


# Every way in which a check can end before its end: an edit of the kernel, limits, and the reason.
ENDS = {
    "feature": (("sum = 0.0f", 'sum = 0.0f; asm volatile("trap;")'), {}, "inline PTX; remove"),
    "function": (("= sum;", "= __nv_none(sum);"), {}, r"mine\.cu:15: .__nv_none. was not declared"),
    "declared only": (
        ("float sum = 0.0f;", "float none(float), sum = none(0.0f);"),
        {},
        r"mine\.cu:6: none: host execution has no such function",
    ),
    "name": (("mine(", "host_entry("), {}, "host_entry: is a name of host execution; rename it"),
    "size of a frame": (
        ("__shared__ float part[8][8]", "float own[9999]; own[n] = 0; __shared__ float part[8][8]"),
        {},
        "the frame size of .* bytes is larger",
    ),
    "no value": (
        ("extern", "__device__ float none(float x) { }\nextern"),
        {},
        "no return statement in function returning non-void",
    ),
    "variables": (
        ("extern", "__device__ float much[70000000];\nextern"),
        {},
        "has more than 256 MiB of variables",
    ),
    "endless at large sizes": (
        ("int k = 0; k < n", "unsigned char k = 0; k < n"),
        {"SECONDS": 4.0},
        "host execution takes more than 4 s",
    ),
    "endless constructor": (
        ("extern", "struct S { S() { for (volatile int i = 0;; i = 0) ; } } s;\nextern"),
        {"SECONDS": 4.0},
        "host execution takes more than 4 s",
    ),
    "memory": (("", ""), {"MEMORY_BYTES": -(2**40)}, "host execution needs more than"),
}


# Which `make test` tries: a feature that host execution lacks, and each limit once.
OFTEN = ("feature", "endless constructor", "memory")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("edit", "limits", "reason"),
    [
        pytest.param(*end, marks=[] if name in OFTEN else pytest.mark.exhaustive, id=name)
        for name, end in ENDS.items()
    ],
)
def test_a_check_that_ends_early_has_its_own_status(path, card, patch, edit, limits, reason):
    patch(host_trial, **limits)
    patch(trial, built=lambda *_: iter(()))
    old, new = edit
    assert old in MINE
    path.write_text(MINE.replace(old, new, 1) if old else MINE)
    lines, status = attempted(path)
    assert re.search(reason, lines[1]), lines[1]
    assert lines[1].startswith("not checked on the CPU: ")
    assert not any(line.startswith("checked") for line in lines)
    assert status == trial.UNCHECKED == 3


@pytest.mark.slow
def test_compilation_is_limited(path, card, patch):
    patch(trial, SECONDS_WITH_BUILDS=0.0, built=lambda *_: iter(Event().wait, None))
    path.write_text(MINE.replace("float sum", "__half h; float sum"))  # not checked on the CPU
    with pytest.raises(StudyError, match=r"^mine\.cu: nvcc takes more than 0 s; simplify the ker"):
        list(trial.attempt(path, Path("config.yaml")))


@pytest.mark.slow
def test_sums_in_parts_need_only_the_bound(path):
    parts = MINE.replace("sum +=", "(i % 2 ? odd : sum) +=").replace("sum = 0", "odd = 0, sum = 0")
    parts = parts.replace("= sum;", "= sum + odd;")
    assert "bit for bit" in refusal(path, parts)
    path.write_text(parts.replace("baseline=naive", "tolerance=bound"))
    assert "within the error bound of the reference at 64, 65, 70, 3" in next(checked(read(path)))
    wrong = parts.replace("baseline=naive", "tolerance=bound").replace("= sum + odd", "= sum")
    assert re.match(r"mine\.cu:15: mine: 4096 of 4096 elements wrong; ", refusal(path, wrong))


def test_totals_are_extended_to_other_sizes():
    block = [Product("block", "float32", Shape.square(n), 32) for n in (64, 128, 4096)]
    small, twice, large = map(predict, block)
    for operation, total in large.items():
        assert trial._extended(small[operation], twice[operation], 64, 4096) == total


@pytest.fixture
def card(tmp_path, stand_ins):
    """A fake GPU and a fake compiler, which lists no architectures."""
    nvcc = stand_in(tmp_path / "nvcc")
    own = f"toolchain: {{ nvcc: {nvcc} }}\nstudy: {{ series: [] }}\n"
    (tmp_path / "config.local.yaml").write_text(own)
    return FakeHardware(tmp_path)


@pytest.mark.slow
def test_a_kernel_goes_all_the_way(path, card):
    """Checked, counted, built, on the roofline with its baseline, timed, and listed."""
    h100 = ROOT / "data" / "recordings" / "h100-sxm"
    lines = list(trial.attempt(path, Path("config.yaml"), h100, ["sm_86"], 0, [8], card))
    text = "\n".join(lines)
    assert lines[0] == "mine.cu: mine(a, b, c, n), float32: tiles of 8x8, 8x8 threads"
    for line in (
        r"global loads +72 ",
        r"sm_86 +float32 +– +0 .* 50% +1 +LDG 128\n",
        r"\n  > mine +– +\S+ +(L1|shared memory|L1 \+ shared memory) +\S+ +– +–",
        *(r"\n  naive +32 +", r"\n  > mine +– +8 +float32 +1\.8 "),
        r"\n  block +4 +8 +float32 +1\.8 ",
    ):
        assert re.search(line, text)
    assert re.fullmatch(r"recording: tried/mine/gpu0-\w{8}", lines[-1])
    made = recording.read(lines[-1].removeprefix("recording: "))
    assert made.provenance["texts"] == {"brought/mine.cu": MINE.split("\n")}
    assert made.provenance["sources"]["brought/mine.cu"] == sha256(path)


@pytest.mark.slow
def test_a_study_without_recordings_gives_no_roofline(path, card, patch):
    local = Path("config.local.yaml")
    local.write_text(f"{local.read_text()}gpus: [{{ id: mine, device: auto }}]\n")
    patch(trial, built=lambda *_: iter(()))
    lines, status = attempted(path)
    assert status == 0
    assert any(line.startswith("not compared with a roofline: the study has no ") for line in lines)
    assert lines[-1].startswith("to time it on a GPU of this host: ")


@pytest.mark.slow
def test_a_call_goes_all_the_way(path, card):
    text = CALLED.replace("import torch", "import jinja2")
    Path("called.py").write_text(text)
    file, h100 = Path("called.py"), ROOT / "data" / "recordings" / "h100-sxm"
    lines = list(trial.attempt(file, Path("config.yaml"), h100, [], 0, [8], card))
    assert lines[:2] == [
        "called.py: multiply(a, b, c, stream), float32",
        "not checked on the CPU: a Python function runs only on a GPU",
    ]
    assert re.search(r"\n  > called +– +8 +float32 +1\.8 ", "\n".join(lines))
    made = Path(lines[-1].removeprefix("recording: "))
    provenance = recording.read(made).provenance
    assert provenance["texts"] == {"brought/called.py": text.split("\n")}
    assert provenance["imports"].get("jinja2") == version("jinja2")
    catalog = sources(load({"card": [made]}))[0].catalog
    assert isinstance(catalog["called"], UserCall)
    assert "called" not in VARIANTS


def timed(path, sizes, hardware):
    entry = read(path)
    config = study.config.load(Path("config.yaml"), "quick", VARIANTS.joined(entry))
    return trial._timed(entry, config, ["block"], 0, sizes, hardware)


def test_a_source_that_no_recording_can_contain_is_refused_before_measuring(path, card):
    path.write_text(f"{MINE}// \a")
    with pytest.raises(StudyError, match=r"^mine\.cu: does not fit a recording: a text contains "):
        list(timed(path, [8], card))


@pytest.mark.slow
def test_a_kernel_that_fails_on_the_gpu_ends_with_an_error(path, card):
    path.write_text(MINE.replace("float", "ELEMENT"))  # for all dtypes
    broken = replace(card, faults=(Fault("wrong", "mine"),))
    told = timed(path, [8], broken)
    rows = [next(told) for _ in range(3)]
    assert re.match(r"  block +4 +8 ", rows[2])
    with pytest.raises(StudyError, match=r"^mine\.cu: mine fails on gpu0: 1 of 64 elements wrong;"):
        list(told)


@pytest.mark.slow
def test_a_kernel_that_stops_computing_after_the_gate_has_no_times(path, card):
    path.write_text(MINE)
    lazy = replace(card, faults=(Fault("later", "mine", 16, 3),))
    told = timed(path, [8, 16], lazy)
    reason = r"^mine\.cu: mine fails on gpu0: refused: a timed product"
    with pytest.raises(StudyError, match=reason):
        list(told)
    made = recording.read(next(Path("tried/mine").iterdir()))
    assert set(made.samples["variant"]) == {"block", "blas"}, "no time at N = 8, either"
    assert "mine" not in set(made.kernels["variant"])
    checks = made.checks[made.checks["variant"] == "mine"]
    assert set(checks["status"]) == {"failed"}
    assert set(checks["n"]) == {8, 16}
