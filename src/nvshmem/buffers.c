/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the program's own, as symmetric memory (by the host API's function) and as a local
 * side. What nvshmemx_buffer_register() was given is noted, so that unregister_all can take all of
 * it back. A job without a GPU side needs no registration: its ranges are only noted. */
#include <weft/nvshmem/host.h>

#include "base/status.h"

#include <weft/gpu.h>

#include <pthread.h>
#include <stdlib.h>

struct buffer {
    void *address;
    int registered; /* with the GPU side */
    struct buffer *next;
};

static struct buffer *buffers;
static pthread_mutex_t buffers_lock = PTHREAD_MUTEX_INITIALIZER;

static int is_noted(const void *address)
{
    for (const struct buffer *b = buffers; b; b = b->next)
        if (b->address == address)
            return 1;
    return 0;
}

static weft_status note(void *address, size_t bytes)
{
    if (is_noted(address))
        return base_fail(WEFT_ERR_ARGUMENT, "%p is registered already", address);
    struct buffer *buffer = malloc(sizeof *buffer);
    if (!buffer)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for the note of a buffer");
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
    weft_status status = note(address, bytes);
    pthread_mutex_unlock(&buffers_lock);
    return status;
}

static weft_status forget(struct buffer **at)
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
            status = forget(&buffers);
    } else {
        struct buffer **at = &buffers;
        while (*at && (*at)->address != address)
            at = &(*at)->next;
        status = *at ? forget(at) : base_fail(WEFT_ERR_ADDRESS, "%p was not registered", address);
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
