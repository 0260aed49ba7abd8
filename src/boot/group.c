/* SPDX-License-Identifier: Apache-2.0 */
/* PEs that are threads of one process. They synchronise with one mutex and one condition variable.
 * Descriptors are duplicated, and addresses are passed in the group's shared slot. */
#include "base/clock.h"
#include "base/config.h"
#include "base/interrupt.h"
#include "base/status.h"
#include "boot/methods.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { GROUP_MOST_PES = 4096 };

struct weft_group {
    int n;
    pthread_mutex_t lock; /* guards all fields below */
    pthread_cond_t moved; /* signalled when a round is complete or the job has ended */
    int arrived;
    uint64_t round;
    const void **mine; /* source of each member's gather; valid during its round */
    size_t *bytes;     /* size of each member's source */
    int shared_fd;     /* descriptor of the member that shares one */
    void *shared_slot; /* see boot.h */
    bool *member;      /* members that have opened this job and not left it */
    int members;       /* number of these members */
    int joined;        /* number of members that have opened this job, including those that have
                          left it */
    weft_status ended; /* not WEFT_OK: the reason for which every wait must end */
    char sentence[512];
};

struct group_boot {
    struct boot boot;
    weft_group *group;
};

static weft_group *group_of(struct boot *boot)
{
    return ((struct group_boot *)boot)->group;
}

/* The caller holds the lock. The first reason is kept. */
static void end_group(weft_group *group, weft_status why, const char *sentence)
{
    if (!group->ended) {
        group->ended = why;
        snprintf(group->sentence, sizeof group->sentence, "%s", sentence);
    }
    pthread_cond_broadcast(&group->moved);
}

static weft_status group_failure(const weft_group *group)
{
    return group->ended ? base_fail(group->ended, "%s", group->sentence) : WEFT_OK;
}

static struct timespec time_at(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000),
                             .tv_nsec = (long)(ns % 1000000000)};
}

/* Waits until a member arrives or the job ends, `until_ns` (0: no limit) or the next call of the
 * program's check. Returns true when `until_ns` came first. The caller holds the lock. */
static bool await_change(weft_group *group, uint64_t until_ns)
{
    uint64_t wake_ns = until_ns;
    if (interrupt_get().check) {
        wake_ns = clock_now_ns() + INTERRUPT_EVERY_NS;
        if (until_ns && until_ns < wake_ns)
            wake_ns = until_ns;
    }
    struct timespec until = time_at(wake_ns);
    int error = wake_ns ? pthread_cond_timedwait(&group->moved, &group->lock, &until)
                        : pthread_cond_wait(&group->moved, &group->lock);
    return error == ETIMEDOUT && wake_ns == until_ns;
}

static void end_late(weft_group *group)
{
    char sentence[160];
    snprintf(sentence, sizeof sentence,
             "only %d of %d PEs (threads) reached a barrier within WEFT_WAIT_LIMIT", group->arrived,
             group->n);
    end_group(group, WEFT_ERR_TIMEOUT, sentence);
}

/* Calls the program's check, without the lock, which the caller holds. When it ends the wait, the
 * job ends for the other members. */
static weft_status check_interrupt(struct boot *boot)
{
    weft_group *group = group_of(boot);
    pthread_mutex_unlock(&group->lock);
    weft_status status = interrupt_check();
    pthread_mutex_lock(&group->lock);
    char sentence[80];
    snprintf(sentence, sizeof sentence, "PE %d was interrupted while it waited in weft_init",
             boot->pe);
    if (status)
        end_group(group, WEFT_ERR_JOB, sentence);
    return status;
}

