"""What each section of the page says: one function per section, from the tables to plain values.

Each function returns the values of its template by name: rows of tables, and answers to the
questions that choose a sentence. The template of the same name only words them.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

from analysis.data.devices import Devices
from analysis.domain import CEILINGS, PUBLISHED
from analysis.render.query import Row, Rows
from kernels.catalog.baselines import BASELINES, FASTEST_NAIVE

Tables = Callable[[str], Rows]
Values = dict[str, Any]

_MEMORIES = ("pinned", "pageable")
_GLOBAL = tuple(f"global_{part}" for part in ("load_requests", "load_sectors"))
_GLOBAL += tuple(f"global_{part}" for part in ("store_requests", "store_sectors"))
# What a sceptic chooses first among the rows of choices.csv.
STRICTEST = {"kernels": "strict FP32", "host_memory": "pageable", "cpu_baseline": "best"}
# Ratio of an end-to-end time to its copies up to which the link is the limit.
_LIMITED_BY_LINK = 1.25
_NEAR = 0.05  # relative difference of sizes that are next to each other
_LADDER_KEYS = "recording gpu variant n block_size"
_SLOW_ORDER = "loading tiles in the slow order takes about twice as long"
_CONFLICTS = tuple(f"bank conflicts are slower in tiles of {size}" for size in (16, 32))
_COLUMN = "a column of B in shared memory is slower"
_LEFT_OUT, _LEFT_OUT_KERNEL = "leave-one-size-out", "leave-one-variant-out"


def overview(t: Tables, devices: Devices) -> Values:
    """Return the three answers for the device in focus."""
    focus = devices.focus
    if focus is None:
        return {}
    gpu = focus.label if focus.is_gpu else None
    answers = t("answers").where(recording=focus.recording, gpu=gpu)
    fastest = answers.where(role="fastest").first
    speedup = t("speedups").where(source=focus.label, is_answer=True).first
    even = t("break_even").where(gpu=focus.label, is_answer=True).first
    sessions = t("answer_sessions").where(gpu=focus.label)
    return {
        "device": t("recordings").where(recording=focus.recording, gpu=gpu).first,
        "fastest": fastest,
        "is_doubtful": fastest is not None and fastest["verdict"] not in (None, "faster"),
        "second": answers.where(role="next").first,
        "of_this_study": answers.where(role="own").first,
        "from_other_memory": answers.where(role="other").first,
        "over_cpu": speedup,
        "by_session": sessions if 0 < len(sessions) < 8 else (),
        **_choices(t, gpu, speedup),
        "even": even,
        "compared_at": _size_of_comparison(even),
    }


def _choices(t: Tables, gpu: str | None, speedup: Row | None) -> Values:
    """Return what the answers depend on, and the first choice of a sceptic."""
    choices = t("choices").where(gpu=gpu)
    tensor = choices.where(kernels="tensor cores").values("variant")
    return {
        "choices": choices,
        "strictest": choices.where(**STRICTEST).first,
        "needs_tensor_cores": speedup is not None and speedup["variant"] in tensor,
        "is_strict": speedup is not None
        and bool(choices.where(**STRICTEST, variant=speedup["variant"], n=speedup["n"])),
    }


def _size_of_comparison(even: Row | None) -> str | None:
    """Return the column of the size at which both sides of a break-even size are named."""
    if even is None or even["variant"] is None:
        return None
    return {"measured": "n", "below": "least_n"}.get(even["location"], "largest_n")


def kernels(t: Tables, devices: Devices) -> Values:
    """Return the ladder of the GPU in focus, and what limits its kernels."""
    focus = devices.focus
    if focus is None or not devices.gpus:
        return {}
    speedups = t("ladder_speedups").where(gpu=focus.label)
    rows = t("ladder_summary").where(gpu=focus.label)
    rows = rows.beside(t("ladder_speedups"), _LADDER_KEYS, baseline=["previous", *BASELINES])
    best = rows.where(is_fastest=True, units="FP32").first
    tensor = rows.where(is_fastest=True, units="tensor cores").first
    source = rows.where(variant="naive", block_size=32).first
    exact = tensor and t("accuracy").where(gpu=focus.label, variant=tensor["variant"])
    roof = t("roofline").where(gpu=focus.label)
    by_host = t("counts").where(gpu=None, agrees=[True, False])
    return {
        "rows": rows,
        "naive": rows.where(variant="naive").most("kernel_flop_per_s"),
        "library": rows.where(is_library=True).first,
        "best": best,
        "tensor": tensor,
        "tensor_error": exact and exact.where(matrices="uniform").known("over_library").first,
        "sustained": t("sustained").where(gpu=focus.label),
        "modes": t("modes").where(gpu=focus.label),
        "source_launch": source if _is_another_launch(source, best) else None,
        "per_baseline": [_over_baseline(name, best, speedups) for name in BASELINES],
        "has_user_supplied": bool(rows.where(idea=["your own", "user-supplied"])),
        "near_ceilings": [*_near_ceilings(t, focus.recording, (best, tensor))],
        "roof": roof,
        "above_ceilings": [row for row in roof if (row["share_of_bound"] or 0) > 1],
        "has_tensor": bool(roof.where(units="tensor cores")),
        "limited": {
            "lines": roof.where(limited_by=["l1", "shared", "pipe"]),
            **{name: roof.where(limited_by=name) for name in ("issue", "l2", "compute")},
        },
        "by_host": by_host,
        "by_host_exact": t("counts").where(gpu=None, agrees=True),
        "by_counter": t("counts").where(gpu=focus.label, quantity=[*_GLOBAL]),
        **_tiles(t, focus.label, rows),
        **_copies(t, focus.label),
    }


def _is_another_launch(source: Row | None, best: Row | None) -> bool:
    if source is None or best is None or best["fastest_naive_speedup"] is None:
        return False
    return bool(source["block_size"] != best["fastest_naive_baseline_block_size"])


def _over_baseline(name: str, best: Row | None, speedups: Rows) -> Values:
    """Return the speedups over one baseline; `p` is the prefix of its columns."""
    p = name.replace("-", "_") + "_"
    compared = speedups.where(baseline=name)
    return {
        "name": name,
        "p": p,
        "is_compared": best is not None and best[p + "speedup"] is not None,
        "is_on_cpu": best is not None and best[p + "baseline_threads"] is not None,
        "is_known": best is not None and bool(best[p + "baseline_variant"]),
        "is_fastest_naive": name == FASTEST_NAIVE,
        "faster": compared.where(verdict="faster"),
        "slower": compared.where(verdict="slower"),
    }


def _near_ceilings(
    t: Tables, recording: str, kernels: tuple[Row | None, ...]
) -> Iterator[tuple[Row, str, Row | None]]:
    """Yield kernels with the name of their nearest ceiling and, for FP32, their main loop."""
    for row in kernels:
        if row is None or row["bound"] not in CEILINGS or row["share_of_bound"] is None:
            continue
        code = t("machine_code").where(recording=recording, variant=row["variant"], build="exact")
        loop = code.where(block_size=row["block_size"]).known("loop_fma_share").first
        yield row, CEILINGS[row["bound"]], loop if row["units"] == "FP32" else None


def _tiles(t: Tables, gpu: str, rows: Rows) -> Values:
    stepped = rows.known("previous_speedup")
    block = stepped.where(variant="block").first
    buffers = [stepped.where(variant=f"buffered_{part}").first for part in ("column", "row")]
    transposed = stepped.where(variant="tile_transposed_b").first
    free = stepped.where(variant="tile_conflict_free").first
    prefetch = rows.where(variant="outer_product_prefetch", previous_verdict="slower").first
    slow_order = t("claims").where(gpu=gpu, claim=_SLOW_ORDER).first
    after = "previous_baseline_variant"
    return {
        "block": block,
        "caches_helped": block is not None
        and block[after] == "naive_coalesced"
        and 1 < block["previous_speedup"] < block["block_size"],
        "slow_order": slow_order if stepped.where(variant="block_strided").first else None,
        "over_source": _over_the_source(t, gpu),
        "column_claim": t("claims").where(gpu=gpu, claim=_COLUMN, quantity="kernel").first,
        "conflict_claims": t("claims").where(gpu=gpu, claim=_CONFLICTS).known("value"),
        "buffers": buffers if all(buffers) else None,
        "conflicts": (transposed, free) if transposed and free else None,
        "conflicts_cost": free is not None
        and (free["previous_verdict"], free[after]) == ("faster", "tile_transposed_b"),
        "slower_prefetch": prefetch,
    }


def _over_the_source(t: Tables, gpu: str) -> Rows:
    """Return the kernel speedups of `block` over the source's naive launch, at the largest N."""
    speedups = t("speedups").where(source=gpu, baseline="source-naive", quantity="kernel")
    speedups = speedups.where(variant="block").known("speedup")
    memories = [each for each in _MEMORIES if each in speedups.values("host_memory")]
    speedups = speedups.where(host_memory=memories[:1])
    return speedups.where(n=max(speedups.values("n"), default=None)).sort("block_size")


