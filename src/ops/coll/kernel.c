/* SPDX-License-Identifier: Apache-2.0 */
/* See coll_kernel.h. */
#include "ops/coll/kernel.h"

#include "base/config.h"
#include "base/log.h"
#include "gpu/coll/coll.h"
#include "gpu/map/map.h"
#include "gpu/stream.h"
#include "job/device_watch.h"
#include "ops/coll/engines.h"
#include "ops/coll/prove.h"

#include <weft/device/arithmetic.h>

#include <stdio.h>
#include <stdlib.h>

/* Settings that are the same at all members of a team. */
struct team_coll {
    int most_blocks;
    int own_blocks; /* most blocks of calls of this member (coll_kernel_use()); -1: most_blocks */
    enum coll_algorithm forced;
    bool mapped; /* the CPU of every member maps GPU memory */
    /* largest number of blocks with which LL128 passed its test; 0: LL128 is not used */
    int ll128_blocks;
    struct coll_rates rates;
    /* the latest question and its choice: a program repeats most calls */
    struct coll_question asked;
    struct coll_choice chosen;
};

/* ------------------------------------------------------------------------- exchange of settings */

bool coll_kernel_runs(const struct weft_team *team)
{
    return config_choice(CONFIG_COLL) != COLL_ALGO_COPIES && team->job->gpu &&
           team->slot < team->job->gpu->layout.coll.teams &&
           !(team->coll && team->coll->forced == COLL_ALGO_COPIES) &&
           config_choice(CONFIG_TARGET) != 2 /* simt */;
}

bool coll_kernel_serves(const struct weft_team *team)
{
    const struct weft_job *job = team->job;
    if (!coll_kernel_runs(team) || team->n > COLL_MEMBERS)
        return false;
    for (int i = 0; i < team->n; i++)
        if (job->gpu->slot_of[team->pes[i]] < 0)
            return false;
    return job_gpu_team_direct(team);
}

/* Features that are used only where every member has them. */
enum {
    FEATURE_MAPPED = 1,
    FEATURE_PROOFS = 2 /* the member runs the LL128 test (coll_prove_wanted()) */
};

/* What each member reports to the others; fits one packet of coll_exchange(). */
struct settings_record {
    int32_t status, most_blocks, forced, features;
    uint64_t round;
    uint32_t rates; /* hash of the member's rates */
    int32_t rates_agree;
};

_Static_assert(sizeof(struct settings_record) <= PACKET_BYTES, "a settings record fits one packet");

/* Exchanges the settings of all members and combines them into *mine. The round number becomes the
 * largest that earlier teams have used in this area at any member, so that no old flag looks
 * new. */
static weft_status exchange_records(struct weft_team *team, struct settings_record *mine)
{
    const struct settings_record *all = team->scratch;
    weft_status status = mine->status;
    char sentence[512] = "";
    if (status)
        snprintf(sentence, sizeof sentence, "%s", base_last_error());
    weft_status exchanged = coll_exchange(team, BOX_OP_SYNC, mine, team->scratch, sizeof *mine);
    for (int i = 0; i < team->n && !exchanged; i++) {
        mine->most_blocks =
            all[i].most_blocks < mine->most_blocks ? all[i].most_blocks : mine->most_blocks;
        mine->round = all[i].round > mine->round ? all[i].round : mine->round;
        mine->features &= all[i].features;
        mine->rates_agree &= all[i].rates == mine->rates;
        if (all[i].forced != all[0].forced)
            mine->forced = COLL_ALGO_AUTO;
        if (all[i].status && !status)
            status = base_fail((weft_status)all[i].status,
                               "PE %d could not prepare collectives on its GPU", team->pes[i]);
    }
    if (mine->status)
        return base_fail((weft_status)mine->status, "%s", sentence);
    return exchanged ? exchanged : status;
}

void coll_kernel_machine(const struct weft_job *job, struct coll_machine *machine)
{
    const struct gpu_device *device = &job->gpu->device;
    *machine =
        (struct coll_machine){.gpus = device->visible, .driver = device->driver->driver_version};
    snprintf(machine->gpu, sizeof machine->gpu, "%s", device->name);
}

