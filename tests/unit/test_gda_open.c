/* SPDX-License-Identifier: Apache-2.0 */
/* Which adapters a PE opens, keeps and closes for path gda, and what it reports about the others:
 * rows of devices, of configuration and of exchange records. No adapter is used: the test defines
 * what each one lacks. */
#include "path/gda/gda.h"

#include "base/config.h"
#include "base/status.h"
#include "path/net/near.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { DEVICES = 70, PES = 3, ME = 1 };

/* ------------------------------------------------------------------------------- the adapters */

struct device {
    const char *name;
    enum net_distance near;
    int speed, width;
    bool ethernet, weak, no_atomics;
    const char *lacks;
};

static struct device devices[DEVICES];
static int device_count, looked, looked_at[DEVICES], closed[DEVICES], freed_lists;
static bool no_list;

static int place_of(const char *name)
{
    for (int i = 0; i < device_count; i++)
        if (strcmp(devices[i].name, name) == 0)
            return i;
    fail_msg("there is no %s", name);
    return -1;
}

static struct ibv_device **list_devices(int *count)
{
    static struct ibv_device *list[DEVICES + 1];
    *count = device_count;
    for (int i = 0; i < device_count; i++)
        list[i] = (struct ibv_device *)(void *)&devices[i];
    if (no_list)
        errno = EACCES;
    return no_list ? NULL : list;
}

static void free_list(struct ibv_device **list)
{
    assert_non_null(list);
    freed_lists++;
}

static const char *name_of(struct ibv_device *device)
{
    return ((struct device *)(void *)device)->name;
}

static int opened, closed_again;

static struct ibv_context *open_port(struct ibv_device *device)
{
    opened++;
    return (struct ibv_context *)(void *)device;
}

static int close_port(struct ibv_context *context)
{
    assert_non_null(context);
    closed_again++;
    return 0;
}

static int query_port(struct ibv_context *context, uint8_t number, struct ibv_port_attr *port)
{
    const struct device *device = (const void *)context;
    assert_int_equal(number, GDA_PORT);
    port->state =
        device->lacks && !strcmp(device->lacks, "a port") ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
    port->active_speed = (uint8_t)device->speed;
    port->active_width = (uint8_t)device->width;
    return 0;
}

/* Path of the library's file; NULL = this test's own file. */
static const char *program;
static bool unknown_program;
int __real_dladdr(const void *address, Dl_info *info);
int __wrap_dladdr(const void *address, Dl_info *info);
int __wrap_dladdr(const void *address, Dl_info *info)
{
    int found = __real_dladdr(address, info);
    info->dli_fname = program ? program : info->dli_fname;
    return unknown_program ? 0 : found;
}

static int libraries, opened_libraries;
static char opened_folder[PATH_MAX];
static bool no_library;
weft_status __wrap_mlx5_open(struct mlx5 *mlx5, const char *folder);
weft_status __wrap_mlx5_open(struct mlx5 *mlx5, const char *folder)
{
    snprintf(opened_folder, sizeof opened_folder, "%s", folder);
    if (no_library)
        return base_fail(WEFT_ERR_UNSUPPORTED, "there is no libmlx5");
    libraries++, opened_libraries++;
    errno = EACCES; /* an old errno, which must not be reported */
    *mlx5 = (struct mlx5){.verbs = {.get_device_list = list_devices,
                                    .free_device_list = free_list,
                                    .get_device_name = name_of,
                                    .open_device = open_port,
                                    .close_device = close_port,
                                    .query_port = query_port},
                          .handle = &libraries};
    return WEFT_OK;
}

void __wrap_mlx5_close(struct mlx5 *mlx5);
void __wrap_mlx5_close(struct mlx5 *mlx5)
{
    assert_ptr_equal(mlx5->handle, &libraries);
    libraries--;
}

void __wrap_gda_probe_adapter(struct gda_adapter *adapter, struct ibv_device *listed, char *lacks,
                              size_t bytes);
