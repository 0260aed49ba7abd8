/* SPDX-License-Identifier: Apache-2.0 */
/* `weft hca` (hca.c): which sockets it queries, whose answers it accepts, how long it waits, and
 * its whole output. The sockets and the clock are mocks. */
#include "commands.h"
#include "json_errors.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* ------------------------------------------------------------------------- mock system calls */

enum { OWN_USER = 1000, FD = 1500 };

static const char *sockets_text; /* contents of /proc/net/unix; NULL: no such file */

struct adapter {
    unsigned lid, uid;
    const char *answer; /* NULL: it does not answer */
    size_t piece;       /* bytes in one read; 0: all */
    bool refuses, unknown, deaf, breaks;
};

static struct adapter adapters[4];
static struct adapter *connected;
static size_t told;
static int64_t now_ms, each_look_ms;
static char call_log[4096];

/* The test reads what the command says itself. */
void json_errors_begin(void)
{
}

__attribute__((format(printf, 1, 2))) static void log_call(const char *format, ...)
{
    size_t used = strlen(call_log);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(call_log + used, sizeof call_log - used - 2, format, arguments);
    va_end(arguments);
    strcat(call_log, "\n");
}

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode)
{
    if (strcmp(path, "/proc/net/unix") != 0)
        return __real_fopen(path, mode);
    return sockets_text ? fmemopen((void *)(uintptr_t)sockets_text, strlen(sockets_text), "r")
                        : NULL;
}

uid_t __wrap_getuid(void);
uid_t __wrap_getuid(void)
{
    return OWN_USER;
}

int __wrap_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol)
{
    assert_int_equal(domain, AF_UNIX);
    assert_int_equal(type, SOCK_SEQPACKET | SOCK_CLOEXEC);
    return FD;
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t bytes);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
    const struct sockaddr_un *a = (const void *)address;
    char name[100];
    unsigned lid;
    size_t n = bytes - offsetof(struct sockaddr_un, sun_path);
    assert_int_equal(fd, FD);
    assert_int_equal(a->sun_family, AF_UNIX);
    assert_int_equal(a->sun_path[0], 0);
    snprintf(name, sizeof name, "%.*s", (int)n - 1, a->sun_path + 1);
    assert_int_equal(strlen(name), n - 1);
    log_call("connect %s", name);
    assert_int_equal(sscanf(name, "weft-hca-1000-%u", &lid), 1);
    connected = NULL;
    for (int i = 0; i < 4; i++)
        if (adapters[i].lid == lid)
            connected = &adapters[i];
    told = 0;
    return connected && !connected->refuses ? 0 : -1;
}

int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *bytes);
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *bytes)
{
    struct ucred *peer = value;
    assert_int_equal(level, SOL_SOCKET);
    assert_int_equal(option, SO_PEERCRED);
    assert_int_equal(*bytes, sizeof *peer);
    peer->uid = connected->uid;
    return connected->unknown ? -1 : 0;
}

ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
    assert_int_equal(flags, MSG_NOSIGNAL);
    log_call("send %.*s", (int)bytes, (const char *)data);
    return connected->deaf ? -1 : (ssize_t)bytes;
}

int __wrap_poll(struct pollfd *watched, nfds_t n, int limit_ms);
int __wrap_poll(struct pollfd *watched, nfds_t n, int limit_ms)
{
    assert_int_equal(n, 1);
    assert_int_equal(watched->fd, FD);
    assert_int_equal(watched->events, POLLIN);
    log_call("wait %d", limit_ms);
    return connected->answer ? 1 : 0;
}

ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags)
{
    size_t left = strlen(connected->answer) - told, n = left < bytes ? left : bytes;
    assert_int_equal(bytes, 65536);
    if (connected->piece && n > connected->piece)
        n = connected->piece;
    if (connected->breaks && told)
        return -1;
    memcpy(data, connected->answer + told, n);
    told += n;
    return (ssize_t)n;
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    if (fd != FD)
        return __real_close(fd);
    log_call("close");
    return 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    assert_int_equal(clock, CLOCK_MONOTONIC);
    *t = (struct timespec){now_ms / 1000, now_ms % 1000 * 1000000};
    now_ms += each_look_ms;
    return 0;
}

