// SPDX-License-Identifier: Apache-2.0
// In the style of a program with its own MPI: mpi.h before nvshmem.h, or (with MPI_LAST) after it,
// where the library finds MPI itself. SPLIT: half of the ranks in reverse order, so that the
// communicator and not the world decides the PEs.
#ifndef MPI_LAST
#include <mpi.h>
#endif
#include <nvshmem.h>
#ifdef MPI_LAST
#include <mpi.h>
#endif

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 1)
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
    attr.mpi_comm = &comm;
    if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, &attr) != NVSHMEMX_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);
    const int mype = nvshmem_my_pe(), npes = nvshmem_n_pes();
    int *slot = static_cast<int *>(nvshmem_calloc(1, sizeof(int)));
    nvshmem_int_p(slot, mype * 7 - 100, (mype + 1) % npes);
    nvshmem_barrier_all();
    const int got = nvshmem_int_g(slot, mype), wanted = (mype + npes - 1) % npes * 7 - 100;
    const bool right = mype == rank && npes == size && got == wanted;
    nvshmem_barrier_all();
    nvshmem_finalize();
    MPI_Finalize();
    if (!right)
        std::fprintf(stderr, "PE %d of %d, rank %d of %d: %d, not %d\n", mype, npes, rank, size,
                     got, wanted);
    return right ? 0 : 1;
}
