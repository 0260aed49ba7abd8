/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a job for kernels that the library does not know: in a module of the driver, or in
 * the GPU's memory for kernels that get its address. */
#include "job/device_state.h"

#include <pthread.h>

static weft_status find_cuda(const struct weft_job *job, const char *function,
                             const struct weft_dev **dev, struct device_view **view)
{
    *dev = device_state_of(job, view);
    if (*dev && (*view)->module_symbol)
        return WEFT_OK;
    return base_fail(
        WEFT_ERR_UNSUPPORTED,
        "%s: the job runs no device code on cuda; call weft_device_start() first, with "
        "WEFT_TARGET=cuda",
        function);
}

weft_status device_module_init(struct weft_job *job, void *module)
{
    static const char symbol[] = "weft_dev_state";
    const struct weft_dev *dev;
    struct device_view *view;
    uint64_t address;
    size_t bytes;
    weft_status status = find_cuda(job, "weft_module_init", &dev, &view);
    if (!status)
        status = view->module_symbol(view, module, symbol, &address, &bytes);
    if (status)
        return status;
    if (bytes > sizeof *dev)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "weft_module_init: the module's %s has %zu bytes, this library's %zu: it "
                         "was compiled against another weft_device.h",
                         symbol, bytes, sizeof *dev);
    return view->symbol_write(view, address, dev, bytes);
}

weft_status device_state_address(struct weft_job *job, const struct weft_dev **address)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const struct weft_dev *dev;
    struct device_view *view;
    weft_status status = device_target() == WEFT_CUDA ? device_open(job) : WEFT_OK;
    *address = NULL;
    if (!status)
        status = find_cuda(job, "weft_device_state", &dev, &view);
    if (status)
        return status;
    pthread_mutex_lock(&lock);
    if (!view->state)
        status = view->table_make(view, sizeof *dev, &view->state);
    if (!status)
        status = view->table_write(view, view->state, 0, dev, sizeof *dev);
    if (!status)
        *address = view->state;
    pthread_mutex_unlock(&lock);
    return status;
}
