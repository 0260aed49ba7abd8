/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives shared by several blocks of a kernel, compared byte by byte with the host's result:
 *   grid           every operation at sizes around its limits, by one and several blocks, over
 *                  three teams
 *   grid rounds    many in one kernel, mixed with a block's own; each uses the results of the last
 *   grid expires   one PE does not call: the others report which PE, and in which collective
 *   grid slow      the PEs call one after the other, each within the limit of waits, the last one
 *                  later than twice the limit after the first
 *   grid absent    a block does not call, or cannot because it is not resident: the others report
 *                  how many blocks called
 *   grid too_many  the call names more blocks than the grid has */
#include "device_test.h"
#include "members.h"

#include "tests/gpu/coll_reference.h"

#include <stdbool.h>
#include <time.h>
#include <unistd.h>

enum { BLOCKS = 6, ROOM = 512 * 1024 * MEMBERS, GUARD = 64, NOT_ONE_OF_THEM = 1000 };

enum what {
    MEET,
    SYNC,
    BARRIER,
    BROADCAST,
    ALLGATHER,
    ALLTOALL,
    GATHER,
    SCATTER,
    ALLREDUCE,
    REDUCESCATTER,
    SCALED,
    SCALED_EACH,
    REDUCE,
    SCALED_TO,
    WEIGHTED,
    WEIGHTED_EACH,
    WEIGHTED_TO,
    WHATS
};

