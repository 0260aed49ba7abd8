/* SPDX-License-Identifier: Apache-2.0 */
/* The paths of a job: the facts about every pair, the path chosen for it, and the replacement of a
 * path that fails its test. The paths themselves are in src/path. */
#include "job/waiter.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "base/text.h"
#include "boot/agree.h"
#include "gpu/multipath/relay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------------------------- probing */

uint32_t job_paths_wanted(const struct weft_job *job)
{
    uint32_t wanted = 0;
    for (int i = 0; i < job->choosing.order.count; i++)
        wanted |= 1u << job->choosing.order.order[i];
    for (int path = 0; path < PATH_COUNT && !job->choosing.order.forced && job->boot->nodes > 1;
         path++)
        wanted |= (uint32_t)path_ops_of((enum path_id)path)->automatic << path;
    return wanted & ~job->choosing.order.excluded;
}

static weft_status find_path(struct weft_job *job, enum path_id path)
{
    struct path_found *found = calloc(1, sizeof *found);
    job->paths.found[path] = found;
    job->choosing.lacks[path] = calloc((size_t)job->npes, PATH_LACKS_BYTES);
    weft_status status =
        found && job->choosing.lacks[path]
            ? WEFT_OK
            : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for path %s", path_name(path));
    status = boot_agree(job->boot, status);
    if (!status)
        status = boot_agree(job->boot, path_ops_of(path)->probe(&job->paths, found));
    return status ? status
                  : job->boot->ops->allgather(job->boot, found->lacks, job->choosing.lacks[path],
                                              PATH_LACKS_BYTES);
}

/* What PEs tell each other of the NICs of all paths. */
struct path_rates {
    uint32_t mbps[PATH_COUNT];
    bool asked; /* WEFT_PATH names the paths of this PE */
};

/* Says at every PE that path cannot be used, if the NICs of some PE are too slow for it: a path
 * with a spare one serves all PEs or none. */
static void refuse_slow(struct weft_job *job, enum path_id path, const struct path_rates *all)
{
    const enum path_id spare = path_ops_of(path)->spare;
    char(*lacks)[PATH_LACKS_BYTES] = job->choosing.lacks[path];
    int slow = 0;
    while (slow < job->npes && !path_is_slow(all[slow].mbps[path], all[slow].mbps[spare]))
        slow++;
    for (int pe = 0; pe < job->npes && slow < job->npes; pe++)
        if (!lacks[pe][0])
            snprintf(lacks[pe], sizeof lacks[pe],
                     "its fastest NIC at PE %d has %.3g Gbit/s, that of path %s %.3g; WEFT_PATH=%s,"
                     "... uses it all the same",
                     slow, all[slow].mbps[path] / 1e3, path_name(spare),
                     all[slow].mbps[spare] / 1e3, path_name(path));
}

/* Compares the NICs of each path with those of its spare one. */
static weft_status compare_rates(struct weft_job *job)
{
    struct path_rates mine = {.asked = job->choosing.order.forced},
                      *all = calloc((size_t)job->npes, sizeof *all);
    weft_status status = all ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory");
    for (int path = 0; path < PATH_COUNT; path++)
        mine.mbps[path] = job->paths.found[path] ? job->paths.found[path]->mbps : 0;
    status = boot_agree(job->boot, status);
    if (!status)
        status = job->boot->ops->allgather(job->boot, &mine, all, sizeof mine);
    for (int pe = 0; pe < job->npes && !status; pe++)
        mine.asked |= all[pe].asked;
    for (int path = 0; path < PATH_COUNT && !status && !mine.asked; path++) {
        const enum path_id spare = path_ops_of((enum path_id)path)->spare;
        if (spare && job->choosing.lacks[path] && job->choosing.lacks[spare])
            refuse_slow(job, (enum path_id)path, all);
    }
    free(all);
    return status;
}

