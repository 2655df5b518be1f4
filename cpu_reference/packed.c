// Packing in the manner of BLIS (Van Zee and van de Geijn, ACM TOMS 41(3), 2015; block sizes after
// Low et al., ACM TOMS 43(2), 2016). `blocked` reads pieces of A and B in place: their rows are n
// words apart, so they occupy many pages, and where n is a power of two they compete for the same
// sets of a cache. Here pieces are copied first. A micro-kernel, which holds a tile of C in vector
// registers, then reads both operands in consecutive words, each from its own cache level.
//
//     for j: nb columns of a rectangle of C
//         for k: kc terms of every sum; pack B, which stays in L2
//             for i: a strip of up to ROWS rows; pack A, which stays in L1
//                 for each panel of up to COLUMNS columns: the micro-kernel
//
// The micro-kernel loads its tile before it adds to it, so every sum is taken in the order of k.
// The block sizes, and with them the caches and the number of threads, change no bit of the
// product.
//
// Threads compute rectangles of C and pack for themselves, so they wait for one another only at the
// end. To read what another core has packed takes longer than to pack it again. A small product has
// one rectangle per thread, the same one each time, whose operands are then in the L2 of its core.
// The threads of a large one take rectangles of decreasing size, so that all end together even if
// other programs use some of the cores.
//
// `threads` is a limit: a small product uses fewer (`share_out`). Returns 1 if memory runs out, 2
// if a thread cannot be started.

#define _GNU_SOURCE  // for sched_getcpu, madvise and sysconf's names of caches

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

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
enum { GRAIN = ROWS / 3, MOST_KC = 384 };  // a strip has one to three grains of rows
// Strips with fewer panels, and panels with fewer strips, are read in place: packing takes longer.
enum { LEAST_PANELS = 8, LEAST_STRIPS = 2 };
// From this size on, threads take rectangles, of so many rows. Smaller products profit more from
// operands in L2.
enum { LARGE = 1536, LEAST_ROWS = 96, MOST_ROWS = 1024 };
// Costs of a grid in cycles: to pack a vector of B, to start threads, and to wait for each. Fitted
// to the times of all grids of 16 cores with AVX-512 at 14 sizes from 36 to 1000.
enum { PACK_CYCLES = 6, TEAM_CYCLES = 2000, MEMBER_CYCLES = 100 };

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
    long l1, l2;  // bytes of the data caches of each level
};

struct blocks {
    long kc, nb;  // terms of a sum, and columns of C, that are packed at a time
};

static void read_word(int cpu, int index, const char *name, char word[32]) {
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index%d/%s", cpu, index, name);
    FILE *const file = fopen(path, "r");
    if (!file || fscanf(file, "%31s", word) != 1) word[0] = '\0';
    if (file) fclose(file);
}

// Bytes of a cache level of this core, for data, as Linux reports them; otherwise as sysconf does.
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
}

// A strip gets half of L1 and panels half of L2, so that there is room for the other operand, which
// streams through. A size that is missing or absurd is replaced by a usual one. kc is at most 384,
// because C is read and written once per kc terms, and beyond 384 that traffic is small.
static struct blocks most_blocks(struct caches caches) {
    const long l1 = caches.l1 >= 8 << 10 ? smaller(caches.l1, 1 << 20) : 32 << 10;
    const long l2 = caches.l2 >= 64 << 10 ? smaller(caches.l2, 64 << 20) : 512 << 10;
    const long kc = smaller(l1 / 2 / sizeof(float) / ROWS / 8 * 8, MOST_KC);
    const long nb = larger(l2 / 2 / sizeof(float) / kc / COLUMNS, 1) * COLUMNS;
    return (struct blocks){kc, nb};
}

// The first `count` elements of a vector of a matrix, then zeros.
static inline vector load_first(const float *from, int count) {
#if defined(__AVX512F__)
    return (vector)_mm512_maskz_loadu_ps((1u << count) - 1, from);
#else
    vector loaded = {0};
    memcpy(&loaded, from, count * sizeof(float));
    return loaded;
#endif
}

