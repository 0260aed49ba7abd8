/* SPDX-License-Identifier: Apache-2.0 */
/* Weft: symmetric memory over all PEs of a job, and one-sided operations on it. Host API.
 *
 * A job has the PEs 0 ... n-1. Each PE has the same segments: the heaps and, if the program asks
 * for it, its global data. A symmetric address is an address inside one of the caller's own
 * segments. Together with a PE number it names the same place at that PE.
 *
 * Every function that can fail returns a weft_status: WEFT_OK or a negative code. After a failure
 * weft_last_error() gives the calling thread a sentence with the wrong values and the remedy. No
 * function exits or prints, except weft_abort().
 *
 * Completion and order (what a program may rely on; terms of OpenSHMEM 1.5, sections 9.5-9.11):
 *   put    returns when the source may be reused; the data is at the peer after weft_quiet().
 *   get    returns when the data has arrived.
 *   _nbi   may return at once; source and destination belong to the library until weft_quiet().
 *   fence  puts, atomics and signals before it reach each PE before those after it.
 *   quiet  all operations of the context before it are complete and visible to every PE.
 *   put_signal  the signal is never visible before the data.
 *   A successful wait or test orders what follows it after what the peer did before its update.
 *
 * Threads: with WEFT_THREAD_MULTIPLE any thread may call at any time, with two exceptions.
 * Collective calls on one team come from one thread at a time, and so do calls on one private or
 * serialized context. */
#ifndef WEFT_H
#define WEFT_H

#include <weft/types.h>

/* Version of this header; weft_version() gives the version of the loaded library. WEFT_VERSION is
 * the same as one number, to compare: #if WEFT_VERSION >= WEFT_MAKE_VERSION(0, 2, 0). */
#define WEFT_VERSION_MAJOR                     0
#define WEFT_VERSION_MINOR                     2
#define WEFT_VERSION_PATCH                     0
#define WEFT_VERSION                           2000

#define WEFT_MAKE_VERSION(major, minor, patch) ((major)*1000000 + (minor)*1000 + (patch))

#ifndef __CUDACC_RTC__ /* NVRTC: device code alone, which needs the types and nothing below */

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------ status */

/* Returns the name of a status ("WEFT_ERR_PE"). */
const char *weft_status_name(weft_status status);

/* Returns the meaning of a status in words, without the values of a particular fault. */
const char *weft_status_text(weft_status status);

/* Returns the sentence of the last fault in the calling thread: what was observed, on what and,
 * where known, the remedy. "" when nothing has failed. The string is valid until the thread's next
 * fault. */
const char *weft_last_error(void);

/* Returns the version of the library, "0.1.0". */
const char *weft_version(void);

/* ------------------------------------------------------------------------------------- types */

typedef struct weft_job weft_job;     /* one PE's handle of its job */
typedef struct weft_team weft_team;   /* an ordered set of PEs */
typedef struct weft_ctx weft_ctx;     /* a stream of operations, ordered by fence and quiet */
typedef struct weft_group weft_group; /* PEs that are threads of one process */

typedef enum weft_thread {
    WEFT_THREAD_SINGLE,
    WEFT_THREAD_FUNNELED,
    WEFT_THREAD_SERIALIZED, /* calls come from one thread at a time */
    WEFT_THREAD_MULTIPLE,   /* any thread may call at any time */
} weft_thread;

/* -------------------------------------------------------------------------- set-up, a job's PEs */

/* Identifies one job: where its PEs connect, and a secret by which they recognise each other. The
 * program hands these bytes to all PEs by its own means (a file, MPI, a socket) and keeps them
 * secret. */
typedef struct weft_unique_id {
    unsigned char bytes[128];
} weft_unique_id;

/* Makes an id for one job. The caller runs on the machine on which PE 0 of that job will run. The
 * id contains a TCP port that is free now; PE 0 listens on it from weft_init() until all PEs have
 * connected. Not collective; no job is needed.
 * Errors: WEFT_ERR_ARGUMENT (null), _SYSTEM (no port, no random number). */
weft_status weft_unique_id_get(weft_unique_id *id);

