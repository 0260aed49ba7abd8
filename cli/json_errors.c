/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces glibc's stream stderr, so that argp's messages are kept as well. See json_errors.h. */
#include "json_errors.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/tool.h"

static FILE *real_stderr;
static char *kept;
static size_t kept_bytes;

/* A child writes to stderr itself: what it kept would end with it. */
static void restore_in_child(void)
{
    if (real_stderr)
        stderr = real_stderr;
    real_stderr = NULL;
}

void json_errors_begin(void)
{
    FILE *stream = real_stderr ? NULL : open_memstream(&kept, &kept_bytes);
    if (!stream)
        return;
    pthread_atfork(NULL, NULL, restore_in_child);
    real_stderr = stderr;
    stderr = stream;
}

/* Appends a line of what was kept to the sentences. */
static void add_line(char *line, char *sentences)
{
    char *progress = strrchr(line, '\r'); /* which a terminal would have overwritten */
    if (progress)
        line = progress + 1;
    if (strncmp(line, "weft", 4) == 0 && strstr(line, ": "))
        line = strstr(line, ": ") + 2;
    if (*line && *sentences)
        strcat(sentences, "\n");
    strcat(sentences, printable(line));
}

/* The sentences are printable UTF-8 and line ends. `weft run` is built without a JSON library. */
static void print_object(int status, const char *sentences)
{
    fprintf(stderr, "{\"%s\": \"", status ? "error" : "warning");
    for (const char *c = sentences; *c; c++) {
        if (*c == '\n')
            fputs("\\n", stderr);
        else
            fprintf(stderr, "%s%c", *c == '"' || *c == '\\' ? "\\" : "", *c);
    }
    fprintf(stderr, "\", \"status\": %d}\n", status);
}

void json_errors_end(int status)
{
    if (!real_stderr)
        return;
    fclose(stderr);
    stderr = real_stderr;
    real_stderr = NULL;
    char *sentences = calloc(1, kept_bytes + 1), *rest = kept;
    char *hint = strstr(kept, "Try `weft "); /* what argp adds */
    if (hint)
        *hint = '\0';
    for (char *line = strsep(&rest, "\n"); line && sentences; line = strsep(&rest, "\n"))
        add_line(line, sentences);
    if (sentences && *sentences)
        print_object(status, sentences);
    free(sentences);
    free(kept);
    kept = NULL;
}
