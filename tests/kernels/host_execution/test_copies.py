"""cuda::barrier, cuda::pipeline and their copies on the host: values, and faults."""

import numpy as np
import pytest

from kernels.host_execution.binding import KernelFault

BEFORE = "#include <cuda/barrier>\n#include <cuda/pipeline>\n#include <cooperative_groups.h>\n"
BEFORE += "namespace cg = cooperative_groups;\n"
PARAMETERS = "const float *p, float *q"
SETUP = """
    const int t = threadIdx.x;
    auto block = cg::this_thread_block();
"""
COPY = """
    __shared__ float s[64];
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    if (t == 0) init(&bar, {expected});
    {first}
    cuda::memcpy_async(block, s, p, cuda::aligned_size_t<16>(256), bar);
    {wait}
    q[t] = s[63 - t];
    {end}
"""
RING = """
    constexpr int STAGES = {stages};
    __shared__ float s[{slots}][64];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope::thread_scope_block, STAGES> state;
    auto pipe = cuda::make_pipeline(block, &state);
    float sum = 0;
    for (int step = 0, ahead = 0; step < 8; ++step) {{
        for (; ahead < 8 && ahead < step + STAGES; ++ahead) {{
            pipe.producer_acquire();
            cuda::memcpy_async(block, s[ahead % {slots}], p + 64 * ahead, 256, pipe);
            pipe.producer_commit();
        }}
        {wait}
        sum += s[step % {slots}][63 - t];
        {release}
    }}
    q[t] = sum;
"""
RING_RIGHT = {"stages": 2, "slots": 2, "wait": "pipe.consumer_wait();"}
RING_RIGHT |= {"release": "pipe.consumer_release();"}
COPY_RIGHT = {"expected": "64", "first": "block.sync();", "wait": "bar.arrive_and_wait();"}
COPY_RIGHT |= {"end": ""}
# A warp loads for another one: each slot is full, then empty.
ROLES = """
    __shared__ float s[2][32];
    __shared__ cuda::barrier<cuda::thread_scope_block> full[2], empty[2];
    if (t < 2) {{ init(&full[t], 64); init(&empty[t], 64); }}
    block.sync();
    float sum = 0;
    if (t < 32) {{
        for (int i = 0; i < 6; ++i) {{
            if (i >= 2) {wait_empty}
            s[i % 2][t] = p[32 * i + t];
            full[i % 2].arrive();
        }}
    }} else {{
        for (int i = 0; i < 6; ++i) {{
            {wait_full}
            {early}
            sum += s[i % 2][63 - t];
            {late}
        }}
    }}
    q[t] = sum;
"""
ROLES_RIGHT = {"wait_empty": "empty[i % 2].arrive_and_wait();"}
ROLES_RIGHT |= {"early": "", "late": "empty[i % 2].arrive();"}
ROLES_RIGHT |= {"wait_full": "full[i % 2].arrive_and_wait();"}
THREAD = """
    __shared__ float s[2][64];
    auto pipe = cuda::make_pipeline();
    float sum = 0;
    for (int step = 0, ahead = 0; step < 8; ++step) {{
        for (; ahead < 8 && ahead < step + {most}; ++ahead) {{
            pipe.producer_acquire();
            cuda::memcpy_async(&s[ahead % 2][t], &p[64 * ahead + t], sizeof(float), pipe);
            pipe.producer_commit();
        }}
        pipe.consumer_wait();
        block.sync();
        sum += s[step % 2][63 - t];
        block.sync();
        pipe.consumer_release();
    }}
    q[t] = sum;
"""
# To registers and from shared memory, a copy is done at once.
AT_ONCE = """
    __shared__ float s[64], last[64];
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    if (t == 0) init(&bar, 64);
    block.sync();
    auto pipe = cuda::make_pipeline();
    float4 own[2];
    float one;
    {copy}
    {wait}
    q[t] = {value};
"""
OWN = {"wait": "pipe.producer_commit(); pipe.consumer_wait(); pipe.consumer_release();"}
OWN |= {"value": "own[1].x + own[1].w + one"}
OWN |= {
    "copy": "pipe.producer_acquire();"
    "cuda::memcpy_async(own, p + 4 * t, cuda::aligned_size_t<16>(32), pipe);"
    "cuda::memcpy_async(&one, p + t, sizeof one, pipe);"
}
BY_BARRIER = {"wait": "bar.arrive_and_wait();"}
BY_BARRIER |= {"copy": OWN["copy"].removeprefix("pipe.producer_acquire();").replace("pipe", "bar")}
BY_BLOCK = {"wait": "cg::wait(block);", "value": "last[t]"}
BY_BLOCK |= {"copy": "s[t] = p[t]; block.sync(); cg::memcpy_async(block, last, s, 256);"}
TO_RESULT = {"copy": "cuda::memcpy_async(q + t, p + t, 4, bar);", "value": "q[t]"}
OF_OWN = np.arange(64.0) * 9 + 11