/* Loads the rates of this machine, or the built-in ones. */
static void load_rates(const struct weft_team *team, struct coll_rates *rates)
{
    struct coll_machine machine;
    struct coll_measured measured;
    char path[600], why[512];
    coll_kernel_machine(team->job, &machine);
    coll_rates_find(&machine, rates, &measured, path, sizeof path, why, sizeof why);
    if (*why && team->me == 0)
        log_warn(LOG_COLL, "collectives use the built-in rates: %s", why);
    else if (*path)
        log_debug(LOG_COLL, "collectives use the rates of %s, measured %s", path, measured.date);
}

static void fill_call(const struct weft_team *team, const struct coll_request *request,
                      struct coll_call *call);

/* Prepares the team at its first collective on GPU memory. Collective over the team. */
static weft_status prepare_team(struct weft_team *team)
{
    struct weft_job *job = team->job;
    struct settings_record mine = {.most_blocks = coll_blocks_of(config_int(CONFIG_COLL_SMS)),
                                   .forced = (int32_t)config_choice(CONFIG_COLL),
                                   .features =
                                       gpu_map_works(job->gpu->heap.map) ? FEATURE_MAPPED : 0,
                                   .rates_agree = true};
    struct coll_rates rates;
    load_rates(team, &rates);
    mine.features |= coll_prove_wanted() ? FEATURE_PROOFS : 0;
    mine.rates = coll_rates_hash(&rates);
    struct team_coll *coll = calloc(1, sizeof *coll);
    weft_status status =
        coll ? gpu_coll_load(job->gpu)
             : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a team's collectives");
    if (!status && config_int(CONFIG_COLL_SMS) < 0)
        status =
            base_fail(WEFT_ERR_CONFIG,
                      "WEFT_COLL_SMS is %lld; valid are 0 (copy engines where possible) or more "
                      "SMs",
                      (long long)config_int(CONFIG_COLL_SMS));
    if (!status)
        status = gpu_coll_read_number(job->gpu, team->slot, &mine.round);
    if (!status)
        status = device_watch_kernels(job);
    mine.status = (int32_t)status;
    status = exchange_records(team, &mine);
    if (!status)
        status = gpu_coll_set_number(job->gpu, team->slot, mine.round + 2);
    if (!status && coll && team->n > 1 && (mine.features & FEATURE_PROOFS)) {
        struct coll_call call;
        int blocks = mine.most_blocks ? mine.most_blocks : 1;
        bool proven;
        fill_call(team, &(struct coll_request){.what = COLL_ALLTOALL}, &call);
        status = coll_prove_ll128(team, &call, blocks, &proven);
        coll->ll128_blocks = proven ? blocks : 0;
    } else if (!status && team->n > 1 && team->me == 0)
        log_debug(LOG_COLL, "collectives of %d PEs use LL and not LL128: %s", team->n,
                  job->checking ? "WEFT_CHECK=1" : "WEFT_PROVE=off or WEFT_CHECK=1 at a PE");
    if (status || !coll) {
        free(coll);
        return status;
    }
    coll->most_blocks = mine.most_blocks;
    coll->own_blocks = -1;
    coll->forced = (enum coll_algorithm)mine.forced;
    coll->mapped = mine.features & FEATURE_MAPPED;
    /* so all members choose the same algorithm */
    coll->rates = mine.rates_agree ? rates : coll_rates_built_in;
    if (!mine.rates_agree && team->me == 0)
        log_warn(
            LOG_COLL,
            "the PEs of a team of %d have different rates of collectives, so the built-in rates "
            "are used; give all PEs the same file (WEFT_COLL_RATES)",
            team->n);
    team->coll = coll;
    return WEFT_OK;
}

/* ----------------------------------------------------------------------------------- launch */

