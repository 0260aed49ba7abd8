/* SPDX-License-Identifier: Apache-2.0 */
/* See coll_kernel.h. */
#include "ops/coll/kernel.h"

#include "base/config.h"
#include "base/log.h"
#include "gpu/coll/coll.h"
#include "gpu/stream.h"
#include "gpu/map/map.h"
#include "job/device_watch.h"
#include "ops/coll/engines.h"
#include "ops/coll/prove.h"

#include <weft/device/arithmetic.h>

#include <stdio.h>
#include <stdlib.h>

/* What the members of a team have agreed on. */
struct team_coll {
    int most_blocks;
    enum coll_algorithm wish;
    bool mapped; /* every member's CPU maps GPU memory */
    int lines; /* come whole between all members where so many blocks send them; 0: not known to */
    struct coll_rates rates;
};

/* ------------------------------------------------------------------------------- agreement */

bool coll_kernel_serves(const struct weft_team *team)
{
    struct weft_job *job = team->job;
    if (config_choice(CONFIG_COLL) == COLL_ALGO_COPIES || !job->gpu || team->slot >= COLL_TEAMS ||
        (team->coll && team->coll->wish == COLL_ALGO_COPIES) || team->n > COLL_MEMBERS ||
        config_choice(CONFIG_TARGET) == 2 /* simt */)
        return false;
    for (int i = 0; i < team->n; i++)
        if (job->gpu->slot_of[team->pes[i]] < 0)
            return false;
    return job_gpu_team_direct(team);
}

/* What all members have to have. */
enum { HAS_MAPPED = 1, HAS_PROOFS = 2 /* coll_prove_wanted() */ };

/* What each member reports to the others; fits one packet of coll_exchange(). */
struct settings_record {
    int32_t status, most_blocks, forced, features;
    uint64_t round;
    uint32_t rates; /* hash of the member's rates */
    int32_t rates_agree;
};

_Static_assert(sizeof(struct telling) <= PACKET_BYTES, "what a member tells is one packet");

/* Rounds begin behind every number that the area's earlier teams have used at any member, so that
 * nothing that they left looks new. */
static weft_status exchange_records(struct weft_team *team, struct telling *mine)
{
    const struct telling *all = team->scratch;
    weft_status status = mine->status;
    char sentence[512] = "";
    if (status)
        snprintf(sentence, sizeof sentence, "%s", base_last_error());
    weft_status told = coll_exchange(team, BOX_OP_SYNC, mine, team->scratch, sizeof *mine);
    for (int i = 0; i < team->n && !told; i++) {
        mine->most_blocks =
            all[i].most_blocks < mine->most_blocks ? all[i].most_blocks : mine->most_blocks;
        mine->round = all[i].round > mine->round ? all[i].round : mine->round;
        mine->features &= all[i].features;
        mine->rates_agree &= all[i].rates == mine->rates;
        if (all[i].wish != all[0].wish)
            mine->wish = COLL_ALGO_AUTO;
        if (all[i].status && !status)
            status = base_fail((weft_status)all[i].status,
                               "PE %d could not make collectives on its GPU ready", team->pes[i]);
    }
    if (mine->status)
        return base_fail((weft_status)mine->status, "%s", sentence);
    return told ? told : status;
}

void coll_kernel_machine(const struct weft_job *job, struct coll_machine *machine)
{
    const struct gpu_device *device = &job->gpu->device;
    *machine =
        (struct coll_machine){.gpus = device->visible, .driver = device->cuda->driver_version};
    snprintf(machine->gpu, sizeof machine->gpu, "%s", device->name);
}

/* Those of this machine, or built in. */
static void find_rates(const struct weft_team *team, struct coll_rates *rates)
{
    struct coll_machine machine;
    struct coll_measured measured;
    char path[600], why[512];
    coll_kernel_machine(team->job, &machine);
    coll_rates_find(&machine, rates, &measured, path, sizeof path, why, sizeof why);
    if (*why && team->me == 0)
        log_warn("collectives reckon with the rates that are built in: %s", why);
    else if (*path)
        log_debug("rates of collectives of %s, measured %s", path, measured.date);
}

