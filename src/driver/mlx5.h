/* SPDX-License-Identifier: Apache-2.0 */
/* libmlx5 as a table of functions, with the libibverbs that it belongs to: what a program needs to
 * create queues of a ConnectX adapter in its own memory. Types come from rdma-core's headers.
 * The callers compose the commands. */
#ifndef WEFT_DRIVER_MLX5_H
#define WEFT_DRIVER_MLX5_H

#include "driver/verbs.h"

#ifdef WEFT_HAVE_VERBS
#include <infiniband/mlx5dv.h>

#define MLX5_FUNCTIONS(X)                                                                          \
    X(init_obj, mlx5dv_init_obj, int, (struct mlx5dv_obj *, uint64_t))                             \
    X(general_cmd, mlx5dv_devx_general_cmd, int,                                                   \
      (struct ibv_context *, const void *in, size_t, void *out, size_t))                           \
    X(obj_create, mlx5dv_devx_obj_create, struct mlx5dv_devx_obj *,                                \
      (struct ibv_context *, const void *in, size_t, void *out, size_t))                           \
    X(obj_modify, mlx5dv_devx_obj_modify, int,                                                     \
      (struct mlx5dv_devx_obj *, const void *in, size_t, void *out, size_t))                       \
    X(obj_query, mlx5dv_devx_obj_query, int,                                                       \
      (struct mlx5dv_devx_obj *, const void *in, size_t, void *out, size_t))                       \
    X(obj_destroy, mlx5dv_devx_obj_destroy, int, (struct mlx5dv_devx_obj *))                       \
    X(query_eqn, mlx5dv_devx_query_eqn, int, (struct ibv_context *, uint32_t vector, uint32_t *))  \
    X(umem_reg, mlx5dv_devx_umem_reg, struct mlx5dv_devx_umem *,                                   \
      (struct ibv_context *, void *, size_t, uint32_t access))                                     \
    X(umem_dereg, mlx5dv_devx_umem_dereg, int, (struct mlx5dv_devx_umem *))                        \
    X(alloc_uar, mlx5dv_devx_alloc_uar, struct mlx5dv_devx_uar *,                                  \
      (struct ibv_context *, uint32_t))                                                            \
    X(free_uar, mlx5dv_devx_free_uar, void, (struct mlx5dv_devx_uar *))

/* NULL where the library is too old for them. */
#define MLX5_OPTIONAL(X)                                                                           \
    X(umem_reg_ex, mlx5dv_devx_umem_reg_ex, struct mlx5dv_devx_umem *,                             \
      (struct ibv_context *, struct mlx5dv_devx_umem_in *))                                        \
    X(create_qp, mlx5dv_create_qp, struct ibv_qp *,                                                \
      (struct ibv_context *, struct ibv_qp_init_attr_ex *, struct mlx5dv_qp_init_attr *))

struct mlx5_functions {
#define MEMBER(name, symbol, result, parameters) result(*name) parameters;
    MLX5_FUNCTIONS(MEMBER)
    MLX5_OPTIONAL(MEMBER)
#undef MEMBER
};

struct mlx5 {
    struct verbs verbs;
    struct mlx5_functions dv;
    void *handle;
};

/* Loads libibverbs and libmlx5 from `folder`, or the system's for "". WEFT_ERR_UNSUPPORTED as in
 * verbs_open(). mlx5_close() unloads them. */
weft_status mlx5_open(struct mlx5 *mlx5, const char *folder);
void mlx5_close(struct mlx5 *mlx5);

#endif
#endif
