"""Reading machine code: how often each instruction stands in a kernel, and in its main loop.

A cubin is turned into text by nvdisasm, of whose lines three kinds count: instructions
(``/*01f0*/ @P1 BRA `(.L_x_4) ;``), labels (``.L_x_4:``) and where a kernel begins
(``.text.NAME:``). Needs no GPU. The method is that of source G: are loads 128 bits wide, is the
loop unrolled, what share of all instructions multiplies and adds?
"""

import re
import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from base.errors import StudyError

KERNEL, LOOP = "kernel", "loop"
# What multiplies and adds elements of each type. IMAD computes some addresses of any kernel too, so
# that it counts only in kernels that have none of the others.
FLOATING_FMAS = ("FFMA", "DFMA")
INTEGER_FMAS = ("IMAD",)
# Those of tensor cores, each of many elements; what has them multiplies elements by nothing else.
TENSOR_FMAS = ("HMMA", "HGMMA")
LOADS = ("LDG", "LDS", "LDL", "LD")
STORES = ("STG", "STS", "STL", "ST")
# Width in bits of an access whose modifiers do not name another one.
WORD_BITS = 32

_KERNEL_START = re.compile(r"\.text\.([\w$]+):")
_LABEL = re.compile(r"([.$\w]+):")
_INSTRUCTION = re.compile(r"\s+/\*[0-9a-f]{4,}\*/\s+(@\S+\s+)?([A-Z][\w.]*)\s*([^;]*?)\s*;")
_TARGET = re.compile(r"`\(([^)]+)\)$")
_WIDTH = re.compile(r"[US]?(\d+)")
_REGISTER = re.compile(r"-?R\d+(\.\w+)?")


@dataclass(frozen=True)
class InstructionCount:
    """How often an instruction stands in the code of a kernel: a row of instructions.csv.

    `scope` is ``kernel`` (all of it) or ``loop`` (its main loop, see `main_loop`). `opcode` has no
    modifiers, but for what is called IMAD and multiplies no elements: ``IMAD.MOV``, ``IMAD.WIDE``
    and the like, and ``IMAD.scalar``, which is an IMAD by a factor that all lanes share. `bits` is
    the width of a thread's access for loads and stores, 0 for all others.
    """

    scope: str
    opcode: str
    bits: int
    count: int


@dataclass(frozen=True)
class Instruction:
    """One instruction: its whole name, whether a predicate guards it, its operands."""

    name: str
    predicated: bool
    operands: str

    @property
    def opcode(self) -> str:
        """Name without modifiers; an IMAD that multiplies no elements keeps, or is given, one.

        Elements lie in registers of the thread. Where a factor is an immediate, a constant or a
        uniform register, it is the distance of two elements: an address is computed.
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
        """Width of the access in bits, 0 where memory is not accessed."""
        base, *modifiers = self.name.split(".")
        if base not in LOADS + STORES:
            return 0
        widths = (_WIDTH.fullmatch(modifier) for modifier in modifiers)
        return next((int(width[1]) for width in widths if width), WORD_BITS)

    @property
    def target(self) -> str | None:
        """Label to which a branch may go; None for what is no branch (a call comes back)."""
        found = _TARGET.search(self.operands) if self.opcode == "BRA" else None
        return found[1] if found else None

    @property
    def falls_through(self) -> bool:
        """Whether the next instruction may follow.

        A branch is conditional by its predicate, by an operand before the label, or (CONV, DIV) by
        whether the lanes of the warp are at one.
        """
        if self.opcode == "BRA":
            by_lanes = self.name.endswith((".CONV", ".DIV"))
            return self.predicated or by_lanes or "," in self.operands
        return self.predicated or self.opcode not in ("EXIT", "RET")


@dataclass
class Code:
    """The instructions of a kernel in order, and the index of the one that each label names."""

    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)

    def without_end(self) -> "Code":
        """Return the code without what fills it up: NOPs, and the endless branch before them."""
        kept = list(self.instructions)
        while kept and kept[-1].name == "NOP":
            kept.pop()
        if kept and self.labels.get(kept[-1].target or "") == len(kept) - 1:
            kept.pop()
        return Code(kept, self.labels)

    def predecessors(self) -> list[list[int]]:
        """Return for each instruction the indices of those that may run just before it."""
        found: list[list[int]] = [[] for _ in self.instructions]
        for index, instruction in enumerate(self.instructions):
            following = [index + 1] if instruction.falls_through else []
            if instruction.target in self.labels:
                following.append(self.labels[instruction.target])
            for after in following:
                if after < len(found):
                    found[after].append(index)
        return found


def instructions(cubin: Path, disassembler: Path, function: str) -> list[InstructionCount]:
    """Count the instructions of one kernel of a cubin, in all of it and in its main loop.

    Ordered by scope, opcode and width. Raises StudyError where the disassembler cannot read the
    cubin or finds no such kernel in it.
    """
    code = parse(_disassembled(cubin, disassembler), function)
    if not code.instructions:
        raise StudyError(
            f"{cubin}: {disassembler} finds no kernel {function} in it; build it again, or install "
            "the nvdisasm of nvcc's release"
        )
    scopes = {KERNEL: range(len(code.instructions)), LOOP: sorted(main_loop(code))}
    return [
        InstructionCount(scope, opcode, bits, count)
        for scope, indices in scopes.items()
        for (opcode, bits), count in sorted(_tally(code, indices).items())
    ]


def parse(text: str, function: str) -> Code:
    """Return the code of a kernel from nvdisasm's text, without the padding behind it."""
    code, inside = Code(), False
    for line in text.splitlines():
        if start := _KERNEL_START.fullmatch(line):
            inside = start[1] == function
        elif not inside:
            continue
        elif label := _LABEL.fullmatch(line):
            code.labels[label[1]] = len(code.instructions)
        elif found := _INSTRUCTION.match(line):
            code.instructions.append(Instruction(found[2], bool(found[1]), found[3]))
    return code.without_end()


