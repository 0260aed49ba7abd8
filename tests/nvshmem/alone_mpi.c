/* SPDX-License-Identifier: Apache-2.0 */
/* An MPI of the MPICH family in which each process is alone, as without its launcher. */
int MPI_Comm_rank(int comm, int *rank);
int MPI_Comm_size(int comm, int *size);
int MPI_Bcast(void *buffer, int count, int type, int root, int comm);

int MPI_Comm_rank(int comm, int *rank)
{
    *rank = 0;
    return comm != 0x44000000;
}

int MPI_Comm_size(int comm, int *size)
{
    *size = 1;
    return comm != 0x44000000;
}

int MPI_Bcast(void *buffer, int count, int type, int root, int comm)
{
    (void)buffer;
    return count < 1 || type != 0x4c00010d || root != 0 || comm != 0x44000000;
}
