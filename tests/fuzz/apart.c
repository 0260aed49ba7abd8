/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for what parsers name of the rooms path and job, so that those need not be linked: of
 * the paths the names alone; and that a job fails no parser may bring about. */
#include "job/job.h"
#include "path/path.h"

#include <stdlib.h>

static const struct path_ops named[PATH_COUNT] = {
#define ROW(id, table) [PATH_##id] = {.name = #table},
    PATH_LIST(ROW)
#undef ROW
};

const struct path_ops *path_ops_of(enum path_id path)
{
    return &named[path];
}

const char *path_name(enum path_id path)
{
    return (unsigned)path < PATH_COUNT ? named[path].name : "none";
}

weft_status job_fail(struct weft_job *job, weft_status status, const char *sentence)
{
    (void)job, (void)status, (void)sentence;
    abort();
}
