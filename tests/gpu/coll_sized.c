/* SPDX-License-Identifier: Apache-2.0 */
/* Rooted collectives on streams, and collectives whose sizes only the GPUs know:
 *   coll_sized              gather, scatter, reduce, collect and alltoallv, over several teams
 *   coll_sized no_room      an alltoallv that sends more than its receiver accepts
 *   coll_sized no_room own  the same into memory local to the receiver's GPU
 *   coll_sized no_end       a collect that runs past the end of such memory at one member
 *   coll_sized dies NAME    the last PE is killed while PE 0 waits in it; WEFT_WAIT_LIMIT is
 *                           long */
#include "coll_job.h"
#include "ops/coll/kernel.h"

#include <signal.h>

static void clear(char *dst, size_t bytes)
{
    memset(seen, 0xa5, bytes + 2 * GUARD);
    to_gpu(dst - GUARD, seen, bytes + 2 * GUARD);
}

/* Compares dst and its guards with `wanted`. */
static void same(const char *what, const char *dst, size_t bytes, size_t count)
{
    CHECK(!driver.MemcpyDtoH(seen, (uintptr_t)(dst - GUARD), bytes + 2 * GUARD));
    for (size_t i = 0; i < bytes + 2 * GUARD; i++) {
        bool outside = i < GUARD || i >= GUARD + bytes;
        if (seen[i] != (outside ? 0xa5 : wanted[i - GUARD])) {
            fprintf(stderr, "PE %d: %s of %zu: byte %zd is wrong\n", me, what, count,
                    (ssize_t)i - GUARD);
            exit(1);
        }
    }
}

static void fill_source(size_t bytes, uint64_t salt)
{
    ref_fill(mine, me, 0, bytes, salt);
    to_gpu(heap_src + 256, mine, bytes);
}

static void rooted(const struct members *t)
{
    static const size_t sizes[] = {1, 9, 16, 1000, 20011, 300000};
    char *dst = heap_dst + 256, *src = heap_src + 256;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t bytes = sizes[s], all = bytes * (size_t)t->n;
        int root = (int)s % t->n;
        uint64_t salt = 9000 + s;
        bool is_root = t->me == root;
        fill_source(all, salt);
        clear(dst, all);
        memset(wanted, 0xa5, all);
        for (int k = 0; k < t->n && is_root; k++)
            ref_fill(wanted + (size_t)k * bytes, t->pes[k], 0, bytes, salt);
        OK(weft_sync(t->team));
        OK(weft_gather_on_stream(t->team, dst, src, bytes, root, stream));
        synchronize();
        same("gather", dst, all, bytes);
        clear(dst, bytes);
        ref_fill(wanted, t->pes[root], (size_t)t->me * bytes, bytes, salt);
        OK(weft_sync(t->team));
        OK(weft_scatter_on_stream(t->team, dst, src, bytes, root, stream));
        synchronize();
        same("scatter", dst, bytes, bytes);
        size_t count = bytes / 2 + 1;
        weft_op op = s % 3 == 0 ? WEFT_SUM : s % 3 == 1 ? WEFT_AVG : REF_SCALED;
        float factor = (float)ref_factor(salt);
        for (size_t i = 0; i < count; i++) {
            ref_element(mine + 2 * i, WEFT_BFLOAT16, me, i, salt);
            ref_reduced(wanted + 2 * i, WEFT_BFLOAT16, op, t->pes, t->n, i, salt);
        }
        if (!is_root)
            memset(wanted, 0xa5, 2 * count);
        to_gpu(src, mine, 2 * count);
        clear(dst, 2 * count);
        OK(weft_sync(t->team));
        if (op == REF_SCALED)
            OK(weft_reduce_scaled_on_stream(t->team, dst, src, count, WEFT_BFLOAT16, &factor, root,
                                            stream));
        else
            OK(weft_reduce_on_stream(t->team, dst, src, count, WEFT_BFLOAT16, op, root, stream));
        synchronize();
        same("reduce", dst, 2 * count, count);
    }
}

static size_t own_size(int pe, size_t most)
{
    return pe % 3 == 2 ? 0 : (size_t)ref_hash((uint64_t)pe, most, 5) % most + (pe % 3);
}

static bool own; /* destinations are local to this GPU */

static char *destination(void)
{
    return (own ? own_dst : heap_dst) + 256;
}

static uint64_t rounds(const struct members *t)
{
    uint64_t number = 0;
    OK(gpu_coll_read_number(job->gpu, t->team->slot, &number));
    return number;
}

/* The same bytes, called by the host. The kernel serves the call if all sources are in the heap and
 * do not overlap the destination; puts serve it if one member's source is elsewhere or in place. A
 * member that sends nothing passes no source. */
