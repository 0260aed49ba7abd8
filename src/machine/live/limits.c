/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of this process: resource limits, capabilities, cgroups and device nodes. Never opens the
 * device node of a GPU, which would start the GPU. */
#include "machine/live/live.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/io_uring.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CAP_BIT_IPC_LOCK = 14, CAP_BIT_SYS_PTRACE = 19, CAP_BIT_SYS_ADMIN = 21 };

static void read_limit(struct machine_number *to, int resource)
{
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)resource, &limit) == 0)
        number_set(to, limit.rlim_cur == RLIM_INFINITY ? -1 : (int64_t)limit.rlim_cur);
}

static void read_status(struct machine *machine, const struct machine_source *source)
{
    struct machine_limit *l = &machine->limits;
    char text[8192], *save = NULL;
    struct live_path path = live_path(source, "proc/self/status");
    long n = live_bytes(path.text, text, sizeof text - 1);
    if (n < 0) {
        number_unknown(machine, &l->seccomp, "%s: %s", path.text, strerror(errno));
        number_unknown(machine, &l->cap_sys_admin, "%s: %s", path.text, strerror(errno));
        return;
    }
    text[n] = '\0';
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        int number;
        uint64_t caps;
        if (sscanf(line, "Seccomp: %d", &number) == 1)
            number_set(&l->seccomp, number);
        else if (sscanf(line, "NoNewPrivs: %d", &number) == 1)
            number_set(&l->no_new_privileges, number);
        else if (sscanf(line, "CapEff: %" SCNx64, &caps) == 1) {
            number_set(&l->cap_sys_admin, caps >> CAP_BIT_SYS_ADMIN & 1);
            number_set(&l->cap_ipc_lock, caps >> CAP_BIT_IPC_LOCK & 1);
            number_set(&l->cap_sys_ptrace, caps >> CAP_BIT_SYS_PTRACE & 1);
        }
    }
}

/* The kernel gives its first PID namespace a fixed number, PROC_PID_INIT_INO. */
static void read_pid_namespace(struct machine *machine, const struct machine_source *source)
{
    struct machine_number *to = &machine->limits.own_pid_namespace;
    struct live_path path = live_path(source, "proc/self/ns/pid");
    char name[64];
    if (live_link(path.text, name, sizeof name))
        number_set(to, strcmp(name, "pid:[4026531836]") != 0);
    else
        number_unknown(machine, to, "%s: %s", path.text, strerror(errno));
}

static void read_huge_pages(struct machine *machine, const struct machine_source *source)
{
    struct machine_limit *l = &machine->limits;
    char text[8192], *save = NULL;
    long n = live_bytes(live_path(source, "proc/meminfo").text, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        long long number;
        if (sscanf(line, "HugePages_Total: %lld", &number) == 1)
            number_set(&l->huge_pages, number);
        else if (sscanf(line, "HugePages_Free: %lld", &number) == 1)
            number_set(&l->huge_pages_free, number);
        else if (sscanf(line, "Hugepagesize: %lld kB", &number) == 1)
            number_set(&l->huge_page_bytes, number * 1024);
    }
    char modes[128], word[32];
    const char *open;
    struct live_path path = live_path(source, "sys/kernel/mm/transparent_hugepage/enabled");
    if (!live_line(path.text, modes, sizeof modes))
        text_unknown(machine, &l->transparent_huge_pages, "%s: %s", path.text, strerror(errno));
    else if ((open = strchr(modes, '[')) && sscanf(open, "[%31[^]]]", word) == 1)
        text_set(machine, &l->transparent_huge_pages, word);
}

static void read_shm(struct machine *machine, const struct machine_source *source)
{
    struct statvfs fs;
    struct live_path path = live_path(source, "dev/shm");
    if (*source->root || statvfs(path.text, &fs) != 0) {
        number_unknown(machine, &machine->limits.shm_bytes, "%s: %s", path.text,
                       *source->root ? "not a live file system" : strerror(errno));
        return;
    }
    number_set(&machine->limits.shm_bytes, (int64_t)(fs.f_blocks * fs.f_frsize));
    number_set(&machine->limits.shm_free_bytes, (int64_t)(fs.f_bavail * fs.f_frsize));
}

/* Reads the limit of the process's memory cgroup, version 2 or 1; when its file does not exist (in
 * a container), of the root of the mount. */
static void read_memory_limit(struct machine *machine, const struct machine_source *source)
{
    char text[4096], *save = NULL, line[64];
    struct machine_number *to = &machine->limits.memory_limit_bytes;
    long n = live_bytes(live_path(source, "proc/self/cgroup").text, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
        char *at = strstr(l, ":memory:");
        const char *root = "sys/fs/cgroup/memory", *file = "memory.limit_in_bytes";
        if (strncmp(l, "0::", 3) == 0) {
            root = "sys/fs/cgroup";
            file = "memory.max";
            at = l + 3;
        } else if (at) {
            at += strlen(":memory:");
        } else {
            continue;
        }
        if (!live_line(live_path(source, "%s%s/%s", root, at, file).text, line, sizeof line) &&
            !live_line(live_path(source, "%s/%s", root, file).text, line, sizeof line))
            continue;
        long long bytes = strtoll(line, NULL, 10);
        /* version 1 writes "no limit" as the largest multiple of a page */
        number_set(to, strcmp(line, "max") == 0 || bytes >= INT64_MAX - 65536 ? -1 : bytes);
    }
    if (!to->known)
        number_unknown(machine, to, "no memory cgroup is visible");
}

