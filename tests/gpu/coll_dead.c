/* SPDX-License-Identifier: Apache-2.0 */
/* A PE is killed while all PEs execute collectives on GPU memory in rounds, on streams or by the
 * host. The other PEs report which PE died and in which collective. tests/fault/coll_dead.sh checks
 * the output.
 *   coll_dead stream|host OPERATION amid   after some rounds, at any point; small and large sizes
 *                                          in turn
 *   coll_dead stream|host OPERATION small  before it calls, while the others are in the collective
 *   coll_dead stream|host OPERATION large  the same, with more bytes
 *   coll_dead list                         one line each: caller, operation, its names in the
 *                                          message */
#include "coll_job.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

enum { SMALL = 64, LARGE = 300 * 1024, AMID_ROUNDS = 13, VICTIM = 1 };
enum caller { STREAM, HOST, CALLERS };
enum { SEND_BYTES, SEND_AT, RECV_BYTES, RECV_AT, ARRAYS };

struct call {
    weft_team *team;
    char *dst, *src;
    size_t bytes;
    const uint64_t *arrays[ARRAYS];
    const void *factor;
    int root;
};

/* X(operation, its name in the message, whether it has a root and which kind, the call). `on` and
 * `stream` turn the call into the function for streams; empty, it is the host's. */