weft_status job_probe_paths(struct weft_job *job, uint32_t wanted)
{
    weft_status status = WEFT_OK;
    bool compare = false;
    for (int path = 0; path < PATH_COUNT && !status; path++)
        if (wanted & 1u << path && path_ops_of((enum path_id)path)->probe) {
            status = find_path(job, (enum path_id)path);
            compare |= path_ops_of((enum path_id)path)->spare != PATH_SELF;
        }
    return status || !compare ? status : compare_rates(job);
}

static void free_found(struct weft_job *job, enum path_id path)
{
    struct path_found *found = job->paths.found[path];
    if (found && found->probe_result && found->drop)
        found->drop(found->probe_result);
    free(found);
    free(job->choosing.lacks[path]);
    job->paths.found[path] = NULL;
    job->choosing.lacks[path] = NULL;
}

/* Whether the job can use the path that executes the atomics of one that has none. */
static bool has_spare(const struct weft_job *job, enum path_id path, uint32_t failed)
{
    const enum path_id spare = path_ops_of(path)->spare;
    char(*lacks)[PATH_LACKS_BYTES] = spare ? job->choosing.lacks[spare] : NULL;
    for (int pe = 0; lacks && pe < job->npes; pe++)
        if (lacks[pe][0])
            return false;
    return lacks && !(failed >> spare & 1);
}

/* Adds what a path's probe has found at both ends to the facts. */
static void add_found(const struct weft_job *job, enum path_id path, int pe,
                      struct path_facts *facts)
{
    char(*lacks)[PATH_LACKS_BYTES] = job->choosing.lacks[path];
    if (!path_ops_of(path)->probe)
        return;
    if (!lacks) {
        facts->lacks[path] = "not probed: no PE needed it when the job began";
        return;
    }
    if (lacks[job->pe][0] || lacks[pe][0])
        facts->lacks[path] = lacks[job->pe][0] ? lacks[job->pe] : lacks[pe];
    else if (job->paths.found[path]->no_atomics && !has_spare(job, path, facts->failed))
        facts->lacks[path] =
            "it has no atomics, and the path that would execute them cannot be used";
    facts->has[path] = job->paths.found[path]->has;
}

/* ------------------------------------------------------------------------------------- choosing */

static struct path_facts facts_of(const struct weft_job *job, weft_kind kind, int pe)
{
    struct path_facts facts = {
        .kind = kind,
        .same_pe = pe == job->pe,
        .same_node = job->boot->node_of[pe] == job->boot->node_of[job->pe],
        .mapped = kind == WEFT_HOST && job->paths.map[pe][SEG_SYSTEM] != NULL,
        .failed = job->paths.choices[kind][pe].failed,
    };
    int slot = kind == WEFT_GPU ? job->gpu->slot_of[pe] : -1;
    if (slot >= 0) {
        const struct gpu_window *window = &job->gpu->heap.windows[slot];
        facts.mapped = window->mapped;
        facts.evidence = window->evidence;
        facts.relay_gpu = window->relay < 0 ? NULL : window->relay_text;
        facts.no_relay_gpu = window->relay_text;
    }
    for (int path = 0; path < PATH_COUNT; path++)
        add_found(job, (enum path_id)path, pe, &facts);
    return facts;
}

static weft_status choose(struct weft_job *job, weft_kind kind, int pe)
{
    struct path_facts facts = facts_of(job, kind, pe);
    pthread_mutex_lock(&job->choosing.show_lock); /* a path may report a finding at the same time */
    char text[PATH_REASON_BYTES];
    struct path_choice *choice = &job->paths.choices[kind][pe];
    weft_status status = path_choose(&facts, &job->choosing.order, choice, text);
    choice->reason = job_share_text(job, text);
    pthread_mutex_unlock(&job->choosing.show_lock);
    job_show_choice(job, kind, pe, &facts);
    if (!status)
        return WEFT_OK;
    const char *setting = config_string(CONFIG_PATH);
    char sentence[1024];
    snprintf(sentence, sizeof sentence, "%s", base_last_error());
    return setting[0] ? base_fail(status, "from PE %d to PE %d: %s; WEFT_PATH of PE %d is %s",
                                  job->pe, pe, sentence, job->pe, setting)
                      : base_fail(status, "from PE %d to PE %d: %s", job->pe, pe, sentence);
}

