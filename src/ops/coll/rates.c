/* SPDX-License-Identifier: Apache-2.0 */
/* See coll_rates.h. The file is text: a line with the version, one line for each fact and rate, and
 * a last line with the CRC-32C of all bytes before it. The CRC detects a truncated or modified
 * file. */
#include "ops/coll/rates.h"

#include "base/config.h"
#include "base/crc32c.h"
#include "base/read_file.h"
#include "base/status.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MOST = 8192 };
static const char FIRST_LINE[] = "rates of collectives, version 3";
static const char REMEDY[] =
    "measure again with `weft bench coll --tune`, or set WEFT_COLL_RATES=off";

const struct coll_rates coll_rates_built_in = {
#define BUILT_IN(name, built_in, least, most) .name = (built_in),
    COLL_RATES(BUILT_IN)
#undef BUILT_IN
        .estimates = 1u << COLL_RATE_spread_us,
};

static const struct rate_row {
    const char *name;
    size_t offset;
    double least, most;
} rows[COLL_RATE_COUNT] = {
#define ROW(name, built_in, least, most) {#name, offsetof(struct coll_rates, name), least, most},
    COLL_RATES(ROW)
#undef ROW
};
enum { ROWS = COLL_RATE_COUNT };
_Static_assert(COLL_RATE_COUNT < 64, "a word has a bit for each rate");

static bool in_range(const struct rate_row *row, double value)
{
    return isfinite(value) && value >= row->least && value <= row->most;
}

int coll_rates_replace_invalid(struct coll_rates *rates)
{
    int replaced = 0;
    for (int i = 0; i < ROWS; i++) {
        char *at = (char *)rates + rows[i].offset;
        double value;
        memcpy(&value, at, sizeof value);
        if (in_range(&rows[i], value))
            continue;
        memcpy(at, (const char *)&coll_rates_built_in + rows[i].offset, sizeof value);
        rates->estimates |= (uint64_t)1 << i;
        replaced++;
    }
    return replaced;
}

void coll_rates_estimates(const struct coll_rates *rates, const char *between, char *text,
                          size_t bytes)
{
    size_t used = 0;
    snprintf(text, bytes, "none");
    for (int i = 0; i < ROWS && used < bytes; i++)
        if (coll_rates_estimated(rates, (enum coll_rate)i))
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used ? between : "",
                                     rows[i].name);
}

/* ----------------------------------------------------------------------------- path of the file */

/* Copies a name; each character that is no letter or digit becomes a dash. */
static void put_name(char *to, size_t bytes, const char *from)
{
    size_t n = 0;
    for (; *from && n + 1 < bytes; from++) {
        bool plain = (*from >= '0' && *from <= '9') || (*from >= 'a' && *from <= 'z') ||
                     (*from >= 'A' && *from <= 'Z');
        to[n++] = plain ? *from : '-';
    }
    to[n] = '\0';
}

static bool cache_folder(char *folder, size_t bytes)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && cache[0] == '/')
        return (size_t)snprintf(folder, bytes, "%s/weft", cache) < bytes;
    return home && home[0] == '/' &&
           (size_t)snprintf(folder, bytes, "%s/.cache/weft", home) < bytes;
}

bool coll_rates_file(const struct coll_machine *machine, char *path, size_t bytes)
{
    const char *wanted = config_string(CONFIG_COLL_RATES);
    char folder[512], model[sizeof machine->gpu];
    if (strcmp(wanted, "off") == 0)
        return false;
    if (*wanted)
        return (size_t)snprintf(path, bytes, "%s", wanted) < bytes;
    put_name(model, sizeof model, machine->gpu);
    return cache_folder(folder, sizeof folder) &&
           (size_t)snprintf(path, bytes, "%s/coll-rates-%s-x%d-%d", folder, model, machine->gpus,
                            machine->driver) < bytes;
}

bool coll_rates_any(void)
{
    char folder[512];
    bool any = false;
    DIR *list = cache_folder(folder, sizeof folder) ? opendir(folder) : NULL;
    for (const struct dirent *entry; list && !any && (entry = readdir(list));)
        any = strncmp(entry->d_name, "coll-rates-", 11) == 0;
    if (list)
        closedir(list);
    return any;
}

/* -------------------------------------------------------------------------------------- reading */

/* Returns the value on the line at *at that begins with "key ", ends that line with a NUL, and
 * moves *at to the next line. NULL: the line has another key. */
