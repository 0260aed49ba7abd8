/* SPDX-License-Identifier: Apache-2.0 */
/* Weft: one symmetric memory over all PEs of a job, and one-sided operations on it. Host API.
 *
 * A job is the PEs 0 ... n-1. Each PE has the same segments (heap, optionally the program's global
 * data); a symmetric address is an address inside an own segment and names, together with a PE
 * number, the same place at that PE.
 *
 * Every function that can fail returns a weft_status: WEFT_OK, or a negative code whose sentence,
 * with the values that were wrong and the remedy, weft_last_error() gives to the calling thread.
 * No function exits or prints, but weft_abort().
 *
 * Completion and order (what a program may rely on; terms of OpenSHMEM 1.5, sections 9.5-9.11):
 *   put    returns when the source may be reused; the data is at the peer after weft_quiet().
 *   get    returns when the data has arrived.
 *   _nbi   may return at once; source and destination are the library's until weft_quiet().
 *   fence  puts, atomics and signals before it reach each PE before those after it.
 *   quiet  all operations of the context before it are complete and visible to every PE.
 *   put_signal  its signal is never visible before its data.
 *   A wait or test that succeeded orders what follows it after what the peer did before.
 *
 * Threads: with WEFT_THREAD_MULTIPLE any thread may call at any time, except that collective calls
 * on one team, and calls on one private or serialized context, come from one thread at a time.
 */
#ifndef WEFT_H
#define WEFT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of this header; weft_version() gives that of the library that was loaded. */
#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0

/* ------------------------------------------------------------------------------------ status */

/* X(name, value, meaning). Grouped by what the fault ends: the call (-1 ... -99), the connection to
 * a PE (-100 ... -199), the job (-200 ...). */
#define WEFT_STATUS_LIST(X)                                                                        \
    X(WEFT_OK, 0, "success")                                                                       \
    X(WEFT_ERR_ARGUMENT, -1, "an argument is null or out of its range")                            \
    X(WEFT_ERR_PE, -2, "no such PE in this job, team or context")                                  \
    X(WEFT_ERR_ADDRESS, -3, "the address is not in a symmetric segment")                           \
    X(WEFT_ERR_RANGE, -4, "the transfer runs past the end of its segment")                         \
    X(WEFT_ERR_TYPE, -5, "the type is unknown or not valid for this operation")                    \
    X(WEFT_ERR_OP, -6, "the operation or comparison is unknown")                                   \
    X(WEFT_ERR_CONFIG, -7, "a configuration variable is unknown or has a bad value")               \
    X(WEFT_ERR_NO_MEMORY, -8, "the symmetric heap or the system has no memory of that size left")  \
    X(WEFT_ERR_SYSTEM, -9, "the operating system refused a call")                                  \
    X(WEFT_ERR_MISMATCH, -10, "the PEs called a collective function with different arguments")     \
    X(WEFT_ERR_UNSUPPORTED, -11, "not supported here")                                             \
    X(WEFT_ERR_FREE, -12, "not the start of an allocated block")                                   \
    X(WEFT_ERR_NOT_MEMBER, -13, "this PE is not a member of the team")                             \
    X(WEFT_ERR_ALIGNMENT, -14, "the address is not aligned for its type")                          \
    X(WEFT_ERR_KERNEL, -15, "a kernel could not be started, or was ended for a fault in it")       \
    X(WEFT_ERR_PEER_DEAD, -100, "a PE of the job has ended")                                       \
    X(WEFT_ERR_TIMEOUT, -101, "the wait limit passed without progress")                            \
    X(WEFT_ERR_NO_PATH, -102, "there is no usable path to that PE")                                \
    X(WEFT_ERR_PATH, -103, "the path to that PE failed")                                           \
    X(WEFT_ERR_FINALIZED, -200, "the job has been finalized")                                      \
    X(WEFT_ERR_BOOT, -201, "the PEs of the job could not find each other")                         \
    X(WEFT_ERR_JOB, -202, "the job has failed")                                                    \
    X(WEFT_ERR_VERSION, -203, "the PEs run different versions of Weft")

