/* SPDX-License-Identifier: Apache-2.0 */
/* Which frames the hub of a job sends to which members. The wires are fakes that record frames.
 * Also tested: full buffers, missing memory, broken connections, and a member without a wire. */
#include "base/status.h"
#include "boot/hub/hub.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { N = 3 };

static struct {
    struct {
        int to, number, fd;
        uint32_t type;
        const void *payload;
        size_t bytes;
        bool elsewhere; /* sent by the event `send` */
    } sent[8];
    int count, flushes, reads, freed_frames;
    weft_status post, flush, read;
    struct wire_unsent *unsent_after;
    int rooms, room_of, lost, lost_one, failures, failed_one;
    weft_status failed_with;
    char sentence[HUB_MOST_SENTENCE + 1];
    int left, memory;
} did;

static struct hub hub;
static struct wire wires[N], local;
static struct wire_unsent unsent = {.fd = -1};
static const int pes[N] = {4, 6, 9};
static int owner;

static int member_of(const struct wire *wire)
{
    return (int)(wire - wires);
}

weft_status __wrap_wire_post(struct wire *wire, uint32_t type, int number, const void *payload,
                             size_t bytes, int fd);
weft_status __wrap_wire_post(struct wire *wire, uint32_t type, int number, const void *payload,
                             size_t bytes, int fd)
{
    did.sent[did.count].to = member_of(wire);
    did.sent[did.count].type = type;
    did.sent[did.count].number = number;
    did.sent[did.count].payload = payload;
    did.sent[did.count].bytes = bytes;
    did.sent[did.count++].fd = fd;
    wire->unsent = did.unsent_after;
    return did.post ? base_fail(did.post, "no post") : WEFT_OK;
}

weft_status __wrap_wire_flush(struct wire *wire);
weft_status __wrap_wire_flush(struct wire *wire)
{
    did.flushes++;
    wire->unsent = did.unsent_after;
    return did.flush ? base_fail(did.flush, "no flush") : WEFT_OK;
}

weft_status __wrap_wire_read(struct wire *wire);
weft_status __wrap_wire_read(struct wire *wire)
{
    assert_true(wire->fd >= 0);
    did.reads++;
    return did.read ? base_fail(did.read, "no read") : WEFT_OK;
}

static void *counted(void *made)
{
    did.memory += made != NULL;
    return made;
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    return did.left-- ? counted(__real_malloc(bytes)) : NULL;
}

void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes)
{
    return did.left-- ? counted(__real_calloc(n, bytes)) : NULL;
}

void __real_free(void *made);
void __wrap_free(void *made);
void __wrap_free(void *made)
{
    did.memory -= made != NULL;
    __real_free(made);
}

static void on_failed(void *o, int member, weft_status status, const char *sentence)
{
    assert_ptr_equal(o, &owner);
    did.failures++;
    did.failed_one = member;
    did.failed_with = status;
    strcpy(did.sentence, sentence);
}

static void on_lost(void *o, int member)
{
    assert_ptr_equal(o, &owner);
    did.lost++;
    did.lost_one = member;
}

static void on_unsent_changed(void *o, int member)
{
    assert_ptr_equal(o, &owner);
    did.rooms++;
    did.room_of = member;
}

static void on_send(void *o, int member, enum frame_type type, int number, const void *payload,
                    size_t bytes)
{
    assert_ptr_equal(o, &owner);
    did.sent[did.count].to = member;
    did.sent[did.count].type = type;
    did.sent[did.count].number = number;
    did.sent[did.count].payload = payload;
    did.sent[did.count].bytes = bytes;
    did.sent[did.count++].elsewhere = true;
}

static const struct hub_events events = {.failed = on_failed,
                                         .lost = on_lost,
                                         .unsent_changed = on_unsent_changed},
                               with_send = {.failed = on_failed, .send = on_send};

static int open_hub(void **state)
{
    (void)state;
    memset(&did, 0, sizeof did);
    did.left = -1;
    for (int i = 0; i < N; i++)
        wires[i] = (struct wire){.fd = i}; /* 0 is a valid descriptor */
    local = (struct wire){.fd = -1};
    if (hub_init(&hub, N, wires, true))
        return -1;
    hub.events = &events;
    hub.owner = &owner;
    hub.pes = pes;
    return 0;
}

static int close_hub(void **state)
{
    (void)state;
    hub_free(&hub);
    assert_true(!hub.in_job && !hub.gathering && !hub.answer && !hub.n);
    hub_free(&hub);
    assert_int_equal(did.memory, 0);
    return 0;
}

static void say(int member, uint32_t type, int number, const char *payload, size_t bytes, int fd)
{
    struct wire_frame *frame = wire_frame_make(type, number, payload, bytes, fd);
    assert_non_null(frame);
    hub_handle(&hub, member, frame);
}

static void expect_failure(int member, weft_status status, const char *sentence)
{
    assert_int_equal(did.failures, 1);
    assert_int_equal(did.failed_one, member);
    assert_int_equal(did.failed_with, status);
    assert_string_equal(did.sentence, sentence);
    did.failures = 0;
}

