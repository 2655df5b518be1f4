"""What the page shows first: answers for each device, choices, and selected rows by topic."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from analysis.data.devices import Device, Devices
from analysis.domain import FASTER, PUBLISHED
from analysis.render import words
from analysis.render.numbers import ABSENT, interval, name, number, verdict, visible, word
from analysis.render.query import Row, Rows
from cpu_reference.catalog import VARIANTS
from kernels.catalog.baselines import BASELINES, BEST, CPU_BASELINES, FASTEST_CPU, TITLES

Tables = Callable[[str], Rows]

# The choice that favours the GPU least, by columns of choices.csv.
STRICTEST = {"kernels": "strict FP32", "host_memory": "pageable", "cpu_baseline": "best"}
_STRICT = Markup("strict FP32")
_MOST_DEVICES = 8  # devices for which the page shows answers


@dataclass(frozen=True)
class Answer:
    """One of the three answers: its title, and lines with a value and its meaning."""

    title: str
    lines: list[tuple[Markup, Markup]]


@dataclass(frozen=True)
class Answers:
    """The answers for one device, with its name and its row of recordings.csv."""

    device: Device
    name: Markup
    row: Row
    cpu: Markup
    answers: list[Answer]


def context(t: Tables, devices: Devices) -> dict[str, Any]:
    """Return the choices that the page's top bar offers: the initial N, and baselines by group.

    Baselines of the ladder are offered if they were measured. Those on the CPU are named cpu-NAME,
    except for the fastest.
    """
    label = devices.focus.label if devices.focus else None
    choice = t("choices").where(gpu=label, **STRICTEST).first
    largest = t("predictors").where(gpu=label).first
    measured = t("ladder_speedups").where(gpu=label).values("baseline")
    kernels = {name: TITLES[name] for name in BASELINES if name in measured and name != FASTEST_CPU}
    cpus = {f"cpu-{name}": f"CPU, {title}" for name, title in CPU_BASELINES.items() if name != BEST}
    return {
        "n": choice["n"] if choice else (largest and largest["largest_n"]) or 1024,
        "baselines": {
            "Kernel on the GPU (in section Kernels)": kernels,
            "CPU implementation in float32 (everywhere)": {FASTEST_CPU: TITLES[FASTEST_CPU]} | cpus,
        },
    }


def dossier(t: Tables, devices: Devices) -> dict[str, Any]:
    """Return what the templates need about the device in focus: names, answers, selected rows."""
    focus = devices.focus
    label = focus.label if focus else ""
    source = label if focus and focus.is_gpu else PUBLISHED
    models = t("model_comparison").where(source=source, kernels="all")
    best = models.least("left_out_log_rms")
    quick = t("environment").where(item="configuration.scope", value="quick")
    return {
        "focus": focus,
        "label": label,
        "host": focus.recording if focus else "",
        "gpu_name": focus.name if focus else "",
        "answers": answers(t, devices),
        "modelled_source": source,
        "best_model": best["model"] if best else "",
        "located": _located(t, label),
        "quick": quick.values("recording"),
        "nothing": _nothing(devices),
        "of_gpu": lambda device: _of_gpu(device, devices),
    }


def _nothing(devices: Devices) -> str:
    """Return a sentence that says what was not measured."""
    if not devices.all:
        return "Nothing was measured. The page contains only the published numbers."
    return "" if devices.gpus else "No GPU was measured. Measured rows are for the CPU only."


def _of_gpu(device: Device, devices: Devices) -> Markup:
    """Return HTML attributes of a part about a GPU, which hide it if the GPU is not in focus."""
    hidden = "" if device is devices.focus else " hidden"
    return Markup(' data-gpu="{}"{}').format(visible(device.label), Markup(hidden))


def _located(t: Tables, gpu: str) -> Rows:
    """Return the rows of locations for the kernel that is fastest with resident square matrices."""
    placed = t("locations").where(gpu=gpu, family="square")
    largest = placed.where(host_memory="resident").most("m")
    if largest is None:
        return placed.where(host_memory=())
    same = {name: largest[name] for name in ("m", "n", "k")}
    fastest = placed.where(host_memory="resident", **same).least("total_s") or largest
    kernel = {name: fastest[name] for name in ("variant", "block_size")}
    return placed.where(**same, **kernel)


def answers(t: Tables, devices: Devices) -> list[Answers]:
    """Return the answers for the GPUs, or for a CPU in focus; the device in focus is first."""
    shown = devices.gpus or tuple(filter(None, [devices.focus]))
    return [answers_of(t, device) for device in shown[:_MOST_DEVICES]]


def answers_of(t: Tables, device: Device) -> Answers:
    """Return the answers for a device."""
    gpu = device.label if device.is_gpu else None
    rows = t("answers").where(recording=device.recording, gpu=gpu)
    strict = t("choices").where(gpu=device.label, **STRICTEST).first
    speedup = t("speedups").where(source=device.label, is_answer=True).first
    even = t("break_even").where(gpu=device.label, is_answer=True).first
    found = [
        Answer("Fastest product, with copies", _fastest(rows)),
        Answer("Speedup over the CPU", _speedups(strict, speedup)),
        Answer("GPU faster from", _sizes(strict, even)),
    ]
    (row,) = t("recordings").where(recording=device.recording, gpu=gpu)
    name = word(row, "gpu_name" if device.is_gpu else "cpu_model")
    return Answers(device, name, row, _cpu(t, row), found)


def _cpu(t: Tables, row: Row) -> Markup:
    """Return a recording's CPU, its threads, and from how many cells its fastest was chosen."""
    host = t("cpu_hosts").where(recording=row["recording"]).first
    rows = t("cpu_times").where(recording=row["recording"])
    first = [rows.where(variant=one.name).first for one in VARIANTS.values() if one.is_tuned]
    candidates = Markup(", ").join(name(each) for each in first if each)
    threads = Markup(" with {} threads").format(number(host, "usable_threads")) if host else ""
    programs = Markup("; baseline: the fastest of {}").format(candidates) if candidates else ""
    return word(row, "cpu_model") + threads + programs


