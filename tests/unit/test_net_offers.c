/* SPDX-License-Identifier: Apache-2.0 */
/* Shows the hints for libfabric, the entries made of its list, and what all PEs have in common.
 * Libfabric is a double; the test is PE 1 of three. */
#include "path/net/offers.h"

#include "base/config.h"
#include "base/status.h"
#include "path/net/near.h"
#include "unit/callocs.h"

#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>

enum { PES = 3, ENTRIES = 5 };

/* --------------------------------------------------------------------------------- the library */

static struct {
    int getinfos, errors[2]; /* by call */
    bool no_hints;
    int dups, frees;
    char universe[16], receives[16];
    struct fi_info hints;
    bool hinted[2];
    uint32_t version;
} f;

static struct fi_info infos[ENTRIES], more[2], hints_made;
static struct fi_fabric_attr fabrics[ENTRIES];
static struct fi_domain_attr domains[ENTRIES], hint_domain;
static struct fi_ep_attr endpoints[ENTRIES], hint_endpoint;
static struct fid_nic nics[ENTRIES];
static struct fi_link_attr links[ENTRIES];

static struct fi_info *copy(const struct fi_info *info)
{
    assert_null(info);
    f.dups++;
    hint_domain = (struct fi_domain_attr){0};
    hint_endpoint = (struct fi_ep_attr){0};
    hints_made = (struct fi_info){.domain_attr = &hint_domain, .ep_attr = &hint_endpoint};
    return f.no_hints ? NULL : &hints_made;
}

static int list(uint32_t version, const char *node, const char *service, uint64_t flags,
                const struct fi_info *hints, struct fi_info **found)
{
    assert_true(!node && !service && !flags);
    assert_true(f.getinfos < 2);
    f.version = version;
    f.hinted[f.getinfos] = hints != NULL;
    if (hints)
        f.hints = *hints;
    snprintf(f.universe, sizeof f.universe, "%s", getenv("FI_UNIVERSE_SIZE"));
    snprintf(f.receives, sizeof f.receives, "%s", getenv("FI_OFI_RXM_MSG_RX_SIZE"));
    *found = f.errors[f.getinfos] ? NULL : f.getinfos ? more : infos;
    return f.errors[f.getinfos++];
}

static void forget(struct fi_info *info)
{
    assert_true(info == infos || info == more || info == &hints_made);
    f.frees++;
}

static const char *text_of(int error)
{
    return error == FI_ENOSYS ? "not implemented" : "another error";
}

static struct fabric lib = {
    .handle = &f, .dupinfo = copy, .getinfo = list, .freeinfo = forget, .strerror = text_of};
static weft_status open_status;

weft_status __wrap_fabric_open(const struct fabric **found);
weft_status __wrap_fabric_open(const struct fabric **found)
{
    static const struct fabric none;
    *found = open_status ? &none : &lib;
    return open_status ? base_fail(open_status, "there is no libfabric") : WEFT_OK;
}

/* -------------------------------------------------------------------------------- called
 * functions */

static struct {
    struct net_provider_entry offers[ENTRIES];
    size_t counts[2];
    int chosen;
    weft_status status[2];
    net_rows rows;
    uint64_t networks;
    struct net_config wish;
    char provider[64]; /* wish.provider */
} c;

weft_status __wrap_net_choose_rows(const struct net_provider_entry *entries, size_t count,
                                   const struct net_config *config, net_rows *rows);
weft_status __wrap_net_choose_rows(const struct net_provider_entry *entries, size_t count,
                                   const struct net_config *config, net_rows *rows)
{
    assert_true(c.chosen < 2);
    c.counts[c.chosen] = count;
    c.wish = *config;
    snprintf(c.provider, sizeof c.provider, "%s", config->provider);
    c.wish.provider = c.provider;
    if (!c.chosen)
        memcpy(c.offers, entries, count * sizeof *entries);
    weft_status status = c.status[c.chosen++];
    if (!status)
        *rows = c.rows;
    return status ? base_fail(status, "choice %d says no", c.chosen) : WEFT_OK;
}

uint64_t __wrap_net_choose_networks(const struct net_provider_entry *entries, size_t count);
uint64_t __wrap_net_choose_networks(const struct net_provider_entry *entries, size_t count)
{
    assert_non_null(entries);
    assert_int_equal(count, c.counts[0]);
    return c.networks;
}

