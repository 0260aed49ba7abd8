/* SPDX-License-Identifier: Apache-2.0 */
/* The library's side of <nvshmem.h>: the one implicit job, its teams by number, unique ids.
 * Programs use the names of <nvshmem.h>; these are what those call. */
#ifndef WEFT_NVSHMEM_HOST_H
#define WEFT_NVSHMEM_HOST_H

#include <stdint.h>

#include <weft.h>
#include <weft/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { WEFT_NVSHMEM_ID_BYTES = 124 };

/* The implicit job and its context; NULL when there is none. */
weft_job *weft_nvshmem_job(void);
weft_ctx *weft_nvshmem_ctx(void);

/* How many times nvshmem_init() was called more often than nvshmem_finalize(). */
int weft_nvshmem_inits(void);

/* Joins the job (counted: only the first call does), device code included. id, pe and n_pes: when
 * id is not NULL the PEs meet by that. 0, or a status whose sentence has been printed. */
int weft_nvshmem_init(const unsigned char *id, int pe, int n_pes);
void weft_nvshmem_finalize(void);

/* By the PE whose process the others will find; the program passes the id on to all. */
int weft_nvshmem_unique_id(unsigned char id[WEFT_NVSHMEM_ID_BYTES]);

/* A team by its number; NULL when there is none. A team's number is that of device code too. */
weft_team *weft_nvshmem_team(int number);
int weft_nvshmem_team_number(weft_team *team);

/* A call failed: prints the sentence. Void functions end the job with it, as their users expect. */
int weft_nvshmem_report(weft_status status, const char *function);
void weft_nvshmem_require(weft_status status, const char *function);

/* 0; else `given` has bits that are not in `known`, and a sentence that names them has been
 * printed. what: "nvshmemx_init_attr: flags". */
int weft_nvshmem_check_bits(const char *what, unsigned long given, unsigned long known);

/* PEs of an MPI communicator (MPI_Comm *, NULL: all), by the MPI library that the process has
 * loaded, or by the functions that are named. 0, or a status whose sentence has been printed. */
struct weft_nv_mpi {
    void *comm_rank, *comm_size, *bcast; /* functions of MPI */
    uintptr_t world, comm, byte;         /* handles of MPI: addresses or numbers */
};
int weft_nvshmem_init_mpi(void *comm);
int weft_nvshmem_init_mpi_by(const struct weft_nv_mpi *mpi);

/* Prints why a way of nvshmemx_init_attr() is not there; shmem: OpenSHMEM's, else threads as
 * PEs. */
void weft_nvshmem_no_init(int shmem);

/* An id for weft_nvshmem_team_meet(), never 0; and the team of the PEs that call with this id, each
 * with its own `index` of n. Slots are agreed on as by a split; see weft_team_split_strided(). */
weft_status weft_nvshmem_team_id(uint64_t *id);
weft_status weft_nvshmem_team_meet(uint64_t id, int n, int index, weft_team **team);

/* NULL when there is no job, and on failure, whose sentence has been printed. */
void *weft_nvshmem_alloc(size_t bytes, size_t align, int zeroed);
void *weft_nvshmem_resize(void *address, size_t bytes);

/* An operation on PE pe of n elements (strides in elements, as weft_iput()) has given `status`.
 * When that says that `remote`, dst or src, is not symmetric, and pe is this PE, the elements are
 * copied between the addresses as they stand; else `status` is the result. */
weft_status weft_nvshmem_or_own(weft_status status, const void *remote, void *dst, const void *src,
                                ptrdiff_t dst_stride, ptrdiff_t src_stride, size_t element,
                                size_t n, int pe);

/* Regions of the host, nested and stopped in reverse order; finalize stops all. A number for a new
 * one, 0 without private memory; whether the number was that of the last; whether one has all of
 * `hints`. */
uint64_t weft_nvshmem_region_start(uint32_t hints);
int weft_nvshmem_region_stop(uint64_t region);
int weft_nvshmem_region_active(uint32_t hints);

/* n numbers for queues, the library's until finalize. */
int weft_nvshmem_queues(int n, int **handles);

