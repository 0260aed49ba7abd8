/* SPDX-License-Identifier: Apache-2.0 */
/* The setup that an agent of `weft run --hosts` reads from its standard input: a text line with
 * the number of bytes that follow, then zero-terminated "key=value" strings. The secret is in
 * it, since other users can read command lines and environments. Independent of connections. */
#include "run/hosts.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

enum { SETUP_VERSION = 2, SETUP_MOST_BYTES = 1 << 20 };

/* ------------------------------------------------------------------------------------ writing */

/* Whether the PEs on every host get this variable of the launcher; --env adds others. */
static bool is_passed_on(const char *entry)
{
    static const char *const prefixes[] = {"WEFT_", "SHMEM_", "NVSHMEM_",         "OMP_",
                                           "CUDA_", "FI_",    "LD_LIBRARY_PATH=", NULL};
    static const char *const own[] = {
        "WEFT_BOOT_SOCKET=", "WEFT_PE=",        "WEFT_PES=", "WEFT_BOOT_JOB=",
        "WEFT_BOOT_NODE=",   "WEFT_BOOT_HOST=", NULL};
    for (int i = 0; own[i]; i++)
        if (strncmp(entry, own[i], strlen(own[i])) == 0)
            return false;
    for (int i = 0; prefixes[i]; i++)
        if (strncmp(entry, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

static void write_string(FILE *to, const char *key, const char *value)
{
    fprintf(to, "%s=%s", key, value);
    fputc('\0', to);
}

static void write_number(FILE *to, const char *key, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    write_string(to, key, text);
}

/* --env NAME copies the launcher's value; NAME=VALUE sets a value. An agent passes on what it was
 * given, not what its host has set. */
static void write_environment(FILE *to, const struct run_options *options)
{
    for (char **entry = environ; *entry && !options->agent; entry++)
        if (is_passed_on(*entry))
            write_string(to, "env", *entry);
    for (int i = 0; i < options->env_count; i++) {
        const char *name = options->env[i], *value = strchr(name, '=') ? NULL : getenv(name);
        if (strchr(name, '=')) {
            write_string(to, "env", name);
        } else if (value) {
            fprintf(to, "env=%s=%s", name, value);
            fputc('\0', to);
        }
    }
}

/* The hosts below this one, and how their agents are started. "localhost" means this machine. */
static void write_hosts_below(FILE *to, const struct run *run, int index)
{
    const struct run_options *options = &run->options;
    const int below = run->hosts.list[index].below;
    char own[256] = "localhost", entry[600];
    gethostname(own, sizeof own - 1);
    if (below && options->rsh)
        write_string(to, "rsh", options->rsh);
    if (below && options->weft)
        write_string(to, "weft", options->weft);
    if (below)
        write_number(to, "fan-out", options->fan_out);
    for (int i = index + 1; i <= index + below; i++) {
        const struct run_host *host = &run->hosts.list[i];
        bool here = strcmp(host->name, "localhost") == 0;
        snprintf(entry, sizeof entry, "%d %.550s", host->count, here ? own : host->name);
        write_string(to, "below", entry);
    }
}

static void write_addresses(FILE *to, const struct rendezvous_address *addresses, int count)
{
    for (int i = 0; i < count; i++) {
        const unsigned char *bytes = (const unsigned char *)&addresses[i].address;
        fprintf(to, "address=");
        for (socklen_t at = 0; at < addresses[i].bytes; at++)
            fprintf(to, "%02x", bytes[at]);
        fputc('\0', to);
    }
}

char *run_setup_write(const struct run *run, int index, const char *secret, const char *job,
                      const struct rendezvous_address *addresses, int count, size_t *bytes)
{
    const struct run_options *options = &run->options;
    const struct run_host *host = &run->hosts.list[index];
    char *body = NULL, *text = NULL, directory[4096];
    size_t body_bytes = 0;
    FILE *to = open_memstream(&body, &body_bytes);
    if (!to)
        return NULL;
    write_string(to, "version", weft_version());
    write_string(to, "secret", secret);
    write_string(to, "job", job);
    write_string(to, "host", host->label);
    write_number(to, "index", host->number);
    write_number(to, "member", host->member);
    write_number(to, "members", run->hosts.children + 1);
    write_number(to, "first", host->first);
    write_number(to, "count", host->count);
    write_number(to, "pes", run->all);
    write_number(to, "prefix", options->prefix);
    write_number(to, "grace", (int64_t)options->grace_ns);
    write_number(to, "bind", options->bind);
    if (options->output_dir)
        write_string(to, "output", options->output_dir);
    if (run->agent && run->agent->directory)
        write_string(to, "directory", run->agent->directory);
    else if (getcwd(directory, sizeof directory))
        write_string(to, "directory", directory);
    write_hosts_below(to, run, index);
    write_environment(to, options);
    write_addresses(to, addresses, count);
    for (char **word = options->command; *word; word++)
        write_string(to, "word", *word);
    bool good = fclose(to) == 0;
    to = good ? open_memstream(&text, bytes) : NULL;
    if (to) {
        fprintf(to, "weft agent %d %zu\n", SETUP_VERSION, body_bytes);
        fwrite(body, 1, body_bytes, to);
        good = fclose(to) == 0;
    }
    free(body);
    return good ? text : NULL;
}

/* ------------------------------------------------------------------------------------ reading */

static bool read_exactly(char *to, size_t bytes)
{
    while (bytes) {
        ssize_t n = read(STDIN_FILENO, to, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        to += n;
        bytes -= (size_t)n;
    }
    return true;
}

/* Reads byte by byte, since the bytes after the setup belong to PE 0. */
static bool read_setup_line(char *line, size_t size)
{
    for (size_t n = 0; n + 1 < size; n++) {
        if (!read_exactly(line + n, 1))
            return false;
        if (line[n] == '\n') {
            line[n] = '\0';
            return true;
        }
    }
    return false;
}

static bool read_address(struct run_agent *agent, const char *hex)
{
    struct rendezvous_address *at = &agent->addresses[agent->address_count], zero = {0};
    unsigned byte;
    *at = zero;
    for (; sscanf(hex, "%2x", &byte) == 1 && at->bytes < sizeof at->address; hex += 2)
        ((unsigned char *)&at->address)[at->bytes++] = (unsigned char)byte;
    agent->address_count++;
    return at->bytes >= sizeof(struct sockaddr_in);
}

/* Stores a number of the setup. */
static bool set_number(struct run_options *options, struct run_agent *agent, const char *key,
                       const char *value)
{
    long long number = strtoll(value, NULL, 10);
    struct {
        const char *key;
        int *to;
    } const numbers[] = {{"index", &agent->index},       {"member", &agent->member},
                         {"members", &agent->members},   {"first", &agent->first},
                         {"count", &options->npes},      {"pes", &agent->npes},
                         {"fan-out", &options->fan_out}, {NULL, NULL}};
    for (int i = 0; numbers[i].key; i++) {
        if (strcmp(key, numbers[i].key) == 0) {
            *numbers[i].to = (int)number;
            return true;
        }
    }
    if (strcmp(key, "prefix") == 0)
        options->prefix = number != 0;
    else if (strcmp(key, "grace") == 0)
        options->grace_ns = (uint64_t)number;
    else if (strcmp(key, "bind") == 0)
        options->bind = (enum run_bind)number;
    else
        return false;
    return true;
}

/* "4 node7": a host below this one, and its number of PEs. */
static bool add_host_below(struct run_options *options, char *text)
{
    char *name;
    long npes = strtol(text, &name, 10);
    if (npes < 1 || npes > BOOT_MOST_LAUNCHED || *name != ' ' || !name[1])
        return false;
    struct run_slots slots = {.name = strdup(name + 1), .npes = (int)npes};
    options->hosts[options->host_count] = slots;
    options->host_count += slots.name != NULL;
    return slots.name != NULL;
}

static bool set_variable(struct run_options *options, char *text)
{
    options->env[options->env_count++] = text;
    return putenv(text) == 0;
}

/* Stores one entry of the setup. False: unknown key. */
static bool set_setup_entry(struct run_options *options, struct run_agent *agent, char *key,
                            int *words)
{
    char *value = strchr(key, '=');
    if (!value)
        return false;
    *value++ = '\0';
    if (strcmp(key, "secret") == 0)
        agent->secret = value;
    else if (strcmp(key, "job") == 0)
        agent->job = value;
    else if (strcmp(key, "directory") == 0)
        agent->directory = value;
    else if (strcmp(key, "output") == 0)
        options->output_dir = value;
    else if (strcmp(key, "host") == 0)
        snprintf(agent->host, sizeof agent->host, "%.63s", value);
    else if (strcmp(key, "env") == 0)
        return set_variable(options, value);
    else if (strcmp(key, "below") == 0)
        return add_host_below(options, value);
    else if (strcmp(key, "rsh") == 0)
        options->rsh = value;
    else if (strcmp(key, "weft") == 0)
        options->weft = value;
    else if (strcmp(key, "word") == 0)
        options->command[(*words)++] = value;
    else if (strcmp(key, "address") == 0)
        return read_address(agent, value);
    else
        return set_number(options, agent, key, value);
    return true;
}

static bool same_version(const char *first)
{
    const char *version = strncmp(first, "version=", 8) == 0 ? first + 8 : "?";
    if (strcmp(version, weft_version()) == 0)
        return true;
    run_say("the launcher is Weft %.40s, and this host has Weft %s: install the same version "
            "everywhere, or name the right command with --weft",
            version, weft_version());
    return false;
}

/* Sets the host name first, since it is printed in all messages. */
static void name_host(struct run_agent *agent, const char *text, size_t bytes)
{
    for (const char *at = text; at < text + bytes; at += strlen(at) + 1)
        if (strncmp(at, "host=", 5) == 0)
            snprintf(agent->host, sizeof agent->host, "%.63s", at + 5);
}

static bool setup_is_complete(const struct run_options *options, const struct run_agent *agent,
                              int words)
{
    int64_t pes = (int64_t)agent->first + options->npes;
    for (int i = 0; i < options->host_count; i++)
        pes += options->hosts[i].npes;
    return agent->secret && agent->job && words && agent->address_count && options->npes > 0 &&
           options->npes <= BOOT_MOST_LAUNCHED && agent->first >= 0 &&
           agent->npes <= BOOT_MOST_LAUNCHED && pes <= agent->npes && agent->index >= 0 &&
           agent->index < agent->npes && agent->member >= 1 && agent->member < agent->members &&
           agent->members <= BOOT_MOST_LAUNCHED + 1 &&
           (options->fan_out > 0 || !options->host_count);
}

bool run_setup_read(struct run_options *options, struct run_agent *agent)
{
    char line[80];
    int version = 0;
    size_t bytes = 0;
    if (!read_setup_line(line, sizeof line) ||
        sscanf(line, "weft agent %d %zu", &version, &bytes) != 2 || bytes < 1 ||
        bytes > SETUP_MOST_BYTES) {
        run_say("--agent is used by `weft run --hosts` only, which sends its setup");
        return false;
    }
    /* Lives as long as the process, since the environment points into it. */
    static char *text;
    text = malloc(bytes + 1);
    if (!text || !read_exactly(text, bytes)) {
        run_say("the launcher's setup on standard input is incomplete");
        return false;
    }
    text[bytes] = '\0';
    name_host(agent, text, bytes);
    if (!same_version(text))
        return false;
    if (version != SETUP_VERSION) {
        run_say("the launcher uses another protocol than this weft, although both are %s",
                weft_version());
        return false;
    }
    size_t strings = 0;
    for (size_t i = 0; i < bytes; i++)
        strings += text[i] == '\0';
    options->command = calloc(strings + 1, sizeof *options->command);
    options->env = calloc(strings, sizeof *options->env);
    options->hosts = calloc(strings, sizeof *options->hosts);
    agent->addresses = calloc(strings + 2, sizeof *agent->addresses);
    int words = 0;
    bool good = options->command && options->env && options->hosts && agent->addresses;
    for (char *at = text + strlen(text) + 1, *next; good && at < text + bytes; at = next) {
        next = at + strlen(at) + 1;
        good = set_setup_entry(options, agent, at, &words);
    }
    if (!good || !setup_is_complete(options, agent, words)) {
        run_say("the launcher's setup on standard input is malformed");
        return false;
    }
    return true;
}
