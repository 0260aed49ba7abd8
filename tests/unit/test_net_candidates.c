/* SPDX-License-Identifier: Apache-2.0 */
/* Shows which NICs a PE reports to all PEs and which it opens, how the selection is described, and
 * when a warning says that all PEs use one NIC. Distances and the division of NICs among PEs are
 * doubles. */
#include "path/net/near.h"
#include "path/net/offers.h"

#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "unit/callocs.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { NICS = 4, PES = 3 };

static struct fi_info infos[NICS], copies[NET_RAILS], *listed[NICS];
static struct fi_fabric_attr fabrics[NICS];
static struct fi_domain_attr domains[NICS];
static struct fid_nic nics[NICS];
static struct fi_bus_attr buses[NICS];
static struct net_provider_entry entries[NICS];

static struct {
    int offered, crowd, chosen;
    struct net_config wished;
    enum net_distance nears[NICS];
    bool unplaced;
    char place[32];
    struct net_picked picked;
    struct net_candidates told;
    int told_pe, copied, freed, copies_left;
    weft_status agreed;
    const char *visible, *gpu;
    int local_pe, cpus;
    char warning[512];
    int near_calls;
} d;

int __wrap_net_choose_entries(const struct net_provider_entry *of, size_t count,
                              const struct net_config *config, net_rows common, uint64_t networks,
                              int *taken, int most);
int __wrap_net_choose_entries(const struct net_provider_entry *of, size_t count,
                              const struct net_config *config, net_rows common, uint64_t networks,
                              int *taken, int most)
{
    assert_ptr_equal(of, entries);
    assert_int_equal(count, NICS);
    assert_int_equal(common, 5);
    assert_int_equal(networks, 6);
    assert_int_equal(most, NET_CANDIDATES);
    d.wished = *config;
    int n = d.chosen++ ? d.crowd : d.offered;
    for (int i = 0; i < n; i++)
        taken[i] = NICS - 1 - i; /* the last entry first */
    return n;
}

void __wrap_net_locate_pe(const char *root, int local_pe, const char *wanted, const char *visible,
                          const cpu_set_t *cpus, struct net_pe_location *spot);
void __wrap_net_locate_pe(const char *root, int local_pe, const char *wanted, const char *visible,
                          const cpu_set_t *cpus, struct net_pe_location *spot)
{
    assert_string_equal(root, "");
    d.local_pe = local_pe;
    d.gpu = wanted;
    d.visible = visible;
    d.cpus = CPU_COUNT(cpus);
    *spot = (struct net_pe_location){.text = "GPU 0000:3b:00.0"};
}

int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
    assert_int_equal(pid, 0);
    assert_int_equal(bytes, sizeof *set);
    assert_int_equal(CPU_COUNT(set), 0);
    CPU_SET(2, set);
    CPU_SET(5, set);
    return 0;
}

enum net_distance __wrap_net_find_distance(const struct net_pe_location *spot,
                                           const struct net_device_location *nic);
enum net_distance __wrap_net_find_distance(const struct net_pe_location *spot,
                                           const struct net_device_location *nic)
{
    assert_string_equal(spot->text, "GPU 0000:3b:00.0");
    assert_int_equal(nic->numa, d.unplaced ? -1 : 1);
    return d.nears[d.near_calls++];
}

static bool place(const char *root, const char *name, struct net_device_location *at)
{
    assert_string_equal(root, "");
    snprintf(d.place, sizeof d.place, "%s", name);
    at->numa = d.unplaced ? -1 : 1;
    return !d.unplaced;
}

bool __wrap_net_locate_interface(const char *root, const char *name,
                                 struct net_device_location *at);
bool __wrap_net_locate_interface(const char *root, const char *name, struct net_device_location *at)
{
    return place(root, name, at);
}

bool __wrap_net_locate_pci(const char *root, const char *address, struct net_device_location *at);
bool __wrap_net_locate_pci(const char *root, const char *address, struct net_device_location *at)
{
    return place(root, address, at);
}

static bool cpus_known;
bool __wrap_net_cpus_at(const char *root, const struct net_device_location *at, cpu_set_t *cpus);
bool __wrap_net_cpus_at(const char *root, const struct net_device_location *at, cpu_set_t *cpus)
{
    assert_string_equal(root, "");
    assert_int_equal(at->numa, 1);
    CPU_ZERO(cpus);
    CPU_SET(7, cpus);
    return cpus_known;
}

