/* SPDX-License-Identifier: Apache-2.0 */
/* Opens one NIC and probes everything that path gda needs of it, so that one message lists
 * everything that is missing. Knows nothing of PEs, and not which NIC is chosen. */
#include "path/gda/gda.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { GIDS_MOST = 64 };

static void lacks_capability(char *lacks, size_t bytes, const char *what, const char *why)
{
    size_t used = strlen(lacks);
    if (used < bytes)
        snprintf(lacks + used, bytes - used, "%s%s%s%s", used ? ", " : "", what, why[0] ? ": " : "",
                 why);
}

/* Ranks a GID by how far it can be routed. RoCE v2 ranks above RoCE v1, which is not routed; a GID
 * of an IPv4 address above one of an IPv6 address, which not every PE may have, and both above a
 * link-local one. */
static int rank_gid(const union ibv_gid *gid, bool second)
{
    static const unsigned char ipv4[12] = {[10] = 0xff, [11] = 0xff};
    bool link_local = gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
    int family = link_local ? 0 : memcmp(gid->raw, ipv4, sizeof ipv4) ? 1 : 2;
    return 3 * second + family;
}

/* Finds the port's GID with the highest rank. The kernel reports the RoCE version of each GID in
 * sysfs. Returns its index, or -1 if there is none. */
static int find_gid(const struct gda_adapter *adapter, union ibv_gid *gid)
{
    static const union ibv_gid zero;
    int any = -1, furthest = -1;
    for (int i = 0; i < GIDS_MOST && i < adapter->port.gid_tbl_len; i++) {
        char path[300], type[32] = "";
        union ibv_gid here;
        if (adapter->lib->verbs.query_gid(adapter->context, GDA_PORT, i, &here))
            break;
        if (memcmp(&here, &zero, sizeof here) == 0)
            continue;
        snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/%d/gid_attrs/types/%d",
                 adapter->name, GDA_PORT, i);
        FILE *file = fopen(path, "re");
        bool second = file && fgets(type, sizeof type, file) && strstr(type, "v2");
        if (file)
            fclose(file);
        if (rank_gid(&here, second) <= furthest)
            continue;
        furthest = rank_gid(&here, second);
        any = i;
        *gid = here;
    }
    return any;
}

/* ibv_port_attr has flags: of the number of lanes, and of what one carries. */
uint32_t gda_port_mbps(const struct ibv_port_attr *port)
{
    static const uint32_t lanes[] = {1, 4, 8, 12, 2};
    static const uint32_t lane_mbps[] = {2500, 5000, 10000, 10000, 14000, 25000, 50000, 100000};
    const unsigned width = port->active_width, speed = port->active_speed;
    if (!width || width & (width - 1) || !speed || speed & (speed - 1))
        return 0;
    const int w = __builtin_ctz(width), s = __builtin_ctz(speed);
    return w < 5 && s < 8 ? lanes[w] * lane_mbps[s] : 0;
}

static void probe_port(struct gda_adapter *adapter, char *lacks, size_t bytes)
{
    memset(&adapter->port, 0, sizeof adapter->port);
    int error = adapter->lib->verbs.query_port(adapter->context, GDA_PORT, &adapter->port);
    if (error) {
        lacks_capability(lacks, bytes, "ibv_query_port", strerror(error));
        return;
    }
    adapter->mbps = gda_port_mbps(&adapter->port);
    if (adapter->port.state != IBV_PORT_ACTIVE)
        lacks_capability(lacks, bytes, "port 1 is down", "");
    adapter->ethernet = adapter->port.link_layer == IBV_LINK_LAYER_ETHERNET;
    adapter->gid_index = find_gid(adapter, &adapter->gid);
    if (adapter->ethernet && adapter->gid_index < 0)
        lacks_capability(lacks, bytes, "no GID at port 1", "");
    if (!adapter->ethernet && !adapter->port.lid)
        lacks_capability(lacks, bytes, "no LID at port 1", "");
}

