/* SPDX-License-Identifier: Apache-2.0 */
/* Choice of provider and interface. See choose.h. */
#include "path/net/choose.h"

#include "base/status.h"

#include <stdio.h>
#include <string.h>

/* The fastest class first: NICs that move memory themselves, then TCP, then what is left over.
 * "tcp" has datagrams of its own since libfabric 1.18; in 1.17 that was the provider "net", on
 * trial, and many times slower than ofi_rxm where PEs share CPUs. Shared memory is behind TCP
 * although it is faster: it reaches no other node, and a PE that is killed leaves its files in
 * /dev/shm. "sockets", which nobody maintains any more and over which few runs ended in time, is
 * not among them. */
static const char *const providers[] = {
    "cxi", "efa",         "opx", "psm3", "psm2", "verbs;ofi_rxm", "verbs;ofi_rxd",
    "tcp", "tcp;ofi_rxm", "net", "shm",  "sm2",  "udp;ofi_rxd",
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

/* Whether the list "eth0,eth1" names it. */
static bool lists(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == length && strncmp(at, name, length) == 0)
            return true;
    return false;
}

static bool wished_interface(const struct net_offer *offer, const struct net_wish *wish)
{
    return !wish->interface[0] || lists(wish->interface, offer->interface);
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

/* Each name once; where there is no room for more, "..." says so. */
static void add_name(char *list, size_t bytes, const char *name)
{
    static const char more[] = ", ...";
    size_t length = strlen(name), used = strlen(list);
    if (used >= strlen(more) && strcmp(list + used - strlen(more), more) == 0)
        return;
    for (const char *at = list; (at = strstr(at, name)) != NULL; at += length)
        if ((at == list || at[-1] == ' ') && (at[length] == ',' || at[length] == '\0'))
            return;
    if (used + length + 2 + sizeof more > bytes)
        snprintf(list + used, bytes - used, "%s", more);
    else
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

/* The first name of the list that nothing has which is wished otherwise; *length 0: all are
 * there. */
static const char *missing_interface(const struct net_offer *offers, size_t count,
                                     const struct net_wish *wish, size_t *length)
{
    const char *at = wish->interface;
    for (; *at; at += *length, at += *at == ',') {
        bool found = false;
        *length = strcspn(at, ",");
        for (size_t i = 0; i < count && !found; i++)
            found = wished_provider(&offers[i], wish) && strlen(offers[i].interface) == *length &&
                    strncmp(at, offers[i].interface, *length) == 0;
        if (!found)
            return at;
    }
    *length = 0;
    return NULL;
}

static weft_status unknown_interface(const struct net_offer *offers, size_t count,
                                     const struct net_wish *wish, const char *name, size_t length)
{
    char list[256];
    bool alone = strlen(wish->interface) == length;
    list_names(offers, count, wish->provider, list, sizeof list);
    return base_fail(
        WEFT_ERR_CONFIG,
        "WEFT_FABRIC_INTERFACE %s \"%.*s\", which %s%s does not offer here; it offers %s",
        alone ? "is" : "names", (int)length, name, wish->provider[0] ? "provider " : "libfabric",
        wish->provider, list[0] ? list : "none");
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
    bool provider = !wish->provider[0];
    size_t length;
    *rows = 0;
    for (size_t i = 0; i < count; i++) {
        provider |= wished_provider(&offers[i], wish);
        if (fits(&offers[i], wish))
            *rows |= (net_rows)1 << row_of(&offers[i]);
    }
    if (!provider)
        return unknown_provider(offers, count, wish);
    const char *missing = missing_interface(offers, count, wish, &length);
    if (missing)
        return unknown_interface(offers, count, wish, missing, length);
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
    int rank = offer->down ? 0 : 16;
    if (wish->nodes)
        rank += offer->reach == NET_REACH_OTHERS ? 8 : 0;
    else
        rank += offer->reach == NET_REACH_NODE ? 8 : 0;
    if (offer->network[0] && networks & network_bit(offer->network))
        rank += 4;
    return rank + (offer->ipoib ? 0 : 2);
}

/* What the best of those have that can be taken. */
struct best {
    int row, rank;
    uint32_t mbps;
};

static bool can_be_taken(const struct net_offer *offer, const struct net_wish *wish,
                         const struct best *best)
{
    return fits(offer, wish) && row_of(offer) == best->row;
}

static void find_best(const struct net_offer *offers, size_t count, const struct net_wish *wish,
                      uint64_t networks, struct best *best)
{
    for (size_t i = 0; i < count; i++)
        if (can_be_taken(&offers[i], wish, best) && rank(&offers[i], wish, networks) > best->rank)
            best->rank = rank(&offers[i], wish, networks);
    for (size_t i = 0; i < count && !wish->interface[0]; i++)
        if (can_be_taken(&offers[i], wish, best) &&
            rank(&offers[i], wish, networks) == best->rank && offers[i].mbps > best->mbps)
            best->mbps = offers[i].mbps;
}

static bool has_interface(const struct net_offer *offers, const int *taken, int n, const char *name)
{
    while (n-- > 0)
        if (strcmp(offers[taken[n]].interface, name) == 0)
            return true;
    return false;
}

/* Which of the names in the list it has; 0 where there is no list. */
static size_t place_in_list(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == length && strncmp(at, name, length) == 0)
            return (size_t)(at - list);
    return 0;
}

static void insert_in_order(const struct net_offer *offers, const struct net_wish *wish, int offer,
                            int *taken, int n)
{
    size_t place = place_in_list(wish->interface, offers[offer].interface);
    for (; n > 0 && place_in_list(wish->interface, offers[taken[n - 1]].interface) > place; n--)
        taken[n] = taken[n - 1];
    taken[n] = offer;
}

int net_choose_offers(const struct net_offer *offers, size_t count, const struct net_wish *wish,
                      net_rows common, uint64_t networks, int *taken, int most)
{
    struct best best = {.row = common ? __builtin_ctzll(common) : -1, .rank = -1};
    int n = 0;
    find_best(offers, count, wish, networks, &best);
    for (size_t i = 0; i < count && n < most; i++) {
        const struct net_offer *offer = &offers[i];
        bool slow = offer->mbps && offer->mbps < best.mbps / 2;
        if (can_be_taken(offer, wish, &best) && rank(offer, wish, networks) == best.rank && !slow &&
            !has_interface(offers, taken, n, offer->interface))
            insert_in_order(offers, wish, (int)i, taken, n++);
    }
    return n;
}

void net_offer_text(const struct net_offer *offer, char *text, size_t bytes)
{
    snprintf(text, bytes, "provider %s on %s%s%s%s%s", offer->provider, offer->interface,
             offer->network[0] ? " (" : "", offer->network, offer->network[0] ? ")" : "",
             offer->ipoib ? "; IP over InfiniBand: a fraction of what RDMA on the same port gives"
                          : "");
}
