/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of weft_file.h for one file of one PE: they check the arguments and resolve the
 * memory, as a put does. src/file/file.h moves the bytes. */
#include "ops/file/file.h"

#include "base/crc32c.h"
#include "base/log.h"

#include <stdlib.h>
#include <unistd.h>

/* Bytes of a transfer that measures one combination of request number and size. */
enum { TRIAL_BYTES = 48 << 20 };

weft_status file_check(const char *function, const weft_file *file)
{
    if (!file)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: file is null", function);
    if (!file->engine || atomic_load(&file->job->state) != JOB_RUNNING)
        return job_finalized(function);
    return job_check_failed(file->job);
}

/* -------------------------------------------------------------------------------- open, close */

static weft_status check_open(weft_job *job, const char *path, unsigned flags,
                              const weft_file_attr *attr)
{
    static const char name[] = "weft_file_open";
    if (!job || !path)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: %s is null", name, job ? "path" : "job");
    if (atomic_load(&job->state) != JOB_RUNNING)
        return job_finalized(name);
    weft_status status = job_check_failed(job);
    if (!status)
        status = base_check_bits("weft_file_open: flags", flags, 127);
    if (!status && attr)
        status = base_check_size("weft_file_open: attr", attr, sizeof attr->size, sizeof *attr);
    if (status)
        return status;
    if (!(flags & (WEFT_FILE_READ | WEFT_FILE_WRITE)))
        return base_fail(WEFT_ERR_ARGUMENT,
                         "%s: neither WEFT_FILE_READ nor WEFT_FILE_WRITE is among the flags", name);
    if (!(flags & WEFT_FILE_WRITE) && flags & (WEFT_FILE_CREATE | WEFT_FILE_TRUNCATE))
        return base_fail(WEFT_ERR_ARGUMENT,
                         "%s: WEFT_FILE_CREATE and WEFT_FILE_TRUNCATE need WEFT_FILE_WRITE", name);
    if (flags & WEFT_FILE_EXCLUSIVE && !(flags & WEFT_FILE_CREATE))
        return base_fail(WEFT_ERR_ARGUMENT, "%s: WEFT_FILE_EXCLUSIVE needs WEFT_FILE_CREATE", name);
    return WEFT_OK;
}

/* Closes the file; the handle stays, without engine, so that later calls are refused. */
static weft_status close_file(weft_file *file)
{
    weft_status status = file_engine_quiet(file->engine);
    file_engine_close(file->engine);
    file->engine = NULL;
    if (file->ctx) {
        weft_status other = weft_ctx_destroy(file->ctx);
        status = status ? status : other;
    }
    file->ctx = NULL;
    file_close(&file->handle);
    return status;
}

static void close_all(struct weft_job *job)
{
    while (job->modules.files) {
        weft_file *file = job->modules.files;
        job->modules.files = file->next;
        if (close_file(file))
            log_warn(LOG_FILES, "closing a file at weft_finalize(): %s", base_last_error());
    }
    file_cufile_end(job->gpu);
    file_tunes_free(job->modules.file_tunes);
    job->modules.file_tunes = NULL;
}

static void enlist(struct weft_job *job, weft_file *file)
{
    pthread_mutex_lock(&job->lock);
    file->next = job->modules.files;
    job->modules.files = file;
    job->modules.end_files = close_all;
    if (!job->modules.file_tunes)
        job->modules.file_tunes = file_tunes_new(TRIAL_BYTES);
    pthread_mutex_unlock(&job->lock);
}

static void unlist(struct weft_job *job, weft_file *file)
{
    pthread_mutex_lock(&job->lock);
    weft_file *other = job->modules.files;
    if (other == file) {
        job->modules.files = file->next;
    } else {
        while (other && other->next != file)
            other = other->next;
        if (other)
            other->next = file->next;
    }
    pthread_mutex_unlock(&job->lock);
}

