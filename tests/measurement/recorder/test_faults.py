"""The recorder with this host's CPU and fake GPUs; faults cost only their cells and no sample."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from base.dictionary import FILES
from base.errors import StudyError
from kernels.catalog.variant import IN_TURN
from measurement.devices import second_check
from measurement.devices.locks import only_run
from measurement.recorder import record as recorder
from measurement.recording import journal, recording
from measurement.sampling import measure as sampling
from measurement.sampling.supervisor import Supervisor
from study.cells import cpu_cells, gpu_cells
from study.config import Study, validate
from tests.support import ROOT, warm
from tests.support.builds import cpu_library
from tests.support.compilers import COUNTS, stand_in
from tests.support.fakes import CONFIG, KERNEL_S, FakeHardware, Fault, make_cubins, record_warm

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("stand_ins")]
SAMPLES = "samples.csv.gz"
_IN_TURN = []


@pytest.fixture
def config():
    return yaml.safe_load(CONFIG)


@pytest.fixture
def study(config):
    return config["study"]


@pytest.fixture
def gpus(tmp_path):
    """Two fake GPUs of one model."""
    (tmp_path / "hardware").mkdir()
    return FakeHardware(tmp_path / "hardware")


def record(config, *arguments):
    """Record with an unvalidated config."""
    return recorder.record(validate(config, "config.yaml"), *arguments)


@pytest.fixture
def cubins(study, tmp_path):
    """Prebuilt cubins of the study."""
    return make_cubins(tmp_path / "cubins", Study.model_validate(study))


def cells_of(frame):
    """Return the cells of a table as tuples, with None for missing values."""
    table = frame[recording.CELL].astype(object)
    return [tuple(row) for row in table.where(table.notna(), None).itertuples(index=False)]


def planned(cells):
    return [tuple(cell.row().values()) for cell in cells]


def test_a_host_without_gpu_can_be_recorded(config, study, gpus, tmp_path, capfd, patch):
    patch(second_check, _CHECKED_SHARE=1.0)  # of some cells, none might be drawn
    out = tmp_path / "new" / "host"
    before = datetime.now(UTC).replace(microsecond=0)
    record(config, "auto", out, None, None, replace(gpus, gpus=0, real_cpu=True))
    read = recording.read(out)
    cells = planned(cpu_cells(Study.model_validate(study), 1))
    assert (cells_of(read.checks), set(read.checks["status"])) == (cells, {"passed"})
    assert (read.checks["worst_error"] <= read.checks["worst_bound"]).all()
    assert sorted(set(cells_of(read.samples)), key=str) == sorted(cells, key=str)
    counts = read.samples.groupby(["variant", "n", "block_size"], dropna=False).size()
    assert (counts == 6).all()
    assert (read.samples["total_s"] > 0).all()
    assert read.samples[["host_s", "h2d_s", "in_run_kernel_s", "d2h_s"]].isna().all(axis=None)
    facts = read.provenance
    dates = (facts["started_utc"], facts["finished_utc"])
    started, finished = (datetime.strptime(date, "%Y-%m-%dT%H:%M:%S%z") for date in dates)
    assert before <= started <= finished <= datetime.now(UTC)
    assert read.samples["time_unix_s"].between(started.timestamp(), finished.timestamp() + 1).all()
    known = {"simulated": False, "devices": [], "configuration": study, "seed": 11, "attempts": 1}
    assert {name: facts[name] for name in known} == known
    phases = ("start", "ceilings", "checking", "sampling", "second_check")
    measured = {(phase["device"], phase["phase"]) for phase in facts["phases"]}
    assert measured == {("cpu", phase) for phase in phases}
    for name in ("builds", "instructions", "kernels", "energy", "cold_starts", "neighbours"):
        assert getattr(read, name).empty, name
    assert capfd.readouterr().out == ""


def test_runs_in_pieces_use_their_fastest_setting(
    config, study, gpus, cubins, tmp_path, monkeypatch
):
    """All variants count as runs in pieces here; a run of `block` ends the worker."""
    monkeypatch.setattr(sampling, "PIECEWISE", (IN_TURN,))
    gpus = replace(gpus, gpus=1, faults=(Fault("crash", number=4), Fault("refused", "naive")))
    recorded = record(config, 0, tmp_path / "r", cubins, None, gpus)
    made, checks = recorded.pieces, recorded.checks
    assert set(made["used"][made["pieces"] == 2]) == {1}
    assert set(made["used"][made["pieces"] == 3]) == {0}
    assert set(made["gpus"]) == {1}
    key = [*recording.KERNEL, "host_memory"]
    cells = made[key].drop_duplicates()
    assert len(made) == 4 * len(cells)
    failed = checks[(checks["status"] == "failed") & (checks["variant"] == "naive")]
    assert set(failed["n"]) == {8}
    assert set(failed["reason"]) == {"too many resources requested for launch"}
    assert not ((cells["variant"] == "naive") & (cells["n"] == 8)).any()
    openings = len(gpus.lines("open gpu0"))
    assert openings > 2
    assert len(gpus.lines("use")) == openings * len(cells)


def test_other_modes_of_the_library_are_recorded_but_not_sustained_launches_of_them(
    config, gpus, cubins, tmp_path
):
    names = ["cublas_sgemm", "cublas_bf16", "cublas_fp16"]
    modes = {"variants": names, "dtypes": ["float32", "bfloat16", "float16"], "block_sizes": []}
    config["study"]["series"].append(modes | {"shapes": [64]})
    config["study"]["energy"] = {"sizes": [8, 64], "length_s": 0.1, "fastest": 2}
    made = record(config, 0, tmp_path / "r", cubins, None, replace(gpus, gpus=1))
    checks = made.checks[made.checks["variant"].isin(names)]
    assert set(zip(checks["variant"], checks["dtype"], strict=True)) == {
        *(("cublas_sgemm", "float32"), ("cublas_bf16", "bfloat16"), ("cublas_fp16", "float16")),
    }
    assert set(checks["status"]) == {"passed"}
    errors = checks.groupby("variant")["worst_error"].max()
    assert errors["cublas_sgemm"] < errors["cublas_fp16"] < errors["cublas_bf16"]
    assert set(made.kernels["variant"]) >= set(names)
    loaded = made.energy.groupby("n")["variant"].agg(list)
    assert len(loaded[8]) == 2
    assert loaded[64] == ["cublas_sgemm"]


@pytest.fixture
def in_turn(config, cubins, tmp_path_factory, patch):
    """A recording of two GPUs and its hardware, made once."""
    patch(second_check, _CHECKED_SHARE=1.0)  # of some cells, none might be drawn
    if not _IN_TURN:
        gpus = FakeHardware(tmp_path_factory.mktemp("in_turn"))
        _IN_TURN[:] = record(config, "auto", gpus.folder / "r", cubins, None, gpus), gpus
    return _IN_TURN


def test_all_gpus_and_their_host_become_one_recording(study, in_turn):
    made, gpus = in_turn
    asked = Study.model_validate(study)
    cells = [*gpu_cells(asked, "gpu0"), *gpu_cells(asked, "gpu1"), *cpu_cells(asked, 1)]
    assert cells_of(made.checks) == planned(cells)
    checks = made.checks.set_index(["device", "variant", "n"]).sort_index()
    refused = checks[checks["status"] != "passed"]
    assert set(refused.index) == {("gpu0", "buffered_row", 70), ("gpu1", "buffered_row", 70)}
    assert set(refused["status"]) == {"not_launchable"}
    assert set(refused["reason"]) == {"needs 70 threads per block, 64 allowed"}
    assert set(checks.loc[("gpu1", "block", 8), "build"]) == {"exact"}
    assert set(checks.loc[("gpu1", "block", 70), "build"]) == {"guarded"}
    passed = made.checks[made.checks["status"] == "passed"]
    assert set(cells_of(made.samples)) == set(cells_of(passed))
    on_gpu = made.samples[made.samples["device"] != "cpu"]
    assert (on_gpu.groupby(recording.CELL, dropna=False).size() == 6).all()
    assert on_gpu["host_s"].isna().all()
    of_series = made.checks[made.checks["variant"] == "bmm_tile"]
    assert set(of_series["dtype"]) == {"int32", "float64"}
    built = ["block", "block", "bmm_tile", "bmm_tile", "buffered_row", "hold", "naive", "naive"]
    built += ["probes", "tensor_probe"]
    assert sorted(made.builds["variant"]) == built
    devices = ["gpu0", "gpu1"]
    assert [line.split()[1] for line in gpus.lines("open gpu")] == [*devices, *devices], "together"
    assert len(gpus.lines("close")) == len(gpus.lines("open"))
    for table, values in (
        (of_series, {"batch": 2, "m": 3, "n": 4, "k": 5}),
        (on_gpu, {"total_s": 4e-3, "in_run_kernel_s": 2e-3, "throttle_reasons": 0}),
        (on_gpu, {"sm_clock_hz": 1_500_000_000}),
        (made.kernels, {"kernel_s": KERNEL_S, "caches": "warm", "sm_clock_hz": 1_500_000_000}),
        (
            made.energy,
            {"energy_j": 500 * KERNEL_S, "idle_power_w": 100, "sm_clock_hz": 1_400_000_000},
        ),
        (made.cold_starts, {"host_memory": "pageable"}),
    ):
        assert {name: set(table[name]) for name in values} == {n: {v} for n, v in values.items()}
    alone = made.kernels.groupby(recording.KERNEL, dropna=False).size()
    assert set(alone) == {6}
    assert len(alone) == 2 * 7, "a kernel's copies do not matter to it"
    assert set(alone.index) == set(on_gpu.groupby(recording.KERNEL, dropna=False).size().index)
    metered = set(zip(made.energy["variant"], made.energy["n"], strict=True))
    assert metered == {(name, 8) for name in ("naive", "block", "buffered_row")}
    assert made.cold_starts.groupby("device").size().to_dict() == {"gpu0": 2, "gpu1": 2}
    assert set(made.ceilings["device"]) == {*devices, "cpu"}
    pairs = made.neighbours.groupby(["device", "n", "host_memory", "neighbours"]).size()
    assert (len(pairs), set(pairs)) == (2 * 2 * 2 * 2, {12})
    phases = [phase["phase"] for phase in made.provenance["phases"] if phase["device"] == "gpu1"]
    of_passes = ["cold_starts", "start", "ceilings", "checking", "sampling"]
    last = ["second_check", "kernels", "energy", "neighbours"]
    assert list(dict.fromkeys(phases)) == [*of_passes, *last]
    facts = made.provenance
    assert [device["device"] for device in facts["devices"]] == ["gpu0", "gpu1"]
    assert (facts["software"]["nvcc"], facts["software"]["driver"]) == ("13.9.7", "600.1")
    measured = [*study["variants"], "bmm_tile"]
    assert {f"kernels/{name}.cu" for name in measured} < set(facts["sources"])
    cores = sorted(os.sched_getaffinity(0))
    for device, core in (("gpu0", cores[-1]), ("gpu1", cores[-2 % len(cores)]), ("cpu", cores[-1])):
        assert {line.split()[-1] for line in gpus.lines(f"run {device} ")} == {str(core)}


def test_gpus_measured_at_once_sample_at_the_same_time(config, gpus, cubins, in_turn, tmp_path):
    gpus = replace(gpus, run_s=3e-3)
    made = record(config, "auto", tmp_path / "r", cubins, None, gpus, True)
    alone = in_turn[0]
    assert not alone.provenance["at_once"]
    assert made.provenance["at_once"]
    for name in ("checks", "samples", "kernels", "energy"):
        rows = [getattr(each, name) for each in (alone, made)]
        counts = [table.groupby(["device", "variant", "n"]).size().to_dict() for table in rows]
        assert counts[0] == counts[1], name
    for found, overlaps in ((alone, False), (made, True)):
        begun = found.samples.groupby("device")["time_unix_s"]
        assert (begun.min()["gpu1"] < begun.max()["gpu0"]) == overlaps
    assert made.kernels["time_unix_s"].min() > begun.max()[["gpu0", "gpu1"]].max(), "they wait"


def test_one_of_two_gpus_is_recorded_under_its_cuda_index(
    config, gpus, cubins, tmp_path, monkeypatch
):
    """Its kernels are short, so several processes time them; it has no energy counter."""
    monkeypatch.setattr(sampling, "_SHORT_S", 1.0)
    config["study"]["protocol"] |= {"samples": 20, "gpu_cell_budget_s": 0.04}
    silent = replace(gpus, has_energy=False)
    made = record(config, 1, tmp_path / "r", cubins, None, silent, True)
    assert set(made.checks["device"]) == {"gpu1", "cpu"}
    assert [device["device"] for device in made.provenance["devices"]] == ["gpu1"]
    assert not made.provenance["at_once"]
    assert len(gpus.lines("open gpu")) == len(gpus.lines("close gpu")) == 5
    assert set(made.kernels.groupby(recording.KERNEL, dropna=False).size()) == {20}
    on_gpu = made.samples[made.samples["device"] == "gpu1"]
    counts = set(on_gpu.groupby(recording.CELL, dropna=False).size())
    assert counts == {10}, "runs of 4 ms, as a pilot of one run shows"
    phases = [row["phase"] for row in made.provenance["phases"] if row["device"] == "gpu1"]
    assert phases.count("pilot") == 1
    assert made.energy.empty


def test_kernels_are_built_for_the_measured_gpus_if_no_cubins_are_given(config, gpus, tmp_path):
    nvcc = stand_in(tmp_path / "toolkit" / "nvcc")
    config["toolchain"] = {"nvcc": str(nvcc)}
    made = record(config, 0, tmp_path / "r", None, None, gpus)
    assert set(made.builds["architecture"]) == {"sm_86"}
    assert set(made.builds["nvcc"]) == {"13.9.7"}
    assert len(made.builds) == 10
    counted = made.instructions.groupby(["variant", "dtype", "build"])["count"].sum()
    assert len(counted) == 7, "all but the instruments"
    assert set(counted) == {sum(one.count for one in COUNTS)}
    assert gpus.lines("open") == ["open gpu0", "open cpu"]


def test_budgets_and_long_runs_limit_the_number_of_samples(config, study, gpus, cubins, tmp_path):
    study["protocol"] |= {"samples": 20}
    study["protocol"] |= {"gpu_cell_budget_s": 29e-3, "cpu_cell_budget_s": 49e-3}
    made = record(config, 0, tmp_path / "r", cubins, None, gpus)  # runs take 4 ms
    counts = made.samples.groupby(recording.CELL, dropna=False).size().groupby("device").agg(set)
    assert counts.to_dict() == {"gpu0": {7}, "cpu": {12}}
    study["protocol"]["single_run_s"] = 1e-3
    made = record(config, 0, tmp_path / "again", cubins, None, gpus)
    assert (made.samples["round"] == 0).all(), "the run of the gate"
    assert not made.samples.duplicated(recording.CELL).any()
    passed = made.checks[made.checks["status"] == "passed"]
    assert set(cells_of(made.samples)) == set(cells_of(passed))


def test_a_recording_that_is_impossible_here_is_refused_before_measuring(
    config, gpus, cubins, tmp_path, monkeypatch
):
    out, no_gpu = tmp_path / "new" / "r", replace(gpus, gpus=0)

    def refusal(config, out, cubins, hardware):
        with pytest.raises(StudyError) as refused:
            record(config, "auto", out, cubins, None, hardware)
        assert "\n" not in str(refused.value)
        return str(refused.value)

    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        assert refusal(config, out, None, no_gpu).startswith("gcc: not found")
    (gpu,) = gpus.select(1)
    with only_run(gpu, gpus.lock_file(gpu), "recording into elsewhere"):
        said = refusal(config, out, None, gpus)
    assert said.startswith("GPU 1 (Stand-in): in use by process ")
    assert said.endswith(", recording into elsewhere; wait for its end or choose another GPU")
    assert not out.parent.exists()
    without_nvcc = config | {"toolchain": {"nvcc": str(tmp_path / "none")}}
    assert "none is not a program" in refusal(without_nvcc, out, None, gpus)
    for suffix in (".cubin", ".json"):
        path = cubins / "sm_86" / f"block-b4-float32-guarded{suffix}"
        path.rename(tmp_path / "away")
        missing = f"{path.with_suffix('.cubin')}: missing, or different"
        assert refusal(config, out, cubins, gpus).startswith(missing)
        (tmp_path / "away").rename(path)
    assert list(out.parent.iterdir()) == []
    (out.parent / "thesis.txt").write_text("years of work")
    said = refusal(config, out.parent, None, no_gpu)
    assert said.startswith(f"{out.parent}: is not empty and not a recording")
    assert [path.name for path in out.parent.iterdir()] == ["thesis.txt"]
    assert gpus.lines() == []


# ---- Faults


def measure(config, folder, cubins, *faults, at_once=False, **options):
    """Record with faulty GPUs; return the recording and the hardware."""
    hardware = FakeHardware(folder, faults, **options)
    return record(config, "auto", folder / "r", cubins, None, hardware, at_once), hardware


def content(made):
    """Return the key of each row of each table, and the result of each check."""
    keys = {name: FILES[name].keys[0] for name in recording.TABLES}
    keys["checks.csv"] += ("build", "status", "reason")
    rows = {name: made.table(name)[list(key)] for name, key in keys.items()}
    return {name: sorted(map(str, table.itertuples(index=False))) for name, table in rows.items()}


# Cells (variant, N), and the fault of each: its kind, and the beginning of its reason.
WRONG = {
    ("block", 8): ("wrong", "1 of 64 elements wrong; worst C(1, 2) = "),
    ("block", 70): ("nan", "1 of 4900 elements wrong; worst C(1, 2) = nan, expected "),
    ("buffered_row", 8): ("unwritten", "8 of 64 elements wrong; worst C(3, 0) = nan, expected "),
    ("naive", 70): ("refused", "too many resources requested for launch"),
}
DEADLY = {
    ("block", 8): ("stopped", "the launch timed out and was terminated"),
    ("block", 70): ("illegal", "an illegal memory access was encountered"),
    ("buffered_row", 8): ("crash", "the measuring process was killed by signal 11"),
    ("naive", 70): ("hang", "no answer within 3 s (study.protocol.hang_limit_s): the process was"),
}


@pytest.mark.parametrize(("faults", "restarts"), [(WRONG, 0), (DEADLY, 4)], ids=["wrong", "deadly"])
def test_faults_at_the_gate_fail_only_their_configurations(
    config, cubins, tmp_path, faults, restarts
):
    config["study"]["host_memory"] = ["pinned"]
    config["study"]["protocol"]["hang_limit_s"] = 3  # also limits the start of a process
    planned = [Fault(kind, *cell) for cell, (kind, _) in faults.items()]
    made, hardware = measure(config, tmp_path, cubins, *planned, gpus=1)
    rows = made.checks[made.checks["device"] == "gpu0"].itertuples()
    found = {(row.variant, row.n): (row.status, row.reason) for row in rows}
    for cell, (_, reason) in faults.items():
        status, said = found.pop(cell)
        assert status == "failed"
        assert said.startswith(reason)
    too_many = ("not_launchable", "needs 70 threads per block, 64 allowed")
    assert found.pop(("buffered_row", 70)) == too_many
    assert set(found) == {("naive", 8), ("bmm_tile", 4)}
    assert {status for status, _ in found.values()} == {"passed"}
    assert len(hardware.lines("open gpu")) == 1 + restarts
    assert set(made.checks.loc[made.checks["device"] == "cpu", "status"]) == {"passed"}
    passed = made.checks[made.checks["status"] == "passed"]
    sampled = made.samples.groupby(recording.CELL, dropna=False).size()
    assert len(sampled) == len(passed)
    assert (sampled >= 6).all()


# Runs are counted per process, so only the first two faults can be in one recording.
WHILE_SAMPLING = {
    "refused": [Fault("refused", number=4), Fault("refused", "naive", 70, number=10)],
    "illegal": [Fault("illegal", number=10)],
    "crash": [Fault("crash", number=10)],
}


@pytest.mark.parametrize("faults", WHILE_SAMPLING.values(), ids=WHILE_SAMPLING)
def test_faults_while_sampling_discard_only_their_cells_samples(config, cubins, tmp_path, faults):
    """Run 1 is the check, runs 2 to 7 are the pilot, then samples follow."""
    config["study"]["host_memory"] = ["pinned"]
    made, _ = measure(config, tmp_path, cubins, *faults, gpus=1)
    for fault in faults:
        checks, samples = (
            table[(table["variant"] == fault.variant) & (table["n"] == fault.n)]
            for table in (made.checks, made.samples)
        )
        assert set(checks["status"]) == {"failed"}
        assert set(checks["build"]) == {"exact" if fault.n == 8 else "guarded"}
        assert samples.empty
    assert set(made.samples["variant"]) == {"naive", "buffered_row", "block", "blocked", "bmm_tile"}


def test_a_lost_device_ends_the_recording_but_all_samples_are_kept(config, cubins, tmp_path):
    """The last line is cut off meanwhile, and the clock is set back."""
    with pytest.raises(StudyError) as lost:
        measure(config, tmp_path, cubins, Fault("lost", number=10), gpus=1)
    said = str(lost.value)
    assert said.startswith("gpu0: lost after gpu0 block B=4 N=8 ")
    assert "rerun the same command when the device works again" in said
    assert "\n" not in said
    assert not (tmp_path / "r").exists()
    (tmp_path / "lost").unlink()
    partial = tmp_path / "r.partial"
    journal_file, header = partial / "journal.jsonl", partial / "header.json"
    kept = journal_file.read_bytes()
    assert kept.count(b'"cold_starts.csv"') >= 2
    other = {**config, "study": config["study"] | {"seed": 12}}
    with pytest.raises(
        StudyError,
        match=r"seed was 11, is 12; restore .* rm -r /.*r\.partial$",
    ):
        measure(other, tmp_path, cubins, gpus=1)
    with pytest.raises(StudyError, match=r"study\.seed was 11, is 12; GPUs was .* restore"):
        measure(other, tmp_path, cubins, gpus=2)
    assert journal_file.read_bytes() == kept
    journal_file.write_bytes(kept[: kept.rstrip(b"\n").rfind(b"\n") + 25])
    facts = json.loads(header.read_text())
    facts["facts"]["started_utc"] = "2099-01-01T00:00:00Z"
    header.write_text(json.dumps(facts))
    made, _ = measure(config, tmp_path, cubins, gpus=1)
    assert set(made.checks["status"]) == {"passed", "not_launchable"}
    assert made.provenance["attempts"] == 2
    dates = [made.provenance["started_utc"], made.provenance["finished_utc"]]
    assert dates == sorted(dates)
    assert datetime.fromisoformat(dates[1]).year < 2099
    assert not made.samples.duplicated([*recording.CELL, "round"]).any()
    assert (made.samples.groupby(recording.CELL, dropna=False).size() == 6).all()
    assert (made.samples["total_s"] > 0).all()
    assert not (tmp_path / "r.partial").exists()


def start_warm(folder, cubins):
    """Record in a forked process without imports."""
    process = warm.CONTEXT.Process(target=record_warm, args=(folder, folder / "r", cubins))
    process.start()
    return process


@pytest.mark.parametrize("kills", [2, pytest.param(6, marks=pytest.mark.exhaustive)])
def test_a_killed_recorder_loses_no_sample_and_measures_none_twice(
    cubins, in_turn, tmp_path, kills
):
    folder = tmp_path / "killed"
    folder.mkdir()
    path = folder / "r.partial" / "journal.jsonl"
    rng = random.Random(5)
    whole = content(in_turn[0])
    rows = {name: len(rows) for name, rows in whole.items()}
    counted = (SAMPLES, "checks.csv", "kernels.csv.gz", "energy.csv")
    lines = sum(rows[name] for name in counted) + rows["neighbours.csv"] // 2
    # Each attempt is killed when the journal has this number of lines.
    goals = sorted(rng.sample(range(lines // 9, lines), kills))
    kept = b""
    for goal in goals:
        process = start_warm(folder, cubins)
        while not path.exists() or path.read_bytes().count(b"\n") < goal:
            assert process.is_alive(), "its error is printed above"
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.01))
        process.kill()
        process.join()
        now = path.read_bytes()
        assert now.startswith(kept), "a line on file is gone"
        kept = now[: now.rfind(b"\n") + 1]
    process = start_warm(folder, cubins)
    process.join(120)
    assert process.exitcode == 0
    made = recording.read(folder / "r")
    assert content(made) == whole
    assert 1 < made.provenance["attempts"] <= kills + 1
    assert not (folder / "r.partial").exists()
    written = [json.loads(line) for line in kept.splitlines()]
    stamps = {row["time_unix_s"] for name, rows in written if name == SAMPLES for row in rows}
    assert len(stamps) > 50
    checks = [row for name, rows in written for row in rows if "status" in row]
    checked = [tuple(row[key] for key in recording.CELL) for row in checks]
    assert len(checked) == len(set(checked)), "a cell was checked twice"
    assert stamps <= set(made.samples["time_unix_s"])


def test_the_recording_keeps_the_time_of_an_interrupted_phase(config, tmp_path, patch):
    def interrupted(*_):
        raise KeyboardInterrupt

    patch(Supervisor, sample=interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure(config, tmp_path, None, gpus=0)
    lines = (tmp_path / "r.partial" / "journal.jsonl").read_text().splitlines()
    rows = [row for name, rows in map(json.loads, lines) if name == journal.PHASES for row in rows]
    assert [row["phase"] for row in rows] == ["start", "ceilings", "checking", "sampling"]


def test_gpus_measured_at_once_resume_where_they_were_interrupted(
    config, cubins, in_turn, tmp_path
):
    with pytest.raises(StudyError, match=r"^gpu\d: lost after "):
        measure(config, tmp_path, cubins, Fault("lost", number=10), at_once=True)
    kept = (tmp_path / "r.partial" / "journal.jsonl").read_bytes()
    (tmp_path / "lost").unlink()
    with pytest.raises(StudyError, match=r"""order of GPUs was "at once", is "in turn"; restore"""):
        measure(config, tmp_path, cubins)
    made, _ = measure(config, tmp_path, cubins, at_once=True)
    assert made.provenance["attempts"] == 2
    assert kept.count(b'"samples.csv.gz"') > 0
    assert not made.samples.duplicated([*recording.CELL, "round"]).any()
    assert content(made)["kernels.csv.gz"] == content(in_turn[0])["kernels.csv.gz"]


def test_a_second_recorder_for_the_same_folder_is_refused(config, cubins, tmp_path):
    process = start_warm(tmp_path, cubins)
    try:
        while not (tmp_path / "r.partial" / "journal.jsonl").exists():
            assert process.is_alive(), "its error is printed above"
            time.sleep(0.01)
        with pytest.raises(StudyError, match="r: another process is recording there; wait for its"):
            measure(config, tmp_path, cubins, gpus=0)
        process.join(60)
        assert process.exitcode == 0
    finally:
        process.kill()
    assert set(recording.read(tmp_path / "r").checks["status"]) == {"passed", "not_launchable"}


def test_the_worker_process_ends_if_the_recorder_is_killed(cubins, tmp_path):
    command = [sys.executable, "-m", "tests.support.fakes", tmp_path, tmp_path / "r", cubins]
    process = subprocess.Popen(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)})
    log = tmp_path / "log"
    # The recorder logs cold starts itself, before it starts a worker.
    while not (log.exists() and "run gpu" in log.read_text()):
        time.sleep(0.01)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert children
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < deadline, "a worker outlives its recorder"
        time.sleep(0.05)


def test_a_full_disk_is_a_one_line_error_and_loses_no_sample(config, cubins, tmp_path, monkeypatch):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def fill_the_disk(*arguments):
        library = cpu_library(*arguments)
        resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, limits[1]))  # maximum size of a file
        return library

    try:
        with monkeypatch.context() as patch:
            patch.setattr(recorder, "build_library", fill_the_disk)
            with pytest.raises(StudyError, match="all samples so far are kept: free disk space"):
                measure(config, tmp_path, cubins, gpus=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert not (tmp_path / "r").exists()
    kept = (tmp_path / "r.partial" / "journal.jsonl").read_bytes()
    assert len(kept) <= 12_000
    made, _ = measure(config, tmp_path, cubins, gpus=1)
    assert not made.samples.duplicated([*recording.CELL, "round"]).any()
    assert set(made.checks["status"]) == {"passed", "not_launchable"}
    assert made.provenance["attempts"] == 2


def test_a_recording_without_measurements_leaves_no_file(config, cubins, tmp_path):
    (tmp_path / "lost").touch()
    config["study"]["protocol"]["cold_starts"] = 0
    with pytest.raises(StudyError, match="gpu0: cannot create a context"):
        measure(config, tmp_path, cubins)
    left = {"cubins", "gpu0.lock", "gpu1.lock", "lost"}
    assert {path.name for path in tmp_path.iterdir()} == left


def test_a_journal_is_reopened_only_by_the_same_task(tmp_path):
    header = {"task": {"study": 1}, "facts": {}}
    with journal.open_journal(tmp_path / "r", header) as first:
        first.add(journal.PHASES, {"device": "cpu", "phase": "start", "wall_s": 1.0, "busy_s": 0.0})
    assert list(tmp_path.iterdir()) == []
    with journal.open_journal(tmp_path / "r", header) as second:
        rows = second.rows
        assert (len(rows[journal.ATTEMPTS]), rows[journal.PHASES]) == (1, [])
        second.add(journal.PHASES, {"device": "gpu0"})
        with (tmp_path / "r.partial" / "journal.jsonl").open("a") as file:
            file.write(json.dumps(["kernels.csv.gz", [{"kernel_s": 1e-9}]]) + "\n")
        with pytest.raises(StudyError, match=r"journal.jsonl: another process changed it; delete"):
            second.add(journal.PHASES, {"device": "gpu0"})
