/* SPDX-License-Identifier: Apache-2.0 */
/* Queues in own memory and the doorbell of an mlx5 NIC. See ladder_mlx5.h. */
#include "machine/live/ladder_mlx5.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/status.h"
#include "driver/mlx5.h"

static void set_not_tried(struct rung_result *r, const char *why)
{
    memset(r, 0, sizeof *r);
    snprintf(r->detail, sizeof r->detail, "%.*s", (int)sizeof r->detail - 1, why);
}

#ifdef WEFT_HAVE_VERBS

enum { PAGE = 4096 };

/* Adds a failed call to the detail. The result has the errno of the first one. */
static void add_failed_call(struct rung_result *r, const char *call, int error)
{
    size_t used = strlen(r->detail);
    snprintf(r->detail + used, sizeof r->detail - used, "%s%s: %s", used ? "; " : "", call,
             strerror(error));
    if (r->ok)
        r->error = error;
    r->ok = false;
}

static void query_capabilities(const struct mlx5 *lib, struct ibv_context *context,
                               struct rung_result *r)
{
    static const unsigned char query_hca_cap[16] = {0x01, 0x00, [7] = 0x01}; /* general, current */
    unsigned char out[16 + 4096] = {0};
    errno = 0;
    if (lib->dv.general_cmd(context, query_hca_cap, sizeof query_hca_cap, out, sizeof out))
        add_failed_call(r, "mlx5dv_devx_general_cmd (QUERY_HCA_CAP)", errno ? errno : EIO);
}

static void register_umem(const struct mlx5 *lib, struct ibv_context *context,
                          struct rung_result *r)
{
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return;
    errno = 0;
    struct mlx5dv_devx_umem *umem = lib->dv.umem_reg(context, page, PAGE, IBV_ACCESS_LOCAL_WRITE);
    if (umem)
        lib->dv.umem_dereg(umem);
    else
        add_failed_call(r, "mlx5dv_devx_umem_reg", errno);
    munmap(page, PAGE);
}

static void test_devx(const struct mlx5 *lib, struct ibv_context *context,
                      const struct ladder_doorbell *bell, struct rung_result *queues,
                      struct rung_result *doorbell)
{
    *queues = (struct rung_result){.tried = true, .ok = true};
    query_capabilities(lib, context, queues);
    register_umem(lib, context, queues);
    errno = 0;
    struct mlx5dv_devx_uar *uar = lib->dv.alloc_uar(context, 0);
    if (!uar) {
        add_failed_call(queues, "mlx5dv_devx_alloc_uar", errno);
        set_not_tried(doorbell, "an earlier step failed");
        return;
    }
    bell->try(bell->argument, uar->reg_addr, doorbell);
    lib->dv.free_uar(uar);
    if (queues->ok)
        snprintf(queues->detail, sizeof queues->detail,
                 "capabilities, own memory and a doorbell register are available");
}

static struct ibv_context *open_named(const struct mlx5 *lib, const char *name)
{
    int n = 0;
    struct ibv_context *context = NULL;
    struct ibv_device **list = lib->verbs.get_device_list(&n);
    for (int i = 0; list && i < n && !context; i++)
        if (strcmp(lib->verbs.get_device_name(list[i]), name) == 0)
            context = lib->verbs.open_device(list[i]);
    if (list)
        lib->verbs.free_device_list(list);
    return context;
}

void ladder_mlx5(const char *nic, const struct ladder_doorbell *bell, struct rung_result *queues,
                 struct rung_result *doorbell)
{
    struct mlx5 lib;
    struct ibv_context *context = NULL;
    weft_status status = mlx5_open(&lib, "");
    if (!status)
        context = open_named(&lib, nic);
    if (context) {
        test_devx(&lib, context, bell, queues, doorbell);
        lib.verbs.close_device(context);
    } else {
        set_not_tried(queues, status ? base_last_error() : "libibverbs cannot open the device");
        *doorbell = *queues;
    }
    if (!status)
        mlx5_close(&lib);
}

#else

void ladder_mlx5(const char *nic, const struct ladder_doorbell *bell, struct rung_result *queues,
                 struct rung_result *doorbell)
{
    (void)nic;
    (void)bell;
    set_not_tried(queues, "built without the headers of rdma-core");
    *doorbell = *queues;
}

#endif
