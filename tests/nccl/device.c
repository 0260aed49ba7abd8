/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of nccl_device.h: the host's functions, and kernels. On the stand-in of the CUDA driver
 * the kernels run on CPU threads, which find the GPU memory at its addresses; on a GPU the driver
 * compiles their PTX. Arguments: a case, ranks, ranks of an LSA team. Case threads has one process,
 * and ranks that are its threads. */
#include "nccl_test.h"

#include "device_call.h"
#include "fakecuda/fake.h"

#include <pthread.h>
#include <sys/mman.h>

#ifdef DEVICE_PTX
__asm__(".pushsection .rodata\n"
        "device_ptx: .incbin \"" DEVICE_PTX "\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char device_ptx[] __attribute__((visibility("hidden")));
#else
static const char device_ptx[] = "";
#endif

static int lsa_size;

/* ---------------------------------------------------------------------------------- launching */

/* Makes the memory of the stand-in's GPUs accessible at their addresses too. */
static void map_fake_memory(const struct object *fake, int end)
{
    for (int i = 0; i < end; i++) {
        const struct object *o = &fake[i];
        uintptr_t from = o->base - (o->kind == DEVICE ? o->lead : 0);
        size_t bytes = o->bytes + (o->base - from);
        if (o->kind != MAPPING && o->kind != DEVICE)
            continue;
        CHECK(mremap(memory_at(from), 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)from) ==
              (void *)from);
    }
}

/* The kernels of a GPU, and a stream. A thread uses one GPU. */
static _Thread_local void *functions[KERNEL_COUNT];
static _Thread_local cudaStream_t stream;

static const struct object *fake_objects(const int **end)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    *end = dlsym(library, "objects_end");
    return dlsym(library, "objects");
}

/* Before any kernel runs: loading may wait for the kernels of other threads, which may wait for
 * this one. */
static void load_kernels(void)
{
    static const char *const names[] = {
#define NAME(name) "nccl_test_" #name,
        DEVICE_KERNELS(NAME)
#undef NAME
    };
    const int *end;
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *module;
    int (*load)(void **, const void *), (*get)(void **, void *, const char *);
    if (fake_objects(&end) || functions[0])
        return;
    if (!*device_ptx)
        _exit(77); /* no compiler for kernels */
    load_function(library, &load, "cuModuleLoadData");
    load_function(library, &get, "cuModuleGetFunction");
    CHECK(!load(&module, device_ptx));
    for (int kernel = 0; kernel < KERNEL_COUNT; kernel++)
        CHECK(!get(&functions[kernel], module, names[kernel]));
    CHECK(!cuda.stream_create(&stream, 1)); /* which does not wait for those of other threads */
}

static void launch_on_gpu(enum device_kernel kernel, const struct device_call *call)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *argument = (void *)call;
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  void *, void **, void **);
    load_function(library, &launch, "cuLaunchKernel");
    CHECK(!launch(functions[kernel], BLOCKS, 1, 1, THREADS, 1, 1, 0, stream, &argument, NULL));
    finish(stream);
}

/* Runs a kernel, and waits. The job may have failed. */
static void run_kernel(enum device_kernel kernel, const struct device_call *call)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const int *end;
    const struct object *fake = fake_objects(&end);
    if (!fake) {
        launch_on_gpu(kernel, call);
        return;
    }
    pthread_mutex_lock(&lock);
    map_fake_memory(fake, *end);
    pthread_mutex_unlock(&lock);
    CHECK(!device_run_here(kernel, call));
}

/* --------------------------------------------------------------------------------- one program */

struct program {
    ncclComm_t comm;
    void *memory;
    struct device_call call;
};

static void open_on(struct program *p, ncclComm_t comm)
{
    ncclDevCommRequirements_t wanted = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
    ncclDevResourceRequirements_t more[3] = {{.next = &more[1],
                                              .bufferSize = 1000,
                                              .outBufferHandle = &p->call.buffer,
                                              .ginSignalCount = 2,
                                              .ginCounterCount = 1,
                                              .outGinSignalStart = &p->call.signal,
                                              .outGinCounterStart = &p->call.counter}};
    p->comm = comm;
    OK(ncclLsaBarrierCreateRequirement(ncclTeamLsa(comm), 16, &p->call.lsa_handle, &more[1]));
    OK(ncclGinBarrierCreateRequirement(comm, ncclTeamWorld(comm), BLOCKS, &p->call.gin_handle,
                                       &more[2]));
    more[1].next = &more[2];
    load_kernels();
    p->call.out = gpu_memory(2 * sizeof *p->call.out);
    wanted.resourceRequirementsList = more;
    wanted.barrierCount = BLOCKS;
    wanted.lsaBarrierCount = BLOCKS;
    wanted.railGinBarrierCount = BLOCKS;
    wanted.worldGinBarrierCount = BLOCKS;
    wanted.ginContextCount = BLOCKS;
    wanted.ginSignalCount = 14;  /* and 2 more: whole units of the layout */
    wanted.ginCounterCount = 14; /* the same number as that of the signal */
    OK(ncclMemAlloc(&p->memory, WINDOW_BYTES));
    OK(ncclCommWindowRegister(comm, p->memory, WINDOW_BYTES, &p->call.window,
                              NCCL_WIN_COLL_SYMMETRIC));
    OK(ncclDevCommCreate(comm, &wanted, &p->call.comm));
    CHECK(p->call.signal == 14 && p->call.counter == 14);
}

