/* SPDX-License-Identifier: Apache-2.0 */
/* The owner's thread of path staged: how many requests it starts before some are complete, when it
 * yields and when it sleeps, what happens to requests whose GPU fails, and that join and leave
 * release what they allocate. The code that executes requests is a fake. */
#include "path/staged/staged.h"

#include "base/status.h"
#include "callocs.h"

#include <errno.h>
#include <linux/futex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include <cmocka.h>

enum { LOCALS = 3, ME = 1, ASKER = 2 };

static char gpu_here, serve_here; /* addresses that identify the GPU and the server */
static struct {
    uint64_t begun, complete;
    bool later; /* `complete` is set by the test; else all started requests are complete */
    weft_status look, begin, open, thread, area;
    int looks, opens, closes, pins, yields, sleeps, wakes, joins, drops, unpins, destroys, advances;
    void *(*run)(void *argument);
    void *argument;
    struct serve_request last;
    struct timespec most;
    int wait_value;
    void (*at_yield)(void);
} d;
static jmp_buf asleep;
static char *area;

weft_status __wrap_serve_open(const struct path_world *world, struct serve **serve);
weft_status __wrap_serve_open(const struct path_world *world, struct serve **serve)
{
    (void)world;
    d.opens++;
    *serve = d.open ? NULL : (struct serve *)(void *)&serve_here;
    return d.open ? base_fail(d.open, "no serve") : WEFT_OK;
}

void __wrap_serve_close(struct serve *serve);
void __wrap_serve_close(struct serve *serve)
{
    d.closes += serve != NULL;
}

weft_status __wrap_serve_begin(struct serve *serve, const struct serve_request *request, void *data,
                               uint64_t *before);
weft_status __wrap_serve_begin(struct serve *serve, const struct serve_request *request, void *data,
                               uint64_t *before)
{
    assert_ptr_equal(serve, &serve_here);
    assert_non_null(data);
    *before = 0x4142434445464748;
    d.last = *request;
    d.begun++;
    return d.begin ? base_fail(d.begin, "not begun") : WEFT_OK;
}

weft_status __wrap_serve_poll(struct serve *serve, uint64_t *complete);
weft_status __wrap_serve_poll(struct serve *serve, uint64_t *complete)
{
    assert_ptr_equal(serve, &serve_here);
    d.looks++;
    if (d.look)
        return base_fail(d.look, "the GPU has failed");
    *complete = d.later ? d.complete : d.begun;
    return WEFT_OK;
}

bool __wrap_staged_pin_channel(const struct staged_common *common,
                               struct staged_channel_memory *memory);
bool __wrap_staged_pin_channel(const struct staged_common *common,
                               struct staged_channel_memory *memory)
{
    assert_ptr_equal(memory, &staged_mailbox(common, ME)->channels[ASKER]);
    d.pins++;
    return true;
}

weft_status __wrap_segment_create(struct segment *segment, struct boot *boot, const char *name,
                                  size_t size);
weft_status __wrap_segment_create(struct segment *segment, struct boot *boot, const char *name,
                                  size_t size)
{
    size_t stride = (size + SEGMENT_ALIGN - 1) / SEGMENT_ALIGN * SEGMENT_ALIGN;
    assert_string_equal(name, "weft-staged");
    if (d.area)
        return base_fail(d.area, "no area");
    area = mmap(NULL, stride * LOCALS, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(area != MAP_FAILED);
    *segment = (struct segment){.base = area + stride * (size_t)boot->local_pe,
                                .size = size,
                                .slots = area,
                                .stride = stride,
                                .slot_count = LOCALS,
                                .fd = -1};
    return WEFT_OK;
}

void __wrap_segment_destroy(struct segment *segment);
void __wrap_segment_destroy(struct segment *segment)
{
    assert_ptr_equal(segment->slots, area);
    munmap(area, segment->stride * LOCALS);
    d.destroys++;
}

int __wrap_thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument);
int __wrap_thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument)
{
    *thread = pthread_self();
    d.run = run;
    d.argument = argument;
    return d.thread ? EAGAIN : 0;
}

