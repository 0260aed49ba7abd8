/* SPDX-License-Identifier: Apache-2.0 */
/* `weft doctor --log FILE`: reads a log of NCCL and prints the lines that name a slow path. The
 * lines are judged in src/machine. */
#include "doctor/doctor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "columns.h"
#include "commands.h"
#include "machine/checks/nccl_log.h"
#include "machine_options.h"

enum { LOG_MOST = 512 << 20 };

/* Prints why the log cannot be read. */
static void refuse_log(const char *name, const char *why)
{
    fprintf(stderr, "weft doctor: --log %s: %s\n", name, why);
}

/* Reads all of the file; "-": standard input. NULL: it has printed why. The caller frees it. */
static char *read_log(const char *name, size_t *length)
{
    bool input = strcmp(name, "-") == 0;
    struct stat about;
    if (!input && stat(name, &about) == 0 && !S_ISREG(about.st_mode)) {
        refuse_log(name, "it is no regular file; \"-\" reads standard input");
        return NULL;
    }
    FILE *from = input ? stdin : fopen(name, "r");
    size_t room = 1 << 20;
    char *text = from ? malloc(room) : NULL;
    *length = 0;
    while (text) {
        size_t n = fread(text + *length, 1, room - *length, from);
        *length += n;
        if (n == 0 || room >= LOG_MOST)
            break;
        if (*length < room)
            continue;
        char *more = realloc(text, room *= 2);
        if (!more)
            free(text);
        text = more;
    }
    bool failed = !text || ferror(from);
    if (failed)
        refuse_log(name, strerror(errno));
    else if (*length >= LOG_MOST)
        refuse_log(name,
                   "it has more than 512 MiB; cut it: grep 'NCCL ' FILE | weft doctor --log -");
    if (from && !input)
        fclose(from);
    if (failed || *length >= LOG_MOST) {
        free(text);
        return NULL;
    }
    return text;
}

/* --- text ------------------------------------------------------------------------------------- */

static void print_channels(const struct nccl_log *log)
{
    char text[240] = "";
    for (int t = 0; t < NCCL_TRANSPORTS; t++) {
        size_t used = strlen(text);
        if (log->channels[t])
            snprintf(text + used, sizeof text - used, "%s%d %s", used ? ", " : "", log->channels[t],
                     nccl_transport_names[t]);
    }
    columns_print(stdout, 10, "channels  %s",
                  *text ? text : "none: NCCL_DEBUG=INFO prints them, WARN and VERSION do not");
}

/* Prints all findings of one reason and weight together. */
static void print_log_findings(const struct nccl_log *log, int first)
{
    const struct nccl_finding *f = &log->list[first];
    const struct reason_text *r = &reason_table[f->reason];
    enum colour colour = colour_of_weight(f->weight);
    columns_print(stdout, 11, "  %s%-8s%s %s  %s", colour_begin(colour),
                  f->weight == WEIGHT_SLOW ? "degraded" : "note", colour_end(colour), r->code,
                  r->cause);
    for (int i = first; i < log->n; i++) {
        const struct nccl_finding *one = &log->list[i];
        if (one->reason != f->reason || one->weight != f->weight)
            continue;
        columns_print(stdout, 13, "           line %ld, %d %s%s: %s%s%s%s", one->line, one->count,
                      one->channels ? "channel" : "line", one->count == 1 ? "" : "s", one->text,
                      one->why ? " (" : "", one->why ? one->why : "", one->why ? ")" : "");
    }
    columns_print(stdout, 13, "           remedy: %s [%s; %s]", r->remedy, r->who, r->lasts);
}

static bool is_first_of_log(const struct nccl_log *log, int at)
{
    for (int i = 0; i < at; i++)
        if (log->list[i].reason == log->list[at].reason &&
            log->list[i].weight == log->list[at].weight)
            return false;
    return true;
}

static void print_nccl_log(const char *name, const struct nccl_log *log)
{
    columns_print(stdout, 4, "log %s: NCCL %s; %ld of %ld lines are NCCL's; %d host%s, %d rank%s",
                  name, *log->version ? log->version : "of unknown version", log->own_lines,
                  log->lines, log->hosts, log->hosts == 1 ? "" : "s", log->ranks,
                  log->ranks == 1 ? "" : "s");
    print_channels(log);
    if (log->faults)
        printf("%d slow path%s or setting%s\n", log->faults, log->faults == 1 ? "" : "s",
               log->faults == 1 ? "" : "s");
    else
        puts("nothing slow found");
    for (int i = 0; i < log->n; i++)
        if (is_first_of_log(log, i))
            print_log_findings(log, i);
    if (log->n)
        columns_print(stdout, 0,
                      "weft explain CODE explains a code; weft doctor examines the "
                      "machine");
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *log_json(const char *name, const struct nccl_log *log)
{
    static const char *const keys[NCCL_TRANSPORTS] = {"p2p", "shm", "net_gpudirect", "net_host",
                                                      "net_socket"};
    json_t *channels = json_object(), *findings = json_array();
    for (int t = 0; t < NCCL_TRANSPORTS; t++)
        json_object_set_new(channels, keys[t], json_integer(log->channels[t]));
    for (int i = 0; i < log->n; i++) {
        const struct nccl_finding *f = &log->list[i];
        const struct reason_text *r = &reason_table[f->reason];
        json_array_append_new(
            findings, json_pack("{s:s, s:s, s:i, s:s, s:I, s:s, s:s, s:s?, s:s, s:s, s:s}", "code",
                                r->code, "weight", weight_names[f->weight], "count", f->count,
                                "counts", f->channels ? "channels" : "lines", "line",
                                (json_int_t)f->line, "text", f->text, "cause", r->cause, "why",
                                f->why, "remedy", r->remedy, "who", r->who, "lasts", r->lasts));
    }
    return json_pack("{s:s, s:s?, s:I, s:I, s:i, s:i, s:o, s:o, s:i}", "log", name, "version",
                     *log->version ? log->version : NULL, "lines", (json_int_t)log->lines,
                     "nccl_lines", (json_int_t)log->own_lines, "hosts", log->hosts, "ranks",
                     log->ranks, "channels", channels, "findings", findings, "faults", log->faults);
}

int doctor_read_log(const char *name, bool json)
{
    static struct nccl_log log;
    size_t length;
    char *text = read_log(name, &length);
    bool good = text && nccl_log_read(text, length, &log);
    free(text);
    if (text && !good)
        fprintf(stderr,
                "weft doctor: --log %s: none of its %ld lines is NCCL's. Run the program with "
                "NCCL_DEBUG=INFO and keep what it prints.\n",
                name, log.lines);
    if (!good)
        return EXIT_USAGE;
    if (json)
        json_print(log_json(name, &log));
    else
        print_nccl_log(name, &log);
    return log.faults ? EXIT_FAULT : EXIT_GOOD;
}
