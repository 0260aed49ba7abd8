/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSHMEM: how one description of a routine becomes a definition. The headers in this folder
 * describe every routine once, by WEFT_SHMEM_INLINE or _INLINE_VOID (with its body) or
 * WEFT_SHMEM_EXTERN (its body is in libweft). A program gets inline functions and prototypes. The
 * library, pshmem.h and the reference page define these macros differently before they include the
 * headers. */
#ifndef WEFT_SHMEM_HOOKS_H
#define WEFT_SHMEM_HOOKS_H

#include <weft/shmem/types.h>

/* The compiler inlines a gnu_inline function when it optimises, and otherwise calls the library's
 * symbol: the function's address is the same everywhere, and an unused function costs nothing.
 * While there is no job, or when a profiling tool intercepts the calls (pshmem.h), the inlined body
 * calls the symbol. With SHMEM_NO_INLINE every call goes to the symbol. params: with types; args:
 * only the names. */
#ifndef WEFT_SHMEM_INLINE
#ifdef SHMEM_NO_INLINE
#define WEFT_SHMEM_INLINE(ret, name, params, args, ...) ret name params;
#else
/* The library's symbol of an inline routine, for a call from that routine's own inline body. Its
 * address passes through weft_shmem_hide(), whose result the compiler does not know. Otherwise the
 * compiler would treat the call as recursion and make it a loop. */
#define WEFT_SHMEM_SYMBOL(name) ((__typeof__(&name))weft_shmem_hide((weft_shmem_routine)name))
#define WEFT_SHMEM_INLINE(ret, name, params, args, ...)                                            \
    extern __inline__ __attribute__((__gnu_inline__)) ret name params                              \
    {                                                                                              \
        if (__builtin_expect(!weft_shmem.ctx, 0))                                                  \
            return WEFT_SHMEM_SYMBOL(name) args;                                                   \
        __VA_ARGS__                                                                                \
    }
#define WEFT_SHMEM_INLINE_VOID(name, params, args, ...)                                            \
    extern __inline__ __attribute__((__gnu_inline__)) void name params                             \
    {                                                                                              \
        if (__builtin_expect(!weft_shmem.ctx, 0)) {                                                \
            WEFT_SHMEM_SYMBOL(name) args;                                                          \
            return;                                                                                \
        }                                                                                          \
        __VA_ARGS__                                                                                \
    }
#endif
#endif
#ifndef WEFT_SHMEM_INLINE_VOID
#define WEFT_SHMEM_INLINE_VOID(name, params, args, ...)                                            \
    WEFT_SHMEM_INLINE(void, name, params, args, __VA_ARGS__)
#endif

#ifndef WEFT_SHMEM_EXTERN
#define WEFT_SHMEM_EXTERN(ret, name, params) ret name params;
#endif

/* Small functions that the inline routines call; the library has no symbols for them. */
#define WEFT_SHMEM_HELPER                                                                          \
    extern __inline__ __attribute__((__gnu_inline__, __always_inline__, __artificial__))

/* Starts a group of routines: section of OpenSHMEM 1.5 and name of the group, for the tables. */
#ifndef WEFT_SHMEM_GROUP
#define WEFT_SHMEM_GROUP(section, name)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The implicit job for inline functions. shmem_init() fills it, unless a profiling tool is present.
 * `ctx` is null before shmem_init() and after shmem_finalize(), and always with a tool. */
struct weft_shmem {
    weft_ctx *ctx; /* the default context */
    weft_job *job;
    int my_pe;
    int n_pes;
    weft_team *world;
    weft_team *shared; /* team of SHMEM_TEAM_SHARED */
};
extern struct weft_shmem weft_shmem;
#ifdef WEFT_SHMEM_JOB /* the library's own copy, which is filled with a tool too */
extern struct weft_shmem WEFT_SHMEM_JOB;
#else
#define WEFT_SHMEM_JOB weft_shmem
#endif

typedef void (*weft_shmem_routine)(void);

WEFT_SHMEM_HELPER weft_shmem_routine weft_shmem_hide(weft_shmem_routine symbol)
{
    __asm__("" : "+r"(symbol));
    return symbol;
}

/* Ends the program with one sentence that names the routine and what was observed. */
void weft_shmem_fail(const char *routine, weft_status status)
    __attribute__((__cold__, __noreturn__));

/* Checks a call in a routine that cannot return an error. */
#define WEFT_SHMEM_CHECK(call)                                                                     \
    do {                                                                                           \
        weft_status weft_status_ = (call);                                                         \
        if (__builtin_expect(weft_status_ != WEFT_OK, 0))                                          \
            weft_shmem_fail(__func__, weft_status_);                                               \
    } while (0)

WEFT_SHMEM_HELPER weft_ctx *weft_shmem_ctx(shmem_ctx_t ctx)
{
    return ctx == SHMEM_CTX_DEFAULT ? WEFT_SHMEM_JOB.ctx : ctx;
}

/* Values of any type of 8 to 128 bits, accessed once with that width (128: by a copy). */
#define WEFT_SHMEM_VALUE_ACCESS(bits)                                                              \
    WEFT_SHMEM_HELPER weft_status weft_shmem_p##bits(weft_ctx *ctx, void *dest, const void *value, \
                                                     int pe)                                       \
    {                                                                                              \
        uint##bits##_t word;                                                                       \
        __builtin_memcpy(&word, value, sizeof word);                                               \
        return weft_p##bits(ctx, dest, word, pe);                                                  \
    }                                                                                              \
    WEFT_SHMEM_HELPER weft_status weft_shmem_g##bits(weft_ctx *ctx, const void *source,            \
                                                     void *value, int pe)                          \
    {                                                                                              \
        uint##bits##_t word = 0;                                                                   \
        weft_status status = weft_g##bits(ctx, source, &word, pe);                                 \
        __builtin_memcpy(value, &word, sizeof word);                                               \
        return status;                                                                             \
    }
WEFT_SHMEM_VALUE_ACCESS(8)
WEFT_SHMEM_VALUE_ACCESS(16)
WEFT_SHMEM_VALUE_ACCESS(32)
WEFT_SHMEM_VALUE_ACCESS(64)

WEFT_SHMEM_HELPER weft_status weft_shmem_p128(weft_ctx *ctx, void *dest, const void *value, int pe)
{
    return weft_put(ctx, dest, value, 16, pe);
}

WEFT_SHMEM_HELPER weft_status weft_shmem_g128(weft_ctx *ctx, const void *source, void *value,
                                              int pe)
{
    return weft_get(ctx, value, source, 16, pe);
}

/* The bit pattern of a value, for atomics on bit patterns. */
#define WEFT_SHMEM_BITS(bits)                                                                      \
    WEFT_SHMEM_HELPER uint##bits##_t weft_shmem_bits##bits(const void *value)                      \
    {                                                                                              \
        uint##bits##_t word;                                                                       \
        __builtin_memcpy(&word, value, sizeof word);                                               \
        return word;                                                                               \
    }
WEFT_SHMEM_BITS(32)
WEFT_SHMEM_BITS(64)

#ifdef __cplusplus
}
#endif

#endif
