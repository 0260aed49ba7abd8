/* SPDX-License-Identifier: Apache-2.0 */
/* Path gda in a build without rdma-core's headers. It reports that it is not available. */
#include "path/path.h"

#include "base/status.h"
#include "driver/verbs.h"

#include <stdio.h>

static const char *absent_obstacle(const struct path_facts *facts)
{
    return facts->same_pe ? "the same PE" : NULL;
}

static weft_status absent_probe(const struct path_world *world, struct path_found *found)
{
    struct verbs verbs;
    (void)world;
    verbs_open(&verbs);
    snprintf(found->lacks, sizeof found->lacks, "%s", base_last_error());
    return WEFT_OK;
}

const struct path_ops path_gda = {
    .name = "gda", .automatic = true, .obstacle = absent_obstacle, .probe = absent_probe};
