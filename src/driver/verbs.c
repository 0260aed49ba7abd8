/* SPDX-License-Identifier: Apache-2.0 */
/* Loads libibverbs. See verbs.h. */
#include "driver/verbs.h"

#include <stddef.h>
#include <string.h>

#include "base/status.h"
#include "driver/driver.h"

#ifdef WEFT_HAVE_VERBS

weft_status verbs_open(struct verbs *verbs)
{
    static const char *const names[] = {"libibverbs.so.1", "libibverbs.so", NULL};
    static const struct driver_symbol symbols[] = {
#define SYMBOL(name, symbol, optional, result, parameters)                                         \
    {{#symbol}, offsetof(struct verbs, name), optional},
        VERBS_FUNCTIONS(SYMBOL)
#undef SYMBOL
    };
    static const struct driver_library library = {
        .what = "libibverbs",
        .remedy = "apt-get install libibverbs1 ibverbs-providers",
        .names = names,
        .symbols = symbols,
        .symbol_count = sizeof symbols / sizeof symbols[0],
    };
    void *handle = NULL;
    weft_status status = driver_load(&library, verbs, sizeof *verbs, &handle);
    verbs->handle = handle;
    return status;
}

#else

weft_status verbs_open(struct verbs *verbs)
{
    memset(verbs, 0, sizeof *verbs);
    return base_fail(WEFT_ERR_UNSUPPORTED, "this weft was built without rdma-core's headers "
                                           "(libibverbs-dev)");
}

#endif

void verbs_close(struct verbs *verbs)
{
    driver_unload(verbs->handle);
    memset(verbs, 0, sizeof *verbs);
}
