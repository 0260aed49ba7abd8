/* SPDX-License-Identifier: Apache-2.0 */
/* Doubles of the functions that the operations of path net (net.c) call in other files. They log
 * the calls in order, check that the lock is held, and can let one fail. For tests of net.c. */
#ifndef WEFT_TESTS_NET_CALLS_H
#define WEFT_TESTS_NET_CALLS_H

#include "unit/net_end.h"

#include "base/status.h"
#include "gpu/gpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

extern const struct path_ops path_net;

static const uint8_t key[SIPHASH_KEY_BYTES] = {2, 7, 1, 8};
static struct net_end end;
static struct net_peer *net_peer;
static struct peer to_peer;
static char gpu_here; /* its address stands for a GPU */
static _Alignas(8) unsigned char local[20000], room[4][4096];
static bool ready; /* the end is open: doubles log their calls */
static bool local_is_device;
static char trace[2048];    /* log of the calls */
static int calls, fails_at; /* calls with a status; number of the call that fails, 0: none */
static struct net_record *records[64];
static int record_count;

/* -------------------------------------------------------------------------------------- doubles */

__attribute__((format(printf, 1, 2))) static void log_call(const char *format, ...)
{
    size_t used = strlen(trace);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(trace + used, sizeof trace - used, format, arguments);
    va_end(arguments);
}

static bool is_locked(void)
{
    if (pthread_mutex_trylock(&end.net.lock))
        return true;
    pthread_mutex_unlock(&end.net.lock);
    return false;
}

/* A call with a status, with the lock held. */
static weft_status held(void)
{
    assert_true(is_locked());
    return ++calls == fails_at ? base_fail(WEFT_ERR_TIMEOUT, "call %d fails", calls) : WEFT_OK;
}

#define DOUBLE(result, name, parameters)                                                           \
    result __real_##name parameters;                                                               \
    result __wrap_##name parameters;                                                               \
    result __wrap_##name parameters

static void check(const struct path_common *net, const struct net_peer *of)
{
    assert_ptr_equal(net, &end.net);
    assert_ptr_equal(of, net_peer);
}

DOUBLE(weft_status, net_check_failure, (struct path_common * net, struct net_peer *of))
{
    if (!ready)
        return __real_net_check_failure(net, of);
    check(net, of);
    log_call("failure ");
    return held();
}

DOUBLE(weft_status, net_order_request, (struct net_state * state, struct net_peer *of))
{
    check(state->net, of);
    log_call("order_request ");
    return held();
}

DOUBLE(weft_status, net_order_write, (struct net_state * state, struct net_peer *of))
{
    check(state->net, of);
    log_call("order_write ");
    return held();
}

DOUBLE(weft_status, net_add_request,
       (struct net_state * state, struct net_peer *of, size_t bytes, struct net_record **record))
{
    if (!ready)
        return __real_net_add_request(state, of, bytes, record);
    check(state->net, of);
    log_call("request:%zu ", bytes);
    weft_status status = held();
    if (status)
        return status;
    assert_true(bytes + sizeof **record <= sizeof room[0]);
    *record = (struct net_record *)(void *)room[record_count % 4];
    memset(*record, 0, sizeof **record);
    records[record_count++] = *record;
    return WEFT_OK;
}

DOUBLE(weft_status, net_send_query,
       (struct net_state * state, struct net_peer *of, const struct net_record *question,
        uint32_t wanted, void *to, size_t bytes, bool nbi))
{
    check(state->net, of);
    assert_int_equal(question->kind, NET_GET);
    assert_int_equal(wanted, bytes);
    assert_int_equal(question->amo | question->bytes, 0);
    log_call("ask:%d:%d:%zu:%zu%s ", question->segment, question->width, (size_t)question->offset,
             bytes, nbi ? ":nbi" : "");
    weft_status status = held();
    if (!status)
        memset(to, 0x55, bytes);
    return status;
}

DOUBLE(weft_status, net_stage_transfer,
       (struct net_state * state, struct remote at, void *with, size_t bytes, bool device,
        bool write))
{
    check(state->net, &state->net->peers[at.peer->pe]);
    assert_ptr_equal(with, local);
    log_call("stage_%s:%d:%zu:%zu%s ", write ? "put" : "get", at.segment, at.offset, bytes,
             device ? ":device" : "");
    return held();
}

DOUBLE(weft_status, net_write,
       (struct net_state * state, struct remote to, const void *src, size_t bytes))
{
    check(state->net, &state->net->peers[to.peer->pe]);
    log_call("write:%zu:%zu:%zu ", to.offset, (size_t)((const unsigned char *)src - local), bytes);
    return held();
}

DOUBLE(weft_status, net_read,
       (struct net_state * state, struct remote from, void *dst, size_t bytes))
{
    check(state->net, &state->net->peers[from.peer->pe]);
    log_call("read:%zu:%zu:%zu ", from.offset, (size_t)((unsigned char *)dst - local), bytes);
    return held();
}

