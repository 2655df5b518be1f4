"""Inline PTX on the host: layouts of fragments, copies, loads, arithmetic, and refusals."""

import re

import numpy as np
import pytest

from kernels.host_execution.binding import KernelFault
from kernels.host_execution.compiler import unsupported
from kernels.host_execution.ptx import translated
from kernels.products.elements import STORED

# Registers of a lane by the formulas of the PTX ISA: element i of A is at ROW_A, COLUMN_A, of B at
# ROW_B, group.
FRAGMENTS = """
    const int lane = threadIdx.x, group = lane / 4, inside = lane % 4;
    union {{ E x[{a}]; unsigned words[{a_words}]; }} left;
    union {{ E x[{b}]; unsigned words[{b_words}]; }} right;
    for (int i = 0; i < {a}; ++i) left.x[i] = p[({row_a}) * {k} + {column_a}];
    for (int i = 0; i < {b}; ++i) right.x[i] = q[({row_b}) * 8 + group];
    S c[{c}];
    for (int i = 0; i < {c}; ++i)
        c[i] = r[(group + (i >= 2 ? 8 : 0)) * 8 + inside * 2 + (i & 1)];
    {asm}
    for (int i = 0; i < {c}; ++i)
        r[(group + (i >= 2 ? 8 : 0)) * 8 + inside * 2 + (i & 1)] = c[i];
"""
EIGHTS = "group + ({} ? 8 : 0)"
SHAPES = {
    "m16n8k16 f16": (16, EIGHTS.format("i / 2 % 2"), "inside * 2 + (i & 1) + (i >= 4 ? 8 : 0)",
        "inside * 2 + (i & 1) + (i >= 2 ? 8 : 0)"),
    "m16n8k8 f16": (16, EIGHTS.format("i >= 2"), "inside * 2 + (i & 1)", "inside * 2 + (i & 1)"),
    "m16n8k16 bf16": (16, EIGHTS.format("i / 2 % 2"), "inside * 2 + (i & 1) + (i >= 4 ? 8 : 0)",
        "inside * 2 + (i & 1) + (i >= 2 ? 8 : 0)"),
    "m16n8k8 tf32": (16, EIGHTS.format("i % 2"), "inside + (i >= 2 ? 4 : 0)",
        "inside + (i >= 1 ? 4 : 0)"),
    "m16n8k4 tf32": (16, EIGHTS.format("i"), "inside", "inside"),
    "m16n8k32 s8": (16, EIGHTS.format("i / 4 % 2"), "inside * 4 + (i & 3) + (i >= 8 ? 16 : 0)",
        "inside * 4 + (i & 3) + (i >= 4 ? 16 : 0)"),
    "m8n8k16 s8": (8, "group", "inside * 4 + (i & 3)", "inside * 4 + (i & 3)"),
}  # fmt: skip
KINDS = {"f16": ("unsigned short", "h"), "bf16": ("unsigned short", "b")}
KINDS |= {"tf32": ("float", "f"), "s8": ("signed char", "c")}


def registers(names, first=0):
    return "{" + ", ".join(f"%{first + at}" for at in range(names)) + "}"


@pytest.mark.parametrize("shape", SHAPES)
def test_mma_instructions_use_the_documented_fragment_layout(compiled, shape):
    size, kind = shape.split()
    m, row_a, column_a, row_b = SHAPES[shape]
    k = int(size.rpartition("k")[2])
    c_type, letter = KINDS[kind]
    rng = np.random.default_rng(1)
    a, b, c = (rng.integers(-8, 9, sizes) for sizes in ((m, k), (k, 8), (m, 8)))
    counts = {"a": m * k // 32, "b": k * 8 // 32, "c": m * 8 // 32}
    words = {f"{name}_words": counts[name] * BYTES[kind] // 4
             for name in "ab"}  # fmt: skip
    total, sums = counts["c"], "s32" if kind == "s8" else "f32"
    plus = '"+r"' if kind == "s8" else '"+f"'
    inputs = [f'"r"(left.words[{at}])' for at in range(words["a_words"])]
    inputs += [f'"r"(right.words[{at}])' for at in range(words["b_words"])]
    operands = ", ".join(
        [
            registers(total),
            registers(words["a_words"], total),
            registers(words["b_words"], total + words["a_words"]),
            registers(total),
        ]
    )
    outputs = ", ".join(f"{plus}(c[{at}])" for at in range(total))
    asm = (
        f'asm volatile("mma.sync.aligned.{size}.row.col.{sums}.{kind}.{kind}.{sums} "\n'
        f'    "{operands};\\n" : {outputs} : {", ".join(inputs)});'
    )
    text = FRAGMENTS.format(
        **counts, **words, k=k, row_a=row_a, column_a=column_a, row_b=row_b, asm=asm
    )
    before = f"typedef {c_type} E; typedef {'int' if kind == 's8' else 'float'} S;\n"
    stored = [STORED[letter].encoded(each) for each in (a, b)]
    result = c.astype(np.int32 if kind == "s8" else np.float32)
    compiled(text, "const E *p, const E *q, S *r", before=before).run(
        (1,), (32,), [*stored, result]
    )
    np.testing.assert_array_equal(result, c + a @ b)


BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "s8": 1}


