/* SPDX-License-Identifier: Apache-2.0 */
/* <nvshmem.h>: set-up, memory and teams. */
#ifndef WEFT_NVSHMEM_SETUP_H
#define WEFT_NVSHMEM_SETUP_H

#include <weft/nvshmem/types.h>

/* ------------------------------------------------------------------------------ init, finalize */

/* The sizes are fixed by the interface: 128, 24, 128 and 144 bytes. Names with a version are names
 * of the same types: NVSHMEM's versions have equal sizes, and fields that a version does not have
 * are reserved in it. */
typedef struct nvshmemx_uniqueid {
    int version;
    char internal[WEFT_NVSHMEM_ID_BYTES];
} nvshmemx_uniqueid_t;
typedef nvshmemx_uniqueid_t nvshmemx_uniqueid_v1;

typedef struct nvshmemx_uniqueid_args {
    int version;
    nvshmemx_uniqueid_t *id;
    int myrank, nranks;
} nvshmemx_uniqueid_args_t;
typedef nvshmemx_uniqueid_args_t nvshmemx_uniqueid_args_v1;

typedef struct nvshmemx_init_args {
    int version;
    nvshmemx_uniqueid_args_t uid_args;
    int cuda_device_id; /* in code that nvcc compiles: the device to use, -1 = no preference */
    char reserved[92];
} nvshmemx_init_args_t;
typedef nvshmemx_init_args_t nvshmemx_init_args_v1;
typedef nvshmemx_init_args_t nvshmemx_init_args_v2;

typedef struct nvshmemx_init_attr {
    int version;
    void *mpi_comm; /* MPI_Comm * */
    nvshmemx_init_args_t args;
} nvshmemx_init_attr_t;
typedef nvshmemx_init_attr_t nvshmemx_init_attr_v1;
typedef nvshmemx_init_attr_t nvshmemx_init_attr_v2;

#define WEFT_NV_VERSION(T) ((1 << 16) + (int)sizeof(T))
#define NVSHMEMX_UNIQUEID_INITIALIZER                                                              \
    {                                                                                              \
        WEFT_NV_VERSION(nvshmemx_uniqueid_t),                                                      \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }
#define NVSHMEMX_UNIQUEID_ARGS_INITIALIZER                                                         \
    {                                                                                              \
        WEFT_NV_VERSION(nvshmemx_uniqueid_args_t), NULL, 0, 0                                      \
    }
#define NVSHMEMX_INIT_ARGS_INITIALIZER                                                             \
    {                                                                                              \
        WEFT_NV_VERSION(nvshmemx_init_args_t), NVSHMEMX_UNIQUEID_ARGS_INITIALIZER, -1,             \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }
#define NVSHMEMX_INIT_ATTR_INITIALIZER                                                             \
    {                                                                                              \
        WEFT_NV_VERSION(nvshmemx_init_attr_t), NULL, NVSHMEMX_INIT_ARGS_INITIALIZER                \
    }

WEFT_NV_HOST void nvshmem_init(void)
{
    if (weft_nvshmem_init(NULL, 0, 0))
        exit(1);
}

/* Serialized: calls come from one thread at a time, whatever level is requested. */
WEFT_NV_HOST int nvshmem_init_thread(int requested, int *provided)
{
    (void)requested;
    *provided = NVSHMEM_THREAD_SERIALIZED;
    return weft_nvshmem_init(NULL, 0, 0) ? NVSHMEMX_ERROR_INTERNAL : 0;
}

WEFT_NV_HOST void nvshmem_query_thread(int *provided)
{
    *provided = NVSHMEM_THREAD_SERIALIZED;
}

WEFT_NV_HOST void nvshmem_finalize(void)
{
    weft_nvshmem_finalize();
}

WEFT_NV_HOST int nvshmemx_init_status(void)
{
    return weft_nvshmem_inits() ? NVSHMEM_STATUS_IS_INITIALIZED : NVSHMEM_STATUS_NOT_INITIALIZED;
}

WEFT_NV_HOST int nvshmemx_get_uniqueid(nvshmemx_uniqueid_t *id)
{
    id->version = WEFT_NV_VERSION(nvshmemx_uniqueid_t);
    return weft_nvshmem_unique_id((unsigned char *)id->internal) ? NVSHMEMX_ERROR_INTERNAL : 0;
}

WEFT_NV_HOST int nvshmemx_set_attr_uniqueid_args(int myrank, int nranks,
                                                 const nvshmemx_uniqueid_t *id,
                                                 nvshmemx_init_attr_t *attr)
{
    attr->args.uid_args.id = (nvshmemx_uniqueid_t *)id;
    attr->args.uid_args.myrank = myrank;
    attr->args.uid_args.nranks = nranks;
    return 0;
}

