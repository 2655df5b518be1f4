"""Recompute the main results from raw recordings, by code that shares nothing with the project.

    python -m benchmarks.recompute --tables results/tables ID=DIR [ID=DIR ...]

Reviewers can start here. The script needs only numpy and scipy. It takes only hardware counters,
machine code and weights of fits from the tables. It recomputes medians, their intervals in one
session and (kernel times) over several, break-even sizes, the fits of M0, M1 and M8, and the audit.
The exit status is 1 if a value exceeds its tolerance. Repeat an ID for several sessions.
"""

import argparse
import csv
import gzip
import json
import math
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from scipy.interpolate import CubicHermiteSpline, PchipInterpolator
from scipy.optimize import brentq, least_squares, minimize
from scipy.special import betainc
from scipy.stats import binom
from scipy.stats import t as student_t

KERNEL = ("device", "variant", "dtype", "batch", "m", "n", "k", "block_size")
CELL = (*KERNEL, "host_memory", "threads")
BLAS = ("blas", "mkl", "blis")
MODELLED = ("naive", "buffered_column", "buffered_row", "block")
ACCESSES = ("global_lines", "shared_load_wavefronts", "shared_store_wavefronts")
EXACT, CLOSE, CROSSING = 2e-5, 2e-3, 5e-3  # relative tolerances: rounded tables, searches, grids


def rows_of(path):
    """Return the rows of a CSV file as dictionaries of text."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return list(csv.DictReader(text.splitlines()))


def cell_of(row, columns=CELL):
    """Return the values of a row that identify its configuration."""
    return tuple(row[name] for name in columns)


def number(text):
    """Return the number in a cell of a table; NaN if it is blank."""
    return float(text) if text else math.nan


class Checks:
    """How many values were compared, by name, and the largest deviation of each name."""

    def __init__(self):
        self.found = defaultdict(list)

    def compare(self, name, what, own, table, tolerance):
        """Compare a recomputed value with that in a table; two blanks agree."""
        same = own == table or (math.isnan(own) and math.isnan(table))
        apart = 0.0 if same else abs(own - table) / max(abs(own), abs(table))
        apart = math.inf if math.isnan(apart) else apart
        self.found[name].append((apart, apart > tolerance, f"{what}: {own:.6g}, table {table:.6g}"))

    def report(self):
        """Print one line per name; return whether all values agree."""
        for name, found in self.found.items():
            agree, (worst, differs, what) = sum(not each[1] for each in found), max(found)
            print(f"{name}: {agree} of {len(found)} agree; largest deviation {worst:.1e}")
            print(f"    {what}\n" * bool(differs), end="")
        return not any(differs for found in self.found.values() for _, differs, _ in found)


class Source:
    """The samples of one GPU and its host: times by cell and session, in the order measured."""

    def __init__(self, folders):
        self.total, self.kernel = defaultdict(dict), defaultdict(dict)
        facts = json.loads((folders[0] / "provenance.json").read_text())
        self.configuration, self.gpu = facts["configuration"], facts["devices"][0]
        for session, folder in enumerate(folders):
            behind = defaultdict(list)  # kernel-only times, which all host memories share
            for row in rows_of(folder / "kernels.csv.gz"):
                behind[cell_of(row, KERNEL)].append(float(row["kernel_s"]))
            for row in rows_of(folder / "samples.csv.gz"):
                cell = cell_of(row)
                self.total[cell].setdefault(session, []).append(float(row["total_s"]))
            for cell in self.total:
                if session in self.total[cell] and cell[:8] in behind:
                    self.kernel[cell][session] = behind[cell[:8]]

    def is_fitted(self, cell):
        """Return whether models are fitted to a cell: square, float32 and of a planned size."""
        device, _, dtype, batch, m, n, k = cell[:7]
        fits = m == n == k and batch == "1" and dtype == "float32"
        planned = [*self.configuration["sizes"], *self.configuration.get("holdout_sizes", [])]
        return fits and (device == "cpu" or int(n) in planned)


def median_of(sessions):
    """Return the geometric mean of the sessions' medians."""
    return math.exp(sum(math.log(np.median(v)) for v in sessions.values()) / len(sessions))


