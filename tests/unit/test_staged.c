/* SPDX-License-Identifier: Apache-2.0 */
/* Path staged between PEs of one node, with both ends in one thread. The owner's loop runs when a
 * requester waits or the test calls it, until it would sleep. Tested: order, slots, buffers,
 * errors, sleep and wake-up, in host memory. */
#include "path/staged/staged.h"

#include "base/status.h"

#include <linux/futex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <cmocka.h>

extern const struct path_ops path_staged;

/* Enough PEs for two words of bits. Local PE i is PE 2 i + 1 of the job. */
enum { LOCALS = 34, PES = 2 * LOCALS, OWNER = 1, FIRST = 0, LAST = LOCALS - 1 };
enum { HEAP_BYTES = 2 << 20 };

static _Alignas(64) unsigned char heap[HEAP_BYTES];
static int local_pes[LOCALS];
static char *maps[3][PES][SEG_COUNT];
static struct boot boots[3];
static struct path_world worlds[3];
static struct path_state *states[2];

/* The ends: ASKER (PE LAST) and OTHER (PE FIRST) are requesters, SERVER is the owner. */
enum { ASKER, OTHER, SERVER };
static const int locals_of[] = {LAST, FIRST, OWNER};
static struct peer peers[2]; /* the owner, seen from the two requesters */
static struct staged_channel *channels[2];

/* ------------------------------------------------------------------- fakes, in place of threads */

static char *area;
static int areas_destroyed, unmapped;
static bool spare_cpus;

weft_status __wrap_segment_create(struct segment *segment, struct boot *boot, const char *name,
                                  size_t size);
weft_status __wrap_segment_create(struct segment *segment, struct boot *boot, const char *name,
                                  size_t size)
{
    (void)name;
    size_t stride = (size + SEGMENT_ALIGN - 1) / SEGMENT_ALIGN * SEGMENT_ALIGN;
    if (!area)
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
    unmapped += !segment->slots;
    if (++areas_destroyed == 3 && segment->slots) {
        munmap(area, segment->stride * LOCALS);
        area = NULL;
    }
}

static struct {
    void *(*run)(void *argument);
    void *argument;
} owners[3];
static int owner_count;

int __wrap_thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument);
int __wrap_thread_start(pthread_t *thread, void *(*run)(void *argument), void *argument)
{
    *thread = pthread_self();
    owners[owner_count].run = run;
    owners[owner_count++].argument = argument;
    return 0;
}

static int joins;
int __wrap_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result)
{
    (void)thread, (void)result;
    joins++;
    return 0;
}

static jmp_buf asleep;
static int wakes, sleeps;
static _Atomic uint32_t *last_word;

long __wrap_syscall(long number, ...);
long __real_syscall(long number, ...);
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
    _Atomic uint32_t *word = (_Atomic uint32_t *)(uintptr_t)values[0];
    int operation = (int)values[1];
    last_word = word;
    if (operation == FUTEX_WAKE) {
        assert_int_equal(*word, 0);
        wakes++;
        return 0;
    }
    assert_int_equal(operation, FUTEX_WAIT);
    assert_int_equal(*word, 1);
    sleeps++;
    longjmp(asleep, 1);
}

static int yields;
static void (*at_yield)(void);
int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
    yields++;
    if (at_yield)
        at_yield();
    return 0;
}

int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
    (void)pid, (void)bytes;
    CPU_ZERO(set);
    CPU_SET(0, set);
    if (spare_cpus)
        CPU_SET(1, set);
    return 0;
}

static uint64_t now;
static int clock_looks;
static void (*at_clock)(void);
uint64_t __wrap_clock_now_ns(void);
uint64_t __wrap_clock_now_ns(void)
{
    clock_looks++;
    now += 10 * 1000;
    if (at_clock)
        at_clock();
    return now;
}

/* Runs the loop of an end until its thread would sleep. */
static void run_owner(int end)
{
    if (!setjmp(asleep))
        owners[end].run(owners[end].argument);
}

static int steps, ends;
static struct path_wait waited;
static weft_status step_fails;

static weft_status wait_step(struct path_wait *wait, uint64_t seen)
{
    (void)seen;
    steps++;
    waited = *wait;
    if (!step_fails)
        run_owner(SERVER);
    return step_fails ? base_fail(step_fails, "it takes too long") : WEFT_OK;
}

static void wait_end(struct path_wait *wait)
{
    (void)wait;
    ends++;
}

/* -------------------------------------------------------------------------- set-up of both ends */

static unsigned char byte_at(size_t i)
{
    return (unsigned char)(i * 7 + i / 251);
}

