/* SPDX-License-Identifier: Apache-2.0 */
/* Block collectives and reductions over nodes of all shapes. `placed PLACEMENT`: digit i is the
 * node of PE i, so that the PEs of a node need not be consecutive; "-": the placement stays. Sizes
 * are odd, zero, and on both sides of every change of algorithm; there are strides and reversed
 * teams. Bytes between and behind the blocks stay unchanged. */
#include "job.h"

#include <unistd.h>

enum { ROOM = 3 << 20, GUARD = 0xe7 };

/* The node of a PE is its number divided by WEFT_TEST_NODE_PES; here each PE sets its own value. */
static void place_me(const char *placement)
{
    const char *pe_text = getenv("WEFT_PE");
    CHECK(pe_text != NULL);
    int pe = atoi(pe_text), node = placement[pe] - '0', part = 1;
    while (part <= pe + 1 && pe / part != node)
        part++;
    char text[16];
    CHECK(pe / part == node);
    snprintf(text, sizeof text, "%d", part);
    CHECK(setenv("WEFT_TEST_NODE_PES", text, 1) == 0);
}

static unsigned char value(int from, int to, size_t i, int round)
{
    return (unsigned char)((unsigned)from * 101u + (unsigned)to * 29u + (unsigned)i * 7u +
                           (unsigned)(i >> 8) * 13u + (unsigned)round);
}

static void fill(unsigned char *at, size_t bytes, int from, int to, int round)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = value(from, to, i, round);
}

static void holds(const unsigned char *at, size_t bytes, int from, int to, int round)
{
    for (size_t i = 0; i < bytes; i++)
        CHECK(at[i] == value(from, to, i, round));
}

static void guarded(const unsigned char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        CHECK(at[i] == GUARD);
}

static int round_of;

static void begin(weft_team *team, unsigned char *dst, size_t bytes)
{
    memset(dst, GUARD, bytes + 64);
    round_of++;
    OK(weft_sync(team));
    if (weft_team_my_pe(team) == round_of * 3 % weft_team_n_pes(team)) /* this member is late */
        usleep(500);
}

static void alltoall(weft_team *team, unsigned char *dst, unsigned char *src, size_t bytes)
{
    int n = weft_team_n_pes(team), me = weft_team_my_pe(team);
    begin(team, dst, (size_t)n * bytes);
    for (int to = 0; to < n; to++)
        fill(src + (size_t)to * bytes, bytes, me, to, round_of);
    OK(weft_alltoall(team, dst, src, bytes));
    memset(src, 0, (size_t)n * bytes); /* src may be overwritten */
    for (int from = 0; from < n; from++)
        holds(dst + (size_t)from * bytes, bytes, from, me, round_of);
    guarded(dst + (size_t)n * bytes, 64);
}

static void alltoalls(weft_team *team, unsigned char *dst, unsigned char *src, size_t element,
                      size_t count, size_t dst_stride, size_t src_stride)
{
    int n = weft_team_n_pes(team), me = weft_team_my_pe(team);
    begin(team, dst, (size_t)n * count * element * dst_stride);
    for (int to = 0; to < n; to++)
        for (size_t i = 0; i < count; i++)
            fill(src + ((size_t)to * count + i) * src_stride * element, element, me, to,
                 round_of + (int)i);
    OK(weft_alltoalls(team, dst, src, (ptrdiff_t)dst_stride, (ptrdiff_t)src_stride, element,
                      count));
    memset(src, 0, (size_t)n * count * element * src_stride);
    for (int from = 0; from < n; from++)
        for (size_t i = 0; i < count; i++) {
            unsigned char *at = dst + ((size_t)from * count + i) * dst_stride * element;
            holds(at, element, from, me, round_of + (int)i);
            guarded(at + element, (dst_stride - 1) * element);
        }
}

static void allgather(weft_team *team, unsigned char *dst, unsigned char *src, size_t bytes)
{
    int n = weft_team_n_pes(team), me = weft_team_my_pe(team);
    begin(team, dst, (size_t)n * bytes);
    unsigned char *from_here = round_of % 2 ? dst + (size_t)me * bytes : src;
    fill(from_here, bytes, me, 0, round_of);
    OK(weft_sync(team));
    OK(weft_allgather(team, dst, from_here, bytes));
    for (int from = 0; from < n; from++)
        holds(dst + (size_t)from * bytes, bytes, from, 0, round_of);
    guarded(dst + (size_t)n * bytes, 64);
    OK(weft_sync(team));
}

/* Each member has its own size; one has 0 bytes. */
static size_t size_of_block(int member, size_t bytes)
{
    return member == 1 ? 0 : bytes / (size_t)(member % 3 + 1) + (size_t)member * 3;
}

