/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses and opens the GPU of a PE. See device.h. */
#include "gpu/device.h"

#include "base/status.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *gpu_device_text(const struct gpu_device *gpu, char *text, size_t bytes)
{
    snprintf(text, bytes, "GPU %d (%s, %s)", gpu->ordinal, gpu->name, gpu->bus_id);
    return text;
}

/* HIP writes digits where CUDA writes bytes. */
static void format_uuid(const CUuuid *uuid, bool amd, bool mig, char *text, size_t bytes)
{
    const unsigned char *b = (const unsigned char *)uuid->bytes;
    if (amd) {
        snprintf(text, bytes, "GPU-%.16s", uuid->bytes);
        return;
    }
    snprintf(text, bytes, "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             mig ? "MIG" : "GPU", b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10],
             b[11], b[12], b[13], b[14], b[15]);
}

struct device_identity {
    CUdevice device;
    CUuuid uuid;
    char uuid_text[48], name[96], bus_id[20];
};

static weft_status identify_device(const struct gpu_api *driver, int ordinal,
                                   struct device_identity *id)
{
    CUresult result = driver->DeviceGet(&id->device, ordinal);
    if (result)
        return gpu_api_fail(driver, result, "cuDeviceGet(%d)", ordinal);
    result = driver->DeviceGetName(id->name, sizeof id->name, id->device);
    if (result)
        return gpu_api_fail(driver, result, "cuDeviceGetName of GPU %d", ordinal);
    result = driver->DeviceGetUuid(&id->uuid, id->device);
    if (result)
        return gpu_api_fail(driver, result, "cuDeviceGetUuid of GPU %d", ordinal);
    result = driver->DeviceGetPCIBusId(id->bus_id, sizeof id->bus_id, id->device);
    if (result)
        return gpu_api_fail(driver, result, "cuDeviceGetPCIBusId of GPU %d", ordinal);
    for (char *c = id->bus_id; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    format_uuid(&id->uuid, driver->vendor == GPU_VENDOR_AMD, strstr(id->name, " MIG ") != NULL,
                id->uuid_text, sizeof id->uuid_text);
    return WEFT_OK;
}

/* Accepts "0000:0d:00.0", also without the domain or with an eight-digit domain. */
static bool is_bus_id(const char *word, size_t length, const char *bus_id)
{
    size_t have = strlen(bus_id);
    while (length > have && *word == '0') {
        word++;
        length--;
    }
    return length >= 7 && length <= have &&
           strncasecmp(bus_id + have - length, word, length) == 0 &&
           (length == have || bus_id[have - length - 1] == ':');
}

static bool is_uuid(const char *word, size_t length, const char *uuid_text)
{
    return length > 4 && length <= strlen(uuid_text) && strncasecmp(word, uuid_text, length) == 0;
}

static weft_status find_named(const struct gpu_api *driver, const char *word, size_t length,
                              int visible, int *ordinal)
{
    if (length > 0 && length < 4 && strspn(word, "0123456789") >= length) {
        *ordinal = atoi(word);
        if (*ordinal < visible)
            return WEFT_OK;
        return gpu_api_refuse(driver, WEFT_ERR_CONFIG,
                              "WEFT_GPU names GPU %d, but %d %s visible (0 ... %d); "
                              "CUDA_VISIBLE_DEVICES renumbers them",
                              *ordinal, visible, visible == 1 ? "is" : "are", visible - 1);
    }
    for (int i = 0; i < visible; i++) {
        struct device_identity id;
        weft_status status = identify_device(driver, i, &id);
        if (status)
            return status;
        if (is_uuid(word, length, id.uuid_text) || is_bus_id(word, length, id.bus_id)) {
            *ordinal = i;
            return WEFT_OK;
        }
    }
    return base_fail(WEFT_ERR_CONFIG,
                     "WEFT_GPU names \"%.*s\", which is none of the %d visible GPUs; a number, the "
                     "start of a name \"GPU-...\" or \"MIG-...\", or a PCI address is accepted",
                     (int)length, word, visible);
}

static weft_status find_wanted(const struct gpu_api *driver, const char *list, int local_pe,
                               int visible, int *ordinal)
{
    int words = 1, wanted;
    for (const char *c = list; *c; c++)
        words += *c == ',';
    wanted = local_pe % words;
    const char *word = list;
    for (int i = 0; i < wanted; i++)
        word += strcspn(word, ",") + 1;
    return find_named(driver, word, strcspn(word, ","), visible, ordinal);
}

static weft_status find_current_ordinal(const struct gpu_api *driver, CUcontext current,
                                        int visible, int *ordinal)
{
    CUdevice device;
    CUresult result = driver->CtxPushCurrent(current);
    if (result)
        return gpu_api_fail(driver, result, "cuCtxPushCurrent of the program's own context");
    result = driver->CtxGetDevice(&device);
    CUcontext popped;
    driver->CtxPopCurrent(&popped);
    if (result)
        return gpu_api_fail(driver, result, "cuCtxGetDevice of the program's own context");
    for (*ordinal = 0; *ordinal < visible; ++*ordinal) {
        CUdevice candidate;
        if (driver->DeviceGet(&candidate, *ordinal) == CUDA_SUCCESS && candidate == device)
            return WEFT_OK;
    }
    return base_fail(WEFT_ERR_SYSTEM, "the device of the program's CUDA context is not visible");
}

static weft_status choose_device(struct gpu_device *gpu, CUcontext current, const char *wanted,
                                 int local_pe)
{
    const struct gpu_api *driver = gpu->driver;
    CUresult result = driver->DeviceGetCount(&gpu->visible);
    if (result)
        return gpu_api_fail(driver, result, "cuDeviceGetCount");
    if (gpu->visible == 0)
        return gpu_api_refuse(driver, WEFT_ERR_UNSUPPORTED,
                              "the CUDA driver is loaded but reports no GPU; "
                              "CUDA_VISIBLE_DEVICES may hide it");
    if (current) {
        snprintf(gpu->why, sizeof gpu->why, "the program had made its context current");
        return find_current_ordinal(driver, current, gpu->visible, &gpu->ordinal);
    }
    if (*wanted) {
        snprintf(gpu->why, sizeof gpu->why, "WEFT_GPU is \"%.100s\"", wanted);
        return find_wanted(driver, wanted, local_pe, gpu->visible, &gpu->ordinal);
    }
    gpu->ordinal = local_pe % gpu->visible;
    snprintf(gpu->why, sizeof gpu->why, "PE %d of the node, %d GPUs visible, assigned in turn",
             local_pe, gpu->visible);
    return WEFT_OK;
}

static weft_status read_attribute(const struct gpu_device *gpu, int which, const char *name,
                                  int *value)
{
    CUresult result = gpu->driver->DeviceGetAttribute(value, which, gpu->device);
    return result ? gpu_api_fail(gpu->driver, result, "cuDeviceGetAttribute(%s) of GPU %d", name,
                                 gpu->ordinal)
                  : WEFT_OK;
}

static weft_status read_attributes(struct gpu_device *gpu, int *mode)
{
    int vmm = 0, descriptors = 0, rdma = 0, pageable = 0;
    const struct {
        int which;
        const char *name;
        int *value;
    } wanted[] = {
        {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, "COMPUTE_MODE", mode},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, "COMPUTE_CAPABILITY_MAJOR", &gpu->major},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, "COMPUTE_CAPABILITY_MINOR", &gpu->minor},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, "MULTIPROCESSOR_COUNT", &gpu->multiprocessors},
        {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, "ASYNC_ENGINE_COUNT", &gpu->copy_engines},
        {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, "VIRTUAL_MEMORY_MANAGEMENT",
         &vmm},
        {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
         "HANDLE_TYPE_POSIX_FILE_DESCRIPTOR", &descriptors},
        {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, "GPU_DIRECT_RDMA_WITH_VMM",
         &rdma},
        {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, "PAGEABLE_MEMORY_ACCESS", &pageable},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        weft_status status = read_attribute(gpu, wanted[i].which, wanted[i].name, wanted[i].value);
        if (status)
            return status;
    }
    if (gpu->driver->DeviceGetArchitecture) {
        CUresult result = gpu->driver->DeviceGetArchitecture(gpu->architecture,
                                                             sizeof gpu->architecture, gpu->device);
        if (result)
            return gpu_api_fail(gpu->driver, result, "cuDeviceGetArchitecture of GPU %d",
                                gpu->ordinal);
    }
    gpu->rdma = rdma;
    gpu->pageable = pageable;
    CUresult result = gpu->driver->DeviceTotalMem(&gpu->total_bytes, gpu->device);
    if (result)
        return gpu_api_fail(gpu->driver, result, "cuDeviceTotalMem of GPU %d", gpu->ordinal);
    char text[160];
    if (!vmm || !descriptors)
        return base_fail(WEFT_ERR_UNSUPPORTED, "%s %s, which the GPU heap is made of",
                         gpu_device_text(gpu, text, sizeof text),
                         vmm ? "cannot export memory as file descriptors"
                             : "has no virtual memory management");
    return WEFT_OK;
}

