/* SPDX-License-Identifier: Apache-2.0 */
/* How `weft doctor` gets the reports of several nodes: from remote shells (cli/doctor/hosts.c) and
 * from the PEs of a job (cli/doctor/job.c), and how it reads a report (cli/doctor/node.c). Shells
 * and jobs are mocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "doctor/doctor.h"
#include "run/reach.h"
#include "run_calls.h"

#include "tool/boot.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>

#define MS UINT64_C(1000000)

/* ------------------------------------------------------------------------------ mock shells */

/* Data at the read end of a pipe. */
struct stream {
    const char *text;
    size_t at;
    bool open; /* after the data there is no end of file */
};

enum { SHELLS_MOST = 70 };

static struct {
    struct stream streams[2 * SHELLS_MOST]; /* of descriptors 1401, 1403, ... */
    int status[SHELLS_MOST];                /* of shells 801, 802, ...; -1: still running */
    int pipes, forks, pipe_fails_in;
    bool fork_fails, no_words, child;
    int interrupted, dup_fails_in;
    bool no_null;
} shells;

static jmp_buf child;

static struct stream *stream_of(int fd)
{
    return &shells.streams[(fd - 1401) / 2];
}

int __wrap_pipe2(int ends[2], int flags);
int __wrap_pipe2(int ends[2], int flags)
{
    assert_int_equal(flags, O_CLOEXEC);
    errno = EMFILE;
    if (fails_now(&shells.pipe_fails_in))
        return -1;
    ends[0] = 1401 + 2 * shells.pipes;
    ends[1] = 1402 + 2 * shells.pipes++;
    return 0;
}

pid_t __wrap_fork(void);
pid_t __wrap_fork(void)
{
    log_call("fork");
    errno = EAGAIN;
    return shells.fork_fails ? -1 : shells.child ? 0 : 801 + shells.forks++;
}

int __wrap_setpgid(pid_t pid, pid_t group);
int __wrap_setpgid(pid_t pid, pid_t group)
{
    log_call("setpgid %d %d", (int)pid, (int)group);
    return 0;
}

int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    int value = va_arg(arguments, int);
    va_end(arguments);
    log_call("fcntl %d %s", fd, command == F_SETFL && value == O_NONBLOCK ? "nonblock" : "?");
    return 0;
}

ssize_t __wrap_read(int fd, void *data, size_t bytes);
ssize_t __wrap_read(int fd, void *data, size_t bytes)
{
    struct stream *stream = stream_of(fd);
    assert_int_equal(bytes, 4096);
    size_t left = stream->text ? strlen(stream->text + stream->at) : 0,
           n = left < bytes ? left : bytes;
    if (n) {
        memcpy(data, stream->text + stream->at, n);
        stream->at += n;
        return (ssize_t)n;
    }
    errno = EAGAIN;
    return stream->open ? -1 : 0;
}

int __wrap_poll(struct pollfd *watched, nfds_t n, int limit_ms);
int __wrap_poll(struct pollfd *watched, nfds_t n, int limit_ms)
{
    int ready = 0;
    assert_int_equal(limit_ms, 50);
    for (nfds_t i = 0; i < n; i++) {
        const struct stream *stream = stream_of(watched[i].fd);
        assert_int_equal(watched[i].events, POLLIN);
        watched[i].revents =
            !stream->open || (stream->text && stream->text[stream->at]) ? POLLIN : 0;
        ready += watched[i].revents != 0;
    }
    log_call("poll %d: %d", (int)n, ready);
    if (!ready)
        answers.now_ns += 50 * MS;
    return ready;
}

int __wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int options);
int __wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
    assert_int_equal(type, P_PID);
    assert_int_equal(options, WEXITED | WNOHANG | WNOWAIT);
    info->si_pid = shells.status[id - 801] >= 0 ? (pid_t)id : 0;
    return 0;
}

pid_t __wrap_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
    log_call("waitpid %d %d", (int)pid, options);
    errno = EINTR;
    if (shells.interrupted-- > 0)
        return -1;
    *status = shells.status[pid - 801] >= 0 ? shells.status[pid - 801] : SIGKILL;
    return pid;
}

