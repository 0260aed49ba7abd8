/* SPDX-License-Identifier: Apache-2.0 */
/* Fills `struct weft_dev` from a job and copies it to the translation units that hold a copy. The
 * differences between the two targets are in struct device_view. See device_state.h. */
#include "job/device_proxy.h"
#include "job/device_watch.h"

#include "base/config.h"
#include "base/log.h"
#include "boot/agree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct device_state {
    struct weft_dev dev;
    struct device_view *view;
    struct device_proxy *proxy; /* NULL: no peer needs it and WEFT_TEST_PROXY is auto */
    struct device_watch *watch; /* NULL: no peer to watch */
    bool *pairs;                /* [npes][npes] whether the first PE accesses the second directly */
    struct weft_dev_team teams[TEAM_SLOTS]; /* copy of the device's table */
};

/* The units of this process, and the one job whose state they hold. */
static pthread_mutex_t units_lock = PTHREAD_MUTEX_INITIALIZER;
static struct weft_device_unit *units;
static struct weft_job *running;
_Atomic int device_units_pending;

/* ----------------------------------------------------------------------------------- units */

static const struct weft_dev no_state; /* version 0: device code refuses to run */

/* Warns once, at PE 0: the program's files are the same at every PE. */
static void warn_missing_gda(const struct weft_job *job, const struct weft_device_unit *unit)
{
    static bool warned;
    uint32_t carried = job->device->dev.carried;
    bool dc = carried >> WEFT_DEV_CARRIER_DC & 1;
    enum weft_dev_carrier wanted = dc ? WEFT_DEV_CARRIER_DC : WEFT_DEV_CARRIER_GDA;
    if (warned || job->pe || !unit->cuda || !(carried >> wanted & 1) || unit->size < sizeof *unit ||
        unit->carriers >> wanted & 1)
        return;
    warned = true;
    log_warn(LOG_JOB,
             "path gda: a file with kernels does not include <weft/device/%s>, so a thread of the "
             "host posts its requests%s to the NIC; include it before <weft_device.h>",
             dc ? "dc.h" : "gda.h",
             dc && unit->carriers >> WEFT_DEV_CARRIER_GDA & 1 ? " to PEs that are reached by DC"
                                                              : "");
}

static bool is_direct(struct device_view *view, int pe)
{
    return view->areas(view, pe) != 0;
}

/* Warns once. Which PEs have no direct address differs between PEs. */
static void warn_missing_transport(const struct weft_job *job, const struct weft_device_unit *unit)
{
    static bool warned;
    bool lacks = unit->size >= sizeof *unit && !unit->carriers && job->device->dev.carried;
    weft_kind kind = unit->cuda ? WEFT_GPU : WEFT_HOST;
    for (int pe = 0; lacks && !warned && pe < job->npes; pe++) {
        bool direct = is_direct(job->device->view, pe);
        if (direct && job->device->view->atomics(job->device->view, pe))
            continue;
        warned = true;
        log_warn(LOG_JOB,
                 "kernels that include <weft/device/p2p.h> cannot %s PE %d, which %s path %s; "
                 "include <weft_device.h> instead",
                 direct ? "use atomics at" : "reach", pe, direct ? "take" : "is on",
                 path_name(direct ? job->paths.atomics[kind] : job->paths.choices[kind][pe].path));
    }
}

static weft_status upload(struct weft_device_unit *unit)
{
    struct weft_job *job = running;
    const struct weft_dev *state = job ? &job->device->dev : &no_state;
    int ordinal = job ? job->device->view->ordinal : -1;
    unit->pending = 0;
    if (job) {
        warn_missing_gda(job, unit);
        warn_missing_transport(job, unit);
    }
    int error = unit->upload(state, ordinal);
    if (!error)
        return WEFT_OK;
    return base_fail(WEFT_ERR_KERNEL, "writing the device state: CUDA error %d: %s", error,
                     unit->error_text(error));
}

/* Uploads the state to the units of the current target; other units stay empty. The caller holds
 * units_lock. */
static weft_status upload_all(bool pending_only)
{
    weft_status status = WEFT_OK;
    atomic_store(&device_units_pending, 0);
    for (struct weft_device_unit *unit = units; unit && !status; unit = unit->next)
        if (running && unit->cuda == running->device->view->cuda &&
            (unit->pending || !pending_only))
            status = upload(unit);
    return status;
}

