/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs started by RANK and MASTER_ADDR: unauthenticated peers, wrong secrets, PEs that die, wrong
 * variables. argv: the command weft, the program boot_victim. */
#include "fault/faults.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { HELLO_BYTES = 120 }; /* struct handshake_record */

static char *victim_program;
static int port;
static struct outcome outcomes[4];

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static pid_t start_rank(int rank, char *stage, char *victim)
{
    set_number("RANK", rank);
    return faults_start((char *[]){victim_program, stage, victim, NULL});
}

static int before(void **state)
{
    faults_remember();
    port = faults_port();
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    set_number("MASTER_PORT", port);
    set_number("WORLD_SIZE", 2);
    unsetenv("WEFT_SECRET");
    setenv("WEFT_WAIT_LIMIT", "20s", 1);
    return 0;
}

static int after(void **state)
{
    const char *names[] = {"RANK",        "WORLD_SIZE",     "MASTER_ADDR",
                           "MASTER_PORT", "WEFT_BOOT_PORT", "WEFT_SECRET"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
    faults_expect_nothing_left();
    return 0;
}

/* Runs three PEs, of which PE `victim` fails at `stage`. */
static void run_three(char *stage, char *victim)
{
    pid_t pids[3];
    set_number("WORLD_SIZE", 3);
    for (int rank = 0; rank < 3; rank++)
        pids[rank] = start_rank(rank, stage, victim);
    for (int rank = 0; rank < 3; rank++)
        faults_wait(pids[rank], &outcomes[rank]);
}

static void deaths_are_told(int victim, const char *expected)
{
    char *stages[] = {"open", "gather", "share", "finalize", "check"};
    char number[4];
    snprintf(number, sizeof number, "%d", victim);
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        port = faults_port();
        set_number("MASTER_PORT", port);
        run_three(stages[i], number);
        for (int rank = 0; rank < 3; rank++) {
            if (rank == victim)
                assert_int_equal(outcomes[rank].status, 137);
            else
                faults_expect(&outcomes[rank], 3, expected);
        }
    }
}

static void killed_member(void **state)
{
    deaths_are_told(1, "WEFT_ERR_PEER_DEAD: PE 1 has ended");
}

static void killed_hub(void **state)
{
    deaths_are_told(0, "WEFT_ERR_PEER_DEAD: PE 0 has ended");
}

static void killed_member_with_secret(void **state)
{
    setenv("WEFT_SECRET", "warp and weft of a loom", 1);
    deaths_are_told(2, "WEFT_ERR_PEER_DEAD: PE 2 has ended");
}

/* The hub learns of the death while it still connects the PEs of the node, and drops their
 * connections. The survivors must report the death, not the drop. */
static void killed_at_the_door(void **state)
{
    setenv("WEFT_SECRET", "warp and weft of a loom", 1);
    for (int i = 0; i < 100; i++) {
        port = faults_port();
        set_number("MASTER_PORT", port);
        run_three("open", "2");
        faults_expect(&outcomes[0], 3, "WEFT_ERR_PEER_DEAD: PE 2 has ended");
        faults_expect(&outcomes[1], 3, "WEFT_ERR_PEER_DEAD: PE 2 has ended");
    }
}

static void aborts(void **state)
{
    run_three("abort", "2");
    faults_expect(&outcomes[0], 3, "PE 2 aborted the job with code 7: no more wool");
    faults_expect(&outcomes[1], 3, "PE 2 aborted the job with code 7: no more wool");
    assert_int_equal(outcomes[2].status, 7);
}

static void missing_pe_is_named(void **state)
{
    setenv("WEFT_WAIT_LIMIT", "500ms", 1);
    set_number("WORLD_SIZE", 3);
    pid_t first = start_rank(0, "nobody", "9"), second = start_rank(1, "nobody", "9");
    faults_wait(first, &outcomes[0]);
    faults_wait(second, &outcomes[1]);
    faults_expect(
        &outcomes[0], 3,
        "1 of 2 members did not connect within WEFT_BOOT_LIMIT (or WEFT_WAIT_LIMIT where that is "
        "less): 2");
    assert_int_equal(outcomes[1].status, 3);
}

static void nobody_listens(void **state)
{
    setenv("WEFT_WAIT_LIMIT", "300ms", 1);
    faults_wait(start_rank(1, "nobody", "9"), &outcomes[0]);
    faults_expect(&outcomes[0], 3, "no process answered there; is the first PE running");
}