static void open_program(struct program *p, ncclUniqueId id)
{
    ncclComm_t comm;
    OK(ncclCommInitRank(&comm, ranks, id, me));
    open_on(p, comm);
}

static void close_program(struct program *p)
{
    gpu_free(p->call.out);
    OK(ncclDevCommDestroy(p->comm, &p->call.comm));
    FAILS(ncclDevCommDestroy(p->comm, &p->call.comm), ncclInvalidArgument, "no ncclDevComm");
    OK(ncclCommWindowDeregister(p->comm, p->call.window));
    OK(ncclMemFree(p->memory));
    OK(ncclCommDestroy(p->comm));
}

/* Runs a kernel of which every check is right. */
static void run_checked(struct program *p, enum device_kernel kernel, int first, int rounds)
{
    uint64_t out[2] = {0};
    ncclResult_t error;
    to_gpu(p->call.out, out, sizeof out);
    p->call.first = first;
    p->call.rounds = rounds;
    run_kernel(kernel, &p->call);
    OK(ncclCommGetAsyncError(p->comm, &error));
    from_gpu(out, p->call.out, sizeof out);
    if (out[0] || error)
        fprintf(stderr, "rank %d: kernel %d: %llu checks failed, one in line %llu; %s\n", me,
                (int)kernel, (unsigned long long)out[0], (unsigned long long)out[1],
                ncclGetLastError(p->comm));
    CHECK(!out[0] && !error);
}

/* ---------------------------------------------------------------------------------------- cases */

static void kernels(ncclUniqueId id)
{
    struct program p = {0}, second = {0};
    ncclComm_t split;
    open_program(&p, id);
    for (int launch = 0; launch < 2; launch++)
        for (int kernel = 0; kernel <= KERNEL_barriers; kernel++)
            run_checked(&p, (enum device_kernel)kernel, 3 * launch, 3);
    /* Another communicator of the process has its own state. */
    OK(ncclCommSplit(p.comm, 0, -me, &split, NULL));
    open_on(&second, split);
    CHECK(second.call.comm.rank == ranks - 1 - me);
    for (int kernel = 0; kernel <= KERNEL_barriers; kernel++) {
        run_checked(&second, (enum device_kernel)kernel, 0, 2);
        run_checked(&p, (enum device_kernel)kernel, 6, 2);
    }
    close_program(&second);
    close_program(&p);
}

static void teams(const struct program *p)
{
    ncclTeam_t world = ncclTeamWorld(p->comm), lsa = ncclTeamLsa(p->comm);
    ncclTeam_t rail = ncclTeamRail(p->comm);
    CHECK(world.nRanks == ranks && world.rank == me && world.stride == 1);
    CHECK(lsa.nRanks == lsa_size && lsa.rank == me % lsa_size && lsa.stride == 1);
    CHECK(rail.nRanks == ranks / lsa_size && rail.rank == me / lsa_size && rail.stride == lsa_size);
    for (int rank = 0; rank < ranks; rank++)
        CHECK(ncclTeamRankIsMember(rail, world, rank) == (rank % lsa_size == me % lsa_size));
    for (int rank = 0; rank < rail.nRanks; rank++) {
        int there = ncclTeamRankToWorld(p->comm, rail, rank);
        CHECK(there == rank * lsa_size + me % lsa_size);
        CHECK(ncclTeamRankToTeam(world, rail, rank) == there);
        CHECK(ncclTeamRankIsMember(lsa, world, there) == (there == me));
    }
    CHECK(ncclTeamRankToLsa(p->comm, world, me) == lsa.rank);
    for (int i = 0; i < ranks - lsa_size; i++) {
        int rank = ncclTeamRankInDifference(world, lsa, i);
        CHECK(rank == i + (i >= me / lsa_size * lsa_size ? lsa_size : 0));
    }
    CHECK(ncclTeamWorld(NULL).nRanks == 0);
}

