/* SPDX-License-Identifier: Apache-2.0 */
/* Names of element types and reduction operations, for messages. */
#ifndef WEFT_BASE_TYPE_NAMES_H
#define WEFT_BASE_TYPE_NAMES_H

/* "WEFT_FLOAT"; "an unknown type". */
const char *base_type_name(int type);

/* "WEFT_SUM"; "a scaled sum"; "a weighted sum"; "an unknown operation". */
const char *base_op_name(int op);

#endif