static void collect_by_host(const struct members *t, size_t most, size_t all, size_t own_bytes)
{
    char *src = heap_src + 256, *to = heap_dst + 256;
    bool serves = coll_kernel_serves(t->team) && t->n > 1;
    uint64_t before = serves ? rounds(t) : 0, each = job->checking ? 2 : 1;
    clear(to, all);
    OK(weft_sync(t->team));
    OK(weft_collect(t->team, to, own_bytes ? src : NULL, own_bytes));
    same("collect by the host", to, all, most);
    size_t largest = 0;
    for (int k = 0; k < t->n; k++)
        largest = own_size(t->pes[k], most) > largest ? own_size(t->pes[k], most) : largest;
    if (serves && largest > 1024) /* puts serve small ones where CPUs can access GPU memory */
        CHECK(rounds(t) - before == each);
    to_gpu(own_src, mine, own_bytes);
    before = serves ? rounds(t) : 0;
    clear(to, all);
    OK(weft_sync(t->team));
    OK(weft_collect(t->team, to, t->me == 0 ? own_src : src, own_bytes));
    same("collect by the host, of other memory", to, all, most);
    CHECK(!serves || own_size(t->pes[0], most) == 0 || rounds(t) == before);
    size_t at = 0;
    for (int k = 0; k < t->me; k++)
        at += own_size(t->pes[k], most);
    before = serves ? rounds(t) : 0;
    clear(to, all);
    to_gpu(to + at, mine, own_bytes);
    OK(weft_sync(t->team));
    OK(weft_collect(t->team, to, to + at, own_bytes));
    same("collect by the host, in place", to, all, most);
    CHECK(!serves || !all || rounds(t) == before);
}

static void collect(const struct members *t, size_t most)
{
    char *dst = destination() + (own ? most % 7 : 0), *src = heap_src + 256;
    size_t all = 0, own = own_size(me, most);
    uint64_t salt = 700 + most;
    fill_source(own, salt);
    for (int k = 0; k < t->n; k++) {
        size_t bytes = own_size(t->pes[k], most);
        ref_fill(wanted + all, t->pes[k], 0, bytes, salt);
        all += bytes;
    }
    clear(dst, all);
    OK(weft_sync(t->team));
    OK(weft_collect_on_stream(t->team, dst, src, own, stream));
    synchronize();
    same("collect", dst, all, most);
    collect_by_host(t, most, all, own);
}

/* Bytes from PE to PE: sizes of all kinds, including 0. */
static size_t pair_size(int from, int to, size_t most)
{
    uint64_t h = ref_hash((uint64_t)from, (uint64_t)to, most);
    return h % 5 == 0 ? 0 : (size_t)(h >> 8) % most;
}

enum { SEND_BYTES, SEND_AT, RECV_BYTES, RECV_AT, ARRAYS };

/* narrow: the member that has less room for member 0's block than member 0 sends; -1: none. */
static void alltoallv(const struct members *t, size_t most, int narrow)
{
    bool too_much = t->me == narrow;
    char *dst = destination(), *src = heap_src + 256;
    uint64_t arrays[ARRAYS][MOST_PES], salt = 800 + most;
    size_t sent = 0, room = 0;
    for (int k = 0; k < t->n; k++) {
        arrays[SEND_BYTES][k] = pair_size(me, t->pes[k], most);
        arrays[SEND_AT][k] = sent;
        sent += arrays[SEND_BYTES][k] + (size_t)k % 3; /* gaps between blocks */
        arrays[RECV_BYTES][k] = pair_size(t->pes[k], me, most);
        arrays[RECV_AT][k] = room;
        room += arrays[RECV_BYTES][k] + 5;
    }
    fill_source(sent, salt);
    memset(wanted, 0xa5, room);
    for (int k = 0; k < t->n; k++) {
        size_t begins = 0;
        for (int j = 0; j < t->me; j++)
            begins += pair_size(t->pes[k], t->pes[j], most) + (size_t)j % 3;
        if (!too_much || k)
            ref_fill(wanted + arrays[RECV_AT][k], t->pes[k], begins, arrays[RECV_BYTES][k], salt);
    }
    if (too_much)
        arrays[RECV_BYTES][0] = arrays[RECV_BYTES][0] ? arrays[RECV_BYTES][0] - 1 : 0;
    for (int a = 0; a < ARRAYS; a++)
        to_gpu(own_src + 1024 * a, arrays[a], sizeof arrays[a]);
    clear(dst, room);
    OK(weft_sync(t->team));
    OK(weft_alltoallv_on_stream(t->team, dst, room, (uint64_t *)(own_src + 1024 * RECV_BYTES),
                                (uint64_t *)(own_src + 1024 * RECV_AT), src,
                                (uint64_t *)(own_src + 1024 * SEND_BYTES),
                                (uint64_t *)(own_src + 1024 * SEND_AT), stream));
    if (narrow >= 0) {
        CHECK(!driver.StreamSynchronize(stream));
        if (too_much) /* for the other members the job has failed, perhaps before all blocks arrived
                       */
            same("alltoallv without room", dst, room, most);
        return;
    }
    synchronize();
    same("alltoallv", dst, room, most);
}

static void sized(const struct members *t)
{
    static const size_t sizes[] = {3, 40, 5000, 120000, 1500000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        if (!own && s == 4) /* the staged algorithm takes several steps */
            continue;
        collect(t, sizes[s]);
        alltoallv(t, sizes[s], -1);
    }
}