def _more_than_b(speedups: Rows) -> list[Row]:
    """Return the speedups whose intervals are above the block size, the bound of M0."""
    return [row for row in speedups if (row["speedup_low"] or 0) > row["block_size"]]


def _copies(t: Tables, gpu: str) -> Values:
    modes = t("end_to_end_modes").where(gpu=gpu)
    floors = modes.known("over_floor")
    pieces = floors.where(variant="sgemm_tensor_pieces").most("n")
    return {
        "pieces": modes.where(variant="sgemm_top_pieces").most("n"),
        "graph": modes.where(variant="sgemm_top_graph").most("speedup"),
        "near_floor": pieces,
        "link_limits": pieces is not None and pieces["over_floor"] <= _LIMITED_BY_LINK,
        "staged": floors.where(variant="sgemm_tensor_staged").known("staging_threads").most("n"),
        "two_gpus": floors.where(variant="sgemm_tensor_two_gpus").most("n"),
    }


def published(t: Tables, devices: Devices) -> Values:
    """Return the published times beside the measured ones, and verdicts of the claims."""
    focus = devices.focus
    table2 = t("source_tables").where(table=2, n=2048)
    printed = table2.where(source=PUBLISHED)
    measured = table2.where(source=focus.label if focus else None)
    buffered_row = t("audit_cells").where(implementation="gpu_buffered_row", n=1024)
    speedups = t("speedups").where(source=focus.label if focus else None, baseline="source-naive")
    verdicts = t("claim_verdicts")
    of_focus = verdicts.where(gpu_name=focus.name if focus else None)
    others = [name for name in verdicts.values("gpu_name") if focus and name != focus.name]
    return {
        "old": printed.where(entry="naive").first,
        "new": measured.where(entry="naive").first,
        "old_cpu": printed.where(entry="cpu_naive").first,
        "new_cpu": measured.where(entry="cpu_naive").first,
        "is_drawn_measured": bool(speedups.where(n=2048, variant=["block", "block_unroll4"])),
        "rates": t("audit_cells").where(rate_agrees=[True, False]),
        "agreeing_rates": t("audit_cells").where(rate_agrees=True),
        "constant": t("audit_constants").where(first_table=2).first,
        "above_limit": buffered_row.known("speedup_without_constant").first,
        "headline": t("audit_headline").first,
        "cpu": t("audit_cpu").where(table=2).first,
        "claims": of_focus,
        "claims_of_others": [_verdicts(verdicts.where(gpu_name=name)) for name in others],
        **_verdicts(of_focus),
    }


