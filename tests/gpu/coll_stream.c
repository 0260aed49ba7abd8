/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives on streams and by the host on GPU memory, bit for bit against a serial reference:
 *   coll_stream                    every operation, type and operator; sizes and addresses around
 *                                  limits; several teams
 *   coll_stream host               the same by the host's functions
 *   coll_stream large              the same with some megabytes, over several nodes in chunks
 *   coll_stream mixed SEED         a random sequence over several teams with one PE late at random,
 *                                  each result checked
 *   coll_stream flood              a root that runs ahead of late receivers
 *   coll_stream renew              round numbers at which the LL flags repeat
 *   coll_stream graph              captured and replayed between other calls (on GPUs)
 *   coll_stream ready              destinations that a member's stream still fills when the others
 *                                  have called
 *   coll_stream crossed            two teams on two streams, in different order at different
 *                                  members
 *   coll_stream late_root [BYTES]  broadcasts that receivers forward in chunks, or slices
 *   coll_stream limits             weft_team_limit_sms(): obeyed, the minimum of all members,
 *                                  refused, between and after other calls
 *   coll_stream uneven [SMS]       members with different WEFT_COLL and WEFT_COLL_SMS (PE 1's)
 *                                  agree
 *   coll_stream expires            a member does not call: the others report which PE and which
 *                                  collective
 *   coll_stream misuse             invalid arguments and their messages
 *   coll_stream leave              after finalize no thread reads the state of the job's kernels
 *   coll_stream dies OPERATION     a member is killed before it calls: the others report it
 * WEFT_COLL and WEFT_COLL_SMS force algorithms and numbers of blocks. */
#include "coll_one.h"

#include "ops/coll/kernel.h"

#include <dlfcn.h>
#include <signal.h>

/* ------------------------------------------------------------------------- every operation */

static void moves(const struct members *t)
{
    static const size_t sizes[] = {1, 7, 8, 9, 16, 31, 100, 1000, 4097, 65552, 300007};
    struct call c = {.t = t};
    for (int what = 0; what < ALLREDUCE; what++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            c.what = (enum what)what;
            c.count = sizes[s];
            c.root = (int)s % t->n;
            bool large = sizes[s] > 5000;
            one(c, false, 0, false, "aligned");
            one(c, false, large ? 16 : s % 16, false, "shifted");
            if (what != ALLTOALL)
                one(c, false, s % 2, true, "in place");
            if (!by_host)
                one(c, true, s % 3, false, "memory of this GPU alone");
        }
}

static void reductions(const struct members *t)
{
    static const size_t counts[] = {1, 3, 8, 130, 1025, 17000, 90001};
    static const weft_type types[] = {WEFT_FLOAT,    WEFT_BFLOAT16, WEFT_DOUBLE,
                                      WEFT_FP8_E4M3, WEFT_INT8,     WEFT_FP8_E5M2};
    static const weft_op ops[] = {WEFT_SUM, WEFT_AVG, REF_SCALED, REF_WEIGHTED, WEFT_SUM};
    struct call c = {.t = t};
    for (int what = ALLREDUCE; what < WHATS; what++)
        for (size_t s = 0; s < sizeof counts / sizeof *counts; s++) {
            c.what = (enum what)what;
            c.count = counts[s];
            c.type = types[s % 6];
            c.op = ops[(s + (size_t)what) % 5];
            if (!ref_defined(c.type, c.op))
                c.op = WEFT_SUM;
            size_t element = ref_bytes(c.type);
            one(c, false, 0, false, "aligned");
            one(c, false, element, false, "shifted");
            one(c, false, 1 + s % 3, false, "between elements");
            one(c, false, s % 2 * element, true, "in place");
            if (by_host)
                continue;
            one(c, true, s % 3 * element, false, "memory of this GPU alone");
            one(c, true, s % 2 * element, true, "in place, memory of this GPU alone");
        }
}

static void every_type(const struct members *t)
{
    struct call c = {.t = t};
    for (int type = 0; type <= WEFT_FP8_E5M2; type++) {
        if (type == WEFT_LONG_DOUBLE || (type >= WEFT_TYPE_COUNT && type < WEFT_HALF))
            continue;
        for (int op = 0; op <= WEFT_OP_COUNT + 1; op++)
            for (int what = ALLREDUCE; what < WHATS; what++) {
                c.what = (enum what)what;
                c.type = (weft_type)type;
                c.op = op < WEFT_OP_COUNT   ? (weft_op)op
                       : op > WEFT_OP_COUNT ? REF_WEIGHTED
                                            : REF_SCALED;
                c.count = 37 + (size_t)op;
                if (ref_defined(c.type, c.op))
                    one(c, false, (size_t)(op % 2) * ref_bytes(c.type), false, "type");
            }
    }
}

static void whole(void)
{
    for (int i = 0; i < n_teams; i++) {
        moves(&teams[i]);
        reductions(&teams[i]);
    }
    every_type(&teams[0]);
    if (n > 1)
        return;
    struct call c = {.what = ALLREDUCE, .t = &teams[0], .count = 0}; /* count 0 */
    OK(ask(&c));
}

/* Bytes that are no multiple of a chunk, a slice or an element's pair; for allgather and alltoall
 * as many from each member. */
static void large(void)
{
    const struct members *t = &teams[0];
    struct call c = {.t = t};
    by_host = true;
    for (int what = 0; what < WHATS; what++) {
        c.what = (enum what)what;
        c.type = what % 2 ? WEFT_BFLOAT16 : WEFT_DOUBLE;
        c.op = WEFT_SUM;
        for (int root = 0; root<t->n; root += t->n> 1 ? t->n - 1 : 1) {
            const size_t bytes = 1700003 + (size_t)root * 1900;
            c.root = root;
            c.count = reduces(c.what) ? bytes / ref_bytes(c.type) : bytes;
            one(c, false, 0, false, "large");
        }
    }
}

static unsigned long seed;

static unsigned draw(unsigned most)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % most;
}