static void fill(const struct weft_team *team, const struct coll_ask *ask, struct coll_call *call);

/* At the first collective of a team. */
static weft_status open_kernels(struct weft_team *team)
{
    struct weft_job *job = team->job;
    struct telling mine = {.most_blocks = coll_blocks_of(config_int(CONFIG_COLL_SMS)),
                           .wish = (int32_t)config_choice(CONFIG_COLL),
                           .has = gpu_map_works(job->gpu->heap.map) ? HAS_MAPPED : 0,
                           .rates_agree = true};
    struct coll_rates rates;
    find_rates(team, &rates);
    mine.has |= coll_prove_wanted() ? HAS_PROOFS : 0;
    mine.rates = coll_rates_hash(&rates);
    struct team_coll *coll = calloc(1, sizeof *coll);
    weft_status status =
        coll ? gpu_coll_load(job->gpu)
             : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a team's collectives");
    if (!status && config_int(CONFIG_COLL_SMS) < 0)
        status = base_fail(WEFT_ERR_CONFIG,
                           "WEFT_COLL_SMS is %lld; 0 (copy engines where they can) or more SMs are "
                           "wanted",
                           (long long)config_int(CONFIG_COLL_SMS));
    if (!status)
        status = gpu_coll_number(job->gpu, team->slot, &mine.round);
    if (!status)
        status = device_watch_kernels(job);
    mine.status = (int32_t)status;
    status = exchange_records(team, &mine);
    if (!status)
        status = gpu_coll_begin_at(job->gpu, team->slot, mine.round + 2);
    if (!status && coll && team->n > 1 && (mine.features & FEATURE_PROOFS)) {
        struct coll_call call;
        int blocks = mine.most_blocks ? mine.most_blocks : 1;
        bool proven;
        fill(team, &(struct coll_ask){.what = COLL_ALLTOALL}, &call);
        status = coll_prove_lines(team, &call, blocks, &proven);
        coll->lines = proven ? blocks : 0;
    } else if (!status && team->n > 1 && team->me == 0)
        log_debug("collectives of %d PEs go by packets and not by lines: %s", team->n,
                  job->checking ? "WEFT_CHECK=1" : "WEFT_PROVE=off or WEFT_CHECK=1 at a PE");
    if (status || !coll) {
        free(coll);
        return status;
    }
    coll->most_blocks = mine.most_blocks;
    coll->wish = (enum coll_algorithm)mine.wish;
    coll->mapped = mine.has & HAS_MAPPED;
    coll->rates = mine.rates_agree ? rates : coll_rates_built_in; /* all choose alike */
    if (!mine.rates_agree && team->me == 0)
        log_warn(
            "the PEs of a team of %d have different rates of collectives: those that are built in "
            "serve; give all the same file (WEFT_COLL_RATES)",
            team->n);
    team->coll = coll;
    return WEFT_OK;
}

/* ----------------------------------------------------------------------------------- memory */

static bool is_sized(enum coll_what what)
{
    return what == COLL_COLLECT || what == COLL_ALLTOALLV;
}

/* Blocks that a side has. */
static uint64_t blocks_of(const struct weft_team *team, const struct coll_ask *ask, bool dst)
{
    switch (ask->what) {
    case COLL_FCOLLECT:
        return dst ? (uint64_t)team->n : 1;
    case COLL_GATHER:
        return dst && team->me == ask->root ? (uint64_t)team->n : 1;
    case COLL_ALLTOALL:
        return (uint64_t)team->n;
    case COLL_SCATTER:
        return !dst && team->me == ask->root ? (uint64_t)team->n : 1;
    case COLL_REDUCESCATTER:
        return dst ? 1 : (uint64_t)team->n;
    default:
        return 1;
    }
}

