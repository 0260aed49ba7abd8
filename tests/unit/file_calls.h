/* SPDX-License-Identifier: Apache-2.0 */
/* Doubles of what ops/file/file.c calls. They record each call and can fail. Include cmocka.h
 * first. The program is linked with --wrap of all of them (CMakeLists.txt). */
#ifndef WEFT_TESTS_UNIT_FILE_CALLS_H
#define WEFT_TESTS_UNIT_FILE_CALLS_H

#include "tests/unit/callocs.h"
#include "tests/unit/held_locks.h"
#include "tests/unit/ops_job.h"

#include "base/log.h"
#include "ops/file/file.h"

#include <stdio.h>

enum { AT = 64, PEER = 2, READ_WRITE = WEFT_FILE_READ | WEFT_FILE_WRITE };

static char calls[1024];  /* log of the calls, in order */
static const char *fails; /* the call that fails; NULL: none */
static bool job_failed_, forked, made, measured, busy, other_thread, no_tunes;
static struct file_transfer transfer; /* the latest transfer */
static struct weft_ctx own_ctx, second_ctx;
static weft_file *opened;
static char path_text[] = "/some/path";
static unsigned settings_flags;
static weft_file_attr settings_attr;
static struct file_settings engine_settings;
static char text[64];

static weft_status called(const char *name)
{
    size_t used = strlen(calls);
    snprintf(calls + used, sizeof calls - used, "%s; ", name);
    return fails && !strcmp(fails, name) ? base_fail(WEFT_ERR_SYSTEM, "%s fails", name) : WEFT_OK;
}

static struct file_engine *some_engine(void)
{
    return (struct file_engine *)(void *)text;
}

static struct file_tunes *some_tunes(void)
{
    return (struct file_tunes *)(void *)path_text;
}

weft_status __wrap_job_check_failed(struct weft_job *job);
weft_status __wrap_job_check_failed(struct weft_job *job)
{
    assert_ptr_equal(job, &ops.job);
    return job_failed_ ? base_fail(WEFT_ERR_PEER_DEAD, "a PE is dead") : WEFT_OK;
}

bool __wrap_job_is_forked_child(void);
bool __wrap_job_is_forked_child(void)
{
    return forked;
}

weft_status __wrap_file_choose_settings(const weft_file_attr *attr, unsigned flags,
                                        struct file_settings *settings);
weft_status __wrap_file_choose_settings(const weft_file_attr *attr, unsigned flags,
                                        struct file_settings *settings)
{
    settings_attr = *attr;
    settings_flags = flags;
    *settings = (struct file_settings){.measured = measured, .depth = 7};
    return called("settings");
}

weft_status __wrap_file_open(const struct file_calls *system, const char *path, unsigned flags,
                             unsigned mode, struct opened_file *file);
weft_status __wrap_file_open(const struct file_calls *system, const char *path, unsigned flags,
                             unsigned mode, struct opened_file *file)
{
    assert_ptr_equal(system, &file_system_calls);
    assert_ptr_equal(path, path_text);
    assert_int_equal(flags, settings_flags);
    assert_int_equal(mode, settings_attr.mode);
    file->path = path_text;
    file->made = made;
    file->device = 99;
    return called("open");
}

void __wrap_file_close(struct opened_file *file);
void __wrap_file_close(struct opened_file *file)
{
    assert_ptr_equal(file->path, path_text);
    called("close");
}

weft_status __wrap_file_engine_choose(struct opened_file *file, struct file_settings *settings,
                                      struct file_engine **engine);
weft_status __wrap_file_engine_choose(struct opened_file *file, struct file_settings *settings,
                                      struct file_engine **engine)
{
    assert_ptr_equal(file->path, path_text);
    engine_settings = *settings;
    *engine = some_engine();
    return called("engine");
}

void __wrap_file_engine_close(struct file_engine *engine);
void __wrap_file_engine_close(struct file_engine *engine)
{
    assert_ptr_equal(engine, some_engine());
    called("engine_close");
}

weft_status __wrap_file_engine_quiet(struct file_engine *engine);
weft_status __wrap_file_engine_quiet(struct file_engine *engine)
{
    assert_ptr_equal(engine, some_engine());
    return called("quiet");
}

bool __wrap_file_engine_busy(struct file_engine *engine);
bool __wrap_file_engine_busy(struct file_engine *engine)
{
    assert_ptr_equal(engine, some_engine());
    return busy;
}

weft_status __wrap_file_engine_run(struct file_engine *engine, const struct file_transfer *list,
                                   size_t n);
weft_status __wrap_file_engine_run(struct file_engine *engine, const struct file_transfer *list,
                                   size_t n)
{
    assert_true(engine == some_engine() && n == 1);
    transfer = *list;
    return called("run");
}

weft_status __wrap_file_engine_run_tuned(struct file_engine *engine, struct file_tunes *tunes,
                                         uint64_t where, const struct file_transfer *list);