/* The same sequence at every PE. All PEs draw the calls of a team, and its members execute them. */
static void mixed(unsigned rounds)
{
    for (unsigned round = 0; round < rounds; round++) {
        struct call c = {.what = (enum what)draw(WHATS), .t = &teams[draw(3) % (unsigned)3]};
        unsigned which = (unsigned)(c.t - teams), late = draw(40), pe = draw((unsigned)n);
        static const weft_type types[] = {WEFT_FLOAT,          WEFT_HALF,    WEFT_INT16,
                                          WEFT_UINT64,         WEFT_DOUBLE,  WEFT_FP8_E4M3,
                                          WEFT_COMPLEX_DOUBLE, WEFT_BFLOAT16};
        static const weft_op ops[] = {WEFT_SUM, REF_WEIGHTED, WEFT_AVG, REF_SCALED};
        c.type = types[draw(8)];
        c.op = ops[draw(4)];
        c.op = ref_defined(c.type, c.op) ? c.op : WEFT_SUM;
        c.count = 1 + draw(1u << (3 + draw(16)));
        unsigned root = draw(1000), off = draw(4);
        if (late < 3 && (int)pe == me)
            usleep(1000 * late + 200);
        if (which >= (unsigned)n_teams || !c.t->team)
            continue;
        c.root = (int)root % c.t->n;
        one(c, off == 3 && !by_host, off * (reduces(c.what) ? ref_bytes(c.type) : 1),
            reduces(c.what) && root % 3 == 0, "mixed");
    }
}

/* The root queues broadcasts on its stream, each with its own destination, while receivers are
 * late: no slot may be overwritten before its data was taken. */
