/* SPDX-License-Identifier: Apache-2.0 */
/* Loads an optional library at run time into a table of function pointers. When it is absent, the
 * error message lists what was tried. Independent of what the libraries do. */
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
    const char *what;         /* "the CUDA driver": the start of error messages */
    const char *remedy;       /* how to install it, for error messages */
    const char *const *names; /* file names, tried in this order; NULL ends */
    const struct driver_symbol *symbols;
    size_t symbol_count;
};

/* Loads the first of `names` that exists and fills `table`. *handle is for driver_unload().
 * WEFT_ERR_UNSUPPORTED: no such library (the message has each name with the loader's reason), or it
 * lacks a symbol (the message has symbol and file). The table is all zeros then, and nothing stays
 * loaded. Signal handlers of the program are not changed. */
weft_status driver_load(const struct driver_library *library, void *table, size_t table_bytes,
                        void **handle);

/* NULL is allowed. */
void driver_unload(void *handle);

#endif
