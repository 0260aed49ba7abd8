/* SPDX-License-Identifier: Apache-2.0 */
/* The second translation unit of units.c, with a kernel and a copy of the state of its own. */
#include "units.h"

WEFT_KERNEL(tell_other, (struct told *, told), (int, next))
{
    told->me = weft_dev_my_pe();
    told->n_pes = weft_dev_n_pes();
    weft_thread_p64(&told->reached, 2000 + (uint64_t)weft_dev_my_pe(), next);
}

#if WEFT_HOST_CODE
weft_status other_unit(struct told *told, int next)
{
    return WEFT_LAUNCH(tell_other, 1, 1, 0, NULL, told, next);
}
#endif