static void flood(void)
{
    enum { ROUNDS = 120, STEP = 4096 };
    static const size_t sizes[] = {8, 100, 3000};
    for (int root = 0; root < n; root++) {
        ref_fill(mine, me, 0, ROUNDS * STEP, 77);
        to_gpu(heap_src, mine, ROUNDS * STEP);
        memset(seen, 0xa5, ROUNDS * STEP);
        to_gpu(heap_dst, seen, ROUNDS * STEP);
        OK(weft_barrier(weft_team_world(job)));
        for (int round = 0; round < ROUNDS; round++) {
            size_t at = (size_t)round * STEP;
            if (me == (root + 1) % n && n > 1 && round % 40 == 7)
                usleep(5000);
            OK(weft_broadcast_on_stream(weft_team_world(job), heap_dst + at, heap_src + at,
                                        sizes[round % 3], root, stream));
        }
        synchronize();
        CHECK(!driver.MemcpyDtoH(seen, (uintptr_t)heap_dst, ROUNDS * STEP));
        for (size_t i = 0; i < ROUNDS * STEP; i++) {
            bool filled = i % STEP < sizes[i / STEP % 3];
            CHECK(seen[i] == (filled ? ref_byte(root, i, 77) : 0xa5));
        }
    }
}

/* Rounds begin just before the number at which LL flags repeat. Old packets must not be taken for
 * new ones: a large round writes each slot, which then stays unused until the same flag returns. */
static void renew(void)
{
    struct gpu *gpu = job->gpu;
    struct call large = {.what = ALLGATHER, .t = &teams[0], .count = 20000},
                small = {.what = ALLGATHER, .t = &teams[0], .count = 8};
    one(small, false, 0, false, "first");
    for (int turn = 0; turn < 2; turn++) {
        /* Rounds 2^30 * (turn + 1) - 3 ... + 9, with the large ones at the same positions. */
        OK(weft_barrier(weft_team_world(job)));
        OK(gpu_coll_set_number(gpu, weft_team_world(job)->slot,
                               ((uint64_t)turn + 1) * (1u << 30) - 4));
        OK(weft_barrier(weft_team_world(job)));
        for (int round = 0; round < 12; round++)
            one(round == 8 || round == 9 ? large : small, false, 0, false, "renewed");
    }
    for (int round = 0; round < 4; round++)
        one(large, false, 0, false, "after");
}

/* No member writes a destination before its own stream reaches the call: one member is late, and
 * its stream still fills its destination. */
static void ready(void)
{
    static const size_t counts[] = {3, 1500, 30000};
    for (int what = 0; what < WHATS; what++)
        for (int s = 0; s < 3; s++) {
            struct call c = {.what = (enum what)what,
                             .t = &teams[0],
                             .dst = heap_dst + 256,
                             .src = heap_src + 256,
                             .count = counts[s],
                             .type = WEFT_FLOAT,
                             .op = WEFT_SUM,
                             .root = s % n};
            uint64_t salt = 500 + (uint64_t)(3 * what + s);
            make_source(&c, salt);
            make_wanted(&c, salt);
            to_gpu((char *)c.src, mine, src_bytes(&c));
            OK(weft_barrier(weft_team_world(job)));
            if (me == (s + 1) % n)
                usleep(20000);
            CHECK(!driver.MemsetD8Async((uintptr_t)c.dst - GUARD, 0xa5, dst_bytes(&c) + 2 * GUARD,
                                        stream));
            OK(ask(&c));
            if (reduces(c.what)) /* a host callback must not load the kernels */
                CHECK(job->gpu->coll);
            synchronize();
            compare(&c, "while it is still filled");
        }
}

/* Every second PE calls the first team's collective after the second one's, on a stream that waits
 * for it. The other PEs call them in the other order, on independent streams. */
