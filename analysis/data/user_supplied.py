"""User-supplied kernels, whose sources recordings contain as text."""

from collections.abc import Iterable

from analysis.data.recordings import MeasuredSource
from base.errors import StudyError
from measurement.recording.files import user_supplied


def check_same(sources: Iterable[MeasuredSource]) -> None:
    """Raise StudyError if two recordings contain different kernels with the same name."""
    seen: dict[str, tuple[str, str]] = {}
    for source in sources:
        identifier = source.recording_id
        for name, digest in user_supplied(source.recording.provenance).items():
            first, measured = seen.setdefault(name, (identifier, digest))
            if digest != measured:
                raise StudyError(
                    f"recording {identifier!r}: its {name} differs from {name} of recording "
                    f"{first!r}; remove one, or rename the kernel and record it again"
                )
