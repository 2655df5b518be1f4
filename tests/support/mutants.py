"""Broken kernels: the change, and the expected fault with its line."""

from dataclasses import dataclass, replace

from kernels.catalog.product import Product
from tests.support.products import product_of

TILES_COMPLETE = "        __syncthreads();  // the tiles are complete\n"
TILES_READ = (
    "        __syncthreads();  // nobody overwrites a tile that another thread still reads\n"
)
TILE_COMPLETE = "        __syncthreads();  // the tile is complete\n"
NEXT_TILE_COMPLETE = (
    "        __syncthreads();  // the next tile is complete, and nobody reads this one any more\n"
)
GUARD = "    if (row >= n || column >= n) return;\n"


@dataclass(frozen=True)
class Mutant:
    """`old` text of a kernel becomes `new`; the fault must name the line that contains `at`."""

    name: str
    kernel: str
    shape: int | str
    block: int | None
    old: str
    new: str
    at: str
    says: str
    dtype: str = "float32"

    @property
    def product(self) -> Product:
        return product_of(self.kernel, self.shape, self.block, self.dtype)


def wrong_product(name, kernel, shape, block, old, new, at, says="stores C", dtype="float32"):
    return Mutant(name, kernel, shape, block, old, new, at, rf"{says}.*bit for bit", dtype)


