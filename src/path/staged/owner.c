/* SPDX-License-Identifier: Apache-2.0 */
/* Path `staged` at the owner: a thread that executes the requests of local PEs on this PE's memory.
 * It polls for a while after the last request, then sleeps on a futex in the shared area. It waits
 * for nothing but its own GPU, so that no two PEs wait for each other. */
#include "path/staged/staged.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "base/thread.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    IN_FLIGHT_MOST = 64, /* requests begun and not complete, of all channels */
    BATCH_REQUESTS = 16, /* requests of one channel before the next channel is served */
    SPIN_NS = 50 * 1000, /* polling after the last request if there are spare CPUs */
    IDLE_YIELDS = 4,     /* sched_yield() calls after the last request if there are none */
    /* A requester may be killed between the two steps of staged_wake_owner(). */
    SLEEP_MOST_MS = 100,
};

/* A request that is begun, in order. */
struct begun_request {
    int from;
    uint64_t sequence;
};

struct staged_owner {
    struct staged_common *common;
    struct serve *serve;
    pthread_t thread;
    bool running;
    _Atomic bool stop;
    bool spare_cpus;
    uint64_t *begun_of; /* [local_npes] number of requests begun on each channel */
    bool *pinned;       /* [local_npes] */
    struct begun_request in_flight[IN_FLIGHT_MOST];
    uint64_t begun, complete; /* number of requests of all channels; those of `serve` */
};

/* ---------------------------------------------------------------------- sleep and wake-up */

static long call_futex(_Atomic uint32_t *word, int operation, uint32_t value,
                       const struct timespec *timeout)
{
    return syscall(SYS_futex, word, operation, value, timeout, NULL, 0);
}

/* Sequentially consistent, like the loads in any_pending(): either this PE sees that the thread
 * sleeps, or the thread sees the request before it sleeps. */
void staged_wake_owner(struct staged_mailbox *mailbox)
{
    if (atomic_load(&mailbox->asleep) && atomic_exchange(&mailbox->asleep, 0))
        call_futex(&mailbox->asleep, FUTEX_WAKE, INT_MAX, NULL);
}

static struct staged_slot *next_slot(struct staged_owner *owner, int from)
{
    struct staged_mailbox *mailbox = staged_mailbox(owner->common, owner->common->local_pe);
    return &mailbox->channels[from].ring.slots[owner->begun_of[from] % STAGED_SLOTS];
}

/* Acquire: pairs with publish_requests(). Sequentially consistent, see staged_wake_owner(). */
static bool is_pending(struct staged_owner *owner, int from)
{
    return atomic_load(&next_slot(owner, from)->sequence) == owner->begun_of[from] + 1;
}

static bool has_requests(const struct staged_mailbox *mailbox, int from)
{
    return atomic_load(&mailbox->senders[from / 32]) & 1u << from % 32;
}

static bool any_pending(struct staged_owner *owner)
{
    struct staged_mailbox *mailbox = staged_mailbox(owner->common, owner->common->local_pe);
    for (int from = 0; from < owner->common->local_npes; from++)
        if (has_requests(mailbox, from) && is_pending(owner, from))
            return true;
    return false;
}

static bool any_needs_polling(struct staged_owner *owner)
{
    for (int slot = 0; slot < owner->common->local_npes; slot++)
        if (atomic_load(&owner->common->channels[slot].needs_polling))
            return true;
    return false;
}

static void sleep_on_futex(struct staged_owner *owner)
{
    struct staged_mailbox *mailbox = staged_mailbox(owner->common, owner->common->local_pe);
    const struct timespec most = {.tv_nsec = SLEEP_MOST_MS * 1000 * 1000L};
    atomic_store(&mailbox->asleep, 1);
    if (!any_pending(owner) && !any_needs_polling(owner) && !atomic_load(&owner->stop))
        call_futex(&mailbox->asleep, FUTEX_WAIT, 1, &most);
    atomic_store(&mailbox->asleep, 0);
}

/* ------------------------------------------------------------------------------- requests */

