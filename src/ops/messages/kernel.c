/* SPDX-License-Identifier: Apache-2.0 */
/* Messages by the kernel: sorts those of a call by lane, and launches it. */
#include "ops/messages/messages.h"

#include "base/status.h"
#include "gpu/gpu.h"
#include "gpu/module.h"
#include "job/device_watch.h"
#include "ops/stream/events.h"
#include "ops/stream/stream.h"

#include <stdlib.h>
#include <string.h>

enum { THREADS = 512, FIRST_LIST = 64 };

/* A channel gets at least so many bytes of a message, because more blocks for it take longer than
 * they save. */
static const size_t least_part = 16u << 10;

/* Memory that a kernel can access: messages of a call often are in one allocation for each
 * direction. */
struct known_range {
    uintptr_t begin, bytes;
};

static weft_status check_memory(struct gpu *gpu, const weft_message *message, size_t i,
                                struct known_range *known)
{
    uintptr_t at = (uintptr_t)message->address;
    CUdeviceptr begin = 0;
    size_t bytes = 0;
    if (at - known->begin < known->bytes)
        return WEFT_OK;
    if (gpu_place_of(gpu, message->address) == GPU_PLACE_PLAIN)
        return base_fail(WEFT_ERR_ADDRESS,
                         "weft_messages_on_stream: message %zu is at %p, which is memory that GPU "
                         "%d cannot access",
                         i, message->address, gpu->device.ordinal);
    if (!gpu->driver.PointerGetAttribute(&begin, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at) &&
        !gpu->driver.PointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at))
        *known = (struct known_range){begin, bytes};
    return WEFT_OK;
}

/* Whether the messages from this member to itself are copies: those of the call match each other.
 */
static bool copies_own(const struct weft_messages *m)
{
    const uint32_t *counts = &m->counts[2 * m->team->me];
    return !m->own_open && counts[0] == counts[1];
}

static weft_status check_copies(const struct weft_messages *m, const struct message *sorted)
{
    for (int l = 0; l < m->call.lanes; l++) {
        const struct message_lane *lane = &m->call.lane[l];
        for (uint32_t k = lane->first;
             lane->receives == MESSAGE_COPIES && k < (uint32_t)lane->first + lane->n; k++)
            if (sorted[k].bytes != sorted[k + lane->n].bytes)
                return base_fail(WEFT_ERR_MISMATCH,
                                 "weft_messages_on_stream: PE %d sends itself %llu bytes and "
                                 "receives %llu",
                                 m->team->job->pe, (unsigned long long)sorted[k].bytes,
                                 (unsigned long long)sorted[k + lane->n].bytes);
    }
    return WEFT_OK;
}

/* Counts the messages of each lane, and gives each lane its place. Returns the number of all. */
static size_t count_messages(struct weft_messages *m, const weft_message *list, size_t n)
{
    struct message_call *call = &m->call;
    uint32_t found = 0;
    memset(m->counts, 0, 2 * (size_t)m->team->n * sizeof *m->counts);
    for (size_t i = 0; i < n; i++)
        if (list[i].bytes && messages_by_kernel(m, list[i].member))
            m->counts[2 * list[i].member + (list[i].receives != 0)]++;
    bool copies = copies_own(m);
    call->lanes = 0;
    for (int k = 0; k < 2 * m->team->n; k++) {
        uint32_t count = m->counts[k];
        bool copied = copies && k / 2 == m->team->me;
        if (count && !(copied && k % 2)) /* copies: one lane for both directions */
            call->lane[call->lanes++] = (struct message_lane){
                .first = (uint16_t)found,
                .n = (uint16_t)count,
                .pe = (uint16_t)m->team->pes[k / 2],
                .member = (uint8_t)(k / 2),
                .receives = (uint8_t)(copied ? MESSAGE_COPIES : k % 2),
            };
        m->counts[k] = found;
        found += count;
    }
    return found;
}

/* Both ends count alike, so they find the same channels. */
static void divide(struct weft_messages *m, struct message *messages, unsigned n, int member,
                   int receives)
{
    unsigned most = m->call.layout.channels;
    uint16_t *next = &m->next[2 * member + receives];
    for (struct message *one = messages; one < messages + n; one++) {
        size_t parts = (one->bytes + least_part - 1) / least_part;
        one->first = *next;
        one->channels = (uint16_t)(parts < most ? parts : most);
        *next = (uint16_t)((*next + one->channels) % most);
        for (unsigned k = 0; k < one->channels; k++)
            m->call.channels |= UINT64_C(1) << (one->first + k) % most;
    }
}