def order_bounds(values):
    """Return the bounds of the median by order statistics, with ranks for correlated samples."""
    count, ordered = len(values), np.sort(values)

    def rank(samples):
        inner = [r for r in range(samples // 2) if 1 - 2 * binom.cdf(r, samples, 0.5) >= 0.95]
        return max(inner, default=None)

    if rank(count) is None:
        return math.nan, math.nan
    above = (values > np.median(values)) - np.mean(values > np.median(values))
    correlation = min(max(above[1:] @ above[:-1] / max(above @ above, 1e-300), 0), 0.7)
    fewer = math.floor(count * (1 - correlation) / (1 + correlation))
    lower = min((rank(fewer) or 0) * count // max(fewer, 1), rank(count))
    return ordered[lower], ordered[count - 1 - lower]


def check_medians(source, label, summary, checks):
    """Compare the medians of all cells, and the bounds of those with one session."""
    for row in summary:
        cell = cell_of(row)
        if label not in (row["gpu"], row["device"] == "cpu" and row["recording"]):
            continue
        for part, samples in (("total", source.total), ("kernel", source.kernel)):
            if own := samples.get(cell):
                checks.compare("medians", cell, median_of(own), number(row[f"{part}_s"]), EXACT)
                bounds = order_bounds(np.array(next(iter(own.values())))) if len(own) == 1 else ()
                for value, end in zip(bounds, ("low", "high"), strict=bool(bounds)):
                    table = number(row[f"{part}_{end}_s"])
                    checks.compare("intervals, one session", cell, value, table, EXACT)


def bootstrap_variance(values):
    """Return the variance of a resample's median, for at least 6 log times."""
    count, logs = len(values), np.sort(np.log(values))
    middle = (count + 1) / 2
    weights = np.diff(betainc(middle, middle, np.arange(count + 1) / count))
    return float((logs - logs @ weights) ** 2 @ weights)


def reml(values, noise):
    """Return the variances of shared and own session effects; arrays are (cells, sessions)."""
    sessions = values.shape[1]
    values = values - values.mean(axis=1, keepdims=True)  # sums of large logarithms lose digits
    scale = np.mean(values**2)
    y, noise = values / math.sqrt(scale), np.maximum(noise / scale, math.exp(-13))

    def deviance(logs):
        shared, own = np.exp(logs)
        weight = 1 / (own + noise)
        mass = weight.sum(axis=1, keepdims=True)
        # Without its mean, a cell has the precision diag(w) − w w'/Σw; sessions add shared·J.
        centred = weight * (y - (weight * y).sum(axis=1, keepdims=True) / mass)
        precision = np.diag(weight.sum(axis=0)) - (weight / mass).T @ weight
        joint = np.eye(sessions) + shared * precision
        score = centred.sum(axis=0)
        logdet = np.log(mass).sum() - np.log(weight).sum() + np.linalg.slogdet(joint)[1]
        return logdet + (centred * y).sum() - shared * score @ np.linalg.solve(joint, score)

    found = minimize(deviance, (-1, -1), bounds=[(-14, 4)] * 2, tol=1e-12, options={"eps": 1e-5}).x
    return [value * scale if value > math.exp(-13) else 0.0 for value in np.exp(found)]


def check_sessions(source, label, summary, checks):
    """Compare the intervals of kernel times over sessions, separately by the matrices' memory."""
    limit = source.gpu["limits"]["l2_cache_bytes"]
    table = {cell_of(row): row for row in summary if row["gpu"] == label}
    kinds = defaultdict(dict)
    for cell, sessions in source.kernel.items():
        m, n, k, batch = (int(cell[at]) for at in (4, 5, 6, 3))
        outside = batch * (m * k + k * n + m * n) * (8 if cell[2] == "float64" else 4) > limit
        if len(sessions) > 1 and min(map(len, sessions.values())) >= 6 and cell in table:
            kinds[cell[8], outside][cell] = sessions
    for cells in kinds.values():
        most = max(map(len, cells.values()))
        cells = {cell: own for cell, own in cells.items() if len(own) == most}
        logs = np.array([[np.log(np.median(v)) for v in own.values()] for own in cells.values()])
        noise = np.array([[bootstrap_variance(v) for v in own.values()] for own in cells.values()])
        noise = np.exp(np.log(np.maximum(noise, 1e-300)).mean(axis=1, keepdims=True))
        shared, own_part = reml(logs, np.repeat(noise, most, axis=1))
        variance = shared + own_part + noise[:, 0]
        few, many = student_t.ppf(0.975, (most - 1, (most - 1) * max(len(cells) - 1, 1)))
        half = (many + (few - many) * (shared / variance) ** 1.25) * np.sqrt(variance / most)
        for cell, log_s, width in zip(cells, logs.mean(axis=1), half, strict=True):
            for log_own, end in ((log_s - width, "low"), (log_s + width, "high")):
                value = number(table[cell][f"kernel_{end}_s"])
                checks.compare("intervals over sessions", cell, math.exp(log_own), value, CLOSE)


def through(sizes, times):
    """Return the curve of log time: its slopes are those through groups of neighbouring sizes."""
    log_n, log_s, groups = np.log(sizes), np.log(times), []
    for place, size in enumerate(log_n):
        if groups and size - log_n[groups[-1][0]] <= 0.1:
            groups[-1].append(place)
        else:
            groups.append([place])
    if len(groups) == 1:
        return PchipInterpolator(log_n, log_s)
    middles, heights = ([values[own].mean() for own in groups] for values in (log_n, log_s))
    slopes = PchipInterpolator(middles, heights).derivative()(middles)
    return CubicHermiteSpline(log_n, log_s, np.repeat(slopes, [len(own) for own in groups]))


def least(groups, n):
    """Return the least log time at N of the curves of all groups, each within its own range."""
    found = np.full(len(n), np.inf)
    for sizes, times in groups:
        inside = (n >= sizes[0] * (1 - 1e-9)) & (n <= sizes[-1] * (1 + 1e-9))
        found[inside] = np.minimum(found[inside], through(sizes, times)(np.log(n[inside])))
    return found


def check_break_even(source, label, table, checks):
    """Compare the sizes from which the GPU is faster than each CPU baseline."""
    curves = defaultdict(lambda: defaultdict(list))
    for cell, sessions in source.total.items():
        device, variant, n, block, memory, threads = (cell[at] for at in (0, 1, 5, 7, 8, 9))
        if not source.is_fitted(cell):
            continue
        point, key = (int(n), median_of(sessions)), (variant, block, threads)
        names = [(memory, "library" if variant.startswith("cublas") else "study")]
        if device == "cpu":
            kind = ("blas" if variant in BLAS else "own") + ("" if threads == "1" else "_all")
            names = ["best", kind] + ["naive"] * (variant == "naive" and threads == "1")
        for name in names:
            curves[name][key].append(point)
    sides = defaultdict(list)
    for name, of in curves.items():
        sides[name] = [np.array(sorted(own), float).T for own in of.values() if len(own) > 1]
    for row in (row for row in table if row["gpu"] == label):
        gpu, cpu = sides[row["host_memory"], row["kernels"]], sides[row["cpu_baseline"]]
        ends = [(min(s[0][0] for s in each), max(s[0][-1] for s in each)) for each in (gpu, cpu)]
        n = np.arange(max(ends[0][0], ends[1][0]), min(ends[0][1], ends[1][1]) + 1)
        slower = np.flatnonzero(least(gpu, n) >= least(cpu, n))
        outside = not len(slower) or slower[-1] == len(n) - 1
        own = math.nan if outside else float(n[slower[-1]]) + 1
        what = cell_of(row, ("gpu", "host_memory", "kernels", "cpu_baseline"))
        checks.compare("break-even sizes", what, own, number(row["n"]), CROSSING)


def fit(design, log_s, variance):
    """Return the parameters of a sum of work by weighted least squares of log time."""
    weights, theta = np.ones(len(log_s)), None
    alone = np.array([np.median(np.exp(log_s)[c > 0] / c[c > 0]) for c in design.T])
    for _ in range(12):
        root = np.sqrt(weights / weights.mean())

        def residual(logs, root=root):
            return root * (np.log(design @ np.exp(logs)) - log_s)

        ends = (np.log(1e-6 * alone), np.log(1e3 * alone))
        starts = [alone / len(alone), *np.diag(alone)] if theta is None else [theta]
        inside = (np.log(np.clip(start, 1e-3 * alone, 500 * alone)) for start in starts)
        tries = [least_squares(residual, one, "3-point", ends, ftol=1e-12) for one in inside]
        best = min(tries, key=lambda found: found.cost).x
        theta = np.where(best > ends[0] + math.log(2), np.exp(best), 0.0)
        squares = (np.log(design @ theta) - log_s) ** 2
        free = len(log_s) - len(theta)

        def surplus(scatter, squares=squares, free=free):
            return np.sum(squares / (variance + 1e-12 + scatter)) - free

        scatter = brentq(surplus, 0, squares.sum() / free, xtol=1e-15) if surplus(0) > 0 else 0.0
        weights = 1 / (variance + scatter + 1e-12)
    return theta


def accesses_of(variant, n, block):
    """Return the cache lines of a launch, and the wavefronts of its shared loads and stores."""
    tile = {"naive": (32, 1), "buffered_row": (1, n), "buffered_column": (n, 1)}
    height, width = tile.get(variant, (block, block))
    y, x = np.divmod(np.arange(height * width), width)
    row, column = np.arange(0, n, height)[:, None] + y, np.arange(0, n, width)[:, None] + x
    line = np.where((row < n)[:, None] & (column < n), (row[:, None] * n + column) // 32, -1)
    lanes = np.pad(line, ((0, 0), (0, 0), (0, -len(x) % 32)), constant_values=-1).reshape(-1, 32)
    # Words ascend along a warp, so a line is new if it is above the lines of all earlier lanes.
    lines = int((np.diff(np.maximum.accumulate(lanes, axis=1), axis=1, prepend=-1) > 0).sum())
    tiles, warps, words = -(-n // (block or n)), -(-n // 32), math.gcd(n, 4)
    if variant == "naive":
        return (n + 1) * lines + n * n * tiles, 0, 0
    # Neighbouring shared loads are merged to at most 16 bytes, a wavefront per half of a warp.
    if variant == "block":
        copies = tiles**3 * -(-block * block // 32)
        merged = -(-block // 4) * -(-min(block**2, 32) // 16)
        return (2 * tiles + 1) * lines, copies * (block + merged), copies * 2
    return (n + 2) * lines, n * n // words * (-(-n // 16) if words == 4 else warps), n * warps


def work_of(variant, n, block, counters, code, gpu):
    """Return the units of work of a launch in M8: 1, waits, lines, wavefronts, instructions."""
    threads, blocks = (block * block, (-(-n // block)) ** 2) if block else (n, n)
    key = (variant, str(n), str(block or ""))
    theory = zip(ACCESSES, accesses_of(variant, n, block), strict=True)
    lines, *shared = (counters.get((*key, name), units) for name, units in theory)
    warps, processors = -(-threads // 32), gpu["multiprocessors"]
    build = code[variant, str(block or ""), "guarded" if n % (block or 1) else "exact"]
    registers = -(-int(build["registers_per_thread"]) * 32 // 256) * 256
    shared_bytes = int(build["static_shared_bytes"]) + (0 if block else 4 * n) + 1024
    at_once = min(64 // warps, 32, 65536 // registers // warps, 228 * 8 // -(-shared_bytes // 128))
    steps = 0 if variant == "naive" else -(-n // block) if block else 1
    waits = steps * math.ceil(blocks / (processors * at_once))
    rounds = n / int(build["loop_fmas"]) - 1
    issued = int(build["instructions"]) + rounds * int(build["loop_instructions"])
    imbalance = math.ceil(blocks / processors) * processors / blocks
    busy = (units * imbalance for units in (lines, sum(shared), blocks * warps * issued))
    return [1, waits, *busy]


def check_models(source, label, tables, checks):
    """Compare M0, M1 and M8, fitted to kernel-only times of the source's modelled kernels."""
    rows = [row for row in tables["summary"] if row["gpu"] == label and row["kernel_s"]]
    memory = "pinned" if any(row["host_memory"] == "pinned" for row in rows) else "pageable"
    cells, m1, m8 = [], [], []
    for row in rows:
        cell = cell_of(row)
        naive = row["variant"] == "naive" and row["block_size"] != "32"
        known = row["variant"] in MODELLED and row["host_memory"] == memory and not naive
        if known and source.is_fitted(cell) and int(cell[5]) in source.configuration["sizes"]:
            spread = math.log(number(row["kernel_high_s"]) / number(row["kernel_low_s"])) / 3.9199
            cells.append((cell, math.log(median_of(source.kernel[cell])), spread**2))
    columns = ("variant", "n", "block_size", "quantity")
    counts = (r for r in tables["counts"] if r["gpu"] == label and r["dtype"] == "float32")
    counters = {cell_of(row, columns): number(row["counter"]) for row in counts}
    where = (label, f"sm_{source.gpu['compute_capability'].replace('.', '')}", "float32")
    columns = ("recording", "architecture", "dtype", "variant", "block_size", "build")
    code = {cell_of(row, columns): row for row in tables["machine_code"]}
    code = {key[3:]: row for key, row in code.items() if key[:3] == where}
    log_s, variance = (np.array([cell[at] for cell in cells]) for at in (1, 2))
    for cell, _, _ in cells:
        variant, n, block = cell[1], int(cell[5]), int(cell[7] or 0)
        reads = {"naive": (2 * n**3, 0), "block": (2 * n**3 / max(block, 1), 2 * n**3)}
        m1.append((1, *reads.get(variant, (n**3 + n**2, n**3))))
        m8.append(work_of(variant, n, block, counters, code, source.gpu))
    key = ("source", "kernels", "model", "parameter")
    known = {cell_of(row, key): number(row["value"]) for row in tables["models"]}
    names = {"M0": "t_G t_S", "M1": "tau0 t_G t_S", "M8": "tau0 t_B c_L c_S c_I"}
    for model, work in (("M0", [units[1:] for units in m1]), ("M1", m1), ("M8", m8)):
        theta = fit(np.array(work, float), log_s, variance)
        for name, value in zip(names[model].split(), theta, strict=True):
            table = known[label, "modelled", model, name]
            checks.compare(f"model {model}", (label, name), value, table, CLOSE)


def start_up(kernel, n, time_s):
    """Return the constant of time = constant + a·n³, fitted by soft-L1 with one a per kernel."""
    largest = [np.max((time_s / n**3)[kernel == each]) for each in range(kernel.max() + 1)]

    def residual(logs):
        return np.log((np.exp(logs[0]) + np.exp(logs[1:])[kernel] * n**3) / time_s)

    plain = least_squares(residual, np.log([0.9 * time_s.min(), *largest])).x
    scale = max(1.4826 * np.median(np.abs(residual(plain))), 1e-6)
    return math.exp(least_squares(residual, plain, loss="soft_l1", f_scale=scale).x[0])


def check_audit(published, tables, checks):
    """Compare throughputs, start-up times and speedups without start-up with the audit's tables."""
    constants = {}
    for table in tables["audit_constants"]:
        first, last = int(table["first_table"]), int(table["last_table"])
        left_out = "cpu_naive", "gpu_naive" if last == 6 else ""  # Table 6 repeats it from 5
        tabled = [row for row in published if first <= int(row["table"]) <= last]
        columns = ("implementation", "block_size", "n", "time_s")
        cells = {cell_of(r, columns) for r in tabled if r["implementation"] not in left_out}
        names = sorted({cell[:2] for cell in cells})
        kernel = np.array([names.index(cell[:2]) for cell in sorted(cells)])
        n, time_s = (np.array([float(cell[at]) for cell in sorted(cells)]) for at in (2, 3))
        own, what = start_up(kernel, n, time_s), "audit, start-up times"
        constants.update(dict.fromkeys(range(first, last + 1), own))
        checks.compare(what, (first, last), own, number(table["constant_s"]), CLOSE)
    columns = ("table", "implementation", "n", "block_size")
    times = {cell_of(row, columns): float(row["time_s"]) for row in published}
    for row in tables["audit_cells"]:
        key = cell_of(row, columns)
        rate = 2 * int(row["n"]) ** 3 / times[key]
        checks.compare("audit, throughputs", key, rate, number(row["flop_per_s"]), EXACT)
        if row["speedup_without_constant"]:
            naive = times[row["table"], "gpu_naive", row["n"], ""]
            warm = row["table"] == "6"  # the naive column of Table 6 is that of Table 5
            rest = times[key] - (0.0 if warm else constants[int(row["table"])])
            above = naive - constants[5 if warm else int(row["table"])]
            value = above / rest if rest > 0 else math.inf
            table = number(row["speedup_without_constant"])
            checks.compare("audit, speedups without start-up", key, value, table, CLOSE)


def main():
    """Recompute and compare; return 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=Path, required=True)
    parser.add_argument("recording", nargs="+", metavar="ID=DIR")
    arguments = parser.parse_args()
    tables = {path.stem: rows_of(path) for path in arguments.tables.glob("*.csv")}
    folders = defaultdict(list)
    for name, _, folder in (each.partition("=") for each in arguments.recording):
        folders[name].append(Path(folder))
    checks = Checks()
    for label, source in ((name, Source(found)) for name, found in folders.items()):
        summary = [row for row in tables["summary"] if row["recording"] == label]
        check_medians(source, label, summary, checks)
        check_sessions(source, label, summary, checks)
        check_break_even(source, label, tables["break_even"], checks)
        check_models(source, label, tables, checks)
    check_audit(rows_of(Path("data/published/times.csv")), tables, checks)
    return int(not checks.report())


if __name__ == "__main__":
    sys.exit(main())
