"""A narrowed study: some variants at some sizes, without editing the study's file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernels.catalog.entries import VARIANTS
from kernels.catalog.product import products_of
from kernels.products.shape import Shape
from study.config import Config, ConfigError, in_scope, named, read, validate

# Keys of a study that a narrowed study lacks.
_MORE = ("holdout_sizes", "series", "interference", "energy", "quick")


def asked(
    path: Path | str,
    scope: str | None,
    variants: Sequence[str],
    sizes: Sequence[int],
    series: Sequence[dict[str, Any]] = (),
) -> Config:
    """Return the study in the file `path`, narrowed to these GPU variants and sizes, if any.

    Other settings are kept, except long measurements with another purpose; on the CPU only BLAS is
    measured. Raise ConfigError if a variant supports none of the sizes.
    """
    whole = validate(in_scope(read(path), scope) if scope else read(path), named(path))
    if not (variants or sizes or series):
        return whole
    study = {key: value for key, value in whole.study.plain().items() if key not in _MORE}
    study["holdout_sizes"], study["series"] = [], list(series)
    study["variants"] = list(variants) or study["variants"]
    study["sizes"] = list(sizes) or study["sizes"]
    study["cpu"] |= {"variants": ["blas"], "sizes": study["sizes"], "threads": ["all"]}
    study["protocol"] |= {"cold_starts": 0}
    shapes = [Shape.square(n) for n in study["sizes"]]
    for name in filter(VARIANTS.__contains__, variants):  # `validate` names unknown variants
        if not any(products_of([name], study["dtypes"], study["block_sizes"], shapes)):
            raise ConfigError(
                f"{name}: supports none of the sizes {', '.join(map(str, study['sizes']))}; "
                "see `python -m kernels list`"
            )
    return validate({**whole.plain(), "study": study}, named(path))
