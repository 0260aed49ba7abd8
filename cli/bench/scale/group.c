/* SPDX-License-Identifier: Apache-2.0 */
/* What the processes of a job spend on frames, measured with a small group: a parent that sends a
 * frame to each of its children, which sleep, and waits until each has answered. The wires and the
 * system calls around them are those of a job: between agent and PE over AF_UNIX, between launcher
 * and agent over TCP, with tags. See scale.h. */
#include "bench/scale/group.h"

#include "commands.h"
#include "own_path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ROUNDS = 100,
    WARM_UP = 20,
    ROUNDS_MOST = 10 * ROUNDS, /* while other groups are measured; one of them may have failed */
    SMALL_BYTES = 16,
    CHILDREN_MOST = SCALE_GROUP_MOST
};

struct group_times {
    double receive_ns[ROUNDS], send_ns[ROUNDS];
};

struct frame_group {
    bool between_hosts;
    int children;
    size_t bytes; /* of a frame to a child */
    pid_t pids[CHILDREN_MOST];
    struct wire wires[CHILDREN_MOST];
    struct group_times *times; /* of each child; shared with it */
    int shared;                /* descriptor of that memory */
    int epoll;
};

bool scale_report_errno(const char *what)
{
    fprintf(stderr, "weft bench scale: %s: %s\n", what, strerror(errno));
    return false;
}

static bool report_wire(void)
{
    fprintf(stderr, "weft bench scale: %s\n", weft_last_error());
    return false;
}

/* Two ends of a TCP connection of this machine. */
static bool open_tcp_pair(int fds[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fds[1] = -1;
    if (listening >= 0 && fds[0] >= 0 && bind(listening, (struct sockaddr *)&at, sizeof at) == 0 &&
        listen(listening, 1) == 0 && getsockname(listening, (struct sockaddr *)&at, &bytes) == 0 &&
        connect(fds[0], (struct sockaddr *)&at, sizeof at) == 0)
        fds[1] = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
    const bool good = fds[1] >= 0 || scale_report_errno("a TCP connection on this machine");
    if (listening >= 0)
        close(listening);
    if (!good && fds[0] >= 0)
        close(fds[0]);
    for (int i = 0; good && i < 2; i++)
        rendezvous_tune(fds[i]);
    return good;
}

static void init_wire(struct wire *wire, bool between_hosts, int fd, bool connecting)
{
    const uint8_t keys[2][WIRE_KEY_BYTES] = {{1}, {2}};
    wire_init(wire, fd, between_hosts ? keys : NULL, connecting);
}

static bool open_wires(bool between_hosts, struct wire ends[2])
{
    const int on = 1;
    int fds[2];
    if (between_hosts ? !open_tcp_pair(fds)
                      : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0 &&
                            !scale_report_errno("a socket pair"))
        return false;
    if (!between_hosts) /* as the launcher's end has it */
        setsockopt(fds[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
    for (int i = 0; i < 2; i++)
        init_wire(&ends[i], between_hosts, fds[i], i == 0);
    return true;
}

/* ------------------------------------------------------------------------------------ children */

static bool watch(int epoll, int operation, int fd, int number)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = number};
    return epoll_ctl(epoll, operation, fd, &event) == 0;
}

/* A PE waits as boot/hub/member.c does, an agent as cli/run/run.c does. */
static void await_event(const struct frame_group *group, int epoll, struct boot_limit *limit)
{
    struct epoll_event event;
    if (group->between_hosts)
        epoll_wait(epoll, &event, 1, -1);
    else
        while (epoll_wait(epoll, &event, 1, 0) == 0)
            boot_limit_poll(limit, epoll, POLLIN);
}

/* Answers frames until the parent closes the wire. */
static void answer_frames(const struct frame_group *group, struct wire *wire,
                          struct group_times *times)
{
    static char contents[SCALE_GROUP_BYTES_MOST];
    struct boot_limit limit = boot_limit_start();
    struct wire_frame *frame;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0 || !watch(epoll, EPOLL_CTL_ADD, wire->fd, 0))
        return;
    for (int i = 0;; i++) {
        weft_status status = WEFT_OK;
        uint64_t began = clock_now_ns();
        while (!(frame = wire_take(wire)) && !status) {
            await_event(group, epoll, &limit);
            began = clock_now_ns();
            status = wire_read(wire);
        }
        if (status)
            return;
        memcpy(contents, frame->payload, frame->bytes); /* as an exchange does */
        wire_frame_free(frame);
        uint64_t received = clock_now_ns();
        status = wire_send(wire, &limit, FRAME_PART, 0, times, SMALL_BYTES, -1);
        if (status || (group->between_hosts && !watch(epoll, EPOLL_CTL_MOD, wire->fd, 0)))
            return;
        if (i >= WARM_UP && i < WARM_UP + ROUNDS) {
            times->receive_ns[i - WARM_UP] = (double)(received - began);
            times->send_ns[i - WARM_UP] = (double)(clock_now_ns() - received);
        }
    }
}

