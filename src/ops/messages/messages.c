/* SPDX-License-Identifier: Apache-2.0 */
/* Creation of objects for messages, and the checks of a call. */
#include "ops/messages/messages.h"

#include "base/status.h"
#include "gpu/stream.h"
#include "job/device_state.h"
#include "ops/coll/coll.h"
#include "ops/coll/kernel.h"
#include "ops/stream/events.h"
#include "ops/stream/stream.h"

#include <stdlib.h>

enum { LEAST_ROOM = 4 << 10, LEAST_SLOT = 1 << 10, MOST_SLOT = 64 << 10 };

/* What each member reports to the others. */
struct members_record {
    uint64_t reached; /* bit i: the memory of member i is loaded and stored from here */
    uint64_t room;
    int32_t blocks; /* at most, of a kernel; 0: no kernel */
};

static struct members_record describe(const struct weft_team *team, size_t room)
{
    struct weft_job *job = team->job;
    struct members_record own = {.room = room};
    if (!stream_on_cuda(job) || team->n > MESSAGE_MEMBERS)
        return own;
    int blocks = coll_kernel_most_blocks(team);
    own.blocks = blocks < MESSAGE_CHANNELS ? blocks : MESSAGE_CHANNELS;
    for (int i = 0; i < team->n; i++)
        if (job->gpu->slot_of[team->pes[i]] >= 0 && job_direct(job, WEFT_GPU, team->pes[i]))
            own.reached |= UINT64_C(1) << i;
    return own;
}

/* Exchanges what the members can do. *mine becomes what all can; those of `reached` reach this
 * member too. */
static weft_status agree(struct weft_team *team, struct members_record *mine)
{
    const struct members_record *all = team->scratch;
    struct members_record own = *mine;
    weft_status status = coll_exchange(team, BOX_OP_SYNC, mine, team->scratch, sizeof *mine);
    for (int i = 0; i < team->n && !status; i++) {
        mine->blocks = all[i].blocks < mine->blocks ? all[i].blocks : mine->blocks;
        if (own.reached && !(all[i].reached >> team->me & 1))
            mine->reached &= ~(UINT64_C(1) << i);
        if (all[i].room != own.room)
            status = base_fail(WEFT_ERR_MISMATCH,
                               "weft_messages_create: room is %llu bytes at PE %d, %llu at PE %d",
                               (unsigned long long)own.room, team->job->pe,
                               (unsigned long long)all[i].room, team->pes[i]);
    }
    return status;
}

/* As many channels as leave slots that pay. The other members share what the smallest slots of the
 * member's own leave. */
static struct message_layout lay_out(int members, size_t room, int most)
{
    size_t others = (size_t)members - 1, channel_slots = (size_t)members * MESSAGE_SLOTS;
    struct message_layout l = {.slot_bytes = {0, LEAST_SLOT},
                               .members = (uint16_t)members,
                               .channels = (uint16_t)(most > 0 ? most : 1)};
    while (l.channels > 1 && room / channel_slots / l.channels < LEAST_SLOT)
        l.channels /= 2;
    size_t slots = room / MESSAGE_SLOTS / l.channels;
    size_t slot = others ? (slots - LEAST_SLOT) / others : slots;
    l.slot_bytes[0] =
        (uint32_t)(slot < MOST_SLOT ? slot / MESSAGE_GRAIN * MESSAGE_GRAIN : MOST_SLOT);
    if (!others)
        l.slot_bytes[1] = l.slot_bytes[0];
    return l;
}

static weft_status allocate_area(struct weft_messages *m, size_t room)
{
    struct weft_team *team = m->team;
    struct weft_job *job = team->job;
    /* The memory of messages is the program's: often no weft_alloc() has opened the GPU side. */
    weft_status status = device_target() == WEFT_CUDA ? job_gpu_open(job) : WEFT_OK;
    if (status)
        return base_fail_context(status, "weft_messages_create");
    m->on_cuda = stream_on_cuda(job);
    struct members_record all = describe(team, room);
    status = agree(team, &all);
    if (status)
        return status;
    struct message_layout layout = lay_out(team->n, room, all.blocks);
    size_t bytes = message_area_bytes(&layout) + messages_stream_bytes(team->n);
    status =
        weft_alloc(job, m->on_cuda ? WEFT_GPU : WEFT_HOST, bytes, 256, WEFT_ALLOC_ZERO, &m->memory);
    if (status)
        return status;
    m->call.layout = layout;
    m->call.me = (uint16_t)team->me;
    m->call.team = team->slot;
    for (int i = 0; i < team->n && all.blocks; i++)
        if (all.reached >> i & 1)
            m->call.area[i] = weft_ptr(job, m->memory, team->pes[i]);
    if (m->on_cuda)
        m->call.reporting = job->gpu->reporting;
    return events_new(job, &m->begun);
}

