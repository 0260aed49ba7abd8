/* SPDX-License-Identifier: Apache-2.0 */
/* The requester's end of path staged if one side is GPU memory: what is copied where, when a
 * request is published and its result is copied back, and which failure ends the channel. The GPU's
 * copies are recorded, and the test plays the owner. */
#include "path/staged/staged.h"

#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { ME = 2, LOCALS = 4, PE = 9, LARGE = 5000 };

static char gpu_here; /* its address identifies the GPU */
static _Alignas(8) unsigned char host[LARGE + 64], device[LARGE + 64];
static struct staged_mailbox *mailbox;
static struct path_world world;
static struct staged_common common;
static struct staged_channel channel;

/* ---------------------------------------------------------------------------------------- fakes */

static struct {
    struct {
        unsigned lane;
        const void *to, *from;
        size_t bytes;
    } copies[8];
    int copy_count, marks, loads, stores, pins, wakes;
    struct gpu_word words[GPU_MOST_WORDS];
    int word_count;
    bool passed, no_event; /* no_event: stores are complete at once */
    weft_status copy, mark, pass, load, store;
} g;

enum gpu_place __wrap_gpu_place_of(struct gpu *gpu, const void *at);
enum gpu_place __wrap_gpu_place_of(struct gpu *gpu, const void *at)
{
    assert_ptr_equal(gpu, &gpu_here);
    const unsigned char *byte = at;
    return byte >= device && byte < device + sizeof device ? GPU_PLACE_DEVICE : GPU_PLACE_PINNED;
}

static weft_status failing(weft_status status, const char *text)
{
    return status ? base_fail(status, "%s", text) : WEFT_OK;
}

weft_status __wrap_gpu_copy(struct gpu *gpu, unsigned lane, void *to, const void *from,
                            size_t bytes, enum gpu_copy_mode manner);
weft_status __wrap_gpu_copy(struct gpu *gpu, unsigned lane, void *to, const void *from,
                            size_t bytes, enum gpu_copy_mode manner)
{
    assert_ptr_equal(gpu, &gpu_here);
    assert_int_equal(manner, GPU_IN_ORDER);
    assert_true(g.copy_count < 8);
    g.copies[g.copy_count].lane = lane;
    g.copies[g.copy_count].to = to;
    g.copies[g.copy_count].from = from;
    g.copies[g.copy_count++].bytes = bytes;
    return failing(g.copy, "no copy");
}

weft_status __wrap_gpu_event_record(struct gpu *gpu, unsigned lane, struct gpu_event **mark);
weft_status __wrap_gpu_event_record(struct gpu *gpu, unsigned lane, struct gpu_event **mark)
{
    assert_ptr_equal(gpu, &gpu_here);
    assert_int_equal(lane, g.copies[g.copy_count - 1].lane);
    assert_null(*mark);
    g.marks++;
    if (!g.mark)
        *mark = (struct gpu_event *)&gpu_here;
    return failing(g.mark, "no mark");
}

weft_status __wrap_gpu_event_query(struct gpu *gpu, struct gpu_event **mark);
weft_status __wrap_gpu_event_query(struct gpu *gpu, struct gpu_event **mark)
{
    assert_ptr_equal(gpu, &gpu_here);
    assert_non_null(*mark);
    if (g.passed)
        *mark = NULL;
    return failing(g.pass, "the copy has failed");
}

weft_status __wrap_gpu_access(struct gpu *gpu, unsigned lane, CUdeviceptr at, int access,
                              size_t width, uint64_t value, uint64_t expected, uint64_t *found);
weft_status __wrap_gpu_access(struct gpu *gpu, unsigned lane, CUdeviceptr at, int access,
                              size_t width, uint64_t value, uint64_t expected, uint64_t *found)
{
    assert_ptr_equal(gpu, &gpu_here);
    assert_int_equal(lane, 2);
    assert_int_equal(access, GPU_ACCESS_LOAD);
    assert_int_equal(value | expected, 0);
    memcpy(found, (const void *)(uintptr_t)at, width);
    g.loads++;
    return failing(g.load, "no load");
}

weft_status __wrap_gpu_store_recorded(struct gpu *gpu, unsigned lane, const struct gpu_word *words,
                                      int n, struct gpu_event **mark);
