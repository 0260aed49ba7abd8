/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of messages (src/gpu/message_kernel.h) alone. The members are grids on streams of one
 * process, on one GPU or on the executor of CPU threads. Blocks have many threads, so every
 * exchange of data is between threads that a GPU or ThreadSanitizer can observe.
 *   device_message_rounds [SEED [ROUNDS]]
 * The program draws rounds of up to 3 messages for each pair of members, of all sizes up to 15
 * slots, with one member delayed at times. It compares every byte of every destination with the
 * expected value. Sources are overwritten for the next round as soon as the kernel has ended.
 *
 * Compiled with MESSAGE_REMOVED, one part of the synchronization is missing. The program then
 * passes if it sees wrong data, and is skipped (77) if this machine shows none:
 *   fence    before the words that say that a slot is full or free
 *   acquire  of the loads of these words */
#define WEFT_KERNEL_THREADS 128
#include "device_test.h"

#include <weft/device/move.h>

#include "gpu/kernel_record.h"

#define REMOVED_fence   1
#define REMOVED_acquire 2
#ifdef MESSAGE_REMOVED
#define REMOVED WEFT_PP_CAT(REMOVED_, MESSAGE_REMOVED)
#else
#define REMOVED 0
#endif

/* The kernel becomes a device function. */
#undef KERNEL_OF_512
#define KERNEL_OF_512 WEFT_DEVICE void

/* The macros below change only the text of the kernel. */
#if REMOVED == REMOVED_fence
#define weft_dev_fence(order, scope) ((void)0)
#elif REMOVED == REMOVED_acquire
#define weft_dev_load_u64(p, order, scope) (weft_dev_load_u64)(p, RELAXED, scope)
#endif

#include "gpu/message_kernel.h"

#undef weft_dev_fence
#undef weft_dev_load_u64

enum { MEMBERS = 3, CHANNELS = 3, SLOT = 512, EACH = 3, BYTES = 15 * SLOT, UNTOUCHED = 0xa5 };

/* The memory of one member; area follows it. */
struct window {
    char src[MEMBERS][EACH][BYTES]; /* by receiver */
    char dst[MEMBERS][EACH][BYTES]; /* by sender */
    uint64_t wrong, first_wrong;
};

struct plan {
    uint64_t number;
    int late;
};

WEFT_DEV_BOTH uint32_t said(uint64_t number, int from, int to, int k, uint64_t at)
{
    uint32_t x = (uint32_t)number * 2654435761u + (uint32_t)(from * 16 + to * 4 + k) * 0x9e3779b9u +
                 (uint32_t)at * 0x85ebca6bu + 1;
    x = (x ^ x >> 15) * 0x2c1b3c6du;
    return x ^ x >> 13;
}

/* 0: there is no such message in this round. */
WEFT_DEV_BOTH uint64_t size_of(uint64_t number, int from, int to, int k)
{
    uint32_t x = said(number, from, to, k, BYTES);
    if (x % 3 == 0)
        return 0;
    return 1 + (x >> 4) % (x % 4 ? 300 : BYTES);
}

WEFT_KERNEL(fill, (struct window *, w), (struct plan, p), (int, me))
{
    uint64_t rank = weft_dev_grid_rank(), threads = weft_dev_grid_threads();
    if (p.late == me)
        for (int i = 0; i < 20; i++)
            weft_dev_nanosleep(10000);
    for (uint64_t i = rank; i < sizeof w->src; i += threads) {
        int other = (int)(i / (EACH * BYTES)), k = (int)(i / BYTES % EACH);
        w->src[other][k][i % BYTES] = (char)said(p.number, me, other, k, i % BYTES);
        w->dst[other][k][i % BYTES] = (char)UNTOUCHED;
    }
}

WEFT_KERNEL(check, (struct window *, w), (struct plan, p), (int, me))
{
    uint64_t rank = weft_dev_grid_rank(), threads = weft_dev_grid_threads();
    for (uint64_t i = rank; i < sizeof w->dst; i += threads) {
        int other = (int)(i / (EACH * BYTES)), k = (int)(i / BYTES % EACH);
        uint64_t at = i % BYTES;
        uint32_t wanted =
            at < size_of(p.number, other, me, k) ? said(p.number, other, me, k, at) : UNTOUCHED;
        if ((unsigned char)w->dst[other][k][at] != (wanted & 0xff) &&
            weft_dev_atomic_add_u64(&w->wrong, 1, RELAXED, WEFT_SCOPE_GPU) == 0)
            w->first_wrong = p.number;
    }
}

WEFT_KERNEL(exchange, (struct message_call, call))
{
    weft_kernel_messages(call);
}

#if WEFT_HOST_CODE

static uint64_t seed;
static struct window *windows[MEMBERS];
static struct message_call common;
static uint16_t next[MEMBERS][MEMBERS]; /* first channel of the next message: [from][to] */

static unsigned draw(unsigned most)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % most;
}

/* The place after the messages of all lanes. */
static unsigned end_of_lanes(const struct message_call *c)
{
    if (!c->lanes)
        return 0;
    const struct message_lane *last = &c->lane[c->lanes - 1];
    return last->first + last->n * (1u + (last->receives == MESSAGE_COPIES));
}

