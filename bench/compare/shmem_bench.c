/* SPDX-License-Identifier: Apache-2.0 */
/* One benchmark for all OpenSHMEM libraries: the same loops, compiled with each library's shmem.h.
 * Prints "metric bytes microseconds" per figure; run.sh runs it alternately with several libraries
 * and takes medians. The argument "small" measures 8 bytes only.
 *
 * PE 0 accesses PE 1; other PEs wait in shmem_barrier_all. Puts are issued back to back on the same
 * two buffers, with one quiet at the end. Collectives: mean over the PEs of the time inside the
 * call, with a barrier before each. Contents are checked once before each timing. Exit status 1:
 * data arrived wrong. */
#include <shmem.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* OpenSHMEM 1.5 has teams; earlier versions take a set of PEs and work arrays. */
#if SHMEM_MAJOR_VERSION > 1 || SHMEM_MINOR_VERSION >= 5
#define HAVE_TEAMS 1
#endif

enum { LARGEST = 64 << 20, COLLECTIVE_LARGEST = 1 << 20 };
static const double WANTED_NS = 60e6;
static const long MOST_ITERATIONS = 1000 * 1000;

static int me, n_pes, wrong;
static size_t largest_wanted = LARGEST;
static char *src, *dst; /* symmetric, LARGEST each */
static long *word;      /* symmetric, several cache lines */
static double *times;   /* symmetric: [0] own, [1] received */

#ifndef HAVE_TEAMS
static long *sync_words; /* symmetric: work arrays, used alternately so that one can be cleared */
static long *sum_work;
enum { SYNC_SETS = 2 };
#define SYNC_WORDS                                                                                 \
    (SHMEM_COLLECT_SYNC_SIZE + SHMEM_ALLTOALL_SYNC_SIZE + SHMEM_BCAST_SYNC_SIZE +                  \
     SHMEM_REDUCE_SYNC_SIZE)
static long *next_sync(void)
{
    static int turn;
    turn = (turn + 1) % SYNC_SETS;
    return sync_words + turn * SYNC_WORDS;
}
#endif

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* --------------------------------------------------------------------- the operations */

typedef struct metric metric;
struct metric {
    const char *name;
    int collective; /* every PE calls it, with a barrier before each call */
    double (*run)(const metric *m, size_t bytes, long iterations); /* ns at this PE */
};

static double run_put(const metric *m, size_t bytes, long iterations)
{
    double start = now_ns();
    for (long i = 0; i < iterations; i++)
        shmem_putmem(dst, src, bytes, 1);
    shmem_quiet();
    return now_ns() - start;
}

static double run_put_quiet(const metric *m, size_t bytes, long iterations)
{
    double start = now_ns();
    for (long i = 0; i < iterations; i++) {
        shmem_putmem(dst, src, bytes, 1);
        shmem_quiet();
    }
    return now_ns() - start;
}

static double run_get(const metric *m, size_t bytes, long iterations)
{
    double start = now_ns();
    for (long i = 0; i < iterations; i++)
        shmem_getmem(dst, src, bytes, 1);
    return now_ns() - start;
}

static double run_p(const metric *m, size_t bytes, long iterations)
{
    double start = now_ns();
    for (long i = 0; i < iterations; i++)
        shmem_long_p((long *)dst, i, 1);
    shmem_quiet();
    return now_ns() - start;
}

static double run_g(const metric *m, size_t bytes, long iterations)
{
    long sum = 0;
    double start = now_ns();
    for (long i = 0; i < iterations; i++)
        sum += shmem_long_g((long *)src, 1);
    double ns = now_ns() - start;
    word[8] = sum;
    return ns;
}

static double run_fetch_add(const metric *m, size_t bytes, long iterations)
{
    double start = now_ns();
    for (long i = 0; i < iterations; i++)
        shmem_long_atomic_fetch_add(word, 1, 1);
    return now_ns() - start;
}

static double run_add(const metric *m, size_t bytes, long iterations)
{
    double start = now_ns();
    for (long i = 0; i < iterations; i++)
        shmem_long_atomic_add(word, 1, 1);
    shmem_quiet();
    return now_ns() - start;
}

