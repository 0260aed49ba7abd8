/* SPDX-License-Identifier: Apache-2.0 */
/* Shows which provider and interface path net chooses. A row has entries of libfabric's list, a
 * configuration, and the chosen entry or a part of the error. */
#include "path/net/choose.h"

#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define ALL NET_NEEDED
#define LAN "10.0.0.0/24"
#define WAN "192.0.2.0/24"

/* Entries by letter, so that a row names its list as a string. */
static const struct {
    char letter;
    struct net_provider_entry offer;
} known[] = {
    {'c', {"cxi", "cxi0", "", ALL, NET_REACH_OTHERS, 0, false, false, 0}},
    {'e', {"efa", "rdmap0-rdm", "", ALL, NET_REACH_OTHERS, 0, false, false, 0}},
    {'E', {"efa", "rdmap0-dgrm", "", ALL & ~NET_DATAGRAMS, NET_REACH_OTHERS, 0, false, false, 0}},
    {'v', {"verbs;ofi_rxm", "mlx5_0", LAN, ALL, NET_REACH_OTHERS, 4, false, false, 0}},
    {'w', {"verbs;ofi_rxm", "mlx5_1", WAN, ALL, NET_REACH_OTHERS, 4, false, false, 0}},
    {'V', {"verbs", "mlx5_0", "", ALL & ~NET_DATAGRAMS, NET_REACH_OTHERS, 4, false, false, 0}},
    {'t', {"tcp;ofi_rxm", "eth0", LAN, ALL, NET_REACH_OTHERS, 4, false, false, 0}},
    {'u', {"tcp;ofi_rxm", "eth1", WAN, ALL, NET_REACH_OTHERS, 4, false, false, 0}},
    {'6', {"tcp;ofi_rxm", "eth0", "fd00::/64", ALL, NET_REACH_OTHERS, 6, false, false, 0}},
    {'k', {"tcp;ofi_rxm", "eth0", "fe80::/64", ALL, NET_REACH_LINK, 6, false, false, 0}},
    {'l', {"tcp;ofi_rxm", "lo", "127.0.0.1/32", ALL, NET_REACH_NODE, 4, false, false, 0}},
    {'i', {"tcp;ofi_rxm", "ib0", "10.1.0.0/16", ALL, NET_REACH_OTHERS, 4, true, false, 0}},
    {'T', {"tcp", "eth0", LAN, ALL, NET_REACH_OTHERS, 4, false, false, 0}},
    {'n', {"net", "eth0", LAN, ALL, NET_REACH_OTHERS, 4, false, false, 0}},
    {'s', {"shm", "shm", "", ALL, NET_REACH_NODE, 0, false, false, 0}},
    {'o', {"sockets", "eth0", LAN, ALL, NET_REACH_OTHERS, 4, false, false, 0}},
    {'x', {"acme", "acme0", "", ALL, NET_REACH_OTHERS, 0, false, false, 0}},
    {'m', {"bare", "b0", "", ALL & ~NET_MESSAGES, NET_REACH_OTHERS, 0, false, false, 0}},
    {'r', {"bare", "b0", "", ALL & ~NET_READ, NET_REACH_OTHERS, 0, false, false, 0}},
    {'W', {"bare", "b0", "", ALL & ~NET_WRITE, NET_REACH_OTHERS, 0, false, false, 0}},
    {'1', {"tcp;ofi_rxm", "eth1", LAN, ALL, NET_REACH_OTHERS, 4, false, false, 10000}},
    {'2', {"tcp;ofi_rxm", "eth2", LAN, ALL, NET_REACH_OTHERS, 4, false, false, 25000}},
    {'3', {"tcp;ofi_rxm", "eth3", WAN, ALL, NET_REACH_OTHERS, 4, false, false, 20000}},
    {'@', {"tcp;ofi_rxm", "eth2", WAN, ALL, NET_REACH_OTHERS, 4, false, false, 25000}},
    {'d', {"tcp;ofi_rxm", "eth4", LAN, ALL, NET_REACH_OTHERS, 4, false, true, 100000}},
    {'K', {"bare", "b0", "", ALL & ~NET_KEYS, NET_REACH_OTHERS, 0, false, false, 0}},
};

