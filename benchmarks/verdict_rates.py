"""How often `compare` calls identical code slower, and which planted slowdowns it finds.

    python -m benchmarks.verdict_rates [SESSION ...]

It compares all pairs of sessions with one GPU model and configuration, and each session with
planted slowdowns. The default sessions are those of `data/calibration` and the full sessions of
both GPU models. The starts of the machine are divided into two halves. Verdicts on one half use the
variation between sessions of the other half, that of the full sessions, or that of `compare`.
Slowdowns are also simulated by multiplying the times of B. With the default sessions, the full
sessions are also compared with two recordings of other hosts.

The name of a session with planted slowdowns ends with -planted-PERMILLE. It uses changed kernels,
in which every thread waits after its work for PERMILLE thousandths of its own time. The commands
that made them are in commit f24a232a.
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

from analysis.stats.between import KERNEL, KNOWN, ONE_START, Between, mixture, variances
from analysis.stats.estimates import FloatArray
from analysis.stats.significance import FASTER, SAME, SLOWER, THRESHOLD, UNDECIDED, verdicts
from analysis.trust.comparison import GPU, OTHER_HARDWARE, SHORT_S, compare, decided, kinds
from base.command_line import aligned
from base.errors import exit_status
from base.paths import ROOT
from measurement.recording.recording import Recording, read

CALIBRATION = Path("data/calibration")
COMMITTED = [f"data/recordings/h200-sxm-{number}" for number in (5, 6, 7, 8)]
COMMITTED += [f"data/recordings/h100-sxm-{number}" for number in (4, 5, 6, 7)]
# Recordings of other hosts, to which nothing is fitted.
OTHERS = ("data/recordings/h200-sxm-two-at-once", "data/recordings/h200-sxm-two-in-turn")
SLOWDOWNS = (0.01, 0.02, 0.05)
KINDS = ("kernel below 20 µs", "kernel from 20 µs", "pinned", "pageable", "CPU")
# Measured slowdowns that count as 1, 2 and 5 %.
RANGES = {(0.005, 0.015): "0.5–1.5 %", (0.015, 0.03): "1.5–3 %", (0.04, 0.07): "4–7 %"}
KERNEL_KEY = ["variant", "block_size", "n"]
VERDICTS = [SAME, FASTER, SLOWER, UNDECIDED, OTHER_HARDWARE]
FEWEST = 4  # least degrees of freedom: with fewer, hardly any verdict is possible
PRESENT, FULL, HALF = "compare", "full sessions", "other half"
_PLANTED = re.compile(r"-planted-(\d+)$")

Models = dict[str, dict[str, Between]]


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


def _model(recording: Recording) -> str:
    return str(recording.provenance["devices"][0]["name"])


def _group(recording: Recording) -> str:
    """Return what comparable sessions share: GPU model, number of GPUs, variants and sizes."""
    facts = recording.provenance
    study = [facts["configuration"].get(name) for name in ("variants", "sizes")]
    return str([_model(recording), len(facts["devices"]), study])


def names_of_kinds(frame: pd.DataFrame) -> pd.Series:
    """Return the kind of each comparison: one of `KINDS`."""
    on_gpu = frame["side"] == GPU
    short = (frame["median_a_s"] < SHORT_S).map({True: KINDS[0], False: KINDS[1]})
    return short.where(on_gpu, frame["host_memory"].fillna(KINDS[4]).astype(object))


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
) -> dict[int | None, Models]:
    """Return the variations for verdicts on half 0, on half 1, and on other pairs (None).

    `HALF` is fitted to full sessions and those of the other half, `FULL` only to full sessions.
    """
    honest = {
        pair: frame[frame["same_code"]]
        for pair, frame in frames.items()
        if not sessions.planted[pair[1]]
    }
    sides = {pair: {sessions.half(at) for at in pair} for pair in honest}
    found: dict[int | None, Models] = {half: {PRESENT: KNOWN} for half in (0, 1, None)}
    full = {pair: frame for pair, frame in honest.items() if sides[pair] == {None}}
    for half in (0, 1):
        other = {pair: frame for pair, frame in honest.items() if sides[pair] <= {None, 1 - half}}
        for name, own in ((FULL, full), (HALF, other)):
            if own:
                found[half][name] = KNOWN | fitted(own, sessions)
    return found


def evaluated(
    frames: Mapping[tuple[int, int], pd.DataFrame], sessions: Sessions
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return rates of each pair without planted work, and the kernels of each pair with it.

    Columns of both: model, one_start (whether both sessions are of one start). The first has the
    columns of `rates`; both orders of a pair count, because verdicts are symmetric. The second has
    one row per kernel with slowdown (of `slowdowns`), long (at least 20 µs) and found.
    """
    by_half, planted = models(frames, sessions), slowdowns(frames, sessions)
    honest, slowed = [], []
    for (a, b), frame in frames.items():
        halves = {sessions.half(at) for at in (a, b)}
        (half,) = halves if len(halves) == 1 else (None,)
        for name, known in by_half[half].items():
            head = {"model": name, "one_start": sessions.starts[a] == sessions.starts[b]}
            if b in planted:
                own = decided(frame, THRESHOLD, known)
                rows = own[KERNEL_KEY].merge(planted[b], how="left", on=KERNEL_KEY)
                rows = rows.set_axis(own.index)[["slowdown"]].assign(
                    **head, long=own["median_a_s"] >= SHORT_S, found=own["verdict"] == SLOWER
                )
                slowed.append(rows[~own["same_code"] & (own["side"] == GPU)].dropna())
            elif not sessions.planted[b]:
                honest.append(head | rates(frame[frame["same_code"]], known))
    return pd.DataFrame(honest), pd.concat(slowed) if slowed else pd.DataFrame()