int __wrap_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result)
{
    (void)thread, (void)result;
    d.joins++;
    d.run(d.argument); /* the thread was stopped, so its loop ends */
    return 0;
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    long values[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        values[i] = va_arg(list, long);
    va_end(list);
    if (number != SYS_futex)
        return __real_syscall(number, values[0], values[1], values[2], values[3], values[4],
                              values[5]);
    const _Atomic uint32_t *word = (_Atomic uint32_t *)(uintptr_t)values[0];
    const struct timespec *most = (const struct timespec *)(uintptr_t)values[3];
    int operation = (int)values[1];
    d.wait_value = (int)values[2];
    if (operation == FUTEX_WAKE) {
        assert_true(d.wait_value > 1); /* wakes all waiting threads */
        d.wakes++;
        return 0;
    }
    assert_int_equal(operation, FUTEX_WAIT);
    assert_int_equal(*word, 1);
    d.most = *most;
    if (++d.sleeps == 2)
        longjmp(asleep, 1);
    return 0; /* woken */
}

int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
    d.yields++;
    if (d.at_yield)
        d.at_yield();
    return 0;
}

weft_status __wrap_staged_advance(struct staged_channel *channel);
weft_status __wrap_staged_advance(struct staged_channel *channel)
{
    assert_int_not_equal(pthread_mutex_trylock(&channel->lock), 0);
    return ++d.advances == 2 ? WEFT_ERR_PATH : WEFT_OK;
}

void __wrap_gpu_event_release(struct gpu *gpu, struct gpu_event **mark);
void __wrap_gpu_event_release(struct gpu *gpu, struct gpu_event **mark)
{
    (void)gpu;
    d.drops += *mark != NULL;
}

void __wrap_gpu_unpin_range(struct gpu *gpu, void *at, size_t bytes);
void __wrap_gpu_unpin_range(struct gpu *gpu, void *at, size_t bytes)
{
    assert_ptr_equal(gpu, &gpu_here);
    assert_ptr_equal(at, area);
    assert_true(bytes >= LOCALS * LOCALS * sizeof(struct staged_channel_memory));
    d.unpins++;
}

/* --------------------------------------------------------------------------------------- set-up */

static int local_pes[LOCALS] = {4, 5, 6};
static struct boot boot = {
    .npes = 9, .pe = 5, .local_pe = ME, .local_npes = LOCALS, .local_pes = local_pes};
static struct path_world world;
static struct staged_ring *ring;
static int blocks_before;

static weft_status join(void)
{
    weft_status status = staged_join(&world, &world.common[PATH_STAGED]);
    if (!status)
        ring = &staged_mailbox(staged_common(&world), ME)->channels[ASKER].ring;
    return status;
}

static void leave(void)
{
    staged_leave(world.common[PATH_STAGED]);
    assert_int_equal(callocs.memory, blocks_before);
}

static int prepare(void **context)
{
    (void)context;
    memset(&d, 0, sizeof d);
    world = (struct path_world){
        .boot = &boot, .pe = 5, .npes = 9, .gpu = (struct gpu *)(void *)&gpu_here};
    callocs.left = -1;
    blocks_before = callocs.memory;
    assert_int_equal(join(), WEFT_OK);
    return 0;
}

static int finish(void **context)
{
    (void)context;
    d.later = false;
    d.look = WEFT_OK;
    d.at_yield = NULL;
    leave();
    assert_int_equal(d.joins, 1);
    assert_int_equal(d.closes, 1);
    assert_int_equal(d.destroys, 1);
    assert_int_equal(d.unpins, 1);
    return 0;
}

/* Writes `count` more requests of the requester. */
static void ask(int count, enum serve_operation operation, enum segment_id segment)
{
    static uint64_t number;
    struct staged_mailbox *mailbox = staged_mailbox(staged_common(&world), ME);
    if (!mailbox->senders[0])
        number = 0;
    mailbox->senders[0] = 1u << ASKER;
    for (int i = 0; i < count; i++) {
        struct staged_slot *slot = &ring->slots[number % STAGED_SLOTS];
        slot->request = (struct serve_request){
            .operation = (uint8_t)operation, .segment = (uint8_t)segment, .bytes = 8};
        slot->sequence = ++number;
    }
}

