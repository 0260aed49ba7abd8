/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of device code whose blocks differ in size or have gaps, by thread, warp, block and
 * the blocks of a grid, compared byte by byte with plain loops of the host:
 *   sized             sizes around the limits, any alignment, over three teams
 *   sized rounds [N]  many random ones in one kernel, mixed with others; a member is late at times,
 *                     and a destination is reused as soon as permitted
 *   sized collect_range, alltoallv_range, alltoallv_room, alltoalls_argument
 *                     invalid calls: the message is checked */
#define WEFT_KERNEL_THREADS 128
#include "device_test.h"
#include "members.h"

#include "tests/gpu/coll_reference.h"

#include <stdbool.h>
#include <unistd.h>

enum { BLOCKS = 3, ROOM = 256 * 1024, GUARD = 64, UNTOUCHED = 0xa5, SETS = 4 };

enum form { THREAD, WARP, BLOCK, GRID, SOME_BLOCKS, FORMS };
enum what { COLLECT, ALLTOALLV, ALLTOALLS, WHATS };

struct call {
    int team;
    char *dst;
    const char *src;
    uint64_t bytes; /* collect */
    uint64_t room;  /* alltoallv */
    const uint64_t *recv_bytes, *recv_at, *send_bytes, *send_at;
    ptrdiff_t dst_stride, src_stride; /* alltoalls */
    size_t element, n;
};

#define CALL(form, ...)                                                                            \
    (what == COLLECT     ? weft_##form##_collect(__VA_ARGS__, c.dst, c.src, c.bytes)               \
     : what == ALLTOALLV ? weft_##form##_alltoallv(__VA_ARGS__, c.dst, c.room, c.recv_bytes,       \
                                                   c.recv_at, c.src, c.send_bytes, c.send_at)      \
                         : weft_##form##_alltoalls(__VA_ARGS__, c.dst, c.src, c.dst_stride,        \
                                                   c.src_stride, c.element, c.n))

/* Thread and warp form: the first of the first block; SOME_BLOCKS: the first two blocks. */
WEFT_DEVICE int call_by(enum form form, enum what what, const struct call c)
{
    if (form == GRID)
        return CALL(grid, c.team);
    if (form == SOME_BLOCKS)
        return weft_dev_block_rank() < 2 ? CALL(blocks, 2, c.team) : WEFT_OK;
    if (weft_dev_block_rank())
        return WEFT_OK;
    if (form == BLOCK)
        return CALL(block, c.team);
    if (form == WARP)
        return weft_dev_warp() == 0 ? CALL(warp, c.team) : WEFT_OK;
    return weft_dev_thread_rank() == 0 ? CALL(thread, c.team) : WEFT_OK;
}

WEFT_KERNEL(move, (enum form, form), (enum what, what), (struct call, c), (int *, result))
{
    int status = call_by(form, what, c);
    if (weft_dev_thread_rank() == 0)
        result[weft_dev_block_rank()] = status;
}

/* ------------------------------------------------------------------------- rounds in a kernel */

enum drawn {
    D_COLLECT,
    D_ALLTOALLV,
    D_ALLTOALLS,
    D_ALLGATHER,
    D_GATHER,
    D_ALLREDUCE,
    D_REDUCE,
    D_WEIGHTED,
    DRAWN
};
enum { STRIDE = 384, SPACE = 4096 };

struct round {
    uint32_t number, hash;
    int n, me, root;
};

WEFT_DEV_BOTH uint32_t said(uint32_t number, uint32_t from, uint32_t at)
{
    uint32_t x = number * 2654435761u + from * 0x9e3779b9u + at * 0x85ebca6bu + 1;
    x = (x ^ x >> 15) * 0x2c1b3c6du;
    return x ^ x >> 13;
}

WEFT_DEVICE uint32_t said_byte(const struct round *r, int from, uint32_t at)
{
    return said(r->number, (uint32_t)from, at) & 0xff;
}

/* Sizes of all kinds, including 0. */
WEFT_DEVICE uint32_t size_of(const struct round *r, int from, int to)
{
    uint32_t x = said(r->number, 64 + (uint32_t)from, 1000 + (uint32_t)to);
    return x % 4 == 0 ? 0 : (x >> 3) % (STRIDE + 1);
}

