"""What report/meanings.js shows at a kernel, a term or a number: a name, a sentence, and links."""

import json
import re
from collections.abc import Callable, Mapping

from analysis.schema import TABLES, column
from cpu_reference.catalog import VARIANTS as CPU_VARIANTS
from cpu_reference.catalog import Variant as CpuVariant
from kernels.catalog.entries import VARIANTS
from kernels.catalog.variant import Variant


def meanings(glossary: Mapping[str, str], link: Callable[[str], str]) -> str:
    """Return the data as JSON: kernels, cpu, terms, tables, columns, headings.

    kernels, cpu: title, sentence and source by variant. terms: meanings by term. tables:
    descriptions. columns: headings by column, and by table and column where they differ. `link`
    returns the link to a file of the repository.
    """
    headings: dict[str, str] = {}
    for name in TABLES:
        for each in TABLES[name].columns:
            heading = column(name, each).heading
            if headings.setdefault(each, heading) != heading:
                headings[f"{name}.{each}"] = heading
    data = {
        "kernels": {entry.name: _variant(entry, link) for entry in VARIANTS.values()},
        "cpu": {entry.name: _variant(entry, link) for entry in CPU_VARIANTS.values()},
        "terms": {_name(term): meaning for term, meaning in glossary.items()},
        "tables": {name: table.description for name, table in TABLES.items()},
        "columns": headings,
    }
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _variant(entry: Variant | CpuVariant, link: Callable[[str], str]) -> list[str]:
    """Return title, sentence and source of a variant; the source is empty for a library."""
    return [entry.title, entry.description, link(entry.source) if entry.source else ""]


def _name(term: str) -> str:
    """Return a term as texts have it: "end-to-end time (total)" and "block size B" are shorter."""
    return re.sub(r" \(.*?\)| [A-Z]$", "", term)
