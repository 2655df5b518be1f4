"""All tables: recordings computed separately, listed in the given sequence."""

import pandas as pd
import pytest

from analysis import tables
from base.errors import StudyError
from tests.support.report_data import PUBLISHED, STATEMENTS, SYSTEMS, published_once
from tests.support.simulated import FEW, recorded

pytestmark = pytest.mark.slow

SMALL = {"gpus": 0, "sizes": (256, 512), "holdout": ()}


def compute(paths):
    with published_once():
        known = tables.Published.read(PUBLISHED, SYSTEMS, STATEMENTS)
        return tables.compute(paths, known, [], [], str)  # progress that is ignored


@pytest.fixture(scope="module")
def paths():
    """A large recording before a small one, which finishes first."""
    return {"z": [recorded(**SMALL, samples=60)], "a": [recorded(**SMALL, samples=8, seed=5)]}


def test_tables_of_recordings_are_computed_separately_and_kept_in_the_given_order(paths):
    both = compute(paths)
    for name in ("recordings", "summary", "cpu_hosts", "predicted_times", "environment"):
        assert list(dict.fromkeys(both[name]["recording"])) == ["z", "a"], name
    assert list(dict.fromkeys(both["source_tables"]["source"])) == ["published", "z", "a"]
    for name in ("ladder", "roofline", "speedups", "transfer_points", "transfers"):
        assert both[name].empty, "both are hosts without a GPU"
    single = compute({"a": paths["a"]})
    for name in ("summary", "checks", "predicted_times", "cpu_ladder", "telemetry", "claims"):
        rows, own = (made[name][made[name]["recording"].isin(["a"])] for made in (both, single))
        rows, own = rows.reset_index(drop=True), own.reset_index(drop=True)
        pd.testing.assert_frame_equal(rows, own, check_dtype=False)


def test_several_sessions_are_combined_in_all_tables():
    small = {"sizes": (256,), "holdout": (), "samples": 8, "variants": FEW}
    sessions = [recorded(**small), recorded(**small, seed=6, cpu_model="Another CPU")]
    made = compute({"card": sessions})
    (row,) = made["recordings"].to_dict("records")
    assert (row["recording"], row["gpu"], row["sessions"]) == ("card", "card", 2)
    assert set(made["summary"]["samples"]) == {16}
    assert list(made["cpu_hosts"]["cpu_model"]) == ["Simulated CPU", "Another CPU"]
    assert set(made["environment"]["recording"]) == {"card.0", "card.1"}
    counts = made["checks"]["session"].value_counts()
    assert counts[0] == counts[1] > 0
    for name in ("machine_code", "ladder", "speedups", "ceilings"):
        keys = made[name].select_dtypes(exclude="float")
        assert (keys.empty, keys.duplicated().any()) == (False, False), name


def test_unreadable_recordings_and_duplicate_devices_are_refused(paths, tmp_path):
    with pytest.raises(StudyError, match=f"recording {tmp_path}: MANIFEST"):
        compute({"broken": [tmp_path]})
    pair = recorded(gpus=2, sizes=(256,), holdout=(), samples=6, variants=FEW)
    with pytest.raises(StudyError, match=r"'pair-gpu0'.*the label 'pair-gpu0' is already used"):
        compute({"pair": [pair], "pair-gpu0": paths["a"]})
