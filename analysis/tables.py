"""Computing all tables of the study: one process per recording, then the tables over all."""

import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pandas as pd
from threadpoolctl import threadpool_limits

from analysis.cpu import hosts, split
from analysis.cpu import ladder as cpu_ladder
from analysis.data import ceilings, published, store, user_supplied
from analysis.data import recordings as data
from analysis.data.frames import from_rows, stacked
from analysis.data.hosts import hosts_of
from analysis.data.recordings import MeasuredSource
from analysis.decide import locations, predictions, surface_tables
from analysis.kernels import (
    counts,
    ladder,
    ladder_summary,
    machine_code,
    modes,
    properties,
    roofline,
)
from analysis.models import tables as model_tables
from analysis.overview import answers, choices, gpu_comparison, speedups
from analysis.published import audit, claims, cpu_claims, figure2, source_tables, systems
from analysis.stats.hosts import Hosts
from analysis.trust import interference, overheads, sessions, threats
from cpu_reference.cores import usable_threads
from kernels.catalog.catalog import Catalog
from kernels.catalog.entries import VARIANTS
from kernels.catalog.user_supplied import catalog_of
from kernels.cubins.compile import BuildResult, read_result
from measurement.recording.consistency import check_distinct, fingerprint
from measurement.recording.recording import CELL, Recording

Frames = dict[str, pd.DataFrame]
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Published:
    """The published data: times, systems, and numbers in the text of source V."""

    times: pd.DataFrame
    systems: list[systems.System]
    statements: Mapping[str, published.Statement]

    @classmethod
    def read(cls, times: Path, listed: Path, statements: Path) -> "Published":
        """Read the three CSV files; raise StudyError naming a wrong row."""
        texts = published.read_statements(statements)
        return cls(published.read(times), systems.read(listed), texts)


@dataclass(frozen=True)
class _Part:
    """The tables of one recording, or of the published data and this tree.

    `sources` keep only the data that comparisons of recordings need.
    """

    frames: Frames
    claims: list[claims.ClaimRow]
    sources: list[MeasuredSource]


def compute(
    paths: Mapping[str, Sequence[Path]],
    printed: Published,
    built: list[BuildResult],
    counted: Sequence[Path],
    progress: Progress,
    missing: Mapping[str, str] | None = None,
    sizes: Sequence[int] = (),
    ranges: Path | None = None,
) -> Frames:
    """Return all tables by name; raise StudyError for an unusable recording.

    `paths` are the folders of the recordings' sessions by id, `printed` is the published data,
    `built` the cubins of this tree, `counted` tables of `gemm-study count`, `missing` the reasons
    of missing recordings by id, `sizes` the matrix sizes of the study, `ranges` the file of
    `kernels.host_execution.ranges`. Worker processes call `progress`, so it must be picklable.
    """
    data.check_names(paths)
    accesses = counts.read(counted)
    theory = counts.counts_table(accesses, [])
    of_one = partial(_of_recording, printed.times[:0], theory, progress, hosts_of(paths))
    # The largest recordings come first, so that the load is even.
    by_size = sorted(paths, key=lambda name: sum(map(_bytes, paths[name])), reverse=True)
    with threadpool_limits(1), ProcessPoolExecutor(usable_threads(), initializer=_alone) as pool:
        futures = {name: pool.submit(of_one, name, paths[name]) for name in by_size}
        try:
            delayed: list[str] = []  # if a recording is unusable, only its error must be printed
            of_tree = _part({}, printed.times, built, theory, delayed.append)
            wait(futures.values(), return_when=FIRST_EXCEPTION)
            parts = [futures[name].result() for name in paths if futures[name].done()]
            for line in delayed:
                progress(line)
        finally:
            pool.shutdown(cancel_futures=True)
    progress("comparisons of recordings and audit of published numbers")
    of_tree.claims.extend(claims.on_accesses(theory))
    frames = _joined(of_tree, parts)
    sources = [source for part in parts for source in part.sources]
    user_supplied.check_same(sources)
    recorded = {source.recording_id: source.recording for source in sources}
    check_distinct((one.path, fingerprint(one.samples)) for one in recorded.values())
    frames |= {
        "counts": counts.counts_table(accesses, sources),
        "gpu_comparison": gpu_comparison.gpu_comparison_table(
            sources, frames["summary"], frames["sessions"]
        ),
        "systems": systems.systems_table(printed.systems, frames),
        "ranges": properties.ranges_table(ranges, frames["summary"]),
    }
    frames["claim_verdicts"] = claims.claim_verdicts_table(frames["claims"], sources)
    frames["figure2"] = figure2.figure2_table(sources, frames["summary"], frames["ceilings"])
    reasons = [{"recording": name, "reason": why} for name, why in (missing or {}).items()]
    frames["missing"] = from_rows("missing", reasons)
    frames["unmeasured_sizes"] = data.unmeasured_sizes_table(sizes, frames["checks"])
    frames["threats"] = threats.threats_table(frames)
    return frames | audit.audit_tables(printed.times, printed.statements)


