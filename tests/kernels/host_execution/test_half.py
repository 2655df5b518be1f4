"""Numbers of 16 bits on the host: rounding of conversions and arithmetic, faults."""

import numpy as np
import pytest

from kernels.host_execution.binding import KernelFault
from kernels.products.elements import STORED

COUNT = 1 << 12
INCLUDES = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
INDEX = "const int i = blockIdx.x * blockDim.x + threadIdx.x;"
WAYS = ("rn", "rz", "ru", "rd")
C_NAMES = {"h": "half", "b": "nv_bfloat16"}


def numbers(seed):
    """Return float32 numbers of all magnitudes, with ties between two halves or bfloat16s."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << 32, COUNT, dtype=np.uint32)
    bits[::4] &= 0xFFFF8000
    bits[1::4] &= 0xFFFFF000
    values = bits.view(np.float32).copy()
    values[2::4] = rng.standard_normal(values[2::4].size) * 10
    return values


def of_bits(codes, kind):
    return STORED[kind].decoded(codes if kind == "b" else codes.view(np.float16))


def exact(value, kind):
    """Round a sum of Python integers over 2^48 to the nearest half, ties to even."""
    near = int(np.float16(value / 2**48).view(np.uint16))
    codes = [code for code in (near - 1, near, near + 1) if code & 0x7C00 != 0x7C00 and code >= 0]
    errors = [
        abs(int(float(np.uint16(code).view(np.float16)) * 2**24) * 2**24 - value) for code in codes
    ]
    return min(zip(errors, (code & 1 for code in codes), codes, strict=True))[2]


@pytest.mark.parametrize(("name", "kind"), [("half", "h"), ("bfloat16", "b")])
def test_conversions_to_16_bits_round_to_nearest_even_or_as_named(compiled, name, kind):
    values = numbers(1)
    text = "".join(f"c[4 * i + {at}] = __float2{name}_{way}(p[i]);" for at, way in enumerate(WAYS))
    kernel = compiled(INDEX + text, f"const float *p, __{C_NAMES[kind]} *c", before=INCLUDES)
    c = np.zeros(4 * COUNT, np.uint16)
    kernel.run((COUNT // 256,), (256,), [values, c])
    codes, ordinary = c.reshape(-1, 4), ~np.isnan(values)
    with np.errstate(over="ignore"):
        expected = STORED[kind].encoded(values).view(np.uint16)
    assert (codes[ordinary, 0] == expected[ordinary]).all()
    assert np.isnan(of_bits(codes[~ordinary].ravel(), kind)).all()
    nearest, inward, up, down = (of_bits(codes[ordinary, at].copy(), kind) for at in range(4))
    wide = values[ordinary].astype(np.float64)
    assert (down <= wide).all()
    assert (wide <= up).all()
    assert (np.abs(inward) <= np.abs(wide)).all()
    assert ((nearest == up) | (nearest == down)).all()


def test_each_operation_on_halves_is_rounded_once(compiled):
    rng = np.random.default_rng(2)
    a, b, c = (np.exp2(rng.uniform(-9, 4, (3, COUNT))) * rng.choice([-1, 1], (3, COUNT))).astype(
        np.float16
    )
    body = (
        "half x = a[i], y = b[i], z = c[i]; half *r = out + 6 * i;"
        "r[0] = x + y; r[1] = __hsub(x, y); r[2] = x * y; r[3] = x / y; r[4] = __hfma(x, y, z);"
        "half2 v = __hfma2(__halves2half2(x, y), __half2half2(y), half2(z, z)); r[5] = v.x;"
    )
    parameters = "const half *a, const half *b, const half *c, half *out"
    out = np.zeros(6 * COUNT, np.float16)
    kernel = compiled(INDEX + body, parameters, "fused", INCLUDES)
    kernel.run((COUNT // 256,), (256,), [a, b, c, out])
    results = out.reshape(-1, 6)
    for at, expected in enumerate((a + b, a - b, a * b, a / b)):
        np.testing.assert_array_equal(results[:, at], expected)
    scaled = [[int(float(value) * 2**24) for value in each] for each in (a, b, c)]
    sums = [exact(x * y + (z << 24), "h") for x, y, z in zip(*scaled, strict=True)]
    assert results[:, 4].copy().view(np.uint16).tolist() == sums
    np.testing.assert_array_equal(results[:, 4], results[:, 5])


def test_bfloat16_operations_equal_rounded_operations_on_doubles(compiled):
    a, b, c = (STORED["b"].encoded(numbers(seed)[2::4]) for seed in (3, 4, 5))
    body = "out[2 * i] = a[i] * b[i]; out[2 * i + 1] = __hfma(a[i], b[i], c[i]);"
    parameters = ", ".join(f"{C_NAMES['b']} *{name}" for name in ("a", "b", "c", "out"))
    out = np.zeros(2 * a.size, np.uint16)
    compiled(INDEX + body, parameters, before=INCLUDES).run((4,), (256,), [a, b, c, out])
    x, y, z = (STORED["b"].decoded(each) for each in (a, b, c))
    np.testing.assert_array_equal(out[::2], STORED["b"].encoded(x * y))
    np.testing.assert_array_equal(out[1::2], STORED["b"].encoded(x * y + z))


def test_half_can_be_a_member_of_a_structure_and_a_name_of_a_variable(compiled):
    body = (
        "__shared__ half2 s[32]; half part[2]; const int half = threadIdx.x;\n"
        "s[half] = __floats2half2_rn(half, 0.5f); part[0] = __low2half(s[half]);\n"
        "p[half] = __half2float(part[0]) + __high2float(s[half]) + (part[1] == part[1]);"
    )
    p = np.zeros(32, np.float32)
    done = compiled(body, before=INCLUDES).run((1,), (32,), [p])
    assert p.tolist() == [i + 0.5 for i in range(32)]
    assert [c.transactions for c in done.counts if c.operation == "shared_store"] == [1]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "__shared__ half s[64]; s[i] = p[i]; p[i] = s[63 - i];",
            "load of 2 bytes at byte 126 of shared memory is uninitialised",
        ),
        (
            "__shared__ half s[64]; s[i] = p[i]; __syncthreads(); p[i] = s[63 - i]; s[i] = p[i];",
            "load of 2 bytes at byte 62 of shared memory races with thread",
        ),
        ("p[i + 1] = p[i];", "bytes at byte .* of buffer 0 (is out of bounds|races with)"),
        ("p[i] += 1;", "load of 2 bytes at byte 0 of buffer 0 is uninitialised"),
        ("((half2 *)(p + 1))[i] = half2(1, 2);", "store of 4 bytes at byte 2 .*misaligned"),
    ],
)
def test_faults_are_found_in_kernels_with_16_bit_elements(compiled, body, message):
    kernel = compiled(INDEX + body, "half *p", before=INCLUDES)
    with pytest.raises(KernelFault, match=message):
        kernel.run((1,), (64,), [np.zeros(64, np.float16)], results=(0,) if "+=" in body else ())
