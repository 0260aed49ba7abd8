/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the adapters of path gda: which libraries, which devices are near, and which of them this
 * PE takes when all have told each other what they could. Everything that they lack is told at
 * once. */
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

enum { DEVICES_MOST = 64, DEPTH_LEAST = 128, DEPTH_MOST = 32768, EACH_MOST = 64 };

/* ------------------------------------------------------------------------------ configuration */

static weft_status check_config(void)
{
    int64_t each = config_int(CONFIG_GDA_QUEUES), depth = config_int(CONFIG_GDA_DEPTH);
    int64_t adapters = config_int(CONFIG_GDA_ADAPTERS);
    uint64_t chunk = config_size(CONFIG_GDA_CHUNK);
    if (adapters < 0 || adapters > GDA_ADAPTERS_MOST)
        return base_fail(
            WEFT_ERR_CONFIG,
            "WEFT_GDA_ADAPTERS is %lld, which is not 1 to %d, nor 0 for the PE's share",
            (long long)adapters, GDA_ADAPTERS_MOST);
    if (each < 1 || each > EACH_MOST)
        return base_fail(WEFT_ERR_CONFIG, "WEFT_GDA_QUEUES is %lld, which is not 1 to %d",
                         (long long)each, EACH_MOST);
    if (depth < DEPTH_LEAST || depth > DEPTH_MOST)
        return base_fail(WEFT_ERR_CONFIG,
                         "WEFT_GDA_DEPTH is %lld, which is not a power of two from %d to %d",
                         (long long)depth, DEPTH_LEAST, DEPTH_MOST);
    if (chunk < (64 << 10) || chunk > (1u << 30) || chunk & (chunk - 1))
        return base_fail(WEFT_ERR_CONFIG,
                         "WEFT_GDA_CHUNK is %llu, which is not a power of two from 64K to 1G",
                         (unsigned long long)chunk);
    return WEFT_OK;
}

/* The folder of the software adapter: beside the file that holds this function, as it is installed,
 * or as it is built, where programs stand in another folder beside that of the libraries. */
static bool soft_folder(char folder[PATH_MAX])
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

/* "" = the system's. False: there is no such folder. */
static bool library_folder(char folder[PATH_MAX])
{
    const char *wanted = config_string(CONFIG_HCA_LIB);
    snprintf(folder, PATH_MAX, "%s", wanted);
    return wanted[0] || strcmp(config_string(CONFIG_HCA), "soft") != 0 || soft_folder(folder);
}

/* Whether WEFT_HCA lets a device of that name be used. */
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

/* ------------------------------------------------------------------------------ this PE's own */

/* What this PE could use: `adapters` has them open, the nearest first, as `told` does. */
struct finding {
    const struct path_world *world;
    struct gda_adapters *adapters;
    struct gda_candidates told;
    char *lacks; /* of those that cannot be used, "" = nothing */
    size_t lacks_bytes;
};

struct candidate {
    struct ibv_device *listed;
    enum net_distance near;
    int place; /* in the list of libibverbs */
};

static int by_nearness(const void *a, const void *b)
{
    const struct candidate *one = a, *other = b;
    return one->near != other->near ? (int)one->near - (int)other->near : one->place - other->place;
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
        found[count++] = (struct candidate){list[i], near, i};
    }
    qsort(found, (size_t)count, sizeof *found, by_nearness);
    return count;
}

static uint64_t number_of(const char *name)
{
    uint64_t hash = 1469598103934665603u; /* FNV-1a */
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 1099511628211u;
    return hash;
}

/* Whether it may be used beside the first one: unasked only when it is as fast. */
static bool is_alike(const struct finding *finding, const struct gda_adapter *one)
{
    const struct gda_adapter *first = &finding->adapters->one[0];
    return !finding->adapters->count ||
           (one->ethernet == first->ethernet &&
            (finding->told.wanted || (one->port.active_speed == first->port.active_speed &&
                                      one->port.active_width == first->port.active_width)));
}