static struct net_exchange_record own_record, others[PES];
static int gathers, takes, agrees;
static weft_status gather_status, agreed;
static struct net_exchange_record both;
static struct net_selection *const something = (struct net_selection *)&both;

static weft_status gather(struct boot *boot, const void *mine, void *all, size_t bytes)
{
    struct net_exchange_record *into = all;
    (void)boot;
    assert_int_equal(bytes, sizeof own_record);
    memcpy(&own_record, mine, bytes);
    gathers++;
    for (int pe = 0; pe < PES; pe++)
        into[pe] = pe == 1 ? own_record : others[pe];
    return gather_status;
}

weft_status __wrap_boot_agree(struct boot *boot, weft_status status);
weft_status __wrap_boot_agree(struct boot *boot, weft_status status)
{
    (void)boot;
    agrees++;
    return status ? status : agreed;
}

static size_t has_bytes;

weft_status __wrap_net_select_nics(const struct path_world *world, const struct fabric *with,
                                   const struct net_config *config,
                                   const struct net_provider_list *entries,
                                   const struct net_exchange_record *common,
                                   struct net_selection **result, char *has, size_t bytes);
weft_status __wrap_net_select_nics(const struct path_world *world, const struct fabric *with,
                                   const struct net_config *config,
                                   const struct net_provider_list *entries,
                                   const struct net_exchange_record *common,
                                   struct net_selection **result, char *has, size_t bytes)
{
    (void)world, (void)config;
    assert_ptr_equal(with, &lib);
    assert_ptr_equal(entries->list, f.errors[0] ? NULL : infos);
    for (size_t i = 0; i < entries->count; i++)
        assert_ptr_equal(entries->info[i], &infos[i]);
    both = *common;
    has_bytes = bytes;
    strcpy(has, "it has");
    *result = something;
    takes++;
    return WEFT_OK;
}

/* ---------------------------------------------------------------------------- the machine's
 * files */

static unsigned long long free_blocks;
static int room_error;

int __wrap_statvfs(const char *path, struct statvfs *room);
int __wrap_statvfs(const char *path, struct statvfs *room)
{
    assert_string_equal(path, "/dev/shm");
    *room = (struct statvfs){.f_bavail = free_blocks, .f_frsize = 4096};
    return room_error;
}

uint64_t __wrap_net_get_speed(const char *root, const char *name);
uint64_t __wrap_net_get_speed(const char *root, const char *name)
{
    assert_string_equal(root, "");
    return strcmp(name, "eth7") == 0 ? 25000 : 0;
}

bool __wrap_net_is_down(const char *root, const char *name);
bool __wrap_net_is_down(const char *root, const char *name)
{
    assert_string_equal(root, "");
    return strcmp(name, "eth9") == 0;
}

/* Contents of the `type` file of an interface in sysfs; NULL: no such file. */
static const char *link_type;
static int files_open;

/* RDMA devices of the node, and how often libfabric was called without /proc/kallsyms. */
static const char *rdma_devices;
static int restricted_calls;

DIR *__real_opendir(const char *path);
DIR *__wrap_opendir(const char *path);
DIR *__wrap_opendir(const char *path)
{
    if (strcmp(path, "/sys/class/infiniband") != 0)
        return __real_opendir(path);
    return rdma_devices ? __real_opendir(rdma_devices) : NULL;
}

void __wrap_driver_run_without_kallsyms(void (*run)(void *argument), void *argument);
void __wrap_driver_run_without_kallsyms(void (*run)(void *argument), void *argument)
{
    restricted_calls++;
    run(argument);
}
FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode)
{
    if (strncmp(path, "/sys/class/net/", 15) != 0)
        return __real_fopen(path, mode);
    if (!link_type || strcmp(path, "/sys/class/net/ib0/type") != 0)
        return NULL;
    files_open++;
    return fmemopen((void *)link_type, strlen(link_type), "r");
}

int __real_fclose(FILE *file);
int __wrap_fclose(FILE *file);
int __wrap_fclose(FILE *file)
{
    files_open--;
    return __real_fclose(file);
}

/* --------------------------------------------------------------------------------------- set-up */