weft_status device_units_upload(void)
{
    pthread_mutex_lock(&units_lock);
    weft_status status = upload_all(true);
    pthread_mutex_unlock(&units_lock);
    return status;
}

void device_register(struct weft_device_unit *unit)
{
    if (unit->size < offsetof(struct weft_device_unit, pending) + sizeof unit->pending) {
        log_error(
            LOG_JOB,
            "device code was compiled against another weft_device.h (its unit has %zu bytes; this "
            "library needs %zu): it will refuse to work",
            unit->size, sizeof *unit);
        return;
    }
    if (unit->version != WEFT_DEV_VERSION || unit->bytes > sizeof(struct weft_dev)) {
        log_error(LOG_JOB,
                  "device code was compiled against another weft_device.h (state version %u of %u "
                  "bytes; this library has version %d of %zu): it will refuse to work",
                  unit->version, unit->bytes, WEFT_DEV_VERSION, sizeof(struct weft_dev));
        return;
    }
    pthread_mutex_lock(&units_lock);
    unit->next = units;
    units = unit;
    unit->pending = 1;
    if (running && unit->cuda == running->device->view->cuda) {
        if (unit->cuda)
            atomic_store(&device_units_pending, 1);
        else
            upload(unit);
    }
    pthread_mutex_unlock(&units_lock);
}

void device_unregister(struct weft_device_unit *unit)
{
    pthread_mutex_lock(&units_lock);
    for (struct weft_device_unit **at = &units; *at; at = &(*at)->next) {
        if (*at == unit) {
            *at = unit->next;
            break;
        }
    }
    pthread_mutex_unlock(&units_lock);
}

/* --------------------------------------------------------------------------------- segments */

static uint64_t part_of(struct device_view *view, int segment, int pe)
{
    return segment == WEFT_DEV_AREAS ? view->areas(view, pe)
                                     : view->part(view, (enum weft_dev_segment_id)segment, pe);
}

/* Finds the range of PEs around this one whose parts are at equal distances. */
static void find_window(struct weft_dev_segment *filled, const struct weft_dev_peer *peers,
                        int segment, int me, int npes)
{
#define PART(pe) peers[pe].part[segment]
    filled->base = PART(me);
    filled->first = me;
    filled->count = 1;
    int next = me + 1 < npes && PART(me + 1) ? me + 1 : me - 1;
    if (next < 0 || !PART(next))
        return;
    uint64_t stride = (PART(next) - PART(me)) * (uint64_t)(int64_t)(next - me);
    int first = me, last = me;
    while (first > 0 && PART(first - 1) && PART(first) - PART(first - 1) == stride)
        first--;
    while (last + 1 < npes && PART(last + 1) && PART(last + 1) - PART(last) == stride)
        last++;
    filled->stride = stride;
    filled->shift = 0 - (uint64_t)me * stride;
    filled->first = first;
    filled->count = (uint32_t)(last - first + 1);
#undef PART
}

/* Segments that the target cannot access have no own part and stay empty. */
static void fill_segment(struct weft_job *job, struct device_view *view, struct weft_dev *dev,
                         const struct weft_dev_peer *peers, int segment)
{
    struct weft_dev_segment *filled = &dev->segment[segment];
    filled->size = segment == WEFT_DEV_AREAS
                       ? team_areas_bytes(job->npes, job->most_teams)
                       : view->segment_bytes(view, (enum weft_dev_segment_id)segment);
    if (filled->size)
        find_window(filled, peers, segment, job->pe, job->npes);
}

/* The transport that the path itself provides for device code to PE pe, or for pe -1 to some PE; 0:
 * none for this target. */
static unsigned own_transport(const struct weft_job *job, const struct device_view *view,
                              enum path_id path, int pe)
{
    const struct path_ops *ops = path_ops_of(path);
    return path == PATH_NONE || !ops->transport
               ? 0
               : ops->transport(job->paths.common[path], view->cuda, pe);
}

/* The transport of device operations to a peer that device code cannot access directly. */
static uint32_t transport_of(const struct weft_job *job, const struct device_view *view,
                             enum path_id path, int pe)
{
    uint32_t own = own_transport(job, view, path, pe);
    return path == PATH_NONE ? WEFT_DEV_CARRIER_NONE : own ? own : WEFT_DEV_CARRIER_PROXY;
}

