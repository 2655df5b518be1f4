"""The element types of the matrices of a product, and which values a kernel may round."""

from dataclasses import dataclass

from kernels.products.elements import FLOAT, Stored


@dataclass(frozen=True)
class Precision:
    """The element types of A, B and C, and which values a kernel may round."""

    a: Stored = FLOAT
    b: Stored = FLOAT
    c: Stored = FLOAT
    uses_tf32: bool = False
    rounded_to: Stored | None = None  # 16-bit type to which the code rounds the operands
    short_sums: bool = False  # sums have the digits of the 16-bit type

    @property
    def kinds(self) -> tuple[bool, ...]:
        """For each check of a product, whether its numbers are integers (`Operands.random`).

        If rounding makes the error bound large, products of integers are checked too, because they
        must be exact. For sums of 16 bits the bound is so large that real numbers are checked only
        once, with the layout.
        """
        is_rounded = self.uses_tf32 or self.rounded_to is not None
        return (True,) if self.short_sums else (False, True) if is_rounded else (False,)

    @property
    def roundoffs(self) -> tuple[float, float, float]:
        """The unit roundoffs of operands, sums and the stored result.

        Hardware may cut a number to TF32's 11 digits instead of rounding it. The reference is
        computed in float64 too, so the roundoff of sums in float64 is doubled.
        """
        short = max(matrix.roundoff for matrix in (self.a, self.b, self.c))
        wide = {53: 2.0**-52, 0: 0.0}.get(self.a.digits, 2.0**-24)
        result = self.c.roundoff if self.c.is_short else 0.0
        operands = 2.0**-10 if self.uses_tf32 else 0.0
        if self.rounded_to:
            operands = max(operands, self.rounded_to.roundoff)
        return operands, short if self.short_sums else wide, result

    @property
    def note(self) -> str:
        """What the verdict says about the precision; empty for float."""
        types = dict.fromkeys(matrix.name for matrix in (self.a, self.b, self.c))
        names = [*types] if list(types) != ["float"] else []
        names += ["operands rounded to TF32"] if self.uses_tf32 else []
        names += [f"operands rounded to {self.rounded_to.name}"] if self.rounded_to else []
        return ", ".join([*names, *(["sums of 16 bits"] if self.short_sums else [])])


FLOATS = Precision()
