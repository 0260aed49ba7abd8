/* SPDX-License-Identifier: Apache-2.0 */
/* See driver.h. */
#include "driver/driver.h"

#include "base/status.h"

#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* Signal handlers of the program, which loading must not change. Libraries that libfabric is linked
 * to (PSM) install handlers for SIGTERM, SIGINT and crash signals when they are loaded; these end
 * the process with status 1. */
struct dispositions {
    struct sigaction of[NSIG];
    bool known[NSIG];
};

static void save_handlers(struct dispositions *before)
{
    for (int number = 1; number < NSIG; number++)
        before->known[number] = sigaction(number, NULL, &before->of[number]) == 0;
}

static void restore_handlers(const struct dispositions *before)
{
    struct sigaction now;
    for (int number = 1; number < NSIG; number++)
        if (before->known[number] && sigaction(number, NULL, &now) == 0 &&
            now.sa_handler != before->of[number].sa_handler)
            sigaction(number, &before->of[number], NULL);
}

/* dlopen() that keeps the program's signal handlers. */
static void *open_library(const char *name)
{
    struct dispositions before;
    save_handlers(&before);
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    restore_handlers(&before);
    return handle;
}

static void *open_first(const struct driver_library *library, char *tried, size_t tried_bytes)
{
    size_t used = 0;
    tried[0] = '\0';
    for (const char *const *name = library->names; *name; name++) {
        void *handle = open_library(*name);
        if (handle)
            return handle;
        const char *reason = dlerror();
        int n = snprintf(tried + used, tried_bytes - used, "%s%s", used ? "; " : "",
                         reason ? reason : *name);
        if (n > 0 && used + (size_t)n < tried_bytes)
            used += (size_t)n;
    }
    return NULL;
}

static void *find_symbol(void *handle, const struct driver_symbol *symbol)
{
    for (size_t i = 0; i < sizeof symbol->names / sizeof symbol->names[0] && symbol->names[i];
         i++) {
        void *address = dlsym(handle, symbol->names[i]);
        if (address)
            return address;
    }
    return NULL;
}

/* Path of the file from which the library was loaded. */
static void file_of(void *handle, const struct driver_library *library, char *file, size_t bytes)
{
    struct link_map *map = NULL;
    bool known = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name[0];
    snprintf(file, bytes, "%s", known ? map->l_name : library->names[0]);
}

weft_status driver_load(const struct driver_library *library, void *table, size_t table_bytes,
                        void **handle)
{
    char tried[512];
    memset(table, 0, table_bytes);
    *handle = open_first(library, tried, sizeof tried);
    if (!*handle)
        return base_fail(WEFT_ERR_UNSUPPORTED, "%s cannot be loaded (%s); %s", library->what, tried,
                         library->remedy);
    for (size_t i = 0; i < library->symbol_count; i++) {
        const struct driver_symbol *symbol = &library->symbols[i];
        void *address = find_symbol(*handle, symbol);
        if (!address && !symbol->optional) {
            file_of(*handle, library, tried, sizeof tried);
            weft_status status =
                base_fail(WEFT_ERR_UNSUPPORTED, "%s (%s) has no function %s: it is too old; %s",
                          library->what, tried, symbol->names[0], library->remedy);
            driver_unload(*handle);
            *handle = NULL;
            memset(table, 0, table_bytes);
            return status;
        }
        memcpy((char *)table + symbol->offset, &address, sizeof address);
    }
    return WEFT_OK;
}

void driver_unload(void *handle)
{
    if (handle)
        dlclose(handle);
}