/* ------------------------------------------------------------------------------------ helpers */

static char printed[8192], said[1000];

static int run(const char *first, const char *second)
{
    char *out, *err;
    size_t out_bytes, err_bytes;
    FILE *usual_out = stdout, *usual_err = stderr;
    char words[3][40] = {"weft hca"};
    char *arguments[] = {words[0], words[1], words[2], NULL};
    snprintf(words[1], sizeof words[1], "%s", first ? first : "");
    snprintf(words[2], sizeof words[2], "%s", second ? second : "");
    int n = 1 + (first != NULL) + (second != NULL);
    arguments[n] = NULL;
    stdout = open_memstream(&out, &out_bytes);
    stderr = open_memstream(&err, &err_bytes);
    now_ms = 100500;
    *call_log = '\0';
    int status = cmd_hca(n, arguments);
    fclose(stdout);
    fclose(stderr);
    stdout = usual_out;
    stderr = usual_err;
    snprintf(printed, sizeof printed, "%s", out);
    snprintf(said, sizeof said, "%s", err);
    free(out);
    free(err);
    return status;
}

static int before(void **state)
{
    memset(adapters, 0, sizeof adapters);
    sockets_text = NULL;
    each_look_ms = 0;
    return 0;
}

#define LINE(lid) "0000: 00000002 00000000 00010000 0005 01 99 @weft-hca-1000-" lid "\n"

static const char full[] =
    "{\"device\":\"weft0\",\"pid\":77,\"program\":\"pro\\u0007gram\",\"lid\":12,\"link\":\"ib\","
    "\"mode\":\"soft\",\"keys_in_all\":5,\"doorbells\":21,\"requests\":22,\"errors\":23,"
    "\"queues\":["
    "{\"qpn\":18,\"type\":\"RC\",\"state\":\"RTS\",\"peer\":\"lid 3\",\"peer_qpn\":34,\"posted\":1,"
    "\"completed\":2,\"in_flight\":3,\"received\":4,\"errors\":5,\"retries\":6},"
    "{\"qpn\":19,\"type\":\"UD\",\"state\":\"INIT\",\"peer\":\"x\",\"peer_qpn\":0}],"
    "\"keys\":[{\"key\":255,\"address\":4096,\"bytes\":8192,\"pd\":9,\"access\":\"lw\"},"
    "{\"key\":256,\"address\":4097,\"bytes\":8193,\"pd\":10,\"access\":\"r\"}],"
    "\"log\":[\"l1\",\"l2\",\"l3\",4,\"l5\",\"l6\",\"l7\",\"l8\",\"l9\",\"l\\u001b10\"]}";

static const char poor[] = "{\"device\":\"weft1\",\"pid\":78,\"link\":\"roce\"}";

#define FIRST                                                                                      \
    "weft0 of process 77 (pro?gram): LID 12, InfiniBand, soft; 2 queues, 5 keys, 21 doorbells, "   \
    "22 "                                                                                          \
    "requests, 23 errors\n"
#define QUEUES                                                                                     \
    "  queue      type state  peer                     posted  completed in flight  received  "    \
    "errors retries\n"                                                                             \
    "  0x12       RC   RTS    lid 3 0x22                    1          2         3         4   "   \
    "    5 "                                                                                       \
    "      6\n"                                                                                    \
    "  0x13       UD   INIT   -                             0          0         0         0   "   \
    "    0 "                                                                                       \
    "      0\n"
