/* SPDX-License-Identifier: Apache-2.0 */
/* Joining and leaving a job. Joining contacts the other PEs, creates the segments, and chooses and
 * tests a path to every PE; leaving undoes all of it. The handles of a finalized job stay, emptied,
 * so that calls on them are refused with a message. */
#include "job/device_state.h"
#include "job/device_watch.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/cpus.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "box/choices.h"
#include "driver/gpu_api.h"
#include "memory/global_data.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Numbers of polls before a yield. With a CPU per PE a yield costs only a system call, so waits of
 * up to about 100 us do without; longer ones are likely for a PE that does not run because the
 * machine has other work. Where PEs share a CPU, the awaited PE is probably not running: each poll
 * delays it, and each pause instruction more so (60 ns on recent Xeons). */
enum { SPIN_SPARE_CPUS = 2000, SPIN_SHARED_CPUS = 2, SPIN_BETWEEN_POLLS = 8, PROVE_OFF_CHOICE = 2 };

/* Exchange record of weft_init(). */
struct init_record {
    char version[16];
    uint64_t heap_bytes, data_bytes;
    uint64_t cpus[CPUS_FOLDED_WORDS]; /* CPUs that this PE may run on */
    int32_t pid;
    int32_t device; /* device_wanted() */
    int32_t prove;  /* WEFT_PROVE is not off */
    int32_t teams;  /* most at a time */
    uint32_t paths; /* job_paths_wanted() */
};

static void fill_init_record(struct weft_job *job, const weft_init_attr *attr,
                             struct init_record *init_record)
{
    *init_record = (struct init_record){.pid = (int32_t)getpid(),
                                        .device = device_wanted(),
                                        .prove = config_choice(CONFIG_PROVE) != PROVE_OFF_CHOICE,
                                        .teams = job->most_teams,
                                        .paths = job_paths_wanted(job)};
    snprintf(init_record->version, sizeof init_record->version, "%s", WEFT_VERSION_STRING);
    init_record->heap_bytes = attr->heap_bytes ? attr->heap_bytes : config_size(CONFIG_HEAP_SIZE);
    init_record->data_bytes =
        attr->flags & WEFT_INIT_GLOBAL_DATA && !job->threads_are_pes ? global_data_size() : 0;
    cpus_allowed(init_record->cpus);
}

/* Number of CPUs of a node's PEs: the union of their masks, because each PE may be bound to its
 * own. */
static int node_cpus(const struct weft_job *job, const struct init_record *all, int node, int *pes)
{
    uint64_t any[CPUS_FOLDED_WORDS] = {0};
    int cpus = 0;
    *pes = 0;
    for (int pe = 0; pe < job->npes; pe++) {
        if (job->boot->node_of[pe] != node)
            continue;
        ++*pes;
        for (int word = 0; word < CPUS_FOLDED_WORDS; word++)
            any[word] |= all[pe].cpus[word];
    }
    for (int word = 0; word < CPUS_FOLDED_WORDS; word++)
        cpus += __builtin_popcountll(any[word]);
    return cpus ? cpus : 1;
}

static bool node_oversubscribed(const struct weft_job *job, const struct init_record *all, int node)
{
    int pes, cpus = node_cpus(job, all, node, &pes);
    return pes > cpus;
}

static bool oversubscribed(const struct weft_job *job, const struct init_record *all)
{
    int known = -1; /* nodes are numbered in the order of their first PE */
    for (int pe = 0; pe < job->npes; pe++) {
        int node = job->boot->node_of[pe];
        if (node > known && node_oversubscribed(job, all, node))
            return true;
        known = node > known ? node : known;
    }
    return false;
}