/* ------------------------------------------------------------------------ unauthenticated peers */

static int connect_tcp(int to)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)to),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int i = 0; i < 500; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0)
            return fd;
        close(fd);
        usleep(10000);
    }
    fail_msg("nobody listens at port %d", to);
    return -1;
}

static int connect_unix(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int n =
        snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "weft/%u/%d", (unsigned)geteuid(), port);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    for (int i = 0; i < 500; i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (struct sockaddr *)&at, bytes) == 0)
            return fd;
        close(fd);
        usleep(10000);
    }
    return -1;
}

/* Many peers that send nothing, many that speak another protocol, one that copies the format. */
static void strangers_at_tcp(void **state)
{
    enum { SILENT = 700 }; /* more than the hub serves at a time */
    static int fds[SILENT];
    char request[256] = "GET / HTTP/1.0\r\n\r\n", form[200] = {0}, greeting[48], proof[40];
    setenv("WEFT_SECRET", "warp and weft", 1);
    pid_t first = start_rank(0, "nobody", "9");
    for (int i = 0; i < SILENT; i++)
        fds[i] = connect_tcp(port + 1);
    for (int i = 0; i < 20; i++) {
        int fd = connect_tcp(port + 1);
        assert_int_equal(write(fd, request, sizeof request), sizeof request);
        close(fd);
    }
    int fd = connect_tcp(port + 1);
    assert_int_equal(recv(fd, greeting, sizeof greeting, MSG_WAITALL), sizeof greeting);
    memcpy(form, greeting, 12); /* magic and version */
    form[12] = 1;               /* member 1 of 2 */
    form[16] = 2;
    snprintf(form + 24, 64, "%d/0/", port);
    assert_int_equal(send(fd, form, HELLO_BYTES, MSG_NOSIGNAL), HELLO_BYTES);
    assert_int_equal(recv(fd, proof, sizeof proof, MSG_WAITALL), sizeof proof);
    assert_int_equal(send(fd, proof, sizeof proof, MSG_NOSIGNAL), sizeof proof); /* reflected */
    faults_await(first, "it does not know the job's secret (WEFT_SECRET)");
    pid_t second = start_rank(1, "nobody", "9");
    faults_wait(second, &outcomes[1]);
    faults_wait(first, &outcomes[0]);
    close(fd);
    for (int i = 0; i < SILENT; i++)
        close(fds[i]);
    faults_expect(&outcomes[0], 0, "TCP start: dropped an unauthenticated peer, 127.0.0.1:");
    faults_expect(&outcomes[0], 0, "it does not speak Weft's protocol");
    faults_expect(&outcomes[0], 0, "PE 0 of 2");
    faults_expect(&outcomes[1], 0, "PE 1 of 2");
}

static void wrong_secret(void **state)
{
    setenv("WEFT_WAIT_LIMIT", "2s", 1);
    setenv("WEFT_SECRET", "warp", 1);
    pid_t first = start_rank(0, "nobody", "9");
    setenv("WEFT_SECRET", "weft", 1);
    pid_t second = start_rank(1, "nobody", "9");
    faults_wait(second, &outcomes[1]);
    faults_wait(first, &outcomes[0]);
    faults_expect(&outcomes[0], 3,
                  "after the hub's proof: its WEFT_SECRET differs, or it is not of this job");
    faults_expect(&outcomes[0], 3, "WEFT_SECRET has only 4 characters and can be guessed");
    faults_expect(&outcomes[1], 3, "does not know this PE's WEFT_SECRET");
    faults_expect(&outcomes[1], 3, "or the first PE was given another secret");
}

static int listen_tcp(int at_port)
{
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)at_port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 50), 0);
    return fd;
}

/* A hub without the secret: it sends its greeting, receives the member's hello and makes a proof
 * with a wrong tag from it. */
static void greet(int visitor, uint8_t proof[40])
{
    const struct {
        uint64_t magic;
        uint32_t version, keyed;
        uint8_t nonce[32];
    } greeting = {UINT64_C(0x7472617473665457), 2, 1, {0x99}};
    uint8_t hello[HELLO_BYTES];
    assert_int_equal(send(visitor, &greeting, sizeof greeting, MSG_NOSIGNAL), sizeof greeting);
    assert_int_equal(recv(visitor, hello, sizeof hello, MSG_WAITALL), sizeof hello);
    memset(proof, 0, 40);
    memcpy(proof, hello, 8);
}