void __wrap_gda_probe_adapter(struct gda_adapter *adapter, struct ibv_device *listed, char *lacks,
                              size_t bytes)
{
    const struct device *device = (const void *)listed;
    int place = (int)(device - devices);
    assert_string_equal(adapter->name, device->name);
    assert_ptr_equal(adapter->lib->handle, &libraries);
    looked_at[place]++;
    looked++;
    adapter->ethernet = device->ethernet;
    adapter->port.active_speed = (uint8_t)device->speed;
    adapter->port.active_width = (uint8_t)device->width;
    adapter->atomics_with_cpu = !device->weak;
    adapter->no_atomics = device->no_atomics;
    memset(lacks, 'z', bytes); /* bytes after the text must not be read */
    snprintf(lacks, bytes, "%s", device->lacks ? device->lacks : "");
}

void __wrap_gda_close_adapter(struct gda_adapter *adapter);
void __wrap_gda_close_adapter(struct gda_adapter *adapter)
{
    closed[place_of(adapter->name)]++;
}

bool __wrap_net_locate_interface(const char *root, const char *name,
                                 struct net_device_location *place);
bool __wrap_net_locate_interface(const char *root, const char *name,
                                 struct net_device_location *place)
{
    assert_string_equal(root, "");
    place->numa = (int)devices[place_of(name)].near;
    return place->numa != NET_DISTANCE_UNKNOWN;
}

enum net_distance __wrap_net_find_distance(const struct net_pe_location *spot,
                                           const struct net_device_location *nic);
enum net_distance __wrap_net_find_distance(const struct net_pe_location *spot,
                                           const struct net_device_location *nic)
{
    assert_true(spot->gpu); /* the PE's GPU was found */
    return (enum net_distance)nic->numa;
}

void __wrap_net_locate_pe(const char *root, int local_pe, const char *wanted, const char *visible,
                          const cpu_set_t *cpus, struct net_pe_location *spot);
void __wrap_net_locate_pe(const char *root, int local_pe, const char *wanted, const char *visible,
                          const cpu_set_t *cpus, struct net_pe_location *spot)
{
    (void)wanted, (void)visible;
    assert_string_equal(root, "");
    assert_int_equal(local_pe, 7);
    assert_true(CPU_COUNT(cpus) > 0);
    *spot = (struct net_pe_location){.gpu = true};
}

/* -------------------------------------------------------------------------------- the other PEs */

static int agreements, disagrees_at, gathers, gather_fails_at;
static bool alike;                         /* the other PEs send the same candidates as this PE */
static struct gda_candidates theirs[PES];  /* otherwise they send these */
static struct gda_offer their_offers[PES]; /* what each PE can use */
static struct gda_candidates candidates;   /* candidates that this PE sends */

weft_status __wrap_boot_agree(struct boot *boot, weft_status status);
weft_status __wrap_boot_agree(struct boot *boot, weft_status status)
{
    (void)boot;
    if (++agreements == disagrees_at && !status)
        return base_fail(WEFT_ERR_PEER_DEAD, "another PE has failed");
    return status;
}

static weft_status gather(struct boot *boot, const void *mine, void *all, size_t bytes)
{
    (void)boot;
    if (++gathers == gather_fails_at)
        return base_fail(WEFT_ERR_TIMEOUT, "the others do not come");
    for (int pe = 0; pe < PES; pe++) {
        const void *from = bytes == sizeof candidates
                               ? (alike || pe == ME ? mine : (const void *)&theirs[pe])
                               : (pe == ME ? mine : (const void *)&their_offers[pe]);
        memcpy((char *)all + (size_t)pe * bytes, from, bytes);
    }
    if (bytes == sizeof candidates)
        memcpy(&candidates, mine, bytes);
    else
        assert_int_equal(bytes, sizeof their_offers[0]);
    return WEFT_OK;
}

static const struct boot_ops ops = {.allgather = gather};
static int node_of[PES];
static struct boot boot = {
    .ops = &ops, .pe = ME, .npes = PES, .local_pe = 7, .node_of = node_of, .nodes = 2};
static const struct path_world world = {.pe = ME, .npes = PES, .boot = &boot};

static char lacks[400], has[400];
static size_t has_bytes;
static struct gda_adapters *found;

static weft_status find(void)
{
    config_reset();
    looked = freed_lists = opened_libraries = agreements = gathers = 0;
    memset(looked_at, 0, sizeof looked_at);
    memset(closed, 0, sizeof closed);
    memset(&candidates, 0, sizeof candidates);
    memset(has, 0, sizeof has);
    found = (void *)&devices;
    return gda_find_adapters(&world, &found, lacks, sizeof lacks, has, has_bytes);
}

