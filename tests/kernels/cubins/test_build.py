"""Building cubins: the compiler, its options, its output, its errors."""

import json
import re
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from base.errors import StudyError
from base.files import sha256
from kernels.catalog.entries import VARIANTS
from kernels.cubins import compile as building
from kernels.cubins import toolchain
from kernels.cubins.build import PROBES, Build
from kernels.cubins.compile import BuildResult, build_all, build_cubin, read_result
from kernels.cubins.machine_code import InstructionCount, fmas
from kernels.theory.tiles import number_of
from tests.support import ROOT
from tests.support.compilers import COUNTS, program, stand_in

EXACT = Build("block", 32, "float32", False)


PTXAS = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'block' for 'sm_90'
ptxas info    : Function properties for block
    40 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 63 registers, used 1 barriers, 8192 bytes smem, 380 bytes cmem[0]
"""


@pytest.mark.slow
def test_nvcc_builds_cubins_and_a_json_file_describes_each(nvcc, tmp_path):
    wanted = [EXACT, Build("sgemm_top", VARIANTS["sgemm_top"].block_sizes[-1], "float32", True)]
    results = build_all(nvcc, wanted, "sm_90", tmp_path, 2)
    written = {path.name for path in (tmp_path / "sm_90").iterdir()}
    assert written == {f"{b.stem}{suffix}" for b in wanted for suffix in (".cubin", ".json")}
    for build, result in zip(wanted, results, strict=True):
        cubin = tmp_path / "sm_90" / f"{build.stem}.cubin"
        assert (result.architecture, result.origin) == ("sm_90", build)
        assert result.block_size == number_of(build.block_size)
        assert cubin.read_bytes().startswith(b"\x7fELF")
        assert build.variant.encode() in cubin.read_bytes(), "the name by which it is launched"
        assert result.nvcc == toolchain.nvcc_version(nvcc)
        assert read_result(cubin) == result
        if toolchain.find_disassembler(nvcc):
            assert fmas(result.instructions, "kernel")


def line(build, architecture="sm_86"):
    return building.command(Path("nvcc"), build, architecture, Path("x.cubin"))


def test_the_nvcc_command_has_block_size_bounds_checks_type_and_architecture():
    words = line(Build("block", 8, "float32", True))
    assert {"-cubin", "-arch=sm_86", "-DBLOCK=8", "-DGUARDED=1"} < set(words)
    assert words[-1] == str(ROOT / "kernels" / "block.cu")
    words = line(Build("buffered_row", None, "float32", False))
    assert "-DGUARDED=0" in words
    assert not [word for word in words + line(PROBES) if "BLOCK" in word]
    assert line(PROBES)[-1] == str(ROOT / "kernels" / "probes.cu")
    for dtype, c_type in {"float32": "float", "float64": "double", "int32": "unsigned"}.items():
        assert f"-DELEMENT={c_type}" in line(Build("mm_tile", 8, dtype, False))

    assert "-arch=sm_90a" in line(TENSOR, "sm_90"), "WGMMA takes a target of its own"
    for build, architecture in ((TENSOR, "sm_80"), (EXACT, "sm_90"), (PROBES, "sm_90")):
        assert f"-arch={architecture}" in line(build, architecture)
    assert building.architecture("9.0") == "sm_90"
    assert building.architecture("12.1") == "sm_121"


TENSOR = Build("sgemm_tensor", None, "float32", False)


def test_registers_and_shared_memory_are_read_from_the_output_of_ptxas(tmp_path):
    nvcc = stand_in(tmp_path / "nvcc", f'echo "$arguments" >"$out"\ncat >&2 <<"END"\n{PTXAS}END')
    out = tmp_path / "new" / "block-b32-float32-exact.cubin"
    result = build_cubin(nvcc, EXACT, "sm_90", out)
    resources = {"registers_per_thread": 63, "static_shared_bytes": 8192, "stack_bytes": 40}
    resources |= {"spill_store_bytes": 16, "spill_load_bytes": 24}
    names = {"architecture": "sm_90", "variant": "block", "dtype": "float32", "block_size": 32}
    made_of = {"build": "exact", "nvcc": "13.9.7", "cubin_sha256": sha256(out)}
    assert result == BuildResult(**names, **made_of, **resources, instructions=COUNTS)
    assert "-arch=sm_90" in out.read_text()
    written = json.loads(out.with_suffix(".json").read_text())
    assert written | {"instructions": tuple(written["instructions"])} == asdict(result)
    assert read_result(out) == result


def test_instructions_are_not_counted_for_probes_or_without_disassembler(tmp_path, monkeypatch):
    nvcc = stand_in(tmp_path / "nvcc")
    result = build_cubin(nvcc, PROBES, "sm_90", tmp_path / f"{PROBES.stem}.cubin")
    assert result.instructions == ()
    monkeypatch.setattr(building, "find_disassembler", lambda _: None)
    result = build_cubin(nvcc, EXACT, "sm_90", tmp_path / f"{EXACT.stem}.cubin")
    assert (result.instructions, result.instruction_rows()) == ((), [])


def test_a_cubin_of_several_kernels_reports_their_maximum(tmp_path):
    small = PTXAS.replace("63", "9").replace(" 8192 bytes smem,", "").replace("24 bytes", "8 bytes")
    for text in (PTXAS + small, small + PTXAS):
        nvcc = stand_in(tmp_path / "nvcc", f'echo >"$out"\ncat >&2 <<"END"\n{text}END')
        result = build_cubin(nvcc, PROBES, "sm_90", tmp_path / "probes-float32-exact.cubin")
        assert (result.registers_per_thread, result.static_shared_bytes) == (63, 8192)
        assert result.spill_load_bytes == 24


@pytest.mark.slow
def test_a_source_that_does_not_compile_is_named_and_leaves_no_file(nvcc, tmp_path, monkeypatch):
    source = tmp_path / "tree" / "kernels" / "block.cu"
    source.parent.mkdir(parents=True)
    source.write_text('extern "C" __global__ void block(float *c) { *c = undeclared; }\n')
    monkeypatch.setattr(building, "ROOT", tmp_path / "tree")
    out = tmp_path / "out" / "block-b32-float32-exact.cubin"
    said = r"^\S*/kernels/block\.cu:1: .*undeclared.* \(nvcc\)$"
    with pytest.raises(StudyError, match=said):
        build_cubin(nvcc, EXACT, "sm_90", out)
    assert list(out.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("architecture", "toolkit"),
    [
        ("sm_70", ", or install the CUDA toolkit 12.9 and name its nvcc: "),
        ("sm_130a", ", or install a newer CUDA toolkit and name its nvcc: "),
        ("sm_1", ""),
        ("sm_81", ""),
    ],
)
def test_the_error_for_an_unsupported_architecture_names_a_compiler_that_supports_it(
    tmp_path, architecture, toolkit
):
    script = """if [ "$arguments" = --list-gpu-code ]; then echo sm_75; echo sm_121; exit; fi
