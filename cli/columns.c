/* SPDX-License-Identifier: Apache-2.0 */
/* Folds lines at spaces. See columns.h. */
#include "columns.h"

#include "colour.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { USUAL = 100, LEAST = 40, MOST = 400 };

static bool is_full;

static int terminal_columns(void)
{
    struct winsize size;
    bool known = isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    return known ? size.ws_col : 0;
}

int columns_limit(void)
{
    static int limit;
    const char *variable = getenv("COLUMNS");
    if (limit)
        return limit;
    int columns = variable ? atoi(variable) : terminal_columns();
    limit = columns <= 0 ? USUAL : columns < LEAST ? LEAST : columns > MOST ? MOST : columns;
    return limit;
}

void columns_set_full(bool full)
{
    is_full = full;
}

bool columns_are_full(void)
{
    return is_full;
}

/* False for a UTF-8 continuation byte, which takes no column. */
static bool starts_character(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

/* Bytes of the SGR sequence (colour.h) at `text`; 0: there is none. */
static size_t colour_bytes(const char *text)
{
    size_t n = text[0] == '\033' && text[1] == '[' ? 2 + strspn(text + 2, "0123456789;") : 0;
    return n && text[n] == 'm' ? n + 1 : 0;
}

int columns_of(const char *text)
{
    int columns = 0;
    while (*text) {
        size_t skipped = colour_bytes(text);
        columns += !skipped && starts_character(*text);
        text += skipped ? skipped : 1;
    }
    return columns;
}

/* Bytes of `text` that fit a line of `room` columns: all, or up to the last space after column
 * `least`, or as many as fit. */
static size_t bytes_that_fit(const char *text, int room, int least)
{
    size_t space = 0;
    int column = 0;
    for (size_t i = 0; text[i]; i++) {
        size_t skipped = colour_bytes(text + i);
        i += skipped ? skipped - 1 : 0;
        if (skipped || !starts_character(text[i]))
            continue;
        if (column == room && text[i] == ' ')
            return i;
        if (column == room)
            return space ? space : i;
        if (text[i] == ' ' && column > least)
            space = i;
        column++;
    }
    return strlen(text);
}

static void print_folded(FILE *to, int hang, const char *text)
{
    size_t n = bytes_that_fit(text, columns_limit(), hang);
    for (;;) {
        size_t end = n;
        while (end && text[end - 1] == ' ')
            end--;
        fprintf(to, "%.*s\n", (int)end, text);
        text += n;
        text += strspn(text, " ");
        if (!*text)
            return;
        fprintf(to, "%*s", hang, "");
        n = bytes_that_fit(text, columns_limit() - hang, 0);
    }
}

void columns_print(FILE *to, int hang, const char *format, ...)
{
    char *text;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0)
        abort();
    if (is_full)
        fprintf(to, "%s\n", text);
    else
        print_folded(to, hang, text);
    free(text);
}

void columns_print_heading(FILE *to, const char *heading)
{
    fprintf(to, "\n%s%s%s\n", colour_begin(COLOUR_HEADING), heading, colour_end(COLOUR_HEADING));
}

void columns_print_list(FILE *to, const char *name, const char *list)
{
    int used = columns_of(name);
    fputs(name, to);
    while (*list) {
        size_t n = strcspn(list, ",");
        n += list[n] == ',';
        if (!is_full && used + (int)n >= columns_limit() && used) {
            fputs("\\\n", to);
            used = 0;
        }
        fprintf(to, "%.*s", (int)n, list);
        used += (int)n;
        list += n;
    }
    fputc('\n', to);
}

static const char *show_milli(int64_t milli, char *buffer, size_t size)
{
    if (milli <= 0)
        snprintf(buffer, size, "?");
    else if (milli >= 99950)
        snprintf(buffer, size, "%" PRId64, (milli + 500) / 1000);
    else if (milli >= 9995)
        snprintf(buffer, size, "%.1f", (double)milli / 1000);
    else
        snprintf(buffer, size, "%.2f", (double)milli / 1000);
    return buffer;
}

const char *show_gbps(int64_t mbps, char *buffer, size_t size)
{
    return show_milli(mbps, buffer, size);
}

const char *show_us(int64_t ns, char *buffer, size_t size)
{
    return show_milli(ns, buffer, size);
}
