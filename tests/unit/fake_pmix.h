/* SPDX-License-Identifier: Apache-2.0 */
/* A fake PMIx, fake threads and fake connections for tests of boot/pmix.c. Each call is recorded
 * and can be made to fail. Include cmocka.h first. The program is linked with --wrap of all of it
 * (CMakeLists.txt). */
#ifndef WEFT_TESTS_UNIT_FAKE_PMIX_H
#define WEFT_TESTS_UNIT_FAKE_PMIX_H

#include "tests/unit/callocs.h"

#include "base/log.h"
#include "base/status.h"
#include "boot/hub/member.h"
#include "boot/methods.h"
#include "boot/rendezvous/unique_id.h"
#include "driver/pmix.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { PES = 3 };

static char calls[2048];  /* names of the calls of the fakes, in order */
static const char *fails; /* the call that fails; NULL = none */
static struct {
    pmix_status_t init, put, commit, fence, fence_result, get, get_nb, size;
    int init_silent, fence_silent; /* the callback is never called */
    int missing;                   /* the PE whose data Get_nb never returns; 0 = none */
    bool missing_silent;
    uint32_t job_size;
    int size_type, part_type;
    size_t part_bytes;  /* size of the other PEs' data; 0 = the expected size */
    int32_t part_of[4]; /* first word of each PE's data */
    int inits, finalizes, aborts, abort_code;
    char abort_text[200], key[32], asked_key[32];
    char put_bytes[128];
    size_t put_size;
    pmix_op_cbfunc_t come;
    void *come_argument;
    pmix_value_cbfunc_t value_come;
    void *value_argument;
} server;
static int nodes, warnings;
static bool limited_by_boot, thread_fails;
static char line[600];
static struct timespec until;
static void (*at_exit)(void);
static struct boot *boot;
static struct boot world;
static pid_t process = 100;

static weft_status called(const char *name)
{
    size_t used = strlen(calls);
    snprintf(calls + used, sizeof calls - used, "%s; ", name);
    return fails && !strcmp(fails, name) ? base_fail(WEFT_ERR_SYSTEM, "%s fails", name) : WEFT_OK;
}

/* ----------------------------------------------------------------------------------------- PMIx */

static pmix_status_t fake_init(pmix_proc_t *self, pmix_info_t info[], size_t n)
{
    assert_true(!info && !n);
    server.inits++;
    *self = (pmix_proc_t){.nspace = "some job", .rank = 1};
    return server.init;
}

static pmix_status_t fake_finalize(const pmix_info_t info[], size_t n)
{
    assert_true(!info && !n);
    server.finalizes++;
    return PMIX_SUCCESS;
}

static pmix_status_t fake_abort(int code, const char text[], pmix_proc_t procs[], size_t n)
{
    assert_true(!procs && !n);
    server.aborts++;
    server.abort_code = code;
    snprintf(server.abort_text, sizeof server.abort_text, "%s", text);
    return PMIX_SUCCESS;
}

static pmix_status_t fake_put(pmix_scope_t scope, const char key[], pmix_value_t *value)
{
    assert_true(scope == PMIX_GLOBAL && value->type == PMIX_BYTE_OBJECT);
    assert_true(value->data.bo.size <= sizeof server.put_bytes);
    snprintf(server.key, sizeof server.key, "%s", key);
    server.put_size = value->data.bo.size;
    memcpy(server.put_bytes, value->data.bo.bytes, server.put_size);
    called("put");
    return server.put;
}

static pmix_status_t fake_commit(void)
{
    called("commit");
    return server.commit;
}

static pmix_status_t fake_fence(const pmix_proc_t procs[], size_t n, const pmix_info_t info[],
                                size_t infos, pmix_op_cbfunc_t come, void *argument)
{
    assert_true(!procs && !n && infos == 1);
    assert_string_equal(info->key, PMIX_COLLECT_DATA);
    assert_true(info->value.type == PMIX_BOOL && info->value.data.flag);
    called("fence");
    if (server.fence != PMIX_SUCCESS)
        return server.fence;
    server.come = come;
    server.come_argument = argument;
    if (!server.fence_silent)
        come(server.fence_result, argument);
    return PMIX_SUCCESS;
}

/* The caller frees the value, so it comes from the counted allocator. */
static void *made_value(size_t bytes)
{
    return calloc(1, bytes);
}

