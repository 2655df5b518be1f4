"""What CUDA leaves undefined is refused, and its defined counterpart is accepted."""

import re

import pytest

from base.errors import StudyError
from kernels.host_execution.compiler import unchecked_lines
from kernels.launches.accesses import counted
from kernels.launches.checks import at_large_sizes
from kernels.launches.program import write
from kernels.launches.verdict import judge

pytestmark = pytest.mark.exhaustive

# A thread per element of C; ROW and COLUMN are those of the element.
PLAIN = """\
// launch: mine<<<dim3(CEIL_DIV(n, 16), CEIL_DIV(n, 16)), dim3(16, 16){shared}>>>(a, b, c, n)
{before}
extern "C" __global__ void {bounds} mine(const float *a, const float *b, float *c, int n) {{
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    {first}
    if (row >= n || column >= n) return;
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
    {last}
    c[row * n + column] = sum;
}}
"""
# A warp per 32 elements of a row of C.
WARP = """// launch: mine<<<dim3(CEIL_DIV(n, 32), n), 32>>>(a, b, c, n)
extern "C" __global__ void mine(const float *a, const float *b, float *c, int n) {{
    __shared__ float part[32];
    const int row = blockIdx.y, lane = threadIdx.x, column = blockIdx.x * 32 + lane;
    float sum = 0.0f;
    for (int k = 0; k < n; k += 32) {{
        part[lane] = k + lane < n ? a[row * n + k + lane] : 0.0f;
        {loaded}
        for (int i = 0; i < 32 && k + i < n; ++i)
            sum += part[{read}] * (column < n ? b[(k + i) * n + column] : 0.0f);
        __syncwarp();
    }}
    if (column < n) c[row * n + column] = sum;
}}
"""
# A warp per element of C; its lanes add their sums by shuffles.
SHUFFLE = """// launch: mine<<<dim3(n, CEIL_DIV(n, 16)), dim3(32, 16)>>>(a, b, c, n)
extern "C" __global__ void mine(const float *a, const float *b, float *c, int n) {{
    const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x, lane = threadIdx.x;
    if (row >= n) return;
    {first}
    float sum = 0.0f;
    for (int k = lane; k < n; k += {lanes}) sum += a[row * n + k] * b[k * n + column];
    for (int d = {half}; d > 0; d /= 2) sum += __shfl_down_sync({mask}, sum, d);
    if (lane == 0) c[row * n + column] = sum;
}}
"""
# Slices of A come by asynchronous copies through a ring of `slots`, `ahead` of them in flight.
RING = """// launch: mine<<<dim3(CEIL_DIV(n, 32), n), 32>>>(a, b, c, n)
extern "C" __global__ void mine(const float *a, const float *b, float *c, int n) {{
    __shared__ float part[4][32];
    const int row = blockIdx.y, lane = threadIdx.x, column = blockIdx.x * 32 + lane;
    const int steps = (n + 31) / 32;
    float sum = 0.0f;
    for (int s = 0; s < steps + {ahead}; ++s) {{
        if (s < steps) {{
            const int k = s * 32 + lane;
            __pipeline_memcpy_async(&part[s % 4][lane], &a[row * n + (k < n ? k : 0)], 4,
                                    k < n ? 0 : 4);
        }}
        __pipeline_commit();
        if (s < {ahead}) continue;
        __pipeline_wait_prior({ahead});
        __syncthreads();
        const int t = s - {ahead};
        for (int i = 0; i < 32 && t * 32 + i < n; ++i)
            sum += part[t % 4][i] * (column < n ? b[(t * 32 + i) * n + column] : 0.0f);
        __syncthreads();
    }}
    if (column < n) c[row * n + column] = sum;
}}
"""


def plain(shared="", before="", bounds="", first="", last=""):
    return PLAIN.format(shared=shared, before=before, bounds=bounds, first=first, last=last)


def warp(loaded, read="i"):
    return WARP.format(loaded=loaded, read=read)


def shuffle(lanes=32, half=16, mask="0xffffffffu", first=""):
    return SHUFFLE.format(lanes=lanes, half=half, mask=mask, first=first)


