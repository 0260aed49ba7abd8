/* SPDX-License-Identifier: Apache-2.0 */
/* Files and symmetric memory: reading a file straight into memory of any PE, host's or GPU's, and
 * writing it from there, without the page cache where the file system allows (O_DIRECT).
 *
 *     weft_file *file;
 *     weft_file_result result;
 *     weft_file_open(job, "weights.bin", WEFT_FILE_READ, NULL, &file);
 *     weft_file_read(file, gpu_block, bytes, 4096, weft_my_pe(job), &result);
 *     weft_file_close(file);
 *
 * The memory is named by an address and a PE. With this PE's own number: any memory of this
 * process, the host heap, the GPU heap, registered or not. With another PE's number: an address in
 * an own segment, which names the same place there, as for weft_put(); the file is opened here,
 * that PE does nothing. Any offset, size and alignment of either; nothing is rounded for the
 * caller.
 *
 * Safe bytes. Every transfer ends with a weft_file_result. `done` counts from the start of the
 * transfer: these bytes have been moved, whatever happened behind them; of what lies behind them
 * nothing is said, in the file (write) or in memory (read). A call that a signal interrupts, or
 * that moves less than asked, goes on by itself. To be safe from a loss of power what was written
 * also needs weft_file_sync().
 *
 * Concurrency. Writes of ranges that do not overlap never disturb each other, from threads, PEs,
 * processes and handles alike, also where they share a block or a page of the file: whole pages go
 * past the page cache, and parts of pages always through it, so that nobody writes bytes that were
 * not given to it. Writes that overlap while both are under way leave either's bytes. A read sees
 * every write that had ended before it began. Over NFS that holds within one machine. All calls but
 * open and close may come from several threads at once where the job was initialised for that.
 *
 * Errors common to all: WEFT_ERR_ARGUMENT (null, a handle without the right), _ADDRESS (another
 * PE's number and no symmetric address), _RANGE (past the end of its segment; past the end of the
 * file when reading), _PE, _SYSTEM (what the operating system refused: a full disk, EIO; `error` is
 * its errno), _TIMEOUT (for WEFT_WAIT_LIMIT the system completed nothing), _NO_PATH, _FINALIZED,
 * _NO_MEMORY. */
#ifndef WEFT_FILE_H
#define WEFT_FILE_H

#include <weft.h>
#include <weft/launch.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_file weft_file; /* an open file, of one PE */

/* What came of a transfer. Filled when it has ended, also when it has failed. */
typedef struct weft_file_result {
    weft_status status;
    int error;         /* errno of the call that the system refused; else 0 */
    uint64_t done;     /* bytes from its start that are safely moved */
    uint32_t crc32c;   /* of those, where the file was opened with WEFT_FILE_CHECKSUM; else 0 */
    uint32_t reserved; /* 0 */
} weft_file_result;

#define WEFT_FILE_READ      1u  /* open for reading */
#define WEFT_FILE_WRITE     2u  /* open for writing; both may be given */
#define WEFT_FILE_CREATE    4u  /* make it where it is not there */
#define WEFT_FILE_EXCLUSIVE 8u  /* with CREATE: fail where it is there already */
#define WEFT_FILE_TRUNCATE  16u /* empty it */
#define WEFT_FILE_CHECKSUM  32u /* every result gets the CRC-32C (Castagnoli) of its bytes */
#define WEFT_FILE_BUFFERED  64u /* by the page cache, also where the file system offers O_DIRECT */

typedef struct weft_file_attr {
    size_t size;        /* set by the caller: sizeof(weft_file_attr) */
    unsigned mode;      /* permission of a file that is made, less the umask; 0 = 0666 */
    unsigned depth;     /* requests under way at once, 1 to 256; 0 = WEFT_FILE_DEPTH */
    size_t chunk_bytes; /* bytes of one request, a multiple of 4096 up to 64 MiB; 0 =
                           WEFT_FILE_CHUNK */
} weft_file_attr;

