"""Energy per product and FLOP per joule."""

import pytest

from analysis.data import recordings as data
from analysis.data.sessions import together
from analysis.kernels.energy import energy_table
from measurement.recording.recording import read
from tests.support.simulated import recorded
from tests.support.simulated_tables import POWER_W

SMALL = {"sizes": (256,), "holdout": (), "samples": 6, "kernel_only": True}


def test_energy_is_power_times_the_time_of_a_launch():
    made = read(recorded(**SMALL))
    table = energy_table(data.sources({"card": made}))
    assert len(table) == len(made.energy) > 10
    row = table.query("variant == 'block' and block_size == 32 and n == 256").iloc[0]
    assert (row["gpu"], row["power_w"], row["idle_power_w"]) == ("card", POWER_W, 100.0)
    assert row["energy_j"] == pytest.approx(POWER_W * row["launch_s"])
    assert row["flop_per_j"] == pytest.approx(2 * 256**3 / row["energy_j"])


@pytest.mark.slow
def test_values_are_medians_over_sessions(gpu_recording):
    sessions = [read(recorded(**SMALL, seed=seed)) for seed in (0, 1)]
    assert len(energy_table(data.sources({"card": together(sessions)}))) == len(sessions[0].energy)
    assert energy_table(data.sources({"card": gpu_recording})).empty, "not measured"
