/* SPDX-License-Identifier: Apache-2.0 */
/* DevX commands that create and connect the queues of an mlx5 NIC in memory of the program. A
 * command is a buffer of big-endian words; the field offsets are those of the device interface
 * (mlx5_ifc of the Linux kernel and of rdma-core). Knows nothing of PEs. */
#include "path/gda/gda.h"

#include "base/status.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------------------------- fields */

enum { IN_BYTES = 272, OUT_BYTES = 16, CAPS_BYTES = 16 + 4096 };

enum command {
    QUERY_HCA_CAP = 0x100,
    QUERY_HCA_VPORT_CONTEXT = 0x762,
    CREATE_CQ = 0x400,
    CREATE_QP = 0x500,
    RST2INIT_QP = 0x502,
    INIT2RTR_QP = 0x503,
    RTR2RTS_QP = 0x504,
    TO_ERROR_QP = 0x507,
    TO_RESET_QP = 0x50a,
    QUERY_QP = 0x50b,
};

/* A field of a command: byte offset of its word, lowest bit, number of bits. */
struct devx_field {
    uint16_t word;
    uint8_t shift, bits;
};

enum { LOG_MESSAGE_MOST = 30 }; /* log2 of the bytes of a message, at most */

/* Byte offsets of the CQ and QP contexts in a command, and of the primary address path in a QP
 * context. */
enum { CQC = 0x10, QPC = 0x18, ADS = QPC + 0x18 };

static const struct devx_field opcode = {0x0, 16, 16}, op_mod = {0x4, 0, 16}, object = {0x8, 0, 24};

static uint32_t get_field(const void *buffer, struct devx_field field)
{
    uint32_t word;
    memcpy(&word, (const char *)buffer + field.word, sizeof word);
    return be32toh(word) >> field.shift & (uint32_t)((1ull << field.bits) - 1);
}

static void put_field(void *buffer, struct devx_field field, uint32_t value)
{
    uint32_t word, mask = (uint32_t)((1ull << field.bits) - 1);
    char *at = (char *)buffer + field.word;
    memcpy(&word, at, sizeof word);
    word = be32toh(word);
    word = (word & ~(mask << field.shift)) | (value & mask) << field.shift;
    word = htobe32(word);
    memcpy(at, &word, sizeof word);
}

static void put64(void *buffer, uint16_t at, uint64_t value)
{
    value = htobe64(value);
    memcpy((char *)buffer + at, &value, sizeof value);
}

static struct devx_field in(int context, uint16_t word, uint8_t shift, uint8_t bits)
{
    return (struct devx_field){(uint16_t)(context + word), shift, bits};
}

/* ----------------------------------------------------------------------------------- failures */

static const char *command_name(enum command command)
{
    switch (command) {
    case QUERY_HCA_CAP:
        return "QUERY_HCA_CAP";
    case QUERY_HCA_VPORT_CONTEXT:
        return "QUERY_HCA_VPORT_CONTEXT";
    case CREATE_CQ:
        return "CREATE_CQ";
    case CREATE_QP:
        return "CREATE_QP";
    case RST2INIT_QP:
        return "RST2INIT_QP";
    case INIT2RTR_QP:
        return "INIT2RTR_QP";
    case RTR2RTS_QP:
        return "RTR2RTS_QP";
    case TO_ERROR_QP:
        return "2ERR_QP";
    case TO_RESET_QP:
        return "2RST_QP";
    case QUERY_QP:
        return "QUERY_QP";
    }
    return "a command";
}

static weft_status fail_command(const struct gda_adapter *adapter, enum command command,
                                const void *out)
{
    int error = errno;
    return base_fail(WEFT_ERR_SYSTEM, "path gda: %s rejected %s: %s, status %#x, syndrome %#x",
                     adapter->name, command_name(command), strerror(error),
                     get_field(out, (struct devx_field){0x0, 24, 8}),
                     get_field(out, (struct devx_field){0x4, 0, 32}));
}

/* ------------------------------------------------------------------------------- capabilities */

/* Capability groups of QUERY_HCA_CAP. op_mod is the group << 1, plus 1 for the current values. */
enum { GENERAL_CAPS = 0, ATOMIC_CAPS = 3 };

static bool query(const struct gda_adapter *adapter, int group, unsigned char *out, char *lacks,
                  size_t bytes)
{
    unsigned char command[OUT_BYTES] = {0};
    memset(out, 0, CAPS_BYTES);
    put_field(command, opcode, QUERY_HCA_CAP);
    put_field(command, op_mod, (uint32_t)group << 1 | 1);
    if (!adapter->lib->dv.general_cmd(adapter->context, command, sizeof command, out, CAPS_BYTES))
        return true;
    size_t used = strlen(lacks);
    snprintf(lacks + used, bytes - used, "%sQUERY_HCA_CAP: %s", used ? ", " : "", strerror(errno));
    return false;
}

