/* SPDX-License-Identifier: Apache-2.0 */
/* A PE that `weft run` has started: what it reads from its environment and what it rejects, that it
 * joins one job at a time, and that its operations are those of a member. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/unit/held_locks.h"

#include "base/config.h"
#include "base/status.h"
#include "boot/hub/member.h"
#include "boot/methods.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* -------------------------------------------------------------------------------------- members */

static struct {
    struct member *member;
    int n, me, fd, calls, code, from, count;
    const void *mine, *to;
    void *all;
    size_t bytes;
    bool clean;
    const char *name, *sentence;
    weft_status status, init_status;
    int *taken;
} did;

static void note(struct member *member, const char *name)
{
    if (did.member)
        assert_ptr_equal(member, did.member);
    did.member = member;
    did.name = name;
    did.calls++;
}

weft_status __wrap_member_init_launched(struct member *member, int n, int me, int fd);
weft_status __wrap_member_init_launched(struct member *member, int n, int me, int fd)
{
    did.member = NULL;
    note(member, "init");
    did.n = n;
    did.me = me;
    did.fd = fd;
    return did.init_status ? base_fail(did.init_status, "no init") : WEFT_OK;
}

weft_status __wrap_member_allgather(struct member *member, const void *mine, void *all,
                                    size_t bytes);
weft_status __wrap_member_allgather(struct member *member, const void *mine, void *all,
                                    size_t bytes)
{
    note(member, "allgather");
    did.mine = mine;
    did.all = all;
    did.bytes = bytes;
    return did.status;
}

weft_status __wrap_member_share_fd(struct member *member, int from, int fd, const int *to,
                                   int count, int *taken);
weft_status __wrap_member_share_fd(struct member *member, int from, int fd, const int *to,
                                   int count, int *taken)
{
    note(member, "share");
    did.from = from;
    did.fd = fd;
    did.to = to;
    did.count = count;
    did.taken = taken;
    return did.status;
}

void __wrap_member_abort(struct member *member, int code, const char *sentence);
void __wrap_member_abort(struct member *member, int code, const char *sentence)
{
    note(member, "abort");
    did.code = code;
    did.sentence = sentence;
}

void __wrap_member_fail(struct member *member, weft_status why, const char *sentence);
void __wrap_member_fail(struct member *member, weft_status why, const char *sentence)
{
    note(member, "fail");
    did.code = why;
    did.sentence = sentence;
}

weft_status __wrap_member_check(struct member *member);
weft_status __wrap_member_check(struct member *member)
{
    note(member, "check");
    return did.status;
}

void __wrap_member_forked(struct member *member);
void __wrap_member_forked(struct member *member)
{
    note(member, "forked");
}

void __wrap_member_close(struct member *member, bool clean);
void __wrap_member_close(struct member *member, bool clean)
{
    note(member, "close");
    did.clean = clean;
    base_fail(WEFT_ERR_SYSTEM, "closing failed too");
}

static struct {
    int one, several;
    weft_status status;
} nodes;

weft_status __real_boot_one_node(struct boot *boot);
weft_status __wrap_boot_one_node(struct boot *boot);
weft_status __wrap_boot_one_node(struct boot *boot)
{
    nodes.one++;
    return nodes.status ? base_fail(nodes.status, "no nodes") : __real_boot_one_node(boot);
}

weft_status __wrap_boot_find_nodes(struct boot *boot);
weft_status __wrap_boot_find_nodes(struct boot *boot)
{
    nodes.several++;
    return nodes.status ? base_fail(nodes.status, "no nodes") : __real_boot_one_node(boot);
}

static int memory, left = -1; /* blocks allocated; allocations until one fails, -1 = none */
static void *blocks[8];

void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes)
{
    void *made = left-- ? __real_calloc(n, bytes) : NULL;
    for (int i = 0; i < 8 && made; i++)
        if (!blocks[i]) {
            blocks[i] = made;
            memory++;
            break;
        }
    return made;
}

void __real_free(void *made);
void __wrap_free(void *made);
void __wrap_free(void *made)
{
    for (int i = 0; i < 8 && made; i++)
        if (blocks[i] == made) {
            blocks[i] = NULL;
            memory--;
        }
    __real_free(made);
}