typedef struct weft_init_attr {
    size_t size;        /* sizeof(weft_init_attr): lets the structure grow */
    weft_thread thread; /* SINGLE (which is 0) and FUNNELED are treated as SERIALIZED */
    size_t heap_bytes;  /* host heap of each PE, the same at every PE; 0 = WEFT_HEAP_SIZE */
    unsigned flags;     /* sum of WEFT_INIT_* */
    weft_group *group;  /* group of PEs that are threads of one process; else NULL */
    int group_pe;       /* with group: the PE number of the calling thread */
    const weft_unique_id *unique_id; /* id to connect by in place of a launcher; else NULL */
    int unique_id_pe;                /* with unique_id: PE number, 0 ... unique_id_npes - 1 */
    int unique_id_npes;              /* with unique_id: number of PEs in the job */
    uint64_t wait_limit_ns; /* nanoseconds without progress after which a wait of this job fails;
                               0 = WEFT_WAIT_LIMIT. The same at every PE */
    int teams; /* most teams at a time, 2 to 1024, the world's and the node's among them; 0 = 1024.
                  Fewer than 32 take less GPU memory. The same at every PE */
} weft_init_attr;

#define WEFT_INIT_GLOBAL_DATA 1u /* the program's .data and .bss become a symmetric segment */

/* Joins the job that the launcher started, or makes a job of one PE when there is no launcher.
 * Collective over the job. attr may be NULL. On success *job is the handle for all other calls. On
 * failure *job is NULL and everything that the call made is undone. The program may call it again
 * after weft_finalize().
 * Launchers: `weft run`, PMIx (mpirun, srun), RANK/WORLD_SIZE/MASTER_ADDR/MASTER_PORT (torchrun);
 * or, with attr.unique_id, any means that starts the processes and hands them the id.
 * Errors: WEFT_ERR_ARGUMENT (attr), _CONFIG, _BOOT, _SYSTEM, _NO_MEMORY, _VERSION, _NO_PATH,
 * _TIMEOUT, _PEER_DEAD, _JOB (another PE has ended the job). */
weft_status weft_init(weft_job **job, const weft_init_attr *attr);

/* Ends this PE's part in the job: a barrier over the job, then everything that weft_init() made is
 * undone. Collective. Before that it waits for host callbacks queued on streams: operations on
 * memory that this GPU cannot address, signals in host memory, files, and all operations on simt.
 * Before the call the program must have waited for what the GPU itself does: its streams, its
 * kernels, and graphs that are being replayed. Later calls with handles of this job return
 * WEFT_ERR_FINALIZED. So do calls of a child process that a PE has forked: the child is not a PE.
 * Errors: WEFT_ERR_TIMEOUT (the host callbacks made no progress within WEFT_WAIT_LIMIT and are
 * dropped). */
weft_status weft_finalize(weft_job *job);

/* Fails the job without ending a process: waits of all PEs end with WEFT_ERR_JOB and the sentence
 * `why`, also those of streams and kernels, and so do later calls. weft_finalize() then waits for
 * no PE. Any thread of a PE may call it. why: at most 255 bytes are kept; NULL: none.
 * Errors: WEFT_ERR_ARGUMENT (null), _FINALIZED. */
weft_status weft_cancel(weft_job *job, const char *why);

/* Returns WEFT_OK, or the status and sentence with which the job has failed: a PE has died or ended
 * the job, or a kernel has reported an error. Does not wait.
 * Errors: besides, WEFT_ERR_ARGUMENT (null), _FINALIZED. */
weft_status weft_job_status(weft_job *job);

/* Ends the whole job at once with exit code `code`. The system keeps the lower eight bits of the
 * code; where these are 0 and the code is not, the process exits with 1. Each other PE ends with a
 * message that names this PE. Does not return. */
void weft_abort(weft_job *job, int code) __attribute__((__noreturn__));

int weft_my_pe(const weft_job *job); /* PE number of the caller, 0 ... n-1; -1 after finalize */
int weft_n_pes(const weft_job *job); /* number of PEs in the job; -1 after finalize */

/* Has every wait of the calling thread in this job call check(arg), 50 ms after it began and every
 * 50 ms from then on. When check returns other than 0, the wait ends with WEFT_ERR_INTERRUPTED; a
 * collective then stays unfinished, so the job can only be ended. For interpreters, which handle
 * signals in a thread that would be waiting here. One thread of a job has a check: the last that
 * called this function. With check NULL none has. With job NULL the check is that of the calling
 * thread's waits in weft_init(), where the other PEs then get WEFT_ERR_JOB; a job that it makes
 * begins with this check.
 * Errors: WEFT_ERR_FINALIZED. */
