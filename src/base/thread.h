/* SPDX-License-Identifier: Apache-2.0 */
/* Creation of the library's own threads in the program's process. */
#ifndef WEFT_BASE_THREAD_H
#define WEFT_BASE_THREAD_H

#include <pthread.h>

/* pthread_create() of a thread that blocks all signals, which are for the program's threads.
 * Returns the error of pthread_create(). */
int thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument);

#endif
