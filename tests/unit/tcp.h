/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of PEs that find each other by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. The
 * environment, host names, sockets, rendezvous and members are fakes. The program wraps the
 * functions that are defined here as __wrap_. */
#ifndef WEFT_TESTS_TCP_H
#define WEFT_TESTS_TCP_H

#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "boot/hub/member.h"
#include "boot/methods.h"
#include "boot/rendezvous/listen.h"
#include "boot/rendezvous/rendezvous.h"
#include "callocs.h"
#include "driver/crypto.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

/* ---------------------------------------------------------------------------------------- fakes */

static struct {
    int fd, binds, closes, reuses, any, bind_errors[80], resolved, freed;
    int resolve_error;
    uint16_t ports[80];
    struct rendezvous meeting;
    struct rendezvous_address at[64];
    int count, accepts, connects, listening, inits, n, me, refused, singles, log_pe;
    struct wire *wires;
    weft_status accept, connect, init, nodes, local, crypto;
    int several, locals, closed[2], aborted[2], failed[2], forked[2], checks[2];
    bool clean;
    weft_status status[2], fail_status; /* results of the check of the job and of the node */
    const char *sentence;
    char said[100], warning[200];
} os;

static struct member *world, *node;
static struct addrinfo found[5];
static struct sockaddr_in v4 = {.sin_family = AF_INET};
static struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
static struct sockaddr_un local_name = {.sun_family = AF_UNIX};
static int addresses;

int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                       struct addrinfo **list);
int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                       struct addrinfo **list)
{
    assert_string_equal(host, "master");
    assert_null(service);
    assert_int_equal(hints->ai_family, AF_UNSPEC);
    assert_int_equal(hints->ai_socktype, SOCK_STREAM);
    os.resolved++;
    for (int i = 0; i < addresses; i++)
        found[i].ai_next = i + 1 < addresses ? &found[i + 1] : NULL;
    *list = addresses ? found : NULL;
    errno = EMFILE;
    return os.resolve_error;
}

void __wrap_freeaddrinfo(struct addrinfo *list);
void __wrap_freeaddrinfo(struct addrinfo *list)
{
    assert_ptr_equal(list, addresses ? found : NULL);
    os.freed++;
}

int __wrap_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol)
{
    assert_true(family == AF_INET || family == AF_INET6 || family == AF_UNIX);
    assert_int_equal(type, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_int_equal(protocol, 0);
    return os.fd;
}

int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t bytes);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t bytes)
{
    assert_int_equal(fd, os.fd);
    assert_true(level == SOL_SOCKET && option == SO_REUSEADDR && bytes == sizeof(int));
    os.reuses += *(const int *)value;
    return 0;
}

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t bytes);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
    const struct sockaddr_in *in4 = (const void *)address;
    const struct sockaddr_in6 *in6 = (const void *)address;
    assert_int_equal(fd, os.fd);
    if (address->sa_family == AF_INET) {
        assert_int_equal(bytes, sizeof *in4);
        os.any += in4->sin_addr.s_addr == 0;
    } else if (address->sa_family == AF_INET6) {
        assert_int_equal(bytes, sizeof *in6);
        os.any += memcmp(&in6->sin6_addr, &in6addr_any, sizeof in6addr_any) == 0;
    }
    os.ports[os.binds] = ntohs(in4->sin_port);
    errno = os.bind_errors[os.binds++];
    return errno ? -1 : 0;
}

int __wrap_listen(int fd, int most);
int __wrap_listen(int fd, int most)
{
    assert_int_equal(fd, os.fd);
    assert_int_equal(most, 4096);
    return 0;
}

int __wrap_close(int fd);
int __wrap_close(int fd)
{
    assert_int_equal(fd, os.fd);
    os.closes++;
    errno = EINTR;
    return 0;
}

uid_t __wrap_geteuid(void);
uid_t __wrap_geteuid(void)
{
    return 1234;
}

weft_status __wrap_rendezvous_connect(const struct rendezvous *meeting,
                                      const struct rendezvous_address *at, int count,
                                      struct wire *wire);
