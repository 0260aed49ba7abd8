/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the NICs of path gda: loads the libraries, probes the nearest devices, and picks this PE's
 * NICs after all PEs have exchanged theirs. One message lists everything that they lack. */
#include "path/gda/gda.h"

#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "boot/agree.h"
#include "path/gda/pick.h"
#include "path/net/near.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEVICES_MOST = 64,
    DEPTH_LEAST = 128,
    DEPTH_MOST = 32768,
    AUTOMATIC_BYTES_MOST = 256 << 20,
    RC_BYTES_MOST = 1 << 30,    /* of RC queues in a PE that uses all peers */
    TWO_QUEUES_PES_MOST = 1000, /* PEs of a job with two queues of device code to each; a queue that
                                   is not connected takes 256 bytes of GPU memory */
};

/* ------------------------------------------------------------------------------ configuration */

static weft_status check_config(void)
{
    int64_t each = config_int(CONFIG_GDA_QUEUES), depth = config_int(CONFIG_TEST_GDA_DEPTH);
    uint64_t chunk = config_size(CONFIG_TEST_GDA_CHUNK);
    if (each < 0 || each > GDA_QUEUES_MOST)
        return base_fail(WEFT_ERR_CONFIG, "WEFT_GDA_QUEUES is %lld, which is not 0 to %d",
                         (long long)each, GDA_QUEUES_MOST);
    if (depth < DEPTH_LEAST || depth > DEPTH_MOST)
        return base_fail(WEFT_ERR_CONFIG,
                         "WEFT_TEST_GDA_DEPTH is %lld, which is not a power of two from %d to %d",
                         (long long)depth, DEPTH_LEAST, DEPTH_MOST);
    if (chunk < (64 << 10) || chunk > (1u << 30) || chunk & (chunk - 1))
        return base_fail(WEFT_ERR_CONFIG,
                         "WEFT_TEST_GDA_CHUNK is %llu, which is not a power of two from 64K to 1G",
                         (unsigned long long)chunk);
    if (config_int(CONFIG_TEST_GDA_RC) < -1)
        return base_fail(WEFT_ERR_CONFIG,
                         "WEFT_TEST_GDA_RC is %lld, which is neither a number of PEs nor -1",
                         (long long)config_int(CONFIG_TEST_GDA_RC));
    return WEFT_OK;
}

/* Finds the folder of the software adapter relative to the file that holds this function: next to
 * libweft as installed, or in ../lib as built, where a program's folder is not that of the
 * libraries. */
static bool find_soft_folder(char folder[PATH_MAX])
{
    static const char *const beside[] = {"weft-hca", "../lib/weft-hca"};
    Dl_info info;
    char file[PATH_MAX];
    if (!dladdr((void *)(uintptr_t)check_config, &info) || !realpath(info.dli_fname, file))
        return false;
    char *slash = strrchr(file, '/');
    if (slash)
        *slash = '\0';
    for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++) {
        char tried[PATH_MAX + 64];
        snprintf(tried, sizeof tried, "%s/%s", file, beside[i]);
        if (realpath(tried, folder))
            return true;
    }
    return false;
}

/* Finds the folder of the RDMA libraries; "" = the system's. Returns false if there is none. */
static bool find_library_folder(char folder[PATH_MAX])
{
    const char *wanted = config_string(CONFIG_TEST_HCA_LIB);
    snprintf(folder, PATH_MAX, "%s", wanted);
    return wanted[0] || strcmp(config_string(CONFIG_HCA), "soft") != 0 || find_soft_folder(folder);
}

/* Returns true if WEFT_HCA allows a device of that name. */
static bool is_wanted(const char *name)
{
    const char *list = config_string(CONFIG_HCA);
    if (!list[0] || !strcmp(list, "auto") || !strcmp(list, "soft"))
        return true;
    for (size_t length; *list; list += length + (list[length] == ',')) {
        length = strcspn(list, ",");
        if (strlen(name) == length && !strncmp(name, list, length))
            return true;
    }
    return false;
}

