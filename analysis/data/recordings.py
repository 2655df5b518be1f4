"""Recordings of a study: what was measured, on what, and whether the tree has moved on since."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.data.frames import concatenated, from_rows, stacked
from analysis.data.kernel_times import kernel_times
from analysis.data.sessions import session_names, together
from analysis.domain import CPU, KERNEL_ONLY, PUBLISHED, SHAPE, SHAPES, SIZES, STATUSES, TREE
from analysis.schema import renaming, with_bounds
from analysis.stats.estimates import FloatArray, Groups, bootstrap_cells, summarise
from analysis.stats.sessions import Sessions
from base.errors import StudyError
from base.files import sha256
from base.paths import ROOT
from kernels.catalog.entries import VARIANTS
from kernels.catalog.product import BASELINE_BLOCK
from kernels.cubins.compile import BuildResult
from measurement.recording.files import RecordingError, read_provenance, user_supplied
from measurement.recording.provenance_schema import USER_SUPPLIED
from measurement.recording.recording import CELL, TABLES, Recording, read

# Host memory whose times are used where the layout of a table has no place for both: for totals
# that of the published programs (malloc), for kernels the one that disturbs the GPU least.
_MEMORY_ORDER = {"total": ("pageable", "pinned"), "kernel": ("pinned", "pageable")}
_TIMES_COLUMNS = ["implementation", "n", "block_size", *with_bounds("time_s")]


@dataclass(frozen=True)
class Source:
    """One GPU of a recording with the CPU of its host, or that CPU alone (`device` is None).

    `label` is the recording's id, with the device appended where the recording has several GPUs.
    """

    label: str
    recording_id: str
    device: str | None
    recording: Recording

    @property
    def gpu(self) -> Mapping[str, Any]:
        """What the recording's provenance says of the GPU; empty where there is none."""
        devices = self.recording.provenance["devices"]
        return next((device for device in devices if device["device"] == self.device), {})

    @property
    def gpu_name(self) -> str | None:
        """Name of the GPU."""
        return self.gpu.get("name")

    @property
    def machine(self) -> str:
        """CPU and GPU by name, in the form that the published machines have."""
        names = [self.recording.provenance["host"]["cpu_model"], self.gpu_name]
        return " + ".join(name for name in names if name)

    @property
    def holdout_sizes(self) -> set[int]:
        """Orders that were measured to test fits, and take no part in them."""
        return set(self.recording.provenance["configuration"].get("holdout_sizes", []))

    @cached_property
    def cells(self) -> pd.DataFrame:
        """Medians of this GPU's and its host's CPU's samples, with the kernel's own times.

        They are those of `summarise`, over all sessions. kernel_s is that of `kernel_times`;
        kernel_timing says how it was taken, kernel_samples how often. in_run_kernel_s is the part of
        a run by its events, and overhead_s what copies, kernel_s and the host's work leave of it.
        """
        samples, times = self._samples("total"), self._samples("kernel")
        several = self.sessions("total")
        cells = several.summary() if several else summarise(samples)
        kernels = self._groups("kernel")  # they are those of `cells`
        several = self.sessions("kernel")
        bounds = (
            several.bounds("kernel") if several else kernels.medians(times["kernel_s"], series=True)
        )
        cells[with_bounds("kernel_s")] = bounds.T
        cells["kernel_samples"] = pd.array(kernels.sums(times["kernel_s"].notna()), "Int64")
        cells["kernel_timing"] = times["kernel_timing"].groupby(kernels.number).first().to_numpy()
        held = (cells["kernel_timing"] == KERNEL_ONLY).fillna(False)
        apart = cells["in_run_kernel_s"] - cells["kernel_s"]
        return cells.assign(overhead_s=cells["overhead_s"] + apart.where(held, 0.0))

    def _samples(self, part: str) -> pd.DataFrame:
        """Return the rows that have a part of the times: "kernel" is that of `kernel_times`."""
        return self._kernel_times if part == "kernel" else self.own(self.recording.samples)

    @cached_property
    def _kernel_times(self) -> pd.DataFrame:
        return self.own(kernel_times(self.recording))

    def _groups(self, part: str) -> Groups:
        """Return the same rows by cell."""
        key = "kernel" if part == "kernel" else "pass"
        if key not in self._by_cell:
            self._by_cell[key] = Groups.of(self._samples(part), CELL)
        return self._by_cell[key]

    @cached_property
    def _by_cell(self) -> dict[str, Groups]:
        return {}

    def sessions(self, part: str) -> Sessions | None:
        """Return a part of the times by sessions, where there are several."""
        return self._kernel_sessions if part == "kernel" else self._pass_sessions

    @cached_property
    def _pass_sessions(self) -> Sessions | None:
        return _several(self._samples("total"))

    @cached_property
    def _kernel_sessions(self) -> Sessions | None:
        return _several(self._kernel_times.assign(host_s=float("nan")))

    @cached_property
    def orders(self) -> pd.DataFrame:
        """The `cells` of the series of orders; their index stays."""
        return self.cells[self.series == SIZES]

    @property
    def gpu_orders(self) -> pd.DataFrame:
        """The `orders` of the GPU; their index stays."""
        return self.orders[self.orders["device"] != CPU]

    @property
    def series(self) -> pd.Series:
        """The series that each of the `cells` is of: `ORDERS` or `SHAPES`."""
        configuration = self.recording.provenance["configuration"]
        planned = {*configuration["sizes"], *configuration.get("holdout_sizes", [])}
        cells = self.cells
        square = (cells["m"] == cells["n"]) & (cells["k"] == cells["n"]) & (cells["batch"] == 1)
        main = square & (cells["dtype"] == "float32") & cells["n"].isin(planned)
        return pd.Series(SHAPES, cells.index).mask(main | (cells["device"] == CPU), SIZES)

    @cached_property
    def draws(self) -> dict[str, FloatArray]:
        """Bootstrap draws of the medians by quantity ("total", "kernel"), rows as in `cells`."""
        found = {}
        for part in ("total", "kernel"):
            several, column = self.sessions(part), f"{part}_s"
            samples = self._samples(part)
            found[part] = (
                several.draws(part, column) if several else bootstrap_cells(samples, column)
            )
        return found

    def drawn(self, cells: pd.DataFrame, quantity: str) -> FloatArray:
        """Return draws of the medians of some cells alone, named by `CELL`, shape (cells, DRAWS).

        They are other draws than `draws`, and than those of other sources, to be compared with.
        """
        several, groups = self.sessions(quantity), self._groups(quantity)
        keys = several.cells if several else groups.keys
        places = cells[CELL].merge(keys.reset_index(), how="left", on=CELL)["index"].to_numpy()
        seed = f"{self.label} {quantity}"
        if several:
            return several.draws(quantity, seed, places)
        return groups.draws(self._samples(quantity)[f"{quantity}_s"], seed, list(places))

    @property
    def checks(self) -> pd.DataFrame:
        """Checks of this GPU's and its host's CPU's cells, in every session."""
        return self.own(self.recording.checks)

    @property
    def builds(self) -> pd.DataFrame:
        """The cells that were checked, and the build that runs each."""
        return self.checks[[*CELL, "build"]].drop_duplicates(CELL)

    def times(self, quantity: str) -> pd.DataFrame:
        """Return the times of the orders in the tidy form that the published ones have.

        See `published_times` for that. `quantity` is "total" or "kernel". Implementations are named
        ``gpu_VARIANT`` and ``cpu_VARIANT``, the latter of one thread. ``gpu_naive`` is the naive
        kernel in blocks of 32×32, without block size. The index is the row in `cells` and `draws`.
        """
        cells = self.orders.rename(columns=renaming(f"{quantity}_s", "time_s"))
        on_cpu = cells["device"] == CPU
        gpu = cells[~on_cpu & (cells["host_memory"] == self.memory(quantity))]
        baseline = gpu["variant"] == "naive"
        gpu = gpu[~baseline | (gpu["block_size"] == BASELINE_BLOCK)]
        gpu = gpu.assign(
            implementation="gpu_" + gpu["variant"],
            block_size=gpu["block_size"].mask(gpu["variant"] == "naive"),
        )
        cpu = cells[on_cpu & (cells["threads"] == 1).fillna(False)]
        cpu = cpu.assign(implementation="cpu_" + cpu["variant"])
        return pd.concat([cpu, gpu])[_TIMES_COLUMNS]

    def memory(self, quantity: str) -> str | None:
        """Return the host memory of which times of "total" or "kernel" stand where one is shown."""
        kinds = set(self.cells["host_memory"].dropna())
        return next((kind for kind in _MEMORY_ORDER[quantity] if kind in kinds), None)

    def own(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return those rows of one of the recording's tables that are of this GPU and its CPU."""
        return frame[frame["device"].isin([CPU, self.device])]


def _several(samples: pd.DataFrame) -> Sessions | None:
    return Sessions(samples) if samples["session"].nunique() > 1 else None


def published_times(published: pd.DataFrame, table: int) -> pd.DataFrame:
    """Return one published table as tidy times, in seconds, without intervals.

    Columns: implementation, n, block_size (NA where there is none), time_s, time_low_s,
    time_high_s.
    """
    return published[published["table"] == table].reindex(columns=_TIMES_COLUMNS)


def load(paths: Mapping[str, Sequence[Path]]) -> dict[str, Recording]:
    """Read the recordings by id, those of several sessions as one (`analysis.data.sessions`).

    Raises StudyError naming the first that cannot be used.
    """
    for identifier in paths:
        if identifier in (PUBLISHED, TREE):
            raise StudyError(
                f"recording {identifier!r}: this id means the published tables or the cubins of "
                "this tree; choose another"
            )
    found = {
        identifier: together([read(folder) for folder in folders])
        for identifier, folders in paths.items()
    }
    for identifier, recording in found.items():
        checks = recording.checks
        unknown = set(checks.loc[checks["device"] != CPU, "variant"]) - set(VARIANTS)
        kept = {Path(path).stem for path in recording.provenance.get("texts", {})}
        for name in sorted((unknown | set(user_supplied(recording.provenance))) - kept):
            raise StudyError(
                f"recording {identifier!r}: holds {name}, which is not in the catalog; leave the "
                "recording out, or try the kernel again (`gemm-study try`), which keeps its source"
            )
    return found


def sources(recordings: Mapping[str, Recording]) -> list[Source]:
    """Return every GPU recorded, with its host's CPU; a host without GPU is a source of its own.

    Raises StudyError if two get the same label.
    """
    found = [
        Source(label, identifier, device, recording)
        for identifier, recording in recordings.items()
        for label, device in _labels(identifier, recording.provenance)
    ]
    _check_labels((source.recording_id, source.label) for source in found)
    return found


def check_names(paths: Mapping[str, Sequence[Path]]) -> None:
    """Raise StudyError if two sources of recordings that are to be read would get one label.

    A recording that cannot be read is passed over: who reads it names it.
    """
    found = []
    for identifier, folders in paths.items():
        with suppress(RecordingError):
            provenance = read_provenance(folders[0])
            found += [(identifier, label) for label, _ in _labels(identifier, provenance)]
    _check_labels(found)


def _labels(identifier: str, provenance: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    """Return label and device of every source of a recording."""
    devices = [str(each["device"]) for each in provenance["devices"]]
    if len(devices) > 1:
        return [(f"{identifier}-{device}", device) for device in devices]
    return [(identifier, devices[0] if devices else None)]


def _check_labels(found: Iterable[tuple[str, str]]) -> None:
    seen: set[str] = set()
    for identifier, label in found:
        if label in seen:
            raise StudyError(f"recording {identifier!r}: two sources are called {label!r}; rename")
        seen.add(label)


def with_gpu(found: Iterable[Source]) -> list[Source]:
    """Return the sources that have a GPU."""
    return [source for source in found if source.device]


def stale_sources(provenance: Mapping[str, Any], root: Path = ROOT) -> list[str]:
    """Return the measured source files that are gone from `root` or not the same byte for byte."""
    return [
        path
        for path, digest in sorted(provenance["sources"].items())
        if not path.startswith(f"{USER_SUPPLIED}/")  # of which the tree has none
        if not (root / path).is_file() or sha256(root / path) != digest
    ]


def is_live(recording: Recording, root: Path = ROOT) -> bool:
    """Tell whether a recording was made by the workflow here, not user-supplied along in data/."""
    return (root / "results" / "recordings").resolve() in recording.path.resolve().parents


def summary_table(found: list[Source]) -> pd.DataFrame:
    """Return one row a cell measured: `summarise`, build, series, and rates in flop/s.

    A rate is 2·batch·m·n·k over the time; that of integers counts operations. CPU cells stand once
    a recording, with an empty `gpu`.
    """
    frames = []
    labelled_cells = ((source, source.cells.assign(series=source.series)) for source in found)
    for source, cells in once_a_recording(labelled_cells):
        cells = cells.merge(source.builds, how="left", on=CELL, validate="1:1")
        flop = 2.0 * cells[list(SHAPE)].astype(float).prod(axis=1)
        rates = {
            "flop_per_s": flop / cells["total_s"],
            "kernel_flop_per_s": flop / cells["kernel_s"],
        }
        frames.append(labelled(source, cells.assign(**rates)))
    return stacked("summary", frames)


def once_a_recording(
    found: Iterable[tuple[Source, pd.DataFrame]],
) -> Iterator[tuple[Source, pd.DataFrame]]:
    """Yield sources with rows of theirs, those of a CPU with the first of its recording only."""
    seen: set[str] = set()
    for source, rows in found:
        yield source, rows[rows["device"] != CPU] if source.recording_id in seen else rows
        seen.add(source.recording_id)


def labelled(source: Source, rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of a source with its recording and, empty for its CPU, its label as `gpu`."""
    gpu = pd.Series(source.label, rows.index, dtype="string").mask(rows["device"] == CPU)
    return rows.assign(recording=source.recording_id, gpu=gpu)


def recordings_table(found: list[Source], root: Path = ROOT) -> pd.DataFrame:
    """Return one row a source: what it is, when and from what it was measured, whether it is stale.

    The counts are those of the GPU and of its host's CPU together, in all sessions. A source
    without GPU has an empty `gpu`.
    """
    rows = []
    for source in found:
        provenance, sessions = source.recording.provenance, source.recording.sessions
        commits = [session["git"]["commit"] for session in sessions]
        dirty = [session["git"]["dirty"] for session in sessions]
        statuses = source.checks["status"]
        changed = stale_sources(provenance, root)
        rows.append(
            {
                "recording": source.recording_id,
                "gpu": source.label if source.device else None,
                "device": source.device or CPU,
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
                **{f"cells_{s}": int((statuses == s).sum()) for s in STATUSES},
                "stale": bool(changed),
                "stale_sources": ";".join(changed),
            }
        )
    return from_rows("recordings", rows)


def checks_table(recordings: Mapping[str, Recording]) -> pd.DataFrame:
    """Return every planned cell of every recording and the outcome of its check."""
    return stacked("checks", [one.checks.assign(recording=key) for key, one in recordings.items()])


def builds_table(
    recordings: Mapping[str, Recording], built: Iterable[BuildResult] = ()
) -> pd.DataFrame:
    """Return every cubin of every recording and the resources that it uses.

    `built` are those of this tree; they stand under the recording `TREE`.
    """
    tree = _frame("builds.csv", [result.row() for result in built])
    found = {key: recording.builds for key, recording in recordings.items()} | {TREE: tree}
    return stacked("builds", [frame.assign(recording=key) for key, frame in found.items()])


def instructions_table(
    recordings: Mapping[str, Recording], built: Iterable[BuildResult] = ()
) -> pd.DataFrame:
    """Return how often each instruction stands in every cubin of `builds_table`."""
    tree = _frame("instructions.csv", [r for one in built for r in one.instruction_rows()])
    found = {key: recording.instructions for key, recording in recordings.items()} | {TREE: tree}
    frames = [frame.assign(recording=key) for key, frame in found.items()]
    return concatenated([tree.assign(recording=TREE)[:0], *frames])


def _frame(file: str, rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Return rows of one of a recording's files as a frame with its types."""
    return pd.DataFrame(rows, columns=list(TABLES[file])).astype(TABLES[file])


def environment_table(recordings: Mapping[str, Recording]) -> pd.DataFrame:
    """Return the provenance as text, one row a fact: recording, item (dotted path), value.

    Of several sessions each has its rows, under a name of its own (`session_names`). The sources
    and the phases are left out.
    """
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
    """Yield (dotted path, text) of every fact in nested provenance that is known and not empty."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _facts(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for inner in value:
            level = f"{path}.L{inner['level']}" if "level" in inner else path
            yield from _facts(inner, str(inner.get("device", level)))
    elif isinstance(value, list) and value:
        yield path, " ".join(str(item) for item in value)
    elif value not in (None, []):
        yield path, str(value)
