/* SPDX-License-Identifier: Apache-2.0 */
/* Files and symmetric memory: reads a file straight into memory of the host or GPU of any PE, and
 * writes it from there. It bypasses the page cache where the file system allows (O_DIRECT).
 *
 *     weft_file *file;
 *     weft_file_result result;
 *     weft_file_open(job, "weights.bin", WEFT_FILE_READ, NULL, &file);
 *     weft_file_read(file, gpu_block, bytes, 4096, weft_my_pe(job), &result);
 *     weft_file_close(file);
 *
 * An address and a PE name the memory. With the caller's own PE number the address is any memory of
 * this process: the host heap, the GPU heap, other memory, registered or not. With another PE's
 * number it is an address in the caller's own segment, which names the same place at that PE, as
 * for weft_put(); the caller opens the file and that PE does nothing. File offset, size and address
 * may have any alignment.
 *
 * Safe bytes. Every transfer ends with a weft_file_result. `done` counts bytes from the start of
 * the transfer: these bytes have been moved, whatever happened after them. The bytes after them, in
 * the file (write) or in memory (read), are undefined. The library continues a call that a signal
 * interrupts or that moves fewer bytes than requested. Written bytes survive a loss of power only
 * after weft_file_sync().
 *
 * Concurrency. Writes of ranges that do not overlap never disturb each other, from threads, PEs,
 * processes and handles alike, also where the ranges share a block or a page of the file. Whole
 * pages bypass the page cache and parts of pages always go through it, so no write stores bytes
 * that it was not given. After writes that overlap in time and place, the range holds the bytes of
 * either. A read sees every write that had ended before the read began; over NFS this holds within
 * one machine. Several threads may make all calls but open and close at once, where the job was
 * initialised with WEFT_THREAD_MULTIPLE.
 *
 * Errors common to all: WEFT_ERR_ARGUMENT (null, a handle not opened for this direction), _ADDRESS
 * (another PE's number and no symmetric address), _RANGE (past the end of its segment; past the end
 * of the file when reading), _PE, _SYSTEM (the operating system refused: a full disk, EIO; `error`
 * is its errno), _TIMEOUT (the system completed nothing for WEFT_WAIT_LIMIT), _NO_PATH, _FINALIZED,
 * _NO_MEMORY. */
#ifndef WEFT_FILE_H
#define WEFT_FILE_H

#include <weft.h>
#include <weft/launch.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_file weft_file; /* an open file of one PE */

/* Result of one transfer. The library fills it when the transfer ends, also after a failure. */
typedef struct weft_file_result {
    weft_status status;
    int error;         /* errno of the system call that failed; else 0 */
    uint64_t done;     /* bytes from the start of the transfer that are moved */
    uint32_t crc32c;   /* checksum of these bytes if the file was opened with WEFT_FILE_CHECKSUM;
                          else 0 */
    uint32_t reserved; /* 0 */
} weft_file_result;

#define WEFT_FILE_READ      1u  /* open for reading */
#define WEFT_FILE_WRITE     2u  /* open for writing; both may be given */
#define WEFT_FILE_CREATE    4u  /* create the file if it does not exist */
#define WEFT_FILE_EXCLUSIVE 8u  /* with CREATE: fail if the file exists */
#define WEFT_FILE_TRUNCATE  16u /* make the file empty */
#define WEFT_FILE_CHECKSUM  32u /* every result gets the CRC-32C (Castagnoli) of its bytes */
#define WEFT_FILE_BUFFERED  64u /* use the page cache even where the file system offers O_DIRECT */

typedef struct weft_file_attr {
    size_t size;        /* set by the caller: sizeof(weft_file_attr) */
    unsigned mode;      /* permissions of a created file, less the umask; 0 = 0666 */
    unsigned depth;     /* requests in flight at once, 1 to 256; 0 = WEFT_TEST_FILE_DEPTH */
    size_t chunk_bytes; /* bytes of one request, a multiple of 4096 up to 64 MiB; 0 =
                           WEFT_TEST_FILE_CHUNK */
} weft_file_attr;

