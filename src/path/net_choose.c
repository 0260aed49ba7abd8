/* SPDX-License-Identifier: Apache-2.0 */
/* Choice of provider and interface. See net_choose.h. */
#include "path/net_choose.h"

#include "base/status.h"

#include <stdio.h>
#include <string.h>

/* The fastest class first: NICs that move memory themselves, then TCP, then what is left over. "tcp" has
 * datagrams of its own since libfabric 1.18; in 1.17 that was the provider "net", on trial, and many times
 * slower than ofi_rxm where PEs share CPUs. Shared memory is behind TCP although it is faster: it
 * reaches no other node, and a PE that is killed leaves its files in /dev/shm. */
static const char *const providers[] = {
    "cxi", "efa",         "opx", "psm3", "psm2", "verbs;ofi_rxm", "verbs;ofi_rxd",
    "tcp", "tcp;ofi_rxm", "net", "shm",  "sm2",  "sockets",       "udp;ofi_rxd",
};
enum { PROVIDERS = sizeof providers / sizeof providers[0], FAMILIES = 3 };
_Static_assert(PROVIDERS *FAMILIES + FAMILIES <= 64, "a bit for every row");

static const struct {
    uint32_t ability;
    const char *text;
} abilities[] = {
    {NET_DATAGRAMS, "reliable datagrams (FI_EP_RDM)"},
    {NET_MESSAGES, "messages (FI_MSG)"},
    {NET_WRITE, "remote writes (FI_RMA, FI_REMOTE_WRITE)"},
    {NET_READ, "remote reads (FI_RMA, FI_REMOTE_READ)"},
    {NET_KEYS, "memory keys of at most 8 bytes"},
};

static const char *lacking(const struct net_offer *offer)
{
    for (size_t i = 0; i < sizeof abilities / sizeof abilities[0]; i++)
        if (!(offer->abilities & abilities[i].ability))
            return abilities[i].text;
    return NULL;
}

/* "tcp" names "tcp" and what is layered on it, "tcp;ofi_rxm". */
static bool names_provider(const char *wanted, const char *provider)
{
    size_t length = strlen(wanted);
    return strncmp(wanted, provider, length) == 0 &&
           (provider[length] == '\0' || provider[length] == ';');
}

/* A provider that is not in the table is in the last place: taken when it is asked for by name. */
static int provider_row(const char *provider)
{
    int row = 0;
    while (row < PROVIDERS && strcmp(providers[row], provider) != 0)
        row++;
    return row;
}

static int row_of(const struct net_offer *offer)
{
    int family = offer->family == 4 ? 0 : offer->family == 6 ? 1 : 2;
    return provider_row(offer->provider) * FAMILIES + family;
}

static bool wished_provider(const struct net_offer *offer, const struct net_wish *wish)
{
    return wish->provider[0] ? names_provider(wish->provider, offer->provider)
                             : provider_row(offer->provider) < PROVIDERS;
}

static bool wished_interface(const struct net_offer *offer, const struct net_wish *wish)
{
    return !wish->interface[0] || strcmp(wish->interface, offer->interface) == 0;
}

static bool reaches(const struct net_offer *offer, const struct net_wish *wish)
{
    /* Who names an interface may know better: nodes that share a kernel meet on its loopback. */
    return !wish->nodes || wish->interface[0] || offer->reach != NET_REACH_NODE;
}

static bool fits(const struct net_offer *offer, const struct net_wish *wish)
{
    return wished_provider(offer, wish) && wished_interface(offer, wish) && !lacking(offer) &&
           reaches(offer, wish);
}

/* Each name once. */
static void add_name(char *list, size_t bytes, const char *name)
{
    size_t length = strlen(name), used = strlen(list);
    for (const char *at = list; (at = strstr(at, name)) != NULL; at += length)
        if ((at == list || at[-1] == ' ') && (at[length] == ',' || at[length] == '\0'))
            return;
    snprintf(list + used, bytes - used, "%s%s", used ? ", " : "", name);
}

static void list_names(const struct net_offer *offers, size_t count, const char *provider,
                       char *list, size_t bytes)
{
    list[0] = '\0';
    for (size_t i = 0; i < count; i++)
        if (!provider)
            add_name(list, bytes, offers[i].provider);
        else if (!provider[0] || names_provider(provider, offers[i].provider))
            add_name(list, bytes, offers[i].interface);
}