/* An impostor listens at the port of PE 0, speaks its protocol and records what members send: no
 * byte of it depends on the secret. The member still finds the real PE 0 at the next port. */
static void impostor_as_hub(void **state)
{
    uint8_t proof[40], more;
    int fd = listen_tcp(port + 1);
    setenv("WEFT_SECRET", "warp and weft of a loom", 1);
    pid_t second = start_rank(1, "nobody", "9");
    int visitor = accept(fd, NULL, NULL);
    greet(visitor, proof);
    assert_int_equal(send(visitor, proof, sizeof proof, 0), sizeof proof);
    assert_int_equal(recv(visitor, &more, 1, 0), 0); /* the member hangs up */
    pid_t first = start_rank(0, "nobody", "9");
    faults_wait(second, &outcomes[1]);
    faults_wait(first, &outcomes[0]);
    faults_expect(&outcomes[0], 0, "PE 0 of 2");
    faults_expect(&outcomes[1], 0, "does not know this PE's WEFT_SECRET");
    faults_expect(&outcomes[1], 0, "PE 1 of 2");
    close(visitor);
    close(fd);
}

/* A hub with another secret later closes connections without an answer. The member reports the
 * first reason, the wrong secret. */
static void unproven_hub_hangs_up(void **state)
{
    uint8_t proof[40], more;
    int fd = listen_tcp(port + 1);
    setenv("WEFT_SECRET", "warp and weft of a loom", 1);
    setenv("WEFT_WAIT_LIMIT", "1500ms", 1);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = 1}, sizeof(struct timeval));
    pid_t second = start_rank(1, "nobody", "9");
    for (int visit = 0; visit < 14; visit++) { /* more visits than count as a refusal */
        int visitor = accept(fd, NULL, NULL);
        if (visitor < 0)
            break;
        greet(visitor, proof);
        if (visit == 0 && send(visitor, proof, sizeof proof, 0) == sizeof proof)
            assert_int_equal(recv(visitor, &more, 1, 0), 0);
        close(visitor);
    }
    close(fd);
    faults_wait(second, &outcomes[1]);
    faults_expect(&outcomes[1], 3, "or the first PE was given another secret");
}

/* Servers at the first ports accept connections and send nothing. They cost no time:
 * WEFT_WAIT_LIMIT is shorter than the timeout for one of them, and the job still starts. */
static void silent_servers_in_front(void **state)
{
    int fds[5];
    for (int i = 0; i < 5; i++)
        fds[i] = listen_tcp(port + 1 + i);
    setenv("WEFT_SECRET", "warp and weft of a loom", 1);
    setenv("WEFT_WAIT_LIMIT", "3s", 1);
    pid_t second = start_rank(1, "nobody", "9"), first = start_rank(0, "nobody", "9");
    faults_wait(second, &outcomes[1]);
    faults_wait(first, &outcomes[0]);
    for (int i = 0; i < 5; i++)
        close(fds[i]);
    faults_expect(&outcomes[0], 0, "PE 0 of 2");
    faults_expect(&outcomes[1], 0, "PE 1 of 2");
}

/* Members with index n, with index 0, of a job of another size, and of another version. */
static void numbers_out_of_range(void **state)
{
    static const uint32_t wrong[][3] = {{2, 2, 2}, {2, 0, 2}, {2, 1, 3}, {2, 0xffffffff, 2}};
    pid_t first = start_rank(0, "nobody", "9");
    for (int i = 0; i < 5; i++) {
        char form[HELLO_BYTES] = {0}, greeting[48], byte;
        int fd = connect_unix();
        assert_int_equal(recv(fd, greeting, sizeof greeting, MSG_WAITALL), sizeof greeting);
        memcpy(form, greeting, 8);
        memcpy(form + 8, i < 4 ? wrong[i] : (uint32_t[]){1, 1, 2}, 12);
        snprintf(form + 24, 64, "%d/0/", port);
        assert_int_equal(send(fd, form, sizeof form, MSG_NOSIGNAL), sizeof form);
        assert_int_equal(recv(fd, &byte, 1, 0), 0); /* the hub sends no proof */
        close(fd);
    }
    faults_await(first, "its number is not in this job");
    faults_await(first, "it runs another version of Weft");
    pid_t second = start_rank(1, "nobody", "9");
    faults_wait(second, &outcomes[1]);
    faults_wait(first, &outcomes[0]);
    faults_expect(&outcomes[0], 0, "PE 0 of 2");
    faults_expect(&outcomes[1], 0, "PE 1 of 2");
}