WEFT_DEVICE uint32_t element_of(const struct round *r)
{
    return 1 + (r->hash >> 8) % 9;
}

/* Expected value of a byte of the destination. */
WEFT_DEVICE uint32_t wanted(const struct round *r, int what, uint32_t at)
{
    uint32_t from = at / STRIDE, inside = at % STRIDE, element = element_of(r);
    switch (what) {
    case D_COLLECT:
        for (int i = 0; i < r->n; at -= size_of(r, i, 0), i++)
            if (at < size_of(r, i, 0))
                return said_byte(r, i, at);
        return UNTOUCHED;
    case D_ALLTOALLV:
        return (int)from < r->n && inside < size_of(r, (int)from, r->me)
                   ? said_byte(r, (int)from, (uint32_t)r->me * STRIDE + inside)
                   : UNTOUCHED;
    case D_ALLTOALLS: { /* 11 elements for each pair: every third place of dst from every second
                           place of src */
        uint32_t place = at / element, k = place / 3;
        if (place % 3 || k >= 11 * (uint32_t)r->n)
            return UNTOUCHED;
        uint32_t i = k / 11, there = ((uint32_t)r->me * 11 + k % 11) * 2 * element;
        return said_byte(r, (int)i, there + at % element);
    }
    case D_ALLGATHER:
    case D_GATHER:
        return (int)from < r->n && (what == D_ALLGATHER || r->me == r->root)
                   ? said_byte(r, (int)from, inside)
                   : UNTOUCHED;
    default: {
        uint32_t sum = 0;
        if (what == D_REDUCE && r->me != r->root)
            return UNTOUCHED;
        if (what == D_WEIGHTED) { /* whole numbers and factors: exact */
            float all = 0;
            for (int i = 0; i < r->n; i++)
                all += (float)(i + 1) * (float)(said_byte(r, i, at / 4 * 4) / 2);
            return at < STRIDE ? weft_dev_bits_f32(all) >> 8 * (at % 4) & 0xff : UNTOUCHED;
        }
        for (int i = 0; i < r->n && at < STRIDE; i++)
            for (uint32_t b = 0; b < 4; b++)
                sum += said_byte(r, i, at / 4 * 4 + b) << 8 * b;
        return at < STRIDE ? sum >> 8 * (at % 4) & 0xff : UNTOUCHED;
    }
    }
}

WEFT_DEVICE int drawn_by(enum form form, int what, const struct round *r, struct call c)
{
    uint32_t element = element_of(r);
    c.bytes = size_of(r, r->me, 0);
    c.dst_stride = 3;
    c.src_stride = 2;
    c.element = element;
    c.n = 11;
    if (what <= D_ALLTOALLS)
        return call_by(form, (enum what)what, c);
#define OTHER(form)                                                                                \
    (what == D_ALLGATHER ? weft_##form##_allgather(c.team, c.dst, c.src, STRIDE)                   \
     : what == D_GATHER  ? weft_##form##_gather(c.team, c.dst, c.src, STRIDE, r->root)             \
     : what == D_ALLREDUCE                                                                         \
         ? weft_##form##_allreduce(c.team, c.dst, c.src, STRIDE / 4, WEFT_UINT32, WEFT_SUM)        \
     : what == D_REDUCE                                                                            \
         ? weft_##form##_reduce(c.team, c.dst, c.src, STRIDE / 4, WEFT_UINT32, WEFT_SUM, r->root)  \
         : weft_##form##_allreduce_weighted(c.team, c.dst, c.src, STRIDE / 4, WEFT_FLOAT,          \
                                            (double)(r->me + 1)))
    if (form == GRID)
        return OTHER(grid);
    if (form == BLOCK)
        return OTHER(block);
    if (form == WARP)
        return weft_dev_warp() == 0 ? OTHER(warp) : WEFT_OK;
    return weft_dev_thread_rank() == 0 ? OTHER(thread) : WEFT_OK;
#undef OTHER
}

/* All threads of the grid write sources and check destinations; the blocks synchronize by
 * weft_grid_meet(). */
WEFT_DEVICE int together(enum form form, int team)
{
    weft_dev_sync_block();
    return form == GRID ? weft_grid_meet(team) : WEFT_OK;
}

