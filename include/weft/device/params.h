/* SPDX-License-Identifier: Apache-2.0 */
/* Preprocessor: applies a macro to each parameter of a kernel, a pair (type, name). Used by
 * <weft/launch.h> only. Up to 16 parameters. */
#ifndef WEFT_DEVICE_PARAMS_H
#define WEFT_DEVICE_PARAMS_H

#define WEFT_PP_CAT_(a, b) a##b
#define WEFT_PP_CAT(a, b)  WEFT_PP_CAT_(a, b)

/* 0 when `__VA_ARGS__` is the kernel's name alone, else the number of its parameters. */
#define WEFT_PP_COUNT(...)                                                                         \
    WEFT_PP_COUNT_(__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0)
#define WEFT_PP_COUNT_(name, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, count, ...) count

/* 0, or N when there are parameters. */
#define WEFT_PP_KIND(...)                                                                          \
    WEFT_PP_COUNT_(__VA_ARGS__, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, 0, 0)

#define WEFT_PP_NOTHING()
#define WEFT_PP_COMMA()              ,

#define WEFT_PP_DECLARE_(type, name) type name
#define WEFT_PP_DECLARE(pair)        WEFT_PP_DECLARE_ pair
#define WEFT_PP_FIELD_(type, name)   type name;
#define WEFT_PP_FIELD(pair)          WEFT_PP_FIELD_ pair
#define WEFT_PP_NAME_(type, name)    name
#define WEFT_PP_NAME(pair)           WEFT_PP_NAME_ pair
#define WEFT_PP_SIZE_(type, name)    sizeof(type)
#define WEFT_PP_SIZE(pair)           WEFT_PP_SIZE_ pair
#define WEFT_PP_MEMBER_(type, name)  weft_args->name
#define WEFT_PP_MEMBER(pair)         WEFT_PP_MEMBER_ pair

/* MAP(macro, separator, pairs...) */
#define WEFT_PP_MAP(m, s, ...)                                                                     \
    WEFT_PP_CAT(WEFT_PP_MAP_, WEFT_PP_COUNT(, __VA_ARGS__))(m, s, __VA_ARGS__)
#define WEFT_PP_MAP_1(m, s, p)       m(p)
#define WEFT_PP_MAP_2(m, s, p, ...)  m(p) s() WEFT_PP_MAP_1(m, s, __VA_ARGS__)
#define WEFT_PP_MAP_3(m, s, p, ...)  m(p) s() WEFT_PP_MAP_2(m, s, __VA_ARGS__)
#define WEFT_PP_MAP_4(m, s, p, ...)  m(p) s() WEFT_PP_MAP_3(m, s, __VA_ARGS__)
#define WEFT_PP_MAP_5(m, s, p, ...)  m(p) s() WEFT_PP_MAP_4(m, s, __VA_ARGS__)
#define WEFT_PP_MAP_6(m, s, p, ...)  m(p) s() WEFT_PP_MAP_5(m, s, __VA_ARGS__)
#define WEFT_PP_MAP_7(m, s, p, ...)  m(p) s() WEFT_PP_MAP_6(m, s, __VA_ARGS__)
#define WEFT_PP_MAP_8(m, s, p, ...)  m(p) s() WEFT_PP_MAP_7(m, s, __VA_ARGS__)
#define WEFT_PP_MAP_9(m, s, p, ...)  m(p) s() WEFT_PP_MAP_8(m, s, __VA_ARGS__)
#define WEFT_PP_MAP_10(m, s, p, ...) m(p) s() WEFT_PP_MAP_9(m, s, __VA_ARGS__)
#define WEFT_PP_MAP_11(m, s, p, ...) m(p) s() WEFT_PP_MAP_10(m, s, __VA_ARGS__)
#define WEFT_PP_MAP_12(m, s, p, ...) m(p) s() WEFT_PP_MAP_11(m, s, __VA_ARGS__)
#define WEFT_PP_MAP_13(m, s, p, ...) m(p) s() WEFT_PP_MAP_12(m, s, __VA_ARGS__)
#define WEFT_PP_MAP_14(m, s, p, ...) m(p) s() WEFT_PP_MAP_13(m, s, __VA_ARGS__)
#define WEFT_PP_MAP_15(m, s, p, ...) m(p) s() WEFT_PP_MAP_14(m, s, __VA_ARGS__)
#define WEFT_PP_MAP_16(m, s, p, ...) m(p) s() WEFT_PP_MAP_15(m, s, __VA_ARGS__)

