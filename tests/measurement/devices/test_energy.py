"""Energy from the updates of a counter."""

import pytest

from measurement.devices.energy import steps


def test_seconds_and_joules_are_those_between_steps():
    readings = [(0.0, 5.0), (0.1, 5.0), (0.2, 7.0), (0.3, 7.0), (0.4, 11.0), (0.5, 17.0)]
    assert steps([*readings, (0.6, 17.0)]) == pytest.approx((0.3, 10.0))
    for joules in ([], [5.0], [5.0, 5.0, 5.0], [5.0, 5.0, 7.0]):
        assert steps(list(enumerate(joules))) is None, "fewer than two steps"