typedef enum weft_status {
#define WEFT_STATUS_ENUM(name, value, text) name = value,
    WEFT_STATUS_LIST(WEFT_STATUS_ENUM)
#undef WEFT_STATUS_ENUM
} weft_status;

/* Name of a status ("WEFT_ERR_PE"). */
const char *weft_status_name(weft_status status);

/* What a status means, in words, without the values. */
const char *weft_status_text(weft_status status);

/* The sentence of the last fault in the calling thread: what was observed, on what, and where known
 * the remedy. "" when nothing has failed. Valid until the thread's next fault. */
const char *weft_last_error(void);

/* Version of the library, "0.1.0". */
const char *weft_version(void);

/* ------------------------------------------------------------------------------------- types */

typedef struct weft_job weft_job;     /* this PE's part in a job */
typedef struct weft_team weft_team;   /* an ordered set of PEs */
typedef struct weft_ctx weft_ctx;     /* a stream of operations, ordered by fence and quiet */
typedef struct weft_group weft_group; /* PEs that are threads of one process */

/* X(name, size in bytes, C type): element types of arithmetic and comparison. */
#define WEFT_TYPE_LIST(X)                                                                          \
    X(WEFT_INT8, 1, int8_t)                                                                        \
    X(WEFT_INT16, 2, int16_t)                                                                      \
    X(WEFT_INT32, 4, int32_t)                                                                      \
    X(WEFT_INT64, 8, int64_t)                                                                      \
    X(WEFT_UINT8, 1, uint8_t)                                                                      \
    X(WEFT_UINT16, 2, uint16_t)                                                                    \
    X(WEFT_UINT32, 4, uint32_t)                                                                    \
    X(WEFT_UINT64, 8, uint64_t)                                                                    \
    X(WEFT_FLOAT, 4, float)                                                                        \
    X(WEFT_DOUBLE, 8, double)                                                                      \
    X(WEFT_LONG_DOUBLE, 16, long double)                                                           \
    X(WEFT_COMPLEX_FLOAT, 8, float _Complex)                                                       \
    X(WEFT_COMPLEX_DOUBLE, 16, double _Complex)

typedef enum weft_type {
#define WEFT_TYPE_ENUM(name, size, ctype) name,
    WEFT_TYPE_LIST(WEFT_TYPE_ENUM)
#undef WEFT_TYPE_ENUM
        WEFT_TYPE_COUNT,
    /* Types of 16 and 8 bits that C has no name for, of reductions: IEEE binary16; the upper half
     * of a binary32; the two of OCP's FP8 (E4M3 has no infinity). Combined in binary32 and rounded
     * once, to nearest even; an FP8 that is too large becomes the largest finite one (448, 57344),
     * infinity too, and NaN 0x7f. */
    WEFT_HALF = 100,
    WEFT_BFLOAT16 = 101,
    WEFT_FP8_E4M3 = 102,
    WEFT_FP8_E5M2 = 103
} weft_type;

typedef enum weft_op {
    WEFT_AND, /* AND, OR, XOR: integers */
    WEFT_OR,
    WEFT_XOR,
    WEFT_MIN, /* MIN, MAX: integers and real numbers */
    WEFT_MAX,
    WEFT_SUM, /* SUM, PROD: every type; of integers they wrap */
    WEFT_PROD,
    WEFT_AVG, /* real and complex numbers: the sum, divided once by the members. Not of integers,
                 whose sums wrap */
    WEFT_OP_COUNT
} weft_op;

/* Comparison of a wait or test; the values are those of OpenSHMEM's SHMEM_CMP_* order. */
typedef enum weft_cmp {
    WEFT_EQ,
    WEFT_NE,
    WEFT_GT,
    WEFT_LE,
    WEFT_LT,
    WEFT_GE,
    WEFT_CMP_COUNT
} weft_cmp;

typedef enum weft_signal_op { WEFT_SIGNAL_SET, WEFT_SIGNAL_ADD } weft_signal_op;

typedef enum weft_kind {
    WEFT_HOST, /* the host heap */
    WEFT_GPU,  /* the GPU heap */
} weft_kind;

