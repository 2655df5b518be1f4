"""Machine code: the disassembler that is found, its text and the main loop."""

import re
from pathlib import Path

import pytest

from base.errors import StudyError
from kernels.cubins import machine_code, toolchain
from kernels.cubins.machine_code import instructions, main_loop
from kernels.cubins.toolchain import find_disassembler
from tests.support import ROOT
from tests.support.compilers import program

# From nvdisasm's text of outer_product for sm_90, cut to a few instructions of each part.
OUTER_PRODUCT = (ROOT / "tests/kernels/cubins/outer_product.sass").read_text()
# Its last kernel, with a label that has the same name as one of the first.
OTHER = (ROOT / "tests/kernels/cubins/other.sass").read_text()


def listing(text, function="f"):
    """Parse a listing written short: a line is a label or an instruction."""
    lines = [f".text.{function}:"]
    for line in text.strip().splitlines():
        word = line.strip()
        lines.append(word if word.endswith(":") else f"        /*0000*/    {word} ;")
    return machine_code.parse("\n".join(lines), function)


@pytest.fixture
def said(monkeypatch):
    text = []
    monkeypatch.setattr(machine_code, "_disassembled", lambda *_: "".join(text))
    return text


def test_instructions_are_counted_in_the_kernel_and_in_its_main_loop(said):
    said += [OUTER_PRODUCT, OTHER]
    counts = instructions(Path("x.cubin"), Path("nvdisasm"), "outer_product")
    kernel, loop = (
        " ".join(
            f"{c.opcode}{f'/{c.bits}' if c.bits else ''}={c.count}"
            for c in counts
            if one == c.scope
        )
        for one in ("kernel", "loop")
    )
    assert kernel == (
        "BAR=2 BRA=3 EXIT=1 FFMA=2 HFMA2=1 IMAD=1 IMAD.WIDE=3 ISETP=1 LDC=1 LDG/32=2 LDS/32=1 "
        "LDS/128=1 S2R=1 STG/32=1 STS/32=1 UIADD3=1"
    )
    assert loop == "BRA=1 FFMA=2 IMAD.WIDE=1 LDG/32=1 LDS/32=1 LDS/128=1"
    assert counts == sorted(counts, key=lambda c: (c.scope, c.opcode, c.bits))


def test_each_kernel_of_a_cubin_has_its_own_counts(said):
    said += [OUTER_PRODUCT, OTHER]
    counts = instructions(Path("x.cubin"), Path("nvdisasm"), "other")
    kernel = ("BRA", "DFMA", "EXIT", "NOP")  # one NOP is executed
    expected = [("kernel", opcode, 1) for opcode in kernel]
    expected += [("loop", opcode, 1) for opcode in kernel[:2]]
    assert [(c.scope, c.opcode, c.count) for c in counts] == expected


def test_the_width_of_a_memory_access_is_read_from_its_opcode():
    widths = {8: "LDG.E.U8", 16: "LDG.E.S16", 32: "LDG.E LDG.E.SYS LDS.U"}
    widths[64] = "LDG.E.64.STRONG.GPU LDG.E.LTC128B.64.CONSTANT STS.64 LDL.64"
    widths |= {128: "LDG.E.128.SYS LDS.U.128 STG.E.128", 0: "LDC.64 ULDC.64 IMAD.U32 FFMA CS2R.32"}
    for bits, names in widths.items():
        for name in names.split():
            assert machine_code.Instruction(name, False, "R0, [R2]").bits == bits, name


def test_only_an_imad_that_multiplies_no_matrix_elements_keeps_a_modifier():
    opcodes = {"FFMA.FTZ R1, R2, R3, R4": "FFMA", "BAR.SYNC.DEFER_BLOCKING 0x0": "BAR"}
    opcodes |= {"UIADD3.X UR9, URZ, UR9, URZ, UP0, !UPT": "UIADD3"}
    opcodes |= {"IMAD.MOV.U32 R5, RZ, RZ, R2": "IMAD.MOV", "IMAD.WIDE.U32 R8, R5": "IMAD.WIDE"}
    opcodes |= {f"IMAD R25, R24{word}": "IMAD" for word in (".reuse, -R16, R15", ", R16, RZ")}
    strides = ("0x8", "UR13", "c[0x0][0x17c]")
    opcodes |= {f"IMAD R25, R24, {stride}, R15": "IMAD.scalar" for stride in strides}
    for line, opcode in opcodes.items():
        name, operands = line.split(" ", 1)
        assert machine_code.Instruction(name, False, operands).opcode == opcode, line


def test_the_target_label_of_every_branch_is_found():
    goes_on = ["@P0 BRA `(.L_x_1)", "@!P0 BRA P1, `(.L_x_1)", "BRA.U !UP0, `(.L_x_1)"]
    goes_on += ["BRA.DIV UR4, `(.L_x_1)", "BRA.CONV `(.L_x_1)", "FADD R0, R1, R2", "@P0 EXIT"]
    goes_on += ["CALL.REL.NOINC `($__internal_0_$__cuda_sm20_rem_u64)"]
    goes_on += ["BSSY.RECONVERGENT B0, `(.L_x_1)"]
    ends = ["BRA `(.L_x_1)", "BRA.U `(.L_x_1)", "RET.REL.NODEC R8 `(f)", "EXIT"]
    for line in goes_on + ends:
        (found,) = listing(line).instructions
        assert found.target == (".L_x_1" if "BRA" in line else None), line
        assert found.falls_through == (line in goes_on), line


