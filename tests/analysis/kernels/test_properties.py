"""Errors of products compared with those of the library, energy, FLOP per joule."""

from dataclasses import replace

import pandas as pd
import pytest

from analysis.data import recordings as data
from analysis.data.sessions import together
from analysis.kernels.properties import accuracy_table, sustained_table
from measurement.recording.recording import TABLES, read
from tests.support.simulated import FEW, recorded
from tests.support.simulated_tables import CLOCK_HZ, POWER_W

KEY = {"device": "gpu0", "dtype": "float32", "batch": 1, "m": 8, "n": 8, "k": 8}
SMALL = {"sizes": (256,), "holdout": (), "samples": 6, "complete": True, "variants": FEW}


def errors(variant, matrices, worst, block=None, session=0):
    row = KEY | {"variant": variant, "block_size": block, "matrices": matrices}
    return row | {"worst_units": worst, "rms_units": worst / 8, "session": session}


def table(recording, *rows):
    types = TABLES["accuracy.csv"] | {"session": "int64"}
    made = pd.DataFrame(rows, columns=list(types)).astype(types)
    return accuracy_table(data.sources({"card": replace(recording, accuracy=made)}))


def test_errors_of_products_are_maxima_over_sessions_and_compared_with_the_library(gpu_recording):
    rows = [errors("block", "uniform", 12.0, 32), errors("block", "scaled", 5.0, 32)]
    rows.append(errors("cublas_sgemm", "uniform", 6.0))
    found = table(gpu_recording, *rows).set_index(["variant", "matrices"])
    assert tuple(found.loc[("block", "uniform"), ["over_library", "rms_units"]]) == (2, 1.5)
    assert found.loc[("cublas_sgemm", "uniform"), "over_library"] == 1
    assert pd.isna(found.loc[("block", "scaled"), "over_library"]), "not measured with the library"
    assert set(found["gpu"]) == {"card"}
    twice = [errors("block", "uniform", worst, 32, at) for at, worst in enumerate((3.0, 4.0))]
    (row,) = table(gpu_recording, *twice).to_dict("records")
    assert row["worst_units"] == 4
    assert table(gpu_recording).empty


def test_sustained_launches_are_compared_with_kernel_only_times():
    made = read(recorded(**SMALL))
    slower = made.energy.assign(launch_s=made.energy["launch_s"] * 1.25)
    table = sustained_table(data.sources({"card": replace(made, energy=slower)}))
    assert table["sustained_share"].to_numpy() == pytest.approx(0.8, rel=0.01)
    assert set(table["sm_clock_hz"]) == {CLOCK_HZ}
    row = table.iloc[0]
    assert row["sustained_flop_per_s"] == pytest.approx(2 * row["n"] ** 3 / row["launch_s"])


def test_energy_per_product_is_power_times_the_time_of_a_launch(gpu_recording):
    made, again = (read(recorded(**SMALL, seed=seed)) for seed in (0, 1))
    table = sustained_table(data.sources({"card": made}))
    assert len(table) == len(made.energy) > 10
    row = table.query("variant == 'block' and block_size == 32 and n == 256").iloc[0]
    assert (row["gpu"], row["power_w"], row["idle_power_w"]) == ("card", POWER_W, 100.0)
    assert row["energy_j"] == pytest.approx(POWER_W * row["launch_s"])
    assert row["flop_per_j"] == pytest.approx(2 * 256**3 / row["energy_j"])
    both = sustained_table(data.sources({"card": together([made, again])}))
    assert len(both) == len(made.energy), "medians over sessions"
    assert sustained_table(data.sources({"card": gpu_recording})).empty, "not measured"
