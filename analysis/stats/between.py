"""Variation between sessions of one GPU model, for comparisons of sessions with others.

log time = cell + session + noise. Sessions vary by a share of the time and by a duration. GPUs
differ more in kernels of few blocks, which depend on the multiprocessors that the blocks get, and
in kernels on tensor cores. Sessions on one GPU since one start of its host vary less.
`python -m benchmarks.verdict_rates evaluate` fits each kind to sessions.
"""

from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd

KERNEL, SMALL, TENSOR = "kernel", "kernel of few blocks", "kernel on tensor cores"
PINNED, PAGEABLE, ON_CPU = "pinned", "pageable", "CPU"
FEW_BLOCKS = 16
ONE_START = ", one start"  # end of the kinds of sessions on one GPU since one start of its host


class Between(NamedTuple):
    """Standard deviations of one session, and factor of the noise.

    `freedom`: degrees of freedom, starts − configurations, or within starts sessions − starts.
    """

    relative: float
    absolute_s: float
    noise: float
    freedom: float


# Fitted to 27 sessions of the H200 with 13 starts, in three configurations: h200-sxm to -8 and the
# short sessions of starts 1 to 5. Those of starts 6 and 7 test it. Pageable memory has too few
# sessions of one start.
KNOWN = {
    KERNEL: Between(4.33e-4, 4.82e-8, 1, 10),
    SMALL: Between(7.05e-3, 4.36e-8, 0.3, 10),
    TENSOR: Between(7.17e-3, 2.46e-8, 0.806, 10),
    PINNED: Between(2.78e-3, 1.85e-6, 1, 10),
    PAGEABLE: Between(2.52e-2, 1.79e-7, 1, 6),
    ON_CPU: Between(0.119, 8.45e-10, 1, 10),
    KERNEL + ONE_START: Between(1e-5, 3.12e-8, 0.927, 14),
    SMALL + ONE_START: Between(2.15e-4, 3.68e-8, 0.413, 14),
    TENSOR + ONE_START: Between(8.3e-4, 4.78e-8, 1, 14),
    PINNED + ONE_START: Between(5.81e-4, 2.11e-6, 1, 14),
    ON_CPU + ONE_START: Between(5.25e-2, 4e-10, 1, 13),
}


def variances(rows: pd.DataFrame, known: Mapping[str, Between]) -> pd.DataFrame:
    """Return columns between and noise: variances of log ratios, of sessions and of samples.

    `rows` has kind (a key of `known`), and per side sessions_a, median_a_s and noise_a
    (bootstrap variance of the log median), sessions_b, median_b_s and noise_b. The mean of several
    sessions has the variance of one divided by their number.
    """
    model = pd.DataFrame([known[kind] for kind in rows["kind"]], rows.index, Between._fields)
    between = sum(
        (model["relative"] ** 2 + (model["absolute_s"] / rows[f"median_{side}_s"]) ** 2)
        / rows[f"sessions_{side}"]
        for side in "ab"
    )
    noise = model["noise"] * (rows["noise_a"] + rows["noise_b"])
    return pd.DataFrame({"between": between, "noise": noise})