def _verdicts(claims: Rows) -> Values:
    names = ("holds", "does not hold", "undecided", "not measured", "depends on the copies")
    by_verdict = {name.replace(" ", "_"): claims.where(verdict=name) for name in names}
    return by_verdict | {"model": claims.first}


def models(t: Tables, devices: Devices) -> Values:
    """Return the latency model's fit and the errors of all models."""
    focus = devices.focus
    label = focus.label if focus and focus.is_gpu else PUBLISHED
    compared, errors, effects, fits = (
        t(name).where(source=label, kernels="modelled")
        for name in ("model_comparison", "model_errors", "model_effects", "models")
    )
    published_models = t("model_comparison").where(source=PUBLISHED, kernels="modelled")
    best = compared.least("left_out_log_rms")
    rho = fits.where(model="M0", parameter="rho").first
    largest = [*effects.known("share").best_of("share", "from_n")]
    every_kernel = t("model_errors").where(source=label, kernels="all")
    of_best = {"model": best["model"] if best else None, "from_block_size": 1}
    unseen = t("model_tests").where(source=label, kernels="modelled", test=_LEFT_OUT_KERNEL)
    of_variants = unseen.where(model=of_best["model"]).first
    beaten = unseen.between("error_factor", high=of_variants["error_factor"] if of_variants else 0)
    return {
        "compared": compared,
        "m0": compared.where(model="M0").first,
        "m0_published": published_models.where(model="M0").first,
        "is_measured": label != PUBLISHED,
        "rho": rho,
        "rho_is_determined": rho is not None and rho["status"] == "determined",
        "has_effects": bool(effects),
        "largest_effects": largest,
        "effect_depends_on_size": bool(largest) and largest[0]["adds"] != largest[-1]["adds"],
        "better": best if best and best["model"] != "M0" else None,
        "rival": compared.where(verdict="not significantly worse").first,
        "m0_errors": errors.where(test=_LEFT_OUT, model="M0"),
        "more_than_b": _more_than_b(_over_the_source(t, label)),
        "size_errors": errors.where(test=_LEFT_OUT, **of_best),
        "variant_error": of_variants,
        "better_for_variants": [row for row in beaten if row["model"] != of_best["model"]],
        "wide_variant_error": every_kernel.where(test=_LEFT_OUT_KERNEL, **of_best).first,
        **_unseen(t, label),
    }