typedef enum weft_thread {
    WEFT_THREAD_SINGLE,
    WEFT_THREAD_FUNNELED,
    WEFT_THREAD_SERIALIZED, /* one thread at a time */
    WEFT_THREAD_MULTIPLE,   /* any thread at any time */
} weft_thread;

/* The largest size_t: "no such element" of the waits over several variables. */
#define WEFT_NONE ((size_t)-1)

/* -------------------------------------------------------------------------- set-up, a job's PEs */

/* Where the PEs of a job meet, and how they know each other: bytes that the program hands to all of
 * them by means of its own (a file, MPI, a socket). They hold a secret. */
typedef struct weft_unique_id {
    unsigned char bytes[128];
} weft_unique_id;

/* Makes an id for one job. To be called on the machine on which PE 0 of that job will run; the port
 * in it is free now, and PE 0 listens there from weft_init() on until all PEs have come. Not
 * collective; no job is needed. Errors: WEFT_ERR_ARGUMENT, _SYSTEM (no port, no random number). */
weft_status weft_unique_id_get(weft_unique_id *id);

typedef struct weft_init_attr {
    size_t size;        /* sizeof(weft_init_attr): lets the structure grow */
    weft_thread thread; /* SINGLE (which is 0) and FUNNELED count as SERIALIZED */
    size_t heap_bytes;  /* host heap of each PE; 0 = WEFT_HEAP_SIZE. Alike at every PE */
    unsigned flags;     /* WEFT_INIT_* */
    weft_group *group;  /* PEs as threads: the group, else NULL */
    int group_pe;       /* PEs as threads: this thread's PE number */
    const weft_unique_id *unique_id; /* meet by this id instead of a launcher's ways; else NULL */
    int unique_id_pe;                /* with it: this PE's number, 0 ... unique_id_npes - 1 */
    int unique_id_npes;              /* and how many PEs there are */
} weft_init_attr;

#define WEFT_INIT_GLOBAL_DATA 1u /* the program's .data and .bss become a symmetric segment */

/* Joins the job that the launcher started, or makes a job of one PE when there was none. Collective
 * over the job. attr may be NULL. On success *job is the handle for all else. On failure nothing is
 * left behind, and *job is NULL. May be called again after weft_finalize().
 * Launchers: `weft run`, PMIx (mpirun, srun), RANK/WORLD_SIZE/MASTER_ADDR/MASTER_PORT (torchrun);
 * or, by attr.unique_id, whatever has started the processes and handed them the id.
 * Errors: WEFT_ERR_ARGUMENT (attr), _CONFIG, _BOOT, _SYSTEM, _NO_MEMORY, _VERSION, _NO_PATH,
 * _TIMEOUT, _PEER_DEAD, _JOB (another PE has ended the job). */
weft_status weft_init(weft_job **job, const weft_init_attr *attr);

/* Ends this PE's part: a barrier over the job, then everything that weft_init() made is undone.
 * Before, what streams have been given and the host does in their order (toward memory that this
 * GPU has no address of, signals in host memory, files, all on simt) is done; WEFT_ERR_TIMEOUT
 * where streams come to none of it within WEFT_WAIT_LIMIT: it is then not done. What the GPU itself
 * does on streams of the program, kernels, and graphs that are being replayed must have ended.
 * Later calls with handles of this job return WEFT_ERR_FINALIZED, as do those of a child that a PE
 * has forked: it is not a PE. Collective. */
weft_status weft_finalize(weft_job *job);

/* Ends the whole job at once with this exit code, of which the system keeps the lower eight bits (1
 * when those of another code than 0 are 0); the other PEs end with a sentence that names this one.
 * Does not return. */
void weft_abort(weft_job *job, int code) __attribute__((__noreturn__));

int weft_my_pe(const weft_job *job); /* this PE's number, 0 ... n-1; -1 after finalize */
int weft_n_pes(const weft_job *job); /* number of PEs in the job; -1 after finalize */
weft_thread weft_query_thread(const weft_job *job);