#define CALL(form, ...)                                                                            \
    (what == MEET            ? weft_##form##_meet(__VA_ARGS__)                                     \
     : what == SYNC          ? weft_##form##_sync(__VA_ARGS__)                                     \
     : what == BARRIER       ? weft_##form##_barrier(__VA_ARGS__)                                  \
     : what == BROADCAST     ? weft_##form##_broadcast(__VA_ARGS__, dst, src, count, root)         \
     : what == ALLGATHER     ? weft_##form##_allgather(__VA_ARGS__, dst, src, count)               \
     : what == ALLTOALL      ? weft_##form##_alltoall(__VA_ARGS__, dst, src, count)                \
     : what == GATHER        ? weft_##form##_gather(__VA_ARGS__, dst, src, count, root)            \
     : what == SCATTER       ? weft_##form##_scatter(__VA_ARGS__, dst, src, count, root)           \
     : what == ALLREDUCE     ? weft_##form##_allreduce(__VA_ARGS__, dst, src, count, type, op)     \
     : what == REDUCESCATTER ? weft_##form##_reducescatter(__VA_ARGS__, dst, src, count, type, op) \
     : what == SCALED ? weft_##form##_allreduce_scaled(__VA_ARGS__, dst, src, count, type, factor) \
     : what == SCALED_EACH                                                                         \
         ? weft_##form##_reducescatter_scaled(__VA_ARGS__, dst, src, count, type, factor)          \
     : what == REDUCE ? weft_##form##_reduce(__VA_ARGS__, dst, src, count, type, op, root)         \
     : what == SCALED_TO                                                                           \
         ? weft_##form##_reduce_scaled(__VA_ARGS__, dst, src, count, type, factor, root)           \
     : what == WEIGHTED                                                                            \
         ? weft_##form##_allreduce_weighted(__VA_ARGS__, dst, src, count, type, factor)            \
     : what == WEIGHTED_EACH                                                                       \
         ? weft_##form##_reducescatter_weighted(__VA_ARGS__, dst, src, count, type, factor)        \
         : weft_##form##_reduce_weighted(__VA_ARGS__, dst, src, count, type, factor, root))

/* `blocks` 0: the whole grid. */
WEFT_KERNEL(share, (enum what, what), (unsigned, blocks), (int, team), (char *, dst),
            (const char *, src), (size_t, count), (int, root), (weft_type, type), (weft_op, op),
            (double, factor), (int *, result))
{
    int status = NOT_ONE_OF_THEM;
    if (!blocks)
        status = CALL(grid, team);
    else if (weft_dev_block_rank() < blocks)
        status = CALL(blocks, blocks, team);
    if (weft_dev_thread_rank() == 0)
        result[weft_dev_block_rank()] = status;
}

/* In each round all blocks fill the source, which is exchanged, and every block checks all received
 * data. A block's own collective runs in between, and the calls use all blocks and some blocks in
 * turn, because all of them share the same counters. */
WEFT_KERNEL(rounds, (int, team), (uint64_t *, dst), (uint64_t *, src), (uint64_t *, alone),
            (int, each), (int, last), (int *, result))
{
    int status = 0, wrong = 0, n = weft_dev_team_n_pes(team), mine = weft_dev_team_my_pe(team);
    for (int round = 0; round < last && !status; round++) {
        uint64_t salt = (uint64_t)round * 1000003;
        for (size_t i = weft_dev_grid_rank(); i < (size_t)(n * each); i += weft_dev_grid_threads())
            src[i] = salt + (uint64_t)mine * 65536 + i;
        status = weft_grid_sync(team); /* synchronizes the blocks; the destinations are ready */
        if (!status)
            status = weft_grid_alltoall(team, dst, src, 8 * (size_t)each);
        for (size_t i = weft_dev_thread_rank(); i < (size_t)(n * each) && !status;
             i += weft_dev_block_threads()) {
            uint64_t from = i / (size_t)each, at = i % (size_t)each;
            wrong |= dst[i] != salt + from * 65536 + (uint64_t)(mine * each) + at;
        }
        unsigned some = 1 + (unsigned)round % weft_dev_grid_blocks();
        if (!status && weft_dev_block_rank() < some)
            status = weft_blocks_allgather(some, team, alone, &src[mine], 8);
        if (!status && weft_dev_block_rank() == 0)
            status = weft_block_sync(team);
        if (!status)
            status = weft_grid_meet(team); /* no block fills the source before all have read */
    }
    wrong = weft_dev_sync_block_or(wrong);
    if (weft_dev_thread_rank() == 0)
        result[weft_dev_block_rank()] = status ? status : wrong ? -99 : 0;
}

/* One member fills its source long after the others have called. */
WEFT_KERNEL(late_source, (int, team), (float *, dst), (float *, src), (size_t, n), (int, late),
            (float, value), (int *, result))
{
    for (int i = 0; i < 30 && late; i++)
        weft_dev_nanosleep(1000000);
    for (size_t i = weft_dev_thread_rank(); i < n; i += weft_dev_block_threads())
        src[i] = value + (float)i;
    int status = weft_grid_allreduce(team, dst, src, n, WEFT_FLOAT, WEFT_SUM);
    if (weft_dev_thread_rank() == 0)
        *result = status;
}

WEFT_KERNEL(but_one, (int, team), (int *, result))
{
    int status = NOT_ONE_OF_THEM;
    if (weft_dev_block_rank() != 1)
        status = weft_grid_sync(team);
    if (weft_dev_thread_rank() == 0)
        result[weft_dev_block_rank()] = status;
}

#if WEFT_HOST_CODE

static char *src, *dst;
static int *result;
static unsigned char *mine, *wanted, *seen;

static void results_are(unsigned blocks, unsigned of, int status)
{
    int results[BLOCKS];
    fetch(results, result, sizeof results);
    for (unsigned b = 0; b < of; b++)
        CHECK(results[b] == (b < blocks ? status : NOT_ONE_OF_THEM));
}

struct call {
    enum what what;
    size_t count;
    int root;
    weft_type type;
    weft_op op;
    unsigned grid, blocks, threads; /* blocks 0: all */
    size_t off;                     /* offset of both sides from an aligned address */
    bool in_place;                  /* reductions only */
};

static uint64_t salt = 1;

static bool is_each(enum what what)
{
    return what == REDUCESCATTER || what == SCALED_EACH || what == WEIGHTED_EACH;
}

/* Only one member receives the result. */
static bool is_to(enum what what)
{
    return what == GATHER || what == REDUCE || what == SCALED_TO || what == WEIGHTED_TO;
}

static void one(const struct members *m, const struct call *c)
{
    bool reduces = c->what >= ALLREDUCE;
    size_t element = reduces ? ref_bytes(c->type) : 1, block = c->count * element;
    size_t n = (size_t)m->n;
    bool parts = c->what == ALLTOALL || c->what == SCATTER; /* one for each member */
    bool from_root = c->what == BROADCAST || c->what == SCATTER;
    size_t from = parts || is_each(c->what) ? n * block : block;
    size_t to = !reduces && !from_root ? n * block : block;
    weft_op op = c->what >= WEIGHTED                      ? REF_WEIGHTED
                 : c->what >= SCALED && c->what != REDUCE ? REF_SCALED
                                                          : c->op;
    char *dst_at = dst + GUARD + c->off, *src_at = src + c->off;
    size_t around = c->in_place ? 0 : GUARD;
    if (c->in_place)
        dst_at = src_at + (is_each(c->what) ? (size_t)m->me * block : 0);
    CHECK(from + 256 <= ROOM && to + 256 <= ROOM);
    salt++;
    if (!reduces)
        ref_fill(mine, me, 0, from, salt);
    for (size_t i = 0; reduces && i * element < from; i++)
        ref_element(mine + i * element, c->type, me, i, salt);
    memset(wanted, 0xa5, to); /* with a root, the others' destinations stay unchanged */
    if (c->in_place && is_to(c->what))
        memcpy(wanted, mine, to);
    size_t blocks = is_to(c->what) && m->me != c->root ? 0 : reduces || from_root ? 1 : n;
    for (size_t k = 0; k < blocks && !reduces; k++)
        ref_fill(wanted + k * block, m->pes[from_root ? (size_t)c->root : k],
                 parts ? (size_t)m->me * block : 0, block, salt);
    size_t first = is_each(c->what) ? (size_t)m->me * c->count : 0;
    for (size_t i = 0; i < c->count && reduces && blocks; i++)
        ref_reduced(wanted + i * element, c->type, op, m->pes, m->n, first + i, salt);
    memset(seen, 0xa5, to + 2 * GUARD);
    store(dst_at - around, seen + GUARD - around, to + 2 * around);
    store(src_at, mine, from);
    OK(weft_barrier(m->team));
    LAUNCH(share, c->grid, c->threads, 0, NULL, c->what, c->blocks, m->number, dst_at,
           (const char *)src_at, c->count, c->root, c->type, c->op,
           op == REF_WEIGHTED ? ref_weight(salt, me) : ref_factor(salt), result);
    results_are(c->blocks ? c->blocks : c->grid, c->grid, WEFT_OK);
    fetch(seen + GUARD - around, dst_at - around, to + 2 * around);
    for (size_t i = 0; i < GUARD; i++)
        CHECK(seen[i] == 0xa5 && seen[GUARD + to + i] == 0xa5);
    for (size_t i = 0; i < to; i++)
        if (seen[GUARD + i] != wanted[i]) {
            fprintf(
                stderr,
                "PE %d of %d: operation %d of %zu, root %d, type %d, %u of %u blocks: byte %zu is "
                "%#x, not %#x\n",
                me, m->n, (int)c->what, c->count, c->root, (int)c->type, c->blocks, c->grid, i,
                seen[GUARD + i], wanted[i]);
            exit(1);
        }
}

/* In turn: one block, all of several blocks, some of several blocks. */
static void set_form(struct call *c, unsigned turn)
{
    static const unsigned grids[] = {4, 1, 6, 3}, blocks[] = {0, 0, 2, 1};
    static const unsigned threads[] = {64, 96, 128};
    c->grid = grids[turn % 4];
    c->blocks = blocks[turn % 4];
    c->threads = threads[turn % 3];
}

static void everything(weft_team *team)
{
    static const size_t sizes[] = {0, 1, 8, 100, 1000, 16384, 70001, 262144, 300001};
    static const size_t counts[] = {0, 1, 5, 37, 1000, 9001, 30000};
    static const weft_type types[] = {WEFT_FLOAT,          WEFT_BFLOAT16, WEFT_DOUBLE, WEFT_INT8,
                                      WEFT_COMPLEX_DOUBLE, WEFT_FP8_E4M3, WEFT_HALF};
    struct members m = know(team);
    unsigned turn = 0;
    for (int what = BROADCAST; what < WHATS; what++)
        for (size_t s = 0; s < (what < ALLREDUCE ? 9 : 7); s++)
            for (int again = 0; again < 2; again++, turn++) {
                struct call c = {.what = (enum what)what, .op = WEFT_SUM};
                set_form(&c, turn + (unsigned)what);
                c.count = what < ALLREDUCE ? sizes[s] : counts[s];
                c.root = (int)(turn % (unsigned)m.n);
                c.type = types[turn % 7];
                c.op = turn % 3 || !ref_defined(c.type, WEFT_AVG) ? WEFT_SUM : WEFT_AVG;
                if (what >= SCALED && what != REDUCE && c.type == WEFT_INT8) /* needs a real type */
                    c.type = WEFT_FLOAT;
                c.off = what < ALLREDUCE ? (again ? 0 : s % 3) : again ? ref_bytes(c.type) : 0;
                c.in_place = what >= ALLREDUCE && turn % 4 == 1;
                one(&m, &c);
            }
    for (int what = MEET; what < BROADCAST; what++) {
        LAUNCH(share, 5, 32, 0, NULL, (enum what)what, what == SYNC ? 2 : 0, m.number, dst, src, 0,
               0, WEFT_FLOAT, WEFT_SUM, 0.0, result);
        results_are(what == SYNC ? 2 : 5, 5, WEFT_OK);
    }
}

/* Around the largest size that packets carry. The factor of a weighted sum shares their slots. */
static void edges(weft_team *team)
{
    static const weft_type types[] = {WEFT_FLOAT, WEFT_BFLOAT16, WEFT_DOUBLE};
    struct members m = know(team);
    size_t slot = weft_dev_slot_bytes(n_pes, m.number) / 2;
    unsigned turn = 0;
    for (int what = WEIGHTED; what < WHATS; what++)
        for (int edge = -17; edge <= 1; edge += edge == -15 ? 14 : 1, turn++) {
            struct call c = {.what = (enum what)what, .op = WEFT_SUM, .type = types[turn % 3]};
            set_form(&c, turn);
            c.count = (size_t)((int)slot + edge) / ref_bytes(c.type) + (edge % 2 == 0);
            c.root = (int)(turn % (unsigned)m.n);
            one(&m, &c);
        }
}

static void in_one_kernel(void)
{
    enum { EACH = 300, ROUNDS = 30 };
    struct members m = know(weft_team_world(job));
    uint64_t *alone = symmetric(8 * MEMBERS);
    for (unsigned blocks = 1; blocks <= BLOCKS; blocks += 2) {
        barrier();
        LAUNCH(rounds, blocks, 64, 0, NULL, m.number, (uint64_t *)(void *)dst,
               (uint64_t *)(void *)src, alone, EACH, ROUNDS, result);
        results_are(blocks, blocks, WEFT_OK);
        barrier();
    }
}

static void from_a_late_source(void)
{
    enum { N = 30000 };
    float *sums = (float *)(void *)seen;
    barrier();
    LAUNCH(late_source, 1, 64, 0, NULL, WEFT_DEV_WORLD, (float *)(void *)dst, (float *)(void *)src,
           N, me == n_pes - 1, (float)me, result);
    results_are(1, 1, WEFT_OK);
    fetch(sums, dst, N * sizeof *sums);
    for (int i = 0; i < N; i++)
        CHECK(sums[i] == (float)(n_pes * i + n_pes * (n_pes - 1) / 2));
    barrier();
}

/* weft_device_check() and the returned status both report the failure. */
#define LAUNCH_FAILING(...)                                                                        \
    do {                                                                                           \
        OK(WEFT_LAUNCH(__VA_ARGS__));                                                              \
        CHECK(weft_stream_synchronize(NULL) != WEFT_OK);                                           \
    } while (0)

static void told(void)
{
    fprintf(stderr, "%s\n", weft_last_error());
    fflush(NULL);
    _exit(0);
}

/* Finding A22: blocks of one thread wait for one member after the other, and the other blocks wait
 * for the last block for the same time. */
static void slow(void)
{
    for (int i = 0; i < me; i++)
        nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 100000000}, NULL);
    LAUNCH(share, 3, 1, 0, NULL, ALLREDUCE, 0, WEFT_DEV_WORLD, dst, src, 100, 0, WEFT_FLOAT,
           WEFT_SUM, 0.0, result);
    OK(weft_device_check(job));
}

