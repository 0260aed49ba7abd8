/* SPDX-License-Identifier: Apache-2.0 */
/* List of the regions that the host has started, the last first. They have no effect; a program may
 * ask whether one is active. One thread of the host uses it at a time, as all of <nvshmem.h>. */
#include "nvshmem/regions.h"

#include "base/status.h"

#include <stdlib.h>

struct region {
    uint64_t number;
    uint32_t hints;
    struct region *next;
};

static struct region *regions;
static uint64_t last_number; /* never reused in a process */

static void drop_first(void)
{
    struct region *first = regions;
    regions = first->next;
    free(first);
}

WEFT_EXPORT uint64_t weft_nvshmem_region_start(uint32_t hints)
{
    struct region *region = malloc(sizeof *region);
    if (!region)
        return 0;
    *region = (struct region){++last_number, hints, regions};
    regions = region;
    return region->number;
}

WEFT_EXPORT int weft_nvshmem_region_stop(uint64_t number)
{
    if (!regions || regions->number != number)
        return 0;
    drop_first();
    return 1;
}

WEFT_EXPORT int weft_nvshmem_region_active(uint32_t hints)
{
    for (const struct region *region = regions; region; region = region->next)
        if ((region->hints & hints) == hints)
            return 1;
    return 0;
}

void regions_end(void)
{
    while (regions)
        drop_first();
}