static void crossed(void)
{
    CUstream first = stream, second;
    CUevent event;
    CHECK(!driver.StreamCreate(&second, CU_STREAM_NON_BLOCKING));
    CHECK(!driver.EventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int round = 0; round < 6; round++) {
        struct call calls[2];
        for (int i = 0; i < 2; i++) {
            struct call c = {.what = ALLTOALL, .t = &teams[i], .count = 5000};
            size_t at = (size_t)(i + 1) * ROOM / 4;
            one(c, false, 0, false, "before"); /* sets up the team */
            c.dst = heap_dst + at;
            c.src = heap_src + at;
            calls[i] = c;
            make_source(&c, 900 + (uint64_t)(2 * round + i));
            to_gpu((char *)c.src, mine, src_bytes(&c));
            memset(seen, 0xa5, dst_bytes(&c) + 2 * GUARD);
            to_gpu(c.dst - GUARD, seen, dst_bytes(&c) + 2 * GUARD);
        }
        OK(weft_barrier(weft_team_world(job)));
        if (me % 2) {
            stream = second;
            OK(ask(&calls[1]));
            CHECK(!driver.EventRecord(event, second) && !driver.StreamWaitEvent(first, event, 0));
        }
        stream = first;
        OK(ask(&calls[0]));
        stream = second;
        if (me % 2 == 0)
            OK(ask(&calls[1]));
        synchronize();
        stream = first;
        synchronize();
        for (int i = 0; i < 2; i++) {
            make_wanted(&calls[i], 900 + (uint64_t)(2 * round + i));
            compare(&calls[i], "crossed");
        }
    }
    CHECK(!driver.EventDestroy(event) && !driver.StreamDestroy(second));
}

/* Large broadcasts from a late root: a member that forwards its slice waits for each chunk of
 * it. */
static void late_root(size_t bytes)
{
    CHECK(bytes <= ROOM - 1024);
    for (int root = 0; root < n; root++) {
        struct call c = {.what = BROADCAST, .t = &teams[0], .count = bytes, .root = root};
        for (int round = 0; round < (bytes > 1000000 ? 1 : 4); round++) {
            OK(weft_sync(weft_team_world(job)));
            if (me == root)
                usleep(3000);
            one(c, false, 0, false, "a late root");
        }
    }
}

/* --------------------------------------------------------------------------------------- graph */

static void graph(void)
{
    CUresult (*start)(CUstream, int), (*end)(CUstream, void **);
    CUresult (*instantiate)(void **, void *, unsigned long long), (*launch)(void *, CUstream);
    *(void **)&start = dlsym(driver.handle, "cuStreamBeginCapture_v2");
    *(void **)&end = dlsym(driver.handle, "cuStreamEndCapture");
    *(void **)&instantiate = dlsym(driver.handle, "cuGraphInstantiateWithFlags");
    *(void **)&launch = dlsym(driver.handle, "cuGraphLaunch");
    if (!start || !end || !instantiate || !launch) {
        fprintf(stderr, "skipped: this driver has no graphs\n");
        exit(77);
    }
    static const size_t counts[] = {2, 500, 20000, 400000};
    void *captured, *executable;
    struct call calls[4 * WHATS];
    size_t at = 256;
    int made = 0;
    for (int what = 0; what < WHATS; what++)
        for (int s = 0; s < 4; s++) {
            struct call c = {.what = (enum what)what,
                             .t = &teams[s % 2],
                             .root = s % n,
                             .type = WEFT_FLOAT,
                             .op = s % 2 ? WEFT_AVG : WEFT_SUM,
                             .count = counts[s] / (what == ALLTOALL ? 2 : 1)};
            c.dst = heap_dst + at;
            c.src = heap_src + at;
            size_t larger = src_bytes(&c) > dst_bytes(&c) ? src_bytes(&c) : dst_bytes(&c);
            at += (larger + 511) / 256 * 256;
            CHECK(at < ROOM);
            calls[made++] = c;
        }
    /* While one stream is captured, another one continues. */
    struct call beside = {.what = ALLGATHER, .t = &teams[0], .count = 70000};
    CUstream captured_stream = stream, other;
    beside.dst = heap_dst + at;
    beside.src = heap_src + at;
    CHECK(at + 70000 * MOST_PES < ROOM && !driver.StreamCreate(&other, CU_STREAM_NON_BLOCKING));
    make_source(&beside, 99);
    to_gpu((char *)beside.src, mine, src_bytes(&beside));
    memset(seen, 0xa5, dst_bytes(&beside) + 2 * GUARD);
    to_gpu(beside.dst - GUARD, seen, dst_bytes(&beside) + 2 * GUARD);
    OK(weft_sync(weft_team_world(job)));
    CHECK(!start(stream, 0)); /* the capture includes the first call */
    for (int i = 0; i < made; i++) {
        OK(ask(&calls[i]));
        stream = other;
        if (i == made / 2)
            OK(ask(&beside));
        stream = captured_stream;
    }
    CHECK(!end(stream, &captured));
    CHECK(!driver.StreamSynchronize(other));
    make_wanted(&beside, 99);
    compare(&beside, "beside a capture");
    CHECK(!driver.StreamDestroy(other));
    CHECK(!instantiate(&executable, captured, 0));
    for (uint64_t round = 0; round < 7; round++) {
        for (int i = 0; i < made; i++) {
            make_source(&calls[i], 100 * round + (uint64_t)i);
            to_gpu((char *)calls[i].src, mine, src_bytes(&calls[i]));
            memset(seen, 0xa5, dst_bytes(&calls[i]) + 2 * GUARD);
            to_gpu(calls[i].dst - GUARD, seen, dst_bytes(&calls[i]) + 2 * GUARD);
        }
        OK(weft_sync(weft_team_world(job)));
        CHECK(!launch(executable, stream));
        if (round % 2)
            CHECK(!launch(executable, stream));
        synchronize();
        for (int i = 0; i < made; i++) {
            make_wanted(&calls[i], 100 * round + (uint64_t)i);
            compare(&calls[i], "graph");
        }
        OK(weft_sync(weft_team_world(job)));
        struct call between = {
            .what = ALLREDUCE, .t = &teams[0], .count = 33, .type = WEFT_INT32, .op = WEFT_SUM};
        OK(weft_sync(weft_team_world(job)));
        one(between, true, 0, false, "between replays");
        OK(weft_sync(weft_team_world(job)));
    }
}

