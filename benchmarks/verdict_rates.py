"""How often `compare` calls identical code slower, and which planted slowdowns it finds.

    python -m benchmarks.verdict_rates rates [SESSION ...] [--planted PERMILLE=SESSION ...]
    python -m benchmarks.verdict_rates evaluate [SESSION ...]
    python -m benchmarks.verdict_rates record --start LABEL --out DIR [--sessions N]
                                              [--planted PERMILLE ...] [--device INDEX]

`rates` compares all pairs of sessions in both orders, and prints the false verdicts on times of
identical code by kind of configuration. With recordings of planted slowdowns it prints the share of
kernels that are found slower.

`evaluate` prints the rates of all pairs of sessions with one GPU model and configuration: with the
present model of the variation between sessions, and with models that are fitted to all other
sessions, or to those of other configurations. Slowdowns of 1, 2 and 5 % are simulated: the times of
B are multiplied. The default sessions are eight of the H200, of two configurations.

`record` makes quick sessions DIR/LABEL-1, DIR/LABEL-2 ...; run it once after each start of a
machine. The cubins are built once, in DIR/cubins. A planted slowdown is built from a changed copy
of each kernel: after its work, every thread waits for so many thousandths of its own time.
"""

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats
from scipy.optimize import minimize

from analysis.stats.between import KERNEL, KNOWN, Between, variances
from analysis.stats.estimates import FloatArray
from analysis.stats.significance import FASTER, SAME, SLOWER, THRESHOLD, UNDECIDED
from analysis.trust.comparison import GPU, OTHER_HARDWARE, SHORT_S, compare, decided, status
from base.command_line import aligned
from base.errors import StudyError, exit_status
from base.paths import ROOT
from kernels.cubins.build import INSTRUMENTS, STEPS, Build
from kernels.cubins.compile import architecture, build_cubin
from kernels.cubins.toolchain import find_nvcc
from measurement.recording.recording import Recording, read

COMMITTED = tuple(f"data/recordings/h200-sxm{end}" for end in ("", *range(-2, -9, -1)))
SLOWDOWNS = (0.01, 0.02, 0.05)
KINDS = ("kernel below 20 µs", "kernel from 20 µs", "pinned", "pageable", "CPU")
VERDICTS = [SAME, FASTER, SLOWER, UNDECIDED, OTHER_HARDWARE]
_KERNEL = r'extern "C" __global__ void\s+((?:[^()"]|\([^)]*\))*?)\b{}\s*\(([^)]*)\)'
_WRAPPER = """
extern "C" __global__ void {attributes}{name}({parameters}) {{
    long long planted = clock64();
    {name}_planted({arguments});
    planted = clock64() + (clock64() - planted) * {permille} / 1000;
    while (clock64() < planted) {{}}
}}
"""


def kinds(frame: pd.DataFrame) -> pd.Series:
    """Return the kind of each comparison, one of `KINDS`."""
    on_gpu = frame["side"] == GPU
    short = (frame["median_a_s"] < SHORT_S).map({True: KINDS[0], False: KINDS[1]})
    return short.where(on_gpu, frame["host_memory"].fillna(KINDS[4]).astype(object))


def false_verdicts(recordings: Sequence[Recording]) -> tuple[pd.DataFrame, int, int]:
    """Return the verdicts on identical code by kind, and the numbers of pairs and of status 1.

    Both orders of a pair count; only its first is computed, because verdicts are symmetric.
    """
    counts, pairs, ones = [], 0, 0
    for first, second in combinations(recordings, 2):
        frame = compare(first, second, THRESHOLD)
        own = frame[frame["same_code"]]
        back = own.assign(verdict=own["verdict"].replace({SLOWER: FASTER, FASTER: SLOWER}))
        for each in (own, back):
            pairs += 1
            ones += status(each, hardware=True) == 1
            counts.append(each.groupby(kinds(each))["verdict"].value_counts().unstack())
        print(f"compared {pairs} pairs", file=sys.stderr, flush=True)
    table = pd.concat(counts).groupby(level=0).sum().reindex(KINDS).fillna(0)
    return table.reindex(columns=VERDICTS, fill_value=0), pairs, ones