def loops(code: Code) -> dict[int, set[int]]:
    """Return the loops of a kernel: indices of their instructions, by the index of the first.

    A loop is what can run between an instruction and a branch back to it, if no way leads into the
    loop but by that instruction (a natural loop). So code that was moved out of line belongs to the
    loop from which it is reached, wherever it stands, and branching back from there makes no loop.
    """
    predecessors = code.predecessors()
    found: dict[int, set[int]] = {}
    for head in sorted(set(code.labels.values())):
        for latch in predecessors[head] if head < len(predecessors) else []:
            body = _natural_loop(predecessors, head, latch)
            if body:
                found.setdefault(head, set()).update(body)
    return found


def main_loop(code: Code) -> set[int]:
    """Return the indices of the instructions of the loop that does the work; empty: there is none.

    It is the loop with the most FMAs of its own, that is, outside of loops inside it. The
    compiler writes one loop of the source several times: unrolled as far as it goes, and again for
    the steps that remain. The most unrolled copy is the one that runs, and has the most
    FMAs. A loop over tiles is chosen where the loop within a tile is unrolled completely
    and so has vanished, else the inner one. Only the loop's own instructions count: each of them
    stands for one a turn. Of equals it is the loop with the fewest instructions, then the first.
    """
    found = loops(code)
    own = [
        body - {i for inner, part in found.items() if inner != head and inner in body for i in part}
        for head, body in found.items()
    ]
    names = _fma_names({instruction.opcode for instruction in code.instructions})

    def fmas_of(body: set[int]) -> int:
        return sum(code.instructions[index].opcode in names for index in body)

    best = max(own, key=lambda body: (fmas_of(body), -len(body)), default=set())
    return best if fmas_of(best) else set()


def fmas(counts: Iterable[InstructionCount], scope: str) -> int:
    """Return how many FMAs of elements there are.

    Those of tensor cores, else FFMA and DFMA, or IMAD if there are none of them.
    """
    counts = list(counts)
    names = _fma_names({count.opcode for count in counts})
    return sum(c.count for c in counts if c.scope == scope and c.opcode in names)


def fma_share(counts: Iterable[InstructionCount], scope: str) -> float | None:
    """Return the share (0 to 1) of FMAs in all instructions; None: the scope is empty."""
    counts = list(counts)
    total = sum(count.count for count in counts if count.scope == scope)
    return fmas(counts, scope) / total if total else None


def loads_by_width(
    counts: Iterable[InstructionCount], scope: str, opcode: str = "LDG"
) -> dict[int, int]:
    """Return how many loads of a kind (LDG: global, LDS: shared memory) there are, by bits."""
    return {c.bits: c.count for c in counts if c.scope == scope and c.opcode == opcode}


def barriers(counts: Iterable[InstructionCount], scope: str) -> int:
    """Return how many barriers of the block there are."""
    return sum(c.count for c in counts if c.scope == scope and c.opcode == "BAR")


def unrolling(counts: Iterable[InstructionCount], sums_per_thread: int) -> float:
    """Return how many steps along k one turn of the main loop does.

    0: there is no such loop, or one instruction of tensor cores does many.

    `sums_per_thread` elements of C are computed by a thread (rows times columns of the tile over
    threads of the block), with a FMA for each of them in each step.
    """
    counts = list(counts)
    if any(count.opcode in TENSOR_FMAS for count in counts):
        return 0.0
    return fmas(counts, LOOP) / sums_per_thread


def _natural_loop(predecessors: list[list[int]], head: int, latch: int) -> set[int]:
    """Return what leads from `head` to `latch`; empty if the kernel gets there without `head`."""
    body: set[int] = set()
    waiting = [latch]
    while waiting:
        index = waiting.pop()
        if index not in body:
            body.add(index)
            waiting += predecessors[index] if index != head else []
    return body if head in body and 0 not in body else set()


def _fma_names(opcodes: set[str]) -> tuple[str, ...]:
    """Return which of a kernel's opcodes multiply and add its elements."""
    for names in (TENSOR_FMAS, FLOATING_FMAS):
        if opcodes.intersection(names):
            return names
    return INTEGER_FMAS


def _tally(code: Code, indices: Iterable[int]) -> Counter[tuple[str, int]]:
    chosen = (code.instructions[index] for index in indices)
    return Counter((instruction.opcode, instruction.bits) for instruction in chosen)


def _disassembled(cubin: Path, disassembler: Path) -> str:
    """Return nvdisasm's text of a cubin; raises StudyError if it has none."""
    try:
        done = subprocess.run(
            [disassembler, "--print-code", cubin], capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise StudyError(
            f"{disassembler}: cannot be run ({error.strerror}); install another nvdisasm"
        ) from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise StudyError(
            f"{cubin}: {disassembler} cannot read it ({said[0]}); install the nvdisasm of nvcc's "
            "release"
        )
    return done.stdout