/* -------------------------------------------------------------------------------------- misuse */

static void misuse(void)
{
    weft_team *world = weft_team_world(job);
    char plain[64];
    FAILS(weft_allgather_on_stream(NULL, heap_dst, heap_src, 8, stream), WEFT_ERR_ARGUMENT,
          "weft_allgather_on_stream: team is null");
    FAILS(weft_broadcast_on_stream(world, heap_dst, heap_src, 8, n, stream), WEFT_ERR_PE, "root");
    FAILS(weft_broadcast_on_stream(world, heap_dst, heap_src, 8, -1, stream), WEFT_ERR_PE,
          "root -1");
    FAILS(weft_alltoall_on_stream(world, NULL, heap_src, 8, stream), WEFT_ERR_ARGUMENT,
          "dst is null");
    FAILS(weft_alltoall_on_stream(world, heap_dst, NULL, 8, stream), WEFT_ERR_ARGUMENT,
          "src is null");
    FAILS(weft_allgather_on_stream(world, plain, heap_src, 8, stream), WEFT_ERR_ADDRESS,
          "neither symmetric memory nor memory that GPU");
    FAILS(weft_allgather_on_stream(world, heap_dst, heap_src, (size_t)1 << 62, stream),
          WEFT_ERR_RANGE, "");
    FAILS(weft_allgather_on_stream(world, heap_dst, heap_src, (size_t)1 << 40, stream),
          WEFT_ERR_RANGE, "argument dst");
    FAILS(
        weft_allreduce_on_stream(world, heap_dst, heap_dst + 8, 100, WEFT_FLOAT, WEFT_SUM, stream),
        WEFT_ERR_ARGUMENT, "overlap");
    FAILS(weft_reducescatter_on_stream(world, heap_dst + 400 * me + 4, heap_dst, 100, WEFT_FLOAT,
                                       WEFT_SUM, stream),
          WEFT_ERR_ARGUMENT, "they must be disjoint or in place");
    FAILS(weft_alltoall_on_stream(world, heap_dst, heap_dst, 8, stream), WEFT_ERR_ARGUMENT,
          "they must be disjoint");
    FAILS(weft_allreduce_on_stream(world, heap_dst, heap_src, 8, (weft_type)77, WEFT_SUM, stream),
          WEFT_ERR_TYPE, "type 77 is not a weft_type");
    FAILS(weft_allreduce_on_stream(world, heap_dst, heap_src, 8, WEFT_FLOAT, (weft_op)9, stream),
          WEFT_ERR_OP, "operation 9");
    FAILS(weft_allreduce_on_stream(world, heap_dst, heap_src, 8, WEFT_HALF, WEFT_XOR, stream),
          WEFT_ERR_TYPE, "not defined for WEFT_HALF");
    FAILS(weft_allreduce_on_stream(world, heap_dst, heap_src, 8, WEFT_FP8_E4M3, WEFT_AND, stream),
          WEFT_ERR_TYPE, "not defined for WEFT_FP8_E4M3");
    FAILS(weft_allreduce_on_stream(world, heap_dst, heap_src, 8, WEFT_FLOAT, REF_SCALED, stream),
          WEFT_ERR_OP, "operation 100");
    FAILS(weft_allreduce_scaled_on_stream(world, heap_dst, heap_src, 8, WEFT_FLOAT, NULL, stream),
          WEFT_ERR_ARGUMENT, "factor is null");
    FAILS(weft_allreduce_scaled_on_stream(world, heap_dst, heap_src, 8,
                                          (weft_type)(WEFT_INT8 | WEFT_NARROW_FACTOR), plain,
                                          stream),
          WEFT_ERR_TYPE, "type 256 is not a weft_type");
    FAILS(weft_allreduce_on_stream(world, heap_dst, heap_src, (size_t)1 << 62, WEFT_DOUBLE,
                                   WEFT_SUM, stream),
          WEFT_ERR_RANGE, "too many");
    OK(weft_allgather_on_stream(world, NULL, NULL, 0, stream));
    uint64_t *words = (uint64_t *)own_src;
    FAILS(weft_collect_on_stream(world, plain, heap_src, 8, stream), WEFT_ERR_ADDRESS, "dst");
    void *host = NULL;
    OK(weft_alloc(job, WEFT_HOST, 64, 0, 0, &host));
    FAILS(weft_collect_on_stream(world, host, heap_src, 8, stream), WEFT_ERR_UNSUPPORTED,
          "is symmetric host memory");
    OK(weft_free(job, host));
    FAILS(weft_alltoallv_on_stream(world, heap_dst, 64, words, words, heap_src, words,
                                   (uint64_t *)(void *)plain, stream),
          WEFT_ERR_ADDRESS, "send_at");
    FAILS(
        weft_alltoallv_on_stream(world, heap_dst, 64, NULL, words, heap_src, words, words, stream),
        WEFT_ERR_ARGUMENT, "recv_bytes is null");
    FAILS(weft_alltoallv_on_stream(world, heap_dst, (size_t)1 << 41, words, words, heap_src, words,
                                   words, stream),
          WEFT_ERR_RANGE, "dst");
    FAILS(weft_scatter_on_stream(world, heap_dst, heap_src, 8, n, stream), WEFT_ERR_PE, "root");
    struct call c = {.what = ALLGATHER, .t = &teams[0], .count = 100};
    one(c, false, 0, false, "after what was refused"); /* the refused calls had no side effects */
}

