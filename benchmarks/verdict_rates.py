"""How often `compare` calls identical code slower, and which planted slowdowns it finds.

    python -m benchmarks.verdict_rates rates [SESSION ...] [--planted PERMILLE=SESSION ...]
    python -m benchmarks.verdict_rates evaluate [SESSION ...]
    python -m benchmarks.verdict_rates record --start LABEL --out DIR [--sessions N]
                                              [--planted PERMILLE ...] [--device INDEX]

`rates` compares all pairs of sessions in both orders, and prints the false verdicts on times of
identical code by kind of configuration. With recordings of planted slowdowns it prints the share of
kernels that are found slower.

`evaluate` fits the variation between sessions to each half of the sessions, and prints the rates of
the pairs of the other half. Slowdowns of 1, 2 and 5 % are simulated: the times of B are multiplied.
The default sessions are four of the H200, from one version of this program.

`record` makes quick sessions DIR/LABEL-1, DIR/LABEL-2 ...; run it once after each start of a
machine. The cubins are built once, in DIR/cubins. A planted slowdown is built from a changed copy
of each kernel: after its work, every thread waits for so many thousandths of its own time.
"""

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats
from scipy.optimize import minimize

from analysis.stats.between import DEGREES_OF_FREEDOM, KERNEL, LEAST_LOCAL, Between, variances
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

COMMITTED = tuple(f"data/recordings/h200-sxm{end}" for end in ("", "-2", "-3", "-4"))
SLOWDOWNS = (0.01, 0.02, 0.05)
KINDS = ("kernel below 20 µs", "kernel from 20 µs", "pinned", "pageable", "CPU")
VERDICTS = [SAME, FASTER, SLOWER, UNDECIDED, OTHER_HARDWARE]
_FREEDOM = DEGREES_OF_FREEDOM
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


def fitted(frames: Sequence[pd.DataFrame]) -> dict[str, Between]:
    """Return the variation between sessions of comparisons of identical code, by likelihood.

    Log ratios over their standard error have Student's distribution. Kernels that a ceiling of the
    GPU explains are left out.
    """
    rows = pd.concat(frames, ignore_index=True)
    rows = rows[rows["noise_a"].notna() & rows["noise_b"].notna()]
    kind = rows["host_memory"].fillna("CPU").astype(object).mask(rows["side"] == GPU, KERNEL)
    explained = (rows["explained_high"] / rows["explained_low"] > 1 + THRESHOLD) & (kind == KERNEL)
    rows = rows.assign(kind=kind)[~explained]
    return {str(name): _fit(str(name), own) for name, own in rows.groupby("kind")}


def _fit(kind: str, rows: pd.DataFrame) -> Between:
    """Return the variation of one kind; only kernels have a local part."""
    start = np.log([1e-3, 1e-7, 1.5 * LEAST_LOCAL, 0.8])
    bounds = np.log([(1e-4, 0.3), (1e-10, 1e-3), (LEAST_LOCAL, 0.2), (0.3, 1)])
    distance = np.log(rows["ratio"])

    def model(logs: FloatArray) -> Between:
        relative, absolute_s, local, noise = map(float, np.exp(logs))
        return Between(relative, absolute_s, local if kind == KERNEL else 0, noise)

    def deviance(logs: FloatArray) -> float:
        error = np.sqrt(variances(rows, {kind: model(logs)}).sum(axis=1))
        return float(np.log(error).sum() - stats.t.logpdf(distance / error, _FREEDOM).sum())

    return model(minimize(deviance, start, method="L-BFGS-B", bounds=bounds).x)


def evaluated_splits(recordings: Sequence[Recording]) -> pd.DataFrame:
    """Return one row per half of the sessions and ordered pair of the other half: its rates.

    equal_memory: whether the GPUs of the pair have equal ceilings of device memory.
    """
    every = range(len(recordings))
    frames = {}
    for pair in permutations(every, 2):
        frame = compare(recordings[pair[0]], recordings[pair[1]], THRESHOLD)
        frames[pair] = frame[frame["same_code"]]
    rows = []
    for half in combinations(every, len(recordings) // 2):
        known = fitted([frames[pair] for pair in combinations(half, 2)])
        for pair in permutations(sorted(set(every) - set(half)), 2):
            rows.append({"half": half, "pair": pair} | rates(frames[pair], known))
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
        table = evaluated_splits(recordings)
        names = [name for name in table if name not in ("half", "pair", "equal_memory")]
        shares = {"all pairs": table, "equal device memory": table[table["equal_memory"]]}
        yield f"{len(recordings)} sessions, {len(table)} pairs of held-out sessions"
        rows = [["rate", *shares]]
        rows += [
            [name, *(f"{each[name].mean():.2%}" for each in shares.values())] for name in names
        ]
        yield from aligned(rows)
        frames = [compare(*pair, THRESHOLD) for pair in combinations(recordings, 2)]
        for kind, model in fitted([each[each["same_code"]] for each in frames]).items():
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
