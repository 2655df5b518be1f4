"""The part of ``gemm-study try`` that needs a GPU: it times the kernel and its neighbours."""

from collections.abc import Iterator, Sequence
from math import lcm
from pathlib import Path

from base.errors import StudyError
from base.files import sha256
from base.paths import RESULTS, shown
from kernels.catalog.entries import VARIANTS
from kernels.catalog.variant import IN_TURN, UserCall, UserKernel, UserSupplied
from measurement.recorder.answer import answer
from measurement.recorder.hardware import Host
from measurement.recording.recording import plain_rows
from study.cells import Cell
from study.config import Config
from study.narrow import narrowed

TRIED = RESULTS / "tried"
SIZES = (1024, 4096)
# Shapes at which a Python function, which no host execution checks, is also checked: a common tile
# divides no edge, and the edges of the first differ.
RAGGED = ("193x331x75", "331")
_OTHER_DTYPES = ("mm_naive", "mm_tile")  # timed as neighbours of every kernel with another dtype


def timed(
    entry: UserSupplied,
    config: Config,
    near: Sequence[str],
    device: int,
    sizes: Sequence[int],
    hardware: Host | None,
) -> Iterator[str]:
    """Time the kernel and its neighbours; yield a table. Raise StudyError if the kernel fails."""
    from measurement.recorder.record import record
    from measurement.recorder.target import unused

    wanted = list(sizes) or sizes_of(entry)
    others = [name for name in near if VARIANTS.variant(name).flow == IN_TURN]
    dtypes = [dtype for dtype in entry.dtypes if dtype != "float32"]
    variants = [entry.name, *others] if "float32" in entry.dtypes else ["cublas_sgemm"]
    more = {"variants": [entry.name, *_OTHER_DTYPES], "dtypes": dtypes, "block_sizes": [32]}
    series = [more | {"shapes": wanted}] if dtypes else []
    if isinstance(entry, UserCall):
        ragged = {"variants": [entry.name], "dtypes": list(entry.dtypes), "shapes": list(RAGGED)}
        series.append(more | ragged)
    study = narrowed(config, variants, wanted, series)
    out = unused(TRIED / entry.name / f"gpu{device}-{sha256(Path(entry.file))[:8]}")
    recording = record(study, device, out, None, None, hardware)
    yield from answer(recording, ladder_of=entry.name)
    if isinstance(entry, UserCall) and entry.call and entry.call.elements != "float32":
        yield f"{entry.name} multiplies in {entry.call.elements}, the others in float32"
    yield f"recording: {shown(out)}"
    checks = recording.checks[recording.checks["variant"] == entry.name]
    failed = checks[checks["status"] == "failed"]
    at_wanted = failed[(failed["m"] == failed["n"]) & failed["n"].isin(wanted)]
    if len(at_wanted):
        file, reason = shown(Path(entry.file)), at_wanted["reason"].iloc[0]
        raise StudyError(f"{file}: {entry.name} fails on gpu{device}: {reason}")
    if len(failed):
        shape = Cell.of(next(iter(plain_rows(failed)))).shape
        yield f"{entry.name}: correct at N = {' and '.join(map(str, wanted))}, but not at {shape}"


def sizes_of(entry: UserSupplied) -> list[int]:
    """Return sizes that the kernel can compute: about `SIZES`, or the one that its file fixes."""
    if not isinstance(entry, UserKernel):
        return list(SIZES)
    if entry.facts.fixed:
        return [entry.facts.fixed[0]]
    width = lcm(entry.facts.multiple, *entry.facts.tile)
    return [width * -(-size // width) for size in SIZES]
