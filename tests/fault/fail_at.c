/* SPDX-License-Identifier: Apache-2.0 */
/* Library for LD_PRELOAD: the k-th call of one function fails. FAIL_CALL=socketpair, FAIL_AT=3,
 * FAIL_IN=launcher or the number of a PE. epoll_wait fails in all later calls too, as with a lost
 * descriptor (finding A14). It prints "fail_at: CALL" when the call fails, so that a sweep knows
 * when to end. The count starts at main(). */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static _Atomic int uses;

/* Calls before main() belong to the loader and to constructors of other libraries. The CUDA runtime
 * linked into the command has constructors that do not check malloc(). */
static bool in_main;
static bool is_here; /* saved: the variables are removed when a PE joins */
static int (*real_main)(int, char **, char **);

static int main_begins(int argc, char **argv, char **environment)
{
    const char *where = getenv("FAIL_IN"), *pe = getenv("WEFT_PE");
    is_here = where && strcmp(where, pe ? pe : "launcher") == 0;
    in_main = true;
    return real_main(argc, argv, environment);
}

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv,
                      int (*init)(int, char **, char **), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end);

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv,
                      int (*init)(int, char **, char **), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end)
{
    int (*real)(int (*)(int, char **, char **), int, char **, int (*)(int, char **, char **),
                void (*)(void), void (*)(void), void *);
    *(void **)&real = dlsym(RTLD_NEXT, "__libc_start_main");
    real_main = main;
    return real(main_begins, argc, argv, init, fini, rtld_fini, stack_end);
}

static bool fails(const char *call)
{
    const char *which = getenv("FAIL_CALL"), *at = getenv("FAIL_AT");
    char line[64];
    if (!in_main || !which || !at || strcmp(which, call) != 0 || !is_here)
        return false;
    const int use = ++uses, first = atoi(at);
    if (use != first)
        return use > first && strcmp(call, "epoll_wait") == 0;
    int n = snprintf(line, sizeof line, "fail_at: %s\n", call);
    ssize_t written = write(STDERR_FILENO, line, (size_t)n);
    (void)written;
    return true;
}

/* X(call, result when it fails, errno, declaration of parameters, names of parameters) */
#define CALLS(X)                                                                                   \
    X(int, socketpair, -1, EMFILE, (int d, int t, int p, int f[2]), (d, t, p, f))                  \
    X(int, epoll_create1, -1, EMFILE, (int f), (f))                                                \
    X(int, epoll_ctl, -1, ENOSPC, (int e, int o, int f, struct epoll_event *v), (e, o, f, v))      \
    X(int, epoll_wait, -1, EBADF, (int e, struct epoll_event *v, int n, int t), (e, v, n, t))      \
    X(int, pipe2, -1, EMFILE, (int f[2], int l), (f, l))                                           \
    X(int, memfd_create, -1, EMFILE, (const char *n, unsigned f), (n, f))                          \
    X(int, ftruncate, -1, ENOSPC, (int f, off_t b), (f, b))                                        \
    X(void *, mmap, MAP_FAILED, ENOMEM, (void *a, size_t b, int p, int f, int d, off_t o),         \
      (a, b, p, f, d, o))                                                                          \
    X(ssize_t, sendmsg, -1, ENOBUFS, (int s, const struct msghdr *m, int f), (s, m, f))            \
    X(ssize_t, recvmsg, -1, ENOMEM, (int s, struct msghdr *m, int f), (s, m, f))                   \
    X(void *, calloc, NULL, ENOMEM, (size_t n, size_t b), (n, b))                                  \
    X(void *, malloc, NULL, ENOMEM, (size_t b), (b))

#define WRAP(type, call, failure, number, parameters, names)                                       \
    type call parameters                                                                           \
    {                                                                                              \
        static type(*real) parameters;                                                             \
        if (!real)                                                                                 \
            real = (type(*) parameters)dlsym(RTLD_NEXT, #call);                                    \
        if (fails(#call)) {                                                                        \
            errno = number;                                                                        \
            return failure;                                                                        \
        }                                                                                          \
        return real names;                                                                         \
    }
CALLS(WRAP)
