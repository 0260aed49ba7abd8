/* SPDX-License-Identifier: Apache-2.0 */
/* Path net in a build without libfabric's headers: reports that. */
#include "path/path.h"

#include "base/status.h"
#include "driver/fabric.h"

#include <stdio.h>

static const char *absent_obstacle(const struct path_facts *facts)
{
    return facts->same_pe ? "the same PE" : NULL;
}

static weft_status absent_probe(const struct path_world *world, struct path_found *found)
{
    const struct fabric *lib;
    (void)world;
    fabric_open(&lib);
    snprintf(found->lacks, sizeof found->lacks, "%s", base_last_error());
    return WEFT_OK;
}

const struct path_ops path_net = {
    .name = "net", .automatic = true, .obstacle = absent_obstacle, .probe = absent_probe};
