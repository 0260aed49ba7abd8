/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a context are promises of the program. A context that is private to the thread
 * that created it refuses other threads, with a message that names both threads; calls that
 * complete the contexts of all threads accept them. */
#include "job.h"

#include <pthread.h>
#include <unistd.h>

static weft_ctx *ctx;
static uint64_t *area;
static int next, checking;
static char maker[32];

/* The message names the thread that created the context and the calling thread. */
static void refused(weft_status status)
{
    char user[32];
    snprintf(user, sizeof user, "by thread %d;", (int)gettid());
    FAILS(status, WEFT_ERR_ARGUMENT, "WEFT_CTX_PRIVATE");
    CHECK(strstr(weft_last_error(), maker) && strstr(weft_last_error(), user));
}

static void *use(void *held_back)
{
    uint64_t value = 7;
    CHECK(!strstr(maker, "thread 0 "));
    refused(weft_fence(ctx));
    refused(weft_quiet(ctx));
    refused(weft_wait_until(ctx, WEFT_UINT64, area, WEFT_EQ, 0));
    if (held_back || checking) {
        refused(weft_put(ctx, area + 1, &value, 8, next));
        refused(weft_atomic_add64(ctx, area + 1, 1, next));
    }
    return NULL;
}

static void *destroy(void *unused)
{
    (void)unused;
    OK(weft_ctx_destroy(ctx));
    return NULL;
}

static void in_a_thread(void *(*function)(void *), void *argument)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, function, argument) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* A barrier of another thread completes the operations that a private context still defers. */
static void *make(void *argument)
{
    weft_ctx **made = argument;
    uint64_t value = 40 + (uint64_t)next;
    OK(weft_ctx_create(weft_ctx_team(ctx), WEFT_CTX_PRIVATE | WEFT_CTX_NOSTORE, made));
    OK(weft_put(*made, area + 2, &value, 8, next));
    return NULL;
}

int main(int argc, char **argv)
{
    weft_job *job;
    weft_init_attr attr = {.size = sizeof attr, .thread = WEFT_THREAD_MULTIPLE};
    OK(weft_init(&job, &attr));
    weft_team *world = weft_team_world(job);
    int me = weft_my_pe(job);
    next = (me + 1) % weft_n_pes(job);
    area = alloc(job, 64);
    checking = getenv("WEFT_CHECK") != NULL;
    snprintf(maker, sizeof maker, "by thread %d ", (int)gettid());
    const char *path = argc > 1 ? argv[1] : "p2p";

    OK(weft_ctx_create(world, WEFT_CTX_PRIVATE, &ctx));
    in_a_thread(use, strcmp(path, "p2p") && next != me ? area : NULL);
    OK(weft_p64(ctx, area, 1 + (uint64_t)me, next)); /* the creating thread may use it */
    OK(weft_fence(ctx));
    OK(weft_quiet(ctx));
    OK(weft_wait_until(ctx, WEFT_UINT64, area, WEFT_NE, 0));

    weft_ctx *made;
    in_a_thread(make, &made);
    OK(weft_barrier(world));
    CHECK(area[2] == 40 + (uint64_t)me && area[1] == 0);
    OK(weft_ctx_destroy(made)); /* the thread that created it has ended */
    in_a_thread(destroy, NULL);

    /* WEFT_CTX_SERIALIZED or no option: any thread may use the context. */
    for (unsigned options = 0; options <= WEFT_CTX_SERIALIZED; options++) {
        OK(weft_ctx_create(world, options, &ctx));
        OK(weft_p64(ctx, area + 3, 5, next));
        in_a_thread(destroy, NULL);
    }
    OK(weft_finalize(job));
    return 0;
}
