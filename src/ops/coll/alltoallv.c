/* SPDX-License-Identifier: Apache-2.0 */
/* Host-initiated alltoallv. Where the destinations are in the GPU heap and kernels can serve the
 * team, the members first exchange whether the kernel can perform their part: only a member itself
 * knows its source and where its arrays are. If all parts are possible, the kernel performs the
 * call (coll_kernel.h). Else the members exchange records with the offset and the space for each
 * block, and each member puts its blocks over the path of each pair, calls quiet, and syncs with
 * the others. */
#include "gpu/coll/kernels.h"
#include "ops/coll/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Size of the largest block that this member sends, in bytes. */
static uint64_t most_sent(const struct coll_request *request, int n)
{
    uint64_t most = 0;
    for (int i = 0; i < n; i++)
        most = request->send_bytes[i] > most ? request->send_bytes[i] : most;
    return most;
}

/* ------------------------------------------------------------------------------- by the kernel */

/* What a member reports about its part: PART_PUTS: the kernel cannot perform it; PART_EITHER: puts
 * are as fast; PART_KERNEL: the kernel is faster. */
enum part { PART_PUTS, PART_EITHER, PART_KERNEL };

/* Whether the kernel can access the address. It may not be able to access memory of another GPU. */
static bool kernel_reaches(struct gpu *gpu, const void *address)
{
    int ordinal = -1;
    uintptr_t at = (uintptr_t)address;
    if (gpu_heap_covers(&gpu->heap, address))
        return true;
    if (gpu_place_of(gpu, address) == GPU_PLACE_DEVICE)
        return !gpu->driver.PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                                at) &&
               ordinal == gpu->device.ordinal;
    return gpu_place_of(gpu, address) == GPU_PLACE_PINNED;
}

/* Determines this member's part. Arrays in host memory are copied for the kernel, so only arrays in
 * GPU memory must be accessible to it. Collective, because it may prepare the team. */
static weft_status part_of(struct weft_team *team, const struct coll_request *request,
                           enum part *part)
{
    struct gpu *gpu = team->job->gpu;
    const uint64_t *const arrays[] = {request->send_bytes, request->send_at, request->recv_bytes,
                                      request->recv_at};
    bool able = gpu_heap_covers(&gpu->heap, request->dst) && kernel_reaches(gpu, request->src);
    bool host = true, pays = true;
    for (int i = 0; i < 4; i++) {
        bool there = gpu_place_of(gpu, arrays[i]) == GPU_PLACE_DEVICE;
        able &= !there || kernel_reaches(gpu, arrays[i]);
        host &= !there;
    }
    weft_status status =
        coll_kernel_is_faster(team, host ? most_sent(request, team->n) : UINT64_MAX, &pays);
    *part = !able ? PART_PUTS : pays ? PART_KERNEL : PART_EITHER;
    return status;
}

/* Exchanges the parts and decides for the kernel or for puts. Collective over a team that kernels
 * can serve; the same answer at every member. */
