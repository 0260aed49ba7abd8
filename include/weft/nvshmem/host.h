/* SPDX-License-Identifier: Apache-2.0 */
/* The library's interface for <nvshmem.h>: the one implicit job, its teams by number, unique ids.
 * Programs use the names of <nvshmem.h>, which call these functions. */
#ifndef WEFT_NVSHMEM_HOST_H
#define WEFT_NVSHMEM_HOST_H

#include <stdint.h>

#include <weft.h>
#include <weft/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { WEFT_NVSHMEM_ID_BYTES = 124 };

/* The implicit job and its default context; NULL when there is no job. */
weft_job *weft_nvshmem_job(void);
weft_ctx *weft_nvshmem_ctx(void);

/* Number of calls of nvshmem_init() less the number of calls of nvshmem_finalize(). */
int weft_nvshmem_inits(void);

/* Joins the job, and sets it up for device code; only the first of several calls does so. When id
 * is not NULL, the n_pes PEs connect by that id, and the caller is PE `pe`. Returns 0, or a status
 * whose sentence it has printed. */
int weft_nvshmem_init(const unsigned char *id, int pe, int n_pes);
void weft_nvshmem_finalize(void);

/* Makes a unique id. The PE to which the others will connect calls it; the program passes the id on
 * to all PEs. */
int weft_nvshmem_unique_id(unsigned char id[WEFT_NVSHMEM_ID_BYTES]);

/* A team by its number, which is its number in device code too; NULL when there is no such team. */
weft_team *weft_nvshmem_team(int number);
int weft_nvshmem_team_number(weft_team *team);

/* Report a failed call: both print its sentence. The second also ends the job; functions that
 * return nothing use it. */
int weft_nvshmem_report(weft_status status, const char *function);
void weft_nvshmem_require(weft_status status, const char *function);

/* Returns 0 when `given` has only bits of `known`. Else prints a sentence that names the other
 * bits. what: "nvshmemx_init_attr: flags". */
int weft_nvshmem_check_bits(const char *what, unsigned long given, unsigned long known);

/* Joins the job of the PEs of an MPI communicator (MPI_Comm *, NULL: all), with the MPI library
 * that the process has loaded, or with the given functions. Returns 0, or a status whose sentence
 * it has printed. */
struct weft_nv_mpi {
    void *comm_rank, *comm_size, *bcast; /* addresses of MPI functions */
    uintptr_t world, comm, byte;         /* MPI handles: addresses or numbers */
};
int weft_nvshmem_init_mpi(void *comm);
int weft_nvshmem_init_mpi_by(const struct weft_nv_mpi *mpi);

/* Prints why a method of nvshmemx_init_attr() does not exist. shmem: 1 for joining OpenSHMEM's job,
 * 0 for threads as PEs. */
void weft_nvshmem_no_init(int shmem);

/* team_id makes an id for weft_nvshmem_team_meet(), never 0. team_meet makes the team of the n PEs
 * that call it with this id, each with its own `index`. The PEs agree on a team number as in a
 * split; see weft_team_split_strided(). */
weft_status weft_nvshmem_team_id(uint64_t *id);
weft_status weft_nvshmem_team_meet(uint64_t id, int n, int index, weft_team **team);

/* Return NULL when there is no job, and on failure, whose sentence they have printed. */
void *weft_nvshmem_alloc(size_t bytes, size_t align, int zeroed);
void *weft_nvshmem_resize(void *address, size_t bytes);

/* Called after an operation of n elements with PE pe (strides in elements, as in weft_iput()) has
 * returned `status`. When status says that `remote`, which is dst or src, is not symmetric, and pe
 * is this PE, it copies the elements between the plain addresses. Else it returns `status`. */
weft_status weft_nvshmem_or_own(weft_status status, const void *remote, void *dst, const void *src,
                                ptrdiff_t dst_stride, ptrdiff_t src_stride, size_t element,
                                size_t n, int pe);