def found(recordings: Sequence[Recording], planted: Recording) -> pd.DataFrame:
    """Return by kind of kernel the number of times with other code, found slower, and ratio.

    size: their number; mean: the share that is *slower*; median: the median ratio of the times,
    because idle threads slow a kernel by less if others fill the GPU.
    """
    parts = []
    for base in recordings:
        frame = compare(base, planted, THRESHOLD)
        own = frame[~frame["same_code"] & (frame["side"] == GPU)]
        parts.append(own.assign(kind=kinds(own), found=own["verdict"] == SLOWER))
    groups = pd.concat(parts).groupby("kind")
    return groups["found"].agg(["size", "mean"]).assign(median=groups["ratio"].median())


def fitted(frames: Mapping[tuple[int, int], pd.DataFrame]) -> dict[str, Between]:
    """Return the variation between sessions, from comparisons of identical code by pair.

    The variances are those of the largest normal likelihood, so outliers increase them. Those of n
    sessions in g groups have n − g degrees of freedom, however many times the sessions share.
    Kernels that a ceiling of the GPU explains are left out.
    """
    # The smallest session that is compared with each session is that of its group.
    sessions = {at for pair in frames for at in pair}
    groups = {min(pair[0] for pair in frames if at in pair) for at in sessions}
    rows = pd.concat(frames.values(), ignore_index=True)
    rows = rows[rows["noise_a"].notna() & rows["noise_b"].notna()]
    kind = rows["host_memory"].fillna("CPU").astype(object).mask(rows["side"] == GPU, KERNEL)
    explained = (rows["explained_high"] / rows["explained_low"] > 1 + THRESHOLD) & (kind == KERNEL)
    rows = rows.assign(kind=kind)[~explained]
    freedom = len(sessions) - len(groups)
    return {str(name): _fit(str(name), own, freedom) for name, own in rows.groupby("kind")}


def _fit(kind: str, rows: pd.DataFrame, freedom: int) -> Between:
    """Return the variation of one kind; only kernels have a local part."""
    start = np.log([1e-3, 1e-7, 1e-2, 0.8])
    bounds = np.log([(1e-4, 0.3), (1e-10, 1e-3), (1e-4, 0.2), (0.3, 1)])
    distance = np.log(rows["ratio"])

    def model(logs: FloatArray) -> Between:
        relative, absolute_s, local, noise = map(float, np.exp(logs))
        return Between(relative, absolute_s, local if kind == KERNEL else 0, noise, freedom)

    def deviance(logs: FloatArray) -> float:
        error = np.sqrt(variances(rows, {kind: model(logs)}).sum(axis=1))
        return float(np.log(error).sum() - stats.norm.logpdf(distance / error).sum())

    return model(minimize(deviance, start, method="L-BFGS-B", bounds=bounds).x)


def comparable(recordings: Sequence[Recording]) -> list[list[int]]:
    """Return the numbers of the recordings of equal GPU models, variants and sizes, in groups."""
    groups: dict[str, list[int]] = {}
    for at, each in enumerate(recordings):
        facts = each.provenance
        model = [gpu["name"] for gpu in facts["devices"]]
        study = [facts["configuration"].get(name) for name in ("variants", "sizes")]
        groups.setdefault(str([model, study]), []).append(at)
    return list(groups.values())


