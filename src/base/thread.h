/* SPDX-License-Identifier: Apache-2.0 */
/* The library's own threads, in a process that is the program's. */
#ifndef WEFT_BASE_THREAD_H
#define WEFT_BASE_THREAD_H

#include <pthread.h>

/* pthread_create() of a thread that takes no signal: those are for the program's threads. Returns
 * its error. */
int thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument);

#endif
