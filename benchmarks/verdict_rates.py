"""How often `compare` calls identical code slower, and which planted slowdowns it finds.

    python -m benchmarks.verdict_rates [SESSION ...]

It compares all pairs of sessions with one GPU model and configuration, and each session with
planted slowdowns. The default sessions are the short ones of `data/calibration` and the full
sessions of both GPU models. Starts of the machine are divided into two halves: verdicts on one half
use the variation between the full sessions and those of the other half. Slowdowns are also
simulated: the times of B are multiplied.

Sessions named NAME-planted-PERMILLE have slower kernels (`python -m benchmarks.short_sessions`).
"""

import argparse
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.stats import t

from analysis.stats.between import KERNEL, KNOWN, ONE_START, PINNED, Between, mixture, variances
from analysis.stats.estimates import FloatArray
from analysis.stats.significance import FASTER, SAME, SLOWER, THRESHOLD, UNDECIDED
from analysis.trust.comparison import GPU, OTHER_HARDWARE, SHORT_S, compare, decided, kinds
from base.command_line import aligned
from base.errors import exit_status
from base.paths import ROOT
from measurement.recording.recording import Recording, read

CALIBRATION = Path("data/calibration")
COMMITTED = [f"data/recordings/h200-sxm-{number}" for number in (9, 10, 11)]
COMMITTED += [f"data/recordings/h100-sxm-{number}" for number in (4, 5, 6, 7)]
SLOWDOWNS = (0.02, 0.05, 0.1)
LONG_RUN_S = 100e-6
SHORT_KERNELS, LONG_KERNELS, RUNS = "kernels below 20 µs", "kernels from 20 µs", "pinned, ≥ 100 µs"
KINDS = (SHORT_KERNELS, LONG_KERNELS, RUNS, "pinned, < 100 µs", "pageable", "CPU")
# Measured slowdowns that count as 2, 5 and 10 %.
RANGES = {(0.015, 0.03): "1.5–3 %", (0.04, 0.07): "4–7 %", (0.08, 0.13): "8–13 %"}
TIME_KEY = ["variant", "block_size", "n", "host_memory", "quantity"]
VERDICTS = [SAME, FASTER, SLOWER, UNDECIDED, OTHER_HARDWARE]
FEWEST = 4  # least degrees of freedom: with fewer, hardly any verdict is possible
_PLANTED = re.compile(r"-planted-(\d+)$")


@dataclass(frozen=True)
class Sessions:
    """Numbered sessions: recording, start of the machine, configuration, planted thousandths."""

    recordings: Sequence[Recording]
    starts: Sequence[str]
    groups: Sequence[str]
    planted: Sequence[int]

    @classmethod
    def of(cls, recordings: Sequence[Recording]) -> "Sessions":
        """Return the sessions; one whose start is unknown counts as the only one of its start."""
        names = [each.path.name for each in recordings]
        starts = [each.provenance.get("machine_start") or str(each.path) for each in recordings]
        planted = [int(match[1]) if (match := _PLANTED.search(name)) else 0 for name in names]
        return cls(recordings, starts, [_group(each) for each in recordings], planted)

    def pairs(self) -> list[tuple[int, int]]:
        """Return pairs of comparable sessions; in the first one nothing is planted."""
        numbers = combinations(range(len(self.recordings)), 2)
        both = [(b, a) if self.planted[a] else (a, b) for a, b in numbers]
        return [(a, b) for a, b in both if not self.planted[a] and self.groups[a] == self.groups[b]]

    def half(self, number: int) -> int | None:
        """Return the half (0 or 1) to which a session belongs; starts alternate between the halves.

        A full session, which is the only one of its start, belongs to no half (None).
        """
        several = [own for own in dict.fromkeys(self.starts) if self.starts.count(own) > 1]
        start = self.starts[number]
        return several.index(start) % 2 if start in several else None


