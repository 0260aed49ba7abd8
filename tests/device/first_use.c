/* SPDX-License-Identifier: Apache-2.0 */
/* Quiet at the first use of a queue of path gda (finding A3). The test reserves the first block of
 * the queue and delays it, like a thread that is preempted at that point. The quiet of a thread
 * that puts after it must wait for that thread's put, so the queue must count as used as soon as
 * one of those puts has returned. WEFT_GDA_QUEUES=1: all blocks share one queue. Of four PEs on two
 * nodes, PE 1 and PE 2 do not communicate in collectives of the host: device code is the first to
 * use the queues between them. */
#include "device_test.h"

#include <unistd.h>

enum { HELD = 0, LATE = 8 }; /* words of `slots` */

struct stage {
    uint64_t reserved, quieting, early, marked;
};

/* Reserves a block, and publishes a value in it when `go` is set. */
WEFT_DEVICE void put_held_back(uint64_t *slot, uint64_t value, int pe, const uint64_t *go,
                               uint64_t *reserved)
{
    struct weft_dev_gda_operation op = weft_dev_gda_operation_of(WEFT_DEV_OP_P, slot, pe);
    struct weft_dev_gda_queue *q = weft_dev_gda_flag_queue(pe);
    uint64_t turns = weft_dev_gda_reserve(q, 1), whole = 8;
    weft_dev_store_u64(reserved, 1, WEFT_ORDER_RELEASE, WEFT_SCOPE_SYS);
    while (!weft_dev_load_u64(go, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS))
        weft_dev_nanosleep(1000);
#if WEFT_HOST_CODE
    usleep(20000); /* a quiet that does not wait returns in this time */
#endif
    weft_dev_gda_p_late(q, op, weft_dev_gda_there(q, slot, pe, &whole), value, 8, turns);
}

WEFT_KERNEL(first, (uint64_t *, slots), (struct stage *, stage), (uint64_t, value), (int, pe))
{
    if (weft_dev_block_rank() == 0) {
        put_held_back(slots + HELD, value, pe, &stage->quieting, &stage->reserved);
        return;
    }
    while (!weft_dev_load_u64(&stage->reserved, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS))
        weft_dev_nanosleep(1000);
    weft_thread_p64(slots + LATE, value, pe);
    struct weft_dev_gda_queue *q = weft_dev_gda_flag_queue(pe);
    stage->marked = weft_dev_state.gda.used[q->used_bit / 64] >> q->used_bit % 64 & 1;
    weft_dev_store_u64(&stage->quieting, 1, WEFT_ORDER_RELEASE, WEFT_SCOPE_SYS);
    weft_thread_quiet();
    stage->early = !weft_dev_gda_reached(q, weft_dev_gda_head(q));
}

#if WEFT_HOST_CODE
int main(void)
{
    device_begin();
    uint64_t *slots = symmetric(2 * LATE * sizeof *slots), seen[2 * LATE];
    struct stage *stage = symmetric(sizeof *stage), result;
    barrier();
    if (me == n_pes / 2 - 1) {
        LAUNCH(first, 2, 1, 0, NULL, slots, stage, (uint64_t)0x5eed, n_pes / 2);
        fetch(&result, stage, sizeof result);
        CHECK(result.marked == 1);
        CHECK(result.early == 0);
    }
    barrier();
    fetch(seen, slots, sizeof seen);
    CHECK(me != n_pes / 2 || (seen[HELD] == 0x5eed && seen[LATE] == 0x5eed));
    device_end();
    return 0;
}
#endif