def _unseen(t: Tables, label: str) -> Values:
    tests = t("model_tests").where(source=label, kernels="all")
    best = t("model_comparison").where(source=label, kernels="all").least("left_out_log_rms")
    chosen = tests.where(model=best["model"] if best else None).known("cells_inside")
    return {
        "is_tested": best is not None and len(tests) > 0,
        "held_out": chosen.where(test="size held out").first,
        "interpolated": tests.where(test="size held out", model="interpolation").first,
        "never_fitted": chosen.where(test="variant never fitted").first,
    }


def decide(t: Tables, devices: Devices) -> Values:
    """Return break-even sizes, the cost of copies and the quality of predictions."""
    focus = devices.focus
    if focus is None or not devices.gpus:
        return {}
    sizes = t("break_even").where(gpu=focus.label, kernels="study", cpu_baseline="naive")
    ladder = t("ladder_summary").where(gpu=focus.label, is_fastest=True)
    fastest = ladder.most("kernel_flop_per_s")
    pinned, pageable = _runs_of(t, fastest) if fastest else (None, None)
    fits = t("transfers").where(gpu=focus.label, used=True, direction="h2d")
    return {
        "naive": sizes.where(host_memory="pageable").first,
        "fastest": fastest,
        "pinned": pinned,
        "pageable": pageable,
        "memory_matters_more": pinned is not None
        and pageable is not None
        and pageable["total_s"] - pinned["total_s"] > (pinned["in_run_kernel_s"] or math.inf),
        "from_pinned": fits.where(host_memory="pinned").first,
        "from_pageable": fits.where(host_memory="pageable").first,
        "located": _located(t, focus.label),
        "streamed": t("throughput").where(
            gpu=focus.label, variant="cublas_sgemm", same_a=False, streams=[1, 8]
        ),
        "predicted": t("predictions").where(gpu=focus.label),
        "predicted_well": t("predictions").where(gpu=focus.label, inside=True),
    }


def _located(t: Tables, gpu: str) -> Rows:
    """Return the locations of the kernel with the fastest resident square product."""
    placed = t("locations").where(gpu=gpu, family="square")
    largest = placed.where(host_memory="resident").most("m")
    if largest is None:
        return placed.where(host_memory=())
    same = {name: largest[name] for name in ("m", "n", "k")}
    fastest = placed.where(host_memory="resident", **same).least("total_s") or largest
    kernel = {name: fastest[name] for name in ("variant", "block_size")}
    return placed.where(**same, **kernel)


def _runs_of(t: Tables, kernel: Row) -> list[Row | None]:
    same = {name: kernel[name] for name in ("gpu", "variant", "n", "block_size")}
    runs = t("summary").where(series="sizes", **same)
    return [runs.where(host_memory=memory).first for memory in _MEMORIES]


def cpu(t: Tables, devices: Devices) -> Values:
    """Return the CPU implementations at the largest size of the naive loop, and the speedups."""
    focus = devices.focus
    host = focus.recording if focus else None
    cells = t("summary").where(recording=host, device="cpu", series="sizes")
    loop = cells.where(variant="naive").known("total_s")
    naive, gpu = loop.most("n"), focus.label if focus and devices.gpus else None
    same_size = cells.where(n=naive["n"] if naive else None)
    all_cores = same_size.least("total_s")
    blocked = same_size.where(variant=["loop_order", "column_buffered", "blocked"])
    return {
        "naive": naive,
        "blocked": blocked.least("total_s"),
        "on_one_thread": same_size.where(threads=1).least("total_s"),
        "on_all_cores": all_cores if all_cores and (all_cores["threads"] or 0) > 1 else None,
        "ran_once": naive is not None and naive["samples"] == 1,
        **_beside_a_power_of_two(t, loop, gpu),
        **_speedups_over_cpu(t, gpu),
    }