/* Regions of the host, nested and stopped in reverse order; finalize stops all. start returns the
 * number of a new region, 0 without memory. stop returns 1 when `region` is the last one. active
 * returns 1 when a region has all of `hints`. */
uint64_t weft_nvshmem_region_start(uint32_t hints);
int weft_nvshmem_region_stop(uint64_t region);
int weft_nvshmem_region_active(uint32_t hints);

/* Allocates n numbers for queues; the array belongs to the library until finalize. */
int weft_nvshmem_queues(int n, int **handles);

/* weft_module_init() for the module of a CUlibrary. */
weft_status weft_nvshmem_library(void *culibrary);

/* The memory of nvshmemx_buffer_register(); _end unregisters one buffer, or all (NULL). */
weft_status weft_nvshmem_buffer(void *address, size_t bytes);
weft_status weft_nvshmem_buffer_end(void *address);

/* nvshmemx_buffer_register_symmetric(): returns NULL on failure, whose sentence it has printed. */
void *weft_nvshmem_buffer_symmetric(void *address, size_t bytes, int flags);
weft_status weft_nvshmem_buffer_symmetric_end(void *symmetric);

/* ------------------------------------------------------------------- kernels on a stream
 *
 * One kernel of one block does collectives of the host, and operations on streams for which
 * <weft/stream.h> has no function. The library has it for both targets. */
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

/* Argument of the kernel, passed by value; each kind uses some of the fields. */
struct weft_nv_call {
    int32_t kind, team, pe; /* pe: a PE, the root, or the comparison */
    int32_t type, op;       /* weft_type, weft_op */
    void *dst;              /* or the status[] of a wait */
    const void *src;
    uint64_t n;       /* bytes or elements */
    uint64_t element; /* bytes of an element */
    int64_t dst_stride, src_stride;
    uint64_t value; /* or the address of the values[] of a wait */
};

/* Launches of the program's kernels, by functions that a unit provides. They return 0, or an error
 * that error_text explains. */
struct weft_nvshmem_kernels {
    size_t size;        /* sizeof(struct weft_nvshmem_kernels): lets it grow */
    int cuda;           /* 1 */
    const void *unused; /* NULL; units of older headers have a kernel of their own here */
    /* Cooperative launch of a kernel, and the number of its blocks that can be resident. */
    int (*launch)(const void *function, const unsigned *grid, const unsigned *block, void **args,
                  size_t shared_bytes, weft_stream stream);
    int (*resident)(const void *function, unsigned threads, size_t shared_bytes, int *blocks);
    const char *(*error_text)(int error);
    /* Cooperative launch with a cudaLaunchConfig_t; NULL, or beyond `size`, in older programs. */
    int (*launch_config)(const void *config, const void *function, void **args);
};
void weft_nvshmem_register(const struct weft_nvshmem_kernels *kernels);

/* enqueue queues one call on a stream of the target in use. now makes the call and waits for it.
 * Both print the sentence of a failure. */
int weft_nvshmem_enqueue(const struct weft_nv_call *call, weft_stream stream, const char *function);
int weft_nvshmem_now(const struct weft_nv_call *call, const char *function);

/* Launches `function`, a struct weft_kernel (NVSHMEMX_KERNEL()); see stream.h for code that nvcc
 * compiles. */
int weft_nvshmem_launch(const void *function, weft_dim3 grid, weft_dim3 block, void **args,
                        size_t shared_bytes, weft_stream stream);

/* The same with a cudaLaunchConfig_t; grid, block, shared_bytes and stream are copies of its parts,
 * and all that simt uses. */
int weft_nvshmem_launch_config(const void *config, const void *function, weft_dim3 grid,
                               weft_dim3 block, void **args, size_t shared_bytes,
                               weft_stream stream);
int weft_nvshmem_resident(const void *function, weft_dim3 block, size_t shared_bytes, int *blocks);

#ifdef __cplusplus
}
#endif

#endif
