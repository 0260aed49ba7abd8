/* SPDX-License-Identifier: Apache-2.0 */
/* Queues of a GPU's device code that are connected at first use. The stand-in of the driver runs no
 * device code, but its GPU memory is memory of this process. So this program does with the tables
 * what device code does: it reserves blocks of each queue to the PEs of the other node, asks for
 * the queues if they are not connected, waits, and posts a value and an atomic.
 *     gda_first_use [some|dc|refused]
 * some: PEs that no barrier connects are not connected before. dc: all PEs are reached by DC, and a
 * get of the host tests the way, which no barrier has tested to some. refused: the adapter refuses
 * the initiators of device code, which does not post then. */
#include "gpu_test.h"

#include <weft/device/control.h>
#include <weft/device/gda_queue.h>
#include <weft/device/state.h>

#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 64, LIMIT_S = 20, BEFORE = 7 };

static struct weft_dev state;
static struct weft_dev_gda table;
static int unconnected;
static bool by_dc;

/* Where this process reads an address of the stand-in GPU: fake.h. */
#define AT(pointer) ((__typeof__(pointer))at_host((uintptr_t)(pointer)))
static void *at_host(uintptr_t address)
{
    const uintptr_t bit = (uintptr_t)1 << 46;
    return (void *)(!(address & bit) && address >> 40 >= 0x38 ? address | bit : address);
}

static void pause_since(time_t begun)
{
    CHECK(time(NULL) - begun < LIMIT_S);
    usleep(100);
}

static struct weft_dev_gda_place place_of(const struct weft_dev_gda_queue *q, const void *symmetric,
                                          int pe)
{
    uint64_t offset =
        (uintptr_t)symmetric - state.segment[WEFT_DEV_HEAP].base + table.skip[WEFT_DEV_HEAP];
    uint64_t base = AT(table.bases)[pe * WEFT_DEV_PARTS + WEFT_DEV_HEAP];
    uint64_t chunk = table.first[WEFT_DEV_HEAP] + (offset >> table.chunk_bits[WEFT_DEV_HEAP]);
    uint64_t at = chunk * table.key_step + (by_dc ? (uint32_t)pe * table.dc_keys : 0);
    return (struct weft_dev_gda_place){.address = base + offset, .key = AT(q->remote_keys)[at]};
}

/* As weft_dev_gda_begin_late() does. */
static void await_connection(struct weft_dev_gda_queue *q, int pe)
{
    time_t begun = time(NULL);
    if (__atomic_load_n(&q->ready, __ATOMIC_ACQUIRE))
        return;
    unconnected++;
    CHECK(q->ring.last == 0 && !q->marks);
    __atomic_store_n(&table.wanted[pe], 1, __ATOMIC_RELAXED);
    __atomic_store_n(table.alarm, WEFT_DEV_GDA_ALARM_WANTED, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&q->ready, __ATOMIC_ACQUIRE))
        pause_since(begun);
}

/* The queue with addresses of this process. */
static struct weft_dev_gda_queue local_copy(const struct weft_dev_gda_queue *q)
{
    struct weft_dev_gda_queue copy = *q;
    copy.ring.blocks = AT(q->ring.blocks);
    copy.ring.record = AT(q->ring.record);
    copy.ring.doorbell = AT(q->ring.doorbell);
    copy.completion = AT(q->completion);
    copy.marks = AT(q->marks);
    copy.fillers = AT(q->fillers);
    copy.busy = AT(q->busy);
    copy.results = AT(q->results);
    return copy;
}

/* Stores a drafted request with the address of PE pe's target. Returns the number of its blocks. */
static uint32_t store_addressed(const struct weft_dev_gda_queue *q, uint64_t index, int pe,
                                const struct weft_dev_gda_ring *draft, uint32_t segments)
{
    enum { EACH = WEFT_DEV_GDA_BLOCK / WEFT_DEV_GDA_SEGMENT };
    const struct weft_dev_gda_target *to =
        AT(table.targets) + (uint32_t)pe * table.adapters + q->name % table.adapters;
    const uint32_t more = (uint32_t)(q->ready >> 1);
    for (uint32_t i = 0; i < segments + more; i++) {
        char *at = weft_dev_gda_at(&q->ring, index, (uint64_t)i * WEFT_DEV_GDA_SEGMENT);
        const void *from = weft_dev_gda_at(
            draft, index, (uint64_t)(i > more ? i - more : 0) * WEFT_DEV_GDA_SEGMENT);
        memcpy(at, i && i <= more ? (const char *)&to->words[2 * (i - 1)] : from,
               WEFT_DEV_GDA_SEGMENT);
    }
    *weft_dev_gda_at(&q->ring, index, 7) = (char)(segments + more);
    return (segments + more + EACH - 1) / EACH;
}

