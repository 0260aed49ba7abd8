/* SPDX-License-Identifier: Apache-2.0 */
/* `weft hca`: shows the software adapters of this user's running processes. Each listens at an
 * abstract socket whose name has the user and the LID, and answers with a JSON object, which
 * this command prints as tables or unchanged. Any user can bind such a name, so the command
 * checks the peer's credentials (SO_PEERCRED), limits the time, and makes the answer safe for a
 * terminal (finding A23). Only the name, the request and the keys of the answer are known here. */
#include "commands.h"
#include "parse.h"

#include "tool/tool.h"

#include <argp.h>
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    ANSWER_MS = 2000,   /* time for one adapter */
    ALL_MS = 10 * 1000, /* time for all adapters */
    ANSWER_MOST = 64 << 20,
    LINES_SHOWN = 8,
    SOCKETS_MOST = 4095,
};

struct hca_options {
    int pid; /* 0: all processes */
    bool json, queues, keys;
};

/* ------------------------------------------------------------------------------------ queries */

static int compare_numbers(const void *a, const void *b)
{
    const unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return (x > y) - (x < y);
}

/* Finds the LIDs at which this user's adapters listen, without duplicates. Returns how many. */
static int find_lids(unsigned *lids, int most)
{
    char name[64], *line = NULL;
    size_t room = 0;
    int n = 0;
    FILE *sockets = fopen("/proc/net/unix", "re");
    if (!sockets)
        return 0;
    snprintf(name, sizeof name, "@weft-hca-%u-", getuid());
    while (getline(&line, &room, sockets) > 0 && n < most) {
        const char *at = strstr(line, name);
        if (at && sscanf(at + strlen(name), "%u", &lids[n]) == 1)
            n++;
    }
    free(line);
    fclose(sockets);
    qsort(lids, (size_t)n, sizeof *lids, compare_numbers);
    int once = 0;
    for (int i = 0; i < n; i++)
        if (!i || lids[i] != lids[i - 1])
            lids[once++] = lids[i];
    return once;
}

static int connect_to(unsigned lid)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int n = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "weft-hca-%u-%u", getuid(), lid);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    /* A listener need not accept: with a full queue connect() fails at once. */
    if (fd >= 0 && connect(fd, (struct sockaddr *)&a, bytes)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Any user can bind these names. True when the peer process belongs to this user or to root;
 * else *uid is its owner. */
static bool is_trusted(int fd, unsigned *uid)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length))
        return false;
    *uid = peer.uid;
    return peer.uid == getuid() || peer.uid == 0;
}

static int64_t milliseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Reads the answer of the adapter until `end`; NULL: no answer, or not a complete one. The
 * caller frees it. */