/* Runs the thread's loop until it sleeps for the second time. */
static void run(void)
{
    d.sleeps = 0;
    if (!setjmp(asleep))
        d.run(d.argument);
}

/* ---------------------------------------------------------------------------------------- tests */

static int complete_at;

static void complete_all(void)
{
    if (d.yields >= complete_at)
        d.complete = d.begun;
}

static void no_more_are_begun_than_can_be_under_way(void **context)
{
    (void)context;
    d.later = true;
    complete_at = 6;
    d.at_yield = complete_all;
    ask(STAGED_SLOTS, SERVE_PUT, SEG_HEAP);
    run();
    assert_int_equal(d.begun, STAGED_SLOTS);
    assert_int_equal(ring->done, STAGED_SLOTS);
    /* Sixteen requests at a time, with a check after each, and a yield after each turn while
     * requests are in flight. */
    assert_int_equal(d.looks, STAGED_SLOTS + 7);
    assert_int_equal(d.yields, 7 + 4 + 4);
}

static void under_way_is_limited_over_all_channels(void **context)
{
    struct staged_mailbox *mailbox = staged_mailbox(staged_common(&world), ME);
    struct staged_ring *other = &mailbox->channels[0].ring;
    (void)context;
    d.later = true;
    complete_at = 9;
    d.at_yield = complete_all;
    ask(STAGED_SLOTS, SERVE_PUT, SEG_HEAP);
    mailbox->senders[0] |= 1;
    for (uint64_t i = 0; i < 3; i++) {
        other->slots[i].request =
            (struct serve_request){.operation = SERVE_PUT, .segment = SEG_HEAP, .bytes = 8};
        other->slots[i].sequence = i + 1;
    }
    run();
    assert_int_equal(other->done, 3);
    assert_int_equal(ring->done, STAGED_SLOTS);
    assert_int_equal(d.begun, STAGED_SLOTS + 3);
}

static void a_thread_that_was_woken_does_not_sleep_at_once(void **context)
{
    (void)context;
    run();
    assert_int_equal(d.sleeps, 2);
    assert_int_equal(d.yields, 4 + 4);
    assert_int_equal(d.most.tv_sec, 0);
    assert_int_equal(d.most.tv_nsec, 100 * 1000 * 1000);
    assert_int_equal(d.wait_value, 1);
    ask(1, SERVE_PUT, SEG_HEAP);
    d.yields = 0;
    run();
    assert_int_equal(d.yields, 4 + 4);
    assert_int_equal(d.begun, 1);
    assert_int_equal(d.looks, 1);
}

static void requests_of_gpu_memory_pin_the_channel_once(void **context)
{
    (void)context;
    ask(2, SERVE_PUT, SEG_HEAP);
    run();
    assert_int_equal(d.pins, 0);
    ask(2, SERVE_PUT, SEG_GPU);
    run();
    assert_int_equal(d.pins, 1);
    assert_int_equal(d.last.segment, SEG_GPU);
    finish(NULL);
    prepare(NULL);
    world.gpu = NULL;
    ask(1, SERVE_PUT, SEG_GPU);
    run();
    assert_int_equal(d.pins, 0);
    world.gpu = (struct gpu *)(void *)&gpu_here;
}

static void an_atomic_leaves_what_it_found(void **context)
{
    (void)context;
    ask(1, SERVE_ATOMIC, SEG_HEAP);
    ask(1, SERVE_PUT, SEG_HEAP);
    run();
    assert_memory_equal(ring->slots[0].data, "HGFEDCBA", 8);
    assert_int_equal(ring->slots[1].data[0], 0);
}

static void a_gpu_that_fails_ends_what_is_under_way(void **context)
{
    (void)context;
    d.look = WEFT_ERR_SYSTEM;
    ask(1, SERVE_PUT, SEG_GPU);
    run();
    assert_int_equal(ring->failed, WEFT_ERR_SYSTEM);
    assert_string_equal(ring->sentence, "the GPU has failed");
    assert_int_equal(ring->done, 1);
    d.look = WEFT_OK;
    d.begin = WEFT_ERR_RANGE;
    ask(1, SERVE_PUT, SEG_GPU);
    run();
    assert_int_equal(ring->failed, WEFT_ERR_SYSTEM); /* the first failure is kept */
    assert_int_equal(ring->done, 2);
}