echo "nvcc fatal   : Unsupported gpu architecture '${arguments#*-arch=}'" >&2; exit 1"""
    nvcc = stand_in(tmp_path / "nvcc", script)
    with pytest.raises(StudyError) as refused:
        build_cubin(nvcc, EXACT, architecture, tmp_path / "x.cubin")
    assert str(refused.value) == (
        f"{architecture}: nvcc 13.9.7 builds for sm_75, sm_121; use one of them{toolkit}"
        + "toolchain.nvcc in the configuration, or --nvcc" * bool(toolkit)
    )


@pytest.mark.parametrize(
    ("build", "script", "complaint"),
    [
        (
            EXACT,
            "echo note; echo 'a.cu(3): error: no x' >&2; echo more >&2",
            "a.cu(3): error: no x",
        ),
        (PROBES, "echo 'nvcc fatal : Unsupported gpu' >&2", "nvcc fatal : Unsupported gpu"),
        (PROBES, "true", "nvcc failed without a message"),
    ],
)
def test_a_failed_build_names_the_first_error_and_keeps_the_older_cubin(
    tmp_path, build, script, complaint
):
    nvcc = stand_in(tmp_path / "nvcc", f'echo half >"$out"; {script}; exit 1')
    out = tmp_path / "out" / f"{build.stem}.cubin"
    out.parent.mkdir()
    out.write_text("older")
    with pytest.raises(StudyError) as refused:
        build_cubin(nvcc, build, "sm_90", out)
    assert str(refused.value) == f"{build.source} for sm_90: {complaint}"
    assert out.read_text() == "older"
    assert list(out.parent.iterdir()) == [out]


@pytest.fixture
def cubin(tmp_path):
    path = tmp_path / "block-b32-float32-exact.cubin"
    path.write_bytes(b"code")
    facts = ("sm_90", "block", "float32", 32, "exact", 32, 8192, 0, 0, 0, "13.0.1", sha256(path))
    counts = (InstructionCount("kernel", "FFMA", 0, 32), InstructionCount("loop", "LDS", 128, 9))
    result = BuildResult(*facts, counts)
    path.with_suffix(".json").write_text(json.dumps(asdict(result)))
    assert read_result(path) == result
    return path


@pytest.mark.parametrize(
    ("suffix", "spoil"),
    [
        (".cubin", lambda _: b"Code"),
        (".cubin", lambda _: None),
        (".json", lambda _: b"[]"),
        (".json", lambda _: b"{}"),
        (".json", lambda _: b"\xff"),
        (".json", lambda _: None),
        (".json", lambda content: content[:-1]),
        (".json", lambda content: content.replace(b"nvcc", b"gcc")),
        (".json", lambda content: content.replace(b"opcode", b"code")),
    ],
)
def test_a_cubin_that_does_not_match_its_description_is_refused(cubin, suffix, spoil):
    file = cubin.with_suffix(suffix)
    content = spoil(file.read_bytes())
    file.unlink() if content is None else file.write_bytes(content)
    said = r"block-b32-float32-exact\.cubin: missing, or different .* build it"
    with pytest.raises(StudyError, match=said):
        read_result(cubin)


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A tree of two kernels, a compiler that logs its sources, and a function that builds both."""
    (tmp_path / "kernels" / "cubins").mkdir(parents=True)
    for name in ("block.cu", "naive.cu", "cubins/compile.py", "cubins/machine_code.py"):
        (tmp_path / "kernels" / name).write_text(f"// {name}\n")
    monkeypatch.setattr(building, "ROOT", tmp_path)
    nvcc = stand_in(tmp_path / "nvcc", f'echo "$arguments" >>{tmp_path}/log; echo $# >"$out"')
    wanted = [EXACT, Build("block", 8, "float32", True), Build("naive", 8, "float32", False)]

    def build(name="sm_90", nvcc=nvcc):
        """Build all; return the compiled stems and the announcements."""
        (tmp_path / "log").write_text("")
        announced = []
        options = (wanted, name, tmp_path / "out", 2, tmp_path / "store")
        results = build_all(nvcc, *options, lambda *each: announced.append(each))
        for one, result in zip(wanted, results, strict=True):
            assert read_result(tmp_path / "out" / name / f"{one.stem}.cubin") == result
        assert [done for done, _ in announced] == [1, 2, 3]
        assert {one for _, one in announced} == set(wanted)
        lines = (tmp_path / "log").read_text().splitlines()
        return sorted(re.search(r"/([^/ ]+)-\w{16}\.cubin ", line)[1] for line in lines)

    build.folder = tmp_path
    return build