/* Bytes from the first to behind the last of a side; nothing is behind the last element. */
static uint64_t extent(const struct weft_team *team, const struct coll_ask *ask, bool dst)
{
    uint64_t bytes = ask->bytes * blocks_of(team, ask, dst);
    uint64_t stride = dst ? ask->dst_stride : ask->src_stride;
    return ask->element ? bytes * stride - (stride - 1) * ask->element : bytes;
}

/* Whether this member's side is used at all. */
static bool is_used(const struct weft_team *team, const struct coll_ask *ask, bool dst)
{
    bool root = team->me == ask->root;
    if (ask->what == COLL_REDUCE_TO)
        return !dst || root;
    if (ask->what == COLL_SCATTER)
        return dst || root;
    return true;
}

static bool in_gpu_heap(const struct gpu *gpu, const void *address)
{
    return (uintptr_t)address - gpu_heap_own(&gpu->heap)->base < gpu->heap.size;
}

static weft_status side(const struct weft_team *team, const struct coll_ask *ask, bool is_dst,
                        bool *host)
{
    const void *address = is_dst ? ask->dst : ask->src;
    const char *name = is_dst ? "dst" : "src";
    struct gpu *gpu = team->job->gpu;
    enum segment_id segment;
    size_t offset;
    if (!is_used(team, ask, is_dst))
        return WEFT_OK;
    if (!address)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: %s is null", ask->function, name);
    size_t bytes = (size_t)extent(team, ask, is_dst);
    if (access_find(team->job->default_ctx, address, bytes, &segment, &offset)) {
        *host |= segment != SEG_GPU;
        return WEFT_OK;
    }
    if (in_gpu_heap(gpu, address)) {
        weft_status status = access_find_own(ask->function, team->job->default_ctx, address, bytes,
                                             &segment, &offset);
        return base_fail_context(status, "argument %s", name);
    }
    if (gpu_place_of(gpu, address) != GPU_PLACE_PLAIN)
        return WEFT_OK;
    return base_fail(WEFT_ERR_ADDRESS,
                     "%s: %s (%p) is neither symmetric memory nor memory that GPU %d accesses; "
                     "allocate it with weft_alloc(), cudaMalloc() or cudaMallocHost()",
                     ask->function, name, address, gpu->device.ordinal);
}

/* Sources and destinations lie apart, or are one where each thread reads what it overwrites. */
static weft_status apart(const struct weft_team *team, const struct coll_ask *ask)
{
    if (!is_used(team, ask, true) || !is_used(team, ask, false))
        return WEFT_OK;
    uintptr_t dst = (uintptr_t)ask->dst, src = (uintptr_t)ask->src, own = src;
    uint64_t to = extent(team, ask, true), from = extent(team, ask, false);
    if (ask->what == COLL_FCOLLECT || ask->what == COLL_GATHER)
        own = src - (uint64_t)team->me * ask->bytes; /* its own place in dst */
    else if (ask->what == COLL_SCATTER || ask->what == COLL_REDUCESCATTER)
        own = src + (uint64_t)team->me * ask->bytes; /* its own block of src */
    bool same = own == dst && ask->what != COLL_ALLTOALL;
    if (same || dst + to <= src || src + from <= dst)
        return WEFT_OK;
    return base_fail(
        WEFT_ERR_ARGUMENT,
        "%s: dst %p (%llu bytes) and src %p (%llu bytes) overlap; they may %slie apart",
        ask->function, ask->dst, (unsigned long long)to, ask->src, (unsigned long long)from,
        ask->what == COLL_ALLTOALL ? "only " : "be the own place of the other, or ");
}

static weft_status needs_gpu(const struct weft_team *team, const struct coll_ask *ask,
                             const void *address, const char *name)
{
    if (!address)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: %s is null", ask->function, name);
    if (gpu_place_of(team->job->gpu, address) == GPU_PLACE_PLAIN)
        return base_fail(WEFT_ERR_ADDRESS,
                         "%s: %s (%p) is no memory that GPU %d accesses; allocate it with "
                         "weft_alloc(), cudaMalloc() or cudaMallocHost()",
                         ask->function, name, address, team->job->gpu->device.ordinal);
    return WEFT_OK;
}

