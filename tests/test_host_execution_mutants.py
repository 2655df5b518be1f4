"""Broken kernels: each is found, and the message names the kernel and the source line."""

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kernels import catalog
from kernels.host_execution.binding import KernelFault
from kernels.host_execution.check import check

ROOT = Path(__file__).resolve().parent.parent
TILES_COMPLETE = "        __syncthreads();  // the tiles are complete\n"
TILES_READ = (
    "        __syncthreads();  // nobody overwrites a tile that another thread still reads\n"
)
GUARD = "    if (row >= n || column >= n) return;\n"


@dataclass(frozen=True)
class Mutant:
    """`old` text of a kernel becomes `new`; the fault must be told at the line that holds `at`."""

    name: str
    kernel: str
    n: int
    block: int | None
    old: str
    new: str
    at: str
    says: str


def wrong_product(name, kernel, n, block, old, new, at, says="stores C"):
    return Mutant(name, kernel, n, block, old, new, at, rf"{says}.*bit for bit")


MUTANTS = [
    Mutant(
        "no first barrier",
        *("block", 16, 8, TILES_COMPLETE, "", "sum += a_tile"),
        "which no thread of the block has written",
    ),
    Mutant(
        "no second barrier",
        *("block", 16, 8, TILES_READ, "", "sum += a_tile"),
        r"races with thread \(0, 0, 0\) at line 19: no barrier is between them",
    ),
    Mutant(
        "no second barrier, strided loads",
        *("block_strided", 16, 4, TILES_READ, "", "sum += a_tile"),
        "no barrier is between them",
    ),
    Mutant(
        "no second barrier, unrolled",
        *("block_unroll4", 32, 8, TILES_READ, "", "+= a_tile|b_element = b_tile"),
        "no barrier is between them",
    ),
    Mutant(
        "no barrier after a row is buffered",
        *("buffered_row", 16, None, "    __syncthreads();\n", "", "sum += smem"),
        "which no thread of the block has written",
    ),
    Mutant(
        "early return before a barrier",
        *("block", 17, 8, "    float sum = 0.0f;\n", GUARD + "    float sum = 0.0f;\n"),
        *("the tiles are complete", r"does not reach: it has ended"),
    ),
    Mutant(
        "early return inside the loop",
        *(
            "block_strided",
            17,
            8,
            TILES_READ,
            "        if (first_row + y >= n) return;\n" + TILES_READ,
        ),
        *("nobody overwrites", r"does not reach: it has ended"),
    ),
    Mutant(
        "half a block waits at another barrier",
        *("block", 16, 8, TILES_COMPLETE),
        "        if (y < 4) __syncthreads();  // above\n        else\n" + TILES_COMPLETE,
        *(
            "// above",
            r"waits at this barrier, while thread \(0, 4, 0\) waits at the one in line 24",
        ),
    ),
    Mutant(
        "one product too many",
        *("naive", 16, 16, "k < n", "k <= n", "sum += a["),
        "load of 4 bytes at byte 1024 of buffer 1 is out of bounds",
    ),
    Mutant(
        "bound off by one",
        *("naive_coalesced", 17, 8, "row >= n ||", "row > n ||", "sum += a["),
        "load of 4 bytes at byte 1156 of buffer 0 is out of bounds",
    ),
    Mutant(
        "no bound",
        *("naive", 17, 8, GUARD, "", "sum += a["),
        "is out of bounds",
    ),
    Mutant(
        "no bound of the last tile of B",
        *("block", 17, 8, "tile + y < n && column < n ?", "column < n ?", ": 0.0f;|b_tile[y][x]"),
        "of buffer 1 is out of bounds",
    ),
    Mutant(
        "no bound when C is stored",
        *("block_unroll4", 17, 8, "if (row >= n || column >= n) continue;", "", "= sum[i]"),
        r"is out of bounds|races with .* of this or an earlier block",
    ),
    Mutant(
        "a product before the first",
        *("buffered_column", 16, None, "a[row * n + k]", "a[row * n + k - 1]", "sum += a["),
        "load of 4 bytes at byte -4 of buffer 0 is out of bounds",
    ),
    wrong_product(
        "bound too tight",
        *("naive", 17, 8, "row >= n ||", "row >= n - 1 ||", "c[row * n + column] = sum"),
        says=r"does not store C\(16, 0\)",
    ),
    wrong_product(
        "indices of B swapped",
        *("naive", 16, 16, "b[k * n + column]", "b[column * n + k]", "c[row * n + column] = sum"),
    ),
    wrong_product(
        "indices of C swapped",
        *("naive_coalesced", 16, 8, "c[row * n + column]", "c[column * n + row]", "] = sum"),
    ),
    wrong_product(
        "indices of a tile swapped",
        *("block", 16, 8, "b_tile[k][x]", "b_tile[x][k]", "c[row * n + column] = sum"),
    ),
    Mutant(
        "wrong distance between tiles",
        *("block", 16, 8, "tile += BLOCK", "tile += BLOCK + 1", "b_tile[y][x] = b["),
        "out of bounds",
    ),
    wrong_product(
        "first tile left out",
        *("block_strided", 16, 8, "int tile = 0", "int tile = BLOCK", "] = sum"),
    ),
    Mutant(
        "tile one row too small",
        *("block", 16, 8, "b_tile[BLOCK][BLOCK]", "b_tile[BLOCK - 1][BLOCK]", "b_tile[y][x] = b["),
        "index 7 is outside its array",
    ),
    Mutant(
        "tile with a short row",
        *("block_unroll4", 16, 8, "float a_tile[BLOCK][BLOCK]", "float a_tile[BLOCK][BLOCK - 1]"),
        *("a_tile[r][x] = a[", "index 7 is outside its array"),
    ),
    Mutant(
        "dynamic shared memory exceeded",
        *("buffered_row", 16, None, "smem[column] =", "smem[column + 1] =", "smem[column + 1] ="),
        "store of 4 bytes at byte 64 of shared memory is out of bounds",
    ),
    Mutant(
        "half of a row never loaded",
        *(
            "buffered_row",
            16,
            None,
            "    smem[column] =",
            "    if (column % 2 == 0) smem[column] =",
        ),
        *("sum += smem", "load of 4 bytes at byte 4 of shared memory, which no thread"),
    ),
    Mutant(
        "shared memory of an earlier block",
        *("buffered_column", 16, None, "    smem[row] =", "    if (column == 0) smem[row] ="),
        *("* smem[k]", r"block \(1, 0, 0\).* which no thread of the block has written"),
    ),
    Mutant(
        "misaligned float4 from global memory",
        *("naive_coalesced", 16, 16, "a[row * n + k] *"),
        *("((const float4 &)a[row * n + k]).x *", "sum += "),
        "",
    ),
    Mutant(
        "tile loaded with a wrong unroll offset",
        *("block_unroll4", 32, 16, "const int r = y + i * ROWS", "const int r = y + i"),
        *("a_tile[r][x] = a[", "races with thread \\(0, 0, 0\\) at line 25"),
    ),
    wrong_product(
        "products with a wrong unroll offset",
        *("block_unroll4", 32, 16, "a_tile[y + i * ROWS][k]", "a_tile[y + i][k]", "= sum[i]"),
    ),
    Mutant(
        "C stored with a wrong unroll offset",
        *("block_unroll4", 32, 16, "first_row + y + i * ROWS;", "first_row + y + i;", "= sum[i]"),
        r"races with thread \(0, 0, 0\), of this or an earlier block, at line 45",
    ),
    Mutant(
        "blocks store the same elements",
        *("naive_coalesced", 16, 8, "c[row * n + column]", "c[column]", "c[column]"),
        "races with",
    ),
    wrong_product(
        "sum taken backwards",
        *("naive", 16, 16, "int k = 0; k < n; ++k", "int k = n - 1; k >= 0; --k", "] = sum"),
    ),
    wrong_product(
        "sum of higher precision",
        *("naive", 64, 16, "float sum = 0.0f", "double sum = 0", "] = sum"),
    ),
    Mutant(
        "right, but uncoalesced",
        *("block", 16, 16, "a_tile[y][x] = a[row * n + tile + x];"),
        *("a_tile[x][y] = a[(blockIdx.y * BLOCK + x) * n + tile + y];", "a_tile[x][y] = a["),
        r"global_load: .* by theory",
    ),
    Mutant(
        "right, but shared memory is read twice",
        *("block_unroll4", 16, 8, "* b_element", "* b_tile[k][x]", "* b_tile[k][x]"),
        r"shared_load: .* by theory",
    ),
]
# A float4 that is read as a whole: `four` holds it.
FLOAT4 = "const float4 four = *(const float4 *)(a + row * n + k);\n        sum += four.x *"
MUTANTS = [
    replace(mutant, old="sum += a[row * n + k] *", new=FLOAT4, at="float4 four", says="misaligned")
    if "float4" in mutant.name
    else mutant
    for mutant in MUTANTS
]