def _group(recording: Recording) -> str:
    """Return what comparable sessions share: GPU model, number of GPUs, variants and sizes."""
    facts = recording.provenance
    study = [facts["configuration"].get(name) for name in ("variants", "sizes")]
    return str([[gpu["name"] for gpu in facts["devices"]], study])


def kinds_of(frame: pd.DataFrame) -> pd.Series:
    """Return the kind of each time, one of `KINDS`."""
    limit_s = np.where(frame["side"] == GPU, SHORT_S, LONG_RUN_S)
    short = frame["median_a_s"] < limit_s
    kernels = short.map({True: SHORT_KERNELS, False: LONG_KERNELS})
    memory = frame["host_memory"].astype(object).fillna(KINDS[-1])
    runs = memory.mask(memory == PINNED, short.map({True: KINDS[3], False: RUNS}))
    return kernels.where(frame["side"] == GPU, runs)


def fitted(
    frames: Mapping[tuple[int, int], pd.DataFrame], sessions: Sessions
) -> dict[str, Between]:
    """Return the variation between sessions, from comparisons of identical code by pair.

    The variances maximise the likelihood. Variation within starts has sessions − starts degrees of
    freedom, and variation between starts has starts − configurations, however many times the
    sessions have in common. Kinds with fewer than `FEWEST` degrees of freedom are omitted.
    """
    parts = [each.assign(a=pair[0], b=pair[1]) for pair, each in frames.items()]
    rows = pd.concat(parts, ignore_index=True)
    rows = rows[rows["noise_a"].notna() & rows["noise_b"].notna()]
    rows = rows.assign(kind=kinds(rows))
    found = {}
    for kind, own in rows.groupby("kind"):
        at = sorted({*own["a"], *own["b"]})
        starts, groups = (
            len({names[each] for each in at}) for names in (sessions.starts, sessions.groups)
        )
        freedom = len(at) - starts if str(kind).endswith(ONE_START) else starts - groups
        if freedom >= FEWEST:
            found[str(kind)] = _fit(str(kind), own, freedom)
    return found


def _fit(kind: str, rows: pd.DataFrame, freedom: int) -> Between:
    """Return the variation of one kind, fitted to the rows of its comparisons."""
    start = np.log([1e-3, 1e-7, 0.8, 0.05, 0.02])
    bounds = np.log([(1e-5, 0.3), (1e-10, 1e-3), (0.3, 1), (1e-4, 1), (1e-3, 1)])
    distance = np.log(rows["ratio"])

    def model(logs: FloatArray) -> Between:
        relative, absolute_s, noise, latency, outlier = map(float, np.exp(logs))
        latency *= kind.startswith(KERNEL)
        return Between(relative, absolute_s, noise, latency, outlier, freedom)

    def deviance(logs: FloatArray) -> float:
        found = variances(rows, {kind: model(logs)})
        densities = mixture(found, lambda freedom, scale: t.pdf(distance / scale, freedom) / scale)
        return -float(np.log(densities).sum())

    steps = {"eps": 1e-5, "ftol": 1e-10}  # the default step is so small that rounding matters
    return model(minimize(deviance, start, method="SLSQP", bounds=bounds, options=steps).x)


def compared(sessions: Sessions) -> dict[tuple[int, int], pd.DataFrame]:
    """Return the comparison of each pair in `Sessions.pairs`."""
    frames = {}
    for at, (a, b) in enumerate(pairs := sessions.pairs(), start=1):
        frames[a, b] = compare(sessions.recordings[a], sessions.recordings[b], THRESHOLD)
        print(f"compared {at} of {len(pairs)} pairs", file=sys.stderr, flush=True)
    return frames


def models(
    frames: Mapping[tuple[int, int], pd.DataFrame], sessions: Sessions
) -> dict[int, dict[str, Between]]:
    """Return, for each half, the variation fitted to the full sessions and to the other half."""
    honest = {
        pair: frame[frame["same_code"]]
        for pair, frame in frames.items()
        if not sessions.planted[pair[1]]
    }
    by_half = {}
    for half in (0, 1):
        others = {
            pair: frame
            for pair, frame in honest.items()
            if {sessions.half(at) for at in pair} <= {None, 1 - half}
        }
        by_half[half] = KNOWN | fitted(others, sessions) if others else KNOWN
    return by_half


