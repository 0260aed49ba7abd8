/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the program, made symmetric (by the host API's function) or registered as a local
 * buffer. The ranges of nvshmemx_buffer_register() are recorded, so that unregister_all can
 * unregister all of them. A job that has not set up its GPUs needs no registration: its ranges are
 * only recorded. */
#include <weft/nvshmem/host.h>

#include "base/status.h"

#include <weft/gpu.h>

#include <pthread.h>
#include <stdlib.h>

struct buffer {
    void *address;
    int registered; /* 1: registered with the GPU */
    struct buffer *next;
};

static struct buffer *buffers;
static pthread_mutex_t buffers_lock = PTHREAD_MUTEX_INITIALIZER;

static int is_recorded(const void *address)
{
    for (const struct buffer *b = buffers; b; b = b->next)
        if (b->address == address)
            return 1;
    return 0;
}

static weft_status record_buffer(void *address, size_t bytes)
{
    if (is_recorded(address))
        return base_fail(WEFT_ERR_ARGUMENT, "%p is registered already", address);
    struct buffer *buffer = malloc(sizeof *buffer);
    if (!buffer)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for the record of a buffer");
    weft_status status = weft_register(weft_nvshmem_job(), address, bytes);
    if (status && status != WEFT_ERR_UNSUPPORTED) {
        free(buffer);
        return status;
    }
    *buffer = (struct buffer){address, status == WEFT_OK, buffers};
    buffers = buffer;
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_nvshmem_buffer(void *address, size_t bytes)
{
    if (!address || !bytes)
        return base_fail(WEFT_ERR_ARGUMENT, "a buffer of %zu bytes at %p", bytes, address);
    if (!weft_nvshmem_job())
        return base_fail(WEFT_ERR_ARGUMENT, "called before nvshmem_init");
    pthread_mutex_lock(&buffers_lock);
    weft_status status = record_buffer(address, bytes);
    pthread_mutex_unlock(&buffers_lock);
    return status;
}

static weft_status release_buffer(struct buffer **at)
{
    struct buffer *buffer = *at;
    weft_status status = WEFT_OK;
    *at = buffer->next;
    if (buffer->registered && weft_nvshmem_job())
        status = weft_unregister(weft_nvshmem_job(), buffer->address);
    free(buffer);
    return status;
}

WEFT_EXPORT weft_status weft_nvshmem_buffer_end(void *address)
{
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&buffers_lock);
    if (!address) {
        while (buffers && !status)
            status = release_buffer(&buffers);
    } else {
        struct buffer **at = &buffers;
        while (*at && (*at)->address != address)
            at = &(*at)->next;
        status = *at ? release_buffer(at)
                     : base_fail(WEFT_ERR_ADDRESS, "%p was not registered", address);
    }
    pthread_mutex_unlock(&buffers_lock);
    return status;
}

WEFT_EXPORT void *weft_nvshmem_buffer_symmetric(void *address, size_t bytes, int flags)
{
    void *symmetric = NULL;
    weft_status status =
        !weft_nvshmem_job() ? base_fail(WEFT_ERR_ARGUMENT, "called before nvshmem_init")
        : flags             ? base_fail(WEFT_ERR_ARGUMENT, "flags %#x; there are none but 0", flags)
                : weft_register_symmetric(weft_nvshmem_job(), address, bytes, &symmetric);
    weft_nvshmem_report(status, "nvshmemx_buffer_register_symmetric");
    return symmetric;
}

WEFT_EXPORT weft_status weft_nvshmem_buffer_symmetric_end(void *symmetric)
{
    return weft_nvshmem_job() ? weft_unregister_symmetric(weft_nvshmem_job(), symmetric)
                              : base_fail(WEFT_ERR_ARGUMENT, "called before nvshmem_init");
}
