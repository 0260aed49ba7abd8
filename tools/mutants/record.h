/* SPDX-License-Identifier: Apache-2.0 */
/* weft_mutant(k) of faults made by rule (sites.c): whether fault k is switched on by the
 * environment variable MUTANT. Where MUTANT_SEEN names a file, its byte k becomes 1 when the
 * program comes to the place of fault k, also in processes that are killed later. Brings in no
 * header of the library. */
#ifndef WEFT_MUTANT_RECORD_H
#define WEFT_MUTANT_RECORD_H

#include <sys/syscall.h>

#ifdef __cplusplus
extern "C" {
#endif
extern char **environ;
extern long syscall(long number, ...)
#ifdef __cplusplus
    throw()
#endif
        ;

struct weft_mutant_state {
    int chosen; /* -1: the environment has not been read */
    unsigned char *seen;
};

/* One for each program and library that is loaded. */
__attribute__((weak, visibility("hidden"))) struct weft_mutant_state weft_mutant_state = {-1, 0};

__attribute__((unused)) static const char *weft_mutant_variable(const char *name)
{
    char **entry;
    for (entry = environ; entry && *entry; entry++) {
        int i = 0;
        while (name[i] && (*entry)[i] == name[i])
            i++;
        if (!name[i] && (*entry)[i] == '=')
            return *entry + i + 1;
    }
    return 0;
}

/* The environment is read once: afterwards the program may change it as it likes. */
__attribute__((unused, noinline, cold)) static int weft_mutant_begin(void)
{
    const char *text = weft_mutant_variable("MUTANT"), *file = weft_mutant_variable("MUTANT_SEEN");
    int number = 0;
    for (; text && *text >= '0' && *text <= '9'; text++)
        number = 10 * number + *text - '0';
    if (file) {
        enum { READ_WRITE = 2, SHARED = 1, PROTECTION = 3, MOST = 2000000 };
        long descriptor = syscall(SYS_openat, -100, file, READ_WRITE, 0), at;
        if (descriptor >= 0) {
            at = syscall(SYS_mmap, 0L, (long)MOST, (long)PROTECTION, (long)SHARED, descriptor, 0L);
            syscall(SYS_close, descriptor);
            if (at != -1)
                __atomic_store_n(&weft_mutant_state.seen, (unsigned char *)at, __ATOMIC_RELEASE);
        }
    }
    __atomic_store_n(&weft_mutant_state.chosen, number, __ATOMIC_RELEASE);
    return number;
}

__attribute__((unused)) static inline int weft_mutant(int k)
{
    int chosen = __atomic_load_n(&weft_mutant_state.chosen, __ATOMIC_ACQUIRE);
    unsigned char *seen;
    if (__builtin_expect(chosen < 0, 0))
        chosen = weft_mutant_begin();
    seen = __atomic_load_n(&weft_mutant_state.seen, __ATOMIC_RELAXED);
    if (__builtin_expect(seen != 0, 0))
        seen[k] = 1;
    return chosen == k;
}

#ifdef __cplusplus
}
#endif
#endif