weft_status weft_set_interrupt(weft_job *job, int (*check)(void *arg), void *arg);

/* Returns the thread level that weft_init() granted. */
weft_thread weft_query_thread(const weft_job *job);

/* PEs as threads of one process: make a group of n, start n threads, and call weft_init() in each
 * with attr.group and attr.group_pe. For tests, and for tools that watch one process
 * (ThreadSanitizer). Destroy the group after every member has finalized.
 * Errors of create: WEFT_ERR_ARGUMENT (null; n is not 1 ... 4096), _NO_MEMORY, _SYSTEM. */
weft_status weft_group_create(int n, weft_group **group);
void weft_group_destroy(weft_group *group);

/* --------------------------------------------------------------------------------- memory */

#define WEFT_ALLOC_ZERO 1u /* the block is filled with zeros */

/* Allocates `bytes` bytes at the same offset at every PE; with 0 bytes *address is NULL. `align` is
 * a power of two in bytes, up to 1 GiB for WEFT_HOST and 2 MiB for WEFT_GPU; 0 = 64 bytes. `flags`
 * is 0 or WEFT_ALLOC_ZERO. Collective over the job, with the same arguments at every PE. The call
 * ends with a barrier, so peers may use the block at once.
 * Errors: WEFT_ERR_NO_MEMORY (says how much is free), _MISMATCH (names both calls), _ARGUMENT. */
weft_status weft_alloc(weft_job *job, weft_kind kind, size_t bytes, size_t align, unsigned flags,
                       void **address);

/* Frees a block of weft_alloc(). NULL is allowed. Collective; begins with a barrier.
 * Errors: WEFT_ERR_FREE (double free, foreign pointer). */
weft_status weft_free(weft_job *job, void *address);

/* Resizes a block to `bytes` bytes; *resized is the new block. The block keeps its alignment and
 * its contents up to the smaller size, including what peers put into it before on default contexts.
 * Collective; begins with a barrier.
 * Errors: as weft_alloc() and weft_free(). */
weft_status weft_realloc(weft_job *job, void *address, size_t bytes, void **resized);

/* Returns the address at which this PE can load and store the object `symmetric` of PE `pe`.
 * Returns NULL when the path to that PE has no such address, or when pe or address is not valid. */
void *weft_ptr(const weft_job *job, const void *symmetric, int pe);

/* Returns 1 when `address` is symmetric and this PE can reach its counterpart at `pe`, else 0. */
int weft_accessible(const weft_job *job, const void *address, int pe);

/* ------------------------------------------------------------------------------- contexts */

#define WEFT_CTX_SERIALIZED 1u /* one thread at a time uses it */
#define WEFT_CTX_PRIVATE    2u /* only the thread that made it uses it */
#define WEFT_CTX_NOSTORE    4u /* its fence and quiet need not order stores by the program itself */

/* Returns the context that every PE has from the start. Its PE numbers are those of the job. */
weft_ctx *weft_default_ctx(weft_job *job);

/* Makes a context over the PEs of `team`; operations on it take PE numbers of the team. Not
 * collective. Destroying a context completes its operations first.
 * `options` is a sum of WEFT_CTX_*: promises of the program (OpenSHMEM 1.5, 9.5.1). They save no
 * time today: a context has no lock and no atomic of its own, and a put over a load/store path is a
 * CPU store, which the fence instruction orders like every other store. Weft checks
 * WEFT_CTX_PRIVATE: another thread gets an error from fence, quiet, waits and operations that leave
 * the fast path (from all operations with WEFT_CHECK=1). Any thread may make calls that complete
 * the contexts of all threads, and may call weft_ctx_destroy().
 * Errors: WEFT_ERR_ARGUMENT (unknown options, which the sentence names), _NO_MEMORY, _FINALIZED. */
weft_status weft_ctx_create(weft_team *team, unsigned options, weft_ctx **ctx);
weft_status weft_ctx_destroy(weft_ctx *ctx);

