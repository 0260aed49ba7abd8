/* SPDX-License-Identifier: Apache-2.0 */
/* Loads libnvidia-ml. See nvml.h. */
#include "driver/nvml.h"

#include <dlfcn.h>
#include <string.h>

#include "base/status.h"

/* The function pointer is written through the object that dlsym returns, as POSIX asks. */
static void find(void *library, const char *symbol, void *function)
{
    void *address = dlsym(library, symbol);
    memcpy(function, &address, sizeof address);
}

weft_status nvml_open(struct nvml *nvml)
{
    static const char *const names[] = {"libnvidia-ml.so.1", "libnvidia-ml.so"};
    nvml_return (*init)(unsigned);
    memset(nvml, 0, sizeof *nvml);
    for (size_t i = 0; !nvml->library && i < sizeof names / sizeof names[0]; i++)
        nvml->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!nvml->library)
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "no NVIDIA driver library: dlopen of libnvidia-ml.so.1 and "
                         "libnvidia-ml.so: %s",
                         dlerror());
    find(nvml->library, "nvmlInitWithFlags", &init);
    find(nvml->library, "nvmlShutdown", &nvml->shutdown);
#define FIND(name, symbol, result, parameters) find(nvml->library, #symbol, &nvml->name);
    NVML_FUNCTIONS(FIND)
#undef FIND
    nvml_return status = init ? init(0) : NVML_FUNCTION_NOT_FOUND;
    if (status == NVML_OK)
        return WEFT_OK;
    weft_status failed =
        base_fail(WEFT_ERR_UNSUPPORTED, "libnvidia-ml is here, nvmlInitWithFlags(0) says %d: %s",
                  status, nvml_words(nvml, status));
    dlclose(nvml->library);
    memset(nvml, 0, sizeof *nvml);
    return failed;
}

void nvml_close(struct nvml *nvml)
{
    if (!nvml->library)
        return;
    if (nvml->shutdown)
        nvml->shutdown();
    dlclose(nvml->library);
    memset(nvml, 0, sizeof *nvml);
}

const char *nvml_words(const struct nvml *nvml, nvml_return status)
{
    if (status == NVML_FUNCTION_NOT_FOUND)
        return "this driver's library does not offer that function";
    const char *words = nvml->error_string ? nvml->error_string(status) : NULL;
    return words ? words : "unknown NVML error";
}
