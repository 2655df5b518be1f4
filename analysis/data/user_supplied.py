"""User-supplied kernels, whose sources recordings contain as text."""

from collections.abc import Iterable

from analysis.data.recordings import MeasuredSource
from base.errors import StudyError
from measurement.recording.files import user_supplied


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