#define LOG "  ! l3\n  ! l5\n  ! l6\n  ! l7\n  ! l8\n  ! l9\n  ! l?10\n"
#define KEYS                                                                                       \
    "  key        address                     bytes domain access (local write, write, read, "     \
    "atomic)\n"                                                                                    \
    "  0xff       0x1000                       8192      9 lw\n"                                   \
    "  0x100      0x1001                       8193     10 r\n"                                    \
    "  and 3 more\n"
#define SECOND                                                                                     \
    "weft1 of process 78 (): LID 0, RoCE, ; 0 queues, 0 keys, 0 doorbells, 0 requests, 0 errors\n"

static void two_adapters(void)
{
    sockets_text =
        "Num RefCount\n" LINE("12") LINE("3") LINE("12") "0000: 2 0 1 5 1 9 @weft-hca-1000-\n"
                                                         "0000: 2 0 1 5 1 9 @weft-hca-1001-4\n"
                                                         "0000: 2 0 1 5 1 9 @other\n";
    adapters[0] = (struct adapter){.lid = 12, .uid = OWN_USER, .answer = full, .piece = 100};
    adapters[1] = (struct adapter){.lid = 3, .answer = poor}; /* owned by root */
}

/* ------------------------------------------------------------------------------------ printing */

static void adapters_are_printed(void **state)
{
    two_adapters();
    assert_int_equal(run(NULL, NULL), EXIT_GOOD);
    assert_string_equal(said, "");
    assert_string_equal(printed, SECOND FIRST QUEUES LOG);
    assert_int_equal(run("--keys", NULL), EXIT_GOOD);
    assert_string_equal(printed, SECOND FIRST QUEUES KEYS LOG);
    assert_int_equal(run("--short", NULL), EXIT_GOOD);
    assert_string_equal(printed, SECOND FIRST LOG);
    assert_int_equal(run("--short", "77"), EXIT_GOOD);
    assert_string_equal(printed, FIRST LOG);
    assert_int_equal(run("78", NULL), EXIT_GOOD);
    assert_string_equal(printed, SECOND);
    assert_int_equal(run("--json", "78"), EXIT_GOOD);
    char expected[200];
    snprintf(expected, sizeof expected, "[%s]\n", poor);
    assert_string_equal(printed, expected);
    assert_int_equal(run("--json", NULL), EXIT_GOOD);
    assert_non_null(strstr(printed, "\"program\":\"pro?gram\""));
    assert_non_null(strstr(printed, "\"l?10\""));
    assert_int_equal(run("79", NULL), EXIT_FAULT);
    assert_string_equal(printed, "");
    assert_string_equal(said, "weft hca: process 79 has no software adapter open\n");
    assert_int_equal(run("--json", "79"), EXIT_FAULT);
    assert_string_equal(printed, "[]\n");
}

static void eight_lines_and_all_keys(void **state)
{
    sockets_text = LINE("5");
    adapters[0] = (struct adapter){.lid = 5,
                                   .uid = OWN_USER,
                                   .answer = "{\"keys_in_all\":1,\"keys\":[{\"key\":1}],"
                                             "\"log\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\","
                                             "\"7\",\"8\"]}"};
    assert_int_equal(run("--keys", NULL), EXIT_GOOD);
    assert_null(strstr(printed, "more"));
    assert_non_null(strstr(printed, "  ! 1\n"));
    assert_non_null(strstr(printed, "  ! 8\n"));
}

static void there_is_none(void **state)
{
    assert_int_equal(run(NULL, NULL), EXIT_FAULT);
    assert_string_equal(said, "weft hca: no process of this user has a software adapter open\n");
    assert_string_equal(printed, "");
    sockets_text = "nothing\n";
    assert_int_equal(run("5", NULL), EXIT_FAULT);
    assert_string_equal(said, "weft hca: process 5 has no software adapter open\n");
}

/* ------------------------------------------------------------------------------------ queries */