static inline void store_first(float *to, vector stored, int count) {
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(to, (1u << count) - 1, (__m512)stored);
#else
    memcpy(to, &stored, count * sizeof(float));
#endif
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

// Packs a strip: for each k the elements of its rows, zeros up to a whole grain.
static void pack_strip(const float *restrict a, long n, long rows, long kc, float *restrict strip) {
    long i = 0;
    for (; i + 4 <= rows; i += 4) {
        pack_four_rows(a + i * n, n, kc, strip + i);
    }
    for (; i < rows || i % GRAIN; ++i) {
        for (long k = 0; k < kc; ++k) {
            strip[k * ROWS + i] = i < rows ? a[i * n + k] : 0.0f;
        }
    }
}

// Packs the last panel, which has fewer columns: for each k its elements, zeros up to a vector.
static void pack_cut_panel(const float *restrict b, long n, long columns, long kc,
                           float *restrict panel) {
    const long last = columns > LANES ? LANES : 0;
    for (long k = 0; k < kc; ++k) {
        if (last) *(vector *)(panel + k * COLUMNS) = *(const loose_vector *)(b + k * n);
        *(vector *)(panel + k * COLUMNS + last) = load_first(b + k * n + last, columns - last);
    }
}

// Packs the whole panels of B row by row, because one panel would use two lines of each page.
static void pack_panels(const float *restrict b, long n, long panels, long kc,
                        float *restrict packed) {
    for (long k = 0; k < kc; ++k) {
        for (long panel = 0; panel < panels; ++panel) {
            memcpy(packed + (panel * kc + k) * COLUMNS, b + k * n + panel * COLUMNS,
                   COLUMNS * sizeof(float));
        }
    }
}

// A tile of C with rows `stride` apart, and the operands of which the product is added to it.
struct tile {
    const float *a;   // (rows, kc)
    long a_row, a_k;  // strides from row to row, and from k to k
    const float *b;   // (kc, columns)
    long b_k, kc;
    const float *from;  // the sums so far, or null if they are zero
    float *to;
    long stride, rows, columns;
};

// Computes a tile of constant numbers of grains and vectors; the last of each may be cut by the
// edge of C. A row of A is addressed as one of four bases plus none, one or two strides: the tile
// leaves no registers for an address per row.
static inline __attribute__((always_inline)) void multiply_tile(const struct tile *tile,
                                                                const int grains,
                                                                const int vectors) {
    vector sums[TILE_VECTORS] = {0};
    const int last = vectors - 1, cut = (int)tile->columns - last * LANES;
    const long stride = tile->stride, rows = tile->rows;
    if (tile->from) {
#pragma GCC unroll ROWS
        for (int i = 0; i < GRAIN * grains; ++i) {
            const float *const row = tile->from + i * stride, *const end = row + last * LANES;
            if (i < rows) {
                if (vectors == 2) sums[i * vectors] = *(const loose_vector *)row;
                sums[i * vectors + last] =
                    cut == LANES ? *(const loose_vector *)end : load_first(end, cut);
            }
        }
    }
    long a_row = tile->a_row;
    const long a_k = tile->a_k, b_k = tile->b_k;
    const float *const a = tile->a, *b = tile->b;
    const float *bases[] = {a, a + 3 * a_row, a + 6 * a_row, a + 9 * a_row};
    for (long k = tile->kc; k > 0; --k) {
        __asm__("" : "+r"(a_row));  // no instruction: keeps gcc from computing all addresses ahead
        const vector first = *(const loose_vector *)b;
        const vector second = *(const loose_vector *)(b + last * LANES);
#pragma GCC unroll ROWS
        for (int i = 0; i < GRAIN * grains; ++i) {
            const float element = bases[i / 3][i % 3 * a_row];
            sums[i * vectors] += element * first;
            if (vectors == 2) sums[i * vectors + 1] += element * second;
        }
#pragma GCC unroll 4
        for (int x = 0; x < (GRAIN * grains + 2) / 3; ++x) {
            bases[x] += a_k;
        }
        b += b_k;
    }
#pragma GCC unroll ROWS
    for (int i = 0; i < GRAIN * grains; ++i) {
        float *const row = tile->to + i * stride, *const end = row + last * LANES;
        if (i < rows) {
            if (vectors == 2) *(loose_vector *)row = sums[i * vectors];
            if (cut == LANES) {
                *(loose_vector *)end = sums[i * vectors + last];
            } else {
                store_first(end, sums[i * vectors + last], cut);
            }
        }
    }
}

#define MICRO_KERNEL(grains, vectors)                                        \
    static __attribute__((noinline)) void micro_kernel_##grains##_##vectors( \
        const struct tile *tile) {                                           \
        multiply_tile(tile, grains, vectors);                                \
    }
