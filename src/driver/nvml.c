/* SPDX-License-Identifier: Apache-2.0 */
/* Loads libnvidia-ml. See nvml.h. */
#include "driver/nvml.h"

#include <dlfcn.h>
#include <string.h>

#include "base/status.h"

/* Copies the address of a symbol into a function pointer, as POSIX recommends. */
static void find_function(void *library, const char *symbol, void *function)
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
                         "the NVIDIA driver library cannot be loaded: libnvidia-ml.so.1, "
                         "libnvidia-ml.so: %s",
                         dlerror());
    find_function(nvml->library, "nvmlInitWithFlags", &init);
    find_function(nvml->library, "nvmlShutdown", &nvml->shutdown);
#define FIND(name, symbol, result, parameters) find_function(nvml->library, #symbol, &nvml->name);
    NVML_FUNCTIONS(FIND)
#undef FIND
    nvml_return status = init ? init(0) : NVML_FUNCTION_NOT_FOUND;
    if (status == NVML_OK)
        return WEFT_OK;
    weft_status failed =
        base_fail(WEFT_ERR_UNSUPPORTED, "nvmlInitWithFlags of libnvidia-ml returned %d: %s", status,
                  nvml_words(nvml, status));
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
        return "this driver's library does not have that function";
    const char *words = nvml->error_string ? nvml->error_string(status) : NULL;
    return words ? words : "unknown NVML error";
}
