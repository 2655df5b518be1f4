"""Prediction intervals contain 93 to 98 % of the medians at held-out sizes."""

import pytest

from analysis.data import recordings
from analysis.decide.predictions import decision_tables
from base.paths import ROOT
from benchmarks.prediction_coverage import coverage


@pytest.mark.slow
def test_intervals_of_an_h100_contain_93_to_98_percent_at_held_out_sizes():
    found = recordings.load({"h100": [ROOT / "data" / "recordings" / "h100-sxm"]})
    tables = decision_tables(recordings.sources(found))
    ((label, count, inside, width),) = coverage(tables["predictions"])
    assert (label, count) == ("h100", 142)
    assert 0.93 <= inside <= 0.98
    assert 0.1 < width < 0.2, "half of the median interval, as a share of the time"
