"""The variance between hosts in the times of their CPUs.

All programs on a host's CPU share the effect of that host, so even many cells are only one
observation per host. The few hosts of one recording may be alike by chance, so the variance is
pooled over all recordings.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.domain import CPU
from analysis.stats.estimates import DRAWS, FloatArray, Groups
from measurement.recording.recording import CELL


def host_effects(log_s: pd.Series) -> pd.Series:
    """Return the log effect of each session's host: its median over cells measured in all sessions.

    The index of `log_s` has the cell and the session of each median.
    """
    logs = log_s.unstack().dropna()
    return logs.sub(logs.mean(axis=1), axis=0).median().dropna()


@dataclass(frozen=True)
class Hosts:
    """The variance of the log effects of hosts, and its degrees of freedom."""

    variance: float = 0.0
    degrees_of_freedom: int = 0

    @classmethod
    def of(cls, recordings: Iterable[pd.DataFrame]) -> "Hosts":
        """Return the variance from samples of several recordings, each about its own mean."""
        squares, degrees_of_freedom = 0.0, 0
        for samples in recordings:
            runs = samples[samples["device"] == CPU]
            by = [Groups.of(runs, CELL).number, runs["session"].to_numpy(dtype=np.intp)]
            effects = host_effects(np.log(runs["total_s"].groupby(by).median()))
            squares += float(np.sum((effects - effects.mean()) ** 2))
            degrees_of_freedom += max(len(effects) - 1, 0)
        return cls(squares / max(degrees_of_freedom, 1), degrees_of_freedom)

    def freedom_with(self, variance: FloatArray, degrees_of_freedom: FloatArray) -> FloatArray:
        """Return the degrees of freedom of the sum of this variance and another one.

        They are Satterthwaite's (Biometrics Bull. 2 (1946) 110).
        """
        if not self.variance:
            return degrees_of_freedom
        squares = variance**2 / degrees_of_freedom + self.variance**2 / self.degrees_of_freedom
        return np.asarray((variance + self.variance) ** 2 / squares)

    def draws(self, rng: np.random.Generator) -> FloatArray:
        """Return draws of a host's effect, which follow a scaled Student's t."""
        drawn = rng.standard_t(max(self.degrees_of_freedom, 1), DRAWS)
        return np.asarray(self.variance**0.5 * drawn)


NO_HOSTS = Hosts()