static char *value_of(char **at, const char *key)
{
    size_t length = strlen(key);
    char *line = *at, *end = strchr(line, '\n');
    if (!end || strncmp(line, key, length) != 0 || line[length] != ' ')
        return NULL;
    *end = '\0';
    *at = end + 1;
    return line + length + 1;
}

static bool whole_number(char **at, const char *key, int *number)
{
    char *end, *text = value_of(at, key);
    long value = text ? strtol(text, &end, 10) : 0;
    *number = (int)value;
    return text && *text && !*end && value > 0 && value < 1 << 30;
}

static bool text_line(char **at, const char *key, char *text, size_t bytes)
{
    const char *value = value_of(at, key);
    return value && (size_t)snprintf(text, bytes, "%s", value) < bytes;
}

static weft_status refuse_rates(const char *path, const char *why)
{
    return base_fail(WEFT_ERR_CONFIG, "%s: %s; %s", path, why, REMEDY);
}

/* Checks the CRC of the last line and removes that line from the text. */
static bool crc_holds(char *text)
{
    char *last = strrchr(text, '\n');
    if (!last || last[1]) /* the last line lacks its newline */
        return false;
    while (last > text && last[-1] != '\n')
        last--;
    unsigned crc;
    char rest;
    if (sscanf(last, "crc32c %8x%c", &crc, &rest) != 2 || rest != '\n')
        return false;
    bool holds = crc == crc32c(0, text, (size_t)(last - text));
    *last = '\0';
    return holds;
}

static weft_status parse_rates(const char *path, char **at, struct coll_rates *rates)
{
    char what[160];
    for (int i = 0; i < ROWS; i++) {
        char *end, *text = value_of(at, rows[i].name);
        double value = text ? strtod(text, &end) : 0;
        if (!text || end == text || *end) {
            snprintf(what, sizeof what, "the line of %s is missing or holds no number",
                     rows[i].name);
            return refuse_rates(path, what);
        }
        if (!in_range(&rows[i], value)) {
            snprintf(what, sizeof what, "%s is %.40s, not a number from %g to %g", rows[i].name,
                     text, rows[i].least, rows[i].most);
            return refuse_rates(path, what);
        }
        memcpy((char *)rates + rows[i].offset, &value, sizeof value);
    }
    return WEFT_OK;
}