/* arrays: recv_bytes, recv_at, send_bytes, send_at, MEMBERS words each. */
WEFT_DEVICE void prepare(const struct round *r, int what, char *src, uint64_t *arrays,
                         unsigned rank, unsigned threads)
{
    for (uint32_t i = rank; i < SPACE; i += threads)
        src[i] = (char)said_byte(r, r->me, i);
    for (uint32_t i = rank; what == D_WEIGHTED && i < STRIDE; i += threads)
        src[i] =
            (char)(weft_dev_bits_f32((float)(said_byte(r, r->me, i / 4 * 4) / 2)) >> 8 * (i % 4));
    if (rank)
        return;
    for (int i = 0; i < r->n; i++) {
        arrays[i] = size_of(r, i, r->me) + r->number % 2;
        arrays[MEMBERS + i] = arrays[3 * MEMBERS + i] = (uint64_t)i * STRIDE;
        arrays[2 * MEMBERS + i] = size_of(r, r->me, i);
    }
}

WEFT_KERNEL(rounds, (enum form, form), (int, team), (char *, dst), (char *, src),
            (uint64_t *, arrays), (uint32_t, seed), (uint32_t, last), (int *, result))
{
    unsigned rank = (unsigned)weft_dev_grid_rank(), threads = (unsigned)weft_dev_grid_threads();
    int status = 0, wrong = 0;
    for (uint32_t number = 0; number < last && !status; number++) {
        struct round r = {seed + number, said(seed, 7, number), weft_dev_team_n_pes(team),
                          weft_dev_team_my_pe(team), 0};
        int what = (int)(r.hash % DRAWN);
        char *to = dst + number % SETS * SPACE;
        r.root = (int)(r.hash >> 16) % r.n;
        r.root = r.root < 0 ? -r.root : r.root;
        for (uint32_t i = rank; number % SETS == 0 && i < SETS * SPACE; i += threads)
            dst[i] = (char)UNTOUCHED;
        prepare(&r, what, src, arrays, rank, threads);
        status = together(form, team);
        if (!status && number % SETS == 0) {
            status = form == GRID                 ? weft_grid_sync(team)
                     : weft_dev_block_rank() == 0 ? weft_block_sync(team)
                                                  : WEFT_OK;
        }
        if (said(r.number, 3, 3) % 8 == 0 && (int)(said(r.number, 4, 4) % (uint32_t)r.n) == r.me)
            weft_dev_nanosleep(200000);
        struct call c = {team,
                         to,
                         src,
                         0,
                         SPACE,
                         arrays,
                         arrays + MEMBERS,
                         arrays + 2 * MEMBERS,
                         arrays + 3 * MEMBERS,
                         0,
                         0,
                         0,
                         0};
        if (!status)
            status = drawn_by(form, what, &r, c);
        status = weft_dev_sync_block_or(status) ? (status ? status : -98) : 0;
        for (uint32_t i = rank; i < SPACE && !status && !wrong; i += threads)
            wrong = (uint8_t)to[i] != wanted(&r, what, i) ? (int)number * 16 + what + 1 : 0;
        if (!status) /* no thread fills source and destination before all have checked */
            status = together(form, team);
    }
    if (wrong)
        result[1] = wrong;
    wrong = weft_dev_sync_block_or(wrong);
    if (weft_dev_thread_rank() == 0 && (status || wrong))
        result[0] = status ? status : -99;
}

WEFT_KERNEL(set_rounds, (int, team), (uint64_t, number))
{
    struct weft_dev_group g;
    if (weft_dev_group_begin(&g, WEFT_DEV_THREAD, team, WEFT_DEV_OP_SYNC) == WEFT_OK)
        weft_dev_own_area(&g)->packets = number;
}

/* Whole numbers as floats, whose sums are exact, by one block. root -1: allreduce; -2: weighted
 * by 1. The late PE's packets arrive after the others have started to poll for them. */
