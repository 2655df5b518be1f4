"""Cooperative groups and warp functions on the host: values, and faults."""

import numpy as np
import pytest

from kernels.host_execution.binding import KernelFault

BEFORE = "#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\n"
BEFORE += "namespace cg = cooperative_groups;\n"
SETUP = "const int t = threadIdx.x; auto block = cg::this_thread_block();\n"
SETUP += "auto tile = cg::tiled_partition<8>(block); auto warp = cg::tiled_partition<32>(block);\n"
T = np.arange(64)
VALUES = {
    "block.thread_rank() + 100 * block.size()": T + 6400,
    "tile.thread_rank() + 10 * tile.meta_group_rank()": T % 8 + 10 * (T // 8),
    "tile.shfl(t, 3)": T // 8 * 8 + 3,
    "tile.shfl_up(t, 2)": np.where(T % 8 < 2, T, T - 2),
    "tile.shfl_down(t, 3)": np.where(T % 8 > 4, T, T + 3),
    "tile.shfl_xor(t, 5)": T // 8 * 8 + (T % 8 ^ 5),
    "tile.ballot(t % 3 == 0)": [
        sum(1 << i for i in range(8) if (t // 8 * 8 + i) % 3 == 0) for t in T
    ],
    "tile.any(t == 9) + 2 * tile.all(t < 16)": (T // 8 == 1) + 2 * (T < 16),
    "cg::reduce(tile, t, cg::plus<int>())": T // 8 * 64 + 28,
    "cg::reduce(warp, t % 7, cg::greater<int>())": np.full(64, 6),
    "cg::inclusive_scan(tile, 1)": T % 8 + 1,
    "__reduce_max_sync(~0u, t)": T // 32 * 32 + 31,
    "__popc(__match_any_sync(~0u, t % 4))": np.full(64, 8),
    "warp.match_any(t / 8) >> (t % 32 / 8 * 8)": np.full(64, 255),
    "cg::tiled_partition(block, 16).thread_rank()": T % 16,
    "cg::labeled_partition(warp, t % 2).thread_rank()": T % 32 // 2,
}


def test_cooperative_groups_report_the_sizes_and_ranks_of_cuda(compiled):
    lines = [f"p[{64 * at} + t] = {text};" for at, text in enumerate(VALUES)]
    p = np.zeros((len(VALUES), 64), np.int32)
    compiled(SETUP + "\n".join(lines), "int *p", before=BEFORE).run((1,), (64,), [p])
    for text, row in zip(VALUES, p, strict=True):
        assert row.tolist() == list(VALUES[text]), text


def test_the_active_mask_contains_the_lanes_that_call_it_together(compiled):
    body = (
        "const int t = threadIdx.x;\n"
        "if (t % 3 == 0) { auto g = cg::coalesced_threads(); p[t] = g.size();\n"
        "p[32 + t] = g.shfl(t, 1) + g.thread_rank(); } else p[t] = __activemask();\n"
    )
    p = np.zeros(64, np.uint32)
    compiled(body, "unsigned *p", before=BEFORE).run((1,), (32,), [p])
    others = sum(1 << t for t in range(32) if t % 3)
    assert p[:32].tolist() == [others if t % 3 else 11 for t in range(32)]
    assert p[32::3].tolist() == [3 + rank for rank in range(11)]


COPY = """
    __shared__ float s[64];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, s, p, sizeof(float) * 64);
    {wait}
    q[block.thread_rank()] = s[63 - block.thread_rank()] + 1;
    {end}
"""


def test_asynchronous_copies_of_a_group_end_before_its_wait_returns(compiled):
    p = np.arange(64, dtype=np.float32)
    q = np.zeros_like(p)
    text = COPY.format(wait="cg::wait(block);", end="")
    compiled(text, "const float *p, float *q", before=BEFORE).run((1,), (64,), [p, q])
    assert q.tolist() == [64.0 - i for i in range(64)]


@pytest.mark.parametrize(
    ("wait", "end", "message"),
    [
        ("", "", "load of 4 bytes .* of shared memory (is uninitialised|races with)"),
        ("cg::wait(block);", "s[block.thread_rank()] = 0;", "races with thread"),
        ("if (block.thread_rank() < 40) block.sync(); else cg::wait(block);", "", "barrier"),
        ("cg::wait(block); cg::tiled_partition<32>(block).shfl(threadIdx.x == 3 ? *s : 0, 1);"
         "if (threadIdx.x != 5) cg::sync(cg::tiled_partition<8>(block));", "",
         "waits for thread"),
    ],
)  # fmt: skip
def test_misuse_of_cooperative_groups_is_reported_as_a_fault(compiled, wait, end, message):
    text = COPY.format(wait=wait, end=end + "__syncthreads();")
    with pytest.raises(KernelFault, match=message):
        compiled(text, "const float *p, float *q", before=BEFORE).run(
            (1,), (64,), [np.zeros(64, np.float32), np.zeros(64, np.float32)]
        )