/* The hub drops a peer that connects and sends nothing after 5 s. */
static void silent_peer_is_dropped(void **state)
{
    char byte[64];
    pid_t first = start_rank(0, "nobody", "9");
    int fd = connect_unix();
    while (recv(fd, byte, sizeof byte, 0) > 0) /* the greeting, then end of file */
        ;
    faults_await(first, "it did not authenticate itself in time");
    close(fd);
    pid_t second = start_rank(1, "nobody", "9");
    faults_wait(second, &outcomes[1]);
    faults_wait(first, &outcomes[0]);
    faults_expect(&outcomes[1], 0, "PE 1 of 2");
}

/* Another server has the first port of the hub and answers with invalid data. */
static void port_is_taken(void **state)
{
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)(port + 1)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    listen(fd, 5);
    setenv("WEFT_SECRET", "warp and weft", 1);
    pid_t first = start_rank(0, "nobody", "9"), second = start_rank(1, "nobody", "9");
    int visitor = accept(fd, NULL, NULL);
    assert_int_equal(write(visitor, "220 mail at your service, and more of it to come\r\n", 50),
                     50);
    faults_wait(second, &outcomes[1]);
    faults_wait(first, &outcomes[0]);
    faults_expect(&outcomes[0], 0, "PE 0 of 2");
    faults_expect(&outcomes[1], 0, "PE 1 of 2");
    close(visitor);
    set_number("WEFT_BOOT_PORT", port + 1);
    faults_wait(start_rank(0, "nobody", "9"), &outcomes[0]);
    faults_expect(&outcomes[0], 3, "set WEFT_BOOT_PORT to a free port");
    close(fd);
}

static void chosen_port(void **state)
{
    setenv("WEFT_SECRET", "warp and weft", 1);
    set_number("WEFT_BOOT_PORT", port + 5);
    pid_t first = start_rank(0, "nobody", "9");
    close(connect_tcp(port + 5));
    pid_t second = start_rank(1, "nobody", "9");
    faults_wait(second, &outcomes[1]);
    faults_wait(first, &outcomes[0]);
    faults_expect(&outcomes[0], 0, "PE 0 of 2");
    faults_expect(&outcomes[1], 0, "PE 1 of 2");
}

static void strangers_at_unix(void **state)
{
    enum { SILENT = 600 };
    static int fds[SILENT];
    char form[200] = {0}, greeting[48];
    pid_t first = start_rank(0, "nobody", "9");
    for (int i = 0; i < SILENT; i++)
        fds[i] = connect_unix();
    int fd = connect_unix();
    assert_int_equal(recv(fd, greeting, sizeof greeting, MSG_WAITALL), sizeof greeting);
    memcpy(form, greeting, 12);
    form[12] = 1;
    form[16] = 2;
    assert_int_equal(send(fd, form, HELLO_BYTES, MSG_NOSIGNAL), HELLO_BYTES);
    faults_await(first, "it belongs to another job");
    pid_t second = start_rank(1, "nobody", "9");
    faults_wait(second, &outcomes[1]);
    faults_wait(first, &outcomes[0]);
    close(fd);
    for (int i = 0; i < SILENT; i++)
        close(fds[i]);
    faults_expect(&outcomes[0], 0, "PE 0 of 2");
    faults_expect(&outcomes[1], 0, "PE 1 of 2");
}

/* Needs the right to change the user id. */
static void other_user(void **state)
{
    if (geteuid() != 0)
        skip();
    pid_t first = start_rank(0, "nobody", "9");
    int fd = connect_unix();
    assert_true(fd >= 0);
    close(fd);
    pid_t stranger = fork();
    if (stranger == 0) {
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        int n = snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "weft/0/%d", port);
        char greeting[48];
        fd = socket(AF_UNIX, SOCK_STREAM, 0);
        if (setuid(65534) < 0 ||
            connect(fd, (struct sockaddr *)&at,
                    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) < 0)
            _exit(2);
        _exit(recv(fd, greeting, sizeof greeting, 0) == 0 ? 0 : 1); /* the hub sends no greeting */
    }
    int status;
    waitpid(stranger, &status, 0);
    assert_int_equal(status, 0);
    pid_t second = start_rank(1, "nobody", "9");
    faults_wait(second, &outcomes[1]);
    faults_wait(first, &outcomes[0]);
    faults_expect(&outcomes[0], 0, "of user 65534: it belongs to another user");
    faults_expect(&outcomes[1], 0, "PE 1 of 2");
}