static const struct boot_ops boot_ops = {.name = "three", .allgather = gather};
static struct boot boot = {.ops = &boot_ops, .npes = PES, .nodes = 1};
static struct path_world world = {.pe = 1, .npes = PES, .boot = &boot};
static struct net_selection *selection;
static struct path_found found;
static int blocks_before;

enum { WRITES = FI_RMA | FI_WRITE | FI_REMOTE_WRITE, READS = FI_RMA | FI_READ | FI_REMOTE_READ };
static char eth[] = "eth0", tcp[] = "tcp";

static int prepare(void **context)
{
    static const char *const variables[] = {"WEFT_FABRIC_PROVIDER", "WEFT_FABRIC_INTERFACE",
                                            "WEFT_RAILS", "FI_UNIVERSE_SIZE",
                                            "FI_OFI_RXM_MSG_RX_SIZE"};
    (void)context;
    for (int i = 0; i < 5; i++)
        unsetenv(variables[i]);
    config_reset();
    memset(&f, 0, sizeof f);
    memset(&c, 0, sizeof c);
    memset(others, 0, sizeof others);
    memset(more, 0, sizeof more);
    for (int i = 0; i < ENTRIES; i++) {
        fabrics[i] = (struct fi_fabric_attr){.prov_name = tcp};
        domains[i] = (struct fi_domain_attr){.name = eth, .mr_key_size = 8};
        endpoints[i] = (struct fi_ep_attr){.type = FI_EP_RDM};
        links[i] = (struct fi_link_attr){.speed = 100000000000 + (size_t)i * 1000000};
        nics[i] = (struct fid_nic){.link_attr = &links[i]};
        infos[i] = (struct fi_info){.fabric_attr = &fabrics[i],
                                    .domain_attr = &domains[i],
                                    .ep_attr = &endpoints[i],
                                    .nic = &nics[i],
                                    .caps = FI_MSG | FI_SEND | FI_RECV | WRITES | READS,
                                    .next = i + 1 < ENTRIES ? &infos[i + 1] : NULL};
    }
    more[0] = infos[0];
    more[1] = infos[1];
    more[0].next = &more[1];
    more[1].next = NULL;
    c.rows = 12;
    c.networks = 3;
    for (int i = 0; i < PES; i++)
        others[i] = (struct net_exchange_record){.rows = 14, .networks = 6};
    open_status = gather_status = agreed = WEFT_OK;
    gathers = takes = agrees = 0;
    free_blocks = 1 << 20;
    room_error = 0;
    link_type = NULL;
    boot.nodes = 1;
    selection = something;
    memset(&found, 7, sizeof found);
    callocs.left = -1;
    blocks_before = callocs.memory;
    return 0;
}

static weft_status find(void)
{
    weft_status status = net_find_nics(&world, &selection, found.lacks, found.has);
    assert_int_equal(callocs.memory, blocks_before);
    assert_int_equal(files_open, 0);
    assert_null(getenv("FI_UNIVERSE_SIZE"));
    assert_null(getenv("FI_OFI_RXM_MSG_RX_SIZE"));
    return status;
}

/* ------------------------------------------------------------------------------------ the tests */

static void the_hints_are_what_the_path_can_use(void **context)
{
    (void)context;
    assert_int_equal(find(), WEFT_OK);
    assert_ptr_equal(selection, something);
    assert_string_equal(found.has, "it has");
    assert_int_equal(agrees, 2); /* before the exchange, and before the comparison */
    assert_string_equal(found.lacks, "");
    assert_int_equal(has_bytes, sizeof found.has);
    assert_int_equal(f.version, FI_VERSION(1, 11));
    assert_true(f.hinted[0]);
    assert_int_equal(hint_endpoint.type, FI_EP_RDM);
    assert_int_equal(f.hints.caps, FI_MSG | FI_RMA);
    assert_int_equal(f.hints.mode, FI_CONTEXT | FI_CONTEXT2);
    assert_int_equal(hint_domain.mr_mode, FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED |
                                              FI_MR_PROV_KEY | FI_MR_ENDPOINT);
    assert_int_equal(hint_domain.threading, FI_THREAD_DOMAIN);
    assert_int_equal(hint_domain.av_type, FI_AV_TABLE);
    assert_int_equal(f.dups, 1);
    assert_int_equal(f.frees, 2); /* the hints and the list */
    assert_int_equal(c.counts[0], ENTRIES);
    assert_string_equal(c.wish.provider, "");
    assert_false(c.wish.nodes);
}