WEFT_KERNEL(once, (int, root), (int, late), (float, value), (float *, to), (float *, from),
            (int *, result))
{
    for (unsigned i = weft_dev_thread_rank(); i < STRIDE / 4; i += weft_dev_block_threads())
        from[i] = value + (float)i;
    weft_dev_sync_block();
    for (int i = 0; i < 20 && late; i++)
        weft_dev_nanosleep(1000000);
    const weft_type type = WEFT_FLOAT;
    int status = root == -2   ? weft_block_allreduce_weighted(0, to, from, STRIDE / 4, type, 1)
                 : root == -1 ? weft_block_allreduce(0, to, from, STRIDE / 4, type, WEFT_SUM)
                              : weft_block_reduce(0, to, from, STRIDE / 4, type, WEFT_SUM, root);
    if (weft_dev_thread_rank() == 0)
        *result = status;
}

#if WEFT_HOST_CODE

static char *src, *dst;
static uint64_t *arrays;
static int *result;
static unsigned char *mine, *all, *seen, *should;

static uint64_t salt = 1;

/* 0, 1, primes, and sizes of several fragments; the same at both members of a pair. */
static size_t size_of_pair(int from, int to, size_t most)
{
    static const size_t sizes[] = {0, 1, 7, 16, 97, 1009, 4099, 20011};
    size_t size = sizes[ref_hash((uint64_t)from, (uint64_t)to, salt) % 8];
    return size < most ? size : most;
}

/* Fills `should`, the arrays and the call. */
static size_t expect(const struct members *m, enum what what, struct call *c, unsigned turn)
{
    static const size_t elements[] = {1, 2, 4, 8, 16, 3, 24, 40};
    uint64_t words[4 * MEMBERS] = {0};
    size_t end = 0, pitch = 20480 + turn % 5;
    memset(should, UNTOUCHED, ROOM);
    c->room = ROOM - 4096;
    c->element = elements[turn % 8];
    c->n = turn % 7 == 3 ? 0 : size_of_pair(100, 100, 300);
    c->dst_stride = turn % 3 == 0 ? 1 : (ptrdiff_t)(1 + turn % 4);
    c->src_stride = turn % 3 == 0 ? 1 : (ptrdiff_t)(1 + turn % 2);
    c->bytes = size_of_pair(m->me, 50, ROOM);
    for (int i = 0; i < m->n; i++) {
        size_t size = what == COLLECT ? size_of_pair(i, 50, ROOM) : size_of_pair(i, m->me, ROOM);
        size_t to = what == COLLECT ? end : (size_t)i * pitch;
        if (what != ALLTOALLS)
            ref_fill(should + to, m->pes[i], what == COLLECT ? 0 : (size_t)m->me * pitch, size,
                     salt);
        end = what == COLLECT ? end + size : ROOM - 4096;
        for (size_t k = 0; k < c->n && what == ALLTOALLS; k++)
            ref_fill(should + ((size_t)i * c->n + k) * (size_t)c->dst_stride * c->element,
                     m->pes[i], ((size_t)m->me * c->n + k) * (size_t)c->src_stride * c->element,
                     c->element, salt);
        words[i] = size_of_pair(i, m->me, ROOM) + turn % 2;
        words[MEMBERS + i] = words[3 * MEMBERS + i] = (size_t)i * pitch;
        words[2 * MEMBERS + i] = size_of_pair(m->me, i, ROOM);
    }
    store(arrays, words, sizeof words);
    c->recv_bytes = arrays;
    c->recv_at = arrays + MEMBERS;
    c->send_bytes = arrays + 2 * MEMBERS;
    c->send_at = arrays + 3 * MEMBERS;
    return ROOM - 4096;
}

