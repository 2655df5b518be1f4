"""Host execution of float64 and 32-bit integers: references, kernels, faults, counts."""

import re

import numpy as np
import pytest

from base.errors import StudyError
from kernels.host_execution.binding import KernelFault, reference
from kernels.host_execution.compiler import MODES

C_TYPES = {"float32": "float", "float64": "double", "uint32": "unsigned", "int32": "unsigned"}
# One element of C per thread; the batch along blockIdx.z.
PARAMETERS = "const ELEMENT *a, const ELEMENT *b, ELEMENT *c, int k"
PRODUCT = """
    __shared__ ELEMENT row[33];
    const int column = threadIdx.x, width = blockDim.x, product = blockIdx.z;
    const int line = product * gridDim.y + blockIdx.y;
    if (column < k) row[column] = a[line * k + column];
    __syncthreads();
    ELEMENT sums[12] = {};
    for (int i = 0; i < k; ++i) {
        sums[7] += row[i] * b[(product * k + i) * width + column];
    }
    c[line * width + column] = sums[7];
"""


def matrices(dtype, *shape):
    """Return seeded elements of the whole range of an integer type, or from -1 to 1."""
    random = np.random.default_rng(7)
    if np.issubdtype(dtype, np.floating):
        return random.uniform(-1, 1, shape).astype(dtype)
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def run_on(compiled, body, p, threads=32):
    """Run ``kernel(double *p) { body }``, counted, with one block."""
    return compiled(body, "double *p").run((1,), (threads,), [p])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", C_TYPES)
def test_the_reference_product_sums_in_the_order_of_k(host_builds, dtype):
    a, b = matrices(dtype, 3, 17, 33), matrices(dtype, 3, 33, 65)
    expected = np.zeros((3, 17, 65), dtype)
    for k in range(33):
        expected += a[:, :, k, None] * b[:, None, k]
    product = reference(a, b, False, host_builds)
    assert product.dtype == dtype
    assert product.tobytes() == expected.tobytes()


@pytest.mark.parametrize(("dtype", "step"), [(np.float32, 2.0**-13), (np.float64, 2.0**-30)])
def test_the_fused_reference_rounds_once_per_fma(host_builds, dtype, step):
    # -1 + (1 + step)(1 - step): the product is rounded to 1, unless it is fused with the sum.
    a = np.array([[[1, 1 + step]]], dtype)
    b = np.array([[[-1], [1 - step]]], dtype)
    assert reference(a, b, False, host_builds) == 0
    assert reference(a, b, True, host_builds) == -(step**2)


def test_the_integer_reference_wraps_around_fused_or_not(host_builds):
    a, b = matrices(np.uint32, 2, 9, 40), matrices(np.uint32, 2, 40, 5)
    wide = (a.astype(object) @ b.astype(object)) % 2**32
    for fused in (False, True):
        assert (reference(a, b, fused, host_builds) == wide).all()
        signed = reference(a.view(np.int32), b.view(np.int32), fused, host_builds)
        assert (signed.view(np.uint32) == wide).all()


def test_a_reference_of_matrices_that_do_not_match_is_refused(host_builds):
    a = np.zeros((1, 2, 3), np.float32)
    for b in (np.zeros((1, 3, 2)), a, np.zeros((2, 3, 2), np.float32)):
        with pytest.raises(ValueError, match="incompatible matrices"):
            reference(a, b, False, host_builds)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", C_TYPES)
def test_kernels_of_each_element_type_equal_the_reference(compiled, host_builds, dtype, mode):
    a, b = matrices(dtype, 2, 3, 33), matrices(dtype, 2, 33, 40)
    kernel = compiled(PRODUCT, PARAMETERS, mode, ELEMENT=C_TYPES[dtype])
    c = np.zeros((2, 3, 40), dtype)
    run = kernel.run((1, 3, 2), (40,), [a, b, c, 33])
    assert c.tobytes() == reference(a, b, mode == "fused", host_builds).tobytes()
    assert {count.bytes for count in run.counts} == ({c.itemsize} if mode == "counted" else set())