def test_mma_sums_in_half_precision_are_rounded_to_halves(compiled):
    body = (
        "unsigned d[2] = {0x64006400, 0x64006400};\n"  # 1024, to which 0.25 adds nothing
        'asm("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3}, {%4}, '
        '{%0, %1};" : "+r"(d[0]), "+r"(d[1]) : "r"(0x3400u), "r"(0x34003400u), "r"(0x34003400));\n'
        "p[2 * threadIdx.x] = d[0]; p[2 * threadIdx.x + 1] = d[1];"
    )
    p = np.zeros(64, np.uint32)
    compiled(body, "unsigned *p").run((1,), (32,), [p])
    sums = p.view(np.float16)
    assert set(sums.astype(float)) == {1024.0}


LOADS = """
    __shared__ __align__(16) unsigned short s[64 * 8];
    for (int i = threadIdx.x; i < 512; i += 32) s[i] = i;
    {barrier}
    unsigned at = (unsigned)__cvta_generic_to_shared(&s[8 * threadIdx.x + {skew}]), w[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%0, %1, %2, %3}}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(at) : "memory");
    for (int i = 0; i < 4; ++i) p[4 * threadIdx.x + i] = w[i];
"""


@pytest.mark.parametrize(("trans", "is_generic"), [("", False), (".trans", False), ("", True)])
def test_ldmatrix_has_the_documented_layout_and_counts_as_loads(compiled, trans, is_generic):
    p = np.zeros((32, 4), np.uint32)
    text = LOADS.format(barrier="__syncthreads();", skew=0, trans=trans)
    if is_generic:
        text = text.replace(".shared.b16", ".b16").replace('"r"(at)', '"l"(&s[8 * threadIdx.x])')
    done = compiled(text, "unsigned *p").run((1,), (32,), [p])
    matrices = np.arange(256).reshape(4, 8, 8)
    if trans:
        matrices = matrices.transpose(0, 2, 1)
    pairs = matrices.reshape(4, 32, 2)  # of lanes, two elements each
    np.testing.assert_array_equal(p, (pairs[..., 0] | pairs[..., 1] << 16).T)
    load = next(count for count in done.counts if count.operation == "shared_load")
    assert (load.bytes, load.accesses, load.requests, load.transactions) == (16, 32, 1, 4)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"barrier": ""}, "load of 16 bytes .* (races with|is uninitialised)"),
        ({"skew": 1}, "load of 16 bytes at byte 2 of shared memory is misaligned"),
        ({"skew": 264}, "load of 16 bytes at byte 1024 of shared memory is out of bounds"),
    ],
)
def test_faults_of_ldmatrix_are_found(compiled, changed, message):
    text = LOADS.format(**{"barrier": "__syncthreads();", "skew": 0, "trans": ""} | changed)
    with pytest.raises(KernelFault, match=rf"kernel.cu:7: .*{message}"):
        compiled(text, "unsigned *p").run((1,), (32,), [np.zeros(128, np.uint32)])


COPIES = """
    __shared__ float s[2][128];
    const int i = 4 * threadIdx.x;
    const unsigned at = __cvta_generic_to_shared(&s[0][i]);
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], %2, %3;\\n" ::"r"(at),
                 "l"(p + i), "n"(16), "r"(threadIdx.x == 1 ? 4 : 16));
    asm volatile("cp.async.commit_group;\\n" ::);
    asm volatile("cp.async.ca.shared.global [%0 + 512], [%1], 4;" ::"r"(at), "l"(p));
    asm volatile("cp.async.commit_group;\\n" ::);
    asm volatile("cp.async.wait_group %0;\\n" ::"n"({pending}));
    {barrier}
    q[threadIdx.x] = s[0][(i + 4) % 128] + s[0][(i + 6) % 128] + s[1][(i + {last}) % 128];
"""