/* --------------------------------------------------------------------------------------- leave */

/* Waits after finalize for several polling intervals of device_watch.c. */
static int leave(void)
{
    struct call c = {.what = ALLGATHER, .t = &teams[0], .count = 1000};
    one(c, false, 0, false, "before leaving");
    CHECK(n == 1 || job->gpu_watch);
    OK(weft_finalize(job));
    usleep(400000);
    return 0;
}

/* ---------------------------------------------------------------------------------------- dies */

/* WEFT_WAIT_LIMIT is long, so only the death can end the waits. */
static int dies(const char *operation)
{
    struct call c = {
        .t = &teams[0], .type = WEFT_FLOAT, .op = WEFT_SUM, .dst = heap_dst, .src = heap_src};
    while (strcmp(names[c.what], operation) != 0)
        if (++c.what == WHATS) {
            fprintf(stderr, "%s is no operation\n", operation);
            return 2;
        }
    c.count = 1000;
    OK(ask(&c));
    synchronize();
    OK(weft_barrier(weft_team_world(job)));
    if (me == n - 1) {
        usleep(300000); /* the others are in the collective */
        raise(SIGKILL);
    }
    weft_status status = WEFT_OK;
    for (int i = 0; i < 20 && !status; i++) {
        c.count = i % 2 ? 1000 : 200000;
        c.root = n - 1;
        status = ask(&c);
        if (!status && !by_host) {
            CHECK(!driver.StreamSynchronize(stream));
            status = job_check_failed(job);
        }
    }
    printf("PE %d: %s: %s\n", me, weft_status_name(status), weft_last_error());
    fflush(stdout);
    CHECK(status == WEFT_ERR_PEER_DEAD);
    CHECK(strstr(weft_last_error(), "PE"));
    _exit(0);
}

