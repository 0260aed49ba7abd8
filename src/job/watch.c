/* SPDX-License-Identifier: Apache-2.0 */
/* Follows waits from black box to black box. Boxes are written while they are read: a torn entry
 * leads to a wrong PE for one check, never out of bounds. */
#include "job/watch.h"

#include "base/clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* largest number of PEs of a node that are followed */
enum { SET_WORDS = 64, SET_BITS = 64 * SET_WORDS };

struct watch_set {
    uint64_t words[SET_WORDS];
    bool remote; /* the set also contains PEs of other nodes */
};

static bool set_has(const struct watch_set *set, int i)
{
    return set->words[i / 64] >> (i % 64) & 1;
}

static void set_add(struct watch_set *set, int i)
{
    set->words[i / 64] |= 1ull << (i % 64);
}

static int slot_of(const struct weft_job *job, int pe)
{
    for (int slot = 0; slot < job->boot->local_npes; slot++)
        if (job->boot->local_pes[slot] == pe)
            return slot;
    return -1;
}

static int slots(const struct weft_job *job)
{
    return job->boot->local_npes < SET_BITS ? job->boot->local_npes : SET_BITS;
}

static void add_pe(const struct weft_job *job, struct watch_set *set, int pe)
{
    int slot = pe < 0 ? -1 : slot_of(job, pe);
    set->remote |= slot < 0 && job->boot->nodes > 1;
    for (int i = 0; pe < 0 && i < slots(job); i++)
        set_add(set, i);
    if (slot >= 0 && slot < slots(job))
        set_add(set, slot);
}

/* Adds the PEs that the waits in the box of this slot depend on. */
static void add_waits(const struct weft_job *job, struct watch_set *set, int slot)
{
    struct box *box = job_box(job, slot);
    for (int i = 0; i < BOX_WAITS; i++)
        if (atomic_load_explicit(&box->waits[i].operation, memory_order_acquire) != BOX_OP_NONE)
            add_pe(job, set, __atomic_load_n(&box->waits[i].peer, __ATOMIC_RELAXED));
}

static void collect_dependencies(const struct weft_job *job, int pe, struct watch_set *set)
{
    struct watch_set followed = {{0}, false};
    add_pe(job, set, pe);
    for (bool more = true; more;) {
        more = false;
        for (int slot = 0; slot < slots(job); slot++) {
            if (!set_has(set, slot) || set_has(&followed, slot))
                continue;
            set_add(&followed, slot);
            add_waits(job, set, slot);
            more = true;
        }
    }
}

/* The process id of a slot in this process's PID namespace, from the lock on its byte (life.c); 0:
 * unknown. */
static pid_t pid_of(const struct weft_job *job, int slot)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};
    if (job->threads_are_pes || slot == job->boot->local_pe ||
        fcntl(job->segments[SEG_SYSTEM].fd, F_GETLK, &lock) || lock.l_type == F_UNLCK)
        return 0;
    return lock.l_pid > 0 ? lock.l_pid : 0;
}

/* Whether a process is stopped. Also false where /proc belongs to another PID namespace, whose
 * numbers are other processes. */
static bool is_stopped(pid_t pid)
{
    char path[32], text[512];
    ssize_t own = readlink("/proc/self", text, sizeof text - 1);
    text[own > 0 ? own : 0] = '\0';
    if (atoi(text) != (int)getpid())
        return false;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = pid > 0 ? fopen(path, "re") : NULL;
    if (!file)
        return false;
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    /* "pid (name) state ...": the name may hold anything, even ")". */
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] == ' ' && (name_end[2] == 'T' || name_end[2] == 't');
}

struct watch watch_peers(struct weft_job *job, int pe)
{
    struct watch_set set = {{0}, false};
    struct watch view = {0};
    collect_dependencies(job, pe, &set);
    for (int slot = 0; slot < slots(job); slot++) {
        if (!set_has(&set, slot))
            continue;
        view.moves += box_progress_count(job_box(job, slot));
        view.stopped = view.stopped || is_stopped(pid_of(job, slot));
    }
    view.remote = set.remote;
    return view;
}

uint64_t watch_remote_nodes(struct weft_job *job, uint64_t *moves)
{
    struct box *copy = malloc(sizeof *copy);
    uint64_t failed_ns = 0;
    *moves = 0;
    for (int pe = 0; copy && pe < job->npes && !failed_ns; pe++) {
        const struct path_ops *ops = path_ops_of(job->paths.choices[WEFT_HOST][pe].path);
        struct remote box = {&job->system_ctx->peers[WEFT_HOST][pe], SEG_SYSTEM, 0};
        uint64_t begun_ns = clock_now_ns();
        if (slot_of(job, pe) >= 0 || !ops->get)
            continue;
        if (ops->get(box, copy, sizeof *copy, false))
            failed_ns = clock_now_ns() - begun_ns;
        else
            *moves += box_progress_count(copy);
    }
    free(copy);
    return failed_ns;
}

void watch_describe(struct weft_job *job, int pe, char *text, size_t bytes)
{
    int slot = pe < 0 ? -1 : slot_of(job, pe);
    if (pe < 0)
        snprintf(text, bytes, "any PE may store there");
    else if (slot < 0)
        snprintf(text, bytes, "PE %d%s is on another node", pe, boot_where(job->boot, pe).text);
    else if (is_stopped(pid_of(job, slot)))
        snprintf(text, bytes, "PE %d (pid %d) is stopped, by a signal or in a debugger", pe,
                 job_box(job, slot)->pid);
    else
        box_doing_text(job_box(job, slot), text, bytes);
}
