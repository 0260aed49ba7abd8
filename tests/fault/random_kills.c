/* SPDX-License-Identifier: Apache-2.0 */
/* random_kills LAUNCHER WEFT TORTURE KILLS [SEED]: kills a random PE with SIGKILL at a random
 * moment, KILLS times. LAUNCHER: run (weft run), rank (RANK, MASTER_ADDR ...) or mpirun. Each time
 * the job must end, no PE may report another PE dead than the killed one, weft run must name it,
 * and no process of the job may be left. The test repeats a round in which it found no PE to kill;
 * too few kills are a failure. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_PES = 5, MOST_OUTPUT = 65536, END_SECONDS = 30, LEFT_SECONDS = 5, FIND_SECONDS = 10 };

enum launcher { LAUNCHER_RUN, LAUNCHER_RANK, LAUNCHER_MPIRUN, LAUNCHERS };

static const char *const launcher_names[LAUNCHERS] = {"run", "rank", "mpirun"};

static struct {
    enum launcher launcher;
    char *weft, torture[PATH_MAX];
    char mark[64]; /* environment entry of all processes of this round */
    int round, pes, failures, kills;
    int started; /* number of processes that this program started: the launcher, or the PEs */
    pid_t pids[MOST_PES];
    int statuses[MOST_PES];
    int output_fd;
    char output[MOST_OUTPUT];
    pid_t victim;
    int victim_pe;
} now;

static void sleep_us(long us)
{
    nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

static uint64_t milliseconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

static void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("round %d (%s, %d PEs, PE %d pid %d killed): ", now.round, launcher_names[now.launcher],
           now.pes, now.victim_pe, (int)now.victim);
    vprintf(format, args);
    va_end(args);
    printf("\n%s\n", now.output);
    now.failures++;
}

/* ------------------------------------------------------------------------------------ the job */

static void start_process(int rank)
{
    char number[16], count[16];
    pid_t pid = fork();
    now.pids[now.started] = pid;
    now.started++;
    if (pid != 0)
        return;
    snprintf(number, sizeof number, "%d", rank);
    snprintf(count, sizeof count, "%d", now.pes);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    putenv(now.mark);
    dup2(now.output_fd, 1);
    dup2(now.output_fd, 2);
    setenv("RANK", number, 1);
    setenv("WORLD_SIZE", count, 1);
    if (now.launcher == LAUNCHER_RANK) {
        execl(now.torture, now.torture, NULL);
    } else if (now.launcher == LAUNCHER_RUN) {
        execl(now.weft, now.weft, "run", "-n", count, now.torture, NULL);
    } else {
        unsetenv("RANK");
        unsetenv("WORLD_SIZE");
        execlp("mpirun", "mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
               "-x", "FAULT_KILL_MARK", "-n", count, now.torture, NULL);
    }
    _exit(127);
}

static void start_job(void)
{
    char port[16];
    now.pes = 2 + rand() % (MOST_PES - 1);
    now.started = 0;
    now.victim = 0;
    now.victim_pe = -1;
    now.output[0] = '\0';
    snprintf(now.mark, sizeof now.mark, "FAULT_KILL_MARK=%d.%d", (int)getpid(), now.round);
    /* Below the range of faults_port(): the programs there check their own ports for sockets left
     * behind. */
    snprintf(port, sizeof port, "%d", 2000 + (int)(getpid() * 37 + now.round) % 10000);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", port, 1);
    now.output_fd = memfd_create("output", MFD_CLOEXEC);
    fcntl(now.output_fd, F_SETFL, O_APPEND);
    int processes = now.launcher == LAUNCHER_RANK ? now.pes : 1;
    for (int rank = 0; rank < processes; rank++)
        start_process(rank);
}

/* ------------------------------------------------------------------------------- its processes */

static ssize_t read_environment(pid_t pid, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, text, size - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n;
}

static int number_in(const char *text, size_t bytes, const char *name)
{
    const char *found = memmem(text, bytes, name, strlen(name));
    return found ? atoi(found + strlen(name)) : -1;
}