WEFT_NV_HOST int nvshmemx_set_attr_mpi_comm_args(void *mpi_comm, nvshmemx_init_attr_t *attr)
{
    attr->mpi_comm = mpi_comm;
    return 0;
}

/* The PEs of a communicator connect by a unique id of its rank 0. The library searches the process
 * for MPI. A program that includes <mpi.h> before this header may also have linked MPI as an
 * archive, whose functions that search does not find. Weak references to them let a program without
 * MPI link too. */
#ifdef MPI_VERSION
static int weft_nv_mpi_rank(MPI_Comm comm, int *rank) __attribute__((weakref("MPI_Comm_rank")));
static int weft_nv_mpi_size(MPI_Comm comm, int *size) __attribute__((weakref("MPI_Comm_size")));
static int weft_nv_mpi_bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
    __attribute__((weakref("MPI_Bcast")));

WEFT_NV_HOST int weft_nv_init_mpi(void *mpi_comm)
{
    MPI_Comm comm = mpi_comm ? *(MPI_Comm *)mpi_comm : MPI_COMM_WORLD;
    struct weft_nv_mpi mpi = {(void *)weft_nv_mpi_rank,  (void *)weft_nv_mpi_size,
                              (void *)weft_nv_mpi_bcast, (uintptr_t)MPI_COMM_WORLD,
                              (uintptr_t)comm,           (uintptr_t)MPI_BYTE};
    return mpi.comm_rank && mpi.comm_size && mpi.bcast ? weft_nvshmem_init_mpi_by(&mpi)
                                                       : weft_nvshmem_init_mpi(mpi_comm);
}
#else
WEFT_NV_HOST int weft_nv_init_mpi(void *mpi_comm)
{
    return weft_nvshmem_init_mpi(mpi_comm);
}
#endif

/* The device that the attributes request, -1: none. Some programs only clear the attributes, or set
 * only the fields that they use: without the version that the initializer sets, the device field is
 * ignored. */
WEFT_NV_HOST int weft_nv_device_of(const nvshmemx_init_attr_t *attr)
{
    return attr && attr->args.version == WEFT_NV_VERSION(nvshmemx_init_args_t)
               ? attr->args.cuda_device_id
               : -1;
}

/* Makes `device` current: the job uses the device that is current when it begins. */
WEFT_NV_HOST int weft_nv_choose_device(int device)
{
#ifdef __CUDACC__
    if (device >= 0 && weft_target_get() == WEFT_CUDA && cudaSetDevice(device) != cudaSuccess)
        return 1;
#else
    (void)device;
#endif
    return 0;
}

WEFT_NV_HOST int nvshmemx_init_attr(unsigned flags, nvshmemx_init_attr_t *attr)
{
    int failed;
    if (weft_nvshmem_check_bits(
            "nvshmemx_init_attr: flags", flags,
            (unsigned long)(NVSHMEMX_INIT_WITH_MPI_COMM | NVSHMEMX_INIT_WITH_SHMEM |
                            NVSHMEMX_INIT_WITH_UNIQUEID | NVSHMEMX_INIT_THREAD_PES)))
        return NVSHMEMX_ERROR_INVALID_VALUE;
    if (flags & (NVSHMEMX_INIT_WITH_SHMEM | NVSHMEMX_INIT_THREAD_PES)) {
        weft_nvshmem_no_init((flags & NVSHMEMX_INIT_WITH_SHMEM) != 0);
        return NVSHMEMX_ERROR_NOT_SUPPORTED;
    }
    if ((flags && !attr) || ((flags & NVSHMEMX_INIT_WITH_UNIQUEID) && !attr->args.uid_args.id))
        return NVSHMEMX_ERROR_INVALID_VALUE;
    if (weft_nv_choose_device(weft_nv_device_of(attr)))
        return NVSHMEMX_ERROR_GPU_NOT_SELECTED;
    if (flags & NVSHMEMX_INIT_WITH_UNIQUEID)
        failed = weft_nvshmem_init((const unsigned char *)attr->args.uid_args.id->internal,
                                   attr->args.uid_args.myrank, attr->args.uid_args.nranks);
    else if (flags & NVSHMEMX_INIT_WITH_MPI_COMM)
        failed = weft_nv_init_mpi(attr->mpi_comm);
    else
        failed = weft_nvshmem_init(NULL, 0, 0);
    return failed ? NVSHMEMX_ERROR_INTERNAL : 0;
}