/* The transport to PE pe: of all that needs one, or only of atomics. */
static uint32_t carrier_of(const struct weft_job *job, const struct device_view *view,
                           const struct weft_dev_peer *peer, int pe)
{
    weft_kind kind = view->cuda ? WEFT_GPU : WEFT_HOST;
    if (!peer->part[WEFT_DEV_AREAS])
        return transport_of(job, view, (enum path_id)peer->path, pe);
    if (peer->atomics)
        return WEFT_DEV_CARRIER_NONE;
    /* Atomics on memory of the other kind may be the only ones of a path of their own. */
    enum path_id atomics = job->paths.atomics[kind];
    return transport_of(job, view, atomics == PATH_NONE ? job->paths.atomics[WEFT_HOST] : atomics,
                        pe);
}

/* Whether some peer uses the path's own transport. */
static bool uses_own_transport(const struct weft_job *job, const struct device_view *view,
                               const struct weft_dev *dev, enum path_id path)
{
    unsigned own = job->paths.common[path] ? own_transport(job, view, path, -1) : 0;
    return own && dev->carried >> own & 1;
}

/* Lets the paths that provide their own transport fill their part of the device state. */
static weft_status fill_transports(struct weft_job *job, const struct device_view *view,
                                   struct weft_dev *dev)
{
    weft_status status = WEFT_OK;
    for (int path = 0; path < PATH_COUNT && !status; path++)
        if (uses_own_transport(job, view, dev, (enum path_id)path))
            status =
                path_ops_of((enum path_id)path)->device(job->paths.common[path], view->cuda, dev);
    return status;
}

/* Fills the table of peers, and the windows of the segments, which are derived from it. */
static weft_status fill_peers(struct weft_job *job, struct device_view *view, struct weft_dev *dev)
{
    size_t bytes = (size_t)job->npes * sizeof(struct weft_dev_peer);
    struct weft_dev_peer *peers = calloc(1, bytes);
    if (!peers)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for the table of %d PEs",
                         job->npes);
    dev->all_atomics = 1;
    for (int pe = 0; pe < job->npes; pe++) {
        for (int segment = 0; segment < WEFT_DEV_PARTS; segment++)
            peers[pe].part[segment] = part_of(view, segment, pe);
        peers[pe].path = job->paths.choices[view->cuda ? WEFT_GPU : WEFT_HOST][pe].path;
        peers[pe].atomics = view->atomics(view, pe);
        peers[pe].carrier = carrier_of(job, view, &peers[pe], pe);
        if (peers[pe].part[WEFT_DEV_AREAS] && !peers[pe].atomics)
            dev->all_atomics = 0;
        dev->carried |= peers[pe].carrier ? 1u << peers[pe].carrier : 0;
        if (job_lacks_atomics(job, view->cuda ? WEFT_GPU : WEFT_HOST, pe))
            dev->carried |= 1u << WEFT_DEV_CARRIER_PROXY;
    }
    if (dev->carried >> WEFT_DEV_CARRIER_DC & 1) /* by the queues of gda, at first by the proxy */
        dev->carried |= 1u << WEFT_DEV_CARRIER_GDA | 1u << WEFT_DEV_CARRIER_PROXY;
    if (view->cuda && dev->carried >> WEFT_DEV_CARRIER_GDA & 1) /* for units compiled without gda */
        dev->carried |= 1u << WEFT_DEV_CARRIER_PROXY;
    for (int segment = 0; segment < WEFT_DEV_PARTS; segment++)
        fill_segment(job, view, dev, peers, segment);
    void *table = NULL;
    weft_status status = fill_transports(job, view, dev);
    if (!status)
        status = device_proxy_assign_rings(job, peers);
    if (!status)
        status = view->table_make(view, bytes, &table);
    if (!status)
        status = view->table_write(view, table, 0, peers, bytes);
    dev->peers = table;
    free(peers);
    return status;
}

/* ------------------------------------------------------------------------------------ teams */

static bool team_is_direct(struct device_view *view, const struct weft_team *team)
{
    for (int i = 0; i < team->n; i++)
        if (!is_direct(view, team->pes[i]))
            return false;
    return true;
}

/* Whether every member accesses every other directly. All members have the same data, so they
 * choose the same algorithm. */
