/* SPDX-License-Identifier: Apache-2.0 */
/* System and library calls that fail on request: the call of this name, at its k-th use. */
#ifndef WEFT_TESTS_HCA_FAILS_H
#define WEFT_TESTS_HCA_FAILS_H

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

static const char *fails = "";
static unsigned fails_at; /* 0: none */
static int fails_with;    /* errno; 0: unchanged */

/* due: true if the call with this name must fail now. */
static inline bool due(const char *name)
{
    bool now = !strcmp(name, fails) && fails_at && !--fails_at;
    if (now && fails_with)
        errno = fails_with;
    return now;
}

static inline void fail_next(const char *name, unsigned at, int error)
{
    fails = name;
    fails_at = at;
    fails_with = error;
}

/* Number of files that this process has open, plus 2. */
static inline unsigned open_files(void)
{
    unsigned n = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

#endif