static weft_status compare_records(const struct weft_job *job, const struct init_record *all)
{
    for (int pe = 1; pe < job->npes; pe++) {
        if (strncmp(all[pe].version, all[0].version, sizeof all[0].version) != 0)
            return base_fail(WEFT_ERR_VERSION, "PE 0%s runs Weft %.15s and PE %d%s Weft %.15s",
                             boot_where(job->boot, 0).text, all[0].version, pe,
                             boot_where(job->boot, pe).text, all[pe].version);
        if (all[pe].heap_bytes != all[0].heap_bytes)
            return base_fail(WEFT_ERR_MISMATCH,
                             "the heap has %llu bytes at PE 0 and %llu at PE %d; WEFT_HEAP_SIZE "
                             "must be the same at every PE",
                             (unsigned long long)all[0].heap_bytes,
                             (unsigned long long)all[pe].heap_bytes, pe);
        if (all[pe].teams != all[0].teams)
            return base_fail(WEFT_ERR_MISMATCH,
                             "weft_init_attr.teams is %d at PE 0 and %d at PE %d; it must be the "
                             "same at every PE",
                             all[0].teams, all[pe].teams, pe);
        if (all[pe].data_bytes != all[0].data_bytes)
            return base_fail(WEFT_ERR_MISMATCH,
                             "the program's global data have %llu bytes at PE 0 and %llu at PE %d: "
                             "the PEs run different programs",
                             (unsigned long long)all[0].data_bytes,
                             (unsigned long long)all[pe].data_bytes, pe);
    }
    return WEFT_OK;
}

size_t reduce_buffers_offset(int npes)
{
    return (device_areas_offset(npes) + team_areas_bytes(npes, TEAM_SLOTS) + 63) & ~(size_t)63;
}

size_t prove_lines_offset(int npes)
{
    return reduce_buffers_offset(npes) + REDUCE_BUFFERS * sizeof(struct reduce_buffer);
}

size_t choices_offset(int npes)
{
    return (prove_lines_offset(npes) + (size_t)npes * sizeof(struct prove_line) + 63) & ~(size_t)63;
}

static size_t words_offset(int npes)
{
    return (choices_offset(npes) + box_choices_bytes(npes) + 63) & ~(size_t)63;
}

static size_t mail_offset(int npes)
{
    size_t end = words_offset(npes) + (size_t)npes * PATH_WORDS_BYTES;
    return (end + PATH_MAIL_PAGE - 1) & ~(size_t)(PATH_MAIL_PAGE - 1);
}

static weft_status make_segments(struct weft_job *job, const struct init_record *mine)
{
    size_t system_bytes = mail_offset(job->npes) + (size_t)job->npes * PATH_MAIL_BYTES;
    weft_status status =
        segment_create(&job->segments[SEG_SYSTEM], job->boot, "weft-system", system_bytes);
    if (!status)
        status = segment_create(&job->segments[SEG_HEAP], job->boot, "weft-heap", mine->heap_bytes);
    if (!status && mine->data_bytes)
        status = global_data_share(&job->segments[SEG_DATA], job->boot);
    if (status)
        return status;
    job->heap = heap_create(mine->heap_bytes);
    job->paths.map = calloc((size_t)job->npes, sizeof *job->paths.map);
    if (!job->heap || !job->paths.map)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for the tables of %d PEs",
                         job->npes);
    for (int s = 0; s < SEG_COUNT; s++)
        job->paths.sizes[s] = job->segments[s].size;
    job->paths.areas_offset = device_areas_offset(job->npes);
    job->paths.areas_end = reduce_buffers_offset(job->npes);
    job->paths.buffers_end = prove_lines_offset(job->npes);
    job->paths.words_offset = words_offset(job->npes);
    job->paths.mail_offset = mail_offset(job->npes);
    for (int slot = 0; slot < job->boot->local_npes; slot++)
        for (int s = 0; s < SEG_COUNT; s++)
            if (job->segments[s].slots)
                job->paths.map[job->boot->local_pes[slot]][s] =
                    segment_slot(&job->segments[s], slot);
    return WEFT_OK;
}

static void program_name(char *name, size_t bytes)
{
    ssize_t n = readlink("/proc/self/exe", name, bytes - 1);
    name[n > 0 ? n : 0] = '\0';
    const char *slash = strrchr(name, '/');
    if (slash)
        memmove(name, slash + 1, strlen(slash));
}