static pmix_status_t fake_get(const pmix_proc_t *of, const char key[], const pmix_info_t info[],
                              size_t n, pmix_value_t **value)
{
    assert_true(!info && !n);
    assert_string_equal(of->nspace, "some job");
    if (of->rank == PMIX_RANK_WILDCARD) {
        assert_string_equal(key, PMIX_JOB_SIZE);
        if (server.size != PMIX_SUCCESS)
            return server.size;
        *value = made_value(sizeof **value);
        (*value)->type = (pmix_data_type_t)server.size_type;
        (*value)->data.uint32 = server.job_size;
        return PMIX_SUCCESS;
    }
    char name[16];
    snprintf(name, sizeof name, "get %u", (unsigned)of->rank);
    called(name);
    snprintf(server.asked_key, sizeof server.asked_key, "%s", key);
    if (server.get != PMIX_SUCCESS)
        return server.get;
    /* Before this PE has put its own data, the value is the unique id of PE 0. */
    size_t own = server.put_size ? server.put_size : sizeof(weft_unique_id);
    size_t bytes = server.part_bytes ? server.part_bytes : own;
    *value = made_value(sizeof **value);
    (*value)->type = (pmix_data_type_t)server.part_type;
    if (server.part_type != PMIX_BYTE_OBJECT)
        return PMIX_SUCCESS;
    (*value)->data.bo.size = bytes;
    (*value)->data.bo.bytes = made_value(bytes);
    if (bytes >= 4)
        memcpy((*value)->data.bo.bytes, &server.part_of[of->rank], 4);
    return PMIX_SUCCESS;
}

static pmix_status_t fake_get_nb(const pmix_proc_t *of, const char key[], const pmix_info_t info[],
                                 size_t n, pmix_value_cbfunc_t come, void *argument)
{
    char name[24];
    assert_true(!info && !n);
    assert_string_equal(key, server.key);
    snprintf(name, sizeof name, "look %u", (unsigned)of->rank);
    called(name);
    if (server.get_nb != PMIX_SUCCESS)
        return server.get_nb;
    bool missing = server.missing && (int)of->rank == server.missing;
    server.value_come = come;
    server.value_argument = argument;
    if (missing && server.missing_silent)
        return PMIX_SUCCESS;
    come(missing ? PMIX_ERR_NOT_FOUND : PMIX_SUCCESS, NULL, argument);
    return PMIX_SUCCESS;
}

static const char *fake_error(pmix_status_t error)
{
    return error == PMIX_ERR_NOT_FOUND ? "not found" : "some error";
}

static const struct pmix_driver *driver_of_test(void)
{
    static const struct pmix_driver driver = {.Init = fake_init,
                                              .Finalize = fake_finalize,
                                              .Abort = fake_abort,
                                              .Put = fake_put,
                                              .Commit = fake_commit,
                                              .Fence_nb = fake_fence,
                                              .Get = fake_get,
                                              .Get_nb = fake_get_nb,
                                              .Error_string = fake_error};
    return &driver;
}

weft_status __wrap_pmix_load(const struct pmix_driver **pmix);
weft_status __wrap_pmix_load(const struct pmix_driver **pmix)
{
    *pmix = driver_of_test();
    return called("load");
}

/* ------------------------------------------------------------------------------------- threads */

/* The fake runs the function of a new thread at once, or never. */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);
static void *(*left_run)(void *);
static void *left_argument;
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument)
{
    (void)thread, (void)attributes;
    if (thread_fails)
        return EAGAIN;
    left_run = run;
    left_argument = argument;
    if (!server.init_silent)
        run(argument);
    return 0;
}

int __wrap_pthread_detach(pthread_t thread);
int __wrap_pthread_detach(pthread_t thread)
{
    (void)thread;
    called("detach");
    return 0;
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                                  const struct timespec *time);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                                  const struct timespec *time)
{
    (void)cond, (void)lock;
    until = *time;
    return ETIMEDOUT;
}

uint64_t __wrap_clock_now_ns(void);
uint64_t __wrap_clock_now_ns(void)
{
    static uint64_t now;
    return server.missing_silent ? now += 1500000000 : 7700000000;
}

struct boot_limit __wrap_boot_limit_join(void);
struct boot_limit __wrap_boot_limit_join(void)
{
    limited_by_boot = true;
    return (struct boot_limit){.left_ns = 2500000000};
}

struct boot_limit __wrap_boot_limit_start(void);
struct boot_limit __wrap_boot_limit_start(void)
{
    limited_by_boot = false;
    return (struct boot_limit){.left_ns = 500000000};
}

int __wrap_atexit(void (*function)(void));
int __wrap_atexit(void (*function)(void))
{
    assert_null(at_exit);
    at_exit = function;
    return 0;
}

pid_t __wrap_getpid(void);
pid_t __wrap_getpid(void)
{
    return process;
}

void __wrap_log_line(enum log_level level, enum log_subsystem subsystem, const char *format, ...);
void __wrap_log_line(enum log_level level, enum log_subsystem subsystem, const char *format, ...)
{
    va_list arguments;
    assert_int_equal(level, LOG_WARN);
    warnings++;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
}

