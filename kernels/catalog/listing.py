"""The catalog, printed as lines for a terminal or as values for programs."""

from collections.abc import Iterator

from kernels.catalog.entries import VARIANTS
from kernels.theory.tiles import number_of


def lines() -> Iterator[str]:
    """Yield a line per variant: name, block sizes, source of the kernel and description."""
    for variant in VARIANTS.values():
        sizes = variant.block_sizes
        span = f"B {sizes[0]}…{sizes[-1]}" if sizes else "–"
        yield f"{variant.name:<29} {span:<16} {variant.origin:<17} {variant.description}"


def rows() -> list[dict[str, object]]:
    """Return the fields of each variant as a mapping, for JSON."""
    return [
        {
            "name": variant.name,
            "origin": variant.origin,
            "family": variant.family,
            "block_sizes": [number_of(size) for size in variant.block_sizes or ()] or None,
            "dtypes": list(variant.dtypes),
            "shapes": variant.shapes,
            "after": variant.after,
            "source": variant.source,
            "description": variant.description,
        }
        for variant in VARIANTS.values()
    ]