static pid_t process = 77;
pid_t __wrap_getpid(void);
pid_t __wrap_getpid(void)
{
    return process;
}

/* ----------------------------------------------------------------------------------------- boot */

static void environment(int fd, const char *pe, const char *npes)
{
    char number[24];
    snprintf(number, sizeof number, "%d", fd);
    setenv("WEFT_BOOT_SOCKET", number, 1);
    setenv("WEFT_PE", pe, 1);
    setenv("WEFT_PES", npes, 1);
    config_reset();
}

static void refused(weft_status status, const char *words)
{
    struct boot *boot = NULL;
    assert_int_equal(boot_open_launcher(&boot), status);
    assert_non_null(strstr(base_last_error(), words));
    assert_null(boot);
    assert_int_equal(memory, 0);
    assert_true(none_is_held());
}

/* The environment is used only if all variables are as `weft run` sets them. */
static void what_is_not_from_weft_run_is_refused(void **state)
{
    static const struct {
        const char *pe, *npes;
    } rows[] = {{"0", "0"}, {"-1", "3"}, {"3", "3"}, {"1", "16385"}};
    int local[2], packets[2], other = socket(AF_INET, SOCK_STREAM, 0);
    char words[60];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, local), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, packets), 0);
    unsetenv("WEFT_BOOT_SOCKET");
    config_reset();
    assert_false(boot_launcher_known());
    refused(WEFT_ERR_BOOT, "WEFT_BOOT_SOCKET is not set");
    environment(packets[0], "1", "3");
    assert_true(boot_launcher_known());
    refused(WEFT_ERR_VERSION, "weft run uses the protocol of another version");
    environment(other, "1", "3");
    snprintf(words, sizeof words, "WEFT_BOOT_SOCKET is %d, which is not a socket", other);
    refused(WEFT_ERR_BOOT, words);
    environment(998, "1", "3");
    refused(WEFT_ERR_BOOT, "WEFT_BOOT_SOCKET is 998, which is not a socket");
    setenv("WEFT_BOOT_SOCKET", "4294967296", 1); /* its lower 32 bits are 0 */
    config_reset();
    refused(WEFT_ERR_BOOT, "WEFT_BOOT_SOCKET is 4294967296, which is not a socket");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        environment(local[0], rows[i].pe, rows[i].npes);
        snprintf(words, sizeof words, "WEFT_PE is %s and WEFT_PES is %s: ", rows[i].pe,
                 rows[i].npes);
        refused(WEFT_ERR_BOOT, words);
    }
    assert_int_equal(fcntl(local[0], F_GETFD), 0);
    assert_non_null(getenv("WEFT_BOOT_SOCKET"));
    assert_int_equal(did.calls, 0);
    for (int i = 0; i < 2; i++)
        close(local[i]), close(packets[i]);
    close(other);
}

static int ends[2];

static struct boot *opened(void)
{
    struct boot *boot = NULL;
    assert_int_equal(boot_open_launcher(&boot), WEFT_OK);
    assert_int_equal(did.n, 16384);
    assert_int_equal(did.me, 16383);
    assert_int_equal(did.fd, ends[0]);
    assert_int_equal(boot->pe, 16383);
    assert_int_equal(boot->npes, 16384);
    assert_string_equal(boot->ops->name, "weft run");
    assert_true(none_is_held());
    return boot;
}

static void closed(struct boot *boot)
{
    boot->ops->close(boot, true);
    assert_string_equal(did.name, "close");
    assert_true(did.clean);
    assert_int_equal(memory, 0);
}

/* The environment is read once; the socket serves successive jobs. */
static void one_job_at_a_time(void **state)
{
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    environment(ends[0], "16383", "16384");
    struct boot *boot = opened();
    assert_int_equal(nodes.one, 1);
    assert_int_equal(nodes.several, 0);
    assert_true(fcntl(ends[0], F_GETFD) & FD_CLOEXEC);
    assert_true(!getenv("WEFT_BOOT_SOCKET") && !getenv("WEFT_PE") && !getenv("WEFT_PES"));
    config_reset();
    struct boot *second = NULL;
    assert_int_equal(boot_open_launcher(&second), WEFT_ERR_BOOT);
    assert_non_null(strstr(base_last_error(), "is already in the job of weft run"));
    assert_null(second);
    assert_true(boot_launcher_known());
    closed(boot);
    closed(opened());
    process = 78; /* a forked child */
    assert_false(boot_launcher_known());
    refused(WEFT_ERR_BOOT, "this process was forked by a PE of weft run");
    process = 77;
    assert_true(boot_launcher_known());
}

