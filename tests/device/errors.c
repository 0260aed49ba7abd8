/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of device code: an address in no segment, a range past the end, an invalid PE, an invalid
 * team, a wait that times out. Void operations make the job fail at the host's next call, with a
 * message that names operation, block, thread and address. A wait returns its status and leaves a
 * record. A slow wait is visible in the box while the kernel still runs. One case for each run. */
#include "device_test.h"

WEFT_KERNEL(put_to, (void *, dst), (uint64_t *, src), (size_t, bytes), (int, pe), (int, scope))
{
    if (weft_dev_block_rank() != 2)
        return;
    if (scope == WEFT_DEV_BLOCK)
        weft_block_put(dst, src, bytes, pe);
    else if (weft_dev_thread_rank() == 7)
        weft_thread_p64(dst, 1, pe);
}

WEFT_KERNEL(put_often, (void *, dst), (uint64_t *, src), (int, pe))
{
    for (int i = 0; i < 120; i++)
        weft_warp_put(dst, src, 16, pe);
    weft_warp_quiet();
}

/* The ring holds one request of each lane at a time. */
WEFT_KERNEL(get_by_lanes, (uint64_t *, dst), (uint64_t *, src), (int, pe))
{
    for (int i = 0; i < 4; i++)
        weft_thread_get(dst + 2 * weft_dev_lane(), src, 16, pe);
}

/* Writes up to the end of the heap's segment and `over` bytes more: one range, or two strided
 * elements. */
WEFT_KERNEL(put_to_end, (uint64_t *, src), (int, pe), (int, over), (int, strided))
{
    const struct weft_dev_segment *heap = &weft_dev_state.segment[WEFT_DEV_HEAP];
    char *end = (char *)(uintptr_t)(heap->base + heap->size);
    if (strided)
        weft_thread_iput(end - 40 + over, src, 4, 1, 8, 2, pe);
    else
        weft_thread_put(end - 16, src, (size_t)(16 + over), pe);
}

WEFT_KERNEL(atomic_at, (uint64_t *, dst), (int, pe), (uint64_t *, got))
{
    *got = weft_thread_atomic_fetch_add64(dst, 5, pe);
}

WEFT_KERNEL(wait_on, (uint64_t *, flag), (int *, result))
{
    int status = weft_block_signal_wait(flag, WEFT_GE, 42);
    if (weft_dev_thread_rank() == 3)
        *result = status;
}

WEFT_KERNEL(wait_packet, (char *, buffer), (uint64_t *, dst), (int *, result))
{
    int status = weft_warp_take_packet(dst, buffer, 200, 9);
    if (weft_dev_thread_rank() == 0)
        *result = status;
}

WEFT_KERNEL(sync_alone, (int, team), (int *, result))
{
    int status = weft_block_sync(team);
    if (weft_dev_thread_rank() == 0)
        *result = status;
}

#if WEFT_HOST_CODE

#include "job/device_state.h"

#include <time.h>
#include <unistd.h>

static uint64_t *word;
static int *result;

/* The wait for the kernel reports its fault, as every other call does (seen.c). */
#define LAUNCH_FAULTY(...)                                                                         \
    do {                                                                                           \
        OK(WEFT_LAUNCH(__VA_ARGS__));                                                              \
        CHECK(weft_stream_synchronize(NULL) != WEFT_OK);                                           \
    } while (0)

/* The host's next calls return the fault with the text of the record. */
static void host_sees(weft_status status, const char *what, const char *where)
{
    FAILS(weft_device_check(job), status, what);
    FAILS(weft_device_check(job), status, where);
    FAILS(weft_barrier(weft_team_world(job)), status, what);
    fprintf(stderr, "%s\n", weft_last_error());
}

/* Device code accesses local memory that is not symmetric directly (own.c), but not a null
 * pointer. */
static void bad_address(void)
{
    LAUNCH_FAULTY(put_to, 4, 32, 0, NULL, (uint64_t *)16, word, 16, 0, WEFT_DEV_BLOCK);
    host_sees(WEFT_ERR_ADDRESS, "block 2 thread 0: put", "0x10");
}

static void bad_p(void)
{
    LAUNCH_FAULTY(put_to, 4, 32, 0, NULL, (uint64_t *)16, word, 8, 0, WEFT_DEV_THREAD);
    host_sees(WEFT_ERR_ADDRESS, "block 2 thread 7: p:", "in no symmetric segment");
}