static void start_box(struct weft_job *job, const struct init_record *mine)
{
    struct box *box = (struct box *)job->segments[SEG_SYSTEM].base;
    box->version = BOX_VERSION;
    box->pe = job->pe;
    box->npes = job->npes;
    box->node = job->boot->node_of[job->pe];
    box->local_npes = job->boot->local_npes;
    box->pid = mine->pid;
    box->gpu = -1;
    box->start_ns = clock_now_ns();
    box->heap_bytes = mine->heap_bytes;
    box->wait_limit_ns = job->waits.limit_ns;
    box->choices_offset = choices_offset(job->npes);
    ((struct box_choices *)((char *)box + box->choices_offset))->npes = (uint32_t)job->npes;
    char path[256];
    program_name(path, sizeof path);
    snprintf(box->program, sizeof box->program, "%.63s", path);
    for (int i = 0; i <= PATH_COUNT; i++)
        snprintf(box->paths[i], sizeof box->paths[i], "%s", path_name((enum path_id)i));
    uint64_t *free_slots = (uint64_t *)(void *)((char *)box + BOX_BYTES);
    for (int slot = 0; slot < job->most_teams; slot++)
        free_slots[slot / 64] |= (uint64_t)1 << slot % 64;
    box_record(box, BOX_OP_INIT, -1, 0, mine->heap_bytes);
    atomic_store(&box->state, BOX_RUNNING);
    atomic_thread_fence(memory_order_release);
    box->magic = BOX_MAGIC;
    job->box = box;
    job->failure.word = &device_box(box)->failed;
}

/* After the barrier every local box must have the PE number of its slot; this detects a wrong
 * mapping. */
static weft_status check_boxes(struct weft_job *job)
{
    for (int slot = 0; slot < job->boot->local_npes; slot++) {
        const struct box *box = (struct box *)segment_slot(&job->segments[SEG_SYSTEM], slot);
        if (box->magic != BOX_MAGIC || box->pe != job->boot->local_pes[slot])
            return base_fail(WEFT_ERR_PATH,
                             "the shared memory of PE %d does not show what that PE wrote (magic "
                             "%#x, PE %d)",
                             job->boot->local_pes[slot], box->magic, box->pe);
    }
    return WEFT_OK;
}

static weft_status make_world(struct weft_job *job)
{
    int *everyone = malloc((size_t)job->npes * sizeof *everyone);
    if (!everyone)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %d PEs", job->npes);
    for (int pe = 0; pe < job->npes; pe++)
        everyone[pe] = pe;
    struct boot *boot = job->boot;
    weft_status status = team_new(job, everyone, job->npes, 0, &job->world);
    free(everyone);
    if (!status)
        status = team_new(job, boot->local_pes, boot->local_npes, 1, &job->node);
    if (!status)
        status = ctx_new(job, job->world, 0, &job->default_ctx);
    if (!status)
        status = ctx_new(job, job->world, 0, &job->system_ctx);
    if (status)
        return status;
    job->system_ctx->seg[SEG_SYSTEM].base = (uintptr_t)job->segments[SEG_SYSTEM].base;
    job->system_ctx->seg[SEG_SYSTEM].size = job->segments[SEG_SYSTEM].size;
    unsigned char *free_slots = (unsigned char *)job->box + BOX_BYTES;
    free_slots[0] &= (unsigned char)~3u; /* slots of the world and node teams */
    return WEFT_OK;
}

void job_set_spin(struct weft_job *job, bool threads)
{
    int64_t configured = config_int(CONFIG_TEST_SPIN);
    int wanted = job->boot->local_npes * (threads ? 2 : 1);
    if (configured >= 0)
        job->waits.spin = configured > UINT32_MAX ? UINT32_MAX : (uint32_t)configured;
    else
        job->waits.spin = wanted > job->node_cpus ? SPIN_SHARED_CPUS : SPIN_SPARE_CPUS;
    bool polls_needed = false;
    for (int path = 0; path < PATH_COUNT; path++)
        polls_needed |= job->paths.common[path] && path_ops_of((enum path_id)path)->progress;
    job->waits.spin_between_polls =
        polls_needed && configured < 0 && job->waits.spin > SPIN_BETWEEN_POLLS ? SPIN_BETWEEN_POLLS
                                                                               : job->waits.spin;
}

static void count_cpus(struct weft_job *job, const struct init_record *all)
{
    int pes;
    job->node_cpus = job->paths.cpus = node_cpus(job, all, job->boot->node_of[job->pe], &pes);
    job->oversubscribed = oversubscribed(job, all);
    job_set_spin(job, false);
}

/* Tests the paths within WEFT_BOOT_LIMIT, so that PEs that cannot reach each other fail as early as
 * PEs that cannot find each other. */
static weft_status prove_initial(struct weft_job *job)
{
    uint64_t limit = job->waits.limit_ns, boot = config_duration_ns(CONFIG_BOOT_LIMIT);
    const char *name = job->waits.limit_name;
    if (boot && (!limit || boot < limit)) {
        job->waits.limit_ns = boot;
        job->waits.limit_name = "WEFT_BOOT_LIMIT";
    }
    weft_status status = job_prove_paths(job, WEFT_HOST);
    job->waits.limit_ns = limit;
    job->waits.limit_name = name;
    return status;
}

