/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of reductions: how the elements of a type are combined by an operation. */
#ifndef WEFT_OPS_REDUCE_H
#define WEFT_OPS_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft.h>

/* acc[i] = acc[i] op in[i], i < n; both aligned for the type. */
typedef void reduce_function(void *restrict acc, const void *restrict in, size_t n);

/* How elements are combined. combine NULL: those of 16 and 8 bits, in binary32 (reduce_pull.c). */
struct combiner {
    reduce_function *combine;
    size_t element;
    weft_type type;
    weft_op op;            /* WEFT_DEV_SCALED too: a sum of elements times a factor */
    long double factor;    /* of that */
    const void *factor_at; /* where it is, before it has been read; else NULL */
    bool weighted;         /* it is of this member's elements alone */
};

/* WEFT_OK, or what is wrong with type and operation. */
weft_status reduce_combiner(const char *function, weft_type type, weft_op op,
                            struct combiner *combiner);

/* The function, and the size of an element; NULL when the operation is not defined for the type. */
reduce_function *reduce_function_of(weft_type type, weft_op op, size_t *element);

/* Of a scaled sum; the factor is not read yet. */
weft_status reduce_scaled_combiner(const char *function, weft_type type, const void *factor,
                                   struct combiner *combiner);

/* A factor is a number of the type that elements are combined in. */
size_t reduce_factor_bytes(weft_type type);
long double reduce_factor_of(weft_type type, const void *bytes);

/* Elements as they are combined, of a combiner with a function: scaled before; divided behind all.
 * No more than that, so that each is rounded as device code does it. */
void reduce_scale(const struct combiner *c, void *elements, size_t n);
void reduce_end(const struct combiner *c, void *elements, size_t n, int members);

/* Whether the bits of the result are the same in whatever order elements are combined: sums and
 * products of integers wrap. */
bool reduce_any_order(weft_type type);

/* What members compare in checking mode: type, operation and factor. */
uint64_t reduce_detail(const struct combiner *c);

#endif
