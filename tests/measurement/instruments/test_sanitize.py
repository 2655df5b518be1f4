"""compute-sanitizer: the meaning of its output, and the check that it runs."""

import re

import pytest

from base.errors import StudyError
from kernels.catalog.entries import VARIANTS
from kernels.products.elements import ELEMENTS
from kernels.products.matrices import Inputs
from kernels.products.shape import Shape
from measurement.devices.discovery import CudaDevice
from measurement.instruments import sanitize as sanitizer
from measurement.instruments.check import Outcome, builds_of, check, plan
from measurement.instruments.sanitize import SIZES, TOOLS, sanitize
from study.config import validate
from tests.support.fakes import FakeDevice, FakeHardware, Fault
from tests.support.studies import SMALL

SHAPES = ["17x33x65", "3x2x3x4"]
NO_CALL = "Target application terminated before first instrumented API call"
GPUS = [{"id": "local", "device": 0}]
CONFIG = validate({"study": SMALL | {"block_sizes": [1, 8]}, "gpus": GPUS}, "config")
# Runs the script named like the tool after --tool.
STAND_IN = """#!/bin/sh
echo "$@" >> {folder}/commands
while [ "$1" != --tool ]; do shift; done
. {folder}/"$2"
"""
BANNER = "echo ========= COMPUTE-SANITIZER\n"
CHECKED = "echo check: 44 cells run, {} failed, 0 not launchable\necho ========= "
CLEAN = f"{BANNER}{CHECKED.format(0)}ERROR SUMMARY: 0 errors"
SUMMARY = "'RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)'"
NO_HAZARD = BANNER + CHECKED.format(0) + SUMMARY
INVALID_READ = f"""{BANNER}
echo ========= Invalid __global__ read of size 4 bytes
echo '=========     at block+0x120'
{CHECKED.format(1)}ERROR SUMMARY: 3 errors
exit 86
"""
HAZARD = f"""{BANNER}
echo ========= Warning: Race reported between Read access and Write access
{CHECKED.format(0)}'RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)'
"""


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A host with a fake GPU, compiler and compute-sanitizer; its folder."""
    monkeypatch.setattr(sanitizer, "select", lambda index: [CudaDevice(index, "Stand-in", "8.6")])
    monkeypatch.setattr(sanitizer, "lock_file", lambda device: tmp_path / "lock")
    monkeypatch.setattr(sanitizer, "find_nvcc", lambda _: tmp_path / "toolkit" / "nvcc")
    monkeypatch.setattr(sanitizer, "build_all", lambda *_: [])
    program = tmp_path / "bin" / "compute-sanitizer"
    program.parent.mkdir()
    program.write_text(STAND_IN.format(folder=tmp_path))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    for tool in TOOLS:
        (tmp_path / tool).write_text(NO_HAZARD if tool == "racecheck" else CLEAN)
    return tmp_path


def lines(capsys):
    return capsys.readouterr().out.splitlines()


def test_correct_kernels_pass_under_every_sanitizer_tool(host, capsys):
    assert sanitize(CONFIG, 2, SIZES, TOOLS, host / "out") == 0
    said = lines(capsys)
    assert [line.split()[0] for line in said] == list(TOOLS)
    assert all("44 cells, 0 errors, " in line and line.endswith(" s") for line in said)
    assert (host / "out" / "memcheck.txt").read_text().startswith("========= COMPUTE-SANITIZER")
    commands = (host / "commands").read_text().splitlines()
    assert all(f"--tool {tool} " in line for tool, line in zip(TOOLS, commands, strict=True))
    assert ["--leak-check no" in line for line in commands] == [True, False, False, False]
    assert all("-m measurement.instruments.check --device 2 --cubins " in line for line in commands)
    shapes = " ".join(SIZES)
    assert {"17x33x65", "3x17x33x65"} < set(SIZES)
    assert all(f"--block-sizes 1 8 --sizes {shapes} --dtypes" in line for line in commands)
    assert all(line.endswith("--dtypes float32 float64 int32") for line in commands)
    asked = commands[0].partition("--variants ")[2].partition(" --block-sizes")[0].split()
    assert asked == [name for name, entry in VARIANTS.items() if entry.kernel_name]
    assert sanitize(CONFIG, 0, ["8"], ["synccheck"], host / "out") == 0
    assert len(lines(capsys)) == 1, "only the tool asked for"
    beside = host / "toolkit" / "compute-sanitizer"
    beside.parent.mkdir()
    (host / "bin" / "compute-sanitizer").rename(beside)
    assert sanitize(CONFIG, 0, ["8"], ["memcheck"], host / "out") == 0, "found beside nvcc"


@pytest.mark.parametrize(
    ("tool", "behaviour", "said"),
    [
        ("memcheck", INVALID_READ, "3 errors, Invalid __global__ read of size 4 bytes"),
        ("racecheck", HAZARD, "1 errors, Warning: Race reported between Read access and Write"),
        ("initcheck", CLEAN.replace("0 failed", "2 failed"), "0 errors, 2 products wrong"),
        ("initcheck", CLEAN.replace("44 cells", "0 cells"), "0 errors, no cell ran"),
        ("synccheck", CLEAN + "\nexit 3", "0 errors, exit status 3"),
        ("synccheck", "echo error: no GPU; exit 2", "no result, exit status 2: error: no GPU"),
        ("synccheck", "kill -9 $$", "no result, exit status -9: no message"),
        ("synccheck", f"echo ========= {NO_CALL}", f"no result, exit status 0: {NO_CALL[:54]}"),
        # The tool reports no error, but the check died.
        ("memcheck", f"echo Died; {CLEAN.splitlines()[-1]}", "0 errors, exit status 0: Died"),
    ],
)
def test_findings_of_one_sanitizer_tool_are_reported_and_the_others_still_run(
    host, tool, behaviour, said, capsys
):
    (host / tool).write_text(behaviour)
    assert sanitize(CONFIG, 0, ["8"], TOOLS, host / "out") == 1
    by_tool = {line.split()[0]: line for line in lines(capsys)}
    assert set(by_tool) == set(TOOLS)
    errors, fault = said.split(", ")
    assert f" cells, {errors}, " in by_tool[tool]
    assert f" s: {fault}" in by_tool[tool]
    assert by_tool[tool].endswith(f"; see {host}/out/{tool}.txt")
    assert sum("; see " in line for line in by_tool.values()) == 1


def test_a_missing_tool_or_an_invalid_argument_is_a_one_line_error(host):
    shapes = [(["8", n], TOOLS, f"shape '{n}': not valid; use N, M") for n in ("0", "8x8", "2x0x3")]
    leak = "--tools: 'leakcheck' is unknown; use one of memcheck, racecheck, "
    missing = "compute-sanitizer: not found; install the CUDA toolkit"
    for sizes, tools, said in (*shapes, (["8"], ["leakcheck"], leak), (["8"], TOOLS, missing)):
        if said == missing:
            (host / "bin" / "compute-sanitizer").unlink()
        with pytest.raises(StudyError, match=f"^{re.escape(said)}"):
            sanitize(CONFIG, 0, sizes, tools, host / "out")
    assert not (host / "commands").exists()


def test_each_variant_is_sanitized_with_every_type_and_shape_that_it_supports():
    cells = plan(["block", "mm_tile"], [8], ["16", *SHAPES], ELEMENTS)
    dtypes = VARIANTS["mm_tile"].dtypes
    expected = {("mm_tile", dtype, text) for dtype in dtypes for text in ("16", "17x33x65")}
    assert {(c.variant, c.dtype, str(c.shape)) for c in cells} == expected | {
        ("block", "float32", "16")
    }
    kinds = {f"mm_tile-b8-{dtype}-{kind}" for dtype in dtypes for kind in ("exact", "guarded")}
    assert {build.stem for build in builds_of(cells)} == kinds | {"block-b8-float32-exact"}


def run_check(tmp_path, capsys, *faults):
    """Check a fake device; return the outcome and the printed lines."""
    outcome = Outcome()
    for n in ("8", "70"):
        inputs = Inputs([("float32", Shape.parse(n))], seed=1)
        device = FakeDevice(FakeHardware(tmp_path, faults), "gpu0", inputs)
        cells = plan(["naive", "buffered_row", "block"], [4], [n])
        if not check(device, cells, inputs, outcome):
            break
    return str(outcome), lines(capsys)


def test_a_failed_configuration_does_not_stop_the_check_of_others(tmp_path, capsys):
    said = "check: 5 cells run, 0 failed, 1 not launchable"
    assert run_check(tmp_path, capsys) == (said, [])
    for kind, reason in (
        ("wrong", "1 of 64 elements wrong; worst C(1, 2) = "),
        ("nan", "1 of 64 elements wrong; worst C(1, 2) = nan"),
        ("unwritten", "8 of 64 elements wrong; worst C(3, 0) = nan"),
        ("refused", "too many resources requested for launch"),
    ):
        said, (line,) = run_check(tmp_path, capsys, Fault(kind))
        assert said == "check: 5 cells run, 1 failed, 1 not launchable"
        assert line.startswith(f"gpu block B=4 N=8 pinned: {reason}")
    said, printed = run_check(tmp_path, capsys, Fault("illegal", "naive", 8))
    assert said == "check: 1 cells run, 1 failed, 0 not launchable"
    fault = "an illegal memory access was encountered; skipping the remaining cells"
    assert printed == [f"gpu naive B=4 N=8 pinned: {fault}"]


def test_of_several_error_summaries_of_a_sanitizer_the_largest_is_reported(tmp_path):
    summaries = [f"========= ERROR SUMMARY: {count} errors" for count in (0, 3)]
    output = "\n".join([*summaries, "check: 4 cells run, 0 failed"])
    report = sanitizer.read_report("memcheck", output, 0, 1.0, tmp_path / "log")
    assert (report.errors, report.cells) == (3, 4)