static void each_is_asked_once(void **state)
{
    two_adapters();
    run("--short", NULL);
    assert_memory_equal(call_log,
                        "connect weft-hca-1000-3\nsend show\nwait 2000\nwait 2000\nclose\n"
                        "connect weft-hca-1000-12\nsend show\nwait 2000\n",
                        100);
    assert_string_equal(call_log + strlen(call_log) - 16, "wait 2000\nclose\n");
}

static void who_does_not_answer(void **state)
{
    static const char *const none =
        "weft hca: no process of this user has a software adapter open\n";
    char expected[400];
    for (int how = 0; how < 6; how++) {
        before(NULL);
        sockets_text = LINE("5");
        adapters[0] = (struct adapter){.lid = 5,
                                       .uid = OWN_USER,
                                       .answer = how == 0   ? NULL
                                                 : how == 1 ? "{\"pid\":"
                                                            : poor,
                                       .refuses = how == 2,
                                       .deaf = how == 3,
                                       .breaks = how == 4,
                                       .unknown = how == 5};
        assert_int_equal(run(NULL, NULL), EXIT_FAULT);
        snprintf(expected, sizeof expected, "%s%sweft hca: 1 software adapter did not answer\n",
                 how == 5
                     ? "weft hca: user 0 holds the name of a software adapter of user 1000 (LID "
                       "5); it is skipped\n"
                     : "",
                 none);
        assert_string_equal(said, expected);
        assert_non_null(strstr(call_log, "close\n"));
        assert_int_equal(run("7", NULL), EXIT_FAULT); /* with one process this does not matter */
        assert_null(strstr(said, "did not answer"));
    }
    before(NULL);
    two_adapters();
    adapters[1].answer = NULL;
    adapters[2] = (struct adapter){.lid = 9, .uid = 1001, .answer = poor};
    sockets_text = LINE("3") LINE("9") LINE("12");
    assert_int_equal(run("--short", NULL), EXIT_GOOD);
    assert_string_equal(printed, FIRST LOG);
    assert_string_equal(said,
                        "weft hca: user 1001 holds the name of a software adapter of user 1000 "
                        "(LID 9); it is skipped\n"
                        "weft hca: 2 software adapters did not answer\n");
    assert_null(strstr(call_log, "connect weft-hca-1000-9\nsend"));
}

static void time_is_bounded(void **state)
{
    sockets_text = LINE("5");
    adapters[0] = (struct adapter){.lid = 5, .uid = OWN_USER, .answer = poor, .piece = 10};
    each_look_ms = 600; /* the limit for one adapter is 2 s */
    assert_int_equal(run(NULL, NULL), EXIT_FAULT);
    assert_string_equal(call_log,
                        "connect weft-hca-1000-5\nsend show\nwait 1400\nwait 800\nwait 200\n"
                        "close\n");
    each_look_ms = 500; /* no time is left after the fourth */
    run(NULL, NULL);
    assert_string_equal(call_log,
                        "connect weft-hca-1000-5\nsend show\nwait 1500\nwait 1000\nwait 500\n"
                        "close\n");
    sockets_text = LINE("5") LINE("6") LINE("7") LINE("8"); /* the limit for all adapters is 10 s */
    for (int i = 0; i < 4; i++)
        adapters[i] = (struct adapter){.lid = 5 + (unsigned)i, .uid = OWN_USER, .answer = poor};
    each_look_ms = 1500;
    run(NULL, NULL);
    assert_string_equal(call_log, "connect weft-hca-1000-5\nsend show\nwait 500\nclose\n"
                                  "connect weft-hca-1000-6\nsend show\nwait 500\nclose\n"
                                  "connect weft-hca-1000-7\nsend show\nclose\n"
                                  "connect weft-hca-1000-8\nsend show\nclose\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(adapters_are_printed, before),
        cmocka_unit_test_setup(eight_lines_and_all_keys, before),
        cmocka_unit_test_setup(there_is_none, before),
        cmocka_unit_test_setup(each_is_asked_once, before),
        cmocka_unit_test_setup(who_does_not_answer, before),
        cmocka_unit_test_setup(time_is_bounded, before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