/* OFFSETS(struct, pairs...): offsetof of each member. */
#define WEFT_PP_OFFSETS(s, ...)                                                                    \
    WEFT_PP_CAT(WEFT_PP_OFFSETS_, WEFT_PP_COUNT(, __VA_ARGS__))(s, __VA_ARGS__)
#define WEFT_PP_OFFSET(s, pair)       offsetof(s, WEFT_PP_NAME_ pair)
#define WEFT_PP_OFFSETS_1(s, p)       WEFT_PP_OFFSET(s, p)
#define WEFT_PP_OFFSETS_2(s, p, ...)  WEFT_PP_OFFSET(s, p), WEFT_PP_OFFSETS_1(s, __VA_ARGS__)
#define WEFT_PP_OFFSETS_3(s, p, ...)  WEFT_PP_OFFSET(s, p), WEFT_PP_OFFSETS_2(s, __VA_ARGS__)
#define WEFT_PP_OFFSETS_4(s, p, ...)  WEFT_PP_OFFSET(s, p), WEFT_PP_OFFSETS_3(s, __VA_ARGS__)
#define WEFT_PP_OFFSETS_5(s, p, ...)  WEFT_PP_OFFSET(s, p), WEFT_PP_OFFSETS_4(s, __VA_ARGS__)
#define WEFT_PP_OFFSETS_6(s, p, ...)  WEFT_PP_OFFSET(s, p), WEFT_PP_OFFSETS_5(s, __VA_ARGS__)
#define WEFT_PP_OFFSETS_7(s, p, ...)  WEFT_PP_OFFSET(s, p), WEFT_PP_OFFSETS_6(s, __VA_ARGS__)
#define WEFT_PP_OFFSETS_8(s, p, ...)  WEFT_PP_OFFSET(s, p), WEFT_PP_OFFSETS_7(s, __VA_ARGS__)
#define WEFT_PP_OFFSETS_9(s, p, ...)  WEFT_PP_OFFSET(s, p), WEFT_PP_OFFSETS_8(s, __VA_ARGS__)
#define WEFT_PP_OFFSETS_10(s, p, ...) WEFT_PP_OFFSET(s, p), WEFT_PP_OFFSETS_9(s, __VA_ARGS__)
#define WEFT_PP_OFFSETS_11(s, p, ...) WEFT_PP_OFFSET(s, p), WEFT_PP_OFFSETS_10(s, __VA_ARGS__)
#define WEFT_PP_OFFSETS_12(s, p, ...) WEFT_PP_OFFSET(s, p), WEFT_PP_OFFSETS_11(s, __VA_ARGS__)
#define WEFT_PP_OFFSETS_13(s, p, ...) WEFT_PP_OFFSET(s, p), WEFT_PP_OFFSETS_12(s, __VA_ARGS__)
#define WEFT_PP_OFFSETS_14(s, p, ...) WEFT_PP_OFFSET(s, p), WEFT_PP_OFFSETS_13(s, __VA_ARGS__)
#define WEFT_PP_OFFSETS_15(s, p, ...) WEFT_PP_OFFSET(s, p), WEFT_PP_OFFSETS_14(s, __VA_ARGS__)
#define WEFT_PP_OFFSETS_16(s, p, ...) WEFT_PP_OFFSET(s, p), WEFT_PP_OFFSETS_15(s, __VA_ARGS__)

#endif
