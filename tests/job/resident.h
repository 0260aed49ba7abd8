/* SPDX-License-Identifier: Apache-2.0 */
/* How much of an area of memory the system has given pages. For tests of memory that is reserved
 * and not touched. */
#ifndef WEFT_TESTS_JOB_RESIDENT_H
#define WEFT_TESTS_JOB_RESIDENT_H

#include "tests/job/job.h"

#include <sys/mman.h>

enum { RESIDENT_PAGE = 4096 };

/* Returns the bytes of the pages in memory of [area, area + bytes); area begins a page. */
static inline size_t count_resident(void *area, size_t bytes)
{
    size_t resident = 0, pages = (bytes + RESIDENT_PAGE - 1) / RESIDENT_PAGE;
    unsigned char *in_memory = malloc(pages);
    CHECK(in_memory && mincore(area, bytes, in_memory) == 0);
    for (size_t i = 0; i < pages; i++)
        resident += (in_memory[i] & 1) * (size_t)RESIDENT_PAGE;
    free(in_memory);
    return resident;
}

#endif
