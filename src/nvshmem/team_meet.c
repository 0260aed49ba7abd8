/* SPDX-License-Identifier: Apache-2.0 */
/* Teams of any PEs that share an id and know nothing else of each other. Each PE has one entry of a
 * symmetric table. A PE writes the id, its index among the members and the bitmap of its free team
 * slots to its entry, and reads the entries of all PEs until it has found every member. All members
 * then know the same PEs and bitmaps, and take the lowest slot that is free at each of them. A PE
 * keeps its entry until every member has read it, which the first sync of the new team
 * guarantees. */
#include "nvshmem/team_meet.h"

#include "job/waiter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct team_entry {
    /* 0: no entry. Set to 0 before the other fields change, and to the id after them; a reader
     * reads it before and after the other fields (read_entry()). */
    _Atomic uint64_t id;
    int32_t n, index;
    uint64_t free_slots[TEAM_SLOT_WORDS];
};

enum { REFUSED = 0 }; /* value of n in a refused entry */

static struct team_entry *own; /* symmetric */

weft_status team_meet_start(weft_job *job)
{
    void *table;
    weft_status status = weft_alloc(job, WEFT_HOST, sizeof *own, 0, WEFT_ALLOC_ZERO, &table);
    own = status ? NULL : table;
    return status;
}

void team_meet_end(void)
{
    own = NULL;
}

WEFT_EXPORT weft_status weft_nvshmem_team_id(uint64_t *id)
{
    if (!id)
        return base_fail(WEFT_ERR_ARGUMENT, "the id is null");
    do {
        if (getrandom(id, sizeof *id, 0) != (ssize_t)sizeof *id)
            return base_fail(WEFT_ERR_SYSTEM, "getrandom: %s", strerror(errno));
    } while (*id == 0);
    return WEFT_OK;
}

static void publish_entry(struct weft_job *job, uint64_t id, int n, int index)
{
    atomic_store_explicit(&own->id, 0, memory_order_relaxed); /* the entry may still be a refusal */
    atomic_thread_fence(memory_order_release); /* pairs with the second fence in read_entry() */
    own->n = n;
    own->index = index;
    memcpy(own->free_slots, team_free_slots(job), sizeof own->free_slots);
    atomic_store_explicit(&own->id, id, memory_order_release);
}

/* A PE that gives up marks its entry as refused and keeps it, so that members that still search for
 * this id fail at once instead of at the wait limit. */
static void withdraw_entry(weft_status status)
{
    if (status)
        own->n = REFUSED;
    else
        atomic_store_explicit(&own->id, 0, memory_order_release);
}

/* What this PE has found of the members. */
struct meeting {
    uint64_t id;
    int n, found;
    int *pes; /* by index in the team, -1 = not found yet */
    uint64_t common[TEAM_SLOT_WORDS];
};

static weft_status add_member(struct meeting *m, int pe, const struct team_entry *entry)
{
    if (entry->n == REFUSED)
        return base_fail(WEFT_ERR_MISMATCH, "PE %d has given up making the team", pe);
    if (entry->n != m->n)
        return base_fail(WEFT_ERR_MISMATCH, "PE %d says that the team has %d members, not %d", pe,
                         entry->n, m->n);
    if (m->pes[entry->index] == pe)
        return WEFT_OK;
    if (m->pes[entry->index] >= 0)
        return base_fail(WEFT_ERR_MISMATCH, "PEs %d and %d both have the number %d in the team",
                         m->pes[entry->index], pe, entry->index);
    m->pes[entry->index] = pe;
    m->found++;
    for (int word = 0; word < TEAM_SLOT_WORDS; word++)
        m->common[word] &= entry->free_slots[word];
    return WEFT_OK;
}

/* *found: the PE has an entry for this id, and all of `entry` belongs to it. */
static weft_status read_entry(struct weft_job *job, uint64_t wanted, int pe,
                              struct team_entry *entry, bool *found)
{
    uint64_t id = 0;
    *found = false;
    weft_status status = weft_g64(job->default_ctx, &own->id, &id, pe);
    if (status || id != wanted)
        return status;
    atomic_thread_fence(memory_order_acquire); /* pairs with the release in publish_entry() */
    status = weft_get(job->default_ctx, entry, own, sizeof *entry, pe);
    atomic_thread_fence(memory_order_acquire); /* the PE may be writing its next entry already */
    if (!status)
        status = weft_g64(job->default_ctx, &own->id, &id, pe);
    *found = !status && id == wanted;
    return status;
}

static weft_status read_entries(struct weft_job *job, struct meeting *m)
{
    weft_status status = WEFT_OK;
    for (int pe = 0; pe < job->npes && !status; pe++) {
        struct team_entry entry;
        bool found;
        status = read_entry(job, m->id, pe, &entry, &found);
        if (found)
            status = add_member(m, pe, &entry);
    }
    return status;
}

/* Reads until all members are found. The wait limit applies; the missing PEs are not known. */
static weft_status find_members(struct weft_job *job, struct meeting *m)
{
    struct waiter waiter = WAITER(job, BOX_OP_TEAM_SPLIT, -1);
    waiter.expected = (uint64_t)m->n;
    weft_status status = read_entries(job, m);
    while (m->found < m->n && !status) {
        status = waiter_step(&waiter, (uint64_t)m->found);
        if (!status)
            status = read_entries(job, m);
    }
    waiter_end(&waiter);
    return status;
}

static weft_status make_team(struct weft_job *job, const struct meeting *m, weft_team **team)
{
    for (int word = 0; word < TEAM_SLOT_WORDS; word++)
        if (m->common[word])
            return team_create(job, m->pes, m->n, word * 64 + __builtin_ctzll(m->common[word]),
                               team);
    return base_fail(WEFT_ERR_NO_MEMORY, "all %d team slots are in use; destroy a team first",
                     job->most_teams);
}

static weft_status meet_members(struct weft_job *job, struct meeting *m, int index,
                                weft_team **team)
{
    for (int i = 0; i < m->n; i++)
        m->pes[i] = -1;
    memset(m->common, 0xff, sizeof m->common);
    publish_entry(job, m->id, m->n, index);
    weft_status status = find_members(job, m);
    if (!status)
        status = make_team(job, m, team);
    if (!status)
        status = weft_sync(*team); /* all members have read the entry */
    withdraw_entry(status);
    return status;
}

WEFT_EXPORT weft_status weft_nvshmem_team_meet(uint64_t id, int n, int index, weft_team **team)
{
    struct weft_job *job = weft_nvshmem_job();
    *team = NULL;
    if (!job || !own)
        return base_fail(WEFT_ERR_ARGUMENT, "called before nvshmem_init");
    if (id == 0 || n < 1 || n > job->npes || index < 0 || index >= n)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "id %#llx, number %d of %d: a team needs an id of "
                         "nvshmemx_team_get_uniqueid() and 1 to %d members",
                         (unsigned long long)id, index, n, job->npes);
    struct meeting m = {.id = id, .n = n, .pes = malloc((size_t)n * sizeof *m.pes)};
    if (!m.pes)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a team of %d PEs", n);
    weft_status status = meet_members(job, &m, index, team);
    free(m.pes);
    return status;
}