/* The same as post() by a DC initiator: a NOP ends the span. */
static void post_by_dc(struct weft_dev_gda_queue *q, int pe, uint64_t *slot, uint64_t value)
{
    enum { DRAFT = 8, VALUE = 3, ATOMIC = 4, BLOCKS = 5 };
    const time_t begun = time(NULL);
    const uint32_t first = (uint32_t)(q->ready >> 1) + VALUE > 4 ? 2 : 1, used = first + 3;
    _Alignas(16) char blocks[DRAFT * WEFT_DEV_GDA_BLOCK];
    struct weft_dev_gda_ring draft;
    uint64_t turns = weft_dev_gda_reserve(q, used);
    struct weft_dev_gda_queue copy = local_copy(q);
    weft_dev_gda_ring_set(&draft, blocks, DRAFT, copy.number);
    uint64_t base = weft_dev_gda_whole(copy.done, (uint32_t)(turns >> 32));
    CHECK(AT(table.connected)[pe] == 1 && copy.ready > 1);
    weft_dev_gda_value(&draft, base, place_of(q, slot, pe), value, sizeof value, 0);
    CHECK(store_addressed(&copy, base, pe, &draft, VALUE) == first);
    weft_dev_gda_result_take(&copy, base + first);
    weft_dev_gda_atomic8(&draft, base + first, WEFT_DEV_GDA_ADD, place_of(q, slot + 1, pe),
                         weft_dev_gda_result(q, base + first), value, 0, 0);
    CHECK(store_addressed(&copy, base + first, pe, &draft, ATOMIC) == 2);
    weft_dev_gda_nop(&copy.ring, base + first + 2, WEFT_DEV_GDA_SIGNALED);
    weft_dev_gda_publish(&copy, &copy.ring, base, base + used, weft_dev_gda_ahead(turns));
    __atomic_store_n(&q->turns, copy.turns, __ATOMIC_RELEASE);
    while (weft_dev_gda_look(&copy) - base - used > SLOTS)
        pause_since(begun);
    __atomic_store_n(&q->done, copy.done, __ATOMIC_RELEASE);
    CHECK(weft_dev_gda_result_value(&copy, base + first, 8, 1) == BEFORE);
    weft_dev_gda_result_read(&copy, base + first);
}

/* Writes `value` to a slot of PE pe, and adds it to the next one. */
static void post(struct weft_dev_gda_queue *q, int pe, uint64_t *slot, uint64_t value)
{
    const time_t begun = time(NULL);
    struct weft_dev_gda_place to = place_of(q, slot, pe), sum = place_of(q, slot + 1, pe);
    uint64_t turns = weft_dev_gda_reserve(q, 2);
    await_connection(q, pe);
    struct weft_dev_gda_queue copy = local_copy(q);
    uint64_t base = weft_dev_gda_whole(copy.done, (uint32_t)(turns >> 32));
    weft_dev_gda_value(&copy.ring, base, to, value, sizeof value, 0);
    weft_dev_gda_result_take(&copy, base + 1);
    weft_dev_gda_atomic8(&copy.ring, base + 1, WEFT_DEV_GDA_ADD, sum,
                         weft_dev_gda_result(q, base + 1), value, 0, WEFT_DEV_GDA_SIGNALED);
    weft_dev_gda_publish(&copy, &copy.ring, base, base + 2, weft_dev_gda_ahead(turns));
    __atomic_store_n(&q->turns, copy.turns, __ATOMIC_RELEASE);
    while (weft_dev_gda_look(&copy) - base - 2 > SLOTS)
        pause_since(begun);
    __atomic_store_n(&q->done, copy.done, __ATOMIC_RELEASE);
    CHECK(weft_dev_gda_result_value(&copy, base + 1, 8, 1) == BEFORE);
    weft_dev_gda_result_read(&copy, base + 1);
}

