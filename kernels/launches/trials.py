"""Trying one launch with one meaning of its names: are products correct, or what is wrong."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from math import prod

import numpy as np

from kernels.host_execution.binding import Configured, KernelFault, Kind, Run
from kernels.launches.library import Library
from kernels.launches.reading import LAYOUTS, Factors, Operands, Reading
from kernels.products.gate import Verdict
from kernels.products.matrices import POISON_WORD
from kernels.products.shape import Shape

Geometry = tuple[Sequence[int], Sequence[int]]  # (sizes of the grid, sizes of the block)
# The roundoff of 16-bit operands, and that of TF32.
_LOW_PRECISION = 2.0**-9
# The pattern in variables without initial value under g++; as a float it is -1.69e38.
_LARGEST_SUM, _PATTERN, _NEAR = 1e37, -0x01010102, 1 << 20
# Contents of shared memory before a block, other than NaN.
_FILLS = (0, 1, 0x40000000)
_SHORTEST = 32  # length of a sum so short that every loop must end
_NO_VALUE = "a variable is used before it has a value"


class Outcome(IntEnum):
    """What a launch does; better outcomes come first."""

    RIGHT = 0
    LONG = 1  # it takes more steps than host execution counts
    WRONG = 2  # it stores all elements
    RACES = 3  # a fault ends it that comes from the kernel's own barriers or bounds of launches
    FAULTY = 4  # another fault ends it
    SPARSE = 5  # it leaves elements unwritten
    TOO_MANY = 6  # some blocks compute nothing new: the grid is too large
    OUTSIDE = 7  # an index exceeds shared memory: there are too many threads
    CROWDED = 8  # threads store to one place, or exceed a limit: there are too many threads


_OUTCOMES = {
    Kind.OUTSIDE_ARRAY: Outcome.OUTSIDE,
    Kind.LAUNCH: Outcome.CROWDED,
    Kind.ENDLESS: Outcome.LONG,
    Kind.COPIES_OVERLAP: Outcome.RACES,
    Kind.RACE: Outcome.RACES,
    Kind.DIFFERENT_BARRIERS: Outcome.RACES,
    Kind.APART: Outcome.RACES,
    Kind.ENDLESS_BARRIERS: Outcome.RACES,
    Kind.NOT_IN_MASK: Outcome.RACES,
    Kind.NEVER_COMPLETE: Outcome.RACES,
}


class Fault(str):
    """A fault as text, with the outcome of its launch, and whether it is in shared memory."""

    outcome: Outcome
    is_shared: bool

    def __new__(
        cls, text: str, outcome: Outcome = Outcome.WRONG, is_shared: bool = False
    ) -> "Fault":
        """Return a fault with this text."""
        fault = super().__new__(cls, text)
        fault.outcome, fault.is_shared = outcome, is_shared
        return fault


def outcome_of(fault: KernelFault) -> Outcome:
    """Return the outcome of a launch that ended with this fault."""
    if fault.is_shared and fault.kind is Kind.OUT_OF_BOUNDS:
        return Outcome.OUTSIDE
    if fault.kind is Kind.RACE and fault.is_same_line:
        return Outcome.CROWDED
    return _OUTCOMES.get(fault.kind, Outcome.FAULTY)


@dataclass(frozen=True)
class Trial:
    """A launch with one reading of its names, run on the host."""

    library: Library
    reading: Reading

    def configured(self, shape: Shape) -> Configured:
        """Return the configuration of the launch for matrices of a shape; nothing is run."""
        return self.library.multiplies(self.reading.values(shape), [0] * len(self.reading.matrices))

    def fault(
        self,
        shape: Shape,
        seed: int,
        fill: int = POISON_WORD,
        factors: Factors | None = None,
        geometry: Geometry | None = None,
    ) -> Fault | None:
        """Return the fault in a product of seeded matrices; None if the product is correct."""
        shape = self.reading.fitted(shape)
        where = f"at size {shape}"
        factors = factors or self.reading.factors
        if factors != self.reading.factors:
            where += f" with alpha = {factors[0]:g} and beta = {factors[1]:g}"
        if self.reading.padding:
            where += " with leading dimensions above the sizes"
        for is_whole in self.reading.precision.kinds:
            operands = Operands.random(shape, seed, self.reading, is_whole)
            try:
                c, runs = self.reading.run(self.library, operands, geometry, fill, factors)
            except KernelFault as fault:
                short = self.shorter(shape)
                is_long = fault.kind is Kind.ENDLESS and short.k >= _SHORTEST
                if is_long and not self.fault(short, seed):
                    continue  # the loop is long but ends
                text = f"{fault} ({where}){_hint_of_text(str(fault))}"
                return Fault(text, outcome_of(fault), fault.is_shared)
            verdict = operands.verdict(self.reading.layout, c, factors)
            if not verdict.passed:
                word = self.reading.word(shape, verdict.worst_row, verdict.worst_column)
                stored = [run for run in runs if run.stored_by[2][word]]  # the last one counts
                run = [*runs[-1:], *stored][-1]
                if stored and (cause := run.cause(2, word)):
                    return Fault(f"{cause} ({where})", is_shared=True)
                wrong = self._wrong(run, word, verdict)
                return Fault(f"{wrong} ({where}){self._hint(operands, verdict)}")
        return None

    def shorter(self, shape: Shape) -> Shape:
        """Return a shape with a shorter sum, to test whether a loop is endless or only long."""
        half = shape.k // 2 + shape.k % 2
        return Shape.square(half) if self.reading.is_square else replace(shape, k=half)

    def undefined(self, shape: Shape) -> Fault | None:
        """Return the read of uninitialised shared memory that a product depends on, or None."""
        shape = self.reading.fitted(shape)
        operands = Operands.random(shape, 1, self.reading)
        runs = self.reading.run(self.library, operands)[1]
        cause = next(filter(None, (run.first_cause() for run in runs)), None)
        if cause and any(self.fault(shape, 1, fill) for fill in _FILLS):
            return Fault(f"{cause} (at size {shape})", is_shared=True)
        return None

    def is_elementwise(self, shape: Shape) -> bool:
        """Return whether the first elements of A and B affect one of C only, so nothing is summed.

        Raise KernelFault.
        """
        shape = self.reading.fitted(shape)
        operands, others = (Operands.random(shape, seed, self.reading) for seed in (1, 3))
        a, b = operands.a.copy(), operands.b.copy()
        a[0], b[0] = others.a[0], others.b[0]
        before, *changed = (
            self.reading.run(self.library, each)[0].view(np.uint8).reshape(shape.c_elements, -1)
            for each in (operands, replace(operands, a=a), replace(operands, b=b))
        )
        return all((after != before).any(axis=1).sum() == 1 for after in changed)

    def is_rectified(self, shape: Shape) -> bool:
        """Return whether zeros replace the negative elements of a product; raise KernelFault."""
        operands = Operands.random(self.reading.fitted(shape), 1, self.reading)
        c, _ = self.reading.run(self.library, operands)
        return operands.verdict(self.reading.layout, c, self.reading.factors, True).passed

    def outcome(self, shape: Shape, geometry: Geometry | None = None) -> "tuple[Outcome, Trial]":
        """Return what the launch does, and the trial with the layout for which it is correct.

        If no product with wide sums is correct, sums of 16 bits are tried. A guessed `geometry` is
        accepted only if each of its blocks computes elements.
        """
        shape = self.reading.fitted(shape)
        operands = Operands.random(shape, 1, self.reading)
        try:
            c, runs = self.reading.run(self.library, operands, geometry)
        except KernelFault as fault:
            return outcome_of(fault), self
        is_too_large = geometry and runs[-1].useful_blocks < prod(geometry[0])
        right = Outcome.TOO_MANY if is_too_large else Outcome.RIGHT
        precision, is_fixed = self.reading.precision, self.reading.has_leading_dimensions
        has_short = any(stored.is_short for stored in (precision.a, precision.b, precision.c))
        for short_sums in (False, True)[: 1 + has_short]:
            allowed = replace(precision, short_sums=short_sums)
            for layout in [self.reading.layout] if is_fixed else LAYOUTS:
                typed = replace(operands, precision=allowed)
                if typed.verdict(layout, c, self.reading.factors).passed:
                    reading = replace(self.reading, layout=layout, precision=allowed)
                    trial = replace(self, reading=reading)
                    if not short_sums or trial.fault(shape, 1, geometry=geometry) is None:
                        return right, trial
        is_stored = np.logical_or.reduce([run.stored_by[2] != 0 for run in runs]).all()
        return (Outcome.WRONG if is_stored else Outcome.SPARSE), self

    def _wrong(self, run: Run, word: int, verdict: Verdict) -> str:
        """Return a message about the worst element, with the line and thread that stored it."""
        place = verdict.worst_row, verdict.worst_column
        line = run.stored_by[2][word]
        reason = str(verdict.reason).replace("; worst C", f"; the worst is {self.reading.result}")
        if line:
            return f"{self.library.at(line, run.kernel)}, {run.thread(2, word)}: {reason}"
        stores = [count.line for count in run.counts if count.operation == "global_store"]
        if stores:
            at = self.library.at(min(stores), run.kernel)
            return f"{at}: does not store {self.reading.result}({place[0]}, {place[1]})"
        return f"{self.library.name}: {reason}"

    def _hint(self, operands: Operands, verdict: Verdict) -> str:
        """Return the likely cause of a wrong product if it is a common one; else ""."""
        if operands.is_whole or not np.isfinite(verdict.worst_error):
            return ""
        if verdict.worst_error > _LARGEST_SUM:
            return f"; {_NO_VALUE}"
        if verdict.worst_error <= _LOW_PRECISION * operands.shape.k:
            return "; the error is that of TF32 or 16-bit operands"
        return ""


def _hint_of_text(fault: str) -> str:
    """Return the likely cause of a fault if its index looks like an uninitialised variable."""
    indices = map(int, re.findall(r"-\d{8,}", fault))
    if any(min(abs(i - _PATTERN), abs(i - 4 * _PATTERN)) < _NEAR for i in indices):
        return f"; {_NO_VALUE}"
    return ""
