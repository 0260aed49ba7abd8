/* SPDX-License-Identifier: Apache-2.0 */
/* Address handles, names of enum values, and functions that need to do nothing here. */
#include "context.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- Address handles --- */

PUBLIC struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *a)
{
    unsigned gids = gid_count(context_of(pd->context)->device);
    if (a->port_num != 1 || (a->is_global && a->grh.sgid_index >= gids)) {
        errno = EINVAL;
        return NULL;
    }
    struct hca_ah *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    h->av.stat_rate_sl = (uint8_t)(a->static_rate << 4 | a->sl);
    h->av.fl_mlid = a->src_path_bits & 0x7f;
    h->av.rlid = htobe16(a->dlid);
    if (a->is_global) {
        h->av.tclass = a->grh.traffic_class;
        h->av.hop_limit = a->grh.hop_limit;
        h->av.grh_gid_fl =
            htobe32(1u << 30 | (uint32_t)a->grh.sgid_index << 20 | a->grh.flow_label);
        memcpy(h->av.rgid, a->grh.dgid.raw, 16);
    }
    h->ah.context = pd->context;
    h->ah.pd = pd;
    return &h->ah;
}

PUBLIC int ibv_destroy_ah(struct ibv_ah *ah)
{
    free(HOLDER(ah, struct hca_ah, ah));
    return 0;
}

/* For UD QPs, which do not exist here. */
PUBLIC int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc,
                               struct ibv_grh *grh, struct ibv_ah_attr *a)
{
    errno = EOPNOTSUPP;
    return -1;
}

PUBLIC struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc,
                                            struct ibv_grh *grh, uint8_t port)
{
    errno = EOPNOTSUPP;
    return NULL;
}

PUBLIC int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    return EOPNOTSUPP;
}

PUBLIC int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    return EOPNOTSUPP;
}

/* --- Names --- */

PUBLIC const char *ibv_wc_status_str(enum ibv_wc_status status)
{
    static const char *const words[] = {
        [IBV_WC_SUCCESS] = "success",
        [IBV_WC_LOC_LEN_ERR] = "local length error",
        [IBV_WC_LOC_QP_OP_ERR] = "local QP operation error",
        [IBV_WC_LOC_PROT_ERR] = "local protection error",
        [IBV_WC_WR_FLUSH_ERR] = "work request flushed",
        [IBV_WC_BAD_RESP_ERR] = "bad response",
        [IBV_WC_LOC_ACCESS_ERR] = "local access error",
        [IBV_WC_REM_INV_REQ_ERR] = "remote invalid request",
        [IBV_WC_REM_ACCESS_ERR] = "remote access error",
        [IBV_WC_REM_OP_ERR] = "remote operation error",
        [IBV_WC_RETRY_EXC_ERR] = "transport retries exceeded",
        [IBV_WC_RNR_RETRY_EXC_ERR] = "receiver not ready, retries exceeded",
        [IBV_WC_GENERAL_ERR] = "general error",
    };
    const char *w = (unsigned)status < sizeof words / sizeof *words ? words[status] : NULL;
    return w ? w : "unknown";
}

PUBLIC const char *ibv_node_type_str(enum ibv_node_type type)
{
    return type == IBV_NODE_CA ? "InfiniBand channel adapter" : "unknown";
}

PUBLIC const char *ibv_port_state_str(enum ibv_port_state state)
{
    static const char *const words[] = {"no state change (NOP)", "down", "init", "armed", "active",
                                        "active, deferred"};
    return (unsigned)state < sizeof words / sizeof *words ? words[state] : "invalid state";
}

PUBLIC const char *ibv_event_type_str(enum ibv_event_type event)
{
    return event == IBV_EVENT_CQ_ERR     ? "CQ error"
           : event == IBV_EVENT_QP_FATAL ? "local QP fatal error"
                                         : "unknown";
}

static const struct {
    enum ibv_rate rate;
    int multiple, mbps; /* multiple of 2.5 Gb/s */
} rates[] = {
    {IBV_RATE_2_5_GBPS, 1, 2500},  {IBV_RATE_5_GBPS, 2, 5000},    {IBV_RATE_10_GBPS, 4, 10000},
    {IBV_RATE_20_GBPS, 8, 20000},  {IBV_RATE_30_GBPS, 12, 30000}, {IBV_RATE_40_GBPS, 16, 40000},
    {IBV_RATE_60_GBPS, 24, 60000}, {IBV_RATE_80_GBPS, 32, 80000}, {IBV_RATE_120_GBPS, 48, 120000},
};
enum { RATES = sizeof rates / sizeof *rates };

PUBLIC int ibv_rate_to_mult(enum ibv_rate rate)
{
    for (unsigned i = 0; i < RATES; i++)
        if (rates[i].rate == rate)
            return rates[i].multiple;
    return -1;
}

PUBLIC enum ibv_rate mult_to_ibv_rate(int multiple)
{
    for (unsigned i = 0; i < RATES; i++)
        if (rates[i].multiple == multiple)
            return rates[i].rate;
    return IBV_RATE_MAX;
}

PUBLIC int ibv_rate_to_mbps(enum ibv_rate rate)
{
    for (unsigned i = 0; i < RATES; i++)
        if (rates[i].rate == rate)
            return rates[i].mbps;
    return -1;
}

PUBLIC enum ibv_rate mbps_to_ibv_rate(int mbps)
{
    for (unsigned i = 0; i < RATES; i++)
        if (rates[i].mbps == mbps)
            return rates[i].rate;
    return IBV_RATE_MAX;
}

/* --- Nothing to do --- */

PUBLIC int ibv_fork_init(void)
{
    /* Queue memory is not inherited by children; programs must keep theirs apart. */
    return 0;
}

PUBLIC enum ibv_fork_status ibv_is_fork_initialized(void)
{
    return IBV_FORK_UNNEEDED;
}

/* Not in verbs.h, but exported by libibverbs. */
PUBLIC const char *ibv_get_sysfs_path(void);
PUBLIC const char *ibv_get_sysfs_path(void)
{
    return "/sys";
}

PUBLIC int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    return EOPNOTSUPP;
}

PUBLIC int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    return EOPNOTSUPP;
}

PUBLIC int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
    return 0;
}

PUBLIC int mlx5dv_modify_qp_udp_sport(struct ibv_qp *qp, uint16_t sport)
{
    /* All UDP packets use one port (roce.c). */
    return 0;
}

PUBLIC int mlx5dv_map_ah_to_qp(struct ibv_ah *ah, uint32_t qpn)
{
    return EOPNOTSUPP;
}

/* Keys of several ranges, signatures and encryption: not supported. */
PUBLIC struct mlx5dv_mkey *mlx5dv_create_mkey(struct mlx5dv_mkey_init_attr *a)
{
    errno = EOPNOTSUPP;
    return NULL;
}

PUBLIC int mlx5dv_destroy_mkey(struct mlx5dv_mkey *mkey)
{
    return EOPNOTSUPP;
}

PUBLIC int mlx5dv_crypto_login(struct ibv_context *context, struct mlx5dv_crypto_login_attr *a)
{
    return EOPNOTSUPP;
}

PUBLIC struct mlx5dv_dek *mlx5dv_dek_create(struct ibv_context *context,
                                            struct mlx5dv_dek_init_attr *a)
{
    errno = EOPNOTSUPP;
    return NULL;
}

PUBLIC int mlx5dv_dek_destroy(struct mlx5dv_dek *dek)
{
    return EOPNOTSUPP;
}