static void release(struct weft_messages *m)
{
    free(m->counts);
    free(m->next);
    free(m->streams);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

static struct weft_messages *new_messages(struct weft_team *team)
{
    struct weft_messages *m = calloc(1, sizeof *m);
    size_t lanes = 2 * (size_t)team->n;
    if (!m)
        return NULL;
    pthread_mutex_init(&m->lock, NULL);
    m->team = team;
    m->counts = calloc(lanes, sizeof *m->counts);
    m->next = calloc(lanes, sizeof *m->next);
    m->streams = calloc(lanes, sizeof *m->streams);
    if (m->counts && m->next && m->streams)
        return m;
    release(m);
    return NULL;
}

WEFT_EXPORT weft_status weft_messages_create(weft_team *team, size_t room, weft_messages **messages)
{
    static const char name[] = "weft_messages_create";
    if (!team || !messages)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: %s is null", name, team ? "messages" : "team");
    *messages = NULL;
    if (atomic_load(&team->job->state) != JOB_RUNNING)
        return job_finalized(name);
    if (room / (size_t)team->n < LEAST_ROOM)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: room is %zu bytes; %d members need at least %zu",
                         name, room, team->n, (size_t)team->n * LEAST_ROOM);
    struct weft_messages *m = new_messages(team);
    if (!m)
        return base_fail(WEFT_ERR_NO_MEMORY, "%s: no private memory", name);
    weft_status status = allocate_area(m, room);
    if (status) {
        if (m->memory)
            weft_free(team->job, m->memory);
        release(m);
        return status;
    }
    *messages = m;
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_messages_destroy(weft_messages *m)
{
    if (!m)
        return WEFT_OK;
    struct weft_job *job = m->team->job;
    if (atomic_load(&job->state) != JOB_RUNNING)
        return job_finalized("weft_messages_destroy");
    messages_close_streams(m);
    messages_close_kernel(m);
    events_delete(job, m->on_cuda, m->begun);
    weft_status status = weft_free(job, m->memory);
    release(m);
    return status;
}

/* ------------------------------------------------------------------------------------ calls */

static weft_status check_message(const struct weft_messages *m, const weft_message *list, size_t i)
{
    static const char name[] = "weft_messages_on_stream";
    const weft_message *one = &list[i];
    if (one->member < 0 || one->member >= m->team->n)
        return base_fail(WEFT_ERR_PE, "%s: message %zu has member %d; the team has %d", name, i,
                         one->member, m->team->n);
    if (one->bytes && !one->address)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: message %zu has a null address", name, i);
    if (one->bytes >> MESSAGE_SIZE_BITS)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "%s: message %zu has %zu bytes; less than 1 TiB is possible", name, i,
                         one->bytes);
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_messages_on_stream(weft_messages *m, const weft_message *list,
                                                size_t n, weft_stream stream)
{
    static const char name[] = "weft_messages_on_stream";
    if (!m || (n && !list))
        return base_fail(WEFT_ERR_ARGUMENT, "%s: %s is null", name, m ? "list" : "messages");
    struct weft_job *job = m->team->job;
    if (atomic_load(&job->state) != JOB_RUNNING)
        return job_finalized(name);
    if (n > UINT16_MAX)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: %zu messages; at most %d are possible", name, n,
                         UINT16_MAX);
    if (m->on_cuda != stream_on_cuda(job))
        return base_fail(WEFT_ERR_ARGUMENT,
                         "%s: the object was created before the job had a GPU side, so it has no "
                         "CUDA streams; call weft_alloc(WEFT_GPU) first, or set WEFT_TARGET=cuda",
                         name);
    weft_status status = job_check_failed(job);
    if (!status)
        status = stream_check(name, job, stream);
    bool kernel = false, streams = false;
    for (size_t i = 0; i < n && !status; i++) {
        status = check_message(m, list, i);
        if (status || !list[i].bytes)
            continue;
        bool direct = messages_by_kernel(m, list[i].member);
        kernel |= direct;
        streams |= !direct;
    }
    if (status || !(kernel || streams))
        return status;
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    pthread_mutex_lock(&m->lock);
    if (m->on_cuda)
        gpu_exchange_capture_mode(job->gpu, &mode);
    if (streams) /* they wait for what the stream did before, and not for the kernel */
        status = messages_begin_streams(m, stream);
    if (kernel && !status)
        status = messages_run_kernel(m, list, n, stream);
    if (streams && !status)
        status = messages_run_streams(m, list, n, stream);
    if (m->on_cuda)
        gpu_exchange_capture_mode(job->gpu, &mode);
    pthread_mutex_unlock(&m->lock);
    return status;
}