/* PEs as threads of one process: make a group of n, start n threads, call weft_init() in each with
 * attr.group and attr.group_pe. For tests and for tools that watch one process (ThreadSanitizer).
 * Destroy the group after every member has finalized. */
weft_status weft_group_create(int n, weft_group **group);
void weft_group_destroy(weft_group *group);

/* --------------------------------------------------------------------------------- memory */

#define WEFT_ALLOC_ATOMICS 1u /* hint: remote atomics will touch the block */
#define WEFT_ALLOC_SIGNALS 2u /* hint: the block holds signal words */
#define WEFT_ALLOC_ZERO    4u /* the block is filled with zeros */

/* Allocates `bytes` (0 gives *address = NULL) at the same offset at every PE, aligned to `align`
 * (0 = 64; else a power of two up to 1 GiB for WEFT_HOST, 2 MiB for WEFT_GPU). `flags` is a sum of
 * WEFT_ALLOC_*. Collective over the job, with the same arguments everywhere; ends with a barrier,
 * so the block may be used remotely at once.
 * Errors: WEFT_ERR_NO_MEMORY (says what is free), _MISMATCH (names both calls), _ARGUMENT. */
weft_status weft_alloc(weft_job *job, weft_kind kind, size_t bytes, size_t align, unsigned flags,
                       void **address);

/* Frees a block of weft_alloc(). NULL is allowed. Collective; begins with a barrier.
 * Errors: WEFT_ERR_FREE (double free, foreign pointer). */
weft_status weft_free(weft_job *job, void *address);

/* Resizes, keeping the alignment, and the contents up to the smaller size, with what was put into
 * it on default contexts before; *resized is the new block. Collective; begins with a barrier. */
weft_status weft_realloc(weft_job *job, void *address, size_t bytes, void **resized);

/* Address at which this PE can load and store the object `symmetric` of PE `pe`, or NULL when the
 * path to it has none (or pe or address is not valid). */
void *weft_ptr(const weft_job *job, const void *symmetric, int pe);

/* Whether `address` is symmetric and its counterpart at `pe` can be reached: 1 or 0. */
int weft_accessible(const weft_job *job, const void *address, int pe);

/* ------------------------------------------------------------------------------- contexts */

#define WEFT_CTX_SERIALIZED 1u /* used by one thread at a time */
#define WEFT_CTX_PRIVATE    2u /* used only by the thread that made it */
#define WEFT_CTX_NOSTORE    4u /* its fence and quiet need not order the program's own stores */

/* The context that every PE has from the start. PE numbers in it are those of the job. */
weft_ctx *weft_default_ctx(weft_job *job);

/* Makes a context over the PEs of `team`; PE numbers in its operations are those of the team.
 * Not collective. Destroying a context completes its operations first.
 * Options are promises of the program (OpenSHMEM 1.5, 9.5.1). They save nothing today: a context
 * has no lock and no atomic of its own, and a put over a load/store path is a store of the CPU,
 * which the instruction that orders puts orders as well. WEFT_CTX_PRIVATE is checked: to another
 * thread fence, quiet, waits and whatever leaves the fast path are refused (all operations with
 * WEFT_CHECK=1). Calls that complete the contexts of all threads, and weft_ctx_destroy(), may come
 * from any thread.
 * Errors: WEFT_ERR_ARGUMENT (unknown options, named), _NO_MEMORY, _FINALIZED. */
weft_status weft_ctx_create(weft_team *team, unsigned options, weft_ctx **ctx);
weft_status weft_ctx_destroy(weft_ctx *ctx);
weft_team *weft_ctx_team(weft_ctx *ctx);

/* Errors common to all operations below: WEFT_ERR_PE, _ADDRESS, _RANGE, _ARGUMENT (null),
 * _FINALIZED, _PEER_DEAD, _NO_PATH, _TIMEOUT. `dst` of a put and `src` of a get are symmetric
 * addresses; the other side is any memory of this PE. Sizes and strides are in bytes unless
 * said. */

/* ------------------------------------------------------------------------- put and get (RMA) */

weft_status weft_put(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe);
weft_status weft_get(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe);
weft_status weft_put_nbi(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe);
weft_status weft_get_nbi(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe);

