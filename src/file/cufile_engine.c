/* SPDX-License-Identifier: Apache-2.0 */
/* The cuFile engine of a file. When cuFile can transfer the file directly, the file has two
 * engines: its own for host memory, and a second one for GPU memory whose backend is cuFile. The
 * first transfer of GPU memory opens the second one, so cuFile is not loaded earlier. This file
 * chooses the engine of each transfer. */
#include "file/engine.h"

#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "gpu/gpu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------------- the cuFile engine */

/* The caller holds cufile_lock. */
static void open_cufile_engine(struct file_engine *engine, const struct gpu *gpu)
{
    struct file_settings settings = engine->settings;
    settings.backend = &file_cufile;
    engine->cufile_tried = true;
    if (gpu && gpu->driver.vendor == GPU_VENDOR_AMD) {
        snprintf(engine->why_not.words, sizeof engine->why_not.words,
                 "through pinned memory: cuFile transfers memory of NVIDIA's GPUs only");
        return;
    }
    if (settings.gpu_backend == FILE_GPU_PINNED) {
        snprintf(engine->why_not.words, sizeof engine->why_not.words,
                 "through pinned memory: WEFT_FILE_GPU=pinned");
        return;
    }
    if (settings.checksums) {
        snprintf(engine->why_not.words, sizeof engine->why_not.words,
                 "through pinned memory: WEFT_FILE_CHECKSUM needs the CPU to read the data");
        return;
    }
    if (!file_cufile_attach(engine->file, settings.gpu_backend,
                            config_string(CONFIG_TEST_FILE_ROOT), &engine->why_not))
        return;
    if (file_engine_open(engine->file, &settings, &engine->cufile_engine)) {
        snprintf(engine->why_not.words, sizeof engine->why_not.words, "through pinned memory: %s",
                 base_last_error());
        file_cufile_detach(engine->file);
        return;
    }
    engine->cufile_engine->by_cufile = true;
}

static struct file_engine *find_cufile_engine(struct file_engine *engine, const struct gpu *gpu)
{
    pthread_mutex_lock(&engine->cufile_lock);
    if (!engine->cufile_tried)
        open_cufile_engine(engine, gpu);
    struct file_engine *cufile_engine = engine->cufile_engine;
    pthread_mutex_unlock(&engine->cufile_lock);
    return cufile_engine;
}

static struct file_engine *known_cufile_engine(struct file_engine *engine)
{
    pthread_mutex_lock(&engine->cufile_lock);
    struct file_engine *cufile_engine = engine->cufile_engine;
    pthread_mutex_unlock(&engine->cufile_lock);
    return cufile_engine;
}

static bool still_by_cufile(struct file_engine *cufile_engine)
{
    pthread_mutex_lock(&cufile_engine->lock);
    bool carries = cufile_engine->by_cufile;
    pthread_mutex_unlock(&cufile_engine->lock);
    return carries;
}

void file_cufile_engine_refused(struct file_engine *engine, int error)
{
    char text[160];
    if (!engine->by_cufile || engine->settings.gpu_backend != FILE_GPU_AUTO)
        return;
    engine->by_cufile = false;
    snprintf(engine->why_not.code, sizeof engine->why_not.code, "FILE-CUFILE");
    snprintf(engine->why_not.words, sizeof engine->why_not.words,
             "through pinned memory: cuFile refused a transfer: %s",
             error < FILE_CUFILE_ERRORS ? strerror(error)
                                        : file_cufile_words(error, text, sizeof text));
    log_warn(LOG_FILES, "%s", engine->why_not.words);
}

void file_cufile_engine_close(struct file_engine *engine)
{
    if (!engine->cufile_engine)
        return;
    bool lost = engine->cufile_engine->broken;
    file_engine_close(engine->cufile_engine);
    if (!lost) /* after a broken queue, cuFile may still use the file */
        file_cufile_detach(engine->file);
    engine->cufile_engine = NULL;
}

/* ------------------------------------------------------------------- the engine of a transfer */

static bool may_use_cufile(const struct file_engine *engine, const struct file_transfer *transfer)
{
    return transfer->place.kind == FILE_DEVICE && !transfer->place.remote.peer &&
           /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): each transfer has an engine */
           engine->settings.backend != &file_cufile && engine->settings.chosen;
}

struct file_engine *file_engine_for(struct file_engine *engine,
                                    const struct file_transfer *transfer)
{
    if (!may_use_cufile(engine, transfer))
        return engine;
    struct file_engine *cufile_engine = find_cufile_engine(engine, transfer->place.gpu);
    bool insists = engine->settings.gpu_backend > FILE_GPU_PINNED;
    if (!cufile_engine && insists) {
        base_fail(WEFT_ERR_UNSUPPORTED, "WEFT_FILE_GPU=%s, but %s goes %s",
                  engine->settings.gpu_backend == FILE_GPU_COMPAT ? "compat" : "cufile",
                  engine->file->path, engine->why_not.words);
        return NULL;
    }
    if (!cufile_engine || !(insists || still_by_cufile(cufile_engine)))
        return engine;
    if (transfer->place.gpu)
        file_cufile_register(transfer->place.gpu, transfer->place.address, transfer->bytes);
    return cufile_engine;
}