static void expires(void)
{
    if (n_pes == 1)
        exit(77);
    if (me == 1) { /* alive, but does not call */
        nanosleep(&(struct timespec){.tv_sec = 5}, NULL);
        _exit(0);
    }
    LAUNCH_FAILING(share, 3, 32, 0, NULL, ALLREDUCE, 0, WEFT_DEV_WORLD, dst, src, 100, 0,
                   WEFT_FLOAT, WEFT_SUM, 0.0, result);
    FAILS(weft_device_check(job), WEFT_ERR_TIMEOUT, "allreduce of team 0 waited");
    FAILS(weft_device_check(job), WEFT_ERR_TIMEOUT, "for PE 1");
    told();
}

static void absent(void)
{
    LAUNCH_FAILING(but_one, 3, 32, 0, NULL, WEFT_DEV_WORLD, result);
    FAILS(weft_device_check(job), WEFT_ERR_TIMEOUT,
          "for the 3 blocks of this kernel that share a collective: 2 have come");
    FAILS(weft_device_check(job), WEFT_ERR_TIMEOUT, "WEFT_LAUNCH_COOPERATIVE");
    told();
}

static void too_many(void)
{
    LAUNCH_FAILING(share, 2, 32, 0, NULL, SYNC, 9, WEFT_DEV_WORLD, dst, src, 0, 0, WEFT_FLOAT,
                   WEFT_SUM, 0.0, result);
    FAILS(weft_device_check(job), WEFT_ERR_ARGUMENT, "the first 9 blocks of 2 must share it");
    told();
}