/* Opens a file, or a block device, for this PE alone; not collective. attr may be NULL.
 * Errors: WEFT_ERR_ARGUMENT (neither READ nor WRITE, unknown flags, attr, a directory, a pipe or
 * socket or device that has no offsets), _CONFIG (a bad WEFT_FILE_ variable), _UNSUPPORTED
 * (WEFT_FILE_BACKEND=uring, and the system refuses io_uring), _SYSTEM (the system refused; the
 * sentence says the path and why). A file that it has made is gone again then. */
weft_status weft_file_open(weft_job *job, const char *path, unsigned flags,
                           const weft_file_attr *attr, weft_file **file);

/* Waits for what is under way and closes. NULL is allowed. Returns the first failure of an _nbi
 * transfer that no weft_file_quiet() has told. Files still open at weft_finalize() are closed by
 * it; their handles stay, to be given to this function. What was written is safe from a loss of
 * power only after weft_file_sync(). */
weft_status weft_file_close(weft_file *file);

/* Bytes that the file has now. */
weft_status weft_file_size(weft_file *file, uint64_t *bytes);

/* Cuts the file or lengthens it with zeros. */
weft_status weft_file_resize(weft_file *file, uint64_t bytes);

/* Moves `bytes` between offset `offset` of the file and `dst` or `src` at PE `pe`, and returns when
 * they are there: in the memory, visible to that PE's later loads and kernels once it is told (by a
 * signal or barrier); with the operating system, visible to every reader. result may be NULL.
 * A read past the end of the file moves what there is and returns WEFT_ERR_RANGE. A write past the
 * end lengthens the file; a gap reads as zeros. What a kernel stores into the source must be
 * complete before. */
weft_status weft_file_read(weft_file *file, void *dst, size_t bytes, uint64_t offset, int pe,
                           weft_file_result *result);
weft_status weft_file_write(weft_file *file, const void *src, size_t bytes, uint64_t offset, int pe,
                            weft_file_result *result);

/* The same without waiting: memory and *result (may be NULL) are the library's until
 * weft_file_quiet(). They go on by themselves: a thread of the library moves them while the program
 * computes. They have no order among each other. Errors in arguments are told at once, and then
 * nothing has begun. */
weft_status weft_file_read_nbi(weft_file *file, void *dst, size_t bytes, uint64_t offset, int pe,
                               weft_file_result *result);
weft_status weft_file_write_nbi(weft_file *file, const void *src, size_t bytes, uint64_t offset,
                                int pe, weft_file_result *result);

/* One transfer of several. */
typedef struct weft_file_part {
    void *address; /* of a write: only read */
    size_t bytes;
    uint64_t offset;
    int pe;
    weft_file_result *result; /* NULL: nobody wants to know */
} weft_file_part;

/* n transfers by one call, all under way together as the depth allows; they have no order among
 * each other, and each has its result. Returns the first failure in the order of the list; where an
 * argument of some part is wrong, nothing has begun. */
weft_status weft_file_read_vector(weft_file *file, const weft_file_part *parts, size_t n);
weft_status weft_file_write_vector(weft_file *file, const weft_file_part *parts, size_t n);
weft_status weft_file_read_vector_nbi(weft_file *file, const weft_file_part *parts, size_t n);
weft_status weft_file_write_vector_nbi(weft_file *file, const weft_file_part *parts, size_t n);

/* In the order of a stream (weft/stream.h): begins when what was put on it before has ended, and
 * what is put on it afterwards waits until the bytes are there. A failure is told by the result and
 * by the next weft_file_quiet(); the stream goes on. In a captured graph it is done again at each
 * replay. Memory and result stay as they are, and the file stays open, until the stream has
 * passed. */
weft_status weft_file_read_on_stream(weft_file *file, void *dst, size_t bytes, uint64_t offset,
                                     int pe, weft_file_result *result, weft_stream stream);
