/* SPDX-License-Identifier: Apache-2.0 */
#include "base/interrupt.h"

#include "base/clock.h"
#include "base/status.h"

static _Thread_local struct interrupt current;
static _Thread_local uint64_t called_ns; /* clock at the last call of the check */

void interrupt_set(struct interrupt interrupt)
{
    current = interrupt;
}

struct interrupt interrupt_get(void)
{
    return current;
}

uint64_t interrupt_slice_ns(uint64_t wait_ns)
{
    return current.check && wait_ns > INTERRUPT_EVERY_NS ? INTERRUPT_EVERY_NS : wait_ns;
}

weft_status interrupt_check(void)
{
    if (!current.check)
        return WEFT_OK;
    uint64_t now = clock_now_ns();
    if (now - called_ns < INTERRUPT_EVERY_NS)
        return WEFT_OK;
    called_ns = now;
    if (!current.check(current.arg))
        return WEFT_OK;
    return base_fail(WEFT_ERR_INTERRUPTED,
                     "weft_init waited for the other PEs; the program's check ended the wait");
}
