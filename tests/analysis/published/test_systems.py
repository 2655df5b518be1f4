"""The list of systems, and the limits of GPUs."""

from dataclasses import asdict, replace

import pandas as pd
import pytest

from analysis.data import recordings as data
from analysis.kernels.properties import limits_table
from analysis.published.systems import read, systems_table
from base.errors import StudyError
from measurement.recording import recording
from tests.support.report_data import SYSTEMS
from tests.support.simulated import recorded


def systems_of(recordings):
    found = data.sources(recordings)
    frames = {"recordings": data.recordings_table(found), "summary": data.summary_table(found)}
    frames["checks"] = data.checks_table(recordings)
    return systems_table(read(SYSTEMS), frames)


def test_every_system_has_a_row_with_its_gate_and_best_rate(gpu_recording, cpu_recording):
    systems = systems_of({"card": gpu_recording, "host": cpu_recording})
    listed = read(SYSTEMS)
    assert len(listed) > 25
    for system in listed:
        rows = systems[(systems["source"] == system.source) & (systems["system"] == system.system)]
        on_cpu = system.side == "cpu"
        assert list(rows["recording"]) == (["card", "host"] if on_cpu else ["card"])
        assert rows["gpu"].isna().all() == on_cpu
        assert {key: rows.iloc[0][key] for key in asdict(system)} == asdict(system)
    two = recording.read(recorded(gpus=2, sizes=(256,), holdout=(), samples=1))
    table = systems_of({"two": two})
    assert list(table.loc[table["system"] == "CPU naive", "recording"]) == ["two"]
    assert list(table.loc[table["system"] == "naive", "gpu"]) == ["two-gpu0", "two-gpu1"]
    row = systems[systems["variant"] == "buffered_row"].iloc[0]
    assert (row["cells_passed"], row["cells_not_launchable"]) == (6, 4)
    unmeasured = systems_of({})  # every system is named once
    assert len(unmeasured) == len(listed)
    assert unmeasured["best_flop_per_s"].isna().all()
    row = systems[systems["system"] == "block_strided"].iloc[0]
    assert row["listed_in"] == "kernels/block_strided.cu"
    checks = gpu_recording.checks[gpu_recording.checks["variant"] == "block_strided"]
    assert (row["cells_passed"], row["cells_failed"]) == (len(checks) - 2, 2)
    (source,) = data.sources({"card": gpu_recording})
    cells = source.cells[source.cells["variant"] == "block_strided"]
    rates = 2 * cells["n"].astype(float) ** 3 / cells["kernel_s"]
    assert (row["best_flop_per_s"], row["n"]) == (rates.max(), cells.loc[rates.idxmax(), "n"])
    cpu = systems[systems["system"] == "CPU cache-blocked"].iloc[0]
    cells = source.cells[source.cells["variant"] == "blocked"]
    cells = cells[cells["device"] == "cpu"]
    fastest = (cells["n"].astype(float) ** 3 / cells["total_s"]).idxmax()
    assert (cpu["listed_in"], cpu["n"]) == ("cpu_reference/blocked.c", cells.at[fastest, "n"])
    packed = systems[systems["variant"] == "packed"].iloc[0]
    assert (packed["threads"], packed["listed_in"]) == (4, "cpu_reference/packed.c")
    library = systems[systems["variant"] == "cublas_sgemm"].iloc[0]
    assert library["listed_in"] == "cuBLAS SGEMM"
    padded = systems[systems["system"] == "zero padding"].iloc[0]
    assert padded["listed_in"] == "kernels/block.cu"


def test_a_variant_without_catalog_entry_is_named(tmp_path):
    for line, words in (
        ("gpu,nave", "gpu 'nave' is not in"),
        ("cpu,block", "cpu 'block' is not in"),
        ("tpu,naive", "tpu 'naive' is not in the catalog"),
        ("gpu,naive,more", "is not in the catalog"),
    ):
        (tmp_path / "systems.csv").write_text(f"source,system,side,variant\nV,naive,{line}\n")
        with pytest.raises(StudyError, match=words):
            read(tmp_path / "systems.csv")
    with pytest.raises(StudyError, match=r"no\.csv: No such file .*; restore it"):
        read(tmp_path / "no.csv")


def test_documented_limits_are_compared_with_the_driver(gpu_recording, cpu_recording):
    found = data.sources({"card": gpu_recording, "host": cpu_recording})
    limits = limits_table(found).set_index("limit")
    assert set(limits["gpu"]) == {"card"}
    threads = limits.loc["threads per multiprocessor"]
    assert (threads["driver_value"], threads["agree"]) == (2048, True)
    registers = limits.loc["registers per thread"]
    assert pd.isna([registers["driver_value"], registers["agree"]]).all(), "no driver says it"
    cache = limits.loc["L2 cache"]
    assert cache["driver_value"] == 52428800
    assert pd.isna(cache["agree"])
    (device,) = gpu_recording.provenance["devices"]
    device = device | {"limits": {"max_threads_per_block": 512, "warp_size": 32}}

    def of_capability(text):
        devices = [device | {"compute_capability": text}]
        made = replace(gpu_recording, provenance=gpu_recording.provenance | {"devices": devices})
        return limits_table(data.sources({"a": made})).set_index("limit")

    assert of_capability("9.9")["agree"].isna().all()
    assert not of_capability("9.0").loc["threads per block", "agree"]