/* The exit of PE 0, which has reported by then, ends the job. An earlier exit of another PE would
 * be reported instead of the timeout. */
static void stay(void)
{
    for (int i = 0; i < 300; i++)
        usleep(100000);
}

/* WEFT_WAIT_LIMIT is short. backwards: a sync of the team in reverse order. */
static int expires(bool backwards)
{
    struct call c = {.what = ALLREDUCE,
                     .t = &teams[0],
                     .type = WEFT_FLOAT,
                     .op = WEFT_SUM,
                     .dst = heap_dst,
                     .src = heap_src,
                     .count = 100};
    OK(ask(&c));
    synchronize();
    OK(weft_barrier(weft_team_world(job)));
    if (me == n - 1) { /* alive, but does not call */
        stay();
        _exit(0);
    }
    weft_status status = backwards ? weft_sync_on_stream(teams[1].team, stream) : ask(&c);
    CHECK(!driver.StreamSynchronize(stream));
    status = status ? status : job_check_failed(job);
    printf("PE %d: %s: %s\n", me, weft_status_name(status), weft_last_error());
    fflush(stdout);
    if (me)
        stay();
    _exit(0);
}

/* ------------------------------------------------------------------------------------- limits */

static struct coll_choice choice_of(enum coll_what what)
{
    struct coll_request ask = {.what = what,
                               .reduction = {.element = 4, .type = WEFT_FLOAT, .op = WEFT_SUM}};
    ask.bytes = what == COLL_ALLREDUCE
                    ? 8 << 20
                    : 8 << 10; /* larger ones use copy engines without a limit too */
    return coll_kernel_choice(weft_team_world(job), &ask, true);
}

/* weft_coll_plan_query() is what the team chooses for memory outside of the heap. */
static void plans(weft_team *world)
{
    struct coll_request ask = {.what = COLL_ALLREDUCE,
                               .bytes = 8 << 20,
                               .reduction = {.element = 4, .type = WEFT_FLOAT, .op = WEFT_SUM}};
    struct coll_choice choice = coll_kernel_choice(world, &ask, false);
    weft_coll_plan plan = {.size = sizeof plan,
                           .operation = "allreduce",
                           .bytes = ask.bytes,
                           .type = WEFT_FLOAT,
                           .op = WEFT_SUM,
                           .sms = -1};
    if (n == 1) {
        FAILS(weft_coll_plan_query(world, &plan), WEFT_ERR_UNSUPPORTED, "it has one member");
        return;
    }
    OK(weft_coll_plan_query(world, &plan));
    CHECK(plan.algorithm == coll_algorithm_name(choice.algorithm) && plan.agreed == 1);
    CHECK(plan.blocks == (int)choice.blocks && plan.threads == (int)choice.threads);
    CHECK(plan.us > 0 && plan.us == choice.us);
    plan.sms = 1;
    OK(weft_coll_plan_query(world, &plan));
    CHECK(plan.blocks == 1 && plan.us >= choice.us);
    plan.sms = -2;
    FAILS(weft_coll_plan_query(world, &plan), WEFT_ERR_ARGUMENT, "-2 SMs");
    plan.sms = -1;
    plan.type = (weft_type)99;
    FAILS(weft_coll_plan_query(world, &plan), WEFT_ERR_TYPE, "weft_coll_plan_query");
    plan.operation = "allreduces";
    FAILS(weft_coll_plan_query(world, &plan), WEFT_ERR_ARGUMENT, "no operation \"allreduces\"");
    plan.size = 1;
    FAILS(weft_coll_plan_query(world, &plan), WEFT_ERR_ARGUMENT, "sizeof(weft_coll_plan)");
}

