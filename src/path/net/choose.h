/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the provider and the interfaces that path net uses. It is a pure function of libfabric's
 * list, of the configuration and of what all PEs have in common. It uses no libfabric type and is
 * tested by tables. */
#ifndef WEFT_PATH_NET_CHOOSE_H
#define WEFT_PATH_NET_CHOOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft.h>

/* Abilities of a provider that path net needs. */
enum net_ability {
    NET_DATAGRAMS = 1 << 0, /* reliable datagrams to any peer over one endpoint (FI_EP_RDM) */
    NET_MESSAGES = 1 << 1,  /* FI_MSG */
    NET_WRITE = 1 << 2,     /* FI_RMA, FI_WRITE and FI_REMOTE_WRITE */
    NET_READ = 1 << 3,      /* FI_RMA, FI_READ and FI_REMOTE_READ */
    NET_KEYS = 1 << 4,      /* The provider's memory keys have at most 8 bytes. */
};
enum { NET_NEEDED = NET_DATAGRAMS | NET_MESSAGES | NET_WRITE | NET_READ | NET_KEYS };

enum net_reach {
    NET_REACH_NODE,  /* PEs of the same node only: shared memory or the loopback interface */
    NET_REACH_LINK,  /* PEs on the same link only: a link-local address (fe80::) */
    NET_REACH_OTHERS /* PEs on other nodes */
};

/* One fi_info that libfabric lists: a provider on an interface. */
struct net_provider_entry {
    char provider[64];  /* "tcp;ofi_rxm" */
    char interface[64]; /* "eth0", "mlx5_0" */
    char network[64];   /* "192.0.2.0/24"; "" if the provider does not report it */
    uint32_t abilities; /* enum net_ability */
    enum net_reach reach;
    uint8_t family; /* address family: 4, 6, or 0 for the provider's own */
    bool ipoib;     /* The interface is IP over InfiniBand. */
    bool down;      /* The link has no carrier. */
    uint32_t mbps;  /* Mbit/s; 0 if unknown */
};

/* What the configuration asks for; "" means no restriction. */
struct net_config {
    const char *provider, *interface; /* interface: one name, or a list "eth0,eth1" */
    bool nodes;                       /* The job has PEs on other nodes. */
};

/* A set of rows that PEs compare. A row is a provider of the table with an address family; bit i
 * stands for row i, and the lowest row is the fastest class. */
typedef uint64_t net_rows;

/* Finds the rows of which this PE has an entry that matches the configuration. WEFT_ERR_CONFIG: the
 * configuration names a provider or an interface that libfabric does not list, or one that lacks an
 * ability; the error text names what is there or what is missing. WEFT_ERR_UNSUPPORTED: no entry
 * matches; the error text says why for each provider. */
weft_status net_choose_rows(const struct net_provider_entry *entries, size_t count,
                            const struct net_config *config, net_rows *rows);

/* Chooses the best entries of the lowest row in `common`, the rows that all PEs have. It writes the
 * indices of at most `most` entries to `chosen`, each of another interface, in the order of the
 * configuration or else of the list, and returns their number; 0 if `common` is empty.
 *
 * The best entries have, in this order of weight: a link with carrier; the reach that the job needs
 * (other nodes, or the loopback interface if all PEs are on one node); a network in `networks`,
 * which other PEs have too; no IP over InfiniBand. Unless the configuration names interfaces, they
 * are at least half as fast as the fastest one. */
int net_choose_entries(const struct net_provider_entry *entries, size_t count,
                       const struct net_config *config, net_rows common, uint64_t networks,
                       int *chosen, int most);

/* A set of networks as bits of a hash, to compare those of several PEs. Few networks share a bit;
 * one that does only makes an interface look more common than it is. */
uint64_t net_choose_networks(const struct net_provider_entry *entries, size_t count);

/* Writes "provider tcp;ofi_rxm on eth0 (192.0.2.0/24)", with a warning for IP over InfiniBand. */
void net_entry_text(const struct net_provider_entry *entry, char *text, size_t bytes);

#endif
