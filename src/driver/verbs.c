/* SPDX-License-Identifier: Apache-2.0 */
/* Loads libibverbs. See verbs.h. */
#include "driver/verbs.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "driver/driver.h"

#ifdef WEFT_HAVE_VERBS

static weft_status load_verbs(struct verbs *verbs, const char *folder, bool queues)
{
    char file[PATH_MAX];
    snprintf(file, sizeof file, "%s/libibverbs.so.1", folder);
    const char *const names[] = {folder[0] ? file : "libibverbs.so.1",
                                 folder[0] ? NULL : "libibverbs.so", NULL};
    const struct driver_symbol symbols[] = {
#define SYMBOL(name, symbol, optional, result, parameters)                                         \
    {{#symbol}, offsetof(struct verbs, name), optional},
        VERBS_FUNCTIONS(SYMBOL)
#undef SYMBOL
#define SYMBOL(name, symbol, optional, result, parameters)                                         \
    {{#symbol}, offsetof(struct verbs, name), !queues},
            VERBS_QUEUE_FUNCTIONS(SYMBOL)
#undef SYMBOL
    };
    const struct driver_library library = {
        .what = "libibverbs",
        .remedy = folder[0] ? "WEFT_HCA and WEFT_TEST_HCA_LIB set the folder that is searched"
                            : "apt-get install libibverbs1 ibverbs-providers",
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

static weft_status load_verbs(struct verbs *verbs, const char *folder, bool queues)
{
    (void)folder, (void)queues;
    memset(verbs, 0, sizeof *verbs);
    return base_fail(WEFT_ERR_UNSUPPORTED, "this weft was built without rdma-core's headers "
                                           "(libibverbs-dev)");
}

#endif

weft_status verbs_open(struct verbs *verbs)
{
    return load_verbs(verbs, "", true);
}

weft_status verbs_open_at(struct verbs *verbs, const char *folder)
{
    return load_verbs(verbs, folder, false);
}

void verbs_close(struct verbs *verbs)
{
    driver_unload(verbs->handle);
    memset(verbs, 0, sizeof *verbs);
}
