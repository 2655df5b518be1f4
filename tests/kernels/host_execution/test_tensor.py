"""Fragments of nvcuda::wmma on the host: products of every shape and type, and their faults."""

import numpy as np
import pytest

from kernels.host_execution.binding import KernelFault
from kernels.products.elements import STORED

BEFORE = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <mma.h>\n"
BEFORE += "using namespace nvcuda;\n"
BODY = """
    extern __shared__ float4 smem[];
    A *const left = (A *)smem, *const right = left + M * K;
    for (int i = threadIdx.x; i < M * K; i += 32) left[i] = a[i];
    for (int i = threadIdx.x; i < K * N; i += 32) right[i] = b[i];
    __syncthreads();
    wmma::fragment<wmma::matrix_a, M, N, K, T, wmma::LAYOUT_A> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, T, wmma::LAYOUT_B> fb;
    wmma::fragment<wmma::accumulator, M, N, K, C> fc;
    wmma::load_matrix_sync(fa, left, wmma::host_in_columns<wmma::LAYOUT_A> ? M : K);
    wmma::load_matrix_sync(fb, right, wmma::host_in_columns<wmma::LAYOUT_B> ? K : N);
    wmma::load_matrix_sync(fc, c, N, wmma::mem_row_major);
    for (int i = 0; i < fc.num_elements; ++i) fc.x[i] = fc.x[i] + fc.x[i];
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, N, wmma::mem_row_major);
"""
NAMES = {"h": "half", "b": "nv_bfloat16", "c": "signed char", "C": "unsigned char"}
NAMES |= {"f": "float", "i": "int"}


def drawn(rng, letter, *shape):
    """Return random numbers whose products and sums are exact, as numbers and as stored."""
    values = rng.integers(0 if letter == "C" else -8, 9, shape) / (1 if letter in "cCi" else 4)
    return values, STORED[letter].encoded(values)


@pytest.mark.parametrize(
    ("shape", "kind", "letters", "layouts"),
    [
        ((16, 16, 16), "half", "hf", "rr"),
        ((16, 16, 16), "half", "hh", "rc"),
        ((32, 8, 16), "half", "hf", "cr"),
        ((8, 32, 16), "half", "hh", "cc"),
        ((16, 16, 16), "__nv_bfloat16", "bf", "rc"),
        ((8, 32, 16), "__nv_bfloat16", "bf", "cr"),
        ((16, 16, 8), "wmma::precision::tf32", "ff", "rc"),
        ((32, 8, 16), "signed char", "ci", "rc"),
        ((16, 16, 16), "unsigned char", "Ci", "cc"),
    ],
)
def test_fragments_multiply_in_every_shape_type_and_layout(compiled, shape, kind, letters, layouts):
    (m, n, k), rng = shape, np.random.default_rng(1)
    numbers, stored = zip(
        *(
            drawn(rng, letter, *sizes)
            for letter, sizes in zip(
                letters[0] * 2 + letters[1], ((m, k), (k, n), (m, n)), strict=True
            )
        ),
        strict=True,
    )
    arrays = [
        np.ascontiguousarray(array.T if layout == "c" else array).ravel()
        for array, layout in zip(stored, layouts + "r", strict=True)
    ]
    names = {"r": "row_major", "c": "col_major"}
    text = BODY.replace("LAYOUT_A", names[layouts[0]]).replace("LAYOUT_B", names[layouts[1]])
    for name, value in {"M": m, "N": n, "K": k}.items():
        text = f"constexpr int {name} = {value};" + text
    before = f"{BEFORE}typedef {kind} T; typedef {NAMES[letters[0]]} A;"
    before += f"typedef {NAMES[letters[1]]} C;\n"
    compiled(text, "const A *a, const A *b, C *c", before=before).run(
        (1,), (32,), arrays, 2 * 4 * 16 * 32
    )
    result = STORED[letters[1]].decoded(arrays[2]).reshape(m, n)
    np.testing.assert_array_equal(result, 2 * numbers[2] + numbers[0] @ numbers[1])


FRAGMENTS = (
    "__shared__ half s[16 * 24];\n"
    "for (int i = threadIdx.x; i < 16 * 24; i += blockDim.x) s[i] = half(1);\n{barrier}\n"
    "wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;\n"
    "wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;\n"
    "wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;\n{fill}\n"
    "{condition} wmma::load_matrix_sync(a, s, {stride}); wmma::load_matrix_sync(b, s, 24);\n"
    "wmma::mma_sync(c, a, b, c); wmma::store_matrix_sync(p, c, 16, wmma::mem_row_major);"
)
RIGHT = {"barrier": "__syncthreads();", "fill": "wmma::fill_fragment(c, 2);", "condition": ""}
RIGHT |= {"stride": "24"}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({}, ""),
        ({"barrier": ""}, r"kernel.cu:13: .*shared memory (is uninitialised|races with)"),
        ({"stride": "20"}, r"kernel.cu:13: .*stride of 40 bytes; use a multiple of 16"),
        ({"stride": "32"}, r"kernel.cu:13: .*load of 2 bytes at byte 768 of shared memory is out"),
        ({"condition": "if (threadIdx.x == 40) return;"}, "kernel.cu:13: .* without lane 8"),
        ({"fill": ""}, "wrong"),
    ],
)
def test_misused_fragments_are_faults_or_give_wrong_products(compiled, changed, message):
    kernel = compiled(FRAGMENTS.format(**RIGHT | changed), before=BEFORE)
    p = np.zeros(256, np.float32)
    if message in ("", "wrong"):
        kernel.run((1,), (32,), [p])
        assert (p == 18).all() == (not message)
        return
    with pytest.raises(KernelFault, match=message):
        kernel.run((1,), (64,), [p])