/* Returns the team that the context was made over. */
weft_team *weft_ctx_team(weft_ctx *ctx);

/* Errors common to all operations below: WEFT_ERR_PE, _ADDRESS, _RANGE, _ARGUMENT (null),
 * _FINALIZED, _PEER_DEAD, _NO_PATH, _TIMEOUT. `dst` of a put and `src` of a get are symmetric
 * addresses; the other buffer is any memory of this PE. Sizes and strides are in bytes unless the
 * comment says otherwise. */

/* ------------------------------------------------------------------------- put and get (RMA) */

/* Copies `bytes` bytes between this PE and PE `pe`: put to its memory, get from its memory. put
 * returns when `src` may be reused, get when `dst` has the data. The _nbi forms may return earlier:
 * until weft_quiet() returns, the program must not change `src` or use `dst`. */
weft_status weft_put(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe);
weft_status weft_get(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe);
weft_status weft_put_nbi(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe);
weft_status weft_get_nbi(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe);

/* n puts in one call, in this order: number i copies `bytes` bytes from src + i * src_stride to dst
 * + i * dst_stride at PE pes[i]. Strides are in bytes and may be 0 or negative. After a failure
 * *done is the number of puts before it, else n; done may be NULL. For languages in which a call
 * costs more than a put. */
weft_status weft_put_vector(weft_ctx *ctx, void *dst, const void *src, ptrdiff_t dst_stride,
                            ptrdiff_t src_stride, size_t bytes, size_t n, const int *pes,
                            size_t *done);

/* Single values: p writes, g reads. Each is one access of that width in bits, so a reader never
 * sees a part of a value. The address is aligned to the width (else WEFT_ERR_ALIGNMENT). */
weft_status weft_p8(weft_ctx *ctx, void *dst, uint8_t value, int pe);
weft_status weft_p16(weft_ctx *ctx, void *dst, uint16_t value, int pe);
weft_status weft_p32(weft_ctx *ctx, void *dst, uint32_t value, int pe);
weft_status weft_p64(weft_ctx *ctx, void *dst, uint64_t value, int pe);
weft_status weft_g8(weft_ctx *ctx, const void *src, uint8_t *value, int pe);
weft_status weft_g16(weft_ctx *ctx, const void *src, uint16_t *value, int pe);
weft_status weft_g32(weft_ctx *ctx, const void *src, uint32_t *value, int pe);
weft_status weft_g64(weft_ctx *ctx, const void *src, uint64_t *value, int pe);

/* Strided put and get of n elements of `element` bytes. Strides are in elements, at least 1 (1 =
 * contiguous). */
weft_status weft_iput(weft_ctx *ctx, void *dst, const void *src, ptrdiff_t dst_stride,
                      ptrdiff_t src_stride, size_t element, size_t n, int pe);
weft_status weft_iget(weft_ctx *ctx, void *dst, const void *src, ptrdiff_t dst_stride,
                      ptrdiff_t src_stride, size_t element, size_t n, int pe);

/* ------------------------------------------------------------------------------------ signals */

/* Puts `bytes` bytes at PE `pe`, then sets *signal at that PE to `value` or adds `value` to it. The
 * signal is not visible before the data. `signal` is a symmetric uint64_t, aligned to 8 bytes. The
 * _nbi form returns as weft_put_nbi() does. */
weft_status weft_put_signal(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                            uint64_t *signal, uint64_t value, weft_signal_op op, int pe);
weft_status weft_put_signal_nbi(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                uint64_t *signal, uint64_t value, weft_signal_op op, int pe);

/* Sets *signal at PE `pe` to `value`, or adds `value` to it, without data. */
weft_status weft_signal(weft_ctx *ctx, uint64_t *signal, uint64_t value, weft_signal_op op, int pe);

/* Reads a signal in the caller's own memory: *value becomes its value. */
weft_status weft_signal_fetch(weft_ctx *ctx, const uint64_t *signal, uint64_t *value);

/* Waits until *signal in the caller's own memory compares true with `value`. *seen becomes the
 * value that ended the wait; seen may be NULL. */
weft_status weft_signal_wait(weft_ctx *ctx, const uint64_t *signal, weft_cmp cmp, uint64_t value,
                             uint64_t *seen);

