/* SPDX-License-Identifier: Apache-2.0 */
/* A PE is killed while kernels of all PEs execute collectives of device code in rounds. The kernels
 * of the other PEs end, and their hosts report which PE died and in which collective.
 * tests/fault/coll_dead.sh checks the output.
 *   coll_dead FORM OPERATION amid   after some rounds, at any point; sizes in packets and in slices
 *                                   in turn
 *   coll_dead FORM OPERATION small  before PE 1 enters, while the others are in the collective
 *   coll_dead FORM OPERATION large  the same, with more bytes
 *   coll_dead list                  one line each: form, operation, its name in the host's
 *                                   message */
#define WEFT_KERNEL_THREADS 64
#include "device_test.h"

enum { THREADS = 64, BLOCKS = 3, PART = 2, AMID_ROUNDS = 13 };
enum {
    SMALL = 64,
    LARGE = 300 * 1024
}; /* bytes; the large size uses slices, and the spread algorithm for broadcasts */
enum form { THREAD, WARP, BLOCK, GRID, SOME_BLOCKS, FORMS };
enum { SEND_BYTES, SEND_AT, RECV_BYTES, RECV_AT, ARRAYS };

struct call {
    char *dst;
    const char *src;
    size_t bytes, room;
    const uint64_t *arrays[ARRAYS];
    double factor;
    int root;
};

/* X(operation, its name in the host's message, the call), for scope `form` with the leading
 * arguments. */