weft_status __wrap_gpu_store_recorded(struct gpu *gpu, unsigned lane, const struct gpu_word *words,
                                      int n, struct gpu_event **mark)
{
    assert_ptr_equal(gpu, &gpu_here);
    assert_int_equal(lane, 3);
    g.stores++;
    g.word_count = n;
    memcpy(g.words, words, (size_t)n * sizeof *words);
    if (!g.store && !g.no_event)
        *mark = (struct gpu_event *)&gpu_here;
    return failing(g.store, "no store");
}

bool __wrap_staged_pin_channel(const struct staged_common *of,
                               struct staged_channel_memory *memory);
bool __wrap_staged_pin_channel(const struct staged_common *of, struct staged_channel_memory *memory)
{
    assert_ptr_equal(of, &common);
    assert_ptr_equal(memory, &mailbox->channels[ME]);
    g.pins++;
    return true;
}

void __wrap_staged_wake_owner(struct staged_mailbox *of);
void __wrap_staged_wake_owner(struct staged_mailbox *of)
{
    assert_ptr_equal(of, mailbox);
    g.wakes++;
}

static int steps, ends;
static weft_status step(struct path_wait *wait, uint64_t seen)
{
    assert_int_equal(wait->pe, PE);
    assert_int_equal(seen, channel.published + channel.retired + channel.ring->done);
    steps++;
    if (steps == 2)
        g.passed = true;
    if (steps == 3)
        channel.ring->done = channel.published;
    return steps < 9 ? WEFT_OK : base_fail(WEFT_ERR_TIMEOUT, "too long");
}

static void end(struct path_wait *wait)
{
    (void)wait;
    ends++;
}

/* --------------------------------------------------------------------------------------- set-up */

static size_t mailbox_bytes(void)
{
    return sizeof(struct staged_mailbox) + LOCALS * sizeof(struct staged_channel_memory);
}

