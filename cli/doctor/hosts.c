/* SPDX-License-Identifier: Apache-2.0 */
/* Runs `weft doctor --report` on each host through a remote shell and collects the reports. Each
 * host has its own time limit, so that a host that does not answer does not delay the others.
 * When a host is not reached, the last line of its shell is the reason. */
#include "doctor/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run/hosts.h"
#include "run/reach.h"
#include "tool/tool.h"

enum {
    AT_ONCE = 64,            /* remote shells that run at the same time */
    REPORT_BYTES = 16 << 20, /* limit of the size of a report */
    MESSAGE_BYTES = 4096,    /* bytes kept from the end of the shell's messages */
    OUT = 0,
    ERR = 1,
};

struct visit {
    struct node *node;
    pid_t pid; /* remote shell, which leads its process group; 0: not started or ended */
    int fds[2];
    char *text[2];
    size_t used[2];
    uint64_t ends_ns;
    bool late;
};

/* --- one host --------------------------------------------------------------------------------- */

static void exec_shell(char **words, int out, int err)
{
    sigset_t none;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing < 0 || dup2(nothing, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
        _exit(127);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp(words[0], words);
    fprintf(stderr, "%s: %s\n", words[0], strerror(errno));
    _exit(127);
}

static void fail_visit(struct visit *visit, const char *call)
{
    snprintf(visit->node->why, sizeof visit->node->why, "%s: %s", call, strerror(errno));
}

static bool start_process(struct visit *visit, char **words)
{
    int ends[2][2];
    if (pipe2(ends[OUT], O_CLOEXEC) != 0)
        return false;
    if (pipe2(ends[ERR], O_CLOEXEC) != 0) {
        close(ends[OUT][0]);
        close(ends[OUT][1]);
        return false;
    }
    visit->pid = fork();
    if (visit->pid == 0)
        exec_shell(words, ends[OUT][1], ends[ERR][1]);
    for (int i = 0; i < 2; i++) {
        close(ends[i][1]);
        visit->fds[i] = ends[i][0];
        fcntl(visit->fds[i], F_SETFL, O_NONBLOCK);
    }
    if (visit->pid > 0) {
        setpgid(visit->pid, visit->pid);
        return true;
    }
    visit->pid = 0;
    return false;
}

static void start_visit(struct visit *visit, const struct doctor_options *options,
                        const char *const *arguments)
{
    char **words = NULL, *text = NULL;
    visit->ends_ns = clock_now_ns() + options->limit_ns;
    if (run_reach_command(visit->node->name, options->reach.rsh, options->reach.weft, arguments,
                          &words, &text))
        snprintf(visit->node->why, sizeof visit->node->why, "%s", weft_last_error());
    else if (!start_process(visit, words))
        fail_visit(visit, "starting the remote shell");
    free(words);
    free(text);
}

/* Keeps the whole report, and the end of the shell's messages. */
static void append_output(struct visit *visit, int stream, const char *bytes, size_t n)
{
    if (stream == ERR && visit->used[ERR] + n > MESSAGE_BYTES) {
        size_t drop = visit->used[ERR] + n - MESSAGE_BYTES;
        drop = drop < visit->used[ERR] ? drop : visit->used[ERR];
        memmove(visit->text[ERR], visit->text[ERR] + drop, visit->used[ERR] - drop);
        visit->used[ERR] -= drop;
    }
    char *larger = visit->used[stream] + n < REPORT_BYTES
                       ? realloc(visit->text[stream], visit->used[stream] + n + 1)
                       : NULL;
    if (!larger)
        return;
    visit->text[stream] = larger;
    memcpy(larger + visit->used[stream], bytes, n);
    visit->used[stream] += n;
    larger[visit->used[stream]] = '\0';
}

static void read_stream(struct visit *visit, int stream)
{
    char bytes[MESSAGE_BYTES];
    ssize_t n;
    while ((n = read(visit->fds[stream], bytes, sizeof bytes)) > 0)
        append_output(visit, stream, bytes, (size_t)n);
    if (n == 0 || errno != EAGAIN) {
        close(visit->fds[stream]);
        visit->fds[stream] = -1;
    }
}

/* The last non-empty line of the shell's messages. */
static const char *last_message(struct visit *visit)
{
    char *text = visit->text[ERR];
    size_t end = visit->used[ERR];
    while (end && strchr("\r\n\t ", text[end - 1]))
        end--;
    if (!end)
        return NULL;
    text[end] = '\0';
    char *line = strrchr(text, '\n');
    for (char *c = line = line ? line + 1 : text; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = '?';
    return line;
}

static void describe_failure(struct visit *visit, int status, uint64_t limit_ns)
{
    struct node *node = visit->node;
    const char *words = last_message(visit);
    char how[96];
    if (visit->late)
        snprintf(how, sizeof how, "no answer in %g s", (double)limit_ns / 1e9);
    else if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "the remote shell was killed by signal %d", WTERMSIG(status));
    else if (WEXITSTATUS(status) == 0 || (WEXITSTATUS(status) == 1 && !words))
        snprintf(how, sizeof how, "%.90s", node->why);
    else
        snprintf(how, sizeof how, "the remote shell ended with status %d", WEXITSTATUS(status));
    snprintf(node->why, sizeof node->why, "%s%s%.280s", how, words ? ": " : "", words ? words : "");
}

static void end_visit(struct visit *visit, uint64_t limit_ns)
{
    int status = 0;
    for (int i = 0; i < 2; i++) {
        if (visit->fds[i] >= 0)
            read_stream(visit, i);
        if (visit->fds[i] >= 0)
            close(visit->fds[i]);
        visit->fds[i] = -1;
    }
    kill(-visit->pid,
         SIGKILL); /* kills the whole group; a shell that has ended keeps its exit status */
    while (waitpid(visit->pid, &status, 0) < 0 && errno == EINTR)
        ;
    visit->pid = 0;
    if (visit->late || !doctor_node_read(visit->node, visit->text[OUT] ? visit->text[OUT] : ""))
        describe_failure(visit, status, limit_ns);
}

/* --- all hosts -------------------------------------------------------------------------------- */

/* True when the shell has ended, even if other processes still hold its output, or when its time
 * is over. */
static bool is_over(struct visit *visit)
{
    siginfo_t info = {.si_pid = 0};
    visit->late = clock_now_ns() >= visit->ends_ns;
    if (visit->late)
        return true;
    return waitid(P_PID, (id_t)visit->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == visit->pid;
}

static void wait_for_some(struct visit *visits, size_t first, size_t n)
{
    enum { SLICE_MS = 50 };
    struct pollfd fds[2 * AT_ONCE];
    struct visit *whose[2 * AT_ONCE];
    nfds_t watched = 0;
    for (size_t i = first; i < n; i++)
        for (int stream = 0; stream < 2 && visits[i].pid; stream++)
            if (visits[i].fds[stream] >= 0) {
                whose[watched] = &visits[i];
                fds[watched++] = (struct pollfd){.fd = visits[i].fds[stream], .events = POLLIN};
            }
    if (poll(fds, watched, SLICE_MS) <= 0)
        return;
    for (nfds_t i = 0; i < watched; i++)
        if (fds[i].revents)
            read_stream(whose[i], whose[i]->fds[ERR] == fds[i].fd ? ERR : OUT);
}

static void visit_all(struct visit *visits, size_t n, const struct doctor_options *options,
                      const char *const *arguments)
{
    size_t next = 0, first = 0;
    for (int running = 0; next < n || running;) {
        while (next < n && running < AT_ONCE) {
            start_visit(&visits[next], options, arguments);
            running += visits[next++].pid > 0;
        }
        wait_for_some(visits, first, next);
        for (size_t i = first; i < next; i++) {
            if (visits[i].pid && is_over(&visits[i])) {
                end_visit(&visits[i], options->limit_ns);
                running--;
            }
        }
        while (first < next && !visits[first].pid)
            first++;
    }
}

bool doctor_visit_hosts(const struct doctor_options *options, struct cluster *cluster)
{
    const struct run_options *reach = &options->reach;
    const char *arguments[8] = {"doctor", "--report"};
    size_t n = (size_t)reach->host_count, words = 2;
    struct visit *visits = calloc(n, sizeof *visits);
    cluster->nodes = calloc(n, sizeof *cluster->nodes);
    cluster->n_nodes = n;
    if (!visits || !cluster->nodes) {
        fprintf(stderr, "weft doctor: no memory for %zu hosts\n", n);
        free(visits);
        return false;
    }
    if (options->quick)
        arguments[words++] = "--quick";
    if (options->machine.measure)
        arguments[words++] = "--measure";
    if (options->interval_ns) {
        arguments[words++] = "--interval";
        arguments[words++] = options->interval;
    }
    for (size_t i = 0; i < n; i++) {
        visits[i] = (struct visit){.node = &cluster->nodes[i], .fds = {-1, -1}};
        snprintf(cluster->nodes[i].name, sizeof cluster->nodes[i].name, "%s", reach->hosts[i].name);
    }
    visit_all(visits, n, options, arguments);
    for (size_t i = 0; i < n; i++) {
        free(visits[i].text[OUT]);
        free(visits[i].text[ERR]);
    }
    free(visits);
    return true;
}

bool doctor_add_allocation(struct run_options *reach)
{
    const char *nodes = getenv("SLURM_JOB_NODELIST");
    if (!nodes || !*nodes) {
        fprintf(stderr,
                "weft doctor: --allocation: SLURM_JOB_NODELIST is not set: this process is in no "
                "Slurm allocation (salloc, sbatch); name the hosts with --hosts\n");
        return false;
    }
    if (!reach->rsh && strcmp(config_origin(CONFIG_RSH), "default") == 0)
        reach->rsh = "srun --overlap --quiet --nodes=1 --ntasks=1 --nodelist";
    return run_parse_hosts(reach, nodes);
}
