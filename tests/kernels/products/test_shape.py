"""Shapes of products: text, sizes, and invalid texts."""

import pytest

from base.errors import StudyError
from kernels.products.shape import Shape


@pytest.mark.parametrize(
    ("edges", "said", "texts"),
    [
        ((1, 512, 512, 512), "512", ["512", 512]),
        ((1, 17, 33, 65), "17x33x65", ["17x33x65", "1x17x33x65"]),
        ((1, 1, 512, 3), "1x512x3", ["1x512x3"]),
        ((3, 17, 33, 65), "3x17x33x65", ["3x17x33x65"]),
        ((1, 8, 8, 8), "8", ["8x8x8", "1x8x8x8", "08"]),
        ((2, 8, 8, 8), "2x8x8x8", ["2x8x8x8"]),
    ],
)
def test_a_shape_is_parsed_from_its_text(edges, said, texts):
    for shape in map(Shape.parse, texts):
        assert (shape.batch, shape.m, shape.k, shape.n) == edges
        assert str(shape) == said
        assert shape.is_square == ("x" not in said)


NO_SHAPES = "x 0 -1 1.5 512x 17x33 1x0x1 0x1x1x1 1x2x3x4x5 17X33X65 1e3 ² 0x10"


@pytest.mark.parametrize("text", [0, -4, 1.5, True, None, "", " 8", "8\n", *NO_SHAPES.split()])
def test_an_invalid_shape_is_a_one_line_error(text):
    with pytest.raises(StudyError) as refused:
        Shape.parse(text)
    said = str(refused.value)
    assert said.startswith(f"shape {text!r}: not valid; use N, MxKxN or BATCHxMxKxN with whole")
    assert "\n" not in said


def test_elements_and_operations_of_a_shape_equal_hand_counts():
    assert Shape.square(7) == Shape(1, 7, 7, 7)
    assert Shape.square(7).is_square
    for other in (Shape(2, 7, 7, 7), Shape(1, 6, 7, 7), Shape(1, 7, 6, 7), Shape(1, 7, 7, 6)):
        assert not other.is_square
    shape = Shape.parse("3x5x7x11")  # A is 5×7, B 7×11, C 5×11
    assert (shape.a_elements, shape.b_elements, shape.c_elements) == (105, 231, 165)
    assert shape.flop == 2 * 3 * 5 * 7 * 11
    assert shape.largest == 11
    assert Shape.square(4096).flop == 2 * 4096**3
    assert Shape(100, 2, 3, 4).largest == 4, "the batch is not an edge"