/* ------------------------------------------------------------------------------ NICs of this PE */

/* NICs that this PE could use, nearest first. `adapters` has them open, `candidates` is their
 * exchange record. */
struct nic_finding {
    const struct path_world *world;
    struct gda_adapters *adapters;
    struct gda_candidates candidates;
    char *lacks; /* What the unusable NICs lack; "" = nothing. */
    size_t lacks_bytes;
};

struct candidate {
    struct ibv_device *listed;
    enum net_distance near;
    int place;     /* index in libibverbs' list */
    uint32_t mbps; /* 0: unknown, or the port is down */
};

static int compare_distance(const void *a, const void *b)
{
    const struct candidate *one = a, *other = b;
    return one->near != other->near ? (int)one->near - (int)other->near : one->place - other->place;
}

static uint32_t find_rate(const struct mlx5 *lib, struct ibv_device *listed)
{
    struct ibv_port_attr port = {0};
    struct ibv_context *context = lib->verbs.open_device(listed);
    if (!context)
        return 0;
    if (lib->verbs.query_port(context, GDA_PORT, &port) || port.state != IBV_PORT_ACTIVE)
        port = (struct ibv_port_attr){0};
    lib->verbs.close_device(context);
    return gda_port_mbps(&port);
}

static int list_candidates(const struct path_world *world, const struct mlx5 *lib,
                           struct ibv_device **list, int n, struct candidate *found)
{
    struct net_pe_location spot;
    struct net_device_location place;
    cpu_set_t cpus;
    int count = 0;
    CPU_ZERO(&cpus);
    sched_getaffinity(0, sizeof cpus, &cpus);
    net_locate_pe("", world->boot->local_pe, config_string(CONFIG_GPU),
                  getenv("CUDA_VISIBLE_DEVICES"), &cpus, &spot);
    for (int i = 0; i < n && count < DEVICES_MOST; i++) {
        const char *name = lib->verbs.get_device_name(list[i]);
        if (!is_wanted(name))
            continue;
        enum net_distance near = net_locate_interface("", name, &place)
                                     ? net_find_distance(&spot, &place)
                                     : NET_DISTANCE_UNKNOWN;
        found[count++] = (struct candidate){list[i], near, i, find_rate(lib, list[i])};
    }
    qsort(found, (size_t)count, sizeof *found, compare_distance);
    return count;
}

static uint64_t hash_name(const char *name)
{
    uint64_t hash = 1469598103934665603u; /* FNV-1a */
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 1099511628211u;
    return hash;
}

/* Returns true if the job may use path net, over which queues are connected at first use, and which
 * executes the atomics that a NIC lacks. */
static bool may_use_spare(void)
{
    struct path_order order;
    return !path_order_parse(config_string(CONFIG_PATH), &order) && !order.forced &&
           !(order.excluded >> path_ops_of(PATH_GDA)->spare & 1);
}

/* Returns true if a NIC may be used together with the first one. Unless the user set a number, only
 * a NIC of the same speed may. */
static bool matches_first(const struct nic_finding *finding, const struct gda_adapter *one)
{
    const struct gda_adapter *first = &finding->adapters->one[0];
    return !finding->adapters->count || (one->ethernet == first->ethernet &&
                                         (finding->candidates.requested ||
                                          (one->port.active_speed == first->port.active_speed &&
                                           one->port.active_width == first->port.active_width)));
}