#define COLLECTIVES(X, form, ...)                                                                  \
    X(meet, "sync", weft_##form##_meet(__VA_ARGS__))                                               \
    X(sync, "sync", weft_##form##_sync(__VA_ARGS__))                                               \
    X(barrier, "barrier", weft_##form##_barrier(__VA_ARGS__))                                      \
    X(broadcast, "broadcast", weft_##form##_broadcast(__VA_ARGS__, c.dst, c.src, c.bytes, c.root)) \
    X(allgather, "allgather", weft_##form##_allgather(__VA_ARGS__, c.dst, c.src, c.bytes))         \
    X(alltoall, "alltoall", weft_##form##_alltoall(__VA_ARGS__, c.dst, c.src, c.bytes))            \
    X(gather, "gather", weft_##form##_gather(__VA_ARGS__, c.dst, c.src, c.bytes, c.root))          \
    X(scatter, "scatter", weft_##form##_scatter(__VA_ARGS__, c.dst, c.src, c.bytes, c.root))       \
    X(collect, "collect", weft_##form##_collect(__VA_ARGS__, c.dst, c.src, c.bytes))               \
    X(alltoallv, "alltoallv",                                                                      \
      weft_##form##_alltoallv(__VA_ARGS__, c.dst, c.room, c.arrays[RECV_BYTES], c.arrays[RECV_AT], \
                              c.src, c.arrays[SEND_BYTES], c.arrays[SEND_AT]))                     \
    X(alltoalls, "alltoall",                                                                       \
      weft_##form##_alltoalls(__VA_ARGS__, c.dst, c.src, 2, 1, c.bytes / 16, 16))                  \
    X(allreduce, "allreduce",                                                                      \
      weft_##form##_allreduce(__VA_ARGS__, c.dst, c.src, c.bytes / 4, WEFT_INT32, WEFT_MAX))       \
    X(reducescatter, "reducescatter",                                                              \
      weft_##form##_reducescatter(__VA_ARGS__, c.dst, c.src, c.bytes / 4, WEFT_INT32, WEFT_SUM))   \
    X(reduce, "allreduce",                                                                         \
      weft_##form##_reduce(__VA_ARGS__, c.dst, c.src, c.bytes / 4, WEFT_INT32, WEFT_SUM, c.root))  \
    X(allreduce_scaled, "allreduce",                                                               \
      weft_##form##_allreduce_scaled(__VA_ARGS__, c.dst, c.src, c.bytes / 4, WEFT_FLOAT, 0.5))     \
    X(reducescatter_scaled, "reducescatter",                                                       \
      weft_##form##_reducescatter_scaled(__VA_ARGS__, c.dst, c.src, c.bytes / 4, WEFT_FLOAT, 0.5)) \
    X(reduce_scaled, "allreduce",                                                                  \
      weft_##form##_reduce_scaled(__VA_ARGS__, c.dst, c.src, c.bytes / 4, WEFT_FLOAT, 0.5,         \
                                  c.root))                                                         \
    X(allreduce_weighted, "allreduce",                                                             \
      weft_##form##_allreduce_weighted(__VA_ARGS__, c.dst, c.src, c.bytes / 4, WEFT_FLOAT,         \
                                       c.factor))                                                  \
    X(reducescatter_weighted, "reducescatter",                                                     \
      weft_##form##_reducescatter_weighted(__VA_ARGS__, c.dst, c.src, c.bytes / 4, WEFT_FLOAT,     \
                                           c.factor))                                              \
    X(reduce_weighted, "allreduce",                                                                \
      weft_##form##_reduce_weighted(__VA_ARGS__, c.dst, c.src, c.bytes / 4, WEFT_FLOAT, c.factor,  \
                                    c.root))

#define NUMBER(name, told, call) CALL_##name,
enum operation { COLLECTIVES(NUMBER, thread, 0) OPERATIONS };
#undef NUMBER

/* One function for each form, so that no function needs the registers of all forms. */
#define CASE(name, told, call)                                                                     \
    case CALL_##name:                                                                              \
        return call;
#define BY(form, ...)                                                                              \
    WEFT_DEVICE_NOINLINE int by_##form(int operation, const struct call c)                         \
    {                                                                                              \
        switch (operation) {                                                                       \
            COLLECTIVES(CASE, form, __VA_ARGS__)                                                   \
        default:                                                                                   \
            return -1;                                                                             \
        }                                                                                          \
    }
BY(thread, WEFT_DEV_WORLD)
BY(warp, WEFT_DEV_WORLD)
BY(block, WEFT_DEV_WORLD)
BY(grid, WEFT_DEV_WORLD)
BY(blocks, PART, WEFT_DEV_WORLD)
#undef BY
#undef CASE

WEFT_DEVICE int takes_part(int form)
{
    unsigned block = weft_dev_block_rank(), thread = weft_dev_thread_rank();
    return form == GRID          ? 1
           : form == SOME_BLOCKS ? block < PART
           : form == BLOCK       ? block == 0
           : form == WARP        ? block == 0 && thread < WEFT_WARP_LANES
                                 : block == 0 && thread == 0;
}

/* Repeats until a call fails. Roots take turns, so that every PE waits for every other. */
WEFT_KERNEL(rounds, (int, form), (int, operation), (int, sizes), (struct call, small),
            (struct call, large), (uint64_t *, reached), (int *, ended))
{
    unsigned n = (unsigned)weft_dev_n_pes();
    int status = WEFT_OK;
    if (!takes_part(form))
        return;
    for (uint64_t round = 0; !status; round++) {
        struct call c = sizes == 2 ? round / n % 2 ? large : small : sizes ? large : small;
        c.root = (int)(round % n);
        if (weft_dev_grid_rank() == 0)
            weft_dev_store_u64(reached, round + 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS);
        status = form == THREAD  ? by_thread(operation, c)
                 : form == WARP  ? by_warp(operation, c)
                 : form == BLOCK ? by_block(operation, c)
                 : form == GRID  ? by_grid(operation, c)
                                 : by_blocks(operation, c);
    }
    if (weft_dev_grid_rank() == 0)
        *ended = status;
}

#if WEFT_HOST_CODE
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const char *const forms[FORMS] = {"thread", "warp", "block", "grid", "blocks"};
#define NAMES(name, told, call) {#name, told},
static const struct {
    const char *name, *told;
} operations[OPERATIONS] = {COLLECTIVES(NAMES, thread, 0)};
static uint64_t *reached;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct call call_of(char *dst, const char *src, size_t bytes)
{
    struct call c = {.dst = dst, .src = src, .bytes = bytes, .room = bytes * (size_t)n_pes};
    c.factor = me + 1;
    for (int a = 0; a < ARRAYS; a++) {
        uint64_t *words = symmetric((size_t)n_pes * sizeof *words), own[64];
        for (int i = 0; i < n_pes; i++)
            own[i] = a == SEND_BYTES || a == RECV_BYTES ? bytes : bytes * (size_t)i;
        store(words, own, (size_t)n_pes * sizeof *words);
        c.arrays[a] = words;
    }
    return c;
}

static void await_rounds(int pe, uint64_t wanted)
{
    uint64_t seen = 0;
    while (seen < wanted) {
        OK(weft_get(ctx, &seen, reached, sizeof seen, pe));
        usleep(500);
    }
}

/* Sends the time of death to the other PEs and kills this process. */
static void end(double *died)
{
    double when = now();
    for (int pe = 0; pe < n_pes; pe++)
        OK(weft_put(ctx, died, &when, sizeof when, pe));
    OK(weft_quiet(ctx));
    raise(SIGKILL);
}

static int list(void)
{
    for (int form = 0; form < FORMS; form++)
        for (int i = 0; i < OPERATIONS; i++)
            printf("%s %s %s\n", forms[form], operations[i].name, operations[i].told);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "list") == 0)
        return list();
    int form = 0, operation = 0;
    CHECK(argc == 4);
    while (form < FORMS && strcmp(argv[1], forms[form]))
        form++;
    while (operation < OPERATIONS && strcmp(argv[2], operations[operation].name))
        operation++;
    CHECK(form < FORMS && operation < OPERATIONS);
    bool amid = strcmp(argv[3], "amid") == 0;
    int sizes = amid ? 2 : strcmp(argv[3], "large") == 0;
    signal(SIGTERM, SIG_IGN); /* ignore the launcher's SIGTERM: each PE ends by itself, also on a
                                 busy machine */
    device_begin();
    CHECK(n_pes <= 64);
    size_t all = (size_t)LARGE * (size_t)n_pes;
    char *dst = symmetric(2 * all), *src = symmetric(all);
    struct call small = call_of(dst, src, SMALL), large = call_of(dst, src, LARGE);
    int *result = symmetric(sizeof *result);
    reached = symmetric(sizeof *reached);
    double *died, when = 0;
    OK(weft_alloc(job, WEFT_HOST, sizeof *died, 0, WEFT_ALLOC_ZERO, (void **)&died));
    fprintf(stderr, "process %d\n", (int)getpid());
    barrier();
    if (me != 1 || amid)
        OK(WEFT_LAUNCH(rounds, BLOCKS, THREADS, 0, NULL, form, operation, sizes, small, large,
                       reached, result));
    if (me == 1) {
        for (int pe = 0; pe < n_pes; pe++)
            if (pe != 1 || amid)
                await_rounds(pe, amid ? AMID_ROUNDS : 1);
        end(died);
    }
    weft_status status = weft_stream_synchronize(NULL);
    memcpy(&when, died, sizeof when);
    char sentence[512];
    snprintf(sentence, sizeof sentence, "%s", weft_last_error());
    fprintf(stderr, "PE %d was told after %.2f s: %s: %s\n", me, now() - when,
            weft_status_name(status), sentence);
    CHECK(WEFT_TARGET_CUDA || *result == WEFT_ERR_TIMEOUT);
    return 3;
}
#endif