weft_status job_choose_paths(struct weft_job *job, weft_kind kind)
{
    struct path_choice **choices = &job->paths.choices[kind];
    weft_status first = WEFT_OK;
    char sentence[1024];
    if (!*choices)
        *choices = calloc((size_t)job->npes, sizeof **choices);
    if (!*choices)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %d paths", job->npes);
    for (int pe = 0; pe < job->npes; pe++) {
        weft_status status = choose(job, kind, pe);
        if (status && !first)
            snprintf(sentence, sizeof sentence, "%s", base_last_error());
        first = first ? first : status;
    }
    return first ? base_fail(first, "%s", sentence) : WEFT_OK;
}

/* -------------------------------------------------------------------------- joining and leaving */

/* The bit of the path that takes over the operations of the chosen one when that fails, if the job
 * may use it: 0 if not. */
static uint32_t spare_of(const struct weft_job *job, const struct path_choice *choice)
{
    return has_spare(job, choice->path, choice->failed) ? 1u << path_ops_of(choice->path)->spare
                                                        : 0;
}

/* One bit for each path that this PE has chosen for some peer, or that may have to take over from
 * one, and that needs state for the job. */
static uint32_t paths_to_join(const struct weft_job *job)
{
    uint32_t wanted = 0;
    for (int kind = 0; kind < MEMORY_KINDS; kind++)
        for (int pe = 0; job->paths.choices[kind] && pe < job->npes; pe++) {
            const struct path_choice *choice = &job->paths.choices[kind][pe];
            if (choice->path != PATH_NONE)
                wanted |= 1u << choice->path | spare_of(job, choice);
        }
    for (int path = 0; path < PATH_COUNT; path++)
        if (!path_ops_of((enum path_id)path)->join || job->paths.common[path])
            wanted &= ~(1u << path);
    return wanted;
}

/* The path of the atomics on memory of a kind: one whose atomics are atomic only with each other
 * and that this PE has chosen for some peer; PATH_NONE: there is none. */
static int32_t find_exclusive_atomics(const struct weft_job *job, weft_kind kind)
{
    for (int pe = 0; job->paths.choices[kind] && pe < job->npes; pe++) {
        enum path_id path = job->paths.choices[kind][pe].path;
        const struct path_found *found = path == PATH_NONE ? NULL : job->paths.found[path];
        if (found && found->exclusive_atomics[kind])
            return (int32_t)path;
    }
    return PATH_NONE;
}

bool job_lacks_atomics(const struct weft_job *job, weft_kind kind, int pe)
{
    enum path_id path = job->paths.choices[kind][pe].path;
    return path != PATH_NONE && job->paths.found[path] && job->paths.found[path]->no_atomics;
}

enum path_id job_atomics_path(const struct weft_job *job, weft_kind kind, int pe)
{
    enum path_id path = job->paths.choices[kind][pe].path;
    return job->paths.atomics[kind] != PATH_NONE ? job->paths.atomics[kind]
           : job_lacks_atomics(job, kind, pe)    ? path_ops_of(path)->spare
                                                 : path;
}

/* What a PE has chosen; of all PEs, the union. */
struct path_wishes {
    uint32_t wanted;
    int32_t chosen; /* a weft_status: not WEFT_OK at one PE: it has found no path to some peer */
    int32_t atomics[MEMORY_KINDS];
};

static weft_status gather_wishes(struct weft_job *job, weft_status chosen,
                                 struct path_wishes *wishes)
{
    struct path_wishes *all = calloc((size_t)job->npes, sizeof *all);
    if (!all)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %d PEs", job->npes);
    *wishes = (struct path_wishes){.wanted = paths_to_join(job), .chosen = (int32_t)chosen};
    for (int kind = 0; kind < MEMORY_KINDS; kind++)
        wishes->atomics[kind] = find_exclusive_atomics(job, (weft_kind)kind);
    weft_status status = job->boot->ops->allgather(job->boot, wishes, all, sizeof *wishes);
    for (int pe = 0; pe < job->npes && !status; pe++) {
        wishes->wanted |= all[pe].wanted;
        wishes->chosen = wishes->chosen ? wishes->chosen : all[pe].chosen;
        for (int kind = 0; kind < MEMORY_KINDS; kind++)
            if (wishes->atomics[kind] == PATH_NONE)
                wishes->atomics[kind] = all[pe].atomics[kind];
    }
    free(all);
    return status;
}