SHORT = {"S": "S2R R0, SR_TID.X", "F": "FFMA R1, R2, R3, R1", "BAR": "BAR.SYNC 0x0", "X": "EXIT"}
SHORT |= {"IADD": "IADD3 R0, R0, 0x1, RZ", "IMAD": "IMAD R1, R2, R3, R1"}
SHORT |= {"IMAD8": "IMAD R9, R9, 0x8, R9", "IMADc": "IMAD R9, R8, c[0x0][0x17c], R7"}
SHORT |= {"LDG": "LDG.E R2, [R4]", "LDS": "LDS R2, [R4]", "STG": "STG.E [R2], R1"}


def short(text):
    """Parse words: 1: is a label, @1 a branch to it of some threads, >1 a branch of all."""
    lines = [re.sub(r"^(\d):$", r".L_\1:", SHORT.get(word, word)) for word in text.split()]
    lines = [re.sub(r"^@(\d)$", r"@P0 BRA `(.L_\1)", line) for line in lines]
    return listing("\n".join(re.sub(r"^>(\d)$", r"BRA `(.L_\1)", line) for line in lines))


@pytest.mark.parametrize(
    ("text", "starts", "main"),
    [
        ("S 1: F @1 2: F F @2 3: F @3 X", [1, 3, 6], {3, 4, 5}),  # the most unrolled copy
        ("S 1: F IADD @1 2: F @2 3: F @3 X", [1, 4, 6], {4, 5}),  # the fewest instructions
        ("S 1: BAR F F 2: F @2 BAR @1 X", [1, 4], {1, 2, 3, 6, 7}),  # without its inner loop
        ("S 1: F @9 2: F @1 STG X 9: LDG >2", [1], {1, 2, 3, 4, 7, 8}),  # with code out of line
        ("S 1: F @2 LDG >1 2: LDS @1 X", [1], {1, 2, 3, 4, 5, 6}),  # two branches to one label
        ("S 1: F >1 NOP", [1], {1, 2}),  # a loop at the end that does something
        ("S 1: LDG @1 X", [1], set()),  # no FMA in a loop
        ("LDG F X", [], set()),
        ("IMADc 1: IMAD @1 2: IMAD8 IMAD8 @2 X", [1, 3], {1, 2}),  # IMAD where nothing else
        ("F 1: IMAD @1 X", [1], set()),  # multiplies and adds
    ],
)
def test_the_main_loop_of_a_kernel_is_found(text, starts, main):
    code = short(text)
    assert sorted(machine_code.loops(code)) == starts
    assert main_loop(code) == main
    if len(starts) == 1 and main:
        assert machine_code.loops(code) == {starts[0]: main}
    code = short("NOP F X 3: >3 NOP NOP")  # the end of the code is not counted
    assert [instruction.name for instruction in code.instructions] == ["NOP", "FFMA", "EXIT"]


def test_the_disassembler_next_to_nvcc_precedes_those_on_path_and_in_wheels(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    paths = {"purelib": str(tmp_path / "site")}
    monkeypatch.setattr(toolchain.sysconfig, "get_paths", lambda: paths)
    real = program(tmp_path / "toolkit" / "nvcc", "")
    (tmp_path / "bin").mkdir()
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.symlink_to(real)
    wheel = tmp_path / "site" / "nvidia" / "cu13" / "bin"
    folders = [nvcc.parent, real.parent, tmp_path / "path", wheel]
    found = [program(folder / "nvdisasm", "") for folder in folders]
    for disassembler in found:
        assert find_disassembler(nvcc) == disassembler
        disassembler.unlink()
    assert find_disassembler(nvcc) is None


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'fatal   : no SM99' >&2; exit 1", r"cannot read it \(fatal   : no SM99"),
        ("exit 1", r"cannot read it \(no message\); install the nvdisasm of nvcc's release"),
        ("echo .text.other:", "finds no kernel naive; build it again, or install"),
    ],
)
def test_a_disassembler_that_fails_is_a_one_line_error(tmp_path, script, message):
    disassembler = program(tmp_path / "nvdisasm", script)
    with pytest.raises(StudyError, match=message) as refused:
        instructions(tmp_path / "naive.cubin", disassembler, "naive")
    assert str(refused.value).startswith(f"{tmp_path}/naive.cubin: {disassembler}")
    assert "\n" not in str(refused.value)
    disassembler.chmod(0o644)
    with pytest.raises(StudyError, match=r"nvdisasm: cannot run \(Permission denied\); install"):
        instructions(tmp_path / "naive.cubin", disassembler, "naive")
