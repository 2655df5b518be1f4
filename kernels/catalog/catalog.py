"""The catalog of a run: all variants by name, as an immutable value."""

import difflib
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from base.errors import StudyError
from kernels.catalog.variant import UserSupplied, Variant


class Catalog(Mapping[str, Variant]):
    """Variants by name. A run has the variants of this project and its user-supplied ones.

    It is pickled as its user-supplied variants, and restored with the variants of the project.
    """

    def __init__(self, *entries: Variant) -> None:
        """Contain these variants; of equal names, the last."""
        self._entries = MappingProxyType({entry.name: entry for entry in entries})

    def __getitem__(self, name: str) -> Variant:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __reduce__(self) -> tuple[object, ...]:
        return restored, tuple(e for e in self.values() if isinstance(e, UserSupplied))

    def joined(self, *entries: Variant) -> "Catalog":
        """Return a catalog that also has these variants."""
        return Catalog(*self.values(), *entries) if entries else self

    def variant(self, name: str) -> Variant:
        """Return the variant called `name`; raise StudyError if the catalog lacks it."""
        if name not in self:
            close = difflib.get_close_matches(name, self, n=1)
            hint = f"did you mean {close[0]}? " if close else ""
            names = ", ".join(self)
            raise StudyError(f"variant {name!r}: not in the catalog; {hint}use one of {names}")
        return self[name]


def restored(*supplied: UserSupplied) -> Catalog:
    """Return the catalog of this project with user-supplied variants."""
    from kernels.catalog.entries import VARIANTS  # which is made of this class

    return VARIANTS.joined(*supplied)