static const struct {
    enum weft_dev_operation operation;
    enum coll_flow flow;
} kinds[COLL_WHATS] = {
    [COLL_BROADCAST] = {WEFT_DEV_OP_BROADCAST, COLL_FROM},
    [COLL_ALLGATHER] = {WEFT_DEV_OP_ALLGATHER, COLL_ALL},
    [COLL_ALLTOALL] = {WEFT_DEV_OP_ALLTOALL, COLL_ALL},
    [COLL_GATHER] = {WEFT_DEV_OP_GATHER, COLL_TO},
    [COLL_SCATTER] = {WEFT_DEV_OP_SCATTER, COLL_FROM},
    [COLL_ALLREDUCE] = {WEFT_DEV_OP_ALLREDUCE, COLL_ALL},
    [COLL_REDUCESCATTER] = {WEFT_DEV_OP_REDUCESCATTER, COLL_ALL},
    [COLL_REDUCE] = {WEFT_DEV_OP_ALLREDUCE, COLL_TO},
    [COLL_COLLECT] = {WEFT_DEV_OP_COLLECT, COLL_ALL},
    [COLL_ALLTOALLV] = {WEFT_DEV_OP_ALLTOALLV, COLL_ALL},
};

/* Largest access width in bytes (at most 8) by which strided elements can be loaded and stored. */
static uint32_t grain_of(const struct coll_request *request)
{
    uint64_t bits = request->element | (uintptr_t)request->dst | (uintptr_t)request->src | 8;
    return (uint32_t)(bits & -bits);
}

/* Bytes from dst to the end of the heap, or to the end of its allocation. UINT64_MAX: the driver
 * does not know the allocation. */
static uint64_t bytes_to_end(struct gpu *gpu, const void *dst)
{
    CUdeviceptr at = (uintptr_t)dst, start = 0;
    size_t bytes = 0;
    if (gpu_heap_covers(&gpu->heap, dst))
        return gpu->heap.backed - (at - gpu_heap_own(&gpu->heap)->base);
    if (gpu->driver.PointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at) ||
        gpu->driver.PointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at) ||
        at - start >= bytes)
        return UINT64_MAX;
    return bytes - (at - start);
}

static void fill_call(const struct weft_team *team, const struct coll_request *request,
                      struct coll_call *call)
{
    struct gpu *gpu = team->job->gpu;
    uintptr_t base = gpu_heap_own(&gpu->heap)->base;
    bool from_blocks = request->what == COLL_ALLTOALL || request->what == COLL_SCATTER ||
                       request->what == COLL_REDUCESCATTER;
    bool to_blocks = request->what == COLL_ALLGATHER || request->what == COLL_ALLTOALL ||
                     request->what == COLL_GATHER;
    *call = (struct coll_call){
        .area = coll_area_offset(&gpu->layout.coll, team->slot),
        .dst = request->dst,
        .src = request->src,
        .to = (uintptr_t)request->dst - base,
        .from = (uintptr_t)request->src - base,
        .bytes = request->bytes,
        .src_step = from_blocks ? request->bytes * (request->element ? request->src_stride : 1) : 0,
        .dst_step = to_blocks ? request->bytes * (request->element ? request->dst_stride : 1) : 0,
        .strided.element = request->element,
        .strided.src_apart = request->src_stride * request->element,
        .strided.dst_apart = request->dst_stride * request->element,
        .strided.grain = grain_of(request),
        .set_bytes = coll_set_bytes(&gpu->layout.coll, team->slot),
        .members = team->n,
        .me = team->me,
        .root = kinds[request->what].flow == COLL_ALL ? -1 : request->root,
        .flow = (int32_t)kinds[request->what].flow,
        .record.team = team->slot,
        .record.operation = (int32_t)kinds[request->what].operation,
        .reduction.type = (int32_t)request->reduction.type,
        .reduction.op = (int32_t)request->reduction.op,
        .reduction.factor = reduce_factor_word(&request->reduction),
        .reduction.factor_at = request->reduction.factor_at,
        .reduction.narrow_factor = request->reduction.narrow_factor,
        .reduction.weighted = request->reduction.weighted,
        .reduction.everywhere = request->what == COLL_ALLREDUCE,
        .sized.counts = request->send_bytes,
        .sized.src_at = request->send_at,
        .sized.room_of = request->recv_bytes,
        .sized.dst_at = request->recv_at,
        .sized.room =
            request->what == COLL_COLLECT ? bytes_to_end(gpu, request->dst) : request->dst_bytes,
        .checking.on = team->job->checking,
        .record.reporting = gpu->reporting,
    };
    for (int i = 0; i < team->n; i++) {
        int slot = gpu->slot_of[team->pes[i]];
        call->part[i] = (char *)(uintptr_t)gpu->heap.windows[slot].base;
        call->record.pe[i] = (uint16_t)team->pes[i];
    }
}