weft_status __wrap_rendezvous_connect(const struct rendezvous *meeting,
                                      const struct rendezvous_address *at, int count,
                                      struct wire *wire)
{
    os.connects++;
    os.meeting = *meeting;
    memcpy(os.at, at, (size_t)count * sizeof *at);
    os.count = count;
    os.wires = wire;
    return os.connect ? base_fail(os.connect, "nobody there") : WEFT_OK;
}

weft_status __wrap_rendezvous_accept(const struct rendezvous *meeting, int listening,
                                     struct wire *wires);
weft_status __wrap_rendezvous_accept(const struct rendezvous *meeting, int listening,
                                     struct wire *wires)
{
    os.accepts++;
    os.meeting = *meeting;
    os.listening = listening;
    os.wires = wires;
    return os.accept ? base_fail(os.accept, "not all came") : WEFT_OK;
}

weft_status __wrap_member_init(struct member *member, int n, int me, const int *pes,
                               struct wire *wires);
weft_status __wrap_member_init(struct member *member, int n, int me, const int *pes,
                               struct wire *wires)
{
    assert_null(pes);
    assert_ptr_equal(wires, os.wires);
    world = member;
    os.inits++;
    os.n = n;
    os.me = me;
    free(wires);
    return os.init ? base_fail(os.init, "no member") : WEFT_OK;
}

void __wrap_member_refuse(struct wire *wires, int n, weft_status why);
void __wrap_member_refuse(struct wire *wires, int n, weft_status why)
{
    assert_ptr_equal(wires, os.wires);
    assert_int_equal(n, 3);
    assert_int_equal(why, os.accept);
    os.refused++;
    free(wires);
}

weft_status __wrap_member_allgather(struct member *m, const void *mine, void *all, size_t bytes);
weft_status __wrap_member_allgather(struct member *m, const void *mine, void *all, size_t bytes)
{
    assert_ptr_equal(m, world);
    assert_int_equal(mine != NULL, bytes != 0);
    assert_int_equal(all != NULL, bytes != 0);
    return os.status[0] ? base_fail(os.status[0], "job %d", (int)bytes) : WEFT_OK;
}

weft_status __wrap_boot_local_share(struct boot *boot, struct member *m, int from, int fd,
                                    int *taken);
weft_status __wrap_boot_local_share(struct boot *boot, struct member *m, int from, int fd,
                                    int *taken)
{
    (void)boot;
    assert_ptr_equal(m, node);
    *taken = from * 100 + fd;
    return os.status[1] ? base_fail(os.status[1], "node %d", from) : WEFT_OK;
}

static int which(const struct member *m)
{
    assert_true(m == world || m == node);
    return m != world;
}

void __wrap_member_abort(struct member *m, int code, const char *sentence);
void __wrap_member_abort(struct member *m, int code, const char *sentence)
{
    assert_int_equal(code, 5);
    assert_string_equal(sentence, "enough");
    os.aborted[which(m)]++;
}

void __wrap_member_fail(struct member *m, weft_status why, const char *sentence);
void __wrap_member_fail(struct member *m, weft_status why, const char *sentence)
{
    os.failed[which(m)]++;
    os.fail_status = why;
    snprintf(os.said, sizeof os.said, "%s", sentence);
    base_fail(WEFT_ERR_TYPE, "something else");
}

weft_status __wrap_member_check(struct member *m);
weft_status __wrap_member_check(struct member *m)
{
    os.checks[which(m)]++;
    return os.status[which(m)] ? base_fail(os.status[which(m)], which(m) ? "node" : "job")
                               : WEFT_OK;
}

void __wrap_member_forked(struct member *m);
void __wrap_member_forked(struct member *m)
{
    os.forked[which(m)]++;
}

void __wrap_member_close(struct member *m, bool clean);
void __wrap_member_close(struct member *m, bool clean)
{
    os.closed[which(m)]++;
    os.clean = clean;
    if (m == node)
        assert_int_equal(os.closed[0], 0); /* the node's member is closed first */
    base_fail(WEFT_ERR_TYPE, "something else");
}