static weft_status retain_context(struct gpu_device *gpu, int mode)
{
    char text[160];
    gpu_device_text(gpu, text, sizeof text);
    if (mode == CU_COMPUTEMODE_PROHIBITED)
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "%s is in compute mode Prohibited: no process may use it; root can change "
                         "that with `nvidia-smi -i %s -c DEFAULT`",
                         text, gpu->bus_id);
    CUresult result = gpu->driver->DevicePrimaryCtxRetain(&gpu->context, gpu->device);
    if (!result)
        return WEFT_OK;
    gpu->context = NULL;
    if (mode == CU_COMPUTEMODE_EXCLUSIVE_PROCESS)
        return gpu_api_fail(
            gpu->driver, result,
            "cuDevicePrimaryCtxRetain: %s is in compute mode Exclusive_Process and "
            "may be in use by another process; root can change that with `nvidia-smi "
            "-i %s -c DEFAULT`",
            text, gpu->bus_id);
    return gpu_api_fail(gpu->driver, result, "cuDevicePrimaryCtxRetain of %s", text);
}

weft_status gpu_device_open(struct gpu_device *gpu, const struct gpu_api *driver, CUcontext current,
                            const char *wanted, int local_pe)
{
    *gpu = (struct gpu_device){.driver = driver};
    weft_status status = choose_device(gpu, current, wanted, local_pe);
    struct device_identity id;
    if (!status)
        status = identify_device(driver, gpu->ordinal, &id);
    if (status)
        return status;
    gpu->device = id.device;
    gpu->uuid = id.uuid;
    memcpy(gpu->uuid_text, id.uuid_text, sizeof gpu->uuid_text);
    memcpy(gpu->name, id.name, sizeof gpu->name);
    memcpy(gpu->bus_id, id.bus_id, sizeof gpu->bus_id);
    int mode = 0;
    status = read_attributes(gpu, &mode);
    return status ? status : retain_context(gpu, mode);
}