static void the_configuration_is_used(void **context)
{
    (void)context;
    setenv("WEFT_FABRIC_PROVIDER", "verbs", 1);
    setenv("WEFT_FABRIC_INTERFACE", "mlx5_0,mlx5_1", 1);
    config_reset();
    boot.nodes = 2;
    assert_int_equal(find(), WEFT_OK);
    assert_string_equal(c.wish.provider, "verbs");
    assert_string_equal(c.wish.interface, "mlx5_0,mlx5_1");
    assert_true(c.wish.nodes);
}

static void all_pes_encrypt_or_none(void **context)
{
    static const struct {
        const char *provider, *name;
        uint64_t others[PES];
        const char *error; /* NULL: none */
    } rows[] = {
        {"tcp+encrypted", "tcp", {1, 1, 1}, NULL},
        {"+encrypted", "", {1, 1, 1}, NULL},
        {"tcp", "tcp", {0, 0, 0}, NULL},
        {"tcp", "tcp", {1, 1, 1}, "at PE 0 and not at PE 1"},
        {"tcp", "tcp", {0, 0, 1}, "at PE 2 and not at PE 0"},
        {"tcp+encrypted", "tcp", {0, 0, 0}, "at PE 1 and not at PE 0"},
    };
    (void)context;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        prepare(NULL);
        setenv("WEFT_FABRIC_PROVIDER", rows[i].provider, 1);
        config_reset();
        for (int pe = 0; pe < PES; pe++)
            others[pe].encrypted = rows[i].others[pe];
        assert_int_equal(find(), rows[i].error ? WEFT_ERR_CONFIG : WEFT_OK);
        assert_string_equal(c.wish.provider, rows[i].name);
        assert_int_equal(takes, !rows[i].error);
        if (rows[i].error)
            assert_non_null(strstr(base_last_error(), rows[i].error));
    }
    prepare(NULL);
}

/* Only RDMA devices need what libfabric learns from the kernel's symbols. */
static void symbols_are_read_for_rdma_devices(void **context)
{
    char empty[] = "/tmp/weft-test-offers-XXXXXX";
    (void)context;
    assert_non_null(mkdtemp(empty));
    const struct {
        const char *devices;
        int restricted;
    } rows[] = {{NULL, 1}, {empty, 1}, {"/", 0}};
    agreed = WEFT_ERR_PEER_DEAD; /* no selection follows */
    for (int i = 0; i < 3; i++) {
        f.getinfos = restricted_calls = c.chosen = 0;
        rdma_devices = rows[i].devices;
        assert_int_equal(find(), WEFT_ERR_PEER_DEAD);
        assert_int_equal(f.getinfos, 1);
        assert_int_equal(restricted_calls, rows[i].restricted);
    }
    rdma_devices = NULL;
    rmdir(empty);
}

static void queues_are_made_for_the_peers_of_the_job(void **context)
{
    static const struct {
        int npes;
        const char *already, *universe;
    } rows[] = {
        {3, NULL, "8"}, {8, NULL, "8"}, {9, NULL, "9"}, {300, NULL, "300"}, {9, "77", "77"}};
    (void)context;
    agreed = WEFT_ERR_PEER_DEAD; /* no selection follows */
    for (int i = 0; i < 5; i++) {
        memset(&f, 0, sizeof f);
        c.chosen = 0;
        world.npes = rows[i].npes;
        if (rows[i].already)
            setenv("FI_UNIVERSE_SIZE", rows[i].already, 1);
        assert_int_equal(net_find_nics(&world, &selection, found.lacks, found.has),
                         WEFT_ERR_PEER_DEAD);
        assert_string_equal(f.universe, rows[i].universe);
        const char *left = getenv("FI_UNIVERSE_SIZE");
        assert_true(rows[i].already ? left && strcmp(left, "77") == 0 : !left);
        assert_int_equal(callocs.memory, blocks_before);
    }
    assert_string_equal(f.receives, "128");
    setenv("FI_OFI_RXM_MSG_RX_SIZE", "96", 1);
    memset(&f, 0, sizeof f);
    assert_int_equal(net_find_nics(&world, &selection, found.lacks, found.has), WEFT_ERR_PEER_DEAD);
    assert_string_equal(f.receives, "96");
    assert_string_equal(getenv("FI_OFI_RXM_MSG_RX_SIZE"), "96");
    world.npes = PES;
    assert_int_equal(takes, 0);
    assert_null(selection);
}

