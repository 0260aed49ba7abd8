/* SPDX-License-Identifier: Apache-2.0 */
/* Loads libfabric. See fabric.h. */
#include "driver/fabric.h"

#include "base/status.h"
#include "driver/driver.h"

#include <pthread.h>

#ifdef WEFT_HAVE_FABRIC

static const char *const fabric_files[] = {"libfabric.so.1", NULL};

static const struct driver_symbol fabric_symbols[] = {
#define SYMBOL(name, symbol, result, parameters) {{#symbol}, offsetof(struct fabric, name), false},
    FABRIC_FUNCTIONS(SYMBOL)
#undef SYMBOL
};

static const struct driver_library fabric_library = {
    .what = "libfabric",
    .remedy =
        "install the package libfabric1 (Debian, Ubuntu) or libfabric (others), or add the folder "
        "that has it to LD_LIBRARY_PATH",
    .names = fabric_files,
    .symbols = fabric_symbols,
    .symbol_count = sizeof fabric_symbols / sizeof fabric_symbols[0],
};

weft_status fabric_open(const struct fabric **result)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct fabric fabric;
    pthread_mutex_lock(&lock);
    weft_status status = WEFT_OK;
    if (!fabric.handle) {
        void *handle = NULL;
        status = driver_load(&fabric_library, &fabric, sizeof fabric, &handle);
        fabric.handle = handle;
    }
    pthread_mutex_unlock(&lock);
    *result = &fabric;
    return status;
}

#else

weft_status fabric_open(const struct fabric **result)
{
    static const struct fabric none;
    *result = &none;
    return base_fail(WEFT_ERR_UNSUPPORTED,
                     "this Weft was built without libfabric's headers; install the package "
                     "libfabric-dev and build it again");
}

#endif