/* Checks which adapters are used ("a b"). All other opened adapters are closed once. */
static void expect_taken(const char *names)
{
    char text[200] = "";
    for (uint32_t a = 0; found && a < found->count; a++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s", a ? " " : "", found->one[a].name);
        assert_int_equal(closed[place_of(found->one[a].name)], 0);
    }
    assert_string_equal(text, names);
    if (!names[0])
        assert_null(found);
    gda_drop_adapters(found);
    for (int i = 0; i < device_count; i++)
        assert_int_equal(closed[i], looked_at[i]);
    assert_int_equal(libraries, 0);
}

static int setup(void **state)
{
    (void)state;
    static const char *const names[] = {
        "WEFT_HCA",        "WEFT_TEST_HCA_LIB",   "WEFT_RAILS",
        "WEFT_GDA_QUEUES", "WEFT_TEST_GDA_DEPTH", "WEFT_TEST_GDA_CHUNK",
        "WEFT_PATH"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
    setenv("WEFT_LOG", "none", 1);
    config_reset();
    memset(devices, 0, sizeof devices);
    memset(theirs, 0, sizeof theirs);
    for (int pe = 0; pe < PES; pe++)
        their_offers[pe] = (struct gda_offer){GDA_ADAPTERS_MOST, 1, 0, 0};
    memcpy(node_of, (int[]){1, 0, 1}, sizeof node_of);
    device_count = disagrees_at = gather_fails_at = libraries = 0;
    alike = no_list = no_library = false;
    has_bytes = sizeof has;
    program = NULL;
    return 0;
}

static void add(const char *name, enum net_distance near)
{
    devices[device_count++] = (struct device){.name = name, .near = near, .speed = 32, .width = 2};
}

/* a: on another socket; b, c: below the PE's switch; d: below its host bridge; e: distance
 * unknown. */
static void add_five(void)
{
    add("a", NET_DISTANCE_SYS);
    add("b", NET_DISTANCE_PIX);
    add("e", NET_DISTANCE_UNKNOWN);
    add("c", NET_DISTANCE_PIX);
    add("d", NET_DISTANCE_PHB);
}

/* ------------------------------------------------------------------------------------ the tests */

static void the_nearest_are_taken(void **state)
{
    static const struct {
        const char *wanted, *lacking; /* devices that lack something */
        int looked;
        const char *taken;
    } rows[] = {
        {"0", "", 2, "b c"},     {"0", "b", 2, "c"},        {"0", "bc", 3, "d"},
        {"0", "bcd", 4, "a"},    {"0", "abcd", 5, "e"},     {"1", "", 2, "b"},
        {"2", "", 2, "b c"},     {"2", "b", 3, "c d"},      {"3", "", 3, "b c d"},
        {"4", "", 4, "b c d a"}, {"5", "", 5, "b c d a e"}, {"3", "cd", 5, "b a e"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        setup(state);
        add_five();
        for (int k = 0; k < device_count; k++)
            if (strchr(rows[i].lacking, devices[k].name[0]))
                devices[k].lacks = "a port";
        setenv("WEFT_RAILS", rows[i].wanted, 1);
        assert_int_equal(find(), WEFT_OK);
        assert_int_equal(looked, rows[i].looked);
        assert_int_equal(freed_lists, 1);
        assert_string_equal(lacks, ""); /* nothing is missing */
        assert_int_equal(candidates.requested, atoi(rows[i].wanted));
        for (int k = 1; k < candidates.count; k++) {
            assert_true(candidates.list[k].near >= candidates.list[k - 1].near);
            assert_int_not_equal(candidates.list[k].name, candidates.list[k - 1].name);
        }
        expect_taken(rows[i].taken);
    }
}

/* The list of candidates includes all adapters that are as near as the last required one. */
static void as_near_as_the_last(void **state)
{
    (void)state;
    add("a", NET_DISTANCE_PIX);
    add("b", NET_DISTANCE_PHB);
    add("c", NET_DISTANCE_PHB);
    add("d", NET_DISTANCE_NODE);
    setenv("WEFT_RAILS", "2", 1);
    assert_int_equal(find(), WEFT_OK);
    assert_int_equal(looked, 3);
    assert_int_equal(candidates.count, 3);
    expect_taken("a b");
}

static void names_that_are_told(void **state)
{
    (void)state;
    add("mlx5_0", NET_DISTANCE_PIX);
    add("mlx5_10", NET_DISTANCE_PHB);
    assert_int_equal(find(), WEFT_OK);
    assert_int_equal(candidates.count, 1);
    assert_int_equal(candidates.list[0].near, NET_DISTANCE_PIX);
    assert_int_equal(candidates.list[0].name, UINT64_C(0xe6ab08d3608a5c6e)); /* equal at every PE */
    assert_string_equal(has, "requests to mlx5_0, port 1 (InfiniBand)");
    expect_taken("mlx5_0");
}

static void those_that_weft_hca_names(void **state)
{
    static const struct {
        const char *names, *taken;
    } rows[] = {{"auto", "x1 x10 x2"}, {"x1", "x1"},   {"x10", "x10"},       {"x2,x1", "x1 x2"},
                {"x10,x", "x10"},      {"x,x2", "x2"}, {"x1,,x2,", "x1 x2"}, {"", "x1 x10 x2"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        setup(state);
        add("x1", NET_DISTANCE_PIX);
        add("x10", NET_DISTANCE_PIX);
        add("x2", NET_DISTANCE_PIX);
        setenv("WEFT_HCA", rows[i].names, 1);
        assert_int_equal(find(), WEFT_OK);
        expect_taken(rows[i].taken);
    }
    setenv("WEFT_HCA", "y1", 1);
    assert_int_equal(find(), WEFT_OK);
    assert_string_equal(lacks, "libibverbs lists 3 RDMA devices, none named by WEFT_HCA: y1");
    expect_taken("");
    device_count = 0;
    no_list = true;
    assert_int_equal(find(), WEFT_OK);
    assert_string_equal(lacks, "libibverbs lists 0 RDMA devices (no access to uverbs)");
    assert_int_equal(freed_lists, 0);
    expect_taken("");
    no_list = false;
    assert_int_equal(find(), WEFT_OK);
    assert_string_equal(lacks, "libibverbs lists 0 RDMA devices");
}

/* By default a PE adds only adapters as fast as the first one. Adapters with another link layer are
 * never added. */
static void adapters_are_alike(void **state)
{
    enum { SPEED = 1, WIDTH = 2, ETHERNET = 4 };
    for (int other = 0; other < 8; other++)
        for (int wanted = 0; wanted <= 2; wanted += 2) {
            bool refused = other & ETHERNET || (other && !wanted);
            setup(state);
            add("b", NET_DISTANCE_PIX);
            add("c", NET_DISTANCE_PIX);
            devices[1].speed += other & SPEED;
            devices[1].width += other & WIDTH;
            devices[1].ethernet = other & ETHERNET;
            setenv("WEFT_RAILS", wanted ? "2" : "0", 1);
            if (refused && wanted) {
                assert_int_equal(find(), WEFT_ERR_CONFIG);
                assert_string_equal(base_last_error(),
                                    "WEFT_RAILS is 2, but only b can be used; c lacks the "
                                    "link type of b: set it to 1 or less, or to 0 for this PE's "
                                    "share");
                expect_taken("");
            } else {
                assert_int_equal(find(), WEFT_OK);
                expect_taken(refused ? "b" : "b c");
            }
        }
}

/* One of less than half the fastest one's rate is left out, however near, unless WEFT_HCA names
 * it. */
static void slow_adapters_are_left_out(void **state)
{
    enum { SDR = 1, EDR = 32, HDR = 64, ONE_LANE = 1, FOUR = 2, TWO = 16 };
    static const struct {
        int speed, width; /* of the nearest adapter; the other has 100 Gbit/s */
        const char *hca, *taken;
        const char *down; /* what the fastest one lacks */
    } rows[] = {
        {SDR, FOUR, "auto", "c", NULL},     {SDR, FOUR, "b,c", "b", NULL},
        {SDR, FOUR, "b", "b", NULL},        {SDR, FOUR, "auto", "b", "a port"},
        {EDR, ONE_LANE, "auto", "c", NULL}, {HDR, ONE_LANE, "auto", "b", NULL},
        {EDR, TWO, "auto", "b", NULL},      {3, FOUR, "auto", "b", NULL},
        {SDR, FOUR, "auto", "b", "DevX"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        setup(state);
        add("b", NET_DISTANCE_PIX);
        add("c", NET_DISTANCE_SYS);
        devices[0].speed = rows[i].speed;
        devices[0].width = rows[i].width;
        devices[1].lacks = rows[i].down;
        setenv("WEFT_HCA", rows[i].hca, 1);
        assert_int_equal(find(), WEFT_OK);
        expect_taken(rows[i].taken);
        assert_int_equal(opened, closed_again);
    }
    setup(state);
    add("b", NET_DISTANCE_PIX);
    add("c", NET_DISTANCE_SYS);
    devices[0].speed = SDR;
    setenv("WEFT_RAILS", "2", 1);
    assert_int_equal(find(), WEFT_ERR_CONFIG);
    assert_string_equal(
        base_last_error(),
        "WEFT_RAILS is 2, but only c can be used; b lacks half the rate of the fastest "
        "adapter: set it to 1 or less, or to 0 for this PE's share");
}

static void rates_of_ports(void **state)
{
    static const struct {
        uint8_t width, speed;
        uint32_t mbps;
    } rows[] = {{1, 1, 2500},    {2, 1, 10000},   {2, 8, 40000},    {2, 16, 56000},
                {2, 32, 100000}, {2, 64, 200000}, {2, 128, 400000}, {16, 64, 100000},
                {8, 4, 120000},  {0, 32, 0},      {2, 0, 0},        {3, 32, 0},
                {2, 96, 0},      {32, 32, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct ibv_port_attr port = {.active_width = rows[i].width,
                                           .active_speed = rows[i].speed};
        assert_int_equal(gda_port_mbps(&port), rows[i].mbps);
    }
}

static void more_than_there_are(void **state)
{
    (void)state;
    add_five();
    setenv("WEFT_RAILS", "6", 1);
    assert_int_equal(find(), WEFT_ERR_CONFIG);
    assert_string_equal(base_last_error(),
                        "WEFT_RAILS is 6, but only b, c, d, a and e can be used: set it to "
                        "5 or less, or to 0 for this PE's share");
    expect_taken("");
    for (int i = 0; i < device_count; i++)
        devices[i].lacks = i % 2 ? "a port" : "atomics";
    /* No adapter is usable, so the requested number is not the error. */
    assert_int_equal(find(), WEFT_OK);
    assert_string_equal(lacks, "b lacks a port; c lacks a port; d lacks atomics; a lacks atomics; "
                               "e lacks atomics");
    expect_taken("");
}

/* With many devices, no more are probed and sent than fit the list. */
static void many_devices(void **state)
{
    static char names[DEVICES][4];
    (void)state;
    for (int i = 0; i < DEVICES; i++) {
        snprintf(names[i], sizeof names[i], "%02dx", i);
        add(names[i], NET_DISTANCE_PIX);
    }
    assert_int_equal(find(), WEFT_OK);
    assert_int_equal(looked, GDA_CANDIDATES);
    assert_int_equal(candidates.count, GDA_CANDIDATES);
    expect_taken("00x 01x 02x 03x 04x 05x 06x 07x");
    for (int i = 0; i < DEVICES; i++)
        devices[i].lacks = "something that is long to say of so many of them";
    assert_int_equal(find(), WEFT_OK);
    assert_int_equal(looked, 64);
    assert_int_equal(strlen(lacks), sizeof lacks - 1);
    expect_taken("");
}

static void libraries_that_are_opened(void **state)
{
    (void)state;
    add("b", NET_DISTANCE_PIX);
    assert_int_equal(find(), WEFT_OK);
    assert_string_equal(opened_folder, "");
    expect_taken("b");
    setenv("WEFT_TEST_HCA_LIB", "/a/folder", 1);
    assert_int_equal(find(), WEFT_OK);
    assert_string_equal(opened_folder, "/a/folder");
    assert_string_equal(has, "requests to b, port 1 (InfiniBand), not the system's libraries");
    expect_taken("b");
    setenv("WEFT_HCA", "soft", 1);
    assert_int_equal(find(), WEFT_OK);
    assert_string_equal(opened_folder, "/a/folder");
    expect_taken("b");
    setup(state);
    add("b", NET_DISTANCE_PIX);
    no_library = true;
    assert_int_equal(find(), WEFT_OK);
    assert_string_equal(lacks, "there is no libmlx5");
    assert_int_equal(looked, 0);
    expect_taken("");
}

/* The software adapter is in the folder weft-hca next to the library, else in lib/weft-hca next to
 * the library's folder. */
static void folder_of_the_software_adapter(void **state)
{
    static const struct {
        bool beside, apart, exists, unknown;
        const char *folder; /* NULL = none */
    } rows[] = {
        {false, false, true, false, NULL},          {true, false, true, false, "bin/weft-hca"},
        {false, true, true, false, "lib/weft-hca"}, {true, true, true, false, "bin/weft-hca"},
        {true, true, false, false, NULL},           {true, true, true, true, NULL},
    };
    char root[] = "/tmp/weft-test-XXXXXX", file[64], real[PATH_MAX], wanted[PATH_MAX + 64];
    (void)state;
    assert_non_null(mkdtemp(root));
    assert_non_null(realpath(root, real));
    const char *const folders[] = {"bin", "lib", "bin/weft-hca", "lib/weft-hca"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char paths[4][64];
        setup(state);
        add("b", NET_DISTANCE_PIX);
        setenv("WEFT_HCA", "soft", 1);
        for (int k = 0; k < 4; k++) {
            snprintf(paths[k], sizeof paths[k], "%s/%s", root, folders[k]);
            if (k < 2 || (k == 2 ? rows[i].beside : rows[i].apart))
                assert_int_equal(mkdir(paths[k], 0700), 0);
        }
        snprintf(file, sizeof file, "%s/bin/program", root);
        if (rows[i].exists)
            fclose(fopen(file, "w"));
        program = file;
        unknown_program = rows[i].unknown;
        weft_status status = find();
        unknown_program = false;
        for (int k = 3; k >= 2; k--)
            rmdir(paths[k]);
        unlink(file);
        for (int k = 1; k >= 0; k--)
            rmdir(paths[k]);
        assert_int_equal(status, WEFT_OK);
        assert_int_equal(opened_libraries, rows[i].folder != NULL);
        if (rows[i].folder) {
            snprintf(wanted, sizeof wanted, "%s/%s", real, rows[i].folder);
            assert_string_equal(opened_folder, wanted);
            assert_string_equal(has, "requests to b, port 1 (InfiniBand), not the system's "
                                     "libraries");
        } else {
            assert_string_equal(lacks, "WEFT_HCA=soft: no folder weft-hca next to libweft; set "
                                       "WEFT_TEST_HCA_LIB to its folder");
        }
        expect_taken(rows[i].folder ? "b" : "");
    }
    rmdir(root);
}

/* Names that do not fit are cut, and nothing is written beyond the buffer. */
static void long_names(void **state)
{
    static char names[8][GDA_NAME_BYTES];
    (void)state;
    for (int i = 0; i < 8; i++) {
        snprintf(names[i], sizeof names[i], "%d_is_a_name_of_many_letters_xx", i);
        add(names[i], NET_DISTANCE_PIX);
    }
    their_offers[0].adapters = 7;
    assert_int_equal(find(), WEFT_OK);
    assert_non_null(strstr(has, "requests to 0_is_a_name_of_many_letters_xx, 1_is"));
    assert_non_null(
        strstr(has, "letters_xx, 3_is_a_name_of_many_let, port 1 (InfiniBand); limited by PE 0;"
                    " WEFT_GDA_QUEUES 2 raised to 7"));
    gda_drop_adapters(found);
    for (has_bytes = 1; has_bytes < 230; has_bytes++) {
        assert_int_equal(find(), WEFT_OK);
        assert_in_range(strlen(has), 0, has_bytes - 1);
        for (size_t i = has_bytes; i < sizeof has; i++)
            assert_int_equal(has[i], 0);
        gda_drop_adapters(found);
    }
}

static void configurations(void **state)
{
    static const struct {
        const char *name, *text;
        bool good;
        const char *why;
    } rows[] = {
        {"WEFT_RAILS", "8", true, ""},
        {"WEFT_GDA_QUEUES", "-1", false, "WEFT_GDA_QUEUES is -1, which is not 0 to 64"},
        {"WEFT_GDA_QUEUES", "1", true, ""},
        {"WEFT_GDA_QUEUES", "64", true, ""},
        {"WEFT_GDA_QUEUES", "65", false, "WEFT_GDA_QUEUES is 65, which is not 0 to 64"},
        {"WEFT_TEST_GDA_DEPTH", "64", false,
         "WEFT_TEST_GDA_DEPTH is 64, which is not a power of two from 128 to 32768"},
        {"WEFT_TEST_GDA_DEPTH", "128", true, ""},
        {"WEFT_TEST_GDA_DEPTH", "32768", true, ""},
        {"WEFT_TEST_GDA_DEPTH", "65536", false,
         "WEFT_TEST_GDA_DEPTH is 65536, which is not a power of two from 128 to 32768"},
        {"WEFT_TEST_GDA_CHUNK", "32K", false,
         "WEFT_TEST_GDA_CHUNK is 32768, which is not a power of two from 64K to 1G"},
        {"WEFT_TEST_GDA_CHUNK", "64K", true, ""},
        {"WEFT_TEST_GDA_CHUNK", "1G", true, ""},
        {"WEFT_TEST_GDA_CHUNK", "2G", false,
         "WEFT_TEST_GDA_CHUNK is 2147483648, which is not a power of two from 64K to 1G"},
        {"WEFT_TEST_GDA_CHUNK", "192K", false,
         "WEFT_TEST_GDA_CHUNK is 196608, which is not a power of two from 64K to 1G"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        setup(state);
        for (int k = 0; k < 8; k++)
            add((const char *[]){"a", "b", "c", "d", "e", "f", "g", "h"}[k], NET_DISTANCE_PIX);
        setenv(rows[i].name, rows[i].text, 1);
        assert_int_equal(find(), rows[i].good ? WEFT_OK : WEFT_ERR_CONFIG);
        if (!rows[i].good)
            assert_string_equal(base_last_error(), rows[i].why);
        assert_int_equal(opened_libraries, rows[i].good);
        expect_taken(rows[i].good ? "a b c d e f g h" : "");
    }
}

static void shared_with_other_pes(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++)
        add((const char *[]){"a", "b", "c", "d"}[k], NET_DISTANCE_PIX);
    alike = true;
    node_of[0] = 0;
    assert_int_equal(find(), WEFT_OK);
    assert_string_equal(has, "requests to c and d, port 1 (InfiniBand)");
    expect_taken("c d"); /* second PE of its node */
    node_of[0] = 1;
    devices[0].ethernet = devices[1].ethernet = devices[2].ethernet = devices[3].ethernet = true;
    their_offers[0].adapters = their_offers[2].adapters = 4;
    assert_int_equal(find(), WEFT_OK);
    assert_string_equal(has,
                        "requests to a, b, c and d, port 1 (RoCE); WEFT_GDA_QUEUES 2 raised to 4");
    assert_int_equal(gda_queues_each(4, 1000), 4);
    assert_int_equal(gda_queues_each(1, 1000), 2);
    assert_int_equal(gda_queues_each(1, 1001), 1);
    assert_int_equal(gda_queues_each(3, 1001), 3);
    expect_taken("a b c d");
    setenv("WEFT_GDA_QUEUES", "4", 1);
    their_offers[2].adapters = 3;
    assert_int_equal(find(), WEFT_OK);
    assert_string_equal(has, "requests to a, b and c, port 1 (RoCE); limited by PE 2");
    expect_taken("a b c");
    their_offers[0].adapters = 1; /* an even smaller number */
    assert_int_equal(find(), WEFT_OK);
    assert_string_equal(has, "requests to a, port 1 (RoCE); limited by PE 0");
    expect_taken("a");
    their_offers[2].adapters = 0; /* none: no PE uses the path */
    assert_int_equal(find(), WEFT_OK);
    assert_string_equal(lacks, "PE 2 has no adapter, and this path serves all PEs or none");
    expect_taken("");
}

static void what_others_tell(void **state)
{
    (void)state;
    add("a", NET_DISTANCE_PIX);
    add("b", NET_DISTANCE_PIX);
    theirs[0].count = -1;
    assert_int_equal(find(), WEFT_ERR_MISMATCH);
    assert_string_equal(base_last_error(),
                        "path gda: PE 0 sent an invalid exchange record: invalid number of "
                        "adapters");
    expect_taken("");
    theirs[2].count = GDA_CANDIDATES + 1; /* the message names the first invalid record */
    assert_int_equal(find(), WEFT_ERR_MISMATCH);
    assert_non_null(strstr(base_last_error(), "PE 0 sent an invalid"));
    expect_taken("");
    theirs[0].count = 0;
    assert_int_equal(find(), WEFT_ERR_MISMATCH);
    assert_non_null(strstr(base_last_error(), "PE 2 sent an invalid"));
    expect_taken("");
    theirs[2].count = 0;
    their_offers[2].adapters = 9;
    assert_int_equal(find(), WEFT_ERR_MISMATCH);
    assert_string_equal(base_last_error(),
                        "path gda: PE 2 sent an invalid exchange record: too many adapters");
    expect_taken("");
    their_offers[0].adapters = 9;
    assert_int_equal(find(), WEFT_ERR_MISMATCH);
    assert_non_null(strstr(base_last_error(), "PE 0 sent an invalid"));
    expect_taken("");
    their_offers[0].adapters = 8;
    their_offers[2].adapters = 8;
    assert_int_equal(find(), WEFT_OK);
    assert_int_equal(agreements, 3);
    assert_int_equal(gathers, 2);
    expect_taken("a b");
    for (int i = 1; i <= 3; i++) { /* another PE fails */
        disagrees_at = i;
        assert_int_equal(find(), WEFT_ERR_PEER_DEAD);
        assert_int_equal(gathers, i == 3);
        expect_taken("");
    }
    disagrees_at = 0;
    for (int i = 1; i <= 2; i++) {
        gather_fails_at = i;
        assert_int_equal(find(), WEFT_ERR_TIMEOUT);
        assert_int_equal(gathers, i);
        expect_taken("");
    }
}

/* Atomics are atomic with those of CPUs only if they are so at all adapters of all PEs. */
static void weak_atomics(void **state)
{
    (void)state;
    add("a", NET_DISTANCE_PIX);
    add("b", NET_DISTANCE_PIX);
    for (int weak = 0; weak < 4; weak++) {
        devices[0].weak = weak == 1;
        devices[1].weak = weak == 2;
        their_offers[2].atomics_with_cpu = weak != 3;
        assert_int_equal(find(), WEFT_OK);
        assert_string_equal(lacks, "");
        assert_int_equal(found->atomics_with_cpu, weak == 0);
        expect_taken("a b");
    }
}

/* Without atomics at one adapter of one PE no adapter of the job executes any. Adapters that differ
 * in that are not used together, and without path net such an adapter is not used. */
static void no_atomics(void **state)
{
    (void)state;
    add("a", NET_DISTANCE_PIX);
    add("b", NET_DISTANCE_PIX);
    for (int without = 0; without < 4; without++) {
        devices[0].no_atomics = without == 1 || without == 2;
        devices[1].no_atomics = without == 2;
        their_offers[2].no_atomics = without == 3;
        assert_int_equal(find(), WEFT_OK);
        assert_string_equal(lacks, "");
        assert_int_equal(found->no_atomics, without != 0);
        expect_taken(without == 1 ? "a" : "a b");
    }
    devices[0].no_atomics = devices[1].no_atomics = true;
    setenv("WEFT_PATH", "^net", 1);
    assert_int_equal(find(), WEFT_OK);
    assert_string_equal(lacks, "a lacks masked atomics, and WEFT_PATH allows no path net for them; "
                               "b lacks masked atomics, and WEFT_PATH allows no path net for them");
    expect_taken("");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_are_taken),
        cmocka_unit_test_setup(as_near_as_the_last, setup),
        cmocka_unit_test_setup(names_that_are_told, setup),
        cmocka_unit_test(those_that_weft_hca_names),
        cmocka_unit_test(adapters_are_alike),
        cmocka_unit_test(slow_adapters_are_left_out),
        cmocka_unit_test(rates_of_ports),
        cmocka_unit_test_setup(more_than_there_are, setup),
        cmocka_unit_test_setup(many_devices, setup),
        cmocka_unit_test_setup(libraries_that_are_opened, setup),
        cmocka_unit_test_setup(folder_of_the_software_adapter, setup),
        cmocka_unit_test_setup(long_names, setup),
        cmocka_unit_test(configurations),
        cmocka_unit_test_setup(shared_with_other_pes, setup),
        cmocka_unit_test_setup(what_others_tell, setup),
        cmocka_unit_test_setup(weak_atomics, setup),
        cmocka_unit_test_setup(no_atomics, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