MICRO_KERNEL(1, 1)
MICRO_KERNEL(2, 1)
MICRO_KERNEL(3, 1)
MICRO_KERNEL(1, 2)
MICRO_KERNEL(2, 2)
MICRO_KERNEL(3, 2)

typedef void micro_kernel(const struct tile *);
static micro_kernel *const micro_kernels[3][VECTORS] = {
    {micro_kernel_1_1, micro_kernel_1_2},
    {micro_kernel_2_1, micro_kernel_2_2},
    {micro_kernel_3_1, micro_kernel_3_2},
};

struct product {
    const float *a, *b;
    float *c;
    long n;
    struct blocks blocks;
    int threads, grid_rows, grid_columns;  // grid_rows 0: threads take rectangles instead
    atomic_long taken;  // rows that threads have taken, counted through the columns
};

// Rows from i0 to i1 and columns from j0 to j1 of C.
struct rectangle {
    long i0, i1, j0, j1;
};

// Fetches a tile of C that is needed next to L1.
static inline void prefetch_tile(const float *c, long n, long rows, long columns) {
    for (long i = 0; i < rows; ++i) {
        for (long j = 0; j < columns; j += LINE) {
            __builtin_prefetch(c + i * n + j);
        }
    }
}

// Rows of A that are needed next, and how many columns of the first have been fetched.
struct ahead {
    const float *row;
    long rows, columns, stride, fetched;
};

static inline void fetch_ahead(struct ahead *ahead, long lines) {
    for (; lines > 0 && ahead->rows > 0; --lines) {
        __builtin_prefetch(ahead->row + ahead->fetched);
        ahead->fetched += LINE;
        if (ahead->fetched >= ahead->columns) {
            ahead->fetched = 0;
            ahead->row += ahead->stride;
            --ahead->rows;
        }
    }
}

// What a thread has packed, kept between calls: to map and clear fresh memory takes as long as the
// product at n = 256.
struct buffer {
    _Alignas(64) float strip[ROWS * MOST_KC];
    _Alignas(64) float panels[];
};

// Adds kc terms, from k0 on, to a strip of C. `next_rows` is the height of the following strip.
static void multiply_strip(const struct product *product, struct rectangle strip, long k0, long kc,
                           bool panels_packed, long next_rows, struct buffer *buffer) {
    const long n = product->n, rows = strip.i1 - strip.i0;
    const long panels = pieces(strip.j1 - strip.j0, COLUMNS), grains = pieces(rows, GRAIN);
    const float *const a = product->a + strip.i0 * n + k0;
    float *const c = product->c + strip.i0 * n;
    struct tile tile = {.a = a, .a_row = n, .a_k = 1, .kc = kc, .stride = n, .rows = rows};
    if (panels >= LEAST_PANELS || rows % GRAIN) {
        pack_strip(a, n, rows, kc, buffer->strip);
        tile.a = buffer->strip, tile.a_row = 1, tile.a_k = ROWS;
    }
    struct ahead ahead = {a + rows * n, next_rows, kc, n, 0};
    const long lines = pieces(next_rows * pieces(kc, LINE), panels);
    for (long j = strip.j0; j < strip.j1; j += COLUMNS) {
        const long next_j = j + COLUMNS;
        tile.columns = smaller(COLUMNS, strip.j1 - j);
        const bool packed = panels_packed || tile.columns < COLUMNS;
        tile.b = packed ? buffer->panels + (j - strip.j0) * kc : product->b + k0 * n + j;
        tile.b_k = packed ? COLUMNS : n;
        tile.from = k0 ? c + j : NULL, tile.to = c + j;
        if (next_j < strip.j1) {
            prefetch_tile(c + next_j, n, rows, smaller(COLUMNS, strip.j1 - next_j));
        } else {
            prefetch_tile(c + rows * n + strip.j0, n, next_rows, COLUMNS);
        }
        fetch_ahead(&ahead, lines);
        micro_kernels[grains - 1][tile.columns > LANES](&tile);
    }
}

