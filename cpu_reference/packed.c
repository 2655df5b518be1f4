// Packing in the manner of BLIS (Van Zee and van de Geijn, ACM TOMS 41(3), 2015; block sizes after
// Low et al., ACM TOMS 43(2), 2016). `blocked` reads pieces of A and B in place: their rows are n
// words apart, so they occupy many pages, and where n is a power of two they compete for the same
// sets of a cache. Here pieces are copied first. A micro-kernel, which holds a tile of C in vector
// registers, then reads both operands in consecutive words, each from its own cache level.
//
//     for jc: nc columns of C; their packed B stays in L3
//         for pc: kc terms of every sum; pack B
//             for ic: mc rows of C; their packed A stays in L3; pack A
//                 for jb: nb columns; their packed B stays in L2
//                     for ir: a strip of ROWS rows; its packed A stays in L1
//                         for jr: a panel of COLUMNS columns: the micro-kernel
//
// The micro-kernel loads its tile before it adds to it, so every sum is taken in the order of k.
// The block sizes, and with them the caches and the number of threads, change no bit of the
// product.
//
// Threads pack together, wait for one another, and each compute rectangles of C, pinned to a CPU
// each. With one thread there is no parallel region. Returns 1 if memory runs out, 2 if OpenMP
// provided fewer threads than requested.

#define _GNU_SOURCE  // sched_getcpu, madvise, sysconf's names of caches

#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// The tile fills the vector registers (32 with AVX-512, otherwise 16) except for a row of B and one
// element of A. Rows have two vectors, so that each element of A that is loaded serves two FMAs:
// more FMAs per load, and enough independent sums to hide their latency.
#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64, ROWS = 12 };
#elif defined(__AVX__)
enum { VECTOR_BYTES = 32, ROWS = 6 };
#else
enum { VECTOR_BYTES = 16, ROWS = 6 };
#endif
enum { VECTORS = 2, LANES = VECTOR_BYTES / sizeof(float), COLUMNS = VECTORS * LANES };
enum { TILE_VECTORS = ROWS * VECTORS, LINE = 64 / sizeof(float), HUGE_PAGE = 2 << 20 };

typedef float vector __attribute__((vector_size(VECTOR_BYTES)));
// Vectors of the matrices, which are only aligned as floats are.
typedef float loose_vector __attribute__((vector_size(VECTOR_BYTES), aligned(4)));
typedef float loose_four __attribute__((vector_size(16), aligned(4)));
typedef int places __attribute__((vector_size(16)));

static inline long smaller(long p, long q) {
    return p < q ? p : q;
}

static inline long larger(long p, long q) {
    return p > q ? p : q;
}

static inline long pieces(long total, long piece) {
    return (total + piece - 1) / piece;
}

// Size of equal pieces of `total`, none larger than `most`; all are multiples of `multiple`.
// Without it, the last piece could be a sliver with bad reuse.
static long even_piece(long total, long most, long multiple) {
    const long even = pieces(total, larger(pieces(total, most), 1));
    return larger(pieces(even, multiple), 1) * multiple;
}

struct caches {
    long l1, l2, l3;  // bytes per level, for data
};

struct blocks {
    long kc, nb, mc, nc;
};

static void read_word(int cpu, int index, const char *name, char word[32]) {
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index%d/%s", cpu, index, name);
    FILE *const file = fopen(path, "r");
    if (!file || fscanf(file, "%31s", word) != 1) word[0] = '\0';
    if (file) fclose(file);
}

// Bytes of a cache level of this core, for data, as Linux reports them. The fallback is sysconf,
// which on some hosts reports the L3 of a whole socket, or 0.
static long cache_bytes(long level, int sysconf_name) {
    const int cpu = sched_getcpu();
    for (int index = 0; index < 8; ++index) {
        char found[32], type[32], size[32];
        read_word(cpu, index, "level", found);
        read_word(cpu, index, "type", type);
        read_word(cpu, index, "size", size);
        if (atol(found) == level && strcmp(type, "Instruction") != 0) {
            return atol(size) << (strchr(size, 'M') ? 20 : strchr(size, 'K') ? 10 : 0);
        }
    }
    return sysconf(sysconf_name);
}

static struct caches host_caches;

static void read_host_caches(void) {
    host_caches.l1 = cache_bytes(1, _SC_LEVEL1_DCACHE_SIZE);
    host_caches.l2 = cache_bytes(2, _SC_LEVEL2_CACHE_SIZE);
    host_caches.l3 = cache_bytes(3, _SC_LEVEL3_CACHE_SIZE);
}

