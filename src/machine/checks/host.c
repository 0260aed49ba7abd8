/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of drivers, libraries and the limits of this process. See checks.h. */
#include "machine/checks/checks.h"

#include <inttypes.h>
#include <string.h>

enum {
    MEMLOCK_LEAST = 64 << 20,
    FILES_LEAST = 4096,
    CUDA_LEAST = 11020, /* 11.2: src/driver/cuda.c needs its functions */
};

static bool has_nvidia(const struct machine *machine)
{
    for (size_t i = 0; i < machine->n_gpus; i++)
        if (text_is(machine->gpus[i].vendor, "nvidia"))
            return true;
    return false;
}

static void check_versions(const struct machine *machine, struct findings *findings)
{
    const struct machine_driver *d = &machine->drivers;
    if (d->nvidia_module.value && d->driver.value &&
        strcmp(d->nvidia_module.value, d->driver.value) != 0)
        finding_add(findings, REASON_DRV_MISMATCH, WEIGHT_OFF, NULL, "kernel module %s, NVML %s",
                    d->nvidia_module.value, d->driver.value);
    if (d->cuda.known && d->cuda.value < CUDA_LEAST)
        finding_add(findings, REASON_DRV_OLD, WEIGHT_OFF, NULL,
                    "driver %s supports CUDA %" PRId64 ".%" PRId64, text_or(d->driver, "?"),
                    d->cuda.value / 1000, d->cuda.value % 1000 / 10);
}

void check_drivers(const struct machine *machine, struct findings *findings)
{
    const struct machine_driver *d = &machine->drivers;
    int64_t on_bus = number_or(machine->limits.nvidia_pci_devices, 0);
    /* NVML refuses to start when its version is not that of the kernel module: error 18 */
    bool refused = d->nvidia_module.value && d->driver.why &&
                   (strstr(d->driver.why, "returned 18:") || strstr(d->driver.why, "mismatch"));
    if (on_bus > 0 && !has_nvidia(machine) && !d->driver.value && refused)
        finding_add(findings, REASON_DRV_MISMATCH, WEIGHT_OFF, NULL,
                    "kernel module %s, user library %s; %s", d->nvidia_module.value,
                    text_or(d->libcuda, "?"), d->driver.why);
    else if (on_bus > 0 && !has_nvidia(machine) && !d->driver.value)
        finding_add(findings, REASON_DRV_NONE, WEIGHT_OFF, NULL,
                    "%" PRId64 " NVIDIA GPUs on the bus; %s", on_bus, why_unknown(d->driver.why));
    if (!has_nvidia(machine))
        return;
    check_versions(machine, findings);
    if (number_is(d->nvidia_uvm, 0))
        finding_add(findings, REASON_DRV_UVM, WEIGHT_OFF, NULL, "module nvidia_uvm is not loaded");
    if (text_is(d->fabric_manager, "stopped"))
        finding_add(findings, REASON_FABRIC_MANAGER, WEIGHT_OFF, NULL,
                    "/usr/bin/nv-fabricmanager is installed but does not run");
}

/* All zeros mean no cluster: the NVLink domain is within the node. A cluster id that --anonymous
 * has masked is not hexadecimal, so it counts as no cluster. */
static bool in_cluster(const struct machine_gpu *gpu)
{
    const char *cluster = text_or(gpu->fabric_cluster, "");
    bool is_id = strspn(cluster, "0123456789abcdefABCDEF-") == strlen(cluster);
    return is_id && text_is(gpu->fabric_state, "completed") &&
           strspn(cluster, "0-") < strlen(cluster);
}

static void check_imex(const struct machine *machine, struct findings *findings)
{
    int64_t members = 0;
    for (size_t i = 0; i < machine->n_gpus; i++)
        members += in_cluster(&machine->gpus[i]);
    if (members && text_is(machine->drivers.imex, "stopped"))
        finding_add(findings, REASON_IMEX_STOPPED, WEIGHT_NOTE, NULL,
                    "%" PRId64 " GPUs are in a fabric cluster, no process nvidia-imex", members);
    if (members && number_is(machine->limits.imex_channel_node, 0))
        finding_add(findings, REASON_LIMIT_IMEX, WEIGHT_NOTE, NULL,
                    "%" PRId64 " GPUs are in a fabric cluster, no channel in "
                    "/dev/nvidia-caps-imex-channels",
                    members);
}

static void check_gpu_nodes(const struct machine *machine, struct findings *findings)
{
    const struct machine_limit *l = &machine->limits;
    int64_t on_bus = number_or(l->nvidia_pci_devices, 0),
            nodes = number_or(l->nvidia_nodes, on_bus);
    int64_t seen = has_nvidia(machine) ? (int64_t)machine->n_gpus : on_bus;
    if (on_bus > 0 && (nodes < on_bus || seen < on_bus))
        finding_add(findings, REASON_LIMIT_GPUS, WEIGHT_NOTE, NULL,
                    "%" PRId64 " NVIDIA GPUs on the bus, %" PRId64 " device nodes, %" PRId64
                    " listed by the driver",
                    on_bus, nodes, seen);
    if (!has_nvidia(machine))
        return;
    if (number_is(l->nvidia_uvm_node, 0))
        finding_add(findings, REASON_LIMIT_UVM, WEIGHT_OFF, NULL,
                    "/dev/nvidia-uvm cannot be opened");
    check_imex(machine, findings);
    if (number_is(l->nvidia_caps_nodes, 0))
        finding_add(findings, REASON_LIMIT_CAPS, WEIGHT_NOTE, NULL,
                    "/dev/nvidia-caps does not exist");
}

