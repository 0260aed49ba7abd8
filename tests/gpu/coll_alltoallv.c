/* SPDX-License-Identifier: Apache-2.0 */
/* weft_alltoallv() called by the host, with sizes, offsets and sources in memory of every kind:
 *   coll_alltoallv            every kind, at all members and at one; the same bytes as on a stream
 *   coll_alltoallv no_room    PE 0 sends more than the last PE accepts
 *   coll_alltoallv no_place   the last PE's offset for PE 0 is past the end of its destination
 *   coll_alltoallv dies       the last PE is killed before the others call
 *   coll_alltoallv dies late  the same after the PEs have agreed to use the kernel; WEFT_WAIT_LIMIT
 *                             is long */
#include "coll_job.h"

#include "ops/coll/kernel.h"

#include <signal.h>

/* GPU memory: symmetric, and local to this GPU. Host memory: pageable, pinned and symmetric. */
enum kind { HEAP, OWN, PLAIN, PINNED, SYMMETRIC, KINDS };
enum { SEND_BYTES, SEND_AT, RECV_BYTES, RECV_AT, ARRAYS };
enum { ARRAY_ROOM = 1024, SRC_ROOM = 4 << 20 };

static char *memory[KINDS]; /* ARRAYS arrays, then a source */
static char *host_dst;      /* symmetric */

/* The memory that one member passes. */
struct way {
    enum kind src, array[ARRAYS];
};

static bool on_gpu(enum kind kind)
{
    return kind == HEAP || kind == OWN;
}