/* The child is a new program, as those of a job are: it shares less memory than a copy does. */
static void execute_child(const struct frame_group *group, int i, int fd)
{
    char self[PATH_MAX], fds[2][12], number[12];
    fcntl(fd, F_SETFD, 0);
    fcntl(group->shared, F_SETFD, 0);
    snprintf(fds[0], sizeof fds[0], "%d", fd);
    snprintf(fds[1], sizeof fds[1], "%d", group->shared);
    snprintf(number, sizeof number, "%d", i);
    if (cli_own_path(self))
        execl(self, self, "bench", "scale", "--as-child", group->between_hosts ? "1" : "0", number,
              fds[0], fds[1], NULL);
    _exit(127);
}

static struct group_times *map_times(int fd, int children)
{
    struct group_times *times =
        mmap(NULL, (size_t)children * sizeof *times, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return times != MAP_FAILED ? times : NULL;
}

int scale_be_child(int argc, char **argv)
{
    if (argc < 4)
        return EXIT_USAGE;
    const struct frame_group group = {.between_hosts = *argv[0] == '1'};
    const int number = atoi(argv[1]);
    struct group_times *times = map_times(atoi(argv[3]), number + 1);
    struct wire wire;
    init_wire(&wire, group.between_hosts, atoi(argv[2]), false);
    if (!times)
        return EXIT_FAULT;
    answer_frames(&group, &wire, &times[number]);
    return EXIT_GOOD;
}

static bool start_child(struct frame_group *group, int i)
{
    struct wire ends[2];
    if (!open_wires(group->between_hosts, ends))
        return false;
    group->wires[i] = ends[0];
    pid_t pid = fork();
    if (pid == 0)
        execute_child(group, i, ends[1].fd);
    wire_close(&ends[1]);
    group->pids[i] = pid;
    if (pid < 0)
        wire_close(&ends[0]);
    return pid > 0 ? watch(group->epoll, EPOLL_CTL_ADD, ends[0].fd, i) : scale_report_errno("fork");
}

/* ---------------------------------------------------------------------------------- the parent */

static bool send_to_all(struct frame_group *group)
{
    static const char contents[SCALE_GROUP_BYTES_MOST];
    for (int i = 0; i < group->children; i++)
        if (wire_post(&group->wires[i], FRAME_ALL, 0, contents, group->bytes, -1) ||
            !watch(group->epoll, EPOLL_CTL_MOD, group->wires[i].fd, i))
            return report_wire();
    return true;
}

/* Adds the time without that in epoll_wait(). */
static bool await_all(struct frame_group *group, double *receive_ns)
{
    for (int left = group->children; left;) {
        struct epoll_event events[CHILDREN_MOST];
        int n = epoll_wait(group->epoll, events, CHILDREN_MOST, -1);
        uint64_t began = clock_now_ns();
        for (int i = 0; i < n; i++) {
            struct wire *wire = &group->wires[events[i].data.fd];
            struct wire_frame *frame;
            if (wire_read(wire))
                return report_wire();
            for (; (frame = wire_take(wire)); left--)
                wire_frame_free(frame);
        }
        *receive_ns += (double)(clock_now_ns() - began);
    }
    return true;
}

static int compare_times(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

double scale_median(double *times, int n)
{
    qsort(times, (size_t)n, sizeof *times, compare_times);
    return (times[(n - 1) / 2] + times[n / 2]) / 2;
}

/* Groups that are measured together. They begin together, and each goes on until all are measured:
 * with the CPUs that a finished group leaves to the others, their rounds would be shorter. */
struct gate {
    int ready[2], go[2]; /* pipes: a byte of each group; closed to begin */
    atomic_int *left;    /* groups that are still measured; shared */
};

static bool repeat_rounds(struct frame_group *group, const struct gate *gate,
                          struct scale_group_costs *costs)
{
    static double sending[ROUNDS + 1], receiving[ROUNDS + 1], rounds[ROUNDS + 1];
    for (int i = -WARM_UP; i < ROUNDS || (gate && *gate->left > 0 && i < ROUNDS_MOST); i++) {
        const int at = i < 0 || i >= ROUNDS ? ROUNDS : i; /* the last one is not a result */
        if (gate && i == ROUNDS)
            --*gate->left;
        receiving[at] = 0;
        uint64_t began = clock_now_ns();
        if (!send_to_all(group))
            return false;
        sending[at] = (double)(clock_now_ns() - began);
        if (!await_all(group, &receiving[at]))
            return false;
        rounds[at] = (double)(clock_now_ns() - began);
    }
    costs->down.send_ns = scale_median(sending, ROUNDS) / group->children;
    costs->up.receive_ns = scale_median(receiving, ROUNDS) / group->children;
    costs->round_ns = scale_median(rounds, ROUNDS);
    return true;
}

static void take_times_of_children(struct frame_group *group, struct scale_group_costs *costs)
{
    for (int i = 0; i < group->children; i++) {
        struct group_times *times = &group->times[i];
        costs->down.receive_ns += scale_median(times->receive_ns, ROUNDS) / group->children;
        costs->up.send_ns += scale_median(times->send_ns, ROUNDS) / group->children;
    }
}

static void end_group(struct frame_group *group)
{
    for (int i = 0; i < group->children; i++)
        wire_close(&group->wires[i]);
    for (int i = 0; i < group->children; i++)
        if (group->pids[i] > 0)
            waitpid(group->pids[i], NULL, 0);
    close(group->epoll);
}

static int first_of(const cpu_set_t *set)
{
    int cpu = 0;
    while (cpu < CPU_SETSIZE - 1 && !CPU_ISSET(cpu, set))
        cpu++;
    return cpu;
}

static bool pin_to(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof set, &set) == 0 || scale_report_errno("sched_setaffinity");
}

static bool pass_gate(struct gate *gate)
{
    char byte = 0;
    close(gate->go[1]);
    return write(gate->ready[1], &byte, 1) == 1 && read(gate->go[0], &byte, 1) == 0;
}

static void open_gate(struct gate *gate, int groups)
{
    char byte;
    close(gate->ready[1]); /* a group that failed has closed its copy */
    for (int i = 0; i < groups && read(gate->ready[0], &byte, 1) == 1; i++)
        ;
    close(gate->ready[0]);
    close(gate->go[0]);
    close(gate->go[1]);
}

static bool run_group(const struct scale_group *what, struct gate *gate,
                      struct scale_group_costs *costs)
{
    struct frame_group group = {.between_hosts = what->between_hosts,
                                .bytes = what->bytes > SMALL_BYTES ? what->bytes : SMALL_BYTES,
                                .epoll = epoll_create1(EPOLL_CLOEXEC)};
    const int children = what->children;
    const size_t bytes = (size_t)children * sizeof *group.times;
    group.shared = memfd_create("weft-scale", MFD_CLOEXEC);
    bool good =
        (group.epoll >= 0 && group.shared >= 0 && ftruncate(group.shared, (off_t)bytes) == 0 &&
         (group.times = map_times(group.shared, children))) ||
        scale_report_errno("memory shared by processes");
    for (int i = 0; good && i < children; i++, group.children++)
        good = start_child(&group, i);
    if (gate) /* also after a failure: the others wait for it */
        good &= pass_gate(gate);
    good = good && repeat_rounds(&group, gate, costs);
    end_group(&group);
    if (good)
        take_times_of_children(&group, costs);
    if (group.times)
        munmap(group.times, bytes);
    if (group.shared >= 0)
        close(group.shared);
    return good;
}

bool scale_measure_group(const struct scale_group *group, bool one_cpu,
                         struct scale_group_costs *costs)
{
    cpu_set_t before;
    *costs = (struct scale_group_costs){0};
    if (sched_getaffinity(0, sizeof before, &before))
        return scale_report_errno("sched_getaffinity");
    bool good = (!one_cpu || pin_to(first_of(&before))) && run_group(group, NULL, costs);
    sched_setaffinity(0, sizeof before, &before);
    return good;
}

static void add_costs(struct scale_group_costs *sum, const struct scale_group_costs *one, int of)
{
    sum->down.send_ns += one->down.send_ns / of;
    sum->down.receive_ns += one->down.receive_ns / of;
    sum->up.send_ns += one->up.send_ns / of;
    sum->up.receive_ns += one->up.receive_ns / of;
    sum->round_ns += one->round_ns / of;
}

bool scale_measure_groups(const struct scale_group *group, int groups,
                          struct scale_group_costs *costs)
{
    const size_t bytes = (size_t)groups * sizeof *costs + sizeof(atomic_int);
    struct scale_group_costs *each =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t *pids = calloc((size_t)groups, sizeof *pids);
    struct gate gate = {{-1, -1}, {-1, -1}, (atomic_int *)(void *)(each + groups)};
    bool good = (each != MAP_FAILED && pids && pipe2(gate.ready, O_CLOEXEC) == 0 &&
                 pipe2(gate.go, O_CLOEXEC) == 0) ||
                scale_report_errno("groups of processes");
    *costs = (struct scale_group_costs){0};
    if (good)
        *gate.left = groups;
    for (int i = 0; good && i < groups; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            _exit(run_group(group, &gate, &each[i]) ? 0 : 1);
        good = pids[i] > 0 || scale_report_errno("fork");
    }
    open_gate(&gate, good ? groups : 0);
    for (int i = 0; pids && i < groups; i++) {
        int status = 1;
        if (pids[i] <= 0)
            continue;
        good &= waitpid(pids[i], &status, 0) == pids[i] && status == 0;
        add_costs(costs, &each[i], groups);
    }
    free(pids);
    if (each != MAP_FAILED)
        munmap(each, bytes);
    return good;
}