/* weft_module_init() for the module of a CUlibrary. */
weft_status weft_nvshmem_library(void *culibrary);

/* What nvshmemx_buffer_register() was told of; _end takes one back, or all (NULL). */
weft_status weft_nvshmem_buffer(void *address, size_t bytes);
weft_status weft_nvshmem_buffer_end(void *address);

/* nvshmemx_buffer_register_symmetric(): NULL on failure, whose sentence has been printed. */
void *weft_nvshmem_buffer_symmetric(void *address, size_t bytes, int flags);
weft_status weft_nvshmem_buffer_symmetric_end(void *symmetric);

/* ------------------------------------------------------------------- kernels on a stream
 *
 * Operations on streams for which <weft/stream.h> has no function, and collectives of the host, are
 * done by one kernel of one block (stream_call.h). Units that include <nvshmemx.h> bring it, each
 * for the target that it is compiled for, so that one program's host code can use either. */
enum weft_nv_call_kind {
    WEFT_NV_CALL_SYNC,
    WEFT_NV_CALL_BROADCAST,
    WEFT_NV_CALL_FCOLLECT,
    WEFT_NV_CALL_ALLTOALL,
    WEFT_NV_CALL_REDUCE,
    WEFT_NV_CALL_REDUCESCATTER,
    WEFT_NV_CALL_P,
    WEFT_NV_CALL_IPUT,
    WEFT_NV_CALL_IGET,
    WEFT_NV_CALL_WAIT,
    WEFT_NV_CALL_WAIT_ALL,
    WEFT_NV_CALL_WAIT_ALL_VECTOR
};

/* Passed to the kernel by value; each kind uses some of it. */
struct weft_nv_call {
    int32_t kind, team, pe; /* pe: or the root, or the comparison */
    int32_t type, op;       /* weft_type, weft_op */
    void *dst;              /* or the status[] of a wait */
    const void *src;
    uint64_t n;       /* bytes or elements */
    uint64_t element; /* bytes */
    int64_t dst_stride, src_stride;
    uint64_t value; /* or the address of the values[] of a wait */
};

/* What a unit brings. The functions return 0, or an error that error_text explains. */
struct weft_nvshmem_kernels {
    size_t size; /* sizeof(struct weft_nvshmem_kernels): lets it grow */
    int cuda;    /* 1 */
    int (*call)(const struct weft_nv_call *call, weft_stream stream);
    /* Cooperative launch of a kernel, and how many of its blocks can be resident. */
    int (*launch)(const void *function, const unsigned *grid, const unsigned *block, void **args,
                  size_t shared_bytes, weft_stream stream);
    int (*resident)(const void *function, unsigned threads, size_t shared_bytes, int *blocks);
    const char *(*error_text)(int error);
    /* Cooperative launch by a cudaLaunchConfig_t; NULL, or beyond `size`, in older programs. */
    int (*launch_config)(const void *config, const void *function, void **args);
};
void weft_nvshmem_register(const struct weft_nvshmem_kernels *kernels);

/* Queues one call on a stream of the target in use; or makes it at once, where the host API can
 * when no unit brings a kernel. The sentence of a failure has been printed. */
int weft_nvshmem_enqueue(const struct weft_nv_call *call, weft_stream stream, const char *function);
int weft_nvshmem_now(const struct weft_nv_call *call, const char *function);

/* `function` is a struct weft_kernel (NVSHMEMX_KERNEL()); for code that nvcc compiles, see
 * stream.h. */
int weft_nvshmem_launch(const void *function, weft_dim3 grid, weft_dim3 block, void **args,
                        size_t shared_bytes, weft_stream stream);

/* The same by a cudaLaunchConfig_t, of which grid, block, shared_bytes and stream are parts: all
 * that simt uses. */
int weft_nvshmem_launch_config(const void *config, const void *function, weft_dim3 grid,
                               weft_dim3 block, void **args, size_t shared_bytes,
                               weft_stream stream);
int weft_nvshmem_resident(const void *function, weft_dim3 block, size_t shared_bytes, int *blocks);

#ifdef __cplusplus
}
#endif

#endif
