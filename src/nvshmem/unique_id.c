/* SPDX-License-Identifier: Apache-2.0 */
/* Unique ids of NVSHMEM are those of weft.h. */
#include "nvshmem/unique_id.h"

#include "base/status.h"
#include "boot/rendezvous/unique_id.h"

#include <string.h>

_Static_assert((int)UNIQUE_ID_BYTES <= (int)WEFT_NVSHMEM_ID_BYTES, "an id fits in");

WEFT_EXPORT int weft_nvshmem_unique_id(unsigned char bytes[WEFT_NVSHMEM_ID_BYTES])
{
    weft_unique_id id;
    weft_status status = weft_unique_id_get(&id);
    if (status)
        return weft_nvshmem_report(status, "nvshmemx_get_uniqueid");
    memset(bytes, 0, WEFT_NVSHMEM_ID_BYTES);
    memcpy(bytes, &id, UNIQUE_ID_BYTES);
    return 0;
}

weft_status unique_id_use(const unsigned char *bytes, int pe, int n_pes, weft_unique_id *id,
                          weft_init_attr *attr)
{
    *id = (weft_unique_id){{0}};
    memcpy(id, bytes, UNIQUE_ID_BYTES);
    if (!unique_id_good(id))
        return base_fail(WEFT_ERR_ARGUMENT,
                         "the unique id was not made by nvshmemx_get_uniqueid(), or is not "
                         "complete");
    attr->unique_id = id;
    attr->unique_id_pe = pe;
    attr->unique_id_npes = n_pes;
    return WEFT_OK;
}