// A strip gets half of L1 and panels half of L2, so that there is room for the other operand, which
// streams through; strips and panels share half of L3. A size that is missing or absurd is replaced
// by a usual one. kc is at most 384, because C is read and written once per kc terms, and beyond
// 384 that traffic is small.
static struct blocks blocks_for(struct caches caches, long n) {
    const long l1 = caches.l1 >= 8 << 10 ? smaller(caches.l1, 1 << 20) : 32 << 10;
    const long l2 = caches.l2 >= 64 << 10 ? smaller(caches.l2, 64 << 20) : 512 << 10;
    const long l3 = caches.l3 >= l2 ? smaller(caches.l3, 256 << 20) : larger(l2, 8 << 20);
    const long kc = smaller(l1 / 2 / sizeof(float) / ROWS / 8 * 8, 384);
    const long nb = larger(l2 / 2 / sizeof(float) / kc / COLUMNS, 1) * COLUMNS;
    const long mc = larger(l3 / 4 / sizeof(float) / kc / ROWS, 1) * ROWS;
    const long nc = larger(l3 / 4 / sizeof(float) / kc / COLUMNS, 1) * COLUMNS;
    return (struct blocks){even_piece(n, kc, 8), nb, even_piece(n, mc, ROWS),
                           even_piece(n, nc, COLUMNS)};
}

// Packs four rows into a strip by transposing 4 x 4 elements in vector registers. Element by
// element, packing would take four times as many loads and stores.
static void pack_four_rows(const float *restrict a, long n, long kc, float *restrict strip) {
    long k = 0;
    for (; k + 4 <= kc; k += 4) {
        const loose_four r0 = *(const loose_four *)(a + k);
        const loose_four r1 = *(const loose_four *)(a + n + k);
        const loose_four r2 = *(const loose_four *)(a + 2 * n + k);
        const loose_four r3 = *(const loose_four *)(a + 3 * n + k);
        const loose_four low01 = __builtin_shuffle(r0, r1, (places){0, 4, 1, 5});
        const loose_four low23 = __builtin_shuffle(r2, r3, (places){0, 4, 1, 5});
        const loose_four high01 = __builtin_shuffle(r0, r1, (places){2, 6, 3, 7});
        const loose_four high23 = __builtin_shuffle(r2, r3, (places){2, 6, 3, 7});
        float *const to = strip + k * ROWS;
        *(loose_four *)to = __builtin_shuffle(low01, low23, (places){0, 1, 4, 5});
        *(loose_four *)(to + ROWS) = __builtin_shuffle(low01, low23, (places){2, 3, 6, 7});
        *(loose_four *)(to + 2 * ROWS) = __builtin_shuffle(high01, high23, (places){0, 1, 4, 5});
        *(loose_four *)(to + 3 * ROWS) = __builtin_shuffle(high01, high23, (places){2, 3, 6, 7});
    }
    for (; k < kc; ++k) {
        for (int i = 0; i < 4; ++i) {
            strip[k * ROWS + i] = a[i * n + k];
        }
    }
}

// Packs a strip: for each k the elements of ROWS rows, zeros beyond the matrix.
static void pack_strip(const float *restrict a, long n, long rows, long kc, float *restrict strip) {
    long i = 0;
    for (; i + 4 <= rows; i += 4) {
        pack_four_rows(a + i * n, n, kc, strip + i);
    }
    for (; i < ROWS; ++i) {
        for (long k = 0; k < kc; ++k) {
            strip[k * ROWS + i] = i < rows ? a[i * n + k] : 0.0f;
        }
    }
}

// Packs a panel: for each k the elements of COLUMNS columns, zeros beyond the matrix.
static void pack_panel(const float *restrict b, long n, long columns, long kc,
                       float *restrict panel) {
    for (long k = 0; k < kc; ++k) {
        if (columns == COLUMNS) {  // constant size, so memcpy becomes vector moves
            memcpy(panel + k * COLUMNS, b + k * n, COLUMNS * sizeof(float));
        } else {
            memcpy(panel + k * COLUMNS, b + k * n, columns * sizeof(float));
            memset(panel + k * COLUMNS + columns, 0, (COLUMNS - columns) * sizeof(float));
        }
    }
}

// Adds the product of a strip and a panel to a tile of C with rows `stride` apart. `from` is the
// tile too, or null if the tile begins at zero. With one name for both, gcc would keep the
// addresses of all rows from the loads to the stores, and the tile leaves no registers for them.
static __attribute__((noinline)) void micro_kernel(const float *strip, const float *panel, long kc,
                                                   const float *from, float *to, long stride) {
    vector tile[TILE_VECTORS] = {0};
    if (from) {
#pragma GCC unroll TILE_VECTORS
        for (int x = 0; x < TILE_VECTORS; ++x) {
            tile[x] = *(const loose_vector *)(from + x / VECTORS * stride + x % VECTORS * LANES);
        }
    }
    for (long k = 0; k < kc; ++k) {
        const vector *const row = (const vector *)(panel + k * COLUMNS);
#pragma GCC unroll TILE_VECTORS
        for (int x = 0; x < TILE_VECTORS; ++x) {
            tile[x] += strip[k * ROWS + x / VECTORS] * row[x % VECTORS];
        }
    }
#pragma GCC unroll TILE_VECTORS
    for (int x = 0; x < TILE_VECTORS; ++x) {
        *(loose_vector *)(to + x / VECTORS * stride + x % VECTORS * LANES) = tile[x];
    }
}

