/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, ports and addresses of the verbs interface. */
#include "context.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_DEVICES = 8 };

static struct ibv_device verbs_devices[MAX_DEVICES];

int device_number(struct ibv_device *device)
{
    return (int)(device - verbs_devices);
}

/* --- Devices --- */

static void describe_verbs_device(struct ibv_device *v, unsigned i)
{
    v->node_type = IBV_NODE_CA;
    v->transport_type = IBV_TRANSPORT_IB;
    snprintf(v->name, sizeof v->name, "mlx5_soft%u", i);
    snprintf(v->dev_name, sizeof v->dev_name, "uverbs_soft%u", i);
    /* The folder does not exist, as on a system without the driver. */
    snprintf(v->dev_path, sizeof v->dev_path, "/sys/class/infiniband_verbs/uverbs_soft%u", i);
    snprintf(v->ibdev_path, sizeof v->ibdev_path, "/sys/class/infiniband/mlx5_soft%u", i);
}

/* Called once, because several threads may list devices. */
static void describe_all(void)
{
    for (unsigned i = 0; i < MAX_DEVICES; i++)
        describe_verbs_device(&verbs_devices[i], i);
}

PUBLIC struct ibv_device **ibv_get_device_list(int *num)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    bool good;
    const struct config *c = config_get(&good);
    unsigned n = good ? c->devices : 0;
    struct ibv_device **list = calloc(n + 1, sizeof *list);
    if (!list)
        return NULL;
    pthread_once(&once, describe_all);
    for (unsigned i = 0; i < n; i++)
        list[i] = &verbs_devices[i];
    if (num)
        *num = (int)n;
    return list;
}

PUBLIC void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

PUBLIC const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

PUBLIC int ibv_get_device_index(struct ibv_device *device)
{
    return device_number(device);
}

static uint64_t guid_of(uint16_t lid)
{
    union ibv_gid gid;
    gid_of(config_get(NULL), lid, &gid);
    return gid.global.interface_id;
}

PUBLIC __be64 ibv_get_device_guid(struct ibv_device *device)
{
    /* The GUID contains the LID, which is claimed when the device is opened. */
    struct device *d = device_open((unsigned)device_number(device));
    uint64_t guid = d ? guid_of(d->lid) : 0;
    if (d)
        device_close(d);
    return guid;
}

PUBLIC struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct hca_context *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    if (channel_open(&c->events)) {
        free(c);
        return NULL;
    }
    c->device = device_open((unsigned)device_number(device));
    if (!c->device) {
        int e = errno;
        channel_close(&c->events);
        free(c);
        errno = e;
        return NULL;
    }
    struct ibv_context *v = &c->verbs.context;
    v->device = device;
    v->cmd_fd = -1;
    v->async_fd = c->events.read_fd;
    v->num_comp_vectors = 1;
    v->abi_compat = __VERBS_ABI_IS_EXTENDED;
    pthread_mutex_init(&v->mutex, NULL);
    c->verbs.sz = sizeof c->verbs;
    verbs_fill(c);
    return v;
}

PUBLIC int ibv_close_device(struct ibv_context *context)
{
    struct hca_context *c = context_of(context);
    device_close(c->device);
    channel_close(&c->events);
    pthread_mutex_destroy(&context->mutex);
    free(c);
    return 0;
}

PUBLIC int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *a)
{
    struct device *d = context_of(context)->device;
    *a = (struct ibv_device_attr){.node_guid = guid_of(d->lid),
                                  .sys_image_guid = guid_of(d->lid),
                                  .max_mr_size = UINT64_MAX,
                                  .page_size_cap = 0xfffffffffffff000,
                                  .vendor_id = VENDOR_ID,
                                  .vendor_part_id = VENDOR_PART,
                                  .max_qp = MAX_QPS - 1,
                                  .max_qp_wr = MAX_QUEUE_BLOCKS,
                                  .device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN,
                                  .max_sge = 30,
                                  .max_sge_rd = 30,
                                  .max_cq = MAX_CQS - 1,
                                  .max_cqe = (1 << MAX_CQ_LOG) - 1,
                                  .max_mr = MAX_MRS - 1,
                                  .max_pd = MAX_PDS - 1,
                                  .max_qp_rd_atom = MAX_READS,
                                  .max_res_rd_atom = MAX_READS * (MAX_QPS - 1),
                                  .max_qp_init_rd_atom = MAX_READS,
                                  .atomic_cap = d->config->atomics == ATOMICS_NONE ? IBV_ATOMIC_NONE
                                                : d->config->atomics == ATOMICS_GLOBAL
                                                    ? IBV_ATOMIC_GLOB
                                                    : IBV_ATOMIC_HCA,
                                  .max_ah = 1 << 20,
                                  .max_srq = MAX_SRQS - 1,
                                  .max_srq_wr = MAX_SRQ_ENTRIES,
                                  .max_srq_sge = 30,
                                  .max_pkeys = 1,
                                  .local_ca_ack_delay = 16,
                                  .phys_port_cnt = 1};
    snprintf(a->fw_ver, sizeof a->fw_ver, "soft.0.1");
    return 0;
}

/* --- Ports --- */