/* ----------------------------------------------------------------------------------- atomics */

/* Each operation is atomic with respect to all other functions of this section, weft_signal*() and
 * the waits on the same variable and width. The variable is aligned to its width (else
 * WEFT_ERR_ALIGNMENT). Functions with a `fetched` argument store the previous value to host memory
 * there. An increment is an add of 1. On float and double, set, fetch and swap work on the bit
 * pattern. */
#define WEFT_ATOMIC_WIDTH_LIST(X)                                                                  \
    X(32, uint32_t)                                                                                \
    X(64, uint64_t)

#define WEFT_ATOMIC_DECLARE(width, type)                                                           \
    weft_status weft_atomic_set##width(weft_ctx *ctx, void *dst, type value, int pe);              \
    weft_status weft_atomic_add##width(weft_ctx *ctx, void *dst, type value, int pe);              \
    weft_status weft_atomic_and##width(weft_ctx *ctx, void *dst, type value, int pe);              \
    weft_status weft_atomic_or##width(weft_ctx *ctx, void *dst, type value, int pe);               \
    weft_status weft_atomic_xor##width(weft_ctx *ctx, void *dst, type value, int pe);              \
    weft_status weft_atomic_fetch##width(weft_ctx *ctx, const void *src, type *fetched, int pe);   \
    weft_status weft_atomic_swap##width(weft_ctx *ctx, void *dst, type value, type *fetched,       \
                                        int pe);                                                   \
    weft_status weft_atomic_cswap##width(weft_ctx *ctx, void *dst, type expected, type value,      \
                                         type *fetched, int pe);                                   \
    weft_status weft_atomic_fetch_add##width(weft_ctx *ctx, void *dst, type value, type *fetched,  \
                                             int pe);                                              \
    weft_status weft_atomic_fetch_and##width(weft_ctx *ctx, void *dst, type value, type *fetched,  \
                                             int pe);                                              \
    weft_status weft_atomic_fetch_or##width(weft_ctx *ctx, void *dst, type value, type *fetched,   \
                                            int pe);                                               \
    weft_status weft_atomic_fetch_xor##width(weft_ctx *ctx, void *dst, type value, type *fetched,  \
                                             int pe);
WEFT_ATOMIC_WIDTH_LIST(WEFT_ATOMIC_DECLARE)
#undef WEFT_ATOMIC_DECLARE

/* Codes of the atomics, for the non-blocking form. */
typedef enum weft_amo {
    WEFT_AMO_SET,
    WEFT_AMO_ADD,
    WEFT_AMO_AND,
    WEFT_AMO_OR,
    WEFT_AMO_XOR,
    WEFT_AMO_FETCH,
    WEFT_AMO_SWAP,
    WEFT_AMO_CSWAP,
    WEFT_AMO_FETCH_ADD,
    WEFT_AMO_FETCH_AND,
    WEFT_AMO_FETCH_OR,
    WEFT_AMO_FETCH_XOR,
    WEFT_AMO_COUNT
} weft_amo;

/* Non-blocking atomic `amo` on a variable of `width` 4 or 8 bytes. *fetched has the previous value
 * after weft_quiet(); it is `width` bytes in memory of the host or of this PE's GPU, and may be
 * NULL for operations that fetch nothing. Only CSWAP uses `expected`, which stands before `value`
 * as in weft_atomic_cswap64(). */
weft_status weft_atomic_nbi(weft_ctx *ctx, weft_amo amo, size_t width, void *dst, uint64_t expected,
                            uint64_t value, void *fetched, int pe);

/* ----------------------------------------------------------------------------------- ordering */

/* fence: puts, atomics and signals of the context before it reach each PE before those after it.
 * quiet: all operations of the context before it are complete and visible to every PE. */
weft_status weft_fence(weft_ctx *ctx);
weft_status weft_quiet(weft_ctx *ctx);

/* ----------------------------------------------------------------------------- wait and test */