int main(int argc, char **argv)
{
    const char *part = argc > 1 ? argv[1] : "";
    device_begin();
    src = symmetric(ROOM);
    dst = symmetric(ROOM);
    result = symmetric(BLOCKS * sizeof *result);
    mine = malloc(ROOM), wanted = malloc(ROOM), seen = malloc(ROOM);
    CHECK(mine && wanted && seen);
    barrier();
    if (strcmp(part, "expires") == 0)
        expires();
    if (strcmp(part, "slow") == 0) {
        slow();
        device_end();
        return 0;
    }
    if (strcmp(part, "absent") == 0)
        absent();
    if (strcmp(part, "too_many") == 0)
        too_many();
    if (strcmp(part, "rounds") == 0) {
        in_one_kernel();
    } else {
        weft_team *evens, *reverse;
        OK(weft_team_split_strided(weft_team_world(job), 0, 2, (n_pes + 1) / 2, &evens));
        OK(weft_team_split_strided(weft_team_world(job), n_pes - 1, -1, n_pes, &reverse));
        everything(weft_team_world(job));
        everything(reverse);
        edges(weft_team_world(job));
        edges(reverse);
        if (evens)
            everything(evens);
        in_one_kernel();
        from_a_late_source();
    }
    barrier();
    device_end();
    return 0;
}
#endif