/* Waits until all members have arrived in this round. The caller holds the lock. */
static weft_status await_members(struct boot *boot)
{
    weft_group *group = group_of(boot);
    if (group->ended)
        return group_failure(group);
    if (++group->arrived == group->n) {
        group->arrived = 0;
        group->round++;
        pthread_cond_broadcast(&group->moved);
        return WEFT_OK;
    }
    uint64_t limit_ns = config_duration_ns(CONFIG_WAIT_LIMIT), round = group->round;
    uint64_t until_ns = limit_ns ? clock_now_ns() + limit_ns : 0;
    weft_status interrupted = WEFT_OK;
    while (group->round == round && !group->ended && !interrupted) {
        bool late = await_change(group, until_ns);
        if (group->round != round)
            break;
        if (late)
            end_late(group);
        else
            interrupted = check_interrupt(boot);
    }
    if (interrupted && group->round == round)
        return base_fail(interrupted, "%s", group->sentence);
    /* A completed round counts even when the job ended directly after it. */
    return group->round != round ? WEFT_OK : group_failure(group);
}

static weft_status check_sizes(weft_group *group)
{
    for (int pe = 1; pe < group->n; pe++)
        if (group->bytes[pe] != group->bytes[0])
            return base_fail(WEFT_ERR_MISMATCH, "PE 0 gathers %zu bytes, PE %d %zu bytes",
                             group->bytes[0], pe, group->bytes[pe]);
    return WEFT_OK;
}

static weft_status group_allgather(struct boot *boot, const void *mine, void *all, size_t bytes)
{
    weft_group *group = group_of(boot);
    pthread_mutex_lock(&group->lock);
    group->mine[boot->pe] = mine;
    group->bytes[boot->pe] = bytes;
    weft_status status = await_members(boot);
    weft_status sizes = status ? status : check_sizes(group);
    pthread_mutex_unlock(&group->lock);

    if (!sizes && bytes) /* between the two barriers no member changes its source */
        for (int pe = 0; pe < group->n; pe++)
            memmove((char *)all + (size_t)pe * bytes, group->mine[pe], bytes);
    if (status)
        return status;

    pthread_mutex_lock(&group->lock);
    status = await_members(boot);
    pthread_mutex_unlock(&group->lock);
    return sizes ? sizes : status;
}

static weft_status group_barrier(struct boot *boot)
{
    weft_group *group = group_of(boot);
    pthread_mutex_lock(&group->lock);
    weft_status status = await_members(boot);
    pthread_mutex_unlock(&group->lock);
    return status;
}

static weft_status group_share_fd(struct boot *boot, int from, int fd, int *taken)
{
    weft_group *group = group_of(boot);
    *taken = -1;
    pthread_mutex_lock(&group->lock);
    if (boot->pe == from)
        group->shared_fd = fd;
    weft_status status = await_members(boot);
    weft_status copied = status;
    if (!status) {
        *taken = fcntl(group->shared_fd, F_DUPFD_CLOEXEC, 0);
        if (*taken < 0)
            copied = base_fail(WEFT_ERR_SYSTEM, "duplicating descriptor %d of PE %d: %s",
                               group->shared_fd, from, strerror(errno));
        status = await_members(boot); /* after this barrier the owner may close it, or share
                                         another */
    }
    pthread_mutex_unlock(&group->lock);
    if (status && *taken >= 0) {
        close(*taken);
        *taken = -1;
    }
    return copied ? copied : status;
}

static void group_abort(struct boot *boot, int code, const char *sentence)
{
    weft_group *group = group_of(boot);
    char text[512];
    snprintf(text, sizeof text, "PE %d aborted the job with code %d: %s", boot->pe, code, sentence);
    pthread_mutex_lock(&group->lock);
    end_group(group, WEFT_ERR_JOB, text);
    pthread_mutex_unlock(&group->lock);
}

static void group_fail(struct boot *boot, weft_status why, const char *sentence)
{
    weft_group *group = group_of(boot);
    pthread_mutex_lock(&group->lock);
    end_group(group, why, sentence);
    pthread_mutex_unlock(&group->lock);
}

static weft_status group_check(struct boot *boot)
{
    weft_group *group = group_of(boot);
    pthread_mutex_lock(&group->lock);
    weft_status status = group_failure(group);
    pthread_mutex_unlock(&group->lock);
    return status;
}

static void group_forked(struct boot *boot)
{
}

