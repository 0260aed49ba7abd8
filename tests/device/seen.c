/* SPDX-License-Identifier: Apache-2.0 */
/* The next host call reports a fault of device code, whichever call it is. Each function of the API
 * runs alone in its own process and job, after a kernel that puts to an invalid PE. With the
 * argument `healthy` no kernel runs, and every call must succeed, as a control. */
#include "device_test.h"

WEFT_KERNEL(put_to_nobody, (uint64_t *, dst))
{
    if (weft_dev_grid_rank() == 5)
        weft_thread_p64(dst, 1, 77);
}

#if WEFT_HOST_CODE

#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/stream.h>

static uint64_t *a, *b; /* symmetric, 64 words each; every word of `a` is 3 */
static uint64_t out[64];
static weft_stream stream;
static weft_team *world;
static size_t index_out, count_out, indices[4];
static int result;
static weft_ctx *made;
static weft_team *team_made, *team_made_too;
static void *address;

/* X(call). The arguments are valid, and no call waits if the kernel did not fail. */
#define ENTRIES(X)                                                                                 \
    X(weft_alloc(job, WEFT_HOST, 64, 0, 0, &address))                                              \
    X(weft_free(job, b))                                                                           \
    X(weft_realloc(job, b, 4096, &address))                                                        \
    X(weft_ctx_create(world, 0, &made))                                                            \
    X(weft_put(ctx, b, out, 64, 0))                                                                \
    X(weft_get(ctx, out, a, 64, 0))                                                                \
    X(weft_put_nbi(ctx, b, a, 64, 0))                                                              \
    X(weft_get_nbi(ctx, b, a, 64, 0))                                                              \
    X(weft_p8(ctx, b, 1, 0))                                                                       \
    X(weft_p16(ctx, b, 1, 0))                                                                      \
    X(weft_p32(ctx, b, 1, 0))                                                                      \
    X(weft_p64(ctx, b, 1, 0))                                                                      \
    X(weft_g8(ctx, a, (uint8_t *)out, 0))                                                          \
    X(weft_g16(ctx, a, (uint16_t *)out, 0))                                                        \
    X(weft_g32(ctx, a, (uint32_t *)out, 0))                                                        \
    X(weft_g64(ctx, a, out, 0))                                                                    \
    X(weft_iput(ctx, b, out, 2, 1, 8, 5, 0))                                                       \
    X(weft_iget(ctx, out, a, 1, 2, 8, 5, 0))                                                       \
    X(weft_put_signal(ctx, b, out, 64, &b[20], 1, WEFT_SIGNAL_ADD, 0))                             \
    X(weft_put_signal_nbi(ctx, b, a, 64, &b[20], 1, WEFT_SIGNAL_SET, 0))                           \
    X(weft_signal(ctx, b, 1, WEFT_SIGNAL_ADD, 0))                                                  \
    X(weft_signal_fetch(ctx, a, out))                                                              \
    X(weft_signal_wait(ctx, a, WEFT_EQ, 3, out))                                                   \
    X(weft_atomic_set32(ctx, b, 1, 0))                                                             \
    X(weft_atomic_set64(ctx, b, 1, 0))                                                             \
    X(weft_atomic_add64(ctx, b, 1, 0))                                                             \
    X(weft_atomic_and64(ctx, b, 1, 0))                                                             \
    X(weft_atomic_or32(ctx, b, 1, 0))                                                              \
    X(weft_atomic_xor64(ctx, b, 1, 0))                                                             \
    X(weft_atomic_swap64(ctx, b, 1, out, 0))                                                       \
    X(weft_atomic_fetch_add32(ctx, b, 1, (uint32_t *)out, 0))                                      \
    X(weft_atomic_fetch_add64(ctx, b, 1, out, 0))                                                  \
    X(weft_atomic_fetch_and64(ctx, b, 1, out, 0))                                                  \
    X(weft_atomic_fetch_or64(ctx, b, 1, out, 0))                                                   \
    X(weft_atomic_fetch_xor64(ctx, b, 1, out, 0))                                                  \
    X(weft_atomic_fetch64(ctx, a, out, 0))                                                         \
    X(weft_atomic_cswap64(ctx, b, 1, 2, out, 0))                                                   \
    X(weft_fence(ctx))                                                                             \
    X(weft_quiet(ctx))                                                                             \
    X(weft_wait_until(ctx, WEFT_UINT64, a, WEFT_EQ, 3))                                            \
    X(weft_wait_until_all(ctx, WEFT_UINT64, a, 4, NULL, WEFT_EQ, 3))                               \
    X(weft_wait_until_any(ctx, WEFT_UINT64, a, 4, NULL, WEFT_EQ, 3, &index_out))                   \
    X(weft_wait_until_some(ctx, WEFT_UINT64, a, 4, indices, NULL, WEFT_EQ, 3, &count_out))         \
    X(weft_test(ctx, WEFT_UINT64, a, WEFT_EQ, 4, &result))                                         \
    X(weft_test_all(ctx, WEFT_UINT64, a, 4, NULL, WEFT_EQ, 4, &result))                            \
    X(weft_test_any(ctx, WEFT_UINT64, a, 4, NULL, WEFT_EQ, 4, &index_out))                         \
    X(weft_test_some(ctx, WEFT_UINT64, a, 4, indices, NULL, WEFT_EQ, 4, &count_out))               \
    X(weft_team_split_strided(world, 0, 1, 1, &team_made))                                         \
    X(weft_team_split_2d(world, 1, &team_made, &team_made_too))                                    \
    X(weft_barrier(world))                                                                         \
    X(weft_sync(world))                                                                            \
    X(weft_broadcast(world, b, a, 64, 0))                                                          \
    X(weft_alltoall(world, b, a, 64))                                                              \
    X(weft_alltoalls(world, b, a, 1, 2, 8, 5))                                                     \
    X(weft_allgather(world, b, a, 64))                                                             \
    X(weft_collect(world, b, a, 64))                                                               \
    X(weft_allreduce(world, b, a, 8, WEFT_UINT64, WEFT_SUM))                                       \
    X(weft_prove(job))                                                                             \
    X(weft_device_check(job))                                                                      \
    X(weft_device_start(job))                                                                      \
    X(weft_put_on_stream(ctx, b, a, 64, 0, stream))                                                \
    X(weft_get_on_stream(ctx, b, a, 64, 0, stream))                                                \
    X(weft_put_signal_on_stream(ctx, b, a, 64, &b[20], 1, WEFT_SIGNAL_SET, 0, stream))             \
    X(weft_signal_on_stream(ctx, b, 1, WEFT_SIGNAL_SET, 0, stream))                                \
    X(weft_signal_wait_on_stream(ctx, a, WEFT_EQ, 3, stream))                                      \
    X(weft_quiet_on_stream(ctx, stream))                                                           \
    X(weft_barrier_on_stream(world, stream))                                                       \
    X(weft_stream_synchronize(stream))                                                             \
    X(weft_finalize(job))

