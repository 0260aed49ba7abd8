/* SPDX-License-Identifier: Apache-2.0 */
/* A small client of the software HCA for its tests: it creates queue pairs with DevX commands and
 * writes requests itself. It has its own definitions of the formats and shares no code with the
 * HCA. */
#ifndef HCA_CLIENT_H
#define HCA_CLIENT_H

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum { CLIENT_MEMORY = 1 << 16 };

struct client {
    struct ibv_context *context;
    struct ibv_pd *pd;
    uint32_t pdn;
    struct mlx5dv_devx_uar *uar;
    bool shares_uar;
    uint8_t *arena;                   /* send ring, completion ring, records */
    void *arena_there, *memory_there; /* GPU addresses, with HCA_CLIENT_GPU */
    struct mlx5dv_devx_umem *umem;
    struct mlx5dv_devx_obj *cq, *qp;
    uint32_t cqn, qpn;
    bool collapsed;
    unsigned log_sq, log_cq;
    uint8_t *ring;
    struct mlx5_cqe64 *cqes;
    uint32_t *cq_record, *qp_record;
    uint32_t consumer;
    uint64_t last; /* words of the last completion of a collapsed queue */
    uint16_t next; /* index of the next block */
    uint8_t *memory;
    size_t memory_bytes;
    struct ibv_mr *mr;
    /* The peer. */
    uint16_t remote_lid, lid;
    uint32_t remote_qpn, remote_rkey;
    union ibv_gid gid, remote_gid;
    bool roce;
    unsigned gid_index, mtu; /* the port's last GID index; the code of the path MTU */
    unsigned timeout;        /* 4.096 us * 2^timeout */
    unsigned source_port;    /* UDP port */
    uint64_t remote_memory;
};

struct client_options {
    unsigned log_sq, log_cq;
    bool single;                 /* one completion at a time; the queue may be collapsed on a GPU */
    bool ring;                   /* completion queue is a ring, else collapsed */
    int access;                  /* rights on the memory; 0: all */
    int device;                  /* index in the device list */
    size_t memory_bytes;         /* 0: CLIENT_MEMORY */
    struct mlx5dv_devx_uar *uar; /* another client's; NULL: allocate one */
};

/* A request that is being written. */
struct wqe_maker {
    struct client *c;
    uint16_t index;
    unsigned units;
    uint32_t words[256];
};

int client_open(struct client *c, const struct client_options *o);
void client_close(struct client *c);
int client_connect(struct client *c); /* RST to RTS, connected to remote_* */
int client_move(struct client *c, unsigned opcode);
void client_pair(struct client *a, struct client *b); /* connects each to the other */

void wqe_begin(struct wqe_maker *w, struct client *c, unsigned opcode, unsigned modifier,
               unsigned flags, uint32_t immediate);
void wqe_remote(struct wqe_maker *w, uint64_t address, uint32_t rkey);
void wqe_data(struct wqe_maker *w, uint64_t address, uint32_t bytes, uint32_t lkey);
void wqe_inline(struct wqe_maker *w, const void *data, uint32_t bytes);
void wqe_word(struct wqe_maker *w, uint32_t v); /* stored big-endian */
void wqe_long(struct wqe_maker *w, uint64_t v);
uint16_t wqe_end(struct wqe_maker *w); /* stores it; returns its index */
void client_doorbell(struct client *c);
uint64_t *client_register(const struct client *c); /* doorbell register */

/* Waits up to 10 s for the next completion; returns the opcode in op_own, or -1. */
int client_poll(struct client *c, struct mlx5_cqe64 *out);
/* For a collapsed queue: waits until the entry has this index or is an error. */
int client_poll_index(struct client *c, uint16_t index, struct mlx5_cqe64 *out);
static inline struct mlx5_err_cqe *as_error(struct mlx5_cqe64 *e)
{
    return (struct mlx5_err_cqe *)e;
}

/* Each posts one signalled request and rings the doorbell. */
uint16_t client_write_inline(struct client *c, uint64_t to, const void *data, uint32_t bytes);
uint16_t client_write(struct client *c, uint64_t to, uint64_t from, uint32_t bytes);
uint16_t client_read(struct client *c, uint64_t from, uint64_t to, uint32_t bytes);

#endif
