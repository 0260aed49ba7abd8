/* SPDX-License-Identifier: Apache-2.0 */
/* See prove.h. */
#include "ops/coll/prove.h"

#include "base/config.h"
#include "base/log.h"
#include "gpu/stream.h"

#include <stdlib.h>
#include <string.h>

enum { PROVE_OFF_CHOICE = 2 };

/* Exchange record: what a member reports to the others. */
struct ll128_finding {
    int32_t status;
    uint32_t found; /* enum coll_proof << COLL_PROOF_SHIFT, and the member whose lines were seen */
};

bool coll_prove_wanted(void)
{
    return config_choice(CONFIG_PROVE) != PROVE_OFF_CHOICE && !config_bool(CONFIG_CHECK);
}

/* Runs the test on a stream of its own, so that no other team's work delays it. */
static weft_status run_kernel(struct gpu *gpu, struct coll_call *call, int blocks)
{
    CUstream stream;
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    CUresult result = gpu->driver.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    if (result)
        status = gpu_api_fail(&gpu->driver, result, "cuStreamCreate for the LL128 test");
    if (!status) {
        for (int i = 0; i < COLL_PROOF_ROUNDS && !status; i++)
            status = gpu_coll_launch(gpu, COLL_weft_coll_prove_lines, (unsigned)blocks,
                                     COLL_PROOF_THREADS, stream, call);
        if (!status)
            status = gpu_wait_stream(gpu, stream, "the LL128 test");
        gpu->driver.StreamDestroy(stream);
    }
    gpu_leave(&gpu->device);
    return status;
}

static const char *describe_result(enum coll_proof found)
{
    return found == COLL_PROOF_TORN  ? "torn lines"
           : found == COLL_PROOF_FEW ? "too few changed lines"
                                     : "no end of the test";
}

/* Whether two members share a GPU. Kernels of two processes on one GPU are time-sliced by the
 * millisecond and never run at the same time, so the test cannot work. Same answer at every
 * member. */
static bool share_a_gpu(const struct weft_team *team)
{
    const struct gpu *gpu = team->job->gpu;
    for (int i = 0; i < team->n; i++)
        for (int k = 0; k < i; k++) {
            const CUuuid *a = &gpu->heap.windows[gpu->slot_of[team->pes[i]]].gpu.uuid;
            const CUuuid *b = &gpu->heap.windows[gpu->slot_of[team->pes[k]]].gpu.uuid;
            if (memcmp(a, b, sizeof *a) == 0)
                return true;
        }
    return false;
}

weft_status coll_prove_ll128(struct weft_team *team, struct coll_call *call, int blocks,
                             bool *proven)
{
    struct gpu *gpu = team->job->gpu;
    const struct ll128_finding *all = team->scratch;
    struct ll128_finding mine = {0};
    uint64_t found = 0;
    *proven = false;
    if (share_a_gpu(team)) {
        if (team->me == 0)
            log_debug(LOG_COLL, "collectives of %d PEs use LL and not LL128: some PEs share a GPU",
                      team->n);
        return WEFT_OK;
    }
    weft_status status = run_kernel(gpu, call, blocks);
    if (!status)
        status = gpu_coll_read_proof(gpu, team->slot, &found);
    mine.status = (int32_t)status;
    mine.found = (uint32_t)found;
    weft_status exchanged = coll_exchange(team, BOX_OP_SYNC, &mine, team->scratch, sizeof mine);
    bool all_whole = !status && !exchanged;
    for (int i = 0; i < team->n && !exchanged; i++) {
        enum coll_proof saw = (enum coll_proof)(all[i].found >> COLL_PROOF_SHIFT);
        int of = (int)(all[i].found & ((1 << COLL_PROOF_SHIFT) - 1));
        all_whole &= saw == COLL_PROOF_GOOD;
        if (all[i].status && !status)
            status = base_fail((weft_status)all[i].status,
                               "PE %d could not prepare collectives on its GPU", team->pes[i]);
        else if (!all[i].status && saw != COLL_PROOF_GOOD && team->me == 0)
            log_debug(LOG_COLL, "collectives of %d PEs use LL and not LL128: PE %d saw %s of PE %d",
                      team->n, team->pes[i], describe_result(saw),
                      team->pes[of < team->n ? of : 0]);
    }
    if (all_whole && team->me == 0)
        log_debug(
            LOG_COLL,
            "collectives of %d PEs may use LL128 with up to %d blocks: all lines arrived whole",
            team->n, blocks);
    *proven = all_whole;
    return status ? status : exchanged;
}