/* Notes what the call moves. Nothing is noted of a call that fails before. */
static void divide_all(struct weft_messages *m, struct message *sorted)
{
    m->call.channels = 0;
    for (int l = 0; l < m->call.lanes; l++) {
        const struct message_lane *lane = &m->call.lane[l];
        divide(m, sorted + lane->first, lane->n, lane->member, lane->receives == MESSAGE_RECEIVES);
        if (lane->receives == MESSAGE_COPIES)
            divide(m, sorted + lane->first + lane->n, lane->n, lane->member, 1);
        else if (lane->member == m->team->me)
            m->own_open += lane->receives ? -(int64_t)lane->n : (int64_t)lane->n;
    }
}

static weft_status sort_messages(struct weft_messages *m, const weft_message *list, size_t n,
                                 struct message *sorted)
{
    struct known_range known[2] = {{0, 0}, {0, 0}};
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < n && !status; i++)
        if (list[i].bytes && messages_by_kernel(m, list[i].member))
            status = check_memory(m->team->job->gpu, &list[i], i, &known[list[i].receives != 0]);
    for (size_t i = 0; i < n && !status; i++)
        if (list[i].bytes && messages_by_kernel(m, list[i].member))
            sorted[m->counts[2 * list[i].member + (list[i].receives != 0)]++] =
                (struct message){list[i].address, list[i].bytes, 0, 0, 0};
    if (!status)
        status = check_copies(m, sorted);
    if (!status)
        divide_all(m, sorted);
    return status;
}

/* --------------------------------------------------------------------- more than by_value */

static struct message_list *new_list(struct weft_messages *m, size_t n)
{
    struct weft_job *job = m->team->job;
    size_t room = FIRST_LIST;
    while (room < n)
        room *= 2;
    struct message_list *made = malloc(sizeof *made + room * sizeof *made->messages);
    if (!made)
        return NULL;
    *made = (struct message_list){.room = room};
    weft_status status = gpu_alloc_unset(job->gpu, room * sizeof *made->messages, &made->memory);
    if (!status && !events_new(job, &made->ended)) {
        made->next = m->lists;
        return m->lists = made;
    }
    if (!status)
        gpu_free(job->gpu, made->memory);
    free(made);
    return NULL;
}

/* A list with room for n messages that no kernel reads any more. Calls with different members may
 * run at the same time, so each list has its own GPU memory. */
static struct message_list *find_list(struct weft_messages *m, size_t n)
{
    for (struct message_list *l = m->lists; l; l = l->next)
        if (!l->captured && l->room >= n && events_passed(m->team->job, l->ended))
            return l;
    return new_list(m, n);
}

static weft_status copy_list(struct weft_messages *m, struct message_list *list, size_t n,
                             weft_stream stream)
{
    struct gpu *gpu = m->team->job->gpu;
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    list->captured = stream_capturing(gpu, stream);
    status = gpu_copy_on(gpu, stream, (void *)(uintptr_t)list->memory, list->messages,
                         n * sizeof *list->messages);
    gpu_leave(&gpu->device);
    m->call.list = (const struct message *)(uintptr_t)list->memory;
    return status;
}

/* ----------------------------------------------------------------------------------- launch */

static weft_status launch(struct weft_messages *m, weft_stream stream)
{
    struct gpu *gpu = m->team->job->gpu;
    void *arguments[] = {&m->call};
    unsigned blocks = (unsigned)__builtin_popcountll(m->call.channels);
    weft_status status = gpu_enter(&gpu->device);
    if (status)
        return status;
    status = gpu_launch(&gpu->module, GPU_weft_kernel_messages, blocks, THREADS, stream, arguments);
    gpu_leave(&gpu->device);
    return status;
}

weft_status messages_run_kernel(struct weft_messages *m, const weft_message *list, size_t n,
                                weft_stream stream)
{
    size_t found = count_messages(m, list, n);
    struct message_list *long_list = NULL;
    weft_status status = device_watch_kernels(m->team->job);
    m->call.list = NULL;
    if (!status && found > MESSAGES_BY_VALUE && !(long_list = find_list(m, found)))
        status =
            base_fail(WEFT_ERR_NO_MEMORY,
                      "weft_messages_on_stream: no memory for the list of %zu messages", found);
    if (!status)
        status = sort_messages(m, list, n, long_list ? long_list->messages : m->call.by_value);
    if (!status && long_list)
        status = copy_list(m, long_list, found, stream);
    if (!status)
        status = launch(m, stream);
    if (!status && long_list && !long_list->captured)
        status = events_record(m->team->job, long_list->ended, stream);
    return status;
}

void messages_close_kernel(struct weft_messages *m)
{
    struct weft_job *job = m->team->job;
    while (m->lists) {
        struct message_list *first = m->lists;
        m->lists = first->next;
        events_delete(job, m->on_cuda, first->ended);
        gpu_free(job->gpu, first->memory);
        free(first);
    }
}
