"""Changes of recordings: a file, a cell, and a manifest that matches them."""

import gzip
import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from measurement.recording.files import files_of
from measurement.recording.recording import MANIFEST


def seal(folder: Path) -> None:
    """Write a manifest that matches the present files."""
    names = [name for name in files_of(folder) if name != MANIFEST]
    hashes = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}
    (folder / MANIFEST).write_text("".join(f"{hash_}  {name}\n" for name, hash_ in hashes.items()))


def edit(folder: Path, name: str, change: Callable[[str], str]) -> None:
    file = folder / name
    data = file.read_bytes()
    text = gzip.decompress(data) if name.endswith(".gz") else data
    changed = change(text.decode()).encode()
    file.write_bytes(gzip.compress(changed) if name.endswith(".gz") else changed)


def edit_cell(folder: Path, name: str, column: str, value: str, row: int = 1) -> None:
    def change(text: str) -> str:
        table = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
        table.loc[row, column] = value
        return table.to_csv(index=False)

    edit(folder, name, change)


def edit_provenance(folder: Path, path: list[str | int], value: Any) -> None:
    def change(text: str) -> str:
        place = provenance = json.loads(text)
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
        return json.dumps(provenance)

    edit(folder, "provenance.json", change)
