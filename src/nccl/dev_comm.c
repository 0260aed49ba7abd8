/* SPDX-License-Identifier: Apache-2.0 */
/* The host's half of nccl_device.h: what kernels get, and addresses of windows for them. */
#include "nccl/comm.h"

#include <dlfcn.h>
#include <limits.h>

enum { RESOURCE_UNIT = 128 }; /* bytes: ncclGetResourceBufferOffset() */

/* ------------------------------------------------------------------------------------- teams */

/* A communicator that can be used, for functions that have no result for an error. */
static bool has_teams(ncclComm_t comm, const char *function)
{
    if (comm_check(comm, function))
        return false;
    if (atomic_load(&comm->state) != COMM_STARTING && comm->lsa_size)
        return true;
    nccl_keep("%s: the communicator is not ready", function);
    return false;
}

ncclTeam_t ncclTeamWorld(ncclComm_t comm)
{
    ncclTeam_t none = {0, 0, 0};
    return has_teams(comm, "ncclTeamWorld") ? (ncclTeam_t){comm->size, comm->rank, 1} : none;
}

ncclTeam_t ncclTeamLsa(ncclComm_t comm)
{
    ncclTeam_t none = {0, 0, 0};
    return has_teams(comm, "ncclTeamLsa") ? ncclTeamInnerFactor(ncclTeamWorld(comm), comm->lsa_size)
                                          : none;
}

ncclTeam_t ncclTeamRail(ncclComm_t comm)
{
    ncclTeam_t none = {0, 0, 0};
    return has_teams(comm, "ncclTeamRail")
               ? ncclTeamOuterFactor(ncclTeamWorld(comm), comm->lsa_size)
               : none;
}

int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank)
{
    return ncclTeamWorld(comm).rank + (rank - team.rank) * team.stride;
}

int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank)
{
    return ncclTeamLsa(comm).rank + (rank - team.rank) * team.stride;
}

/* -------------------------------------------------------------------------------- properties */

/* NVML's index of the GPU with this PCI address; -1: NVML does not say. */
static int nvml_index(const char *bus_id)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW), *device;
    int (*init)(void), (*find)(const char *, void **), (*index_of)(void *, unsigned *);
    unsigned index;
    if (!library)
        return -1;
    *(void **)&init = dlsym(library, "nvmlInit_v2");
    *(void **)&find = dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
    *(void **)&index_of = dlsym(library, "nvmlDeviceGetIndex");
    return !init || !find || !index_of || init() || find(bus_id, &device) ||
                   index_of(device, &index)
               ? -1
               : (int)index;
}

/* Whether a structure was compiled with Weft's nccl_device.h of this version. */
static bool is_own_device_header(unsigned magic, unsigned version)
{
    return magic == WEFT_NCCL_DEVICE_MAGIC && version == WEFT_NCCL_DEVICE_VERSION;
}

ncclResult_t ncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t *properties)
{
    ncclResult_t result = comm_enter(comm, "ncclCommQueryProperties");
    if (result)
        return result;
    weft_gpu_info gpu = {.size = sizeof gpu};
    const size_t least = offsetof(ncclCommProperties_t, cftSupport); /* that of NCCL 2.31 */
    if (!properties || properties->size < least)
        result = nccl_fail(ncclInvalidArgument,
                           "ncclCommQueryProperties: properties->size is %zu, and %zu bytes are "
                           "written: begin with NCCL_COMM_PROPERTIES_INITIALIZER",
                           properties ? properties->size : 0, least);
    else
        result = nccl_result(weft_gpu_query(comm->job, &gpu));
    comm_leave(comm);
    if (result)
        return result;
    unsigned magic = properties->magic, version = properties->version;
    ncclCommProperties_t all = {
        .size = properties->size,
        .magic = magic,
        .version = version,
        .rank = comm->rank,
        .nRanks = comm->size,
        .cudaDev = comm->device,
        .nvmlDev = nvml_index(gpu.bus_id),
        .deviceApiSupport = is_own_device_header(magic, version),
        .ginType = NCCL_GIN_TYPE_PROXY,
        .nLsaTeams = comm->size / comm->lsa_size,
        .hostRmaSupport = true,
        .railedGinType = NCCL_GIN_TYPE_PROXY,
        .commHash = comm->hash,
        .ginMinStride = 1,
        .ginConnectionType = NCCL_GIN_CONNECTION_FULL,
        .devCommRuntimeVersionSize = sizeof(ncclDevComm_t),
    };
    all.ginSupport[NCCL_GIN_TYPE_PROXY] = true;
    memcpy(properties, &all, all.size < sizeof all ? all.size : sizeof all);
    return ncclSuccess;
}