def evaluated(
    frames: Mapping[tuple[int, int], pd.DataFrame], sessions: Sessions
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rates of each pair without planted work, and the times of each pair with it.

    Both have the column one_start (whether both sessions are of one start). The first has the
    columns of `rates`; both orders of a pair count, because verdicts are symmetric. The second has
    one row per time with slowdown (of `slowdowns`), kind (of `kinds_of`) and slower.
    """
    by_half, planted = models(frames, sessions), slowdowns(frames, sessions)
    honest, slowed = [], []
    for (a, b), frame in frames.items():
        half = sessions.half(a)
        if half is None or sessions.half(b) != half:
            continue
        one_start = sessions.starts[a] == sessions.starts[b]
        if b in planted:
            rows = decided(frame, THRESHOLD, by_half[half])
            rows = rows.assign(
                kind=kinds_of(rows), slower=rows["verdict"] == SLOWER, one_start=one_start
            )
            rows = rows[~rows["same_code"]].merge(planted[b], how="left", on=TIME_KEY)
            slowed.append(rows[["one_start", "kind", "slowdown", "slower"]].dropna())
        elif not sessions.planted[b]:
            same = frame[frame["same_code"]]
            honest.append({"one_start": one_start} | rates(same, by_half[half]))
    return pd.DataFrame(honest), pd.concat(slowed) if slowed else pd.DataFrame()


def slowdowns(
    frames: Mapping[tuple[int, int], pd.DataFrame], sessions: Sessions
) -> dict[int, pd.DataFrame]:
    """Return `TIME_KEY` and slowdown of the times of each planted session.

    The compiler places other instructions in a changed kernel, and idle threads cost less if others
    fill the GPU, so a slowdown differs from the planted one. It is measured in other starts: the
    geometric mean of the ratios of the same build there, between sessions of one start.
    """
    logs = []
    for (a, b), frame in frames.items():
        if sessions.planted[b] and sessions.starts[a] == sessions.starts[b]:
            rows = frame[~frame["same_code"]]
            logs.append(rows[TIME_KEY].assign(session=b, log=np.log(rows["ratio"])))
    rows = pd.concat(logs) if logs else pd.DataFrame(columns=["session"])
    of_session = {}
    for at in sorted(set(rows["session"])):
        start, permille = sessions.starts[at], sessions.planted[at]
        others = {b for b in set(rows["session"]) if sessions.planted[b] == permille}
        others = {b for b in others if sessions.starts[b] != start}
        means = rows[rows["session"].isin(others)].groupby(TIME_KEY, dropna=False)["log"].mean()
        if others:
            of_session[at] = np.expm1(means).rename("slowdown").reset_index()
    return of_session


def rates(frame: pd.DataFrame, known: dict[str, Between]) -> dict[str, float]:
    """Return the rates of one comparison of identical code, and of simulated slowdowns of B."""
    rows = decided(frame, THRESHOLD, known)
    kernels = rows["side"] == GPU
    result = {
        "status 1": float(np.mean([(rows["verdict"] == each).any() for each in (SLOWER, FASTER)])),
        "false slower": float(rows["verdict"].isin([SLOWER, FASTER]).mean() / 2),
        "undecided": float(rows.loc[kernels, "verdict"].isin([UNDECIDED, OTHER_HARDWARE]).mean()),
    }
    kind = kinds_of(rows)
    for slowdown in SLOWDOWNS:
        times = {name: frame[name] * (1 + slowdown) for name in ("median_b_s", "ratio")}
        is_slower = decided(frame.assign(**times), THRESHOLD, known)["verdict"] == SLOWER
        for name in KINDS[:3]:
            result[f"{slowdown:.0%} simulated, {name}"] = float(is_slower[kind == name].mean())
    return result


def power(slowed: pd.DataFrame) -> pd.DataFrame:
    """Return the share of `evaluated` times called slower, by start, slowdown and kind."""
    ranges = pd.concat(
        slowed[slowed["slowdown"].between(low, high)].assign(slowdown=text)
        for (low, high), text in RANGES.items()
    )
    groups = ranges.groupby(["one_start", "slowdown", "kind"], sort=False)["slower"]
    return groups.agg(verdicts="size", slower="mean").reset_index()


def counts(
    frames: Mapping[tuple[int, int], pd.DataFrame], sessions: Sessions
) -> dict[str, pd.DataFrame]:
    """Return the verdicts of `compare` on identical code by kind, for both orders of all pairs."""
    parts: dict[str, list[pd.DataFrame]] = {}
    for (a, b), frame in frames.items():
        if not sessions.planted[b]:
            own = frame[frame["same_code"]]
            back = own["verdict"].replace({SLOWER: FASTER, FASTER: SLOWER})
            kind = kinds_of(own)
            one = "one start" if sessions.starts[a] == sessions.starts[b] else "different starts"
            for verdict in (own["verdict"], back):
                parts.setdefault(one, []).append(
                    pd.crosstab(kind, verdict).reindex(columns=VERDICTS)
                )
    return {
        one: pd.concat(own).groupby(level=0).sum().reindex(KINDS).fillna(0).astype(int)
        for one, own in parts.items()
    }


def _lines(paths: Sequence[Path]) -> Iterator[str]:
    sessions = Sessions.of([read(path) for path in paths])
    frames = compared(sessions)
    honest = sessions.planted.count(0)
    yield f"{honest} sessions of {len(set(sessions.starts))} starts, {len(paths) - honest} planted"
    for one, table in counts(frames, sessions).items():
        yield f"\nverdicts of compare on identical code, {one}:"
        yield from aligned(
            [["kind", *VERDICTS], *([kind, *map(str, row)] for kind, row in table.iterrows())]
        )
    honest_rates, slowed = evaluated(frames, sessions)
    yield "\nmeans over pairs of one half, by one_start:"
    groups = honest_rates.groupby("one_start")
    means = groups.mean().T.map(lambda rate: f"{rate:.2%}")
    yield from aligned([["", *map(str, means)], ["pairs", *map(str, groups.size())]])
    yield from aligned([[str(name), *row] for name, row in means.iterrows()])
    if len(slowed):
        table = power(slowed)
        yield "\nplanted slowdowns:"
        shares = table.assign(slower=[f"{x:.1%}" for x in table["slower"]]).astype(str)
        yield from aligned([list(table), *shares.to_numpy().tolist()])
    same = {pair: frame[frame["same_code"]] for pair, frame in frames.items()}
    same = {pair: frame for pair, frame in same.items() if not sessions.planted[pair[1]]}
    yield "\nvariation between sessions, fitted to all:"
    for kind, model in fitted(same, sessions).items():
        yield f"{kind}: " + ", ".join(f"{k} {v:.3g}" for k, v in model._asdict().items())
    for name, deviation in _common(same).items():
        yield f"{name}: standard deviation {deviation:.3g}"


def _common(frames: Mapping[tuple[int, int], pd.DataFrame]) -> dict[str, float]:
    """Return the standard deviations, of one session, of what all its kernels share."""
    kernels = [frame[frame["side"] == GPU].iloc[0] for frame in frames.values()]
    launches = pd.Series([row["offset_s"] for row in kernels]).std() / 2**0.5
    clocks = np.log(pd.Series([row["clock_factor"] for row in kernels])).std() / 2**0.5
    return {"launch in s": launches, "logarithm of the clock": clocks}


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verdict_rates")
    parser.add_argument("recordings", nargs="*", type=Path, metavar="SESSION")
    paths = parser.parse_args().recordings
    known = [*sorted((ROOT / CALIBRATION).glob("*")), *(ROOT / path for path in COMMITTED)]
    for line in _lines(paths or known):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(exit_status(main))