static weft_status join_pes(struct weft_job *job, const weft_init_attr *attr)
{
    struct init_record mine;
    struct init_record *all = calloc((size_t)job->npes, sizeof *all);
    if (!all)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %d PEs", job->npes);
    fill_init_record(job, attr, &mine);
    weft_status status = job->boot->ops->allgather(job->boot, &mine, all, sizeof mine);
    if (!status)
        status = compare_records(job, all);
    if (!status)
        count_cpus(job, all);
    int device = 0, prove = 0;
    uint32_t paths = 0;
    for (int pe = 0; pe < job->npes; pe++) {
        device |= all[pe].device;
        paths |= all[pe].paths;
        prove |= all[pe].prove;
    }
    free(all);
    if (!status)
        status = make_segments(job, &mine);
    if (status)
        return status;
    segment_dump(&job->segments[SEG_SYSTEM], BOX_BYTES);
    start_box(job, &mine);
    status = life_start(job);
    if (!status)
        status = job_probe_paths(job, paths);
    if (!status)
        status = job_join_paths(job, job_choose_paths(job, WEFT_HOST));
    /* Here every PE has started its box. */
    if (!status)
        status = make_world(job);
    if (!status)
        status = check_boxes(job);
    job->choosing.testing = prove;
    if (!status && prove)
        status = prove_initial(job);
    if (!status)
        status = job_begin_paths(job);
    return status ? status : device_init(job, device);
}

static void drop_segments(struct weft_job *job)
{
    /* PEs as threads: no PE may unmap while another one is still leaving its last barrier. */
    if (job->threads_are_pes)
        job->boot->ops->barrier(job->boot);
    global_data_unshare(&job->segments[SEG_DATA]);
    segment_destroy(&job->segments[SEG_HEAP]);
    segment_destroy(&job->segments[SEG_SYSTEM]);
}

static void empty_handles(struct weft_job *job)
{
    for (struct weft_ctx *ctx = job->contexts; ctx; ctx = ctx->next)
        ctx_empty(ctx);
    for (struct weft_team *team = job->teams; team; team = team->next) {
        team_empty(team);
    }
}

static void end_callbacks(struct weft_job *job)
{
    job_callbacks_stop(job);
    if (job->modules.end_host_callbacks)
        job->modules.end_host_callbacks(job);
    job->modules.end_host_callbacks = NULL;
}

/* Records the end of this PE in its black box, for the other PEs and `weft attach`. */
static void record_end(struct box *box, weft_status why, const char *sentence)
{
    if (why) {
        /* 0 would mean that the program called weft_abort() with code 0 */
        box->exit_code = EXIT_FAILURE;
        if (!box->failure[0])
            snprintf(box->failure, sizeof box->failure, "%.255s", sentence);
    }
    atomic_store(&box->state, why ? BOX_ABORTED : BOX_FINALIZED);
}

/* Destroys the job in the order in which the threads of this PE depend on each other:
 * 1. host callbacks on streams, which may call everything, start watches and use the proxy;
 * 2. the watches, also those of device code, which read the black box and the control connection;
 * 3. the proxy, whose contexts use paths, and the device state that kernels read;
 * 4. contexts, then the paths with their threads (net, staged, gda), which read no closed context
 * and write findings to the black box;
 * 5. the GPU side with its mappings, whose copies write to the black box too;
 * 6. the box, the segments, and last the connection to the other PEs, which reports deaths.
 * Files have been closed before (weft_finalize()), and the program's own threads have ended. */
static void tear_down(struct weft_job *job, weft_status why, const char *sentence)
{
    const bool clean = why == WEFT_OK;
    /* First, before the other PEs could notice the end: otherwise they would report this PE as died
     * without a message. */
    if (!clean && job->boot)
        job->boot->ops->fail(job->boot, why, sentence);
    job->ended_well = job_ended_well(job);
    job_unwatch_fork(job);
    end_callbacks(job);
    device_watch_stop(job->gpu_watch);
    job->gpu_watch = NULL;
    device_stop(job);
    atomic_store(&job->state, JOB_FINALIZED);
    if (job->box)
        record_end(job->box, why, sentence);
    empty_handles(job);
    job_leave_paths(job, clean);
    job_gpu_close(job);
    job->failure.word = &job->failure.no_box_word;
    job->box = NULL;
    drop_segments(job);
    heap_destroy(job->heap);
    job->heap = NULL;
    free(job->paths.map);
    for (int kind = 0; kind < MEMORY_KINDS; kind++)
        free(job->paths.choices[kind]);
    job_free_texts(job);
    job->paths = (struct path_world){0};
    if (job->boot)
        job->boot->ops->close(job->boot, clean);
    job->boot = NULL;
}