WEFT_EXPORT weft_status weft_file_open(weft_job *job, const char *path, unsigned flags,
                                       const weft_file_attr *given, weft_file **result)
{
    struct file_settings settings;
    weft_file_attr attr = {0};
    if (!result)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_file_open: file is null");
    *result = NULL;
    weft_status status = check_open(job, path, flags, given);
    if (status)
        return status;
    if (given)
        memcpy(&attr, given, given->size < sizeof attr ? given->size : sizeof attr);
    status = file_choose_settings(&attr, flags, &settings);
    settings.wait_limit_ns = job->waits.limit_ns;
    if (status)
        return status;
    weft_file *file = calloc(1, sizeof *file);
    if (!file)
        return base_fail(WEFT_ERR_NO_MEMORY, "weft_file_open: no private memory");
    file->job = job;
    file->flags = flags;
    file->measured = settings.measured;
    status = file_open(&file_system_calls, path, flags, attr.mode, &file->handle);
    if (!status)
        status = file_engine_choose(&file->handle, &settings, &file->engine);
    if (status) {
        if (file->handle.made)
            unlink(path); /* the file was created by this call, and no other process uses it */
        file_close(&file->handle);
        free(file);
        return status;
    }
    enlist(job, file);
    *result = file;
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_file_close(weft_file *file)
{
    weft_status status = WEFT_OK;
    if (!file)
        return WEFT_OK;
    if (job_is_forked_child())
        return job_finalized("weft_file_close");
    if (file->engine) {
        unlist(file->job, file);
        status = close_file(file);
    }
    free(file);
    return status;
}

/* ----------------------------------------------------------------------------- resolving memory */

/* Resolves own memory of any kind. A range that begins in a segment must end there. For the
 * program's own GPU memory the last byte is checked, because a copy past its end would destroy the
 * GPU context. */
static weft_status find_own(const char *function, weft_file *file, const struct file_part *part,
                            struct file_place *place)
{
    weft_ctx *ctx = file->job->default_ctx;
    struct gpu *gpu = file->job->gpu;
    enum segment_id segment;
    size_t offset;
    bool inside = access_find(ctx, part->address, 1, &segment, &offset);
    if (inside && !access_find(ctx, part->address, part->bytes, &segment, &offset))
        return access_find_own(function, ctx, part->address, part->bytes, &segment, &offset);
    *place = (struct file_place){.kind = FILE_HOST, .address = (char *)part->address};
    if (!gpu || gpu_place_of(gpu, part->address) != GPU_PLACE_DEVICE)
        return WEFT_OK;
    place->kind = FILE_DEVICE;
    place->gpu = gpu;
    if (!inside &&
        gpu_place_of(gpu, (const char *)part->address + part->bytes - 1) != GPU_PLACE_DEVICE)
        return base_fail(WEFT_ERR_RANGE,
                         "%s: %zu bytes at %p begin in GPU memory and end outside of it", function,
                         part->bytes, part->address);
    return WEFT_OK;
}

/* Opens a context for this file, so that its quiet waits for no other operations. */
static weft_status open_ctx(weft_file *file)
{
    weft_ctx *new_ctx = NULL;
    pthread_mutex_lock(&file->job->contexts_lock);
    bool is_open = file->ctx != NULL;
    pthread_mutex_unlock(&file->job->contexts_lock);
    if (is_open)
        return WEFT_OK;
    weft_status status = ctx_new(file->job, file->job->world, 0, &new_ctx);
    if (status)
        return status;
    pthread_mutex_lock(&file->job->contexts_lock);
    is_open = file->ctx != NULL; /* another thread may have opened one meanwhile */
    if (!is_open)
        file->ctx = new_ctx;
    pthread_mutex_unlock(&file->job->contexts_lock);
    return is_open ? weft_ctx_destroy(new_ctx) : WEFT_OK;
}

static weft_status find_peer(const char *function, weft_file *file, const struct file_part *part,
                             struct file_place *place)
{
    struct remote *remote = &place->remote;
    *place = (struct file_place){.kind = FILE_REMOTE};
    weft_status status = open_ctx(file);
    if (!status)
        status = access_resolve(function, file->ctx, part->address, part->bytes, part->pe, remote);
    if (status || !job_direct(file->job, (weft_kind)remote->peer->kind, part->pe))
        return status;
    status = remote->peer->ops->address(*remote, &place->address);
    place->kind = remote->segment == SEG_GPU ? FILE_DEVICE : FILE_HOST;
    place->gpu = file->job->gpu;
    return status;
}

weft_status file_find(const char *function, weft_file *file, bool write,
                      const struct file_part *part, struct file_transfer *transfer)
{
    unsigned right = write ? WEFT_FILE_WRITE : WEFT_FILE_READ;
    *transfer = (struct file_transfer){
        .offset = part->offset, .bytes = part->bytes, .write = write, .result = part->result};
    if (!(file->flags & right))
        return base_fail(WEFT_ERR_ARGUMENT, "%s: %s was opened without WEFT_FILE_%s", function,
                         file->handle.path, write ? "WRITE" : "READ");
    if (part->pe < 0 || part->pe >= file->job->npes)
        return base_fail(WEFT_ERR_PE, "%s: PE %d does not exist; the PEs are 0 ... %d", function,
                         part->pe, file->job->npes - 1);
    if (part->bytes == 0)
        return WEFT_OK;
    if (!part->address)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: %s is null", function, write ? "src" : "dst");
    if (part->offset > INT64_MAX || part->bytes > INT64_MAX - part->offset)
        return base_fail(WEFT_ERR_RANGE,
                         "%s: %zu bytes at offset %llu end past the largest file size (2^63 - 1)",
                         function, part->bytes, (unsigned long long)part->offset);
    return part->pe == file->job->pe ? find_own(function, file, part, &transfer->place)
                                     : find_peer(function, file, part, &transfer->place);
}

/* ------------------------------------------------------------------------------- read and write */

static weft_status set_result(weft_file_result *result, weft_status status)
{
    if (result)
        *result = (weft_file_result){.status = status};
    return status;
}

static weft_status run_operation(const char *function, weft_file *file, bool write,
                                 const struct file_part *part)
{
    struct file_transfer transfer;
    weft_status status = file_check(function, file);
    if (!status)
        status = file_find(function, file, write, part, &transfer);
    if (status || !part->bytes)
        return set_result(part->result, status);
    struct file_tunes *tunes = file->measured ? file->job->modules.file_tunes : NULL;
    return tunes ? file_engine_run_tuned(file->engine, tunes, file->handle.device, &transfer)
                 : file_engine_run(file->engine, &transfer, 1);
}

static weft_status begin_operation(const char *function, weft_file *file, bool write,
                                   const struct file_part *part)
{
    struct file_transfer transfer;
    weft_status status = file_check(function, file);
    if (!status)
        status = file_find(function, file, write, part, &transfer);
    if (status)
        return status;
    return part->bytes ? file_engine_begin(file->engine, &transfer)
                       : set_result(part->result, WEFT_OK);
}

WEFT_EXPORT weft_status weft_file_read(weft_file *file, void *dst, size_t bytes, uint64_t offset,
                                       int pe, weft_file_result *result)
{
    struct file_part part = {dst, bytes, offset, pe, result};
    return run_operation("weft_file_read", file, false, &part);
}

WEFT_EXPORT weft_status weft_file_write(weft_file *file, const void *src, size_t bytes,
                                        uint64_t offset, int pe, weft_file_result *result)
{
    struct file_part part = {src, bytes, offset, pe, result};
    return run_operation("weft_file_write", file, true, &part);
}

WEFT_EXPORT weft_status weft_file_read_nbi(weft_file *file, void *dst, size_t bytes,
                                           uint64_t offset, int pe, weft_file_result *result)
{
    struct file_part part = {dst, bytes, offset, pe, result};
    return begin_operation("weft_file_read_nbi", file, false, &part);
}

WEFT_EXPORT weft_status weft_file_write_nbi(weft_file *file, const void *src, size_t bytes,
                                            uint64_t offset, int pe, weft_file_result *result)
{
    struct file_part part = {src, bytes, offset, pe, result};
    return begin_operation("weft_file_write_nbi", file, true, &part);
}

WEFT_EXPORT weft_status weft_file_quiet(weft_file *file)
{
    weft_status status = file_check("weft_file_quiet", file);
    return status ? status : file_engine_quiet(file->engine);
}

WEFT_EXPORT weft_status weft_file_test(weft_file *file, int *ended)
{
    weft_status status = file_check("weft_file_test", file);
    if (status)
        return status;
    if (!ended)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_file_test: ended is null");
    *ended = !file_engine_busy(file->engine);
    return WEFT_OK;
}

WEFT_EXPORT uint32_t weft_file_join_checksums(uint32_t first, uint32_t second,
                                              uint64_t second_bytes)
{
    struct crc32c_shift shift = {0};
    return crc32c_join(&shift, first, second, second_bytes);
}

WEFT_EXPORT weft_status weft_file_sync(weft_file *file)
{
    weft_status status = file_check("weft_file_sync", file);
    if (!status)
        status = file_engine_quiet(file->engine);
    return status ? status : file_sync(&file->handle);
}

/* -------------------------------------------------------------------------------- size, queries */

WEFT_EXPORT weft_status weft_file_size(weft_file *file, uint64_t *bytes)
{
    weft_status status = file_check("weft_file_size", file);
    if (status)
        return status;
    if (!bytes)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_file_size: bytes is null");
    return file_size(&file->handle, bytes);
}

WEFT_EXPORT weft_status weft_file_resize(weft_file *file, uint64_t bytes)
{
    weft_status status = file_check("weft_file_resize", file);
    if (status)
        return status;
    if (!(file->flags & WEFT_FILE_WRITE))
        return base_fail(WEFT_ERR_ARGUMENT,
                         "weft_file_resize: %s was opened without WEFT_FILE_WRITE",
                         file->handle.path);
    return file_resize(&file->handle, bytes);
}

WEFT_EXPORT weft_status weft_file_query(weft_file *file, weft_file_info *info)
{
    weft_status status = file_check("weft_file_query", file);
    if (status)
        return status;
    if (!info)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_file_query: info is null");
    status = base_check_size("weft_file_query: info", info, sizeof info->size, sizeof *info);
    if (status)
        return status;
    weft_file_info whole = {.size = info->size};
    const struct gpu *gpu = file->job->gpu;
    file_engine_describe(file->engine, gpu && gpu->driver.vendor == GPU_VENDOR_NVIDIA, &whole);
    memcpy(info, &whole, info->size < sizeof whole ? info->size : sizeof whole);
    return WEFT_OK;
}
