/* SPDX-License-Identifier: Apache-2.0 */
/* The setup that agents of `weft run --hosts` receive (cli/run/setup.c) and the command that starts
 * them (cli/run/reach.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run/reach.h"
#include "run_calls.h"

#include <netinet/in.h>

extern char **environ;

static char read_from[1 << 21]; /* standard input */
static size_t read_bytes, read_at;
static int reads_interrupted;
static const char *directory = "/where/it/began", *own_host = "node7", *own_file = "/opt/bin/weft";

ssize_t __real_read(int fd, void *data, size_t bytes);
ssize_t __wrap_read(int fd, void *data, size_t bytes);
ssize_t __wrap_read(int fd, void *data, size_t bytes)
{
    if (fd != STDIN_FILENO)
        return __real_read(fd, data, bytes);
    errno = EINTR;
    if (reads_interrupted-- > 0)
        return -1;
    size_t n = read_bytes - read_at < bytes ? read_bytes - read_at : bytes;
    if (n > 100)
        n = 100; /* reads are partial */
    memcpy(data, read_from + read_at, n);
    read_at += n;
    return (ssize_t)n;
}

char *__wrap_getcwd(char *text, size_t size);
char *__wrap_getcwd(char *text, size_t size)
{
    assert_int_equal(size, 4096);
    return directory ? strcpy(text, directory) : NULL;
}

int __wrap_gethostname(char *name, size_t size);
int __wrap_gethostname(char *name, size_t size)
{
    snprintf(name, size, "%s", own_host);
    return 0;
}

ssize_t __wrap_readlink(const char *path, char *text, size_t size);
ssize_t __wrap_readlink(const char *path, char *text, size_t size)
{
    assert_string_equal(path, "/proc/self/exe");
    if (!own_file)
        return -1;
    memcpy(text, own_file, strlen(own_file));
    return (ssize_t)strlen(own_file);
}

/* --------------------------------------------------------------------------------- writing */

static struct run_host made_hosts[3] = {
    {.number = 0, .member = 1, .name = "a", .label = "a", .first = 0, .count = 2},
    {.number = 1, .member = 2, .name = "b", .label = "b", .first = 2, .count = 5},
    {.number = 2, .member = 3, .name = "c", .label = "c", .first = 7, .count = 1},
};

static struct run launcher(void)
{
    static char *command[] = {"./program", "an argument", "", NULL};
    static const char *env[] = {"OWN=value=2", "TAKEN", "ABSENT"};
    struct run run = made_run(8);
    run.hosts.list = made_hosts;
    run.hosts.count = run.hosts.children = 3;
    run.options.command = command;
    run.options.env = env;
    run.options.env_count = 3;
    run.options.grace_ns = 5 * RUN_SECOND_NS;
    run.options.bind = RUN_BIND_NONE;
    return run;
}

static char *variables[] = {"WEFT_LOG=info",     "WEFT_BOOT_SOCKET=3", "WEFT_PE=1",
                            "WEFT_PES=2",        "WEFT_BOOT_JOB=x",    "WEFT_BOOT_NODE=1",
                            "WEFT_BOOT_HOST=b",  "SHMEM_DEBUG=1",      "NVSHMEM_SIZE=2",
                            "OMP_NUM=3",         "CUDA_HOME=4",        "FI_PROVIDER=5",
                            "LD_LIBRARY_PATH=6", "LD_LIBRARY_PATHX=7", "TAKEN=taken",
                            "HOME=/root",        "WEFT_PEX=8",         NULL};

static struct rendezvous_address addresses[2];

static void make_addresses(void)
{
    memset(addresses, 0, sizeof addresses);
    *(struct sockaddr_in *)&addresses[0].address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(0x1234)};
    addresses[0].bytes = sizeof(struct sockaddr_in);
    *(struct sockaddr_in6 *)&addresses[1].address =
        (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(0xabcd)};
    addresses[1].bytes = sizeof(struct sockaddr_in6);
}

/* Compares with zeros written as line ends. */
static void expect_setup(const struct run *run, int index, const char *expected)
{
    size_t bytes = 0;
    char **usual = environ;
    environ = variables;
    char *text = run_setup_write(run, index, "very secret", "77aa", addresses, 2, &bytes);
    environ = usual;
    assert_non_null(text);
    for (size_t i = 0; i < bytes; i++)
        if (text[i] == '\0')
            text[i] = '\n';
    char head[64];
    const char *line = strchr(text, '\n');
    snprintf(head, sizeof head, "weft agent 2 %zu\n", bytes - (size_t)(line + 1 - text));
    assert_memory_equal(text, head, strlen(head));
    assert_int_equal(bytes, strlen(text));
    assert_string_equal(line + 1, expected);
    free(text);
}

