"""The code that a recording measured, and how it differs from that of another recording."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

import cpu_reference.catalog
from kernels.catalog.entries import VARIANTS
from kernels.catalog.product import Product
from kernels.cubins.compile import compute_capability
from kernels.cubins.occupancy import LIMITS, occupancy
from kernels.products.shape import Shape
from measurement.recording.provenance_schema import USER_SUPPLIED
from measurement.recording.recording import CELL, Recording
from study.cells import CPU

BUILD = ["variant", "dtype", "block_size", "build"]
_RESOURCES = {
    "registers_per_thread": "registers",
    "static_shared_bytes": "bytes of shared memory",
    "spill_load_bytes": "bytes of spills",
}
_MEMORY = ("LD", "ST", "RED", "ATOM", "UTMA")  # beginnings of instructions that access memory
_SIZE = 1024  # assumed N if the launch geometry depends on N

BuildKey = tuple[Any, ...]


def codes(recording: Recording) -> pd.DataFrame:
    """Return one row per checked configuration: its columns `CELL`, its build and its code.

    The code is a text that is equal for equal code: the SHA-256 of a kernel's cubin, otherwise the
    source or the version. It is missing if the code is unknown.
    """
    if recording.checks.empty:
        return pd.DataFrame(columns=[*CELL, "build", "code"])
    cubins = recording.builds.groupby(BUILD, dropna=False, as_index=False)["cubin_sha256"]
    checked = recording.checks[[*CELL, "build"]].merge(cubins.agg(" ".join), how="left", on=BUILD)
    pairs = zip(checked["device"] == CPU, checked["variant"], strict=True)
    others = pd.Series([_other(recording, *each) for each in pairs], checked.index, dtype="string")
    return checked.assign(code=checked.pop("cubin_sha256").fillna(others))


def _other(recording: Recording, on_cpu: bool, name: str) -> str | None:
    """Return the code of a variant without cubin, as for `codes`: on a CPU, a library or a call."""
    facts = recording.provenance
    software = facts["software"]
    entry = cpu_reference.catalog.VARIANTS.get(name) if on_cpu else None
    path = (entry and entry.source) or f"{USER_SUPPLIED}/{name}.py"
    if path in facts["sources"]:
        return f"{facts['sources'][path]} {software['gcc']} {facts['compile']['gcc_flags']}"
    if on_cpu:
        return str([software["blas_version"], software["packages"]])
    return software["cublas"] and f"cuBLAS {software['cublas']}"


def build_key(row: dict[Any, Any]) -> BuildKey:
    """Return the values in the columns `BUILD` of a row, which identify a build."""
    return tuple(None if pd.isna(row[name]) else row[name] for name in BUILD)


def build_facts(recording: Recording) -> dict[BuildKey, dict[str, Any]]:
    """Return named facts of each build: its resources, active warps and numbers of instructions."""
    facts: dict[BuildKey, dict[str, Any]] = {}
    for build in recording.builds.astype(object).to_dict("records"):
        key = build_key(build)
        of_build = facts[key] = {text: build[name] for name, text in _RESOURCES.items()}
        capability = compute_capability(build["architecture"])
        if key[0] in VARIANTS and capability in LIMITS:
            block = VARIANTS[key[0]].block_size(key[2])
            size = int(min(_SIZE, VARIANTS[key[0]].edges[1]))
            launch = Product(key[0], key[1], Shape.square(size), block).launch
            used = (build["registers_per_thread"], build["static_shared_bytes"])
            threads, shared = launch.threads_per_block, launch.dynamic_shared_bytes
            of_build["active warps"] = occupancy(capability, threads, *used, shared).active_warps
    for row in recording.instructions.astype(object).to_dict("records"):
        if row["scope"] == "kernel":
            of_build = facts[build_key(row)]
            names = [
                "instructions",
                *([row["opcode"]] if row["opcode"].startswith(_MEMORY) else []),
            ]
            of_build |= {name: of_build.get(name, 0) + row["count"] for name in names}
    return facts


def changed_sources(first: Mapping[str, str], second: Mapping[str, str]) -> list[str]:
    """Return ``NAME (PATH)`` of each source that both recordings have with different SHA-256."""
    kernel = {v.source: v.kernel_name for v in VARIANTS.values() if v.source}
    names = {source: f"{name} ({source})" for source, name in kernel.items()}
    cpu = cpu_reference.catalog.VARIANTS.values()
    names |= {v.source: f"{v.name} ({v.source})" for v in cpu if v.source}
    common = sorted(set(first) & set(second))
    return [names.get(path, path) for path in common if first[path] != second[path]]
