"""The GPUs and hosts of a study's recordings: medians, and whether sources have changed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import domain
from analysis.data.cells import is_square
from analysis.data.frames import concatenated, from_rows, stacked
from analysis.data.kernel_times import kernel_times
from analysis.data.sessions import session_names, together
from analysis.schema import renaming, with_bounds
from analysis.stats.estimates import FloatArray, Groups, drawn_cells, summarise
from analysis.stats.hosts import Hosts
from analysis.stats.sessions import Sessions
from base.errors import StudyError
from base.paths import ROOT
from kernels.catalog.baselines import NAIVE_BLOCK
from kernels.catalog.catalog import Catalog
from kernels.catalog.entries import CONTEXT, VARIANTS
from kernels.catalog.locations import HOST_MEMORY
from kernels.catalog.source import code_sha256
from kernels.catalog.user_supplied import catalog_of
from kernels.cubins.compile import BuildResult
from measurement.recording.files import RecordingError, read_provenance, user_supplied
from measurement.recording.provenance_schema import USER_SUPPLIED
from measurement.recording.recording import CELL, KERNEL, TABLES, Recording, read

Recordings = Mapping[str, Recording]  # by id
_TIMES_COLUMNS = ["implementation", "n", "block_size", *with_bounds("time_s")]


class _Samples:
    """The samples of a GPU and its host, grouped by cell and by session."""

    def __init__(self, rows: pd.DataFrame, source: "MeasuredSource") -> None:
        self.rows, self._source = rows, source

    @cached_property
    def by_cell(self) -> Groups:
        """The rows of each cell."""
        return Groups.of(self.rows, CELL)

    @cached_property
    def sessions(self) -> Sessions | None:
        """The samples by session; None for one session."""
        several = self.rows["session"].nunique() > 1
        return Sessions(self.rows, self._source.l2_bytes, self._source.hosts) if several else None

    def summary(self) -> pd.DataFrame:
        """Return the medians of each cell over all sessions, as `summarise` does."""
        return self.sessions.summary() if self.sessions else summarise(self.rows)

    def draws(self, part: str) -> FloatArray:
        """Return draws of the medians of "total" or "kernel" times, rows as in `summary`."""
        column = f"{part}_s"
        if self.sessions:
            return self.sessions.draws(part, column)
        return drawn_cells(self.rows, column)


@dataclass(frozen=True)
class MeasuredSource:
    """One GPU of a recording with the CPU of its host, or only that CPU (`device` is None).

    `label` is the recording's id; if the recording has several GPUs, the device is appended.
    `hosts` has the variance between hosts from all recordings; None: from this one.
    """

    label: str
    recording_id: str
    device: str | None
    recording: Recording
    hosts: Hosts | None = None

    @property
    def gpu(self) -> Mapping[str, Any]:
        """The provenance of the GPU; empty without GPU."""
        devices = self.recording.provenance["devices"]
        return next((device for device in devices if device["device"] == self.device), {})

    @property
    def gpu_name(self) -> str | None:
        """Name of the GPU."""
        return self.gpu.get("name")

    @cached_property
    def catalog(self) -> Catalog:
        """The catalog of variants, including user-supplied ones in the recording."""
        return catalog_of(self.recording.provenance.get("texts", {}))

    @property
    def l2_bytes(self) -> float | None:
        """Size of the GPU's L2 cache; None if unknown."""
        return l2_bytes(self.gpu)

    @property
    def machine(self) -> str:
        """The names of CPU and GPU, written as for the published machines."""
        names = [self.recording.provenance["host"]["cpu_model"], self.gpu_name]
        return " + ".join(name for name in names if name)

    @property
    def holdout_sizes(self) -> set[int]:
        """The sizes that no fit uses, because they test the fits."""
        return set(self.recording.provenance["configuration"].get("holdout_sizes", []))

    @cached_property
    def cells(self) -> pd.DataFrame:
        """One row per cell of the GPU and its host, with medians over all sessions.

        The columns are those of `summarise`. kernel_s is the median of `kernel_times`, with
        kernel_samples. in_run_kernel_s is the kernel time in a run by CUDA events, overhead_s is
        the end-to-end time minus copies, kernel_s and host work.
        """
        runs, kernels = self._runs, self._kernels
        cells = runs.summary()
        groups = kernels.by_cell  # the groups are those of `cells`
        if kernels.sessions:
            bounds = kernels.sessions.bounds("kernel")
        else:
            bounds = groups.medians(kernels.rows["kernel_s"], series=True)
        cells[with_bounds("kernel_s")] = bounds.T
        cells["kernel_samples"] = pd.array(groups.sums(kernels.rows["kernel_s"].notna()), "Int64")
        apart = cells["in_run_kernel_s"] - cells["kernel_s"]
        return cells.assign(overhead_s=cells["overhead_s"] + apart)

    @cached_property
    def _runs(self) -> _Samples:
        return _Samples(_in_host_memory(self.own(self.recording.samples)), self)

    @cached_property
    def placed(self) -> _Samples:
        """The samples of the kernels that were measured at a location other than `HOST_MEMORY`.

        The samples of these kernels in host memory are included (`kernels.catalog.locations`).
        """
        samples = self.own(self.recording.samples)
        others = samples.drop(_in_host_memory(samples).index)[KERNEL].drop_duplicates()
        return _Samples(samples.merge(others, on=KERNEL), self)

    @cached_property
    def _kernels(self) -> _Samples:
        times = _in_host_memory(self.own(kernel_times(self.recording)))
        return _Samples(times.assign(host_s=float("nan")), self)

    def _samples(self, part: str) -> _Samples:
        return self._kernels if part == "kernel" else self._runs

    def sessions(self, part: str) -> Sessions | None:
        """Return the samples of "total" or "kernel" times by session; None for one session."""
        return self._samples(part).sessions

    @cached_property
    def square_cells(self) -> pd.DataFrame:
        """Those of the `cells` that are the study's square matrices; the index stays."""
        return self.cells[self.series == domain.SIZES]

    @property
    def gpu_square_cells(self) -> pd.DataFrame:
        """Those of the `square_cells` that are of the GPU; the index stays."""
        return self.square_cells[self.square_cells["device"] != domain.CPU]

    @property
    def gpu_squares(self) -> pd.DataFrame:
        """The GPU's cells of square float32 matrices, even those of series; the index stays."""
        cells = self.cells[is_square(self.cells) & (self.cells["device"] != domain.CPU)]
        return cells[(cells["dtype"] == "float32") & ~cells["variant"].isin(CONTEXT)]

    @property
    def series(self) -> pd.Series:
        """The series of each of the `cells`: `SIZES`, `SHAPES`, or that of a library's modes."""
        planned = {*self.recording.provenance["configuration"]["sizes"], *self.holdout_sizes}
        cells, squares = self.cells, self.gpu_squares
        main = is_square(cells) & (cells["device"] == domain.CPU)
        main |= cells.index.isin(squares.index[squares["n"].isin(planned)])
        return pd.Series(domain.SHAPES, cells.index).mask(main, domain.SIZES)

    @cached_property
    def draws(self) -> dict[str, FloatArray]:
        """Bootstrap draws of the medians by quantity ("total", "kernel"), rows as in `cells`."""
        return {part: self._samples(part).draws(part) for part in ("total", "kernel")}

    def drawn(self, cells: pd.DataFrame, quantity: str) -> FloatArray:
        """Return draws of the medians of some cells (columns `CELL`), shape (cells, DRAWS).

        They are independent of `draws` and of the draws of other sources.
        """
        samples = self._samples(quantity)
        keys = samples.sessions.cells if samples.sessions else samples.by_cell.keys
        rows = cells[CELL].merge(keys.reset_index(), how="left", on=CELL)["index"].to_numpy()
        seed = f"{self.label} {quantity}"
        if samples.sessions:
            return samples.sessions.draws(quantity, seed, rows)
        return samples.by_cell.draws(samples.rows[f"{quantity}_s"], seed, list(rows))

    @property
    def checks(self) -> pd.DataFrame:
        """The checks of the cells of this GPU and its host, in every session."""
        return self.own(self.recording.checks)

    @property
    def builds(self) -> pd.DataFrame:
        """The cells that were checked, with the build of each."""
        return self.checks[[*CELL, "build"]].drop_duplicates(CELL)

    def times(self, quantity: str) -> pd.DataFrame:
        """Return one row per cell with its "total" or "kernel" time, as `published_times` does.

        Implementations are named ``gpu_VARIANT`` and, on one thread, ``cpu_VARIANT``. ``gpu_naive``
        is the naive kernel in blocks of 32×32, without block size. The index is that of `cells`.
        """
        cells = self.square_cells.rename(columns=renaming(f"{quantity}_s", "time_s"))
        on_cpu = cells["device"] == domain.CPU
        gpu = cells[~on_cpu & (cells["host_memory"] == self.memory(quantity))]
        baseline = gpu["variant"] == "naive"
        gpu = gpu[~baseline | (gpu["block_size"] == NAIVE_BLOCK)]
        gpu = gpu.assign(
            implementation="gpu_" + gpu["variant"],
            block_size=gpu["block_size"].mask(gpu["variant"] == "naive"),
        )
        cpu = cells[on_cpu & (cells["threads"] == 1).fillna(False)]
        cpu = cpu.assign(implementation="cpu_" + cpu["variant"])
        return pd.concat([cpu, gpu])[_TIMES_COLUMNS]

    def memory(self, quantity: str) -> str | None:
        """Return the measured host memory whose "total" or "kernel" times are shown."""
        return domain.preferred_memory(quantity, self.cells["host_memory"])

    def own(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return those rows of a frame that are of this GPU or of its host's CPU."""
        return frame[frame["device"].isin([domain.CPU, self.device])]


def _in_host_memory(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a CPU, and of runs that copy all matrices from and to the host."""
    return rows[rows["host_memory"].isna() | rows["host_memory"].isin(HOST_MEMORY)]


def l2_bytes(gpu: Mapping[str, Any]) -> float | None:
    """Return the size of a GPU's L2 cache from its provenance; None if unknown."""
    size = gpu.get("limits", {}).get("l2_cache_bytes")
    return None if size is None else float(size)


def published_times(published: pd.DataFrame, table: int) -> pd.DataFrame:
    """Return one published table as times in seconds, one row per entry.

    Columns: implementation, n, block_size (NA: none), time_s, time_low_s, time_high_s (NaN).
    """
    return published[published["table"] == table].reindex(columns=_TIMES_COLUMNS)


def load(paths: Mapping[str, Sequence[Path]]) -> dict[str, Recording]:
    """Read the recordings by id; several sessions become one recording (`analysis.data.sessions`).

    Raise StudyError naming the first recording that cannot be used.
    """
    for identifier in paths:
        if identifier in (domain.PUBLISHED, domain.TREE):
            raise StudyError(
                f"recording {identifier!r}: this id is reserved for the published tables or the "
                "cubins of this tree; choose another id"
            )
    recordings = {
        identifier: together([read(folder) for folder in folders])
        for identifier, folders in paths.items()
    }
    for identifier, recording in recordings.items():
        checks = recording.checks
        unknown = set(checks.loc[checks["device"] != domain.CPU, "variant"]) - set(VARIANTS)
        kept = {Path(path).stem for path in recording.provenance.get("texts", {})}
        for name in sorted((unknown | set(user_supplied(recording.provenance))) - kept):
            raise StudyError(
                f"recording {identifier!r}: {name} is not in the catalog; remove the recording or "
                "run `gemm-study try` again, which keeps the kernel's source"
            )
    return recordings


def sources(recordings: Recordings, hosts: Hosts | None = None) -> list[MeasuredSource]:
    """Return a source per GPU and per host without GPU; raise StudyError for equal labels.

    `hosts` has the variance between hosts from all recordings of a study; None: from these.
    """
    hosts = hosts or Hosts.of(recording.samples for recording in recordings.values())
    measured = [
        MeasuredSource(label, identifier, device, recording, hosts)
        for identifier, recording in recordings.items()
        for label, device in _labels(identifier, recording.provenance)
    ]
    _check_labels((source.recording_id, source.label) for source in measured)
    return measured


def check_names(paths: Mapping[str, Sequence[Path]]) -> None:
    """Raise StudyError if two sources of the recordings would have the same label.

    Unreadable recordings are skipped here; `load` reports them.
    """
    labels = []
    for identifier, folders in paths.items():
        with suppress(RecordingError):
            provenance = read_provenance(folders[0])
            labels += [(identifier, label) for label, _ in _labels(identifier, provenance)]
    _check_labels(labels)


def _labels(identifier: str, provenance: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    devices = [str(each["device"]) for each in provenance["devices"]]
    if len(devices) > 1:
        return [(f"{identifier}-{device}", device) for device in devices]
    return [(identifier, devices[0] if devices else None)]


def _check_labels(labels: Iterable[tuple[str, str]]) -> None:
    seen: set[str] = set()
    for name, label in labels:
        if label in seen:
            raise StudyError(f"recording {name!r}: the label {label!r} is already used; rename one")
        seen.add(label)


def with_gpu(measured: Iterable[MeasuredSource]) -> list[MeasuredSource]:
    """Return the sources that have a GPU."""
    return [source for source in measured if source.device]


def stale_sources(provenance: Mapping[str, Any], root: Path = ROOT) -> list[str]:
    """Return the recorded source files that are missing from `root` or now contain other code."""
    return [
        path
        for path, digest in sorted(provenance["sources"].items())
        if not path.startswith(f"{USER_SUPPLIED}/")  # user-supplied files are not in the tree
        if not (root / path).is_file() or code_sha256((root / path).read_text()) != digest
    ]


def is_live(recording: Recording, root: Path = ROOT) -> bool:
    """Return whether the workflow made this recording, rather than reading it from data/."""
    return (root / "results" / "recordings").resolve() in recording.path.resolve().parents


def summary_table(measured: list[MeasuredSource]) -> pd.DataFrame:
    """Return one row per measured cell: its medians, build, series, and throughput in FLOP/s.

    Throughput is 2·batch·m·n·k divided by the time; for integers the unit is operations/s. CPU
    cells are listed once per recording, with a blank `gpu`.
    """
    frames = []
    labelled_cells = ((source, source.cells.assign(series=source.series)) for source in measured)
    for source, rows in once_per_recording(labelled_cells):
        rows = rows.merge(source.builds, how="left", on=CELL, validate="1:1")
        flop = 2.0 * rows[list(domain.SHAPE)].astype(float).prod(axis=1)
        rates = {"flop_per_s": flop / rows["total_s"], "kernel_flop_per_s": flop / rows["kernel_s"]}
        frames.append(labelled(source, rows.assign(**rates)))
    return stacked("summary", frames)


def once_per_recording(
    rows_of_sources: Iterable[tuple[MeasuredSource, pd.DataFrame]],
) -> Iterator[tuple[MeasuredSource, pd.DataFrame]]:
    """Yield each source with its rows; CPU rows only with the first source of a recording."""
    seen: set[str] = set()
    for source, rows in rows_of_sources:
        yield source, rows[rows["device"] != domain.CPU] if source.recording_id in seen else rows
        seen.add(source.recording_id)


def labelled(source: MeasuredSource, rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of a source with the columns recording and gpu (blank for the CPU)."""
    gpu = pd.Series(source.label, rows.index, dtype="string").mask(rows["device"] == domain.CPU)
    return rows.assign(recording=source.recording_id, gpu=gpu)


def recordings_table(measured: list[MeasuredSource], root: Path = ROOT) -> pd.DataFrame:
    """Return one row per source: hardware, dates, commits, number of cells, stale sources.

    Counts include cells of the host's CPU, and all sessions. Without GPU, `gpu` is blank.
    """
    rows = []
    for source in measured:
        provenance, sessions = source.recording.provenance, source.recording.sessions
        commits = [session["git"]["commit"] for session in sessions]
        dirty = [session["git"]["dirty"] for session in sessions]
        statuses = source.checks["status"]
        changed = stale_sources(provenance, root)
        rows.append(
            {
                "recording": source.recording_id,
                "gpu": source.label if source.device else None,
                "device": source.device or domain.CPU,
                "gpu_name": source.gpu_name,
                "cpu_model": provenance["host"]["cpu_model"],
                "live": is_live(source.recording, root),
                "simulated": any(session["simulated"] for session in sessions),
                "at_once": any(session.get("at_once", False) for session in sessions),
                "started_utc": min(session["started_utc"] for session in sessions),
                "finished_utc": max(session["finished_utc"] for session in sessions),
                "commit": " ".join(dict.fromkeys(filter(None, commits))) or None,
                "dirty": True if True in dirty else None if None in dirty else False,
                "sessions": len(sessions),
                "samples": int(source.cells["samples"].sum()),
                **{f"cells_{s}": int((statuses == s).sum()) for s in domain.STATUSES},
                "stale": bool(changed),
                "stale_sources": ";".join(changed),
            }
        )
    return from_rows("recordings", rows)


def unmeasured_sizes_table(sizes: Iterable[int], checks: pd.DataFrame) -> pd.DataFrame:
    """Return those of the study's `sizes` that no GPU measured; none if there is no GPU."""
    passed = is_square(checks) & (checks["device"] != domain.CPU) & (checks["status"] == "passed")
    on_gpu = set(checks.loc[passed, "n"])
    missing = sorted(set(sizes) - on_gpu) if on_gpu else []
    measured = {"least_n": min(on_gpu, default=0), "largest_n": max(on_gpu, default=0)}
    return from_rows("unmeasured_sizes", [{"n": n} | measured for n in missing])


def checks_table(recordings: Recordings) -> pd.DataFrame:
    """Return one row per planned cell and recording: the outcome of its check."""
    return stacked("checks", [one.checks.assign(recording=key) for key, one in recordings.items()])


def builds_table(recordings: Recordings, built: Iterable[BuildResult] = ()) -> pd.DataFrame:
    """Return one row per cubin with its resources; `built` are cubins of this tree (`TREE`)."""
    tree = _frame("builds.csv", [result.row() for result in built])
    frames = {key: recording.builds for key, recording in recordings.items()} | {domain.TREE: tree}
    return stacked("builds", [frame.assign(recording=key) for key, frame in frames.items()])


def instructions_table(recordings: Recordings, built: Iterable[BuildResult] = ()) -> pd.DataFrame:
    """Return one row per instruction of each cubin in `builds_table`, with its count."""
    tree = _frame("instructions.csv", [r for one in built for r in one.instruction_rows()])
    by_key = {key: one.instructions for key, one in recordings.items()} | {domain.TREE: tree}
    frames = [frame.assign(recording=key) for key, frame in by_key.items()]
    return concatenated([tree.assign(recording=domain.TREE)[:0], *frames])


def _frame(file: str, rows: list[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(TABLES[file])).astype(TABLES[file])


def environment_table(recordings: Recordings) -> pd.DataFrame:
    """Return a row per value of the provenance, less sources, texts, phases: item is its path."""
    return from_rows(
        "environment",
        (
            {"recording": name, "item": item, "value": value}
            for identifier, recording in recordings.items()
            for name, provenance in zip(
                session_names(identifier, len(recording.sessions)), recording.sessions, strict=True
            )
            for item, value in _facts({**provenance, "sources": {}, "texts": {}, "phases": []})
        ),
    )


def _facts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the dotted path and the text of every value in a provenance that is not blank."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _facts(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(inner, dict | list) for inner in value):
        for inner in value:
            named = inner if isinstance(inner, dict) else {}
            level = f"{path}.L{named['level']}" if "level" in named else path
            yield from _facts(inner, str(named.get("device", level)))
    elif isinstance(value, list) and value:
        yield path, " ".join(str(item) for item in value)
    elif value not in (None, []):
        yield path, str(value)