/* Staged reductions between them share their flags, and an allgather by LL packets shares their
 * memory. */
static void sized_own(const struct members *t)
{
    char *src = heap_src + 256, *dst = heap_dst + 256;
    own = job_gpu_team_direct(t->team);
    sized(t);
    ref_fill(wanted, t->pes[0], 0, 100, 31);
    fill_source(100, 31);
    clear(dst, 100);
    OK(weft_sync(t->team));
    OK(weft_broadcast_on_stream(t->team, dst, src, 100, 0, stream));
    synchronize();
    same("broadcast", dst, 100, 100);
    sized(t);
    own = false;
}

/* One member has less room than member 0 sends: nothing is stored there, and the job fails with the
 * message. */
static int no_room(void)
{
    weft_status status;
    alltoallv(&teams[0], 5000, -1);
    OK(weft_barrier(weft_team_world(job)));
    alltoallv(&teams[0], 5000, n - 1);
    for (int i = 0; i < 1000 && !(status = job_check_failed(job)); i++)
        usleep(20000);
    printf("PE %d: %s: %s\n", me, weft_status_name(status), weft_last_error());
    fflush(stdout);
    usleep(500000); /* the other PEs still print */
    _exit(0);
}

/* Only one member's memory ends too early, and that member reports it. */
static int no_end(void)
{
    const size_t bytes = 3000;
    char *dst = own_dst + 256;
    weft_status status = WEFT_OK;
    own = true;
    collect(&teams[0], 5000);
    OK(weft_barrier(weft_team_world(job)));
    fill_source(bytes, 55);
    if (me == n - 1)
        dst = own_dst + ROOM - bytes * (size_t)n + 1;
    OK(weft_sync(weft_team_world(job)));
    OK(weft_collect_on_stream(weft_team_world(job), dst, heap_src + 256, bytes, stream));
    CHECK(!driver.StreamSynchronize(stream));
    for (int i = 0; i < 1000 && !(status = job_check_failed(job)); i++)
        usleep(20000);
    printf("PE %d: %s: %s\n", me, weft_status_name(status), weft_last_error());
    fflush(stdout);
    usleep(500000);
    _exit(0);
}

static int dies(const char *name)
{
    weft_team *world = weft_team_world(job);
    char *dst = heap_dst, *src = heap_src;
    uint64_t *zeros = (uint64_t *)own_src;
    const size_t bytes = 100000;
    memset(mine, 0, 4096);
    to_gpu(own_src, mine, 4096);
    bool meets = strcmp(name, "sync") == 0 || strcmp(name, "barrier") == 0;
    if (!meets) /* sets up the team */
        OK(weft_gather_on_stream(world, dst, src, 8, 0, stream));
    synchronize();
    OK(weft_barrier(world));
    if (me == n - 1) {
        usleep(300000); /* the others are in the collective */
        raise(SIGKILL);
    }
    if (strcmp(name, "gather") == 0)
        OK(weft_gather_on_stream(world, dst, src, bytes, 0, stream));
    else if (strcmp(name, "scatter") == 0)
        OK(weft_scatter_on_stream(world, dst, src, bytes, n - 1, stream));
    else if (strcmp(name, "allreduce") == 0)
        OK(weft_reduce_on_stream(world, dst, src, bytes / 4, WEFT_FLOAT, WEFT_SUM, 0, stream));
    else if (strcmp(name, "collect") == 0)
        OK(weft_collect_on_stream(world, dst, src, bytes, stream));
    else if (strcmp(name, "alltoallv") == 0)
        OK(weft_alltoallv_on_stream(world, dst, bytes, zeros, zeros, src, zeros, zeros, stream));
    else if (strcmp(name, "sync") == 0)
        OK(weft_sync_on_stream(world, stream));
    else if (strcmp(name, "barrier") == 0)
        OK(weft_barrier_on_stream(world, stream));
    else
        CHECK(!"an operation");
    CHECK(!driver.StreamSynchronize(stream));
    weft_status status = WEFT_OK;
    for (int i = 0; i < 1000 && !(status = job_check_failed(job)); i++)
        usleep(20000);
    printf("PE %d: %s: %s\n", me, weft_status_name(status), weft_last_error());
    fflush(stdout);
    _exit(0);
}

int main(int argc, char **argv)
{
    begin();
    own = argc > 2 && strcmp(argv[2], "own") == 0;
    if (argc > 1 && strcmp(argv[1], "no_room") == 0)
        return no_room();
    if (argc > 1 && strcmp(argv[1], "no_end") == 0)
        return no_end();
    if (argc > 2 && strcmp(argv[1], "dies") == 0)
        return dies(argv[2]);
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < n_teams; i++) {
            rooted(&teams[i]);
            sized(&teams[i]);
            sized_own(&teams[i]);
        }
    OK(weft_barrier(weft_team_world(job)));
    CHECK(!driver.StreamDestroy(stream));
    OK(weft_finalize(job));
    return 0;
}