static void lacks_command(char *lacks, size_t bytes, const char *what)
{
    size_t used = strlen(lacks);
    snprintf(lacks + used, bytes - used, "%s%s", used ? ", " : "", what);
}

void gda_query_caps(struct gda_adapter *adapter, char *lacks, size_t bytes)
{
    /* Bits of compare and swap, fetch and add and their masked forms, and of the sizes 4 and 8. */
    enum { CAP = 0x10, OPERATIONS = 0xf, WIDTHS = 0xc };
    unsigned char out[CAPS_BYTES];
    if (query(adapter, GENERAL_CAPS, out, lacks, bytes) && get_field(out, in(CAP, 0x3c, 0, 4)) != 1)
        lacks_command(lacks, bytes, "completions of version 1");
    adapter->short_addresses = get_field(out, in(CAP, 0x40, 31, 1));
    adapter->dc = get_field(out, in(CAP, 0x40, 5, 1));
    if (!query(adapter, ATOMIC_CAPS, out, lacks, bytes))
        return;
    adapter->no_atomics = (get_field(out, in(CAP, 0x10, 0, 16)) & OPERATIONS) != OPERATIONS ||
                          (get_field(out, in(CAP, 0x14, 0, 16)) & WIDTHS) != WIDTHS;
    if ((get_field(out, in(CAP, 0x18, 0, 16)) & WIDTHS) != WIDTHS)
        adapter->dc &= adapter->no_atomics; /* its DC queues lack the atomics of its RC queues */
}

/* On InfiniBand with adaptive routing, the port reports a mask of the service levels whose packets
 * may arrive out of order. Queues of path gda use service level 0. On RoCE, a queue's packets stay
 * in order unless it requests otherwise. */
bool gda_may_reorder(const struct gda_adapter *adapter)
{
    enum { CONTEXT = 0x10, VPORT_BYTES = CONTEXT + 512, LEVEL = 0 };
    unsigned char command[OUT_BYTES] = {0}, out[VPORT_BYTES] = {0};
    if (adapter->ethernet)
        return false;
    put_field(command, opcode, QUERY_HCA_VPORT_CONTEXT);
    put_field(command, (struct devx_field){0x8, 16, 4}, GDA_PORT);
    if (adapter->lib->dv.general_cmd(adapter->context, command, sizeof command, out, sizeof out))
        return true;
    return get_field(out, in(CONTEXT, 0x50, 0, 16)) >> LEVEL & 1;
}

/* ------------------------------------------------------------------------------------ creation */

static uint32_t log_of(uint32_t power)
{
    return (uint32_t)__builtin_ctz(power);
}

/* Creates a collapsed CQ that ignores overrun: the NIC overwrites its one entry. The CQ of a DC
 * initiator of the host has an entry for each request instead. */
weft_status gda_create_cq(struct gda_qp *qp, uint32_t depth, size_t ring_at, size_t record_at)
{
    const struct gda_adapter *adapter = qp->adapter;
    unsigned char command[IN_BYTES] = {0}, out[OUT_BYTES] = {0};
    uint32_t umem = qp->umem;
    put_field(command, opcode, CREATE_CQ);
    put_field(command, in(CQC, 0x0, 25, 1), 1);            /* dbr_umem_valid */
    put_field(command, in(CQC, 0x0, 20, 1), !qp->entries); /* cc */
    put_field(command, in(CQC, 0x0, 17, 1), !qp->entries); /* oi */
    put_field(command, in(CQC, 0x4, 0, 32), umem);
    put_field(command, in(CQC, 0xc, 24, 5), log_of(depth));
    put_field(command, in(CQC, 0xc, 0, 24), qp->uar->page_id);
    put_field(command, in(CQC, 0x14, 0, 8), adapter->eq_number);
    put64(command, CQC + 0x38, record_at);
    put64(command, 0x50, ring_at);
    put_field(command, (struct devx_field){0x58, 0, 32}, umem);
    put_field(command, (struct devx_field){0x5c, 31, 1}, 1);
    errno = 0;
    qp->cq =
        adapter->lib->dv.obj_create(adapter->context, command, sizeof command, out, sizeof out);
    if (!qp->cq)
        return fail_command(adapter, CREATE_CQ, out);
    qp->cq_number = get_field(out, object);
    return WEFT_OK;
}

