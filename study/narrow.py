"""A smaller study: some variants at some sizes, without edits to the configuration file."""

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from base.errors import StudyError
from kernels.catalog.product import products_of
from kernels.products.shape import Shape
from study.config import Config, validate
from study.config_file import ConfigError

MOST_SAMPLES = 400  # most samples per configuration that a comparison may request
# Keys of a study that are removed from a narrowed one.
_MORE = ("holdout_sizes", "series", "interference", "energy", "throughput", "quick")


def narrowed(
    config: Config,
    variants: Sequence[str],
    sizes: Sequence[int],
    series: Sequence[dict[str, Any]] = (),
    samples: int | None = None,
) -> Config:
    """Return a configuration whose study has only these GPU variants and sizes, if any are given.

    Other settings are kept, except long measurements with another purpose. On the CPU, only BLAS is
    measured. `samples` is the number per configuration, without a time budget. Raise ConfigError if
    a variant supports none of the sizes.
    """
    if not (variants or sizes or series):
        return config
    study = {key: value for key, value in config.study.plain().items() if key not in _MORE}
    study["holdout_sizes"], study["series"] = [], list(series)
    study["variants"] = list(variants) or study["variants"]
    study["sizes"] = list(sizes) or study["sizes"]
    study["cpu"] |= {"variants": ["blas"], "sizes": study["sizes"], "threads": ["all"]}
    study["cpu"] |= {"shapes": []}
    study["protocol"] |= {"cold_starts": 0}
    if samples:
        budget = float(study["protocol"]["single_run_s"]) * samples
        study["protocol"] |= {"samples": samples}
        study["protocol"] |= {"gpu_cell_budget_s": budget, "cpu_cell_budget_s": budget}
    shapes, catalog = [Shape.square(n) for n in study["sizes"]], config.study.catalog
    for name in filter(catalog.__contains__, variants):  # `validate` names unknown variants
        if not any(products_of([name], study["dtypes"], study["block_sizes"], shapes, catalog)):
            raise ConfigError(
                f"{name}: supports none of the sizes {', '.join(map(str, study['sizes']))}; "
                "see `gemm-study list`"
            )
    return validate({**config.plain(), "study": study}, config.name, catalog)


def undecided(path: Path) -> tuple[list[str], list[int], int]:
    """Return the variants, the matrix sizes and the samples that a comparison needs for a verdict.

    `path` is a file written by `gemm-study compare --csv`. Rows that need more sessions keep their
    number of samples. Raise StudyError if the file has another format, or if nothing is undecided.
    """
    try:
        with path.open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["verdict"] == "undecided"]
        needed = [row["samples_needed"] or row["samples_a"] for row in rows]
        squares = [row for row in rows if row["m"] == row["n"] == row["k"] and row["batch"] == "1"]
        samples = [min(MOST_SAMPLES, math.ceil(float(number))) for number in needed]
    except (OSError, KeyError, ValueError) as error:
        message = f"--more {path}: {error}; name a file of `gemm-study compare A B --csv FILE`"
        raise StudyError(message) from None
    if not squares:
        raise StudyError(f"--more {path}: no product of square matrices is undecided")
    variants = {row["variant"] for row in squares if row["device"] != "cpu"}
    return sorted(variants), sorted({int(row["n"]) for row in squares}), max(samples)