static bool is_torture(pid_t pid)
{
    char path[64], target[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    ssize_t n = readlink(path, target, sizeof target - 1);
    target[n > 0 ? n : 0] = '\0';
    return strcmp(target, now.torture) == 0;
}

/* Finds all processes with this round's mark, or only its PEs, and writes their PE numbers to
 * `numbers`. Zombies have no environment and do not count. */
static int find_processes(pid_t *pids, int *numbers, int most, bool only_pes)
{
    static char text[65536];
    int count = 0;
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; processes && (entry = readdir(processes));) {
        pid_t pid = (pid_t)atoi(entry->d_name);
        if (pid <= 0 || count == most || (only_pes && !is_torture(pid)))
            continue;
        ssize_t n = read_environment(pid, text, sizeof text);
        if (n <= 0 || !memmem(text, (size_t)n, now.mark, strlen(now.mark) + 1))
            continue;
        const char *name = now.launcher == LAUNCHER_RUN    ? "WEFT_PE="
                           : now.launcher == LAUNCHER_RANK ? "RANK="
                                                           : "PMIX_RANK=";
        numbers[count] = number_in(text, (size_t)n, name);
        pids[count++] = pid;
    }
    if (processes)
        closedir(processes);
    return count;
}

static bool launcher_lives(void)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)now.pids[0], &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
}

/* Kills a PE at a random moment after the first PE has started: start, rendezvous, work, finalize,
 * next job. */
static bool kill_one(void)
{
    pid_t pids[64];
    int numbers[64], count = 0;
    uint64_t until = milliseconds() + FIND_SECONDS * 1000;
    while (count == 0 && milliseconds() < until && launcher_lives())
        count = find_processes(pids, numbers, 64, true);
    if (rand() % 4) /* otherwise at its start */
        sleep_us(rand() % 100000);
    count = find_processes(pids, numbers, 64, true);
    if (count == 0)
        return false;
    int chosen = rand() % count;
    now.victim = pids[chosen];
    now.victim_pe = numbers[chosen];
    return kill(now.victim, SIGKILL) == 0;
}

/* -------------------------------------------------------------------------------- its end */

static int count_pes(void)
{
    pid_t pids[64];
    int numbers[64];
    return find_processes(pids, numbers, 64, true);
}

/* mpirun gets less time once it has no PEs; the test does not check whether it ends. */
static bool await_end(void)
{
    enum { LOOK_MS = 500, ALONE_SECONDS = 8 };
    uint64_t until = milliseconds() + END_SECONDS * 1000, look = milliseconds() + LOOK_MS;
    uint64_t alone_since = 0;
    for (int i = 0; i < now.started; i++) {
        pid_t ended = 0;
        while ((ended = waitpid(now.pids[i], &now.statuses[i], WNOHANG)) == 0 &&
               milliseconds() < until) {
            sleep_us(1000);
            if (now.launcher != LAUNCHER_MPIRUN || milliseconds() < look)
                continue;
            look = milliseconds() + LOOK_MS;
            alone_since = count_pes() ? 0 : alone_since ? alone_since : look;
            if (alone_since && look > alone_since + ALONE_SECONDS * 1000)
                until = 0;
        }
        if (ended == 0)
            return false;
    }
    return true;
}

static void read_output(void)
{
    ssize_t n = pread(now.output_fd, now.output, sizeof now.output - 1, 0);
    now.output[n > 0 ? n : 0] = '\0';
    close(now.output_fd);
}

/* "PE 3 has ended", "PE 3 (pid 17) was killed": the first PE that a line calls dead. */
static int blamed_in(const char *line, size_t length)
{
    static const char *const deaths[] = {" has ended", " was killed", " left the job", " exited"};
    for (const char *at = line; (at = memmem(at, length - (size_t)(at - line), "PE ", 3));
         at += 3) {
        char *end;
        long pe = strtol(at + 3, &end, 10);
        if (end == at + 3)
            continue;
        if (strncmp(end, " (pid ", 6) == 0 && (end = strchr(end, ')')))
            end++;
        for (size_t i = 0; end && i < sizeof deaths / sizeof deaths[0]; i++)
            if (strncmp(end, deaths[i], strlen(deaths[i])) == 0)
                return (int)pe;
    }
    return -1;
}

