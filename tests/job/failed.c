/* SPDX-License-Identifier: Apache-2.0 */
/* Every call of weft.h returns the failure of the job and its message, whichever PE caused it. Each
 * call is made after the failure (`failed each`); calls that wait are also tested when the failure
 * occurs during the wait (`failed CALL`). Host memory, or GPU memory (`failed CALL gpu`). */
#include "job.h"

#include "job/job.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <weft/gpu.h>

static weft_job *job;
static weft_ctx *ctx;
static weft_team *world;
static int64_t *a, *b; /* symmetric */

/* X(name, call). Addresses, sizes and PEs are valid, and wait conditions hold: only the failure of
 * the job can make the call fail. */
#define CALLS(X)                                                                                   \
    X(alloc, weft_alloc(job, WEFT_HOST, 64, 0, 0, &address))                                       \
    X(realloc, weft_realloc(job, b, 128, &address))                                                \
    X(free, weft_free(job, b))                                                                     \
    X(ctx_create, weft_ctx_create(world, 0, &made_ctx))                                            \
    X(put, weft_put(ctx, a, b, 8, pe))                                                             \
    X(put_large, weft_put(ctx, a, b, 1000, pe))                                                    \
    X(put_nbi, weft_put_nbi(ctx, a, b, 8, pe))                                                     \
    X(get, weft_get(ctx, a, b, 8, pe))                                                             \
    X(get_nbi, weft_get_nbi(ctx, a, b, 8, pe))                                                     \
    X(p8, weft_p8(ctx, a, 1, pe))                                                                  \
    X(p16, weft_p16(ctx, a, 1, pe))                                                                \
    X(p32, weft_p32(ctx, a, 1, pe))                                                                \
    X(p64, weft_p64(ctx, a, 1, pe))                                                                \
    X(g8, weft_g8(ctx, a, (uint8_t *)&word, pe))                                                   \
    X(g16, weft_g16(ctx, a, (uint16_t *)&word, pe))                                                \
    X(g32, weft_g32(ctx, a, (uint32_t *)&word, pe))                                                \
    X(g64, weft_g64(ctx, a, &word, pe))                                                            \
    X(iput, weft_iput(ctx, a, b, 2, 1, 8, 4, pe))                                                  \
    X(iget, weft_iget(ctx, a, b, 2, 1, 8, 4, pe))                                                  \
    X(put_signal, weft_put_signal(ctx, a, b, 8, flag, 1, WEFT_SIGNAL_SET, pe))                     \
    X(put_signal_nbi, weft_put_signal_nbi(ctx, a, b, 8, flag, 1, WEFT_SIGNAL_ADD, pe))             \
    X(signal, weft_signal(ctx, flag, 1, WEFT_SIGNAL_SET, pe))                                      \
    X(signal_fetch, weft_signal_fetch(ctx, flag, &word))                                           \
    X(signal_wait, weft_signal_wait(ctx, flag, WEFT_GE, 0, &word))                                 \
    X(atomic_set, weft_atomic_set64(ctx, a, 1, pe))                                                \
    X(atomic_add, weft_atomic_add32(ctx, a, 1, pe))                                                \
    X(atomic_and, weft_atomic_and64(ctx, a, 1, pe))                                                \
    X(atomic_or, weft_atomic_or64(ctx, a, 1, pe))                                                  \
    X(atomic_xor, weft_atomic_xor64(ctx, a, 1, pe))                                                \
    X(atomic_fetch, weft_atomic_fetch64(ctx, a, &word, pe))                                        \
    X(atomic_swap, weft_atomic_swap64(ctx, a, 1, &word, pe))                                       \
    X(atomic_cswap, weft_atomic_cswap64(ctx, a, 1, 1, &word, pe))                                  \
    X(atomic_fetch_add, weft_atomic_fetch_add64(ctx, a, 1, &word, pe))                             \
    X(atomic_fetch_and, weft_atomic_fetch_and64(ctx, a, 1, &word, pe))                             \
    X(atomic_fetch_or, weft_atomic_fetch_or64(ctx, a, 1, &word, pe))                               \
    X(atomic_fetch_xor, weft_atomic_fetch_xor64(ctx, a, 1, &word, pe))                             \
    X(atomic_nbi, weft_atomic_nbi(ctx, WEFT_AMO_FETCH_ADD, 8, a, 0, 1, &word, pe))                 \
    X(fence, weft_fence(ctx))                                                                      \
    X(quiet, weft_quiet(ctx))                                                                      \
    X(wait, weft_wait_until(ctx, WEFT_INT64, a, WEFT_GE, 0))                                       \
    X(wait_all, weft_wait_until_all(ctx, WEFT_INT64, a, 2, NULL, WEFT_GE, 0))                      \
    X(wait_any, weft_wait_until_any(ctx, WEFT_INT64, a, 2, NULL, WEFT_GE, 0, &index))              \
    X(wait_some, weft_wait_until_some(ctx, WEFT_INT64, a, 2, indices, NULL, WEFT_GE, 0, &index))   \
    X(wait_all_v, weft_wait_until_all_vector(ctx, WEFT_INT64, a, 2, NULL, WEFT_GE, zeros))         \
    X(wait_any_v, weft_wait_until_any_vector(ctx, WEFT_INT64, a, 2, NULL, WEFT_GE, zeros, &index)) \
    X(wait_some_v,                                                                                 \
      weft_wait_until_some_vector(ctx, WEFT_INT64, a, 2, indices, NULL, WEFT_GE, zeros, &index))   \
    X(test, weft_test(ctx, WEFT_INT64, a, WEFT_GE, 0, &result))                                    \
    X(test_all, weft_test_all(ctx, WEFT_INT64, a, 2, NULL, WEFT_GE, 0, &result))                   \
    X(test_any, weft_test_any(ctx, WEFT_INT64, a, 2, NULL, WEFT_GE, 0, &index))                    \
    X(test_some, weft_test_some(ctx, WEFT_INT64, a, 2, indices, NULL, WEFT_GE, 0, &index))         \
    X(test_all_v, weft_test_all_vector(ctx, WEFT_INT64, a, 2, NULL, WEFT_GE, zeros, &result))      \
    X(test_any_v, weft_test_any_vector(ctx, WEFT_INT64, a, 2, NULL, WEFT_GE, zeros, &index))       \
    X(test_some_v,                                                                                 \
      weft_test_some_vector(ctx, WEFT_INT64, a, 2, indices, NULL, WEFT_GE, zeros, &index))         \
    X(test_none, weft_test_all(ctx, WEFT_INT64, a, 0, NULL, WEFT_GE, 0, &result))                  \
    X(split_strided, weft_team_split_strided(world, 0, 1, 1, &made_team))                          \
    X(split_2d, weft_team_split_2d(world, 1, &made_team, &other_team))                             \
    X(barrier, weft_barrier(world))                                                                \
    X(sync, weft_sync(world))                                                                      \
    X(broadcast, weft_broadcast(world, a, b, 8, 0))                                                \
    X(broadcast_large, weft_broadcast(world, a, b, LARGE, 0))                                      \
    X(alltoall, weft_alltoall(world, a, b, 8))                                                     \
    X(alltoalls, weft_alltoalls(world, a, b, 1, 1, 8, 1))                                          \
    X(allgather, weft_allgather(world, a, b, 8))                                                   \
    X(collect, weft_collect(world, a, b, 8))                                                       \
    X(allreduce, weft_allreduce(world, a, b, 1, WEFT_INT64, WEFT_SUM))                             \
    X(allreduce_large, weft_allreduce(world, a, b, LARGE / 8, WEFT_INT64, WEFT_SUM))               \
    X(broadcast_nothing, weft_broadcast(world, a, b, 0, 0))                                        \
    X(register_symmetric, weft_register_symmetric(job, a, 8, &address))                            \
    X(unregister_symmetric, weft_unregister_symmetric(job, a))                                     \
    X(prove, weft_prove(job))