static weft_status agree_on_kernel(struct weft_team *team, const struct coll_request *request,
                                   bool *kernel)
{
    enum part part;
    int32_t all[COLL_MEMBERS], mine, least = PART_KERNEL, most = PART_PUTS;
    weft_status status = part_of(team, request, &part);
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

/* Exchange record: what a member reports to another. at: offset of its block in dst, in bytes.
 * room: the most bytes that fit there. */
struct receive_record {
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

/* Writes the error message for a block that does not fit at member i; the longest message fits. */
static void refuse_counts(const struct weft_team *team, const struct coll_request *request, int i,
                          uint64_t room, char *sentence, size_t bytes)
{
    snprintf(sentence, bytes, "%s: PE %d has room for %llu bytes of PE %d, which sends %llu",
             request->function, team->pes[i], (unsigned long long)room, team->job->pe,
             (unsigned long long)request->send_bytes[i]);
}

/* Sends all blocks. The arrays of `request` are in host memory; own_records and their_records have
 * n entries each. As with the kernel, a block that does not fit does not prevent the other blocks
 * from being sent. */
static weft_status send_blocks(struct weft_team *team, const struct coll_request *request,
                               struct receive_record *own_records,
                               struct receive_record *their_records)
{
    char refused[256] = "";
    for (int i = 0; i < team->n; i++) {
        uint64_t at = request->recv_at[i], most = request->recv_bytes[i];
        own_records[i] = (struct receive_record){
            at, at <= request->dst_bytes && most <= request->dst_bytes - at ? most : 0};
    }
    weft_status status =
        coll_exchange_each(team, BOX_OP_ALLTOALLV, own_records, their_records, sizeof *own_records);
    for (int k = 1; k <= team->n && !status; k++) {
        int i = (team->me + k) % team->n;
        uint64_t bytes = request->send_bytes[i];
        if (bytes > their_records[i].room)
            refuse_counts(team, request, i, their_records[i].room, refused, sizeof refused);
        else
            status =
                coll_put_block(team, i, (char *)request->dst + their_records[i].at,
                               (const char *)request->src + request->send_at[i], (size_t)bytes);
    }
    status = coll_finish_puts(team, BOX_OP_ALLTOALLV, status);
    return status || !*refused ? status : job_fail(team->job, WEFT_ERR_RANGE, refused);
}

static weft_status by_puts(struct weft_team *team, const struct coll_request *request)
{
    size_t n = (size_t)team->n;
    struct coll_request here = *request;
    const uint64_t **arrays[] = {&here.send_bytes, &here.send_at, &here.recv_bytes, &here.recv_at};
    uint64_t *words = malloc(4 * n * sizeof *words);
    struct receive_record *own_records = malloc(2 * n * sizeof *own_records);
    weft_status status = words && own_records
                             ? WEFT_OK
                             : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %zu sizes", n);
    for (size_t i = 0; i < 4 && !status; i++) {
        status = read_array(team, words + i * n, *arrays[i]);
        *arrays[i] = words + i * n;
    }
    if (!status)
        status = send_blocks(team, &here, own_records, own_records + n);
    else /* the other members wait for this member's records */
        status = job_fail_all(team->job, status, base_last_error());
    free(words);
    free(own_records);
    return status;
}

/* ------------------------------------------------------------------------------ public function */

static weft_status check_counts(const struct coll_request *request)
{
    const struct {
        const void *address;
        const char *name;
    } given[] = {{request->src, "src"},
                 {request->send_bytes, "send_bytes"},
                 {request->send_at, "send_at"},
                 {request->recv_bytes, "recv_bytes"},
                 {request->recv_at, "recv_at"}};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (!given[i].address)
            return base_fail(WEFT_ERR_ARGUMENT, "%s: %s is null", request->function, given[i].name);
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_alltoallv(weft_team *team, void *dst, size_t room,
                                       const uint64_t *recv_bytes, const uint64_t *recv_at,
                                       const void *src, const uint64_t *send_bytes,
                                       const uint64_t *send_at)
{
    struct coll_request request = {.function = "weft_alltoallv",
                                   .what = COLL_ALLTOALLV,
                                   .dst = dst,
                                   .src = src,
                                   .send_bytes = send_bytes,
                                   .send_at = send_at,
                                   .recv_bytes = recv_bytes,
                                   .recv_at = recv_at,
                                   .dst_bytes = room};
    struct symmetric_range to;
    uint64_t phase;
    bool kernel = false;
    weft_status status = coll_begin(request.function, team, BOX_OP_ALLTOALLV, -1, 0, 0, &phase);
    if (!status)
        status = coll_find_range(request.function, "dst", team, dst, room ? room : 1, &to);
    if (!status)
        status = check_counts(&request);
    if (!status && to.segment == SEG_GPU && coll_kernel_serves(team))
        status = agree_on_kernel(team, &request, &kernel);
    if (status)
        return status;
    return kernel ? coll_kernel_run(team, &request) : by_puts(team, &request);
}