weft_status gda_create_qp(struct gda_qp *qp, uint32_t depth, size_t ring_at, size_t record_at,
                          uint32_t *number)
{
    enum { RC = 0, DC_INITIATOR = 5, MIGRATED = 3, NO_RECEIVE_QUEUE = 3 };
    const struct gda_adapter *adapter = qp->adapter;
    unsigned char command[IN_BYTES] = {0}, out[OUT_BYTES] = {0};
    uint32_t umem = qp->umem;
    put_field(command, opcode, CREATE_QP);
    put_field(command, in(QPC, 0x0, 16, 8), qp->dc ? DC_INITIATOR : RC);
    put_field(command, in(QPC, 0x0, 11, 2), MIGRATED);
    put_field(command, in(QPC, 0x4, 0, 24), adapter->pd_number);
    put_field(command, in(QPC, 0x8, 11, 4), log_of(depth));
    put_field(command, in(QPC, 0xc, 0, 24), qp->uar->page_id);
    put_field(command, in(QPC, 0x7c, 0, 24), qp->cq_number);
    put_field(command, in(QPC, 0x9c, 0, 24), qp->cq_number);
    put64(command, QPC + 0xa0, record_at);
    put_field(command, in(QPC, 0xac, 24, 3), NO_RECEIVE_QUEUE);
    put_field(command, in(QPC, 0xd0, 28, 1), 1); /* dbr_umem_valid */
    put_field(command, in(QPC, 0xe4, 0, 32), umem);
    put64(command, 0x100, ring_at);
    put_field(command, (struct devx_field){0x108, 0, 32}, umem);
    put_field(command, (struct devx_field){0x10c, 31, 1}, 1);
    errno = 0;
    qp->qp =
        adapter->lib->dv.obj_create(adapter->context, command, sizeof command, out, sizeof out);
    if (!qp->qp)
        return fail_command(adapter, CREATE_QP, out);
    *number = get_field(out, object);
    return WEFT_OK;
}

/* ---------------------------------------------------------------------------------- connection */

static weft_status modify(const struct gda_qp *qp, enum command command, uint32_t number,
                          unsigned char buffer[IN_BYTES])
{
    unsigned char out[OUT_BYTES] = {0};
    put_field(buffer, opcode, command);
    put_field(buffer, object, number);
    errno = 0;
    int error = qp->adapter->lib->dv.obj_modify(qp->qp, buffer, IN_BYTES, out, sizeof out);
    return error ? fail_command(qp->adapter, command, out) : WEFT_OK;
}

/* Allows the peer RDMA reads, RDMA writes and, if the NIC has them, atomics by this queue. */
static void set_remote_access(const struct gda_qp *qp, unsigned char *command)
{
    enum { UP_TO_8_BYTES = 3 };
    put_field(command, in(QPC, 0x90, 15, 1), 1); /* rre, rwe, rae */
    put_field(command, in(QPC, 0x90, 14, 1), 1);
    if (qp->adapter->no_atomics)
        return;
    put_field(command, in(QPC, 0x90, 13, 1), 1);
    put_field(command, in(QPC, 0x90, 16, 4), UP_TO_8_BYTES);
}

static weft_status modify_to_init(const struct gda_qp *qp, uint32_t number)
{
    enum { MIGRATED = 3 };
    unsigned char command[IN_BYTES] = {0};
    put_field(command, in(QPC, 0x0, 11, 2), MIGRATED);
    if (!qp->dc)
        set_remote_access(qp, command);
    put_field(command, in(ADS, 0x24, 16, 8), GDA_PORT);
    return modify(qp, RST2INIT_QP, number, command);
}

static void set_address_path(const struct gda_adapter *adapter, unsigned char *command,
                             const struct gda_address *peer, uint32_t sport)
{
    put_field(command, in(ADS, 0x24, 16, 8), GDA_PORT);
    if (!peer->ethernet) {
        put_field(command, in(ADS, 0x4, 0, 16), peer->lid);
        return;
    }
    put_field(command, in(ADS, 0x4, 23, 1), 1); /* grh */
    put_field(command, in(ADS, 0x8, 16, 8), (uint32_t)adapter->gid_index);
    put_field(command, in(ADS, 0x8, 0, 8), GDA_HOP_LIMIT);
    memcpy(command + ADS + 0x10, peer->gid, sizeof peer->gid);
    put_field(command, in(ADS, 0x20, 0, 16), sport);
    memcpy(command + ADS + 0x26, peer->mac, sizeof peer->mac);
}