def slowdowns(
    frames: Mapping[tuple[int, int], pd.DataFrame], sessions: Sessions
) -> dict[int, pd.DataFrame]:
    """Return the true slowdown of each kernel (`KERNEL_KEY`) in each planted session.

    The compiler places other instructions in a changed kernel, and idle threads cost less if others
    fill the GPU, so a slowdown differs from the planted one. It is measured in other starts: the
    geometric mean of the ratios of the same build there, between sessions of one start.
    """
    logs = []
    for (a, b), frame in frames.items():
        if sessions.planted[b] and sessions.starts[a] == sessions.starts[b]:
            own = frame[~frame["same_code"] & (frame["side"] == GPU)]
            logs.append(own[KERNEL_KEY].assign(session=b, log=np.log(own["ratio"])))
    if not logs:
        return {}
    rows, found = pd.concat(logs), {}
    for at in sorted(set(rows["session"])):
        start, permille = sessions.starts[at], sessions.planted[at]
        others = {b for b in set(rows["session"]) if sessions.planted[b] == permille}
        others = {b for b in others if sessions.starts[b] != start}
        means = rows[rows["session"].isin(others)].groupby(KERNEL_KEY, dropna=False)["log"].mean()
        if others:
            found[at] = np.expm1(means).rename("slowdown").reset_index()
    return found


def rates(frame: pd.DataFrame, known: dict[str, Between]) -> dict[str, float]:
    """Return the rates of one comparison of identical code, and of simulated slowdowns of B.

    *Alone*: only one kernel has other code, so its p-value needs no adjustment.
    """
    own = decided(frame, THRESHOLD, known)
    kernels = own["side"] == GPU
    moved = _alone(own).isin([SLOWER, FASTER])
    result = {
        "status 1": float(np.mean([(own["verdict"] == each).any() for each in (SLOWER, FASTER)])),
        "false slower": float(own["verdict"].isin([SLOWER, FASTER]).mean() / 2),
        "undecided": float(own.loc[kernels, "verdict"].isin([UNDECIDED, OTHER_HARDWARE]).mean()),
        "false slower, alone": float(moved[kernels].mean() / 2),
    }
    for slowdown in SLOWDOWNS:
        times = {name: frame[name] * (1 + slowdown) for name in ("median_b_s", "ratio")}
        slower = decided(frame.assign(**times), THRESHOLD, known)
        alone = _alone(slower) == SLOWER
        for name, chosen in (("from 20 µs", own["median_a_s"] >= SHORT_S), ("all", True)):
            for kind, found in (("", slower["verdict"] == SLOWER), (", alone", alone)):
                rate = float(found[kernels & chosen].mean())
                result[f"{slowdown:.0%} simulated, {name}{kind}"] = rate
    return result


def _alone(frame: pd.DataFrame) -> pd.Series:
    """Return the verdict on each kernel as if the comparison contained only this kernel."""
    q_values = {"q_differs": frame["p_differs"], "q_same": frame["p_same"]}
    return verdicts(frame.assign(**q_values), THRESHOLD / 2)


def power(kernels: pd.DataFrame) -> pd.DataFrame:
    """Return the share of kernels (of `evaluated`) found slower, by model, start and slowdown."""
    parts = []
    for (low, high), text in RANGES.items():
        own = kernels[kernels["slowdown"].between(low, high)].assign(slowdown=text)
        parts += [own[own["long"]].assign(kernels="from 20 µs"), own.assign(kernels="all")]
    keys = ["model", "one_start", "slowdown", "kernels"]
    groups = pd.concat(parts).groupby(keys, sort=False)["found"]
    return groups.agg(verdicts="size", found="mean").reset_index()