/* Of those whose sizes are known to the GPUs alone. */
static weft_status sized_memory(const struct weft_team *team, const struct coll_ask *ask)
{
    enum segment_id segment;
    size_t offset;
    bool all = request->what == COLL_ALLTOALLV;
    size_t least = all ? (size_t)request->dst_bytes : request->bytes ? (size_t)request->bytes : 1;
    weft_status status = WEFT_OK;
    if (in_gpu_heap(team->job->gpu, ask->dst))
        status = access_find_own(ask->function, team->job->default_ctx, ask->dst, least ? least : 1,
                                 &segment, &offset);
    else if (access_find(team->job->default_ctx, ask->dst, 1, &segment, &offset))
        status = base_fail(WEFT_ERR_UNSUPPORTED,
                           "%s: dst (%p) is symmetric memory of the host; memory of the GPU is "
                           "wanted, of the heap or of its own",
                           ask->function, ask->dst);
    else
        status = needs_gpu(team, ask, ask->dst, "dst");
    if (status)
        return base_fail_context(status, "argument dst");
    if (!all && !ask->bytes) /* this member has nothing */
        return WEFT_OK;
    status = needs_gpu(team, ask, ask->src, "src");
    if (!all || status)
        return status;
    status = needs_gpu(team, ask, ask->send_bytes, "send_bytes");
    if (!status)
        status = needs_gpu(team, ask, ask->send_at, "send_at");
    if (!status)
        status = needs_gpu(team, ask, ask->recv_bytes, "recv_bytes");
    return status ? status : needs_gpu(team, ask, ask->recv_at, "recv_at");
}

weft_status coll_kernel_memory(const struct weft_team *team, const struct coll_ask *ask, bool *host)
{
    uint64_t all;
    *host = false;
    uint64_t stride = ask->dst_stride > ask->src_stride ? ask->dst_stride : ask->src_stride;
    if (__builtin_mul_overflow(ask->bytes, (uint64_t)team->n, &all) ||
        (ask->element && __builtin_mul_overflow(all, stride, &all)) || all > SIZE_MAX / 2)
        return base_fail(WEFT_ERR_RANGE, "%s: %llu bytes of %d PEs are too many", ask->function,
                         (unsigned long long)ask->bytes, team->n);
    if (is_sized(ask->what))
        return sized_memory(team, ask);
    weft_status status = side(team, ask, true, host);
    if (!status)
        status = side(team, ask, false, host);
    return status ? status : apart(team, ask);
}

/* ----------------------------------------------------------------------------------- launch */

static const struct {
    enum weft_dev_operation operation;
    enum coll_flow flow;
} kinds[COLL_WHATS] = {
    [COLL_BROADCAST] = {WEFT_DEV_OP_BROADCAST, COLL_FROM},
    [COLL_FCOLLECT] = {WEFT_DEV_OP_FCOLLECT, COLL_ALL},
    [COLL_ALLTOALL] = {WEFT_DEV_OP_ALLTOALL, COLL_ALL},
    [COLL_GATHER] = {WEFT_DEV_OP_GATHER, COLL_TO},
    [COLL_SCATTER] = {WEFT_DEV_OP_SCATTER, COLL_FROM},
    [COLL_REDUCE] = {WEFT_DEV_OP_REDUCE, COLL_ALL},
    [COLL_REDUCESCATTER] = {WEFT_DEV_OP_REDUCESCATTER, COLL_ALL},
    [COLL_REDUCE_TO] = {WEFT_DEV_OP_REDUCE, COLL_TO},
    [COLL_COLLECT] = {WEFT_DEV_OP_COLLECT, COLL_ALL},
    [COLL_ALLTOALLV] = {WEFT_DEV_OP_ALLTOALLV, COLL_ALL},
};

/* Of strided ones: what elements are loaded and stored by. */
static uint32_t grain_of(const struct coll_ask *ask)
{
    uint64_t bits = ask->element | (uintptr_t)ask->dst | (uintptr_t)ask->src | 8;
    return (uint32_t)(bits & -bits);
}