MUTANTS = [
    Mutant(
        "no first barrier",
        *("block", 16, 8, TILES_COMPLETE, "", "sum += a_tile"),
        "no thread of the block wrote it",
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
        "no thread of the block wrote it",
    ),
    Mutant(
        "early return before a barrier",
        *("block", 17, 8, "    float sum = 0.0f;\n", GUARD + "    float sum = 0.0f;\n"),
        *("the tiles are complete", r"has ended without it"),
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
        *("nobody overwrites", r"has ended without it"),
    ),
    Mutant(
        "half a block waits at another barrier",
        *("block", 16, 8, TILES_COMPLETE),
        "        if (y < 4) __syncthreads();  // above\n        else\n" + TILES_COMPLETE,
        *(
            "// above",
            r"waits at this barrier, while thread \(0, 4, 0\) waits at the barrier at line 24",
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
        *("sum += smem", "load of 4 bytes at byte 4 of shared memory is uninitialised: no thread"),
    ),
    Mutant(
        "shared memory of an earlier block",
        *("buffered_column", 16, None, "    smem[row] =", "    if (column == 0) smem[row] ="),
        *("* smem[k]", r"block \(1, 0, 0\).* no thread of the block wrote it"),
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
    wrong_product(
        "products with a wrong unroll offset of eight",
        *("block_unroll8", 32, 16, "a_tile[y + i * ROWS][k]", "a_tile[y + i][k]", "= sum[i]"),
    ),
    Mutant(
        "right, but coalesced",
        *("tile_uncoalesced", 32, 16, "b_tile[x][y] = b[(tile + x) * n + first_column + y];"),
        *("b_tile[y][x] = b[(tile + y) * n + first_column + x];", "= b[|= a["),
        r"global_load: .* by theory",
    ),
    wrong_product(
        "the host's transposition forgotten",
        *("tile_transposed_b", 32, 16, "b_tile[x][k]", "b_tile[k][x]", "first_column + x] = sum"),
    ),
    Mutant(
        "rows of a tile without padding",
        *("tile_conflict_free", 32, 16, "[BLOCK][BLOCK + 1]", "[BLOCK][BLOCK]", "sum += a_tile"),
        r"shared_load: .* by theory",
    ),
    Mutant(
        "no barrier before an outer product",
        *("outer_product", 64, None, TILE_COMPLETE, "", "sum[i] += a_tile"),
        "no thread of the block wrote it",
    ),
    Mutant(
        "no bound when a column of C is stored",
        *("outer_product_unrolled", 17, None),
        *("if (first_row + i >= n || column >= n) continue;", "", "= sum[i]"),
        r"is out of bounds|races with .* of this or an earlier block",
    ),
    Mutant(
        "no barrier between two tiles",
        *("outer_product_prefetch", 64, None, NEXT_TILE_COMPLETE, "", "sum[i] += a_tile[used]"),
        "no thread of the block wrote it",
    ),
    Mutant(
        "next tile over the one in use",
        *("outer_product_prefetch", 64, None, "a_tile[used][y + i * ROWS][x] = next[i]"),
        *("a_tile[1 - used][y + i * ROWS][x] = next[i]", "+= a_tile[used]", "races with"),
    ),
    Mutant(
        "tiles of registers overwritten while they are read",
        *("register_tile", 128, None),
        "        __syncthreads();  // nobody reads the tiles before these any more\n",
        *("", "read_fragment(a_fragment", "no barrier is between them"),
    ),
    Mutant(
        "no bound of the last word of four",
        *("register_tile", 130, None, "inside && column + 3 < n ? from[3]", "inside ? from[3]"),
        *("= load_part(b", "load of 4 bytes at byte .* of buffer . is out of bounds"),
    ),
    Mutant(
        "no barrier between two stages",
        *("register_tile_double_buffered", 128, None),
        "                __syncthreads();  // the next tiles are complete, and nobody reads these "
        "any more\n",
        *("", "read_fragment(a_fragment[next]", "no thread of the block wrote it"),
    ),
    Mutant(
        "stages not exchanged",
        *("register_tile_double_buffered", 128, None, "                stage = 1 - stage;\n", ""),
        *("read_fragment(a_fragment[0]", "races with"),
    ),
    wrong_product(
        "fragment of the next step used",
        *("register_tile_double_buffered", 128, None, "a_fragment[used][i]"),
        *("a_fragment[next][i]", "store_part("),
    ),
    Mutant(
        "lanes of a warp that compute the same elements",
        *("register_tile_conflict_free", 128, None, "lane / 16 * 8", "lane / 16 * 4"),
        *("store_part(", "races with"),
    ),
    Mutant(
        "transposed tile without padding",
        *("register_tile_conflict_free", 128, None, "(TILE + 4)", "TILE", "store_transposed("),
        r"shared_store: .* by theory",
    ),
    Mutant(
        "no barrier between two asynchronous stages",
        *("register_tile_async", 128, None),
        "                __syncthreads();  // the next tiles are complete, and nobody reads these "
        "any more\n",
        *("", "read_fragment(a_fragment[next]", "no thread of the block wrote it"),
    ),
    Mutant(
        "rows of A copied beyond the last",
        *("register_tile_async", 130, None, "first_row + a_row + row < n &&", "true &&"),
        *("copy<1>(", "load of 4 bytes at byte .* of buffer . is out of bounds"),
    ),
    Mutant(
        "a stage copied over the one that is read",
        *("sgemm_top", 128, 64032, "free_stage = used_stage;", "free_stage = next_stage;"),
        *("copy<|read_fragment<", "races with|no barrier is between them"),
    ),
    Mutant(
        "sums of slices read before they are there",
        *("sgemm_top", 64, 64032, "    __syncthreads();  // all parts of the sums are there\n", ""),
        *("= parts[", "no thread of the block wrote it|no barrier is between them"),
    ),
    wrong_product(
        "sums of slices added in another order",
        *("sgemm_top", 64, 64032, "(other * VECTORS + vector)"),
        *("((T.slices - other) * VECTORS + vector)", "store_vector<"),
    ),
    Mutant(
        "no barrier before a split tile is multiplied",
        *("sgemm_tensor", 128, None, "        __syncthreads();  // the tile is split\n", ""),
        *("host_tensor_operand", "no thread of the block wrote it"),
    ),
    Mutant(
        "a tile is split while it is multiplied",
        *("sgemm_tensor", 192, None, "split_b(next % 2)", "split_b(next % 2 ^ 1)"),
        *("split(to|host_tensor_operand", "races with"),
    ),
    Mutant(
        "chunks in their order",
        *("sgemm_tensor", 128, None, "(chunk ^ line % 8)", "chunk", "split(to"),
        r"shared_store: .* by theory",
    ),
    Mutant(
        "small products left out",
        *("sgemm_tensor", 128, None, "sum += a_low[row][i]", "sum += 0.0f * a_low[row][i]"),
        *("store_part(", "elements wrong"),
    ),
    Mutant(
        "one of two scales undone",
        *("sgemm_tensor", 128, None, " * fmaxf(of_row, of_column)", ""),
        *("store_part(", "elements wrong"),
    ),
    wrong_product(
        "indices of B swapped where they are not square",
        *(
            "mm_naive",
            "17x9x33",
            8,
            "b[i * n + column]",
            "b[column * k + i]",
            "] = sum",
            "stores C",
        ),
        "int32",
    ),
    wrong_product(
        "integers multiplied as numbers of 24 bits",
        *("mm_naive", 16, 8, "ELEMENT sum = 0", "float sum = 0", "] = sum", "stores C", "int32"),
    ),
    Mutant(
        "no bound of the last tile of B, of doubles",
        *("mm_tile", "9x17x33", 8, "tile + y < k && column < n ?", "column < n ?"),
        *("b_tile[y][x] = ", "load of 8 bytes .* of buffer 1 is out of bounds", "float64"),
    ),
    Mutant(
        "rows and columns of C mistaken",
        *("mm_tile", "33x8x17", 8, "row >= m || column >= n", "row >= n || column >= m", "] = sum"),
        r"of buffer 2 is out of bounds|races with|does not store",
    ),
    Mutant(
        "matrices of a batch mistaken",
        *("bmm_tile", "3x9x5x17", 8, "* m * k;", "* k * n;", "a_tile[y][x] = "),
        "of buffer 0 is out of bounds",
        "int32",
    ),
    Mutant(
        "products of a batch in one place",
        *("bmm_naive", "2x9x5x17", 8, "c += static_cast<size_t>(blockIdx.z) * m * n;", ""),
        *("] = sum", "races with .* of this or an earlier block"),
    ),
    wrong_product(
        "one matrix for all of a batch",
        *("bmm_naive", "2x9x5x17", 8, "b += static_cast<size_t>(blockIdx.z) * k * n;", ""),
        *("] = sum", r"stores C\(1, 0, 0\)", "float64"),
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