/* Single values: written or read by one access of that width, so a reader never sees a part.
 * The address is aligned to the width (else WEFT_ERR_ALIGNMENT). */
weft_status weft_p8(weft_ctx *ctx, void *dst, uint8_t value, int pe);
weft_status weft_p16(weft_ctx *ctx, void *dst, uint16_t value, int pe);
weft_status weft_p32(weft_ctx *ctx, void *dst, uint32_t value, int pe);
weft_status weft_p64(weft_ctx *ctx, void *dst, uint64_t value, int pe);
weft_status weft_g8(weft_ctx *ctx, const void *src, uint8_t *value, int pe);
weft_status weft_g16(weft_ctx *ctx, const void *src, uint16_t *value, int pe);
weft_status weft_g32(weft_ctx *ctx, const void *src, uint32_t *value, int pe);
weft_status weft_g64(weft_ctx *ctx, const void *src, uint64_t *value, int pe);

/* n elements of `element` bytes; strides count elements (1 = contiguous), at least 1. */
weft_status weft_iput(weft_ctx *ctx, void *dst, const void *src, ptrdiff_t dst_stride,
                      ptrdiff_t src_stride, size_t element, size_t n, int pe);
weft_status weft_iget(weft_ctx *ctx, void *dst, const void *src, ptrdiff_t dst_stride,
                      ptrdiff_t src_stride, size_t element, size_t n, int pe);

/* ------------------------------------------------------------------------------------ signals */

/* put, then *signal at the same PE is set to `value` or has it added; the signal is not visible
 * before the data. `signal` is a symmetric, 8-byte aligned uint64_t. */
weft_status weft_put_signal(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                            uint64_t *signal, uint64_t value, weft_signal_op op, int pe);
weft_status weft_put_signal_nbi(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                uint64_t *signal, uint64_t value, weft_signal_op op, int pe);

/* Changes a signal without data. */
weft_status weft_signal(weft_ctx *ctx, uint64_t *signal, uint64_t value, weft_signal_op op, int pe);

/* Reads an own signal. */
weft_status weft_signal_fetch(weft_ctx *ctx, const uint64_t *signal, uint64_t *value);

/* Waits until the own *signal compares true with `value`; *seen (may be NULL) is what it was. */
weft_status weft_signal_wait(weft_ctx *ctx, const uint64_t *signal, weft_cmp cmp, uint64_t value,
                             uint64_t *seen);

/* ----------------------------------------------------------------------------------- atomics */

/* Atomic with respect to all other functions of this section, weft_signal*() and the waits, on the
 * same variable and width. The variable is aligned to its width (else WEFT_ERR_ALIGNMENT). Those
 * with a `fetched` argument return the value from before, in memory of the host. inc is add of 1;
 * on float and double, set, fetch and swap act on the bit pattern. */
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

/* The atomics by number, for the non-blocking form. */
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

/* Non-blocking: *fetched (of `width` 4 or 8 bytes, in memory of the host or of this PE's GPU; may
 * be NULL for those that fetch nothing) is there after weft_quiet(). `expected` is used by CSWAP
 * alone, and stands in front of `value` as in weft_atomic_cswap64(). */
weft_status weft_atomic_nbi(weft_ctx *ctx, weft_amo amo, size_t width, void *dst, uint64_t expected,
                            uint64_t value, void *fetched, int pe);

/* ----------------------------------------------------------------------------------- ordering */

weft_status weft_fence(weft_ctx *ctx);
weft_status weft_quiet(weft_ctx *ctx);

/* ----------------------------------------------------------------------------- wait and test */