static void what_a_provider_can_do_is_described(void **context)
{
    (void)context;
    endpoints[1].type = FI_EP_MSG;
    infos[2].caps = FI_MSG | FI_SEND | WRITES;
    infos[3].caps = FI_MSG | FI_SEND | FI_RECV | FI_RMA | FI_WRITE | FI_REMOTE_READ;
    domains[3].mr_key_size = 9;
    infos[4].caps = FI_MSG | FI_SEND | FI_RECV | READS;
    domains[4].mr_mode = FI_MR_RAW;
    assert_int_equal(find(), WEFT_OK);
    assert_int_equal(c.offers[0].abilities, NET_NEEDED);
    assert_int_equal(c.offers[1].abilities, NET_NEEDED & ~NET_DATAGRAMS);
    assert_int_equal(c.offers[2].abilities, NET_DATAGRAMS | NET_WRITE | NET_KEYS);
    assert_int_equal(c.offers[3].abilities, NET_DATAGRAMS | NET_MESSAGES);
    assert_int_equal(c.offers[4].abilities, NET_DATAGRAMS | NET_MESSAGES | NET_READ);
}

static void whom_an_address_reaches_is_described(void **context)
{
    static struct sockaddr_in in[2];
    static struct sockaddr_in6 in6[3];
    static char shm[] = "shm", sm2[] = "sm2;x", verbs[] = "verbs;ofi_rxm";
    (void)context;
    in[0].sin_addr.s_addr = htonl(0x7f000105);
    in[1].sin_addr.s_addr = htonl(0x7e000001);
    in6[0].sin6_addr = in6addr_loopback;
    in6[1].sin6_addr.s6_addr[0] = 0xfe;
    in6[1].sin6_addr.s6_addr[1] = 0x80;
    in6[2].sin6_addr.s6_addr[0] = 0x20;
    for (int i = 0; i < 2; i++) {
        infos[i].addr_format = FI_SOCKADDR_IN;
        infos[i].src_addr = &in[i];
    }
    for (int i = 2; i < 5; i++) {
        infos[i].addr_format = FI_SOCKADDR_IN6;
        infos[i].src_addr = &in6[i - 2];
    }
    assert_int_equal(find(), WEFT_OK);
    static const enum net_reach reach[] = {NET_REACH_NODE, NET_REACH_OTHERS, NET_REACH_NODE,
                                           NET_REACH_LINK, NET_REACH_OTHERS};
    for (int i = 0; i < ENTRIES; i++) {
        assert_int_equal(c.offers[i].reach, reach[i]);
        assert_int_equal(c.offers[i].family, i < 2 ? 4 : 6);
    }
    prepare(NULL);
    fabrics[0].prov_name = shm;
    fabrics[1].prov_name = sm2;
    fabrics[2].prov_name = verbs;
    infos[3].addr_format = FI_SOCKADDR_IN;
    infos[4].addr_format = FI_SOCKADDR_IN6;
    assert_int_equal(find(), WEFT_OK);
    for (int i = 0; i < ENTRIES; i++) {
        assert_int_equal(c.offers[i].reach, i < 2 ? NET_REACH_NODE : NET_REACH_OTHERS);
        assert_int_equal(c.offers[i].family, 0);
    }
    assert_string_equal(c.offers[2].provider, "verbs;ofi_rxm");
}

