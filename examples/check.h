/* SPDX-License-Identifier: Apache-2.0 */
/* CHECK(call): if the call fails, prints the library's error and ends the whole job. */
#ifndef EXAMPLES_CHECK_H
#define EXAMPLES_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#include <weft.h>

/* `job` is NULL before weft_init() has succeeded. */
#define CHECK(job, call) check((job), (call), #call)

static inline void check(weft_job *job, weft_status status, const char *call)
{
    if (status == WEFT_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", call, weft_status_name(status), weft_last_error());
    if (job)
        weft_abort(job, 1);
    exit(1);
}

#endif