static void the_setup_is_written(void **state)
{
    struct run run = launcher();
    make_addresses();
    char expected[2000];
    static const char environment[] =
        "env=WEFT_LOG=info\nenv=SHMEM_DEBUG=1\nenv=NVSHMEM_SIZE=2\nenv=OMP_NUM=3\nenv=CUDA_HOME=4\n"
        "env=FI_PROVIDER=5\nenv=LD_LIBRARY_PATH=6\nenv=WEFT_PEX=8\n"
        "env=OWN=value=2\nenv=TAKEN=taken\n"
        "address=02001234000000000000000000000000\n"
        "address=0a00abcd000000000000000000000000000000000000000000000000\n"
        "word=./program\nword=an argument\nword=\n";
    snprintf(expected, sizeof expected,
             "version=%s\nsecret=very secret\njob=77aa\nhost=b\nindex=1\nmember=2\n"
             "members=4\nfirst=2\ncount=5\npes=8\nprefix=0\ngrace=5000000000\nbind=2\n"
             "directory=/where/it/began\n%s",
             weft_version(), environment);
    expect_setup(&run, 1, expected);
    run.options.prefix = true;
    run.options.output_dir = "out";
    directory = NULL;
    snprintf(
        expected, sizeof expected,
        "version=%s\nsecret=very secret\njob=77aa\nhost=c\nindex=2\nmember=3\n"
        "members=4\nfirst=7\ncount=1\npes=8\nprefix=1\ngrace=5000000000\nbind=2\noutput=out\n%s",
        weft_version(), environment);
    expect_setup(&run, 2, expected);
    directory = "/where/it/began";
}

/* An agent passes on its own setup, and the hosts below its child. */
static void an_agent_writes_a_setup(void **state)
{
    static const char *given[] = {"OWN=value=2", "WEFT_PATH=net"};
    struct run_agent parent = {.directory = "/where/it/began"};
    struct run run = launcher();
    struct run_host hosts[4];
    for (int i = 0; i < 4; i++)
        hosts[i] = (struct run_host){.number = 7 + i,
                                     .name = i == 2   ? "localhost"
                                             : i == 3 ? "me@e"
                                                      : "d",
                                     .label = i == 3 ? "e" : "d",
                                     .first = 20 + i,
                                     .count = 1 + i};
    hosts[0].below = 3;
    hosts[0].member = 1;
    run.hosts.list = hosts;
    run.hosts.count = 4;
    run.hosts.children = 1;
    run.all = 90;
    run.agent = &parent;
    run.options.agent = true;
    run.options.env = given;
    run.options.env_count = 2;
    run.options.fan_out = 5;
    run.options.rsh = "rsh -x";
    run.options.weft = "/w";
    directory = "/elsewhere";
    char expected[2000];
    snprintf(expected, sizeof expected,
             "version=%s\nsecret=very secret\njob=77aa\nhost=d\nindex=7\nmember=1\nmembers=2\n"
             "first=20\ncount=1\npes=90\nprefix=0\ngrace=5000000000\nbind=2\n"
             "directory=/where/it/began\nrsh=rsh -x\nweft=/w\nfan-out=5\nbelow=2 d\n"
             "below=3 node7\nbelow=4 me@e\nenv=OWN=value=2\nenv=WEFT_PATH=net\n"
             "address=02001234000000000000000000000000\n"
             "address=0a00abcd000000000000000000000000000000000000000000000000\n"
             "word=./program\nword=an argument\nword=\n",
             weft_version());
    expect_setup(&run, 0, expected);
    directory = "/where/it/began";
}

/* --------------------------------------------------------------------------------- reading */

static struct run_options options;
static struct run_agent agent;
static void *kept[100]; /* blocks of the setup, which a real process keeps until it ends */
static int n_kept;

static int free_kept(void **state)
{
    unsetenv("WEFT_TEST_OF_SETUP"); /* it points into those blocks */
    while (n_kept)
        __real_free(kept[--n_kept]);
    return 0;
}