/* ------------------------------------------------------------------------------ requirements */

static ncclResult_t check_header(const ncclDevCommRequirements_t *wanted)
{
    if (!wanted)
        return nccl_fail(ncclInvalidArgument, "ncclDevCommCreate: the requirements are null");
    if (wanted->magic == (unsigned)NCCL_API_MAGIC)
        return nccl_fail(
            ncclInvalidUsage,
            "ncclDevCommCreate: the program was compiled with NVIDIA's nccl_device.h "
            "(version %u); compile it with Weft's folders weft/nccl and include before "
            "NCCL's",
            wanted->version);
    if (wanted->magic != WEFT_NCCL_DEVICE_MAGIC || wanted->size < sizeof *wanted)
        return nccl_fail(ncclInvalidArgument,
                         "ncclDevCommCreate: the requirements have size %zu and magic 0x%x: begin "
                         "with NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER",
                         wanted->size, wanted->magic);
    if (wanted->version != WEFT_NCCL_DEVICE_VERSION)
        return nccl_fail(ncclInvalidUsage,
                         "ncclDevCommCreate: the program was compiled with version %u of Weft's "
                         "nccl_device.h, and the library has %u: compile it again",
                         wanted->version, WEFT_NCCL_DEVICE_VERSION);
    return ncclSuccess;
}

static ncclResult_t check_count(const char *field, int n)
{
    return n < 0 ? nccl_fail(ncclInvalidArgument, "ncclDevCommCreate: %s is %d: give 0 or more",
                             field, n)
                 : ncclSuccess;
}

