"""Fake compilers and disassemblers instead of NVIDIA's."""

from kernels.cubins.machine_code import InstructionCount

# The listing by `stand_in`'s disassembler of any cubin: a load, and a loop of one FMA.
LISTING = """.text.$name:
        /*0000*/                   LDG.E.128 R4, [R2] ;
.L_x_0:
        /*0010*/                   FFMA R1, R4, R5, R1 ;
        /*0020*/              @P0  BRA \\`(.L_x_0) ;
        /*0030*/                   EXIT ;
"""
COUNTS = tuple(
    InstructionCount(scope, opcode, 128 if opcode == "LDG" else 0, 1)
    for scope, opcodes in (("kernel", "BRA EXIT FFMA LDG"), ("loop", "BRA FFMA"))
    for opcode in opcodes.split()
)


def program(path, script):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def stand_in(path, script='echo code >"$out"'):
    """Write a compiler that answers --version, and otherwise runs `script` with $out its output.

    A disassembler in the same folder names kernels as the cubin's file up to the first dash.
    """
    script_of_name = "name=${2##*/}\nname=${name%%-*}\n"
    program(path.with_name("nvdisasm"), f"{script_of_name}cat <<END\n{LISTING}END")
    return program(
        path,
        'if [ "$1" = --version ]; then echo "release 13.9, V13.9.7"; exit 0; fi\n'
        f'arguments="$*"\nwhile [ $# -gt 0 ] && [ "$1" != -o ]; do shift; done\nout=$2\n{script}',
    )