/* After any failure, the PE can join the next job. */
static void what_fails_leaves_nothing(void **state)
{
    (void)state;
    left = 0;
    refused(WEFT_ERR_NO_MEMORY, "no memory for the connection to the launcher");
    left = -1;
    did.init_status = WEFT_ERR_PATH;
    refused(WEFT_ERR_PATH, "no init");
    assert_string_equal(did.name, "init");
    did.init_status = WEFT_OK;
    nodes.status = WEFT_ERR_TIMEOUT;
    did.clean = true;
    refused(WEFT_ERR_TIMEOUT, "no nodes");
    assert_string_equal(did.name, "close");
    assert_false(did.clean);
    nodes.status = WEFT_OK;
    closed(opened());
}

static void several_nodes_are_found_by_an_exchange(void **state)
{
    static const struct {
        const char *node, *part;
        bool several;
    } rows[] = {{"-1", "0", false}, {"0", "0", true}, {"3", "0", true}, {"-1", "1", true}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        memset(&nodes, 0, sizeof nodes);
        setenv("WEFT_BOOT_NODE", rows[i].node, 1);
        setenv("WEFT_TEST_NODE_PES", rows[i].part, 1);
        config_reset();
        closed(opened());
        assert_int_equal(nodes.several, rows[i].several);
        assert_int_equal(nodes.one, !rows[i].several);
    }
    unsetenv("WEFT_BOOT_NODE");
    unsetenv("WEFT_TEST_NODE_PES");
    config_reset();
}

static void its_operations_are_a_members(void **state)
{
    int mine, all, taken;
    (void)state;
    struct boot *boot = opened();
    did.status = WEFT_ERR_PATH;
    assert_int_equal(boot->ops->allgather(boot, &mine, &all, 7), WEFT_ERR_PATH);
    assert_string_equal(did.name, "allgather");
    assert_ptr_equal(did.mine, &mine);
    assert_ptr_equal(did.all, &all);
    assert_int_equal(did.bytes, 7);
    assert_int_equal(boot->ops->barrier(boot), WEFT_ERR_PATH);
    assert_true(!did.mine && !did.all && !did.bytes);
    boot->local_npes = 5;
    for (int n = 1; n < 3; n++) { /* with several nodes: only to the PEs of this node */
        boot->nodes = n;
        assert_int_equal(boot->ops->share_fd(boot, 3, 9, &taken), WEFT_ERR_PATH);
        assert_int_equal(did.from, 3);
        assert_int_equal(did.fd, 9);
        assert_ptr_equal(did.to, n > 1 ? boot->local_pes : NULL);
        assert_int_equal(did.count, 5);
        assert_ptr_equal(did.taken, &taken);
    }
    did.fd = ends[0];
    boot->ops->abort(boot, 6, "enough");
    assert_string_equal(did.name, "abort");
    assert_string_equal(did.sentence, "enough");
    assert_int_equal(did.code, 6);
    (boot->ops->fail)(boot, WEFT_ERR_RANGE, "failed");
    assert_string_equal(did.name, "fail");
    assert_string_equal(did.sentence, "failed");
    assert_int_equal(did.code, WEFT_ERR_RANGE);
    assert_int_equal(boot->ops->check(boot), WEFT_ERR_PATH);
    assert_string_equal(did.name, "check");
    boot->ops->forked(boot);
    assert_string_equal(did.name, "forked");
    did.status = WEFT_OK;
    closed(boot);
    for (int i = 0; i < 2; i++)
        close(ends[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_from_weft_run_is_refused),
        cmocka_unit_test(one_job_at_a_time),
        cmocka_unit_test(what_fails_leaves_nothing),
        cmocka_unit_test(several_nodes_are_found_by_an_exchange),
        cmocka_unit_test(its_operations_are_a_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