/* Bytes from dst to the end of the heap, or of the allocation where the driver knows it. */
static uint64_t room_at(struct gpu *gpu, const void *dst)
{
    CUdeviceptr at = (uintptr_t)dst, start = 0;
    size_t bytes = 0;
    if (in_gpu_heap(gpu, dst))
        return gpu->heap.backed - (at - gpu_heap_own(&gpu->heap)->base);
    if (gpu->cuda.PointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at) ||
        gpu->cuda.PointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at) ||
        at - start >= bytes)
        return UINT64_MAX;
    return bytes - (at - start);
}

static void fill(const struct weft_team *team, const struct coll_ask *ask, struct coll_call *call)
{
    struct gpu *gpu = team->job->gpu;
    uintptr_t base = gpu_heap_own(&gpu->heap)->base;
    bool from_blocks =
        ask->what == COLL_ALLTOALL || ask->what == COLL_SCATTER || ask->what == COLL_REDUCESCATTER;
    bool to_blocks =
        ask->what == COLL_FCOLLECT || ask->what == COLL_ALLTOALL || ask->what == COLL_GATHER;
    *call = (struct coll_call){
        .area = gpu->coll_offset + coll_area_offset(team->slot),
        .dst = ask->dst,
        .src = ask->src,
        .to = (uintptr_t)ask->dst - base,
        .from = (uintptr_t)ask->src - base,
        .bytes = ask->bytes,
        .src_step = from_blocks ? ask->bytes * (ask->element ? ask->src_stride : 1) : 0,
        .dst_step = to_blocks ? ask->bytes * (ask->element ? ask->dst_stride : 1) : 0,
        .element = ask->element,
        .src_apart = ask->src_stride * ask->element,
        .dst_apart = ask->dst_stride * ask->element,
        .grain = grain_of(ask),
        .set_bytes = coll_set_bytes(team->slot),
        .members = team->n,
        .me = team->me,
        .root = kinds[ask->what].flow == COLL_ALL ? -1 : ask->root,
        .flow = (int32_t)kinds[ask->what].flow,
        .team = team->slot,
        .operation = (int32_t)kinds[request->what].operation,
        .type = (int32_t)request->type,
        .op = (int32_t)request->op,
        .factor = request->factor,
        .factor_at = request->factor_at,
        .weighted = request->weighted,
        .everywhere = request->what == COLL_REDUCE,
        .counts = request->send_bytes,
        .src_at = request->send_at,
        .room_of = request->recv_bytes,
        .dst_at = request->recv_at,
        .room =
            request->what == COLL_COLLECT ? bytes_to_end(gpu, request->dst) : request->dst_bytes,
        .check = team->job->checking,
        .reporting = gpu->reporting,
    };
    for (int i = 0; i < team->n; i++) {
        int slot = gpu->slot_of[team->pes[i]];
        call->part[i] = (char *)(uintptr_t)gpu->heap.windows[slot].base;
        call->pe[i] = (uint16_t)team->pes[i];
    }
}

/* Reductions that do more than combine: elements are multiplied or rounded, results divided. */
static bool is_more(const struct coll_ask *ask)
{
    return coll_reduces(ask->what) && (ask->op >= WEFT_AVG || weft_dev_is_fp8(ask->type));
}

