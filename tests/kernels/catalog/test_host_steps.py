"""Host steps: transposing, padding, cropping, and the matrices that a run copies."""

import numpy as np

from kernels.catalog.host_steps import PADDED, TRANSPOSED_B
from kernels.products.matrices import Inputs
from kernels.products.shape import Shape
from measurement.devices.buffers import copied
from study.cells import cell, problems

GARBAGE = 7e7  # earlier content of the memory


def test_the_padded_shape_has_edges_that_are_multiples_of_the_block_size():
    padded = {(17, 16): 32, (32, 16): 32, (1, 32): 32, (5, 1): 5}
    padded |= {("17x33x65", 16): "32x48x80", ("3x17x33x65", 32): "3x32x64x96"}
    for (shape, block), seen in padded.items():
        assert PADDED.operands(Shape.parse(shape), block) == Shape.parse(seen)
    assert (TRANSPOSED_B.a, TRANSPOSED_B.c) == (None, None)
    assert TRANSPOSED_B.operands(Shape.square(5), 16) == Shape.square(5)


def host_buffers(*cells):
    inputs = Inputs(problems(list(cells)), 1)
    sizes = []

    def allocate(size):
        sizes.append(size)
        return np.full(size, 0x4C, np.uint8)  # as float32 that is 5.4e7

    return inputs, copied(inputs, allocate), sizes


def asked(name, shape, block=None, dtype="float32"):
    return cell("gpu0", name, dtype, Shape.parse(shape), block, "pinned")


def test_each_run_transposes_b_and_copies_a_and_c_as_they_are():
    one = asked("tile_transposed_b", 6, 16)
    inputs, buffers, _ = host_buffers(one)
    a, b = inputs.pair("float32", one.shape)
    work = buffers.work(one)
    np.testing.assert_array_equal(work.a, a.ravel())
    for _ in range(2):
        work.b.fill(GARBAGE)
        work.prepare()
        np.testing.assert_array_equal(work.b.reshape(6, 6), b[0].T)
    assert np.shares_memory(work.c, buffers.product(one))
    assert work.after == ()
    np.testing.assert_array_equal(buffers.work(asked("block", 6, 8)).b, b.ravel())


def test_matrices_are_padded_with_zeros_and_c_is_cropped():
    """Also if a larger product was computed in the same memory before."""
    larger, one = asked("block_padded", 30, 8), asked("block_padded", 10, 8)
    inputs, buffers, _ = host_buffers(larger, one)
    buffers.work(larger).prepare()
    a, b = inputs.pair("float32", one.shape)
    work = buffers.work(one)
    assert work.a.size == work.b.size == work.c.size == 16**2
    work.prepare()
    for padded, matrix in ((work.a, a), (work.b, b)):
        expected = np.zeros((16, 16), np.float32)
        expected[:10, :10] = matrix[0]
        np.testing.assert_array_equal(padded.reshape(16, 16), expected)
    product = buffers.product(one)
    product.fill(GARBAGE)
    work.c[:] = np.arange(256)
    assert (product == GARBAGE).all(), "not the memory that is copied to"
    work.finish()
    np.testing.assert_array_equal(product[0], np.arange(256).reshape(16, 16)[:10, :10])