static int open_ends(void **context)
{
    (void)context;
    owner_count = areas_destroyed = unmapped = 0;
    for (int i = 0; i < LOCALS; i++)
        local_pes[i] = 2 * i + 1;
    for (int i = 0; i < 3; i++) {
        boots[i] = (struct boot){.pe = local_pes[locals_of[i]],
                                 .npes = PES,
                                 .local_pe = locals_of[i],
                                 .local_npes = LOCALS,
                                 .local_pes = local_pes};
        maps[i][boots[i].pe][SEG_HEAP] = (char *)heap;
        worlds[i] = (struct path_world){.pe = boots[i].pe,
                                        .npes = PES,
                                        .boot = &boots[i],
                                        .map = maps[i],
                                        .cpus = 2 * LOCALS,
                                        .wait_step = wait_step,
                                        .wait_end = wait_end};
        worlds[i].sizes[SEG_HEAP] = HEAP_BYTES;
        assert_int_equal(path_staged.join(&worlds[i], &worlds[i].common[PATH_STAGED]), WEFT_OK);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(path_staged.open(&worlds[i], &states[i]), WEFT_OK);
        peers[i] = (struct peer){
            .ops = &path_staged, .state = states[i], .pe = local_pes[OWNER], .world = &worlds[i]};
        channels[i] = &staged_common(&worlds[i])->channels[OWNER];
    }
    for (size_t i = 0; i < HEAP_BYTES; i++)
        heap[i] = byte_at(i);
    steps = ends = wakes = sleeps = yields = clock_looks = 0;
    step_fails = WEFT_OK;
    at_yield = at_clock = NULL;
    return 0;
}

static int open_spare(void **context)
{
    spare_cpus = true;
    return open_ends(context);
}

static int shut_ends(void **context)
{
    (void)context;
    for (int i = 0; i < 2; i++)
        path_staged.close(states[i]);
    joins = wakes = 0;
    for (int i = 0; i < 3; i++) {
        staged_mailbox(staged_common(&worlds[i]), locals_of[i])->asleep = 1;
        path_staged.leave(worlds[i].common[PATH_STAGED]);
        assert_int_equal(wakes, i + 1); /* the sleeping thread is woken */
        assert_int_equal(joins, i + 1); /* and joined */
    }
    assert_int_equal(areas_destroyed, 3);
    spare_cpus = false;
    return 0;
}

static struct remote at(int end, size_t offset)
{
    return (struct remote){&peers[end], SEG_HEAP, offset};
}

static struct staged_mailbox *mailbox(void)
{
    return staged_mailbox(staged_common(&worlds[SERVER]), OWNER);
}

/* ------------------------------------------------------------------------------------ transfers */

static const size_t sizes[] = {1,     63,    64,    65,     100,    16383,
                               16384, 16385, 65537, 200001, 300000, 1100000};

static void puts_of_all_sizes(void **context)
{
    (void)context;
    unsigned char *from = malloc(1100000);
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
        for (int nbi = 0; nbi < 2; nbi++) {
            size_t n = sizes[k], offset = 4097 + k;
            for (size_t i = 0; i < n; i++)
                from[i] = (unsigned char)(i * 13 + i / 255 + k + (size_t)nbi * 5);
            assert_int_equal(path_staged.put(at(ASKER, offset), from, n, nbi), WEFT_OK);
            assert_int_equal(path_staged.quiet(states[ASKER]), WEFT_OK);
            assert_int_equal(heap[offset - 1], byte_at(offset - 1));
            assert_memory_equal(heap + offset, from, n);
            assert_int_equal(heap[offset + n], byte_at(offset + n));
            for (size_t i = 0; i < n; i++)
                heap[offset + i] = byte_at(offset + i);
        }
    free(from);
}

static void gets_of_all_sizes(void **context)
{
    (void)context;
    unsigned char *to = malloc(1100002);
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
        for (int nbi = 0; nbi < 2; nbi++) {
            size_t n = sizes[k], offset = 8191 + k;
            memset(to, 0xa5, 1100002);
            assert_int_equal(path_staged.get(at(ASKER, offset), to + 1, n, nbi), WEFT_OK);
            if (nbi)
                assert_int_equal(path_staged.quiet(states[ASKER]), WEFT_OK);
            assert_int_equal(to[0], 0xa5);
            assert_memory_equal(to + 1, heap + offset, n);
            assert_int_equal(to[n + 1], 0xa5);
        }
    free(to);
}

