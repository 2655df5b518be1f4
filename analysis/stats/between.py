"""Variation between sessions of one GPU model, for comparisons of sessions with others.

log time = cell + session + noise. Sessions vary by a share of the time, by a duration, and, for
kernels of few blocks, by the multiprocessors and parts of the L2 that they get; more blocks average
this local part. Sessions on one GPU since one start of its host vary less, so they have kinds of
their own. `python -m benchmarks.verdict_rates evaluate` fits all kinds to sessions.
"""

from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd

KERNEL, PINNED, PAGEABLE, ON_CPU = "kernel", "pinned", "pageable", "CPU"
ONE_START = ", one start"  # end of the kinds of sessions on one GPU since one start of its host


class Between(NamedTuple):
    """Standard deviations of one session (`local`: of one block), and factor of the noise.

    `freedom`: degrees of freedom, the number of fitted sessions less that of their groups.
    """

    relative: float
    absolute_s: float
    local: float
    noise: float
    freedom: float


# Fitted to sessions of the H200: of kernels to h200-sxm to -4 and -5 to -8, of hosts to the first
# four. No later session contradicts those of hosts.
KNOWN = {
    KERNEL: Between(2.4e-4, 2.9e-8, 1.11e-2, 1, 6),
    PINNED: Between(8.1e-4, 7.0e-7, 0, 1, 6),
    PAGEABLE: Between(1.9e-3, 1.2e-6, 0, 0.97, 6),
    ON_CPU: Between(5.7e-2, 3.0e-7, 0, 0.68, 6),
}


def variances(rows: pd.DataFrame, known: Mapping[str, Between]) -> pd.DataFrame:
    """Return columns between and noise: variances of log ratios, of sessions and of samples.

    `rows` has kind (a key of `known`), blocks, and per side sessions_a, median_a_s and noise_a
    (bootstrap variance of the log median), sessions_b, median_b_s and noise_b. The mean of several
    sessions has the variance of one divided by their number.
    """
    model = pd.DataFrame([known[kind] for kind in rows["kind"]], rows.index, Between._fields)
    shares = model["relative"] ** 2 + model["local"] ** 2 / rows["blocks"].clip(lower=1)
    between = sum(
        (shares + (model["absolute_s"] / rows[f"median_{side}_s"]) ** 2) / rows[f"sessions_{side}"]
        for side in "ab"
    )
    noise = model["noise"] * (rows["noise_a"] + rows["noise_b"])
    return pd.DataFrame({"between": between, "noise": noise})