/* Called by both PEs; sequence numbers continue from run to run. */
static double run_ping_pong(const metric *m, size_t bytes, long iterations)
{
    static long round;
    long *flag = word + 16;
    double start = now_ns();
    for (long i = 0; i < iterations && me < 2; i++) {
        round++;
        if (me == 1)
            shmem_long_wait_until(flag, SHMEM_CMP_EQ, round);
        shmem_putmem(flag, &round, sizeof round, !me);
        if (me == 0)
            shmem_long_wait_until(flag, SHMEM_CMP_EQ, round);
    }
    return (now_ns() - start) / 2;
}

static double run_barrier(const metric *m, size_t bytes, long iterations)
{
    double start = now_ns();
    for (long i = 0; i < iterations; i++)
        shmem_barrier_all();
    return now_ns() - start;
}

static double run_sync(const metric *m, size_t bytes, long iterations)
{
    double start = now_ns();
    for (long i = 0; i < iterations; i++)
        shmem_sync_all();
    return now_ns() - start;
}

/* A grid divided into strips of rows, one strip per PE. Each step sends the edge rows to the
 * neighbours, synchronises, and computes the next grid. Two sets of halo rows alternate, so that
 * one barrier per step is enough. */
enum { STENCIL_ROWS = 32, STENCIL_COLUMNS = 64 };
#define STENCIL_BYTES (sizeof(double) * STENCIL_COLUMNS)

static void sweep(const double *halo, const double (*now)[STENCIL_COLUMNS],
                  double (*next)[STENCIL_COLUMNS])
{
    for (int r = 0; r < STENCIL_ROWS; r++) {
        const double *up = r ? now[r - 1] : halo;
        const double *down = r < STENCIL_ROWS - 1 ? now[r + 1] : halo + STENCIL_COLUMNS;
        for (int c = 1; c < STENCIL_COLUMNS - 1; c++)
            next[r][c] = 0.25 * (up[c] + down[c] + now[r][c - 1] + now[r][c + 1]);
    }
}

static double run_stencil(const metric *m, size_t bytes, long iterations)
{
    static double grid[2][STENCIL_ROWS][STENCIL_COLUMNS];
    int above = (me + n_pes - 1) % n_pes, below = (me + 1) % n_pes;
    double start = now_ns();
    for (long i = 0; i < iterations; i++) {
        double(*now)[STENCIL_COLUMNS] = grid[i % 2], *halo = (double *)dst;
        halo += i % 2 * 2 * STENCIL_COLUMNS;
        shmem_putmem(halo + STENCIL_COLUMNS, now[0], STENCIL_BYTES, above);
        shmem_putmem(halo, now[STENCIL_ROWS - 1], STENCIL_BYTES, below);
        shmem_barrier_all();
        sweep(halo, (const double(*)[STENCIL_COLUMNS])now, grid[(i + 1) % 2]);
    }
    return now_ns() - start;
}

static void broadcast(size_t bytes)
{
#ifdef HAVE_TEAMS
    shmem_broadcastmem(SHMEM_TEAM_WORLD, dst, src, bytes, 0);
#else
    shmem_broadcast64(dst, src, bytes / 8, 0, 0, 0, n_pes, next_sync());
#endif
}

static void fcollect(size_t bytes)
{
#ifdef HAVE_TEAMS
    shmem_fcollectmem(SHMEM_TEAM_WORLD, dst, src, bytes);
#else
    shmem_fcollect64(dst, src, bytes / 8, 0, 0, n_pes, next_sync());
#endif
}

static void alltoall(size_t bytes)
{
#ifdef HAVE_TEAMS
    shmem_alltoallmem(SHMEM_TEAM_WORLD, dst, src, bytes);
#else
    shmem_alltoall64(dst, src, bytes / 8, 0, 0, n_pes, next_sync());
#endif
}

static void sum(size_t bytes)
{
#ifdef HAVE_TEAMS
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, (long *)dst, (long *)src, bytes / 8);
#else
    shmem_long_sum_to_all((long *)dst, (long *)src, (int)(bytes / 8), 0, 0, n_pes, sum_work,
                          next_sync());
#endif
}

