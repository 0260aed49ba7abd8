/* SPDX-License-Identifier: Apache-2.0 */
/* Between offers.c, which lists libfabric's providers and compares them with those of other PEs,
 * and take.c, which divides the NICs of a node among its PEs. */
#ifndef WEFT_PATH_NET_OFFERS_H
#define WEFT_PATH_NET_OFFERS_H

#include "path/net/net.h"

/* The providers that libfabric lists on this PE. */
struct net_provider_list {
    struct fi_info *list;
    struct fi_info **info;            /* [count] elements of `list` */
    struct net_provider_entry *entry; /* [count] the same as Weft's entries */
    size_t count;
};

/* The record of one PE in the exchange about providers. */
struct net_exchange_record {
    net_rows rows;
    uint64_t networks;
    uint64_t encrypted;                /* 1: the configuration asks for encryption */
    char lacks[PATH_LACKS_BYTES - 16]; /* why, if `rows` is empty */
};

/* Selects the NICs that this PE opens, out of the lowest row that all PEs have, and describes the
 * selection in `has`. Collective over all PEs of the job. */
weft_status net_select_nics(const struct path_world *world, const struct fabric *lib,
                            const struct net_config *config,
                            const struct net_provider_list *providers,
                            const struct net_exchange_record *all_pes,
                            struct net_selection **result, char *has, size_t bytes);

#endif
