/* SPDX-License-Identifier: Apache-2.0 */
/* The program's check of the calling thread's waits while it joins a job. A job has its own copy
 * from then on (job/waiter.c). Knows nothing of PEs. */
#ifndef WEFT_BASE_INTERRUPT_H
#define WEFT_BASE_INTERRUPT_H

#include <stdbool.h>
#include <stdint.h>

#include <weft.h>

/* Interval of calls of the check, in ns. */
#define INTERRUPT_EVERY_NS UINT64_C(50000000)

struct interrupt {
    int (*check)(void *arg); /* NULL: none */
    void *arg;
};

/* Sets the check of the calling thread, or returns it. */
void interrupt_set(struct interrupt interrupt);
struct interrupt interrupt_get(void);

/* Returns `wait_ns`, or, if the calling thread has a check, at most the interval of its calls. */
uint64_t interrupt_slice_ns(uint64_t wait_ns);

/* Calls the check if the calling thread has one and the interval has passed. Returns WEFT_OK, or
 * WEFT_ERR_INTERRUPTED when the check ends the wait. */
weft_status interrupt_check(void);

#endif