static void one(const struct members *m, enum form form, enum what what, unsigned turn)
{
    static const unsigned threads[] = {64, 96, 32};
    struct call c = {.team = m->number};
    int results[BLOCKS];
    salt++;
    size_t off = turn % 4 ? 0 : turn % 13, whole = expect(m, what, &c, turn);
    bool in_place = what == COLLECT && turn % 5 == 2;
    c.dst = dst + GUARD + off;
    c.src = src + (turn % 3 == 1 ? off : 0);
    memset(seen, UNTOUCHED, ROOM);
    store(dst, seen, ROOM);
    ref_fill(mine, me, 0, ROOM / 2, salt);
    store((char *)(uintptr_t)c.src, mine, ROOM / 2);
    for (int i = 0; i < m->me && in_place; i++)
        c.src = (i ? c.src : c.dst) + size_of_pair(i, 50, ROOM);
    if (in_place && m->me == 0)
        c.src = c.dst;
    if (in_place)
        store((char *)(uintptr_t)c.src, mine, c.bytes);
    OK(weft_barrier(m->team));
    LAUNCH(move, form >= GRID ? BLOCKS : 1, threads[turn % 3], 0, NULL, form, what, c, result);
    fetch(results, result, sizeof results);
    for (int b = 0; b < (form >= GRID ? BLOCKS : 1); b++)
        CHECK(results[b] == WEFT_OK);
    fetch(seen, dst, ROOM);
    bool same = memcmp(seen + GUARD + off, should, whole - GUARD - off) == 0;
    for (size_t i = 0; i < (same ? GUARD + off : whole); i++) {
        size_t at = i - GUARD - off;
        unsigned char right = i < GUARD + off ? UNTOUCHED : should[at];
        if (seen[i] == right)
            continue;
        fprintf(stderr, "PE %d of %d: form %d, operation %d, turn %u: byte %zu is %#x, not %#x\n",
                m->me, m->n, (int)form, (int)what, turn, at, seen[i], right);
        exit(1);
    }
    OK(weft_barrier(m->team));
}

static void everything(weft_team *team, unsigned turns)
{
    struct members m = know(team);
    for (int what = 0; what < WHATS; what++)
        for (int form = 0; form < FORMS; form++)
            for (unsigned turn = 0; turn < turns; turn++)
                one(&m, (enum form)form, (enum what)what, turn);
}

static void draw_by(weft_team *team, enum form form, uint32_t seed, uint32_t last)
{
    static const int zeros[2] = {0, 0};
    int seen_result[2];
    store(result, zeros, sizeof zeros);
    OK(weft_barrier(team));
    LAUNCH(rounds, form == GRID ? BLOCKS : 1, 64, 0, NULL, form, weft_team_device(team), dst, src,
           arrays, seed, last, result);
    fetch(seen_result, result, sizeof seen_result);
    if (seen_result[0] || seen_result[1]) {
        fprintf(stderr, "PE %d, form %d: status %d; round %d of operation %d is wrong\n", me,
                (int)form, seen_result[0], seen_result[1] / 16, seen_result[1] % 16 - 1);
        exit(1);
    }
    OK(weft_barrier(team));
}

static void drawn(weft_team *team, uint32_t last)
{
    static const enum form forms[] = {BLOCK, GRID, WARP, THREAD};
    for (unsigned f = 0; f < 4; f++)
        draw_by(team, forms[f], 1000 * f + 17, last);
}

/* Packet sequence numbers repeat after 2^30 rounds. Old packets in the slots must not be taken for
 * new ones. */
static void numbers_again(weft_team *team)
{
    for (uint64_t i = 1; i <= 9; i++) {
        LAUNCH(set_rounds, 1, 1, 0, NULL, weft_team_device(team), (i << 29) - 5);
        draw_by(team, i % 2 ? BLOCK : WARP, (uint32_t)(90 * i), 24);
    }
}

/* The same where the rounds that renew the slots were to one root, or weighted, whose elements
 * begin at a higher offset: a packet of round 2^29 - 2 must not be taken for one of 3 * 2^29 -
 * 2. */
static void renewed_otherwise(int first, int renewing, int last)
{
    const struct {
        uint64_t before;
        int root;
    } steps[] = {{((uint64_t)1 << 29) - 3, first},
                 {((uint64_t)2 << 29) - 1, renewing},
                 {(uint64_t)2 << 29, renewing},
                 {((uint64_t)3 << 29) - 3, last}};
    float sums[STRIDE / 4];
    for (int k = 0; k < 4; k++) {
        LAUNCH(set_rounds, 1, 1, 0, NULL, WEFT_DEV_WORLD, steps[k].before);
        barrier();
        LAUNCH(once, 1, 32, 0, NULL, steps[k].root, k == 3 && me == n_pes - 1,
               (float)(100 * k + me), (float *)(void *)dst, (float *)(void *)src, result);
        barrier();
    }
    fetch(sums, dst, sizeof sums);
    for (int i = 0; i < STRIDE / 4; i++)
        CHECK(sums[i] == (float)(n_pes * (300 + i) + n_pes * (n_pes - 1) / 2));
}

