/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: two devices of a machine by name, and the distance between them. */
#ifndef WEFT_TESTS_MACHINE_ENDS_H
#define WEFT_TESTS_MACHINE_ENDS_H

#include <string.h>

#include "machine/checks/explain.h"
#include "machine/routes/routes.h"

static inline struct endpoint end_of(const struct machine *m, const char *name)
{
    struct endpoint end;
    if (endpoint_find(m, name, &end))
        fail_msg("%s: %s", m->origin, weft_last_error());
    return end;
}

/* level: the distance as printed in the tables. */
static inline void is_apart(const struct machine *m, const char *a, const char *b,
                            const char *level)
{
    struct endpoint x = end_of(m, a), y = end_of(m, b);
    const char *here = level_name(routes_apart(m, &x, &y));
    if (strcmp(here, level) != 0)
        fail_msg("%s: %s %s: %s, expected %s", m->origin, a, b, here, level);
}

#endif