static size_t make_entries(const char *letters, struct net_provider_entry *entries)
{
    size_t n = 0;
    for (; *letters; letters++)
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
            if (known[i].letter == *letters)
                entries[n++] = known[i].offer;
    return n;
}

enum { ONE_NODE = 0, NODES = 1 };

static const struct row {
    const char *offers;
    int nodes;
    const char *provider, *interface;
    char taken; /* letter of the entry; 0: an error */
    const char *sentence;
    weft_status status;
} rows[] = {
    /* the fastest class is chosen, in any order of the list */
    {"tvc", NODES, "", "", 'c', NULL, WEFT_OK},
    {"tve", NODES, "", "", 'e', NULL, WEFT_OK},
    {"tlv", NODES, "", "", 'v', NULL, WEFT_OK},
    {"lt", NODES, "", "", 't', NULL, WEFT_OK},
    {"otn", NODES, "", "", 't', NULL, WEFT_OK},
    {"ontT", NODES, "", "", 'T', NULL, WEFT_OK},
    {"os", NODES, "", "", 0, "shm on shm reaches no other node", WEFT_ERR_UNSUPPORTED},
    {"to", NODES, "sockets", "", 'o', NULL, WEFT_OK},
    {"o", NODES, "", "", 0, "libfabric lists none", WEFT_ERR_UNSUPPORTED},
    {"ts6", NODES, "", "", 't', NULL, WEFT_OK},
    {"6k", NODES, "", "", '6', NULL, WEFT_OK},
    {"k6", NODES, "", "", '6', NULL, WEFT_OK},
    {"k", NODES, "", "", 'k', NULL, WEFT_OK},
    {"Et", NODES, "", "", 't', NULL, WEFT_OK},
    {"xt", NODES, "", "", 't', NULL, WEFT_OK},
    /* a job on several nodes needs an interface that reaches other nodes; on one node the loopback
     * will do */
    {"itl", NODES, "", "", 't', NULL, WEFT_OK},
    {"il", NODES, "", "", 'i', NULL, WEFT_OK},
    {"tl", ONE_NODE, "", "", 'l', NULL, WEFT_OK},
    {"ti", ONE_NODE, "", "", 't', NULL, WEFT_OK},
    {"st", ONE_NODE, "", "", 't', NULL, WEFT_OK},
    {"s", ONE_NODE, "", "", 's', NULL, WEFT_OK},
    {"dt", NODES, "", "", 't', NULL, WEFT_OK},
    {"di", NODES, "", "", 'i', NULL, WEFT_OK},
    {"d", NODES, "", "", 'd', NULL, WEFT_OK},
    {"dt", NODES, "", "eth4", 'd', NULL, WEFT_OK},
    {"12", NODES, "", "", '2', NULL, WEFT_OK},
    /* configured */
    {"12", NODES, "", "eth1,eth2", '1', NULL, WEFT_OK},
    {"12", NODES, "", "eth2,eth1", '2', NULL, WEFT_OK},
    {"tl", NODES, "", "lo,eth0", 't', NULL, WEFT_OK},
    {"vt", NODES, "", "eth0,mlx5_0", 'v', NULL, WEFT_OK},
    {"vtl", NODES, "tcp", "", 't', NULL, WEFT_OK},
    {"vtT", NODES, "tcp", "", 'T', NULL, WEFT_OK},
    {"vtT", NODES, "tcp;ofi_rxm", "", 't', NULL, WEFT_OK},
    {"vtu", NODES, "", "eth1", 'u', NULL, WEFT_OK},
    {"vwt", NODES, "verbs", "mlx5_1", 'w', NULL, WEFT_OK},
    {"tl", NODES, "", "lo", 'l', NULL, WEFT_OK},
    {"ti", NODES, "", "ib0", 'i', NULL, WEFT_OK},
    {"st", ONE_NODE, "shm", "", 's', NULL, WEFT_OK},
    {"xt", NODES, "acme", "", 'x', NULL, WEFT_OK},
    /* an error lists the available names, each once */
    {"tul", NODES, "verbs", "", 0,
     "WEFT_FABRIC_PROVIDER is \"verbs\", which libfabric does not offer here; it offers "
     "tcp;ofi_rxm",
     WEFT_ERR_CONFIG},
    {"tvs", NODES, "tc", "", 0, "offers tcp;ofi_rxm, verbs;ofi_rxm, shm", WEFT_ERR_CONFIG},
    {"", NODES, "tcp", "", 0, "it offers none", WEFT_ERR_CONFIG},
    {"tulv", NODES, "", "eth7", 0,
     "WEFT_FABRIC_INTERFACE is \"eth7\", which libfabric does not offer here; it offers eth0, "
     "eth1, "
     "lo, mlx5_0",
     WEFT_ERR_CONFIG},
    {"tu", NODES, "", "eth1,eth,eth0", 0,
     "WEFT_FABRIC_INTERFACE names \"eth\", which libfabric does not offer here; it offers eth0, "
     "eth1",
     WEFT_ERR_CONFIG},
    {"tu", NODES, "", "eth0,,eth1", 0, "WEFT_FABRIC_INTERFACE names \"\", which", WEFT_ERR_CONFIG},
    {"tu", NODES, "", "eth0 ,eth1", 0, "names \"eth0 \", which", WEFT_ERR_CONFIG},
    {"tv", NODES, "tcp", "eth0,mlx5_0", 0,
     "names \"mlx5_0\", which provider tcp does not offer here", WEFT_ERR_CONFIG},
    {"tulv", NODES, "verbs", "eth0", 0,
     "which provider verbs does not offer here; it offers mlx5_0", WEFT_ERR_CONFIG},
    /* an error names what a provider lacks */
    {"Vt", NODES, "verbs", "", 0, "verbs has no reliable datagrams (FI_EP_RDM)", WEFT_ERR_CONFIG},
    {"m", NODES, "bare", "", 0, "bare has no messages (FI_MSG)", WEFT_ERR_CONFIG},
    {"r", NODES, "bare", "", 0, "bare has no remote reads", WEFT_ERR_CONFIG},
    {"W", NODES, "bare", "", 0, "bare has no remote writes", WEFT_ERR_CONFIG},
    {"K", NODES, "bare", "", 0, "bare has no memory keys of at most 8 bytes", WEFT_ERR_CONFIG},
    {"st", NODES, "shm", "", 0, "shm on shm reaches no other node", WEFT_ERR_CONFIG},
    {"sl", NODES, "", "", 0, "shm on shm reaches no other node", WEFT_ERR_UNSUPPORTED},
    {"sl", NODES, "", "", 0, "tcp;ofi_rxm on lo reaches no other node", WEFT_ERR_UNSUPPORTED},
    {"Et", NODES, "", "rdmap0-dgrm", 0, "efa has no reliable datagrams", WEFT_ERR_CONFIG},
    {"E", NODES, "", "", 0, "efa has no reliable datagrams", WEFT_ERR_UNSUPPORTED},
    {"", NODES, "", "", 0, "libfabric lists none", WEFT_ERR_UNSUPPORTED},
};