/* Whether a reduction needs the `_more` kernels: its elements are scaled or converted (FP8), or its
 * result is divided (average). */
static bool needs_more_kernel(const struct coll_request *request)
{
    return coll_reduces[request->what] &&
           (request->reduction.op >= WEFT_AVG || weft_dev_is_fp8(request->reduction.type));
}

static enum coll_kernel kernel_of(const struct coll_request *request,
                                  const struct coll_choice *choice, bool more)
{
    if (choice->algorithm == COLL_ALGO_TWO_SHOT_LL128)
        return COLL_weft_coll_reduce_two_lines;
    if (choice->algorithm == COLL_ALGO_LL128)
        return coll_reduces[request->what] ? COLL_weft_coll_reduce_one_lines
                                           : COLL_weft_coll_send_lines;
    if (coll_is_sized[request->what])
        return choice->algorithm == COLL_ALGO_STAGED ? COLL_weft_coll_sized_scratch
                                                     : COLL_weft_coll_push_sized;
    if (choice->algorithm == COLL_ALGO_STAGED)
        return request->element               ? COLL_weft_coll_push_strided_scratch
               : choice->phases > 1           ? COLL_weft_coll_spread_scratch
               : !coll_reduces[request->what] ? COLL_weft_coll_push_scratch
               : more                         ? COLL_weft_coll_reduce_scratch_more
                                              : COLL_weft_coll_reduce_scratch;
    if (choice->algorithm == COLL_ALGO_TWO_SHOT_LL)
        return more ? COLL_weft_coll_reduce_two_more : COLL_weft_coll_reduce_two;
    if (request->element)
        return choice->algorithm == COLL_ALGO_LL ? COLL_weft_coll_send_strided
                                                 : COLL_weft_coll_push_strided;
    if (choice->algorithm == COLL_ALGO_LL && !coll_reduces[request->what])
        return COLL_weft_coll_send;
    if (choice->algorithm == COLL_ALGO_LL)
        return more ? COLL_weft_coll_reduce_one_more : COLL_weft_coll_reduce_one;
    if (coll_reduces[request->what])
        return more ? COLL_weft_coll_combine_more : COLL_weft_coll_combine;
    return choice->chunks ? COLL_weft_coll_spread : COLL_weft_coll_push;
}

/* In an LL128 line a thread has at least 8 bytes of payload; the `_more` kernels have no LL128
 * form. */
static bool fits_ll128(const struct coll_request *request)
{
    return !coll_reduces[request->what] ||
           (!needs_more_kernel(request) && request->reduction.element <= 8);
}

static int most_blocks_now(const struct team_coll *coll)
{
    return coll->own_blocks >= 0 && coll->own_blocks < coll->most_blocks ? coll->own_blocks
                                                                         : coll->most_blocks;
}

static bool has_ll128(const struct team_coll *coll)
{
    return coll->ll128_blocks && most_blocks_now(coll) <= coll->ll128_blocks;
}

/* Whether two questions of one team are the same; the members of coll_question that are left out do
 * not change. */
static bool same_question(const struct coll_question *a, const struct coll_question *b)
{
    return a->members == b->members && a->what == b->what && a->bytes == b->bytes &&
           a->strided == b->strided && a->checked == b->checked && a->direct == b->direct &&
           a->most_blocks == b->most_blocks && a->forced == b->forced && a->ll128 == b->ll128;
}