#define AWAIT(name)                                                                                \
    DOUBLE(weft_status, net_await_##name, (struct net_state * state, struct net_peer * of))        \
    {                                                                                              \
        check(state->net, of);                                                                     \
        log_call("await_" #name " ");                                                              \
        return held();                                                                             \
    }
AWAIT(staged_sources)
AWAIT(writes)
AWAIT(reads)
AWAIT(sources)

DOUBLE(void, net_flush_requests, (struct path_common * net, struct net_peer *of, bool tell))
{
    if (!ready) {
        __real_net_flush_requests(net, of, tell);
        return;
    }
    assert_true(is_locked());
    assert_false(tell);
    log_call("flush:%d ", of->pe);
}

DOUBLE(void, net_flush_unanswered, (struct path_common * net, struct net_peer *of))
{
    check(net, of);
    assert_true(is_locked());
    log_call("flush_unanswered ");
}

enum { TOKEN = 808 };

DOUBLE(weft_status, net_new_answer_token,
       (struct net_state * state, struct net_peer *of, void *to, size_t bytes, uint64_t *token))
{
    if (!ready)
        return __real_net_new_answer_token(state, of, to, bytes, token);
    check(state->net, of);
    log_call("token:%zu ", bytes);
    weft_status status = held();
    *token = status ? 0 : TOKEN;
    if (!status)
        memset(to, 0x66, bytes);
    return status;
}

#define TOKENED(name)                                                                              \
    DOUBLE(void, net_##name##_answer, (struct path_common * net, uint64_t token))                  \
    {                                                                                              \
        if (!ready) {                                                                              \
            __real_net_##name##_answer(net, token);                                                \
            return;                                                                                \
        }                                                                                          \
        assert_true(is_locked());                                                                  \
        assert_int_equal(token, TOKEN);                                                            \
        log_call(#name " ");                                                                       \
    }
TOKENED(cancel)
TOKENED(detach)

DOUBLE(weft_status, net_await_answer, (struct path_common * net, uint64_t token))
{
    assert_ptr_equal(net, &end.net);
    assert_int_equal(token, TOKEN);
    log_call("answer ");
    return held();
}

DOUBLE(void, net_fence_channel, (const struct path_common *net, struct net_channel *channel))
{
    assert_ptr_equal(net, &end.net);
    assert_ptr_equal(channel, &end.channels[1]);
    log_call("fence_channel ");
}

DOUBLE(weft_status, net_complete_context, (struct net_state * state))
{
    assert_ptr_equal(state, &end.state);
    log_call("complete ");
    return held();
}

DOUBLE(weft_status, net_order_context, (struct net_state * state))
{
    assert_ptr_equal(state, &end.state);
    log_call("order ");
    return held();
}

static bool polled;
DOUBLE(bool, net_poll, (struct path_common * net))
{
    assert_ptr_equal(net, &end.net);
    assert_true(is_locked());
    log_call("poll ");
    return polled;
}

DOUBLE(enum gpu_place, gpu_place_of, (struct gpu * gpu, const void *at))
{
    assert_ptr_equal(gpu, &gpu_here);
    assert_true((const unsigned char *)at >= local &&
                (const unsigned char *)at < local + sizeof local);
    return local_is_device ? GPU_PLACE_DEVICE : GPU_PLACE_PLAIN;
}

DOUBLE(weft_status, gpu_copy,
       (struct gpu * gpu, unsigned lane, void *dst, const void *src, size_t bytes,
        enum gpu_copy_mode manner))
{
    bool out = dst == local;
    assert_ptr_equal(gpu, &gpu_here);
    assert_int_equal(lane, 2);
    assert_int_equal(manner, GPU_DONE);
    assert_false(is_locked()); /* the lock is released, so that other threads can run */
    assert_true(out != (src == local));
    log_call("%s:%zu ", out ? "to_gpu" : "from_gpu", bytes);
    memcpy(dst, src, bytes);
    return ++calls == fails_at ? base_fail(WEFT_ERR_TIMEOUT, "call %d fails", calls) : WEFT_OK;
}

/* --------------------------------------------------------------------------------------- set-up */

static int open_end(void **context)
{
    (void)context;
    ready = false;
    end_open_idle(&end, key);
    end.world.gpu = (struct gpu *)(void *)&gpu_here;
    net_peer = &end.peers[1];
    to_peer = (struct peer){.pe = 1,
                            .path = PATH_NET,
                            .state = (void *)&end.state,
                            .world = &end.world,
                            .ops = &path_net};
    for (size_t i = 0; i < sizeof local; i++)
        local[i] = (unsigned char)(i * 13 + 3);
    trace[0] = '\0';
    calls = fails_at = record_count = 0;
    local_is_device = false;
    ready = true;
    return 0;
}

static int shut_end(void **context)
{
    (void)context;
    ready = false;
    assert_false(is_locked());
    end.world.gpu = NULL;
    end_shut(&end);
    return 0;
}

static struct remote at(enum segment_id segment, size_t offset)
{
    return (struct remote){&to_peer, segment, offset};
}

/* Checks that the operation `run` makes these calls, and that no call with a status follows a
 * failed one. */
static void expect(weft_status (*run)(void), const char *calls_expected)
{
    trace[0] = '\0';
    calls = fails_at = record_count = 0;
    assert_int_equal(run(), WEFT_OK);
    assert_string_equal(trace, calls_expected);
    assert_false(is_locked());
    int all = calls;
    for (int i = 1; i <= all; i++) {
        trace[0] = '\0';
        calls = record_count = 0;
        fails_at = i;
        assert_int_equal(run(), WEFT_ERR_TIMEOUT);
        if (calls != i)
            fail_msg("call %d fails, and is followed by others: %s", i, trace);
        assert_false(is_locked());
    }
    fails_at = 0;
}

/* Runs the operation once more; its records are then in `records`. */
static void again(weft_status (*run)(void))
{
    record_count = 0;
    assert_int_equal(run(), WEFT_OK);
}

#endif