static void links_are_described_by_the_provider_or_the_kernel(void **context)
{
    static char eth7[] = "eth7", eth9[] = "eth9", ib0[] = "ib0", network[] = "10.1.0.0/16",
                name[] = "IB-0xfe80";
    (void)context;
    link_type = "32\n";
    fabrics[0].name = network;
    fabrics[1].name = name;
    domains[1].name = eth7;
    links[1].speed = 0;
    domains[2].name = ib0;
    infos[2].nic = NULL;
    domains[3].name = eth9;
    links[3].state = FI_LINK_UP;
    domains[4].name = NULL;
    links[4].state = FI_LINK_DOWN;
    assert_int_equal(find(), WEFT_OK);
    static const uint32_t mbps[] = {100000, 25000, 0, 100003, 100004};
    for (int i = 0; i < ENTRIES; i++) {
        assert_int_equal(c.offers[i].mbps, mbps[i]);
        assert_int_equal(c.offers[i].down, i >= 3);
        assert_int_equal(c.offers[i].ipoib, i == 2);
    }
    assert_string_equal(c.offers[0].network, "10.1.0.0/16");
    assert_string_equal(c.offers[1].network, "");
    assert_string_equal(c.offers[0].interface, "eth0");
    assert_string_equal(c.offers[4].interface, "");
    static const char *const types[] = {"1\n", "x", NULL};
    for (int i = 0; i < 3; i++) {
        prepare(NULL);
        domains[2].name = ib0;
        link_type = types[i];
        assert_int_equal(find(), WEFT_OK);
        assert_false(c.offers[2].ipoib);
    }
}

static void all_have_the_rows_of_each(void **context)
{
    (void)context;
    others[2].rows = 5;
    others[0].networks = 10;
    assert_int_equal(find(), WEFT_OK);
    assert_int_equal(own_record.rows, 12);
    assert_int_equal(own_record.networks, 3);
    assert_string_equal(own_record.lacks, "");
    assert_int_equal(both.rows, 12 & 14 & 5);
    assert_int_equal(both.networks, 3 & 10 & 6);
    assert_int_equal(takes, 1);
    prepare(NULL);
    others[0].rows = 3;
    assert_int_equal(find(), WEFT_OK);
    assert_string_equal(found.lacks, "no libfabric provider is available on every PE");
    assert_int_equal(takes, 0);
    assert_null(selection);
    assert_string_equal(found.has, "");
    prepare(NULL);
    others[0].rows = others[2].rows = 0;
    strcpy(others[0].lacks, "it lacks all");
    strcpy(others[2].lacks, "it lacks more");
    assert_int_equal(find(), WEFT_OK);
    assert_string_equal(found.lacks, "PE 0: it lacks all");
    assert_int_equal(f.frees, 2);
    prepare(NULL);
    gather_status = WEFT_ERR_TIMEOUT;
    assert_int_equal(find(), WEFT_ERR_TIMEOUT);
    assert_int_equal(takes, 0);
    assert_int_equal(f.frees, 2);
}

static void what_this_pe_lacks_is_reported_to_all(void **context)
{
    (void)context;
    open_status = WEFT_ERR_UNSUPPORTED;
    assert_int_equal(find(), WEFT_OK);
    assert_int_equal(own_record.rows, 0);
    assert_string_equal(own_record.lacks, "there is no libfabric");
    assert_string_equal(found.lacks, "PE 1: there is no libfabric");
    assert_int_equal(f.frees, 0);
    static const struct {
        bool no_hints;
        int error, blocks;
        const char *lacks;
        int frees;
    } rows[] = {{true, 0, -1, "fi_dupinfo: no memory", 0},
                {false, -FI_ENOSYS, -1, "fi_getinfo: not implemented", 1},
                {false, 0, 0, "no private memory for 5 offers of libfabric", 2},
                {false, 0, 1, "no private memory for 5 offers of libfabric", 2}};
    for (int i = 0; i < 4; i++) {
        prepare(NULL);
        f.no_hints = rows[i].no_hints;
        f.errors[0] = rows[i].error;
        callocs.left = rows[i].blocks;
        assert_int_equal(find(), WEFT_OK);
        assert_string_equal(own_record.lacks, rows[i].lacks);
        assert_int_equal(f.frees, rows[i].frees);
        assert_int_equal(c.chosen, 0);
    }
    prepare(NULL);
    callocs.left = 2;
    assert_int_equal(find(), WEFT_ERR_NO_MEMORY);
    assert_non_null(strstr(base_last_error(), "no private memory for 3 PEs"));
    assert_int_equal(gathers, 0);
    /* An empty list is not an error of libfabric. */
    prepare(NULL);
    f.errors[0] = -FI_ENODATA;
    assert_int_equal(find(), WEFT_OK);
    assert_int_equal(c.counts[0], 0);
    assert_int_equal(c.chosen, 1);
    assert_int_equal(f.frees, 1);
}