void gpu_device_close(struct gpu_device *gpu)
{
    if (gpu->context)
        gpu->driver->DevicePrimaryCtxRelease(gpu->device);
    *gpu = (struct gpu_device){0};
}

bool gpu_device_find(const struct gpu_device *gpu, const CUuuid *uuid, CUdevice *device,
                     int *ordinal)
{
    CUuuid found;
    for (*ordinal = 0; *ordinal < gpu->visible; ++*ordinal)
        if (!gpu->driver->DeviceGet(device, *ordinal) &&
            !gpu->driver->DeviceGetUuid(&found, *device) && memcmp(&found, uuid, sizeof found) == 0)
            return true;
    return false;
}

weft_status gpu_enter(const struct gpu_device *gpu)
{
    CUresult result = gpu->driver->CtxPushCurrent(gpu->context);
    return result ? gpu_api_fail(gpu->driver, result, "cuCtxPushCurrent for GPU %d", gpu->ordinal)
                  : WEFT_OK;
}

void gpu_leave(const struct gpu_device *gpu)
{
    CUcontext popped;
    gpu->driver->CtxPopCurrent(&popped);
}

void gpu_device_memory(const struct gpu_device *gpu, size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = *total_bytes = 0;
    if (gpu_enter(gpu))
        return;
    if (gpu->driver->MemGetInfo(free_bytes, total_bytes))
        *free_bytes = *total_bytes = 0;
    gpu_leave(gpu);
}