static void bad_address_of_peer(void)
{
    static uint64_t not_symmetric[4];
    char address[32];
    LAUNCH_FAULTY(put_to, 4, 32, 0, NULL, not_symmetric, word, 16, (me + 1) % n_pes,
                  WEFT_DEV_BLOCK);
    snprintf(address, sizeof address, "%#llx", (unsigned long long)(uintptr_t)not_symmetric);
    host_sees(WEFT_ERR_ADDRESS, "block 2 thread 0: put", address);
    CHECK(not_symmetric[0] == 0);
}

/* Through the proxy, over a path whose 100th operation fails later, when no call waits for it. */
static void carried_fails(void)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, "operation 100, put of 16 bytes at PE %d", (me + 1) % n_pes);
    LAUNCH_FAULTY(put_often, 1, 32, 0, NULL, word, word + 8, (me + 1) % n_pes);
    host_sees(WEFT_ERR_PATH, "device code", wanted);
}

/* For `weft attach`: takes a while over a slow path. */
static void many_gets(void)
{
    LAUNCH(get_by_lanes, 1, 32, 0, NULL, word + 8, word, (me + 1) % n_pes);
}

static void bad_pe(void)
{
    LAUNCH_FAULTY(put_to, 4, 32, 0, NULL, word, word, 8, n_pes, WEFT_DEV_BLOCK);
    host_sees(WEFT_ERR_PE, "put", "there is no PE");
}

static void negative_pe(void)
{
    LAUNCH_FAULTY(put_to, 4, 32, 0, NULL, word, word, 8, -1, WEFT_DEV_THREAD);
    host_sees(WEFT_ERR_PE, "p:", "there is no PE -1");
}

static void past_end(void)
{
    LAUNCH_FAULTY(put_to, 4, 32, 0, NULL, word, word, (size_t)1 << 60, 0, WEFT_DEV_BLOCK);
    host_sees(WEFT_ERR_RANGE, "put", "past the end");
}

/* Writes up to the last byte succeed. One byte more, or a last element outside, is an error. The
 * window of a GPU's heap has more addresses than memory, so its end is not written there. */
static void one_past_end(void)
{
    if (weft_target_get() != WEFT_CUDA) {
        LAUNCH(put_to_end, 1, 1, 0, NULL, word, me, 0, 0);
        LAUNCH(put_to_end, 1, 1, 0, NULL, word, me, 0, 1);
        OK(weft_device_check(job));
    }
    LAUNCH_FAULTY(put_to_end, 1, 1, 0, NULL, word, me, 1, 0);
    host_sees(WEFT_ERR_RANGE, "put", "past the end");
}

static void strided_past_end(void)
{
    LAUNCH_FAULTY(put_to_end, 1, 1, 0, NULL, word, me, 8, 1);
    host_sees(WEFT_ERR_RANGE, "iput", "past the end");
}

static void bad_atomic(void)
{
    uint64_t got = 99;
    store(word, &got, sizeof got);
    LAUNCH_FAULTY(atomic_at, 1, 1, 0, NULL, (uint64_t *)8, 0, word);
    CHECK(weft_device_check(job) == WEFT_ERR_ADDRESS);
    host_sees(WEFT_ERR_ADDRESS, "atomic", "address 0x8");
}

static void bad_team(void)
{
    LAUNCH_FAULTY(sync_alone, 1, 32, 0, NULL, 1000, result);
    host_sees(WEFT_ERR_NOT_MEMBER, "sync", "no team 1000");
}

static void status_is(int wanted)
{
    int status;
    fetch(&status, result, sizeof status);
    CHECK(status == wanted);
}

/* The first record of the box in this state. */
static const struct weft_dev_record *record_in(uint32_t state)
{
    const struct weft_dev_box *box = device_box(job->box);
    for (int i = 0; i < WEFT_DEV_RECORDS; i++)
        if (__atomic_load_n(&box->records[i].state, __ATOMIC_ACQUIRE) == state)
            return &box->records[i];
    return NULL;
}