weft_status __wrap_boot_find_nodes(struct boot *boot);
weft_status __wrap_boot_find_nodes(struct boot *boot)
{
    boot->nodes = os.several ? 2 : 1;
    return os.nodes ? base_fail(os.nodes, "no nodes") : WEFT_OK;
}

weft_status __wrap_boot_local_connect(struct boot *boot, struct member *m);
weft_status __wrap_boot_local_connect(struct boot *boot, struct member *m)
{
    (void)boot;
    os.locals++;
    node = m;
    assert_int_equal(m->epoll, -1);
    return os.local ? base_fail(os.local, "no node") : WEFT_OK;
}

weft_status __wrap_boot_open_single(struct boot **boot);
weft_status __wrap_boot_open_single(struct boot **boot)
{
    (void)boot;
    os.singles++;
    return WEFT_OK;
}

weft_status __wrap_crypto_load(const struct crypto_driver **driver);
weft_status __wrap_crypto_load(const struct crypto_driver **driver)
{
    (void)driver;
    return os.crypto ? base_fail(os.crypto, "no crypto") : WEFT_OK;
}

void __wrap_log_line(enum log_level level, enum log_subsystem subsystem, const char *format, ...);
void __wrap_log_line(enum log_level level, enum log_subsystem subsystem, const char *format, ...)
{
    va_list list;
    assert_int_equal(level, LOG_WARN);
    va_start(list, format);
    vsnprintf(os.warning, sizeof os.warning, format, list);
    va_end(list);
}

void __wrap_log_set_pe(int pe);
void __wrap_log_set_pe(int pe)
{
    os.log_pe = pe;
}

/* ----------------------------------------------------------------------------------------- boot */

static void set(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
    config_reset();
}

/* Resets the fakes and makes this process PE `rank` of three. */
static void reset(const char *rank)
{
    memset(&os, 0, sizeof os);
    callocs = (struct callocs){.left = -1};
    os.fd = 60;
    os.listening = os.log_pe = -1;
    world = node = NULL;
    memcpy(&v4.sin_addr, (unsigned char[]){127, 1, 2, 3}, 4);
    v6.sin6_addr = in6addr_loopback;
    found[0] = (struct addrinfo){
        .ai_family = AF_INET, .ai_addr = (struct sockaddr *)&v4, .ai_addrlen = sizeof v4};
    found[1] = (struct addrinfo){.ai_family = AF_UNIX,
                                 .ai_addr = (struct sockaddr *)&local_name,
                                 .ai_addrlen = sizeof local_name};
    found[2] = (struct addrinfo){
        .ai_family = AF_INET6, .ai_addr = (struct sockaddr *)&v6, .ai_addrlen = sizeof v6};
    addresses = 3;
    set("RANK", rank);
    set("WORLD_SIZE", "3");
    set("MASTER_ADDR", "master");
    set("MASTER_PORT", "7000");
    set("WEFT_BOOT_PORT", NULL);
    set("WEFT_SECRET", NULL);
    set("LOCAL_WORLD_SIZE", NULL);
    set("TORCHELASTIC_RUN_ID", NULL);
    set("TORCHELASTIC_RESTART_COUNT", NULL);
}

static inline struct boot *opened(void)
{
    struct boot *boot = NULL;
    assert_int_equal(boot_open_tcp(&boot), WEFT_OK);
    assert_non_null(boot);
    assert_string_equal(boot->ops->name, "tcp");
    assert_int_equal(callocs.memory, 1);
    assert_ptr_equal(world->boot, boot);
    return boot;
}

static inline void closed(struct boot *boot)
{
    boot->ops->close(boot, true);
    assert_true(os.clean);
    assert_int_equal(os.closed[0], 1);
    assert_int_equal(os.closed[1], node != NULL);
    assert_int_equal(callocs.memory, 0);
}

#endif
