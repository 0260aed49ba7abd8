/* SPDX-License-Identifier: Apache-2.0 */
/* Choice of provider and interface. See choose.h. */
#include "path/net/choose.h"

#include "base/status.h"

#include <stdio.h>
#include <string.h>

/* The fastest class first: NICs that execute RMA operations themselves, then TCP, then the rest.
 * Provider "tcp" has reliable datagrams since libfabric 1.18. In 1.17 that was the experimental
 * provider "net", many times slower than ofi_rxm where PEs share CPUs. Shared memory comes after
 * TCP although it is faster: it reaches no other node, and a killed PE leaves its files in
 * /dev/shm. "sockets" is not in the table: it is no longer maintained, and few runs over it ended
 * in time. */
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

static const char *missing_ability(const struct net_provider_entry *entry)
{
    for (size_t i = 0; i < sizeof abilities / sizeof abilities[0]; i++)
        if (!(entry->abilities & abilities[i].ability))
            return abilities[i].text;
    return NULL;
}

/* "tcp" matches "tcp" and what is layered on it, "tcp;ofi_rxm". */
static bool names_provider(const char *configured, const char *provider)
{
    size_t length = strlen(configured);
    return strncmp(configured, provider, length) == 0 &&
           (provider[length] == '\0' || provider[length] == ';');
}

/* A provider outside the table has the last row: it is used only if the configuration names it. */
static int find_provider_row(const char *provider)
{
    int row = 0;
    while (row < PROVIDERS && strcmp(providers[row], provider) != 0)
        row++;
    return row;
}

static int entry_row(const struct net_provider_entry *entry)
{
    int family = entry->family == 4 ? 0 : entry->family == 6 ? 1 : 2;
    return find_provider_row(entry->provider) * FAMILIES + family;
}

static bool matches_provider(const struct net_provider_entry *entry,
                             const struct net_config *config)
{
    return config->provider[0] ? names_provider(config->provider, entry->provider)
                               : find_provider_row(entry->provider) < PROVIDERS;
}

/* Whether the list "eth0,eth1" contains the name. */
static bool list_contains(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == length && strncmp(at, name, length) == 0)
            return true;
    return false;
}

static bool matches_interface(const struct net_provider_entry *entry,
                              const struct net_config *config)
{
    return !config->interface[0] || list_contains(config->interface, entry->interface);
}

static bool reaches_nodes(const struct net_provider_entry *entry, const struct net_config *config)
{
    /* An interface that the configuration names is accepted: nodes that share a kernel can use its
     * loopback. */
    return !config->nodes || config->interface[0] || entry->reach != NET_REACH_NODE;
}

static bool matches_config(const struct net_provider_entry *entry, const struct net_config *config)
{
    return matches_provider(entry, config) && matches_interface(entry, config) &&
           !missing_ability(entry) && reaches_nodes(entry, config);
}

/* Adds each name once. "..." marks a list that is full. */
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

static void list_names(const struct net_provider_entry *entries, size_t count, const char *provider,
                       char *list, size_t bytes)
{
    list[0] = '\0';
    for (size_t i = 0; i < count; i++)
        if (!provider)
            add_name(list, bytes, entries[i].provider);
        else if (!provider[0] || names_provider(provider, entries[i].provider))
            add_name(list, bytes, entries[i].interface);
}

static weft_status fail_unknown_provider(const struct net_provider_entry *entries, size_t count,
                                         const struct net_config *config)
{
    char list[256];
    list_names(entries, count, NULL, list, sizeof list);
    return base_fail(WEFT_ERR_CONFIG,
                     "WEFT_FABRIC_PROVIDER is \"%s\", which libfabric does not offer here; it "
                     "offers %s",
                     config->provider, list[0] ? list : "none");
}

/* The first configured interface that no matching entry has. *length is the length of its name, or
 * 0 if none is missing. */
static const char *find_missing_interface(const struct net_provider_entry *entries, size_t count,
                                          const struct net_config *config, size_t *length)
{
    const char *at = config->interface;
    for (; *at; at += *length, at += *at == ',') {
        bool found = false;
        *length = strcspn(at, ",");
        for (size_t i = 0; i < count && !found; i++)
            found = matches_provider(&entries[i], config) &&
                    strlen(entries[i].interface) == *length &&
                    strncmp(at, entries[i].interface, *length) == 0;
        if (!found)
            return at;
    }
    *length = 0;
    return NULL;
}

static weft_status fail_unknown_interface(const struct net_provider_entry *entries, size_t count,
                                          const struct net_config *config, const char *name,
                                          size_t length)
{
    char list[256];
    bool alone = strlen(config->interface) == length;
    list_names(entries, count, config->provider, list, sizeof list);
    return base_fail(
        WEFT_ERR_CONFIG,
        "WEFT_FABRIC_INTERFACE %s \"%.*s\", which %s%s does not offer here; it offers %s",
        alone ? "is" : "names", (int)length, name, config->provider[0] ? "provider " : "libfabric",
        config->provider, list[0] ? list : "none");
}

