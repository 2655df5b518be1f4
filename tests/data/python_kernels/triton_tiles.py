"""Tiles of float matrices by Triton. The tests change its two options."""

import torch
import triton
import triton.language as tl

PRECISION = tl.constexpr("ieee")
CHECKS_K = tl.constexpr(True)


@triton.jit
def tiles(a, b, c, m, n, k, side: tl.constexpr, depth: tl.constexpr):
    rows = tl.program_id(0) * side + tl.arange(0, side)
    columns = tl.program_id(1) * side + tl.arange(0, side)
    total = tl.zeros((side, side), dtype=tl.float32)
    for start in range(0, k, depth):
        steps = start + tl.arange(0, depth)
        is_step = steps < k if CHECKS_K else steps >= 0
        left = tl.load(
            a + rows[:, None] * k + steps[None, :],
            mask=(rows[:, None] < m) & is_step[None, :],
            other=0.0,
        )
        right = tl.load(
            b + steps[:, None] * n + columns[None, :],
            mask=is_step[:, None] & (columns[None, :] < n),
            other=0.0,
        )
        total += tl.dot(left, right, input_precision=PRECISION)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * n + columns[None, :], total, mask=inside)


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), device=a.device, dtype=a.dtype)
    tiles[triton.cdiv(m, 64), triton.cdiv(n, 64)](a, b, c, m, n, k, side=64, depth=32)
    return c


# expected: correct
