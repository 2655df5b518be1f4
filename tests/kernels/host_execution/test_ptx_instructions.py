"""Inline PTX that public kernels contain, beyond copies and products: values, and wrong twins.

Each statement sets d from a lane's values; its twin has another modifier, order or number.
"""

import numpy as np
import pytest

from kernels.host_execution.binding import KernelFault

LANES = np.arange(32, dtype=np.uint32)
WORDS = LANES * 0x01030507 + 0x80F1  # a of each lane
OTHERS = WORDS[::-1]  # b
FLOATS = (LANES.astype(np.float32) - 15.5) * 17.3  # f
HALVES = np.linspace(-2, 2, 64).astype(np.float16)  # h: a pair of each lane


def bits(values, dtype=np.float32):
    return np.ascontiguousarray(values, dtype).view(np.uint32)


def pairs(function):
    return bits(function(HALVES.astype(float)), np.float16)


def logic(a, b, c, table):
    out = np.zeros(32, np.uint32)
    for i in range(8):
        if table >> i & 1:
            out |= (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
    return out


def transposed():
    elements = np.stack([WORDS & 0xFFFF, WORDS >> 16], 1).reshape(8, 8).T.reshape(32, 2)
    return elements[:, 0] | elements[:, 1] << 16


def permuted(selector):
    both = np.stack([WORDS, OTHERS], 1).view(np.uint8)
    digits = [selector >> 4 * i & 15 for i in range(4)]
    chosen = np.stack([both[:, digit & 7] for digit in digits], 1)
    signs = np.array([digit >= 8 for digit in digits])
    return (
        np.where(signs, np.where(chosen >= 128, 255, 0), chosen).astype(np.uint8).view("<u4")[:, 0]
    )


def clamped(values, low, high):
    return np.clip(np.rint(values), low, high).astype(np.int32).view(np.uint32)


A, B = ' : "=r"(d) : "r"(a));', ' : "=r"(d) : "r"(a), "r"(b));'
OF_F, OF_H = ' : "=r"(d) : "f"(f));', ' : "=r"(d) : "r"(h));'
# Statement, values of d, and what makes a twin of it.
CASES = {
    "lop3": ('"lop3.b32 %0, %1, %2, 0x00ff00ff, 0xea;"' + B,
        logic(WORDS, OTHERS, np.uint32(0x00FF00FF), 0xEA), ("0xea", "0xca")),
    "prmt": ('"prmt.b32 %0, %1, %2, 0x7530;"' + B, permuted(0x7530), ("0x7530", "0x7520")),
    "prmt of signs": ('"prmt.b32 %0, %1, %2, 0xf5b0;"' + B, permuted(0xF5B0), ("0xf5b0", "0x7530")),
    "shfl.bfly": ('"shfl.sync.bfly.b32 %0, %1, 1, 0x1f, 0xffffffff;"' + A,
        WORDS[LANES ^ 1], ("1, 0x1f", "2, 0x1f")),
    "shfl.idx": ('"shfl.sync.idx.b32 %0, %1, 3, 31, -1;"' + A, WORDS[3 + 0 * LANES], ("3,", "4,")),
    "shfl.up": ('"shfl.sync.up.b32 %0, %1, 2, 0, -1;"' + A,
        WORDS[np.where(LANES < 2, LANES, LANES - 2)], ("%1, 2", "%1, 1")),
    "shfl of a part": ('"shfl.sync.down.b32 %0, %1, 4, 0x181f, -1;"' + A,
        WORDS[np.where(LANES % 8 < 4, LANES + 4, LANES)], ("0x181f", "0x1f")),
    "movmatrix": ('"movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;"' + A, transposed(),
        ("movmatrix.sync.aligned.m8n8.trans.b16", "mov.b32")),
    "cvt.rni.sat.s8": ('"cvt.rni.sat.s8.f32 %0, %1;"' + OF_F, clamped(FLOATS, -128, 127),
        ("s8", "u8")),
    "cvt.rzi.u8": ('"cvt.rzi.sat.u8.f32 %0, %1;"' + OF_F, clamped(np.trunc(FLOATS), 0, 255),
        ("rzi", "rpi")),
    "cvt.rni.s32": ('"cvt.rni.sat.s32.f32 %0, %1;"' + OF_F, clamped(FLOATS, -1e9, 1e9),
        ("rni", "rmi")),
    "tanh": ('"tanh.approx.f32 %0, %1;"' + OF_F, bits(np.tanh(FLOATS)), ("tanh.approx", "neg")),
    "ex2 of halves": ('"ex2.approx.f16x2 %0, %1;"' + OF_H, pairs(np.exp2), ("ex2", "tanh")),
    "tanh of halves": ('"tanh.approx.f16x2 %0, %1;"' + OF_H, pairs(np.tanh), ("tanh", "ex2")),
    "lg2": ('"abs.f32 %0, %1; lg2.approx.ftz.f32 %0, %0;"' + OF_F,
        bits(np.log2(np.abs(FLOATS).astype(float))), ("lg2", "ex2")),
    "rsqrt": ('"abs.f32 %0, %1; add.f32 %0, %0, 0f3F800000; rsqrt.approx.f32 %0, %0;"' + OF_F,
        bits(1 / np.sqrt(np.abs(FLOATS.astype(float)) + 1)), ("rsqrt", "sqrt")),
    "max": ('"neg.f32 %0, %1; max.f32 %0, %0, %1;"' + OF_F, bits(np.abs(FLOATS)),
        ("max", "min")),
    "max of integers": ('"max.s32 %0, %1, %2;"' + B,
        np.maximum(WORDS.view(np.int32), OTHERS.view(np.int32)).view(np.uint32),
        ("max.s32", "min.s32")),
    "mul.wide": ('"{ .reg .u64 w; mul.wide.u32 w, %1, 0x10001;"\n'
        '"shr.u64 w, w, 16; cvt.u32.u64 %0, w; }"' + A,
        (WORDS.astype(np.uint64) * 0x10001 >> 16).astype(np.uint32), ("0x10001", "0x10003")),
    "registers by number": ('"{ .reg .b32 r<3>; .reg .pred %%p; mov.b32 r2, %1;\\n"  // a comment\n'
        '"  setp.ne.u32 %%p, r2, %2; selp.b32 %0, r2, 7, %%p; }"' + B,
        np.where(WORDS == OTHERS, 7, WORDS), ("setp.ne", "setp.eq")),
}  # fmt: skip


FUNCTIONS = ("tanh", "lg2", "rsqrt")  # the last bit may differ


@pytest.mark.parametrize("is_wrong", [False, True])
def test_each_ptx_instruction_computes_the_documented_value(compiled, is_wrong):
    lines = []
    for at, (text, _, (before, after)) in enumerate(CASES.values()):
        assert before in text
        statement = text.replace(before, after) if is_wrong else text
        lines.append(f"{{ unsigned d = 0; asm volatile({statement} out[{at} * 32 + i] = d; }}")
    body = "const int i = threadIdx.x; const unsigned a = x[i], b = y[i], h = halves[i];\n"
    body += "const float f = floats[i];\n" + "\n".join(lines)
    out = np.zeros((len(CASES), 32), np.uint32)
    arguments = [WORDS, OTHERS, FLOATS, HALVES.view(np.uint32), out]
    types = "const unsigned *x, const unsigned *y, const float *floats, const unsigned *halves"
    compiled(body, f"{types}, unsigned *out").run((1,), (32,), arguments)
    for (name, (_, expected, _)), values in zip(CASES.items(), out, strict=True):
        apart = np.abs(values.astype(np.int64) - expected.astype(np.int64)).max()
        assert (apart > (name in FUNCTIONS)) == is_wrong, name


STORES = """
    __shared__ __align__(16) unsigned short s[64 * 8];
    const int i = threadIdx.x;
    const unsigned at = (unsigned)__cvta_generic_to_shared(&s[8 * i + {skew}]);
    asm volatile("stmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 [%0], {{%1, %2, %3, %4}};"
                 :: "r"(at), "r"(p[i]), "r"(p[32 + i]), "r"(p[64 + i]), "r"(p[96 + i]));
    {barrier}
    q[4 * i] = ((unsigned *)s)[(4 * i + 64) % 128];
    for (int e = 1; e < 4; ++e) q[4 * i + e] = ((unsigned *)s)[(4 * i + e + 64) % 128];
"""


def stored(compiled, **changed):
    p, q = np.arange(256, dtype=np.uint16), np.zeros(256, np.uint16)
    text = STORES.format(**{"barrier": "__syncwarp();", "skew": 0, "trans": ""} | changed)
    arrays = [p.view(np.uint32), q.view(np.uint32)]
    done = compiled(text, "const unsigned *p, unsigned *q").run((1,), (32,), arrays)
    return p.reshape(4, 8, 8), np.roll(q, 128).reshape(4, 8, 8), done


@pytest.mark.parametrize("trans", ["", ".trans"])
def test_stmatrix_has_the_documented_layout_and_counts_as_stores(compiled, trans):
    matrices, rows, done = stored(compiled, trans=trans)
    expected, other = matrices, matrices.transpose(0, 2, 1)
    if trans:
        expected, other = other, expected
    np.testing.assert_array_equal(rows, expected)
    assert (rows != other).any()
    store = next(count for count in done.counts if count.operation == "shared_store")
    assert (store.bytes, store.accesses, store.requests, store.transactions) == (16, 32, 1, 4)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"barrier": ""}, "races with|is uninitialised"),
        ({"skew": 1}, "store of 16 bytes at byte 2 of shared memory is misaligned"),
        ({"skew": 264}, "store of 16 bytes at byte 1024 of shared memory is out of bounds"),
    ],
)
def test_faults_of_stmatrix_are_found(compiled, changed, message):
    with pytest.raises(KernelFault, match=message):
        stored(compiled, **changed)


