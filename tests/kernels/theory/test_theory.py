"""Totals of accesses by hand; bank conflicts of the kernels."""

import pytest

from kernels.catalog.entries import VARIANTS
from kernels.catalog.product import Product
from kernels.products.shape import Shape
from kernels.theory.cost import OPERATIONS, SharedAccess, Total, alike, along_x, totals

WARP = (32, 1)
KERNELS = {
    name: entry for name, entry in VARIANTS.items() if entry.kernel_name == name and entry.theory
}


@pytest.mark.parametrize(
    ("element", "element_bytes", "vector", "wavefronts", "ideal"),
    [
        (along_x, 4, 1, 1, 1),
        (alike, 4, 1, 1, 1),
        (lambda x, y: 32 * x, 4, 1, 32, 1),  # down a column of a tile
        (lambda x, y: 33 * x, 4, 1, 1, 1),  # the same, padded
        (along_x, 8, 1, 2, 2),  # doubles: half a warp at a time
        (lambda x, y: 17 * x, 8, 1, 2, 2),
        (lambda x, y: 4 * x, 4, 4, 4, 4),  # float4: a quarter
        (alike, 4, 4, 2, 2),  # all in pairs: half a warp at a time
        (lambda x, y: x // 2 * 4, 4, 4, 2, 2),  # each as its neighbour
        (lambda x, y: (x % 2 + x // 4 * 2) * 4, 4, 4, 2, 2),  # as the one two further
        (lambda x, y: x // 4 * 4 * (x < 16) + x * 4 * (x >= 16), 4, 4, 3, 3),  # the first half only
        (lambda x, y: x // 2 * 4 * (x % 8 < 4) + x * 4 * (x % 8 > 3), 4, 4, 6, 4),  # half in pairs
        (lambda x, y: 8 * x, 4, 4, 8, 4),  # words 0–3 and 32–35 of a quarter in the same banks
        (lambda x, y: x // 16 * 8 + x % 2 * 4, 4, 4, 2, 2),  # two of eight words each, in pairs
        (lambda x, y: x % 2 * 4 * 128 + x // 2, 4, 1, 2, 1),  # two rows, 512 words apart
        (lambda x, y: x % 2 * 4 * 132 + x // 2, 4, 1, 1, 1),  # 528: 16 banks further
    ],
)
def test_a_request_needs_the_expected_wavefronts(element, element_bytes, vector, wavefronts, ideal):
    access = SharedAccess("shared_load", element, element_bytes, 1, vector)
    assert totals([access], WARP, 1)["shared_load"] == Total(32, 1, wavefronts, ideal)


def totals_of(name, n, block):
    """Return the totals of a product of square matrices."""
    sizes = KERNELS[name].block_sizes
    if sizes is None or block not in sizes:
        block = sizes and sizes[0]
    product = Product(name, "float32", Shape.square(n), block)
    launch = product.launch
    return totals(product.accesses(), launch.threads, launch.blocks)


@pytest.mark.parametrize("b", [16, 32])
def test_theory_gives_the_bank_conflicts_that_the_sources_state(b):
    # Wavefronts over their minimum, of loads and of stores.
    half = b if b == 32 else 8
    expected = {"block_strided": (1, half), "tile_uncoalesced": (1, (1 + half) / 2)}
    expected["tile_transposed_b"] = ((1 + half) / 2, 1)
    if b == 16:  # two rows of 17 words: the first word of the one and the last of the other
        expected["tile_conflict_free"] = (1, (1 + 2) / 2)
    else:  # loads: A's 2 of 2, in pairs, B's 8 of 4; stores: A's four 2 of 1, B's 4 of 4
        register_tiles = ("register_tile", "register_tile_double_buffered")
        expected |= dict.fromkeys(register_tiles, ((2 + 8) / 6, (4 * 2 + 4) / 8))
    for name, entry in KERNELS.items():
        if b == 16 and not entry.block_sizes:
            continue
        found = totals_of(name, 256, b)
        for operation, ratio in zip(OPERATIONS[2:], expected.get(name, (1, 1)), strict=True):
            total = found[operation]
            assert total.transactions == ratio * total.ideal, (name, operation)


@pytest.mark.parametrize("tile", KERNELS["sgemm_top"].block_sizes)
@pytest.mark.parametrize("n", [384, 388, 390])
def test_no_tile_shape_has_bank_conflicts(tile, n):
    found = totals_of("sgemm_top", n, tile)
    for operation in OPERATIONS[2:]:
        assert found[operation].transactions == found[operation].ideal > 0, operation
