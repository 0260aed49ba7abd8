/* SPDX-License-Identifier: Apache-2.0 */
/* A queue of path gda as a GPU sees it before the host has connected it: it has keys and names, but
 * no ring, and the first reservations wait for it. On simt queues have no such state, because
 * device code gets their address when they are connected. So the test takes it all away from a
 * queue of simt that has not been used, and gives it back while blocks put, add and fetch:
 *   unconnected           every value arrives, and the queue counts as used only afterwards
 *   unconnected single    the same with blocks of one thread
 *   unconnected expires   the host does not connect it: the job fails, and the queue is abandoned
 * WEFT_GDA_QUEUES=1: all blocks share the queue. */
#include "device_test.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 6, THREADS = 4, LANES = BLOCKS * THREADS, SUM = LANES, SLOTS = LANES + 1 };

WEFT_KERNEL(first, (uint64_t *, slots), (uint64_t *, seen), (int, pe))
{
    unsigned i = weft_dev_block_rank() * weft_dev_block_threads() + weft_dev_thread_rank();
    weft_thread_p64(slots + i, 0x1000 + i, pe);
    weft_thread_atomic_add64(slots + SUM, i + 1, pe);
    weft_thread_quiet();
    seen[i] = weft_thread_g64(slots + i, pe);
}

#if WEFT_HOST_CODE
struct stage {
    struct weft_dev_gda_queue *q, connected;
    uint8_t *wanted;
    uint32_t *alarm;
    uint64_t reserved, used, pe; /* what the host sees before it connects the queue */
    uint32_t raised;
};

static uint64_t word(const uint64_t *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

/* Waits until all blocks have asked, then connects the queue as the host does for a GPU. */
static void *connect_late(void *argument)
{
    struct stage *stage = argument;
    struct weft_dev_gda_queue *q = stage->q;
    while (!__atomic_load_n(stage->alarm, __ATOMIC_ACQUIRE))
        usleep(100);
    usleep(30000); /* the other blocks reserve and wait meanwhile */
    stage->raised = *stage->alarm;
    stage->pe = stage->wanted[1];
    stage->reserved = word(&q->turns) >> 32;
    stage->used = word(&weft_dev_state.gda.used[q->used_bit / 64]) >> q->used_bit % 64 & 1;
    memcpy(q, &stage->connected, offsetof(struct weft_dev_gda_queue, ready));
    __atomic_store_n(&q->ready, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Leaves what is valid from the start. */
static void disconnect(struct weft_dev_gda_queue *q)
{
    static const uint64_t none[2] = {0, (uint64_t)WEFT_DEV_GDA_CQE_NONE << 60};
    *q = (struct weft_dev_gda_queue){.completion = &none[1],
                                     .name = q->name,
                                     .used_bit = q->used_bit,
                                     .remote_keys = q->remote_keys,
                                     .local_keys = q->local_keys,
                                     .turns = q->turns};
}

static void run_first(struct stage *stage, uint64_t *slots, bool connects, unsigned threads)
{
    pthread_t thread;
    uint64_t *seen = symmetric(LANES * sizeof *seen), mine[LANES] = {0};
    barrier();
    if (me == 0) {
        struct weft_dev_gda table = weft_dev_state.gda;
        uint8_t wanted[2] = {0};
        uint32_t alarm = 0;
        stage->q = weft_dev_gda_queues_to(&weft_dev_state.gda, 1);
        stage->connected = *stage->q;
        CHECK(stage->q->turns == WEFT_DEV_GDA_UNUSED);
        stage->wanted = table.wanted = wanted;
        stage->alarm = table.alarm = &alarm;
        const struct weft_dev_gda own = weft_dev_state.gda;
        weft_dev_state.gda = table;
        disconnect(stage->q);
        CHECK(!connects || !pthread_create(&thread, NULL, connect_late, stage));
        OK(WEFT_LAUNCH(first, LANES / threads, threads, 0, NULL, slots, seen, 1));
        weft_status status = weft_stream_synchronize(NULL);
        CHECK(!connects || !pthread_join(thread, NULL));
        CHECK(connects || alarm == WEFT_DEV_GDA_ALARM_WANTED);
        CHECK(connects || stage->q->done == WEFT_DEV_GDA_FAILED);
        if (!connects && status == WEFT_ERR_TIMEOUT)
            fprintf(stderr, "the queue was abandoned: %s\n", weft_last_error());
        if (!connects)
            exit(1);
        OK(status);
        weft_dev_state.gda = own;
        fetch(mine, seen, sizeof mine);
        for (uint64_t i = 0; i < LANES; i++)
            CHECK(mine[i] == 0x1000 + i);
    }
    barrier();
}

int main(int argc, char **argv)
{
    struct stage stage = {0};
    uint64_t mine[SLOTS];
    const bool connects = argc < 2 || strcmp(argv[1], "expires") != 0;
    device_begin();
    uint64_t *slots = symmetric(SLOTS * sizeof *slots);
    run_first(&stage, slots, connects, argc > 1 && strcmp(argv[1], "single") == 0 ? 1 : THREADS);
    if (me == 0) {
        CHECK(stage.raised == WEFT_DEV_GDA_ALARM_WANTED);
        CHECK(stage.pe == 1);
        CHECK(stage.reserved > 1);
        CHECK(stage.used == 0);
    }
    fetch(mine, slots, sizeof mine);
    for (uint64_t i = 0; i < LANES && me == 1; i++)
        CHECK(mine[i] == 0x1000 + i);
    CHECK(me != 1 || mine[SUM] == LANES * (LANES + 1) / 2);
    device_end();
    return 0;
}
#endif