weft_status job_begin_paths(struct weft_job *job)
{
    weft_status status = WEFT_OK;
    for (int path = 0; path < PATH_COUNT && !status; path++)
        if (job->paths.common[path] && path_ops_of((enum path_id)path)->begin)
            status = path_ops_of((enum path_id)path)->begin(job->paths.common[path]);
    return boot_agree(job->boot, status);
}

void job_leave_paths(struct weft_job *job, bool clean)
{
    bool any = false;
    for (int path = 0; path < PATH_COUNT; path++)
        any |= job->paths.common[path] != NULL;
    if (any && clean) /* a failure is reported by the next operation; nothing can be done here */
        job->boot->ops->barrier(job->boot);
    for (int path = 0; path < PATH_COUNT; path++) {
        if (job->paths.common[path])
            path_ops_of((enum path_id)path)->leave(job->paths.common[path]);
        job->paths.common[path] = NULL;
        free_found(job, (enum path_id)path);
    }
}

/* --------------------------------------------------------------------------- waits of the paths */

_Static_assert(sizeof(struct waiter) <= sizeof((struct path_wait){0}.job_state),
               "a waiter fits there");

static struct waiter *waiter_in(struct path_wait *wait)
{
    return (struct waiter *)(void *)wait->job_state;
}

static weft_status wait_step(struct path_wait *wait, uint64_t seen)
{
    struct waiter *waiter = waiter_in(wait);
    if (!waiter->job) {
        const struct waiter begun = WAITER(wait->world->job, wait->operation, wait->pe);
        *waiter = begun;
        waiter->expected = wait->expected;
        waiter->compare = BOX_COMPARE_REQUEST;
        waiter->spin = waiter->job->waits.spin; /* a path that waits polls by itself */
    }
    return waiter_step(waiter, seen);
}

static void wait_end(struct path_wait *wait)
{
    waiter_end(waiter_in(wait));
}

static void report_found(const struct path_world *world, weft_kind kind, int pe, const char *found)
{
    job_show_found(world->job, kind, pe, found);
}

static void report_tested(const struct path_world *world, weft_kind kind, int pe)
{
    struct weft_job *job = world->job;
    job->paths.choices[kind][pe].proven = true;
    job_show_proof(job, kind, pe);
    job_show_found(job, kind, pe, "");
}

static void fail_from_path(const struct path_world *world, weft_status status, const char *sentence)
{
    job_fail(world->job, status, sentence);
}

void job_init_paths(struct weft_job *job)
{
    job->paths.pe = job->pe;
    job->paths.npes = job->npes;
    job->paths.boot = job->boot;
    job->paths.wait_limit_ns = job->waits.limit_ns;
    job->paths.job = job;
    job->paths.wait_step = wait_step;
    job->paths.wait_end = wait_end;
    job->paths.report_found = report_found;
    job->paths.report_tested = report_tested;
    job->paths.fail = fail_from_path;
    for (int kind = 0; kind < MEMORY_KINDS; kind++)
        job->paths.atomics[kind] = PATH_NONE;
}

/* ----------------------------------------------------------------------- replacing failed paths */

static weft_status refill_contexts(struct weft_job *job)
{
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&job->lock);
    for (struct weft_ctx *ctx = job->contexts; ctx && !status; ctx = ctx->next)
        status = ctx_fill(ctx);
    for (struct weft_team *team = job->teams; team; team = team->next)
        team_fill(team);
    pthread_mutex_unlock(&job->lock);
    return status;
}