int __wrap_kill(pid_t pid, int number);
int __wrap_kill(pid_t pid, int number)
{
    log_call("kill %d %d", (int)pid, number);
    return 0;
}

_Noreturn void __wrap__exit(int status);
_Noreturn void __wrap__exit(int status)
{
    log_call("_exit %d", status);
    longjmp(child, 1);
}

int __wrap_prctl(int option, ...);
int __wrap_prctl(int option, ...)
{
    log_call("prctl %s", option == PR_SET_PDEATHSIG ? "death signal" : "?");
    return 0;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    if (strcmp(path, "/dev/null") != 0)
        return __real_open(path, flags);
    log_call("open /dev/null %d", flags);
    return shells.no_null ? -1 : 1900;
}

int __wrap_dup2(int from, int to);
int __wrap_dup2(int from, int to)
{
    log_call("dup2 %d %d", from, to);
    return fails_now(&shells.dup_fails_in) ? -1 : to;
}

int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old);
int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    log_call("sigprocmask %s %d", how == SIG_SETMASK ? "set" : "?", sigismember(set, SIGUSR1));
    return 0;
}

int __wrap_execvp(const char *file, char *const *words);
int __wrap_execvp(const char *file, char *const *words)
{
    log_call("exec %s %s", file, words[1]);
    errno = ENOENT;
    return -1;
}

static char asked_words[300];

weft_status run_reach_command(const char *host, const char *rsh, const char *weft,
                              const char *const *arguments, char ***words, char **text)
{
    snprintf(asked_words, sizeof asked_words, "%s by %s, %s", host, rsh, weft);
    for (int i = 0; arguments[i]; i++) {
        strcat(asked_words, " ");
        strcat(asked_words, arguments[i]);
    }
    *words = NULL;
    *text = NULL;
    if (shells.no_words)
        return base_fail(WEFT_ERR_ARGUMENT, "no words for it");
    *words = __real_calloc(3, sizeof **words);
    blocks++;
    *text = copy_text("rsh");
    (*words)[0] = *text;
    (*words)[1] = (char *)host;
    return WEFT_OK;
}

static char parsed_hosts[100];

bool run_parse_hosts(struct run_options *options, const char *text)
{
    snprintf(parsed_hosts, sizeof parsed_hosts, "%s", text);
    return strcmp(text, "bad") != 0;
}

/* ------------------------------------------------------------------------------------ helpers */

static char *report; /* of a node named "made" */

static int make_report(void **state)
{
    static struct diagnosis diagnosis;
    struct machine *machine = machine_new("made up");
    text_set(machine, &machine->system.hostname, "made");
    doctor_examine(machine, &diagnosis);
    report = doctor_node_write(machine, &diagnosis);
    findings_free(&diagnosis.findings);
    machine_free(machine);
    return report ? 0 : -1;
}

static int free_report(void **state)
{
    __real_free(report);
    return 0;
}

static struct doctor_options options;
static struct run_slots hosts[SHELLS_MOST];
static struct cluster cluster;

static void made_hosts(int count)
{
    static char names[SHELLS_MOST][16];
    made_run(1);
    memset(&shells, 0, sizeof shells);
    shells.pipe_fails_in = shells.dup_fails_in = -1;
    for (int i = 0; i < SHELLS_MOST; i++) {
        snprintf(names[i], sizeof names[i], "n%d", i);
        hosts[i].name = names[i];
    }
    options = (struct doctor_options){
        .limit_ns = 5000 * MS,
        .reach = {.hosts = hosts, .host_count = count, .rsh = "ssh", .weft = "w"}};
    memset(&cluster, 0, sizeof cluster);
    blocks = 0;
}

static void visit(void)
{
    assert_true(doctor_visit_hosts(&options, &cluster));
    assert_int_equal(cluster.n_nodes, options.reach.host_count);
}

static void forget(void)
{
    cluster_free(&cluster);
    assert_int_equal(blocks, 0);
    *call_log = '\0';
}

/* One host is not reached, for the reason `why`. */
static void expect_why(int status, const char *out, const char *err, const char *why)
{
    made_hosts(1);
    shells.status[0] = status;
    shells.streams[0].text = out;
    shells.streams[1].text = err;
    visit();
    assert_false(cluster.nodes[0].reached);
    assert_string_equal(cluster.nodes[0].why, why);
    assert_string_equal(cluster.nodes[0].name, "n0");
    forget();
}