/* A chunk is a quarter of the transfer, in whole pages, between a minimum and a maximum. */
static void chunks(void **context)
{
    (void)context;
    const struct {
        size_t bytes, host, gpu;
    } rows[] = {{0, 16384, 131072},        {65536, 16384, 131072},   {65540, 20480, 131072},
                {81920, 20480, 131072},    {262144, 65536, 131072},  {262148, 65536, 131072},
                {524288, 65536, 131072},   {524292, 65536, 135168},  {4194304, 65536, 1048576},
                {4194308, 65536, 1048576}, {1 << 30, 65536, 1048576}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(staged_chunk_bytes(&worlds[0], heap, SEG_HEAP, rows[i].bytes),
                         rows[i].host);
        assert_int_equal(staged_chunk_bytes(&worlds[0], heap, SEG_GPU, rows[i].bytes), rows[i].gpu);
    }
}

/* A blocking put returns when its source may be reused, before the owner has executed it. */
static void what_is_waited_for(void **context)
{
    (void)context;
    unsigned char bytes[100];
    memset(bytes, 0x42, sizeof bytes);
    assert_int_equal(path_staged.put(at(ASKER, 5), bytes, sizeof bytes, false), WEFT_OK);
    assert_int_equal(steps, 0);
    assert_int_equal(heap[5], byte_at(5));
    assert_int_equal(channels[ASKER]->published, 1);
    assert_int_equal(path_staged.get(at(ASKER, 5), bytes + 1, 1, true), WEFT_OK);
    assert_int_equal(steps, 0);
    assert_int_equal(path_staged.get(at(ASKER, 6), bytes + 2, 1, false), WEFT_OK);
    assert_int_equal(steps, 1);
    assert_int_equal(waited.operation, BOX_OP_GET);
    assert_int_equal(waited.pe, local_pes[OWNER]);
    assert_int_equal(waited.expected, 3);
    assert_int_equal(channels[ASKER]->retired, 3);
    assert_int_equal(heap[104], 0x42);
    assert_true(ends > 0);
    assert_int_equal(path_staged.quiet(states[ASKER]), WEFT_OK); /* nothing is pending */
    assert_int_equal(steps, 1);
    path_staged.put(at(ASKER, 5), bytes, 1, true);
    assert_int_equal(path_staged.quiet(states[ASKER]), WEFT_OK);
    assert_int_equal(steps, 2);
    assert_int_equal(waited.operation, BOX_OP_QUIET);
    path_staged.put(at(ASKER, 5), bytes, 1, true);
    run_owner(SERVER);
    assert_int_equal(channels[ASKER]->retired, 4);
    pthread_mutex_lock(&channels[ASKER]->lock);
    /* The lock is held: another thread advances the channel. */
    path_staged.progress(states[ASKER]);
    assert_int_equal(channels[ASKER]->retired, 4);
    pthread_mutex_unlock(&channels[ASKER]->lock);
    path_staged.progress(states[ASKER]);
    assert_int_equal(channels[ASKER]->retired, 5);
    assert_int_equal(pthread_mutex_trylock(&channels[ASKER]->lock), 0);
    pthread_mutex_unlock(&channels[ASKER]->lock);
    /* Requests of one context do not count for another. */
    struct path_state *another;
    path_staged.open(&worlds[ASKER], &another);
    path_staged.put(at(ASKER, 5), bytes, 1, true);
    run_owner(SERVER);
    path_staged.progress(another);
    assert_int_equal(channels[ASKER]->retired, 5);
    assert_int_equal(path_staged.quiet(another), WEFT_OK);
    assert_int_equal(steps, 2);
    path_staged.close(another);
}

static void single_accesses(void **context)
{
    (void)context;
    uint64_t value = UINT64_C(0x1122334455667788), back = 0;
    assert_int_equal(path_staged.store(at(ASKER, 64), &value, 4), WEFT_OK);
    assert_int_equal(steps, 0);
    assert_int_equal(path_staged.load(at(ASKER, 64), &back, 4), WEFT_OK);
    assert_int_equal(steps, 1);
    assert_int_equal(back, 0x55667788);
    assert_int_equal(heap[68], byte_at(68));
    path_staged.store(at(ASKER, 64), &value, 8);
    assert_int_equal(path_staged.atomic(at(ASKER, 64), WEFT_AMO_ADD, 8, 5, 0, &back, false),
                     WEFT_OK);
    assert_int_equal(back, value);
    assert_int_equal(steps, 2);
    assert_int_equal(path_staged.atomic(at(ASKER, 64), WEFT_AMO_ADD, 8, 5, 0, &back, true),
                     WEFT_OK);
    assert_int_equal(path_staged.atomic(at(ASKER, 64), WEFT_AMO_ADD, 8, 7, 0, NULL, false),
                     WEFT_OK);
    assert_int_equal(steps, 2); /* neither call waits for the result */
    assert_int_equal(path_staged.quiet(states[ASKER]), WEFT_OK);
    assert_int_equal(back, value + 5);
    assert_int_equal(
        path_staged.atomic(at(ASKER, 64), WEFT_AMO_CSWAP, 8, 1, value + 17, &back, false), WEFT_OK);
    assert_int_equal(back, value + 17);
    assert_int_equal(path_staged.atomic(at(ASKER, 64), WEFT_AMO_FETCH, 8, 0, 0, &back, false),
                     WEFT_OK);
    assert_int_equal(back, 1);
    assert_int_equal(path_staged.atomic(at(ASKER, 64), WEFT_AMO_SET, 8, 99, 0, NULL, false),
                     WEFT_OK);
    assert_int_equal(path_staged.load(at(ASKER, 64), &back, 8), WEFT_OK);
    assert_int_equal(back, 99);
}