static enum coll_kernel kernel_of(const struct coll_ask *ask, const struct coll_choice *choice)
{
    bool more = is_more(ask);
    if (choice->way == COLL_ALGO_TWO_SHOT_LL128)
        return COLL_weft_coll_reduce_two_lines;
    if (choice->way == COLL_ALGO_LL128)
        return coll_reduces(ask->what) ? COLL_weft_coll_reduce_one_lines
                                       : COLL_weft_coll_send_lines;
    if (is_sized(ask->what))
        return choice->way == COLL_ALGO_STAGED ? COLL_weft_coll_sized_scratch
                                               : COLL_weft_coll_push_sized;
    if (choice->way == COLL_ALGO_STAGED)
        return ask->element               ? COLL_weft_coll_push_strided_scratch
               : choice->phases > 1       ? COLL_weft_coll_spread_scratch
               : !coll_reduces(ask->what) ? COLL_weft_coll_push_scratch
               : more                     ? COLL_weft_coll_reduce_scratch_more
                                          : COLL_weft_coll_reduce_scratch;
    if (choice->way == COLL_WAY_TWO_TRIPS)
        return more ? COLL_weft_coll_reduce_two_more : COLL_weft_coll_reduce_two;
    if (ask->element)
        return choice->way == COLL_ALGO_LL ? COLL_weft_coll_send_strided
                                               : COLL_weft_coll_push_strided;
    if (choice->way == COLL_ALGO_LL && !coll_reduces(ask->what))
        return COLL_weft_coll_send;
    if (choice->way == COLL_ALGO_LL)
        return more ? COLL_weft_coll_reduce_one_more : COLL_weft_coll_reduce_one;
    if (coll_reduces(ask->what))
        return more ? COLL_weft_coll_combine_more : COLL_weft_coll_combine;
    return choice->chunks ? COLL_weft_coll_spread : COLL_weft_coll_push;
}

/* A lane has 8 bytes of payload at least; kernels that do more have no form for lines. */
static bool fits_lines(const struct coll_ask *ask)
{
    return !coll_reduces(ask->what) || (!is_more(ask) && weft_dev_type_bytes(ask->type) <= 8);
}

struct coll_choice coll_kernel_choice(const struct weft_team *team, const struct coll_ask *ask,
                                      bool symmetric)
{
    struct coll_question q = {.what = ask->what,
                              .members = team->n,
                              .bytes = ask->bytes,
                              .set_bytes = coll_set_bytes(team->slot),
                              .strided = ask->element != 0,
                              .checked = team->job->checking,
                              .direct = symmetric,
                              .most_blocks = team->coll->most_blocks,
                              .wish = team->coll->wish,
                              .lines = coll_kernel_lines(team) && fits_lines(ask)};
    return coll_choose(&q, &team->coll->rates);
}

weft_status coll_kernel_force(struct weft_team *team, enum coll_algorithm wish, int most_blocks)
{
    weft_status status = team->coll || !coll_kernel_serves(team) ? WEFT_OK : open_kernels(team);
    if (status || !team->coll)
        return status;
    team->coll->wish = wish;
    team->coll->most_blocks = most_blocks;
    return WEFT_OK;
}

enum { AS_CONFIGURED = -1 };

weft_status coll_kernel_limit(struct weft_team *team, int sms)
{
    int64_t wanted = sms == AS_CONFIGURED ? config_int(CONFIG_COLL_SMS) : sms;
    weft_status status = team->coll || !coll_kernel_serves(team) ? WEFT_OK : open_kernels(team);
    if (status)
        return status;
    int32_t mine = sms < AS_CONFIGURED ? AS_CONFIGURED : coll_blocks_of(wanted), least = mine;
    const int32_t *all = team->scratch;
    status = coll_exchange(team, BOX_OP_SYNC, &mine, team->scratch, sizeof mine);
    int wrong = team->n;
    for (int i = 0; i < team->n; i++) {
        least = all[i] < least ? all[i] : least;
        wrong = all[i] < 0 && i < wrong ? i : wrong;
    }
    if (!status && mine < 0)
        status =
            base_fail(WEFT_ERR_ARGUMENT,
                      "weft_team_limit_sms: %d SMs; -1 (as WEFT_COLL_SMS says), 0 (copy engines "
                      "where they can) or more are wanted",
                      sms);
    else if (!status && least < 0)
        status = base_fail(WEFT_ERR_ARGUMENT, "weft_team_limit_sms: PE %d named less than -1 SMs",
                           team->pes[wrong]);
    if (!status && team->coll)
        team->coll->most_blocks = least;
    return status;
}