/* ----------------------------------------------------------------------------- reaching hosts */

static void reports_are_gathered(void **state)
{
    made_hosts(2);
    shells.streams[0].text = shells.streams[2].text = report;
    shells.interrupted = 1;
    visit();
    expect_log("fork\nclose 1402\nfcntl 1401 nonblock\nclose 1404\nfcntl 1403 nonblock\n"
               "setpgid 801 801\n"
               "fork\nclose 1406\nfcntl 1405 nonblock\nclose 1408\nfcntl 1407 nonblock\n"
               "setpgid 802 802\npoll 4: 4\nclose 1401\nclose 1403\nclose 1405\nclose 1407\n"
               "kill -801 9\nwaitpid 801 0\nwaitpid 801 0\nkill -802 9\nwaitpid 802 0\n");
    for (int i = 0; i < 2; i++) {
        assert_true(cluster.nodes[i].reached);
        assert_string_equal(cluster.nodes[i].name, i ? "n1" : "n0");
        assert_string_equal(cluster.nodes[i].why, "");
    }
    assert_string_equal(asked_words, "n1 by ssh, w doctor --report");
    forget();
    made_hosts(1);
    options.quick = options.machine.measure = 1;
    options.interval_ns = 5;
    options.interval = "5ns";
    visit();
    assert_string_equal(asked_words,
                        "n0 by ssh, w doctor --report --quick --measure --interval 5ns");
    forget();
}

static void why_a_host_is_not_reached(void **state)
{
    expect_why(0, "", "", "it sent no report");
    expect_why(0, "", "warn\n  last\x01 words \r\n\t\n", "it sent no report:   last? words");
    expect_why(0, "", "  \n\r\t ", "it sent no report");
    expect_why(1 << 8, "", "", "it sent no report");
    expect_why(1 << 8, "", "refused\n", "the remote shell ended with status 1: refused");
    expect_why(255 << 8, "", "", "the remote shell ended with status 255");
    expect_why(SIGTERM, "", "x\ny", "the remote shell was killed by signal 15: y");
    expect_why(0, "weft-node-report\n{", "", "its report is truncated");
    expect_why(0, "x weft-node-report\n{}", "", "it sent no report");
    char words[10000], why[400]; /* of a long message only the end is kept */
    memset(words, 'x', sizeof words);
    words[sizeof words - 10] = '\0';
    strcat(words, "\nend");
    expect_why(0, "", words, "it sent no report: end");
    memset(words, 'x', sizeof words);
    words[0] = 'A';
    for (int bytes = 4096; bytes < 4098; bytes++) { /* only the last 4096 bytes are kept */
        words[bytes] = '\0';
        snprintf(why, sizeof why, "it sent no report: %c%.279s", bytes == 4096 ? 'A' : 'x',
                 words + 1);
        expect_why(0, "", words, why);
        words[bytes] = 'x';
    }
    words[9000] = '\0';
    snprintf(why, sizeof why, "it sent no report: %.280s", words + 1);
    expect_why(0, "", words, why);
}

static void a_host_takes_too_long(void **state)
{
    made_hosts(2);
    options.limit_ns = 150 * MS;
    shells.status[0] = shells.status[1] = -1;
    shells.streams[0].open = shells.streams[1].open = true;
    shells.streams[1].text = "wait\n";
    shells.streams[2].open = shells.streams[3].open = true;
    shells.status[1] = 0; /* has exited, but its output stays open */
    shells.streams[2].text = report;
    visit();
    assert_string_equal(cluster.nodes[0].why, "no answer in 0.15 s: wait");
    assert_false(cluster.nodes[0].reached);
    assert_true(cluster.nodes[1].reached);
    assert_non_null(strstr(call_log,
                           "poll 4: 2\nclose 1405\nclose 1407\nkill -802 9\nwaitpid 802 0\n"
                           "poll 2: 0\npoll 2: 0\npoll 2: 0\nclose 1401\nclose 1403\n"
                           "kill -801 9\nwaitpid 801 0\n"));
    forget();
}