static void signals_come_with_the_last_chunk(void **context)
{
    (void)context;
    unsigned char *from = calloc(1, 100000);
    memset(from, 0x31, 100000);
    memset(heap + 128, 0, 16);
    assert_int_equal(path_staged.put_signal(at(ASKER, 5000), from, 100000, at(ASKER, 128), 7,
                                            WEFT_SIGNAL_SET, true),
                     WEFT_OK);
    assert_int_equal(channels[ASKER]->begun, 4);
    assert_int_equal(path_staged.put_signal(at(ASKER, 200000), from, 10, at(ASKER, 128), 3,
                                            WEFT_SIGNAL_ADD, false),
                     WEFT_OK);
    assert_int_equal(heap[128], 0);
    assert_int_equal(path_staged.quiet(states[ASKER]), WEFT_OK);
    assert_int_equal(heap[128], 10);
    assert_int_equal(heap[136], 0);
    assert_memory_equal(heap + 5000, from, 100000);
    assert_memory_equal(heap + 200000, from, 10);
    assert_int_equal(heap[200010], byte_at(200010));
    free(from);
}

static void strided_gets(void **context)
{
    (void)context;
    unsigned char to[40];
    memset(to, 0xa5, sizeof to);
    const struct path_strides strides = {
        .remote_step = 1000, .local_step = 8, .element = 3, .n = 5};
    assert_int_equal(path_staged.iget(at(ASKER, 77), to, &strides), WEFT_OK);
    for (size_t i = 0; i < sizeof to; i++)
        assert_int_equal(to[i], i % 8 < 3 ? byte_at(77 + i / 8 * 1000 + i % 8) : 0xa5);
    assert_int_equal(steps, 1);
}

/* ---------------------------------------------------------------------------- slots and buffers */

static void slots_run_out(void **context)
{
    (void)context;
    uint64_t one = 1;
    for (int i = 0; i < STAGED_SLOTS; i++)
        assert_int_equal(path_staged.atomic(at(ASKER, 64), WEFT_AMO_ADD, 8, one, 0, NULL, true),
                         WEFT_OK);
    assert_int_equal(steps, 0);
    assert_int_equal(path_staged.atomic(at(ASKER, 64), WEFT_AMO_ADD, 8, one, 0, NULL, true),
                     WEFT_OK);
    assert_int_equal(steps, 1);
    assert_int_equal(waited.operation, BOX_OP_ATOMIC);
    assert_int_equal(waited.expected, 1);
    assert_int_equal(channels[ASKER]->retired, STAGED_SLOTS);
}

/* The buffer has 512 KiB. Data that does not fit at its end goes to its front when that is free. */
static void buffers_run_out(void **context)
{
    (void)context;
    static unsigned char bytes[16384];
    for (int i = 0; i < 32; i++)
        assert_int_equal(path_staged.put(at(ASKER, 16384 * (size_t)i), bytes, 16384, true),
                         WEFT_OK);
    assert_int_equal(steps, 0);
    assert_int_equal(channels[ASKER]->buffers[STAGED_HOST_BUFFER].head, STAGED_HOST_BYTES);
    assert_int_equal(path_staged.put(at(ASKER, 0), bytes, 64, true),
                     WEFT_OK); /* uses no buffer space */
    assert_int_equal(steps, 0);
    assert_int_equal(path_staged.put(at(ASKER, 0), bytes, 65, true), WEFT_OK);
    assert_int_equal(steps, 1);
    assert_int_equal(waited.expected, 1);
    assert_int_equal(channels[ASKER]->buffers[STAGED_HOST_BUFFER].head, 65);
    assert_int_equal(channels[ASKER]->buffers[STAGED_HOST_BUFFER].tail, 0);
    assert_int_equal(path_staged.quiet(states[ASKER]), WEFT_OK);
    for (int i = 0; i < 30; i++) /* up to 500 KB, then beyond the end */
        path_staged.put(at(ASKER, 0), bytes, 16384, true);
    run_owner(SERVER);
    staged_advance(channels[ASKER]);
    assert_int_equal(channels[ASKER]->buffers[STAGED_HOST_BUFFER].tail, 30 * 16384);
    path_staged.put(at(ASKER, 0), bytes, 10000, true);
    path_staged.put(at(ASKER, 0), bytes, 6385, true);
    assert_int_equal(channels[ASKER]->buffers[STAGED_HOST_BUFFER].head, 16385);
    assert_int_equal(path_staged.quiet(states[ASKER]), WEFT_OK);
}