static struct coll_choice choose_with(const struct weft_team *team, struct team_coll *coll,
                                      const struct coll_request *request, bool symmetric)
{
    struct coll_question q = {.what = request->what,
                              .members = team->n,
                              .bytes = request->bytes,
                              .set_bytes = coll_set_bytes(&team->job->gpu->layout.coll, team->slot),
                              .strided = request->element != 0,
                              .checked = team->job->checking,
                              .direct = symmetric,
                              .most_blocks = most_blocks_now(coll),
                              .forced = coll->forced,
                              .ll128 = has_ll128(coll) && fits_ll128(request)};
    if (!same_question(&q, &coll->asked)) {
        coll->chosen = coll_choose(&q, &coll->rates);
        coll->asked = q;
    }
    return coll->chosen;
}

struct coll_choice coll_kernel_choice(const struct weft_team *team,
                                      const struct coll_request *request, bool symmetric)
{
    return choose_with(team, team->coll, request, symmetric);
}

struct coll_choice coll_kernel_plan(const struct weft_team *team,
                                    const struct coll_request *request, int sms, bool symmetric)
{
    struct team_coll coll = {.own_blocks = -1};
    if (team->coll) {
        coll = *team->coll;
    } else {
        coll.most_blocks = coll_blocks_of(config_int(CONFIG_COLL_SMS));
        coll.forced = (enum coll_algorithm)config_choice(CONFIG_COLL);
        coll.ll128_blocks = coll_prove_wanted() ? coll.most_blocks : 0;
        load_rates(team, &coll.rates);
    }
    if (sms >= 0)
        coll.own_blocks = coll_blocks_of(sms);
    return choose_with(team, &coll, request, symmetric);
}

weft_status coll_kernel_force(struct weft_team *team, enum coll_algorithm forced, int most_blocks)
{
    weft_status status = team->coll || !coll_kernel_serves(team) ? WEFT_OK : prepare_team(team);
    if (status || !team->coll)
        return status;
    team->coll->forced = forced;
    team->coll->most_blocks = most_blocks;
    return WEFT_OK;
}

enum { AS_CONFIGURED = -1 };

weft_status coll_kernel_limit(struct weft_team *team, int sms)
{
    int64_t wanted = sms == AS_CONFIGURED ? config_int(CONFIG_COLL_SMS) : sms;
    weft_status status = team->coll || !coll_kernel_serves(team) ? WEFT_OK : prepare_team(team);
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
        status = base_fail(WEFT_ERR_ARGUMENT,
                           "weft_team_limit_sms: %d SMs; valid are -1 (use WEFT_COLL_SMS), 0 (copy "
                           "engines where possible) or more",
                           sms);
    else if (!status && least < 0)
        status = base_fail(WEFT_ERR_ARGUMENT, "weft_team_limit_sms: PE %d passed less than -1 SMs",
                           team->pes[wrong]);
    if (!status && team->coll)
        team->coll->most_blocks = least;
    return status;
}

weft_status coll_kernel_use(struct weft_team *team, int sms)
{
    weft_status status = team->coll || !coll_kernel_serves(team) ? WEFT_OK : prepare_team(team);
    if (!status && sms < AS_CONFIGURED)
        status = base_fail(WEFT_ERR_ARGUMENT,
                           "weft_team_use_sms: %d SMs; valid are -1 (the team's limit), 0 (copy "
                           "engines where possible) or more",
                           sms);
    if (status || !team->coll)
        return status;
    team->coll->own_blocks = sms < 0 ? -1 : coll_blocks_of(sms);
    return WEFT_OK;
}

int coll_kernel_most_blocks(const struct weft_team *team)
{
    return team->coll ? team->coll->most_blocks : coll_blocks_of(config_int(CONFIG_COLL_SMS));
}

bool coll_kernel_ll128(const struct weft_team *team)
{
    return team->coll && has_ll128(team->coll);
}