/* The lines become strings, preceded by the version of this weft unless they begin with "!". */
static bool read_setup(const char *head, const char *lines)
{
    char body[4000];
    snprintf(body, sizeof body, "%s%s%s",
             *lines == '!' ? "" : "version=", *lines == '!' ? "" : weft_version(),
             *lines == '!' ? lines + 1 : "\n");
    if (*lines != '!')
        strcat(body, lines);
    size_t bytes = strlen(body);
    for (size_t i = 0; i < bytes; i++)
        if (body[i] == '\n')
            body[i] = '\0';
    int n = snprintf(read_from, 200, head, bytes);
    memcpy(read_from + n, body, bytes);
    strcpy(read_from + n + bytes, "rest");
    read_bytes = (size_t)n + bytes + 4;
    read_at = 0;
    memset(&options, 0, sizeof options);
    memset(&agent, 0, sizeof agent);
    *call_log = '\0';
    last_malloc = NULL;
    bool good = run_setup_read(&options, &agent);
    kept[n_kept++] = last_malloc;
    return good;
}

static void forget(void)
{
    for (int i = 0; i < options.host_count; i++)
        free(options.hosts[i].name);
    free(options.hosts);
    free(options.env);
    free(options.command);
    free(agent.addresses);
}

#define GOOD                                                                                       \
    "secret=very secret\njob=77aa\nhost=b\nindex=1\nmember=2\nmembers=4\nfirst=2\ncount=5\n"       \
    "pes=8\nprefix=1\ngrace=5000000000\nbind=2\noutput=out\ndirectory=/where\n"                    \
    "env=WEFT_TEST_OF_SETUP=a=b\naddress=02001234000000000000000000000001\n"                       \
    "address=0a00abcd000000000000000000000000000000000000000000000002\nword=program\nword=-x=3\n"

static void the_setup_is_read(void **state)
{
    reads_interrupted = 2;
    made_run(1);
    assert_true(read_setup("weft agent 2 %zu\n", GOOD));
    expect_log("");
    assert_int_equal(read_at, read_bytes - 4); /* the rest is input for PE 0 */
    assert_string_equal(agent.secret, "very secret");
    assert_string_equal(agent.job, "77aa");
    assert_string_equal(agent.host, "b");
    assert_string_equal(agent.directory, "/where");
    assert_int_equal(agent.index, 1);
    assert_int_equal(agent.member, 2);
    assert_int_equal(agent.members, 4);
    assert_int_equal(agent.first, 2);
    assert_int_equal(agent.npes, 8);
    assert_int_equal(agent.address_count, 2);
    assert_int_equal(agent.addresses[0].bytes, sizeof(struct sockaddr_in));
    assert_int_equal(((struct sockaddr_in *)&agent.addresses[0].address)->sin_port, htons(0x1234));
    assert_int_equal(((unsigned char *)&agent.addresses[0].address)[15], 1);
    assert_int_equal(agent.addresses[1].bytes, sizeof(struct sockaddr_in6));
    assert_int_equal(((unsigned char *)&agent.addresses[1].address)[27], 2);
    assert_int_equal(options.npes, 5);
    assert_true(options.prefix);
    assert_int_equal(options.grace_ns, 5 * RUN_SECOND_NS);
    assert_int_equal(options.bind, RUN_BIND_NONE);
    assert_string_equal(options.output_dir, "out");
    assert_string_equal(options.command[0], "program");
    assert_string_equal(options.command[1], "-x=3");
    assert_null(options.command[2]);
    assert_string_equal(getenv("WEFT_TEST_OF_SETUP"), "a=b");
    assert_int_equal(options.env_count, 1);
    assert_string_equal(options.env[0], "WEFT_TEST_OF_SETUP=a=b");
    assert_int_equal(options.host_count, 0);
    forget();
    assert_true(read_setup("weft agent 2 %zu\n", GOOD "pes=20\nbelow=3 me@c\nbelow=2 d\nfan-out=7\n"
                                                      "rsh=rsh -x\nweft=/w\n"));
    assert_int_equal(options.host_count, 2);
    assert_string_equal(options.hosts[0].name, "me@c");
    assert_int_equal(options.hosts[0].npes, 3);
    assert_string_equal(options.hosts[1].name, "d");
    assert_int_equal(options.fan_out, 7);
    assert_string_equal(options.rsh, "rsh -x");
    assert_string_equal(options.weft, "/w");
    forget();
}