static void call_collective(const char *name, size_t bytes)
{
    switch (name[0]) {
    case 'b':
        broadcast(bytes);
        break;
    case 'f':
        fcollect(bytes);
        break;
    case 'a':
        alltoall(bytes);
        break;
    case 's':
        sum(bytes);
        break;
    }
}

static double run_collective(const metric *m, size_t bytes, long iterations)
{
    double inside = 0;
    for (long i = 0; i < iterations; i++) {
        shmem_barrier_all();
        double start = now_ns();
        call_collective(m->name, bytes);
        inside += now_ns() - start;
    }
    return inside;
}

/* --------------------------------------------------------------------------- checking */

/* Word at the beginning and at the end of block `block` of PE `pe`, which identifies its origin. */
static long mark_of_block(int pe, size_t block)
{
    return 1000 * (pe + 1) + (long)block;
}

static void set_marks(void *buffer, size_t bytes, size_t blocks, int from)
{
    for (size_t b = 0; b < blocks; b++) {
        long *words = (long *)((char *)buffer + b * bytes);
        words[bytes / 8 - 1] = words[0] = mark_of_block(from, b);
    }
}

static int has_value(const void *buffer, size_t bytes, size_t block, long expected)
{
    const long *words = (const long *)((const char *)buffer + block * bytes);
    return words[0] == expected && words[bytes / 8 - 1] == expected;
}

static int check_collective(const char *name, size_t bytes)
{
    int right = 1;
    set_marks(src, bytes, (size_t)n_pes, me);
    memset(dst, 0, bytes * (size_t)n_pes);
    shmem_barrier_all();
    call_collective(name, bytes);
    for (int pe = 0; pe < n_pes; pe++) {
        if (name[0] == 'f')
            right &= has_value(dst, bytes, (size_t)pe, mark_of_block(pe, 0));
        if (name[0] == 'a')
            right &= has_value(dst, bytes, (size_t)pe, mark_of_block(pe, (size_t)me));
    }
    if (name[0] == 'b' && me != 0)
        right = has_value(dst, bytes, 0, mark_of_block(0, 0));
    if (name[0] == 's')
        right = has_value(dst, bytes, 0, 1000L * n_pes * (n_pes + 1) / 2);
    return right;
}

static int check_put_get(const char *name, size_t bytes)
{
    int right = 1;
    set_marks(src, bytes, 1, me);
    memset(dst, 0, bytes);
    shmem_barrier_all();
    if (me == 0 && name[0] == 'p')
        shmem_putmem(dst, src, bytes, 1);
    if (me == 0 && name[0] == 'g') {
        shmem_getmem(dst, src, bytes, 1);
        right = has_value(dst, bytes, 0, mark_of_block(1, 0));
    }
    shmem_barrier_all();
    if (me == 1 && name[0] == 'p')
        right = has_value(dst, bytes, 0, mark_of_block(0, 0));
    return right;
}

static int check_add(void)
{
    word[0] = 0;
    shmem_barrier_all();
    for (int i = 0; i < 100; i++)
        shmem_long_atomic_add(word, 1, 1);
    shmem_barrier_all();
    return me != 1 || word[0] == 100L * n_pes;
}

static void check(const metric *m, size_t bytes)
{
    int right = 1;
    if (m->run == run_collective)
        right = check_collective(m->name, bytes);
    else if (strncmp(m->name, "put", 3) == 0 || strcmp(m->name, "get") == 0)
        right = check_put_get(m->name, bytes);
    else if (m->run == run_add || m->run == run_fetch_add)
        right = check_add();
    if (!right) {
        printf("WRONG %s %zu at PE %d\n", m->name, bytes, me);
        wrong = 1;
    }
    shmem_barrier_all();
}

/* ----------------------------------------------------------------------------- timing */

/* Returns the mean over the PEs for collectives, else the time of PE 0, at every PE. */
static double mean_over_pes(const metric *m, double own)
{
    double total = 0;
    times[0] = own;
    shmem_barrier_all();
    for (int pe = 0; pe < (m->collective ? n_pes : 1); pe++) {
        double one;
        shmem_getmem(&one, &times[0], sizeof one, pe);
        total += one;
    }
    shmem_barrier_all();
    return m->collective ? total / n_pes : total;
}