/* Variables are own symmetric memory, changed by peers or by other threads of this PE. `type` is
 * an integer type of 2, 4 or 8 bytes; `value` is its bit pattern, extended to 64 bits (signed types
 * by sign).
 *
 * Every wait, those inside collectives too, tells slowness from death. After WEFT_WAIT_WARN (60 s)
 * it says once what it waits for and what that PE does. It fails with WEFT_ERR_PEER_DEAD when a PE
 * of the job ends meanwhile, with the job's failure when there is one, and with WEFT_ERR_TIMEOUT
 * when for WEFT_WAIT_LIMIT (10 min) neither the variable has changed nor any PE it depends on has
 * begun or ended an operation. Time in which a PE is stopped, by a signal or in a debugger, does
 * not count.
 *
 * Forms over n variables at ivars[]: elements with a non-zero status[i] are left out (status may be
 * NULL). `all`: all compare true. `any`: *index is one that does, WEFT_NONE when none takes part.
 * `some`: indices[] gets those that do, *count their number (at least 1 unless none takes part).
 * The vector forms compare ivars[i] with element i of `values`, an array of the type.
 * Tests do not wait: *result is 1 or 0, *index WEFT_NONE, *count 0. */
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

weft_team *weft_team_world(weft_job *job);  /* every PE */
weft_team *weft_team_node(weft_job *job);   /* the PEs that share this PE's kernel */
int weft_team_my_pe(const weft_team *team); /* this PE's number in the team, -1 if not a member */
int weft_team_n_pes(const weft_team *team);

/* The number in `to` of the PE that is `pe` in `from`, or -1. */
int weft_team_translate(const weft_team *from, int pe, const weft_team *to);

/* The PEs start, start+stride, ... of `parent`, `n` of them; collective over parent. Members get
 * the new team, the others *team = NULL. stride may be negative or, with n = 1, zero. */
weft_status weft_team_split_strided(weft_team *parent, int start, int stride, int n,
                                    weft_team **team);

/* Lays the parent's PEs out in rows of `xrange` and makes this PE's row (*xteam) and column
 * (*yteam); collective over parent. */
weft_status weft_team_split_2d(weft_team *parent, int xrange, weft_team **xteam, weft_team **yteam);

/* Ends a team that was split off, and contexts on it; collective over the team. */
weft_status weft_team_destroy(weft_team *team);

/* -------------------------------------------------------------------------------- collectives */

/* Collective over the team, in the same order at every member, with the same sizes, types and
 * roots. Destinations and sources are symmetric; the destination at every member must be ready
 * when any member calls. Sizes are bytes per PE (per pair for alltoall). On return the local
 * destination is complete and the local source may be reused. broadcast copies to the root's own
 * destination too.
 * Source: OpenSHMEM 1.5, section 9.9. */

/* All members have arrived, and all operations on the default context and the team's contexts by
 * members before it are complete. */
weft_status weft_barrier(weft_team *team);

/* All members have arrived; stores to own memory before it are visible. Completes no operation. */
weft_status weft_sync(weft_team *team);

weft_status weft_broadcast(weft_team *team, void *dst, const void *src, size_t bytes, int root);
weft_status weft_alltoall(weft_team *team, void *dst, const void *src, size_t bytes);

/* n elements of `element` bytes per pair, elements dst_stride and src_stride apart (in
 * elements). */
weft_status weft_alltoalls(weft_team *team, void *dst, const void *src, ptrdiff_t dst_stride,
                           ptrdiff_t src_stride, size_t element, size_t n);

/* fcollect: `bytes` from each, in the order of the team. collect: each member's own `bytes`. */
weft_status weft_fcollect(weft_team *team, void *dst, const void *src, size_t bytes);
weft_status weft_collect(weft_team *team, void *dst, const void *src, size_t bytes);

/* To and from one member. gather: block i of the root's dst becomes the `bytes` of member i.
 * scatter: member i gets block i of the root's src. dst is symmetric, and given at every member. */
weft_status weft_gather(weft_team *team, void *dst, const void *src, size_t bytes, int root);
weft_status weft_scatter(weft_team *team, void *dst, const void *src, size_t bytes, int root);

/* send_bytes[i] bytes at src + send_at[i] go to member i, which has room for recv_bytes[j] of
 * member j at dst + recv_at[j]: arrays with a word for each member. They and src may be in memory
 * of the host or of the GPU, symmetric or not, and not alike at all members; dst is symmetric
 * memory of `room` bytes. A block that is larger than its receiver's room for it, or whose room
 * runs past `room`, is not stored: WEFT_ERR_RANGE at its sender, whose job fails; what fits arrives
 * all the same. */
