"""What a study asks of the catalog: which variants on which matrices, and the cubins for them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kernels.catalog import variant
from kernels.cubins import PROBES, Build, build_for
from kernels.shape import Shape

# The variant over which gains are, and the block size of the source's launch of it.
BASELINE, BASELINE_BLOCK = "naive", 32


@dataclass(frozen=True)
class Product:
    """A variant on matrices of one shape and type of elements; `block_size` None: it has none."""

    variant: str
    dtype: str
    shape: Shape
    block_size: int | None


def series(study: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the series of a study: that of the square orders first, then those under `series`.

    Each has variants, dtypes, block_sizes and shapes; every variant takes what it can of them.
    """
    orders = [*study["sizes"], *study["holdout_sizes"]]
    main = {name: study[name] for name in ("variants", "dtypes", "block_sizes")}
    return [main | {"shapes": orders}, *study.get("series", [])]


def products_of(one: dict[str, Any]) -> Iterator[Product]:
    """Yield the products of one series."""
    shapes = [Shape.parse(text) for text in one["shapes"]]
    for name in one["variants"]:
        entry = variant(name)
        for dtype in one["dtypes"]:
            for block in block_sizes(name, one["block_sizes"]):
                for shape in shapes:
                    if dtype in entry.dtypes and entry.takes(shape):
                        yield Product(name, dtype, shape, block)


def products(study: dict[str, Any]) -> list[Product]:
    """Return every product of a study (section `study` of the config), without repeats."""
    found = dict.fromkeys(one for part in series(study) for one in products_of(part))
    return [one for one in found if _within_limits(study, one)]


def block_sizes(name: str, wanted: list[int]) -> list[int | None]:
    """Return those `wanted` block sizes that the variant takes; [None] if it has none at all."""
    allowed = variant(name).block_sizes
    return [None] if allowed is None else [b for b in wanted if b in allowed]


def builds(study: dict[str, Any]) -> list[Build]:
    """Return every build that a study needs, without repeats.

    The last is `PROBES`: a card's ceilings are measured whatever the study is.
    """
    return [*builds_of(products(study)), PROBES]


def builds_of(wanted: Iterable[Product]) -> list[Build]:
    """Return every build that these products need, without repeats."""
    found = (build_for(p.variant, p.shape, p.block_size, p.dtype) for p in wanted)
    return list(dict.fromkeys(build for build in found if build))


def _within_limits(study: dict[str, Any], one: Product) -> bool:
    """Tell whether a study plans this order with this block size (`block_size_limits`)."""
    return all(
        one.shape.largest <= limit["largest_size"]
        for limit in study.get("block_size_limits", [])
        if limit["block_size"] == one.block_size
    )