void port_describe(const struct device *d, struct ibv_port_attr *out)
{
    bool roce = d->config->link == LINK_ROCE;
    uint32_t mtu = roce_mtu(d);
    enum ibv_mtu active = mtu ? (enum ibv_mtu)(__builtin_ctz(mtu) - 7) : IBV_MTU_4096;
    bool down = (d->unreachable && d->config->fail != FAIL_PATH) || !roce_has_carrier(d);
    *out = (struct ibv_port_attr){.state = down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE,
                                  .max_mtu = IBV_MTU_4096,
                                  .active_mtu = active,
                                  .gid_tbl_len = (int)gid_count(d),
                                  .port_cap_flags = roce ? IBV_PORT_IP_BASED_GIDS : 0,
                                  .max_msg_sz = UINT32_C(1) << 31,
                                  .pkey_tbl_len = 1,
                                  .lid = roce ? 0 : d->lid,
                                  .sm_lid = roce ? 0 : d->lid,
                                  .max_vl_num = 1,
                                  .active_width = 2,
                                  .active_speed = d->config->slow >> d->number & 1 ? 1 : 32,
                                  .phys_state = 5,
                                  .link_layer =
                                      roce ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND};
}

#undef ibv_query_port
PUBLIC int ibv_query_port(struct ibv_context *context, uint8_t port,
                          struct _compat_ibv_port_attr *out)
{
    /* Older callers pass only the first part of the structure. */
    struct ibv_port_attr a;
    if (port != 1)
        return EINVAL;
    port_describe(context_of(context)->device, &a);
    memcpy(out, &a, offsetof(struct ibv_port_attr, port_cap_flags2));
    return 0;
}

/* --- Addresses. GID 0: fe80::0257:48ff:fe00:LID, for HCAs of this host. GID 1, if the device has
 * an IP address: that address, IPv4 as ::ffff:ADDRESS, for peers reached by RoCE v2 --- */

void gid_of(const struct config *c, uint16_t lid, union ibv_gid *out)
{
    static const uint8_t fixed[14] = {0xfe, 0x80, 0,    0,    0,    0,    0,
                                      0,    0x02, 0x57, 0x48, 0xff, 0xfe, 0x00};
    memcpy(out->raw, fixed, sizeof fixed);
    out->raw[14] = (uint8_t)(lid >> 8);
    out->raw[15] = (uint8_t)lid;
}

uint32_t address_of_gid(const uint8_t *gid)
{
    union ibv_gid mine;
    gid_of(NULL, 0, &mine);
    return memcmp(mine.raw, gid, 14) ? address_of_ip(gid) : (uint32_t)(gid[14] << 8 | gid[15]);
}

unsigned gid_count(const struct device *d)
{
    return roce_address(d) ? 2 : 1;
}

static void gid_at(const struct device *d, unsigned index, union ibv_gid *out)
{
    if (index)
        address_to_ip(roce_address(d), out->raw);
    else
        gid_of(d->config, d->lid, out);
}

const char *path_refusal(const struct device *d, unsigned gid_index, uint32_t address, uint32_t mtu)
{
    bool ip = address_is_ip(address);
    if (!address)
        return "the peer has no LID, and its GID is none of a software HCA and none of an IP "
               "address that is routed";
    if (d->config->link == LINK_IB)
        return ip ? "an IP address is reached with SOFT_HCA_LINK=roce only" : NULL;
    if (ip && !roce_address(d))
        return "the peer's GID is an IP address, and this device has none: SOFT_HCA_ADDRESS "
               "gives "
               "it one";
    if (gid_index >= gid_count(d))
        return "no such GID index at this port";
    if (ip && address_is_ipv6(address) != address_is_ipv6(roce_address(d)))
        return "one of the peer's GID and SOFT_HCA_ADDRESS is an IPv6 address, the other is not";
    if (ip != (gid_index == 1))
        return ip ? "the peer's GID is an IP address: the GID index for it is 1, not 0"
                  : "the peer's GID is of an HCA of this host: the GID index for it is 0, not 1";
    if (ip && mtu > roce_mtu(d))
        return "the path MTU is over the port's active MTU: the interface of SOFT_HCA_ADDRESS "
               "carries "
               "no longer packets";
    return NULL;
}

PUBLIC int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
    struct device *d = context_of(context)->device;
    if (port != 1 || index < 0 || (unsigned)index >= gid_count(d)) {
        errno = EINVAL;
        return -1;
    }
    gid_at(d, (unsigned)index, gid);
    return 0;
}

PUBLIC int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
                             struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
    struct device *d = context_of(context)->device;
    struct ibv_gid_entry e = {.gid_index = index, .port_num = port};
    if (port != 1 || flags)
        return EINVAL;
    if (index >= gid_count(d))
        return ENODATA;
    gid_at(d, index, &e.gid);
    e.gid_type = d->config->link == LINK_ROCE ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_IB;
    memcpy(entry, &e, size < sizeof e ? size : sizeof e);
    return 0;
}

PUBLIC ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                                    size_t max, uint32_t flags, size_t size)
{
    unsigned count = gid_count(context_of(context)->device);
    if (max < count || flags)
        return -EINVAL;
    for (unsigned i = 0; i < count; i++)
        _ibv_query_gid_ex(context, 1, i, (struct ibv_gid_entry *)((char *)entries + i * size), 0,
                          size);
    return count;
}

PUBLIC int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
    if (port != 1 || index != 0) {
        errno = EINVAL;
        return -1;
    }
    *pkey = 0xffff;
    return 0;
}

PUBLIC int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
    return port == 1 && pkey == 0xffff ? 0 : -1;
}