/* The slots of PE `from` for queue k: what it writes, and what it adds to. */
static uint64_t *slots_of(uint64_t *slots, int from, uint32_t k)
{
    return &slots[((uint32_t)from * table.each + k) * 2];
}

static void post_to(weft_job *job, uint64_t *slots, int pe)
{
    weft_ctx *ctx = weft_default_ctx(job);
    uint32_t link =
        by_dc ? (uint32_t)weft_n_pes(job) + (uint32_t)pe % table.dc_groups : (uint32_t)pe;
    void (*give)(struct weft_dev_gda_queue *, int, uint64_t *, uint64_t) =
        by_dc ? post_by_dc : post;
    uint64_t one;
    if (by_dc) {
        unconnected += !AT(table.connected)[pe];
        OK(weft_g64(ctx, slots, &one, pe));
    }
    for (uint32_t k = 0; k < table.each; k++) {
        uint64_t *slot = slots_of(slots, weft_my_pe(job), k);
        struct weft_dev_gda_queue *q = AT(table.queues) + link * table.each + k;
        give(q, pe, slot, 0x100 + k);
        OK(weft_p64(ctx, slot + 1, BEFORE, pe));
        OK(weft_quiet(ctx));
        give(q, pe, slot, 0x200 + k);
    }
}

static void check_slots(weft_job *job, uint64_t *slots, bool first_node)
{
    uint64_t seen[SLOTS];
    const int n = weft_n_pes(job);
    look(job, seen, slots, sizeof seen);
    for (int pe = 0; pe < n; pe++)
        for (uint32_t k = 0; k < table.each; k++) {
            const bool posted = (pe < n / 2) != first_node;
            const uint64_t *slot = slots_of(seen, pe, k);
            CHECK(slot[0] == (posted ? 0x200 + k : BEFORE));
            CHECK(slot[1] == (posted ? 0x200 + k + BEFORE : BEFORE));
        }
}

/* How requests of device code to that PE, which is reached by DC, go. */
static void check_reason(weft_job *job, int pe, const char *text)
{
    weft_path_info info = {.size = sizeof info, .kind = WEFT_GPU};
    OK(weft_path_query(job, pe, &info));
    if (!strstr(info.reason, text))
        fprintf(stderr, "to PE %d: %s\n", pe, info.reason);
    CHECK(strstr(info.reason, text));
}

int main(int argc, char **argv)
{
    weft_job *job;
    const struct weft_dev *device;
    uint64_t before[SLOTS];
    OK(weft_init(&job, NULL));
    weft_team *world = weft_team_world(job);
    const int me = weft_my_pe(job), n = weft_n_pes(job), half = n / 2;
    uint64_t *slots = gpu_alloc(job, sizeof before, WEFT_ALLOC_ZERO);
    OK(weft_device_start(job));
    OK(weft_device_state(job, WEFT_DEV_VERSION, &device));
    state = *AT(device);
    table = state.gda;
    by_dc = argc > 1 && !strcmp(argv[1], "dc");
    CHECK(table.each != 0 && by_dc == (table.dc_groups != 0));
    if (argc > 1 && !strcmp(argv[1], "refused")) {
        check_reason(job, !me, "; by DC; requests of kernels by the proxy");
        OK(weft_finalize(job));
        return 0;
    }
    CHECK(2 * table.each * (uint32_t)n <= SLOTS);
    for (int i = 0; i < SLOTS; i++)
        before[i] = BEFORE;
    fill(job, slots, before, sizeof before);
    OK(weft_barrier(world));
    for (int pe = me < half ? half : 0; pe < (me < half ? n : half); pe++)
        post_to(job, slots, pe);
    OK(weft_barrier(world));
    check_slots(job, slots, me < half);
    if (by_dc) {
        check_reason(job, me < half ? half : 0, "; by DC; ");
        check_reason(job, me < half ? half : 0, " rings doorbells");
    }
    CHECK(argc < 2 || me == 0 || me == half || unconnected > 0);
    OK(weft_barrier(world));
    OK(weft_finalize(job));
    return 0;
}
