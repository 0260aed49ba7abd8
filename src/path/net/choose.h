/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the ways that libfabric offers path net takes: a pure function of the list, of the
 * configuration and of what all PEs have in common, tested by tables. Knows no type of
 * libfabric. */
#ifndef WEFT_PATH_NET_CHOOSE_H
#define WEFT_PATH_NET_CHOOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft.h>

/* What a provider can do, as far as path net asks for it. */
enum net_ability {
    NET_DATAGRAMS = 1 << 0, /* reliable, to any peer, over one endpoint (FI_EP_RDM) */
    NET_MESSAGES = 1 << 1,  /* FI_MSG */
    NET_WRITE = 1 << 2,     /* FI_RMA, FI_WRITE and FI_REMOTE_WRITE */
    NET_READ = 1 << 3,      /* FI_RMA, FI_READ and FI_REMOTE_READ */
    NET_KEYS = 1 << 4,      /* a key for remote access fits 8 bytes */
};
enum { NET_NEEDED = NET_DATAGRAMS | NET_MESSAGES | NET_WRITE | NET_READ | NET_KEYS };

enum net_reach {
    NET_REACH_NODE,  /* only PEs of the same node: shared memory, the loopback interface */
    NET_REACH_LINK,  /* an address of one link (fe80::) */
    NET_REACH_OTHERS /* other nodes */
};

/* One way that libfabric offers. */
struct net_provider_entry {
    char provider[64];  /* "tcp;ofi_rxm" */
    char interface[64]; /* "eth0", "mlx5_0" */
    char network[64];   /* "192.0.2.0/24"; "" = the provider does not tell */
    uint32_t abilities; /* enum net_ability */
    enum net_reach reach;
    uint8_t family; /* of its addresses: 4, 6, or 0 for the provider's own */
    bool ipoib;     /* the interface is IP over InfiniBand */
    bool down;      /* its carrier is gone */
    uint32_t mbps;  /* 0 = not told */
};

/* What was asked for. "" = anything. */
struct net_config {
    const char *provider, *interface; /* interface: one, or several: "eth0,eth1" */
    bool nodes;                       /* some PEs are on other nodes */
};

/* The kinds of ways that PEs compare: a provider of the table with a family of addresses. Bit i of
 * such a set is row i; the lowest row is the fastest class. */
typedef uint64_t net_rows;

/* The rows of which this PE has an offer that fits the wish. WEFT_ERR_CONFIG: the wish names a
 * provider or an interface that is not offered (the sentence lists those that are), or one that
 * lacks an ability (which). WEFT_ERR_UNSUPPORTED: nothing fits (why not, for each provider). */
weft_status net_choose_rows(const struct net_provider_entry *entries, size_t count,
                            const struct net_config *config, net_rows *rows);

/* The best offers of the lowest row in `common`, which all PEs have: numbers of at most `most`
 * offers, each of another interface, in the order of the wish or else in theirs; how many. None
 * when `common` is empty. The best are those whose carrier is there before those where it is gone,
 * which reach other nodes where that is needed (the loopback interface where it is not), are of a
 * network in `networks` (those of other PEs), are not IP over InfiniBand; and, unless the wish
 * names interfaces, at least half as fast as the fastest. */
int net_choose_entries(const struct net_provider_entry *entries, size_t count,
                       const struct net_config *config, net_rows common, uint64_t networks,
                       int *chosen, int most);

/* A set of networks as bits, for comparing those of several PEs: few collide, and one that does
 * only makes an interface look more common than it is. */
uint64_t net_choose_networks(const struct net_provider_entry *entries, size_t count);

/* "provider tcp;ofi_rxm on eth0 (192.0.2.0/24)", with a warning where it is IP over InfiniBand. */
void net_entry_text(const struct net_provider_entry *entry, char *text, size_t bytes);

#endif