/* Only the first failure is recorded. The requester reads it after `done`. */
static void record_failure(struct staged_owner *owner, int from, weft_status status)
{
    struct staged_ring *ring =
        &staged_mailbox(owner->common, owner->common->local_pe)->channels[from].ring;
    if (atomic_load_explicit(&ring->failed, memory_order_relaxed))
        return;
    snprintf(ring->sentence, sizeof ring->sentence, "%s", base_last_error());
    /* Release: pairs with check_owner_failure(), which may read it before `done` has grown. */
    atomic_store_explicit(&ring->failed, status, memory_order_release);
}

static bool fits_buffer(uint32_t buffer, uint32_t at, uint64_t bytes)
{
    size_t size = buffer == STAGED_HOST_BUFFER ? STAGED_HOST_BYTES : STAGED_GPU_BYTES;
    return buffer < STAGED_BUFFERS && at <= size && bytes <= size - at;
}

/* NULL: no requester of this version writes such a request. */
static void *find_data(struct staged_channel_memory *memory, struct staged_slot *slot,
                       const struct serve_request *request)
{
    if (request->operation == SERVE_ATOMIC || request->bytes <= STAGED_INLINE_BYTES)
        return slot->data;
    uint32_t buffer = slot->buffer, at = slot->offset;
    if (!fits_buffer(buffer, at, request->bytes))
        return NULL;
    return (buffer == STAGED_HOST_BUFFER ? memory->host_buffer : memory->gpu_buffer) + at;
}

static void begin_next_request(struct staged_owner *owner, int from)
{
    struct staged_common *common = owner->common;
    struct staged_channel_memory *memory =
        &staged_mailbox(common, common->local_pe)->channels[from];
    struct staged_slot *slot = next_slot(owner, from);
    struct serve_request request =
        slot->request; /* copied once: the requester could change it afterwards */
    uint64_t before = 0;
    if (request.segment == SEG_GPU && common->world->gpu && !owner->pinned[from])
        owner->pinned[from] = staged_pin_channel(common, memory);
    void *data = find_data(memory, slot, &request);
    if (!data)
        request.operation = SERVE_OPERATIONS; /* serve_begin() refuses it, in order */
    weft_status status = serve_begin(owner->serve, &request, data, &before);
    if (request.operation == SERVE_ATOMIC)
        memcpy(slot->data, &before, sizeof before);
    if (status)
        record_failure(owner, from, status);
    owner->in_flight[owner->begun++ % IN_FLIGHT_MOST] =
        (struct begun_request){from, ++owner->begun_of[from]};
}

static void publish_completions(struct staged_owner *owner, uint64_t complete)
{
    struct staged_mailbox *mailbox = staged_mailbox(owner->common, owner->common->local_pe);
    for (; owner->complete < complete; owner->complete++) {
        const struct begun_request *begun = &owner->in_flight[owner->complete % IN_FLIGHT_MOST];
        /* Release: pairs with copy_answers_out(), which then finds the answer and the failure. What
         * is visible to this PE becomes visible to the requester, and to PEs that it notifies. */
        atomic_store_explicit(&mailbox->channels[begun->from].ring.done, begun->sequence,
                              memory_order_release);
    }
}

/* The GPU has failed: reports that to the requesters of all requests in flight, and takes the
 * requests as complete. */
static void fail_in_flight(struct staged_owner *owner, weft_status status)
{
    for (uint64_t i = owner->complete; i < owner->begun; i++)
        record_failure(owner, owner->in_flight[i % IN_FLIGHT_MOST].from, status);
    publish_completions(owner, owner->begun);
}

static void check_completions(struct staged_owner *owner)
{
    uint64_t complete = 0;
    weft_status status = serve_poll(owner->serve, &complete);
    if (status)
        fail_in_flight(owner, status);
    else
        publish_completions(owner, complete);
}

/* Executes up to BATCH_REQUESTS requests. Returns whether there were any. */
static bool serve_channel(struct staged_owner *owner, int from)
{
    int count = 0;
    while (count < BATCH_REQUESTS && owner->begun - owner->complete < IN_FLIGHT_MOST &&
           is_pending(owner, from)) {
        begin_next_request(owner, from);
        check_completions(owner);
        count++;
    }
    return count != 0;
}

