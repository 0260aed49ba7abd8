/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory over path net whose last NIC fails during a put. The lost put requests the peer's
 * staging buffer without waiting, and before it reads the answer, another put requests the buffer
 * and waits. Quiet must not wait for the first answer, which no code reads any more. */
#include "gpu_test.h"

#include "path/net/stage.h"

#include <stdatomic.h>
#include <unistd.h>

enum { BYTES = 1 << 20 };

bool __real_net_poll_answer(struct path_common *net, uint64_t token, weft_status *status);
bool __wrap_net_poll_answer(struct path_common *net, uint64_t token, weft_status *status);

static _Atomic bool asked;

/* Delays the answer until another request knows the buffer. */
bool __wrap_net_poll_answer(struct path_common *net, uint64_t token, weft_status *status)
{
    for (int pe = 0; pe < net->world->npes; pe++)
        if (net->peers[pe].stage && net->peers[pe].stage->peer_buffer_known)
            return __real_net_poll_answer(net, token, status);
    asked = true;
    return false;
}

int main(void)
{
    weft_job *job;
    OK(weft_init(&job, NULL));
    weft_ctx *ctx = weft_default_ctx(job);
    int me = weft_my_pe(job);
    unsigned char *to = gpu_alloc(job, 2 * BYTES, WEFT_ALLOC_ZERO);
    unsigned char *from = gpu_alloc(job, 2 * BYTES, 0), *plain = malloc(2 * BYTES);
    CHECK(plain);
    make_pattern(plain, me, 2 * BYTES);
    fill(job, from, plain, 2 * BYTES);
    OK(weft_barrier(weft_team_world(job)));
    if (me == 1) {
        OK(weft_put_nbi(ctx, to, from, BYTES, 0));
        for (int i = 0; i < 60000 && !asked; i++)
            usleep(1000); /* the progress thread continues the put */
        CHECK(asked);
        OK(weft_put_nbi(ctx, to + BYTES, from + BYTES, BYTES, 0));
        OK(weft_quiet(ctx));
    }
    OK(weft_barrier(weft_team_world(job)));
    look(job, plain, to, 2 * BYTES);
    CHECK(me != 0 || pattern_end(plain, 1, 0, 2 * BYTES) == 2 * BYTES);
    free(plain);
    OK(weft_finalize(job));
    return 0;
}
