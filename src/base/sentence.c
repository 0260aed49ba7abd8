/* SPDX-License-Identifier: Apache-2.0 */
/* See sentence.h. */
#include "base/sentence.h"

#include "base/status.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Length of the name of a function of weft.h at `text`; 0: there is none. */
static size_t name_length(const char *text)
{
    static const char prefix[] = "weft_";
    size_t n = sizeof prefix - 1;
    if (strncmp(text, prefix, n) != 0)
        return 0;
    while (isalnum((unsigned char)text[n]) || text[n] == '_')
        n++;
    return n;
}

/* What both families call the function that a message recommends, without their prefix; NULL: the
 * name stays. */
static const char *same_function(const char *name, size_t length)
{
    static const char *const names[][2] = {{"weft_alloc", "_malloc"},
                                           {"weft_finalize", "_finalize"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i][0]) == length && strncmp(names[i][0], name, length) == 0)
            return names[i][1];
    return NULL;
}

static void append(char *to, size_t bytes, const char *from, size_t length)
{
    size_t used = strlen(to);
    snprintf(to + used, bytes - used, "%.*s", (int)length, from);
}

const char *base_sentence(const char *family, weft_status status)
{
    char *text = base_thread_text(BASE_TEXT_SENTENCE);
    const char *from = base_last_error();
    if (!*from)
        from = base_status_text(status);
    text[0] = '\0';
    for (bool begins = true; *from;
         begins = !isalnum((unsigned char)*from) && *from != '_', from++) {
        size_t length = begins ? name_length(from) : 0;
        if (length && strncmp(from + length, ": ", 2) == 0) {
            from += length + 1; /* "weft_put: " */
            continue;
        }
        const char *same = length ? same_function(from, length) : NULL;
        if (same) {
            append(text, BASE_TEXT_BYTES, family, strlen(family));
            append(text, BASE_TEXT_BYTES, same, strlen(same));
            from += length;
        }
        append(text, BASE_TEXT_BYTES, from, 1);
    }
    return text;
}