def _beside_a_power_of_two(t: Tables, naive: Rows, gpu: str | None) -> Values:
    """Return the naive loop at the largest power of two with a size next to it, and at that size.

    A column of a power of two uses few sets of a cache.
    """
    sizes = [int(n) for n in naive.frame["n"]]
    for power in sorted((n for n in sizes if n & (n - 1) == 0), reverse=True):
        for n in sizes:
            if 0 < abs(n / power - 1) < _NEAR:
                over = t("speedups").where(source=gpu, baseline="cpu_naive", n=n)
                return {
                    "at_power": naive.where(n=power).first,
                    "beside_power": naive.where(n=n).first,
                    "over_naive_beside": over.most("speedup"),
                }
    return {"beside_power": None}


def _speedups_over_cpu(t: Tables, gpu: str | None) -> Values:
    speedups = t("speedups").where(source=gpu)
    over_naive = speedups.where(baseline="cpu_naive")
    largest = over_naive.most("n")
    top = over_naive.where(n=largest["n"] if largest else None).most("speedup")
    if top is None:
        return {"over_naive": None}
    keys = ("n", "variant", "block_size", "host_memory")
    same = speedups.where(**{name: top[name] for name in keys})
    fastest = same.where(baseline="cpu_best").first
    return {
        "over_naive": top,
        "over_blas": same.where(baseline="cpu_blas").first,
        "over_fastest": fastest,
        "is_mostly_untuned": fastest is not None and top["speedup"] > fastest["speedup"] ** 2,
    }


def trust(t: Tables, devices: Devices) -> Values:
    """Return checks, sessions, disturbances and the comparison of GPUs."""
    focus = devices.focus
    checks = t("checks").where(recording=focus.recording if focus else None)
    kinds = t("sessions").where(gpu=focus.label if focus else None, quantity=["total", "kernel"])
    kernel = kinds.where(quantity="kernel", host_memory="pinned", matrices_in="device memory")
    total = kinds.where(quantity="total", host_memory="pageable", host_work=False)
    pairs = t("agreement")
    pair = pairs.first
    return {
        "checks": {
            name: checks.where(status=name) for name in ("passed", "failed", "not_launchable")
        },
        "recording": t("recordings").where(gpu=focus.label if focus else None).first,
        "has_sessions": len(t("sessions")) > 0,
        "cpu_kinds": t("sessions")
        .where(recording=focus.recording if focus else None, quantity="total", host_memory=None)
        .known("threads"),
        "answer": t("speedups").where(source=focus.label if focus else None, is_answer=True).first,
        "answer_sessions": t("answer_sessions").where(gpu=focus.label if focus else None),
        "kinds": kinds,
        "kernel_kind": kernel.first,
        "pageable_kind": total.where(length="over 1 ms").first,
        "pair": pair,
        "pairs": pair and pairs.where(gpu_a=pair["gpu_a"], gpu_b=pair["gpu_b"]),
        **(_disturbances(t, focus.label) if focus and devices.gpus else {}),
        **_gpus_compared(t),
    }


def _disturbances(t: Tables, gpu: str) -> Values:
    """Return what the host and its other GPUs add to times of one GPU."""
    traffic = t("interference").where(quantity="total")
    nearest = traffic.where(gpu=gpu).first or traffic.first
    beside = traffic.where(gpu=nearest["gpu"] if nearest else None)
    kernel_only = t("summary").where(gpu=gpu, host_memory="pinned")
    return {
        "shortest_kernel": kernel_only.least("kernel_s"),
        "threat": t("threats").where(gpu=gpu).first,
        "cold": t("cold_starts").where(gpu=gpu, part="total").first,
        "traffic": beside,
        "slowed": beside.where(verdict="slower"),
        "slowed_most": beside.where(verdict="slower").most("ratio"),
    }


def _gpus_compared(t: Tables) -> Values:
    """Return the fastest implementations at N = 4096 on each GPU, without and with copies."""
    compared = t("gpu_comparison").where(n=4096).known("ratio")
    compared = compared.where(gpu=compared.values("gpu")[:8])
    kernels = compared.where(quantity="kernel", host_memory="pinned")
    runs = compared.where(quantity="total", host_memory=_MEMORIES)
    runs = runs.sort("host_memory", reverse=True)  # pinned first
    return {
        "gpus_compared": [
            (kernels.where(gpu=gpu).first, runs.where(gpu=gpu)) for gpu in compared.values("gpu")
        ],
        "is_widened": bool(compared.where(basis="deviation of other GPUs")),
        "is_one_session": bool(compared.where(basis="one session")),
    }


SECTIONS: dict[str, Callable[[Tables, Devices], Values]] = {
    section.__name__: section
    for section in (overview, kernels, published, models, decide, cpu, trust)
}