/* Variables are in the caller's own symmetric memory; peers or other threads of this PE change
 * them. `type` is an integer type of 2, 4 or 8 bytes. `value` is its bit pattern extended to 64
 * bits (signed types by sign).
 *
 * Every wait, also inside a collective, distinguishes a slow peer from a dead one. After
 * WEFT_WAIT_WARN (60 s) it reports once what it waits for and what that PE does. It fails with
 * WEFT_ERR_PEER_DEAD when a PE of the job ends meanwhile, and with the job's failure when there is
 * one. It fails with WEFT_ERR_TIMEOUT when for WEFT_WAIT_LIMIT (10 min) the variable has not
 * changed and no PE that it depends on has begun or ended an operation. The time in which a PE is
 * stopped, by a signal or in a debugger, does not count.
 *
 * Forms over n variables at ivars[]: an element with a non-zero status[i] is left out (status may
 * be NULL). `all` waits until all compare true. `any` waits for one: *index is its index, WEFT_NONE
 * when every element is left out. `some` waits for at least one: indices[] gets the indices of all
 * that compare true and *count their number (0 when every element is left out). The vector forms
 * compare ivars[i] with element i of `values`, an array of the type.
 * Tests do not wait. Where no variable compares true, *result is 0 (else 1), *index WEFT_NONE and
 * *count 0.
 * Errors, besides the common ones: WEFT_ERR_TYPE, _OP, _ALIGNMENT (a variable). */
weft_status weft_wait_until(weft_ctx *ctx, weft_type type, const void *ivar, weft_cmp cmp,
                            uint64_t value);
weft_status weft_wait_until_all(weft_ctx *ctx, weft_type type, const void *ivars, size_t n,
                                const int *status, weft_cmp cmp, uint64_t value);
weft_status weft_wait_until_any(weft_ctx *ctx, weft_type type, const void *ivars, size_t n,
                                const int *status, weft_cmp cmp, uint64_t value, size_t *index);
weft_status weft_wait_until_some(weft_ctx *ctx, weft_type type, const void *ivars, size_t n,
                                 size_t *indices, const int *status, weft_cmp cmp, uint64_t value,
                                 size_t *count);
weft_status weft_wait_until_all_vector(weft_ctx *ctx, weft_type type, const void *ivars, size_t n,
                                       const int *status, weft_cmp cmp, const void *values);
weft_status weft_wait_until_any_vector(weft_ctx *ctx, weft_type type, const void *ivars, size_t n,
                                       const int *status, weft_cmp cmp, const void *values,
                                       size_t *index);
weft_status weft_wait_until_some_vector(weft_ctx *ctx, weft_type type, const void *ivars, size_t n,
                                        size_t *indices, const int *status, weft_cmp cmp,
                                        const void *values, size_t *count);
weft_status weft_test(weft_ctx *ctx, weft_type type, const void *ivar, weft_cmp cmp, uint64_t value,
                      int *result);
weft_status weft_test_all(weft_ctx *ctx, weft_type type, const void *ivars, size_t n,
                          const int *status, weft_cmp cmp, uint64_t value, int *result);
weft_status weft_test_any(weft_ctx *ctx, weft_type type, const void *ivars, size_t n,
                          const int *status, weft_cmp cmp, uint64_t value, size_t *index);
weft_status weft_test_some(weft_ctx *ctx, weft_type type, const void *ivars, size_t n,
                           size_t *indices, const int *status, weft_cmp cmp, uint64_t value,
                           size_t *count);
weft_status weft_test_all_vector(weft_ctx *ctx, weft_type type, const void *ivars, size_t n,
                                 const int *status, weft_cmp cmp, const void *values, int *result);
weft_status weft_test_any_vector(weft_ctx *ctx, weft_type type, const void *ivars, size_t n,
                                 const int *status, weft_cmp cmp, const void *values,
                                 size_t *index);
weft_status weft_test_some_vector(weft_ctx *ctx, weft_type type, const void *ivars, size_t n,
                                  size_t *indices, const int *status, weft_cmp cmp,
                                  const void *values, size_t *count);

/* -------------------------------------------------------------------------------------- teams */

weft_team *weft_team_world(weft_job *job);  /* all PEs of the job */
weft_team *weft_team_node(weft_job *job);   /* the PEs that run on the same kernel (host) */
int weft_team_my_pe(const weft_team *team); /* PE number of the caller in the team; -1 if it is
                                               not a member */
int weft_team_n_pes(const weft_team *team);

