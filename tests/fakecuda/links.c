/* SPDX-License-Identifier: Apache-2.0 */
/* Links between the GPUs of the stand-in, and whether work of a GPU may access an address: a
 * mapping only if cuMemSetAccess has given that GPU access, and cuMemAlloc() memory of another GPU
 * by kernels only if peer access is enabled. Work without access fails as with the driver.
 *
 * Environment:
 *   FAKE_CUDA_PEER      0: no pair has peer access
 *   FAKE_CUDA_NO_PEER   "0-1,2-3": these pairs have none
 *   FAKE_CUDA_PCIE      pairs with peer access but without NVLink
 *   FAKE_CUDA_TOPOLOGY  cube: eight GPUs in a hybrid cube mesh, two full quads and a link from each
 *                       GPU to its counterpart; other pairs have no access
 *   FAKE_CUDA_RATES     "0-1:25,0-2:50": GB/s between these GPUs in place of FAKE_CUDA_GBPS */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool listed(const char *variable, int a, int b)
{
    const char *text = getenv(variable);
    int first, second, length;
    for (; text && sscanf(text, "%d-%d%n", &first, &second, &length) == 2; text++) {
        if ((first == a && second == b) || (first == b && second == a))
            return true;
        text += length;
        if (*text != ',')
            break;
    }
    return false;
}

bool fake_peers(int a, int b)
{
    const char *topology = getenv("FAKE_CUDA_TOPOLOGY");
    if (!setting("FAKE_CUDA_PEER", 1) || listed("FAKE_CUDA_NO_PEER", a, b))
        return false;
    if (topology && strcmp(topology, "cube") == 0)
        return a / 4 == b / 4 || a % 4 == b % 4;
    return true;
}

bool fake_nvlink(int a, int b)
{
    return a != b && fake_peers(a, b) && !listed("FAKE_CUDA_PCIE", a, b);
}

double fake_gbps(int a, int b)
{
    const char *slow = getenv("FAKE_CUDA_SLOW"), *text = getenv("FAKE_CUDA_RATES");
    double gbps = setting("FAKE_CUDA_GBPS", 400);
    int first, second, rate, length;
    if (slow && sscanf(slow, "%d-%d", &first, &second) == 2 && first == a && second == b)
        return gbps / 2;
    for (; text && sscanf(text, "%d-%d:%d%n", &first, &second, &rate, &length) == 3; text++) {
        if ((first == a && second == b) || (first == b && second == a))
            return rate;
        text += length;
        if (*text != ',')
            break;
    }
    return gbps;
}

EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    *can = fake_peers(fake_physical(device), fake_physical(peer));
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetP2PAttribute(int *value, int attribute, CUdevice device, CUdevice peer)
{
    int a = fake_physical(device), b = fake_physical(peer);
    if (a == b)
        return CUDA_ERROR_INVALID_DEVICE;
    switch (attribute) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
        *value = !fake_nvlink(a, b);
        return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
        *value = fake_nvlink(a, b);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

/* -------------------------------------------------------------------------------- access checks */

bool fake_copy_may(int device, CUdeviceptr address)
{
    const struct object *mapping = find(MAPPING, address);
    return device < 0 || !mapping || mapping->access & 1u << device;
}

/* AMD: what another GPU or the CPU would not see while the kernel runs. */
static bool is_coarse(int device, CUdeviceptr address)
{
    const struct object *o = find(MAPPING, address);
    if (o)
        return objects[o->device].coarse && objects[o->device].device != fake_physical(device);
    o = find(DEVICE, address);
    if (o)
        return o->coarse && o->device != device;
    o = find(HOST, address);
    return o && o->coarse;
}

bool fake_kernel_may(int device, CUdeviceptr address)
{
    const struct object *plain = find(DEVICE, address);
    if (device >= 0 && is_coarse(device, address))
        return false;
    if (plain && device >= 0)
        return plain->device == device || fake_peer_open(device, plain->device);
    return fake_copy_may(device, address);
}

/* Words that are not addresses almost never look like an address in a mapping. */
bool fake_arguments_may(int device, const uint64_t *words, size_t count)
{
    bool amd = fake_is_amd();
    for (size_t i = 0; i < count; i++)
        if ((is_device_address(words[i]) || (amd && words[i] >> 40 == 0x7f)) &&
            !fake_kernel_may(device, words[i]))
            return false;
    return true;
}
