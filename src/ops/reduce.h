/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of reductions, one function per type and operation. */
#ifndef WEFT_OPS_REDUCE_H
#define WEFT_OPS_REDUCE_H

#include <stddef.h>

#include <weft.h>

/* acc[i] = acc[i] op in[i], i < n; both aligned for the type. */
typedef void reduce_function(void *restrict acc, const void *restrict in, size_t n);

/* How elements are combined. combine NULL: of 16 bits, in binary32. */
struct combiner {
    reduce_function *combine;
    size_t element;
    weft_type type;
    weft_op op;
};

/* WEFT_OK, or what is wrong with type and operation. */
weft_status reduce_combiner(const char *function, weft_type type, weft_op op,
                            struct combiner *combiner);

/* The function, and the size of an element; NULL when the operation is not defined for the type. */
reduce_function *reduce_function_of(weft_type type, weft_op op, size_t *element);

#endif
