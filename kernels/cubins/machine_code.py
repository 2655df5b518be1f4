"""Counting the instructions of a kernel and of its main loop in its machine code.

nvdisasm prints a cubin as text; no GPU is needed. Three kinds of lines are read: instructions
(``/*01f0*/ @P1 BRA `(.L_x_4) ;``), labels (``.L_x_4:``) and starts of kernels (``.text.NAME:``).
Source G checks the same facts: 128-bit loads, unrolled loops, and the share of FMAs.
"""

import math
import re
import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from base.errors import StudyError

KERNEL, LOOP = "kernel", "loop"
# FMAs of elements by type. IMAD also computes addresses in every kernel, so it counts only in
# kernels without the others.
FLOATING_FMAS = ("FFMA", "DFMA")
INTEGER_FMAS = ("IMAD",)
# FMAs of tensor cores, each of many elements; kernels with them have no other FMAs of elements.
TENSOR_FMAS = ("HMMA", "HGMMA")
LOADS = ("LDG", "LDS", "LDL", "LD")
STORES = ("STG", "STS", "STL", "ST")
# The width in bits of an access whose opcode has no modifier for the width.
WORD_BITS = 32

_KERNEL_START = re.compile(r"\.text\.([\w$]+):")
_LABEL = re.compile(r"([.$\w]+):")
_INSTRUCTION = re.compile(r"\s+/\*[0-9a-f]{4,}\*/\s+(@\S+\s+)?([A-Z][\w.]*)\s*([^;]*?)\s*;")
_TARGET = re.compile(r"`\(([^)]+)\)$")
_WIDTH = re.compile(r"[US]?(\d+)")
_REGISTER = re.compile(r"-?R\d+(\.\w+)?")


@dataclass(frozen=True)
class InstructionCount:
    """The number of times an instruction occurs in a kernel: a row of instructions.csv.

    `scope` is ``kernel`` (all code) or ``loop`` (see `main_loop`). `opcode` has no modifiers,
    except for IMADs that do not multiply matrix elements: ``IMAD.MOV``, ``IMAD.WIDE`` and others,
    and ``IMAD.scalar``, an IMAD by a factor that all lanes share. `bits` is the width of a load or
    store per thread, 0 for all other instructions.
    """

    scope: str
    opcode: str
    bits: int
    count: int


@dataclass(frozen=True)
class Instruction:
    """One instruction: its full name, whether it has a predicate, and its operands."""

    name: str
    predicated: bool
    operands: str

    @property
    def opcode(self) -> str:
        """The name without modifiers; an IMAD that does not multiply matrix elements keeps one.

        Matrix elements are in registers of the thread. If a factor is an immediate, a constant or a
        uniform register, it is a stride, so the IMAD computes an address.
        """
        base, *modifiers = self.name.split(".")
        if base != "IMAD":
            return base
        if modifiers:
            return f"IMAD.{modifiers[0]}"
        factors = self.operands.split(", ")[1:3]
        return "IMAD" if all(map(_REGISTER.fullmatch, factors)) else "IMAD.scalar"

    @property
    def bits(self) -> int:
        """The bits that a load or store accesses per thread; 0 for other instructions."""
        base, *modifiers = self.name.split(".")
        if base not in LOADS + STORES:
            return 0
        widths = (_WIDTH.fullmatch(modifier) for modifier in modifiers)
        return next((int(width[1]) for width in widths if width), WORD_BITS)

    @property
    def target(self) -> str | None:
        """The label to which a branch jumps; None for other instructions and for calls."""
        label = _TARGET.search(self.operands) if self.opcode == "BRA" else None
        return label[1] if label else None

    @property
    def falls_through(self) -> bool:
        """Whether the next instruction may be executed after this one.

        A branch is conditional if it has a predicate or an operand before the label, or depends on
        the convergence of the warp (CONV, DIV).
        """
        if self.opcode == "BRA":
            by_lanes = self.name.endswith((".CONV", ".DIV"))
            return self.predicated or by_lanes or "," in self.operands
        return self.predicated or self.opcode not in ("EXIT", "RET")


@dataclass
class Code:
    """The instructions of a kernel in order; for each label, the index of its instruction."""

    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)

    def without_end(self) -> "Code":
        """Return the code without the padding at its end: NOPs after an endless branch."""
        kept = list(self.instructions)
        while kept and kept[-1].name == "NOP":
            kept.pop()
        if kept and self.labels.get(kept[-1].target or "") == len(kept) - 1:
            kept.pop()
        return Code(kept, self.labels)

    def predecessors(self) -> list[list[int]]:
        """Return for each instruction the indices of the instructions that may precede it."""
        before: list[list[int]] = [[] for _ in self.instructions]
        for index, instruction in enumerate(self.instructions):
            following = [index + 1] if instruction.falls_through else []
            if instruction.target in self.labels:
                following.append(self.labels[instruction.target])
            for after in following:
                if after < len(before):
                    before[after].append(index)
        return before


def instructions(cubin: Path, disassembler: Path, function: str) -> list[InstructionCount]:
    """Count the instructions of one kernel of a cubin, in all code and in its main loop.

    The counts are sorted by scope, opcode and width. Raise StudyError if the disassembler cannot
    read the cubin or does not find the kernel.
    """
    code = parse(_disassembled(cubin, disassembler), function)
    if not code.instructions:
        raise StudyError(
            f"{cubin}: {disassembler} finds no kernel {function}; build it again, or install the "
            "nvdisasm of nvcc's release"
        )
    scopes = {KERNEL: range(len(code.instructions)), LOOP: sorted(main_loop(code))}
    return [
        InstructionCount(scope, opcode, bits, count)
        for scope, indices in scopes.items()
        for (opcode, bits), count in sorted(_tally(code, indices).items())
    ]