weft_status coll_kernel_test_ll128(struct weft_team *team, bool *tested)
{
    weft_status status = team->coll || !coll_kernel_serves(team) ? WEFT_OK : prepare_team(team);
    *tested = !status && coll_kernel_serves(team) && coll_kernel_ll128(team);
    return status;
}

const struct coll_rates *coll_kernel_rates(const struct weft_team *team)
{
    return team->coll ? &team->coll->rates : NULL;
}

/* The simple algorithm loads and stores elements as a whole. The others copy unaligned elements
 * byte by byte. */
static bool is_aligned(const struct coll_request *request)
{
    size_t element = request->reduction.element, unit = element > 8 ? 8 : element;
    return (uintptr_t)request->dst % unit == 0 && (uintptr_t)request->src % unit == 0;
}

/* Checking mode: enqueues a kernel in front of the collective that compares this call with the
 * calls of the other members. */
static weft_status compare_members(struct weft_team *team, const struct coll_request *request,
                                   const struct coll_choice *choice, enum coll_kernel kernel,
                                   struct coll_call call, CUstream stream)
{
    enum { THREADS = 64 };
    call.checking.header[COLL_HEADER_KIND] =
        (uint64_t)call.record.operation | (uint64_t)(uint8_t)request->reduction.type << 8 |
        (uint64_t)(uint8_t)((int)request->reduction.op + request->reduction.weighted) << 16 |
        (uint64_t)(uint16_t)(call.root + 1) << 24 | (uint64_t)team->n << 40;
    call.checking.header[COLL_HEADER_BYTES] = coll_is_sized[request->what] ? 0 : request->bytes;
    call.checking.header[COLL_HEADER_DETAIL] =
        request->element ? request->dst_stride << 32 | (request->src_stride & UINT32_MAX) : 0;
    call.checking.header[COLL_HEADER_ALGORITHM] =
        (uint64_t)kernel << 32 | (uint64_t)choice->blocks << 16 | choice->threads;
    call.flow = COLL_ALL;
    return gpu_coll_launch(team->job->gpu, COLL_weft_coll_check, 1, THREADS, stream, &call);
}

/* Whether a collective of a team of one member is a plain copy. It is none where only the GPU knows
 * the size, where elements have gaps or change, or where a collect does not fit and the kernel
 * refuses it. */
static bool is_copy(const struct weft_team *team, const struct coll_request *request, bool more)
{
    if (team->n > 1 || request->what == COLL_ALLTOALLV || request->element || more)
        return false;
    return request->what != COLL_COLLECT ||
           request->bytes <= bytes_to_end(team->job->gpu, request->dst);
}

/* Launches one kernel per round of choice.bytes bytes. Elements stay whole, because the unit of a
 * round contains whole elements. */
static weft_status launch_rounds(struct weft_team *team, const struct coll_request *request,
                                 CUstream stream)
{
    struct gpu *gpu = team->job->gpu;
    struct coll_call call;
    bool more = needs_more_kernel(request);
    if (is_copy(team, request, more))
        return request->dst == request->src
                   ? WEFT_OK
                   : gpu_copy_on(gpu, stream, request->dst, request->src, (size_t)request->bytes);
    bool symmetric = gpu_heap_covers(&gpu->heap, request->dst) &&
                     (!coll_reduces[request->what] ||
                      (gpu_heap_covers(&gpu->heap, request->src) && is_aligned(request)));
    struct coll_choice choice = coll_kernel_choice(team, request, symmetric);
    weft_status status = WEFT_OK;
    fill_call(team, request, &call);
    call.chunks = choice.chunks;
    enum coll_kernel kernel = kernel_of(request, &choice, more);
    if (call.checking.on)
        status = compare_members(team, request, &choice, kernel, call, stream);
    if (status)
        return status;
    if (choice.algorithm == COLL_ALGO_ENGINES) {
        int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        gpu_exchange_capture_mode(gpu, &mode); /* copy engines create their streams at first use */
        status = coll_engines_enqueue(gpu, &call, choice.phases, choice.threads, stream);
        gpu_exchange_capture_mode(gpu, &mode);
        return status;
    }
    if (coll_is_sized[request->what])
        return gpu_coll_launch(gpu, kernel, choice.blocks, choice.threads, stream, &call);
    for (uint64_t at = 0; at < request->bytes && !status; at += call.bytes) {
        call.bytes = request->bytes - at < choice.bytes ? request->bytes - at : choice.bytes;
        bool slices = choice.algorithm == COLL_ALGO_TWO_SHOT_LL ||
                      choice.algorithm == COLL_ALGO_TWO_SHOT_LL128;
        if (call.bytes < choice.bytes && slices) {
            /* the rest may be too small for a slice at every member */
            struct coll_request rest = *request;
            rest.dst = (char *)request->dst + at;
            rest.src = (const char *)request->src + at;
            rest.bytes = call.bytes;
            return launch_rounds(team, &rest, stream);
        }
        call.strided.first = at;
        call.dst = (char *)request->dst + (request->element ? 0 : at);
        call.src = (const char *)request->src + (request->element ? 0 : at);
        status = gpu_coll_launch(gpu, kernel, choice.blocks, choice.threads, stream, &call);
    }
    return status;
}

