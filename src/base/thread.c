/* SPDX-License-Identifier: Apache-2.0 */
/* See thread.h. */
#include "base/thread.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

int thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

pid_t thread_number(void)
{
    return (pid_t)syscall(SYS_gettid);
}