static void probe_candidate(struct nic_finding *finding, const struct candidate *candidate)
{
    struct gda_adapters *adapters = finding->adapters;
    struct gda_adapter *one = &adapters->one[adapters->count];
    char lacks[160];
    *one = (struct gda_adapter){.lib = &adapters->lib};
    snprintf(one->name, sizeof one->name, "%s",
             adapters->lib.verbs.get_device_name(candidate->listed));
    gda_probe_adapter(one, candidate->listed, lacks, sizeof lacks);
    if (!lacks[0] && one->no_atomics && !may_use_spare())
        snprintf(lacks, sizeof lacks, "masked atomics, and WEFT_PATH allows no path net for them");
    if (!lacks[0] && !matches_first(finding, one))
        snprintf(lacks, sizeof lacks, "the link type of %s", adapters->one[0].name);
    if (!lacks[0] && adapters->count && one->no_atomics != adapters->one[0].no_atomics)
        snprintf(lacks, sizeof lacks, "the kind of atomics of %s", adapters->one[0].name);
    if (!lacks[0]) {
        finding->candidates.list[finding->candidates.count++] =
            (struct gda_candidate){hash_name(one->name), candidate->near};
        adapters->count++;
        return;
    }
    size_t used = strlen(finding->lacks);
    if (used < finding->lacks_bytes)
        snprintf(finding->lacks + used, finding->lacks_bytes - used, "%s%s lacks %s",
                 used ? "; " : "", one->name, lacks);
    gda_close_adapter(one);
}

/* Puts NICs of less than half the rate of the fastest, such as those for storage or management,
 * behind the others, unless WEFT_HCA names them. Returns the number of the others. */
static int set_slow_apart(struct candidate *found, int count)
{
    const char *named = config_string(CONFIG_HCA);
    const bool any = !named[0] || !strcmp(named, "auto") || !strcmp(named, "soft");
    struct candidate slow[DEVICES_MOST];
    uint32_t fastest = 0;
    int kept = 0;
    for (int i = 0; i < count; i++)
        fastest = found[i].mbps > fastest ? found[i].mbps : fastest;
    for (int i = 0; i < count; i++)
        if (any && path_is_slow(found[i].mbps, fastest))
            slow[i - kept] = found[i];
        else
            found[kept++] = found[i];
    memcpy(&found[kept], slow, (size_t)(count - kept) * sizeof *slow);
    return kept;
}

static void say_what_is_slow(struct nic_finding *finding, const struct candidate *slow, int count)
{
    for (int i = 0; i < count; i++) {
        const size_t used = strlen(finding->lacks);
        if (used < finding->lacks_bytes)
            snprintf(finding->lacks + used, finding->lacks_bytes - used,
                     "%s%s lacks half the rate of the fastest adapter", used ? "; " : "",
                     finding->adapters->lib.verbs.get_device_name(slow[i].listed));
    }
}

/* Opens all NICs as near as the nearest usable one, and farther ones until the requested number is
 * reached. */
static void open_listed(struct nic_finding *finding, const struct candidate *found, int count)
{
    const int least = finding->candidates.requested > 1 ? finding->candidates.requested : 1;
    for (int i = 0; i < count && finding->candidates.count < GDA_CANDIDATES; i++) {
        if (finding->candidates.count >= least && found[i].near != found[i - 1].near)
            break;
        probe_candidate(finding, &found[i]);
    }
}

static void open_nearest(struct nic_finding *finding)
{
    struct candidate found[DEVICES_MOST];
    const struct mlx5 *lib = &finding->adapters->lib;
    int n = 0;
    errno = 0;
    struct ibv_device **list = lib->verbs.get_device_list(&n);
    const int count = list ? list_candidates(finding->world, lib, list, n, found) : 0;
    const int fast = set_slow_apart(found, count);
    open_listed(finding, found, fast);
    if (finding->candidates.count)
        say_what_is_slow(finding, found + fast, count - fast);
    else
        open_listed(finding, found + fast, count - fast);
    if (list)
        lib->verbs.free_device_list(list);
    if (!count)
        snprintf(finding->lacks, finding->lacks_bytes, "libibverbs lists %d RDMA devices%s%s%s", n,
                 n ? ", none named by WEFT_HCA: " : "", n ? config_string(CONFIG_HCA) : "",
                 errno ? " (no access to uverbs)" : "");
}

/* "mlx5_0, mlx5_1 and mlx5_2" */
static void list_names(const struct gda_adapters *adapters, char *text, size_t bytes)
{
    size_t used = 0;
    for (uint32_t a = 0; a < adapters->count && used < bytes; a++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s",
                                 !a                         ? ""
                                 : a + 1 == adapters->count ? " and "
                                                            : ", ",
                                 adapters->one[a].name);
}

