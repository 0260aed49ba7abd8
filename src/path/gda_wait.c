/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a queue of path gda that the host looks at, and why one has failed, in words. */
#include "path/gda.h"

#include "base/status.h"
#include "path/gda_error.h"

#include <time.h>

/* A queue that fails because its peer has ended fails for that: the launcher gets time to tell. */
static weft_status failed(const struct gda *gda, const struct weft_dev_gda_queue *q, int pe,
                          struct path_wait *wait)
{
    enum { LOOKS = 25, PAUSE_NS = 20 * 1000 * 1000 };
    const char *name = gda->links[q - gda->queues].adapter->name;
    uint64_t last = __atomic_load_n(q->completion, __ATOMIC_ACQUIRE);
    if (weft_dev_gda_cqe_opcode(last) != WEFT_DEV_GDA_CQE_ERROR)
        return base_fail(
            WEFT_ERR_TIMEOUT,
            "path gda: the host's queue to PE %d (queue pair %#x of %s, port %d) was given up when a "
            "wait for room in it had expired",
            pe, q->number, name, GDA_PORT);
    uint64_t word = __atomic_load_n(q->completion - 1, __ATOMIC_RELAXED);
    unsigned syndrome = (unsigned)(word >> 56), vendor = (unsigned)(word >> 48 & 0xff);
    for (int i = 0; i < LOOKS; i++) {
        weft_status status = path_wait_step(wait, (uint64_t)i);
        if (status)
            return status;
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
    return base_fail(
        WEFT_ERR_PATH,
        "path gda: the host's queue to PE %d (queue pair %#x of %s, port %d) has failed: "
        "%s (syndrome %#04x, vendor %#04x)",
        pe, q->number, name, GDA_PORT, gda_syndrome_text(syndrome), syndrome, vendor);
}

weft_status gda_await(const struct gda *gda, struct weft_dev_gda_queue *q, int pe, uint64_t target,
                      enum box_operation operation)
{
    uint64_t done = weft_dev_gda_look(q);
    if (done != WEFT_DEV_GDA_FAILED && done >= target)
        return WEFT_OK;
    struct path_wait wait = {
        .world = gda->world, .operation = operation, .pe = pe, .expected = target};
    weft_status status = WEFT_OK;
    while (!status && done != WEFT_DEV_GDA_FAILED && done < target) {
        status = path_wait_step(&wait, done);
        done = weft_dev_gda_look(q);
    }
    if (!status && done == WEFT_DEV_GDA_FAILED)
        status = failed(gda, q, pe, &wait);
    path_wait_end(&wait);
    return status;
}