static struct boot boot;

void __wrap_net_pick(const struct net_candidates *all, const int *node_of, int npes, int pe,
                     struct net_picked *picked);
void __wrap_net_pick(const struct net_candidates *all, const int *node_of, int npes, int pe,
                     struct net_picked *picked)
{
    assert_ptr_equal(node_of, boot.node_of);
    assert_int_equal(npes, PES);
    assert_int_equal(all[0].count, 77);
    assert_memory_equal(&all[1], &d.told, sizeof d.told);
    d.told_pe = pe;
    *picked = d.picked;
}

weft_status __wrap_boot_agree(struct boot *with, weft_status status);
weft_status __wrap_boot_agree(struct boot *with, weft_status status)
{
    assert_ptr_equal(with, &boot);
    return status ? status : d.agreed;
}

static weft_status gather_status;
static weft_status gather(struct boot *with, const void *mine, void *to, size_t bytes)
{
    struct net_candidates *all = to;
    assert_ptr_equal(with, &boot);
    assert_int_equal(bytes, sizeof d.told);
    memcpy(&d.told, mine, bytes);
    all[0].count = 77;
    all[1] = d.told;
    return gather_status;
}

static struct fi_info *copy(const struct fi_info *info)
{
    assert_null(info->next);
    if (!d.copies_left--)
        return NULL;
    copies[d.copied] = *info;
    return &copies[d.copied++];
}

static void forget(struct fi_info *info)
{
    assert_true(info >= copies && info < copies + NET_RAILS);
    d.freed++;
}

static struct fabric lib = {.dupinfo = copy, .freeinfo = forget};
static weft_status open_status;

weft_status __wrap_fabric_open(const struct fabric **found);
weft_status __wrap_fabric_open(const struct fabric **found)
{
    *found = &lib;
    return open_status;
}

void __wrap_log_line(enum log_level level, enum log_subsystem subsystem, const char *format, ...);
void __wrap_log_line(enum log_level level, enum log_subsystem subsystem, const char *format, ...)
{
    va_list arguments;
    (void)level;
    va_start(arguments, format);
    vsnprintf(d.warning, sizeof d.warning, format, arguments);
    va_end(arguments);
}

/* --------------------------------------------------------------------------------------- set-up */

static int node_of[PES] = {0, 0, 1};
static const struct boot_ops boot_ops = {.name = "three", .allgather = gather};
static struct boot boot = {
    .ops = &boot_ops, .npes = PES, .local_npes = 2, .local_pe = 1, .node_of = node_of};
static struct path_world world = {.pe = 1, .npes = PES, .boot = &boot};
static struct net_config config;
static char has[512];
static struct net_selection *selection;
static char verbs[] = "verbs;ofi_rxm", tcp[] = "tcp";
static int blocks_before;

static int prepare(void **context)
{
    static const char *const variables[] = {"WEFT_RAILS", "WEFT_GPU", "WEFT_TARGET",
                                            "CUDA_VISIBLE_DEVICES"};
    (void)context;
    for (int i = 0; i < 4; i++)
        unsetenv(variables[i]);
    config_reset();
    memset(&d, 0, sizeof d);
    for (int i = 0; i < NICS; i++) {
        fabrics[i] = (struct fi_fabric_attr){.prov_name = verbs};
        domains[i] = (struct fi_domain_attr){.mr_key_size = 8};
        buses[i] = (struct fi_bus_attr){.bus_type = FI_BUS_UNKNOWN};
        nics[i] = (struct fid_nic){.bus_attr = &buses[i]};
        infos[i] = (struct fi_info){.fabric_attr = &fabrics[i],
                                    .domain_attr = &domains[i],
                                    .nic = &nics[i],
                                    .next = &infos[0]};
        listed[i] = &infos[i];
        entries[i] = (struct net_provider_entry){.mbps = 25000 + (uint32_t)i};
        snprintf(entries[i].provider, sizeof entries[i].provider, "p");
        snprintf(entries[i].interface, sizeof entries[i].interface, "nic%d", i);
        d.nears[i] = NET_DISTANCE_PXB;
    }
    d.offered = NICS;
    d.copies_left = NET_RAILS;
    d.picked = (struct net_picked){.count = 1, .equally_near = 1};
    config = (struct net_config){.provider = "p", .interface = "", .nodes = true};
    boot.local_pe = 1;
    gather_status = open_status = WEFT_OK;
    cpus_known = true;
    callocs.left = -1;
    blocks_before = callocs.memory;
    return 0;
}