weft_status weft_alltoallv(weft_team *team, void *dst, size_t room, const uint64_t *recv_bytes,
                           const uint64_t *recv_at, const void *src, const uint64_t *send_bytes,
                           const uint64_t *send_at);

/* dst[i] = src[i] of every member combined by op, i < n, at every member with the same bits.
 * dst and src are the same block or do not overlap. */
weft_status weft_reduce(weft_team *team, void *dst, const void *src, size_t n, weft_type type,
                        weft_op op);

/* The same, for the root alone. */
weft_status weft_reduce_to(weft_team *team, void *dst, const void *src, size_t n, weft_type type,
                           weft_op op, int root);

/* The sum of elements times a factor: each element of each member is multiplied by *factor, rounded
 * to the type that elements are combined in, and then added as by WEFT_SUM. Real and complex types;
 * factor points to one number of that type: float for WEFT_FLOAT, _COMPLEX_FLOAT and those of 16
 * and 8 bits, double for WEFT_DOUBLE and _COMPLEX_DOUBLE, long double for WEFT_LONG_DOUBLE. It is
 * in host memory or in memory of the GPU, and the same number at every member (compared with
 * WEFT_CHECK=1). For gradients in narrow types, whose plain sum would leave their range. */
weft_status weft_reduce_scaled(weft_team *team, void *dst, const void *src, size_t n,
                               weft_type type, const void *factor);
weft_status weft_reduce_to_scaled(weft_team *team, void *dst, const void *src, size_t n,
                                  weft_type type, const void *factor, int root);
weft_status weft_reducescatter_scaled(weft_team *team, void *dst, const void *src, size_t n,
                                      weft_type type, const void *factor);

/* The same with a factor of each member's own, by which its elements are multiplied (what NCCL
 * calls PreMulSum): the members tell each other their factors, and the bits are equal at all. */
weft_status weft_reduce_weighted(weft_team *team, void *dst, const void *src, size_t n,
                                 weft_type type, const void *factor);
weft_status weft_reduce_to_weighted(weft_team *team, void *dst, const void *src, size_t n,
                                    weft_type type, const void *factor, int root);
weft_status weft_reducescatter_weighted(weft_team *team, void *dst, const void *src, size_t n,
                                        weft_type type, const void *factor);

/* Member m gets elements m * n ... m * n + n - 1 of the combined sources in dst[0 ... n - 1]. dst
 * is these elements of src (in place) or does not overlap it. */
weft_status weft_reducescatter(weft_team *team, void *dst, const void *src, size_t n,
                               weft_type type, weft_op op);

/* ---------------------------------------------------------------------------------- paths */

typedef struct weft_path_info {
    size_t size; /* set by the caller: sizeof(weft_path_info) */
    const char
        *name; /* "self", "p2p", "staged", "net", "gda", of tests "weak" and "slow", or "none" */
    int load_store;      /* 1 when weft_ptr() gives an address */
    int proven;          /* 1 proven, 0 not tried, -1 every path between the two failed */
    char reason[256];    /* why this path, and why no better one */
    uint64_t operations; /* by this PE over this path to that PE's node, all contexts */
    uint64_t bytes;
    weft_kind
        kind; /* set by the caller: of which memory of that PE; a size without it: WEFT_HOST */
} weft_path_info;

/* How this PE reaches the memory of PE `pe` that is of kind info->kind. WEFT_ERR_UNSUPPORTED:
 * WEFT_GPU, and the job has no GPU side yet. */
weft_status weft_path_query(weft_job *job, int pe, weft_path_info *info);

/* Proves every path of the job: pair by pair, both ends exchange data patterns, flags and atomics
 * within the wait limit, and compare. A path that fails is dropped at both ends for the next one.
 * Collective; no other operation is under way. WEFT_ERR_NO_PATH when a pair is left without a path,
 * which ends the job. */
weft_status weft_prove(weft_job *job);

#ifdef __cplusplus
}
#endif

#endif