/* Index of the first chosen entry. */
static int first_of(const struct net_provider_entry *entries, size_t count,
                    const struct net_config *config, net_rows common, uint64_t networks)
{
    int taken[4];
    return net_choose_entries(entries, count, config, common, networks, taken, 4) ? taken[0] : -1;
}

static void every_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *row = &rows[i];
        struct net_provider_entry entries[8];
        size_t count = make_entries(row->offers, entries);
        struct net_config config = {row->provider, row->interface, row->nodes == NODES};
        net_rows common;
        weft_status status = net_choose_rows(entries, count, &config, &common);
        int taken = status ? -1 : first_of(entries, count, &config, common, 0);
        char letter = taken < 0 ? '\0' : row->offers[taken];
        if (letter != row->taken || status != row->status ||
            (row->sentence && !strstr(weft_last_error(), row->sentence)))
            fail_msg(
                "row %zu (\"%s\", provider \"%s\", interface \"%s\"): '%c', %s, \"%s\"; wanted "
                "'%c', \"%s\"",
                i, row->offers, row->provider, row->interface, letter ? letter : '-',
                weft_status_name(status), status ? weft_last_error() : "",
                row->taken ? row->taken : '-', row->sentence ? row->sentence : "");
    }
}

static net_rows rows_of(const char *letters, uint64_t *networks)
{
    struct net_provider_entry entries[8];
    size_t count = make_entries(letters, entries);
    const struct net_config config = {"", "", true};
    net_rows common = 0;
    assert_int_equal(net_choose_rows(entries, count, &config, &common), WEFT_OK);
    *networks = net_choose_networks(entries, count);
    return common;
}

