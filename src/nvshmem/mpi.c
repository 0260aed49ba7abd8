/* SPDX-License-Identifier: Apache-2.0 */
/* Start from an MPI communicator, with the MPI library that the process has loaded; this file loads
 * none. It finds MPI's functions among the symbols of the process or, when the program has loaded
 * MPI by dlopen(), in that library. MPI has no common binary interface, so a symbol distinguishes
 * the two families: Open MPI's handles are addresses of its objects, MPICH's (Intel's, MVAPICH's,
 * Cray's) are numbers. */
#include <weft/nvshmem/host.h>

#include "base/config.h"
#include "base/status.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

/* Handles of MPICH's common ABI. */
enum { MPICH_COMM_WORLD = 0x44000000, MPICH_BYTE = 0x4c00010d };

/* A handle of either family, passed in one register; MPICH reads the lower half. */
typedef uintptr_t handle;

struct functions {
    int (*comm_rank)(handle comm, int *rank);
    int (*comm_size)(handle comm, int *size);
    int (*bcast)(void *buffer, int count, handle type, int root, handle comm);
};

/* Returns 1 when a loaded object is an MPI library; *found is then a handle of it. */
static int open_if_mpi(struct dl_phdr_info *object, size_t bytes, void *found)
{
    const char *slash = strrchr(object->dlpi_name, '/');
    const char *name = slash ? slash + 1 : object->dlpi_name;
    (void)bytes;
    if (strncmp(name, "libmpi.so", 9) != 0 && strncmp(name, "libmpich.so", 11) != 0)
        return 0;
    *(void **)found = dlopen(object->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    return *(void **)found != NULL;
}

static weft_status find_mpi(const void *comm, struct weft_nv_mpi *mpi)
{
    void *library = RTLD_DEFAULT;
    if (!dlsym(library, "MPI_Comm_rank"))
        dl_iterate_phdr(open_if_mpi, &library);
    mpi->comm_rank = dlsym(library, "MPI_Comm_rank");
    mpi->comm_size = dlsym(library, "MPI_Comm_size");
    mpi->bcast = dlsym(library, "MPI_Bcast");
    if (!mpi->comm_rank || !mpi->comm_size || !mpi->bcast)
        return base_fail(
            WEFT_ERR_UNSUPPORTED,
            "the process has loaded no MPI library; link the program with MPI, or load "
            "MPI by dlopen() before");
    /* The program keeps the library loaded while it uses MPI. */
    void *world = dlsym(library, "ompi_mpi_comm_world");
    mpi->byte = world ? (handle)dlsym(library, "ompi_mpi_byte") : MPICH_BYTE;
    mpi->world = world ? (handle)world : MPICH_COMM_WORLD;
    mpi->comm = mpi->world;
    if (comm && world)
        mpi->comm = *(const handle *)comm;
    else if (comm)
        mpi->comm = (handle) * (const int *)comm;
    return WEFT_OK;
}

/* Refuses a PE of `weft run` that is alone in its MPI world: the program would have as many MPI
 * worlds as PEs. */
static weft_status check_world(int processes)
{
    int64_t pes = config_int(CONFIG_PES);
    if (processes != 1 || pes < 2)
        return WEFT_OK;
    return base_fail(WEFT_ERR_JOB,
                     "MPI_COMM_WORLD has one process and weft run has started %lld PEs, which MPI "
                     "does not know of; start the program by mpirun or srun, or pass flags 0 to "
                     "nvshmemx_init_attr()",
                     (long long)pes);
}

/* All ranks get rank 0's id, or its failure. */
WEFT_EXPORT int weft_nvshmem_init_mpi_by(const struct weft_nv_mpi *mpi)
{
    struct functions call;
    struct {
        unsigned char id[WEFT_NVSHMEM_ID_BYTES];
        int failed;
    } exchanged;
    int rank, size, processes;
    memset(&exchanged, 0, sizeof exchanged);
    *(void **)&call.comm_rank = mpi->comm_rank;
    *(void **)&call.comm_size = mpi->comm_size;
    *(void **)&call.bcast = mpi->bcast;
    if (call.comm_rank(mpi->comm, &rank) || call.comm_size(mpi->comm, &size) ||
        call.comm_size(mpi->world, &processes))
        return weft_nvshmem_report(base_fail(WEFT_ERR_ARGUMENT, "MPI refuses the communicator"),
                                   "nvshmemx_init_attr");
    int failed = weft_nvshmem_report(check_world(processes), "nvshmemx_init_attr");
    if (failed)
        return failed;
    if (rank == 0)
        exchanged.failed = weft_nvshmem_unique_id(exchanged.id);
    if (call.bcast(&exchanged, (int)sizeof exchanged, mpi->byte, 0, mpi->comm))
        return weft_nvshmem_report(base_fail(WEFT_ERR_SYSTEM, "MPI_Bcast failed"),
                                   "nvshmemx_init_attr");
    return exchanged.failed ? exchanged.failed : weft_nvshmem_init(exchanged.id, rank, size);
}

WEFT_EXPORT int weft_nvshmem_init_mpi(void *comm)
{
    struct weft_nv_mpi mpi = {0};
    weft_status status = find_mpi(comm, &mpi);
    return status ? weft_nvshmem_report(status, "nvshmemx_init_attr")
                  : weft_nvshmem_init_mpi_by(&mpi);
}
