/* SPDX-License-Identifier: Apache-2.0 */
/* Path `staged` at the owner: a thread that carries out what local PEs ask of this PE's memory. It
 * polls for a while after the last request, then sleeps on a futex in the shared area. It waits for
 * nothing but its own GPU, so that whoever waits for it gets on. */
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
    UNDER_WAY = 64,      /* requests begun and not complete, of all channels */
    BATCH = 16,          /* of one channel, before the next one's turn */
    SPIN_NS = 50 * 1000, /* after the last request, where CPUs are spare */
    YIELDS = 4,          /* turns for others, where they are not */
    SLEEP_MOST_MS = 100, /* an asker that was killed between the two steps of staged_wake() */
};

/* What was begun, in order. */
struct begun {
    int from;
    uint64_t number;
};

struct staged_owner {
    struct staged_common *common;
    struct serve *serve;
    pthread_t thread;
    bool running;
    _Atomic bool stop;
    bool spare_cpus;
    uint64_t *taken; /* [locals] requests begun of each channel */
    bool *pinned;    /* [locals] */
    struct begun under_way[UNDER_WAY];
    uint64_t begun, complete; /* counts over all channels, those of `serve` */
};

/* ------------------------------------------------------------------------------- sleeping */

static long futex(_Atomic uint32_t *word, int operation, uint32_t value,
                  const struct timespec *timeout)
{
    return syscall(SYS_futex, word, operation, value, timeout, NULL, 0);
}

/* Sequentially consistent, with the loads in pending(): either this sees that the thread sleeps, or
 * the thread sees the request before it does. */
void staged_wake(struct staged_desk *desk)
{
    if (atomic_load(&desk->asleep) && atomic_exchange(&desk->asleep, 0))
        futex(&desk->asleep, FUTEX_WAKE, INT_MAX, NULL);
}

static struct staged_slot *next_slot(struct staged_owner *owner, int from)
{
    struct staged_desk *desk = staged_desk(owner->common, owner->common->me);
    return &desk->channels[from].ring.slots[owner->taken[from] % STAGED_SLOTS];
}

/* Acquire and more: pairs with the publication by the asker, and see staged_wake(). */
static bool is_pending(struct staged_owner *owner, int from)
{
    return atomic_load(&next_slot(owner, from)->number) == owner->taken[from] + 1;
}

static bool has_asked(const struct staged_desk *desk, int from)
{
    return atomic_load(&desk->asked[from / 32]) & 1u << from % 32;
}

static bool anything_pending(struct staged_owner *owner)
{
    struct staged_desk *desk = staged_desk(owner->common, owner->common->me);
    for (int from = 0; from < owner->common->locals; from++)
        if (has_asked(desk, from) && is_pending(owner, from))
            return true;
    return false;
}

static bool anything_restless(struct staged_owner *owner)
{
    for (int slot = 0; slot < owner->common->locals; slot++)
        if (atomic_load(&owner->common->channels[slot].restless))
            return true;
    return false;
}

static void fall_asleep(struct staged_owner *owner)
{
    struct staged_desk *desk = staged_desk(owner->common, owner->common->me);
    const struct timespec most = {.tv_nsec = SLEEP_MOST_MS * 1000 * 1000L};
    atomic_store(&desk->asleep, 1);
    if (!anything_pending(owner) && !anything_restless(owner) && !atomic_load(&owner->stop))
        futex(&desk->asleep, FUTEX_WAIT, 1, &most);
    atomic_store(&desk->asleep, 0);
}

/* ------------------------------------------------------------------------------- requests */

/* The first failure counts; the asker looks at it behind `done`. */
static void note_failure(struct staged_owner *owner, int from, weft_status status)
{
    struct staged_ring *ring = &staged_desk(owner->common, owner->common->me)->channels[from].ring;
    if (atomic_load_explicit(&ring->failed, memory_order_relaxed))
        return;
    snprintf(ring->sentence, sizeof ring->sentence, "%s", base_last_error());
    /* Release: pairs with look_for_failure(), which may come before the count does. */
    atomic_store_explicit(&ring->failed, status, memory_order_release);
}

static bool fits_room(uint32_t room, uint32_t at, uint64_t bytes)
{
    size_t size = room == STAGED_HOST_ROOM ? STAGED_HOST_BYTES : STAGED_GPU_BYTES;
    return room < STAGED_ROOMS && at <= size && bytes <= size - at;
}

/* NULL: the request is not what an asker of this version writes. */
static void *data_of(struct staged_channel_memory *memory, struct staged_slot *slot,
                     const struct serve_request *request)
{
    if (request->operation == SERVE_ATOMIC || request->bytes <= STAGED_INLINE)
        return slot->data;
    uint32_t room = slot->room, at = slot->at;
    if (!fits_room(room, at, request->bytes))
        return NULL;
    return (room == STAGED_HOST_ROOM ? memory->host_room : memory->gpu_room) + at;
}

