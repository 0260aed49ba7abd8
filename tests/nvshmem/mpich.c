/* SPDX-License-Identifier: Apache-2.0 */
/* Initialization from a communicator of an MPI of the MPICH family, whose handles are integers.
 * This program defines the three functions that the library looks up, over pipes between its own
 * processes. Also the messages if MPI refuses, if rank 0 cannot make an id, and for an invalid id.
 * Compiled with NO_MPI the process has no MPI; with MPI_HEADER the declarations of <mpi.h> come
 * before <nvshmem.h>. Finding D: with both the program did not link, like NVSHMEM's perftest, which
 * loads MPI by dlopen(). */
#ifdef MPI_HEADER
#define MPI_VERSION    3
#define MPI_COMM_WORLD ((MPI_Comm)0x44000000)
#define MPI_BYTE       ((MPI_Datatype)0x4c00010d)
typedef int MPI_Comm;
typedef int MPI_Datatype;
#endif
#define NVSHMEM_HOSTLIB_ONLY
#include <nvshmem.h>
#include <nvshmemx.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank %d: %s:%d: %s: ", rank_here, __FILE__, __LINE__, #condition);    \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fputc('\n', stderr);                                                                   \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { RANKS = 3, WORLD = 0x44000000, BYTE = 0x4c00010d, OTHER = 0x84000003 };

static int rank_here;

#ifndef NO_MPI
static int comm_here, refuse_comm, refuse_bcast, pipes[RANKS][2];

int MPI_Comm_rank(int comm, int *rank);
int MPI_Comm_size(int comm, int *size);
int MPI_Bcast(void *buffer, int count, int type, int root, int comm);

int MPI_Comm_rank(int comm, int *rank)
{
    *rank = rank_here;
    return refuse_comm || comm != comm_here;
}

int MPI_Comm_size(int comm, int *size)
{
    *size = RANKS;
    return comm != comm_here && comm != WORLD;
}

int MPI_Bcast(void *buffer, int count, int type, int root, int comm)
{
    CHECK(comm == comm_here && type == BYTE && root == 0, "%#x, type %#x", comm, type);
    if (refuse_bcast)
        return 1;
    for (int rank = 1; rank < RANKS && rank_here == 0; rank++)
        CHECK(write(pipes[rank][1], buffer, (size_t)count) == count, "write");
    if (rank_here)
        CHECK(read(pipes[rank_here][0], buffer, (size_t)count) == count, "read");
    return 0;
}
#endif

static void refused(unsigned flags, nvshmemx_init_attr_t *attr, const char *words)
{
    int result = nvshmemx_init_attr(flags, attr);
    CHECK(result == NVSHMEMX_ERROR_INTERNAL, "%d", result);
    CHECK(strstr(weft_last_error(), words), "%s", weft_last_error());
    CHECK(nvshmemx_init_status() == NVSHMEM_STATUS_NOT_INITIALIZED, "initialised");
}

static void refusals(void)
{
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
    nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
#ifdef NO_MPI
    refused(NVSHMEMX_INIT_WITH_MPI_COMM, &attr, "the process has loaded no MPI library");
#else
    comm_here = WORLD;
    refuse_comm = 1;
    refused(NVSHMEMX_INIT_WITH_MPI_COMM, &attr, "MPI refuses the communicator");
    refuse_comm = 0;
    refuse_bcast = 1;
    refused(NVSHMEMX_INIT_WITH_MPI_COMM, &attr, "MPI_Bcast failed");
    refuse_bcast = 0;
    int unknown = OTHER;
    attr.mpi_comm = &unknown;
    refused(NVSHMEMX_INIT_WITH_MPI_COMM, &attr, "MPI refuses the communicator");
#endif
    nvshmemx_set_attr_uniqueid_args(0, 1, &id, &attr);
    refused(NVSHMEMX_INIT_WITH_UNIQUEID, &attr, "was not made by nvshmemx_get_uniqueid()");
    CHECK(!nvshmemx_get_uniqueid(&id), "%s", weft_last_error());
    nvshmemx_set_attr_uniqueid_args(2, 2, &id, &attr);
    refused(NVSHMEMX_INIT_WITH_UNIQUEID, &attr, "PE 2 is not in a job of 2 PEs");
    /* Finding D: these calls failed without a message. */
    CHECK(nvshmemx_init_attr(NVSHMEMX_INIT_WITH_SHMEM, &attr) == NVSHMEMX_ERROR_NOT_SUPPORTED &&
              strstr(weft_last_error(), "NVSHMEMX_INIT_WITH_SHMEM is not supported"),
          "%s", weft_last_error());
    CHECK(nvshmemx_init_attr(NVSHMEMX_INIT_THREAD_PES, &attr) == NVSHMEMX_ERROR_NOT_SUPPORTED &&
              strstr(weft_last_error(), "NVSHMEMX_INIT_THREAD_PES is not supported"),
          "%s", weft_last_error());
    CHECK(nvshmemx_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, NULL) == NVSHMEMX_ERROR_INVALID_VALUE,
          "no attributes");
}

#ifndef NO_MPI
/* The job of a communicator: PEs have the numbers of its ranks, and access each other. */
static void job_of(int *comm)
{
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
    comm_here = comm ? *comm : WORLD;
    nvshmemx_set_attr_mpi_comm_args(comm, &attr);
    int result = nvshmemx_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, &attr);
    CHECK(!result, "%d: %s", result, weft_last_error());
    CHECK(nvshmem_my_pe() == rank_here && nvshmem_n_pes() == RANKS, "PE %d of %d", nvshmem_my_pe(),
          nvshmem_n_pes());
    int *slot = nvshmem_calloc(1, sizeof *slot), got = 0;
    nvshmem_int_p(slot, 70 + rank_here, (rank_here + 1) % RANKS);
    nvshmem_barrier_all();
    nvshmem_int_get(&got, slot, 1, rank_here);
    CHECK(got == 70 + (rank_here + RANKS - 1) % RANKS, "%d", got);
    nvshmem_barrier_all();
    nvshmem_finalize();
}

/* Without file descriptors rank 0 cannot open a port: all ranks get an error, and none waits. */
static void no_id(void)
{
    struct rlimit before, few;
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
    getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    few.rlim_cur = 3;
    if (rank_here == 0)
        setrlimit(RLIMIT_NOFILE, &few);
    comm_here = WORLD;
    CHECK(nvshmemx_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, &attr) == NVSHMEMX_ERROR_INTERNAL,
          "began");
    setrlimit(RLIMIT_NOFILE, &before);
    CHECK(rank_here || strstr(weft_last_error(), "socket: Too many open files"), "%s",
          weft_last_error());
}

static int as_rank(int rank)
{
    int other = OTHER;
    rank_here = rank;
    job_of(NULL);
    job_of(&other);
    no_id();
    return 0;
}
#endif

int main(void)
{
    int failed = 0;
    refusals();
#ifndef NO_MPI
    for (int rank = 0; rank < RANKS; rank++)
        CHECK(!pipe(pipes[rank]), "pipe");
    for (int rank = 0; rank < RANKS; rank++)
        if (fork() == 0)
            exit(as_rank(rank));
    for (int rank = 0; rank < RANKS; rank++) {
        int status;
        CHECK(wait(&status) > 0, "wait");
        failed |= status;
    }
#endif
    return failed != 0;
}
