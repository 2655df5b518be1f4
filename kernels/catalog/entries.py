"""The variants of this project, as read from `variants.toml`.

A new variant is one `.cu` file, one entry in `variants.toml`, and the theory of its memory accesses
in `kernels.theory`. Matrices are row-major. A kernel has one of two C signatures,

    void NAME(const float *a, const float *b, float *c, int n)                    square matrices
    void NAME(const ELEMENT *a, const ELEMENT *b, ELEMENT *c, int m, int n, int k)     any others

and is compiled with ``-DBLOCK=b -DGUARDED=0|1 -DELEMENT=type`` (see `kernels.cubins.build.Build`).
"""

import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from kernels.catalog import geometry, host_steps
from kernels.catalog.catalog import Catalog
from kernels.catalog.variant import CatalogKernel, Kernel, Library, Variant
from kernels.theory import accesses, register_accesses, tensor_accesses
from kernels.theory.addresses import KernelAccesses
from kernels.theory.cost import Access
from kernels.theory.tiles import STREAM_K_TILES, TILES, BlockSize, block_size_of

_MODULES = {"geometry": geometry, "device_step": geometry, "host_step": host_steps}
_THEORIES = {"accesses": accesses, "register_accesses": register_accesses}
_THEORIES |= {"tensor_accesses": tensor_accesses}
_TILES = {"sgemm_top": TILES, "sgemm_stream_k": STREAM_K_TILES}  # tile shapes by kernel


def _variants(text: str) -> list[Variant]:
    declared: dict[str, dict[str, Any]] = tomllib.loads(text)
    for name, facts in declared.items():
        like = declared.get(facts.pop("like", None), {})
        declared[name] = {"kernel": name} | like | facts
    return [_variant(name, **facts) for name, facts in declared.items()]


def _variant(name: str, library: bool = False, **facts: Any) -> Variant:
    if "block_sizes" in facts:
        facts["block_sizes"] = _block_sizes(facts["kernel"], facts["block_sizes"])
    facts |= {key: tuple(value) for key, value in facts.items() if isinstance(value, list)}
    if library:
        del facts["kernel"]
        return Library(name=name, **facts)
    shaped = facts["tile"] == "of block size"
    facts["tile"] = geometry.shaped_tile if shaped else geometry.tile_of(facts["tile"])
    if "threads" in facts:
        facts["geometry"] = geometry.blocks(facts["tile"], facts.pop("threads"))
    for key, module in _MODULES.items():
        if isinstance(facts.get(key), str):
            facts[key] = getattr(module, facts[key])
    return CatalogKernel(name=name, theory=_theory(facts.pop("theory", None)), **facts)


def _theory(declared: Any) -> Callable[[KernelAccesses, Any], list[Access]] | None:
    """Return the function of accesses that an entry of variants.toml names, with its options."""
    if declared is None:
        return None
    options = dict(declared) if isinstance(declared, dict) else {"function": declared}
    module, function = options.pop("function").split(".")
    return partial(getattr(_THEORIES[module], function), **options)


def _block_sizes(kernel: str, wanted: Any) -> tuple[BlockSize, ...]:
    """Return the block sizes of an entry: a range, a list, or the tile shapes of its kernel."""
    if isinstance(wanted, dict):
        return tuple(range(wanted["first"], wanted["last"] + 1, wanted.get("step", 1)))
    tiles = _TILES.get(kernel)
    if tiles is None:
        return tuple(wanted)
    return tiles if wanted == "all tile shapes" else tuple(block_size_of(n, tiles) for n in wanted)


# The variants of this project; a run adds its user-supplied ones (`Catalog.joined`).
VARIANTS = Catalog(*_variants(Path(__file__).with_name("variants.toml").read_text()))
LIBRARIES = {name for name, entry in VARIANTS.items() if isinstance(entry, Library)}
# The mode of cuBLAS that kernels are compared with; the other modes are context.
REFERENCE = "cublas_sgemm"
CONTEXT = LIBRARIES - {REFERENCE}


def variant(name: str) -> Variant:
    """Return the variant called `name`; raise StudyError if the catalog lacks it."""
    return VARIANTS.variant(name)


def has_own_source(name: str) -> bool:
    """Return whether no other variant has the same source file."""
    entry = variant(name)
    return isinstance(entry, Kernel) and entry.kernel == name
