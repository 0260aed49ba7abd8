/* SPDX-License-Identifier: Apache-2.0 */
/* A library with device code that units.c loads while its job runs. */
#include "units.h"

WEFT_KERNEL(tell_loaded, (struct told *, told), (int, next))
{
    told->me = weft_dev_my_pe();
    told->n_pes = weft_dev_n_pes();
    weft_thread_p64(&told->reached, 3000 + (uint64_t)weft_dev_my_pe(), next);
}

#if WEFT_HOST_CODE
weft_status loaded_unit(struct told *told, int next);
weft_status loaded_unit(struct told *told, int next)
{
    return WEFT_LAUNCH(tell_loaded, 1, 1, 0, NULL, told, next);
}
#endif