static void what_is_read_is_checked(void **state)
{
    static const char *const not_for_users =
        "say \"--agent is used by `weft run --hosts` only, which sends its setup\"\n";
    static const char long_number[] = /* longer than the line may be */
        "weft agent 2 000000000000000000000000000000000000000000000000000000000000000000000001 \n";
    static const char *const heads[] = {
        "weft agent 2\n",         "weft agent x %zu\n", "hello\n", "weft agent 2 0\n", "",
        "weft agent 2 1048577\n", long_number};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        assert_false(read_setup(heads[i], "!\n"));
        expect_log(not_for_users);
    }
    assert_false(read_setup("weft agent 2 1048576\n", "host=b\n"));
    expect_log("say \"the launcher's setup on standard input is incomplete\"\n");
    assert_false(read_setup("weft agent 3 %zu\n", "host=b\n"));
    char expected[400];
    snprintf(expected, sizeof expected,
             "say \"the launcher uses another protocol than this weft, although both are %s\"\n",
             weft_version());
    expect_log(expected);
    assert_string_equal(agent.host, "b"); /* known before the first message */
    for (int i = 0; i < 2; i++) {
        assert_false(read_setup("weft agent 2 %zu\n", i ? "!version=9.9\nhost=c\n" : "!host=c\n"));
        snprintf(
            expected, sizeof expected,
            "say \"the launcher is Weft %s, and this host has Weft %s: install the same version "
            "everywhere, or name the right command with --weft\"\n",
            i ? "9.9" : "?", weft_version());
        expect_log(expected);
        assert_string_equal(agent.host, "c");
    }
}

