/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors of file transfers, and file transfers in stream order. */
#include "ops/file/file.h"
#include "ops/stream/stream.h"

#include <stdlib.h>

/* ------------------------------------------------------------------------------------- vectors */

/* Resolves the parts of more than 0 bytes into *count transfers. */
static weft_status find_all(const char *function, weft_file *file, bool write,
                            const weft_file_part *parts, size_t n, struct file_transfer *list,
                            size_t *count)
{
    weft_status status = WEFT_OK;
    *count = 0;
    for (size_t i = 0; i < n && !status; i++) {
        struct file_part part = {parts[i].address, parts[i].bytes, parts[i].offset, parts[i].pe,
                                 parts[i].result};
        status = file_find(function, file, write, &part, &list[*count]);
        *count += parts[i].bytes > 0;
    }
    return status;
}

static weft_status run_all(weft_file *file, const struct file_transfer *list, size_t count,
                           bool nbi)
{
    weft_status status = WEFT_OK;
    if (!nbi)
        return count ? file_engine_run(file->engine, list, count) : WEFT_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = file_engine_begin(file->engine, &list[i]);
    return status;
}

static weft_status run_vector(const char *function, weft_file *file, bool write,
                              const weft_file_part *parts, size_t n, bool nbi)
{
    size_t count;
    weft_status status = file_check(function, file);
    if (status || !n)
        return status;
    if (!parts)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: parts is null", function);
    struct file_transfer *list = calloc(n, sizeof *list);
    if (!list)
        return base_fail(WEFT_ERR_NO_MEMORY, "%s: no private memory for %zu parts", function, n);
    status = find_all(function, file, write, parts, n, list, &count);
    for (size_t i = 0; i < n && !status; i++)
        if (!parts[i].bytes && parts[i].result)
            *parts[i].result = (weft_file_result){.status = WEFT_OK};
    if (!status)
        status = run_all(file, list, count, nbi);
    free(list);
    return status;
}

WEFT_EXPORT weft_status weft_file_read_vector(weft_file *file, const weft_file_part *parts,
                                              size_t n)
{
    return run_vector("weft_file_read_vector", file, false, parts, n, false);
}

WEFT_EXPORT weft_status weft_file_write_vector(weft_file *file, const weft_file_part *parts,
                                               size_t n)
{
    return run_vector("weft_file_write_vector", file, true, parts, n, false);
}

WEFT_EXPORT weft_status weft_file_read_vector_nbi(weft_file *file, const weft_file_part *parts,
                                                  size_t n)
{
    return run_vector("weft_file_read_vector_nbi", file, false, parts, n, true);
}

WEFT_EXPORT weft_status weft_file_write_vector_nbi(weft_file *file, const weft_file_part *parts,
                                                   size_t n)
{
    return run_vector("weft_file_write_vector_nbi", file, true, parts, n, true);
}

/* ----------------------------------------------------------------------------------- on streams */

struct stream_request {
    weft_file *file;
    struct file_part part;
    bool write;
};

/* Runs in the thread that serves the stream's host callbacks, or in the stream's own thread on
 * simt. */
static void run_requests(void *argument)
{
    struct stream_request *stream_request = argument;
    weft_file *file = stream_request->file;
    struct file_transfer transfer;
    bool before = access_act_for_others(true);
    weft_status status = file_find("weft_file on a stream", file, stream_request->write,
                                   &stream_request->part, &transfer);
    if (!status)
        status = file_engine_run(file->engine, &transfer, 1);
    else if (stream_request->part.result)
        *stream_request->part.result = (weft_file_result){.status = status};
    if (status)
        file_engine_record_failure(file->engine, status, weft_last_error());
    access_act_for_others(before);
}

static weft_status file_on_stream(const char *function, weft_file *file, bool write,
                                  const struct file_part *part, weft_stream stream)
{
    struct file_transfer tried;
    weft_status status = file_check(function, file);
    if (!status)
        status = file_find(function, file, write, part, &tried);
    if (status)
        return status;
    if (!part->bytes) {
        if (part->result)
            *part->result = (weft_file_result){.status = WEFT_OK};
        return WEFT_OK;
    }
    struct stream_request *stream_request = malloc(sizeof *stream_request);
    if (!stream_request)
        return base_fail(WEFT_ERR_NO_MEMORY, "%s: no private memory for a call on a stream",
                         function);
    *stream_request = (struct stream_request){file, *part, write};
    return stream_host_call(file->job, stream, run_requests, stream_request);
}

WEFT_EXPORT weft_status weft_file_read_on_stream(weft_file *file, void *dst, size_t bytes,
                                                 uint64_t offset, int pe, weft_file_result *result,
                                                 weft_stream stream)
{
    struct file_part part = {dst, bytes, offset, pe, result};
    return file_on_stream("weft_file_read_on_stream", file, false, &part, stream);
}

WEFT_EXPORT weft_status weft_file_write_on_stream(weft_file *file, const void *src, size_t bytes,
                                                  uint64_t offset, int pe, weft_file_result *result,
                                                  weft_stream stream)
{
    struct file_part part = {src, bytes, offset, pe, result};
    return file_on_stream("weft_file_write_on_stream", file, true, &part, stream);
}