# The first two warps fill shared memory, the others read it; the last warp only arrives.
BARRIERS = """
    __shared__ float s[64];
    const int i = threadIdx.x, of = i / 64 + 1;
    if (i < 64) {{
        s[i] = i;
        asm volatile("bar.sync %0, %1;" :: "r"(of), "n"(64));
        s[i] += s[63 - i] >= 0 ? 100 : 0;
        asm volatile("bar.arrive 3, {threads};");
    }} else {{
        {waits}
        p[i - 64] = s[i - 64];
    }}
"""


def test_numbered_barriers_synchronise_parts_of_a_block(compiled):
    p = np.zeros(64, np.float32)
    right = {"threads": 128, "waits": 'asm volatile("barrier.sync 3, 128;");'}

    def run(**changed):
        compiled(BARRIERS.format(**right | changed)).run((1,), (128,), [p])

    with pytest.raises(KernelFault, match="races with"):
        run()  # s[63 - i] is read before its thread adds to it
    ordered = BARRIERS.replace("s[63 - i] >= 0 ? 100 : 0", "100")
    compiled(ordered.format(**right)).run((1,), (128,), [p])
    np.testing.assert_array_equal(p, np.arange(64) + 100)
    for wrong, message in (
        ({"waits": ""}, "races with|uninitialised"),
        ({"waits": 'asm volatile("bar.sync 4, 64;");'}, "races with"),
        ({"threads": 160}, "never"),
    ):
        with pytest.raises(KernelFault, match=message):
            compiled(ordered.format(**right | wrong)).run((1,), (128,), [p])


def test_sums_in_global_memory_are_atomic(compiled):
    p = np.zeros(32, np.float32)
    body = 'asm volatile("{}" :: "l"(p), "f"(2.0f), "f"(p[0]) : "memory");'
    compiled(body.format("red.relaxed.gpu.global.add.f32 [%0], %1;")).run((4,), (32,), [p])
    assert p[0] == 256
    with pytest.raises(KernelFault, match="races with"):
        compiled(body.format("st.global.f32 [%0], %2;")).run((4,), (32,), [p])