/* List of finalized jobs: their handles stay valid, so that calls on them are refused; the list
 * keeps them reachable for leak checkers. */
static struct finalized_job {
    struct weft_job *job;
    struct finalized_job *next;
} * finalized_jobs;
static pthread_mutex_t finalized_lock = PTHREAD_MUTEX_INITIALIZER;

static void keep_finalized(struct weft_job *job)
{
    struct finalized_job *finalized_job = malloc(sizeof *finalized_job);
    if (!finalized_job)
        return;
    pthread_mutex_lock(&finalized_lock);
    *finalized_job = (struct finalized_job){job, finalized_jobs};
    finalized_jobs = finalized_job;
    pthread_mutex_unlock(&finalized_lock);
}

static void free_contexts(struct weft_ctx *ctx)
{
    while (ctx) {
        struct weft_ctx *next = ctx->next;
        free(ctx);
        ctx = next;
    }
}

static void free_job(struct weft_job *job)
{
    free_contexts(job->contexts);
    free_contexts(job->destroyed);
    while (job->teams) {
        struct weft_team *team = job->teams;
        job->teams = team->next;
        free(team);
    }
    pthread_mutex_destroy(&job->lock);
    pthread_mutex_destroy(&job->choosing.show_lock);
    pthread_mutex_destroy(&job->contexts_lock);
    pthread_mutex_destroy(&job->callbacks.lock);
    pthread_cond_destroy(&job->callbacks.idle);
    free(job);
}

/* Checks the peers often enough for the configured times, and rarely enough to cost nothing. */
static void set_wait_times(struct weft_job *job, uint64_t limit_ns)
{
    enum { MOST_NS = 1000 * 1000 * 1000, LEAST_NS = 2 * 1000 * 1000, CHECKS_PER_LIMIT = 16 };
    job->waits.slice_ns = config_duration_ns(CONFIG_TEST_WAIT_SLICE);
    job->waits.warn_ns = config_duration_ns(CONFIG_WAIT_WARN);
    job->waits.limit_ns = limit_ns ? limit_ns : config_duration_ns(CONFIG_WAIT_LIMIT);
    job->waits.limit_name = limit_ns ? "weft_init_attr.wait_limit_ns" : "WEFT_WAIT_LIMIT";
    uint64_t every = MOST_NS;
    if (job->waits.warn_ns && job->waits.warn_ns / CHECKS_PER_LIMIT < every)
        every = job->waits.warn_ns / CHECKS_PER_LIMIT;
    if (job->waits.limit_ns && job->waits.limit_ns / CHECKS_PER_LIMIT < every)
        every = job->waits.limit_ns / CHECKS_PER_LIMIT;
    job->waits.watch_every_ns = every > LEAST_NS ? every : LEAST_NS;
}

static struct weft_job *new_job(const weft_init_attr *attr)
{
    struct weft_job *job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    pthread_mutex_init(&job->lock, NULL);
    pthread_mutex_init(&job->choosing.show_lock, NULL);
    pthread_mutex_init(&job->contexts_lock, NULL);
    pthread_mutex_init(&job->callbacks.lock, NULL);
    pthread_cond_init(&job->callbacks.idle, NULL);
    for (int s = 0; s < SEG_COUNT; s++)
        job->segments[s].fd = -1;
    job->failure.word = &job->failure.no_box_word;
    job->thread = attr->thread < WEFT_THREAD_SERIALIZED ? WEFT_THREAD_SERIALIZED : attr->thread;
    job->threads_are_pes = attr->group != NULL;
    job->checking = config_bool(CONFIG_CHECK);
    job->interrupt = (struct job_interrupt){
        .check = interrupt_get().check, .arg = interrupt_get().arg, .thread = pthread_self()};
    atomic_store_explicit(&job->interrupt.exists, job->interrupt.check != NULL,
                          memory_order_relaxed);
    job->program_context = gpu_api_current_if_loaded();
    set_wait_times(job, attr->wait_limit_ns);
    job->most_teams = attr->teams ? attr->teams : TEAM_SLOTS;
    return job;
}