def test_cp_async_fills_with_zeros_and_ends_before_the_wait_returns(compiled):
    p, q = np.arange(128, dtype=np.float32), np.zeros(32, np.float32)
    right = {"pending": 0, "barrier": "__syncthreads();", "last": 0}

    def run(**changed):
        text = COPIES.format(**right | changed)
        compiled(text, "const float *p, float *q").run((1,), (32,), [p, q])

    run()
    expected = p.reshape(32, 4)[:, [0, 2]].sum(axis=1)
    expected[1] = p[4]  # zeros follow the first word
    np.testing.assert_array_equal(q, np.roll(expected, -1))
    run(pending=1)
    assert np.isnan(q).all()
    with pytest.raises(KernelFault, match=r"races with|uninitialised"):
        run(barrier="")


ARITHMETIC = """
    const int i = threadIdx.x;
    float f; unsigned u, v, low, high; unsigned long long wide;
    asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(f) : "f"((float)i), "f"(2.0f), "f"(1.0f));
    asm("{ .reg .u64 a; .reg .pred odd;\\n"
        "  cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a; }" : "=r"(u) : "l"(&s[i]));
    asm("ld.shared.v2.u32 {%0, %1}, [%2 + 8];" : "=r"(low), "=r"(high) : "r"(u));
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" :: "r"(u), "f"(f), "f"(1.0f), "f"(f),
                 "f"(f));
    asm("{ .reg .pred big; setp.gt.s32 big, %1, %2; selp.b32 %0, 7, 9, big; @big add.s32 %0, %0, 1;"
        "}" : "=r"(v) : "r"(i), "r"(1));
    asm("mov.b64 %0, {%1, %2};" : "=l"(wide) : "r"(1), "r"(i));
    asm("mov.u32 %[to], %%laneid;" : [to] "=r"(low));
    asm volatile("" ::: "memory");
    p[8 * i] = s[i].x; p[8 * i + 1] = high; p[8 * i + 2] = v; p[8 * i + 3] = wide >> 32;
    p[8 * i + 4] = low;
"""


def test_common_ptx_instructions_are_executed(compiled):
    p = np.arange(32, dtype=np.float32)
    shared = "__shared__ float4 s[4]; s[threadIdx.x] = make_float4(0, 0, 0, 0);"
    shared += "((unsigned *)&s[threadIdx.x])[3] = 5; __syncthreads();"
    compiled(shared + ARITHMETIC).run((1,), (4,), [p])
    rows = p.reshape(4, 8)[:, :5]
    assert rows[:, 0].tolist() == [1, 3, 5, 7]
    assert rows[:, 1:].tolist() == [[5, 9, 0, 0], [5, 9, 1, 1], [5, 8, 2, 2], [5, 8, 3, 3]]


@pytest.mark.parametrize(
    ("statement", "instruction"),
    [
        ("wgmma.fence.sync.aligned;", "wgmma.fence.sync.aligned"),
        ("{ .reg .b128 handle; }", ".reg .b128 handle"),
        ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};", "mma"),
        ("mov.u32 %0, %%smid;", "mov.u32"),
        ("bar.arrive 1;", "bar.arrive"),
        ("@elsewhere mov.u32 %0, 1;", "@elsewhere"),
        ("WAIT: mbarrier.try_wait.parity.shared.b64 p, [%0], 1; bra WAIT;", "mbarrier.try_wait"),
        ("cp.async.bulk.commit_group;", "cp.async.bulk.commit_group"),
    ],
)
def test_unsupported_ptx_instructions_are_refused_by_name(statement, instruction):
    line, word, feature = unsupported(f'\nvoid f(int x) {{ asm("{statement}" : "=r"(x)); }}')
    assert (line, feature) == (2, "this inline PTX")
    assert word.startswith(instruction)


def test_translating_asm_statements_keeps_line_numbers_and_other_text():
    text = 'a;\n    asm volatile("cp.async.wait_group %0;\\n"\n    ::"n"(n));\n'
    text += 'const char *s = "asm(1)", *t = R"(asm("1"))";\n'
    code, refused = translated(text)
    assert not refused
    assert code.count("\n") == text.count("\n")
    assert re.search(r"host_wait_copies\(\(n\)\);", code)
    assert 'const char *s = "asm(1)", *t = R"(asm("1"))";' in code
    assert translated('asm(NAME "x");')[1]


def test_asm_in_a_macro_of_another_file_is_translated(compiled):
    before = '#line 1 "ptx.h"\n#define WAIT \\\n    asm volatile("cp.async.wait_all;")\n'
    before += '#line 3 "kernel.cu"\n'
    p = np.zeros(32, np.float32)
    compiled("WAIT; p[threadIdx.x] = 1;", before=before).run((1,), (32,), [p])
    assert p.all()
