"""The tables that the page contains, as one archive."""

import base64
import bz2
import io
import tarfile

from analysis import schema
from analysis.data.store import Store

MOST_BYTES = 3_600_000


def archived(store: Store) -> list[str]:
    """Return the names of the tables to embed: all of them, or only the smallest.

    Their total size is limited to `MOST_BYTES`, so that the page of a whole cluster can be mailed.
    """
    room, chosen = MOST_BYTES, set()
    for name in sorted(schema.TABLES, key=lambda name: len(store.bytes(name))):
        room -= len(store.bytes(name))
        if room < 0:
            break
        chosen.add(name)
    return [name for name in schema.TABLES if name in chosen]


def archive(store: Store, names: list[str]) -> str:
    """Return tables as a reproducible .tar.bz2 in base64."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in names:
            data = store.bytes(name)
            entry = tarfile.TarInfo(f"tables/{name}.csv")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return base64.b64encode(bz2.compress(packed.getvalue())).decode()
