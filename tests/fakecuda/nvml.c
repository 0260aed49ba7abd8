/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in of libnvidia-ml.so.1 with the link error counters alone: FAKE_CUDA_DEVICES (2) GPUs of
 * 18 links, 4 errors on each. FAKE_NVML_GROW=1: one more on link 3 of GPU 1 from the third reading
 * on; 2: one more with every reading. */
#include "driver/nvml.h"

#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

static int setting(const char *name, int preset)
{
    const char *text = getenv(name);
    return text ? atoi(text) : preset;
}

static int readings;

EXPORT nvml_return nvmlInitWithFlags(unsigned flags);
EXPORT nvml_return nvmlInitWithFlags(unsigned flags)
{
    readings = 0;
    return NVML_OK;
}

EXPORT nvml_return nvmlShutdown(void);
EXPORT nvml_return nvmlShutdown(void)
{
    return NVML_OK;
}

EXPORT nvml_return nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_device *device);
EXPORT nvml_return nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_device *device)
{
    *device = (nvml_device)(uintptr_t)(index + 1);
    return index < (unsigned)setting("FAKE_CUDA_DEVICES", 2) ? NVML_OK : NVML_NOT_SUPPORTED;
}

EXPORT nvml_return nvmlDeviceGetNvLinkErrorCounter(nvml_device device, unsigned link, int counter,
                                                   unsigned long long *value);
EXPORT nvml_return nvmlDeviceGetNvLinkErrorCounter(nvml_device device, unsigned link, int counter,
                                                   unsigned long long *value)
{
    int grow = setting("FAKE_NVML_GROW", 0);
    *value = counter == 3 ? 4 : 0;
    if ((uintptr_t)device == 2 && link == 3 && counter == 3) {
        readings++;
        *value += grow == 2 ? (unsigned)readings : grow == 1 && readings > 2;
    }
    return link < 18 ? NVML_OK : NVML_NOT_SUPPORTED;
}