static void wait_expires(void)
{
    OK(WEFT_LAUNCH(wait_on, 1, 64, 0, NULL, word, result));
    /* The box shows the wait while the kernel waits. */
    const struct weft_dev_record *record = NULL;
    for (int i = 0; i < 1000 && !record; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        record = record_in(WEFT_DEV_RECORD_WAITING);
    }
    CHECK(record && record->operation == WEFT_DEV_OP_SIGNAL_WAIT && record->expected == 42);
    CHECK(record->address == (uintptr_t)word && record->thread == 0);
    OK(weft_device_check(job)); /* not a fault yet */
    OK(weft_stream_synchronize(NULL));
    status_is(WEFT_ERR_TIMEOUT);
    CHECK(!record_in(WEFT_DEV_RECORD_WAITING));
    record = record_in(WEFT_DEV_RECORD_EXPIRED);
    CHECK(record && record->operation == WEFT_DEV_OP_SIGNAL_WAIT && record->seen == 0);
    char text[256];
    device_record_text(record, me, text, sizeof text);
    CHECK(strstr(text, "signal_wait") && strstr(text, "expected >= 42, seen 0"));
    OK(weft_device_check(job)); /* the program got the status, so the job continues */
    OK(weft_finalize(job));
    exit(0);
}

/* The host makes the job fail while a kernel waits: the kernel ends at once and not after its limit
 * of 60 s. */
static void wait_ends_with_the_job(void)
{
    weft_stream stream;
    OK(weft_stream_create(&stream));
    *result = 1;
    OK(WEFT_LAUNCH(wait_on, 1, 64, 0, stream, word, result));
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    job_fail(job, WEFT_ERR_PEER_DEAD, "PE 7 has died");
    for (int i = 0; i < 2000 && __atomic_load_n(result, __ATOMIC_ACQUIRE) == 1; i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    CHECK(__atomic_load_n(result, __ATOMIC_ACQUIRE) == WEFT_ERR_TIMEOUT);
    host_sees(WEFT_ERR_PEER_DEAD, "PE 7", "has died");
}

static void packet_expires(void)
{
    LAUNCH(wait_packet, 1, 32, 0, NULL, (char *)word, word + 128, result);
    status_is(WEFT_ERR_TIMEOUT);
    CHECK(record_in(WEFT_DEV_RECORD_EXPIRED)->operation == WEFT_DEV_OP_TAKE_PACKET);
    OK(weft_finalize(job));
    exit(0);
}

/* Only PE 0 calls sync: its message names the missing PE, and the job fails. */
static void sync_expires(void)
{
    if (n_pes == 1)
        exit(77);
    if (me == 0) {
        LAUNCH(sync_alone, 1, 32, 0, NULL, WEFT_DEV_WORLD, result);
        FAILS(weft_device_check(job), WEFT_ERR_TIMEOUT, "sync of team 0 waited");
        FAILS(weft_device_check(job), WEFT_ERR_TIMEOUT, "for PE 1");
        fprintf(stderr, "%s\n", weft_last_error());
    } else {
        nanosleep(&(struct timespec){.tv_sec = 2}, NULL); /* alive, but does not call */
    }
}

/* `weft attach` runs meanwhile: the box of a hanging kernel is in the memfd that it reads. */
static void dead_end(void)
{
    LAUNCH(wait_on, 1, 32, 0, NULL, word, result);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"bad_address", bad_address},
        {"bad_p", bad_p},
        {"bad_address_of_peer", bad_address_of_peer},
        {"carried_fails", carried_fails},
        {"many_gets", many_gets},
        {"bad_pe", bad_pe},
        {"negative_pe", negative_pe},
        {"past_end", past_end},
        {"one_past_end", one_past_end},
        {"strided_past_end", strided_past_end},
        {"bad_atomic", bad_atomic},
        {"bad_team", bad_team},
        {"wait_expires", wait_expires},
        {"packet_expires", packet_expires},
        {"wait_ends_with_the_job", wait_ends_with_the_job},
        {"sync_expires", sync_expires},
        {"hang", dead_end},
    };
    device_begin();
    word = symmetric(4096);
    result = symmetric(sizeof *result);
    barrier();
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(argv[1], cases[i].name) != 0)
            continue;
        cases[i].run();
        /* A failed job exits without finalize, because no barrier can complete. */
        fflush(NULL);
        _exit(0);
    }
    fprintf(stderr, "no such case\n");
    return 2;
}
#endif
