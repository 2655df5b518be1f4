"""User-supplied kernels, whose sources recordings contain as text."""

from collections.abc import Iterable
from pathlib import Path

from analysis.data.cells import whole
from analysis.data.recordings import MeasuredSource
from base.errors import StudyError
from kernels.catalog.catalog import Catalog
from kernels.catalog.user_supplied import catalog_of
from measurement.recording.files import user_supplied
from measurement.recording.recording import Recording

_BUILD = ["variant", "dtype", "block_size"]
_LONGEST = 300  # characters of a quoted error


def catalog(recording: Recording) -> Catalog:
    """Return the catalog of a recording, which has its user-supplied kernels.

    Their texts are parsed, neither compiled nor run. Raise StudyError naming the recording if a
    text declares no kernel, or another kernel than the measured one.
    """
    texts = recording.provenance.get("texts", {})
    try:
        entries = catalog_of(texts)
    except StudyError as error:
        reason = f"{error!s:.{_LONGEST}}"
        raise StudyError(f"recording {recording.path}: {reason}; remove it") from None
    supplied = [Path(path).stem for path in texts]
    for frame in (recording.checks, recording.builds):
        cells = frame[frame["variant"].isin(supplied)]
        for name, dtype, size in cells[_BUILD].drop_duplicates().itertuples(index=False, name=None):
            block = whole(size)
            if dtype not in entries[name].dtypes or not entries[name].takes_block(block):
                raise StudyError(
                    f"recording {recording.path}: the source of {name} does not declare {dtype} "
                    f"with block size {block}; remove the recording"
                )
    return entries


def check_same(found: Iterable[MeasuredSource]) -> None:
    """Raise StudyError if two recordings contain different kernels of one name."""
    seen: dict[str, tuple[str, str]] = {}
    for source in found:
        own = source.recording_id
        for name, digest in user_supplied(source.recording.provenance).items():
            first, measured = seen.setdefault(name, (own, digest))
            if digest != measured:
                raise StudyError(
                    f"recording {own!r}: its {name} differs from {name} of recording {first!r}; "
                    "remove one, or rename the kernel and record it again"
                )
