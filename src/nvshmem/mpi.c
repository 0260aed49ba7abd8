/* SPDX-License-Identifier: Apache-2.0 */
/* Starting from an MPI communicator, for programs that include <mpi.h> after <nvshmem.h> or in other
 * files: the calls are looked for among what the process has loaded; nothing is loaded. MPI has no
 * common binary interface, so the two families are told apart by a symbol: Open MPI's handles are
 * addresses of its objects, MPICH's (Intel's, MVAPICH's, Cray's) are numbers. */
#include <weft/nvshmem/host.h>

#include "base/status.h"

#include <dlfcn.h>
#include <string.h>

/* Of MPICH's common ABI. */
enum { MPICH_COMM_WORLD = 0x44000000, MPICH_BYTE = 0x4c00010d };

/* A handle of either family: passed in one register, of which MPICH reads the lower half. */
typedef uintptr_t handle;

struct mpi {
    int (*comm_rank)(handle comm, int *rank);
    int (*comm_size)(handle comm, int *size);
    int (*bcast)(void *buffer, int count, handle type, int root, handle comm);
    handle comm, byte;
};

static void *find(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

static weft_status find_mpi(const void *comm, struct mpi *mpi)
{
    *(void **)&mpi->comm_rank = find("MPI_Comm_rank");
    *(void **)&mpi->comm_size = find("MPI_Comm_size");
    *(void **)&mpi->bcast = find("MPI_Bcast");
    if (!mpi->comm_rank || !mpi->comm_size || !mpi->bcast)
        return base_fail(WEFT_ERR_UNSUPPORTED,
                         "the process has loaded no MPI library; link MPI as a shared library, or "
                         "include <mpi.h> before <nvshmem.h>");
    void *world = find("ompi_mpi_comm_world");
    mpi->byte = world ? (handle)find("ompi_mpi_byte") : MPICH_BYTE;
    mpi->comm = world ? (handle)world : MPICH_COMM_WORLD;
    if (comm && world)
        mpi->comm = *(const handle *)comm;
    else if (comm)
        mpi->comm = (handle) * (const int *)comm;
    return WEFT_OK;
}

/* Rank 0's id reaches all, or its failure does. */
static int begin(const struct mpi *mpi)
{
    struct {
        unsigned char id[WEFT_NVSHMEM_ID_BYTES];
        int failed;
    } told;
    int rank, size;
    memset(&told, 0, sizeof told);
    if (mpi->comm_rank(mpi->comm, &rank) || mpi->comm_size(mpi->comm, &size))
        return weft_nvshmem_report(base_fail(WEFT_ERR_ARGUMENT, "MPI refuses the communicator"),
                                   "nvshmemx_init_attr");
    if (rank == 0)
        told.failed = weft_nvshmem_unique_id(told.id);
    if (mpi->bcast(&told, (int)sizeof told, mpi->byte, 0, mpi->comm))
        return weft_nvshmem_report(base_fail(WEFT_ERR_SYSTEM, "MPI_Bcast failed"),
                                   "nvshmemx_init_attr");
    return told.failed ? told.failed : weft_nvshmem_init(told.id, rank, size);
}

WEFT_EXPORT int weft_nvshmem_init_mpi(void *comm)
{
    struct mpi mpi = {0};
    weft_status status = find_mpi(comm, &mpi);
    return status ? weft_nvshmem_report(status, "nvshmemx_init_attr") : begin(&mpi);
}
