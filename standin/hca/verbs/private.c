/* SPDX-License-Identifier: Apache-2.0 */
/* Private symbols of libibverbs that rdma-core's own libraries (providers of other NICs, librdmacm)
 * require at load time. A provider registers here and never gets a device, so its other calls do
 * not occur; if one does, it fails. */
#include "context.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define REFUSED(name)                                                                              \
    PUBLIC int name(void);                                                                         \
    PUBLIC int name(void)                                                                          \
    {                                                                                              \
        return EOPNOTSUPP;                                                                         \
    }
REFUSED(ibv_cmd_alloc_pd)
REFUSED(ibv_cmd_create_ah)
REFUSED(ibv_cmd_create_cq_ex)
REFUSED(ibv_cmd_create_qp_ex)
REFUSED(ibv_cmd_dealloc_pd)
REFUSED(ibv_cmd_dereg_mr)
REFUSED(ibv_cmd_destroy_ah)
REFUSED(ibv_cmd_destroy_cq)
REFUSED(ibv_cmd_destroy_qp)
REFUSED(ibv_cmd_get_context)
REFUSED(ibv_cmd_modify_qp)
REFUSED(ibv_cmd_query_device_any)
REFUSED(ibv_cmd_query_port)
REFUSED(ibv_cmd_query_qp)
REFUSED(ibv_cmd_reg_dmabuf_mr)
REFUSED(ibv_cmd_reg_mr)
REFUSED(ibv_copy_ah_attr_from_kern)
REFUSED(ibv_copy_path_rec_from_kern)
REFUSED(ibv_copy_qp_attr_from_kern)

PUBLIC void *_verbs_init_and_alloc_context(void);
PUBLIC void *_verbs_init_and_alloc_context(void)
{
    errno = EOPNOTSUPP;
    return NULL;
}

#define IGNORED(name)                                                                              \
    PUBLIC void name(void);                                                                        \
    PUBLIC void name(void)                                                                         \
    {                                                                                              \
    }
IGNORED(__verbs_log)
IGNORED(verbs_register_driver_34)
IGNORED(verbs_set_ops)
IGNORED(verbs_uninit_context)

PUBLIC int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index,
                              unsigned *type);
PUBLIC int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index,
                              unsigned *type)
{
    /* 0: InfiniBand or RoCE v1, 1: RoCE v2. */
    if (port != 1 || index)
        return -1;
    *type = context_of(context)->device->config->link == LINK_ROCE;
    return 0;
}

PUBLIC int ibv_read_sysfs_file(const char *folder, const char *file, char *text, size_t size);
PUBLIC int ibv_read_sysfs_file(const char *folder, const char *file, char *text, size_t size)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return -1;
    n -= text[n - 1] == '\n';
    text[n] = 0;
    return (int)n;
}