enum { LARGE = 64 * 1024 };

static void each_call(int pe)
{
    static const int64_t zeros[2];
    void *address;
    weft_ctx *made_ctx;
    weft_team *made_team, *other_team;
    uint64_t word, *flag = (uint64_t *)a + 32;
    size_t index, indices[2];
    int result, wrong = 0;
    weft_status status;
#define RETURNS(name, call)                                                                        \
    weft_fence(NULL); /* sets another message */                                                   \
    status = call;                                                                                 \
    if (status != WEFT_ERR_KERNEL || !strstr(weft_last_error(), "planted")) {                      \
        fprintf(stderr, "%s gave %s: %s\n", #name, weft_status_name(status), weft_last_error());   \
        wrong = 1;                                                                                 \
    }
    CALLS(RETURNS)
    CHECK(!wrong);
}

/* ------------------------------------------------------------------------- calls that wait */

static void *fail_soon(void *unused)
{
    usleep(30 * 1000);
    job_fail(job, WEFT_ERR_KERNEL, "planted by another thread");
    return unused;
}

/* Waits in `call` for an event that never occurs. */
#define WAITING(X)                                                                                 \
    X(barrier, weft_barrier(world))                                                                \
    X(sync, weft_sync(world))                                                                      \
    X(broadcast, weft_broadcast(world, a, b, 8, 1 - weft_my_pe(job)))                              \
    X(broadcast_large, weft_broadcast(world, a, b, LARGE, 1 - weft_my_pe(job)))                    \
    X(alltoall, weft_alltoall(world, a, b, 8))                                                     \
    X(alltoall_large, weft_alltoall(world, a, b, 1024))                                            \
    X(alltoalls, weft_alltoalls(world, a, b, 1, 1, 8, 1))                                          \
    X(allgather, weft_allgather(world, a, b, 8))                                                   \
    X(collect, weft_collect(world, a, b, 8))                                                       \
    X(allreduce, weft_allreduce(world, a, b, 1, WEFT_INT64, WEFT_SUM))                             \
    X(allreduce_large, weft_allreduce(world, a, b, LARGE / 8, WEFT_INT64, WEFT_SUM))               \
    X(wait, weft_wait_until(ctx, WEFT_INT64, a, WEFT_EQ, 7))                                       \
    X(wait_all, weft_wait_until_all(ctx, WEFT_INT64, a, 2, NULL, WEFT_EQ, 7))                      \
    X(wait_any, weft_wait_until_any(ctx, WEFT_INT64, a, 2, NULL, WEFT_EQ, 7, &index))              \
    X(wait_some, weft_wait_until_some(ctx, WEFT_INT64, a, 2, indices, NULL, WEFT_EQ, 7, &index))   \
    X(signal_wait, weft_signal_wait(ctx, (uint64_t *)a, WEFT_EQ, 7, NULL))

static weft_status wait_in(const char *name)
{
    size_t index, indices[2];
#define CALL(known, call)                                                                          \
    if (strcmp(name, #known) == 0)                                                                 \
        return call;
    WAITING(CALL)
    fprintf(stderr, "failed: no call \"%s\"\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    pthread_t thread;
    OK(weft_init(&job, NULL));
    ctx = weft_default_ctx(job);
    world = weft_team_world(job);
    int64_t *host = alloc(job, 2 * LARGE);
    void *blocks[2];
    for (int i = 0; i < 2; i++)
        OK(weft_alloc(job, argc > 2 && strcmp(argv[2], "gpu") == 0 ? WEFT_GPU : WEFT_HOST,
                      2 * LARGE, 0, WEFT_ALLOC_ZERO, &blocks[i]));
    a = blocks[0];
    b = blocks[1];
    int me = weft_my_pe(job), n = weft_n_pes(job);
    if (me == 0)
        OK(weft_p64(ctx, host, (uint64_t)getpid(), 1));
    OK(weft_barrier(world));
    pid_t other = (pid_t)host[0];
    if (me == 0)
        for (;;)
            pause(); /* never arrives */
    const char *call = argc > 1 ? argv[1] : "each";
    if (strcmp(call, "each") != 0) {
        CHECK(pthread_create(&thread, NULL, fail_soon, NULL) == 0);
        CHECK(wait_in(call) == WEFT_ERR_KERNEL);
        CHECK(strstr(weft_last_error(), "planted by another thread"));
        pthread_join(thread, NULL);
    } else {
        job_fail(job, WEFT_ERR_KERNEL, "planted");
        each_call((me + 1) % n);
    }
    FAILS(weft_finalize(job), WEFT_ERR_KERNEL, "planted");
    /* The test expects this line, because a failed job cannot end with status 0. */
    printf("every call told\n");
    kill(other, SIGKILL);
    return 0;
}