static void publish_at_last(void)
{
    if (d.yields == 3)
        staged_common(&world)->channels[0].published = 1;
}

static void a_channel_needs_polling_until_all_is_published(void **context)
{
    struct staged_common *common = staged_common(&world);
    (void)context;
    d.advances = 5;
    common->channels[0].needs_polling = true;
    common->channels[0].begun = 1;
    d.at_yield = publish_at_last;
    run();
    assert_false(common->channels[0].needs_polling);
    assert_int_equal(d.advances, 5 + 4);
    assert_int_equal(d.yields, 4 + 4 + 4);
    common->channels[0].begun = 0;
}

static void marks_of_requests_are_dropped_at_the_end(void **context)
{
    (void)context;
    struct staged_common *common = staged_common(&world);
    for (int slot = 0; slot < LOCALS; slot++)
        common->channels[slot].pending[0].copy_event =
            common->channels[slot].pending[STAGED_SLOTS - 1].copy_event =
                (struct gpu_event *)(void *)&gpu_here;
    finish(NULL);
    assert_int_equal(d.drops, 2 * LOCALS);
    prepare(NULL);
}

static void a_path_that_cannot_be_joined_gives_all_back(void **context)
{
    static const char *const texts[] = {
        "no private memory for path staged",
        "no private memory for path staged to 3 PEs",
        "no private memory for path staged",
        "no private memory for path staged from 3 PEs",
        "no private memory for path staged from 3 PEs",
        "no area",
        "no serve",
        "no thread for path staged: Resource temporarily unavailable",
    };
    (void)context;
    finish(NULL);
    for (int i = 0; i < 8; i++) {
        memset(&d, 0, sizeof d);
        world.common[PATH_STAGED] = NULL;
        callocs.left = i < 5 ? i : -1;
        d.area = i == 5 ? WEFT_ERR_SYSTEM : WEFT_OK;
        d.open = i == 6 ? WEFT_ERR_SYSTEM : WEFT_OK;
        d.thread = i == 7 ? WEFT_ERR_SYSTEM : WEFT_OK;
        area = NULL;
        assert_int_equal(join(), i < 5 ? WEFT_ERR_NO_MEMORY : WEFT_ERR_SYSTEM);
        assert_string_equal(base_last_error(), texts[i]);
        callocs.left = -1;
        assert_int_equal(world.common[PATH_STAGED] != NULL, i > 0);
        if (i)
            world.gpu = NULL;
        if (i)
            leave();
        assert_int_equal(d.destroys, i == 2 || i == 3 || i == 4 || i >= 6);
        assert_int_equal(d.joins, 0);
        assert_int_equal(d.closes, i == 7);
    }
    prepare(NULL);
}

static void a_node_may_have_as_many_pes_as_there_are_bits(void **context)
{
    (void)context;
    static int many[STAGED_MOST_PES + 1];
    struct boot large = boot;
    struct path_world there = world;
    large.local_pes = many;
    large.local_npes = STAGED_MOST_PES;
    there.boot = &large;
    there.gpu = NULL;
    d.area = WEFT_ERR_SYSTEM; /* creating the segment fails */
    assert_int_equal(staged_join(&there, &there.common[PATH_STAGED]), WEFT_ERR_SYSTEM);
    staged_leave(there.common[PATH_STAGED]);
}

#define test(name) cmocka_unit_test_setup_teardown(name, prepare, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(no_more_are_begun_than_can_be_under_way),
        test(under_way_is_limited_over_all_channels),
        test(a_thread_that_was_woken_does_not_sleep_at_once),
        test(requests_of_gpu_memory_pin_the_channel_once),
        test(an_atomic_leaves_what_it_found),
        test(a_gpu_that_fails_ends_what_is_under_way),
        test(a_channel_needs_polling_until_all_is_published),
        test(marks_of_requests_are_dropped_at_the_end),
        test(a_path_that_cannot_be_joined_gives_all_back),
        test(a_node_may_have_as_many_pes_as_there_are_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
