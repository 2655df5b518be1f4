"""Pages of a changed configuration: ``python -m benchmarks.switched_pages --out FOLDER``.

The 24 pages have the ladder with each of the four baselines, and the study without one GPU, one
session or one kernel. A kernel is removed from the study, and from the first session of each GPU,
which is then its only session. The numbers of each page are checked (`gemm-study check`), and its
verdicts and sentences recomputed (`benchmarks.sentences`). FOLDER keeps the tables and the page of
each change; existing pages are only checked.
"""

import argparse
import hashlib
import json
import os
import pickle
import sys
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import tables
from analysis.__main__ import recordings_of, write_tables
from analysis.data.sessions import folders_by_session
from analysis.render.check import check
from analysis.render.figures import write_figures
from analysis.render.page import render
from base.files import write_atomic
from base.paths import ROOT
from benchmarks import sentences
from kernels.catalog.baselines import BASELINES
from measurement.recording.recording import OPTIONAL, TABLES, read, write
from study.config import read as read_config
from study.config import validate

# Steps, families, units and libraries whose absence changes a sentence.
KERNELS = (
    *("naive_coalesced", "buffered_column", "block", "block_strided", "block_unroll4"),
    *("tile_transposed_b", "tile_conflict_free", "outer_product_prefetch", "register_tile"),
    *("sgemm_top", "sgemm_stream_k", "sgemm_tensor", "sgemm_tensor_tma", "cublas_sgemm"),
)
PUBLISHED = ("times", "systems", "statements")
_CACHE = "GEMM_STUDY_PARTS"
_compute = tables._of_recording
Change = tuple[str, dict[str, Any], str | None]  # name, configuration, kernel removed


def changes(config: dict[str, Any]) -> Iterator[Change]:
    """Yield the changed configurations, each with its name and the kernel removed."""
    for baseline in BASELINES:
        own = deepcopy(config)
        own["report"]["baseline"] = baseline
        yield f"baseline-{baseline}", own, None
    for number, gpu in enumerate(config["gpus"]):
        own = deepcopy(config)
        del own["gpus"][number]
        if gpu["id"] == own["report"].get("focus"):
            del own["report"]["focus"]
        yield f"without-{gpu['id']}", own, None
        for session, _ in enumerate(gpu["recordings"]):
            own = deepcopy(config)
            del own["gpus"][number]["recordings"][session]
            yield f"without-{gpu['id']}-session-{session + 1}", own, None
    for kernel in KERNELS:
        own = deepcopy(config)
        own["study"]["variants"].remove(kernel)
        for gpu in own["gpus"]:
            del gpu["recordings"][1:]
        yield f"without-{kernel}", own, kernel


def without(kernel: str, folder: Path, out: Path) -> Path:
    """Write a recording without one kernel to `out`."""
    if not out.exists():
        own = read(folder)
        frames = {name: own.table(name) for name in (*TABLES, *OPTIONAL)}
        frames = {
            name: frame[frame["variant"] != kernel] if "variant" in frame else frame
            for name, frame in frames.items()
            if name in TABLES or len(frame)
        }
        write(out, own.provenance, frames)
    return out


def make(name: str, config: dict[str, Any], kernel: str | None, out: Path, counts: Path) -> None:
    """Write the tables and the page of a configuration to `out`, as the workflow does."""
    own = validate(config, name)
    recordings = []
    for gpu in own.gpus:
        for folder in map(Path, gpu.recordings or ()):
            used = without(kernel, ROOT / folder, out / folder.name) if kernel else ROOT / folder
            recordings.append(f"{gpu.id}={used}")
    paths, missing = recordings_of(recordings)
    accesses = [p for p in counts.glob("*.csv") if not (kernel and p.name.startswith(f"{kernel}-"))]
    published = [ROOT / "data" / "published" / f"{each}.csv" for each in PUBLISHED]
    write_tables(paths, published, [], accesses, out / "tables", missing, own.study.sizes)
    write_figures(out / "tables", out / "figures", own.report.focus)
    folders = (out / "tables", out / "figures", folders_by_session(paths), ROOT / "report")
    render(*folders, out / "report.html", own.report.focus, baseline=own.report.baseline)


def cached(
    times: pd.DataFrame,
    theory: pd.DataFrame,
    progress: tables.Progress,
    name: str,
    paths: Sequence[Path],
) -> tables._Part:
    """Return the tables of one recording, computed once for the same folders."""
    names = sorted(theory["variant"].unique())
    key = hashlib.sha256(repr((names, name, paths)).encode()).hexdigest()
    path = Path(os.environ[_CACHE]) / key
    if not path.exists():
        part = _compute(times, theory, progress, name, paths)
        write_atomic(path, pickle.dumps(part))
    found: tables._Part = pickle.loads(path.read_bytes())
    return found


def main() -> int:
    """Make and check the pages; return the number of wrong ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the pages")
    parser.add_argument("--counts", type=Path, default=Path("results/counts"))
    asked, wrong = parser.parse_args(), 0
    config = read_config(ROOT / "config.yaml")
    config["study"]["scope"] = "quick"
    config["gpus"] = [gpu for gpu in config["gpus"] if "recordings" in gpu]
    tables._of_recording = cached
    os.environ[_CACHE] = str(asked.out / "parts")
    (asked.out / "parts").mkdir(parents=True, exist_ok=True)
    for name, changed, kernel in changes(config):
        folder = asked.out / name
        page = folder / "report.html"
        if not page.exists():
            make(name, changed, kernel, folder, asked.counts.resolve())
        found = check(page.read_text(), folder / "tables", ROOT / "report")
        found += sentences.faults(page.read_text(), folder / "tables")
        wrong += bool(found)
        print(name, json.dumps(found) if found else "right", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
