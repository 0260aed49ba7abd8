/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators that are made from others: of some ranks (split, shrink) or with more (grow). Each
 * is a job of its own, so the one that it was made from may end or fail. */
#include "nccl/comm.h"

#include <stdlib.h>
#include <string.h>

static int by_key(const void *a, const void *b)
{
    const int *x = a, *y = b;
    for (int i = 0; i < 2; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

struct split_choice {
    int key, rank, color;
    ncclUniqueId id;
};

/* *every: what each rank passed in `own`, by rank, in memory that the caller frees. */
static ncclResult_t exchange(ncclComm_t comm, const void *own, size_t bytes, void **every)
{
    void *sent = NULL, *got = NULL;
    size_t all = (size_t)comm->size * bytes;
    *every = NULL;
    weft_status status = weft_alloc(comm->job, WEFT_HOST, bytes, 0, 0, &sent);
    if (!status)
        status = weft_alloc(comm->job, WEFT_HOST, all, 0, 0, &got);
    if (!status) {
        memcpy(sent, own, bytes);
        status = weft_allgather(comm->team, got, sent, bytes);
    }
    if (status)
        return comm_result(comm, status);
    *every = malloc(all);
    if (*every)
        memcpy(*every, got, all);
    weft_free(comm->job, got);
    weft_free(comm->job, sent);
    return *every ? ncclSuccess : nccl_fail(ncclSystemError, "no memory");
}

static char *reached_at(ncclComm_t comm, int rank)
{
    return rank < 0 || rank >= comm->size ? NULL : weft_ptr(comm->job, comm->signals, rank);
}

static void find_reached(ncclComm_t comm, struct rank_card *own)
{
    int me = comm->rank, next = reached_at(comm, me + 1) ? me + 1 : me - 1;
    const char *at = reached_at(comm, me), *neighbour = reached_at(comm, next);
    own->first_reached = own->last_reached = me;
    if (!at || !neighbour)
        return;
    ptrdiff_t stride = (neighbour - at) * (next - me);
    while (reached_at(comm, own->first_reached - 1) == at + (own->first_reached - 1 - me) * stride)
        own->first_reached--;
    while (reached_at(comm, own->last_reached + 1) == at + (own->last_reached + 1 - me) * stride)
        own->last_reached++;
}

/* Whether all ranks of each comm->lsa_size that follow each other reach one another. */
static bool is_lsa_size(const struct ncclComm *comm)
{
    int size = comm->lsa_size;
    bool all = comm->size % size == 0;
    for (int rank = 0; rank < comm->size && all; rank++) {
        int first = rank / size * size;
        all = comm->cards[rank].first_reached <= first &&
              comm->cards[rank].last_reached >= first + size - 1;
    }
    return all;
}

ncclResult_t derive_open(ncclComm_t comm)
{
    struct rank_card own = {.first_of_node = weft_team_my_pe(weft_team_node(comm->job)) == 0};
    void *every = NULL;
    ncclResult_t result = ncclGetUniqueId(&own.spare);
    find_reached(comm, &own);
    if (!result)
        result = exchange(comm, &own, sizeof own, &every);
    free(comm->cards);
    comm->cards = every;
    if (result)
        return result;
    comm->nodes = 0;
    for (int rank = 0; rank < comm->size; rank++)
        comm->nodes += comm->cards[rank].first_of_node;
    comm->lsa_size = comm->size;
    while (!is_lsa_size(comm))
        comm->lsa_size--;
    return result;
}

/* Makes a communicator of the ranks of one color, ordered by key. */
static ncclResult_t split(const char *function, ncclComm_t comm, int color, int key,
                          ncclComm_t *made, const ncclConfig_t *config)
{
    struct split_choice own = {.key = key, .rank = comm->rank, .color = color}, *every;
    int n = 0, place = 0, first = -1;
    ncclResult_t result = ncclGetUniqueId(&own.id);
    if (!result)
        result = exchange(comm, &own, sizeof own, (void **)&every);
    if (result || !every)
        return result;
    int first_key[2] = {0, 0}, mine[2] = {key, comm->rank};
    for (int rank = 0; rank < comm->size && color != NCCL_SPLIT_NOCOLOR; rank++) {
        int other[2] = {every[rank].key, rank};
        if (every[rank].color != color)
            continue;
        n++;
        place += by_key(other, mine) < 0;
        if (first < 0 || by_key(other, first_key) < 0) {
            first = rank;
            memcpy(first_key, other, sizeof other);
        }
    }
    if (n) {
        void *context = driver_context();
        driver_set_context(comm->context);
        result = comm_make(function, made, n, &every[first].id, place, config);
        driver_set_context(context);
    }
    free(every);
    return result;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *made,
                           ncclConfig_t *config)
{
    ncclResult_t result = comm_enter(comm, "ncclCommSplit");
    if (result)
        return result;
    if (!made || (color < 0 && color != NCCL_SPLIT_NOCOLOR))
        result = nccl_fail(ncclInvalidArgument, "ncclCommSplit: %s%d",
                           made ? "color " : "newcomm is null, color ", color);
    else {
        *made = NULL;
        result = split("ncclCommSplit", comm, color, key, made, config);
    }
    comm_leave(comm);
    return result;
}

/* Whether a rank is excluded. */
static bool is_listed(const int *list, int n, int rank)
{
    while (n-- > 0)
        if (list[n] == rank)
            return true;
    return false;
}

/* The job may have failed, and ranks that are excluded may be dead: nothing is exchanged. The first
 * rank that stays has the spare id by which the others meet it. */
static ncclResult_t shrink(ncclComm_t comm, const int *excluded, int n_excluded, ncclComm_t *made,
                           const ncclConfig_t *config)
{
    int first = -1, n = 0, place = 0;
    for (int rank = 0; rank < comm->size; rank++) {
        if (is_listed(excluded, n_excluded, rank))
            continue;
        first = first < 0 ? rank : first;
        place += rank < comm->rank;
        n++;
    }
    if (is_listed(excluded, n_excluded, comm->rank))
        return nccl_fail(ncclInvalidUsage, "ncclCommShrink: this rank, %d, is among the excluded",
                         comm->rank);
    if (comm->shrunk)
        return nccl_fail(ncclInvalidUsage, "ncclCommShrink: this communicator has been shrunk; "
                                           "shrink the one that was made");
    comm->shrunk = true;
    return comm_make("ncclCommShrink", made, n, &comm->cards[first].spare, place, config);
}

ncclResult_t ncclCommShrink(ncclComm_t comm, int *excluded, int n_excluded, ncclComm_t *made,
                            ncclConfig_t *config, int flags)
{
    ncclResult_t result = comm_check(comm, "ncclCommShrink");
    if (result)
        return result;
    if (!made || !excluded || n_excluded < 1 || !comm->cards)
        return nccl_fail(ncclInvalidArgument, "ncclCommShrink: %d excluded ranks%s%s", n_excluded,
                         made ? "" : ", newcomm is null",
                         comm->cards ? "" : ", and the communicator was never ready");
    for (int i = 0; i < n_excluded; i++)
        if (excluded[i] < 0 || excluded[i] >= comm->size)
            return nccl_fail(ncclInvalidArgument,
                             "ncclCommShrink: rank %d is excluded, of %d ranks", excluded[i],
                             comm->size);
    *made = NULL;
    if (flags & NCCL_SHRINK_ABORT && comm->job)
        weft_cancel(comm->job, "ncclCommShrink");
    void *context = driver_context();
    driver_set_context(comm->context);
    result = shrink(comm, excluded, n_excluded, made, config);
    driver_set_context(context);
    return result;
}

ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *id)
{
    ncclResult_t result = comm_check(comm, "ncclCommGetUniqueId");
    return result ? result : ncclGetUniqueId(id);
}

/* Existing ranks keep their numbers. One of them passes the id, new ranks pass it too. */
static ncclResult_t grow(ncclComm_t comm, int size, const ncclUniqueId *id, ncclComm_t *made,
                         const ncclConfig_t *config)
{
    struct split_choice own = {.color = id != NULL}, *every;
    if (id)
        own.id = *id;
    ncclResult_t result = exchange(comm, &own, sizeof own, (void **)&every);
    if (result || !every)
        return result;
    int root = 0;
    while (root < comm->size && !every[root].color)
        root++;
    if (root == comm->size)
        result = nccl_fail(ncclInvalidArgument, "ncclCommGrow: no rank passed an id");
    else if (size < comm->size)
        result = nccl_fail(ncclInvalidArgument, "ncclCommGrow: %d ranks, and there are %d", size,
                           comm->size);
    else
        result = comm_make("ncclCommGrow", made, size, &every[root].id, comm->rank, config);
    free(every);
    return result;
}

ncclResult_t ncclCommGrow(ncclComm_t comm, int ranks, const ncclUniqueId *id, int rank,
                          ncclComm_t *made, ncclConfig_t *config)
{
    if (!made || (!comm && !id))
        return nccl_fail(ncclInvalidArgument, "ncclCommGrow: %s is null", made ? "id" : "newcomm");
    if (!comm)
        return comm_make("ncclCommGrow", made, ranks, id, rank, config);
    ncclResult_t result = comm_enter(comm, "ncclCommGrow");
    if (result)
        return result;
    void *context = driver_context();
    driver_set_context(comm->context);
    result = grow(comm, ranks, id, made, config);
    driver_set_context(context);
    comm_leave(comm);
    return result;
}