static void begin_one(struct staged_owner *owner, int from)
{
    struct staged_common *common = owner->common;
    struct staged_channel_memory *memory = &staged_desk(common, common->me)->channels[from];
    struct staged_slot *slot = next_slot(owner, from);
    struct serve_request request = slot->request; /* looked at once: the asker could change it */
    uint64_t before = 0;
    if (request.segment == SEG_GPU && common->world->gpu && !owner->pinned[from])
        owner->pinned[from] = staged_pin(common, memory);
    void *data = data_of(memory, slot, &request);
    if (!data)
        request.operation = SERVE_OPERATIONS; /* refused below, in its turn */
    weft_status status = serve_begin(owner->serve, &request, data, &before);
    if (request.operation == SERVE_ATOMIC)
        memcpy(slot->data, &before, sizeof before);
    if (status)
        note_failure(owner, from, status);
    owner->under_way[owner->begun++ % UNDER_WAY] = (struct begun){from, ++owner->taken[from]};
}

static void tell_complete(struct staged_owner *owner, uint64_t complete)
{
    struct staged_desk *desk = staged_desk(owner->common, owner->common->me);
    for (; owner->complete < complete; owner->complete++) {
        const struct begun *begun = &owner->under_way[owner->complete % UNDER_WAY];
        /* Release: pairs with the asker's look, which then finds the answer and the failure, and
         * tells others of what is visible to them then. */
        atomic_store_explicit(&desk->channels[begun->from].ring.done, begun->number,
                              memory_order_release);
    }
}

/* The GPU has failed: what is under way will not be complete, and those who ask are told. */
static void give_up(struct staged_owner *owner, weft_status status)
{
    for (uint64_t i = owner->complete; i < owner->begun; i++)
        note_failure(owner, owner->under_way[i % UNDER_WAY].from, status);
    tell_complete(owner, owner->begun);
}

static void look(struct staged_owner *owner)
{
    uint64_t complete = 0;
    weft_status status = serve_look(owner->serve, &complete);
    if (status)
        give_up(owner, status);
    else
        tell_complete(owner, complete);
}

/* True: something was there. */
static bool serve_channel(struct staged_owner *owner, int from)
{
    int count = 0;
    while (count < BATCH && owner->begun - owner->complete < UNDER_WAY && is_pending(owner, from)) {
        begin_one(owner, from);
        look(owner);
        count++;
    }
    return count != 0;
}

static bool serve_all(struct staged_owner *owner)
{
    struct staged_desk *desk = staged_desk(owner->common, owner->common->me);
    bool any = false;
    for (int from = 0; from < owner->common->locals; from++)
        if (has_asked(desk, from))
            any |= serve_channel(owner, from);
    if (owner->complete < owner->begun) {
        look(owner);
        any = true; /* the GPU is at it: nobody will wake us */
        if (!owner->spare_cpus)
            sched_yield();
    }
    return any;
}

/* What this PE has asked of others and does not come back to. A lock that is held is held by
 * somebody who moves the channel on himself, or leaves it restless. True: there is such a
 * channel. */
static bool move_on(struct staged_owner *owner)
{
    bool any = false;
    for (int slot = 0; slot < owner->common->locals; slot++) {
        struct staged_channel *channel = &owner->common->channels[slot];
        if (!atomic_load_explicit(&channel->restless, memory_order_relaxed))
            continue;
        any = true;
        if (pthread_mutex_trylock(&channel->lock))
            continue;
        /* A failure stays in the channel. */
        if (staged_advance(channel) || channel->published == channel->taken)
            atomic_store_explicit(&channel->restless, false, memory_order_relaxed);
        pthread_mutex_unlock(&channel->lock);
    }
    if (any && !owner->spare_cpus)
        sched_yield();
    return any;
}

/* ---------------------------------------------------------------------------------- thread */

static void rest(struct staged_owner *owner, uint64_t *idle_since, unsigned *idle)
{
    uint64_t now = owner->spare_cpus ? clock_now_ns() : 0;
    if ((*idle)++ == 0)
        *idle_since = now;
    if (owner->spare_cpus ? now - *idle_since < SPIN_NS : *idle <= YIELDS) {
        if (!owner->spare_cpus)
            sched_yield();
        return;
    }
    fall_asleep(owner);
    *idle = 0;
}

static void *run(void *argument)
{
    struct staged_owner *owner = argument;
    uint64_t idle_since = 0;
    unsigned idle = 0;
    while (!atomic_load(&owner->stop)) {
        bool any = serve_all(owner);
        if (move_on(owner) || any)
            idle = 0;
        else
            rest(owner, &idle_since, &idle);
    }
    return NULL;
}

/* Polling takes a CPU: only where each PE of the node could have two. */
static bool has_spare_cpus(const struct staged_common *common)
{
    cpu_set_t set;
    return common->world->cpus >= 2 * common->locals &&
           sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 1;
}

static weft_status start_thread(struct staged_owner *owner)
{
    int error = thread_start(&owner->thread, run, owner);
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
    owner->taken = calloc((size_t)common->locals, sizeof *owner->taken);
    owner->pinned = calloc((size_t)common->locals, sizeof *owner->pinned);
    if (!owner->taken || !owner->pinned)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for path staged from %d PEs",
                         common->locals);
    weft_status status = serve_open(common->world, &owner->serve);
    return status ? status : start_thread(owner);
}

void staged_owner_stop(struct staged_owner *owner)
{
    if (!owner)
        return;
    if (owner->running) {
        atomic_store(&owner->stop, true);
        staged_wake(staged_desk(owner->common, owner->common->me));
        pthread_join(owner->thread, NULL);
    }
    serve_close(owner->serve);
    free(owner->taken);
    free(owner->pinned);
    free(owner);
}