HALVES = "__syncwarp(lane < 16 ? 0xffffu : 0xffff0000u);"
GUARD = "if (row < n && column < n)"
FAULTS = {
    # Inputs and results
    "stores to A": (
        plain(last="if (column == n - 1) ((float *)a)[row * n] = sum;"),
        r"stor.* A(\(|,)",
    ),
    "stores to B, the same value": (
        plain(last="if (row == n - 1) ((float *)b)[column] = b[column];"),
        r"stor.* B(\(|,)",
    ),
    "stores a byte of A": (plain(last="((char *)a)[0] = 1;"), r"stor.* A(\(|,)"),
    "reads its C": (
        plain(first=f"float old = 0; {GUARD} old = c[row * n + column];", last="sum += 0 * old;"),
        ":5: .*uninitialised: nothing was stored there",
    ),
    "a branch on C": (plain(first=f"{GUARD} if (c[row * n + column] == 5) return;"), ":5: .*uni"),
    "reads C of a neighbour": (
        plain(last="if (column + 1 < n && c[row * n + column + 1] > 1e9f) sum = 0;"),
        ":9: .*uninitialised",
    ),
    "wrong at the size of counts": (
        plain(first="if (n == 128) n = 120;"),
        "elements wrong|does not store C",
    ),
    "wrong from 100": (
        plain(first="if (n % 64 == 0 && n > 100) return;"),
        "elements wrong|does not store C",
    ),
    "replays its first product": (
        plain(
            before="__device__ float kept[16384]; ",
            last="if (n == 128) { float &k = kept[row * 128 + column]; sum = k ? k : (k = sum); }",
        ),
        "elements wrong",
    ),
    # Launches
    "bounds of the launch": (
        plain(bounds="__launch_bounds__(128)"),
        r"__launch_bounds__\(128\), but",
    ),
    "bounds by a macro": (
        plain(before="#define BOUND 256 / 2", bounds="__launch_bounds__(BOUND, 2)"),
        r"__launch_bounds__\(128\), but its blocks have 256 threads",
    ),
    "dynamic shared memory that grows": (
        plain(shared=", 8 * n * 16", before="extern __shared__ float row_of[];"),
        "needs 232,576 bytes of dynamic shared memory per block at size 1817",
    ),
    # Values without a definition
    "a branch on a flag in shared memory": (
        plain(before="", first="__shared__ int skip; if (skip == 1) return;"),
        ":5: .* of shared memory is uninitialised",
    ),
    "a branch on a zero in shared memory": (
        plain(first="__shared__ float seen[2]; if (seen[1] == 0.0f) return;"),
        ":5: .* of shared memory is uninitialised",
    ),
    "a local of a function": (
        plain(
            before="__device__ __noinline__ float more(int i, int n) "
            "{ float own[4]; if (n < 0) own[1] = 1; return own[i]; }",
            last="sum += more(n & 1, n);",
        ),
        "elements wrong",
    ),
    # Warps
    "halves of a warp": (warp(HALVES), ":10: .* races with thread"),
    "a half waits for itself": (warp("if (lane < 16) __syncwarp(0xffffu);"), "races with thread"),
    "no order by a shuffle": (warp("__shfl_sync(~0u, lane, 0);"), "races with thread"),
    "lanes that ended": (
        shuffle(lanes=20, first="if (lane >= 20) return;"),
        r":8: .* reads a value from lane \d+, which has ended or is not in the mask",
    ),
    "a mask without the caller": (shuffle(mask="0xffffu"), ":8: .* mask 0xffff lacks this lane"),
    "lanes beyond the mask": (
        shuffle(lanes=16, mask="0xffffu", first="if (lane >= 16) return;"),
        ":8: .* reads a value from lane",
    ),
    # Asynchronous copies
    "five copies for four slots": (RING.format(ahead=4), "where the copy of line 10 is under way"),
    # Code of GPUs
    "a branch of GPUs": (
        plain(last="#ifdef __CUDA_ARCH__\n    sum += 1;\n#endif"),
        "elements wrong",
    ),
    "a branch of new GPUs": (
        plain(
            before="#if __CUDA_ARCH__ >= 800\n#define MORE 1\n#else\n#define MORE 0\n#endif",
            last="sum += MORE;",
        ),
        "elements wrong",
    ),
}
RIGHT = {
    "plain": plain(bounds="__launch_bounds__(16 * 16)"),
    "a macro for the bounds": plain(
        before="#define BOUND 512 / 2", bounds="__launch_bounds__(BOUND, 2)"
    ),
    "the name of a C function": plain().replace("mine", "pow10"),
    "reads its own C after a store": plain(
        last="c[row * n + column] = 1; sum += c[row * n + column] - 1;"
    ),
    "halves of a warp that share nothing": warp(HALVES, "i < 32 ? (lane & 16) + (i & 15) : 0")
    .replace("k += 32", "k += 16")
    .replace(
        "k + lane < n ? a[row * n + k + lane]", "k + lane % 16 < n ? a[row * n + k + lane % 16]"
    )
    .replace("i < 32", "i < 16", 1)
    .replace("__syncwarp();", HALVES),
    "a whole warp": warp("__syncwarp();"),
    "half a warp": shuffle(lanes=16, half=8, mask="0xffffu", first="if (lane >= 16) return;"),
    "values that are not used": shuffle(
        lanes=16, half=8, mask="lane < 16 ? 0xffffu : 0xffff0000u", first="if (lane >= 16) n = 0;"
    ).replace("k < n", "lane < 16 && k < n"),
    "three copies for four slots": RING.format(ahead=3),
    "a branch of GPUs": plain(last="#ifdef __CUDA_ARCH__\n    sum += 0;\n#endif"),
}


@pytest.fixture
def tried(tmp_path):
    def check(text):
        path = tmp_path / "mine.cu"
        path.write_text(text)
        name = re.search(r"launch: (\w+)", text)[1]
        judged = at_large_sizes(judge(path, text, name))
        if judged.multiple != 1:
            raise StudyError(judged.fault)
        counted(judged, write(judged, None, tmp_path / "tried"))
        return unchecked_lines(text, {})

    return check


@pytest.mark.parametrize(("text", "message"), FAULTS.values(), ids=FAULTS)
def test_undefined_behaviour_and_wrong_code_are_refused(tried, text, message):
    with pytest.raises(StudyError, match=r"^[^\n]+\Z") as refused:
        tried(text)
    assert re.search(message, str(refused.value)), refused.value


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_behaviour_that_cuda_defines_is_accepted(tried, text):
    assert tried(text) == []


def test_lines_of_a_kernel_that_only_a_gpu_can_run_are_named(tried):
    clock = "#if __CUDA_ARCH__ >= 800\n    __nanosleep(9);\n    sum += 0;\n#endif"
    assert tried(plain(last=clock)) == [10, 11]
    old = "#if __CUDA_ARCH__ < 800\n    sum += 1;\n#endif"
    assert tried(plain(last=old)) == [10]
