/* SPDX-License-Identifier: Apache-2.0 */
/* See gdrapi.h. */
#include "driver/gdrapi.h"

#include "driver/driver.h"

#include <string.h>

weft_status gdrapi_load(struct gdrapi *gdrapi)
{
    static const char *const names[] = {"libgdrapi.so.2", NULL};
    static const struct driver_symbol symbols[] = {
#define SYMBOL(field, symbol, result, parameters) {{#symbol}, offsetof(struct gdrapi, field), 0},
        GDRAPI_FUNCTIONS(SYMBOL)
#undef SYMBOL
    };
    const struct driver_library library = {
        .what = "GDRCopy's library",
        .remedy = "GDRCopy (package libgdrapi and module gdrdrv) brings it",
        .names = names,
        .symbols = symbols,
        .symbol_count = sizeof symbols / sizeof symbols[0],
    };
    void *handle = NULL;
    weft_status status = driver_load(&library, gdrapi, sizeof *gdrapi, &handle);
    gdrapi->handle = handle;
    return status;
}

void gdrapi_unload(struct gdrapi *gdrapi)
{
    driver_unload(gdrapi->handle);
    memset(gdrapi, 0, sizeof *gdrapi);
}