#define CHECK_COUNT(field)                                                                         \
    if (!result)                                                                                   \
    result = check_count(#field, wanted->field)

static ncclResult_t check_counts(const ncclDevCommRequirements_t *wanted)
{
    ncclResult_t result = ncclSuccess;
    CHECK_COUNT(barrierCount);
    CHECK_COUNT(lsaBarrierCount);
    CHECK_COUNT(railGinBarrierCount);
    CHECK_COUNT(worldGinBarrierCount);
    CHECK_COUNT(ginContextCount);
    CHECK_COUNT(ginSignalCount);
    CHECK_COUNT(ginCounterCount);
    return result;
}

static ncclResult_t refuse_wish(const char *wish, const char *remedy)
{
    return nccl_fail(ncclInvalidUsage, "ncclDevCommCreate: %s: %s", wish, remedy);
}

/* What Weft does not have. */
static ncclResult_t check_wishes(const ncclDevCommRequirements_t *wanted)
{
    static const char no_multicast[] = "windows have no multicast addresses; leave it false";
    if (wanted->lsaMultimem)
        return refuse_wish("lsaMultimem is true", no_multicast);
    for (const ncclTeamRequirements_t *team = wanted->teamRequirementsList; team; team = team->next)
        if (team->multimem)
            return refuse_wish("multimem of a team is true", no_multicast);
    if (wanted->lsaLLA2ABlockCount || wanted->lsaLLA2ASlotCount)
        return refuse_wish("lsaLLA2ABlockCount or lsaLLA2ASlotCount is not 0",
                           "there is no LL all-to-all; use ncclGin");
    if (wanted->cftCaps || wanted->cftBarrierCount)
        return refuse_wish("cftCaps or cftBarrierCount is not 0", "there is no CFT; use ncclGin");
    if (wanted->useRuntimeVersion)
        return refuse_wish("useRuntimeVersion is true",
                           "the program and its kernels are compiled with one header; leave it "
                           "false");
    if (wanted->ginType != NCCL_GIN_TYPE_NONE && wanted->ginType != NCCL_GIN_TYPE_PROXY)
        return nccl_fail(ncclInvalidUsage,
                         "ncclDevCommCreate: ginType is %d: give NCCL_GIN_TYPE_NONE or "
                         "NCCL_GIN_TYPE_PROXY",
                         (int)wanted->ginType);
    return ncclSuccess;
}

/* -------------------------------------------------------------------------------- the layout */

/* Takes `bytes` bytes of the resources. */
static ncclDevResourceHandle_t take_resource(size_t *used, size_t bytes)
{
    size_t at = *used;
    *used += (bytes + RESOURCE_UNIT - 1) / RESOURCE_UNIT * RESOURCE_UNIT;
    return (ncclDevResourceHandle_t)(at / RESOURCE_UNIT);
}

static ncclLsaBarrierHandle_t take_lsa_barriers(size_t *used, int n, int ranks)
{
    return (ncclLsaBarrierHandle_t){take_resource(used, weft_nccl_barrier_bytes(n, ranks)), n};
}

static ncclGinBarrierHandle_t take_gin_barriers(size_t *used, int n, int ranks)
{
    return (ncclGinBarrierHandle_t){take_resource(used, weft_nccl_barrier_bytes(n, ranks)), n};
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* Memory, signals and counters of resourceRequirementsList. */
static ncclResult_t take_listed(const ncclDevCommRequirements_t *wanted, ncclDevComm_t *made,
                                size_t *used)
{
    for (const ncclDevResourceRequirements_t *r = wanted->resourceRequirementsList; r;
         r = r->next) {
        if (r->bufferAlign > RESOURCE_UNIT || r->ginSignalCount < 0 || r->ginCounterCount < 0)
            return nccl_fail(ncclInvalidArgument,
                             "ncclDevCommCreate: a resource with an alignment of %zu bytes, %d "
                             "signals and %d counters: give up to %d bytes, and counts from 0 on",
                             r->bufferAlign, r->ginSignalCount, r->ginCounterCount, RESOURCE_UNIT);
        ncclDevResourceHandle_t handle = take_resource(used, r->bufferSize);
        if (r->outBufferHandle)
            *r->outBufferHandle = handle;
        if (r->outGinSignalStart)
            *r->outGinSignalStart = (ncclGinSignal_t)made->ginSignalCount;
        if (r->outGinCounterStart)
            *r->outGinCounterStart = (ncclGinCounter_t)made->ginCounterCount;
        made->ginSignalCount += r->ginSignalCount;
        made->ginCounterCount += r->ginCounterCount;
    }
    return ncclSuccess;
}

/* The places of all resources. *used: their bytes. */
static ncclResult_t lay_out(ncclComm_t comm, const ncclDevCommRequirements_t *wanted,
                            ncclDevComm_t *made, size_t *used)
{
    int lsa = comm->lsa_size, rail = comm->size / lsa;
    *used = 0;
    made->lsaBarrier =
        take_lsa_barriers(used, larger(wanted->lsaBarrierCount, wanted->barrierCount), lsa);
    made->hybridLsaBarrier = take_lsa_barriers(used, wanted->barrierCount, lsa);
    made->railGinBarrier =
        take_gin_barriers(used, larger(wanted->railGinBarrierCount, wanted->barrierCount), rail);
    made->hybridRailGinBarrier = take_gin_barriers(used, wanted->barrierCount, rail);
    made->worldGinBarrier = take_gin_barriers(
        used, larger(wanted->worldGinBarrierCount, wanted->barrierCount), comm->size);
    made->ginContextCount = larger(wanted->ginContextCount, 1);
    made->ginSignalCount = wanted->ginSignalCount;
    made->ginCounterCount = wanted->ginCounterCount;
    ncclResult_t result = take_listed(wanted, made, used);
    size_t contexts = (size_t)made->ginContextCount * sizeof(uint64_t);
    made->gin_signals = take_resource(used, contexts * (size_t)made->ginSignalCount);
    made->gin_counters = take_resource(used, contexts * (size_t)made->ginCounterCount);
    made->gin_shadows = take_resource(used, contexts * (size_t)made->ginSignalCount);
    if (!result && *used / RESOURCE_UNIT > UINT32_MAX)
        result = nccl_fail(ncclInvalidArgument, "ncclDevCommCreate: %zu bytes of resources", *used);
    return result;
}

/* ---------------------------------------------------------------------------------- creation */

/* Allocates the resources, and makes a window of them. */
static ncclResult_t make_resources(ncclComm_t comm, ncclDevComm_t *made, size_t bytes)
{
    struct window window = {.comm = comm, .bytes = bytes, .resources = true};
    ncclResult_t result = comm_result(
        comm, weft_alloc(comm->job, WEFT_GPU, bytes, 256, WEFT_ALLOC_ZERO, &window.address));
    if (result)
        return result;
    window.symmetric = window.address;
    return window_make(comm, &window, &made->resources, &made->resourceWindow);
}

static ncclResult_t create(ncclComm_t comm, const ncclDevCommRequirements_t *wanted,
                           ncclDevComm_t *made)
{
    size_t bytes;
    *made = (ncclDevComm_t){.magic = WEFT_NCCL_DEVICE_MAGIC,
                            .version = WEFT_NCCL_DEVICE_VERSION,
                            .rank = comm->rank,
                            .nRanks = comm->size,
                            .lsaRank = comm->rank % comm->lsa_size,
                            .lsaSize = comm->lsa_size};
    ncclResult_t result = lay_out(comm, wanted, made, &bytes);
    if (!result)
        result = comm_result(comm, weft_device_state(comm->job, WEFT_DEV_VERSION, &made->weft));
    return result ? result : make_resources(comm, made, bytes ? bytes : RESOURCE_UNIT);
}

ncclResult_t ncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements_t *wanted,
                               ncclDevComm_t *made)
{
    ncclResult_t result = comm_enter(comm, "ncclDevCommCreate");
    if (result)
        return result;
    result = check_header(wanted);
    if (!result && !made)
        result = nccl_fail(ncclInvalidArgument, "ncclDevCommCreate: the result is null");
    if (!result)
        result = check_counts(wanted);
    if (!result)
        result = check_wishes(wanted);
    if (!result)
        result = create(comm, wanted, made);
    comm_leave(comm);
    return result;
}

ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const ncclDevComm_t *made)
{
    ncclResult_t result = comm_check(comm, "ncclDevCommDestroy");
    if (result)
        return result;
    const struct window *found = made ? window_find(made->resourceWindow) : NULL;
    if (!found || found->comm != comm || !found->resources)
        return nccl_fail(
            ncclInvalidArgument,
            "ncclDevCommDestroy: this is no ncclDevComm of the communicator, or it has "
            "been destroyed");
    struct window ended = window_end(made->resourceWindow);
    return atomic_load(&comm->state) == COMM_READY
               ? comm_result(comm, weft_free(comm->job, ended.address))
               : ncclSuccess;
}

