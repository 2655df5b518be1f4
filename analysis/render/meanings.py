"""What report/meanings.js shows for a kernel, a term or a number: name, sentence and links."""

import json
import re
from collections.abc import Callable, Mapping

from analysis.schema import TABLES, column
from cpu_reference.catalog import VARIANTS as CPU_VARIANTS
from cpu_reference.catalog import Variant as CpuVariant
from kernels.catalog.entries import VARIANTS
from kernels.catalog.variant import Variant


def meanings(glossary: Mapping[str, str], address_of: Callable[[str], str]) -> str:
    """Return the data as JSON with the keys kernels, cpu, terms, tables, columns and headings.

    kernels, cpu: title, sentence and source by variant. terms: meanings by term. tables:
    descriptions. columns: headings by column, and by table and column where they differ.
    `address_of` returns the address of a file of the repository, or its path if there is none.
    """
    headings: dict[str, str] = {}
    for name in TABLES:
        for each in TABLES[name].columns:
            heading = column(name, each).heading
            if headings.setdefault(each, heading) != heading:
                headings[f"{name}.{each}"] = heading
    data = {
        "kernels": {entry.name: _variant(entry, address_of) for entry in VARIANTS.values()},
        "cpu": {entry.name: _variant(entry, address_of) for entry in CPU_VARIANTS.values()},
        "terms": {_name(term): meaning for term, meaning in glossary.items()},
        "tables": {name: table.description for name, table in TABLES.items()},
        "columns": headings,
    }
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _variant(entry: Variant | CpuVariant, address_of: Callable[[str], str]) -> list[str]:
    """Return the title, the sentence and the source of a variant; a library has an empty source."""
    return [entry.title, entry.description, address_of(entry.source) if entry.source else ""]


def _name(term: str) -> str:
    """Return a glossary term without its addition: "block size B" becomes "block size"."""
    return re.sub(r" \(.*?\)| [A-Z]$", "", term)