WEFT_NV_HOST int nvshmemx_hostlib_init_attr(unsigned flags, nvshmemx_init_attr_t *attr)
{
    return nvshmemx_init_attr(flags, attr);
}

WEFT_NV_HOST void nvshmemx_hostlib_finalize(void)
{
    weft_nvshmem_finalize();
}

WEFT_NV_BOTH int nvshmem_my_pe(void)
{
    WEFT_NV_SPLIT(return weft_dev_my_pe(), return weft_my_pe(weft_nvshmem_job()));
}

WEFT_NV_BOTH int nvshmem_n_pes(void)
{
    WEFT_NV_SPLIT(return weft_dev_n_pes(), return weft_n_pes(weft_nvshmem_job()));
}

/* In device code the job fails at the host's next call, because a kernel cannot end a process. */
WEFT_NV_BOTH void nvshmem_global_exit(int code)
{
    (void)code;
    WEFT_NV_SPLIT(weft_dev_fail(WEFT_ERR_JOB), weft_abort(weft_nvshmem_job(), code));
}

WEFT_NV_BOTH void nvshmem_info_get_version(int *major, int *minor)
{
    *major = NVSHMEM_MAJOR_VERSION;
    *minor = NVSHMEM_MINOR_VERSION;
}

/* Copies NVSHMEM_VENDOR_STRING, which begins with "NVSHMEM v" and three numbers. */
WEFT_NV_BOTH void nvshmem_info_get_name(char *name)
{
    const char text[] = NVSHMEM_VENDOR_STRING;
    for (unsigned i = 0; i < sizeof text; i++)
        name[i] = text[i];
}

WEFT_NV_BOTH void nvshmemx_vendor_get_version_info(int *major, int *minor, int *patch)
{
    *major = NVSHMEM_VENDOR_MAJOR_VERSION;
    *minor = NVSHMEM_VENDOR_MINOR_VERSION;
    *patch = NVSHMEM_VENDOR_PATCH_VERSION;
}

/* Gives the device state to a module loaded through the driver API; see weft_module_init(). */
WEFT_NV_HOST int nvshmemx_cumodule_init(void *module)
{
    return weft_nvshmem_report(weft_module_init(weft_nvshmem_job(), module),
                               "nvshmemx_cumodule_init");
}

WEFT_NV_HOST int nvshmemx_cumodule_finalize(void *module)
{
    (void)module;
    return 0;
}

/* The same for a CUlibrary. */
WEFT_NV_HOST int nvshmemx_culibrary_init(void *library)
{
    return weft_nvshmem_report(weft_nvshmem_library(library), "nvshmemx_culibrary_init");
}

WEFT_NV_HOST int nvshmemx_culibrary_finalize(void *library)
{
    (void)library;
    return 0;
}

/* ----------------------------------------------------------------------------------- memory */

WEFT_NV_HOST void *nvshmem_malloc(size_t size)
{
    return weft_nvshmem_alloc(size, 512, 0);
}

WEFT_NV_HOST void *nvshmem_calloc(size_t count, size_t size)
{
    return size && count > (size_t)-1 / size ? NULL : weft_nvshmem_alloc(count * size, 512, 1);
}

WEFT_NV_HOST void *nvshmem_align(size_t alignment, size_t size)
{
    return weft_nvshmem_alloc(size, alignment, 0);
}

/* Keeps the contents of the old block up to the smaller size. A null ptr makes it nvshmem_malloc(),
 * a size of 0 bytes nvshmem_free(). */
WEFT_NV_HOST void *nvshmem_realloc(void *ptr, size_t size)
{
    return weft_nvshmem_resize(ptr, size);
}

/* nvshmem_finalize() frees all blocks: after it this function does nothing. */
WEFT_NV_HOST void nvshmem_free(void *ptr)
{
    if (weft_nvshmem_job())
        weft_nvshmem_require(weft_free(weft_nvshmem_job(), ptr), "nvshmem_free");
}

WEFT_NV_BOTH void *nvshmem_ptr(const void *dest, int pe)
{
    WEFT_NV_SPLIT(return weft_dev_ptr(dest, pe), return weft_ptr(weft_nvshmem_job(), dest, pe));
}

/* The multicast address of a team, at which a store reaches the memory of all its PEs. Weft has no
 * multicast, so it is NULL, as on hardware without multicast. */
WEFT_NV_BOTH void *nvshmemx_mc_ptr(nvshmem_team_t team, const void *ptr)
{
    (void)team;
    (void)ptr;
    return NULL;
}

