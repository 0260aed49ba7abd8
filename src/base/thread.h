/* SPDX-License-Identifier: Apache-2.0 */
/* Threads: creation of the library's own in the program's process, and their numbers. */
#ifndef WEFT_BASE_THREAD_H
#define WEFT_BASE_THREAD_H

#include <pthread.h>
#include <sys/types.h>

/* pthread_create() of a thread that blocks all signals, which are for the program's threads.
 * Returns the error of pthread_create(). */
int thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument);

/* The kernel's number of the calling thread: gettid(), which glibc has since 2.30. */
pid_t thread_number(void);

#endif
