/* SPDX-License-Identifier: Apache-2.0 */
/* Thread that rings doorbells for a GPU that cannot write the NIC's register. The GPU writes a word
 * of pinned memory, and this thread writes the value into the register. The thread spins while
 * doorbells arrive and then sleeps for increasing times. Knows nothing of WQEs. */
#include "path/gda/gda.h"

#include "base/status.h"
#include "base/thread.h"
#include "gpu/map/wc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { POLLS_BEFORE_SLEEP = 4000, MIN_SLEEP_NS = 5000, MAX_SLEEP_NS = 200000 };

struct gda_doorbell_thread {
    pthread_t thread;
    atomic_bool stop;
    atomic_uint count;
    struct gda_doorbell_entry {
        const uint64_t *word;
        uint64_t *doorbell;
        uint64_t forwarded;
    } entries[];
};

static bool forward_doorbell(struct gda_doorbell_entry *entry)
{
    /* Pairs with the store of the GPU thread that rings: it wrote the WQEs and the doorbell record
     * before. */
    uint64_t value = __atomic_load_n(entry->word, __ATOMIC_ACQUIRE);
    if (value == entry->forwarded)
        return false;
    entry->forwarded = value;
    /* The NIC must see the WQEs and the record before this store. The store must be a single one of
     * 8 bytes. */
    weft_dev_fence(WEFT_ORDER_SEQ_CST, WEFT_SCOPE_SYS);
    __atomic_store_n((volatile uint64_t *)entry->doorbell, value, __ATOMIC_RELEASE);
    wc_fence(); /* without it the store may stay in the CPU if the page combines writes */
    return true;
}

static void *forward_doorbells(void *argument)
{
    struct gda_doorbell_thread *bell = argument;
    long sleep_ns = MIN_SLEEP_NS;
    unsigned polls = 0;
    while (!atomic_load_explicit(&bell->stop, memory_order_relaxed)) {
        bool forwarded = false;
        unsigned count = atomic_load_explicit(&bell->count, memory_order_acquire);
        for (unsigned i = 0; i < count; i++)
            forwarded |= forward_doorbell(&bell->entries[i]);
        if (forwarded) {
            polls = 0;
            sleep_ns = MIN_SLEEP_NS;
        } else if (++polls > POLLS_BEFORE_SLEEP) {
            nanosleep(&(struct timespec){.tv_nsec = sleep_ns}, NULL);
            sleep_ns = 2 * sleep_ns < MAX_SLEEP_NS ? 2 * sleep_ns : MAX_SLEEP_NS;
        }
    }
    return NULL;
}

weft_status gda_doorbell_start(struct gda_doorbell_thread **result, uint32_t count)
{
    struct gda_doorbell_thread *bell = calloc(1, sizeof *bell + count * sizeof bell->entries[0]);
    if (!bell)
        return base_fail(WEFT_ERR_NO_MEMORY, "path gda: no private memory for %u doorbells", count);
    int error = thread_start(&bell->thread, forward_doorbells, bell);
    if (error) {
        free(bell);
        return base_fail(WEFT_ERR_SYSTEM,
                         "path gda: pthread_create of the thread for doorbells: %s",
                         strerror(error));
    }
    *result = bell;
    return WEFT_OK;
}

void gda_doorbell_add(struct gda_doorbell_thread *bell, const uint64_t *word, uint64_t *doorbell)
{
    unsigned n = atomic_load_explicit(&bell->count, memory_order_relaxed);
    bell->entries[n] = (struct gda_doorbell_entry){.word = word, .doorbell = doorbell};
    /* Release: pairs with forward_doorbells(), which reads the entries below the count. */
    atomic_store_explicit(&bell->count, n + 1, memory_order_release);
}

void gda_doorbell_stop(struct gda_doorbell_thread *bell)
{
    if (!bell)
        return;
    atomic_store(&bell->stop, true);
    pthread_join(bell->thread, NULL);
    free(bell);
}