static bool team_is_all_direct(const struct device_state *state, const struct weft_team *team)
{
    size_t npes = (size_t)team->job->npes;
    for (int i = 0; i < team->n; i++)
        for (int k = 0; k < team->n; k++)
            if (!state->pairs[(size_t)team->pes[i] * npes + (size_t)team->pes[k]])
                return false;
    return true;
}

static weft_status gather_pairs(struct weft_job *job, struct device_state *state)
{
    size_t n = (size_t)job->npes;
    state->pairs = calloc(n * n, sizeof *state->pairs);
    bool *own = calloc(n, sizeof *own);
    weft_status status = state->pairs && own ? WEFT_OK
                                             : base_fail(WEFT_ERR_NO_MEMORY,
                                                         "no private memory for %d PEs", job->npes);
    for (int pe = 0; pe < job->npes && !status; pe++)
        own[pe] = is_direct(state->view, pe);
    status = boot_agree(job->boot, status);
    if (!status)
        status = job->boot->ops->allgather(job->boot, own, state->pairs, n * sizeof *own);
    free(own);
    return status;
}

static bool team_is_strided(const struct weft_team *team, int *stride)
{
    *stride = team->n > 1 ? team->pes[1] - team->pes[0] : 0;
    for (int i = 0; i < team->n; i++)
        if (team->pes[i] != team->pes[0] + i * *stride)
            return false;
    return true;
}

weft_status device_team_made(struct weft_job *job, const struct weft_team *team)
{
    struct device_state *state = job->device;
    if (!state)
        return WEFT_OK;
    struct weft_dev_team *entry = &state->teams[team->slot];
    int stride;
    *entry = (struct weft_dev_team){.n = team->n, .me = team->me, .start = team->pes[0]};
    entry->direct = team_is_direct(state->view, team);
    entry->all_direct = team_is_all_direct(state, team);
    if (team_is_strided(team, &stride)) {
        entry->stride = stride;
    } else {
        /* Freed at finalize only: such teams are rare and their tables small. */
        void *pes;
        size_t bytes = (size_t)team->n * sizeof(int32_t);
        weft_status status = state->view->table_make(state->view, bytes, &pes);
        if (!status)
            status = state->view->table_write(state->view, pes, 0, team->pes, bytes);
        if (status)
            return status;
        entry->pes = pes;
    }
    return state->view->table_write(state->view, (void *)state->dev.teams,
                                    (size_t)team->slot * sizeof *entry, entry, sizeof *entry);
}

static weft_status clear_areas(struct device_state *state, size_t offset, size_t bytes)
{
    void *zeros = calloc(1, bytes);
    if (!zeros)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %zu zeros", bytes);
    weft_status status = state->view->table_write(
        state->view, (void *)(uintptr_t)state->dev.segment[WEFT_DEV_AREAS].base, offset, zeros,
        bytes);
    free(zeros);
    return status;
}

/* Clears the device's data of a team: its area and its packet buffers, which a new team must find
 * zeroed. All members have arrived, and none uses the team any more. */
void device_team_gone(struct weft_job *job, const struct weft_team *team)
{
    struct device_state *state = job->device;
    if (!state)
        return;
    size_t area = weft_dev_area_bytes(job->npes);
    memset(&state->teams[team->slot], 0, sizeof state->teams[0]);
    weft_status status = state->view->table_write(
        state->view, (void *)state->dev.teams, (size_t)team->slot * sizeof state->teams[0],
        &state->teams[team->slot], sizeof state->teams[0]);
    if (!status)
        status = clear_areas(state, (size_t)team->slot * area, area);
    if (!status)
        status = clear_areas(state, weft_dev_staging_offset(job->npes, job->most_teams, team->slot),
                             weft_dev_staging_bytes(job->npes, team->slot));
    if (status)
        log_warn(LOG_JOB, "the device data of a team could not be cleared: %s", base_last_error());
}

/* ---------------------------------------------------------------------------- start and stop */

weft_status device_check_running(void)
{
    pthread_mutex_lock(&units_lock);
    struct weft_job *job = running;
    weft_status status = job && job_failed(job) ? job_check_failed(job) : WEFT_OK;
    pthread_mutex_unlock(&units_lock);
    return status;
}