weft_status job_enter(const weft_init_attr *attr, struct weft_job **result)
{
    struct weft_job *job = new_job(attr);
    if (!job)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a job");
    weft_status status = path_order_parse(config_string(CONFIG_PATH), &job->choosing.order);
    if (!status)
        status = attr->unique_id ? boot_open_id(&job->boot, attr->unique_id, attr->unique_id_pe,
                                                attr->unique_id_npes)
                                 : boot_open(&job->boot, attr->group, attr->group_pe);
    if (status) {
        free_job(job);
        return status;
    }
    job->pe = job->boot->pe;
    job->npes = job->boot->npes;
    job_init_paths(job);
    if (!job->threads_are_pes)
        log_set_pe(job->pe);
    status = join_pes(job, attr);
    if (!status)
        status = job_watch_fork(job);
    if (status) {
        char sentence[512];
        snprintf(sentence, sizeof sentence, "%s", base_last_error());
        tear_down(job, status == WEFT_ERR_INTERRUPTED ? WEFT_ERR_JOB : status, sentence);
        free_job(job);
        return base_fail(status, "%s", sentence);
    }
    log_debug(LOG_JOB, "joined a job of %d PEs through %s", job->npes, job->boot->ops->name);
    *result = job;
    return WEFT_OK;
}

void job_leave(struct weft_job *job, weft_status why, const char *sentence)
{
    tear_down(job, why, sentence);
    keep_finalized(job);
}

bool job_ended_well(const struct weft_job *job)
{
    if (!job->box)
        return job->ended_well;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a job with a black box has a boot */
    for (int slot = 0; slot < job->boot->local_npes; slot++) {
        const struct box *box = job_box(job, slot);
        if (atomic_load(&box->state) == BOX_ABORTED && box->exit_code == 0)
            return true;
    }
    return false;
}

weft_status job_finalized(const char *function)
{
    if (job_is_forked_child())
        return base_fail(WEFT_ERR_FINALIZED,
                         "%s: this process was forked by a PE and is not part of its job",
                         function);
    return base_fail(WEFT_ERR_FINALIZED, "%s: the job has been finalized", function);
}

weft_status job_fail(struct weft_job *job, weft_status status, const char *sentence)
{
    char copy[sizeof job->failure.sentence];
    snprintf(copy, sizeof copy, "%s", sentence); /* `sentence` may be the last error itself */
    pthread_mutex_lock(&job->lock);
    if (!atomic_load(&job->failure.status)) {
        snprintf(job->failure.sentence, sizeof job->failure.sentence, "%s", copy);
        snprintf(job->box->failure, sizeof job->box->failure, "%.255s", copy);
        atomic_store_explicit(&job->failure.status, (int)status, memory_order_release);
        /* Release: pairs with the fence in job_check_failed(). */
        __atomic_store_n(job->failure.word, (int32_t)status, __ATOMIC_RELEASE);
        log_info(LOG_JOB, "%s", copy);
    }
    pthread_mutex_unlock(&job->lock);
    return job_check_failed(job);
}

weft_status job_fail_all(struct weft_job *job, weft_status status, const char *sentence)
{
    char copy[sizeof job->failure.sentence];
    snprintf(copy, sizeof copy, "%s", sentence);
    job->boot->ops->fail(job->boot, status, copy);
    return job_fail(job, status, copy);
}

weft_status job_check_failed(struct weft_job *job)
{
    /* A caller that has seen the fault word, by a relaxed load, sees the status too. */
    atomic_thread_fence(memory_order_acquire);
    int failed = atomic_load_explicit(&job->failure.status, memory_order_acquire);
    if (failed) {
        char left[128];
        device_left_text(job, left, sizeof left);
        return base_fail((weft_status)failed, "%s%s", job->failure.sentence, left);
    }
    return unlikely(job->device || job->gpu) ? device_check(job) : WEFT_OK;
}

bool job_progress(struct weft_job *job)
{
    bool came = false;
    pthread_mutex_lock(&job->lock);
    for (struct weft_ctx *ctx = job->contexts; ctx; ctx = ctx->next)
        for (int i = 0; i < ctx->open_count; i++)
            if (ctx->open[i].ops->progress)
                came |= ctx->open[i].ops->progress(ctx->open[i].state);
    pthread_mutex_unlock(&job->lock);
    return came;
}