def counts(
    frames: Mapping[tuple[int, int], pd.DataFrame], sessions: Sessions
) -> dict[str, pd.DataFrame]:
    """Return the verdicts of `compare` on identical code by kind, for both orders of all pairs."""
    parts: dict[str, list[pd.DataFrame]] = {}
    for (a, b), frame in frames.items():
        if not sessions.planted[b]:
            own = frame[frame["same_code"]]
            back = own["verdict"].replace({SLOWER: FASTER, FASTER: SLOWER})
            kind = names_of_kinds(own)
            one = "one start" if sessions.starts[a] == sessions.starts[b] else "different starts"
            for verdict in (own["verdict"], back):
                parts.setdefault(one, []).append(pd.crosstab(kind, verdict))
    tables = {one: pd.concat(own).groupby(level=0).sum() for one, own in parts.items()}
    return {
        one: own.reindex(KINDS).reindex(columns=VERDICTS).fillna(0).astype(int)
        for one, own in tables.items()
    }


def of_others(sessions: Sessions, others: Sequence[Recording]) -> pd.DataFrame:
    """Return the `rates` of `compare`, and numbers of kernels, for full sessions and others.

    Both have GPUs of one model; the others are recordings of other hosts.
    """
    numbers = range(len(sessions.recordings))
    full = [sessions.recordings[at] for at in numbers if sessions.half(at) is None]
    pairs = [(one, other) for one in full for other in others if _model(one) == _model(other)]
    frames = [compare(one, other, THRESHOLD) for one, other in pairs]
    frames = [frame[frame["same_code"]] for frame in frames]
    kernels = [int((frame["side"] == GPU).sum()) for frame in frames]
    return pd.DataFrame([rates(frame, KNOWN) for frame in frames]).assign(kernels=kernels)


def _lines(paths: Sequence[Path], others: Sequence[Path] = ()) -> Iterator[str]:
    sessions = Sessions.of([read(path) for path in paths])
    frames = compared(sessions)
    honest = sessions.planted.count(0)
    yield f"{honest} sessions of {len(set(sessions.starts))} starts, {len(paths) - honest} planted"
    for one, table in counts(frames, sessions).items():
        yield f"\nverdicts of compare on identical code, {one}:"
        rows = [["kind", *VERDICTS, "false slower"]]
        for kind, row in [*table.iterrows(), ("all", table.sum())]:
            share = row[SLOWER] / max(row.sum(), 1)
            rows.append([str(kind), *(f"{value}" for value in row), f"{share:.3%}"])
        yield from aligned(rows)
    honest_rates, kernels = evaluated(frames, sessions)
    keys = ["model", "one_start"]
    groups = honest_rates.groupby(keys, sort=False)
    yield "\nmeans over pairs:"
    rows = [[*keys, "pairs", *(name for name in honest_rates if name not in keys)]]
    for key, row in groups.mean().iterrows():
        rows.append([*map(str, key), str(groups.size()[key]), *(f"{x:.2%}" for x in row)])
    yield from aligned(list(map(list, zip(*rows, strict=True))))
    if len(kernels):
        table = power(kernels)
        yield "\nplanted slowdowns:"
        shares = table.assign(found=[f"{x:.1%}" for x in table["found"]]).astype(str)
        yield from aligned([list(table), *shares.to_numpy().tolist()])
    own = {pair: each[each["same_code"]] for pair, each in frames.items()}
    own = {pair: each for pair, each in own.items() if not sessions.planted[pair[1]]}
    if others:
        found = of_others(sessions, [read(path) for path in others])
        number = found.pop("kernels").sum()
        yield f"\nother recordings and full sessions, {len(found)} pairs, {number} kernels:"
        yield from aligned([[name, f"{rate:.2%}"] for name, rate in found.mean().items()])
    yield "\nvariation between sessions, fitted to all:"
    for kind, model in fitted(own, sessions).items():
        yield f"{kind}: " + ", ".join(f"{k} {v:.3g}" for k, v in model._asdict().items())
    kernels = [frame.loc[frame["side"] == GPU, "offset_s"] for frame in own.values()]
    offsets = pd.Series([each.iloc[0] for each in kernels]) / 2**0.5
    yield f"launch: standard deviation {offsets.std():.3g} s in {offsets.count()} pairs"


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verdict_rates")
    parser.add_argument("recordings", nargs="*", type=Path, metavar="SESSION")
    paths = parser.parse_args().recordings
    known = [*sorted((ROOT / CALIBRATION).glob("*")), *(ROOT / path for path in COMMITTED)]
    for line in _lines(paths or known, [] if paths else [ROOT / path for path in OTHERS]):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(exit_status(main))