weft_status coll_kernel_enqueue(struct weft_team *team, const struct coll_request *request,
                                weft_stream stream)
{
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    gpu_exchange_capture_mode(team->job->gpu, &mode);
    weft_status status = team->coll ? WEFT_OK : prepare_team(team);
    if (!status) /* src may be the destination of earlier host-initiated puts */
        status = weft_quiet(team->job->default_ctx);
    gpu_exchange_capture_mode(team->job->gpu, &mode);
    if (!status)
        status = gpu_enter(&team->job->gpu->device);
    if (status)
        return status;
    status = launch_rounds(team, request, stream);
    gpu_leave(&team->job->gpu->device);
    return status;
}

weft_status coll_kernel_is_faster(struct weft_team *team, uint64_t bytes, bool *pays)
{
    enum { CPU_BYTES = 1024, CPU_MEMBERS = 8 }; /* the CPU takes 5 us, a kernel 10 us, on 2 H200 */
    weft_status status = team->coll ? WEFT_OK : prepare_team(team);
    *pays = status || !team->coll->mapped || bytes > CPU_BYTES || team->n > CPU_MEMBERS;
    return status;
}

/* Returns the request with arrays that the kernel can read. Arrays in host memory are copied to the
 * library's own staging memory, because the GPU may have no access to the program's. */
static struct coll_request stage_sizes(const struct weft_team *team,
                                       const struct coll_request *request)
{
    struct gpu *gpu = team->job->gpu;
    struct coll_request staged = *request;
    const uint64_t **arrays[] = {&staged.send_bytes, &staged.send_at, &staged.recv_bytes,
                                 &staged.recv_at};
    for (int i = 0; i < GPU_SIZES && request->what == COLL_ALLTOALLV; i++)
        if (gpu_place_of(gpu, *arrays[i]) != GPU_PLACE_DEVICE)
            *arrays[i] = gpu_coll_sizes(gpu, i, *arrays[i], team->n);
    return staged;
}

weft_status coll_kernel_run(struct weft_team *team, const struct coll_request *request)
{
    struct gpu *gpu = team->job->gpu;
    weft_status status = team->coll ? WEFT_OK : prepare_team(team);
    if (status)
        return status;
    pthread_mutex_lock(&gpu->coll->lock);
    struct coll_request staged = stage_sizes(team, request);
    status = coll_kernel_enqueue(team, &staged, gpu->coll->stream);
    if (!status)
        status = gpu_enter(&gpu->device);
    if (!status) {
        status = gpu_wait_stream(gpu, gpu->coll->stream, request->function);
        gpu_leave(&gpu->device);
    }
    pthread_mutex_unlock(&gpu->coll->lock);
    /* A failure that the kernel recorded is a failure of the job. */
    return status ? status : job_check_failed(team->job);
}
