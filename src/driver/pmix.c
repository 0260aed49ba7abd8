/* SPDX-License-Identifier: Apache-2.0 */
/* Loads libpmix. See pmix.h. */
#include "driver/pmix.h"

#include "base/status.h"

#include <dlfcn.h>
#include <pthread.h>

static struct pmix_driver opened_pmix;
static pthread_mutex_t pmix_lock = PTHREAD_MUTEX_INITIALIZER;

static weft_status load_pmix(void)
{
    static const char file[] = "libpmix.so.2";
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "the launcher of this process uses PMIx, but %s cannot be loaded (install "
                         "libpmix2, or set LD_LIBRARY_PATH to the launcher's copy): %s",
                         file, dlerror());
#define FIND(name)                                                                                 \
    opened_pmix.name = (__typeof__(&PMIx_##name))dlsym(library, "PMIx_" #name);                    \
    if (!opened_pmix.name)                                                                         \
        return base_fail(WEFT_ERR_UNSUPPORTED, "%s lacks PMIx_%s", file, #name);
    PMIX_FUNCTIONS(FIND)
#undef FIND
    opened_pmix.library = library;
    return WEFT_OK;
}

weft_status pmix_load(const struct pmix_driver **pmix)
{
    pthread_mutex_lock(&pmix_lock);
    weft_status status = opened_pmix.library ? WEFT_OK : load_pmix();
    pthread_mutex_unlock(&pmix_lock);
    *pmix = &opened_pmix;
    return status;
}
