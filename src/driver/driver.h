/* SPDX-License-Identifier: Apache-2.0 */
/* Loading a foreign library at run time into a table of function pointers. Each library is
 * optional: when it is absent, the sentence says what was tried. Knows nothing of what the
 * libraries do. */
#ifndef WEFT_DRIVER_DRIVER_H
#define WEFT_DRIVER_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

#include <weft.h>

struct driver_symbol {
    const char *names[3]; /* tried in this order; NULL ends */
    size_t offset;        /* of the function pointer in the table */
    bool optional;        /* the pointer stays NULL when no name is found */
};

struct driver_library {
    const char *what;         /* "the CUDA driver": begins the sentences */
    const char *remedy;       /* what to do when it is absent */
    const char *const *names; /* file names, tried in this order; NULL ends */
    const struct driver_symbol *symbols;
    size_t symbol_count;
};

/* Opens the first of `names` that is there and fills `table`. *handle is for driver_unload().
 * WEFT_ERR_UNSUPPORTED: no such library (each name with the loader's reason), or it lacks a symbol
 * (which one, in which file). The table is all zeros then, and nothing stays loaded. What the
 * program does on a signal stays as it was. */
weft_status driver_load(const struct driver_library *library, void *table, size_t table_bytes,
                        void **handle);

/* NULL is allowed. */
void driver_unload(void *handle);

#endif