weft_status weft_file_write_on_stream(weft_file *file, const void *src, size_t bytes,
                                      uint64_t offset, int pe, weft_file_result *result,
                                      weft_stream stream);

/* One file spread over the members of a team, and gathered from them: block i, `bytes` long at
 * offset `offset` + i * bytes of the file, and `dst` or `src` at member i. Collective over the team
 * with the same arguments but file and result; dst and src are symmetric. file is NULL at members
 * that cannot reach it, and must not be at all. Each block is moved once: by the member whose it
 * is, if it has the file, else by one of those that have, in turn, straight into or from that
 * member's memory. A member without the file needs no disk. result, of each member for its own
 * block, may be NULL. Returns the same at every member: WEFT_OK, or the failure of the first member
 * whose block has failed; on return every block has been tried. A gather is safe from a loss of
 * power when every member that has the file has called weft_file_sync(). Errors, besides:
 * WEFT_ERR_ARGUMENT (no member has the file), _MISMATCH. */
weft_status weft_file_scatter(weft_team *team, weft_file *file, void *dst, size_t bytes,
                              uint64_t offset, weft_file_result *result);
weft_status weft_file_gather(weft_team *team, weft_file *file, const void *src, size_t bytes,
                             uint64_t offset, weft_file_result *result);

/* Waits for every _nbi transfer of this handle that began before it. Returns the first failure
 * since the last quiet; each transfer's own is in its result. */
weft_status weft_file_quiet(weft_file *file);

/* *ended: 1 when weft_file_quiet() would not wait, else 0. Does not wait, and tells no failure of a
 * transfer. */
weft_status weft_file_test(weft_file *file, int *ended);

/* The CRC-32C of two ranges one behind the other, from that of each and the bytes of the second: so
 * that checksums of parts need no second look at the data. Of an empty range it is 0. */
uint32_t weft_file_join_checksums(uint32_t first, uint32_t second, uint64_t second_bytes);

/* Waits as weft_file_quiet(), and then until everything written to this file is safe from a loss of
 * power: its data, its size, and, where this handle made the file, its name in the folder. After a
 * failure nothing that was written since the last sync may be taken as safe, and a later success
 * does not make it so: write it again.
 * Source: fsync(2), fdatasync(2). */
weft_status weft_file_sync(weft_file *file);

/* How files are read and written here, and why not better. */
typedef struct weft_file_info {
    size_t size; /* set by the caller: sizeof(weft_file_info) */
    const char
        *backend; /* "uring direct", "uring buffered", "threads direct", "threads buffered" */
    uint32_t
        alignment; /* of offsets and sizes that go past the page cache, in bytes; 1 = buffered */
    uint32_t memory_alignment; /* of memory that is read into without a copy */
    uint32_t depth;            /* requests under way at once */
    uint64_t chunk_bytes;      /* of one request, at most */
    char file_system[32];      /* "ext4", "xfs", "tmpfs", "overlay", "nfs4" ... */
    char store[64];            /* "NVMe", "NVMe over tcp", "loop device", "memory", "network" ... */
    char reason_code[32];      /* why nothing better: "FILE-NO-URING" ...; "" = it is the best */
    char reason[256];          /* the same in words, with what was observed */
    /* Of memory of this PE's GPU: "cufile direct, nvidia_fs" or "cufile direct, P2PDMA" (the driver
     * moves the bytes between disk and GPU), "cufile compat" (WEFT_FILE_GPU=compat), "pinned"
     * (through pinned memory of the host, by `backend`); "" = this PE has no GPU, or none has been
     * needed. */
    const char *gpu_backend;
    char gpu_reason_code[32]; /* why not direct: "FILE-NO-NVIDIA-FS" ...; "" = it is, or was not
                                 wanted */
    char gpu_reason[256];
} weft_file_info;
weft_status weft_file_query(weft_file *file, weft_file_info *info);

#ifdef __cplusplus
}
#endif

#endif
