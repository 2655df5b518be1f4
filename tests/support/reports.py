"""Reports of several kinds of study, for all tests of the page: do not change them."""

import tempfile
from functools import cache
from pathlib import Path

import yaml

from kernels.catalog.product import products_of
from kernels.host_execution.counts import table
from kernels.products.shape import Shape
from tests.support import ROOT
from tests.support.report_data import EVIL, Recordings, chain, hostile, report
from tests.support.simulated import BLOCK_SIZES, FEW, SOFTWARE, recorded, tried
from tests.support.supplied import listed

VARIANTS = ("naive", "naive_coalesced", "buffered_row", "block", "block_unroll4")
VARIANTS += ("tile_conflict_free", "register_tile_conflict_free", "cublas_sgemm")
SMALL = {"sizes": (256, 512), "holdout": (), "samples": 6, "variants": VARIANTS}
KINDS = ("nothing", "host", "card", "several", "hostile")
DRAWN = ("several", "hostile", "measured")  # with figures in every test
MINE = listed("mine", "naive_coalesced")


@cache
def recordings(kind: str) -> Recordings:
    """Return the recordings of a study by id.

    nothing · host: without a GPU · card: one that is stale · several: two simulated GPUs of one
    host, that GPU, that host · hostile: a GPU whose every name is hostile · measured: the GPU in
    focus of the study, in two of the sessions that travel with it · tried: a GPU with a kernel
    from outside of the catalog, at any sizes · five: GPUs with long names.
    """
    host = {"host": recorded(gpus=0, simulated=False, seed=2, **SMALL)}
    stale = {"simulated": False, "sources": {"kernels/block.cu": "0" * 64}}
    card = {"card": recorded(seed=1, complete=True, **stale, **SMALL)}
    match kind:
        case "host":
            return host
        case "card":
            return card
        case "tried":
            sizes, variants = (1021, 5, 1999), (*FEW, "naive_coalesced", "cublas_sgemm", "mine")
            asked = {"sizes": sizes, "holdout_sizes": (), "series": [], "scope": "quick"}
            return {"card": tried(MINE, sizes=sizes, variants=variants, configuration=asked)}
        case "five":
            few = SMALL | {"variants": FEW, "gpu_name": "NVIDIA RTX PRO 6000 Blackwell Server"}
            return {"rack-7-blackwell-server-edition": recorded(gpus=5, **few)}
        case "several":
            few = SMALL | {"variants": FEW}
            return {"two": recorded(gpus=2, throttled=2, **few)} | card | host
        case "hostile":
            name = "".join(filter(str.isascii, EVIL))[:200]  # the worst that a recording may name
            evil = {"gcc_flags": [name], "nvcc_flags": [name]}
            named = {"gpu_name": name, "cpu_model": name}
            named["software"] = SOFTWARE | {"packages": {name: name}}
            few = SMALL | {"variants": (*FEW, "tile_conflict_free", "cublas_sgemm")}
            return {EVIL[:100]: recorded(compile=evil, **named, **few)}
        case "measured":
            gpus = yaml.safe_load((ROOT / "config.yaml").read_text())["gpus"]
            folders = {each["id"]: each.get("recordings", []) for each in gpus}
            return {"h200": [ROOT / path for path in folders["h200"][:2]]}
    return {}


@cache
def made(kind: str, drawn: bool = False) -> Path:
    """Return the folder of its report: tables, figures if it is `drawn`, report.html."""
    named, drawn = recordings(kind), drawn or kind in DRAWN
    if kind == "five":  # with intensities of kernels
        products = products_of(FEW, ["float32"], BLOCK_SIZES, [Shape.square(512)])
        with tempfile.TemporaryDirectory() as folder:
            counts = Path(folder) / "counts.csv"
            counts.write_text(table([], products))
            return report(named, chain(named, [counts]), drawn=drawn)
    if kind == "hostile":
        with tempfile.TemporaryDirectory() as folder:
            return report(named, hostile(chain(named), Path(folder)))
    return report(named, focus="card" if kind == "several" else None, drawn=drawn)