/* Slots with values that a requester of this version never writes are rejected. */
static void slots_that_say_what_cannot_be(void **context)
{
    (void)context;
    const struct {
        uint32_t room, at;
        uint64_t bytes;
        bool taken;
    } rows[] = {{STAGED_HOST_BUFFER, 0, STAGED_HOST_BYTES, true},
                {STAGED_HOST_BUFFER, 1, STAGED_HOST_BYTES, false},
                {STAGED_HOST_BUFFER, STAGED_HOST_BYTES - 65, 65, true},
                {STAGED_HOST_BUFFER, STAGED_HOST_BYTES - 64, 65, false},
                {STAGED_HOST_BUFFER, STAGED_HOST_BYTES + 1, 65, false},
                {STAGED_BUFFERS, 0, 65, false},
                {STAGED_BUFFERS, 0, 64, true},
                {STAGED_GPU_BUFFER, STAGED_GPU_BYTES - 65, 65, true},
                {STAGED_GPU_BUFFER, STAGED_GPU_BYTES - 64, 65, false},
                {STAGED_HOST_BUFFER, 0, UINT64_MAX, false}};
    struct staged_ring *ring = &mailbox()->channels[LAST].ring;
    mailbox()->senders[LAST / 32] |= 1u << LAST % 32;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct staged_slot *slot = &ring->slots[i];
        ring->failed = 0;
        slot->request = (struct serve_request){
            .operation = SERVE_PUT, .segment = SEG_HEAP, .bytes = rows[i].bytes};
        slot->buffer = rows[i].room;
        slot->offset = rows[i].at;
        slot->sequence = i + 1;
        run_owner(SERVER);
        assert_int_equal(ring->done, i + 1);
        if (!ring->failed != rows[i].taken)
            fail_msg("row %zu", i);
    }
}

/* ------------------------------------------------------------------------------------- failures */

static void the_owner_refuses(void **context)
{
    (void)context;
    uint64_t value = 1;
    assert_int_equal(path_staged.put(at(ASKER, HEAP_BYTES - 7), &value, 8, true), WEFT_OK);
    assert_int_equal(path_staged.put(at(ASKER, 8), &value, 8, true),
                     WEFT_OK); /* the first failure does not stop this one */
    weft_status status = path_staged.quiet(states[ASKER]);
    assert_int_equal(status, WEFT_ERR_ADDRESS);
    assert_int_equal(heap[8], 1);
    char sentence[256];
    strcpy(sentence, base_last_error());
    assert_memory_equal(sentence, "path staged to PE 3: ", 21);
    assert_true(strlen(sentence) > 21);
    assert_int_equal(channels[ASKER]->broken, WEFT_ERR_ADDRESS);
    steps = 0;
    assert_int_equal(path_staged.put(at(ASKER, 8), &value, 8, true), WEFT_ERR_ADDRESS);
    assert_string_equal(base_last_error(), sentence);
    assert_int_equal(path_staged.load(at(ASKER, 8), &value, 8), WEFT_ERR_ADDRESS);
    static unsigned char many[100000];
    const struct path_strides strides = {.remote_step = 8, .local_step = 8, .element = 8, .n = 2};
    assert_int_equal(path_staged.put(at(ASKER, 8), many, sizeof many, false), WEFT_ERR_ADDRESS);
    assert_int_equal(path_staged.get(at(ASKER, 8), many, sizeof many, false), WEFT_ERR_ADDRESS);
    assert_int_equal(path_staged.iget(at(ASKER, 8), many, &strides), WEFT_ERR_ADDRESS);
    assert_int_equal(staged_await_published(channels[ASKER], BOX_OP_PUT, 0), WEFT_ERR_ADDRESS);
    assert_int_equal(steps, 0);
    assert_int_equal(path_staged.put(at(OTHER, 8), &value, 8, true), WEFT_OK);
    assert_int_equal(path_staged.quiet(states[OTHER]), WEFT_OK);
}

/* The first failure is the one that is reported. */
static void the_first_failure_is_reported(void **context)
{
    (void)context;
    uint64_t value = 1;
    path_staged.put(at(ASKER, HEAP_BYTES), &value, 8, true);
    path_staged.atomic(at(ASKER, 8), (weft_amo)99, 8, 1, 0, NULL, true);
    run_owner(SERVER);
    assert_int_equal(mailbox()->channels[LAST].ring.failed, WEFT_ERR_ADDRESS);
    assert_int_equal(mailbox()->channels[LAST].ring.done, 2);
}