@pytest.fixture(scope="module")
def host_builds(tmp_path_factory):
    """Folder of the builds of this module's tests."""
    return tmp_path_factory.mktemp("builds")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_found_at_its_line(mutant, tmp_path, host_builds):
    original = (ROOT / catalog.variant(mutant.kernel).source).read_text()
    assert mutant.old in original
    text = original.replace(mutant.old, mutant.new)
    source = tmp_path / f"{mutant.kernel}.cu"
    source.write_text(text)
    with pytest.raises(KernelFault) as found:
        check(mutant.kernel, mutant.n, mutant.block, source, host_builds)
    message = str(found.value)
    assert "\n" not in message
    place = re.match(rf"{re.escape(str(source))}:([\d,]+): {mutant.kernel}\b", message)
    assert place, message
    lines = [text.splitlines()[int(number) - 1] for number in place[1].split(",")]
    assert any(at in line for at in mutant.at.split("|") for line in lines), message
    assert re.search(mutant.says, message), message


def test_there_are_enough_mutants_each_of_another_name():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 15
    assert {mutant.kernel for mutant in MUTANTS} == set(catalog.VARIANTS)


def test_launch_with_too_little_shared_memory_is_found(monkeypatch, host_builds):
    entry = catalog.variant("buffered_row")

    def launch(n, block_size):
        whole = entry.launch(n, block_size)
        return replace(whole, dynamic_shared_bytes=whole.dynamic_shared_bytes - 4)

    monkeypatch.setitem(catalog.VARIANTS, "buffered_row", replace(entry, launch=launch))
    with pytest.raises(KernelFault) as found:
        check("buffered_row", 16, None, folder=host_builds)
    assert str(found.value) == (
        "kernels/buffered_row.cu:10: buffered_row, block (0, 0, 0), thread (15, 0, 0): store of 4 "
        "bytes at byte 60 of shared memory is out of bounds"
    )