/* Opens a file, or a block device, for this PE alone; not collective. attr may be NULL. When the
 * call fails after it created the file, it removes the file.
 * Errors: WEFT_ERR_ARGUMENT (neither READ nor WRITE, unknown flags, attr, a directory, a pipe or
 * socket or device that has no offsets), _CONFIG (a bad WEFT_FILE_ variable), _UNSUPPORTED
 * (WEFT_FILE_BACKEND=uring, and the system refuses io_uring), _SYSTEM (the system refused; the
 * sentence has the path and the cause). */
weft_status weft_file_open(weft_job *job, const char *path, unsigned flags,
                           const weft_file_attr *attr, weft_file **file);

/* Waits for transfers in flight and closes the file. NULL is allowed. Returns the first failure of
 * an _nbi transfer that no weft_file_quiet() has reported. weft_finalize() closes files that are
 * still open; the program still passes their handles to this function. Written bytes survive a loss
 * of power only after weft_file_sync(). */
weft_status weft_file_close(weft_file *file);

/* *bytes becomes the size of the file in bytes. */
weft_status weft_file_size(weft_file *file, uint64_t *bytes);

/* Sets the size of the file to `bytes` bytes: cuts its end off, or appends zeros. */
weft_status weft_file_resize(weft_file *file, uint64_t bytes);

/* Moves `bytes` bytes between file offset `offset` (in bytes) and memory at `dst` or `src` of PE
 * `pe`. read returns when the bytes are in that memory; loads and kernels of PE `pe` see them after
 * the caller has signalled to it or met it in a barrier. write returns when the operating system
 * has the bytes and every reader sees them. Kernels that store into the source of a write must have
 * ended before the call. result may be NULL.
 * A read past the end of the file moves the bytes up to the end and returns WEFT_ERR_RANGE. A write
 * past the end makes the file longer; a gap reads as zeros. */
weft_status weft_file_read(weft_file *file, void *dst, size_t bytes, uint64_t offset, int pe,
                           weft_file_result *result);
weft_status weft_file_write(weft_file *file, const void *src, size_t bytes, uint64_t offset, int pe,
                            weft_file_result *result);

/* The same without waiting: memory and *result (may be NULL) belong to the library until
 * weft_file_quiet(). A thread of the library moves the bytes while the program computes. Transfers
 * have no order among each other. The call itself returns errors in arguments, and then nothing has
 * begun. */
weft_status weft_file_read_nbi(weft_file *file, void *dst, size_t bytes, uint64_t offset, int pe,
                               weft_file_result *result);
weft_status weft_file_write_nbi(weft_file *file, const void *src, size_t bytes, uint64_t offset,
                                int pe, weft_file_result *result);

/* One of several transfers of one call. */
typedef struct weft_file_part {
    void *address; /* memory; a write only reads it */
    size_t bytes;
    uint64_t offset;
    int pe;
    weft_file_result *result; /* may be NULL */
} weft_file_part;

/* Does n transfers in one call, in flight together up to the depth. The transfers have no order
 * among each other, and each has its own result. Returns the first failure in the order of the
 * list. When an argument of any part is wrong, nothing has begun. */
weft_status weft_file_read_vector(weft_file *file, const weft_file_part *parts, size_t n);
weft_status weft_file_write_vector(weft_file *file, const weft_file_part *parts, size_t n);
weft_status weft_file_read_vector_nbi(weft_file *file, const weft_file_part *parts, size_t n);
weft_status weft_file_write_vector_nbi(weft_file *file, const weft_file_part *parts, size_t n);

/* Transfers in the order of a stream (weft/stream.h): the transfer begins when the work queued
 * before it has ended, and work queued after it waits until the bytes have been moved. The result
 * and the next weft_file_quiet() report a failure; the stream continues. In a captured graph each
 * replay does the transfer again. Until the stream has passed the transfer, the program leaves
 * memory and result unchanged and the file open. */
weft_status weft_file_read_on_stream(weft_file *file, void *dst, size_t bytes, uint64_t offset,
                                     int pe, weft_file_result *result, weft_stream stream);