/* Ends the operations of a path to `pe`, if no kind of memory uses it any more. */
static void forget_operations(struct weft_job *job, int pe, enum path_id path)
{
    for (int kind = 0; kind < MEMORY_KINDS; kind++) {
        const struct path_choice *choices = job->paths.choices[kind];
        if (choices && choices[pe].path == path && !(choices[pe].failed >> path & 1))
            return;
    }
    pthread_mutex_lock(&job->lock);
    for (struct weft_ctx *ctx = job->contexts; ctx; ctx = ctx->next)
        if (ctx->states[path] && path_ops_of(path)->forget)
            path_ops_of(path)->forget(ctx->states[path], pe);
    pthread_mutex_unlock(&job->lock);
}

/* Excludes a path from here to `pe`. */
static void drop_path(struct weft_job *job, weft_kind kind, int pe, enum path_id path,
                      const char *evidence)
{
    struct path_choice *choice = &job->paths.choices[kind][pe];
    choice->failed |= 1u << path;
    choice->proven = false;
    forget_operations(job, pe, path);
    if (kind == WEFT_GPU && path == choice->path && job->gpu->slot_of[pe] >= 0)
        gpu_relay_add_fallback(job->gpu, job->gpu->slot_of[pe]);
    job_show_failed(job, kind, pe, path, evidence);
}

/* Excludes a path from here to every PE. seen[pe]: the evidence where the path is in use and must
 * be replaced, else "". */
static void drop_everywhere(struct weft_job *job, weft_kind kind, enum path_id path,
                            const char *evidence, const char **seen)
{
    if (!job->pe)
        log_warn(LOG_JOB, "no PE uses path %s for %s memory: %s", path_name(path),
                 kind == WEFT_GPU ? "GPU" : "host", evidence);
    for (int pe = 0; pe < job->npes; pe++) {
        bool used = job->paths.choices[kind][pe].path == path ||
                    (job_lacks_atomics(job, kind, pe) && job_atomics_path(job, kind, pe) == path);
        seen[pe] = used ? evidence : "";
        if (!used)
            drop_path(job, kind, pe, path, evidence);
    }
}

/* Chooses the next path and records the failure of the previous one. quiet: that has been
 * reported. */
static weft_status replace_path(struct weft_job *job, weft_kind kind, int pe, enum path_id failed,
                                const char *evidence, bool quiet)
{
    struct path_choice *choice = &job->paths.choices[kind][pe];
    weft_status status = choose(job, kind, pe);
    char text[PATH_REASON_BYTES];
    snprintf(text, sizeof text, "%s (%s: %s)", choice->reason, path_name(failed), evidence);
    pthread_mutex_lock(&job->choosing.show_lock);
    choice->reason = job_share_text(job, text);
    pthread_mutex_unlock(&job->choosing.show_lock);
    if (status) {
        char sentence[1024];
        snprintf(sentence, sizeof sentence, "%s", base_last_error());
        return base_fail(status, "%s; the test of path %s saw: %s", sentence, path_name(failed),
                         evidence);
    }
    if (!quiet)
        log_warn(LOG_JOB,
                 "between PE %d and PE %d path %s failed its test (%s); path %s replaces it",
                 job->pe, pe, path_name(failed), evidence, path_name(choice->path));
    return WEFT_OK;
}

/* Paths that may be used and have not been probed, because other paths sufficed. */
static uint32_t unprobed_paths(const struct weft_job *job)
{
    uint32_t paths = 0;
    for (int path = 0; path < PATH_COUNT && !job->choosing.order.forced; path++) {
        const struct path_ops *ops = path_ops_of((enum path_id)path);
        if (ops->probe && ops->automatic && !job->choosing.lacks[path])
            paths |= 1u << path;
    }
    return paths & ~job->choosing.order.excluded;
}

/* Probes the remaining paths if some PE of the job has a pair without a path (stranded). */
static weft_status probe_more_paths(struct weft_job *job, bool stranded)
{
    uint32_t wanted = stranded ? unprobed_paths(job) : 0;
    uint32_t *all = calloc((size_t)job->npes, sizeof *all);
    weft_status status = all ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory");
    status = boot_agree(job->boot, status);
    if (!status)
        status = job->boot->ops->allgather(job->boot, &wanted, all, sizeof wanted);
    for (int pe = 0; pe < job->npes && !status; pe++)
        wanted |= all[pe];
    free(all);
    return status ? status : job_probe_paths(job, wanted);
}

