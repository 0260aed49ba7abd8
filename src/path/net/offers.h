/* SPDX-License-Identifier: Apache-2.0 */
/* Between offers.c, which lists what libfabric has and compares it with other PEs, and take.c,
 * which divides the NICs of what all have. */
#ifndef WEFT_PATH_NET_OFFERS_H
#define WEFT_PATH_NET_OFFERS_H

#include "path/net/net.h"

/* What libfabric offers here. */
struct net_provider_list {
    struct fi_info *list;
    struct fi_info **info;            /* [count] in the list */
    struct net_provider_entry *entry; /* [count] */
    size_t count;
};

/* What a PE tells the others of its offers. */
struct net_exchange_record {
    net_rows rows;
    uint64_t networks;
    char lacks[PATH_LACKS_BYTES - 16]; /* when there are no rows */
};

/* What this PE opens of the lowest row that all have, and that in words. Collective. */
weft_status net_select_nics(const struct path_world *world, const struct fabric *lib,
                            const struct net_config *config,
                            const struct net_provider_list *providers,
                            const struct net_exchange_record *all_pes,
                            struct net_selection **result, char *has, size_t bytes);

#endif
