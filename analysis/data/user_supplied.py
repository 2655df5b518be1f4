"""Kernels from outside of the catalog, which recordings bring with them as text."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pandas as pd

from analysis.data.cells import whole
from analysis.data.recordings import Source
from base.errors import StudyError
from kernels.catalog.user_supplied import adopting, variants
from measurement.recording.files import user_supplied
from measurement.recording.recording import Recording

_MOST_SAID = 300  # characters of an error that quotes a text


@contextmanager
def adopted(recording: Recording) -> Iterator[None]:
    """Have what a recording brings in the catalog for as long as the block runs.

    Its texts are read, and nothing of them is compiled or run. Raises StudyError naming the
    recording where one declares no kernel, or another than was measured.
    """
    try:
        entries = variants(recording.provenance.get("texts", {}))
    except StudyError as error:
        said = f"{error!s:.{_MOST_SAID}}"
        raise StudyError(f"recording {recording.path}: {said}; leave it out") from None
    for frame in (recording.checks, recording.builds):
        cells = frame[frame["variant"].isin(entries)]
        for name, dtype, block in _builds(cells):
            if dtype not in entries[name].dtypes or not entries[name].takes_block(block):
                raise StudyError(
                    f"recording {recording.path}: has {name} of {dtype} and block size {block}, "
                    "which its source does not declare; leave it out"
                )
    with adopting(entries):
        yield


def _builds(frame: pd.DataFrame) -> Iterator[tuple[str, str, int | None]]:
    rows = frame[["variant", "dtype", "block_size"]].drop_duplicates()
    for name, dtype, block in rows.itertuples(index=False, name=None):
        yield name, dtype, whole(block)


def check_same(found: Iterable[Source]) -> None:
    """Raise StudyError if two recordings bring different kernels under one name."""
    seen: dict[str, tuple[str, str]] = {}
    for source in found:
        own = source.recording_id
        for name, digest in user_supplied(source.recording.provenance).items():
            first, measured = seen.setdefault(name, (own, digest))
            if digest != measured:
                raise StudyError(
                    f"recording {own!r}: brings another {name} than recording {first!r}; leave one "
                    "out, or call the kernel otherwise and try it again"
                )
