/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of importers share. A program that includes this defines IMPORTS, the folder of
 * the files. */
#ifndef WEFT_TESTS_MACHINE_IMPORTS_H
#define WEFT_TESTS_MACHINE_IMPORTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ends.h"
#include "machine/import/import.h"
#include "machine/routes/routes.h"

static inline struct machine *load(const char *name)
{
    struct machine *m;
    char path[512];
    snprintf(path, sizeof path, IMPORTS "/%s", name);
    if (machine_load(path, &m))
        fail_msg("%s: %s", name, weft_last_error());
    return m;
}

static inline void is_refused(const char *text, const char *message)
{
    struct machine *m;
    if (import_any(text, strlen(text), "x", &m) == WEFT_OK)
        fail_msg("taken:\n%s", text);
    assert_null(m);
    if (strcmp(weft_last_error(), message) != 0)
        fail_msg("\"%s\", expected \"%s\", of\n%.300s", weft_last_error(), message, text);
}

/* The file is read, and these are the warnings, without the name of the command and the file. */
static inline struct machine *is_read_with(const char *text, const char *warnings)
{
    struct machine *m;
    char expected[400], seen[2400] = "";
    if (import_any(text, strlen(text), "x", &m) != WEFT_OK)
        fail_msg("%s: refused:\n%s", weft_last_error(), text);
    snprintf(expected, sizeof expected, "x:%s\n", warnings);
    snprintf(seen, sizeof seen, "%s", m->warnings ? m->warnings : "");
    if (strcmp(seen, expected) != 0)
        fail_msg("\"%s\", expected \"%s\", of\n%.300s", seen, expected, text);
    return m;
}

static inline void is_warned(const char *text, const char *warnings)
{
    machine_free(is_read_with(text, warnings));
}

#endif