weft_status device_before_launch(void)
{
    pthread_mutex_lock(&units_lock);
    struct weft_job *job = running;
    weft_status status = job && job_failed(job) ? job_check_failed(job) : WEFT_OK;
    if (job && !status && job->device->proxy)
        device_proxy_wake(job->device->proxy);
    pthread_mutex_unlock(&units_lock);
    return status;
}

static weft_status fill_state(struct weft_job *job, struct device_state *state)
{
    struct device_view *view = state->view;
    struct weft_dev *dev = &state->dev;
    *dev = (struct weft_dev){
        .version = WEFT_DEV_VERSION,
        .bytes = sizeof *dev,
        .me = job->pe,
        .n_pes = job->npes,
        .n_teams = job->most_teams,
        .slot_bytes = {(uint32_t)weft_dev_slot_bytes(job->npes, 0),
                       (uint32_t)weft_dev_slot_bytes(job->npes, WEFT_DEV_WIDE_TEAMS)},
        .rooms = weft_dev_staging_offset(job->npes, job->most_teams, 0),
        .wait_limit_ns = job->waits.limit_ns,
        .checking = job->checking,
        .box = view->box,
        .tickets = view->tickets ? view->tickets : &view->box->tickets,
    };
    weft_status status = fill_peers(job, view, dev);
    void *teams;
    if (!status)
        status = gather_pairs(job, state);
    if (!status)
        status = view->table_make(view, sizeof state->teams, &teams);
    bool proxied = dev->carried >> WEFT_DEV_CARRIER_PROXY & 1;
    if (!status && (proxied || config_choice(CONFIG_TEST_PROXY)))
        status = device_proxy_open(job, view, &dev->ring, &state->proxy);
    if (status)
        return status;
    dev->all_direct = team_is_all_direct(state, job->world);
    dev->teams = teams;
    status = view->table_write(view, teams, 0, state->teams, sizeof state->teams);
    for (struct weft_team *team = job->teams; team && !status; team = team->next)
        status = device_team_made(job, team);
    return status;
}

static void free_state(struct weft_job *job)
{
    struct device_state *state = job->device;
    device_watch_stop(state->watch);
    device_proxy_close(state->proxy);
    /* the threads above, which may report that the job has failed, read job->device */
    job->device = NULL;
    state->view->close(state->view);
    free(state->pairs);
    free(state);
}

weft_status device_quiet(struct weft_job *job)
{
    struct device_state *state = job->device;
    weft_status status = WEFT_OK;
    for (int path = 0; state && path < PATH_COUNT && !status; path++) {
        if (uses_own_transport(job, state->view, &state->dev, (enum path_id)path))
            status = path_ops_of((enum path_id)path)->complete_device(job->paths.common[path]);
    }
    return state && state->proxy && !status ? device_proxy_quiet(state->proxy) : status;
}

/* Gives the present state to the units that have an older one, and to the copy of
 * device_state_address(). */
static weft_status renew_copies(struct weft_job *job)
{
    struct device_view *view = job->device->view;
    weft_status status = WEFT_OK;
    if (view->state)
        status =
            view->table_write(view, view->state, 0, &job->device->dev, sizeof job->device->dev);
    pthread_mutex_lock(&units_lock);
    if (!status && running == job)
        status = upload_all(false);
    pthread_mutex_unlock(&units_lock);
    return status;
}

weft_status device_share_queues(struct weft_job *job, enum path_sharing sharing, int *blocks)
{
    struct device_state *state = job->device;
    weft_status status = device_quiet(job);
    *blocks = 0;
    for (int path = 0; state && path < PATH_COUNT && !status; path++) {
        const struct path_ops *ops = path_ops_of((enum path_id)path);
        if (ops->share_queues &&
            uses_own_transport(job, state->view, &state->dev, (enum path_id)path))
            status = ops->share_queues(job->paths.common[path], sharing, &state->dev, blocks);
    }
    return status || !state ? status : renew_copies(job);
}

weft_status device_trace_proxy(struct weft_job *job, struct proxy_times *times, uint64_t n)
{
    if (!job->device || !job->device->proxy)
        return base_fail(
            WEFT_ERR_UNSUPPORTED,
            "this job has no proxy: its peers are direct, and WEFT_TEST_PROXY is auto");
    device_proxy_trace(job->device->proxy, times, n);
    return WEFT_OK;
}