static void counts_that_cannot_be(void **context)
{
    (void)context;
    uint64_t value = 1;
    path_staged.put(at(ASKER, 8), &value, 8, true);
    channels[ASKER]->ring->done = 2;
    assert_int_equal(path_staged.quiet(states[ASKER]), WEFT_ERR_PATH);
    assert_string_equal(base_last_error(),
                        "path staged to PE 3: the counts in shared memory are inconsistent");
}

static void a_wait_fails(void **context)
{
    (void)context;
    uint64_t value = 1;
    path_staged.put(at(ASKER, 8), &value, 8, true);
    step_fails = WEFT_ERR_TIMEOUT;
    assert_int_equal(path_staged.quiet(states[ASKER]), WEFT_ERR_TIMEOUT);
    assert_string_equal(base_last_error(), "path staged to PE 3: it takes too long");
    assert_int_equal(steps, 1);
    int before = ends;
    step_fails = WEFT_OK;
    assert_int_equal(path_staged.quiet(states[ASKER]), WEFT_ERR_TIMEOUT); /* permanent */
    assert_int_equal(steps, 1);
    assert_int_equal(ends, before + 1);
}

/* ---------------------------------------------------------------------------------------- order */

/* The owner executes sixteen requests of one requester, then of the other. */
static void askers_take_turns(void **context)
{
    (void)context;
    uint64_t found[2][20];
    memset(heap + 64, 0, 8);
    for (int i = 0; i < 20; i++)
        for (int k = 0; k < 2; k++)
            path_staged.atomic(at(k, 64), WEFT_AMO_ADD, 8, 1, 0, &found[k][i], true);
    assert_int_equal(path_staged.quiet(states[ASKER]), WEFT_OK);
    assert_int_equal(path_staged.quiet(states[OTHER]), WEFT_OK);
    for (uint64_t i = 0; i < 20; i++) {
        assert_int_equal(found[OTHER][i], i < 16 ? i : i + 16);
        assert_int_equal(found[ASKER][i], i < 16 ? i + 16 : i + 20);
    }
}

/* Requests to and from PE 0 of the node. */
static void the_first_pe(void **context)
{
    (void)context;
    uint64_t value = 0x55, back = 0;
    struct peer first = peers[ASKER];
    struct path_choice choices[PES];
    memset(choices, 0, sizeof choices);
    first.pe = local_pes[FIRST];
    path_staged.put((struct remote){&first, SEG_HEAP, 8}, &value, 8, true);
    step_fails = WEFT_ERR_TIMEOUT;
    worlds[ASKER].choices[0] = choices;
    for (int pe = 0; pe < PES; pe++)
        choices[pe].path = PATH_P2P;
    run_owner(OTHER);
    path_staged.progress(states[ASKER]);
    assert_int_equal(heap[8], 0x55);
    assert_int_equal(path_staged.quiet(states[ASKER]), WEFT_OK);
    path_staged.get((struct remote){&first, SEG_HEAP, 8}, &back, 8, true);
    assert_int_equal(path_staged.fence(states[ASKER]), WEFT_ERR_TIMEOUT);
    struct staged_channel *channel = &staged_common(&worlds[ASKER])->channels[FIRST];
    channel->broken = WEFT_OK;
    assert_int_equal(path_staged.quiet(states[ASKER]), WEFT_ERR_TIMEOUT);
    worlds[ASKER].choices[0] = NULL;
}