BLOCKS = ["block-b32-float32-exact", "block-b8-float32-guarded"]


def test_only_builds_with_changed_inputs_are_compiled_again(tree):
    assert tree() == [*BLOCKS, "naive-b8-float32-exact"]
    assert tree() == []
    (tree.folder / "kernels" / "block.cu").write_text("// edited\n")
    assert tree() == BLOCKS
    (tree.folder / "kernels" / "block.cu").write_text("// block.cu\n")
    assert tree() == [], "earlier cubins are still in the store"
    shutil.rmtree(tree.folder / "out")
    assert tree() == [], "changes of the output do not matter"
    next((tree.folder / "store" / "sm_90").glob("naive-*.cubin")).write_text("cut")
    assert tree() == ["naive-b8-float32-exact"], "damaged in the store"


def test_a_change_of_compiler_or_common_files_recompiles_every_cubin(tree, monkeypatch):
    everything = [*BLOCKS, "naive-b8-float32-exact"]
    tree()
    assert tree(name="sm_80") == everything
    for name in ("cubins/compile.py", "cubins/machine_code.py"):
        (tree.folder / "kernels" / name).write_text("# edited\n")
        assert tree() == everything, name
    monkeypatch.setattr(building, "FLAGS", ["-O1"])
    assert tree() == everything
    script = (tree.folder / "nvcc").read_text().replace("13.9.7", "13.9.8")
    assert tree(nvcc=program(tree.folder / "newer", script)) == everything
    monkeypatch.setattr(building, "find_disassembler", lambda _: None)
    assert tree() == everything


