/* SPDX-License-Identifier: Apache-2.0 */
/* The PEs of one node connect with each other. Sockets, random numbers and the rendezvous are
 * fakes. Also tested: a job of one PE. */
#include "base/status.h"
#include "boot/hub/member.h"
#include "boot/methods.h"
#include "boot/rendezvous/rendezvous.h"
#include "callocs.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

/* Bytes of a record: 1 for the length of the name, 15 for the name, 31 random ones. */
enum { PES = 5, CARD = 47 };

static struct {
    int first; /* descriptor of the socket */
    int fails; /* number of the call that fails, from 1 */
    int opened, closed;
    size_t name_bytes;

    unsigned char sent[CARD], leader[CARD];
    weft_status gather, accept, connect, init;
    int refused;
    struct rendezvous rendezvous;
    struct rendezvous_address at;
    int listening, inits, n, me;
    const int *pes;
    struct wire *wires;
    int from, fd, shares;
} os;

static bool fails(int call, int error)
{
    errno = error;
    return os.fails == call;
}

int __wrap_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol)
{
    assert_int_equal(family, AF_UNIX);
    assert_int_equal(type, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_int_equal(protocol, 0);
    if (fails(1, EMFILE))
        return -1;
    os.opened++;
    return os.first;
}

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t bytes);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
    assert_int_equal(fd, os.first);
    assert_int_equal(address->sa_family, AF_UNIX);
    assert_int_equal(bytes, sizeof address->sa_family);
    return fails(2, EINVAL) ? -1 : 0;
}

int __wrap_listen(int fd, int most);
int __wrap_listen(int fd, int most)
{
    assert_int_equal(fd, os.first);
    assert_int_equal(most, 4096);
    return fails(3, EINVAL) ? -1 : 0;
}

int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *bytes);
int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *bytes)
{
    assert_int_equal(fd, os.first);
    assert_int_equal(*bytes, sizeof(struct sockaddr_un));
    if (fails(4, EINVAL))
        return -1;
    memcpy(((struct sockaddr_un *)(void *)address)->sun_path, "\0name_of_socket_", os.name_bytes);
    *bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + os.name_bytes);
    return 0;
}

ssize_t __wrap_getrandom(void *bytes, size_t n, unsigned flags);
ssize_t __wrap_getrandom(void *bytes, size_t n, unsigned flags)
{
    assert_int_equal(n, 31);
    assert_int_equal(flags, 0);
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)bytes)[i] = (unsigned char)(i * 9 + 3);
    return fails(5, EAGAIN) ? -1 : (ssize_t)n;
}

int __wrap_close(int fd);
int __wrap_close(int fd)
{
    assert_int_equal(fd, os.first);
    os.closed++;
    return 0;
}

static weft_status still(void *argument)
{
    return os.rendezvous.still_wanted(argument);
}

weft_status __wrap_rendezvous_accept(const struct rendezvous *rendezvous, int listening,
                                     struct wire *wires);
weft_status __wrap_rendezvous_accept(const struct rendezvous *rendezvous, int listening,
                                     struct wire *wires)
{
    os.rendezvous = *rendezvous;
    os.listening = listening;
    os.wires = wires;
    assert_int_equal(os.closed, 0);
    return os.accept ? base_fail(os.accept, "not all came") : WEFT_OK;
}

weft_status __wrap_rendezvous_connect(const struct rendezvous *rendezvous,
                                      const struct rendezvous_address *addresses, int count,
                                      struct wire *wire);
weft_status __wrap_rendezvous_connect(const struct rendezvous *rendezvous,
                                      const struct rendezvous_address *addresses, int count,
                                      struct wire *wire)
{
    assert_int_equal(count, 1);
    os.rendezvous = *rendezvous;
    os.at = *addresses;
    os.wires = wire;
    return os.connect ? base_fail(os.connect, "nobody there") : WEFT_OK;
}

weft_status __wrap_member_init(struct member *member, int n, int me, const int *pes,
                               struct wire *wires);
weft_status __wrap_member_init(struct member *member, int n, int me, const int *pes,
                               struct wire *wires)
{
    *member = (struct member){.n = n};
    os.inits++;
    os.n = n;
    os.me = me;
    os.pes = pes;
    assert_ptr_equal(wires, os.wires);
    free(wires);
    return os.init;
}

void __wrap_member_refuse(struct wire *wires, int n, weft_status why);
void __wrap_member_refuse(struct wire *wires, int n, weft_status why)
{
    assert_ptr_equal(wires, os.wires);
    assert_int_equal(why, os.accept);
    assert_int_equal(n, 3);
    os.refused++;
    free(wires);
}

weft_status __wrap_member_share_fd(struct member *member, int from, int fd, const int *to,
                                   int count, int *taken);
weft_status __wrap_member_share_fd(struct member *member, int from, int fd, const int *to,
                                   int count, int *taken)
{
    (void)member, (void)taken;
    assert_true(!to && !count);
    os.shares++;
    os.from = from;
    os.fd = fd;
    return WEFT_ERR_PATH;
}