bool coll_kernel_lines(const struct weft_team *team)
{
    return team->coll && team->coll->lines && team->coll->most_blocks <= team->coll->lines;
}

const struct coll_rates *coll_kernel_rates(const struct weft_team *team)
{
    return team->coll ? &team->coll->rates : NULL;
}

/* Elements are loaded and stored whole where they lie; packets take them byte by byte where that
 * cannot be. */
static bool is_aligned(const struct coll_ask *ask)
{
    size_t element = weft_dev_type_bytes(ask->type), unit = element > 8 ? 8 : element;
    return (uintptr_t)ask->dst % unit == 0 && (uintptr_t)ask->src % unit == 0;
}

/* While a stream of the program is being captured its thread may not do what could belong to the
 * capture and does not: streams of the library's own are no part of it. */
static void exchange_capture_mode(const struct gpu *gpu, int *mode)
{
    if (gpu->cuda.ThreadExchangeStreamCaptureMode)
        gpu->cuda.ThreadExchangeStreamCaptureMode(mode);
}

/* Checking mode: puts the comparison of this call with the other members' in front of it. */
static weft_status compare_members(struct weft_team *team, const struct coll_ask *ask,
                                   const struct coll_choice *choice, enum coll_kernel kernel,
                                   struct coll_call call, CUstream stream)
{
    enum { THREADS = 64 };
    call.header[COLL_HEADER_KIND] = (uint64_t)call.operation | (uint64_t)(uint8_t)ask->type << 8 |
                                    (uint64_t)(uint8_t)((int)ask->op + ask->weighted) << 16 |
                                    (uint64_t)(uint16_t)(call.root + 1) << 24 |
                                    (uint64_t)team->n << 40;
    call.header[COLL_HEADER_BYTES] = is_sized(ask->what) ? 0 : ask->bytes;
    call.header[COLL_HEADER_DETAIL] =
        ask->element ? ask->dst_stride << 32 | (ask->src_stride & UINT32_MAX) : 0;
    call.header[COLL_HEADER_ALGORITHM] =
        (uint64_t)kernel << 32 | (uint64_t)choice->blocks << 16 | choice->threads;
    call.flow = COLL_ALL;
    return gpu_coll_launch(team->job->gpu, COLL_weft_coll_check, 1, THREADS, stream, &call);
}

/* Of one member all but these are: sizes that the GPU alone knows, gaps, elements that change; and
 * a collect that does not fit, which the kernel refuses. */
static bool is_copy(const struct weft_team *team, const struct coll_ask *ask)
{
    if (team->n > 1 || ask->what == COLL_ALLTOALLV || ask->element || is_more(ask))
        return false;
    return ask->what != COLL_COLLECT || ask->bytes <= room_at(team->job->gpu, ask->dst);
}

/* The part of the call that one round takes: elements stay whole, since a unit holds whole ones. */
static weft_status launch(struct weft_team *team, const struct coll_ask *ask, CUstream stream)
{
    struct gpu *gpu = team->job->gpu;
    struct coll_call call;
    if (is_copy(team, ask))
        return ask->dst == ask->src
                   ? WEFT_OK
                   : gpu_copy_on(gpu, stream, ask->dst, ask->src, (size_t)ask->bytes);
    bool symmetric = in_gpu_heap(gpu, ask->dst) &&
                     (!coll_reduces(ask->what) || (in_gpu_heap(gpu, ask->src) && is_aligned(ask)));
    struct coll_choice choice = coll_kernel_choice(team, ask, symmetric);
    weft_status status = WEFT_OK;
    fill(team, ask, &call);
    call.chunks = choice.chunks;
    enum coll_kernel kernel = kernel_of(ask, &choice);
    if (call.check)
        status = compare_members(team, ask, &choice, kernel, call, stream);
    if (status)
        return status;
    if (choice.way == COLL_ALGO_ENGINES) {
        int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        exchange_capture_mode(gpu, &mode); /* streams of copies are made at their first use */
        status = coll_engines_put(gpu, &call, choice.phases, choice.threads, stream);
        exchange_capture_mode(gpu, &mode);
        return status;
    }
    if (is_sized(ask->what))
        return gpu_coll_launch(gpu, kernel, choice.blocks, choice.threads, stream, &call);
    for (uint64_t at = 0; at < ask->bytes && !status; at += call.bytes) {
        call.bytes = ask->bytes - at < choice.bytes ? ask->bytes - at : choice.bytes;
        bool slices = choice.way == COLL_WAY_TWO_TRIPS || choice.way == COLL_ALGO_TWO_SHOT_LL128;
        if (call.bytes < choice.bytes && slices) {
            struct coll_ask rest = *ask; /* it may be too little for every member's slice */
            rest.dst = (char *)ask->dst + at;
            rest.src = (const char *)ask->src + at;
            rest.bytes = call.bytes;
            return launch(team, &rest, stream);
        }
        call.first = at;
        call.dst = (char *)ask->dst + (ask->element ? 0 : at);
        call.src = (const char *)ask->src + (ask->element ? 0 : at);
        status = gpu_coll_launch(gpu, kernel, choice.blocks, choice.threads, stream, &call);
    }
    return status;
}

