/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as DevX commands to one device: created objects lie inside the memory registered for
 * them, and all objects can be destroyed. */
#include <infiniband/mlx5dv.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct mlx5dv_devx_umem *umem;
static struct mlx5dv_devx_uar *uar;
static uint8_t *memory;
enum { BYTES = 8192, COMMAND = 272, OBJECTS = 8 };

static void open_once(void)
{
    setenv("SOFT_HCA_LOG", "none", 1);
    struct ibv_device **list = ibv_get_device_list(NULL);
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    memory = aligned_alloc(4096, BYTES);
    umem = mlx5dv_devx_umem_reg(context, memory, BYTES, 1);
    uar = mlx5dv_devx_alloc_uar(context, 0);
    pd = ibv_alloc_pd(context);
    if (!umem || !uar || !pd)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mlx5dv_devx_obj *objects[OBJECTS] = {0};
    unsigned count = 0;
    if (!context)
        open_once();
    memset(memory, 0xff, BYTES);
    /* A byte selects the operation and the object; the command follows, padded with zeros. */
    while (size > 1 && count < OBJECTS) {
        uint8_t in[COMMAND] = {0}, out[COMMAND], what = *data;
        size_t n = size - 1 < COMMAND ? size - 1 : COMMAND;
        memcpy(in, data + 1, n);
        if (what & 1) {
            objects[count] = mlx5dv_devx_obj_create(context, in, sizeof in, out, sizeof out);
            count += objects[count] != NULL;
        } else if (what & 2) {
            mlx5dv_devx_general_cmd(context, in, n, out, sizeof out);
        } else if (count) {
            mlx5dv_devx_obj_modify(objects[(what >> 2) % count], in, n, out, 16);
            mlx5dv_devx_obj_query(objects[(what >> 2) % count], in, n, out, sizeof out);
        }
        /* Doorbells in between. */
        __atomic_store_n((uint64_t *)uar->reg_addr, (uint64_t)what << 16, __ATOMIC_RELEASE);
        data += n + 1;
        size -= n + 1;
    }
    /* Queue pairs before the objects that they use. */
    for (int round = 0; round < 2; round++)
        for (unsigned i = count; i-- > 0;)
            if (objects[i] && !mlx5dv_devx_obj_destroy(objects[i]))
                objects[i] = NULL;
    for (unsigned i = 0; i < count; i++)
        if (objects[i])
            abort();
    return 0;
}