static bool serve_channels(struct staged_owner *owner)
{
    struct staged_mailbox *mailbox = staged_mailbox(owner->common, owner->common->local_pe);
    bool any = false;
    for (int from = 0; from < owner->common->local_npes; from++)
        if (has_requests(mailbox, from))
            any |= serve_channel(owner, from);
    if (owner->complete < owner->begun) {
        check_completions(owner);
        any = true; /* The GPU still works on requests, and its completion wakes no thread. */
        if (!owner->spare_cpus)
            sched_yield();
    }
    return any;
}

/* Advances this PE's own channels whose requester does not return to them soon. If another thread
 * holds the lock, that thread advances the channel or sets needs_polling again. Returns whether
 * there is such a channel. */
static bool advance_own_channels(struct staged_owner *owner)
{
    bool any = false;
    for (int slot = 0; slot < owner->common->local_npes; slot++) {
        struct staged_channel *channel = &owner->common->channels[slot];
        if (!atomic_load_explicit(&channel->needs_polling, memory_order_relaxed))
            continue;
        any = true;
        if (pthread_mutex_trylock(&channel->lock))
            continue;
        /* The channel keeps a failure for its next caller. */
        if (staged_advance(channel) || channel->published == channel->begun)
            atomic_store_explicit(&channel->needs_polling, false, memory_order_relaxed);
        pthread_mutex_unlock(&channel->lock);
    }
    if (any && !owner->spare_cpus)
        sched_yield();
    return any;
}

/* ---------------------------------------------------------------------------------- thread */

static void spin_or_sleep(struct staged_owner *owner, uint64_t *idle_since, unsigned *idle)
{
    uint64_t now = owner->spare_cpus ? clock_now_ns() : 0;
    if ((*idle)++ == 0)
        *idle_since = now;
    if (owner->spare_cpus ? now - *idle_since < SPIN_NS : *idle <= IDLE_YIELDS) {
        if (!owner->spare_cpus)
            sched_yield();
        return;
    }
    sleep_on_futex(owner);
    *idle = 0;
}

static void *run_owner_thread(void *argument)
{
    struct staged_owner *owner = argument;
    uint64_t idle_since = 0;
    unsigned idle = 0;
    while (!atomic_load(&owner->stop)) {
        bool any = serve_channels(owner);
        if (advance_own_channels(owner) || any)
            idle = 0;
        else
            spin_or_sleep(owner, &idle_since, &idle);
    }
    return NULL;
}

/* Polling takes a CPU, so the thread polls only if each PE of the node can have two. */
static bool has_spare_cpus(const struct staged_common *common)
{
    cpu_set_t set;
    return common->world->cpus >= 2 * common->local_npes &&
           sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 1;
}

static weft_status start_thread(struct staged_owner *owner)
{
    int error = thread_start(&owner->thread, run_owner_thread, owner);
    owner->running = error == 0;
    return error ? base_fail(WEFT_ERR_SYSTEM, "no thread for path staged: %s", strerror(error))
                 : WEFT_OK;
}

weft_status staged_owner_start(struct staged_common *common)
{
    struct staged_owner *owner = calloc(1, sizeof *owner);
    if (!owner)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for path staged");
    common->owner = owner;
    owner->common = common;
    owner->spare_cpus = has_spare_cpus(common);
    owner->begun_of = calloc((size_t)common->local_npes, sizeof *owner->begun_of);
    owner->pinned = calloc((size_t)common->local_npes, sizeof *owner->pinned);
    if (!owner->begun_of || !owner->pinned)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for path staged from %d PEs",
                         common->local_npes);
    weft_status status = serve_open(common->world, &owner->serve);
    return status ? status : start_thread(owner);
}

void staged_owner_stop(struct staged_owner *owner)
{
    if (!owner)
        return;
    if (owner->running) {
        atomic_store(&owner->stop, true);
        staged_wake_owner(staged_mailbox(owner->common, owner->common->local_pe));
        pthread_join(owner->thread, NULL);
    }
    serve_close(owner->serve);
    free(owner->begun_of);
    free(owner->pinned);
    free(owner);
}