/* ------------------------------------------------------------------------------ PEs of one node */

static int local_pes[] = {1, 3, 4};
static struct boot boot;
static struct member member;

static weft_status gather(struct boot *b, const void *mine, void *all, size_t bytes)
{
    assert_ptr_equal(b, &boot);
    assert_int_equal(bytes, CARD);
    memcpy(os.sent, mine, CARD);
    memset(all, 0x77, PES * CARD);
    memcpy((char *)all + local_pes[0] * (size_t)CARD, boot.local_pe ? os.leader : os.sent, CARD);
    return os.gather ? base_fail(os.gather, "no exchange") : WEFT_OK;
}

static weft_status check(struct boot *b)
{
    assert_ptr_equal(b, &boot);
    return WEFT_ERR_PEER_DEAD;
}

static const struct boot_ops ops = {.allgather = gather, .check = check};

static void reset(int local_pe, int npes)
{
    memset(&os, 0, sizeof os);
    memset(&member, 0x55, sizeof member);
    os.first = 60;
    callocs = (struct callocs){.left = -1};
    os.listening = -1;
    os.name_bytes = 15;
    os.leader[0] = 9;
    memcpy(os.leader + 1, "\0abcdefgh", 9);
    for (int i = 16; i < CARD; i++)
        os.leader[i] = (unsigned char)(i * 9 + 3 - 16 * 9);
    boot = (struct boot){.ops = &ops,
                         .pe = local_pes[local_pe],
                         .npes = PES,
                         .local_pe = local_pe,
                         .local_npes = npes,
                         .local_pes = local_pes};
}

static void check_meeting(void)
{
    char job[64] = "";
    for (int i = 0; i < 31; i++)
        snprintf(job + (size_t)(2 * i), 3, "%02x", (i * 9 + 3) & 0xff);
    assert_string_equal(os.rendezvous.job, job);
    assert_string_equal(os.rendezvous.what, "local start");
    assert_int_equal(os.rendezvous.n, 3);
    assert_int_equal(os.rendezvous.me, boot.local_pe);
    assert_null(os.rendezvous.key);
    assert_int_equal(still(os.rendezvous.argument), WEFT_ERR_PEER_DEAD);
    assert_int_equal(os.inits, 1);
    assert_int_equal(os.n, 3);
    assert_int_equal(os.me, boot.local_pe);
    assert_ptr_equal(os.pes, local_pes);
}

static void the_first_of_a_node_listens(void **state)
{
    (void)state;
    for (int first = 0; first < 61; first += 60) {
        reset(0, 3);
        os.first = first;
        assert_int_equal(boot_local_connect(&boot, &member), WEFT_OK);
        assert_int_equal(os.listening, first);
        assert_int_equal(os.opened, 1);
        assert_int_equal(os.closed, 1);
        assert_int_equal(os.sent[0], 15);
        assert_memory_equal(os.sent + 1, "\0name_of_socket", 15);
        check_meeting();
        assert_ptr_equal(member.boot, &boot);
        assert_int_equal(callocs.memory, 0);
    }
    reset(0, 1); /* a single PE does not listen */
    assert_int_equal(boot_local_connect(&boot, &member), WEFT_OK);
    assert_int_equal(os.opened + os.closed, 0);
    assert_int_equal(os.n, 1);
}

static void the_others_connect(void **state)
{
    (void)state;
    for (int bytes = 9; bytes < 16; bytes += 6) {
        reset(2, 3);
        os.leader[0] = (unsigned char)bytes;
        assert_int_equal(boot_local_connect(&boot, &member), WEFT_OK);
        const struct sockaddr_un *name = (const void *)&os.at.address;
        assert_int_equal(name->sun_family, AF_UNIX);
        assert_memory_equal(name->sun_path, os.leader + 1, (size_t)bytes);
        assert_int_equal(os.at.bytes, offsetof(struct sockaddr_un, sun_path) + (unsigned)bytes);
        for (int i = 0; i < CARD; i++)
            assert_int_equal(os.sent[i], 0);
        check_meeting();
        assert_int_equal(os.opened + os.closed, 0);
        assert_ptr_equal(member.boot, &boot);
        assert_int_equal(callocs.memory, 0);
    }
    reset(2, 3);
    os.leader[0] = 16;
    assert_int_equal(boot_local_connect(&boot, &member), WEFT_ERR_BOOT);
    assert_string_equal(base_last_error(), "the first PE of this node has a bad socket name");
    assert_int_equal(callocs.memory, 0);
}