def _absent(reason: str) -> list[tuple[Markup, Markup]]:
    return [(Markup(ABSENT), Markup(reason))]


def _fastest(rows: Rows) -> list[tuple[Markup, Markup]]:
    """Return the shortest time; if it is a library's, also the shortest of this study's kernels."""
    fastest = rows.where(role="fastest").first
    if fastest is None:
        return _absent("no product was timed")
    shown = [fastest, rows.where(role="own").first if fastest["is_library"] else None]
    return [(interval(row, "total_s"), _run(row)) for row in shown if row]


def _run(row: Row) -> Markup:
    """Return the implementation, size and memory or threads of a time; also a doubtful verdict."""
    doubt = row["verdict"] not in (None, FASTER)
    parts = [
        words.implementation(row),
        words.size(row),
        word(row, "host_memory") + " memory" if row["host_memory"] else words.threads(row),
        *([verdict(row)] if doubt else []),
    ]
    return Markup(", ").join(filter(None, parts))


def _speedups(strict: Row | None, speedup: Row | None) -> list[tuple[Markup, Markup]]:
    """Return the lines on the speedup in strict FP32 from pageable memory, and the largest one."""
    if speedup is None:
        return _absent("needs a size timed on both a GPU and its CPU")
    lines = []
    if strict:
        text = Markup("{}, {}").format(_STRICT, _comparison(strict, "cpu_"))
        lines.append((interval(strict, "speedup"), text))
    text = Markup("best choice, {}").format(_comparison(speedup, "baseline_"))
    doubt = speedup["verdict"] not in (None, FASTER)
    return [*lines, (interval(speedup, "speedup"), text + (verdict(speedup) if doubt else ""))]


def _comparison(row: Row, prefix: str) -> Markup:
    """Return what a speedup compares: memory, kernel, size and CPU implementation."""
    return Markup("{} memory, {}, {}, over {} {}").format(
        word(row, "host_memory"),
        name(row),
        words.size(row),
        name(row, f"{prefix}variant"),
        words.threads(row, f"{prefix}threads"),
    )


def _sizes(strict: Row | None, even: Row | None) -> list[tuple[Markup, Markup]]:
    """Return lines on the break-even size in strict FP32 from pageable memory, and the least."""
    if even is None:
        return _absent("needs sizes timed on both a GPU and its CPU")
    lines = []
    if strict:
        text = Markup("{}, {} memory").format(_STRICT, word(strict, "host_memory"))
        lines.append((_size(strict, "break_even_"), text))
    text = Markup("any kernel, {} memory").format(word(even, "host_memory"))
    return [*lines, (_size(even), text)]


def _size(row: Row, prefix: str = "") -> Markup:
    bounds = words.break_even_bounds(row, prefix)
    return words.break_even(row, prefix) + (Markup(" ({})").format(bounds) if bounds else "")
