/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a job's processes in /proc and its GPUs through NVML. See job_gpus.h. */
#include "tool/job_gpus.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "driver/nvml.h"

enum { PROCESSES_MOST = 4096, ON_GPU_MOST = 256, LAUNCHER_NAME_MOST = 16 };

struct process {
    int pid, parent;
    bool member;
};

/* Parent and name of a process; 0 when the process does not exist. */
static int parent_of(int pid, char *name)
{
    char path[64], line[512];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    char *open, *close;
    /* the name is in parentheses and may contain parentheses */
    if (fgets(line, sizeof line, file) && (open = strchr(line, '(')) &&
        (close = strrchr(line, ')')) && sscanf(close + 1, " %*c %d", &parent) == 1)
        snprintf(name, LAUNCHER_NAME_MOST, "%.*s", (int)(close - open - 1), open + 1);
    fclose(file);
    return parent;
}

static int list_processes(struct process *list)
{
    int n = 0;
    char name[LAUNCHER_NAME_MOST];
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc && (entry = readdir(proc)) && n < PROCESSES_MOST;) {
        int pid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;
        if (pid)
            list[n++] = (struct process){.pid = pid, .parent = parent_of(pid, name)};
    }
    if (proc)
        closedir(proc);
    return n;
}

static bool is_member(const struct process *list, int n, int pid)
{
    for (int i = 0; i < n; i++)
        if (list[i].pid == pid)
            return list[i].member;
    return false;
}

/* Marks `root` and its descendants as members of the job. */
static int mark_members(struct process *list, int n, int root)
{
    int members = 0;
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < n; i++) {
            if (list[i].member || (list[i].pid != root && !is_member(list, n, list[i].parent)))
                continue;
            list[i].member = again = true;
            members++;
        }
    }
    return members;
}

static bool uses(const struct nvml *nvml, nvml_device device, const struct process *list, int n)
{
    static struct nvml_process on_gpu[ON_GPU_MOST];
    unsigned count = ON_GPU_MOST;
    if (!nvml->processes || nvml->processes(device, &count, on_gpu) != NVML_OK)
        return false;
    for (unsigned i = 0; i < count; i++)
        if (is_member(list, n, (int)on_gpu[i].pid))
            return true;
    return false;
}

weft_status job_find_gpus(int pid, struct job_gpus *job)
{
    static struct process list[PROCESSES_MOST];
    char name[LAUNCHER_NAME_MOST] = "", above[LAUNCHER_NAME_MOST] = "";
    struct nvml nvml;
    unsigned count = 0;
    *job = (struct job_gpus){.n = 0};
    int parent = parent_of(pid, name);
    if (!*name)
        return base_fail(WEFT_ERR_ARGUMENT, "there is no process %d", pid);
    if (parent)
        parent_of(parent, above);
    int n = list_processes(list);
    job->processes = mark_members(list, n, strcmp(above, "weft") == 0 ? parent : pid);
    weft_status status = nvml_open(&nvml);
    if (status)
        return base_fail_context(status, "the GPUs of process %d cannot be read", pid);
    if (nvml.count)
        nvml.count(&count);
    for (unsigned i = 0; i < count && job->n < JOB_GPUS_MOST; i++) {
        nvml_device device;
        if (nvml.by_index && nvml.by_index(i, &device) == NVML_OK && uses(&nvml, device, list, n))
            job->gpus[job->n++] = (int)i;
    }
    nvml_close(&nvml);
    return WEFT_OK;
}