weft_status weft_file_write_on_stream(weft_file *file, const void *src, size_t bytes,
                                      uint64_t offset, int pe, weft_file_result *result,
                                      weft_stream stream);

/* scatter distributes a file over the members of a team; gather collects the members' blocks in a
 * file. Block i has `bytes` bytes at file offset `offset` + i * bytes, and is in dst or src at
 * member i. Collective over the team with the same arguments except file and result; dst and src
 * are symmetric. file is NULL at members that cannot reach the file; at least one member has it,
 * and the others need no disk. Each block is moved once, straight to or from the memory of its
 * member: by that member if it has the file, else by the members that have it, in turn. result, of
 * each member for its own block, may be NULL. After a gather, the blocks survive a loss of power
 * once every member that has the file has called weft_file_sync().
 * Returns the same at every member: WEFT_OK, or the failure of the first member whose block failed.
 * On return every block has been tried.
 * Errors, besides: WEFT_ERR_ARGUMENT (no member has the file), _MISMATCH. */
weft_status weft_file_scatter(weft_team *team, weft_file *file, void *dst, size_t bytes,
                              uint64_t offset, weft_file_result *result);
weft_status weft_file_gather(weft_team *team, weft_file *file, const void *src, size_t bytes,
                             uint64_t offset, weft_file_result *result);

/* Waits for every _nbi transfer of this handle that began before. Returns the first failure since
 * the last quiet; each transfer has its own failure in its result. */
weft_status weft_file_quiet(weft_file *file);

/* *ended becomes 1 when weft_file_quiet() would not wait, else 0. Does not wait, and reports no
 * failure of a transfer. */
weft_status weft_file_test(weft_file *file, int *ended);

/* Returns the CRC-32C of two adjacent ranges from the CRC-32C of each and the size of the second in
 * bytes, without reading the data again. The CRC-32C of an empty range is 0. */
uint32_t weft_file_join_checksums(uint32_t first, uint32_t second, uint64_t second_bytes);

/* Waits as weft_file_quiet() does, and then until everything written to this file survives a loss
 * of power: its data, its size, and its name in the folder where this handle created the file.
 * After a failure, bytes written since the last successful sync may be lost even if a later call
 * succeeds: write them again.
 * Source: fsync(2), fdatasync(2). */
weft_status weft_file_sync(weft_file *file);

/* How this handle reads and writes the file, and why it uses no faster method. */
typedef struct weft_file_info {
    size_t size; /* set by the caller: sizeof(weft_file_info) */
    /* "uring direct", "uring buffered", "threads direct", "threads buffered" */
    const char *backend;
    /* bytes to which offsets and sizes must be aligned to bypass the page cache; 1 =
     * buffered */
    uint32_t alignment;
    uint32_t memory_alignment; /* alignment, in bytes, of memory that is read into without a copy */
    uint32_t depth;            /* requests in flight at once */
    uint64_t chunk_bytes;      /* largest request in bytes */
    char file_system[32];      /* "ext4", "xfs", "tmpfs", "overlay", "nfs4" ... */
    char store[64];            /* "NVMe", "NVMe over tcp", "loop device", "memory", "network" ... */
    char reason_code[32];      /* why no faster method: "FILE-NO-URING" ...; "" = this is the
                                  fastest */
    char reason[256];          /* the same in words, with what was observed */
    /* How transfers to memory of this PE's GPU are done: "cufile direct, nvidia_fs" or "cufile
     * direct, P2PDMA" (the driver moves the bytes between disk and GPU), "cufile compat"
     * (WEFT_FILE_GPU=compat), "pinned" (through pinned memory of the host, with `backend`). "" =
     * this PE has no GPU, or no transfer has needed it yet. */
    const char *gpu_backend;
    char gpu_reason_code[32]; /* why not direct: "FILE-NO-NVIDIA-FS" ...; "" = it is direct, or
                                 direct was not requested */
    char gpu_reason[256];
} weft_file_info;
weft_status weft_file_query(weft_file *file, weft_file_info *info);

#ifdef __cplusplus
}
#endif

#endif