static void try_one(struct finding *finding, const struct candidate *candidate)
{
    struct gda_adapters *adapters = finding->adapters;
    struct gda_adapter *one = &adapters->one[adapters->count];
    char lacks[160];
    *one = (struct gda_adapter){.lib = &adapters->lib};
    snprintf(one->name, sizeof one->name, "%s",
             adapters->lib.verbs.get_device_name(candidate->listed));
    gda_look_at(one, candidate->listed, lacks, sizeof lacks);
    if (!lacks[0] && !is_alike(finding, one))
        snprintf(lacks, sizeof lacks, "the kind of link of %s", adapters->one[0].name);
    if (!lacks[0]) {
        finding->told.list[finding->told.count++] =
            (struct gda_candidate){number_of(one->name), candidate->near};
        adapters->count++;
        return;
    }
    size_t used = strlen(finding->lacks);
    if (used < finding->lacks_bytes)
        snprintf(finding->lacks + used, finding->lacks_bytes - used, "%s%s lacks %s",
                 used ? "; " : "", one->name, lacks);
    gda_close_adapter(one);
}

/* Opens all that are as near as the nearest good one, and further ones while more are wanted. */
static void open_near(struct finding *finding)
{
    struct candidate found[DEVICES_MOST];
    const struct mlx5 *lib = &finding->adapters->lib;
    int n = 0, least = finding->told.wanted > 1 ? finding->told.wanted : 1;
    errno = 0;
    struct ibv_device **list = lib->verbs.get_device_list(&n);
    int count = list ? list_candidates(finding->world, lib, list, n, found) : 0;
    for (int i = 0; i < count && finding->told.count < GDA_CANDIDATES; i++) {
        if (finding->told.count >= least && found[i].near != found[i - 1].near)
            break;
        try_one(finding, &found[i]);
    }
    if (list)
        lib->verbs.free_device_list(list);
    if (!count)
        snprintf(finding->lacks, finding->lacks_bytes, "libibverbs lists %d RDMA devices%s%s%s", n,
                 n ? ", none of those that WEFT_HCA names: " : "",
                 n ? config_string(CONFIG_HCA) : "", errno ? " (no access to uverbs)" : "");
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

/* A number that was asked for and is not there. */
static weft_status check_wanted(const struct finding *finding)
{
    char names[200];
    const struct gda_adapters *adapters = finding->adapters;
    if (!adapters->count || finding->told.wanted <= finding->told.count)
        return WEFT_OK;
    list_names(adapters, names, sizeof names);
    return base_fail(
        WEFT_ERR_CONFIG,
        "WEFT_GDA_ADAPTERS is %d, but %s alone can be used%s%s: it is to be %u or less, "
        "0 for this PE's share",
        finding->told.wanted, names, finding->lacks[0] ? "; " : "", finding->lacks,
        adapters->count);
}

static weft_status find_own(struct finding *finding)
{
    char folder[PATH_MAX];
    weft_status status = check_config();
    if (status)
        return status;
    finding->told.wanted = (int32_t)config_int(CONFIG_GDA_ADAPTERS);
    if (!library_folder(folder)) {
        snprintf(finding->lacks, finding->lacks_bytes,
                 "WEFT_HCA=soft: no folder weft-hca beside libweft; WEFT_HCA_LIB names another");
        return WEFT_OK;
    }
    if (mlx5_open(&finding->adapters->lib, folder)) {
        snprintf(finding->lacks, finding->lacks_bytes, "%s", base_last_error());
        return WEFT_OK;
    }
    open_near(finding);
    log_debug("path gda: %u adapters, libraries %s", finding->adapters->count,
              folder[0] ? folder : "of the system");
    return check_wanted(finding);
}

/* ------------------------------------------------------------------------------------ the job's */

/* Leaves this PE the adapters that it picks. */
static weft_status take_own(struct finding *finding, const struct gda_candidates *all)
{
    const struct path_world *world = finding->world;
    struct gda_adapters *adapters = finding->adapters;
    struct gda_picked picked;
    uint32_t taken = 0;
    gda_pick(all, world->boot->node_of, world->npes, world->pe, &picked);
    for (uint32_t i = 0; i < adapters->count; i++) {
        if (taken < picked.count && picked.which[taken] == i)
            adapters->one[taken++] = adapters->one[i];
        else
            gda_close_adapter(&adapters->one[i]);
    }
    adapters->count = taken;
    return WEFT_OK;
}

/* All PEs that have any take as many. *least: a PE that has no more, where that is not this one. */
static weft_status take_as_many(struct finding *finding, int *least)
{
    const struct path_world *world = finding->world;
    struct gda_adapters *adapters = finding->adapters;
    uint32_t mine = adapters->count, *counts = calloc((size_t)world->npes, sizeof *counts);
    weft_status status = counts ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory");
    status = boot_agree(world->boot, status);
    if (!status)
        status = world->boot->ops->allgather(world->boot, &mine, counts, sizeof mine);
    for (int pe = 0; pe < world->npes && !status; pe++)
        if (gda_count_fault(counts[pe]))
            status = gda_refuse(pe, gda_count_fault(counts[pe]));
    for (int pe = 0; pe < world->npes && !status; pe++)
        if (counts[pe] && counts[pe] < mine) {
            mine = counts[pe];
            *least = pe;
        }
    for (uint32_t i = mine; i < adapters->count; i++)
        gda_close_adapter(&adapters->one[i]);
    adapters->count = mine;
    free(counts);
    return status;
}

static weft_status share(struct finding *finding, int *least)
{
    const struct path_world *world = finding->world;
    struct gda_candidates *all = calloc((size_t)world->npes, sizeof *all);
    weft_status status = all ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory");
    status = boot_agree(world->boot, status);
    if (!status)
        status =
            world->boot->ops->allgather(world->boot, &finding->told, all, sizeof finding->told);
    for (int pe = 0; pe < world->npes && !status; pe++)
        if (gda_candidates_fault(&all[pe]))
            status = gda_refuse(pe, gda_candidates_fault(&all[pe]));
    if (!status)
        status = take_own(finding, all);
    free(all);
    return status ? status : take_as_many(finding, least);
}

bool gda_atomics_with_cpu(const struct gda_adapters *adapters)
{
    bool all = true;
    for (uint32_t a = 0; a < adapters->count; a++)
        all &= adapters->one[a].atomics_with_cpu;
    return all;
}

uint32_t gda_queues_each(uint32_t adapters)
{
    uint32_t each = (uint32_t)config_int(CONFIG_GDA_QUEUES);
    return each > adapters ? each : adapters;
}

/* The reason of the path. */
static void describe(const struct finding *finding, int least, char *has, size_t bytes)
{
    const struct gda_adapters *adapters = finding->adapters;
    char names[120];
    list_names(adapters, names, sizeof names);
    size_t used = (size_t)snprintf(has, bytes, "requests to %s, port %d (%s)%s", names, GDA_PORT,
                                   adapters->one[0].ethernet ? "RoCE" : "InfiniBand",
                                   strcmp(config_string(CONFIG_HCA), "soft") &&
                                           !config_string(CONFIG_HCA_LIB)[0]
                                       ? ""
                                       : ", libraries of their own");
    if (least != finding->world->pe && used < bytes)
        used += (size_t)snprintf(has + used, bytes - used, "; PE %d has no more", least);
    if (config_int(CONFIG_GDA_QUEUES) < (int64_t)adapters->count && used < bytes)
        snprintf(has + used, bytes - used, "; WEFT_GDA_QUEUES %lld raised to %u",
                 (long long)config_int(CONFIG_GDA_QUEUES), adapters->count);
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

weft_status gda_find(const struct path_world *world, struct gda_adapters **result, char *lacks,
                     size_t lacks_bytes, char *has, size_t has_bytes)
{
    struct finding finding = {.world = world, .lacks = lacks, .lacks_bytes = lacks_bytes};
    int least = world->pe;
    *result = NULL;
    lacks[0] = '\0';
    finding.adapters = calloc(1, sizeof *finding.adapters);
    weft_status status = finding.adapters
                             ? find_own(&finding)
                             : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for path gda");
    status = boot_agree(world->boot, status);
    if (!status)
        status = share(&finding, &least);
    if (status || !finding.adapters->count) {
        gda_drop_adapters(finding.adapters);
        return status;
    }
    lacks[0] = '\0';
    if (!gda_atomics_with_cpu(finding.adapters) && strcmp(config_string(CONFIG_PATH), "gda") != 0) {
        snprintf(lacks, lacks_bytes,
                 "atomics of %s are not atomic with those of CPUs: all must go by it "
                 "(WEFT_PATH=gda, and no other path)",
                 finding.adapters->one[0].name);
        gda_drop_adapters(finding.adapters);
        return WEFT_OK;
    }
    describe(&finding, least, has, has_bytes);
    *result = finding.adapters;
    return WEFT_OK;
}
