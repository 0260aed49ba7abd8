/* SPDX-License-Identifier: Apache-2.0 */
/* Includes TEMPLATE once for each C type of the groups EACH_..., with NAME and TYPE defined. The
 * C11 selections use the type lists themselves, so they cannot be in a macro that such a list
 * expands. */
#ifdef EACH_REAL
#define NAME float
#define TYPE float
#include TEMPLATE
#undef NAME
#undef TYPE
#define NAME double
#define TYPE double
#include TEMPLATE
#undef NAME
#undef TYPE
#endif
#ifdef EACH_LONG_DOUBLE
#define NAME longdouble
#define TYPE long double
#include TEMPLATE
#undef NAME
#undef TYPE
#endif
#ifdef EACH_CHAR
#define NAME char
#define TYPE char
#include TEMPLATE
#undef NAME
#undef TYPE
#define NAME schar
#define TYPE signed char
#include TEMPLATE
#undef NAME
#undef TYPE
#define NAME uchar
#define TYPE unsigned char
#include TEMPLATE
#undef NAME
#undef TYPE
#endif
#ifdef EACH_SHORT
#define NAME short
#define TYPE short
#include TEMPLATE
#undef NAME
#undef TYPE
#define NAME ushort
#define TYPE unsigned short
#include TEMPLATE
#undef NAME
#undef TYPE
#endif
#ifdef EACH_SIGNED
#define NAME int
#define TYPE int
#include TEMPLATE
#undef NAME
#undef TYPE
#define NAME long
#define TYPE long
#include TEMPLATE
#undef NAME
#undef TYPE
#define NAME longlong
#define TYPE long long
#include TEMPLATE
#undef NAME
#undef TYPE
#endif
#ifdef EACH_UNSIGNED
#define NAME uint
#define TYPE unsigned int
#include TEMPLATE
#undef NAME
#undef TYPE
#define NAME ulong
#define TYPE unsigned long
#include TEMPLATE
#undef NAME
#undef TYPE
#define NAME ulonglong
#define TYPE unsigned long long
#include TEMPLATE
#undef NAME
#undef TYPE
#endif
