/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the library for programs of OpenSHMEM and NVSHMEM, with their names of functions. */
#ifndef WEFT_BASE_SENTENCE_H
#define WEFT_BASE_SENTENCE_H

#include <weft.h>

/* The calling thread's last message, or the text of the status where there is none: without the
 * names of weft.h's functions that failed ("weft_put: "), and with `family` ("shmem", "nvshmem") in
 * the names of those that it recommends: "shmem_malloc()" for "weft_alloc()". Valid until this
 * thread's next call. */
const char *base_sentence(const char *family, weft_status status);

#endif