static void collect(weft_team *team, unsigned char *dst, unsigned char *src, size_t bytes)
{
    int n = weft_team_n_pes(team), me = weft_team_my_pe(team);
    size_t total = 0, mine = size_of_block(me, bytes);
    for (int from = 0; from < n; from++)
        total += size_of_block(from, bytes);
    begin(team, dst, total);
    fill(src, mine, me, 0, round_of);
    OK(weft_collect(team, dst, mine ? src : NULL, mine));
    memset(src, 0, mine);
    size_t at = 0;
    for (int from = 0; from < n; from++) {
        holds(dst + at, size_of_block(from, bytes), from, 0, round_of);
        at += size_of_block(from, bytes);
    }
    guarded(dst + at, 64);
}

static void broadcast(weft_team *team, unsigned char *dst, unsigned char *src, size_t bytes)
{
    int root = round_of % weft_team_n_pes(team);
    begin(team, dst, bytes);
    fill(src, bytes, root, 0, round_of);
    OK(weft_broadcast(team, dst, src, bytes, root));
    holds(dst, bytes, root, 0, round_of);
    guarded(dst + bytes, 64);
}

/* Large terms that cancel: another order gives a sum with other bits. */
static double term(int member, size_t i)
{
    size_t kind = ((size_t)member * 7 + i) % 5;
    return kind == 0 ? 1e17 : kind == 1 ? -1e17 : 0.37 * (member + 1) + (double)(i % 1009);
}

static void reduce_double(weft_team *team, double *dst, double *src, size_t count)
{
    int n = weft_team_n_pes(team), me = weft_team_my_pe(team);
    begin(team, (unsigned char *)dst, count * sizeof *dst);
    double *from = round_of % 2 ? dst : src;
    for (size_t i = 0; i < count; i++)
        from[i] = term(me, i);
    OK(weft_allreduce(team, dst, from, count, WEFT_DOUBLE, WEFT_SUM));
    memset(src, 0, count * sizeof *src);
    for (size_t i = 0; i < count; i++) {
        double sum = term(0, i);
        for (int member = 1; member < n; member++)
            sum += term(member, i);
        CHECK(memcmp(&dst[i], &sum, sizeof sum) == 0);
    }
    guarded((unsigned char *)(dst + count), 64);
}

static void reduce_word(weft_team *team, uint16_t *dst, uint16_t *src, size_t count)
{
    int n = weft_team_n_pes(team), me = weft_team_my_pe(team);
    begin(team, (unsigned char *)dst, count * sizeof *dst);
    for (size_t i = 0; i < count; i++)
        src[i] = (uint16_t)((unsigned)(me + 3) * (unsigned)(i * 2 + 1));
    OK(weft_allreduce(team, dst, src, count, WEFT_UINT16, WEFT_PROD));
    for (size_t i = 0; i < count; i++) {
        uint16_t product = 1;
        for (int member = 0; member < n; member++)
            product = (uint16_t)(product * ((unsigned)(member + 3) * (unsigned)(i * 2 + 1)));
        CHECK(dst[i] == product);
    }
    guarded((unsigned char *)(dst + count), 64);
}

static void all(weft_team *team, void *dst, void *src)
{
    static const size_t sizes[] = {0, 1, 7, 56, 57, 1000, 4096, 4097, 30001, 262147, 655361};
    size_t n = (size_t)weft_team_n_pes(team);
    round_of = 0; /* equal at all members */
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        size_t bytes = sizes[s];
        if (bytes * n <= ROOM) {
            alltoall(team, dst, src, bytes);
            allgather(team, dst, src, bytes);
        }
        collect(team, dst, src, bytes);
        broadcast(team, dst, src, bytes);
        reduce_double(team, dst, src, bytes / 8);
        reduce_word(team, dst, src, bytes / 2);
    }
    reduce_double(team, dst, src, 170003); /* several staging buffers of data from other nodes */
    alltoalls(team, dst, src, 4, 5, 3, 2);
    alltoalls(team, dst, src, 3, 7, 1, 1);
    alltoalls(team, dst, src, 3, 1, 4, 2);
    alltoalls(team, dst, src, 16, 300, 1, 3);
    alltoalls(team, dst, src, 5000, 2, 2, 1);
    alltoalls(team, dst, src, 5000, 2, 1, 1);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    int told = strcmp(argv[1], "-") != 0;
    if (told)
        place_me(argv[1]);
    weft_job *job;
    weft_team *other = NULL;
    OK(weft_init(&job, NULL));
    int n = weft_n_pes(job);
    CHECK(!told || n == (int)strlen(argv[1]));
    weft_team *world = weft_team_world(job);
    void *dst = alloc(job, 2 * ROOM), *src = alloc(job, 2 * ROOM);
    all(world, dst, src);
    OK(weft_barrier(world));
    /* without PE 0, in reverse order */
    OK(weft_team_split_strided(world, n - 1, -1, n - 1, &other));
    if (other) {
        all(other, dst, src);
        OK(weft_team_destroy(other));
    }
    OK(weft_barrier(world));
    OK(weft_team_split_strided(world, 0, 2, (n + 1) / 2, &other));
    if (other) {
        all(other, dst, src);
        OK(weft_team_destroy(other));
    }
    OK(weft_free(job, src));
    OK(weft_free(job, dst));
    OK(weft_finalize(job));
    return 0;
}
