/* SPDX-License-Identifier: Apache-2.0 */
/* The client side of PMIx as a table of functions. The library is loaded when the launcher uses
 * PMIx. Only in builds with its headers. */
#ifndef WEFT_DRIVER_PMIX_H
#define WEFT_DRIVER_PMIX_H

#include <pmix.h>

#include <weft.h>

#define PMIX_FUNCTIONS(X)                                                                          \
    X(Init)                                                                                        \
    X(Finalize)                                                                                    \
    X(Abort)                                                                                       \
    X(Put)                                                                                         \
    X(Commit)                                                                                      \
    X(Fence_nb)                                                                                    \
    X(Get)                                                                                         \
    X(Get_nb)                                                                                      \
    X(Error_string)

/* pmix->Get is PMIx_Get and so on. */
struct pmix_driver {
    void *library;
#define ENTRY(name) __typeof__(&PMIx_##name) name;
    PMIX_FUNCTIONS(ENTRY)
#undef ENTRY
};

/* Loads the library at the first call; it stays loaded, because its own thread may still run.
 * WEFT_ERR_UNSUPPORTED: the message has what was tried. */
weft_status pmix_load(const struct pmix_driver **pmix);

#endif
