/* SPDX-License-Identifier: Apache-2.0 */
/* Alltoallv called by the host. Where the team's destinations are in the GPU heap and kernels serve
 * it, the members first tell each other, by a packet of the host's, whether the kernel can do their
 * part: what they send, and where their sizes are, is each member's own affair. If it can do all,
 * it goes by that (coll_kernel.h). Else the members tell each other offers, and each puts its
 * blocks over whatever path the pair has, quiets, and syncs with the others. */
#include "gpu/coll/kernels.h"
#include "ops/coll/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a block from member to member. */
static uint64_t most_sent(const struct coll_ask *ask, int n)
{
    uint64_t most = 0;
    for (int i = 0; i < n; i++)
        most = ask->send_bytes[i] > most ? ask->send_bytes[i] : most;
    return most;
}

/* ------------------------------------------------------------------------------- by the kernel */

/* How a member would have its part done: the kernel cannot; puts are as good; the kernel is
 * better. */
enum part { PART_PUTS, PART_EITHER, PART_KERNEL };

static bool in_own_heap(const struct gpu *gpu, const void *address)
{
    return (uintptr_t)address - gpu_heap_own(&gpu->heap)->base < gpu->heap.size;
}

/* Memory of another GPU may be out of this one's reach. */
static bool kernel_reaches(struct gpu *gpu, const void *address)
{
    int ordinal = -1;
    uintptr_t at = (uintptr_t)address;
    if (in_own_heap(gpu, address))
        return true;
    if (gpu_place_of(gpu, address) == GPU_PLACE_DEVICE)
        return !gpu->cuda.PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at) &&
               ordinal == gpu->device.ordinal;
    return gpu_place_of(gpu, address) == GPU_PLACE_PINNED;
}

/* Sizes in memory of the host go to the kernel by way of the library's, so only those in memory of
 * a GPU have to be within its reach. Collective, since it may make the team ready. */
static weft_status part_of(struct weft_team *team, const struct coll_ask *ask, enum part *part)
{
    struct gpu *gpu = team->job->gpu;
    const uint64_t *const arrays[] = {ask->send_bytes, ask->send_at, ask->recv_bytes, ask->recv_at};
    bool able = in_own_heap(gpu, ask->dst) && kernel_reaches(gpu, ask->src);
    bool host = true, pays = true;
    for (int i = 0; i < 4; i++) {
        bool there = gpu_place_of(gpu, arrays[i]) == GPU_PLACE_DEVICE;
        able &= !there || kernel_reaches(gpu, arrays[i]);
        host &= !there;
    }
    weft_status status = coll_kernel_pays(team, host ? most_sent(ask, team->n) : UINT64_MAX, &pays);
    *part = !able ? PART_PUTS : pays ? PART_KERNEL : PART_EITHER;
    return status;
}

/* Collective, of a team that kernels serve. The same answer at every member. */
static weft_status agree_on_kernel(struct weft_team *team, const struct coll_ask *ask, bool *kernel)
{
    enum part part;
    int32_t all[COLL_MEMBERS], mine, least = PART_KERNEL, most = PART_PUTS;
    weft_status status = part_of(team, ask, &part);
    mine = (int32_t)part;
    if (!status)
        status = coll_exchange(team, BOX_OP_ALLTOALLV, &mine, all, sizeof mine);
    for (int i = 0; i < team->n && !status; i++) {
        least = all[i] < least ? all[i] : least;
        most = all[i] > most ? all[i] : most;
    }
    *kernel = least != PART_PUTS && most == PART_KERNEL;
    return status;
}

/* ------------------------------------------------------------------------------------- by puts */

/* What a member tells another: where its block may go, and how much may come. */
struct offer {
    uint64_t at, room;
};

static weft_status read_array(struct weft_team *team, uint64_t *to, const uint64_t *from)
{
    struct gpu *gpu = team->job->gpu;
    size_t bytes = (size_t)team->n * sizeof *to;
    if (gpu && gpu_place_of(gpu, from) == GPU_PLACE_DEVICE)
        return gpu_copy(gpu, 0, to, from, bytes, GPU_DONE);
    memcpy(to, from, bytes);
    return WEFT_OK;
}

