"""The variance between hosts, from the samples of recordings."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pandas as pd

from analysis.stats.hosts import Hosts
from measurement.recording.files import MOST_BYTES, RecordingError
from measurement.recording.recording import read_table


def hosts_of(paths: Mapping[str, Sequence[Path]]) -> Hosts:
    """Return the variance between the hosts of recordings with several sessions.

    Unreadable recordings are skipped here; loading them reports why.
    """
    samples = []
    for folders in (several for several in paths.values() if len(several) > 1):
        with suppress(RecordingError):
            parts = (read_table(folder, "samples.csv.gz", MOST_BYTES)[0] for folder in folders)
            samples.append(pd.concat(part.assign(session=at) for at, part in enumerate(parts)))
    return Hosts.of(samples)