/* Whether a unit belongs to the library itself. Units compiled before the field `own` existed are
 * smaller and belong to programs. */
static bool is_own(const struct weft_device_unit *unit)
{
    return unit->size >= offsetof(struct weft_device_unit, own) + sizeof unit->own && unit->own;
}

/* A program whose device code only nvcc compiled cannot run without a GPU: its kernels would not be
 * launched, and the program would continue with missing results. */
static weft_status check_target(void)
{
    bool cuda = false, simt = false;
    if (device_target() != WEFT_SIMT || !device_target_is_auto())
        return WEFT_OK;
    pthread_mutex_lock(&units_lock);
    for (const struct weft_device_unit *unit = units; unit; unit = unit->next) {
        cuda |= !is_own(unit) && unit->cuda;
        simt |= !is_own(unit) && !unit->cuda;
    }
    pthread_mutex_unlock(&units_lock);
    if (!cuda || simt)
        return WEFT_OK;
    return base_fail(
        WEFT_ERR_UNSUPPORTED,
        "CUDA finds no GPU here, and this program's kernels were compiled by nvcc alone. "
        "Run it where there is a GPU, compile it for simt too (weft_kernels() of the "
        "CMake package), or set WEFT_TARGET=simt if it launches no kernel");
}

static weft_status start_device(struct weft_job *job)
{
    struct device_state *state = calloc(1, sizeof *state);
    if (!state)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for the device state");
    device_box(job->box)->version = WEFT_DEV_VERSION;
    weft_status status = device_target() == WEFT_CUDA ? device_view_cuda(job, &state->view)
                                                      : device_view_simt(job, &state->view);
    if (status) {
        free(state);
        return status;
    }
    /* Release: a thread that quiets meanwhile, and finds the pointer by a plain load, sees the
     * state. */
    __atomic_store_n(&job->device, state, __ATOMIC_RELEASE);
    status = fill_state(job, state);
    if (!status)
        status = device_watch_start(job, &state->watch);
    if (status)
        free_state(job);
    return status;
}

weft_status device_open(struct weft_job *job)
{
    weft_status status = job_check_failed(job);
    if (!status && !job->device)
        status = check_target();
    return status || job->device ? status : start_device(job);
}

weft_status device_start(struct weft_job *job)
{
    if (job->threads_are_pes && job->npes > 1)
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "weft_device_start: the PEs of this job are threads of one process, and "
                         "device code has one state for a process; start the PEs as processes "
                         "(`weft run -n %d`)",
                         job->npes);
    weft_status status = device_open(job);
    if (status)
        return status;
    pthread_mutex_lock(&units_lock);
    if (running && running != job) {
        status = base_fail(WEFT_ERR_UNSUPPORTED,
                           "weft_device_start: another job of this process uses the device code; "
                           "finalize it first");
    } else {
        bool again = running == job;
        running = job;
        status = upload_all(again);
    }
    pthread_mutex_unlock(&units_lock);
    return status;
}

int device_wanted(void)
{
    bool any = false;
    pthread_mutex_lock(&units_lock);
    for (const struct weft_device_unit *unit = units; unit; unit = unit->next)
        any |= !is_own(unit);
    pthread_mutex_unlock(&units_lock);
    return !any ? 0 : device_target() == WEFT_CUDA ? 2 : 1;
}

weft_status device_init(struct weft_job *job, int wanted)
{
    if (!wanted || (job->threads_are_pes && job->npes > 1))
        return WEFT_OK;
    return device_start(job);
}

void device_stop(struct weft_job *job)
{
    struct device_state *state = job->device;
    if (!state)
        return;
    pthread_mutex_lock(&units_lock);
    if (running == job) {
        running = NULL;
        for (struct weft_device_unit *unit = units; unit; unit = unit->next) {
            if (unit->cuda == state->view->cuda && unit->upload(&no_state, state->view->ordinal))
                log_debug(LOG_JOB, "the device state of a unit could not be emptied");
            unit->pending = 1;
        }
    }
    pthread_mutex_unlock(&units_lock);
    free_state(job);
}

const struct weft_dev *device_state_of(const struct weft_job *job, struct device_view **view)
{
    *view = job->device ? job->device->view : NULL;
    return job->device ? &job->device->dev : NULL;
}
