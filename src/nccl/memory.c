/* SPDX-License-Identifier: Apache-2.0 */
/* Memory and windows. Collectives and messages take any memory, so ncclCommRegister() changes
 * nothing. A window is symmetric memory where it is memory of ncclMemAlloc(), or such. */
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

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *address, size_t bytes,
                                    ncclWindow_t *window, int flags)
{
    (void)flags;
    ncclResult_t result = check_range("ncclCommWindowRegister", comm, address, bytes, window);
    if (result)
        return result;
    void *symmetric = NULL;
    weft_status status = weft_register_symmetric(comm->job, address, bytes, &symmetric);
    if (status == WEFT_ERR_PEER_DEAD || status == WEFT_ERR_TIMEOUT || status == WEFT_ERR_JOB)
        return comm_result(comm, status);
    if (status)
        nccl_info(comm, "REG", "ranks put nothing into a window of %zu bytes: %s", bytes,
                  weft_last_error());
    *window = malloc(sizeof **window);
    if (!*window)
        return nccl_fail(ncclSystemError, "ncclCommWindowRegister: no memory");
    comm->windows += !status;
    **window = (struct ncclWindow_vidmem){comm, address, bytes, status ? NULL : symmetric};
    return ncclSuccess;
}

ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void **address)
{
    ncclResult_t result = comm_enter(comm, "ncclWinGetUserPtr");
    if (result)
        return result;
    comm_leave(comm);
    if (!window || !address)
        return nccl_fail(ncclInvalidArgument, "ncclWinGetUserPtr: the %s is null",
                         window ? "result" : "window");
    *address = window->address;
    return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
    if (window && window->comm != comm)
        return nccl_fail(ncclInvalidArgument,
                         "ncclCommWindowDeregister: the window is of another communicator");
    ncclResult_t result = ncclSuccess;
    if (window && window->symmetric)
        comm->windows--;
    if (window && window->symmetric && atomic_load(&comm->state) == COMM_READY)
        result = comm_result(comm, weft_unregister_symmetric(comm->job, window->symmetric));
    free(window);
    return result;
}