static void probe_pd(struct gda_adapter *adapter, char *lacks, size_t bytes)
{
    struct mlx5dv_pd number = {0};
    struct mlx5dv_obj object = {.pd = {.out = &number}};
    adapter->pd = adapter->lib->verbs.alloc_pd(adapter->context);
    object.pd.in = adapter->pd;
    if (!adapter->pd)
        lacks_capability(lacks, bytes, "ibv_alloc_pd", strerror(errno));
    else if (adapter->lib->dv.init_obj(&object, MLX5DV_OBJ_PD))
        lacks_capability(lacks, bytes, "mlx5dv_init_obj of the protection domain", strerror(errno));
    adapter->pd_number = number.pdn;
    if (adapter->lib->dv.query_eqn(adapter->context, 0, &adapter->eq_number))
        lacks_capability(lacks, bytes, "mlx5dv_devx_query_eqn", strerror(errno));
}

/* Probes a doorbell register and the registration of process memory by allocating one of each. */
static void probe_memory(struct gda_adapter *adapter, char *lacks, size_t bytes)
{
    void *page = mmap(NULL, GDA_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct mlx5dv_devx_uar *uar = adapter->lib->dv.alloc_uar(adapter->context, 0);
    if (!uar)
        lacks_capability(lacks, bytes, "no doorbell register (mlx5dv_devx_alloc_uar)",
                         strerror(errno));
    else
        adapter->lib->dv.free_uar(uar);
    if (page == MAP_FAILED)
        return;
    struct mlx5dv_devx_umem *umem =
        adapter->lib->dv.umem_reg(adapter->context, page, GDA_PAGE, IBV_ACCESS_LOCAL_WRITE);
    if (!umem)
        lacks_capability(lacks, bytes, "no queues in own memory (mlx5dv_devx_umem_reg)",
                         strerror(errno));
    else
        adapter->lib->dv.umem_dereg(umem);
    munmap(page, GDA_PAGE);
}

static void probe_limits(struct gda_adapter *adapter)
{
    struct ibv_device_attr attr;
    int most = 16;
    memset(&attr, 0, sizeof attr);
    if (adapter->lib->verbs.query_device &&
        !adapter->lib->verbs.query_device(adapter->context, &attr)) {
        most = attr.max_qp_rd_atom < attr.max_qp_init_rd_atom ? attr.max_qp_rd_atom
                                                              : attr.max_qp_init_rd_atom;
        adapter->atomics_with_cpu = attr.atomic_cap == IBV_ATOMIC_GLOB;
        adapter->no_atomics |= attr.atomic_cap == IBV_ATOMIC_NONE;
    }
    adapter->log_reads = most > 1 ? (uint8_t)(31 - __builtin_clz((unsigned)most)) : 0;
    adapter->log_reads = adapter->log_reads < 7 ? adapter->log_reads : 7;
}

void gda_probe_adapter(struct gda_adapter *adapter, struct ibv_device *listed, char *lacks,
                       size_t bytes)
{
    lacks[0] = '\0';
    errno = 0;
    adapter->context = adapter->lib->verbs.open_device(listed);
    if (!adapter->context) {
        lacks_capability(lacks, bytes, "ibv_open_device", strerror(errno));
        return;
    }
    probe_port(adapter, lacks, bytes);
    gda_query_caps(adapter, lacks, bytes);
    adapter->may_reorder = gda_may_reorder(adapter);
    probe_pd(adapter, lacks, bytes);
    probe_memory(adapter, lacks, bytes);
    probe_limits(adapter);
    adapter->dc &= adapter->lib->dv.create_qp && adapter->lib->verbs.create_srq &&
                   adapter->lib->verbs.create_cq && adapter->lib->verbs.modify_qp;
}

void gda_close_adapter(struct gda_adapter *adapter)
{
    if (adapter->pd)
        adapter->lib->verbs.dealloc_pd(adapter->pd);
    if (adapter->context)
        adapter->lib->verbs.close_device(adapter->context);
    adapter->pd = NULL;
    adapter->context = NULL;
}