static void set_up(void)
{
    void *at = NULL;
    begin();
    memory[HEAP] = heap_src;
    memory[OWN] = own_src;
    memory[PLAIN] = malloc(SRC_ROOM);
    CHECK(memory[PLAIN]);
    CHECK(
        !driver.MemHostAlloc(&at, SRC_ROOM, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    memory[PINNED] = at;
    OK(weft_alloc(job, WEFT_HOST, SRC_ROOM, 0, 0, &at));
    memory[SYMMETRIC] = at;
    OK(weft_alloc(job, WEFT_HOST, SRC_ROOM, 0, 0, &at));
    host_dst = at;
}

static void tear_down(void)
{
    OK(weft_barrier(weft_team_world(job)));
    free(memory[PLAIN]);
    CHECK(!driver.MemFreeHost(memory[PINNED]));
    CHECK(!driver.StreamDestroy(stream));
    OK(weft_finalize(job));
    free(mine);
    free(wanted);
    free(seen);
}

static void put(enum kind kind, char *to, const void *from, size_t bytes)
{
    if (on_gpu(kind))
        to_gpu(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

static uint64_t *array_at(enum kind kind, int which)
{
    return (uint64_t *)(memory[kind] + ARRAY_ROOM * which);
}

static char *source(enum kind kind)
{
    return memory[kind] + ARRAY_ROOM * ARRAYS;
}

/* ------------------------------------------------------------------------------------- contents */

/* Bytes from PE to PE: sizes of all kinds, including 0. `most` 0: always 0. */
static size_t pair_size(int from, int to, size_t most)
{
    uint64_t h = ref_hash((uint64_t)from, (uint64_t)to, most);
    return h % 5 == 0 || !most ? 0 : (size_t)(h >> 8) % most + 1;
}

static size_t place_in_source(int from, const struct members *t, int member, size_t most)
{
    size_t at = 0;
    for (int j = 0; j < member; j++)
        at += pair_size(from, t->pes[j], most) + (size_t)j % 3; /* gaps between blocks */
    return at;
}

struct sizes {
    uint64_t array[ARRAYS][MOST_PES];
    size_t sent, room;
};

/* Fills `mine`, and `wanted` for a destination filled with 0xa5. */
static struct sizes make(const struct members *t, size_t most, uint64_t salt)
{
    struct sizes s = {.sent = place_in_source(me, t, t->n, most)};
    for (int k = 0; k < t->n; k++) {
        s.array[SEND_BYTES][k] = pair_size(me, t->pes[k], most);
        s.array[SEND_AT][k] = place_in_source(me, t, k, most);
        s.array[RECV_BYTES][k] =
            pair_size(t->pes[k], me, most) + (size_t)k % 2; /* sometimes more room than needed */
        s.array[RECV_AT][k] = s.room;
        s.room += s.array[RECV_BYTES][k] + 5;
    }
    CHECK(s.sent <= SRC_ROOM - ARRAY_ROOM * ARRAYS && s.room <= SRC_ROOM - 2 * GUARD);
    ref_fill(mine, me, 0, s.sent, salt);
    memset(wanted, 0xa5, s.room);
    for (int k = 0; k < t->n; k++)
        ref_fill(wanted + s.array[RECV_AT][k], t->pes[k],
                 place_in_source(t->pes[k], t, t->me, most), pair_size(t->pes[k], me, most), salt);
    return s;
}

static char *destination(enum kind kind)
{
    return (kind == HEAP ? heap_dst : host_dst) + GUARD;
}

static void clear(enum kind kind, size_t room)
{
    memset(seen, 0xa5, room + 2 * GUARD);
    put(kind, destination(kind) - GUARD, seen, room + 2 * GUARD);
}

/* Compares the destination and its guards with `wanted`. */
static void same(const char *what, enum kind kind, size_t room)
{
    const char *at = destination(kind) - GUARD;
    if (kind == HEAP)
        CHECK(!driver.MemcpyDtoH(seen, (uintptr_t)at, room + 2 * GUARD));
    else
        memcpy(seen, at, room + 2 * GUARD);
    for (size_t i = 0; i < room + 2 * GUARD; i++) {
        bool outside = i < GUARD || i >= GUARD + room;
        if (seen[i] != (outside ? 0xa5 : wanted[i - GUARD])) {
            fprintf(stderr, "PE %d: %s: byte %zd of %zu is wrong\n", me, what, (ssize_t)i - GUARD,
                    room);
            exit(1);
        }
    }
}

static weft_status call(const struct members *t, const struct way *way, enum kind dst,
                        const struct sizes *s)
{
    for (int a = 0; a < ARRAYS; a++)
        put(way->array[a], (char *)array_at(way->array[a], a), s->array[a], sizeof s->array[a]);
    put(way->src, source(way->src), mine, s->sent);
    clear(dst, s->room);
    OK(weft_sync(t->team)); /* every destination is ready */
    return weft_alltoallv(
        t->team, destination(dst), s->room, array_at(way->array[RECV_BYTES], RECV_BYTES),
        array_at(way->array[RECV_AT], RECV_AT), source(way->src),
        array_at(way->array[SEND_BYTES], SEND_BYTES), array_at(way->array[SEND_AT], SEND_AT));
}

/* ----------------------------------------------------------------------------------- every kind */

/* Number of rounds that kernels of the team have begun on this GPU. */
static uint64_t rounds(const struct members *t)
{
    uint64_t number = 0;
    OK(gpu_coll_read_number(job->gpu, t->team->slot, &number));
    return number;
}

enum taken { BY_PUTS, BY_KERNEL, BY_EITHER };

/* wanted_way: the algorithm that the call must use, if kernels serve the team. */
static void exchange(const struct members *t, const struct way *way, enum kind dst, size_t most,
                     enum taken wanted_way)
{
    bool serves = coll_kernel_serves(t->team);
    if (!t->team->coll) /* the first use of the kernels sets the round number */
        OK(coll_kernel_force(t->team, COLL_ALGO_AUTO, 64));
    uint64_t before = serves ? rounds(t) : 0;
    struct sizes s = make(t, most, 900 + most);
    OK(call(t, way, dst, &s));
    same("by the host", dst, s.room);
    /* A team of one member has no rounds. */
    if (!serves || t->n == 1 || wanted_way == BY_EITHER)
        return;
    uint64_t after = rounds(t), each = job->checking ? 2 : 1;
    if (after - before != (wanted_way == BY_KERNEL ? each : 0)) {
        fprintf(stderr, "PE %d: %llu rounds of kernels, src in memory %d, dst in %d\n", me,
                (unsigned long long)(after - before), (int)way->src, (int)dst);
        exit(1);
    }
}

static struct way all_in(enum kind src, enum kind arrays)
{
    return (struct way){src, {arrays, arrays, arrays, arrays}};
}

static void every_kind(const struct members *t)
{
    for (int src = 0; src < KINDS; src++)
        for (int arrays = 0; arrays < KINDS; arrays++) {
            struct way way = all_in((enum kind)src, (enum kind)arrays);
            enum taken taken = src == PLAIN       ? BY_PUTS
                               : src == SYMMETRIC ? BY_EITHER /* it may not be pinned */
                                                  : BY_KERNEL;
            exchange(t, &way, HEAP, 5000, taken);
            exchange(t, &way, HEAP, 40, on_gpu(arrays) ? taken : BY_EITHER);
            exchange(t, &way, SYMMETRIC, 3000, BY_PUTS);
        }
    for (int first = 0; first < KINDS; first++) { /* each array in another kind of memory */
        struct way way = {HEAP,
                          {first, (first + 1) % KINDS, (first + 2) % KINDS, (first + 3) % KINDS}};
        exchange(t, &way, HEAP, 7000, BY_KERNEL);
    }
}

/* One member, in each team another one, uses other memory than the rest. */
static void one_differs(const struct members *t)
{
    for (int kind = 0; kind < KINDS; kind++) {
        bool other = t->me == kind % t->n;
        struct way way = other ? all_in(HEAP, (enum kind)kind) : all_in(HEAP, OWN);
        exchange(t, &way, HEAP, 6000, BY_KERNEL);
        way = other ? all_in((enum kind)kind, PLAIN) : all_in(OWN, PLAIN);
        exchange(t, &way, HEAP, 6100,
                 kind == PLAIN       ? BY_PUTS
                 : kind == SYMMETRIC ? BY_EITHER
                                     : BY_KERNEL);
        way = other ? all_in(HEAP, (enum kind)kind) : all_in(HEAP, PLAIN);
        exchange(t, &way, HEAP, 30, t->n > 1 && on_gpu((enum kind)kind) ? BY_KERNEL : BY_EITHER);
    }
}

static void as_on_stream(const struct members *t)
{
    static const size_t sizes[] = {0, 3, 5000, 150000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct way way = all_in(HEAP, HEAP);
        exchange(t, &way, HEAP, sizes[i], BY_KERNEL);
        struct sizes s = make(t, sizes[i], 900 + sizes[i]);
        clear(HEAP, s.room);
        OK(weft_sync(t->team));
        OK(weft_alltoallv_on_stream(t->team, destination(HEAP), s.room, array_at(HEAP, RECV_BYTES),
                                    array_at(HEAP, RECV_AT), source(HEAP),
                                    array_at(HEAP, SEND_BYTES), array_at(HEAP, SEND_AT), stream));
        synchronize();
        same("on a stream", HEAP, s.room);
    }
}

static void nothing_at_all(const struct members *t)
{
    uint64_t none[MOST_PES] = {0};
    OK(weft_alltoallv(t->team, destination(HEAP), 0, none, none, source(HEAP), none, none));
}

/* ------------------------------------------------------------------------------------ refused */

/* The PE whose job has failed exits only when the others have all their data, which each reports by
 * a word at PE 0. */
static void when_all_have(void)
{
    uint64_t *told = (uint64_t *)memory[SYMMETRIC], yes = 1;
    if (me != 0)
        OK(weft_put(weft_default_ctx(job), told + me, &yes, sizeof yes, 0));
    for (int i = 1; i < n && me == 0; i++)
        while (!__atomic_load_n(told + i, __ATOMIC_ACQUIRE))
            usleep(1000);
}

/* One member has too little room for PE 0's block, or its offset is past the end: PE 0 stores
 * nothing there, gets the error, and its job fails. All other blocks arrive. */
static int refused(bool no_place)
{
    const struct members *t = &teams[0];
    struct way way = all_in(HEAP, me % 2 ? PLAIN : OWN);
    enum { BYTES = 5000 };
    struct sizes s = {.sent = (size_t)t->n * BYTES, .room = (size_t)t->n * BYTES};
    memset(memory[SYMMETRIC], 0, MOST_PES * sizeof(uint64_t));
    exchange(t, &way, HEAP, 5000, BY_EITHER);
    for (int k = 0; k < t->n; k++) {
        s.array[SEND_BYTES][k] = s.array[RECV_BYTES][k] = BYTES;
        s.array[SEND_AT][k] = s.array[RECV_AT][k] = (uint64_t)k * BYTES;
    }
    memset(mine, 1 + me, s.sent);
    for (int k = 0; k < t->n; k++)
        memset(wanted + (size_t)k * BYTES, 1 + t->pes[k], BYTES);
    if (me == n - 1) {
        memset(wanted, 0xa5, BYTES);
        if (no_place)
            s.array[RECV_AT][0] = s.room - BYTES + 1;
        else
            s.array[RECV_BYTES][0] = BYTES - 1;
    }
    weft_status status = call(t, &way, HEAP, &s);
    CHECK(status ==
          (me == 0 ? WEFT_ERR_RANGE : WEFT_OK)); /* the other members get all blocks that fit */
    same("what fits", HEAP, s.room);
    when_all_have();
    for (int i = 0; i < 1000 && !(status = job_check_failed(job)); i++)
        usleep(20000);
    printf("PE %d: %s: %s\n", me, weft_status_name(status), weft_last_error());
    fflush(stdout);
    usleep(500000); /* the other PEs still print */
    _exit(0);
}

/* ------------------------------------------------------------------------------- a member dies */

/* late: the others wait in the kernel, which this PE has agreed to use. */
static int dies(bool late)
{
    const struct members *t = &teams[0];
    struct way way = all_in(HEAP, OWN);
    int32_t all[MOST_PES], kernel = 2;
    exchange(t, &way, HEAP, 5000, BY_KERNEL);
    struct sizes s = make(t, 5000, 1);
    OK(weft_barrier(t->team));
    if (me == n - 1) {
        OK(weft_sync(t->team));
        if (late)
            OK(coll_exchange(t->team, BOX_OP_ALLTOALLV, &kernel, all, sizeof kernel));
        usleep(300000);
        raise(SIGKILL);
    }
    weft_status status = call(t, &way, HEAP, &s);
    for (int i = 0; i < 1000 && !status; i++) {
        usleep(20000);
        status = job_check_failed(job);
    }
    printf("PE %d: %s: %s\n", me, weft_status_name(status), weft_last_error());
    fflush(stdout);
    _exit(0);
}

int main(int argc, char **argv)
{
    set_up();
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "dies") == 0)
        return dies(argc > 2);
    if (*what)
        return refused(strcmp(what, "no_place") == 0);
    for (int i = 0; i < n_teams; i++) {
        every_kind(&teams[i]);
        one_differs(&teams[i]);
        if (coll_kernel_serves(teams[i].team))
            as_on_stream(&teams[i]);
        nothing_at_all(&teams[i]);
    }
    tear_down();
    return 0;
}
