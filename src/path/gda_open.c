/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the adapter of path gda: which libraries, which device, whether it has all that the path needs.
 * Everything that a device lacks is told at once. */
#include "path/gda.h"

#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "path/net_near.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { GIDS_MOST = 64, DEVICES_MOST = 64, DEPTH_LEAST = 128, DEPTH_MOST = 32768, EACH_MOST = 64 };

/* ------------------------------------------------------------------------------ configuration */

static weft_status check_config(void)
{
    int64_t each = config_int(CONFIG_GDA_QUEUES), depth = config_int(CONFIG_GDA_DEPTH);
    uint64_t chunk = config_size(CONFIG_GDA_CHUNK);
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

/* The folder of the software adapter: beside the file that holds this function, as it is installed, or
 * as it is built, where programs stand in another folder beside that of the libraries. */
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

/* -------------------------------------------------------------------------------- one adapter */

static void lacking(char *lacks, size_t bytes, const char *what, const char *why)
{
    size_t used = strlen(lacks);
    if (used < bytes)
        snprintf(lacks + used, bytes - used, "%s%s%s%s", used ? ", " : "", what, why[0] ? ": " : "",
                 why);
}

/* How far a GID reaches: one of RoCE v2 further than one of v1, which no router knows, and the one of an IPv4 address
 * further than a link-local one. */
static int reach_of(const union ibv_gid *gid, bool second)
{
    static const unsigned char ipv4[12] = {[10] = 0xff, [11] = 0xff};
    return 2 * second + !memcmp(gid->raw, ipv4, sizeof ipv4);
}

/* The GID of the port that reaches furthest; the kernel tells the version of each beside it. -1: there is none. */
static int find_gid(const struct gda_device *device, union ibv_gid *gid)
{
    static const union ibv_gid zero;
    int any = -1, furthest = -1;
    for (int i = 0; i < GIDS_MOST && i < device->port.gid_tbl_len; i++) {
        char path[300], type[32] = "";
        union ibv_gid here;
        if (device->lib.verbs.query_gid(device->context, GDA_PORT, i, &here))
            break;
        if (memcmp(&here, &zero, sizeof here) == 0)
            continue;
        snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/%d/gid_attrs/types/%d",
                 device->name, GDA_PORT, i);
        FILE *file = fopen(path, "re");
        bool second = file && fgets(type, sizeof type, file) && strstr(type, "v2");
        if (file)
            fclose(file);
        if (reach_of(&here, second) <= furthest)
            continue;
        furthest = reach_of(&here, second);
        any = i;
        *gid = here;
    }
    return any;
}

static void look_at_port(struct gda_device *device, char *lacks, size_t bytes)
{
    memset(&device->port, 0, sizeof device->port);
    int error = device->lib.verbs.query_port(device->context, GDA_PORT, &device->port);
    if (error) {
        lacking(lacks, bytes, "ibv_query_port", strerror(error));
        return;
    }
    if (device->port.state != IBV_PORT_ACTIVE)
        lacking(lacks, bytes, "port 1 is down", "");
    device->ethernet = device->port.link_layer == IBV_LINK_LAYER_ETHERNET;
    device->gid_index = find_gid(device, &device->gid);
    if (device->ethernet && device->gid_index < 0)
        lacking(lacks, bytes, "no GID at port 1", "");
    if (!device->ethernet && !device->port.lid)
        lacking(lacks, bytes, "no LID at port 1", "");
}

static void look_at_pd(struct gda_device *device, char *lacks, size_t bytes)
{
    struct mlx5dv_pd number = {0};
    struct mlx5dv_obj object = {.pd = {.out = &number}};
    device->pd = device->lib.verbs.alloc_pd(device->context);
    object.pd.in = device->pd;
    if (!device->pd)
        lacking(lacks, bytes, "ibv_alloc_pd", strerror(errno));
    else if (device->lib.dv.init_obj(&object, MLX5DV_OBJ_PD))
        lacking(lacks, bytes, "mlx5dv_init_obj of the protection domain", strerror(errno));
    device->pd_number = number.pdn;
    if (device->lib.dv.query_eqn(device->context, 0, &device->eq_number))
        lacking(lacks, bytes, "mlx5dv_devx_query_eqn", strerror(errno));
}