/* Returns the PE number in team `to` of the PE that has number `pe` in team `from`, or -1 when it
 * is not in `to`. */
int weft_team_translate(const weft_team *from, int pe, const weft_team *to);

/* Makes a team of `n` PEs of `parent`: start, start+stride, ... Collective over parent. Each member
 * gets the new team in *team; each other PE gets NULL. stride may be negative or, with n = 1, zero.
 * Errors: WEFT_ERR_ARGUMENT (null; a PE is not in parent), _NO_MEMORY (all team numbers are in
 * use), _MISMATCH (with WEFT_CHECK=1: the PEs pass different arguments), _FINALIZED. */
weft_status weft_team_split_strided(weft_team *parent, int start, int stride, int n,
                                    weft_team **team);

/* Lays the parent's PEs out in rows of `xrange` PEs and makes two teams: this PE's row (*xteam) and
 * column (*yteam). Collective over parent.
 * Errors: as weft_team_split_strided(). */
weft_status weft_team_split_2d(weft_team *parent, int xrange, weft_team **xteam, weft_team **yteam);

/* Ends a team that a split made, and the contexts on it. Collective over the team. NULL is allowed.
 * Errors: WEFT_ERR_ARGUMENT (the world or the node), _FINALIZED. */
weft_status weft_team_destroy(weft_team *team);

/* -------------------------------------------------------------------------------- collectives */

/* Collective over the team: every member calls them in the same order, with the same sizes, types
 * and roots. Destinations and sources are symmetric. The destination at every member must be ready
 * when the first member calls. Sizes are in bytes per PE (per pair of PEs for alltoall). On return
 * the caller's destination is complete and its source may be reused. broadcast copies to the root's
 * own destination too.
 * Errors, besides the common ones: WEFT_ERR_PE (root), _TYPE, _OP, _ALIGNMENT, _MISMATCH (with
 * WEFT_CHECK=1: the members' calls differ).
 * Source: OpenSHMEM 1.5, section 9.9. */

/* Returns when all members have called it and all operations that members issued before, on the
 * default context and on the team's contexts, are complete. */
weft_status weft_barrier(weft_team *team);

/* Returns when all members have called it; members' earlier stores to their own memory are visible.
 * Completes no operation. */
weft_status weft_sync(weft_team *team);

/* broadcast: `bytes` bytes of the root's src go to dst at every member. alltoall: block i of src
 * goes to member i, as the block of this member in its dst; blocks have `bytes` bytes. */
weft_status weft_broadcast(weft_team *team, void *dst, const void *src, size_t bytes, int root);
weft_status weft_alltoall(weft_team *team, void *dst, const void *src, size_t bytes);

/* As alltoall, with strides: n elements of `element` bytes for each pair of PEs, dst_stride and
 * src_stride elements apart. */
weft_status weft_alltoalls(weft_team *team, void *dst, const void *src, ptrdiff_t dst_stride,
                           ptrdiff_t src_stride, size_t element, size_t n);

/* Join the members' sources in the order of the team, in dst at every member. allgather: every
 * member gives the same `bytes`. collect: `bytes` may differ at each member. */
weft_status weft_allgather(weft_team *team, void *dst, const void *src, size_t bytes);
weft_status weft_collect(weft_team *team, void *dst, const void *src, size_t bytes);

/* gather: block i of the root's dst becomes the `bytes` bytes of src at member i. scatter: dst at
 * member i becomes block i of the root's src. dst is symmetric and every member passes it. */
weft_status weft_gather(weft_team *team, void *dst, const void *src, size_t bytes, int root);
weft_status weft_scatter(weft_team *team, void *dst, const void *src, size_t bytes, int root);

/* Sends send_bytes[i] bytes at src + send_at[i] to member i, and receives at most recv_bytes[j]
 * bytes of member j at dst + recv_at[j]. Each array has one element per member, in bytes. The
 * arrays and src may be in memory of the host or of the GPU, symmetric or not, and members may
 * differ in this. dst is symmetric memory of `room` bytes. A block is not stored when it is larger
 * than the receiver's recv_bytes for it, or when its place runs past `room`: the sender gets
 * WEFT_ERR_RANGE and its job fails. All other blocks arrive. */