def parse(text: str, function: str) -> Code:
    """Return the code of a kernel from nvdisasm's text, without padding."""
    code, inside = Code(), False
    for line in text.splitlines():
        if start := _KERNEL_START.fullmatch(line):
            inside = _names(start[1], function)
        elif not inside:
            continue
        elif label := _LABEL.fullmatch(line):
            code.labels[label[1]] = len(code.instructions)
        elif match := _INSTRUCTION.match(line):
            code.instructions.append(Instruction(match[2], bool(match[1]), match[3]))
    return code.without_end()


def _names(symbol: str, function: str) -> bool:
    """Return whether an assembler symbol, perhaps mangled, names this function."""
    mangled = symbol.startswith("_Z") and f"{len(function)}{function}" in symbol
    return symbol == function or mangled


def loops(code: Code) -> dict[int, set[int]]:
    """Return the natural loops of a kernel: for each head, the indices of its instructions.

    A natural loop is all code that can run between its head and a branch back to the head, if the
    head is its only entry. Code moved out of line therefore belongs to the loop that reaches it,
    and its branch back is not a loop.
    """
    predecessors = code.predecessors()
    bodies: dict[int, set[int]] = {}
    for head in sorted(set(code.labels.values())):
        for latch in predecessors[head] if head < len(predecessors) else []:
            body = _natural_loop(predecessors, head, latch)
            if body:
                bodies.setdefault(head, set()).update(body)
    return bodies


def main_loop(code: Code) -> set[int]:
    """Return the indices of the instructions of the main loop; empty if there is none.

    The main loop is the one with the most FMAs outside its inner loops. The compiler emits a loop
    of the source several times: unrolled, and again for the remaining iterations. The most unrolled
    copy does most of the work and has the most FMAs. It is the loop over tiles if the loop within a
    tile is fully unrolled, otherwise the inner loop. Among equals, the loop with the fewest
    instructions is chosen, then the first. Instructions of inner loops are excluded, so each
    instruction runs once per iteration.
    """
    bodies = loops(code)
    without_inner = [
        body
        - {i for inner, part in bodies.items() if inner != head and inner in body for i in part}
        for head, body in bodies.items()
    ]
    names = _fma_names({instruction.opcode for instruction in code.instructions})

    def fmas_of(body: set[int]) -> int:
        return sum(code.instructions[index].opcode in names for index in body)

    best = max(without_inner, key=lambda body: (fmas_of(body), -len(body)), default=set())
    return best if fmas_of(best) else set()


def fmas(counts: Iterable[InstructionCount], scope: str) -> int:
    """Return the FMAs on matrix elements: of tensor cores, else FFMA and DFMA, else IMAD."""
    counts = list(counts)
    names = _fma_names({count.opcode for count in counts})
    return sum(c.count for c in counts if c.scope == scope and c.opcode in names)


def fma_share(counts: Iterable[InstructionCount], scope: str) -> float | None:
    """Return the share (0 to 1) of FMAs in all instructions; None if the scope is empty."""
    counts = list(counts)
    total = sum(count.count for count in counts if count.scope == scope)
    return fmas(counts, scope) / total if total else None


def loads_by_width(
    counts: Iterable[InstructionCount], scope: str, opcode: str = "LDG"
) -> dict[int, int]:
    """Return the number of loads (LDG: global, LDS: shared memory) by width in bits."""
    return {c.bits: c.count for c in counts if c.scope == scope and c.opcode == opcode}


def barriers(counts: Iterable[InstructionCount], scope: str) -> int:
    """Return the number of block barriers."""
    return sum(c.count for c in counts if c.scope == scope and c.opcode == "BAR")


def unrolling(counts: Iterable[InstructionCount], sums_per_thread: int) -> float:
    """Return K per iteration of the main loop: its FMAs divided by the elements of C per thread.

    It is 0 without a main loop, and on tensor cores, where one instruction covers several k. It is
    NaN if the number of elements per thread is unknown (0).
    """
    counts = list(counts)
    if not sums_per_thread:
        return math.nan
    if any(count.opcode in TENSOR_FMAS for count in counts):
        return 0.0
    return fmas(counts, LOOP) / sums_per_thread


def _natural_loop(predecessors: list[list[int]], head: int, latch: int) -> set[int]:
    """Return the loop from `head` to `latch`; empty if other code can jump into it."""
    body: set[int] = set()
    waiting = [latch]
    while waiting:
        index = waiting.pop()
        if index not in body:
            body.add(index)
            waiting += predecessors[index] if index != head else []
    return body if head in body and 0 not in body else set()


def _fma_names(opcodes: set[str]) -> tuple[str, ...]:
    """Return those opcodes that are a kernel's FMAs on matrix elements."""
    for names in (TENSOR_FMAS, FLOATING_FMAS):
        if opcodes.intersection(names):
            return names
    return INTEGER_FMAS


def _tally(code: Code, indices: Iterable[int]) -> Counter[tuple[str, int]]:
    chosen = (code.instructions[index] for index in indices)
    return Counter((instruction.opcode, instruction.bits) for instruction in chosen)


def _disassembled(cubin: Path, disassembler: Path) -> str:
    """Return nvdisasm's text of a cubin; raise StudyError if it fails."""
    try:
        done = subprocess.run(
            [disassembler, "--print-code", cubin], capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise StudyError(
            f"{disassembler}: cannot run ({error.strerror}); install another nvdisasm"
        ) from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise StudyError(
            f"{cubin}: {disassembler} cannot read it ({said[0]}); install the nvdisasm of nvcc's "
            "release"
        )
    return done.stdout