/* ------------------------------------------------------------------------------- connections */

weft_status __wrap_boot_find_nodes(struct boot *of);
weft_status __wrap_boot_find_nodes(struct boot *of)
{
    of->nodes = nodes;
    return called("nodes");
}

weft_status __wrap_boot_local_connect(struct boot *of, struct member *node);
weft_status __wrap_boot_local_connect(struct boot *of, struct member *node)
{
    (void)of, (void)node;
    return called("local");
}

weft_status __wrap_boot_local_share(struct boot *of, struct member *node, int from, int fd,
                                    int *taken);
weft_status __wrap_boot_local_share(struct boot *of, struct member *node, int from, int fd,
                                    int *taken)
{
    (void)node, (void)taken;
    assert_true(of == boot && from == 2 && fd == 9);
    return called("local_share");
}

weft_status __wrap_unique_id_make(weft_unique_id *id);
weft_status __wrap_unique_id_make(weft_unique_id *id)
{
    memset(id, 0x11, sizeof *id);
    return called("id");
}

static weft_status world_allgather(struct boot *of, const void *mine, void *all, size_t bytes)
{
    (void)mine, (void)all;
    assert_true(of == &world && bytes == 4);
    return called("world_allgather");
}

static weft_status world_share(struct boot *of, int from, int fd, int *taken)
{
    (void)taken;
    assert_true(of == &world && from == 2 && fd == 9);
    return called("world_share");
}

static void world_abort(struct boot *of, int code, const char *sentence)
{
    assert_true(of == &world && code == 5 && !strcmp(sentence, "enough"));
    called("world_abort");
}

static void world_fail(struct boot *of, weft_status why, const char *sentence)
{
    assert_true(of == &world && why == WEFT_ERR_PATH && !strcmp(sentence, "enough"));
    called("world_fail");
}

static weft_status world_check(struct boot *of)
{
    assert_ptr_equal(of, &world);
    return called("world_check");
}

static void world_forked(struct boot *of)
{
    assert_ptr_equal(of, &world);
    called("world_forked");
}

static void world_close(struct boot *of, bool clean)
{
    assert_ptr_equal(of, &world);
    called(clean ? "world_close" : "world_close_unclean");
}

weft_status __wrap_boot_open_id(struct boot **of, const weft_unique_id *id, int pe, int npes);
weft_status __wrap_boot_open_id(struct boot **of, const weft_unique_id *id, int pe, int npes)
{
    (void)id;
    static const struct boot_ops ops = {.allgather = world_allgather,
                                        .share_fd = world_share,
                                        .abort = world_abort,
                                        .fail = world_fail,
                                        .check = world_check,
                                        .forked = world_forked,
                                        .close = world_close};
    assert_true(pe == 1 && npes == PES);
    weft_status status = called("world");
    world.ops = &ops;
    *of = status ? NULL : &world;
    return status;
}

weft_status __wrap_member_allgather(struct member *member, const void *mine, void *all,
                                    size_t bytes);
weft_status __wrap_member_allgather(struct member *member, const void *mine, void *all,
                                    size_t bytes)
{
    (void)member, (void)mine, (void)all, (void)bytes;
    return called("allgather");
}

void __wrap_member_abort(struct member *member, int code, const char *sentence);
void __wrap_member_abort(struct member *member, int code, const char *sentence)
{
    (void)member;
    assert_true(code == 5 && !strcmp(sentence, "enough"));
    called("abort");
}

void __wrap_member_fail(struct member *member, weft_status why, const char *sentence);
void __wrap_member_fail(struct member *member, weft_status why, const char *sentence)
{
    (void)member;
    assert_true(why == WEFT_ERR_PATH && !strcmp(sentence, "enough"));
    called("fail");
}

weft_status __wrap_member_check(struct member *member);
weft_status __wrap_member_check(struct member *member)
{
    (void)member;
    return called("check");
}

void __wrap_member_forked(struct member *member);
void __wrap_member_forked(struct member *member)
{
    (void)member;
    called("forked");
}

void __wrap_member_close(struct member *member, bool clean);
void __wrap_member_close(struct member *member, bool clean)
{
    (void)member;
    called(clean ? "close" : "close_unclean");
}

static int set_up(void **state)
{
    (void)state;
    memset(&server, 0, sizeof server);
    server.job_size = PES;
    server.size_type = PMIX_UINT32;
    server.part_type = PMIX_BYTE_OBJECT;
    fails = NULL;
    nodes = 1;
    warnings = 0;
    thread_fails = false;
    calls[0] = line[0] = 0;
    callocs.left = -1;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fails = NULL;
    if (boot)
        boot->ops->close(boot, true);
    boot = NULL;
    assert_int_equal(callocs.memory, 0);
    return 0;
}

#endif
