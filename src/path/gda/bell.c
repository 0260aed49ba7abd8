/* SPDX-License-Identifier: Apache-2.0 */
/* Doorbells that a GPU cannot ring: it writes a word of pinned memory, and this thread writes what
 * it finds there into the adapter's register. It spins while doorbells come and sleeps the longer
 * the longer none did. Knows nothing of requests. */
#include "path/gda/gda.h"

#include "base/status.h"
#include "base/thread.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOOKS_BEFORE_SLEEP = 4000, LEAST_SLEEP_NS = 5000, MOST_SLEEP_NS = 200000 };

struct gda_bell {
    pthread_t thread;
    atomic_bool stop;
    atomic_uint count;
    struct gda_bell_line {
        const uint64_t *word;
        uint64_t *doorbell;
        uint64_t passed;
    } lines[];
};

static bool pass_on(struct gda_bell_line *line)
{
    /* Pairs with the store of whoever rings: the requests and the record were written before. */
    uint64_t value = __atomic_load_n(line->word, __ATOMIC_ACQUIRE);
    if (value == line->passed)
        return false;
    line->passed = value;
    /* A register of a device: one store of 8 bytes, behind all that was seen. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    __atomic_store_n((volatile uint64_t *)line->doorbell, value, __ATOMIC_RELEASE);
    return true;
}

static void *serve(void *argument)
{
    struct gda_bell *bell = argument;
    long sleep_ns = LEAST_SLEEP_NS;
    unsigned looks = 0;
    while (!atomic_load_explicit(&bell->stop, memory_order_relaxed)) {
        bool passed = false;
        unsigned count = atomic_load_explicit(&bell->count, memory_order_acquire);
        for (unsigned i = 0; i < count; i++)
            passed |= pass_on(&bell->lines[i]);
        if (passed) {
            looks = 0;
            sleep_ns = LEAST_SLEEP_NS;
        } else if (++looks > LOOKS_BEFORE_SLEEP) {
            nanosleep(&(struct timespec){.tv_nsec = sleep_ns}, NULL);
            sleep_ns = 2 * sleep_ns < MOST_SLEEP_NS ? 2 * sleep_ns : MOST_SLEEP_NS;
        }
    }
    return NULL;
}

weft_status gda_bell_start(struct gda_bell **result, uint32_t count)
{
    struct gda_bell *bell = calloc(1, sizeof *bell + count * sizeof bell->lines[0]);
    if (!bell)
        return base_fail(WEFT_ERR_NO_MEMORY, "path gda: no private memory for %u doorbells", count);
    int error = thread_start(&bell->thread, serve, bell);
    if (error) {
        free(bell);
        return base_fail(WEFT_ERR_SYSTEM,
                         "path gda: pthread_create of the thread for doorbells: %s",
                         strerror(error));
    }
    *result = bell;
    return WEFT_OK;
}

void gda_bell_add(struct gda_bell *bell, const uint64_t *word, uint64_t *doorbell)
{
    unsigned n = atomic_load_explicit(&bell->count, memory_order_relaxed);
    bell->lines[n] = (struct gda_bell_line){.word = word, .doorbell = doorbell};
    atomic_store_explicit(&bell->count, n + 1, memory_order_release);
}

void gda_bell_stop(struct gda_bell *bell)
{
    if (!bell)
        return;
    atomic_store(&bell->stop, true);
    pthread_join(bell->thread, NULL);
    free(bell);
}