static void a_shell_cannot_be_started(void **state)
{
    for (int how = 0; how < 4; how++) {
        made_hosts(1);
        shells.no_words = how == 0;
        shells.pipe_fails_in = how == 1 || how == 2 ? how - 1 : -1;
        shells.fork_fails = how == 3;
        visit();
        assert_string_equal(cluster.nodes[0].why,
                            how == 0 ? "no words for it"
                            : how == 3
                                ? "starting the remote shell: Resource temporarily unavailable"
                                : "starting the remote shell: Too many open files");
        assert_int_equal(strstr(call_log, "close 1401\nclose 1402\n") != NULL, how == 2);
        assert_null(strstr(call_log, "kill"));
        assert_null(strstr(call_log, "setpgid"));
        forget();
    }
    for (int block = 0; block < 2; block++) {
        FILE *usual = stderr;
        char *said;
        size_t bytes;
        made_hosts(3);
        memory_fails_in = block;
        stderr = open_memstream(&said, &bytes);
        assert_false(doctor_visit_hosts(&options, &cluster));
        fclose(stderr);
        stderr = usual;
        assert_string_equal(said, "weft doctor: no memory for 3 hosts\n");
        __real_free(said);
        free(cluster.nodes);
        assert_int_equal(blocks, 0);
    }
}

static void no_more_than_64_at_once(void **state)
{
    made_hosts(66);
    visit();
    int forks = 0;
    for (const char *at = call_log, *first = strstr(call_log, "poll"); at && at < first;
         at = strstr(at + 1, "fork\n"))
        forks++;
    assert_int_equal(forks, 64);
    assert_int_equal(shells.forks, 66);
    for (int i = 0; i < 66; i++)
        assert_string_equal(cluster.nodes[i].why, "it sent no report");
    assert_non_null(strstr(call_log, "kill -866 9\n"));
    forget();
}

static void become(const char *expected)
{
    FILE *usual = stderr;
    char *said;
    size_t bytes;
    stderr = open_memstream(&said, &bytes);
    shells.child = true;
    if (setjmp(child) == 0) {
        doctor_visit_hosts(&options, &cluster);
        stderr = usual;
        fail_msg("the child goes on");
    }
    fclose(stderr);
    stderr = usual;
    expect_log(expected);
    assert_string_equal(said, strstr(expected, "exec") ? "rsh: No such file or directory\n" : "");
    __real_free(said);
}

static void the_child_becomes_the_shell(void **state)
{
#ifdef __SANITIZE_ADDRESS__
    skip(); /* the child does not free its memory */
#endif
    made_hosts(1);
    become("fork\nsetpgid 0 0\nprctl death signal\nopen /dev/null 0\ndup2 1900 0\ndup2 1402 1\n"
           "dup2 1404 2\nsigprocmask set 0\nexec rsh n0\n_exit 127\n");
    made_hosts(1);
    shells.no_null = true;
    become("fork\nsetpgid 0 0\nprctl death signal\nopen /dev/null 0\n_exit 127\n");
    for (int fd = 0; fd < 3; fd++) {
        made_hosts(1);
        shells.dup_fails_in = fd;
        become(fd == 0   ? "fork\nsetpgid 0 0\nprctl death signal\nopen /dev/null 0\ndup2 1900 0\n"
                           "_exit 127\n"
               : fd == 1 ? "fork\nsetpgid 0 0\nprctl death signal\nopen /dev/null 0\ndup2 1900 0\n"
                           "dup2 1402 1\n_exit 127\n"
                         : "fork\nsetpgid 0 0\nprctl death signal\nopen /dev/null 0\ndup2 1900 0\n"
                           "dup2 1402 1\ndup2 1404 2\n_exit 127\n");
    }
}