/* That a doorbell register and a page of own memory can be had is tried with one of each. */
static void look_at_memory(struct gda_device *device, char *lacks, size_t bytes)
{
    void *page = mmap(NULL, GDA_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct mlx5dv_devx_uar *uar = device->lib.dv.alloc_uar(device->context, 0);
    if (!uar)
        lacking(lacks, bytes, "no doorbell register (mlx5dv_devx_alloc_uar)", strerror(errno));
    else
        device->lib.dv.free_uar(uar);
    if (page == MAP_FAILED)
        return;
    struct mlx5dv_devx_umem *umem =
        device->lib.dv.umem_reg(device->context, page, GDA_PAGE, IBV_ACCESS_LOCAL_WRITE);
    if (!umem)
        lacking(lacks, bytes, "no queues in own memory (mlx5dv_devx_umem_reg)", strerror(errno));
    else
        device->lib.dv.umem_dereg(umem);
    munmap(page, GDA_PAGE);
}

static void look_at_limits(struct gda_device *device)
{
    struct ibv_device_attr attr;
    int most = 16;
    memset(&attr, 0, sizeof attr);
    if (device->lib.verbs.query_device && !device->lib.verbs.query_device(device->context, &attr)) {
        most = attr.max_qp_rd_atom < attr.max_qp_init_rd_atom ? attr.max_qp_rd_atom
                                                              : attr.max_qp_init_rd_atom;
        device->atomics_with_cpu = attr.atomic_cap == IBV_ATOMIC_GLOB;
    }
    device->log_reads = most > 1 ? (uint8_t)(31 - __builtin_clz((unsigned)most)) : 0;
    device->log_reads = device->log_reads < 7 ? device->log_reads : 7;
}

/* What it lacks, "" = nothing; then it is open. */
static void look_at(struct gda_device *device, struct ibv_device *listed, char *lacks, size_t bytes)
{
    lacks[0] = '\0';
    errno = 0;
    device->context = device->lib.verbs.open_device(listed);
    if (!device->context) {
        lacking(lacks, bytes, "ibv_open_device", strerror(errno));
        return;
    }
    look_at_port(device, lacks, bytes);
    gda_query_caps(device, lacks, bytes);
    look_at_pd(device, lacks, bytes);
    look_at_memory(device, lacks, bytes);
    look_at_limits(device);
}

static void close_context(struct gda_device *device)
{
    if (device->pd)
        device->lib.verbs.dealloc_pd(device->pd);
    if (device->context)
        device->lib.verbs.close_device(device->context);
    device->pd = NULL;
    device->context = NULL;
}

void gda_drop_device(void *argument)
{
    struct gda_device *device = argument;
    if (!device)
        return;
    close_context(device);
    mlx5_close(&device->lib);
    free(device);
}

/* ------------------------------------------------------------------------------ the nearest one */

struct candidate {
    struct ibv_device *listed;
    enum net_near near;
};

static int by_nearness(const void *a, const void *b)
{
    return (int)((const struct candidate *)a)->near - (int)((const struct candidate *)b)->near;
}

/* PEs of a node that have several equally near take them by turns. */
static int list_candidates(const struct path_world *world, const struct gda_device *device,
                           struct ibv_device **list, int n, struct candidate *found)
{
    struct net_spot spot;
    struct net_place place;
    cpu_set_t cpus;
    int count = 0, equal = 0, local = world->boot->local_pe;
    CPU_ZERO(&cpus);
    sched_getaffinity(0, sizeof cpus, &cpus);
    net_find_spot("", local, config_string(CONFIG_GPU), getenv("CUDA_VISIBLE_DEVICES"), &cpus,
                  &spot);
    for (int i = 0; i < n && count < DEVICES_MOST; i++) {
        const char *name = device->lib.verbs.get_device_name(list[i]);
        if (!is_wanted(name))
            continue;
        enum net_near near =
            net_place_of_interface("", name, &place) ? net_near(&spot, &place) : NET_NEAR_UNKNOWN;
        found[count++] = (struct candidate){list[i], near};
    }
    qsort(found, (size_t)count, sizeof *found, by_nearness);
    while (equal < count && found[equal].near == found[0].near)
        equal++;
    for (int turn = equal ? local % equal : 0; turn > 0; turn--) {
        struct candidate first = found[0];
        memmove(found, found + 1, (size_t)(equal - 1) * sizeof *found);
        found[equal - 1] = first;
    }
    return count;
}

/* Opens the first that has everything; false: `lacks` names each with what it lacks. */
static bool open_one(const struct path_world *world, struct gda_device *device, char *lacks,
                     size_t bytes)
{
    struct candidate found[DEVICES_MOST];
    int n = 0;
    errno = 0;
    struct ibv_device **list = device->lib.verbs.get_device_list(&n);
    int count = list ? list_candidates(world, device, list, n, found) : 0;
    bool good = false;
    lacks[0] = '\0';
    for (int i = 0; i < count && !good; i++) {
        char one[160];
        snprintf(device->name, sizeof device->name, "%s",
                 device->lib.verbs.get_device_name(found[i].listed));
        look_at(device, found[i].listed, one, sizeof one);
        good = !one[0];
        if (!good) {
            size_t used = strlen(lacks);
            snprintf(lacks + used, bytes - used, "%s%s lacks %s", used ? "; " : "", device->name,
                     one);
            close_context(device);
        }
    }
    if (list)
        device->lib.verbs.free_device_list(list);
    if (!count)
        snprintf(lacks, bytes, "libibverbs lists %d RDMA devices%s%s%s", n,
                 n ? ", none of those that WEFT_HCA names: " : "",
                 n ? config_string(CONFIG_HCA) : "", errno ? " (no access to uverbs)" : "");
    return good;
}

weft_status gda_find(const struct path_world *world, struct gda_device **result, char *lacks,
                     size_t lacks_bytes, char *has, size_t has_bytes)
{
    char folder[PATH_MAX];
    *result = NULL;
    weft_status status = check_config();
    if (status)
        return status;
    if (!library_folder(folder)) {
        snprintf(lacks, lacks_bytes,
                 "WEFT_HCA=soft: no folder weft-hca beside libweft; WEFT_HCA_LIB names another");
        return WEFT_OK;
    }
    struct gda_device *device = calloc(1, sizeof *device);
    if (!device)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for path gda");
    if (mlx5_open(&device->lib, folder)) {
        snprintf(lacks, lacks_bytes, "%s", base_last_error());
        free(device);
        return WEFT_OK;
    }
    if (!open_one(world, device, lacks, lacks_bytes)) {
        gda_drop_device(device);
        return WEFT_OK;
    }
    lacks[0] = '\0';
    if (!device->atomics_with_cpu && strcmp(config_string(CONFIG_PATH), "gda") != 0) {
        snprintf(lacks, lacks_bytes,
                 "atomics of %s are not atomic with those of CPUs: all must go by it "
                 "(WEFT_PATH=gda, and no other path)",
                 device->name);
        gda_drop_device(device);
        return WEFT_OK;
    }
    snprintf(has, has_bytes, "requests to %s, port %d (%s)%s", device->name, GDA_PORT,
             device->ethernet ? "RoCE" : "InfiniBand", folder[0] ? ", libraries of their own" : "");
    log_debug("path gda: %s, libraries %s", device->name, folder[0] ? folder : "of the system");
    *result = device;
    return WEFT_OK;
}