/* Says what is wrong with this member's block for member i; the longest of such sentences fits. */
static void refuse_counts(const struct weft_team *team, const struct coll_ask *ask, int i,
                          uint64_t room, char *sentence, size_t bytes)
{
    snprintf(sentence, bytes, "%s: PE %d has room for %llu bytes of PE %d, which sends %llu",
             ask->function, team->pes[i], (unsigned long long)room, team->job->pe,
             (unsigned long long)ask->send_bytes[i]);
}

/* The arrays of `ask` are in memory of the CPU. offers, theirs: of n each. As by the kernel, a
 * block that does not fit keeps no other one from its place. */
static weft_status send_blocks(struct weft_team *team, const struct coll_ask *ask,
                               struct offer *offers, struct offer *theirs)
{
    char refused[256] = "";
    for (int i = 0; i < team->n; i++) {
        uint64_t at = ask->recv_at[i], most = ask->recv_bytes[i];
        offers[i] = (struct offer){at, at <= ask->room && most <= ask->room - at ? most : 0};
    }
    weft_status status = coll_exchange_each(team, BOX_OP_ALLTOALLV, offers, theirs, sizeof *offers);
    for (int k = 1; k <= team->n && !status; k++) {
        int i = (team->me + k) % team->n;
        uint64_t bytes = ask->send_bytes[i];
        if (bytes > theirs[i].room)
            refuse_counts(team, ask, i, theirs[i].room, refused, sizeof refused);
        else
            status = coll_put_block(team, i, (char *)ask->dst + theirs[i].at,
                                    (const char *)ask->src + ask->send_at[i], (size_t)bytes);
    }
    status = coll_finish_puts(team, BOX_OP_ALLTOALLV, status);
    return status || !*refused ? status : job_fail(team->job, WEFT_ERR_RANGE, refused);
}

static weft_status by_puts(struct weft_team *team, const struct coll_ask *ask)
{
    size_t n = (size_t)team->n;
    struct coll_ask here = *ask;
    const uint64_t **arrays[] = {&here.send_bytes, &here.send_at, &here.recv_bytes, &here.recv_at};
    uint64_t *words = malloc(4 * n * sizeof *words);
    struct offer *offers = malloc(2 * n * sizeof *offers);
    weft_status status = words && offers
                             ? WEFT_OK
                             : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %zu sizes", n);
    for (size_t i = 0; i < 4 && !status; i++) {
        status = read_array(team, words + i * n, *arrays[i]);
        *arrays[i] = words + i * n;
    }
    if (!status)
        status = send_blocks(team, &here, offers, offers + n);
    else /* the others wait for this one's offers */
        status = job_fail_all(team->job, status, base_last_error());
    free(words);
    free(offers);
    return status;
}

/* --------------------------------------------------------------------------------------- public */

static weft_status check_counts(const struct coll_ask *ask)
{
    const struct {
        const void *address;
        const char *name;
    } given[] = {{ask->src, "src"},
                 {ask->send_bytes, "send_bytes"},
                 {ask->send_at, "send_at"},
                 {ask->recv_bytes, "recv_bytes"},
                 {ask->recv_at, "recv_at"}};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (!given[i].address)
            return base_fail(WEFT_ERR_ARGUMENT, "%s: %s is null", ask->function, given[i].name);
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_alltoallv(weft_team *team, void *dst, size_t room,
                                       const uint64_t *recv_bytes, const uint64_t *recv_at,
                                       const void *src, const uint64_t *send_bytes,
                                       const uint64_t *send_at)
{
    struct coll_ask ask = {.function = "weft_alltoallv",
                           .what = COLL_ALLTOALLV,
                           .dst = dst,
                           .src = src,
                           .send_bytes = send_bytes,
                           .send_at = send_at,
                           .recv_bytes = recv_bytes,
                           .recv_at = recv_at,
                           .room = room};
    struct place to;
    uint64_t phase;
    bool kernel = false;
    weft_status status = coll_begin(ask.function, team, BOX_OP_ALLTOALLV, -1, 0, 0, &phase);
    if (!status)
        status = coll_place(ask.function, "dst", team, dst, room ? room : 1, &to);
    if (!status)
        status = check_counts(&ask);
    if (!status && to.segment == SEG_GPU && coll_kernel_serves(team))
        status = agree_on_kernel(team, &ask, &kernel);
    if (status)
        return status;
    return kernel ? coll_kernel_call(team, &ask) : by_puts(team, &ask);
}