/* --------------------------------------------------------------------------------- addresses */

/* The window, if the place is in it and peers can reach it. */
static ncclResult_t find_place(const char *function, ncclWindow_t handle, size_t offset,
                               void **address, const struct window **window)
{
    *window = window_find(handle);
    if (!*window || !address)
        return nccl_fail(ncclInvalidArgument, "%s: %s", function,
                         address ? "there is no such window" : "the result is null");
    *address = NULL;
    if (offset >= (*window)->bytes)
        return nccl_fail(ncclInvalidArgument, "%s: offset %zu of a window of %zu bytes", function,
                         offset, (*window)->bytes);
    return (*window)->symmetric
               ? ncclSuccess
               : nccl_fail(ncclInvalidUsage,
                           "%s: peers cannot reach this window's memory; allocate it with "
                           "ncclMemAlloc()",
                           function);
}

ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t handle, size_t offset, int peer, void **address)
{
    const struct window *window;
    ncclResult_t result = find_place("ncclGetPeerDevicePointer", handle, offset, address, &window);
    if (result)
        return result;
    ncclComm_t comm = window->comm;
    if (peer < 0 || peer >= comm->size)
        return nccl_fail(ncclInvalidArgument,
                         "ncclGetPeerDevicePointer: peer is %d, and there are %d ranks", peer,
                         comm->size);
    if (peer / comm->lsa_size == comm->rank / comm->lsa_size)
        *address = weft_ptr(comm->job, window->symmetric + offset, peer);
    return ncclSuccess;
}

ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t handle, size_t offset, int lsa_rank,
                                     void **address)
{
    const struct window *window;
    ncclResult_t result = find_place("ncclGetLsaDevicePointer", handle, offset, address, &window);
    if (result)
        return result;
    ncclComm_t comm = window->comm;
    if (lsa_rank < 0 || lsa_rank >= comm->lsa_size)
        return nccl_fail(ncclInvalidArgument,
                         "ncclGetLsaDevicePointer: rank %d, and the LSA team has %d ranks",
                         lsa_rank, comm->lsa_size);
    int first = comm->rank / comm->lsa_size * comm->lsa_size;
    *address = weft_ptr(comm->job, window->symmetric + offset, first + lsa_rank);
    return ncclSuccess;
}

ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t handle, size_t offset, void **address)
{
    const struct window *window;
    ncclResult_t result =
        find_place("ncclGetLsaMultimemDevicePointer", handle, offset, address, &window);
    return result ? result
                  : nccl_fail(ncclInvalidUsage,
                              "ncclGetLsaMultimemDevicePointer: windows have no multicast "
                              "addresses; use ncclGetLsaDevicePointer()");
}