static void listening_fails(void **state)
{
    static const char *const words[] = {"Too many open files; raise the limit of open files",
                                        "Invalid argument", "Invalid argument", "Invalid argument",
                                        "Resource temporarily unavailable"};
    (void)state;
    for (int call = 1; call < 6; call++) {
        reset(0, 3);
        os.fails = call;
        assert_int_equal(boot_local_connect(&boot, &member), WEFT_ERR_SYSTEM);
        assert_non_null(strstr(base_last_error(), "a local socket for passing descriptors: "));
        assert_non_null(strstr(base_last_error(), words[call - 1]));
        assert_int_equal(strstr(base_last_error(), "raise") != NULL, call == 1);
        assert_int_equal(os.closed, os.opened);
        assert_int_equal(os.inits, 0);
        assert_int_equal(callocs.memory, 0);
    }
    reset(0, 3);
    os.name_bytes = 16;
    assert_int_equal(boot_local_connect(&boot, &member), WEFT_ERR_SYSTEM);
    assert_int_equal(os.closed, 1);
}

static void meeting_fails(void **state)
{
    static const struct {
        int local_pe, left;
        weft_status gather, accept, connect, init, status;
        const char *words;
    } rows[] = {
        {0, -1, WEFT_ERR_PATH, 0, 0, 0, WEFT_ERR_PATH, "no exchange"},
        {2, -1, WEFT_ERR_PATH, 0, 0, 0, WEFT_ERR_PATH, "no exchange"},
        {0, -1, 0, WEFT_ERR_TIMEOUT, 0, 0, WEFT_ERR_TIMEOUT, "not all came"},
        {2, -1, 0, 0, WEFT_ERR_TIMEOUT, 0, WEFT_ERR_TIMEOUT, "nobody there"},
        {0, 0, 0, 0, 0, 0, WEFT_ERR_NO_MEMORY, "no memory for 5 PEs"},
        {0, 1, 0, 0, 0, 0, WEFT_ERR_NO_MEMORY, "no memory for 3 PEs"},
        {2, -1, 0, 0, 0, WEFT_ERR_SYSTEM, WEFT_ERR_SYSTEM, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        reset(rows[i].local_pe, 3);
        callocs.left = rows[i].left;
        os.gather = rows[i].gather;
        os.accept = rows[i].accept;
        os.connect = rows[i].connect;
        os.init = rows[i].init;
        assert_int_equal(boot_local_connect(&boot, &member), rows[i].status);
        assert_non_null(strstr(base_last_error(), rows[i].words));
        assert_int_equal(os.closed, os.opened);
        assert_int_equal(os.refused, rows[i].accept != 0);
        assert_int_equal(os.inits, rows[i].init != 0);
        assert_int_equal(callocs.memory, 0);
        if (rows[i].init)
            assert_null(member.boot);
    }
}

static void descriptors_come_from_this_node_alone(void **state)
{
    int taken = 7;
    (void)state;
    reset(1, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(boot_local_share(&boot, &member, local_pes[i], 5 + i, &taken),
                         WEFT_ERR_PATH);
        assert_int_equal(os.from, i);
        assert_int_equal(os.fd, 5 + i);
    }
    assert_int_equal(boot_local_share(&boot, &member, 2, 5, &taken), WEFT_ERR_PE);
    assert_int_equal(taken, -1);
    assert_int_equal(os.shares, 3);
    assert_string_equal(base_last_error(),
                        "PE 2 is not on the node of PE 3 and cannot share a descriptor");
}

/* --------------------------------------------------------------------------------- a job of one */

static void alone(void **state)
{
    int mine = 5, all = 6, taken = -1;
    struct boot *one = NULL;
    (void)state;
    reset(0, 1);
    for (callocs.left = 0; boot_open_single(&one); callocs.memory = 0) {
        assert_null(one);
        assert_int_equal(callocs.memory, 0);
        static int more;
        callocs.left = ++more;
        assert_true(more < 4);
    }
    assert_true(one->pe == 0 && one->npes == 1 && one->nodes == 1 && one->local_npes == 1);
    assert_int_equal(one->ops->allgather(one, &mine, &all, 0), WEFT_OK);
    assert_int_equal(all, 6);
    assert_int_equal(one->ops->allgather(one, &mine, &all, sizeof all), WEFT_OK);
    assert_int_equal(all, 5);
    assert_int_equal(one->ops->barrier(one), WEFT_OK);
    assert_int_equal(one->ops->check(one), WEFT_OK);
    one->ops->abort(one, 1, "");
    (one->ops->fail)(one, WEFT_ERR_PATH, "");
    one->ops->forked(one);
    assert_int_equal(one->ops->share_fd(one, 0, 999, &taken), WEFT_ERR_SYSTEM);
    assert_string_equal(base_last_error(), "duplicating descriptor 999: Bad file descriptor");
    assert_int_equal(one->ops->share_fd(one, 0, 2, &taken), WEFT_OK);
    assert_true(taken > 2 && fcntl(taken, F_GETFD) & FD_CLOEXEC);
    os.first = taken;
    one->ops->close(one, true);
    assert_int_equal(callocs.memory, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_of_a_node_listens),
        cmocka_unit_test(the_others_connect),
        cmocka_unit_test(listening_fails),
        cmocka_unit_test(meeting_fails),
        cmocka_unit_test(descriptors_come_from_this_node_alone),
        cmocka_unit_test(alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