static void pointers(const struct program *p)
{
    void *address, *other;
    int first = me / lsa_size * lsa_size;
    for (int rank = 0; rank < ranks; rank++) {
        OK(ncclGetPeerDevicePointer(p->call.window, 8, rank, &address));
        CHECK(!address == (rank / lsa_size != me / lsa_size));
        if (!address)
            continue;
        OK(ncclGetLsaDevicePointer(p->call.window, 8, rank - first, &other));
        CHECK(address == other);
    }
    FAILS(ncclGetPeerDevicePointer(p->call.window, 8, ranks, &address), ncclInvalidArgument,
          "peer is");
    FAILS(ncclGetLsaDevicePointer(p->call.window, 8, lsa_size, &address), ncclInvalidArgument,
          "the LSA team has");
    FAILS(ncclGetLsaDevicePointer(p->call.window, WINDOW_BYTES, 0, &address), ncclInvalidArgument,
          "of a window of 262144 bytes");
    FAILS(ncclGetLsaDevicePointer(NULL, 0, 0, &address), ncclInvalidArgument, "no such window");
    FAILS(ncclGetLsaMultimemDevicePointer(p->call.window, 0, &address), ncclInvalidUsage,
          "no multicast addresses");
    ncclWindow_t plain;
    OK(ncclCommWindowRegister(p->comm, p->call.out, 16, &plain, 0));
    FAILS(ncclGetPeerDevicePointer(plain, 0, me, &address), ncclInvalidUsage,
          "allocate it with ncclMemAlloc()");
    OK(ncclCommWindowDeregister(p->comm, plain));
    FAILS(ncclWinGetUserPtr(p->comm, plain, &address), ncclInvalidArgument, "no such window");
    FAILS(ncclCommWindowDeregister(p->comm, p->call.comm.resourceWindow), ncclInvalidArgument,
          "ncclDevCommDestroy()");
}

static void properties(const struct program *p)
{
    ncclCommProperties_t seen = NCCL_COMM_PROPERTIES_INITIALIZER, of_nvidia = seen;
    OK(ncclCommQueryProperties(p->comm, &seen));
    CHECK(seen.rank == me && seen.nRanks == ranks && seen.nLsaTeams == ranks / lsa_size);
    CHECK(seen.deviceApiSupport && !seen.multimemSupport && seen.hostRmaSupport);
    CHECK(seen.ginType == NCCL_GIN_TYPE_PROXY && seen.ginSupport[NCCL_GIN_TYPE_PROXY]);
    CHECK(!seen.ginSupport[NCCL_GIN_TYPE_GDAKI] && seen.commHash);
    of_nvidia.magic = (unsigned)NCCL_API_MAGIC;
    OK(ncclCommQueryProperties(p->comm, &of_nvidia));
    CHECK(!of_nvidia.deviceApiSupport && of_nvidia.commHash == seen.commHash);
    ncclCommProperties_t older = seen; /* of a program that was compiled for NCCL 2.31 */
    older.size = offsetof(ncclCommProperties_t, cftSupport);
    older.rank = -7;
    older.cftSupport = true;
    OK(ncclCommQueryProperties(p->comm, &older));
    CHECK(older.rank == me && older.cftSupport);
    of_nvidia.size = 8;
    FAILS(ncclCommQueryProperties(p->comm, &of_nvidia), ncclInvalidArgument,
          "NCCL_COMM_PROPERTIES_INITIALIZER");
}

#define REFUSED(result, text, ...)                                                                 \
    do {                                                                                           \
        ncclDevCommRequirements_t wanted = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;                 \
        __VA_ARGS__;                                                                               \
        FAILS(ncclDevCommCreate(p->comm, &wanted, &made), result, text);                           \
    } while (0)