/* seen[pe]: the error that either end saw; "": none. */
static weft_status replace_paths(struct weft_job *job, weft_kind kind, const char **seen,
                                 bool quiet)
{
    struct path_choice *choices = job->paths.choices[kind];
    enum path_id *failed = calloc((size_t)job->npes, sizeof *failed);
    bool stranded = false;
    weft_status status = failed ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory");
    status = boot_agree(job->boot, status);
    for (int pe = 0; pe < job->npes && !status; pe++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): seen[] is full */
        if (!seen[pe][0])
            continue;
        failed[pe] = choices[pe].path;
        drop_path(job, kind, pe, failed[pe], seen[pe]);
        stranded |= choose(job, kind, pe) != WEFT_OK;
    }
    if (!status)
        status = probe_more_paths(job, stranded);
    weft_status first = status;
    for (int pe = 0; pe < job->npes && !status; pe++) {
        weft_status one =
            /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): seen[] is full */
            seen[pe][0] ? replace_path(job, kind, pe, failed[pe], seen[pe], quiet) : WEFT_OK;
        first = first ? first : one;
    }
    free(failed);
    return status ? status : boot_agree(job->boot, first);
}

static weft_status replace_everywhere(struct weft_job *job, weft_kind kind, enum path_id path,
                                      const char *evidence)
{
    const char **seen = calloc((size_t)job->npes, sizeof *seen);
    weft_status status = seen ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory");
    status = boot_agree(job->boot, status);
    if (!status) {
        drop_everywhere(job, kind, path, evidence, seen);
        status = replace_paths(job, kind, seen, true);
    }
    free(seen);
    return status;
}

/* ------------------------------------------------------------------------------------- joining */

/* Whether another path can take the place of one that could not be joined. */
static bool is_replaceable(weft_status status)
{
    return status == WEFT_ERR_NO_PATH || status == WEFT_ERR_SYSTEM || status == WEFT_ERR_PATH;
}

/* Ends a path that cannot be joined, and replaces it for all memory, also for a kind that the job
 * uses later. */
static weft_status replace_unjoined(struct weft_job *job, enum path_id path)
{
    char evidence[PROVE_EVIDENCE_BYTES], (*lacks)[PATH_LACKS_BYTES] = job->choosing.lacks[path];
    base_shorten(evidence, sizeof evidence, base_last_error());
    for (int pe = 0; lacks && pe < job->npes; pe++)
        base_shorten(lacks[pe], sizeof lacks[pe], evidence);
    if (job->paths.common[path])
        path_ops_of(path)->leave(job->paths.common[path]);
    job->paths.common[path] = NULL;
    weft_status status = WEFT_OK;
    for (int kind = 0; kind < MEMORY_KINDS && !status; kind++)
        if (job->paths.choices[kind])
            status = replace_everywhere(job, (weft_kind)kind, path, evidence);
    return status;
}

weft_status job_join_paths(struct weft_job *job, weft_status chosen)
{
    struct path_wishes wishes;
    bool threads = false;
    weft_status status = gather_wishes(job, chosen, &wishes);
    if (!status && wishes.chosen)
        return boot_agree(job->boot, chosen);
    for (int kind = 0; kind < MEMORY_KINDS && !status; kind++)
        if (wishes.atomics[kind] != (int32_t)job->paths.atomics[kind]) {
            job->paths.atomics[kind] = (enum path_id)wishes.atomics[kind];
            job_show_atomics(job, (weft_kind)kind);
        }
    job->paths.joins = wishes.wanted;
    for (int path = 0; path < PATH_COUNT && !status; path++) {
        const struct path_ops *ops = path_ops_of((enum path_id)path);
        if (!(wishes.wanted & 1u << path))
            continue;
        status = boot_agree(job->boot, ops->join(&job->paths, &job->paths.common[path]));
        threads |= ops->thread;
        if (!is_replaceable(status))
            continue;
        status = replace_unjoined(job, (enum path_id)path);
        return status ? status : job_join_paths(job, WEFT_OK);
    }
    job_set_spin(job, threads);
    return status;
}