/* Fails if the user requested more NICs than are usable. */
static weft_status check_requested(const struct nic_finding *finding)
{
    char names[200];
    const struct gda_adapters *adapters = finding->adapters;
    if (!adapters->count || finding->candidates.requested <= finding->candidates.count)
        return WEFT_OK;
    list_names(adapters, names, sizeof names);
    return base_fail(
        WEFT_ERR_CONFIG,
        "WEFT_RAILS is %d, but only %s can be used%s%s: set it to %u or less, or to 0 for "
        "this PE's share",
        finding->candidates.requested, names, finding->lacks[0] ? "; " : "", finding->lacks,
        adapters->count);
}

/* Whether WEFT_PATH names this path. */
static bool is_asked_for(void)
{
    struct path_order order;
    bool asked = false;
    if (path_order_parse(config_string(CONFIG_PATH), &order))
        return false;
    for (int i = 0; i < order.count; i++)
        asked |= order.order[i] == PATH_GDA;
    return asked;
}

/* Queues to all PEs are in pinned memory. A path that the user did not name may take no more than
 * AUTOMATIC_BYTES_MOST of it. */
static bool is_too_large(int npes, char *lacks, size_t lacks_bytes)
{
    size_t each = gda_queue_bytes((uint32_t)config_int(CONFIG_TEST_GDA_DEPTH));
    size_t bytes = (size_t)npes * (gda_queues_each(1, npes) + 1) * each;
    if (bytes <= AUTOMATIC_BYTES_MOST || is_asked_for())
        return false;
    snprintf(lacks, lacks_bytes,
             "queues to %d PEs would take %zu MiB of pinned memory of each; WEFT_PATH=gda,... uses "
             "it all the same, WEFT_GDA_QUEUES=1 takes less",
             npes, bytes >> 20);
    return true;
}

static void give_up_if_large(struct nic_finding *finding)
{
    struct gda_adapters *adapters = finding->adapters;
    if (!adapters->count ||
        (finding->world->npes > config_int(CONFIG_TEST_GDA_EAGER) && may_use_spare()) ||
        !is_too_large(finding->world->npes, finding->lacks, finding->lacks_bytes))
        return;
    for (uint32_t a = 0; a < adapters->count; a++)
        gda_close_adapter(&adapters->one[a]);
    adapters->count = 0;
    finding->candidates.count = finding->candidates.requested = 0;
}

static weft_status find_own_adapters(struct nic_finding *finding)
{
    char folder[PATH_MAX];
    weft_status status = check_config();
    if (status)
        return status;
    if (config_bool(CONFIG_FABRIC_PROVIDER)) {
        snprintf(finding->lacks, finding->lacks_bytes,
                 "WEFT_FABRIC_PROVIDER asks for encryption, and adapters send plain text");
        return WEFT_OK;
    }
    finding->candidates.requested = config_choice(CONFIG_RAILS);
    if (!find_library_folder(folder)) {
        snprintf(finding->lacks, finding->lacks_bytes,
                 "WEFT_HCA=soft: no folder weft-hca next to libweft; set WEFT_TEST_HCA_LIB to its "
                 "folder");
        return WEFT_OK;
    }
    if (mlx5_open(&finding->adapters->lib, folder)) {
        snprintf(finding->lacks, finding->lacks_bytes, "%s", base_last_error());
        return WEFT_OK;
    }
    open_nearest(finding);
    give_up_if_large(finding);
    log_debug(LOG_GDA, "path gda: %u adapters, libraries %s", finding->adapters->count,
              folder[0] ? folder : "of the system");
    return check_requested(finding);
}

/* ------------------------------------------------------------------------------ NICs of all PEs */