def evaluated(recordings: Sequence[Recording]) -> pd.DataFrame:
    """Return the rates of each ordered pair of comparable sessions, by three models.

    model: `KNOWN`; fitted to all other sessions; fitted to the other groups of `comparable`.
    equal_memory: whether the GPUs of the pair have equal ceilings of device memory.
    """
    groups = comparable(recordings)
    pairs = [pair for group in groups for pair in combinations(group, 2)]
    frames = {}
    for one, other in pairs:
        for pair in ((one, other), (other, one)):
            frame = compare(recordings[pair[0]], recordings[pair[1]], THRESHOLD)
            frames[pair] = frame[frame["same_code"]]
    rows = []
    for pair in pairs:
        (own,) = (group for group in groups if pair[0] in group)
        known = {"present model": KNOWN}
        for name, used in (("other sessions", pair), ("other groups", own)):
            rest = [each for each in pairs if not set(each) & set(used)]
            if rest:
                known[name] = fitted({each: frames[each] for each in rest})
        for name, model in known.items():
            for each in (pair, pair[::-1]):
                rows.append({"model": name, "pair": each} | rates(frames[each], model))
    return pd.DataFrame(rows)


def rates(frame: pd.DataFrame, known: dict[str, Between]) -> dict[str, float]:
    """Return the rates of one comparison of identical code, and of simulated slowdowns of B."""
    own = decided(frame, THRESHOLD, known)
    kernels = own["side"] == GPU
    factors = own.loc[kernels, ["explained_low", "explained_high"]]
    large = (own["m"] == own["n"]) & (own["n"] == own["k"]) & own["n"].between(64, 4096)
    long = own["median_a_s"] >= SHORT_S
    result = {
        "status 1": float(status(own, hardware=True) == 1),
        "false slower": float((own["verdict"] == SLOWER).mean()),
        "undecided": float(own.loc[kernels, "verdict"].isin([UNDECIDED, OTHER_HARDWARE]).mean()),
        "equal_memory": float(factors["explained_high"].max() / factors["explained_low"].min())
        <= 1 + THRESHOLD,
    }
    for slowdown in SLOWDOWNS:
        times = {name: frame[name] * (1 + slowdown) for name in ("median_b_s", "ratio")}
        slower = decided(frame.assign(**times), THRESHOLD, known)["verdict"] == SLOWER
        for name, chosen in (("from 20 µs", long), ("all", True)):
            result[f"{slowdown:.0%} {name}"] = float(slower[kernels & chosen].mean())
            result[f"{slowdown:.0%} {name}, N 64 to 4096"] = float(
                slower[kernels & chosen & large].mean()
            )
    return result


def planted_text(text: str, name: str, permille: int) -> str:
    """Return a kernel's source with idle work after it; raise StudyError if there is no kernel."""
    match = re.search(_KERNEL.format(name), text)
    if not match:
        raise StudyError(f'{name}: no kernel extern "C" __global__ void {name}(...)')
    attributes, parameters = match[1], match[2]
    arguments = ", ".join(re.findall(r"(\w+)\s*$", each)[0] for each in parameters.split(","))
    body = f"static __device__ __forceinline__ void {name}_planted({parameters})"
    facts = {"attributes": attributes, "parameters": parameters, "arguments": arguments}
    wrapper = _WRAPPER.format(name=name, permille=permille, **facts)
    return text[: match.start()] + body + text[match.end() :] + wrapper


@dataclass(frozen=True)
class PlantedBuild(Build):
    """A build of a changed source."""

    changed: str

    @property
    def source(self) -> str:
        """Absolute path of the changed source."""
        return self.changed


def build(nvcc: Path, builds: Sequence[Build], name: str, folder: Path, permille: int) -> None:
    """Build cubins for an architecture; with `permille`, those of kernels with idle work."""
    with tempfile.TemporaryDirectory() as changed:
        for each in builds:
            made: Build = each
            if permille and each not in INSTRUMENTS and each.variant not in STEPS:
                source = Path(changed) / f"{each.variant}.cu"
                text = (ROOT / each.source).read_text()
                source.write_text(planted_text(text, each.variant, permille))
                own = (each.variant, each.block_size, each.dtype, each.guarded)
                made = PlantedBuild(*own, str(source))
            cubin = folder / name / f"{each.stem}.cubin"
            if not cubin.exists():
                build_cubin(nvcc, made, name, cubin)