static void a_setup_must_be_whole(void **state)
{
    static const struct {
        const char *lines;
        bool good;
    } rows[] = {
#define NUMBERS(member, members, first, count, pes)                                                \
    "secret=s\njob=j\nindex=0\nmember=" member "\nmembers=" members "\nfirst=" first               \
    "\ncount=" count "\npes=" pes "\nword=w\naddress=02001234000000000000000000000001\n"
        {NUMBERS("1", "2", "0", "1", "1"), true},
        {NUMBERS("1", "2", "0", "0", "1"), false},
        {NUMBERS("1", "2", "0", "16384", "16384"), true},
        {NUMBERS("1", "2", "0", "16384", "16385"), false},
        {NUMBERS("1", "2", "0", "16385", "16384"), false},
        {NUMBERS("1", "2", "0", "20000", "20000"), false},
        {NUMBERS("1", "2", "-1", "1", "1"), false},
        {NUMBERS("1", "2", "3", "2", "5"), true},
        {NUMBERS("1", "2", "4", "2", "5"), false},
        {NUMBERS("0", "2", "0", "1", "1"), false},
        {NUMBERS("2", "2", "0", "1", "1"), false},
        {NUMBERS("1", "16385", "0", "1", "1"), true},
        {NUMBERS("1", "16386", "0", "1", "1"), false},
        {NUMBERS("1", "2", "0", "1", "4") "below=3 b\nfan-out=1\n", true},
        {NUMBERS("1", "2", "0", "1", "4") "below=2 b\nbelow=1 c\nfan-out=1\n", true},
        {NUMBERS("1", "2", "0", "1", "4") "below=3 b\n", false},
        {NUMBERS("1", "2", "0", "1", "4") "below=3 b\nfan-out=0\n", false},
        {NUMBERS("1", "2", "0", "1", "4") "below=4 b\nfan-out=1\n", false},
        {NUMBERS("1", "2", "0", "1", "4") "below=0 b\nfan-out=1\n", false},
        {NUMBERS("1", "2", "0", "1", "4") "below=1\nfan-out=1\n", false},
        {NUMBERS("1", "2", "0", "1", "4") "below=1 \nfan-out=1\n", false},
        {NUMBERS("1", "2", "0", "1", "4") "index=4\n", false},
        {NUMBERS("1", "2", "0", "1", "4") "index=-1\n", false},
#define REST    "index=0\nmember=1\nmembers=2\nfirst=0\ncount=1\npes=1\n"
#define ADDRESS "address=02001234000000000000000000000001\n"
        {REST "job=j\nword=w\n" ADDRESS, false},
        {REST "secret=s\nword=w\n" ADDRESS, false},
        {REST "secret=s\njob=j\n" ADDRESS, false},
        {REST "secret=s\njob=j\nword=w\n", false},
        {REST "secret=s\njob=j\nword=w\naddress=0200\n", false},
        {REST "secret=s\njob=j\nword=w\nother=3\n" ADDRESS, false},
        {REST "secret=s\njob=j\nword=w\nnothing\n" ADDRESS, false},
        {REST "secret=s\njob=j\nword=w\n" ADDRESS "count=2\n", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (read_setup("weft agent 2 %zu\n", rows[i].lines) != rows[i].good)
            fail_msg("row %zu: %s", i, call_log);
        expect_log(rows[i].good ? ""
                                : "say \"the launcher's setup on standard input is malformed\"\n");
        forget();
    }
    for (int block = 0; block < 5; block++) {
        memory_fails_in = block;
        assert_false(read_setup("weft agent 2 %zu\n", rows[0].lines));
        expect_log(block == 0 ? "say \"the launcher's setup on standard input is incomplete\"\n"
                              : "say \"the launcher's setup on standard input is malformed\"\n");
        forget();
        memory_fails_in = -1;
    }
    /* A longer address is cut to the buffer. */
    char lines[1000];
    snprintf(lines, sizeof lines, "%saddress=%0*d\n", rows[0].lines, 300, 7);
    assert_true(read_setup("weft agent 2 %zu\n", lines));
    assert_int_equal(agent.addresses[1].bytes, sizeof agent.addresses[1].address);
    forget();
}

/* ---------------------------------------------------------------------------- reaching hosts */

static void expect_words(const char *host, const char *rsh, const char *weft, const char *expected)
{
    static const char *const arguments[] = {"run", "--agent", NULL};
    char **words, *text, all[400] = "";
    assert_int_equal(run_reach_command(host, rsh, weft, arguments, &words, &text), WEFT_OK);
    for (int i = 0; words[i]; i++) {
        strcat(all, i ? "|" : "");
        strcat(all, words[i]);
    }
    assert_string_equal(all, expected);
    free(words);
    free(text);
}

static void hosts_are_reached_by_words(void **state)
{
    made_run(1);
    assert_true(run_reach_is_here("localhost"));
    assert_true(run_reach_is_here("node7"));
    assert_false(run_reach_is_here("node"));
    expect_words("node8", NULL, NULL,
                 "ssh|-x|-o|BatchMode=yes|-o|ConnectTimeout=10|node8|/opt/bin/weft|run|--agent");
    expect_words("me@node8", "rsh -x  -y\t4 ", "weft", "rsh|-x|-y|4|me@node8|weft|run|--agent");
    expect_words("node7", "rsh -x", "weft-1.2_3+4/@%=,", "weft-1.2_3+4/@%=,|run|--agent");
    int before = blocks;
    setenv("WEFT_RSH", "launch it", 1);
    config_reset();
    config_string(CONFIG_RSH);
    expect_words("node8", NULL, "w", "launch|it|node8|w|run|--agent");
    unsetenv("WEFT_RSH");
    config_reset();
    config_string(CONFIG_RSH);
    blocks = before;

    char **words, *text;
    static const char *const none[] = {NULL};
    assert_int_equal(run_reach_command("n", NULL, "a b", none, &words, &text), WEFT_ERR_ARGUMENT);
    assert_string_equal(base_last_error(),
                        "a remote shell would split or expand \"a b\": name the command on "
                        "the hosts with --weft");
    assert_null(words);
    assert_null(text);
    own_file = "/opt/(it)/weft";
    assert_int_equal(run_reach_command("n", NULL, NULL, none, &words, &text), WEFT_ERR_ARGUMENT);
    own_file = NULL; /* unknown: an empty word, which a shell drops */
    assert_int_equal(run_reach_command("n", NULL, NULL, none, &words, &text), WEFT_OK);
    assert_string_equal(words[7], "");
    free(words);
    free(text);
    own_file = "/opt/bin/weft";
    memory_fails_in = 0;
    assert_int_equal(run_reach_command("n", NULL, "w", none, &words, &text), WEFT_ERR_NO_MEMORY);
    assert_string_equal(base_last_error(), "no memory for the command that reaches n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_are_reached_by_words), cmocka_unit_test(the_setup_is_written),
        cmocka_unit_test(an_agent_writes_a_setup),    cmocka_unit_test(the_setup_is_read),
        cmocka_unit_test(what_is_read_is_checked),    cmocka_unit_test(a_setup_must_be_whole),
    };
    return cmocka_run_group_tests(tests, NULL, free_kept);
}
