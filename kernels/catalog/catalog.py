"""The catalog of a run: an immutable mapping of names to variants."""

import difflib
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from base.errors import StudyError
from kernels.catalog.variant import UserSupplied, Variant


class Catalog(Mapping[str, Variant]):
    """Variants by name: those of this project, and the user-supplied ones of a run.

    Only the user-supplied variants are pickled; unpickling adds those of the project.
    """

    def __init__(self, *entries: Variant) -> None:
        """Contain these variants; of several with one name, the last is kept."""
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
        """Return a new catalog that contains these variants as well."""
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
    """Return a catalog of this project's variants and the `supplied` ones."""
    from kernels.catalog.entries import VARIANTS  # that module uses this class

    return VARIANTS.joined(*supplied)