// Computes a tile that the edge of C cuts: completely, in a buffer, so that the micro-kernel needs
// no bounds checks.
static void edge_kernel(const float *strip, const float *panel, long kc, bool first, float *c,
                        long n, long rows, long columns) {
    _Alignas(vector) float tile[ROWS * COLUMNS] = {0};
    for (long i = 0; i < rows && !first; ++i) {
        memcpy(tile + i * COLUMNS, c + i * n, columns * sizeof(float));
    }
    micro_kernel(strip, panel, kc, tile, tile, COLUMNS);
    for (long i = 0; i < rows; ++i) {
        memcpy(c + i * n, tile + i * COLUMNS, columns * sizeof(float));
    }
}

struct product {
    const float *a, *b;
    float *c;
    long n;
    struct blocks blocks;
    float *strips, *panels;  // packed A and packed B
};

// Rows i0 to i1 and columns j0 to j1 of C, terms k0 to k1 of each sum; ends are exclusive.
struct range {
    long i0, i1, j0, j1, k0, k1;
};

// Threads that work together, and the pieces of work taken so far. Threads take one piece at a time
// (dynamic scheduling), so all end at about the same time, even if one shares its CPU with another
// program.
struct team {
    int threads;
    atomic_long packed, computed;
};

static void wait_for(const struct team *team) {
    if (team->threads > 1) {
#pragma omp barrier
    }
}

// Packs one piece of a range. The first `panels` pieces are panels, the others strips.
static void pack(const struct product *product, struct range part, long panels, long piece) {
    const long n = product->n, kc = part.k1 - part.k0;
    if (piece < panels) {
        const long j = part.j0 + piece * COLUMNS;
        pack_panel(product->b + part.k0 * n + j, n, smaller(COLUMNS, n - j), kc,
                   product->panels + piece * COLUMNS * kc);
    } else {
        const long strip = piece - panels, i = part.i0 + strip * ROWS;
        pack_strip(product->a + i * n + part.k0, n, smaller(ROWS, n - i), kc,
                   product->strips + strip * ROWS * kc);
    }
}

// Piece `number` of the multiplications in a range: one strip, and as many panels as stay in L2.
static struct range piece_of(struct range part, long number, long nb) {
    const long strips = pieces(part.i1 - part.i0, ROWS);
    part.i0 += number % strips * ROWS;
    part.i1 = smaller(part.i0 + ROWS, part.i1);
    part.j0 += number / strips * nb;
    part.j1 = smaller(part.j0 + nb, part.j1);
    return part;
}

// Prefetches the next tile of C to L1, so that its loads do not stall the next micro-kernel.
static inline void prefetch_tile(const struct product *product, long i0, long i1, long j) {
    const long columns = smaller(COLUMNS, product->n - j);
    for (long i = i0; i < i1; ++i) {
        for (long column = j; column < j + columns; column += LINE) {
            __builtin_prefetch(product->c + i * product->n + column);
        }
    }
}

// Multiplies a strip by panels. `next` is the piece that follows and `ahead` its strip, which is
// prefetched bit by bit meanwhile.
static void multiply_strip(const struct product *product, struct range piece, const float *strip,
                           const float *panel, struct range next, const float *ahead) {
    const long n = product->n, kc = piece.k1 - piece.k0;
    const long rows = piece.i1 - piece.i0;
    const bool first = piece.k0 == 0;
    for (long j = piece.j0; j < piece.j1; j += COLUMNS) {
        const long columns = smaller(COLUMNS, n - j);
        float *const c = product->c + piece.i0 * n + j;
        if (j + COLUMNS < piece.j1) {
            prefetch_tile(product, piece.i0, piece.i1, j + COLUMNS);
        } else {
            prefetch_tile(product, next.i0, next.i1, next.j0);
        }
        const float *const share = ahead + ROWS * kc * columns / (piece.j1 - piece.j0);
        for (; ahead < share; ahead += LINE) {
            __builtin_prefetch(ahead);
        }
        if (rows == ROWS && columns == COLUMNS) {
            micro_kernel(strip, panel, kc, first ? NULL : c, c, n);
        } else {
            edge_kernel(strip, panel, kc, first, c, n, rows, columns);
        }
        panel += COLUMNS * kc;
    }
}