static int prepare(void **context)
{
    (void)context;
    memset(&g, 0, sizeof g);
    mailbox = mmap(NULL, mailbox_bytes() + SEGMENT_ALIGN, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(mailbox != MAP_FAILED);
    world = (struct path_world){
        .gpu = (struct gpu *)(void *)&gpu_here, .wait_step = step, .wait_end = end};
    common = (struct staged_common){.world = &world, .local_pe = ME, .local_npes = LOCALS};
    struct staged_channel_memory *memory = &mailbox->channels[ME];
    memset(&channel, 0, sizeof channel);
    channel.common = &common;
    channel.pe = PE;
    channel.mailbox = mailbox;
    channel.ring = &memory->ring;
    channel.buffers[STAGED_HOST_BUFFER] =
        (struct staged_buffer){.memory = memory->host_buffer, .bytes = STAGED_HOST_BYTES};
    channel.buffers[STAGED_GPU_BUFFER] =
        (struct staged_buffer){.memory = memory->gpu_buffer, .bytes = STAGED_GPU_BYTES};
    for (size_t i = 0; i < sizeof host; i++) {
        host[i] = (unsigned char)(i * 3 + 1);
        device[i] = (unsigned char)(i * 5 + 2);
    }
    steps = ends = 0;
    return 0;
}

static int finish(void **context)
{
    (void)context;
    munmap(mailbox, mailbox_bytes() + SEGMENT_ALIGN);
    return 0;
}

static weft_status ask(enum serve_operation operation, enum segment_id segment, size_t bytes,
                       const void *from, void *to, bool urgent)
{
    const struct serve_request request = {.operation = (uint8_t)operation,
                                          .segment = (uint8_t)segment,
                                          .offset = 24,
                                          .bytes = bytes,
                                          .urgent = urgent};
    return staged_send_request(&channel, BOX_OP_PUT, &request, from, to);
}

static struct staged_slot *slot(int number)
{
    return &channel.ring->slots[number - 1];
}

/* The owner has executed all published requests. */
static void owner_does_all(void)
{
    channel.ring->done = channel.published;
}

/* ----------------------------------------------------------------------------------------- puts */

static void a_put_is_published_when_its_copy_is_complete(void **context)
{
    (void)context;
    assert_int_equal(ask(SERVE_PUT, SEG_HEAP, 70, device, NULL, false), WEFT_OK);
    assert_int_equal(g.copy_count, 1);
    assert_int_equal(g.copies[0].lane, 2);
    assert_ptr_equal(g.copies[0].to, mailbox->channels[ME].gpu_buffer);
    assert_ptr_equal(g.copies[0].from, device);
    assert_int_equal(g.copies[0].bytes, 70);
    assert_int_equal(slot(1)->buffer, STAGED_GPU_BUFFER);
    assert_int_equal(channel.begun, 1);
    assert_int_equal(channel.published, 0);
    assert_int_equal(slot(1)->sequence, 0);
    assert_int_equal(g.wakes, 0);
    assert_int_equal(mailbox->senders[0], 1u << ME);
    /* The next request is published after it. */
    assert_int_equal(ask(SERVE_PUT, SEG_HEAP, 66, host, NULL, false), WEFT_OK);
    assert_int_equal(channel.published, 0);
    assert_int_equal(slot(2)->buffer, STAGED_HOST_BUFFER);
    assert_memory_equal(mailbox->channels[ME].host_buffer, host, 66);
    assert_int_equal(staged_advance(&channel), WEFT_OK);
    assert_int_equal(channel.published, 0);
    g.passed = true;
    assert_int_equal(staged_advance(&channel), WEFT_OK);
    assert_int_equal(channel.published, 2);
    assert_int_equal(slot(1)->sequence, 1);
    assert_int_equal(slot(2)->sequence, 2);
    assert_int_equal(g.wakes, 1);
    assert_int_equal(staged_advance(&channel), WEFT_OK);
    assert_int_equal(g.wakes, 1);
    assert_int_equal(channel.buffers[STAGED_GPU_BUFFER].head, 70);
    assert_int_equal(channel.buffers[STAGED_HOST_BUFFER].head, 66);
    owner_does_all();
    assert_int_equal(staged_advance(&channel), WEFT_OK);
    assert_int_equal(channel.retired, 2);
    assert_int_equal(channel.buffers[STAGED_GPU_BUFFER].tail, 70);
    assert_int_equal(channel.buffers[STAGED_HOST_BUFFER].tail, 66);
}

static void buffers_are_chosen_by_the_memory_kind(void **context)
{
    static const struct {
        enum segment_id segment;
        bool from_device, to_device, gpu;
        enum staged_buffer_id room;
        int pins;
    } rows[] = {
        {SEG_HEAP, false, false, true, STAGED_HOST_BUFFER, 0},
        {SEG_HEAP, true, false, true, STAGED_GPU_BUFFER, 1},
        {SEG_HEAP, false, true, true, STAGED_GPU_BUFFER, 1},
        {SEG_GPU, false, false, true, STAGED_GPU_BUFFER, 1},
        {SEG_GPU, false, false, false, STAGED_GPU_BUFFER, 0},
        {SEG_HEAP, false, false, false, STAGED_HOST_BUFFER, 0},
    };
    (void)context;
    for (int i = 0; i < 6; i++) {
        finish(NULL);
        prepare(NULL);
        world.gpu = rows[i].gpu ? (struct gpu *)(void *)&gpu_here : NULL;
        for (int again = 0; again < 2; again++)
            ask(rows[i].to_device ? SERVE_GET : SERVE_PUT, rows[i].segment, 100,
                rows[i].to_device     ? NULL
                : rows[i].from_device ? device
                                      : host,
                rows[i].to_device ? device : NULL, false);
        assert_int_equal(g.pins, rows[i].pins);
        assert_int_equal(slot(1)->buffer, rows[i].room);
        assert_int_equal(slot(2)->offset, 100);
        assert_int_equal(channel.buffers[rows[i].room].head, 200);
        assert_int_equal(g.copy_count, rows[i].from_device ? 2 : 0);
    }
    assert_int_equal(staged_chunk_bytes(&world, device, SEG_HEAP, 1), STAGED_HOST_CHUNK_LEAST);
    world.gpu = (struct gpu *)(void *)&gpu_here;
    assert_int_equal(staged_chunk_bytes(&world, device, SEG_HEAP, 1), STAGED_GPU_CHUNK_LEAST);
    assert_int_equal(staged_chunk_bytes(&world, host, SEG_HEAP, 1), STAGED_HOST_CHUNK_LEAST);
    assert_int_equal(staged_chunk_bytes(&world, NULL, SEG_HEAP, 1), STAGED_HOST_CHUNK_LEAST);
}

static void a_single_word_is_loaded(void **context)
{
    static const struct {
        size_t offset, bytes;
        bool urgent, others, loaded;
    } rows[] = {
        {0, 8, false, false, true}, {0, 8, false, true, false}, {0, 8, true, true, true},
        {0, 9, true, false, false}, {4, 4, false, false, true}, {4, 5, false, false, false},
        {7, 1, false, false, true}, {0, 0, true, false, false},
    };
    (void)context;
    for (int i = 0; i < 8; i++) {
        finish(NULL);
        prepare(NULL);
        if (rows[i].others)
            ask(SERVE_PUT, SEG_HEAP, 8, host, NULL, false);
        assert_int_equal(
            ask(SERVE_PUT, SEG_HEAP, rows[i].bytes, device + rows[i].offset, NULL, rows[i].urgent),
            WEFT_OK);
        struct staged_slot *in = slot(1 + rows[i].others);
        assert_int_equal(g.loads, rows[i].loaded);
        assert_int_equal(g.copy_count, !rows[i].loaded && rows[i].bytes);
        if (rows[i].loaded)
            assert_memory_equal(in->data, device + rows[i].offset, rows[i].bytes);
        else if (rows[i].bytes)
            assert_ptr_equal(g.copies[0].to, in->data);
        assert_int_equal(in->data[rows[i].bytes], 0);
    }
}

/* ----------------------------------------------------------------------------------------- gets */

static void an_answer_is_copied_to_the_gpu(void **context)
{
    (void)context;
    assert_int_equal(ask(SERVE_GET, SEG_HEAP, LARGE, NULL, device, false), WEFT_OK);
    assert_int_equal(ask(SERVE_GET, SEG_HEAP, 50, NULL, host, false), WEFT_OK);
    assert_int_equal(channel.published, 2);
    assert_int_equal(g.copy_count, 0);
    memset(slot(2)->data, 0x77, 50);
    owner_does_all();
    assert_int_equal(staged_advance(&channel), WEFT_OK);
    assert_int_equal(channel.copied_out, 2);
    assert_int_equal(g.copy_count, 1);
    assert_int_equal(g.copies[0].lane, 3);
    assert_ptr_equal(g.copies[0].to, device);
    assert_ptr_equal(g.copies[0].from, mailbox->channels[ME].gpu_buffer);
    assert_int_equal(g.copies[0].bytes, LARGE);
    assert_int_equal(host[49], 0x77);
    assert_int_equal(host[50], (unsigned char)(50 * 3 + 1));
    assert_int_equal(channel.retired, 0);
    assert_int_equal(channel.buffers[STAGED_GPU_BUFFER].tail, 0);
    g.passed = true;
    assert_int_equal(staged_advance(&channel), WEFT_OK);
    assert_int_equal(channel.retired, 2);
    assert_int_equal(channel.buffers[STAGED_GPU_BUFFER].tail, LARGE);
    assert_int_equal(g.copy_count, 1);
}

static void words_of_an_answer_are_stored(void **context)
{
    (void)context;
    assert_int_equal(ask(SERVE_GET, SEG_HEAP, 16, NULL, device + 8, false), WEFT_OK);
    memcpy(slot(1)->data, host, 16);
    owner_does_all();
    assert_int_equal(staged_advance(&channel), WEFT_OK);
    assert_int_equal(g.stores, 1);
    assert_int_equal(g.word_count, 2);
    assert_int_equal(g.words[0].at, (uintptr_t)device + 8);
    assert_int_equal(g.copy_count, 0);
    assert_int_equal(channel.retired, 0);
    g.passed = true;
    assert_int_equal(staged_advance(&channel), WEFT_OK);
    assert_int_equal(channel.retired, 1);
    /* A copy is used if recorded stores are unavailable, or if the destination is not aligned to
     * words. */
    g.no_event = true;
    assert_int_equal(ask(SERVE_GET, SEG_HEAP, 16, NULL, device + 8, false), WEFT_OK);
    assert_int_equal(ask(SERVE_GET, SEG_HEAP, 16, NULL, device + 9, false), WEFT_OK);
    owner_does_all();
    assert_int_equal(staged_advance(&channel), WEFT_OK);
    assert_int_equal(g.stores, 2);
    assert_int_equal(g.copy_count, 2);
    assert_ptr_equal(g.copies[0].from, slot(2)->data);
    assert_ptr_equal(g.copies[1].to, device + 9);
}

static void an_atomic_brings_what_it_found(void **context)
{
    uint64_t found = 0;
    (void)context;
    assert_int_equal(ask(SERVE_ATOMIC, SEG_GPU, 8, NULL, &found, false), WEFT_OK);
    assert_int_equal(channel.buffers[STAGED_GPU_BUFFER].head, 0);
    memset(slot(1)->data, 0x12, 8);
    owner_does_all();
    assert_int_equal(staged_advance(&channel), WEFT_OK);
    assert_int_equal(found, 0x1212121212121212);
}

/* ------------------------------------------------------------------------------ waits, failures */

static void waits_go_on_while_the_gpu_copies(void **context)
{
    (void)context;
    ask(SERVE_PUT, SEG_HEAP, LARGE, device, NULL, false);
    assert_int_equal(staged_await_published(&channel, BOX_OP_PUT, 1), WEFT_OK);
    assert_int_equal(steps, 2);
    assert_int_equal(ends, 1);
    assert_int_equal(staged_await_published(&channel, BOX_OP_PUT, 1), WEFT_OK);
    assert_int_equal(ends, 1);
    assert_int_equal(staged_await_retired(&channel, BOX_OP_QUIET, 1), WEFT_OK);
    assert_int_equal(steps, 3);
    assert_int_equal(ends, 2);
}

static void a_failure_of_the_gpu_ends_the_channel(void **context)
{
    static const char *const texts[] = {
        "no copy", "no mark", "the copy has failed", "no load", "no store",
        "no copy", "no mark", "the copy has failed"};
    (void)context;
    for (int i = 0; i < 8; i++) {
        bool get = i >= 4;
        finish(NULL);
        prepare(NULL);
        weft_status status = WEFT_OK;
        if (get) {
            ask(SERVE_GET, SEG_HEAP, i == 4 ? 8 : LARGE, NULL, device, false);
            owner_does_all();
        }
        weft_status *const which[] = {&g.copy,  &g.mark, &g.pass, &g.load,
                                      &g.store, &g.copy, &g.mark, &g.pass};
        *which[i] = WEFT_ERR_SYSTEM;
        if (!get)
            status = ask(SERVE_PUT, SEG_HEAP, i == 3 ? 8 : LARGE, device, NULL, false);
        else
            status = staged_advance(&channel);
        char text[64] = "path staged to PE 9: ";
        strcat(text, texts[i]);
        assert_int_equal(status, WEFT_ERR_SYSTEM);
        assert_string_equal(base_last_error(), text);
        assert_int_equal(channel.begun, get || i == 2);
        assert_int_equal(channel.published, get);
        assert_int_equal(channel.retired, 0);
        *which[i] = WEFT_OK;
        assert_int_equal(ask(SERVE_PUT, SEG_HEAP, 8, host, NULL, false), WEFT_ERR_SYSTEM);
        assert_int_equal(staged_advance(&channel), WEFT_ERR_SYSTEM);
        assert_string_equal(base_last_error(), text);
        assert_int_equal(channel.begun, get || i == 2);
    }
}

#define test(name) cmocka_unit_test_setup_teardown(name, prepare, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(a_put_is_published_when_its_copy_is_complete),
        test(buffers_are_chosen_by_the_memory_kind),
        test(a_single_word_is_loaded),
        test(an_answer_is_copied_to_the_gpu),
        test(words_of_an_answer_are_stored),
        test(an_atomic_brings_what_it_found),
        test(waits_go_on_while_the_gpu_copies),
        test(a_failure_of_the_gpu_ends_the_channel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
