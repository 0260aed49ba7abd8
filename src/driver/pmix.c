/* SPDX-License-Identifier: Apache-2.0 */
/* Loads libpmix. See pmix.h. */
#include "driver/pmix.h"

#include "base/status.h"

#include <dlfcn.h>
#include <pthread.h>

static struct pmix_driver driver;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static weft_status load(void)
{
    static const char file[] = "libpmix.so.2";
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "this process was started by a launcher that speaks PMIx, and %s could "
                         "not be loaded (install libpmix2, or set LD_LIBRARY_PATH to where the "
                         "launcher has it): %s",
                         file, dlerror());
#define FIND(name)                                                                                 \
    driver.name = (__typeof__(&PMIx_##name))dlsym(library, "PMIx_" #name);                         \
    if (!driver.name)                                                                              \
        return base_fail(WEFT_ERR_UNSUPPORTED, "%s lacks PMIx_%s", file, #name);
    PMIX_FUNCTIONS(FIND)
#undef FIND
    driver.library = library;
    return WEFT_OK;
}

weft_status pmix_load(const struct pmix_driver **pmix)
{
    pthread_mutex_lock(&lock);
    weft_status status = driver.library ? WEFT_OK : load();
    pthread_mutex_unlock(&lock);
    *pmix = &driver;
    return status;
}
