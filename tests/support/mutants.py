"""Broken kernels: the change, and the expected fault with its line."""

from dataclasses import dataclass
from string import Template

from kernels.catalog.product import Product
from tests.support.products import product_of


@dataclass(frozen=True)
class Mutant:
    """`old` text of a kernel becomes `new`; the fault must name the line that contains `at`."""

    name: str
    kernel: str
    shape: str
    block: int | None
    dtype: str
    says: str
    old: str
    new: str
    at: str

    @property
    def product(self) -> Product:
        return product_of(self.kernel, self.shape, self.block, self.dtype)


def barrier(comment, depth=2):
    return f"{depth * '    '}__syncthreads();  // {comment}\n"


WORDS = {
    "n": "\n",
    "nothing": "",
    "guard": "    if (row >= n || column >= n) return;\n",
    "tile_complete": barrier("the tile is complete"),
    "tiles_complete": barrier("the tiles are complete"),
    "tiles_read": barrier("nobody overwrites a tile that another thread still reads"),
    "next_tile_complete": barrier("the next tile is complete, and nobody reads this one any more"),
    "next_tiles_complete": barrier(
        "the next tiles are complete, and nobody reads these any more", 4
    ),
    "differs": "stores C.*bit for bit",
    "earlier": "races with .* of this or an earlier block",
    "first_thread": r"races with thread \(0, 0, 0\)",
    "load": "load of 4 bytes at byte",
    "outside": "is out of bounds",
    "unordered": "no barrier is between them",
    "unwritten": "no thread of the block wrote it",
}
# Two lines per mutant: name @ kernel, shape, block size and type @ fault; old => new @ line.
TABLE = r"""
no first barrier @ block 16 8 @ $unwritten
$tiles_complete => $nothing @ sum += a_tile
no second barrier @ block 16 8 @ $first_thread at line 19: $unordered
$tiles_read => $nothing @ sum += a_tile
no second barrier, strided loads @ block_strided 16 4 @ $unordered
$tiles_read => $nothing @ sum += a_tile
no second barrier, unrolled @ block_unroll4 32 8 @ $unordered
$tiles_read => $nothing @ += a_tile|b_element = b_tile
no barrier after a row is buffered @ buffered_row 16 - @ $unwritten
    __syncthreads();$n => $nothing @ sum += smem
early return before a barrier @ block 17 8 @ $unwritten
    float sum = 0.0f;$n => $guard    float sum = 0.0f;$n @ sum += a_tile
early return inside the loop @ block_strided 17 8 @ $differs
$tiles_read =>         if (first_row + y >= n) return;$n$tiles_read @ ] = sum
half a block waits at another barrier @ block 16 8 @ \
waits at this barrier, while thread \(0, 4, 0\) waits at the barrier at line 24
$tiles_complete =>         if (y < 4) __syncthreads();  // above$n        else$n$tiles_complete @ \
// above
one product too many @ naive 16 16 @ $load 1024 of buffer 1 $outside
k < n => k <= n @ sum += a[
bound off by one @ naive_coalesced 17 8 @ $load 1156 of buffer 0 $outside
row >= n || => row > n || @ sum += a[
no bound @ naive 17 8 @ $outside
$guard => $nothing @ sum += a[
no bound of the last tile of B @ block 17 8 @ of buffer 1 $outside
tile + y < n && column < n ? => column < n ? @ : 0.0f;|b_tile[y][x]
no bound when C is stored @ block_unroll4 17 8 @ $outside|$earlier
if (row >= n || column >= n) continue; => $nothing @ = sum[i]
a product before the first @ buffered_column 16 - @ $load -4 of buffer 0 $outside
a[row * n + k] => a[row * n + k - 1] @ sum += a[
bound too tight @ naive 17 8 @ does not store C\(16, 0\).*bit for bit
row >= n || => row >= n - 1 || @ c[row * n + column] = sum
indices of B swapped @ naive 16 16 @ $differs
b[k * n + column] => b[column * n + k] @ c[row * n + column] = sum
indices of C swapped @ naive_coalesced 16 8 @ $differs
c[row * n + column] => c[column * n + row] @ ] = sum
indices of a tile swapped @ block 16 8 @ $differs
b_tile[k][x] => b_tile[x][k] @ c[row * n + column] = sum
wrong distance between tiles @ block 16 8 @ out of bounds
tile += BLOCK => tile += BLOCK + 1 @ b_tile[y][x] = b[
first tile left out @ block_strided 16 8 @ $differs
int tile = 0 => int tile = BLOCK @ ] = sum
tile one row too small @ block 16 8 @ index 7 is outside its array
b_tile[BLOCK][BLOCK] => b_tile[BLOCK - 1][BLOCK] @ b_tile[y][x] = b[
tile with a short row @ block_unroll4 16 8 @ index 7 is outside its array
float a_tile[BLOCK][BLOCK] => float a_tile[BLOCK][BLOCK - 1] @ a_tile[r][x] = a[
dynamic shared memory exceeded @ buffered_row 16 - @ \
store of 4 bytes at byte 64 of shared memory $outside
smem[column] = => smem[column + 1] = @ smem[column + 1] =
half of a row never loaded @ buffered_row 16 - @ \
$load 4 of shared memory is uninitialised: no thread
    smem[column] = =>     if (column % 2 == 0) smem[column] = @ sum += smem
shared memory of an earlier block @ buffered_column 16 - @ block \(1, 0, 0\).* $unwritten
    smem[row] = =>     if (column == 0) smem[row] = @ * smem[k]
misaligned float4 from global memory @ naive_coalesced 16 16 @ misaligned
sum += a[row * n + k] * => \
const float4 four = *(const float4 *)(a + row * n + k);$n        sum += four.x * @ float4 four
tile loaded with a wrong unroll offset @ block_unroll4 32 16 @ $unwritten
const int r = y + i * ROWS => const int r = y + i @ a_tile[y + i * ROWS][k]
products with a wrong unroll offset @ block_unroll4 32 16 @ $differs
a_tile[y + i * ROWS][k] => a_tile[y + i][k] @ = sum[i]
C stored with a wrong unroll offset @ block_unroll4 32 16 @ \
$first_thread, of this or an earlier block, at line 45
first_row + y + i * ROWS; => first_row + y + i; @ = sum[i]
blocks store the same elements @ naive_coalesced 16 8 @ races with
c[row * n + column] => c[column] @ c[column]
sum taken backwards @ naive 16 16 @ $differs
int k = 0; k < n; ++k => int k = n - 1; k >= 0; --k @ ] = sum
sum of higher precision @ naive 64 16 @ $differs
float sum = 0.0f => double sum = 0 @ ] = sum
right, but uncoalesced @ block 16 16 @ global_load: .* by theory
a_tile[y][x] = a[row * n + tile + x]; => \
a_tile[x][y] = a[(blockIdx.y * BLOCK + x) * n + tile + y]; @ a_tile[x][y] = a[
right, but shared memory is read twice @ block_unroll4 16 8 @ shared_load: .* by theory
* b_element => * b_tile[k][x] @ * b_tile[k][x]
products with a wrong unroll offset of eight @ block_unroll8 32 16 @ $differs
a_tile[y + i * ROWS][k] => a_tile[y + i][k] @ = sum[i]
right, but coalesced @ tile_uncoalesced 32 16 @ global_load: .* by theory
b_tile[x][y] = b[(tile + x) * n + first_column + y]; => \
b_tile[y][x] = b[(tile + y) * n + first_column + x]; @ = b[|= a[
the host's transposition forgotten @ tile_transposed_b 32 16 @ $differs
b_tile[x][k] => b_tile[k][x] @ first_column + x] = sum
rows of a tile without padding @ tile_conflict_free 32 16 @ shared_load: .* by theory
[BLOCK][BLOCK + 1] => [BLOCK][BLOCK] @ sum += a_tile
no barrier before an outer product @ outer_product 64 - @ $unwritten
$tile_complete => $nothing @ sum[i] += a_tile
no bound when a column of C is stored @ outer_product_unrolled 17 - @ $outside|$earlier
if (first_row + i >= n || column >= n) continue; => $nothing @ = sum[i]
no barrier between two tiles @ outer_product_prefetch 64 - @ $unordered
$next_tile_complete => $nothing @ sum[i] += a_tile[used]
next tile over the one in use @ outer_product_prefetch 64 - @ races with
a_tile[used][y + i * ROWS][x] = next[i] => \
a_tile[1 - used][y + i * ROWS][x] = next[i] @ += a_tile[used]
tiles of registers overwritten while they are read @ register_tile 128 - @ $unordered
        __syncthreads();  // nobody reads the tiles before these any more$n => \
$nothing @ read_fragment(a_fragment
no bound of the last word of four @ register_tile 130 - @ $load .* of buffer . $outside
inside && column + 3 < n ? from[3] => inside ? from[3] @ = load_part(b
no barrier between two stages @ register_tile_double_buffered 128 - @ $unordered
$next_tiles_complete => $nothing @ read_fragment(a_fragment[
stages not exchanged @ register_tile_double_buffered 128 - @ races with
                stage = 1 - stage;$n => $nothing @ read_fragment(a_fragment[0]
fragment of the next step used @ register_tile_double_buffered 128 - @ $differs
a_fragment[used][i] => a_fragment[next][i] @ store_part(
lanes of a warp that compute the same elements @ register_tile_conflict_free 128 - @ does not store
lane / 16 * 8 => lane / 16 * 4 @ store_part(
transposed tile without padding @ register_tile_conflict_free 128 - @ shared_store: .* by theory
(TILE + 4) => TILE @ store_transposed(
no barrier between two asynchronous stages @ register_tile_async 128 - @ $unordered
$next_tiles_complete => $nothing @ read_fragment(a_fragment[
rows of A copied beyond the last @ register_tile_async 130 - @ $load .* of buffer . $outside
first_row + a_row + row < n && => true && @ copy<1>(
a stage copied over the one that is read @ sgemm_top 128 64032 @ races with|$unordered
free_stage = used_stage; => free_stage = next_stage; @ copy<|read_fragment<
sums of slices read before they are there @ sgemm_top 64 64032 @ $unwritten|$unordered
    __syncthreads();  // all parts of the sums are there$n => $nothing @ vector_of(&sum[|= parts[
sums of slices added in another order @ sgemm_top 64 64032 @ $differs
(other * VECTORS + vector) => ((T.slices - other) * VECTORS + vector) @ store_vector<
no barrier before a split tile is multiplied @ sgemm_tensor 128 - @ $unwritten
        __syncthreads();  // the tile is split$n => $nothing @ host_tensor_operand
a tile is split while it is multiplied @ sgemm_tensor 192 - @ races with
split_b(next % 2) => split_b(next % 2 ^ 1) @ split(to|host_tensor_operand
chunks in their order @ sgemm_tensor 128 - @ shared_store: .* by theory
(chunk ^ line % 8) => chunk @ split(to
small products left out @ sgemm_tensor 128 - @ elements wrong
sum += a_low[row][i] => sum += 0.0f * a_low[row][i] @ store_part(
one of two scales undone @ sgemm_tensor 128 - @ elements wrong
 * fmaxf(of_row, of_column) => $nothing @ store_part(
images multiplied before they are complete @ sgemm_tensor_tma 128 - @ $unwritten|$unordered
                __syncthreads();  // the images are complete$n => $nothing @ host_tensor_operand
small products not added @ sgemm_tensor_tma 128 - @ elements wrong
fmaf(small[4 * j + i], 1.0f / LOW, large[4 * j + i]) => large[4 * j + i] @ = pair
the last tile stored beyond the last row @ sgemm_tensor_tma 130x64x128 - @ 8 bytes .* $outside
if (GUARDED && c_row + 8 * i >= m) continue; => $nothing @ = pair
a stage multiplied before it is complete @ sgemm_stream_k 17 64064 @ $unwritten|$unordered
            __syncthreads();  // the stage is complete$n => $nothing @ const float|at.read_a(
a product of rows that are not there yet @ sgemm_mapped 33 - @ $unwritten|$unordered
    meet();  // A and B are complete$n => $nothing @ of_a[row * n + k]|of_b[k * n + at[j]]
fours loaded beyond the last element @ sgemm_mapped 17 - @ load of 16 bytes .* $outside
if (at + 4 <= count) return => if (at < count) return @ load_four(
indices of B swapped where they are not square @ mm_naive 17x9x33 8 int32 @ $differs
b[i * n + column] => b[column * k + i] @ ] = sum
integers multiplied as numbers of 24 bits @ mm_naive 16 8 int32 @ $differs
ELEMENT sum = 0 => float sum = 0 @ ] = sum
no bound of the last tile of B, of doubles @ mm_tile 9x17x33 8 float64 @ \
load of 8 bytes .* of buffer 1 $outside
tile + y < k && column < n ? => column < n ? @ b_tile[y][x] =
rows and columns of C mistaken @ mm_tile 33x8x17 8 @ of buffer 2 $outside|races with|does not store
row >= m || column >= n => row >= n || column >= m @ ] = sum
matrices of a batch mistaken @ bmm_tile 3x9x5x17 8 int32 @ of buffer 0 $outside
* m * k; => * k * n; @ a_tile[y][x] =
products of a batch in one place @ bmm_naive 2x9x5x17 8 @ $earlier
c += static_cast<size_t>(blockIdx.z) * m * n; => $nothing @ ] = sum
one matrix for all of a batch @ bmm_naive 2x9x5x17 8 float64 @ stores C\(1, 0, 0\).*bit for bit
b += static_cast<size_t>(blockIdx.z) * k * n; => $nothing @ ] = sum
"""


def _mutant(where, change):
    name, product, says = where.split(" @ ")
    kernel, shape, block, dtype = (*product.split(), "float32")[:4]
    old_new, at = change.split(" @ ")
    old, new = (Template(code).substitute(WORDS) for code in old_new.split(" => "))
    says = Template(says).substitute(WORDS)
    return Mutant(
        name, kernel, shape, None if block == "-" else int(block), dtype, says, old, new, at
    )


_LINES = TABLE.strip().replace("\\\n", "").split("\n")
MUTANTS = [_mutant(*pair) for pair in zip(_LINES[::2], _LINES[1::2], strict=True)]
