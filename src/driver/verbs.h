/* SPDX-License-Identifier: Apache-2.0 */
/* libibverbs as a table of functions, loaded at run time. Its types come from rdma-core's headers
 * if these are found at build time (WEFT_HAVE_VERBS); in a build without them verbs_open() fails.
 * Functions that the headers define inline (posting, polling) call the device's driver directly and
 * need no entry. */
#ifndef WEFT_DRIVER_VERBS_H
#define WEFT_DRIVER_VERBS_H

#include <weft.h>

#ifdef WEFT_HAVE_VERBS
#include <infiniband/verbs.h>

/* The headers define some of these names as macros; the table needs the symbols. */
#undef ibv_reg_mr
#undef ibv_query_port

#define VERBS_FUNCTIONS(X)                                                                         \
    X(get_device_list, ibv_get_device_list, 0, struct ibv_device **, (int *n))                     \
    X(free_device_list, ibv_free_device_list, 0, void, (struct ibv_device **))                     \
    X(get_device_name, ibv_get_device_name, 0, const char *, (struct ibv_device *))                \
    X(open_device, ibv_open_device, 0, struct ibv_context *, (struct ibv_device *))                \
    X(close_device, ibv_close_device, 0, int, (struct ibv_context *))                              \
    X(query_port, ibv_query_port, 0, int, (struct ibv_context *, uint8_t, struct ibv_port_attr *)) \
    X(query_gid, ibv_query_gid, 0, int, (struct ibv_context *, uint8_t, int, union ibv_gid *))     \
    X(alloc_pd, ibv_alloc_pd, 0, struct ibv_pd *, (struct ibv_context *))                          \
    X(dealloc_pd, ibv_dealloc_pd, 0, int, (struct ibv_pd *))                                       \
    X(reg_mr, ibv_reg_mr, 0, struct ibv_mr *, (struct ibv_pd *, void *, size_t, int))              \
    X(reg_dmabuf_mr, ibv_reg_dmabuf_mr, 1, struct ibv_mr *,                                        \
      (struct ibv_pd *, uint64_t offset, size_t, uint64_t iova, int fd, int))                      \
    X(dereg_mr, ibv_dereg_mr, 0, int, (struct ibv_mr *))                                           \
    X(query_device, ibv_query_device, 1, int, (struct ibv_context *, struct ibv_device_attr *))    \
    X(create_ah, ibv_create_ah, 1, struct ibv_ah *, (struct ibv_pd *, struct ibv_ah_attr *))       \
    X(destroy_ah, ibv_destroy_ah, 1, int, (struct ibv_ah *))                                       \
    X(create_srq, ibv_create_srq, 1, struct ibv_srq *,                                             \
      (struct ibv_pd *, struct ibv_srq_init_attr *))                                               \
    X(destroy_srq, ibv_destroy_srq, 1, int, (struct ibv_srq *))

/* Functions for verbs queues. Callers that create queues through DevX do not need them. */
#define VERBS_QUEUE_FUNCTIONS(X)                                                                   \
    X(create_cq, ibv_create_cq, 0, struct ibv_cq *,                                                \
      (struct ibv_context *, int, void *, struct ibv_comp_channel *, int))                         \
    X(destroy_cq, ibv_destroy_cq, 0, int, (struct ibv_cq *))                                       \
    X(create_qp, ibv_create_qp, 0, struct ibv_qp *, (struct ibv_pd *, struct ibv_qp_init_attr *))  \
    X(modify_qp, ibv_modify_qp, 0, int, (struct ibv_qp *, struct ibv_qp_attr *, int))              \
    X(destroy_qp, ibv_destroy_qp, 0, int, (struct ibv_qp *))                                       \
    X(wc_status_str, ibv_wc_status_str, 0, const char *, (enum ibv_wc_status))

struct verbs {
#define MEMBER(name, symbol, optional, result, parameters) result(*name) parameters;
    VERBS_FUNCTIONS(MEMBER)
    VERBS_QUEUE_FUNCTIONS(MEMBER)
#undef MEMBER
    void *handle;
};
#else
struct verbs {
    void *handle;
};
#endif

/* Loads libibverbs. WEFT_ERR_UNSUPPORTED: no library, a missing symbol, or a build without the
 * headers; the message says which. verbs_close() unloads it. */
weft_status verbs_open(struct verbs *verbs);

/* Loads libibverbs from a folder ("" = the system's), for callers that create queues through DevX:
 * the library may lack VERBS_QUEUE_FUNCTIONS. */
weft_status verbs_open_at(struct verbs *verbs, const char *folder);
void verbs_close(struct verbs *verbs);

#endif