/* Keeps the NICs that this PE picks and closes the others. */
static weft_status keep_picked(struct nic_finding *finding, const struct gda_candidates *all)
{
    const struct path_world *world = finding->world;
    struct gda_adapters *adapters = finding->adapters;
    struct gda_picked picked;
    uint32_t taken = 0;
    gda_pick_adapters(all, world->boot->node_of, world->npes, world->pe, &picked);
    for (uint32_t i = 0; i < adapters->count; i++) {
        if (taken < picked.count && picked.which[taken] == i)
            adapters->one[taken++] = adapters->one[i];
        else
            gda_close_adapter(&adapters->one[i]);
    }
    adapters->count = taken;
    return WEFT_OK;
}

/* Whether a NIC of this PE has no atomics. */
static bool has_no_atomics(const struct gda_adapters *adapters)
{
    bool any = false;
    for (uint32_t a = 0; a < adapters->count; a++)
        any |= adapters->one[a].no_atomics;
    return any;
}

/* Whether all NICs of this PE have DC queues. */
static bool has_dc(const struct gda_adapters *adapters)
{
    bool all = adapters->count;
    for (uint32_t a = 0; a < adapters->count; a++)
        all &= adapters->one[a].dc;
    return all;
}

/* Whether the atomics of all NICs of this PE are atomic with those of CPUs. */
static bool has_atomics_with_cpu(const struct gda_adapters *adapters)
{
    bool all = true;
    for (uint32_t a = 0; a < adapters->count; a++)
        all &= adapters->one[a].atomics_with_cpu;
    return all;
}

/* Reduces the number of NICs to the smallest of all PEs, and finds out whether all have DC queues
 * and atomics, and whether these are atomic with those of CPUs. *least receives the PE with that
 * number if it is not this one. */
static weft_status agree_on_adapters(struct nic_finding *finding, int *least)
{
    const struct path_world *world = finding->world;
    struct gda_adapters *adapters = finding->adapters;
    struct gda_offer mine = {adapters->count, has_atomics_with_cpu(adapters),
                             has_no_atomics(adapters), has_dc(adapters)},
                     *all = calloc((size_t)world->npes, sizeof *all);
    weft_status status = all ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory");
    status = boot_agree(world->boot, status);
    if (!status)
        status = world->boot->ops->allgather(world->boot, &mine, all, sizeof mine);
    for (int pe = 0; pe < world->npes && !status; pe++)
        if (gda_offer_fault(&all[pe]))
            status = gda_fail_record(pe, gda_offer_fault(&all[pe]));
    for (int pe = 0; pe < world->npes && !status; pe++) {
        mine.atomics_with_cpu &= all[pe].atomics_with_cpu;
        mine.no_atomics |= all[pe].no_atomics;
        mine.dc &= all[pe].dc;
        if (all[pe].adapters < mine.adapters) {
            mine.adapters = all[pe].adapters;
            *least = pe;
        }
    }
    for (uint32_t i = mine.adapters; i < adapters->count; i++)
        gda_close_adapter(&adapters->one[i]);
    adapters->count = mine.adapters;
    adapters->atomics_with_cpu = mine.atomics_with_cpu;
    adapters->no_atomics = mine.no_atomics;
    adapters->dc = mine.dc;
    free(all);
    return status;
}

static weft_status share_adapters(struct nic_finding *finding, int *least)
{
    const struct path_world *world = finding->world;
    struct gda_candidates *all = calloc((size_t)world->npes, sizeof *all);
    weft_status status = all ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory");
    status = boot_agree(world->boot, status);
    if (!status)
        status = world->boot->ops->allgather(world->boot, &finding->candidates, all,
                                             sizeof finding->candidates);
    for (int pe = 0; pe < world->npes && !status; pe++)
        if (gda_candidates_fault(&all[pe]))
            status = gda_fail_record(pe, gda_candidates_fault(&all[pe]));
    if (!status)
        status = keep_picked(finding, all);
    free(all);
    return status ? status : agree_on_adapters(finding, least);
}

static uint32_t wanted_queues(int npes)
{
    uint32_t each = (uint32_t)config_int(CONFIG_GDA_QUEUES);
    return each ? each : npes > TWO_QUEUES_PES_MOST ? 1 : 2;
}