/* Adds the messages between a member and another one in one direction. */
static void add_lane(struct message_call *c, uint64_t number, int me, int other, int receives)
{
    int from = receives ? other : me, to = receives ? me : other;
    struct window *w = windows[me];
    unsigned first = end_of_lanes(c), n = 0;
    unsigned channel = next[from][to];
    for (int k = 0; k < EACH; k++) {
        uint64_t bytes = size_of(number, from, to, k);
        unsigned channels = bytes / 1000 < CHANNELS ? (unsigned)(bytes / 1000) + 1 : CHANNELS;
        if (!bytes)
            continue;
        c->by_value[first + n++] =
            (struct message){receives ? w->dst[other][k] : w->src[other][k], bytes,
                             (uint16_t)channel, (uint16_t)channels, 0};
        for (unsigned i = 0; i < channels; i++)
            c->channels |= UINT64_C(1) << (channel + i) % CHANNELS;
        channel = (channel + channels) % CHANNELS;
    }
    if (n)
        c->lane[c->lanes++] = (struct message_lane){.first = (uint16_t)first,
                                                    .n = (uint16_t)n,
                                                    .member = (uint8_t)other,
                                                    .receives = (uint8_t)receives};
}

static struct message_call call_of(uint64_t number, int member)
{
    struct message_call c = common;
    c.me = (uint16_t)member;
    for (int other = 0; other < MEMBERS; other++) {
        add_lane(&c, number, member, other, 0);
        add_lane(&c, number, member, other, 1);
        /* Messages of a member to itself go through slots, or are copies. */
        struct message_lane *sends = c.lanes > 1 ? &c.lane[c.lanes - 2] : c.lane;
        if (number % 2 && other == member && c.lanes > 1 && sends->member == member) {
            sends->receives = MESSAGE_COPIES;
            c.lanes--;
        }
    }
    return c;
}

/* After a round. */
static void advance(uint64_t number)
{
    for (int from = 0; from < MEMBERS; from++)
        for (int to = 0; to < MEMBERS; to++)
            for (int k = 0; k < EACH; k++) {
                uint64_t bytes = size_of(number, from, to, k);
                unsigned parts = bytes / 1000 < CHANNELS ? (unsigned)(bytes / 1000) + 1 : CHANNELS;
                next[from][to] = (uint16_t)((next[from][to] + (bytes ? parts : 0)) % CHANNELS);
            }
}

static uint64_t wrong_bytes(uint64_t *first)
{
    uint64_t all = 0;
    for (int i = 0; i < MEMBERS; i++) {
        uint64_t seen[2];
        fetch(seen, &windows[i]->wrong, sizeof seen);
        if (seen[0] && (!all || seen[1] < *first))
            *first = seen[1];
        all += seen[0];
    }
    return all;
}

static void launch_round(uint64_t number, const weft_stream *streams)
{
    struct plan p = {number, draw(3) ? -1 : (int)draw(MEMBERS)};
    for (int i = 0; i < MEMBERS; i++) {
        struct message_call c = call_of(number, i);
        unsigned blocks = (unsigned)__builtin_popcountll(c.channels);
        OK(WEFT_LAUNCH(fill, 2, 64, 0, streams[i], windows[i], p, i));
        if (blocks)
            OK(WEFT_LAUNCH(exchange, blocks, number % 2 ? 64 : 128, 0, streams[i], c));
        OK(WEFT_LAUNCH(check, 2, 64, 0, streams[i], windows[i], p, i));
    }
    advance(number);
}

int main(int argc, char **argv)
{
    setenv("CUDA_MODULE_LOADING", "EAGER",
           1); /* lazy loading would wait for kernels that are waiting themselves */
    seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    device_begin();
    int gpu = weft_target_get() == WEFT_CUDA;
    uint64_t rounds = argc > 2         ? strtoull(argv[2], NULL, 10)
                      : gpu            ? 20000
                      : WEFT_SIMT_TSAN ? (REMOVED ? 1 : 4)
                                       : 20;
    uint64_t wrong = 0, first = 0, round = 0;
    weft_stream streams[MEMBERS];
    struct weft_dev_box *box = symmetric(sizeof *box), seen = {0};
    common.reporting = (struct gpu_reporting){box, symmetric(sizeof(uint64_t)),
                                              (REMOVED ? 1 : 30) * (uint64_t)1000000000};
    common.layout = (struct message_layout){{SLOT, SLOT / 2}, MEMBERS, CHANNELS};
    for (int i = 0; i < MEMBERS; i++) {
        windows[i] = symmetric(sizeof(struct window));
        common.area[i] = symmetric(message_area_bytes(&common.layout));
        OK(weft_stream_create(&streams[i]));
    }
    while (round < rounds && !wrong && !seen.failed) {
        launch_round(++round, streams);
        if (round % 32 && round < rounds)
            continue;
        for (int i = 0; i < MEMBERS; i++)
            OK(weft_stream_synchronize(streams[i]));
        wrong = wrong_bytes(&first);
        fetch(&seen, box, sizeof seen);
    }
    fprintf(stderr, "%llu rounds on %s: %llu bytes wrong", (unsigned long long)round,
            weft_target_name(weft_target_get()), (unsigned long long)wrong);
    if (wrong)
        fprintf(stderr, ", first in round %llu", (unsigned long long)first);
    fprintf(stderr, ", %s\n", seen.failed ? "a wait timed out" : "no wait timed out");
    for (int i = 0; i < MEMBERS; i++)
        OK(weft_stream_destroy(streams[i]));
    device_end();
    int broken = wrong || seen.failed;
    return REMOVED ? (broken ? 0 : 77) : broken;
}
#endif