def write(
    recordings: Mapping[str, Sequence[Path]],
    published: Sequence[Path],
    cubins: Sequence[Path],
    counted: Sequence[Path],
    out: Path,
    missing: Mapping[str, str] | None = None,
    sizes: Sequence[int] = (),
    ranges: Path | None = None,
) -> None:
    """Write all tables to the folder `out`.

    `published` are the CSV files of times, systems and statements; for the others see `compute`.
    """
    printed, built = Published.read(*published), [read_result(path) for path in cubins]
    frames = compute(recordings, printed, built, counted, _print, missing, sizes, ranges)
    store.write(frames, out)


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _alone() -> None:
    """Set up a worker process: it uses one thread, and an interrupt prints no traceback."""
    threadpool_limits(1)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _bytes(recording: Path) -> int:
    samples = recording / "samples.csv.gz"
    return samples.stat().st_size if samples.is_file() else 0


def _of_recording(
    times: pd.DataFrame,
    theory: pd.DataFrame,
    progress: Progress,
    between_hosts: Hosts,
    name: str,
    paths: Sequence[Path],
) -> _Part:
    loaded = data.load({name: paths})
    progress(f"tables of {name}")
    catalog = catalog_of(loaded[name].provenance.get("texts", {}))
    part = _part(loaded, times, [], theory, progress, catalog, between_hosts)
    samples = loaded[name].samples[[*CELL, "session", "total_s", "host_s", "in_run_kernel_s"]]
    compared = replace(loaded[name], samples=samples)
    return replace(part, sources=[replace(one, recording=compared) for one in part.sources])


def _part(
    loaded: Mapping[str, Recording],
    times: pd.DataFrame,
    built: list[BuildResult],
    theory: pd.DataFrame,
    progress: Progress,
    catalog: Catalog = VARIANTS,
    between_hosts: Hosts | None = None,
) -> _Part:
    sources = data.sources(loaded, between_hosts)
    frames = {
        "source_tables": source_tables.source_tables(times, sources),
        "summary": data.summary_table(sources),
        "speedups": speedups.speedups_table(sources),
        "recordings": data.recordings_table(sources),
        "checks": data.checks_table(loaded),
        "builds": data.builds_table(loaded, built),
        "environment": data.environment_table(loaded),
        "telemetry": overheads.telemetry_table(sources),
        "cold_starts": overheads.cold_starts_table(sources),
        "ceilings": ceilings.ceilings_table(sources),
        "pieces": ceilings.pieces_table(sources),
        "interference": interference.interference_table(sources),
        "sessions": sessions.sessions_table(sources),
        "limits": properties.limits_table(sources),
        "cpu_hosts": hosts.hosts_table(sources),
        "cpu_times": hosts.times_table(sources),
        "cpu_clock": hosts.clock_table(sources),
        "cpu_ladder": cpu_ladder.cpu_ladder_table(sources),
        "cpu_split": split.cpu_split_table(times, sources),
    }
    instructions = data.instructions_table(loaded, built)
    used = properties.sustained_table(sources)
    code = machine_code.machine_code_table(frames["builds"], instructions, theory, catalog)
    frames |= {
        "machine_code": code,
        "sustained": used,
        "modes": modes.modes_table(sources),
        "accuracy": properties.accuracy_table(sources),
        "ladder": ladder.ladder_table(sources, code, used),
        "roofline": roofline.roofline_table(sources, frames["ceilings"], theory, code),
    }
    summary = ceilings.with_floors(frames["summary"], frames["pieces"])
    frames["summary"] = stacked("summary", [summary])
    frames["end_to_end_modes"] = ladder.end_to_end_modes_table(frames["ladder"], frames["pieces"])
    frames |= model_tables.model_tables(times, sources, code, progress)
    for source in sources:
        progress(f"break-even sizes of {source.label}")
    frames |= predictions.decision_tables(sources)
    frames["choices"] = choices.choices_table(sources)
    frames["locations"] = locations.locations_table(sources)
    frames["location_break_even"] = locations.location_break_even_table(sources)
    frames["throughput"] = locations.throughput_table(sources)
    frames |= surface_tables.surface_tables(sources)
    frames["unseen_sessions"] = surface_tables.unseen_sessions_table(sources)
    frames["break_even"] = answers.with_answers(frames["break_even"])
    of_label = {source.label: source for source in sources}
    frames |= ladder_summary.ladder_tables(
        frames, lambda label, cells, quantity: of_label[label].drawn(cells, quantity), catalog
    )
    frames["answers"] = answers.answers_table(
        frames, lambda label, cells: of_label[label].drawn(cells, "total")
    )
    frames["answer_sessions"] = answers.answer_sessions_table(sources, frames["speedups"])
    claimed = [*claims.on_registers(sources, code), *claims.on_times(sources)]
    claimed += cpu_claims.on_cpus(sources, frames["cpu_split"])
    return _Part(frames, claimed, sources)


def _joined(of_tree: _Part, parts: list[_Part]) -> Frames:
    """Return tables concatenated over all parts: published data first, builds of this tree last."""
    frames = {}
    for name in of_tree.frames:
        ordered = [*parts, of_tree] if name in ("builds", "machine_code") else [of_tree, *parts]
        frames[name] = stacked(name, [part.frames[name] for part in ordered])
    rows = [row for part in (of_tree, *parts) for row in part.claims]
    return frames | {"claims": claims.claims_table(rows)}
