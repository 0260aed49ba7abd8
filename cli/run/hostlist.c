/* SPDX-License-Identifier: Apache-2.0 */
/* The host list of `weft run`: --hosts a:2,b[1-3]:2, or a file with one host per line; and the
 * distribution of the PEs over the hosts. */
#include "run/hosts.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parses "host", "user@host", "host:4" or "[fe80::1%eth0]:4". A bare IPv6 address has colons
 * that do not separate a number. */
static bool parse_host(struct run_options *options, const char *text, size_t length)
{
    struct run_slots *slots =
        realloc(options->hosts, (size_t)(options->host_count + 1) * sizeof *slots);
    if (!slots)
        return false;
    options->hosts = slots;
    char *name = strndup(text, length), *colon = name ? strrchr(name, ':') : NULL, *end;
    if (!name)
        return false;
    long npes = 0;
    if (colon && (strchr(name, ':') == colon || colon[-1] == ']')) {
        npes = strtol(colon + 1, &end, 10);
        if (end == colon + 1 || *end || npes < 1 || npes > BOOT_MOST_LAUNCHED) {
            run_say("host \"%s\": expected a number of PEs from 1 to %d after the colon", name,
                    BOOT_MOST_LAUNCHED);
            free(name);
            return false;
        }
        *colon = '\0';
    }
    if (name[0] == '[' && name[strlen(name) - 1] == ']') {
        memmove(name, name + 1, strlen(name));
        name[strlen(name) - 1] = '\0';
    }
    /* The remote shell would take a name that begins with a dash as an option. */
    if (!name[0] || name[0] == '-' || strpbrk(name, " \t;|&$`'\"<>(){}\\*?!")) {
        run_say("\"%s\" is not the name of a host", name);
        free(name);
        return false;
    }
    options->hosts[options->host_count++] = (struct run_slots){.name = name, .npes = (int)npes};
    return true;
}

/* Length up to the next comma outside brackets. */
static size_t entry_length(const char *text)
{
    size_t length = 0;
    for (int depth = 0; text[length] && (text[length] != ',' || depth > 0); length++)
        depth += (text[length] == '[') - (text[length] == ']');
    return length;
}

static bool parse_entry(struct run_options *options, const char *text, size_t length);

/* Expands "n[01-03,7]:2": one entry for each number in the brackets. `ranges` points after the
 * opening bracket. */
static bool parse_ranges(struct run_options *options, const char *text, size_t length,
                         const char *ranges)
{
    const char *close = memchr(ranges, ']', length - (size_t)(ranges - text)), *at = ranges;
    while (close && at < close) {
        char *end;
        const char *digits = at;
        unsigned long first = strtoul(at, &end, 10), last = first;
        int width = (int)(end - digits);
        if (*digits < '0' || *digits > '9')
            break;
        if (*end == '-' && end[1] >= '0' && end[1] <= '9')
            last = strtoul(end + 1, &end, 10);
        if ((*end != ',' && end != close) || last < first || last - first > 65535 || width > 18)
            break;
        for (unsigned long number = first; number <= last; number++) {
            char name[512];
            int n = snprintf(name, sizeof name, "%.*s%0*lu%.*s", (int)(ranges - 1 - text), text,
                             width, number, (int)(text + length - close - 1), close + 1);
            if (n >= (int)sizeof name || !parse_entry(options, name, (size_t)n))
                return false;
        }
        at = end + (*end == ',');
        if (end == close)
            return true;
    }
    run_say("host \"%.*s\": expected numbers in the brackets, such as [01-04,7]", (int)length,
            text);
    return false;
}

/* Parses an entry. A bracket at the start belongs to an address, one after a name to a list of
 * numbers. */
static bool parse_entry(struct run_options *options, const char *text, size_t length)
{
    enum { MOST_HOSTS = 65536 };
    const char *open = memchr(text, '[', length);
    if (options->host_count == MOST_HOSTS) {
        run_say("more than %d hosts", MOST_HOSTS);
        return false;
    }
    if (open && open != text && open[-1] != '@')
        return parse_ranges(options, text, length, open + 1);
    return parse_host(options, text, length);
}

bool run_parse_hosts(struct run_options *options, const char *text)
{
    while (*text) {
        size_t length = entry_length(text);
        if (!parse_entry(options, text, length))
            return false;
        text += length + (text[length] == ',');
    }
    return true;
}

/* Parses a line: "host", "host:4" or, as in other launchers, "host slots=4"; # starts a comment. */
static bool parse_line(struct run_options *options, char *line)
{
    char name[512];
    line[strcspn(line, "#\n")] = '\0';
    char *word = strtok(line, " \t\r");
    if (!word)
        return true;
    char *more = strtok(NULL, " \t\r");
    const char *slots = more && strncmp(more, "slots=", 6) == 0 ? more + 6 : NULL;
    if (more && !slots) {
        run_say("host file: \"%s\" after host %s; only slots=N is allowed there", more, word);
        return false;
    }
    snprintf(name, sizeof name, "%.400s%s%.16s", word, slots ? ":" : "", slots ? slots : "");
    return parse_host(options, name, strlen(name));
}

enum { HOSTFILE_MOST = 16 << 20 };

bool run_parse_hostfile(struct run_options *options, const char *path)
{
    char *text, *rest;
    size_t bytes;
    if (base_read_file(path, HOSTFILE_MOST, &text, &bytes)) {
        run_say("--hostfile: %s", weft_last_error());
        return false;
    }
    bool good = strlen(text) == bytes;
    if (!good)
        run_say("--hostfile %s is not a text file: it has a zero byte", path);
    rest = text;
    for (char *line = strsep(&rest, "\n"); good && line; line = strsep(&rest, "\n"))
        good = parse_line(options, line);
    free(text);
    if (good && options->host_count == 0) {
        run_say("--hostfile %s names no host", path);
        return false;
    }
    return good;
}

/* Distributes the PEs. Without -n each host gets its number of PEs, or one. With -n the hosts
 * are filled in order; hosts without a number share the rest. */
bool run_distribute_pes(struct run_options *options)
{
    int said = 0, silent = 0;
    for (int i = 0; i < options->host_count; i++) {
        said += options->hosts[i].npes;
        silent += options->hosts[i].npes == 0;
    }
    int all = options->npes ? options->npes : said + silent, left = all - said;
    if (all > BOOT_MOST_LAUNCHED || (!silent && left > 0)) {
        run_say("%d PEs, but the hosts take %d and a job has at most %d", all, said,
                BOOT_MOST_LAUNCHED);
        return false;
    }
    for (int i = 0, seen = 0; i < options->host_count; i++) {
        if (options->hosts[i].npes || left <= 0)
            continue;
        options->hosts[i].npes = left * (seen + 1) / silent - left * seen / silent;
        seen++;
    }
    int hosts = 0;
    for (int i = 0, room = all; i < options->host_count; i++) {
        struct run_slots slots = options->hosts[i];
        if (slots.npes > room)
            slots.npes = room;
        room -= slots.npes;
        if (slots.npes)
            options->hosts[hosts++] = slots;
        else
            free(slots.name);
    }
    options->host_count = hosts;
    options->npes = all;
    return true;
}