def test_a_failed_build_is_named_and_finished_cubins_are_kept(tree):
    nvcc = tree.folder / "nvcc"
    script = nvcc.read_text()
    refusal = 'case "$arguments" in *naive.cu*) echo "error: no x" >&2; exit 1;; esac\n'
    nvcc.write_text(script.replace("echo $#", f"{refusal}echo $#"))
    with pytest.raises(StudyError, match=r"^kernels/naive\.cu for sm_90: error: no x$"):
        tree()
    nvcc.write_text(script)
    assert tree() == ["naive-b8-float32-exact"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"--one": f"{name}-exact"}, f"build '{name}-exact': not in the catalog")
        for name in ("block-b33-float32", "blok-b32-float32", "block-b32-int32", "block-b32")
    ]
    + [
        ({"--nvcc": "/nowhere/nvcc"}, "toolchain.nvcc: /nowhere/nvcc is not a program"),
        ({"--nvcc": sys.executable}, "--version prints no release"),
        ({"--architecture": "sm_1"}, "kernels/block.cu for sm_1: nvcc fatal : no sm_1"),
        ({"--out": "{file}/block.cubin"}, "{file}"),
    ],
)
def test_a_wrong_argument_of_build_is_a_one_line_error(command, tmp_path, changes, words):
    nvcc = stand_in(
        tmp_path / "nvcc",
        'case "$arguments" in *sm_1*) echo "nvcc fatal : no sm_1"; exit 1;; esac; echo x >"$out"',
    )
    file = tmp_path / "file"
    file.write_text("kept")
    options = {
        "--architecture": "sm_90",
        "--one": "block-b32-float32-exact",
        "--out": tmp_path / "out.cubin",
        "--nvcc": nvcc,
    } | {key: value.format(file=file) for key, value in changes.items()}
    done = command("build", *(word for option in options.items() for word in option))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert words.format(file=file) in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert file.read_text() == "kept"
    assert not (tmp_path / "out.cubin").exists()


def test_file_names_with_shell_characters_are_not_interpreted_by_a_shell(tmp_path, monkeypatch):
    monkeypatch.setenv("MARK", str(tmp_path / "x"))
    tree = tmp_path / "dol$(touch $MARK)lar"
    (tree / "kernels").mkdir(parents=True)
    (tree / "kernels" / "block.cu").write_text("// a kernel")
    monkeypatch.setattr(building, "ROOT", tree)
    nvcc = stand_in(tmp_path / "nvcc", 'sh -c "echo $arguments" >/dev/null; echo x >"$out"')
    build_cubin(nvcc, EXACT, "sm_90", tree / "block-b32.cubin")
    assert sorted(path.name for path in tmp_path.iterdir()) == [tree.name, "nvcc", "nvdisasm"]