/* Another user has taken the socket name of PE 0 and acts as PE 0. */
static void other_user_as_hub(void **state)
{
    if (geteuid() != 0)
        skip();
    setenv("WEFT_WAIT_LIMIT", "500ms", 1);
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int n = snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "weft/0/%d", port);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t impostor = fork();
    if (impostor == 0) {
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        if (setuid(65534) < 0 || bind(fd, (struct sockaddr *)&at, bytes) < 0 || listen(fd, 9) < 0)
            _exit(2);
        if (write(ready[1], "", 1) == 1)
            pause();
        _exit(0);
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    pid_t first = start_rank(0, "nobody", "9"), second = start_rank(1, "nobody", "9");
    faults_wait(first, &outcomes[0]);
    faults_wait(second, &outcomes[1]);
    kill(impostor, SIGKILL);
    waitpid(impostor, NULL, 0);
    close(ready[0]);
    close(ready[1]);
    faults_expect(&outcomes[0], 3, "is another job with the same MASTER_PORT running?");
    faults_expect(&outcomes[1], 3,
                  "a process answered that is not of this job, or belongs to another user");
}

/* --------------------------------------------------------------------------- wrong environment */

static void expect_refusal(const char *name, const char *value, const char *sentence)
{
    char *old = getenv(name) ? strdup(getenv(name)) : NULL;
    setenv("WEFT_BOOT", "tcp", 1);
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
    faults_run((char *[]){victim_program, "nobody", "9", NULL}, &outcomes[0]);
    faults_expect(&outcomes[0], 3, sentence);
    unsetenv("WEFT_BOOT");
    if (old)
        setenv(name, old, 1);
    free(old);
}

static void wrong_variables(void **state)
{
    set_number("RANK", 0);
    expect_refusal("RANK", NULL, "RANK is not set; WEFT_BOOT=tcp needs RANK, WORLD_SIZE");
    expect_refusal("RANK", "2", "RANK is \"2\", which is not a number from 0 to 1");
    expect_refusal("RANK", "-1", "RANK is \"-1\"");
    expect_refusal("RANK", "one", "RANK is \"one\"");
    expect_refusal("WORLD_SIZE", "0", "WORLD_SIZE is \"0\"");
    expect_refusal("MASTER_PORT", "99999", "MASTER_PORT is \"99999\"");
    expect_refusal("MASTER_PORT", "65535", "set WEFT_BOOT_PORT");
    expect_refusal("MASTER_ADDR", "", "MASTER_ADDR is not set");
    expect_refusal("MASTER_ADDR", "no.such.host.invalid",
                   "MASTER_ADDR is \"no.such.host.invalid\"");
    expect_refusal("MASTER_ADDR", "192.0.2.1", "set WEFT_SECRET to the same text for every PE");
    expect_refusal("WEFT_BOOT_PORT", "70000", "WEFT_BOOT_PORT is 70000, which is not a port");
}

static void alone_under_rank(void **state)
{
    set_number("WORLD_SIZE", 1);
    faults_wait(start_rank(0, "nobody", "9"), &outcomes[0]);
    faults_expect(&outcomes[0], 0, "PE 0 of 1");
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    victim_program = argv[2];
#define TEST(name) cmocka_unit_test_setup_teardown(name, before, after)
    const struct CMUnitTest tests[] = {
        TEST(killed_member),
        TEST(killed_hub),
        TEST(killed_member_with_secret),
        TEST(killed_at_the_door),
        TEST(aborts),
        TEST(missing_pe_is_named),
        TEST(nobody_listens),
        TEST(strangers_at_tcp),
        TEST(wrong_secret),
        TEST(impostor_as_hub),
        TEST(unproven_hub_hangs_up),
        TEST(silent_servers_in_front),
        TEST(numbers_out_of_range),
        TEST(silent_peer_is_dropped),
        TEST(port_is_taken),
        TEST(chosen_port),
        TEST(strangers_at_unix),
        TEST(other_user),
        TEST(other_user_as_hub),
        TEST(wrong_variables),
        TEST(alone_under_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