static void multiply_rectangle(const struct product *product, struct rectangle whole,
                               struct buffer *buffer) {
    const long n = product->n, most_kc = even_piece(n, product->blocks.kc, 8);
    const long nb = even_piece(whole.j1 - whole.j0, product->blocks.nb, COLUMNS);
    const long height = even_piece(whole.i1 - whole.i0, ROWS, GRAIN);
    const bool packed = pieces(whole.i1 - whole.i0, height) >= LEAST_STRIPS;
    for (long j0 = whole.j0; j0 < whole.j1; j0 += nb) {
        const long j1 = smaller(j0 + nb, whole.j1);
        const long panels = (j1 - j0) / COLUMNS, cut = (j1 - j0) % COLUMNS;
        for (long k0 = 0; k0 < n; k0 += most_kc) {
            const long kc = smaller(most_kc, n - k0);
            const float *const b = product->b + k0 * n + j0;
            if (packed) pack_panels(b, n, panels, kc, buffer->panels);
            if (cut) {
                const long at = panels * COLUMNS;
                pack_cut_panel(b + at, n, cut, kc, buffer->panels + at * kc);
            }
            for (long i = whole.i0; i < whole.i1; i += height) {
                const struct rectangle strip = {i, smaller(i + height, whole.i1), j0, j1};
                const long next_rows = smaller(height, whole.i1 - strip.i1);
                multiply_strip(product, strip, k0, kc, packed, next_rows, buffer);
            }
        }
    }
}

// Takes the next rectangle of a large product: nb columns, and half of a thread's share of the rows
// that are left. False if none is left.
static bool take_rectangle(struct product *product, struct rectangle *taken) {
    const long n = product->n, nb = even_piece(n, product->blocks.nb, COLUMNS);
    const long total = pieces(n, nb) * n;
    long from = atomic_load(&product->taken), rows;
    do {
        if (from >= total) return false;
        const long left = n - from % n, share = (total - from) / (2 * product->threads);
        rows = pieces(smaller(larger(share, LEAST_ROWS), MOST_ROWS), ROWS) * ROWS;
        if (left < rows + LEAST_ROWS) rows = left;
    } while (!atomic_compare_exchange_weak(&product->taken, &from, from + rows));
    taken->i0 = from % n, taken->i1 = taken->i0 + rows;
    taken->j0 = from / n * nb, taken->j1 = smaller(taken->j0 + nb, n);
    return true;
}

// Where part `part` of `parts` even parts of n begins; all are multiples of `multiple`.
static long boundary(long n, long part, long parts, long multiple) {
    return smaller(pieces(n, multiple) * part / parts * multiple, n);
}

// The next rectangle of a thread; false if there is none. `first`: the thread had none yet.
static bool next_rectangle(struct product *product, int thread, bool first,
                           struct rectangle *next) {
    const long n = product->n, rows = product->grid_rows, columns = product->grid_columns;
    if (!rows) return take_rectangle(product, next);
    next->i0 = boundary(n, thread / columns, rows, GRAIN);
    next->i1 = boundary(n, thread / columns + 1, rows, GRAIN);
    next->j0 = boundary(n, thread % columns, columns, LANES);
    next->j1 = boundary(n, thread % columns + 1, columns, LANES);
    return first;
}

