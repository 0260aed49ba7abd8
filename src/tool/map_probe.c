/* SPDX-License-Identifier: Apache-2.0 */
/* See map_probe.h. */
#include "tool/map_probe.h"

#include "base/clock.h"
#include "base/status.h"
#include "driver/rm.h"
#include "gpu/map/wc.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TEST_BYTES = 4096 };

/* GPU memory of the test, and its descriptor. */
struct test_memory {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    size_t bytes;
    int fd;
    bool created, reserved, mapped;
};

static void free_memory(const struct gpu_api *driver, struct test_memory *piece)
{
    if (piece->fd >= 0)
        close(piece->fd);
    if (piece->mapped)
        driver->MemUnmap(piece->at, piece->bytes);
    if (piece->created)
        driver->MemRelease(piece->handle);
    if (piece->reserved)
        driver->MemAddressFree(piece->at, piece->bytes);
}

static CUresult make_memory(const struct gpu_api *driver, CUdevice device,
                            struct test_memory *piece)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes =
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
    CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult result = driver->MemGetAllocationGranularity(&piece->bytes, &properties,
                                                          CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (!result)
        result = driver->MemCreate(&piece->handle, piece->bytes, &properties, 0);
    piece->created = !result;
    if (!result)
        result = driver->MemAddressReserve(&piece->at, piece->bytes, 0, 0, 0);
    piece->reserved = piece->created && !result;
    if (!result)
        result = driver->MemMap(piece->at, piece->bytes, 0, piece->handle, 0);
    piece->mapped = piece->reserved && !result;
    if (!result)
        result = driver->MemSetAccess(piece->at, piece->bytes, &access, 1);
    if (!result)
        result = driver->MemExportToShareableHandle(&piece->fd, piece->handle,
                                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    return result;
}

static void fill_random(unsigned char *data, uint64_t seed)
{
    for (int i = 0; i < TEST_BYTES; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        data[i] = (unsigned char)(seed >> 56);
    }
}

/* Stores through the mapping and reads with a copy, then copies and loads through the mapping.
 * *where: the direction that failed; NULL: none. */
static CUresult compare_data(const struct gpu_api *driver, CUdeviceptr device, char *mapped,
                             const char **where)
{
    unsigned char sent[TEST_BYTES], came[TEST_BYTES] = {0};
    uint64_t seed = clock_now_ns();
    *where = NULL;
    fill_random(sent, seed);
    wc_store(mapped, sent, TEST_BYTES);
    wc_flush(mapped);
    CUresult result = driver->MemcpyDtoH(came, device, TEST_BYTES);
    if (!result && memcmp(sent, came, TEST_BYTES) != 0)
        *where = "what the CPU stored";
    fill_random(sent, ~seed);
    if (!result)
        result = driver->MemcpyHtoD(device, sent, TEST_BYTES);
    if (!result) /* a copy from pageable memory may still be running */
        result = driver->StreamSynchronize(NULL);
    if (result)
        return result;
    memset(came, 0, TEST_BYTES);
    wc_load(came, mapped, TEST_BYTES);
    if (!*where && memcmp(sent, came, TEST_BYTES) != 0)
        *where = "what the GPU wrote";
    return CUDA_SUCCESS;
}

static weft_status test_mapping(const struct gpu_api *driver, const char *bus_id,
                                const struct test_memory *piece, const char **where)
{
    struct rm *rm = NULL;
    struct rm_memory memory = {0};
    struct rm_mapping mapping = {0};
    weft_status status = rm_open(&rm);
    if (!status)
        status = rm_import(rm, bus_id, piece->fd, &memory);
    if (!status)
        status = rm_map(rm, &memory, 0, piece->bytes, NULL, &mapping);
    if (!status) {
        CUresult result = compare_data(driver, piece->at, mapping.at, where);
        if (result)
            status = gpu_api_fail(driver, result, "a copy to test a mapping with");
    }
    rm_unmap(rm, &mapping, 0);
    if (rm)
        rm_release(rm, &memory);
    rm_close(rm);
    return status;
}

void map_probe(const struct gpu_api *driver, CUdevice device, const char *bus_id,
               enum probe_proof_found *found, char *evidence, size_t bytes)
{
    struct test_memory piece = {.fd = -1};
    const char *where = NULL;
    *found = FOUND_NOT_OFFERED;
    if (!driver->MemcpyDtoH || !driver->MemcpyHtoD) {
        snprintf(evidence, bytes, "the CUDA driver has no cuMemcpyDtoH");
        return;
    }
    CUresult result = make_memory(driver, device, &piece);
    if (result) {
        gpu_api_fail(driver, result, "memory to map");
        snprintf(evidence, bytes, "%s", base_last_error());
    } else if (test_mapping(driver, bus_id, &piece, &where)) {
        *found = FOUND_REFUSED;
        snprintf(evidence, bytes, "%s", base_last_error());
    } else if (where) {
        *found = FOUND_FAILED;
        snprintf(evidence, bytes, "the other side did not see %s", where);
    } else {
        *found = FOUND_PROVEN;
        snprintf(evidence, bytes, "mapped by the driver's resource interface, %d bytes each way",
                 TEST_BYTES);
    }
    free_memory(driver, &piece);
}