ncclResult_t ncclGetMultimemDevicePointer(ncclWindow_t handle, size_t offset,
                                          ncclMultimemHandle_t multimem, void **address)
{
    (void)multimem;
    return ncclGetLsaMultimemDevicePointer(handle, offset, address);
}

/* ---------------------------------------------------------------- barriers of the program's own */

static ncclResult_t require_barriers(const char *function, ncclTeam_t team, int n,
                                     ncclDevResourceHandle_t *handle,
                                     ncclDevResourceRequirements_t *requirement)
{
    if (n < 0 || team.nRanks < 1 || !handle || !requirement)
        return nccl_fail(ncclInvalidArgument, "%s: %d barriers of a team of %d ranks%s", function,
                         n, team.nRanks, handle && requirement ? "" : ", and a result is null");
    *requirement =
        (ncclDevResourceRequirements_t){.bufferSize = weft_nccl_barrier_bytes(n, team.nRanks),
                                        .bufferAlign = RESOURCE_UNIT,
                                        .outBufferHandle = handle};
    return ncclSuccess;
}

ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam_t team, int n, ncclLsaBarrierHandle_t *handle,
                                             ncclDevResourceRequirements_t *requirement)
{
    ncclResult_t result = require_barriers("ncclLsaBarrierCreateRequirement", team, n,
                                           handle ? &handle->bufHandle : NULL, requirement);
    if (!result)
        handle->nBarriers = n;
    return result;
}

ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t team, int n,
                                             ncclGinBarrierHandle_t *handle,
                                             ncclDevResourceRequirements_t *requirement)
{
    ncclResult_t result = comm_check(comm, "ncclGinBarrierCreateRequirement");
    if (!result)
        result = require_barriers("ncclGinBarrierCreateRequirement", team, n,
                                  handle ? &handle->bufHandle : NULL, requirement);
    if (!result)
        handle->nBarriers = n;
    return result;
}