static void check_memory(const struct machine *machine, struct findings *findings)
{
    const struct machine_limit *l = &machine->limits;
    int64_t least = 0;
    for (size_t i = 0; i < machine->n_gpus; i++) {
        int64_t bytes = number_or(machine->gpus[i].memory_bytes, 0);
        least = bytes && (!least || bytes < least) ? bytes : least;
    }
    if (least && number_or(l->memory_limit_bytes, -1) >= 0 &&
        l->memory_limit_bytes.value / 2 < least)
        finding_add(findings, REASON_LIMIT_MEMORY, WEIGHT_NOTE, NULL,
                    "memory cgroup %" PRId64 " MiB, GPU memory %" PRId64 " MiB",
                    l->memory_limit_bytes.value >> 20, least >> 20);
    if (l->shm_bytes.known && l->shm_bytes.value < (1 << 30))
        finding_add(findings, REASON_LIMIT_SHM, WEIGHT_NOTE, NULL, "/dev/shm has %" PRId64 " MiB",
                    l->shm_bytes.value >> 20);
    if (text_is(l->transparent_huge_pages, "never") && number_is(l->huge_pages, 0))
        finding_add(findings, REASON_LIMIT_HUGE_PAGES, WEIGHT_NOTE, NULL,
                    "transparent huge pages: never; huge pages: 0 reserved");
}

void check_limits(const struct machine *machine, struct findings *findings)
{
    const struct machine_limit *l = &machine->limits;
    bool locks_all = number_is(l->cap_ipc_lock, 1);
    if (machine->n_nics && !locks_all && number_or(l->memlock_bytes, -1) >= 0 &&
        l->memlock_bytes.value < MEMLOCK_LEAST)
        finding_add(findings, REASON_LIMIT_MEMLOCK, WEIGHT_OFF, NULL,
                    "RLIMIT_MEMLOCK is %" PRId64 " KiB, no IPC_LOCK, %zu RDMA devices",
                    l->memlock_bytes.value >> 10, machine->n_nics);
    if (number_or(l->open_files, -1) >= 0 && l->open_files.value < FILES_LEAST)
        finding_add(findings, REASON_LIMIT_FILES, WEIGHT_SLOW, NULL, "RLIMIT_NOFILE is %" PRId64,
                    l->open_files.value);
    if (number_is(l->io_uring, 0))
        finding_add(findings, REASON_FILE_NO_URING, WEIGHT_NOTE, NULL,
                    "io_uring_setup is refused to this process");
    if (number_is(l->seccomp, 2) && number_is(l->cap_sys_ptrace, 0))
        finding_add(findings, REASON_LIMIT_SECCOMP, WEIGHT_NOTE, NULL,
                    "seccomp filter, no SYS_PTRACE, ptrace_scope %" PRId64,
                    number_or(l->ptrace_scope, 0));
    if (number_is(l->own_pid_namespace, 1) && has_nvidia(machine))
        finding_add(findings, REASON_LIMIT_PIDS, WEIGHT_NOTE, NULL,
                    "/proc/self/ns/pid: a PID namespace of its own");
    check_gpu_nodes(machine, findings);
    check_memory(machine, findings);
}

/* --- coherent links between GPU and CPU ------------------------------------------------------- */

static bool has_coherent_gpu(const struct machine *machine)
{
    for (size_t i = 0; i < machine->n_gpus; i++)
        if (routes_coherent(machine, &machine->gpus[i]))
            return true;
    return false;
}

/* Settings that NVIDIA recommends for Grace ("Grace CPU Benchmarking Guide", Platform
 * Configuration, and "Grace Performance Tuning Guide", Operating System Settings). */
void check_coherent(const struct machine *machine, struct findings *findings)
{
    const struct machine_system *s = &machine->system;
    if (!has_coherent_gpu(machine))
        return;
    if (number_or(s->numa_balancing, 0) > 0)
        finding_repair(finding_add(findings, REASON_NUMA_BALANCING, WEIGHT_SLOW, NULL,
                                   "kernel.numa_balancing is %" PRId64, s->numa_balancing.value),
                       "set system.numa_balancing 0");
    if (text_is(s->arch, "aarch64") && number_is(s->page_bytes, 4096))
        finding_add(findings, REASON_KERNEL_PAGES, WEIGHT_NOTE, NULL, "kernel %s: pages of 4 KiB",
                    text_or(s->kernel, "?"));
    if (number_is(s->init_on_alloc, 1))
        finding_add(findings, REASON_INIT_ON_ALLOC, WEIGHT_NOTE, NULL, "init_on_alloc is on");
}