/* -------------------------------------------------------------------------------------- sending */

static void room_is_told_of_where_it_changes(void **state)
{
    static const struct {
        bool before, after, starved, told;
    } rows[] = {{0, 0, 0, 0}, {0, 1, 0, 1}, {1, 0, 0, 1}, {1, 1, 0, 0}, {1, 1, 1, 1}, {0, 0, 1, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int flush = 0; flush < 2; flush++) {
            did.rooms = 0;
            wires[2].unsent = rows[i].before ? &unsent : NULL;
            wires[2].starved = rows[i].starved;
            did.unsent_after = rows[i].after ? &unsent : NULL;
            if (flush)
                hub_flush(&hub, 2);
            else
                hub_send(&hub, 2, FRAME_END, 5, "payload", 7, 8);
            assert_int_equal(did.rooms, rows[i].told);
            if (rows[i].told)
                assert_int_equal(did.room_of, 2);
            did.count = 0;
        }
    assert_int_equal(did.flushes, 6);
    assert_int_equal(did.failures, 0);
    wires[2].unsent = NULL;
}

static void sending_fails(void **state)
{
    (void)state;
    did.unsent_after = &unsent;
    did.post = did.flush = WEFT_ERR_NO_MEMORY;
    hub_send(&hub, 1, FRAME_END, 0, NULL, 0, -1);
    expect_failure(1, WEFT_ERR_NO_MEMORY, "sending to PE 6: no post");
    wires[2].unsent = NULL;
    hub_flush(&hub, 2);
    expect_failure(2, WEFT_ERR_NO_MEMORY, "sending to PE 9: no flush");
    assert_int_equal(did.rooms, 0);
    did.post = did.flush = WEFT_ERR_PEER_DEAD; /* the hub reads the end of the connection later */
    wires[1].unsent = wires[2].unsent = NULL;
    hub_flush(&hub, 2);
    assert_int_equal(did.rooms, 0);
    hub_send(&hub, 1, FRAME_END, 0, NULL, 0, -1);
    assert_int_equal(did.rooms, 1);
    assert_int_equal(did.failures, 0);
    for (int i = 0; i < N; i++)
        wires[i].unsent = NULL;
}

static void a_member_without_a_wire(void **state)
{
    (void)state;
    wires[1].fd = -1;
    hub_send(&hub, 1, FRAME_END, 5, "payload", 7, -1);
    assert_int_equal(did.count, 0);
    hub.events = &with_send;
    hub_send(&hub, 1, FRAME_END, 5, "payload", 7, -1);
    hub_send(&hub, 0, FRAME_END, 6, "payload", 7, -1);
    assert_int_equal(did.count, 2);
    assert_true(did.sent[0].elsewhere && !did.sent[1].elsewhere);
    assert_int_equal(did.sent[0].to, 1);
    assert_int_equal(did.sent[0].type, FRAME_END);
    assert_int_equal(did.sent[0].number, 5);
    assert_string_equal(did.sent[0].payload, "payload");
    assert_int_equal(did.sent[0].bytes, 7);
    assert_int_equal(did.sent[1].to, 0);
}

static void what_is_for_the_hub_itself_is_queued(void **state)
{
    (void)state;
    hub.local = &local;
    hub_send(&hub, 0, FRAME_ALL, 7, "payload", 7, 1);
    hub_send(&hub, 0, FRAME_END, 8, NULL, 0, -1);
    assert_int_equal(did.count, 0);
    struct wire_frame *frame = wire_take(&local);
    assert_int_equal(frame->type, FRAME_ALL);
    assert_int_equal(frame->number, 7);
    assert_string_equal(frame->payload, "payload");
    assert_true(frame->fd > 1 && fcntl(frame->fd, F_GETFD) & FD_CLOEXEC);
    wire_frame_free(frame);
    frame = wire_take(&local);
    assert_int_equal(frame->fd, -1);
    wire_frame_free(frame);
    int input = dup(0);
    close(0);
    open("/dev/null", O_RDONLY);
    hub_send(&hub, 0, FRAME_FD, 7, NULL, 0, 0); /* 0 is a valid descriptor */
    frame = wire_take(&local);
    assert_true(frame->fd >= 0);
    wire_frame_free(frame);
    if (input >= 0) {
        dup2(input, 0);
        close(input);
    }
    did.left = 0;
    hub_send(&hub, 0, FRAME_ALL, 7, "payload", 7, -1);
    expect_failure(0, WEFT_ERR_NO_MEMORY, "no memory for a frame of 7 bytes");
    assert_null(wire_take(&local));
}

/* ------------------------------------------------------------------------------------ exchanges */

static void an_exchange_of_the_largest_size(void **state)
{
    static char part[HUB_MOST_ANSWER / N + 1];
    (void)state;
    for (int i = 0; i < N; i++)
        say(i, FRAME_PART, 0, part, sizeof part, -1);
    assert_int_equal(did.failures, 0);
    assert_int_equal(did.count, N);
    for (int i = 0; i < N; i++) {
        assert_int_equal(did.sent[i].to, i);
        assert_int_equal(did.sent[i].number, 0);
        assert_int_equal(did.sent[i].fd, -1);
        assert_int_equal(did.sent[i].bytes, N * sizeof part);
    }
    assert_null(hub.answer);
}

static void an_exchange_is_forgotten(void **state)
{
    (void)state;
    say(0, FRAME_PART, 0, "abc", 3, -1);
    hub_forget_exchange(&hub);
    assert_null(hub.answer);
    for (int i = 0; i < N; i++)
        say(i, FRAME_PART, 0, "de", 2, -1);
    assert_int_equal(did.failures, 0);
    assert_int_equal(did.count, N);
    say(1, FRAME_PART, 0, "abc", 3, -1);
    say(1, FRAME_PART, 0, "xyz", 3, -1); /* a second part during the exchange */
    assert_int_equal(did.failures, 1);
    assert_memory_equal(hub.answer + 3, "abc", 3);
    did.failures = 0;
    hub_forget_exchange(&hub);
    struct wire_frame *frame = wire_frame_make(FRAME_PART, 0, "abc", 3, -1);
    did.left = 0;
    hub_handle(&hub, 2, frame);
    expect_failure(2, WEFT_ERR_NO_MEMORY, "the hub of the job has no memory for an exchange");
    assert_false(hub.gathering[2]);
}

static void who_asks_is_answered(void **state)
{
    (void)state;
    say(1, FRAME_WHO, 0, NULL, 0, -1);
    assert_int_equal(did.count, 1);
    assert_int_equal(did.sent[0].to, 1);
    assert_int_equal(did.sent[0].type, FRAME_MISSING);
    assert_int_equal(did.sent[0].number, 0);
    assert_int_equal(did.sent[0].fd, -1);
    assert_int_equal(did.sent[0].bytes, strlen("PE 4, 9 did not reach the exchange"));
}

/* A descriptor goes to all other members, or to the listed ones; the sender and invalid members in
 * the list are ignored. */
static void a_descriptor_goes_to_those_listed(void **state)
{
    static const int32_t to[] = {2, -1, 3, 1, 0};
    (void)state;
    say(1, FRAME_FD, 77, (const char *)to, sizeof to, dup(1));
    assert_int_equal(did.count, 2);
    assert_int_equal(did.sent[0].to, 2);
    assert_int_equal(did.sent[1].to, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(did.sent[i].type, FRAME_FD);
        assert_int_equal(did.sent[i].number, 1);
        assert_int_equal(did.sent[i].bytes, 0);
        assert_true(did.sent[i].fd >= 0);
    }
    did.count = 0;
    say(1, FRAME_FD, 0, NULL, 0, dup(1));
    assert_int_equal(did.count, 2);
    assert_int_equal(did.failures, 0);
    did.count = 0;
    say(1, FRAME_FD, 0, NULL, 0, -1);
    assert_int_equal(did.failures, 1);
    assert_int_equal(did.count, 0);
}

static void a_sentence_is_cleaned(void **state)
{
    (void)state;
    say(1, FRAME_FAILED, WEFT_ERR_PATH, "a\x1f\x20\x7f\xff z", 6, -1);
    expect_failure(1, WEFT_ERR_PATH, "a \x20\x7f\xff ");
}

/* ------------------------------------------------------------------------------------ receiving */

static void a_connection_breaks(void **state)
{
    (void)state;
    did.read = WEFT_ERR_PEER_DEAD;
    hub_read(&hub, 0);
    assert_int_equal(did.lost, 1);
    assert_int_equal(did.lost_one, 0);
    did.read = WEFT_ERR_BOOT;
    hub_read(&hub, 2);
    expect_failure(2, WEFT_ERR_BOOT, "the connection to PE 9 failed: no read");
    did.read = WEFT_OK;
    hub_read(&hub, 2);
    wires[2].fd = -1;
    hub_read(&hub, 2);
    assert_int_equal(did.reads, 3);
    assert_int_equal(did.lost, 1);
    assert_int_equal(did.failures, 0);
}

static void there_is_no_memory_for_a_hub(void **state)
{
    (void)state;
    for (int left = 0; left < 2; left++) {
        memset(&did, 0, sizeof did);
        did.left = left;
        assert_int_equal(hub_init(&hub, N, wires, true), WEFT_ERR_NO_MEMORY);
        assert_string_equal(base_last_error(), "no memory for a hub of 3 members");
        assert_int_equal(did.memory, 0);
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_hub, close_hub)
    const struct CMUnitTest tests[] = {
        CASE(room_is_told_of_where_it_changes),
        CASE(sending_fails),
        CASE(a_member_without_a_wire),
        CASE(what_is_for_the_hub_itself_is_queued),
        CASE(an_exchange_of_the_largest_size),
        CASE(an_exchange_is_forgotten),
        CASE(who_asks_is_answered),
        CASE(a_descriptor_goes_to_those_listed),
        CASE(a_sentence_is_cleaned),
        CASE(a_connection_breaks),
        cmocka_unit_test(there_is_no_memory_for_a_hub),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