static void what_cannot_be_used_is_named_with_all_in_view(void **context)
{
    static const struct {
        weft_status first, second, status;
        const char *text;
    } rows[] = {
        {WEFT_ERR_CONFIG, WEFT_ERR_CONFIG, WEFT_ERR_CONFIG, "choice 2 says no"},
        {WEFT_ERR_UNSUPPORTED, WEFT_ERR_CONFIG, WEFT_ERR_CONFIG, "choice 2 says no"},
        {WEFT_ERR_CONFIG, WEFT_ERR_UNSUPPORTED, WEFT_OK, "PE 1: choice 2 says no"},
        {WEFT_ERR_UNSUPPORTED, WEFT_OK, WEFT_OK,
         "PE 1: no libfabric provider supports the memory registration that path net needs"},
        {WEFT_ERR_SYSTEM, WEFT_OK, WEFT_OK, "PE 1: choice 1 says no"},
    };
    (void)context;
    for (int i = 0; i < 5; i++) {
        prepare(NULL);
        c.status[0] = rows[i].first;
        c.status[1] = rows[i].second;
        assert_int_equal(find(), rows[i].status);
        assert_string_equal(rows[i].status ? base_last_error() : found.lacks, rows[i].text);
        assert_int_equal(f.getinfos, i < 4 ? 2 : 1);
        assert_int_equal(f.frees, i < 4 ? 4 : 2);
        assert_int_equal(takes, 0);
        assert_int_equal(gathers, rows[i].status == WEFT_OK);
        if (i == 4)
            continue;
        assert_false(f.hinted[1]);
        assert_int_equal(c.counts[1], 2);
        assert_int_equal(gathers ? own_record.rows : 0, 0);
    }
    prepare(NULL);
    c.status[0] = WEFT_ERR_CONFIG;
    f.errors[1] = -FI_ENOSYS;
    assert_int_equal(find(), WEFT_OK);
    assert_string_equal(found.lacks, "PE 1: fi_getinfo: not implemented");
}

static void a_full_shm_explains_its_absence(void **context)
{
    static const struct {
        const char *provider;
        unsigned long long blocks;
        int error;
        const char *text;
    } rows[] = {
        {"shm", 4095, 0,
         "choice 2 says no; /dev/shm has 16380 KiB free, and provider shm needs 16384 KiB for each "
         "PE"},
        {"shm", 4096, 0, "choice 2 says no"},
        {"shm", 0, -1, "choice 2 says no"},
        {"tcp", 0, 0, "choice 2 says no"},
    };
    (void)context;
    for (int i = 0; i < 4; i++) {
        prepare(NULL);
        setenv("WEFT_FABRIC_PROVIDER", rows[i].provider, 1);
        config_reset();
        free_blocks = rows[i].blocks;
        room_error = rows[i].error;
        c.status[0] = c.status[1] = WEFT_ERR_CONFIG;
        assert_int_equal(find(), WEFT_ERR_CONFIG);
        assert_string_equal(base_last_error(), rows[i].text);
    }
    prepare(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_hints_are_what_the_path_can_use, prepare),
        cmocka_unit_test_setup(the_configuration_is_used, prepare),
        cmocka_unit_test_setup(all_pes_encrypt_or_none, prepare),
        cmocka_unit_test_setup(symbols_are_read_for_rdma_devices, prepare),
        cmocka_unit_test_setup(queues_are_made_for_the_peers_of_the_job, prepare),
        cmocka_unit_test_setup(what_a_provider_can_do_is_described, prepare),
        cmocka_unit_test_setup(whom_an_address_reaches_is_described, prepare),
        cmocka_unit_test_setup(links_are_described_by_the_provider_or_the_kernel, prepare),
        cmocka_unit_test_setup(all_have_the_rows_of_each, prepare),
        cmocka_unit_test_setup(what_this_pe_lacks_is_reported_to_all, prepare),
        cmocka_unit_test_setup(what_cannot_be_used_is_named_with_all_in_view, prepare),
        cmocka_unit_test_setup(a_full_shm_explains_its_absence, prepare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