def run(compiled, text):
    p, q = np.arange(512, dtype=np.float32), np.zeros(64, np.float32)
    compiled(SETUP + text, PARAMETERS, before=BEFORE).run((1,), (64,), [p, q])
    return q


SUMS = np.arange(512).reshape(8, 64).sum(0)[::-1].astype(float)
OF_ROLES = np.arange(192).reshape(6, 32).sum(0)[::-1].astype(float)


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        (COPY, COPY_RIGHT, np.arange(64.0)[::-1]),
        (COPY, COPY_RIGHT | {"wait": "auto token = bar.arrive(); bar.wait(std_move(token));"},
         np.arange(64.0)[::-1]),
        (RING, RING_RIGHT, SUMS),
        (RING, RING_RIGHT | {"stages": 3, "slots": 4}, SUMS),
        (ROLES, ROLES_RIGHT, np.concatenate([np.zeros(32), OF_ROLES])),
        (THREAD, {"most": 2}, SUMS),
        (AT_ONCE, OWN, OF_OWN),
        (AT_ONCE, OWN | BY_BARRIER, OF_OWN),
        (AT_ONCE, BY_BLOCK, np.arange(64.0)),
        (AT_ONCE, BY_BARRIER | TO_RESULT, np.arange(64.0)),
    ],
)  # fmt: skip
def test_copies_and_barrier_objects_give_the_results_of_cuda(compiled, text, values, expected):
    found = run(compiled, text.format(**values).replace("std_move", ""))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("text", "values", "message"),
    [
        (COPY, COPY_RIGHT | {"wait": ""}, "is uninitialised|races with"),
        (COPY, COPY_RIGHT | {"expected": "65"}, "never ends: too few threads arrive"),
        (COPY, COPY_RIGHT | {"first": ""}, "races with|before its init"),
        (COPY, COPY_RIGHT | {"end": "s[t] = 0;"}, "races with"),
        (RING, RING_RIGHT | {"release": ""}, "never ends"),
        (RING, RING_RIGHT | {"wait": ""}, "races with|is uninitialised"),
        (RING, RING_RIGHT | {"slots": 1}, "copies to byte|races with"),
        (ROLES, ROLES_RIGHT | {"wait_empty": ";"}, "never ends"),
        (ROLES, ROLES_RIGHT | {"wait_full": "full[i % 2].arrive();"}, "races with|uninitialised"),
        (
            ROLES,
            ROLES_RIGHT | {"early": ROLES_RIGHT["late"], "late": ""},
            "store of 4 bytes .* of shared memory races with thread .*(32|63)",
        ),
        (THREAD, {"most": 3}, "where the copy of line .* is under way"),
        (AT_ONCE, OWN | {"copy": OWN["copy"].replace("4 * t", "4 * t + 1")}, "is misaligned"),
        (AT_ONCE, OWN | {"copy": OWN["copy"].replace("p + 4", "p + 12")}, "is out of bounds"),
        (AT_ONCE, BY_BLOCK | {"wait": ""}, "races with"),
        (AT_ONCE, BY_BARRIER | TO_RESULT | {"wait": "q[t] = q[t ^ 1];"}, "races with"),
        (
            AT_ONCE,
            OWN | {"copy": "__pipeline_memcpy_async(&one, p + t, 4);"},
            "asynchronously to memory that is not shared",
        ),
    ],
)
def test_misuse_of_asynchronous_copies_and_barriers_is_a_fault(compiled, text, values, message):
    with pytest.raises(KernelFault, match=message):
        run(compiled, text.format(**values))