static void set_node_flag(const struct machine_source *source, struct machine_number *to,
                          const char *node)
{
    int fd = open(live_path(source, "dev/%s", node).text, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    number_set(to, fd >= 0);
    if (fd >= 0)
        close(fd);
}

static bool any_channel(struct machine *machine, const struct machine_source *source)
{
    const char *base = "dev/nvidia-caps-imex-channels";
    const char **names = live_names(machine, live_path(source, "%s", base).text);
    for (; *names; names++)
        if (strncmp(*names, "channel", 7) == 0 &&
            access(live_path(source, "%s/%s", base, *names).text, R_OK | W_OK) == 0)
            return true;
    return false;
}

static void read_nodes(struct machine *machine, const struct machine_source *source)
{
    struct machine_limit *l = &machine->limits;
    int64_t gpus = 0, uverbs = 0, on_bus = 0;
    for (int i = 0; i < 64; i++) {
        gpus += live_exists(live_path(source, "dev/nvidia%d", i).text);
        struct live_path node = live_path(source, "dev/infiniband/uverbs%d", i);
        uverbs += access(node.text, R_OK | W_OK) == 0;
    }
    for (size_t i = 0; i < machine->n_pci; i++)
        on_bus += number_is(machine->pci[i].vendor, 0x10de) &&
                  number_or(machine->pci[i].class, 0) >> 16 == 0x03;
    number_set(&l->nvidia_nodes, gpus);
    number_set(&l->uverbs_nodes, uverbs);
    number_set(&l->nvidia_pci_devices, on_bus);
    set_node_flag(source, &l->nvidiactl_node, "nvidiactl");
    set_node_flag(source, &l->nvidia_uvm_node, "nvidia-uvm");
    set_node_flag(source, &l->gdrdrv_node, "gdrdrv");
    set_node_flag(source, &l->nvidia_fs_node, "nvidia-fs0");
    set_node_flag(source, &l->kfd_node, "kfd");
    number_set(&l->nvidia_caps_nodes, live_exists(live_path(source, "dev/nvidia-caps").text));
    number_set(&l->imex_channel_node, any_channel(machine, source));
}

/* Calls io_uring_setup, because only the call shows the seccomp filter of a container. With another
 * root, only the sysctl value 2 (forbidden for all) is known. */
static void read_io_uring(struct machine *machine, const struct machine_source *source)
{
    struct machine_number *to = &machine->limits.io_uring, sysctl = {0};
    struct live_path path = live_path(source, "proc/sys/kernel/io_uring_disabled");
    struct io_uring_params params = {0};
    if (*source->root) {
        if (live_exists(path.text))
            live_number(machine, &sysctl, path.text);
        if (number_is(sysctl, 2))
            number_set(to, 0);
        else
            number_unknown(machine, to, "%s: not 2, and this is not the kernel of that root",
                           path.text);
        return;
    }
    int fd = (int)syscall(__NR_io_uring_setup, 1, &params);
    number_set(to, fd >= 0);
    if (fd >= 0)
        close(fd);
}

static void read_variable(struct machine *machine, struct machine_text *to, const char *name)
{
    const char *value = getenv(name);
    if (value)
        text_set(machine, to, value);
    else
        text_unknown(machine, to, "not set");
}

void live_limits(struct machine *machine, const struct machine_source *source)
{
    struct machine_limit *l = &machine->limits;
    struct live_path yama = live_path(source, "proc/sys/kernel/yama/ptrace_scope");
    if (!*source->root || source->here) {
        cpu_set_t cpus;
        read_limit(&l->memlock_bytes, RLIMIT_MEMLOCK);
        read_limit(&l->open_files, RLIMIT_NOFILE);
        if (sched_getaffinity(0, sizeof cpus, &cpus) == 0)
            number_set(&l->cpus_allowed, CPU_COUNT(&cpus));
        read_variable(machine, &l->cuda_visible_devices, "CUDA_VISIBLE_DEVICES");
        read_variable(machine, &l->weft_map, "WEFT_MAP");
    }
    read_status(machine, source);
    read_pid_namespace(machine, source);
    if (live_exists(yama.text))
        live_number(machine, &l->ptrace_scope, yama.text);
    else
        number_set(&l->ptrace_scope, 0);
    read_huge_pages(machine, source);
    read_shm(machine, source);
    read_memory_limit(machine, source);
    read_nodes(machine, source);
    read_io_uring(machine, source);
    number_set(&l->udev_data, live_exists(live_path(source, "run/udev/data").text));
}