static weft_status take(void)
{
    const struct net_provider_list all = {.info = listed, .entry = entries, .count = NICS};
    const struct net_exchange_record both = {.rows = 5, .networks = 6};
    selection = NULL;
    has[0] = '\0';
    return net_select_nics(&world, &lib, &config, &all, &both, &selection, has, sizeof has);
}

static int finish(void **context)
{
    (void)context;
    net_free_selection(selection);
    selection = NULL;
    assert_int_equal(callocs.memory, blocks_before);
    return 0;
}

/* ---------------------------------------------------------------------------------------- tests */

static void candidates_are_exchanged_as_hashes(void **context)
{
    static struct sockaddr_in in[2];
    static struct sockaddr_in6 in6;
    (void)context;
    in[0].sin_addr.s_addr = htonl(0x0a000001);
    in[1].sin_addr.s_addr = htonl(0x0a000101);
    in6.sin6_addr.s6_addr[15] = 9;
    infos[3].addr_format = infos[2].addr_format = FI_SOCKADDR_IN;
    infos[3].src_addr = &in[0];
    infos[2].src_addr = &in[1];
    infos[1].addr_format = FI_SOCKADDR_IN6;
    infos[1].src_addr = &in6;
    infos[0].addr_format = FI_SOCKADDR_IN6;
    strcpy(entries[3].network, "10.0.0.0/24");
    strcpy(entries[1].network, "10.0.0.0/24");
    d.nears[1] = NET_DISTANCE_SYS;
    setenv("WEFT_RAILS", "3", 1);
    config_reset();
    assert_int_equal(take(), WEFT_OK);
    const struct net_candidate *list = d.told.list;
    assert_int_equal(d.told.count, NICS);
    assert_int_equal(d.told.requested_rails, 3);
    assert_int_equal(d.told_pe, 1);
    for (int i = 0; i < NICS; i++) {
        assert_int_equal(list[i].mbps, 25003 - i);
        assert_int_equal(list[i].distance, i == 1 ? NET_DISTANCE_SYS : NET_DISTANCE_PXB);
        for (int k = 0; k < i; k++)
            assert_int_not_equal(list[i].name, list[k].name);
    }
    /* The FNV-1a hash of the name, which every PE computes alike. */
    assert_int_equal(list[3].name, 0xc15a6914f89341b1u);
    assert_int_not_equal(list[0].network, 0);
    assert_int_equal(list[0].network, list[2].network);
    assert_int_equal(list[1].network, 0);
    assert_int_not_equal(list[0].address, 0);
    assert_int_not_equal(list[0].address, list[1].address);
    assert_int_not_equal(list[2].address, 0);
    assert_int_equal(list[3].address, 0);
}

static void slow_nics_that_a_cpu_drives_spread(void **context)
{
    (void)context;
    fabrics[0].prov_name = fabrics[1].prov_name = tcp;
    entries[1].mbps = 25000;
    entries[0].mbps = 25001;
    fabrics[2].prov_name = tcp;
    entries[2].mbps = 0;
    assert_int_equal(take(), WEFT_OK);
    static const bool spreads[] = {true, false, true, false};
    for (int i = 0; i < NICS; i++)
        assert_int_equal(d.told.list[i].spreads, spreads[i]);
    finish(NULL);
    prepare(NULL);
    d.unplaced = true;
    fabrics[0].prov_name = fabrics[1].prov_name = tcp;
    entries[1].mbps = 1000;
    assert_int_equal(take(), WEFT_OK);
    assert_false(d.told.list[2].spreads);
    assert_true(d.told.list[1].spreads);
}

