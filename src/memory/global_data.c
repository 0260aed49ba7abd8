/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/global_data.h"

#include "base/status.h"

size_t global_data_size(void)
{
    return 0;
}

weft_status global_data_share(struct segment *segment, struct boot *boot)
{
    return base_fail(WEFT_ERR_UNSUPPORTED, "global data as a segment: not in this version");
}

void global_data_unshare(struct segment *segment)
{
    segment_destroy(segment);
}