/* PE 0 chooses from what both PEs have, if PE 1 has other entries. */
static void what_all_have(void **state)
{
    static const struct {
        const char *mine, *theirs;
        char taken;
    } pairs[] = {
        {"vt", "vt", 'v'}, {"vt", "t", 't'}, {"t", "vt", 't'}, {"vt", "w", 'v'}, {"ct", "vt", 't'},
        {"t6", "6", '6'},  {"t", "6", 0},    {"Tt", "t", 't'}, {"ut", "t", 't'}, {"tu", "ui", 'u'},
        {"ut", "tu", 'u'}, {"it", "i", 'i'}, {"tT", "T", 'T'},
    };
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct net_provider_entry entries[8];
        size_t count = make_entries(pairs[i].mine, entries);
        const struct net_config config = {"", "", true};
        uint64_t mine, theirs;
        net_rows common = rows_of(pairs[i].mine, &mine);
        common &= rows_of(pairs[i].theirs, &theirs);
        int taken = first_of(entries, count, &config, common, mine & theirs);
        char letter = taken < 0 ? '\0' : pairs[i].mine[taken];
        if (letter != pairs[i].taken)
            fail_msg("\"%s\" beside \"%s\": '%c' instead of '%c'", pairs[i].mine, pairs[i].theirs,
                     letter ? letter : '-', pairs[i].taken ? pairs[i].taken : '-');
    }
}

/* Lists all entries that can be chosen. Each interface is listed once, and no interface that is
 * much slower, unless the user configures it. */
static void several(void **state)
{
    static const struct {
        const char *offers, *interface, *networks, *taken;
        int most;
    } lists[] = {
        {"tu", "", "", "tu", 8},          {"tut", "", "", "tu", 8}, {"tu6l", "", "", "tu", 8},
        {"tuv", "", "", "v", 8},          {"12", "", "", "2", 8},   {"32", "", "", "32", 8},
        {"12", "eth2,eth1", "", "21", 8}, {"tud", "", "", "tu", 8}, {"tui", "", "", "tu", 8},
        {"123t", "", "", "23t", 8},       {"tu", "", "", "t", 1},   {"vw", "", "", "vw", 8},
        {"tu", "", "t", "t", 8},          {"tu", "", "i", "tu", 8}, {"2@", "", "u", "@", 8},
        {"tui", "ib0,eth0", "", "t", 8},  {"ls", "", "", "", 8},
    };
    (void)state;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        struct net_provider_entry entries[8], theirs[8];
        char got[9] = "";
        int taken[8];
        size_t count = make_entries(lists[i].offers, entries);
        uint64_t networks = net_choose_networks(theirs, make_entries(lists[i].networks, theirs));
        const struct net_config config = {"", lists[i].interface, true};
        net_rows common = 0;
        net_choose_rows(entries, count, &config, &common);
        int n = net_choose_entries(entries, count, &config, common, networks, taken, lists[i].most);
        for (int k = 0; k < n; k++)
            got[k] = lists[i].offers[taken[k]];
        if (strcmp(got, lists[i].taken) != 0)
            fail_msg("row %zu (\"%s\", \"%s\"): \"%s\" instead of \"%s\"", i, lists[i].offers,
                     lists[i].interface, got, lists[i].taken);
    }
}

static weft_status rows_for(const struct net_provider_entry *entries, size_t count,
                            const char *interface)
{
    const struct net_config config = {"", interface, true};
    net_rows rows;
    return net_choose_rows(entries, count, &config, &rows);
}

/* Each name is listed once, also if it is a part of another. A list that is cut ends in one
 * "...". */
