"""Coverage of the 95 % prediction intervals of `analysis.decide` at held-out sizes.

    python -m benchmarks.prediction_coverage

Each GPU of data/recordings is predicted from all its sessions, and from each session. The held-out
sizes take part in no fit. Columns: measured medians, share inside their interval, and the median
half-width as a share of the time.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from analysis.data import recordings
from analysis.decide.predictions import decision_tables
from base.paths import ROOT


def coverage(predictions: pd.DataFrame) -> Iterator[tuple[str, int, float, float]]:
    """Yield per GPU: label, medians, share inside, median half-width as a share of the time."""
    for label, own in predictions.groupby("gpu"):
        half = np.log(own["predicted_high_s"] / own["predicted_low_s"]) / 2
        yield str(label), len(own), float(own["inside"].mean()), float(np.expm1(half.median()))


def _recorded() -> dict[str, list[Path]]:
    """Return the folders by name: GPUs of config.yaml with all sessions, and every recording."""
    gpus = yaml.safe_load((ROOT / "config.yaml").read_text())["gpus"]
    several = {gpu["id"]: [ROOT / one for one in gpu.get("recordings", [])] for gpu in gpus}
    single = sorted(path.parent for path in ROOT.glob("data/recordings/*/MANIFEST.sha256"))
    found = {name: folders for name, folders in several.items() if len(folders) > 1}
    return found | {folder.name: [folder] for folder in single}


def main() -> None:
    """Print one line per GPU and set of sessions."""
    print("GPU, sessions, medians, share inside, median half-width")
    for name, folders in _recorded().items():
        found = recordings.sources(recordings.load({name: folders}))
        tables = decision_tables(found)
        for label, count, inside, width in coverage(tables["predictions"]):
            print(f"{label}, {len(folders)}, {count}, {inside:.1%}, {width:.1%}", flush=True)


if __name__ == "__main__":
    main()
