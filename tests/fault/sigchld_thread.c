/* SPDX-License-Identifier: Apache-2.0 */
/* Library for LD_PRELOAD into `weft run`. It starts a thread that leaves SIGCHLD unblocked, as a
 * driver library may do. The kernel delivers a process signal to any thread that accepts it. With
 * the default action of SIGCHLD (ignore) the signal is then lost, and the signalfd of another
 * thread does not receive it. The library also reports when the launcher, not a PE, loads the CUDA
 * driver. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *swallow(void *nothing)
{
    for (;;)
        pause();
    return nothing;
}

__attribute__((constructor)) static void start_thread(void)
{
    pthread_t thread;
    sigset_t none;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    if (pthread_create(&thread, NULL, swallow, NULL) == 0)
        pthread_detach(thread);
}

void *dlopen(const char *name, int flags)
{
    void *(*real)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    static const char words[] = "the launcher loads the CUDA driver\n";
    if (name && strstr(name, "libcuda") && !getenv("WEFT_PE")) {
        ssize_t written = write(STDERR_FILENO, words, sizeof words - 1);
        (void)written;
    }
    return real(name, flags);
}