static weft_status modify_to_rtr(const struct gda_qp *qp, const struct gda_connection *connection,
                                 const struct gda_address *peer)
{
    unsigned char command[IN_BYTES] = {0};
    uint32_t mtu = qp->adapter->port.active_mtu;
    put_field(command, in(QPC, 0x8, 29, 3), peer->mtu < mtu ? peer->mtu : mtu);
    put_field(command, in(QPC, 0x8, 24, 5), LOG_MESSAGE_MOST);
    put_field(command, in(QPC, 0x14, 0, 24), connection->peer_qpn);
    put_field(command, in(QPC, 0x94, 0, 24), connection->peer_psn);
    put_field(command, in(QPC, 0x90, 21, 3), qp->adapter->log_reads);
    put_field(command, in(QPC, 0x94, 24, 5), 12); /* min_rnr_nak: 0.64 ms */
    set_remote_access(qp, command);
    set_address_path(qp->adapter, command, peer, connection->sport);
    return modify(qp, INIT2RTR_QP, connection->qpn, command);
}

/* The ACK timeout is 4.096 us << 20 = 4.3 s. After 7 retries, about 30 s, the NIC reports that the
 * peer does not answer. */
static weft_status modify_to_rts(const struct gda_qp *qp, const struct gda_connection *connection)
{
    enum { RETRIES = 7, ACK_TIMEOUT = 20 };
    unsigned char command[IN_BYTES] = {0};
    put_field(command, in(QPC, 0x70, 21, 3), qp->adapter->log_reads);
    put_field(command, in(QPC, 0x70, 16, 3), RETRIES);
    put_field(command, in(QPC, 0x70, 13, 3), RETRIES);
    put_field(command, in(ADS, 0x8, 27, 5), ACK_TIMEOUT);
    put_field(command, in(ADS, 0x24, 16, 8), GDA_PORT);
    put_field(command, in(QPC, 0x78, 0, 24), connection->psn);
    return modify(qp, RTR2RTS_QP, connection->qpn, command);
}

weft_status gda_connect_qp(const struct gda_qp *qp, const struct gda_connection *connection,
                           const struct gda_address *peer)
{
    weft_status status = modify_to_init(qp, connection->qpn);
    if (!status)
        status = modify_to_rtr(qp, connection, peer);
    return status ? status : modify_to_rts(qp, connection);
}

/* A DC initiator has no peer: each request names its own. */
static weft_status modify_initiator_to_rtr(const struct gda_qp *qp, uint32_t number, uint32_t mtu)
{
    unsigned char command[IN_BYTES] = {0};
    put_field(command, in(QPC, 0x8, 29, 3), mtu);
    put_field(command, in(QPC, 0x8, 24, 5), LOG_MESSAGE_MOST);
    put_field(command, in(ADS, 0x24, 16, 8), GDA_PORT);
    if (qp->adapter->ethernet) {
        put_field(command, in(ADS, 0x8, 16, 8), (uint32_t)qp->adapter->gid_index);
        put_field(command, in(ADS, 0x8, 0, 8), GDA_HOP_LIMIT);
    }
    return modify(qp, INIT2RTR_QP, number, command);
}

weft_status gda_open_initiator(const struct gda_qp *qp, uint32_t number, uint32_t mtu)
{
    const struct gda_connection connection = {.qpn = number};
    weft_status status = modify_to_init(qp, number);
    if (!status)
        status = modify_initiator_to_rtr(qp, number, mtu);
    return status ? status : modify_to_rts(qp, &connection);
}

weft_status gda_stop_qp(const struct gda_qp *qp, uint32_t number, uint32_t *executed)
{
    enum { QUERY_BYTES = 16, STATE_BYTES = 512 };
    unsigned char command[IN_BYTES] = {0}, query[QUERY_BYTES] = {0}, state[STATE_BYTES] = {0};
    *executed = 0;
    if (!qp->qp) /* the NIC has never had it: see gda_describe_dead_link() */
        return WEFT_OK;
    weft_status status = modify(qp, TO_ERROR_QP, number, command);
    put_field(query, opcode, QUERY_QP);
    put_field(query, object, number);
    errno = 0;
    if (!status && qp->adapter->lib->dv.obj_query(qp->qp, query, sizeof query, state, sizeof state))
        status = fail_command(qp->adapter, QUERY_QP, state);
    *executed = get_field(state, in(QPC, 0xb0, 0, 24)); /* rmsn */
    memset(command, 0, sizeof command);
    return status ? status : modify(qp, TO_RESET_QP, number, command);
}
