"""What a product takes of energy, and the operations for it."""

import pytest

from analysis.data import recordings as data
from analysis.data.sessions import together
from analysis.kernels.energy import energy_table
from measurement.recording.recording import read
from tests.support.simulated import recorded
from tests.support.simulated_tables import POWER_W

SMALL = {"sizes": (256,), "holdout": (), "samples": 6, "held": True}


def test_energy_is_power_over_the_time_of_a_product():
    made = read(recorded(**SMALL))
    table = energy_table(data.sources({"card": made}))
    assert len(table) == len(made.energy) > 10
    row = table[(table["variant"] == "block") & (table["block_size"] == 32)]
    row = row[row["n"] == 256].iloc[0]
    assert (row["gpu"], row["power_w"], row["idle_power_w"]) == ("card", POWER_W, 100.0)
    assert row["energy_j"] == pytest.approx(POWER_W * row["launch_s"])
    assert row["flop_per_j"] == pytest.approx(2 * 256**3 / row["energy_j"])


@pytest.mark.slow
def test_of_several_sessions_the_medians_stand(gpu_recording):
    sessions = [read(recorded(**SMALL, seed=seed)) for seed in (0, 1)]
    table = energy_table(data.sources({"card": together(sessions)}))
    assert len(table) == len(sessions[0].energy)
    assert energy_table(data.sources({"card": gpu_recording})).empty, "it was not read"