// Packs and multiplies a range, together with the rest of the team.
static void multiply_range(const struct product *product, struct range part, struct team *team) {
    const long kc = part.k1 - part.k0;
    const long strips = pieces(part.i1 - part.i0, ROWS);
    const long panels = part.i0 == 0 ? pieces(part.j1 - part.j0, COLUMNS) : 0;
    for (long piece; (piece = atomic_fetch_add(&team->packed, 1)) < panels + strips;) {
        pack(product, part, panels, piece);
    }
    atomic_store(&team->computed, 0);
    wait_for(team);
    const long nb = even_piece(part.j1 - part.j0, product->blocks.nb, COLUMNS);
    const long last = strips * pieces(part.j1 - part.j0, nb) - 1;
    long number = atomic_fetch_add(&team->computed, 1);
    while (number <= last) {
        const long following = atomic_fetch_add(&team->computed, 1);
        const struct range piece = piece_of(part, number, nb);
        const struct range next = piece_of(part, smaller(following, last), nb);
        multiply_strip(product, piece, product->strips + (piece.i0 - part.i0) * kc,
                       product->panels + (piece.j0 - part.j0) * kc, next,
                       product->strips + (next.i0 - part.i0) * kc);
        number = following;
    }
    atomic_store(&team->packed, 0);
    wait_for(team);
}

// The work of one thread of a team.
static void multiply(const struct product *product, struct team *team) {
    const struct blocks blocks = product->blocks;
    const long n = product->n;
    for (long jc = 0; jc < n; jc += blocks.nc) {
        for (long pc = 0; pc < n; pc += blocks.kc) {
            for (long ic = 0; ic < n; ic += blocks.mc) {
                const struct range part = {ic, smaller(ic + blocks.mc, n),
                                           jc, smaller(jc + blocks.nc, n),
                                           pc, smaller(pc + blocks.kc, n)};
                multiply_range(product, part, team);
            }
        }
    }
}

// Pins a thread to a CPU of its own, the first one to its current CPU. Otherwise Linux often puts a
// woken thread on the CPU of one that spins at a barrier, and it runs only when that one's time
// slice ends.
static void pin(const cpu_set_t *allowed, int cpu, int thread) {
    for (int t = 0; t < thread; ++t) {
        do {
            cpu = (cpu + 1) % CPU_SETSIZE;
        } while (!CPU_ISSET(cpu, allowed));
    }
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(cpu, &own);
    sched_setaffinity(0, sizeof own, &own);
}

// Computes the product with a team of threads; returns their number.
static int multiply_together(const struct product *product, int threads) {
    struct team team = {threads, 0, 0};
    cpu_set_t allowed;
    const int cpu = sched_getcpu();
    const bool pinned = cpu >= 0 && sched_getaffinity(0, sizeof allowed, &allowed) == 0;
    int given = 0;
#pragma omp parallel num_threads(threads)
    {
        const int thread = omp_get_thread_num();
        if (pinned) pin(&allowed, cpu, thread);
        multiply(product, &team);
#pragma omp master
        given = omp_get_num_threads();
    }
    if (pinned) sched_setaffinity(0, sizeof allowed, &allowed);
    return given;
}

// The buffer of packed operands, kept between calls: to map and clear fresh memory takes as long as
// the product at n = 256.
struct buffer {
    size_t bytes;
    _Alignas(64) float floats[];
};

static struct buffer *_Atomic kept;

static struct buffer *take_buffer(size_t floats) {
    const size_t bytes = sizeof(struct buffer) + floats * sizeof(float);
    struct buffer *buffer = atomic_exchange(&kept, NULL);
    if (buffer && buffer->bytes >= bytes) return buffer;
    free(buffer);
    const size_t whole_pages = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    buffer = aligned_alloc(HUGE_PAGE, whole_pages);
    if (buffer) {
        madvise(buffer, whole_pages, MADV_HUGEPAGE);  // an optimisation: failure is harmless
        buffer->bytes = whole_pages;
    }
    return buffer;
}

int packed(const float *a, const float *b, float *c, int n, int block, int threads) {
    (void)block;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_host_caches);
    const struct blocks blocks = blocks_for(host_caches, n);
    const size_t strips = (size_t)blocks.mc * blocks.kc, panels = (size_t)blocks.nc * blocks.kc;
    struct buffer *const buffer = take_buffer(panels + strips);
    if (!buffer) return 1;
    const struct product product = {a, b, c, n, blocks, buffer->floats + panels, buffer->floats};
    // Waking a thread takes some microseconds, which 2^18 FMAs are worth.
    const int team = (int)smaller(threads, 1 + (long)n * n * n / (1 << 18));
    int given = team;
    if (team <= 1) {
        struct team alone = {1, 0, 0};
        multiply(&product, &alone);
    } else {
        given = multiply_together(&product, team);
    }
    free(atomic_exchange(&kept, buffer));
    return given == team ? 0 : 2;
}