static void multiply(struct product *product, int thread, struct buffer *buffer) {
    struct rectangle part;
    for (bool first = true; next_rectangle(product, thread, first, &part); first = false) {
        multiply_rectangle(product, part, buffer);
    }
}

// Estimated cycles of a grid: FMAs of its largest rectangle, two vectors per cycle; reading A;
// packing B, unless the rectangle is one strip, which reads B in place; and the threads.
static long grid_cycles(long n, long rows, long columns) {
    const long height = pieces(pieces(n, GRAIN), rows) * GRAIN;
    const long width = pieces(pieces(n, LANES), columns);  // counted in vectors
    const long threads = rows * columns;
    const long team = threads > 1 ? TEAM_CYCLES + MEMBER_CYCLES * threads : 0;
    const long packing = height > ROWS ? width * PACK_CYCLES : 0;
    return n * (height * width / 2 + height / 4 + packing) + team;
}

// Chooses how many threads share a product, and how.
static void share_out(struct product *product, int threads) {
    const long n = product->n;
    product->threads = threads, product->grid_rows = product->grid_columns = 0;
    if (threads > 1 && n >= LARGE) return;
    long least = grid_cycles(n, 1, 1);
    product->grid_rows = product->grid_columns = 1;
    for (int rows = 1; rows <= threads; ++rows) {
        for (int columns = 1; columns <= threads / rows; ++columns) {
            const long cycles = grid_cycles(n, rows, columns);
            if (cycles < least) {
                least = cycles, product->grid_rows = rows, product->grid_columns = columns;
            }
        }
    }
    product->threads = product->grid_rows * product->grid_columns;
}

static struct buffer *new_buffer(struct blocks blocks) {
    const size_t bytes = sizeof(struct buffer) + blocks.kc * blocks.nb * sizeof(float);
    const size_t whole_pages = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    struct buffer *const buffer = aligned_alloc(HUGE_PAGE, whole_pages);
    if (buffer) madvise(buffer, whole_pages, MADV_HUGEPAGE);  // may fail, without harm
    return buffer;
}

// A thread that stays for the next product. It watches for it, then sleeps: to start a thread takes
// some 100 us and to wake one several, as long as a small product. A watching thread begins within
// 1 us.
enum { MOST_WORKERS = 1023, WATCH_NS = 5000000, SPINS = 1000 };

struct worker {
    _Alignas(64) atomic_long products;  // products that it was asked to share
    atomic_bool asleep;
    sem_t wake;
    int number;
    pthread_t thread;
    struct buffer *buffer;
};

static struct worker *workers[MOST_WORKERS];
static int worker_count, caller_cpu = -1;
static cpu_set_t caller_cpus;
static pthread_mutex_t team_lock = PTHREAD_MUTEX_INITIALIZER;  // for all variables here
static struct product *shared;
static _Alignas(64) atomic_int unfinished;

static inline void pause_briefly(void) {
#if defined(__x86_64__)
    _mm_pause();
#endif
}

static long now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

// Waits for a product after `seen` products.
static void await_product(struct worker *worker, long seen) {
    const long until = now_ns() + WATCH_NS;
    for (long spin = 1; atomic_load(&worker->products) == seen; ++spin) {
        pause_briefly();
        if (spin % 64 == 0 && now_ns() > until) {
            atomic_store(&worker->asleep, true);
            // If a product came meanwhile and its caller saw the mark, the caller posts.
            if (atomic_load(&worker->products) == seen ||
                !atomic_exchange(&worker->asleep, false)) {
                while (sem_wait(&worker->wake)) {
                }
            }
        }
    }
}

static void *work(void *argument) {
    struct worker *const worker = argument;
    for (long seen = 0;; ++seen) {
        await_product(worker, seen);
        multiply(shared, worker->number, worker->buffer);
        atomic_fetch_sub(&unfinished, 1);
    }
    return NULL;
}

