/* SPDX-License-Identifier: Apache-2.0 */
/* PE VICTIM fails at STAGE of start-up; the others notice it. boot_victim STAGE VICTIM: survivors
 * print "survivor PE: STATUS: sentence" and exit with 3. */
#include "base/config.h"
#include "base/status.h"
#include "boot/boot.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *stage;
static int victim;
static struct boot *boot;

static bool at(const char *name)
{
    return strcmp(stage, name) == 0;
}

static bool victim_at(const char *name)
{
    return at(name) && boot->pe == victim;
}

static void die(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static void must(weft_status status)
{
    if (!status)
        return;
    char line[700];
    int n = snprintf(line, sizeof line, "survivor %d: %s: %s\n", boot ? boot->pe : -1,
                     weft_status_name(status), weft_last_error());
    ssize_t written = write(STDERR_FILENO, line, (size_t)n);
    (void)written;
    if (boot)
        boot->ops->close(boot, false);
    if (at("descriptors")) /* a sanitizer could not read /proc any more */
        _exit(3);
    exit(3);
}

static void gather_some(void)
{
    int all[256];
    for (int i = 0; i < 10; i++)
        must(boot->ops->allgather(boot, &i, all, sizeof i));
}

static void share_all(void)
{
    for (int i = 0; i < boot->local_npes; i++) {
        int from = boot->local_pes[i], own = -1, taken;
        if (from == boot->pe)
            own = memfd_create("victim", MFD_CLOEXEC);
        if (victim_at("share") && from == boot->pe)
            die();
        must(boot->ops->share_fd(boot, from, own, &taken));
        if (own >= 0)
            close(own);
        close(taken);
    }
}

/* Leaves no free descriptor, so that the PE cannot receive one. */
static void use_up_descriptors(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 40;
    setrlimit(RLIMIT_NOFILE, &limit);
    while (dup(0) >= 0)
        ;
}

static void poll_until_told(void)
{
    for (;;) {
        must(boot->ops->check(boot));
        usleep(1000);
    }
}

/* The victim aborts. A pipe of the victim closes when it dies, before it is a zombie; the others
 * see that and leave the job at once. The kernel takes some time to write or free the victim's
 * memory. */
static void die_and_wake(void)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/weft-test-wake.%d", (int)getppid());
    mkfifo(path, 0600);
    int fd = open(path, boot->pe == victim ? O_RDWR : O_RDONLY | O_NONBLOCK);
    must(boot->ops->barrier(boot));
    unlink(path);
    if (boot->pe == victim) {
        size_t bytes = 64 << 20;
        memset(malloc(bytes), 1, bytes);
        fcntl(fd, F_SETFL, 0);
        must(boot->ops->barrier(boot));
        signal(SIGABRT, SIG_DFL);
        abort();
    }
    must(boot->ops->barrier(boot));
    char byte;
    while (read(fd, &byte, 1) != 0)
        usleep(100);
    boot->ops->close(boot, false);
    exit(42);
}

/* Starts a process in its own session, which would outlive the job. */
static void leave_helper(void)
{
    if (fork() == 0) {
        if (fork() == 0) {
            setsid();
            for (;;)
                pause();
        }
        _exit(0);
    }
}

static void come_to_grief(void)
{
    if (victim_at("open") || victim_at("check"))
        die();
    if (at("check"))
        poll_until_told();
    gather_some();
    if (victim_at("gather"))
        die();
    if (victim_at("exit0"))
        _exit(0);
    if (victim_at("exit5"))
        _exit(5);
    if (victim_at("unclean")) {
        boot->ops->close(boot, false);
        exit(5);
    }
    if (victim_at("abort")) {
        boot->ops->abort(boot, 7, "no more wool");
        _exit(7);
    }
    if (victim_at("abort256") || victim_at("abort0")) {
        int code = atoi(stage + 5);
        boot->ops->abort(boot, code, "no more wool");
        _exit(base_exit_status(code));
    }
    if (victim_at("exec"))
        execlp("sleep", "sleep", "100", NULL);
    if (victim_at("closeall")) {
        close_range(3, ~0u, 0);
        for (;;)
            pause();
    }
    if (at("wake"))
        die_and_wake();
    if (victim_at("helper"))
        leave_helper();
    if (victim_at("late"))
        pause();
    if (at("hang")) /* it also ignores SIGTERM */
        for (signal(SIGTERM, SIG_IGN);;)
            pause();
    if (victim_at("descriptors"))
        use_up_descriptors();
    if (victim_at("mismatch"))
        must(boot->ops->allgather(boot, "x", (char[256]){0}, 1));
    if (at("nobody"))
        printf("PE %d of %d\n", boot->pe, boot->npes);
    share_all();
    gather_some();
    if (victim_at("finalize"))
        die();
    must(boot->ops->barrier(boot));
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    stage = argv[1];
    victim = atoi(argv[2]);
    const char *pe = getenv("WEFT_PE") ? getenv("WEFT_PE") : getenv("RANK");
    bool is_victim = pe && atoi(pe) == victim;
    if (at("start") && is_victim)
        die();
    if (at("early") && is_victim)
        return 0;
    /* a process between the launcher and this PE closed the descriptor */
    if (at("closed") && is_victim)
        close(atoi(getenv("WEFT_BOOT_SOCKET")));
    must(boot_open(&boot, NULL, 0));
    come_to_grief();
    boot->ops->close(boot, true);
    if (at("after") && is_victim)
        die();
    return 0;
}