/* Unregistered memory of the program's own allocator may also be a local source or destination. */
WEFT_NV_HOST int nvshmemx_buffer_register(void *addr, size_t length)
{
    return weft_nvshmem_report(weft_nvshmem_buffer(addr, length), "nvshmemx_buffer_register")
               ? NVSHMEMX_ERROR_INVALID_VALUE
               : 0;
}

WEFT_NV_HOST int nvshmemx_buffer_unregister(void *addr)
{
    return !addr || weft_nvshmem_report(weft_nvshmem_buffer_end(addr), "nvshmemx_buffer_unregister")
               ? NVSHMEMX_ERROR_INVALID_VALUE
               : 0;
}

WEFT_NV_HOST void nvshmemx_buffer_unregister_all(void)
{
    weft_nvshmem_require(weft_nvshmem_buffer_end(NULL), "nvshmemx_buffer_unregister_all");
}

/* Returns the name of a status that a nvshmemx function returned, or "unknown status". */
WEFT_NV_BOTH const char *nvshmemx_status_string(int status)
{
    switch (status) {
    case NVSHMEMX_SUCCESS:
        return "NVSHMEMX_SUCCESS";
    case NVSHMEMX_ERROR_INVALID_VALUE:
        return "NVSHMEMX_ERROR_INVALID_VALUE";
    case NVSHMEMX_ERROR_OUT_OF_MEMORY:
        return "NVSHMEMX_ERROR_OUT_OF_MEMORY";
    case NVSHMEMX_ERROR_NOT_SUPPORTED:
        return "NVSHMEMX_ERROR_NOT_SUPPORTED";
    case NVSHMEMX_ERROR_SYMMETRY:
        return "NVSHMEMX_ERROR_SYMMETRY";
    case NVSHMEMX_ERROR_GPU_NOT_SELECTED:
        return "NVSHMEMX_ERROR_GPU_NOT_SELECTED";
    case NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED:
        return "NVSHMEMX_ERROR_COLLECTIVE_LAUNCH_FAILED";
    case NVSHMEMX_ERROR_INTERNAL:
        return "NVSHMEMX_ERROR_INTERNAL";
    default:
        return "unknown status";
    }
}

/* Makes `size` bytes of memory of cuMemCreate() symmetric and returns the address by which all PEs
 * reach it; NULL on failure. Collective, with equal sizes; flags is 0. See
 * weft_register_symmetric(). */
WEFT_NV_HOST void *nvshmemx_buffer_register_symmetric(void *buf_ptr, size_t size, int flags)
{
    return weft_nvshmem_buffer_symmetric(buf_ptr, size, flags);
}

/* Ends the registration at that address, whatever `size` is; collective. */
WEFT_NV_HOST int nvshmemx_buffer_unregister_symmetric(void *mmap_ptr, size_t size)
{
    (void)size;
    return weft_nvshmem_report(weft_nvshmem_buffer_symmetric_end(mmap_ptr),
                               "nvshmemx_buffer_unregister_symmetric")
               ? NVSHMEMX_ERROR_INVALID_VALUE
               : 0;
}

/* ------------------------------------------------------------------------------------ teams */

typedef uint64_t nvshmemx_team_uniqueid_t;
typedef nvshmemx_team_uniqueid_t nvshmemx_team_uniqueid_v1;

/* 64 bytes, fixed by the interface. */
typedef struct nvshmem_team_config {
    int version;
    int num_contexts;
    nvshmemx_team_uniqueid_t uniqueid;
    char padding[48];
} nvshmem_team_config_t;
typedef nvshmem_team_config_t nvshmem_team_config_v1;
typedef nvshmem_team_config_t nvshmem_team_config_v2;
#define NVSHMEM_TEAM_CONFIG_INITIALIZER                                                            \
    {                                                                                              \
        WEFT_NV_VERSION(nvshmem_team_config_t), 0, 0,                                              \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }
/* Fields of a config that have an effect. */
#define NVSHMEM_TEAM_NUM_CONTEXTS             (1l << 0)
#define NVSHMEM_TEAM_CONFIG_MASK_NUM_CONTEXTS NVSHMEM_TEAM_NUM_CONTEXTS
#define NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID     (1l << 1)

WEFT_NV_BOTH int nvshmem_team_my_pe(nvshmem_team_t team)
{
    WEFT_NV_SPLIT(return weft_dev_team_my_pe(team),
                         return weft_team_my_pe(weft_nvshmem_team(team)));
}

WEFT_NV_BOTH int nvshmem_team_n_pes(nvshmem_team_t team)
{
    WEFT_NV_SPLIT(return weft_dev_team_n_pes(team),
                         return weft_team_n_pes(weft_nvshmem_team(team)));
}

