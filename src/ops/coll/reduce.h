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

/* How elements are combined. combine is NULL for types of 16 and 8 bits, which are combined in
 * binary32 (reduce_pull.c). */
struct combiner {
    reduce_function *combine;
    size_t element;
    weft_type type;
    weft_op op;            /* may be WEFT_DEV_SCALED: a sum of elements times a factor */
    long double factor;    /* factor of a scaled sum; holds any integer of 64 bits */
    const void *factor_at; /* address of the factor until it has been read; else NULL */
    bool narrow_factor;    /* the factor in memory has the elements' type, of 16 or 8 bits */
    bool weighted;         /* the factor applies to this member's elements only */
};

/* Fills *combiner. Fails where the type, the operation or their combination is not defined. */
weft_status reduce_combiner(const char *function, weft_type type, weft_op op,
                            struct combiner *combiner);

/* Returns the combining function and the size of an element in bytes. NULL: the operation is not
 * defined for the type. */
reduce_function *reduce_function_of(weft_type type, weft_op op, size_t *element);

/* Fills *combiner for a scaled sum; does not read the factor yet. type: may have the flag
 * WEFT_NARROW_FACTOR. */
weft_status reduce_scaled_combiner(const char *function, weft_type type, const void *factor,
                                   struct combiner *combiner);

/* The factor in memory has the type in which elements are combined, or with narrow_factor that of
 * the elements: its size in bytes, and its value. */
size_t reduce_factor_bytes(const struct combiner *c);
long double reduce_factor_of(const struct combiner *c, const void *bytes);

/* The factor as kernels get it: a double, or for integers a double with the integer's bits. */
double reduce_factor_word(const struct combiner *c);

/* The type that a public function gets for the same scaled sum. */
weft_type reduce_public_type(const struct combiner *c);

/* reduce_scale() scales elements before they are combined; reduce_end() divides the result of an
 * average. Both do exactly one rounding, as device code does. The combiner must have a function. */
void reduce_scale(const struct combiner *c, void *elements, size_t n);
void reduce_end(const struct combiner *c, void *elements, size_t n, int members);

/* Whether the result has the same bits in any order of combination. True for integers, whose sums
 * and products wrap around. */
bool reduce_any_order(weft_type type);

/* The word that members compare in checking mode: type, operation and factor. */
uint64_t reduce_detail(const struct combiner *c);

#endif
