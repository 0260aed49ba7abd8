/* SPDX-License-Identifier: Apache-2.0 */
/* Calls every operation of a PE in a loop until the process is killed or a call fails because
 * another PE was killed. Such a call must return a status that says so, within a short time.
 * random_kills.c uses it. */
#include "../job/job.h"

#include <unistd.h>

static weft_status one_turn(weft_job *job, uint64_t *area, uint64_t turn)
{
    weft_ctx *ctx = weft_default_ctx(job);
    weft_team *world = weft_team_world(job), *team = NULL;
    int me = weft_my_pe(job), n = weft_n_pes(job), to = (me + 1) % n;
    uint64_t got;
    void *block = NULL;
    weft_status status =
        weft_put_signal(ctx, area + 8, area + 4096, 8000, area, turn, WEFT_SIGNAL_SET, to);
    if (!status)
        status = weft_signal_wait(ctx, area, WEFT_GE, turn, NULL);
    if (!status)
        status = weft_atomic_fetch_add64(ctx, area + 2, 1, &got, to);
    if (!status)
        status = weft_get(ctx, area + 4096, area + 8, 8000, to);
    if (!status)
        status = weft_barrier(world);
    if (!status)
        status = weft_allreduce(world, area + 8192, area + 4096, 1000, WEFT_UINT64, WEFT_SUM);
    if (!status)
        status = weft_broadcast(world, area + 8192, area + 4096, 40000, (int)(turn % (uint64_t)n));
    if (!status)
        status = weft_alloc(job, WEFT_HOST, 100000, 0, WEFT_ALLOC_ZERO, &block);
    if (!status)
        status = weft_team_split_strided(world, 0, 1, n, &team);
    if (!status)
        status = weft_sync(team);
    if (!status)
        status = weft_team_destroy(team);
    if (!status)
        status = weft_free(job, block);
    return status;
}

int main(void)
{
    for (;;) { /* the kill may also hit init and finalize */
        weft_job *job;
        weft_status status = weft_init(&job, NULL);
        uint64_t *area = NULL;
        if (!status)
            status = weft_alloc(job, WEFT_HOST, 200000, 0, WEFT_ALLOC_ZERO, (void **)&area);
        for (uint64_t turn = 1; turn <= 20 && !status; turn++)
            status = one_turn(job, area, turn);
        if (!status)
            status = weft_finalize(job);
        if (status) {
            fprintf(stderr, "torture: %s: %s\n", weft_status_name(status), weft_last_error());
            return status == WEFT_ERR_PEER_DEAD || status == WEFT_ERR_BOOT ? 42 : 43;
        }
    }
}