/* A fence waits if memory of the PE, of any kind, is also reached by another path. */
static void fences(void **context)
{
    (void)context;
    struct path_choice choices[MEMORY_KINDS][PES];
    memset(choices, 0, sizeof choices);
    uint64_t value = 1;
    const struct {
        enum path_id paths[MEMORY_KINDS];
        int waits;
    } rows[] = {{{PATH_STAGED, PATH_STAGED}, 0}, {{PATH_STAGED, PATH_NONE}, 0},
                {{PATH_NONE, PATH_STAGED}, 0},   {{PATH_P2P, PATH_STAGED}, 1},
                {{PATH_STAGED, PATH_RELAY}, 1},  {{PATH_SELF, PATH_SELF}, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int kind = 0; kind < MEMORY_KINDS; kind++) {
            for (int pe = 0; pe < PES; pe++)
                choices[kind][pe].path = PATH_P2P;
            choices[kind][local_pes[OWNER]].path = rows[i].paths[kind];
            worlds[ASKER].choices[kind] = choices[kind];
        }
        path_staged.put(at(ASKER, 8), &value, 8, true);
        steps = 0;
        assert_int_equal(path_staged.fence(states[ASKER]), WEFT_OK);
        assert_int_equal(steps, rows[i].waits);
        if (steps)
            assert_int_equal(waited.operation, BOX_OP_FENCE);
        assert_int_equal(path_staged.quiet(states[ASKER]), WEFT_OK);
    }
    worlds[ASKER].choices[0] = NULL;
    choices[1][local_pes[OWNER]].path = PATH_STAGED;
    path_staged.put(at(ASKER, 8), &value, 8, true);
    steps = 0;
    path_staged.fence(states[ASKER]);
    assert_int_equal(steps, 0);
    /* A failed wait is reported, and the wait is ended. */
    worlds[ASKER].choices[1] = NULL;
    worlds[ASKER].choices[0] = choices[0];
    choices[0][local_pes[OWNER]].path = PATH_P2P;
    struct peer last = peers[ASKER];
    last.pe = local_pes[LAST];
    path_staged.put((struct remote){&last, SEG_HEAP, 8}, &value, 8, true);
    step_fails = WEFT_ERR_TIMEOUT;
    assert_int_equal(path_staged.fence(states[ASKER]), WEFT_ERR_TIMEOUT);
    assert_int_equal(steps, 1);
    assert_int_equal(path_staged.quiet(states[ASKER]), WEFT_ERR_TIMEOUT);
    assert_int_equal(steps, 1);
}

static void the_channel_of_each_pe(void **context)
{
    (void)context;
    uint64_t value = 1;
    for (int slot = 0; slot < LOCALS; slot++) {
        struct peer peer = peers[ASKER];
        peer.pe = local_pes[slot];
        struct staged_channel *channel = &staged_common(&worlds[ASKER])->channels[slot];
        path_staged.put((struct remote){&peer, SEG_HEAP, 8}, &value, 8, true);
        assert_int_equal(channel->begun, 1);
        assert_int_equal(channel->slot, slot);
        assert_int_equal(channel->pe, local_pes[slot]);
        const struct staged_mailbox *there = staged_mailbox(staged_common(&worlds[ASKER]), slot);
        assert_int_equal(there->senders[0], 0);
        assert_int_equal(there->senders[1], 1u << (LAST - 32));
        assert_ptr_equal(channel->ring, &there->channels[LAST].ring);
        assert_int_equal(channel->buffers[STAGED_HOST_BUFFER].bytes, STAGED_HOST_BYTES);
        assert_int_equal(channel->buffers[STAGED_GPU_BUFFER].bytes, STAGED_GPU_BYTES);
    }
}

/* -------------------------------------------------------------------------- sleeping and waking */

static void a_sleeper_is_woken_once(void **context)
{
    (void)context;
    uint64_t value = 1;
    path_staged.put(at(ASKER, 8), &value, 8, true);
    assert_int_equal(wakes, 0);
    run_owner(SERVER);
    assert_int_equal(sleeps, 1);
    assert_ptr_equal(last_word, &mailbox()->asleep);
    assert_int_equal(mailbox()->asleep, 1);
    path_staged.put(at(ASKER, 8), &value, 8, true);
    assert_int_equal(wakes, 1);
    assert_int_equal(mailbox()->asleep, 0);
    path_staged.put(at(ASKER, 8), &value, 8, true);
    assert_int_equal(wakes, 1);
}

/* Without spare CPUs, the owner yields a few times before it sleeps, and does not read the
 * clock. */
static void turns_before_sleep(void **context)
{
    (void)context;
    run_owner(SERVER);
    assert_int_equal(sleeps, 1);
    assert_int_equal(yields, 4);
    assert_int_equal(clock_looks, 0);
}

/* With spare CPUs, the owner polls for 50 us after the last request. */
static void polls_before_sleep(void **context)
{
    (void)context;
    run_owner(SERVER);
    assert_int_equal(yields, 0);
    assert_int_equal(clock_looks, 6);
}

static int hook_at;
static uint64_t hook_value = 0x77;

static void ask_just_before_sleep(void)
{
    if (clock_looks == hook_at)
        path_staged.put(at(OTHER, 8), &hook_value, 8, true);
}

/* A request that is published just after the last poll is still served. */
static void what_comes_just_before_sleep_is_served(void **context)
{
    (void)context;
    uint64_t value = 1;
    path_staged.put(at(ASKER, 16), &value, 8, true);
    hook_at = 6;
    at_clock = ask_just_before_sleep;
    run_owner(SERVER);
    assert_int_equal(heap[8], 0x77);
    assert_int_equal(mailbox()->channels[FIRST].ring.done, 1);
    assert_int_equal(sleeps, 1);
    assert_int_equal(clock_looks, 12); /* the idle time starts again */
}

static void need_polling_just_before_sleep(void)
{
    if (clock_looks == hook_at)
        staged_common(&worlds[SERVER])->channels[FIRST].needs_polling = true;
}

