/* SPDX-License-Identifier: Apache-2.0 */
/* Memory and windows. Collectives and messages take any memory, so ncclCommRegister() changes
 * nothing. A window is symmetric memory where it is memory of ncclMemAlloc(), or such. Its handle
 * is the address of its description in GPU memory, which kernels read. */
#include "nccl/comm.h"

#include <stdlib.h>

ncclResult_t ncclMemAlloc(void **address, size_t bytes)
{
    if (!address || !bytes)
        return nccl_fail(ncclInvalidArgument, "ncclMemAlloc: %s",
                         address ? "0 bytes" : "the result is null");
    if (!driver_load())
        return ncclSystemError;
    if (!driver_context())
        driver_use_device(0);
    return driver_alloc(address, bytes);
}

ncclResult_t ncclMemFree(void *address)
{
    if (!address)
        return ncclSuccess;
    return driver_load() ? driver_free(address) : ncclSystemError;
}

static ncclResult_t check_range(const char *function, ncclComm_t comm, const void *address,
                                size_t bytes, const void *result_at)
{
    ncclResult_t result = comm_enter(comm, function);
    if (result)
        return result;
    if (!address || !bytes || !result_at)
        result = nccl_fail(ncclInvalidArgument, "%s: %zu bytes at %p%s", function, bytes, address,
                           result_at ? "" : ", and the result is null");
    comm_leave(comm);
    return result;
}

ncclResult_t ncclCommRegister(ncclComm_t comm, void *address, size_t bytes, void **handle)
{
    ncclResult_t result = check_range("ncclCommRegister", comm, address, bytes, handle);
    if (!result)
        *handle = address;
    return result;
}

ncclResult_t ncclCommDeregister(ncclComm_t comm, void *handle)
{
    (void)handle;
    ncclResult_t result = comm_enter(comm, "ncclCommDeregister");
    if (!result)
        comm_leave(comm);
    return result;
}

/* ----------------------------------------------------------------------------------- windows */

static struct window *windows; /* under `windows_lock` */
static pthread_mutex_t windows_lock = PTHREAD_MUTEX_INITIALIZER;

/* What kernels of this rank see of a window. */
static struct ncclWindow_vidmem describe_window(const struct window *window)
{
    ncclComm_t comm = window->comm;
    int lsa_rank = comm->rank % comm->lsa_size, first = comm->rank - lsa_rank;
    struct ncclWindow_vidmem seen = {.own = window->address,
                                     .bytes = window->bytes,
                                     .rank = comm->rank,
                                     .lsa_rank = lsa_rank,
                                     .lsa_size = comm->lsa_size};
    if (!window->symmetric)
        return seen;
    seen.own = window->symmetric;
    seen.first = weft_ptr(comm->job, window->symmetric, first);
    if (comm->lsa_size > 1)
        seen.stride =
            (uint64_t)((char *)weft_ptr(comm->job, window->symmetric, first + 1) - seen.first);
    return seen;
}

ncclResult_t window_make(ncclComm_t comm, const struct window *from, struct ncclWindow_vidmem *seen,
                         ncclWindow_t *handle)
{
    void *copy, *context = driver_context();
    struct window *window = malloc(sizeof *window);
    if (!window)
        return nccl_fail(ncclSystemError, "no memory for a window");
    *window = *from;
    *seen = describe_window(window);
    driver_set_context(comm->context);
    ncclResult_t result = driver_copy_make(seen, sizeof *seen, &copy);
    driver_set_context(context);
    if (result) {
        free(window);
        return result;
    }
    *handle = window->handle = copy;
    pthread_mutex_lock(&windows_lock);
    window->next = windows;
    windows = window;
    comm->windows += window->symmetric != NULL;
    pthread_mutex_unlock(&windows_lock);
    return ncclSuccess;
}

const struct window *window_find(ncclWindow_t handle)
{
    pthread_mutex_lock(&windows_lock);
    const struct window *window = windows;
    while (window && window->handle != handle)
        window = window->next;
    pthread_mutex_unlock(&windows_lock);
    return window;
}

void *window_symmetric(ncclComm_t comm, const void *address, size_t bytes)
{
    void *symmetric = NULL;
    pthread_mutex_lock(&windows_lock);
    for (const struct window *w = windows; w && !symmetric; w = w->next) {
        size_t at = (size_t)((uintptr_t)address - (uintptr_t)w->address);
        if (w->comm == comm && w->symmetric && w->same_places && at < w->bytes &&
            bytes <= w->bytes - at)
            symmetric = w->symmetric + at;
    }
    pthread_mutex_unlock(&windows_lock);
    return symmetric;
}

struct window window_end(ncclWindow_t handle)
{
    struct window ended = {0}, **at = &windows, *found;
    pthread_mutex_lock(&windows_lock);
    while (*at && (*at)->handle != handle)
        at = &(*at)->next;
    found = *at;
    if (found) {
        *at = found->next;
        found->comm->windows -= found->symmetric != NULL;
    }
    pthread_mutex_unlock(&windows_lock);
    if (!found)
        return ended;
    ended = *found;
    free(found);
    void *context = driver_context();
    driver_set_context(ended.comm->context);
    driver_copy_free(handle);
    driver_set_context(context);
    return ended;
}

void windows_close(ncclComm_t comm)
{
    for (;;) {
        ncclWindow_t handle = NULL;
        pthread_mutex_lock(&windows_lock);
        for (const struct window *window = windows; window && !handle; window = window->next)
            handle = window->comm == comm ? window->handle : NULL;
        pthread_mutex_unlock(&windows_lock);
        if (!handle)
            return;
        window_end(handle);
    }
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *address, size_t bytes,
                                    ncclWindow_t *window, int flags)
{
    ncclResult_t result = check_range("ncclCommWindowRegister", comm, address, bytes, window);
    if (result)
        return result;
    void *symmetric = NULL;
    struct ncclWindow_vidmem seen;
    weft_status status = weft_register_symmetric(comm->job, address, bytes, &symmetric);
    if (status == WEFT_ERR_PEER_DEAD || status == WEFT_ERR_TIMEOUT || status == WEFT_ERR_JOB)
        return comm_result(comm, status);
    if (status)
        nccl_info(comm, "REG", "ranks put nothing into a window of %zu bytes: %s", bytes,
                  weft_last_error());
    const struct window made = {.comm = comm,
                                .address = address,
                                .bytes = bytes,
                                .symmetric = status ? NULL : symmetric,
                                .same_places = flags & NCCL_WIN_COLL_SYMMETRIC};
    return window_make(comm, &made, &seen, window);
}

ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void **address)
{
    ncclResult_t result = comm_enter(comm, "ncclWinGetUserPtr");
    if (result)
        return result;
    comm_leave(comm);
    const struct window *found = window_find(window);
    if (!found || !address)
        return nccl_fail(ncclInvalidArgument, "ncclWinGetUserPtr: %s",
                         found ? "the result is null" : "there is no such window");
    *address = found->address;
    return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
    const struct window *found = window_find(window);
    if (!window)
        return ncclSuccess;
    if (!found || found->comm != comm || found->resources)
        return nccl_fail(ncclInvalidArgument, "ncclCommWindowDeregister: the window is %s",
                         !found             ? "not registered"
                         : found->resources ? "one of an ncclDevComm: call ncclDevCommDestroy()"
                                            : "of another communicator");
    struct window ended = window_end(window);
    if (ended.symmetric && atomic_load(&comm->state) == COMM_READY)
        return comm_result(comm, weft_unregister_symmetric(comm->job, ended.symmetric));
    return ncclSuccess;
}