static double timed(const metric *m, size_t bytes, long iterations)
{
    double own = 0;
    shmem_barrier_all();
    if (m->collective || me == 0)
        own = m->run(m, bytes, iterations);
    return mean_over_pes(m, own);
}

static void measure(const metric *m, size_t bytes)
{
    long iterations = 1;
    double ns;
    check(m, bytes);
    timed(m, bytes, 1);
    while ((ns = timed(m, bytes, iterations)) < WANTED_NS / 20 && iterations < MOST_ITERATIONS)
        iterations *= 4;
    iterations = (long)(WANTED_NS / (ns / (double)iterations + 0.01)) + 1;
    if (iterations > MOST_ITERATIONS)
        iterations = MOST_ITERATIONS;
    ns = timed(m, bytes, iterations);
    if (me == 0)
        printf("%s %zu %.6f\n", m->name, bytes, ns / (double)iterations / 1e3);
}

static void measure_sizes(const metric *m, size_t largest)
{
    if (largest > largest_wanted)
        largest = largest_wanted;
    static const size_t sizes[] = {8, 1 << 10, 64 << 10, 1 << 20, 64 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && sizes[i] <= largest; i++)
        measure(m, sizes[i]);
}

static void measure_all(void)
{
    static const metric one_sided[] = {{"put", 0, run_put}, {"get", 0, run_get}};
    static const metric singles[] = {
        {"put_quiet", 0, run_put_quiet}, {"p", 0, run_p},     {"g", 0, run_g},
        {"fetch_add", 0, run_fetch_add}, {"add", 0, run_add},
    };
    static const metric ping_pong = {"ping_pong", 1, run_ping_pong};
    static const metric all[] = {
        {"barrier", 1, run_barrier}, {"sync", 1, run_sync}, {"stencil", 1, run_stencil}};
    static const metric collectives[] = {{"broadcast", 1, run_collective},
                                         {"fcollect", 1, run_collective},
                                         {"alltoall", 1, run_collective},
                                         {"sum", 1, run_collective}};
    for (size_t i = 0; n_pes > 1 && i < sizeof one_sided / sizeof one_sided[0]; i++)
        measure_sizes(&one_sided[i], LARGEST);
    for (size_t i = 0; n_pes > 1 && i < sizeof singles / sizeof singles[0]; i++)
        measure(&singles[i], 8);
    if (n_pes == 2)
        measure(&ping_pong, 8);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        measure(&all[i], 0);
    for (size_t i = 0; i < sizeof collectives / sizeof collectives[0]; i++)
        measure_sizes(&collectives[i], COLLECTIVE_LARGEST);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "small") == 0)
        largest_wanted = 8;
    shmem_init();
    me = shmem_my_pe();
    n_pes = shmem_n_pes();
    size_t room = (size_t)COLLECTIVE_LARGEST * (size_t)n_pes;
    room = room > LARGEST ? room : LARGEST;
    src = shmem_malloc(room);
    dst = shmem_malloc(room);
    word = shmem_malloc(4096);
    times = shmem_malloc(256);
    if (!src || !dst || !word || !times) {
        fprintf(stderr, "shmem_malloc failed: is SHMEM_SYMMETRIC_SIZE at least 512M?\n");
        return 1;
    }
    memset(src, 1, room);
    memset(dst, 1, room);
    memset(word, 0, 4096);
#ifndef HAVE_TEAMS
    sync_words = shmem_malloc(SYNC_SETS * SYNC_WORDS * sizeof(long));
    sum_work = shmem_malloc((COLLECTIVE_LARGEST / 8 / 2 + 1 + SHMEM_REDUCE_MIN_WRKDATA_SIZE) *
                            sizeof(long));
    for (long i = 0; i < (long)SYNC_SETS * SYNC_WORDS; i++)
        sync_words[i] = SHMEM_SYNC_VALUE;
#endif
    shmem_barrier_all();
    measure_all();
    fflush(stdout);
    shmem_barrier_all();
    shmem_finalize();
    return wrong;
}