weft_status job_drop_path(struct weft_job *job, weft_kind kind, enum path_id path,
                          const char *evidence)
{
    weft_status status = replace_everywhere(job, kind, path, evidence);
    return status ? status : job_join_paths(job, WEFT_OK);
}

/* Exchanges the errors of all pairs, npes * npes messages: failures are rare. */
static weft_status replace_failed_paths(struct weft_job *job, weft_kind kind,
                                        char (*mine)[PROVE_EVIDENCE_BYTES])
{
    size_t n = (size_t)job->npes;
    char(*all)[PROVE_EVIDENCE_BYTES] = calloc(n * n, sizeof *all);
    const char **seen = calloc(n, sizeof *seen);
    weft_status status = all && seen ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory");
    status = boot_agree(job->boot, status);
    if (!status)
        status = job->boot->ops->allgather(job->boot, mine, all, n * sizeof *all);
    for (size_t pe = 0; pe < n && !status; pe++)
        seen[pe] = mine[pe][0] ? mine[pe] : all[pe * n + (size_t)job->pe];
    /* Where all atomics take one path, it is not known which of a pair's two paths is wrong, and
     * without that path at one pair it is of no use to the others: it goes first. If it was not
     * the cause, the next round fails too. */
    size_t first = 0;
    while (first < n * n && !status && !all[first][0])
        first++;
    bool together = first < n * n && job->paths.atomics[kind] != PATH_NONE;
    if (!status && together)
        drop_everywhere(job, kind, job->paths.atomics[kind], all[first], seen);
    if (!status)
        status = replace_paths(job, kind, seen, together);
    free(all);
    free(seen);
    if (!status)
        status = job_join_paths(job, WEFT_OK);
    if (!status)
        status = refill_contexts(job);
    return status || kind != WEFT_GPU ? status : job_gpu_pairs(job);
}

/* Why that path to the PE is tested later; NULL: it is tested now. */
static const char *find_untested(const struct weft_job *job, enum path_id path, int pe)
{
    const struct path_ops *ops = path_ops_of(path);
    return path != PATH_NONE && ops->untested ? ops->untested(job->paths.common[path], pe) : NULL;
}

static bool is_tested(const struct weft_job *job, weft_kind kind, int pe)
{
    enum path_id path = job->paths.choices[kind][pe].path;
    return path != PATH_NONE && !find_untested(job, path, pe);
}

weft_status job_drop_failed_paths(struct weft_job *job, weft_kind kind,
                                  char (*evidence)[PROVE_EVIDENCE_BYTES], bool *again)
{
    int32_t failures = 0, *all = malloc((size_t)job->npes * sizeof *all);
    for (int pe = 0; pe < job->npes; pe++)
        failures += evidence[pe][0] != '\0';
    weft_status status = all ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory");
    if (!status)
        status = job->boot->ops->allgather(job->boot, &failures, all, sizeof failures);
    *again = false;
    for (int pe = 0; pe < job->npes && !status; pe++)
        *again |= all[pe] != 0;
    free(all);
    for (int pe = 0; pe < job->npes && !status; pe++) {
        job->paths.choices[kind][pe].proven = is_tested(job, kind, pe);
        job_show_proof(job, kind, pe);
        if (job->paths.choices[kind][pe].path != PATH_NONE && !job->paths.choices[kind][pe].proven)
            job_show_found(job, kind, pe,
                           find_untested(job, job->paths.choices[kind][pe].path, pe));
    }
    if (!status && *again)
        status = replace_failed_paths(job, kind, evidence);
    return status ? job_fail(job, status, base_last_error()) : WEFT_OK;
}

/* ---------------------------------------------------------------------------- testing the paths */

_Static_assert(sizeof(struct prove_line) <= GPU_LINE_BYTES, "a line fits its place");

static size_t lines_offset(const struct weft_job *job, weft_kind kind)
{
    return kind == WEFT_GPU ? job->gpu->layout.lines_offset : prove_lines_offset(job->npes);
}

