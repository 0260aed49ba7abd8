/* SPDX-License-Identifier: Apache-2.0 */
/* GDRCopy's library (libgdrapi.so.2), which maps GPU memory by a kernel module of its own, gdrdrv;
 * loaded at run time. The declarations are our own; handles are one word each. Source: gdrapi.h of
 * GDRCopy 2.x. */
#ifndef WEFT_DRIVER_GDRAPI_H
#define WEFT_DRIVER_GDRAPI_H

#include <stddef.h>
#include <stdint.h>

#include <weft.h>

typedef struct gdr *gdr_t;

typedef struct {
    unsigned long h;
} gdr_mh_t;

/* X(field, symbol, result, parameters) */
#define GDRAPI_FUNCTIONS(X)                                                                        \
    X(open, gdr_open, gdr_t, (void))                                                               \
    X(close, gdr_close, int, (gdr_t gdr))                                                          \
    X(pin_buffer, gdr_pin_buffer, int,                                                             \
      (gdr_t gdr, unsigned long address, size_t bytes, uint64_t p2p_token, uint32_t va_space,      \
       gdr_mh_t *pin))                                                                             \
    X(unpin_buffer, gdr_unpin_buffer, int, (gdr_t gdr, gdr_mh_t pin))                              \
    X(map, gdr_map, int, (gdr_t gdr, gdr_mh_t pin, void **at, size_t bytes))                       \
    X(unmap, gdr_unmap, int, (gdr_t gdr, gdr_mh_t pin, void *at, size_t bytes))

struct gdrapi {
#define GDRAPI_FIELD(field, symbol, result, parameters) result(*field) parameters;
    GDRAPI_FUNCTIONS(GDRAPI_FIELD)
#undef GDRAPI_FIELD
    void *handle;
};

/* Loads the library. WEFT_ERR_UNSUPPORTED: the message has what was tried. */
weft_status gdrapi_load(struct gdrapi *gdrapi);
void gdrapi_unload(struct gdrapi *gdrapi);

#endif
