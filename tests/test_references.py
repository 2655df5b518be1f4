"""References on disk: found by the content of the matrices, never trusted when damaged."""

import numpy as np
import pytest

from measurement import references
from measurement.matrices import Inputs, reference
from measurement.references import References


@pytest.fixture
def computed(monkeypatch):
    """The orders that were computed, not read."""
    orders = []

    def counting(a, b):
        orders.append(len(a))
        return reference(a, b)

    monkeypatch.setattr(references, "reference", counting)
    return orders


def test_a_reference_is_computed_once_and_then_read(tmp_path, computed):
    inputs = Inputs([12], seed=1)
    first = [References(inputs, tmp_path).of(n) for n in (5, 12)]
    again = [References(inputs, tmp_path).of(n) for n in (5, 12)]
    assert computed == [5, 12]
    for n, kept, read in zip((5, 12), first, again, strict=True):
        for one, other, wanted in zip(kept, read, reference(*inputs.pair(n)), strict=True):
            np.testing.assert_array_equal(one, wanted)
            np.testing.assert_array_equal(other, wanted)


def test_the_last_one_stays_in_memory(tmp_path, computed, monkeypatch):
    kept = References(Inputs([12], seed=1), tmp_path)
    expected, _ = kept.of(12)
    monkeypatch.setattr(references.np, "load", lambda _: pytest.fail("read again"))
    assert kept.of(12)[0] is expected


def test_other_matrices_have_other_references(tmp_path, computed):
    References(Inputs([6], seed=1), tmp_path).of(6)
    References(Inputs([6], seed=2), tmp_path).of(6)
    assert computed == [6, 6]
    References(Inputs([40], seed=1), tmp_path).of(6)
    assert computed == [6, 6], "the matrices of an order do not depend on the largest"


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-8],
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: b"no array" + data,
    ],
    ids=["cut", "one array", "empty", "garbage"],
)
def test_a_damaged_file_is_computed_anew_and_replaced(tmp_path, computed, damage):
    inputs = Inputs([6], seed=1)
    wanted = References(inputs, tmp_path).of(6)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    for one, other in zip(References(inputs, tmp_path).of(6), wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    assert computed == [6, 6]
    assert file.read_bytes() == whole


def test_a_file_of_another_order_is_not_used(tmp_path, computed):
    inputs = Inputs([6], seed=1)
    References(inputs, tmp_path).of(6)
    (six,) = tmp_path.iterdir()
    References(inputs, tmp_path).of(5)
    (five,) = (path for path in tmp_path.iterdir() if path != six)
    five.write_bytes(six.read_bytes())
    assert References(inputs, tmp_path).of(5)[0].shape == (5, 5)


def test_a_cache_that_cannot_be_written_costs_time_only(tmp_path, computed):
    (tmp_path / "file").write_text("")
    expected, _ = References(Inputs([6], seed=1), tmp_path / "file" / "cache").of(6)
    assert expected.shape == (6, 6)