#define TO_ROOT   1
#define FROM_ROOT 2
#define COLLECTIVES(X, on, stream)                                                                 \
    X(barrier, "barrier", 0, weft_barrier##on(c->team stream))                                     \
    X(sync, "sync", 0, weft_sync##on(c->team stream))                                              \
    X(broadcast, "broadcast", FROM_ROOT,                                                           \
      weft_broadcast##on(c->team, c->dst, c->src, c->bytes, c->root stream))                       \
    X(allgather, "allgather", 0, weft_allgather##on(c->team, c->dst, c->src, c->bytes stream))     \
    X(alltoall, "alltoall", 0, weft_alltoall##on(c->team, c->dst, c->src, c->bytes stream))        \
    X(alltoalls, "alltoalls?", 0,                                                                  \
      weft_alltoalls##on(c->team, c->dst, c->src, 2, 1, 4, c->bytes / 4 stream))                   \
    X(collect, "collect", 0, weft_collect##on(c->team, c->dst, c->src, c->bytes stream))           \
    X(alltoallv, "alltoallv", 0,                                                                   \
      weft_alltoallv##on(c->team, c->dst, c->bytes *(size_t)n, c->arrays[RECV_BYTES],              \
                         c->arrays[RECV_AT], c->src, c->arrays[SEND_BYTES],                        \
                         c->arrays[SEND_AT] stream))                                               \
    X(gather, "gather", TO_ROOT,                                                                   \
      weft_gather##on(c->team, c->dst, c->src, c->bytes, c->root stream))                          \
    X(scatter, "scatter", FROM_ROOT,                                                               \
      weft_scatter##on(c->team, c->dst, c->src, c->bytes, c->root stream))                         \
    X(allreduce, "allreduce", 0,                                                                   \
      weft_allreduce##on(c->team, c->dst, c->src, c->bytes / 4, WEFT_INT32, WEFT_MAX stream))      \
    X(reducescatter, "reducescatter", 0,                                                           \
      weft_reducescatter##on(c->team, c->dst, c->src, c->bytes / 4, WEFT_INT32, WEFT_SUM stream))  \
    X(reduce, "(all)?reduce", TO_ROOT,                                                             \
      weft_reduce##on(c->team, c->dst, c->src, c->bytes / 4, WEFT_INT32, WEFT_SUM,                 \
                      c->root stream))                                                             \
    X(allreduce_scaled, "allreduce", 0,                                                            \
      weft_allreduce_scaled##on(c->team, c->dst, c->src, c->bytes / 4, WEFT_FLOAT,                 \
                                c->factor stream))                                                 \
    X(reduce_scaled, "(all)?reduce", TO_ROOT,                                                      \
      weft_reduce_scaled##on(c->team, c->dst, c->src, c->bytes / 4, WEFT_FLOAT, c->factor,         \
                             c->root stream))                                                      \
    X(reducescatter_scaled, "reducescatter", 0,                                                    \
      weft_reducescatter_scaled##on(c->team, c->dst, c->src, c->bytes / 4, WEFT_FLOAT,             \
                                    c->factor stream))                                             \
    X(allreduce_weighted, "allreduce", 0,                                                          \
      weft_allreduce_weighted##on(c->team, c->dst, c->src, c->bytes / 4, WEFT_FLOAT,               \
                                  c->factor stream))                                               \
    X(reduce_weighted, "(all)?reduce", TO_ROOT,                                                    \
      weft_reduce_weighted##on(c->team, c->dst, c->src, c->bytes / 4, WEFT_FLOAT, c->factor,       \
                               c->root stream))                                                    \
    X(reducescatter_weighted, "reducescatter", 0,                                                  \
      weft_reducescatter_weighted##on(c->team, c->dst, c->src, c->bytes / 4, WEFT_FLOAT,           \
                                      c->factor stream))

#define NUMBER(name, told, root, call) CALL_##name,
enum operation { COLLECTIVES(NUMBER, , ) OPERATIONS };

#define NAMES(name, told, root, call) {#name, told, root},
static const struct {
    const char *name, *told;
    int root;
} operations[OPERATIONS] = {COLLECTIVES(NAMES, , )};
static const char *const callers[CALLERS] = {"stream", "host"};

#define CASE(name, told, root, call)                                                               \
    case CALL_##name:                                                                              \
        return call;
#define THE_STREAM , stream

static weft_status on_stream(enum operation operation, const struct call *c)
{
    switch (operation) {
        COLLECTIVES(CASE, _on_stream, THE_STREAM)
    default:
        return WEFT_ERR_ARGUMENT;
    }
}

static weft_status by_host(enum operation operation, const struct call *c)
{
    switch (operation) {
        COLLECTIVES(CASE, , )
    default:
        return WEFT_ERR_ARGUMENT;
    }
}

static _Atomic uint64_t *reached; /* calls that this PE has begun; the other PEs read it */
static double *died;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void nap_ms(int ms)
{
    usleep((useconds_t)ms * 1000);
}

static struct call call_of(size_t bytes, char *arrays)
{
    struct call c = {.team = weft_team_world(job), .dst = heap_dst, .src = heap_src};
    uint64_t words[ARRAYS][MOST_PES] = {{0}};
    c.bytes = bytes;
    c.factor = factor_room;
    for (int a = 0; a < ARRAYS; a++) {
        for (int i = 0; i < n; i++)
            words[a][i] = a == SEND_BYTES || a == RECV_BYTES ? bytes : bytes * (size_t)i;
        c.arrays[a] = (uint64_t *)(arrays + sizeof words[0] * (size_t)a);
    }
    to_gpu(arrays, words, sizeof words);
    return c;
}

/* The first roots are chosen so that each remaining PE waits for the dead one at once, or after one
 * call. */
static weft_status call_once(enum caller caller, enum operation operation, struct call *c,
                             uint64_t round)
{
    static const int to[] = {0, 2, 1}, from[] = {1, 0, 2};
    c->root = (operations[operation].root == TO_ROOT ? to : from)[round % 3];
    atomic_store(reached, round + 1);
    return caller == HOST ? by_host(operation, c) : on_stream(operation, c);
}

/* Waits for the stream. The victim may be killed here. */
static weft_status settle(enum caller caller)
{
    if (caller == STREAM)
        CHECK(!driver.StreamSynchronize(stream));
    return job_check_failed(job);
}

static weft_status rounds(enum caller caller, enum operation operation, struct call *sizes[2])
{
    weft_status status = WEFT_OK;
    for (uint64_t round = 0; !status; round++) {
        status = call_once(caller, operation, sizes[round / 3 % 2], round);
        if (!status)
            status = settle(caller);
    }
    return status;
}

static void end(void)
{
    double when = now();
    for (int pe = 0; pe < n; pe++)
        *(double *)weft_ptr(job, died, pe) = when;
    raise(SIGKILL);
}

static void *end_amid(void *unused)
{
    while (atomic_load(reached) < AMID_ROUNDS)
        usleep(100);
    usleep((useconds_t)getpid() % 1000);
    end();
    return unused;
}

/* Waits until the other PEs are as far as they can get without this PE, then kills it. */
static void end_before(void)
{
    uint64_t seen = 0, now_seen;
    for (int same = 0; same < 20; seen = now_seen) {
        bool all = true;
        now_seen = 0;
        for (int pe = 0; pe < n; pe++) {
            uint64_t theirs = atomic_load((_Atomic uint64_t *)weft_ptr(job, reached, pe));
            all &= pe == VICTIM || theirs > 0;
            now_seen += theirs;
        }
        same = all && now_seen == seen ? same + 1 : 0;
        nap_ms(10);
    }
    end();
}

static int list(void)
{
    for (int caller = 0; caller < CALLERS; caller++)
        for (int i = 0; i < OPERATIONS; i++)
            printf("%s %s %s\n", callers[caller], operations[i].name, operations[i].told);
    return 0;
}

static void *host_memory(size_t bytes)
{
    void *at = NULL;
    OK(weft_alloc(job, WEFT_HOST, bytes, 0, WEFT_ALLOC_ZERO, &at));
    return at;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "list") == 0)
        return list();
    int caller = 0, operation = 0;
    CHECK(argc == 4);
    while (caller < CALLERS && strcmp(argv[1], callers[caller]))
        caller++;
    while (operation < OPERATIONS && strcmp(argv[2], operations[operation].name))
        operation++;
    CHECK(caller < CALLERS && operation < OPERATIONS);
    bool amid = strcmp(argv[3], "amid") == 0, many = strcmp(argv[3], "large") == 0;
    signal(SIGTERM, SIG_IGN); /* ignore the launcher's SIGTERM: each PE ends by itself, also on a
                                 busy machine */
    begin();
    CHECK(n == 3);
    reached = host_memory(sizeof *reached);
    died = host_memory(sizeof *died);
    float factor = 0.5f;
    to_gpu(factor_room, &factor, sizeof factor);
    struct call small = call_of(SMALL, own_src), large = call_of(LARGE, own_src + 4096);
    for (uint64_t round = 0; round < 3; round++) /* sets up the team */
        OK(call_once((enum caller)caller, (enum operation)operation, &small, round));
    synchronize();
    atomic_store(reached, 0);
    fprintf(stderr, "process %d\n", (int)getpid());
    OK(weft_barrier(weft_team_world(job)));
    pthread_t killer;
    if (me == VICTIM && amid)
        CHECK(!pthread_create(&killer, NULL, end_amid, NULL));
    else if (me == VICTIM)
        end_before();
    struct call *sizes[] = {many ? &large : &small, many || amid ? &large : &small};
    weft_status status = rounds((enum caller)caller, (enum operation)operation, sizes);
    fprintf(stderr, "PE %d was told after %.2f s: %s: %s\n", me, now() - *died,
            weft_status_name(status), weft_last_error());
    return 3;
}