static void a_nic_is_where_its_bus_or_its_name_says(void **context)
{
    struct path_common net = {.rail_count = 1};
    cpu_set_t cpus;
    (void)context;
    d.offered = 1;
    assert_int_equal(take(), WEFT_OK);
    assert_string_equal(d.place, "nic3");
    finish(NULL);
    buses[3].bus_type = FI_BUS_PCI;
    buses[3].attr.pci = (struct fi_pci_attr){1, 0x3b, 0x1c, 2};
    d.chosen = d.near_calls = 0;
    assert_int_equal(take(), WEFT_OK);
    assert_string_equal(d.place, "0001:3b:1c.2");
    finish(NULL);
    infos[3].nic = NULL;
    d.chosen = d.near_calls = 0;
    assert_int_equal(take(), WEFT_OK);
    assert_string_equal(d.place, "nic3");
    /* The CPUs next to the first NIC. */
    assert_false(net_cpus(&net, &cpus));
    net.rails[0].info = &infos[2];
    domains[2].name = verbs;
    assert_true(net_cpus(&net, &cpus));
    assert_true(CPU_ISSET(7, &cpus));
    assert_string_equal(d.place, verbs);
    cpus_known = false;
    assert_false(net_cpus(&net, &cpus));
    d.unplaced = cpus_known = true;
    assert_false(net_cpus(&net, &cpus));
}

static void a_pe_is_where_it_computes(void **context)
{
    (void)context;
    setenv("WEFT_GPU", "1,0", 1);
    setenv("CUDA_VISIBLE_DEVICES", "3", 1);
    config_reset();
    assert_int_equal(take(), WEFT_OK);
    assert_string_equal(d.gpu, "1,0");
    assert_string_equal(d.visible, "3");
    assert_int_equal(d.local_pe, 1);
    assert_int_equal(d.cpus, 2);
    finish(NULL);
    prepare(NULL);
    setenv("CUDA_VISIBLE_DEVICES", "3", 1);
    setenv("WEFT_TARGET", "simt", 1);
    config_reset();
    assert_int_equal(take(), WEFT_OK);
    assert_string_equal(d.visible, "");
    finish(NULL);
    prepare(NULL);
    assert_int_equal(take(), WEFT_OK);
    assert_null(d.visible);
}

static void the_selection_is_described(void **context)
{
    static const struct {
        int offered, home, count, rails[3], equal;
        enum net_distance near;
        int kept[3], keeps;
        bool home_carries;
        const char *says;
    } rows[] = {
        {1, 0, 1, {0}, 1, NET_DISTANCE_PIX, {3}, 1, true, ""},
        {4,
         0,
         1,
         {0},
         1,
         NET_DISTANCE_PIX,
         {3},
         1,
         true,
         "; of 4 the nearest to GPU 0000:3b:00.0 (PIX)"},
        {4,
         0,
         1,
         {0},
         2,
         NET_DISTANCE_PXB,
         {3},
         1,
         true,
         "; one of 2 as near to GPU 0000:3b:00.0 (PXB)"},
        {4, 1, 1, {1}, 1, NET_DISTANCE_UNKNOWN, {2}, 1, true, "; one of 4 at unknown distance"},
        {1, 0, 1, {0}, 1, NET_DISTANCE_UNKNOWN, {3}, 1, true, ""},
        {4, 0, 1, {2}, 1, NET_DISTANCE_SYS, {3, 1}, 2, false, "; large transfers over nic1"},
        {4,
         0,
         2,
         {0, 2},
         2,
         NET_DISTANCE_PIX,
         {3, 1},
         2,
         true,
         "; one of 2 as near to GPU 0000:3b:00.0 (PIX); large transfers over nic3,nic1"},
        {4,
         1,
         3,
         {0, 2, 1},
         3,
         NET_DISTANCE_PIX,
         {2, 3, 1},
         3,
         true,
         "; large transfers over nic3,nic1,nic2"},
    };
    (void)context;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        finish(NULL);
        prepare(NULL);
        d.offered = rows[i].offered;
        d.nears[rows[i].home] = rows[i].near;
        d.picked.first_rail = rows[i].home;
        d.picked.count = rows[i].count;
        d.picked.equally_near = rows[i].equal;
        memcpy(d.picked.rails, rows[i].rails, sizeof rows[i].rails);
        assert_int_equal(take(), WEFT_OK);
        char expected[256];
        snprintf(expected, sizeof expected, "provider p on nic%d%s", rows[i].kept[0], rows[i].says);
        assert_string_equal(has, expected);
        assert_int_equal(selection->count, rows[i].keeps);
        assert_int_equal(selection->first_rail_carries, rows[i].home_carries);
        for (int k = 0; k < rows[i].keeps; k++) {
            assert_ptr_equal(selection->info[k]->domain_attr, &domains[rows[i].kept[k]]);
            assert_int_equal(selection->mbps[k], 25000 + rows[i].kept[k]);
        }
        net_free_selection(selection);
        assert_int_equal(d.freed, rows[i].keeps);
        selection = NULL;
    }
}