static void requirements(const struct program *p)
{
    ncclDevComm_t made;
    ncclTeamRequirements_t team = {.multimem = true};
    ncclDevResourceRequirements_t resource = {.bufferAlign = 256};
    REFUSED(ncclInvalidUsage, "NVIDIA's nccl_device.h (version 23102)",
            wanted.magic = (unsigned)NCCL_API_MAGIC, wanted.version = 23102);
    REFUSED(ncclInvalidUsage, "compile it again", wanted.version--);
    REFUSED(ncclInvalidArgument, "magic 0x7", wanted.magic = 7);
    REFUSED(ncclInvalidArgument, "have size 8", wanted.size = 8);
    REFUSED(ncclInvalidArgument, "worldGinBarrierCount is -1", wanted.worldGinBarrierCount = -1);
    REFUSED(ncclInvalidArgument, "alignment of 256 bytes",
            wanted.resourceRequirementsList = &resource);
    REFUSED(ncclInvalidUsage, "lsaMultimem is true", wanted.lsaMultimem = true);
    REFUSED(ncclInvalidUsage, "multimem of a team", wanted.teamRequirementsList = &team);
    REFUSED(ncclInvalidUsage, "no LL all-to-all", wanted.lsaLLA2ABlockCount = 1);
    REFUSED(ncclInvalidUsage, "no CFT", wanted.cftCaps = NCCL_CFT);
    REFUSED(ncclInvalidUsage, "useRuntimeVersion", wanted.useRuntimeVersion = true);
    REFUSED(ncclInvalidUsage, "ginType is 3", wanted.ginType = NCCL_GIN_TYPE_GDAKI);
    FAILS(ncclDevCommCreate(p->comm, NULL, &made), ncclInvalidArgument, "requirements are null");
}

static void host(ncclUniqueId id)
{
    struct program p = {0};
    open_program(&p, id);
    teams(&p);
    pointers(&p);
    properties(&p);
    requirements(&p);
    close_program(&p);
}

/* The ranks are threads of one process. */
static ncclComm_t comms[MOST_RANKS];

static void *run_thread(void *argument)
{
    struct program p = {0};
    int rank = (int)(intptr_t)argument;
    use_gpu(rank);
    me = rank;
    open_on(&p, comms[rank]);
    CHECK(p.call.comm.rank == rank);
    for (int kernel = 0; kernel <= KERNEL_barriers; kernel++)
        run_checked(&p, (enum device_kernel)kernel, 0, 2);
    gpu_free(p.call.out);
    OK(ncclDevCommDestroy(p.comm, &p.call.comm));
    OK(ncclCommWindowDeregister(p.comm, p.call.window));
    OK(ncclMemFree(p.memory));
    return NULL;
}

static void threads(ncclUniqueId id)
{
    pthread_t made[MOST_RANKS];
    int n = lsa_size, devices[MOST_RANKS], gpus = 0;
    (void)id;
    CHECK(!cuda.device_count(&gpus));
    for (int rank = 0; rank < n; rank++)
        devices[rank] = rank % gpus;
    OK(ncclCommInitAll(comms, n, devices));
    for (int rank = 0; rank < n; rank++)
        CHECK(!pthread_create(&made[rank], NULL, run_thread, (void *)(intptr_t)rank));
    for (int rank = 0; rank < n; rank++)
        CHECK(!pthread_join(made[rank], NULL));
    for (int rank = 0; rank < n; rank++)
        OK(ncclCommDestroy(comms[rank]));
}

/* A kernel that fails fails the communicator, at this rank or at all. */
static void fails(ncclUniqueId id, enum device_kernel kernel, const char *sentence)
{
    struct program p = {0};
    ncclResult_t error;
    open_program(&p, id);
    run_kernel(kernel, &p.call);
    do /* a rank whose kernel ended well waits for the failure of another one */
        OK(ncclCommGetAsyncError(p.comm, &error));
    while (!error && kernel == KERNEL_alone);
    if (!error || !strstr(ncclGetLastError(p.comm), sentence))
        fprintf(stderr, "rank %d: %d: \"%s\", wanted \"%s\"\n", me, (int)error,
                ncclGetLastError(p.comm), sentence);
    CHECK(error && strstr(ncclGetLastError(p.comm), sentence));
    _exit(0);
}

static void bad_index(ncclUniqueId id)
{
    fails(id, KERNEL_bad_index, "barrier: number 99, and there are 2; ask ncclDevCommCreate()");
}

/* WEFT_WAIT_LIMIT is a second. */
static void alone(ncclUniqueId id)
{
    fails(id, KERNEL_alone, me ? "" : "signal_wait");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*body)(ncclUniqueId);
    } cases[] = {{"kernels", kernels},
                 {"host", host},
                 {"bad_index", bad_index},
                 {"alone", alone},
                 {"threads", threads}};
    const char *wanted = argc > 1 ? argv[1] : "kernels";
    int n = argc > 2 ? atoi(argv[2]) : 2;
    lsa_size = argc > 3 ? atoi(argv[3]) : n;
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(wanted, cases[i].name) == 0)
            return run_ranks(n, cases[i].body, NULL);
    fprintf(stderr, "device: there is no case %s\n", wanted);
    return 1;
}
