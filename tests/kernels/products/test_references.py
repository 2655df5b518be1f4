"""References on disk: found by the content of the matrices, never trusted when damaged."""

import numpy as np
import pytest

from kernels.products import references
from kernels.products.matrices import Inputs, reference
from kernels.products.references import References
from kernels.products.shape import Shape


@pytest.fixture
def computed(monkeypatch):
    problems = []

    def counting(a, b):
        problems.append((a.dtype.name, str(Shape(*a.shape[:2], b.shape[2], a.shape[2]))))
        return reference(a, b)

    monkeypatch.setattr(references, "reference", counting)
    return problems


def of(inputs, folder, shape, dtype="float32"):
    return References(inputs, folder).of(dtype, Shape.parse(shape))


def squares(*sizes, seed=1):
    return Inputs([("float32", Shape.square(n)) for n in sizes], seed)


PROBLEMS = [("float32", "5"), ("float32", "2x3x5x4"), ("int32", "2x3x5x4"), ("float64", "12")]


def test_a_reference_is_computed_once_and_then_read_from_the_cache(tmp_path, computed):
    inputs = Inputs([(dtype, Shape.parse(shape)) for dtype, shape in PROBLEMS], seed=1)
    first = [of(inputs, tmp_path, shape, dtype) for dtype, shape in PROBLEMS]
    again = [of(inputs, tmp_path, shape, dtype) for dtype, shape in PROBLEMS]
    assert computed == PROBLEMS
    for (dtype, shape), kept, read in zip(PROBLEMS, first, again, strict=True):
        pair = inputs.pair(dtype, Shape.parse(shape))
        for one, other, wanted in zip(kept, read, reference(*pair), strict=True):
            np.testing.assert_array_equal(one, wanted)
            np.testing.assert_array_equal(other, wanted)


def test_matrices_of_equal_bytes_but_other_shape_have_another_reference(tmp_path, computed):
    inputs = squares(6)
    for _ in range(2):  # A of 12 elements and B of 18
        assert of(inputs, tmp_path, "2x6x3")[0].shape == (1, 2, 3)
        assert of(inputs, tmp_path, "4x3x6")[0].shape == (1, 4, 6)
        assert of(inputs, tmp_path, "2x2x3x3")[0].shape == (2, 2, 3)
    assert computed == [("float32", shape) for shape in ("2x6x3", "4x3x6", "2x2x3x3")]


def test_other_matrices_get_another_cached_reference(tmp_path, computed):
    of(squares(6), tmp_path, 6)
    of(squares(6, seed=2), tmp_path, 6)
    assert computed == [("float32", "6")] * 2
    of(squares(40), tmp_path, 6)
    assert len(computed) == 2, "the matrices of a shape do not depend on the largest"


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
def test_a_damaged_cache_file_is_computed_again_and_replaced(tmp_path, computed, damage):
    inputs = squares(6)
    wanted = of(inputs, tmp_path, 6)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    for one, other in zip(of(inputs, tmp_path, 6), wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    assert computed == [("float32", "6")] * 2
    assert file.read_bytes() == whole


def test_a_cache_file_of_another_shape_is_ignored_and_writing_may_fail(tmp_path, computed):
    inputs = squares(6)
    of(inputs, tmp_path, 6)
    (six,) = tmp_path.iterdir()
    of(inputs, tmp_path, 5)
    (five,) = (path for path in tmp_path.iterdir() if path != six)
    five.write_bytes(six.read_bytes())
    assert of(inputs, tmp_path, 5)[0].shape == (1, 5, 5)
    (tmp_path / "file").write_text("")
    expected, _ = of(squares(6), tmp_path / "file" / "cache", 6)
    assert expected.shape == (1, 6, 6)