static void hosts_of_an_allocation(void **state)
{
    struct run_options reach = {.rsh = NULL};
    FILE *usual = stderr;
    char *said;
    size_t bytes;
    unsetenv("WEFT_RSH");
    config_reset();
    for (int empty = 0; empty < 2; empty++) {
        unsetenv("SLURM_JOB_NODELIST");
        if (empty)
            setenv("SLURM_JOB_NODELIST", "", 1);
        stderr = open_memstream(&said, &bytes);
        assert_false(doctor_add_allocation(&reach));
        fclose(stderr);
        stderr = usual;
        assert_string_equal(said,
                            "weft doctor: --allocation: SLURM_JOB_NODELIST is not set: this "
                            "process is in no Slurm allocation (salloc, sbatch); name the hosts "
                            "with --hosts\n");
        __real_free(said);
    }
    setenv("SLURM_JOB_NODELIST", "n[1-3]", 1);
    assert_true(doctor_add_allocation(&reach));
    assert_string_equal(parsed_hosts, "n[1-3]");
    assert_string_equal(reach.rsh, "srun --overlap --quiet --nodes=1 --ntasks=1 --nodelist");
    reach.rsh = "mine";
    assert_true(doctor_add_allocation(&reach));
    assert_string_equal(reach.rsh, "mine");
    reach.rsh = NULL;
    setenv("WEFT_RSH", "theirs", 1);
    config_reset();
    assert_true(doctor_add_allocation(&reach));
    assert_null(reach.rsh);
    setenv("SLURM_JOB_NODELIST", "bad", 1);
    assert_false(doctor_add_allocation(&reach));
    unsetenv("WEFT_RSH");
    unsetenv("SLURM_JOB_NODELIST");
    config_reset();
}

/* ------------------------------------------------------------------------------------- reports */

static void reports_are_read(void **state)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "it sent no report"},
        {"weft-node-report", "it sent no report"},
        {" weft-node-report\n{}\n", "it sent no report"},
        {"weft-node-report\n", "its report is truncated"},
        {"weft-node-report\n{\"weft-node-report\":2}\n",
         "its report has version 2, this weft reads 1: install the same version"},
        {"weft-node-report\n{\"weft-node-report\":0}\n",
         "its report has version 0, this weft reads 1: install the same version"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct node node = {.name = "given"};
        assert_false(doctor_node_read(&node, rows[i].text));
        assert_false(node.reached);
        assert_string_equal(node.why, rows[i].why);
        assert_string_equal(node.name, "given");
    }
    struct node node = {.name = ""};
    char text[20000], *line = strchr(report, '\n') + 1;
    json_t *root = json_loads(line, 0, NULL);
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "host")), "made");
    assert_int_equal(json_integer_value(json_object_get(root, "weft-node-report")), 1);
    json_object_set_new(root, "faults",
                        json_pack("[{s:s, s:s, s:s}, {s:s}]", "code", "C1", "place", "gpu0",
                                  "evidence", "seen", "code", "C2"));
    char *changed = json_dumps(root, JSON_COMPACT);
    snprintf(text, sizeof text, "hello\nweft-node-report\n{\nweft-node-report\n%s\nrest\n",
             changed);
    assert_true(doctor_node_read(&node, text)); /* the last report counts */
    assert_true(node.reached);
    assert_string_equal(node.name, "made");
    assert_int_equal(node.n_faults, 2);
    assert_string_equal(node.faults[0].code, "C1");
    assert_string_equal(node.faults[0].place, "gpu0");
    assert_string_equal(node.faults[0].evidence, "seen");
    assert_string_equal(node.faults[1].code, "C2");
    assert_string_equal(node.faults[1].place, "");
    free(node.faults);
    __real_free(changed);
    for (int i = 0; i < 2; i++) {
        node = (struct node){.name = "given"};
        json_t *part = json_copy(root);
        if (i == 0)
            json_object_del(part, "faults");
        else /* a fact of the wrong type */
            json_object_set_new(part, "facts", json_pack("{s:[]}", profile_infos[0].name));
        changed = json_dumps(part, JSON_COMPACT);
        json_decref(part);
        snprintf(text, sizeof text, "weft-node-report\n%s\n", changed);
        __real_free(changed);
        assert_false(doctor_node_read(&node, text));
        assert_string_equal(node.why, i == 0 ? "its report lists no faults" : weft_last_error());
        assert_string_not_equal(node.why, "");
    }
    json_decref(root);
}