static weft_status unknown_provider(const struct net_offer *offers, size_t count,
                                    const struct net_wish *wish)
{
    char list[256];
    list_names(offers, count, NULL, list, sizeof list);
    return base_fail(WEFT_ERR_CONFIG,
                     "WEFT_FABRIC_PROVIDER is \"%s\", which libfabric does not offer here; it "
                     "offers %s",
                     wish->provider, list[0] ? list : "none");
}

static weft_status unknown_interface(const struct net_offer *offers, size_t count,
                                     const struct net_wish *wish)
{
    char list[256];
    list_names(offers, count, wish->provider, list, sizeof list);
    return base_fail(
        WEFT_ERR_CONFIG,
        "WEFT_FABRIC_INTERFACE is \"%s\", which %s%s does not offer here; it offers %s",
        wish->interface, wish->provider[0] ? "provider " : "libfabric", wish->provider,
        list[0] ? list : "none");
}

/* Why a wish that names things which are there cannot be fulfilled. */
static weft_status refuse(const struct net_offer *offers, size_t count, const struct net_wish *wish)
{
    bool named = wish->provider[0] || wish->interface[0];
    weft_status status = named ? WEFT_ERR_CONFIG : WEFT_ERR_UNSUPPORTED;
    char why[384] = "";
    for (size_t i = 0; i < count; i++) {
        char one[128];
        const struct net_offer *offer = &offers[i];
        if (!wished_provider(offer, wish) || !wished_interface(offer, wish))
            continue;
        const char *lacks = lacking(offer);
        snprintf(one, sizeof one, "%s%s%s%s %s", offer->provider, lacks ? "" : " on ",
                 lacks ? "" : offer->interface, lacks ? " has no" : "",
                 lacks ? lacks : "reaches no other node");
        add_name(why, sizeof why, one);
    }
    return base_fail(status, "no provider of libfabric can be used: %s",
                     why[0] ? why : "none is offered");
}

weft_status net_choose_rows(const struct net_offer *offers, size_t count,
                            const struct net_wish *wish, net_rows *rows)
{
    bool provider = !wish->provider[0], interface = !wish->interface[0];
    *rows = 0;
    for (size_t i = 0; i < count; i++) {
        bool named = wished_provider(&offers[i], wish);
        provider |= named;
        interface |= named && wished_interface(&offers[i], wish);
        if (fits(&offers[i], wish))
            *rows |= (net_rows)1 << row_of(&offers[i]);
    }
    if (!provider)
        return unknown_provider(offers, count, wish);
    if (!interface)
        return unknown_interface(offers, count, wish);
    return *rows ? WEFT_OK : refuse(offers, count, wish);
}

static uint64_t network_bit(const char *network)
{
    uint64_t hash = 1469598103934665603u; /* FNV-1a */
    for (; *network; network++)
        hash = (hash ^ (unsigned char)*network) * 1099511628211u;
    return (uint64_t)1 << (hash >> 58);
}

uint64_t net_choose_networks(const struct net_offer *offers, size_t count)
{
    uint64_t set = 0;
    for (size_t i = 0; i < count; i++)
        if (offers[i].network[0])
            set |= network_bit(offers[i].network);
    return set;
}

/* Larger is better. */
static int rank(const struct net_offer *offer, const struct net_wish *wish, uint64_t networks)
{
    int rank = 0;
    if (wish->nodes)
        rank += offer->reach == NET_REACH_OTHERS ? 8 : 0;
    else
        rank += offer->reach == NET_REACH_NODE ? 8 : 0;
    if (offer->network[0] && networks & network_bit(offer->network))
        rank += 4;
    return rank + (offer->ipoib ? 0 : 2);
}

int net_choose_offer(const struct net_offer *offers, size_t count, const struct net_wish *wish,
                     net_rows common, uint64_t networks)
{
    int best = -1, row = common ? __builtin_ctzll(common) : -1;
    for (size_t i = 0; i < count; i++) {
        if (!fits(&offers[i], wish) || row_of(&offers[i]) != row)
            continue;
        if (best < 0 || rank(&offers[i], wish, networks) > rank(&offers[best], wish, networks))
            best = (int)i;
    }
    return best;
}

void net_offer_text(const struct net_offer *offer, char *text, size_t bytes)
{
    snprintf(text, bytes, "provider %s on %s%s%s%s%s", offer->provider, offer->interface,
             offer->network[0] ? " (" : "", offer->network, offer->network[0] ? ")" : "",
             offer->ipoib ? "; IP over InfiniBand: a fraction of what RDMA on the same port gives"
                          : "");
}
