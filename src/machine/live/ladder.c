/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU-NIC test. See ladder.h. Uses CUDA and verbs directly, not the paths of the library. */
#include "machine/live/ladder.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "driver/gpu_api.h"
#include "driver/verbs.h"
#include "machine/live/ladder_mlx5.h"
#include "machine/live/ladder_verbs.h"

enum { GPU_BYTES = 4 << 20, CHECK_BYTES = 4096, DOORBELL_BYTES = 4096 };

/* --- the GPU's side --------------------------------------------------------------------------- */

/* Finds the CUDA device with a PCI address: NVML and CUDA number GPUs in different orders. */
static bool find_device(const struct gpu_api *driver, const char *bdf, CUdevice *device)
{
    int n = 0;
    if (driver->DeviceGetCount(&n) != CUDA_SUCCESS)
        return false;
    for (int i = 0; i < n; i++) {
        char text[32] = "";
        if (driver->DeviceGet(device, i) == CUDA_SUCCESS &&
            driver->DeviceGetPCIBusId(text, sizeof text, *device) == CUDA_SUCCESS &&
            strcasecmp(text, bdf) == 0)
            return true;
    }
    return false;
}

static void read_attribute(struct machine *machine, const struct gpu_api *driver, CUdevice device,
                           int attribute, struct machine_number *to)
{
    int value = 0;
    char words[128];
    CUresult result = driver->DeviceGetAttribute(&value, attribute, device);
    if (result == CUDA_SUCCESS)
        number_set(to, value != 0);
    else
        number_unknown(machine, to, "cuDeviceGetAttribute(%d): %s", attribute,
                       gpu_api_error_text(driver, result, words, sizeof words));
}

static void read_attributes(struct machine *machine, const struct gpu_api *driver,
                            struct machine_gpu *gpu)
{
    CUdevice device;
    if (!gpu->bdf.value || !find_device(driver, gpu->bdf.value, &device))
        return;
    read_attribute(machine, driver, device, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, &gpu->dmabuf);
    read_attribute(machine, driver, device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
                   &gpu->rdma);
    read_attribute(machine, driver, device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                   &gpu->vmm);
    read_attribute(machine, driver, device, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
                   &gpu->multicast);
}

weft_status machine_read_cuda(struct machine *machine)
{
    struct gpu_api driver;
    weft_status status = gpu_api_open(&driver);
    for (size_t i = 0; !status && i < machine->n_gpus; i++)
        read_attributes(machine, &driver, &machine->gpus[i]);
    if (!status)
        gpu_api_close(&driver);
    return status;
}

/* --- steps ------------------------------------------------------------------------------------ */

struct gdr_test {
    struct machine *machine;
    int64_t gpu;
    const char *nic;
    struct gpu_api driver;
    CUdeviceptr memory; /* GPU_BYTES of GPU memory */
    int dmabuf;         /* file descriptor, -1 when none */
};

static struct machine_rung *add_rung(struct gdr_test *c, const char *rung, const char *result,
                                     int error, const char *detail)
{
    struct machine_rung *r = machine_find_rung(c->machine, c->gpu, c->nic, rung);
    if (!r)
        r = machine_add_rung(c->machine);
    number_set(&r->gpu, c->gpu);
    text_set(c->machine, &r->nic, c->nic);
    text_set(c->machine, &r->rung, rung);
    text_set(c->machine, &r->result, result);
    number_set(&r->err, error);
    text_set(c->machine, &r->detail, detail);
    return r;
}

struct export
{
    bool ok;
    int error;
    char detail[200];
};