uint32_t gda_queues_each(uint32_t adapters, int npes)
{
    uint32_t each = wanted_queues(npes);
    return each > adapters ? each : adapters;
}

int gda_rc_peers(const struct path_world *world, uint32_t adapters)
{
    int64_t limit = config_int(CONFIG_TEST_GDA_RC);
    size_t link = (gda_queues_each(adapters, world->npes) + adapters) *
                  gda_queue_bytes((uint32_t)config_int(CONFIG_TEST_GDA_DEPTH));
    limit = limit < 0 ? (int64_t)(RC_BYTES_MOST / link) : limit;
    /* As many with lower numbers as with higher ones. */
    return limit < world->npes - 1 ? (int)(limit / 2 * 2) : world->npes - 1;
}

/* Says how PEs are reached that are beyond the limit of RC queues. */
static void describe_dc(const struct nic_finding *finding, char *has, size_t bytes)
{
    const struct gda_adapters *adapters = finding->adapters;
    int peers = gda_rc_peers(finding->world, adapters->count);
    if (peers >= finding->world->npes - 1)
        return;
    uint32_t a = 0;
    while (a < adapters->count && adapters->one[a].dc)
        a++;
    if (adapters->dc)
        snprintf(has, bytes, "; RC to %d PEs, DC to the others", peers);
    else
        snprintf(has, bytes, "; RC to all PEs, because %s has no DC",
                 a < adapters->count ? adapters->one[a].name : "an adapter of another PE");
}

/* Describes the NICs, as the reason why the path is used. */
static void describe_adapters(const struct nic_finding *finding, int least, char *has, size_t bytes)
{
    const struct gda_adapters *adapters = finding->adapters;
    char names[120];
    list_names(adapters, names, sizeof names);
    size_t used = (size_t)snprintf(has, bytes, "requests to %s, port %d (%s)%s", names, GDA_PORT,
                                   adapters->one[0].ethernet ? "RoCE" : "InfiniBand",
                                   strcmp(config_string(CONFIG_HCA), "soft") != 0 &&
                                           !config_string(CONFIG_TEST_HCA_LIB)[0]
                                       ? ""
                                       : ", not the system's libraries");
    if (least != finding->world->pe && used < bytes)
        used += (size_t)snprintf(has + used, bytes - used, "; limited by PE %d", least);
    uint32_t wanted = wanted_queues(finding->world->npes);
    if (wanted < adapters->count && used < bytes)
        used += (size_t)snprintf(has + used, bytes - used, "; WEFT_GDA_QUEUES %u raised to %u",
                                 wanted, adapters->count);
    if (used < bytes)
        describe_dc(finding, has + used, bytes - used);
}

void gda_drop_adapters(void *argument)
{
    struct gda_adapters *adapters = argument;
    if (!adapters)
        return;
    for (uint32_t a = 0; a < adapters->count; a++)
        gda_close_adapter(&adapters->one[a]);
    if (adapters->lib.handle)
        mlx5_close(&adapters->lib);
    free(adapters);
}

weft_status gda_find_adapters(const struct path_world *world, struct gda_adapters **result,
                              char *lacks, size_t lacks_bytes, char *has, size_t has_bytes)
{
    struct nic_finding finding = {.world = world, .lacks = lacks, .lacks_bytes = lacks_bytes};
    int least = world->pe;
    *result = NULL;
    lacks[0] = '\0';
    finding.adapters = calloc(1, sizeof *finding.adapters);
    weft_status status = finding.adapters
                             ? find_own_adapters(&finding)
                             : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for path gda");
    status = boot_agree(world->boot, status);
    if (!status)
        status = share_adapters(&finding, &least);
    if (status || !finding.adapters->count) {
        gda_drop_adapters(finding.adapters);
        if (!status && finding.candidates.count)
            snprintf(lacks, lacks_bytes,
                     "PE %d has no adapter, and this path serves all PEs or none", least);
        return status;
    }
    lacks[0] = '\0';
    describe_adapters(&finding, least, has, has_bytes);
    *result = finding.adapters;
    return WEFT_OK;
}