static void faults_are_written(void **state)
{
    struct finding found[] = {
        {.reason = 1, .weight = WEIGHT_SLOW, .place = "gpu0", .evidence = "slow"}};
    struct diagnosis diagnosis = {.findings = {.list = found, .n = 1}, .faults = 1};
    diagnosis.checks[0] = (struct doctor_check){.name = "x", .n = 1, .faults = 1};
    struct machine *machine = machine_new("made up");
    char *text = doctor_node_write(machine, &diagnosis);
    struct node node = {.name = ""}, expected = {.name = ""};
    node_add_faults(&expected, &diagnosis);
    assert_true(doctor_node_read(&node, text));
    assert_string_equal(node.name, "?"); /* unknown */
    assert_int_equal(node.n_faults, expected.n_faults);
    if (node.n_faults)
        assert_memory_equal(node.faults, expected.faults, sizeof *node.faults);
    free(node.faults);
    free(expected.faults);
    __real_free(text);
    machine_free(machine);
}

/* -------------------------------------------------------------------------------- from a job */

static struct boot made_boot;
static bool launched, boot_fails, none;
static const char *texts[3]; /* of the PEs */
static int gathers, gather_fails;

static weft_status made_gather(struct boot *boot, const void *mine, void *all, size_t bytes)
{
    log_call("gather %zu", bytes);
    if (gathers++ == gather_fails)
        return base_fail(WEFT_ERR_SYSTEM, "PE 1 is gone");
    for (int pe = 0; pe < boot->npes; pe++) {
        if (gathers == 1) {
            size_t n = pe == boot->pe ? *(const size_t *)mine : strlen(texts[pe]) + 1;
            memcpy((char *)all + (size_t)pe * bytes, &n, sizeof n);
        } else if (pe == boot->pe) {
            memcpy((char *)all + (size_t)pe * bytes, mine, bytes);
        } else {
            strcpy((char *)all + (size_t)pe * bytes, texts[pe]);
        }
    }
    return WEFT_OK;
}

static void made_close(struct boot *boot, bool clean)
{
    log_call("close %s", clean ? "cleanly" : "at once");
}

static const struct boot_ops made_ops = {.allgather = made_gather, .close = made_close};

bool __wrap_boot_was_launched(void);
bool __wrap_boot_was_launched(void)
{
    return launched;
}

weft_status __wrap_boot_open(struct boot **boot, weft_group *group, int group_pe);
weft_status __wrap_boot_open(struct boot **boot, weft_group *group, int group_pe)
{
    log_call("open the job");
    *boot = none ? NULL : &made_boot;
    return boot_fails ? base_fail(WEFT_ERR_BOOT, "nobody answers") : WEFT_OK;
}

static int node_of[3] = {0, 0, 1};
static char host_names[2][BOOT_HOST_BYTES] = {"alpha", "beta"};

static void made_job(int pe, int npes)
{
    made_run(1);
    launched = true;
    boot_fails = none = false;
    made_boot = (struct boot){.ops = &made_ops,
                              .pe = pe,
                              .npes = npes,
                              .local_pe = pe == 1 ? 1 : 0,
                              .nodes = npes == 3 ? 2 : 1,
                              .node_of = node_of};
    gathers = 0;
    gather_fails = -1;
    blocks = 0;
    memset(&cluster, 0, sizeof cluster);
}

static char joined_said[300];

static bool join(bool asked, struct doctor_job *job)
{
    FILE *usual = stderr;
    char *said;
    size_t bytes;
    stderr = open_memstream(&said, &bytes);
    bool joined = doctor_join_job(asked, job);
    fclose(stderr);
    stderr = usual;
    snprintf(joined_said, sizeof joined_said, "%s", said);
    __real_free(said);
    return joined;
}