weft_status __wrap_file_engine_run_tuned(struct file_engine *engine, struct file_tunes *tunes,
                                         uint64_t where, const struct file_transfer *list)
{
    assert_true(engine == some_engine() && tunes == some_tunes() && where == 99);
    transfer = *list;
    return called("run_tuned");
}

weft_status __wrap_file_engine_begin(struct file_engine *engine, const struct file_transfer *list);
weft_status __wrap_file_engine_begin(struct file_engine *engine, const struct file_transfer *list)
{
    assert_ptr_equal(engine, some_engine());
    transfer = *list;
    return called("begin");
}

void __wrap_file_engine_describe(struct file_engine *engine, bool with_gpu, weft_file_info *info);
void __wrap_file_engine_describe(struct file_engine *engine, bool with_gpu, weft_file_info *info)
{
    assert_ptr_equal(engine, some_engine());
    size_t size = info->size;
    memset(info, with_gpu ? 0x44 : 0x33, sizeof *info);
    info->size = size;
}

struct file_tunes *__wrap_file_tunes_new(size_t trial_bytes);
struct file_tunes *__wrap_file_tunes_new(size_t trial_bytes)
{
    assert_int_equal(trial_bytes, 48 << 20);
    called("tunes");
    return no_tunes ? NULL : some_tunes();
}

void __wrap_file_tunes_free(struct file_tunes *tunes);
void __wrap_file_tunes_free(struct file_tunes *tunes)
{
    assert_ptr_equal(tunes, some_tunes());
    called("tunes_free");
}

void __wrap_file_cufile_end(const struct gpu *gpu);
void __wrap_file_cufile_end(const struct gpu *gpu)
{
    assert_ptr_equal(gpu, &ops.gpu);
    called("cufile_end");
}

weft_status __wrap_file_size(const struct opened_file *file, uint64_t *bytes);
weft_status __wrap_file_size(const struct opened_file *file, uint64_t *bytes)
{
    assert_ptr_equal(file, &opened->handle);
    *bytes = 4711;
    return called("size");
}

weft_status __wrap_file_resize(const struct opened_file *file, uint64_t bytes);
weft_status __wrap_file_resize(const struct opened_file *file, uint64_t bytes)
{
    assert_ptr_equal(file, &opened->handle);
    assert_int_equal(bytes, 4711);
    return called("resize");
}

weft_status __wrap_file_sync(struct opened_file *file);
weft_status __wrap_file_sync(struct opened_file *file)
{
    assert_ptr_equal(file, &opened->handle);
    return called("safe");
}

int __wrap_unlink(const char *path);
int __wrap_unlink(const char *path)
{
    assert_ptr_equal(path, path_text);
    called("unlink");
    return 0;
}

/* Another thread may create the context at the same time. */
weft_status __wrap_ctx_new(struct weft_job *job, struct weft_team *team, unsigned options,
                           struct weft_ctx **ctx);
weft_status __wrap_ctx_new(struct weft_job *job, struct weft_team *team, unsigned options,
                           struct weft_ctx **ctx)
{
    assert_true(job == &ops.job && team == &ops.team && options == 0);
    assert_true(none_is_held());
    own_ctx = second_ctx = ops.ctx;
    if (other_thread)
        opened->ctx = &own_ctx;
    *ctx = other_thread ? &second_ctx : &own_ctx;
    return called("ctx");
}

weft_status __wrap_weft_ctx_destroy(weft_ctx *ctx);
weft_status __wrap_weft_ctx_destroy(weft_ctx *ctx)
{
    assert_ptr_equal(ctx, other_thread ? &second_ctx : &own_ctx);
    return called("ctx_destroy");
}

enum gpu_place __wrap_gpu_place_of(struct gpu *gpu, const void *address);
enum gpu_place __wrap_gpu_place_of(struct gpu *gpu, const void *address)
{
    assert_ptr_equal(gpu, &ops.gpu);
    return ops_place_of(address);
}

void __wrap_log_line(enum log_level level, enum log_subsystem subsystem, const char *format, ...);
void __wrap_log_line(enum log_level level, enum log_subsystem subsystem, const char *format, ...)
{
    (void)format;
    assert_int_equal(level, LOG_WARN);
    called("warning");
}

static weft_status open_file(unsigned flags)
{
    return weft_file_open(&ops.job, path_text, flags, NULL, &opened);
}

static int set_up(void **state)
{
    (void)state;
    ops_begin();
    fails = NULL;
    job_failed_ = forked = made = measured = busy = other_thread = no_tunes = false;
    assert_int_equal(open_file(READ_WRITE), WEFT_OK);
    calls[0] = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fails = NULL;
    other_thread = false;
    if (ops.job.modules.end_files)
        ops.job.modules.end_files(&ops.job);
    free(opened);
    opened = NULL;
    assert_int_equal(callocs.memory, 0);
    assert_true(none_is_held());
    return 0;
}

#endif