static void a_pe_keeps_no_more_than_it_can_open(void **context)
{
    (void)context;
    d.picked = (struct net_picked){.first_rail = 0, .count = NET_RAILS, .equally_near = 1};
    for (int i = 0; i < NET_RAILS; i++)
        d.picked.rails[i] = 1;
    assert_int_equal(take(), WEFT_OK);
    assert_int_equal(selection->count, NET_RAILS);
    assert_false(selection->first_rail_carries);
}

static void failures_are_reported(void **context)
{
    (void)context;
    d.picked.first_rail = -1;
    assert_int_equal(take(), WEFT_OK);
    assert_null(selection);
    d.picked.first_rail = d.chosen = d.near_calls = 0;
    d.agreed = WEFT_ERR_PEER_DEAD;
    assert_int_equal(take(), WEFT_ERR_PEER_DEAD);
    d.agreed = WEFT_OK;
    d.chosen = d.near_calls = 0;
    gather_status = WEFT_ERR_TIMEOUT;
    assert_int_equal(take(), WEFT_ERR_TIMEOUT);
    assert_null(selection);
    gather_status = WEFT_OK;
    static const char *const texts[] = {"no private memory for 3 PEs",
                                        "no private memory for a list of NICs"};
    for (int i = 0; i < 2; i++) {
        d.chosen = d.near_calls = 0;
        callocs.left = i;
        assert_int_equal(take(), WEFT_ERR_NO_MEMORY);
        assert_string_equal(base_last_error(), texts[i]);
        assert_null(selection);
        assert_int_equal(callocs.memory, blocks_before);
    }
    callocs.left = -1;
    /* If libfabric cannot be loaded, nothing is freed. */
    d.chosen = d.near_calls = 0;
    d.copies_left = 0;
    assert_int_equal(take(), WEFT_ERR_NO_MEMORY);
    assert_string_equal(base_last_error(), "fi_dupinfo: no memory");
    finish(NULL);
    assert_int_equal(d.freed, 0);
    prepare(NULL);
    take();
    open_status = WEFT_ERR_UNSUPPORTED;
    finish(NULL);
    assert_int_equal(d.freed, 0);
}

static void one_pe_of_a_node_warns_of_a_crowd(void **context)
{
    static const struct {
        bool crowded, nodes;
        int local_pe, usable;
        const char *interface, *end;
    } rows[] = {
        {true, true, 0, 2, "", "or set WEFT_RAILS=2 or more to spread large transfers"},
        {true, true, 0, 3, "nic3", "or unset it, so that each PE takes the nearest"},
        {false, true, 0, 2, "", NULL},
        {true, false, 0, 2, "", NULL},
        {true, true, 1, 2, "", NULL},
        {true, true, 0, 1, "", NULL},
    };
    (void)context;
    for (int i = 0; i < 6; i++) {
        finish(NULL);
        prepare(NULL);
        d.picked.all_on_one_nic = rows[i].crowded;
        config.nodes = rows[i].nodes;
        config.interface = rows[i].interface;
        boot.local_pe = rows[i].local_pe;
        d.crowd = rows[i].usable;
        assert_int_equal(take(), WEFT_OK);
        assert_int_equal(d.warning[0] != 0, rows[i].end != NULL);
        if (!rows[i].end)
            continue;
        assert_non_null(strstr(d.warning, rows[i].usable == 3
                                              ? "all 2 PEs of this node use nic3 alone, while "
                                                "nic3,nic2,nic1 can be used; "
                                              : "all 2 PEs of this node use nic3 alone, while "
                                                "nic3,nic2 can be used; "));
        assert_non_null(strstr(d.warning, rows[i].end));
        assert_string_equal(d.wished.interface, "");
        assert_string_equal(d.wished.provider, "p");
        assert_true(d.wished.nodes);
    }
}

#define test(name) cmocka_unit_test_setup_teardown(name, prepare, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(candidates_are_exchanged_as_hashes),
        test(slow_nics_that_a_cpu_drives_spread),
        test(a_nic_is_where_its_bus_or_its_name_says),
        test(a_pe_is_where_it_computes),
        test(the_selection_is_described),
        test(a_pe_keeps_no_more_than_it_can_open),
        test(failures_are_reported),
        test(one_pe_of_a_node_warns_of_a_crowd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