static void jobs_are_joined(void **state)
{
    struct doctor_job job;
    for (int pe = 0; pe < 3; pe++) {
        made_job(pe, 3);
        assert_true(join(pe == 1, &job));
        assert_int_equal(job.silent, pe != 0);
        assert_int_equal(job.examines, pe != 1);
        assert_int_equal(job.n_nodes, 2);
        assert_ptr_equal(job.boot, &made_boot);
        doctor_leave_job(&job, pe == 0);
        expect_log(pe == 0 ? "open the job\nclose cleanly\n" : "open the job\nclose at once\n");
        assert_null(job.boot);
        assert_true(job.examines);
        assert_false(job.silent);
        doctor_leave_job(&job, true);
        expect_log("");
    }
    for (int asked = 0; asked < 2; asked++) {
        made_job(0, 1); /* one PE only */
        assert_int_equal(join(asked, &job), !asked);
        expect_log("open the job\nclose cleanly\n");
        assert_string_equal(
            joined_said,
            asked ? "weft doctor: --job: this process is not a PE of a job of several PEs\n" : "");
        assert_int_equal(job.n_nodes, 1);
        none = true;
        assert_int_equal(join(asked, &job), !asked);
        boot_fails = true;
        assert_int_equal(join(asked, &job), !asked);
        assert_string_equal(joined_said,
                            "weft doctor: only this machine is examined: nobody answers\n");
        boot_fails = launched = none = false;
        *call_log = '\0';
        assert_int_equal(join(asked, &job), !asked);
        expect_log(asked ? "open the job\nclose cleanly\n" : "");
    }
}

static void reports_of_a_job(void **state)
{
    struct doctor_job job;
    char expected[100];
    for (int named = 0; named < 2; named++) {
        made_job(0, 3);
        texts[1] = "";
        texts[2] = report;
        assert_true(join(false, &job));
        made_boot.hosts = named ? host_names : NULL;
        *call_log = '\0';
        assert_int_equal(doctor_gather_job(&job, "own", &cluster), WEFT_OK);
        snprintf(expected, sizeof expected, "gather %zu\ngather %zu\n", sizeof(size_t),
                 strlen(report) + 1);
        expect_log(expected);
        assert_int_equal(cluster.n_nodes, 2);
        assert_string_equal(cluster.nodes[0].why, "it sent no report");
        assert_string_equal(cluster.nodes[0].name, named ? "alpha" : "");
        assert_true(cluster.nodes[1].reached);
        assert_string_equal(cluster.nodes[1].name, named ? "beta" : "made");
        cluster_free(&cluster);
    }
    made_job(0, 3);
    texts[1] = texts[2] = "";
    join(false, &job);
    assert_int_equal(doctor_gather_job(&job, report, &cluster), WEFT_OK);
    assert_true(cluster.nodes[0].reached); /* a PE without a report adds no reason */
    assert_string_equal(cluster.nodes[0].why, "");
    cluster_free(&cluster);
    made_job(2, 3);
    texts[0] = texts[1] = "";
    join(false, &job);
    assert_int_equal(doctor_gather_job(&job, NULL, &cluster), WEFT_OK);
    assert_null(cluster.nodes);
    assert_int_equal(cluster.n_nodes, 0);
    for (int at = 0; at < 2; at++) {
        made_job(0, 3);
        texts[2] = report;
        join(false, &job);
        gather_fails = at;
        assert_int_equal(doctor_gather_job(&job, "own", &cluster), WEFT_ERR_SYSTEM);
        assert_null(cluster.nodes);
        assert_int_equal(blocks, 0);
    }
    for (int block = 0; block < 3; block++) {
        made_job(0, 3);
        join(false, &job);
        memory_fails_in = block;
        assert_int_equal(doctor_gather_job(&job, "own", &cluster), WEFT_ERR_NO_MEMORY);
        if (block == 0)
            assert_string_equal(weft_last_error(), "no memory for the reports");
        assert_int_equal(blocks, 0);
    }
    *call_log = '\0';
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_are_gathered),    cmocka_unit_test(why_a_host_is_not_reached),
        cmocka_unit_test(a_host_takes_too_long),   cmocka_unit_test(a_shell_cannot_be_started),
        cmocka_unit_test(no_more_than_64_at_once), cmocka_unit_test(the_child_becomes_the_shell),
        cmocka_unit_test(hosts_of_an_allocation),  cmocka_unit_test(reports_are_read),
        cmocka_unit_test(faults_are_written),      cmocka_unit_test(jobs_are_joined),
        cmocka_unit_test(reports_of_a_job),
    };
    return cmocka_run_group_tests(tests, make_report, free_report);
}
