/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses number and size of requests and the backend (io_uring or threads) of a file, from the
 * attributes of the program, the environment and the system. */
#include "file/file.h"

#include "base/config.h"
#include "base/status.h"

/* *depth: 0 when neither the program nor the environment sets it. */
static weft_status choose_depth(unsigned given, unsigned *depth)
{
    int64_t wanted = given ? (int64_t)given : config_int(CONFIG_TEST_FILE_DEPTH);
    if (wanted < 0 || wanted > FILE_DEPTH_MOST)
        return base_fail(given ? WEFT_ERR_ARGUMENT : WEFT_ERR_CONFIG,
                         "%s is %lld; 1 to %d requests at once are possible",
                         given ? "weft_file_open: attr->depth" : "WEFT_TEST_FILE_DEPTH",
                         (long long)wanted, FILE_DEPTH_MOST);
    *depth = (unsigned)wanted;
    return WEFT_OK;
}

static weft_status choose_chunk(size_t given, size_t *chunk)
{
    uint64_t wanted = given ? given : config_size(CONFIG_TEST_FILE_CHUNK);
    if (wanted > FILE_CHUNK_MOST || wanted % FILE_PAGE)
        return base_fail(given ? WEFT_ERR_ARGUMENT : WEFT_ERR_CONFIG,
                         "%s is %llu; expected a multiple of %d up to %zu",
                         given ? "weft_file_open: attr->chunk_bytes" : "WEFT_TEST_FILE_CHUNK",
                         (unsigned long long)wanted, FILE_PAGE, FILE_CHUNK_MOST);
    *chunk = wanted;
    return WEFT_OK;
}

weft_status file_choose_settings(const weft_file_attr *attr, unsigned flags,
                                 struct file_settings *settings)
{
    *settings = (struct file_settings){.checksums = flags & WEFT_FILE_CHECKSUM};
    weft_status status = choose_depth(attr->depth, &settings->depth);
    if (!status)
        status = choose_chunk(attr->chunk_bytes, &settings->chunk_bytes);
    if (status)
        return status;
    settings->measured = !settings->depth && !settings->chunk_bytes;
    settings->most_depth = settings->measured ? FILE_TUNE_MOST_DEPTH : 0;
    settings->depth = settings->depth ? settings->depth : FILE_DEPTH;
    settings->chunk_bytes = settings->chunk_bytes ? settings->chunk_bytes : FILE_CHUNK;
    return WEFT_OK;
}

weft_status file_engine_choose(struct opened_file *file, struct file_settings *settings,
                               struct file_engine **engine)
{
    enum { AUTO, URING, THREADS };
    int choice = config_choice(CONFIG_FILE_BACKEND);
    settings->chosen = true;
    settings->gpu_backend = (enum file_gpu_backend)config_choice(CONFIG_FILE_GPU);
    if (choice != THREADS) {
        settings->backend = &file_uring;
        weft_status status = file_engine_open(file, settings, engine);
        if (!status || choice == URING || status != WEFT_ERR_UNSUPPORTED)
            return status;
        file_record_threads(file, base_last_error());
    } else {
        file_record_threads(file, "WEFT_FILE_BACKEND=threads");
    }
    settings->backend = &file_threads;
    return file_engine_open(file, settings, engine);
}
