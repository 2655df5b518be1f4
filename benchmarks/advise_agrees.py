"""Does `gemm-study advise` agree with the page? ``python -m benchmarks.advise_agrees``.

For random combinations of N, host memory and GPU, the predicted times of `advise` are compared with
the tables of the page. Compared with each CPU baseline, the GPU must be faster from the break-even
size and slower below it. At held-out sizes, time and fastest kernel must equal the table.
"""

import argparse
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from analysis.decide import advise
from analysis.decide.predictors import CsvRow, Predictor, predictor
from base.command_line import whole_number

SEED = 29


def comparisons(
    found: Predictor, read: advise.Tables, n: int, memory: str
) -> Iterator[tuple[str, bool]]:
    """Yield each comparison at size `n`, and whether `advise` agrees with the tables."""
    fastest = found.fastest(n)
    assert fastest
    kernel, predicted = fastest
    for name, own in advise.cpu_baselines(read, found.label).items():
        keys = {"gpu": found.label, "host_memory": memory, "kernels": "study", "cpu_baseline": name}
        row = next(row for row in read["break_even"] if all(row[k] == v for k, v in keys.items()))
        if int(row["least_n"]) <= n <= int(row["largest_n"]):
            _, _, cpu = advise.on_cpu(own, n, 0.0)
            crossing = {"below": 0.0, "above": float("inf")}.get(row["location"])
            crossing = float(row["n"]) if crossing is None else crossing
            yield f"{name}, N = {n}", (predicted.time_s < cpu.time_s) == (n >= crossing)
    for row in read["predictions"]:
        key = (row["gpu"], row["host_memory"], row["n"], row["is_predicted_fastest"])
        if key == (found.label, memory, str(n), "True"):
            same = abs(predicted.time_s / float(row["predicted_s"]) - 1) < 1e-4
            yield f"time, N = {n}", same and kernel.variant == row["variant"]


def main() -> int:
    """Compare, and print the number of disagreements; return 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tables", type=Path, default=Path("results/tables"))
    parser.add_argument("--combinations", type=whole_number, default=200)
    asked, rng = parser.parse_args(), random.Random(SEED)
    read = {name: advise.read_table(asked.tables / f"{name}.csv") for name in _TABLES}
    gpus = [row["gpu"] for row in read["predictors"]]
    fits: dict[tuple[str, str], Predictor | None] = {}
    compared, wrong = 0, []
    for number in range(asked.combinations):
        gpu, memory = rng.choice(gpus), rng.choice(("pinned", "pageable"))
        n = rng.choice(_held_out(read, gpu)) if number % 10 == 0 else round(2 ** rng.uniform(4, 12))
        if (gpu, memory) not in fits:
            fits[gpu, memory] = predictor(gpu, memory, *(read[name] for name in _TABLES[:3]))
        if found := fits[gpu, memory]:
            for what, agrees in comparisons(found, read, n, memory):
                compared += 1
                wrong += [] if agrees else [f"{gpu}, {memory}, {what}"]
    print(f"{asked.combinations} combinations, {compared} comparisons, {len(wrong)} disagreements")
    print("\n".join(wrong))
    return int(bool(wrong))


_TABLES = ("predictors", "transfers", "curves", "break_even", "predictions")


def _held_out(read: dict[str, list[CsvRow]], gpu: str) -> list[int]:
    """Return the held-out sizes of a GPU; any size if it has none."""
    sizes = {int(row["n"]) for row in read["predictions"] if row["gpu"] == gpu}
    return sorted(sizes) or [100]


if __name__ == "__main__":
    sys.exit(main())