static weft_status put(struct weft_team *team, const struct coll_ask *ask, CUstream stream)
{
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    exchange_capture_mode(team->job->gpu, &mode);
    weft_status status = team->coll ? WEFT_OK : open_kernels(team);
    if (!status) /* what the host has put may be what is sent */
        status = weft_quiet(team->job->default_ctx);
    exchange_capture_mode(team->job->gpu, &mode);
    if (!status)
        status = gpu_enter(&team->job->gpu->device);
    if (status)
        return status;
    status = launch(team, ask, stream);
    gpu_leave(&team->job->gpu->device);
    return status;
}

weft_status coll_kernel_pays(struct weft_team *team, uint64_t bytes, bool *pays)
{
    enum { CPU_BYTES = 1024, CPU_MEMBERS = 8 }; /* 5 us and a kernel's 10, on 2 H200 */
    weft_status status = team->coll ? WEFT_OK : open_kernels(team);
    *pays = status || !team->coll->mapped || bytes > CPU_BYTES || team->n > CPU_MEMBERS;
    return status;
}

weft_status coll_kernel_put(struct weft_team *team, const struct coll_ask *ask, weft_stream stream)
{
    return put(team, ask, stream);
}

/* An alltoallv whose sizes the kernel can read. Those that are in memory of the host go through the
 * library's own: theirs may be out of the GPU's reach. */
static struct coll_ask with_sizes(const struct weft_team *team, const struct coll_ask *ask)
{
    struct gpu *gpu = team->job->gpu;
    struct coll_ask there = *ask;
    const uint64_t **arrays[] = {&there.send_bytes, &there.send_at, &there.recv_bytes,
                                 &there.recv_at};
    for (int i = 0; i < GPU_SIZES && ask->what == COLL_ALLTOALLV; i++)
        if (gpu_place_of(gpu, *arrays[i]) != GPU_PLACE_DEVICE)
            *arrays[i] = gpu_coll_sizes(gpu, i, *arrays[i], team->n);
    return there;
}

weft_status coll_kernel_call(struct weft_team *team, const struct coll_ask *ask)
{
    struct gpu *gpu = team->job->gpu;
    weft_status status = team->coll ? WEFT_OK : open_kernels(team);
    if (status)
        return status;
    pthread_mutex_lock(&gpu->coll->lock);
    struct coll_ask there = with_sizes(team, ask);
    status = put(team, &there, gpu->coll->stream);
    if (!status)
        status = gpu_enter(&gpu->device);
    if (!status) {
        status = gpu_wait_stream(gpu, gpu->coll->stream, ask->function);
        gpu_leave(&gpu->device);
    }
    pthread_mutex_unlock(&gpu->coll->lock);
    /* What the kernel has left on record is the job's failure. */
    return status ? status : job_check_failed(team->job);
}