// Binds each worker to a CPU of its own, beginning after the caller's. Otherwise a woken thread is
// often put on the CPU of a thread that waits for it, and runs only when that one's time is up.
static void pin_workers(void) {
    cpu_set_t allowed, one;
    int cpu = sched_getcpu();
    if (cpu < 0 || sched_getaffinity(0, sizeof allowed, &allowed)) return;
    if (cpu == caller_cpu && CPU_EQUAL(&allowed, &caller_cpus)) return;
    caller_cpu = cpu, caller_cpus = allowed;
    for (int w = 0; w < worker_count; ++w) {
        do {
            cpu = (cpu + 1) % CPU_SETSIZE;
        } while (!CPU_ISSET(cpu, &allowed));
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        pthread_setaffinity_np(workers[w]->thread, sizeof one, &one);
    }
}

// Starts workers until there are `count`; returns as `packed` does.
static int start_workers(struct blocks blocks, int count) {
    for (; worker_count < count; ++worker_count) {
        struct worker *const worker = aligned_alloc(64, sizeof *worker);
        struct buffer *const buffer = new_buffer(blocks);
        if (!worker || !buffer) return free(worker), free(buffer), 1;
        memset(worker, 0, sizeof *worker);
        worker->number = worker_count + 1;
        worker->buffer = buffer;
        sem_init(&worker->wake, 0, 0);
        if (worker_count == MOST_WORKERS || pthread_create(&worker->thread, NULL, work, worker)) {
            return free(worker), free(buffer), 2;
        }
        workers[worker_count] = worker;
        caller_cpu = -1;
    }
    return 0;
}

static void multiply_together(struct product *product, struct buffer *buffer) {
    const int helpers = product->threads - 1;
    pin_workers();
    shared = product;
    atomic_store(&unfinished, helpers);
    for (int w = 0; w < helpers; ++w) {  // no exchange: it would wait for the line of each core
        const long products = atomic_load(&workers[w]->products);
        atomic_store_explicit(&workers[w]->products, products + 1, memory_order_release);
    }
    atomic_thread_fence(memory_order_seq_cst);
    for (int w = 0; w < helpers; ++w) {
        if (atomic_load(&workers[w]->asleep) && atomic_exchange(&workers[w]->asleep, false)) {
            sem_post(&workers[w]->wake);
        }
    }
    multiply(product, 0, buffer);
    for (long spin = 0; atomic_load(&unfinished); ++spin) {
        pause_briefly();
        if (spin > SPINS) sched_yield();  // there are more threads than CPUs
    }
}

static struct buffer *_Atomic kept;  // buffer of the caller, kept for its next product

// A forked child has no workers, because fork copies only the calling thread.
static void forget_workers(void) {
    worker_count = 0;
    pthread_mutex_init(&team_lock, NULL);
}

static void prepare(void) {
    read_host_caches();
    pthread_atfork(NULL, NULL, forget_workers);
}

int packed(const float *a, const float *b, float *c, int n, int block, int threads) {
    (void)block;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, prepare);
    struct product product = {.a = a, .b = b, .c = c, .n = n, .blocks = most_blocks(host_caches)};
    share_out(&product, threads);
    // Workers share one product at a time, so a concurrent caller computes its product alone.
    const bool together = product.threads > 1 && pthread_mutex_trylock(&team_lock) == 0;
    int status = together ? start_workers(product.blocks, product.threads - 1) : 0;
    struct buffer *buffer = atomic_exchange(&kept, NULL);
    if (!buffer) buffer = new_buffer(product.blocks);
    if (!buffer) status = 1;
    if (status == 0 && together) {
        multiply_together(&product, buffer);
    } else if (status == 0) {
        share_out(&product, 1);
        multiply(&product, 0, buffer);
    }
    free(atomic_exchange(&kept, buffer));
    if (together) pthread_mutex_unlock(&team_lock);
    return status;
}
