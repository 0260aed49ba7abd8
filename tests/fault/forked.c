/* SPDX-License-Identifier: Apache-2.0 */
/* A child that a PE forks is not a PE: the library refuses its calls on the parent's job, and
 * neither its exit nor its own job changes the parent's job. `weft run` starts this program. */
#include "../job/job.h"

#include <sys/wait.h>
#include <unistd.h>

static weft_job *job;
static uint64_t *area;

static void child_calls(void)
{
    weft_ctx *ctx = weft_default_ctx(job), *made;
    weft_team *world = weft_team_world(job);
    uint64_t value = 0xf00dfeedf00dfeedu;
    void *block;
    int pe = 0;
    const char *why = "forked by a PE";
    CHECK(weft_my_pe(job) == -1 && weft_n_pes(job) == -1);
    FAILS(weft_put(ctx, area, &value, 8, pe), WEFT_ERR_FINALIZED, why);
    FAILS(weft_get(ctx, &value, area, 8, pe), WEFT_ERR_FINALIZED, why);
    FAILS(weft_atomic_add64(ctx, area, 1, pe), WEFT_ERR_FINALIZED, why);
    FAILS(weft_wait_until(ctx, WEFT_UINT64, area, WEFT_EQ, 77), WEFT_ERR_FINALIZED, why);
    FAILS(weft_quiet(ctx), WEFT_ERR_FINALIZED, why);
    FAILS(weft_barrier(world), WEFT_ERR_FINALIZED, why);
    FAILS(weft_alloc(job, WEFT_HOST, 64, 0, 0, &block), WEFT_ERR_FINALIZED, why);
    FAILS(weft_ctx_create(world, 0, &made), WEFT_ERR_FINALIZED, why);
    FAILS(weft_finalize(job), WEFT_ERR_FINALIZED, why);
}

/* The child may start a job of its own. */
static void child_job(void)
{
    weft_job *own;
    OK(weft_init(&own, NULL));
    CHECK(weft_n_pes(own) == 1);
    OK(weft_barrier(weft_team_world(own)));
    OK(weft_finalize(own));
    FAILS(weft_finalize(own), WEFT_ERR_FINALIZED, "has been finalized");
}

int main(void)
{
    OK(weft_init(&job, NULL));
    int me = weft_my_pe(job), n = weft_n_pes(job), status;
    weft_ctx *ctx = weft_default_ctx(job);
    area = alloc(job, 64);
    *area = 1000 + (uint64_t)me;
    OK(weft_barrier(weft_team_world(job)));
    for (int round = 0; round < 3; round++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            child_calls();
            child_job();
            exit(0); /* runs the exit handlers, as programs do */
        }
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
        uint64_t seen = 0;
        OK(weft_get(ctx, &seen, area, 8, (me + 1) % n));
        CHECK(seen == 1000 + (uint64_t)((me + 1) % n));
        OK(weft_barrier(weft_team_world(job)));
    }
    pid_t pid = fork();
    if (pid == 0)
        weft_abort(job, 3); /* ends only this process */
    CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 3);
    OK(weft_barrier(weft_team_world(job)));
    OK(weft_finalize(job));
    return 0;
}