/* The value of the line is "none" or a list of rate names. */
static weft_status parse_estimates(const char *path, char **at, struct coll_rates *rates)
{
    char *rest, *text = value_of(at, "estimates"), what[160];
    rates->estimates = 0;
    if (!text)
        return refuse_rates(path, "the line of estimates is missing");
    if (strcmp(text, "none") == 0)
        return WEFT_OK;
    for (char *name = strtok_r(text, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
        int i = 0;
        while (i < ROWS && strcmp(rows[i].name, name) != 0)
            i++;
        if (i == ROWS) {
            snprintf(what, sizeof what, "\"%.40s\" among the estimates is not the name of a rate",
                     name);
            return refuse_rates(path, what);
        }
        rates->estimates |= (uint64_t)1 << i;
    }
    return WEFT_OK;
}

static weft_status parse(const char *path, char *text, const struct coll_machine *machine,
                         struct coll_rates *rates, struct coll_measured *measured,
                         struct coll_machine *of)
{
    char *at = text, what[256];
    size_t first = strlen(FIRST_LINE);
    if (strncmp(text, FIRST_LINE, first) != 0 || text[first] != '\n')
        return refuse_rates(path, "it has another version, or is not a rates file");
    if (!crc_holds(text))
        return refuse_rates(path, "it is cut off or was changed");
    at += first + 1;
    if (!text_line(&at, "gpu", of->gpu, sizeof of->gpu) || !whole_number(&at, "gpus", &of->gpus) ||
        !whole_number(&at, "driver", &of->driver) || !whole_number(&at, "pes", &measured->pes) ||
        !text_line(&at, "measured", measured->date, sizeof measured->date))
        return refuse_rates(path, "it does not say which machine it is for");
    if (machine && (strcmp(machine->gpu, of->gpu) != 0 || machine->gpus != of->gpus ||
                    machine->driver != of->driver)) {
        snprintf(what, sizeof what,
                 "it is for %d %.64s with CUDA %d; this machine has %d %.64s with CUDA %d",
                 of->gpus, of->gpu, of->driver, machine->gpus, machine->gpu, machine->driver);
        return refuse_rates(path, what);
    }
    weft_status status = parse_rates(path, &at, rates);
    if (!status)
        status = parse_estimates(path, &at, rates);
    return !status && *at ? refuse_rates(path, "it contains unknown lines") : status;
}

weft_status coll_rates_read(const char *path, const struct coll_machine *machine,
                            struct coll_rates *rates, struct coll_measured *measured,
                            struct coll_machine *of)
{
    struct coll_rates read = *rates;
    struct coll_measured found = {0};
    struct coll_machine from = {0};
    char *text;
    size_t bytes;
    if (base_read_file(path, FILE_MOST, &text, &bytes))
        return base_fail(WEFT_ERR_CONFIG, "%s; %s", base_last_error(), REMEDY);
    if (strlen(text) != bytes) {
        free(text);
        return refuse_rates(path, "it is not a rates file");
    }
    weft_status status = parse(path, text, machine, &read, &found, &from);
    free(text);
    if (status)
        return status;
    *rates = read;
    *measured = found;
    if (of)
        *of = from;
    return WEFT_OK;
}

/* -------------------------------------------------------------------------------------- writing */

static size_t print(char *text, const struct coll_machine *machine, const struct coll_rates *rates,
                    const struct coll_measured *measured)
{
    size_t used = (size_t)snprintf(
        text, FILE_MOST, "%s\ngpu %s\ngpus %d\ndriver %d\npes %d\nmeasured %s\n", FIRST_LINE,
        machine->gpu, machine->gpus, machine->driver, measured->pes, measured->date);
    for (int i = 0; i < ROWS; i++) {
        double value;
        memcpy(&value, (const char *)rates + rows[i].offset, sizeof value);
        used += (size_t)snprintf(text + used, FILE_MOST - used, "%s %.17g\n", rows[i].name, value);
    }
    char names[1024];
    coll_rates_estimates(rates, " ", names, sizeof names);
    used += (size_t)snprintf(text + used, FILE_MOST - used, "estimates %s\n", names);
    unsigned crc = crc32c(0, text, used);
    return used + (size_t)snprintf(text + used, FILE_MOST - used, "crc32c %08x\n", crc);
}

/* Creates the missing folders of the path. */
static void make_folders(const char *path)
{
    char folder[600];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(folder, 0700); /* a failure shows when the file is opened */
        *slash = '/';
    }
}

weft_status coll_rates_write(const char *path, const struct coll_machine *machine,
                             const struct coll_rates *rates, const struct coll_measured *measured)
{
    char text[FILE_MOST], temporary[640];
    size_t bytes = print(text, machine, rates, measured);
    if ((size_t)snprintf(temporary, sizeof temporary, "%s.%d", path, (int)getpid()) >=
        sizeof temporary)
        return base_fail(WEFT_ERR_CONFIG, "the path of the rates file is too long: %.80s...", path);
    make_folders(path);
    FILE *file = fopen(temporary, "we");
    if (!file)
        return base_fail(WEFT_ERR_SYSTEM, "rates file of collectives: %s: %s", temporary,
                         strerror(errno));
    bool whole =
        fwrite(text, 1, bytes, file) == bytes && fflush(file) == 0 && fsync(fileno(file)) == 0;
    whole &= fclose(file) == 0;
    if (whole && rename(temporary, path) == 0)
        return WEFT_OK;
    int error = errno;
    unlink(temporary);
    return base_fail(WEFT_ERR_SYSTEM, "rates file of collectives: %s: %s", path, strerror(error));
}

/* ------------------------------------------------------------------------------ choice of rates */

void coll_rates_find(const struct coll_machine *machine, struct coll_rates *rates,
                     struct coll_measured *measured, char *path, size_t path_bytes, char *why,
                     size_t why_bytes)
{
    *rates = coll_rates_built_in;
    if (why && why_bytes)
        *why = '\0';
    bool named = *config_string(CONFIG_COLL_RATES) != '\0';
    if (coll_rates_file(machine, path, path_bytes)) {
        if (!named && access(path, F_OK) != 0) /* no rates were measured on this machine */
            *path = '\0';
        else if (!coll_rates_read(path, machine, rates, measured, NULL))
            return;
        else if (why)
            snprintf(why, why_bytes, "%s", base_last_error());
    }
    *path = '\0';
}

uint32_t coll_rates_hash(const struct coll_rates *rates)
{
    return crc32c(0, rates, sizeof *rates);
}