static void judge_words(void)
{
    for (const char *line = now.output; *line;) {
        size_t length = strcspn(line, "\n");
        int blamed = blamed_in(line, length);
        if (blamed >= 0 && blamed != now.victim_pe)
            complain("PE %d is blamed", blamed);
        line += length + (line[length] == '\n');
    }
    char named[96];
    snprintf(named, sizeof named, "weft run: PE %d (pid %d) was killed by signal 9", now.victim_pe,
             (int)now.victim);
    if (now.launcher == LAUNCHER_RUN && !strstr(now.output, named))
        complain("weft run does not say \"%s\"", named);
}

static void judge_statuses(void)
{
    if (now.launcher == LAUNCHER_RUN &&
        (!WIFEXITED(now.statuses[0]) || WEXITSTATUS(now.statuses[0]) != 137))
        complain("wait status of weft run is %#x, not exit 137", now.statuses[0]);
    if (now.launcher == LAUNCHER_MPIRUN && now.statuses[0] == 0)
        complain("mpirun ends with status 0");
    for (int i = 0; now.launcher == LAUNCHER_RANK && i < now.started; i++) {
        int status = now.statuses[i];
        if (now.pids[i] != now.victim && (!WIFEXITED(status) || WEXITSTATUS(status) == 0))
            complain("survivor %d ends with wait status %#x", i, status);
    }
}

/* mpirun itself may hang when a process is killed while it connects to mpirun. Once all PEs have
 * ended, such a hang is not a failure of Weft. */
static void judge_endless(void)
{
    int count = count_pes();
    if (now.launcher == LAUNCHER_MPIRUN && count == 0)
        printf("round %d: mpirun does not end although all PEs have; ended by us\n", now.round);
    else
        complain("the job does not end within %d s; %d PEs live", END_SECONDS, count);
}

static void end_what_is_left(void)
{
    pid_t pids[64];
    int numbers[64], count;
    uint64_t until = milliseconds() + LEFT_SECONDS * 1000;
    while ((count = find_processes(pids, numbers, 64, false)) > 0 && milliseconds() < until)
        sleep_us(2000);
    if (count == 0)
        return;
    complain("%d processes are left, one is %d", count, (int)pids[0]);
    for (int i = 0; i < count; i++)
        kill(pids[i], SIGKILL);
}

static void play_round(void)
{
    start_job();
    bool killed = kill_one();
    if (!killed)
        for (int i = 0; i < now.started; i++)
            kill(now.pids[i], SIGTERM);
    if (!await_end()) {
        read_output();
        judge_endless();
        for (int i = 0; i < now.started; i++) {
            kill(now.pids[i], SIGKILL);
            waitpid(now.pids[i], &now.statuses[i], 0);
        }
    } else {
        read_output();
        if (killed) {
            judge_words();
            judge_statuses();
        }
    }
    end_what_is_left();
    now.kills += killed;
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    while (now.launcher < LAUNCHERS && strcmp(argv[1], launcher_names[now.launcher]) != 0)
        now.launcher++;
    int wanted = atoi(argv[4]);
    unsigned seed = argc > 5 ? (unsigned)atoi(argv[5]) : (unsigned)getpid();
    if (now.launcher == LAUNCHERS || wanted < 1 || !realpath(argv[3], now.torture))
        return 2;
    now.weft = argv[2];
    srand(seed);
    setenv("WEFT_HEAP_SIZE", "4M", 1);
    /* A PE that is killed before it joins is reported after this time, not earlier. */
    setenv("WEFT_WAIT_LIMIT", now.launcher == LAUNCHER_RANK ? "5s" : "20s", 1);
    /* Without a launcher, a PE that is killed before it connects is reported after this time. */
    if (now.launcher == LAUNCHER_RANK)
        setenv("WEFT_BOOT_LIMIT", "2s", 1);
    for (now.round = 1; now.kills < wanted && now.round <= 2 * wanted + 10; now.round++)
        play_round();
    printf("%s: %d kills in %d rounds, %d failures (seed %u)\n", argv[1], now.kills, now.round - 1,
           now.failures, seed);
    return now.failures > 0 || now.kills < wanted;
}