weft_status weft_alltoallv(weft_team *team, void *dst, size_t room, const uint64_t *recv_bytes,
                           const uint64_t *recv_at, const void *src, const uint64_t *send_bytes,
                           const uint64_t *send_at);

/* For each i < n, dst[i] becomes src[i] of all members combined by op. Every member gets the same
 * bits. dst and src are the same block or do not overlap. */
weft_status weft_allreduce(weft_team *team, void *dst, const void *src, size_t n, weft_type type,
                           weft_op op);

/* As weft_allreduce(), but only the root gets the result. */
weft_status weft_reduce(weft_team *team, void *dst, const void *src, size_t n, weft_type type,
                        weft_op op, int root);

/* Sum of elements times a factor: each element of each member is multiplied by *factor, rounded to
 * the type in which elements are combined, and then added as by WEFT_SUM. Products and sums of
 * integers wrap. For gradients in narrow types, whose plain sum would overflow.
 * factor points to one number: of the elements' type for integers, a float for WEFT_FLOAT,
 * _COMPLEX_FLOAT and types of 16 and 8 bits, a double for WEFT_DOUBLE and _COMPLEX_DOUBLE, a long
 * double for WEFT_LONG_DOUBLE. For types of 16 and 8 bits with WEFT_NARROW_FACTOR, as in
 * WEFT_HALF | WEFT_NARROW_FACTOR, it has the elements' type. It is in memory of the host or of the
 * GPU. It is the same number at every member (checked with WEFT_CHECK=1). */
weft_status weft_allreduce_scaled(weft_team *team, void *dst, const void *src, size_t n,
                                  weft_type type, const void *factor);
weft_status weft_reduce_scaled(weft_team *team, void *dst, const void *src, size_t n,
                               weft_type type, const void *factor, int root);
weft_status weft_reducescatter_scaled(weft_team *team, void *dst, const void *src, size_t n,
                                      weft_type type, const void *factor);

/* As the functions above, but each member's elements are multiplied by that member's own factor
 * (NCCL's PreMulSum). The members exchange their factors, and every member gets the same bits. */
weft_status weft_allreduce_weighted(weft_team *team, void *dst, const void *src, size_t n,
                                    weft_type type, const void *factor);
weft_status weft_reduce_weighted(weft_team *team, void *dst, const void *src, size_t n,
                                 weft_type type, const void *factor, int root);
weft_status weft_reducescatter_weighted(weft_team *team, void *dst, const void *src, size_t n,
                                        weft_type type, const void *factor);

/* dst[0 ... n - 1] at member m becomes elements m * n ... m * n + n - 1 of the combined sources.
 * dst is these elements of src (in place) or does not overlap src. */
weft_status weft_reducescatter(weft_team *team, void *dst, const void *src, size_t n,
                               weft_type type, weft_op op);

/* ---------------------------------------------------------------------------------- paths */

typedef struct weft_path_info {
    size_t size; /* set by the caller: sizeof(weft_path_info) */
    /* "self", "p2p", "staged", "net", "gda", "none"; in tests also "weak" and "slow" */
    const char *name;
    int load_store;      /* 1 when weft_ptr() gives an address */
    int proven;          /* 1 tested, 0 not tested yet, -1 every path between the two PEs failed */
    char reason[256];    /* why this path, and why no faster one */
    uint64_t operations; /* of this PE over this path to that PE's node, all contexts */
    uint64_t bytes;
    /* set by the caller: kind of memory at that PE; WEFT_HOST where `size` does not include
     * this field */
    weft_kind kind;
} weft_path_info;

/* Reports how this PE reaches the memory of kind info->kind at PE `pe`.
 * Errors: WEFT_ERR_UNSUPPORTED (info->kind is WEFT_GPU and the job has not set up its GPUs yet). */
weft_status weft_path_query(weft_job *job, int pe, weft_path_info *info);

/* Tests every path of the job. Both PEs of each pair exchange data patterns, flags and atomics
 * within the wait limit, and compare them. When a path fails, both PEs drop it and use the next
 * one. Collective; no other operation may be in progress.
 * Errors: WEFT_ERR_NO_PATH (a pair has no path left, which ends the job). */
weft_status weft_prove(weft_job *job);

#ifdef __cplusplus
}
#endif

#include <weft/renamed.h>

#endif

#endif