def record_sessions(out: Path, start: str, sessions: int, planted: list[int], device: int) -> None:
    """Record quick sessions of the committed study, and one of each planted slowdown."""
    from measurement.devices.discovery import select
    from measurement.recorder.record import record
    from study.narrow import asked
    from study.plan import builds

    config = asked(ROOT / "config.yaml", "quick", [], [])
    name = architecture(select(device)[0].compute_capability)
    nvcc = find_nvcc(config.toolchain.nvcc)
    wanted = [(f"{start}-{at + 1}", 0) for at in range(sessions)]
    for label, permille in [*wanted, *((f"{start}-planted-{each}", each) for each in planted)]:
        cubins = out / "cubins" / str(permille)
        build(nvcc, builds(config.study), name, cubins, permille)
        if not (out / label).exists():
            record(config, device, out / label, cubins)


def _lines(arguments: argparse.Namespace) -> Iterator[str]:
    paths = arguments.recordings or [ROOT / path for path in COMMITTED]
    recordings = [read(path) for path in paths]
    if arguments.command == "evaluate":
        table = evaluated(recordings)
        yield f"{len(recordings)} sessions, {table['pair'].nunique()} ordered pairs"
        equal = table[table["equal_memory"]].assign(
            model=lambda own: own["model"] + ", equal memory"
        )
        means = pd.concat([table, equal]).drop(columns=["pair", "equal_memory"])
        means = means.groupby("model", sort=False).mean()
        rows = [["rate", *means.index]]
        yield from aligned(rows + [[name, *(f"{x:.2%}" for x in means[name])] for name in means])
        within = [pair for group in comparable(recordings) for pair in combinations(group, 2)]
        frames = {(a, b): compare(recordings[a], recordings[b], THRESHOLD) for a, b in within}
        same = {pair: each[each["same_code"]] for pair, each in frames.items()}
        for kind, model in fitted(same).items():
            yield f"{kind}: " + ", ".join(f"{k} {v:.2g}" for k, v in model._asdict().items())
        return
    counts, pairs, ones = false_verdicts(recordings)
    yield f"{len(recordings)} sessions, {pairs} ordered pairs; times of identical code:"
    rows = [["kind", *counts.columns, "false slower"]]
    for kind, row in [*counts.iterrows(), ("all", counts.sum())]:
        share = row[SLOWER] / max(row.sum(), 1)
        rows.append([str(kind), *(f"{value:.0f}" for value in row), f"{share:.2%}"])
    yield from aligned(rows)
    yield f"exit status 1 with --hardware: {ones} of {pairs} pairs ({ones / max(pairs, 1):.0%})"
    for text in arguments.planted:
        permille, _, path = text.partition("=")
        for kind, size, share, ratio in found(recordings, read(Path(path))).itertuples():
            text = f"planted {int(permille) / 10:g} %, {kind}: {share:.1%} of {size} found slower"
            yield f"{text}, median ratio {ratio:.3f}"


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verdict_rates")
    commands = parser.add_subparsers(dest="command", required=True)
    pairs = commands.add_parser("rates")
    for each in (pairs, commands.add_parser("evaluate")):
        each.add_argument("recordings", nargs="*", type=Path)
    pairs.add_argument("--planted", nargs="*", default=[], metavar="PERMILLE=SESSION")
    make = commands.add_parser("record")
    make.add_argument("--start", required=True)
    make.add_argument("--out", required=True, type=Path)
    make.add_argument("--sessions", type=int, default=5)
    make.add_argument("--planted", nargs="*", type=int, default=[], metavar="PERMILLE")
    make.add_argument("--device", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.command == "record":
        own = (arguments.start, arguments.sessions, arguments.planted, arguments.device)
        record_sessions(arguments.out, *own)
        return 0
    for line in _lines(arguments):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(exit_status(main))