/* Calls the entry with this index and returns its name. */
static weft_status call(int number, const char **name)
{
    int at = 0;
#define CALL(entry)                                                                                \
    if (at++ == number) {                                                                          \
        *name = #entry;                                                                            \
        return entry;                                                                              \
    }
    ENTRIES(CALL)
#undef CALL
    return WEFT_OK;
}

enum {
#define ONE(entry) +1
    ENTRY_COUNT = 0 ENTRIES(ONE)
#undef ONE
};

static bool told(weft_status status, const char *where, const char *name)
{
    if (status == WEFT_ERR_PE && strstr(weft_last_error(), "there is no PE 77"))
        return true;
    fprintf(stderr, "%s %s gave %s: %s\n", name, where, weft_status_name(status),
            weft_last_error());
    return false;
}

static int one(int number, bool healthy)
{
    const char *name = "";
    setenv("WEFT_BOOT", "single", 1);
    device_begin();
    world = weft_team_world(job);
    a = symmetric(512);
    b = symmetric(512);
    for (int i = 0; i < 64; i++)
        out[i] = 3;
    store(a, out, sizeof out);
    OK(weft_stream_create(&stream));
    if (!healthy)
        OK(WEFT_LAUNCH(put_to_nobody, 1, 32, 0, stream, b));
    for (int idle = healthy; !idle;)
        weft_stream_query(stream, &idle);
    weft_status status = call(number, &name);
    if (healthy && status)
        fprintf(stderr, "%s gave %s: %s\n", name, weft_status_name(status), weft_last_error());
    if (healthy)
        return status != WEFT_OK;
    bool right = told(status, "after a fault", name);
    if (number != ENTRY_COUNT - 1)
        right &= told(weft_finalize(job), "then weft_finalize", name);
    return !right;
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int number = 0; number < ENTRY_COUNT; number++) {
        int status;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            _exit(one(number, argc > 1 && strcmp(argv[1], "healthy") == 0));
        CHECK(waitpid(child, &status, 0) == child);
        failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    printf("%d of %d entries failed\n", failed, (int)ENTRY_COUNT);
    return failed != 0;
}

#endif
