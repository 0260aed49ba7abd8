/* SPDX-License-Identifier: Apache-2.0 */
/* The reasons of path choices, each stored once. See choices.h. */
#include "box/choices.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

uint16_t box_reason(struct box_choices *choices, const char *text)
{
    uint32_t count = atomic_load_explicit(&choices->count, memory_order_relaxed);
    char kept[BOX_REASON_BYTES];
    if (!text[0])
        return 0;
    memset(kept, 0, sizeof kept);
    base_shorten(kept, sizeof kept, text);
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(choices->reasons[i], kept) == 0)
            return (uint16_t)(i + 1);
    if (count == BOX_REASONS)
        return BOX_REASONS;
    if (count == BOX_REASONS - 1)
        snprintf(kept, sizeof kept, "(too many reasons to keep)");
    memcpy(choices->reasons[count], kept, sizeof kept);
    /* Release: pairs with the acquire of a reader in another process, which copies the counted
     * reasons. */
    atomic_store_explicit(&choices->count, count + 1, memory_order_release);
    return (uint16_t)(count + 1);
}