static char *read_answer(int fd, int64_t end)
{
    enum { PIECE = 64 << 10 };
    char *text = NULL;
    size_t n = 0;
    ssize_t got = 1;
    while (got > 0 && n < ANSWER_MOST) {
        int64_t left = end - milliseconds();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        char *more = realloc(text, n + PIECE + 1);
        if (!more)
            abort();
        text = more;
        got = left > 0 && poll(&p, 1, (int)left) == 1 ? recv(fd, text + n, PIECE, 0) : -1;
        n += got > 0 ? (size_t)got : 0;
        text[n] = '\0';
    }
    if (got < 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* Asks one adapter. NULL: it has ended, does not answer, or belongs to another user, which is
 * reported. */
static char *query_adapter(unsigned lid, int64_t end)
{
    int64_t own_end = milliseconds() + ANSWER_MS;
    int fd = connect_to(lid);
    char *text = NULL;
    unsigned uid = 0;
    if (fd >= 0 && !is_trusted(fd, &uid))
        fprintf(stderr,
                "weft hca: user %u holds the name of a software adapter of user %u (LID %u); it "
                "is skipped\n",
                uid, getuid(), lid);
    else if (fd >= 0 && send(fd, "show", 4, MSG_NOSIGNAL) == 4)
        text = read_answer(fd, own_end < end ? own_end : end);
    if (fd >= 0)
        close(fd);
    return text;
}

/* Makes texts safe for a terminal: program names and log lines come from other processes. */
static void make_printable(json_t *value)
{
    const char *key;
    json_t *part;
    size_t i;
    if (json_is_string(value)) {
        char *text = strdup(json_string_value(value));
        if (!text)
            abort();
        json_string_set(value, printable(text));
        free(text);
    }
    json_object_foreach(value, key, part) make_printable(part);
    json_array_foreach(value, i, part) make_printable(part);
}

static json_t *query_all_adapters(const struct hca_options *options, int *silent)
{
    static unsigned lids[SOCKETS_MOST];
    json_t *all = json_array();
    int n = find_lids(lids, SOCKETS_MOST);
    int64_t end = milliseconds() + ALL_MS;
    *silent = 0;
    for (int i = 0; i < n; i++) {
        char *text = query_adapter(lids[i], end);
        json_t *one = text ? json_loads(text, 0, NULL) : NULL;
        make_printable(one);
        if (one &&
            (!options->pid || json_integer_value(json_object_get(one, "pid")) == options->pid))
            json_array_append(all, one);
        *silent += !one;
        json_decref(one);
        free(text);
    }
    return all;
}

/* ------------------------------------------------------------------------------------ printing */

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text ? text : "";
}

static long long number_of(const json_t *o, const char *key)
{
    return (long long)json_integer_value(json_object_get(o, key));
}

static void print_queues(const json_t *device)
{
    size_t i;
    const json_t *q, *queues = json_object_get(device, "queues");
    if (json_array_size(queues))
        printf("  %-10s %-4s %-6s %-20s %10s %10s %9s %9s %7s %7s\n", "queue", "type", "state",
               "peer", "posted", "completed", "in flight", "received", "errors", "retries");
    json_array_foreach(queues, i, q)
    {
        char peer[64] = "-";
        if (number_of(q, "peer_qpn"))
            snprintf(peer, sizeof peer, "%s 0x%llx", text_of(q, "peer"), number_of(q, "peer_qpn"));
        printf("  0x%-8llx %-4s %-6s %-20s %10lld %10lld %9lld %9lld %7lld %7lld\n",
               number_of(q, "qpn"), text_of(q, "type"), text_of(q, "state"), peer,
               number_of(q, "posted"), number_of(q, "completed"), number_of(q, "in_flight"),
               number_of(q, "received"), number_of(q, "errors"), number_of(q, "retries"));
    }
}

static void print_keys(const json_t *device)
{
    size_t i;
    const json_t *k, *keys = json_object_get(device, "keys");
    long long left = number_of(device, "keys_in_all") - (long long)json_array_size(keys);
    if (json_array_size(keys))
        printf("  %-10s %-18s %14s %6s %s\n", "key", "address", "bytes", "domain",
               "access (local write, write, read, atomic)");
    json_array_foreach(keys, i, k) printf(
        "  0x%-8llx 0x%-16llx %14lld %6lld %s\n", number_of(k, "key"), number_of(k, "address"),
        number_of(k, "bytes"), number_of(k, "pd"), text_of(k, "access"));
    if (left > 0)
        printf("  and %lld more\n", left);
}

static void print_log(const json_t *device)
{
    const json_t *log = json_object_get(device, "log");
    size_t n = json_array_size(log);
    for (size_t i = n > LINES_SHOWN ? n - LINES_SHOWN : 0; i < n; i++)
        if (json_is_string(json_array_get(log, i)))
            printf("  ! %s\n", json_string_value(json_array_get(log, i)));
}

static void print_device(const json_t *device, const struct hca_options *options)
{
    printf("%s of process %lld (%s): LID %lld, %s, %s; %zu queues, %lld keys, %lld doorbells, "
           "%lld requests, %lld errors\n",
           text_of(device, "device"), number_of(device, "pid"), text_of(device, "program"),
           number_of(device, "lid"),
           strcmp(text_of(device, "link"), "ib") == 0 ? "InfiniBand" : "RoCE",
           text_of(device, "mode"), json_array_size(json_object_get(device, "queues")),
           number_of(device, "keys_in_all"), number_of(device, "doorbells"),
           number_of(device, "requests"), number_of(device, "errors"));
    if (options->queues)
        print_queues(device);
    if (options->keys)
        print_keys(device);
    print_log(device);
}

/* ---------------------------------------------------------------------------------- the command */

static error_t parse_hca(int key, char *argument, struct argp_state *state)
{
    struct hca_options *options = state->input;
    char *end;
    switch (key) {
    case 'j':
        options->json = true;
        return 0;
    case 'k':
        options->keys = true;
        return 0;
    case 's':
        options->queues = false;
        return 0;
    case ARGP_KEY_ARG:
        options->pid = (int)strtol(argument, &end, 10);
        if (state->arg_num)
            argp_error(state, "unexpected \"%s\"; one process id is expected", argument);
        if (*end || options->pid <= 0)
            argp_error(state, "\"%s\" is not a process id", argument);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int cmd_hca(int argc, char **argv)
{
    static const struct argp_option known[] = {
        {"json", 'j', NULL, 0, "print a JSON array", 0},
        {"keys", 'k', NULL, 0, "show memory keys too", 0},
        {"short", 's', NULL, 0, "one line for each adapter, and its error log", 0},
        {0},
    };
    static const struct argp argp = {
        .options = known,
        .parser = parse_hca,
        .args_doc = "[PID]",
        .doc =
            "Show the software adapters (WEFT_HCA=soft, or libweft_hca under any program) of this "
            "user's processes, or of process PID: queues with their states and counters, memory "
            "keys, the last lines of the error log. Exit status 1 when there is none."};
    struct hca_options options = {.queues = true};
    int silent;
    cli_parse(&argp, argc, argv, 0, &options);
    json_t *all = query_all_adapters(&options, &silent), *device;
    size_t i, n = json_array_size(all);
    if (options.json) {
        json_dumpf(all, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER);
        putchar('\n');
    } else {
        json_array_foreach(all, i, device) print_device(device, &options);
    }
    if (!n && options.pid)
        fprintf(stderr, "weft hca: process %d has no software adapter open\n", options.pid);
    else if (!n)
        fprintf(stderr, "weft hca: no process of this user has a software adapter open\n");
    if (silent && !options.pid)
        fprintf(stderr, "weft hca: %d software adapter%s did not answer\n", silent,
                silent > 1 ? "s" : "");
    json_decref(all);
    return n ? EXIT_GOOD : EXIT_FAULT;
}