/* ------------------------------------------------------------------------------- transfers */

/* Runs the transfers of one engine concurrently. *failed becomes the smallest index in the whole
 * list of a transfer that failed, and `sentence` its error. */
static weft_status run_of_engine(struct file_engine *engine, struct file_engine *const *whose,
                                 const struct file_transfer *list, weft_file_result *results,
                                 size_t n, size_t *failed, char *sentence, size_t sentence_bytes)
{
    size_t count = 0;
    struct file_transfer *mine = calloc(n, sizeof *mine);
    if (!mine)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %zu transfers", n);
    for (size_t i = 0; i < n; i++)
        if (whose[i] == engine) {
            mine[count] = list[i];
            mine[count++].result = &results[i];
        }
    weft_status status = count ? file_drive_run(engine, mine, count) : WEFT_OK;
    free(mine);
    for (size_t i = 0; i < n && status; i++)
        if (whose[i] == engine && results[i].status && i < *failed) {
            *failed = i;
            snprintf(sentence, sentence_bytes, "%s", base_last_error());
            break;
        }
    return status;
}

static weft_status run_both(struct file_engine *engine, struct file_engine *const *whose,
                            const struct file_transfer *list, size_t n)
{
    size_t failed = n;
    char sentence[SENTENCE_BYTES] = "";
    weft_file_result *results = calloc(n, sizeof *results);
    if (!results)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %zu transfers", n);
    weft_status first =
        run_of_engine(engine, whose, list, results, n, &failed, sentence, sizeof sentence);
    weft_status second = run_of_engine(engine->cufile_engine, whose, list, results, n, &failed,
                                       sentence, sizeof sentence);
    weft_status status = failed < n ? results[failed].status : first ? first : second;
    for (size_t i = 0; i < n; i++)
        if (list[i].result)
            *list[i].result = results[i];
    free(results);
    return status && sentence[0] ? base_fail(status, "%s", sentence) : status;
}

static weft_status fail_all(const struct file_transfer *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (list[i].result)
            *list[i].result = (weft_file_result){.status = WEFT_ERR_UNSUPPORTED};
    return WEFT_ERR_UNSUPPORTED;
}

weft_status file_engine_run(struct file_engine *engine, const struct file_transfer *list, size_t n)
{
    struct file_engine *one[1], **whose = n == 1 ? one : calloc(n, sizeof(struct file_engine *));
    bool same = true, all = true;
    if (!whose)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %zu transfers", n);
    for (size_t i = 0; i < n; i++) {
        whose[i] = file_engine_for(engine, &list[i]);
        same &= whose[i] == whose[0];
        all &= whose[i] != NULL;
    }
    weft_status status = !all   ? fail_all(list, n)
                         : same ? file_drive_run(whose[0], list, n)
                                : run_both(engine, whose, list, n);
    if (whose != one)
        free(whose);
    return status;
}

weft_status file_engine_begin(struct file_engine *engine, const struct file_transfer *transfer)
{
    struct file_engine *whose = file_engine_for(engine, transfer);
    return whose ? file_drive_begin(whose, transfer) : WEFT_ERR_UNSUPPORTED;
}

weft_status file_engine_quiet(struct file_engine *engine)
{
    char sentence[SENTENCE_BYTES];
    struct file_engine *cufile_engine = known_cufile_engine(engine);
    weft_status status = file_drive_quiet(engine);
    if (!cufile_engine)
        return status;
    snprintf(sentence, sizeof sentence, "%s", status ? base_last_error() : "");
    weft_status other = file_drive_quiet(cufile_engine);
    return status ? base_fail(status, "%s", sentence) : other;
}

bool file_engine_busy(struct file_engine *engine)
{
    struct file_engine *cufile_engine = known_cufile_engine(engine);
    return file_drive_busy(engine) || (cufile_engine && file_drive_busy(cufile_engine));
}

/* ------------------------------------------------------------------------------ description */

void file_cufile_engine_describe(struct file_engine *engine, bool find, weft_file_info *info)
{
    if (!engine->settings.chosen)
        return;
    struct file_engine *cufile_engine =
        find ? find_cufile_engine(engine, NULL) : known_cufile_engine(engine);
    const struct file_why_not *why = &engine->why_not;
    pthread_mutex_lock(&engine->cufile_lock);
    bool tried = engine->cufile_tried;
    pthread_mutex_unlock(&engine->cufile_lock);
    if (!tried)
        return;
    info->gpu_backend = "pinned";
    if (cufile_engine) {
        pthread_mutex_lock(&cufile_engine->lock);
        why = &cufile_engine->why_not;
        if (cufile_engine->by_cufile)
            info->gpu_backend = engine->settings.gpu_backend == FILE_GPU_COMPAT ? "cufile compat"
                                : strcmp(file_cufile_transport(), "nvidia_fs")
                                    ? "cufile direct, P2PDMA"
                                    : "cufile direct, nvidia_fs";
    }
    memcpy(info->gpu_reason_code, why->code, sizeof info->gpu_reason_code);
    memcpy(info->gpu_reason, why->words, sizeof info->gpu_reason);
    if (cufile_engine)
        pthread_mutex_unlock(&cufile_engine->lock);
}