static void told(weft_status status, const char *text)
{
    FAILS(weft_device_check(job), status, text);
    fprintf(stderr, "seen: %s\n", weft_last_error());
    fflush(NULL);
    _exit(0);
}

/* One PE is enough for each case. */
static void refused(const char *what)
{
    uint64_t words[4 * MEMBERS] = {100, 0, 0, 0, 0, 8};
    struct call c = {.team = WEFT_DEV_WORLD,
                     .dst = dst,
                     .src = src,
                     .room = 200,
                     .recv_bytes = arrays,
                     .recv_at = arrays + MEMBERS,
                     .send_bytes = arrays + 2 * MEMBERS,
                     .send_at = arrays + 3 * MEMBERS,
                     .dst_stride = 1,
                     .src_stride = 0,
                     .element = 4,
                     .n = 3};
    enum what which = strcmp(what, "collect_range") == 0        ? COLLECT
                      : strcmp(what, "alltoalls_argument") == 0 ? ALLTOALLS
                                                                : ALLTOALLV;
    c.bytes = (uint64_t)1 << 40;
    words[2 * MEMBERS] = 101;
    if (strcmp(what, "alltoallv_room") == 0) { /* 60 bytes at offset 150 of 200 */
        words[MEMBERS] = 150;
        words[2 * MEMBERS] = 60;
    }
    store(arrays, words, sizeof words);
    store(dst, memset(mine, UNTOUCHED, 512), 512);
    OK(WEFT_LAUNCH(move, 1, 32, 0, NULL, BLOCK, which, c, result));
    CHECK(weft_stream_synchronize(NULL) != WEFT_OK);
    for (int i = 0; i < 512 && weft_target_get() == WEFT_SIMT;
         i++) /* the host cannot read from a GPU after a fault */
        CHECK((unsigned char)dst[i] == UNTOUCHED);
    if (which == COLLECT)
        told(WEFT_ERR_RANGE, "run past the end of the segment");
    if (which == ALLTOALLS)
        told(WEFT_ERR_ARGUMENT, "strides 1 and 0 (dst, src), element of 4 bytes");
    told(WEFT_ERR_RANGE, words[MEMBERS] == 150 ? "PE 0 has no room for the 60 bytes"
                                               : "PE 0 has no room for the 101 bytes");
}

int main(int argc, char **argv)
{
    const char *part = argc > 1 ? argv[1] : "";
    device_begin();
    src = symmetric(ROOM);
    dst = symmetric(ROOM);
    arrays = symmetric(4 * MEMBERS * sizeof *arrays);
    result = symmetric(BLOCKS * sizeof *result);
    mine = malloc(ROOM), all = malloc(ROOM), seen = malloc(ROOM), should = malloc(ROOM);
    CHECK(mine && all && seen && should);
    barrier();
    if (strcmp(part, "rounds") == 0) {
        drawn(weft_team_world(job), argc > 2 ? (uint32_t)atoi(argv[2]) : 400);
        numbers_again(weft_team_world(job));
        renewed_otherwise(-1, 0, -1);
        renewed_otherwise(-1, -2, -1);
        renewed_otherwise(-2, -1, -2);
        renewed_otherwise(-1, -1, -2);
    } else if (part[0] && strcmp(part, "few")) {
        refused(part);
    } else {
        weft_team *evens, *reverse;
        unsigned turns = WEFT_SIMT_TSAN ? 3 : part[0] ? 6 : 16;
        OK(weft_team_split_strided(weft_team_world(job), 0, 2, (n_pes + 1) / 2, &evens));
        OK(weft_team_split_strided(weft_team_world(job), n_pes - 1, -1, n_pes, &reverse));
        everything(weft_team_world(job), turns);
        everything(reverse, turns);
        if (evens && !WEFT_SIMT_TSAN) /* takes minutes over more teams */
            everything(evens, turns);
        drawn(reverse, 60);
    }
    barrier();
    device_end();
    free(mine);
    free(all);
    free(seen);
    free(should);
    return 0;
}
#endif