def test_an_fma_of_doubles_is_rounded_only_once(compiled):
    p = np.array([1 + 2.0**-30, 1 - 2.0**-30, -1])
    run = run_on(compiled, "p[0] = fma(p[0], p[1], p[2]);", p, 1)
    assert p[0] == -(2.0**-60)
    assert run.stored_by[0].tolist() == [2, 2, 0, 0, 0, 0]  # by word


@pytest.mark.parametrize(
    "target", ["reinterpret_cast<float *>(p) + 1", "reinterpret_cast<float *>(s) + 1"]
)
def test_misaligned_doubles_are_refused(compiled, target):
    body = f"__shared__ double s[2];\n*reinterpret_cast<double *>({target}) = 1;"
    with pytest.raises(
        KernelFault, match=r"kernel\.cu:3: .* store of 8 bytes at byte 4 of .* is misaligned"
    ):
        run_on(compiled, body, np.zeros(2), 1)


def test_races_and_unwritten_parts_of_doubles_are_found(compiled):
    for word in (0, 1):
        body = "__shared__ double s[1];\nif (threadIdx.x == 0) s[0] = 1;\n"
        body += f"if (threadIdx.x == 1) reinterpret_cast<float *>(s)[{word}] = 1;"
        place = rf"kernel\.cu:4: .* byte {4 * word} of shared memory races with .* at line 3"
        with pytest.raises(KernelFault, match=place):
            run_on(compiled, body, np.zeros(1), 2)
    body = "__shared__ double s[1];\nreinterpret_cast<float *>(s)[0] = 1;\np[0] = s[0];"
    cause = run_on(compiled, body, np.zeros(1), 1).cause(0, 0)
    assert re.search(r"kernel\.cu:4: .* load of 8 bytes .* wrote it", cause)


def loads_of(run, operation):
    """Return the loads of a run in the order of their lines."""
    return sorted((c for c in run.counts if c.operation == operation), key=lambda c: c.line)


def test_shared_loads_of_doubles_need_the_wavefronts_of_a_gpu(compiled):
    # Half a warp per wavefront: 16 doubles fill the 32 banks. A whole warp if lanes read in pairs.
    expected = {"i": (2, 2), "i / 2": (1, 1), "2 * i": (4, 2), "17 * i": (2, 2), "0": (1, 1)}
    expected |= {"16 * i": (32, 2), "i % 8": (2, 2), "i % 2": (1, 1), "i / 2 * 16": (16, 1)}
    body = "__shared__ double s[544];\nconst int i = threadIdx.x;\n"
    body += "for (int j = i; j < 544; j += 32) s[j] = j;\n__syncthreads();\n"
    body += "\n".join(f"p[i] = s[{index}];" for index in expected)
    loads = loads_of(run_on(compiled, body, np.zeros(32)), "shared_load")
    for index, load in zip(expected, loads, strict=True):
        assert (load.bytes, load.accesses, load.requests) == (8, 32, 1)
        assert (load.transactions, load.ideal) == expected[index], index


def test_global_loads_of_doubles_touch_the_expected_sectors(compiled):
    expected = {"i": 8, "i + 1": 9, "4 * i": 32, "0": 1}
    body = "const int i = threadIdx.x;\n"
    body += "\n".join(f"p[128 + i] = p[{index}];" for index in expected)
    loads = loads_of(run_on(compiled, body, np.zeros(160)), "global_load")
    assert [(load.bytes, load.requests) for load in loads] == [(8, 1)] * 4
    assert [load.transactions for load in loads] == list(expected.values())


def test_an_error_of_the_linker_names_the_missing_function(compiled):
    with pytest.raises(StudyError, match=r"kernel\.cu:3: missing: host execution has no"):
        compiled("missing();", before="void missing();\n")