/* Reports why no entry can be used, although each configured name exists. */
static weft_status fail_unusable(const struct net_provider_entry *entries, size_t count,
                                 const struct net_config *config)
{
    bool named = config->provider[0] || config->interface[0];
    weft_status status = named ? WEFT_ERR_CONFIG : WEFT_ERR_UNSUPPORTED;
    char why[384] = "";
    for (size_t i = 0; i < count; i++) {
        char one[128];
        const struct net_provider_entry *entry = &entries[i];
        if (!matches_provider(entry, config) || !matches_interface(entry, config))
            continue;
        const char *lacks = missing_ability(entry);
        snprintf(one, sizeof one, "%s%s%s%s %s", entry->provider, lacks ? "" : " on ",
                 lacks ? "" : entry->interface, lacks ? " has no" : "",
                 lacks ? lacks : "reaches no other node");
        add_name(why, sizeof why, one);
    }
    return base_fail(status, "no provider of libfabric can be used: %s",
                     why[0] ? why : "libfabric lists none");
}

weft_status net_choose_rows(const struct net_provider_entry *entries, size_t count,
                            const struct net_config *config, net_rows *rows)
{
    bool provider = !config->provider[0];
    size_t length;
    *rows = 0;
    for (size_t i = 0; i < count; i++) {
        provider |= matches_provider(&entries[i], config);
        if (matches_config(&entries[i], config))
            *rows |= (net_rows)1 << entry_row(&entries[i]);
    }
    if (!provider)
        return fail_unknown_provider(entries, count, config);
    const char *missing = find_missing_interface(entries, count, config, &length);
    if (missing)
        return fail_unknown_interface(entries, count, config, missing, length);
    return *rows ? WEFT_OK : fail_unusable(entries, count, config);
}

static uint64_t network_bit(const char *network)
{
    uint64_t hash = 1469598103934665603u; /* FNV-1a */
    for (; *network; network++)
        hash = (hash ^ (unsigned char)*network) * 1099511628211u;
    return (uint64_t)1 << (hash >> 58);
}

uint64_t net_choose_networks(const struct net_provider_entry *entries, size_t count)
{
    uint64_t set = 0;
    for (size_t i = 0; i < count; i++)
        if (entries[i].network[0])
            set |= network_bit(entries[i].network);
    return set;
}

/* The rank of an entry; the larger one is better. */
static int rank_entry(const struct net_provider_entry *entry, const struct net_config *config,
                      uint64_t networks)
{
    int rank = entry->down ? 0 : 16;
    if (config->nodes)
        rank += entry->reach == NET_REACH_OTHERS ? 8 : 0;
    else
        rank += entry->reach == NET_REACH_NODE ? 8 : 0;
    if (entry->network[0] && networks & network_bit(entry->network))
        rank += 4;
    return rank + (entry->ipoib ? 0 : 2);
}

/* Row, rank and speed of the best entries. */
struct best_entry {
    int row, rank;
    uint32_t mbps;
};

static bool is_candidate(const struct net_provider_entry *entry, const struct net_config *config,
                         const struct best_entry *best)
{
    return matches_config(entry, config) && entry_row(entry) == best->row;
}

static void find_best(const struct net_provider_entry *entries, size_t count,
                      const struct net_config *config, uint64_t networks, struct best_entry *best)
{
    for (size_t i = 0; i < count; i++)
        if (is_candidate(&entries[i], config, best) &&
            rank_entry(&entries[i], config, networks) > best->rank)
            best->rank = rank_entry(&entries[i], config, networks);
    for (size_t i = 0; i < count && !config->interface[0]; i++)
        if (is_candidate(&entries[i], config, best) &&
            rank_entry(&entries[i], config, networks) == best->rank && entries[i].mbps > best->mbps)
            best->mbps = entries[i].mbps;
}

static bool has_interface(const struct net_provider_entry *entries, const int *chosen, int n,
                          const char *name)
{
    while (n-- > 0)
        if (strcmp(entries[chosen[n]].interface, name) == 0)
            return true;
    return false;
}

/* Byte position of the name in the list; 0 if the list is empty. */
static size_t position_in_list(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == length && strncmp(at, name, length) == 0)
            return (size_t)(at - list);
    return 0;
}

static void insert_by_position(const struct net_provider_entry *entries,
                               const struct net_config *config, int index, int *chosen, int n)
{
    size_t position = position_in_list(config->interface, entries[index].interface);
    for (;
         n > 0 && position_in_list(config->interface, entries[chosen[n - 1]].interface) > position;
         n--)
        chosen[n] = chosen[n - 1];
    chosen[n] = index;
}

int net_choose_entries(const struct net_provider_entry *entries, size_t count,
                       const struct net_config *config, net_rows common, uint64_t networks,
                       int *chosen, int most)
{
    struct best_entry best = {.row = common ? __builtin_ctzll(common) : -1, .rank = -1};
    int n = 0;
    find_best(entries, count, config, networks, &best);
    for (size_t i = 0; i < count && n < most; i++) {
        const struct net_provider_entry *entry = &entries[i];
        bool slow = entry->mbps && entry->mbps < best.mbps / 2;
        if (is_candidate(entry, config, &best) &&
            rank_entry(entry, config, networks) == best.rank && !slow &&
            !has_interface(entries, chosen, n, entry->interface))
            insert_by_position(entries, config, (int)i, chosen, n++);
    }
    return n;
}

void net_entry_text(const struct net_provider_entry *entry, char *text, size_t bytes)
{
    snprintf(text, bytes, "provider %s on %s%s%s%s%s", entry->provider, entry->interface,
             entry->network[0] ? " (" : "", entry->network, entry->network[0] ? ")" : "",
             entry->ipoib ? "; IP over InfiniBand: a fraction of what RDMA on the same port gives"
                          : "");
}