WEFT_NV_BOTH int nvshmem_team_translate_pe(nvshmem_team_t from, int pe, nvshmem_team_t to)
{
    WEFT_NV_SPLIT(
        return weft_dev_team_translate(from, pe, to),
               return weft_team_translate(weft_nvshmem_team(from), pe, weft_nvshmem_team(to)));
}

WEFT_NV_HOST void nvshmem_team_get_config(nvshmem_team_t team, nvshmem_team_config_t *config)
{
    (void)team;
    config->num_contexts = 0;
}

WEFT_NV_HOST int nvshmem_team_split_strided(nvshmem_team_t parent, int start, int stride, int size,
                                            const nvshmem_team_config_t *config, long config_mask,
                                            nvshmem_team_t *new_team)
{
    weft_team *team = NULL;
    (void)config;
    *new_team = NVSHMEM_TEAM_INVALID;
    if (weft_nvshmem_check_bits("nvshmem_team_split_strided: config_mask",
                                (unsigned long)config_mask,
                                (unsigned long)NVSHMEM_TEAM_NUM_CONTEXTS))
        return NVSHMEMX_ERROR_INVALID_VALUE;
    int failed = weft_nvshmem_report(
        weft_team_split_strided(weft_nvshmem_team(parent), start, stride, size, &team),
        "nvshmem_team_split_strided");
    *new_team = weft_nvshmem_team_number(team);
    return failed;
}

WEFT_NV_HOST int nvshmem_team_split_2d(nvshmem_team_t parent, int xrange,
                                       const nvshmem_team_config_t *xaxis_config, long xaxis_mask,
                                       nvshmem_team_t *xaxis_team,
                                       const nvshmem_team_config_t *yaxis_config, long yaxis_mask,
                                       nvshmem_team_t *yaxis_team)
{
    weft_team *x = NULL, *y = NULL;
    (void)xaxis_config;
    (void)yaxis_config;
    *xaxis_team = *yaxis_team = NVSHMEM_TEAM_INVALID;
    if (weft_nvshmem_check_bits("nvshmem_team_split_2d: the masks",
                                (unsigned long)(xaxis_mask | yaxis_mask),
                                (unsigned long)NVSHMEM_TEAM_NUM_CONTEXTS))
        return NVSHMEMX_ERROR_INVALID_VALUE;
    int failed = weft_nvshmem_report(weft_team_split_2d(weft_nvshmem_team(parent), xrange, &x, &y),
                                     "nvshmem_team_split_2d");
    *xaxis_team = weft_nvshmem_team_number(x);
    *yaxis_team = weft_nvshmem_team_number(y);
    return failed;
}

/* Makes an id for a team of any PEs. One of the PEs gets the id and the program passes it on to the
 * others. Each calls with the id in its config, the number of members, and its own number among
 * them, 0 ... npes - 1. Collective over those PEs alone; it waits for them with the limits of every
 * wait. */
WEFT_NV_HOST int nvshmemx_team_get_uniqueid(nvshmemx_team_uniqueid_t *id)
{
    return weft_nvshmem_report(weft_nvshmem_team_id(id), "nvshmemx_team_get_uniqueid")
               ? NVSHMEMX_ERROR_INTERNAL
               : NVSHMEMX_SUCCESS;
}

WEFT_NV_HOST int nvshmemx_team_init(nvshmem_team_t *team, nvshmem_team_config_t *config,
                                    long config_mask, int npes, int pe_idx_in_team)
{
    weft_team *made = NULL;
    *team = NVSHMEM_TEAM_INVALID;
    if (weft_nvshmem_check_bits("nvshmemx_team_init: config_mask", (unsigned long)config_mask,
                                (unsigned long)(NVSHMEM_TEAM_CONFIG_MASK_NUM_CONTEXTS |
                                                NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID)))
        return NVSHMEMX_ERROR_INVALID_VALUE;
    uint64_t id = config && config_mask & NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID ? config->uniqueid : 0;
    int failed = weft_nvshmem_report(weft_nvshmem_team_meet(id, npes, pe_idx_in_team, &made),
                                     "nvshmemx_team_init");
    *team = weft_nvshmem_team_number(made);
    return failed ? NVSHMEMX_ERROR_INVALID_VALUE : NVSHMEMX_SUCCESS;
}

WEFT_NV_HOST void nvshmem_team_destroy(nvshmem_team_t team)
{
    if (team > NVSHMEMX_TEAM_SAME_MYPE_NODE)
        weft_nvshmem_require(weft_team_destroy(weft_nvshmem_team(team)), "nvshmem_team_destroy");
}

#endif
