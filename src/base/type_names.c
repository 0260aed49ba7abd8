/* SPDX-License-Identifier: Apache-2.0 */
/* See type_names.h. */
#include "base/type_names.h"

#include <weft.h>

enum { SCALED = 100 }; /* WEFT_DEV_SCALED */

const char *base_type_name(int type)
{
    static const char *const names[] = {
#define NAME(name, size, ctype) #name,
        WEFT_TYPE_LIST(NAME)
#undef NAME
    };
    static const char *const narrow[] = {"WEFT_HALF", "WEFT_BFLOAT16", "WEFT_FP8_E4M3",
                                         "WEFT_FP8_E5M2"};
    if (type >= 0 && type < WEFT_TYPE_COUNT)
        return names[type];
    return type >= WEFT_HALF && type <= WEFT_FP8_E5M2 ? narrow[type - WEFT_HALF]
                                                      : "an unknown type";
}

const char *base_op_name(int op)
{
    static const char *const names[WEFT_OP_COUNT] = {"WEFT_AND",  "WEFT_OR",  "WEFT_XOR",
                                                     "WEFT_MIN",  "WEFT_MAX", "WEFT_SUM",
                                                     "WEFT_PROD", "WEFT_AVG"};
    if (op >= 0 && op < WEFT_OP_COUNT)
        return names[op];
    return op == SCALED       ? "a scaled sum"
           : op == SCALED + 1 ? "a weighted sum"
                              : "an unknown operation";
}
