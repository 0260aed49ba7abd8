/* SPDX-License-Identifier: Apache-2.0 */
/* A PE is killed while another one's stream holds waits for its signals: all of these end, and the
 * next call reports who died. With WEFT_WAIT_LIMIT beyond the test's, none of them may expire. */
#include "tests/job/job.h"

#include "job/job.h"
#include "ops/access.h"

#include <signal.h>
#include <time.h>

#include <weft/stream.h>

enum { WAITS = 10, VICTIM = 1 };

int main(void)
{
    weft_job *job;
    void *made = NULL;
    signal(SIGTERM, SIG_IGN); /* the launcher's: the other PE ends by itself */
    OK(weft_init(&job, NULL));
    weft_status status = weft_alloc(job, WEFT_GPU, sizeof(uint64_t), 0, WEFT_ALLOC_ZERO, &made);
    if (status == WEFT_ERR_UNSUPPORTED) {
        fprintf(stderr, "skipped: %s\n", weft_last_error());
        return 77;
    }
    OK(status);
    OK(weft_barrier(weft_team_world(job)));
    if (weft_my_pe(job) == VICTIM) {
        nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL); /* the waits are queued */
        raise(SIGKILL);
    }
    const struct gpu_api *driver = &job->gpu->driver;
    CUstream stream;
    CHECK(!driver->StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    /* The stand-in of the driver makes kernels at once, so the job may have failed before the last
     * call. */
    for (uint64_t i = 0; i < WAITS && !status; i++)
        status = weft_signal_wait_on_stream(weft_default_ctx(job), made, WEFT_GE, i + 1,
                                            (weft_stream)stream);
    CHECK(!status || status == WEFT_ERR_PEER_DEAD);
    CHECK(!driver->StreamSynchronize(stream));
    status = weft_quiet(weft_default_ctx(job));
    fprintf(stderr, "PE %d got: %s: %s\n", weft_my_pe(job), weft_status_name(status),
            weft_last_error());
    return 3;
}