static struct remote line_at(struct weft_job *job, weft_kind kind, int pe)
{
    return (struct remote){&job->system_ctx->peers[kind][pe],
                           kind == WEFT_GPU ? SEG_GPU : SEG_SYSTEM,
                           lines_offset(job, kind) + (size_t)job->pe * sizeof(struct prove_line)};
}

/* Tests one pair. *silent: a test has failed by the path's own limit; the others then wait for a
 * tenth of it, so that the job replaces a path that reaches no PE soon, however many PEs there
 * are. */
static void send_line(struct weft_job *job, weft_kind kind, int pe, uint64_t test_number,
                      char evidence[PROVE_EVIDENCE_BYTES], bool *silent)
{
    struct remote line = line_at(job, kind, pe);
    const uint64_t limit = job->waits.limit_ns, own = line.peer->ops->test_limit_ns;
    const char *name = job->waits.limit_name;
    if (own && (!limit || own < limit)) {
        job->waits.limit_ns = *silent ? own / 10 : own;
        job->waits.limit_name = "of a path test";
    }
    uint64_t begun = clock_now_ns();
    struct peer *atomics = find_untested(job, job->paths.atomics[kind], pe)
                               ? line.peer
                               : ctx_atomic_peer(job->system_ctx, line.peer);
    prove_send(line, atomics, test_number, evidence);
    /* The limit also counts what it took to ask the other node how far it is. */
    *silent |= own && evidence[0] && clock_now_ns() - begun >= own / 2;
    job->waits.limit_ns = limit;
    job->waits.limit_name = name;
}

/* Reads what the other PEs have written into this PE's lines. */
static weft_status read_lines(struct weft_job *job, weft_kind kind, struct prove_line *lines)
{
    size_t bytes = (size_t)job->npes * sizeof *lines, offset = lines_offset(job, kind);
    if (kind == WEFT_GPU)
        return gpu_copy(job->gpu, 0, lines,
                        (void *)(uintptr_t)(gpu_heap_own(&job->gpu->heap)->base + offset), bytes,
                        GPU_DONE);
    memcpy(lines, job->segments[SEG_SYSTEM].base + offset, bytes);
    return WEFT_OK;
}

static weft_status prove_once(struct weft_job *job, weft_kind kind,
                              char (*evidence)[PROVE_EVIDENCE_BYTES], struct prove_line *lines,
                              bool *again)
{
    uint64_t test_number = ++job->choosing.tests[kind];
    bool silent = false;
    /* Each PE starts with the PE after itself. With the same order everywhere all PEs would wait
     * for one at a time, and connect to it at once over a network. */
    for (int i = 1; i <= job->npes; i++) {
        int pe = (job->pe + i) % job->npes;
        if (is_tested(job, kind, pe))
            send_line(job, kind, pe, test_number, evidence[pe], &silent);
    }
    weft_status status = job->boot->ops->barrier(job->boot);
    if (!status)
        status = boot_agree(job->boot, read_lines(job, kind, lines));
    for (int pe = 0; pe < job->npes && !status; pe++)
        if (!evidence[pe][0] && is_tested(job, kind, pe))
            prove_receive(&lines[pe], pe, job->pe, test_number, evidence[pe]);
    return status ? status : job_drop_failed_paths(job, kind, evidence, again);
}

/* A replacement path is tested in the next round, together with all others: the numbers of the
 * tests must be equal at both ends of every pair. */
weft_status job_prove_paths(struct weft_job *job, weft_kind kind)
{
    size_t n = (size_t)job->npes;
    char(*evidence)[PROVE_EVIDENCE_BYTES] = malloc(n * sizeof *evidence);
    struct prove_line *lines = calloc(n, sizeof *lines);
    bool again = true;
    weft_status status = evidence && lines
                             ? WEFT_OK
                             : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a proof");
    while (again && !status) {
        memset(evidence, 0, n * sizeof *evidence);
        status = prove_once(job, kind, evidence, lines, &again);
    }
    free(evidence);
    free(lines);
    return status;
}