static void export_dmabuf(struct gdr_test *c, struct export *e)
{
    char words[128];
    *e = (struct export){.error = ENOSYS};
    c->dmabuf = -1;
    if (!c->driver.MemGetHandleForAddressRange) {
        snprintf(e->detail, sizeof e->detail,
                 "this CUDA driver has no cuMemGetHandleForAddressRange");
        return;
    }
    CUresult result = c->driver.MemGetHandleForAddressRange(&c->dmabuf, c->memory, GPU_BYTES,
                                                            CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    snprintf(e->detail, sizeof e->detail, "cuMemGetHandleForAddressRange of %d bytes: %s",
             GPU_BYTES, gpu_api_error_text(&c->driver, result, words, sizeof words));
    e->ok = result == CUDA_SUCCESS;
    e->error = e->ok ? 0 : EOPNOTSUPP;
    if (!e->ok)
        c->dmabuf = -1;
}

static void record_step(struct gdr_test *c, const char *rung, const struct rung_result *r)
{
    struct machine_rung *to = add_rung(c, rung, r->tried ? (r->ok ? "ok" : "failed") : "not-tried",
                                       r->tried && !r->ok ? r->error : 0, r->detail);
    if (r->mbps)
        number_set(&to->mbps, r->mbps);
}

/* Tests whether CUDA can map the doorbell register for the GPU. Registers of a real NIC are I/O
 * memory; those of a stand-in are plain memory, which the driver maps only without that flag. */
static void test_doorbell(void *argument, void *reg, struct rung_result *r)
{
    const struct gdr_test *c = argument;
    char words[128];
    uintptr_t page = (uintptr_t)reg & ~(uintptr_t)(DOORBELL_BYTES - 1);
    *r = (struct rung_result){.tried = true};
    CUresult result = c->driver.MemHostRegister(
        (void *)page, DOORBELL_BYTES, CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY);
    if (result != CUDA_SUCCESS)
        result =
            c->driver.MemHostRegister((void *)page, DOORBELL_BYTES, CU_MEMHOSTREGISTER_DEVICEMAP);
    snprintf(r->detail, sizeof r->detail, "cuMemHostRegister of the doorbell's page: %s",
             gpu_api_error_text(&c->driver, result, words, sizeof words));
    r->ok = result == CUDA_SUCCESS;
    r->error = r->ok ? 0 : EPERM;
    if (r->ok)
        c->driver.MemHostUnregister((void *)page);
}

/* Tests queues and doorbell of an mlx5 NIC, to which device code can post requests. */
static void test_queues(struct gdr_test *c)
{
    const struct machine_nic *nic = machine_find_nic(c->machine, c->nic);
    const struct ladder_doorbell bell = {.try = test_doorbell, .argument = c};
    struct rung_result queues, doorbell;
    if (!nic || !nic->driver.value || strncmp(nic->driver.value, "mlx5", 4) != 0)
        return;
    ladder_mlx5(c->nic, &bell, &queues, &doorbell);
    record_step(c, "queues", &queues);
    record_step(c, "doorbell", &doorbell);
}

static weft_status test_memory(struct gdr_test *c)
{
    struct rung_result results[RUNGS];
    struct export e;
    export_dmabuf(c, &e);
    weft_status status =
        ladder_verbs(c->nic, (uint64_t)c->memory, GPU_BYTES, CHECK_BYTES, c->dmabuf, results);
    if (!status)
        add_rung(c, "export", e.ok ? "ok" : "failed", e.error, e.detail);
    static const char *const rungs[RUNGS] = {"dmabuf", "peermem", "transfer", "speed"};
    for (int i = 0; !status && i < RUNGS; i++)
        record_step(c, rungs[i], &results[i]);
    if (!status)
        test_queues(c);
    if (c->dmabuf >= 0)
        close(c->dmabuf);
    return status;
}

static weft_status test_gpu(struct gdr_test *c, const struct machine_gpu *gpu)
{
    CUdevice device;
    CUcontext context;
    CUresult result;
    if (!find_device(&c->driver, gpu->bdf.value, &device))
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "CUDA lists no GPU at %s; CUDA_VISIBLE_DEVICES may "
                         "hide it",
                         gpu->bdf.value);
    if ((result = c->driver.DevicePrimaryCtxRetain(&context, device)) != CUDA_SUCCESS)
        return gpu_api_fail(&c->driver, result, "cuDevicePrimaryCtxRetain of gpu%" PRId64, c->gpu);
    weft_status status = WEFT_OK;
    c->driver.CtxPushCurrent(context);
    if ((result = c->driver.MemAlloc(&c->memory, GPU_BYTES)) != CUDA_SUCCESS) {
        status = gpu_api_fail(&c->driver, result, "cuMemAlloc of %d bytes", GPU_BYTES);
    } else {
        status = test_memory(c);
        c->driver.MemFree(c->memory);
    }
    c->driver.CtxPopCurrent(&context);
    c->driver.DevicePrimaryCtxRelease(device);
    return status;
}

weft_status machine_test_gdr(struct machine *machine, int64_t gpu, const char *nic)
{
    struct gdr_test c = {.machine = machine, .gpu = gpu, .nic = nic, .dmabuf = -1};
    struct machine_gpu *g = machine_find_gpu(machine, gpu);
    if (!g || !text_is(g->vendor, "nvidia") || !g->bdf.value)
        return base_fail(WEFT_ERR_UNSUPPORTED, "gpu%" PRId64 " is no NVIDIA GPU with a known place",
                         gpu);
    weft_status status = gpu_api_open(&c.driver);
    if (status)
        return status;
    read_attributes(machine, &c.driver, g);
    status = test_gpu(&c, g);
    gpu_api_close(&c.driver);
    return status;
}