static void names_are_listed(void **state)
{
    static const char *const names[] = {"eth10", "eth1", "xeth1", "eth1", "eth", "xeth1"};
    struct net_provider_entry entries[40];
    (void)state;
    for (size_t i = 0; i < 40; i++) {
        make_entries("t", &entries[i]);
        if (i < 6)
            strcpy(entries[i].interface, names[i]);
    }
    assert_int_equal(rows_for(entries, 6, "eth7"), WEFT_ERR_CONFIG);
    const char *list = strstr(base_last_error(), "; it offers ");
    assert_non_null(list);
    assert_string_equal(list, "; it offers eth10, eth1, xeth1, eth");
    for (int i = 0; i < 40; i++)
        snprintf(entries[i].interface, sizeof entries[i].interface, "interface-of-a-long-name-%02d",
                 i);
    assert_int_equal(rows_for(entries, 8, "eth7"), WEFT_ERR_CONFIG); /* 8 * 27 + 7 * 2 bytes */
    assert_null(strstr(base_last_error(), "..."));
    for (size_t count = 9; count <= 40; count += 31) {
        assert_int_equal(rows_for(entries, count, "eth7"), WEFT_ERR_CONFIG);
        const char *more = strstr(base_last_error(), ", interface-of-a-long-name-07");
        assert_non_null(more);
        assert_string_equal(more, ", interface-of-a-long-name-07, ...");
    }
}

/* IPv4 is preferred to IPv6, and IPv6 to other addresses. NICs with at least half the speed of the
 * fastest are chosen. */
static void families_and_speeds(void **state)
{
    struct net_provider_entry entries[4];
    net_rows rows;
    const struct net_config config = {"", "", true};
    int taken[5] = {-7, -7, -7, -7, -7};
    (void)state;
    make_entries("tttt", entries);
    for (size_t i = 0; i < 4; i++)
        snprintf(entries[i].interface, sizeof entries[i].interface, "eth%zu", i);
    entries[0].family = 0;
    entries[1].family = 6;
    net_choose_rows(entries, 2, &config, &rows);
    assert_int_equal(net_choose_entries(entries, 2, &config, rows, 0, taken, 4), 1);
    assert_int_equal(taken[0], 1);
    net_choose_rows(entries, 3, &config, &rows);
    assert_int_equal(net_choose_entries(entries, 3, &config, rows, 0, taken, 4), 1);
    assert_int_equal(taken[0], 2);
    entries[0].family = entries[1].family = 4;
    entries[0].mbps = 25000;
    entries[1].mbps = 12500;
    entries[2].mbps = 12499;
    assert_int_equal(net_choose_entries(entries, 4, &config, rows, 0, taken, 4), 3);
    assert_int_equal(taken[1], 1);
    assert_int_equal(taken[2], 3); /* its speed is unknown */
    entries[3].down = true;
    entries[3].mbps = 100000; /* the speed of a NIC that is down excludes no other NIC */
    assert_int_equal(net_choose_entries(entries, 4, &config, rows, 0, taken, 4), 2);
    entries[3].down = false;
    entries[3].mbps = 0;
    taken[1] = -7;
    assert_int_equal(net_choose_entries(entries, 4, &config, rows, 0, taken, 1), 1);
    assert_int_equal(taken[1], -7);
}

static void in_words(void **state)
{
    (void)state;
    struct net_provider_entry entries[2];
    char text[200];
    make_entries("ti", entries);
    net_entry_text(&entries[0], text, sizeof text);
    assert_string_equal(text, "provider tcp;ofi_rxm on eth0 (" LAN ")");
    net_entry_text(&entries[1], text, sizeof text);
    assert_string_equal(text, "provider tcp;ofi_rxm on ib0 (10.1.0.0/16); IP over InfiniBand: a "
                              "fraction of what RDMA on the same port gives");
    make_entries("s", entries);
    net_entry_text(&entries[0], text, sizeof text);
    assert_string_equal(text, "provider shm on shm");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row),
        cmocka_unit_test(what_all_have),
        cmocka_unit_test(several),
        cmocka_unit_test(names_are_listed),
        cmocka_unit_test(families_and_speeds),
        cmocka_unit_test(in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