static void group_close(struct boot *boot, bool clean)
{
    weft_group *group = group_of(boot);
    char text[80];
    snprintf(text, sizeof text, "PE %d (a thread) left the job before weft_finalize", boot->pe);
    pthread_mutex_lock(&group->lock);
    group->member[boot->pe] = false;
    if (!clean)
        end_group(group, WEFT_ERR_PEER_DEAD, text);
    /* The next job of the same group begins with clean state. A member that comes late to a failed
     * job must still get the failure. */
    if (--group->members == 0 && group->joined >= group->n) {
        group->ended = WEFT_OK;
        group->arrived = 0;
        group->joined = 0;
    }
    pthread_mutex_unlock(&group->lock);
    boot_unset(boot);
    free(boot);
}

static const struct boot_ops group_ops = {
    .name = "threads",
    .allgather = group_allgather,
    .barrier = group_barrier,
    .share_fd = group_share_fd,
    .abort = group_abort,
    .fail = group_fail,
    .check = group_check,
    .forked = group_forked,
    .close = group_close,
};

static weft_status join_group(weft_group *group, int pe)
{
    pthread_mutex_lock(&group->lock);
    bool taken = group->member[pe];
    if (!taken) {
        group->member[pe] = true;
        group->members++;
        group->joined++;
    }
    pthread_mutex_unlock(&group->lock);
    if (taken)
        return base_fail(WEFT_ERR_ARGUMENT, "PE %d of the group is already in use", pe);
    return WEFT_OK;
}

weft_status boot_open_group(struct boot **boot, weft_group *group, int pe)
{
    if (pe < 0 || pe >= group->n)
        return base_fail(WEFT_ERR_PE, "PE %d is not in a group of %d PEs", pe, group->n);
    struct group_boot *made = calloc(1, sizeof *made);
    if (!made)
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for PE %d of a group", pe);
    made->group = group;
    made->boot.shared_slot = &group->shared_slot;
    boot_set(&made->boot, &group_ops, pe, group->n);
    weft_status status = boot_one_node(&made->boot);
    if (!status)
        status = join_group(group, pe);
    if (status) {
        boot_unset(&made->boot);
        free(made);
        return status;
    }
    *boot = &made->boot;
    return WEFT_OK;
}

void boot_group_destroy(weft_group *group)
{
    if (!group)
        return;
    pthread_cond_destroy(&group->moved);
    pthread_mutex_destroy(&group->lock);
    free(group->mine);
    free(group->bytes);
    free(group->member);
    free(group);
}

static weft_status init_locks(weft_group *group)
{
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC); /* the clock of clock_now_ns() */
    int error = pthread_cond_init(&group->moved, &clock);
    pthread_condattr_destroy(&clock);
    if (!error)
        error = pthread_mutex_init(&group->lock, NULL);
    return error ? base_fail(WEFT_ERR_SYSTEM, "making a lock: %s", strerror(error)) : WEFT_OK;
}

weft_status boot_group_create(int n, weft_group **group)
{
    if (!group)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_group_create: group is null");
    *group = NULL;
    if (n < 1 || n > GROUP_MOST_PES)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_group_create: %d PEs; 1 to %d are possible", n,
                         GROUP_MOST_PES);
    weft_group *made = calloc(1, sizeof *made);
    if (!made)
        return base_fail(WEFT_ERR_NO_MEMORY, "no memory for a group of %d PEs", n);
    made->n = n;
    made->shared_fd = -1;
    made->mine = calloc((size_t)n, sizeof *made->mine);
    made->bytes = calloc((size_t)n, sizeof *made->bytes);
    made->member = calloc((size_t)n, sizeof *made->member);
    weft_status status = init_locks(made);
    if (!made->mine || !made->bytes || !made->member)
        status = base_fail(WEFT_ERR_NO_MEMORY, "no memory for a group of %d PEs", n);
    if (status) {
        boot_group_destroy(made);
        return status;
    }
    *group = made;
    return WEFT_OK;
}