static void limits(void)
{
    weft_team *world = weft_team_world(job);
    static const int sms[] = {5, 1, 0, 200, -1, 3};
    static const unsigned blocks[] = {4, 1, 1, 64, 64, 2};
    FAILS(weft_team_limit_sms(NULL, 4), WEFT_ERR_ARGUMENT, "weft_team_limit_sms: team is null");
    for (size_t i = 0; i < sizeof sms / sizeof *sms; i++) {
        OK(weft_team_limit_sms(world, sms[i]));
        mixed(12);
        CHECK(choice_of(COLL_ALLREDUCE).blocks == blocks[i]);
        plans(world);
        CHECK((choice_of(COLL_ALLTOALL).algorithm == COLL_ALGO_ENGINES) == (sms[i] == 0));
        OK(weft_team_limit_sms(world, me == (int)i % n ? 2 : 40)); /* the minimum of all members */
        CHECK(choice_of(COLL_ALLREDUCE).blocks == 2);
        mixed(4);
        weft_status status = weft_team_limit_sms(world, me == n - 1 ? -2 : 40);
        CHECK(status == WEFT_ERR_ARGUMENT);
        CHECK(strstr(weft_last_error(), me == n - 1 ? "-2 SMs" : "passed less than -1 SMs"));
        CHECK(choice_of(COLL_ALLREDUCE).blocks == 2); /* unchanged */
    }
    CHECK(n_teams < 2 ||
          weft_team_limit_sms(teams[1].team, 7) == WEFT_OK); /* each team has its own limit */
    CHECK(choice_of(COLL_ALLREDUCE).blocks == 2);
    mixed(20);
}

/* Runs before the job begins: `weft run` sets WEFT_PE. */
static void set_unevenly(const char *sms)
{
    static const char *const ways[] = {"packets", "direct", "two"};
    const char *pe = getenv("WEFT_PE");
    int number = pe ? atoi(pe) : 0;
    setenv("WEFT_COLL", ways[number % 3], 1);
    setenv("WEFT_COLL_SMS", number % 2 ? sms : "40", 1);
}

int main(int argc, char **argv)
{
    const char *part = argc > 1 ? argv[1] : "";
    by_host = strcmp(part, "host") == 0;
    if (strcmp(part, "uneven") == 0)
        set_unevenly(argc > 2 ? argv[2] : "3");
    ref_narrow_factors = 1;
    begin();
    if (strcmp(part, "mixed") == 0) {
        seed = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
        mixed(argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 150);
    } else if (strcmp(part, "ready") == 0) {
        ready();
    } else if (strcmp(part, "large") == 0) {
        large();
    } else if (strcmp(part, "late_root") == 0) {
        late_root(argc > 2 ? strtoul(argv[2], NULL, 10) : 400000);
    } else if (strcmp(part, "limits") == 0) {
        limits();
    } else if (strcmp(part, "crossed") == 0) {
        crossed();
    } else if (strcmp(part, "uneven") == 0) {
        mixed(80);
    } else if (strcmp(part, "expires") == 0) {
        return expires(argc > 2);
    } else if (strcmp(part, "flood") == 0) {
        flood();
    } else if (strcmp(part, "renew") == 0) {
        renew();
    } else if (strcmp(part, "graph") == 0) {
        graph();
    } else if (strcmp(part, "leave") == 0) {
        return leave();
    } else if (strcmp(part, "misuse") == 0) {
        misuse();
    } else if (strcmp(part, "dies") == 0) {
        return dies(argc > 2 ? argv[2] : "allreduce");
    } else {
        whole();
    }
    OK(weft_barrier(weft_team_world(job)));
    CHECK(!driver.StreamDestroy(stream));
    OK(weft_finalize(job));
    return 0;
}
