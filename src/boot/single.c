/* SPDX-License-Identifier: Apache-2.0 */
/* A job of one PE: there are no others to find. */
#include "base/status.h"
#include "boot/methods.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static weft_status single_allgather(struct boot *boot, const void *mine, void *all, size_t bytes)
{
    if (bytes)
        memmove(all, mine, bytes);
    return WEFT_OK;
}

static weft_status single_barrier(struct boot *boot)
{
    return WEFT_OK;
}

static weft_status single_share_fd(struct boot *boot, int from, int fd, int *taken)
{
    *taken = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (*taken < 0)
        return base_fail(WEFT_ERR_SYSTEM, "duplicating descriptor %d: %s", fd, strerror(errno));
    return WEFT_OK;
}

static void single_abort(struct boot *boot, int code, const char *sentence)
{
}

static void single_fail(struct boot *boot, weft_status why, const char *sentence)
{
}

static weft_status single_check(struct boot *boot)
{
    return WEFT_OK;
}

static void single_forked(struct boot *boot)
{
}

static void single_close(struct boot *boot, bool clean)
{
    boot_unset(boot);
    free(boot);
}

static const struct boot_ops single_ops = {
    .name = "single",
    .allgather = single_allgather,
    .barrier = single_barrier,
    .share_fd = single_share_fd,
    .abort = single_abort,
    .fail = single_fail,
    .check = single_check,
    .forked = single_forked,
    .close = single_close,
};

weft_status boot_open_single(struct boot **boot)
{
    struct boot *made = calloc(1, sizeof *made);
    if (!made)
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for a job of one PE");
    boot_set(made, &single_ops, 0, 1);
    weft_status status = boot_one_node(made);
    if (status)
        free(made);
    else
        *boot = made;
    return status;
}
