/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, closing and describing the engine of a file. See engine.h. */
#include "file/engine.h"

#include "base/status.h"
#include "gpu/gpu.h"

#include <stdlib.h>
#include <string.h>

/* Sets number and size of requests; no transfer may be in flight. */
static void set_shape(struct file_engine *engine, unsigned depth, size_t chunk)
{
    size_t a = engine->file->alignment; /* a block may be larger than the chunk */
    engine->settings.depth = depth;
    engine->settings.chunk_bytes = (chunk + a - 1) / a * a;
    engine->free = NULL;
    for (unsigned i = depth; i-- > 0;) {
        engine->pieces[i].number = i;
        engine->pieces[i].next = engine->free;
        engine->free = &engine->pieces[i];
    }
}

bool file_engine_reshape(struct file_engine *engine, unsigned depth, size_t chunk)
{
    pthread_mutex_lock(&engine->lock);
    bool idle = !engine->driven && !engine->todo && !engine->background && !engine->completing &&
                !engine->submitted && !engine->inbox && !engine->work && !engine->broken;
    bool fits = depth && depth <= engine->settings.most_depth;
    bool same = depth == engine->settings.depth && chunk == engine->settings.chunk_bytes;
    if (idle && fits && !same) {
        file_buffers_drop(engine);
        set_shape(engine, depth, chunk);
    }
    pthread_mutex_unlock(&engine->lock);
    return idle && fits;
}

weft_status file_engine_open(struct opened_file *file, const struct file_settings *settings,
                             struct file_engine **result)
{
    unsigned most = settings->most_depth > settings->depth ? settings->most_depth : settings->depth;
    struct file_engine *engine = calloc(1, sizeof *engine);
    struct file_piece *pieces = calloc(most, sizeof *pieces);
    weft_status status = engine && pieces
                             ? settings->backend->open(file, most, &engine->queue)
                             : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for a file");
    if (status) {
        free(pieces);
        free(engine);
        return status;
    }
    engine->file = file;
    engine->settings = *settings;
    engine->settings.most_depth = most;
    engine->direct = file->direct >= 0;
    engine->quick = true;
    engine->pieces = pieces;
    engine->todo_last = &engine->todo;
    set_shape(engine, settings->depth, settings->chunk_bytes);
    pthread_mutex_init(&engine->lock, NULL);
    pthread_cond_init(&engine->moved, NULL);
    pthread_cond_init(&engine->wake, NULL);
    pthread_mutex_init(&engine->cufile_lock, NULL);
    *result = engine;
    return WEFT_OK;
}

/* After a queue has failed, the kernel may still use its buffers and requests, so they stay
 * allocated until the process ends. This list keeps them reachable. */
static struct file_engine *lost;
static pthread_mutex_t lost_lock = PTHREAD_MUTEX_INITIALIZER;

static void keep_lost(struct file_engine *engine)
{
    pthread_mutex_lock(&lost_lock);
    engine->next_lost = lost;
    lost = engine;
    pthread_mutex_unlock(&lost_lock);
}

void file_engine_close(struct file_engine *engine)
{
    file_cufile_engine_close(engine);
    pthread_mutex_lock(&engine->lock);
    engine->stop = true;
    pthread_cond_signal(&engine->wake);
    pthread_mutex_unlock(&engine->lock);
    if (engine->has_worker)
        pthread_join(engine->worker, NULL);
    if (engine->broken) {
        if (engine->pinned_for)
            gpu_unpin_range(engine->pinned_for, engine->buffers, file_buffers_bytes(engine));
        keep_lost(engine);
        return;
    }
    file_buffers_drop(engine);
    engine->settings.backend->close(engine->queue);
    pthread_cond_destroy(&engine->wake);
    pthread_cond_destroy(&engine->moved);
    pthread_mutex_destroy(&engine->lock);
    pthread_mutex_destroy(&engine->cufile_lock);
    free(engine->pieces);
    free(engine);
}

static const char *backend_name(const struct file_engine *engine)
{
    bool uring = engine->settings.backend == &file_uring;
    if (engine->direct)
        return uring ? "uring direct" : "threads direct";
    return uring ? "uring buffered" : "threads buffered";
}

void file_engine_describe(struct file_engine *engine, bool with_gpu, weft_file_info *info)
{
    const struct opened_file *file = engine->file;
    pthread_mutex_lock(&engine->lock);
    info->backend = backend_name(engine);
    info->alignment = file->alignment;
    info->memory_alignment = file->memory_alignment;
    info->depth = engine->settings.depth;
    info->chunk_bytes = engine->settings.chunk_bytes;
    memcpy(info->file_system, file->file_system, sizeof info->file_system);
    memcpy(info->store, file->store, sizeof info->store);
    memcpy(info->reason_code, file->reason_code, sizeof info->reason_code);
    memcpy(info->reason, file->reason, sizeof info->reason);
    pthread_mutex_unlock(&engine->lock);
    info->gpu_backend = "";
    file_cufile_engine_describe(engine, with_gpu, info);
}