static void a_channel_that_is_left_alone_keeps_it_awake(void **context)
{
    (void)context;
    struct staged_channel *own = &staged_common(&worlds[SERVER])->channels[FIRST];
    hook_at = 6;
    at_clock = need_polling_just_before_sleep;
    run_owner(SERVER);
    assert_false(own->needs_polling);
    assert_int_equal(sleeps, 1);
    assert_int_equal(clock_looks, 12);
}

static struct staged_channel *locked;
static void unlock_at_third(void)
{
    if (yields == 3) {
        assert_true(locked->needs_polling);
        pthread_mutex_unlock(&locked->lock);
    }
}

/* A channel whose lock is held keeps its flag needs_polling until the lock is free. */
static void a_locked_channel_still_needs_polling(void **context)
{
    (void)context;
    locked = &staged_common(&worlds[SERVER])->channels[LAST];
    locked->needs_polling = true;
    pthread_mutex_lock(&locked->lock);
    at_yield = unlock_at_third;
    run_owner(SERVER);
    assert_false(locked->needs_polling);
    assert_int_equal(yields, 4 + 4);
    assert_int_equal(pthread_mutex_trylock(&locked->lock), 0);
    pthread_mutex_unlock(&locked->lock);
}

static void only_what_is_not_published_is_left_alone(void **context)
{
    (void)context;
    struct staged_channel *channel = channels[ASKER];
    staged_mailbox(staged_common(&worlds[ASKER]), LAST)->asleep = 1;
    staged_hand_to_thread(channel);
    assert_false(channel->needs_polling);
    channel->begun++;
    channel->broken = WEFT_ERR_PATH;
    staged_hand_to_thread(channel);
    assert_false(channel->needs_polling);
    channel->broken = WEFT_OK;
    staged_hand_to_thread(channel);
    assert_true(channel->needs_polling);
    assert_int_equal(wakes, 1);
    assert_ptr_equal(last_word, &staged_mailbox(staged_common(&worlds[ASKER]), LAST)->asleep);
    channel->begun--;
}

/* PEs that are threads share one mapping, and the last of them unmaps it. */
static void threads_share_the_area(void **context)
{
    (void)context;
    void *slot;
    for (int i = 0; i < 3; i++)
        boots[i].shared_slot = &slot;
    for (int i = 0; i < 2; i++)
        path_staged.close(states[i]);
    size_t bytes = staged_common(&worlds[0])->area.stride * LOCALS;
    unsigned char there;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mincore(area, 4096, &there), 0);
        path_staged.leave(worlds[i].common[PATH_STAGED]);
    }
    assert_int_equal(unmapped, 3);
    assert_int_not_equal(mincore(area, 4096, &there), 0);
    assert_int_not_equal(mincore(area + bytes - 4096, 4096, &there), 0);
    area = NULL;
}

static void too_many_pes(void **context)
{
    (void)context;
    struct boot boot = boots[0];
    struct path_world world = worlds[0];
    boot.local_npes = STAGED_MOST_PES + 1;
    world.boot = &boot;
    assert_int_equal(path_staged.join(&world, &world.common[PATH_STAGED]), WEFT_ERR_UNSUPPORTED);
    path_staged.leave(world.common[PATH_STAGED]);
    areas_destroyed = 0;
}

int main(void)
{
#define CASE(name)  cmocka_unit_test_setup_teardown(name, open_ends, shut_ends)
#define SPARE(name) cmocka_unit_test_setup_teardown(name, open_spare, shut_ends)
    const struct CMUnitTest tests[] = {
        CASE(puts_of_all_sizes),
        CASE(gets_of_all_sizes),
        CASE(chunks),
        CASE(what_is_waited_for),
        CASE(single_accesses),
        CASE(signals_come_with_the_last_chunk),
        CASE(strided_gets),
        CASE(slots_run_out),
        CASE(buffers_run_out),
        CASE(slots_that_say_what_cannot_be),
        CASE(the_owner_refuses),
        CASE(the_first_failure_is_reported),
        CASE(counts_that_cannot_be),
        CASE(a_wait_fails),
        CASE(askers_take_turns),
        CASE(the_first_pe),
        CASE(fences),
        CASE(the_channel_of_each_pe),
        CASE(a_sleeper_is_woken_once),
        CASE(turns_before_sleep),
        SPARE(polls_before_sleep),
        SPARE(what_comes_just_before_sleep_is_served),
        SPARE(a_channel_that_is_left_alone_keeps_it_awake),
        CASE(a_locked_channel_still_needs_polling),
        CASE(only_what_is_not_published_is_left_alone),
        cmocka_unit_test_setup(threads_share_the_area, open_ends),
        CASE(too_many_pes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
