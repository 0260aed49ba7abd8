/* SPDX-License-Identifier: Apache-2.0 */
/* Host operations while a kernel fills its GPU and waits for them: puts reach the kernel, gets read
 * what it has stored, and the host's wait sees what it sets, all before it ends. An operation that
 * waits for the kernel, or that needs room on the GPU for a kernel of its own, ends only when the
 * kernel gives up after LIMIT_NS, which fails the test. One PE for each GPU, because two such
 * kernels do not fit. */
#include "tests/device/device_test.h"

enum { WORDS = 512, THREADS = 1024 };
#define LIMIT_NS ((uint64_t)3 * 1000 * 1000 * 1000)

/* The steps of the host in order; each step sets its word. */
enum step { P_OWN, P_PEER, PUT_OWN, PUT_PEER, BLOCK_OWN, BLOCK_PEER, LEAVE, STEPS };

/* Symmetric, one at each PE. */
struct course {
    uint64_t step[STEPS]; /* written by hosts, read by the kernel */
    uint64_t started; /* the kernel writes this and the following: all its blocks are on the GPU */
    uint64_t seen[STEPS];                       /* the kernel has seen the step */
    uint64_t ended;                             /* 1: all steps were seen, 2: the kernel gave up */
    uint64_t wrong;                             /* words of blocks with wrong values */
    uint64_t present;                           /* number of blocks on the GPU */
    uint64_t leave;                             /* the other blocks may exit */
    uint64_t from_own[WORDS], from_peer[WORDS]; /* written by hosts */
    uint64_t made[WORDS];                       /* by the kernel, for gets */
};

WEFT_DEVICE uint64_t word_of(int pe, uint64_t kind, uint64_t i)
{
    return ((uint64_t)(uint32_t)pe + 1) * 0x9e3779b97f4a7c15u ^ kind << 56 ^ i;
}

/* Whether *at becomes `value` before the clock reaches `until`. Acquire: pairs with the host's put,
 * and with the release of block 0. */
WEFT_DEVICE int comes(const uint64_t *at, uint64_t value, uint64_t until)
{
    while (weft_dev_load_u64(at, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS) != value)
        if (weft_dev_clock_ns() > until)
            return 0;
    return 1;
}

WEFT_DEVICE uint64_t count_wrong(const uint64_t *words, int pe, uint64_t kind)
{
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < WORDS; i++)
        wrong += weft_dev_load_u64(words + i, WEFT_ORDER_RELAXED, WEFT_SCOPE_SYS) !=
                 word_of(pe, kind, i);
    return wrong;
}

/* Runs in one thread. The last word of a block signals the step of that block. */
WEFT_DEVICE int take_part(struct course *c, int me, int previous, uint64_t until)
{
    if (!comes(&c->present, weft_dev_grid_threads() / weft_dev_block_threads(), until))
        return 0;
    for (uint64_t i = 0; i < WORDS; i++)
        c->made[i] = word_of(me, 3, i);
    weft_dev_store_u64(&c->started, 1, WEFT_ORDER_RELEASE, WEFT_SCOPE_SYS);
    for (int step = P_OWN; step < STEPS; step++) {
        const uint64_t *at = step == BLOCK_OWN    ? &c->from_own[WORDS - 1]
                             : step == BLOCK_PEER ? &c->from_peer[WORDS - 1]
                                                  : &c->step[step];
        uint64_t value = step == BLOCK_OWN    ? word_of(me, BLOCK_OWN, WORDS - 1)
                         : step == BLOCK_PEER ? word_of(previous, BLOCK_PEER, WORDS - 1)
                                              : (uint64_t)step + 1;
        if (!comes(at, value, until))
            return 0;
        /* The bytes of one put arrive in any order; the word of the step comes after them. */
        if (step == BLOCK_OWN || step == BLOCK_PEER) {
            if (!comes(&c->step[step], (uint64_t)step + 1, until))
                return 0;
            c->wrong += step == BLOCK_OWN ? count_wrong(c->from_own, me, BLOCK_OWN)
                                          : count_wrong(c->from_peer, previous, BLOCK_PEER);
        }
        weft_dev_store_u64(&c->seen[step], 1, WEFT_ORDER_RELEASE, WEFT_SCOPE_SYS);
    }
    return 1;
}

WEFT_KERNEL(resident, (struct course *, c), (int, me), (int, previous), (uint64_t, limit_ns))
{
    uint64_t until = weft_dev_clock_ns() + limit_ns;
    if (weft_dev_thread_rank() == 0) {
        weft_dev_atomic_add_u64(&c->present, 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_GPU);
        if (weft_dev_block_rank() == 0) {
            int good = take_part(c, me, previous, until);
            weft_dev_store_u64(&c->ended, good ? 1 : 2, WEFT_ORDER_RELEASE, WEFT_SCOPE_SYS);
            weft_dev_store_u64(&c->leave, 1, WEFT_ORDER_RELEASE, WEFT_SCOPE_GPU);
        } else {
            comes(&c->leave, 1, until);
        }
    }
    weft_dev_sync_block();
}

#if WEFT_HOST_CODE
static struct course *course;
static int next, previous;

static unsigned blocks;

/* Prints the state after the kernel gave up, and fails the test. */
static void tell(const char *what)
{
    struct course end;
    fetch(&end, course, sizeof end);
    fprintf(stderr, "PE %d: %s: %d blocks, %llu present; started %llu, ended %llu (2: in vain)\n",
            me, what, blocks, (unsigned long long)end.present, (unsigned long long)end.started,
            (unsigned long long)end.ended);
    fprintf(stderr, "%s\n", weft_last_error());
    exit(1);
}

static void await(const uint64_t *own, const char *what)
{
    uint64_t ended = 0;
    if (weft_wait_until(ctx, WEFT_UINT64, own, WEFT_NE, 0))
        tell(what);
    OK(weft_g64(ctx, &course->ended, &ended, me));
    if (ended)
        tell(what);
}

/* Each step at this PE's kernel and the next PE's, until both kernels have seen it. */
static void put_steps(void)
{
    const uint64_t words[STEPS] = {1, 2, 3, 4, 5, 6, 7};
    uint64_t *block = malloc(2 * WORDS * 8);
    OK(weft_p64(ctx, &course->step[P_OWN], words[P_OWN], me));
    OK(weft_quiet(ctx));
    await(&course->seen[P_OWN], "p64 to the own GPU");
    OK(weft_p64(ctx, &course->step[P_PEER], words[P_PEER], next));
    OK(weft_quiet(ctx));
    await(&course->seen[P_PEER], "p64 to a peer's GPU");
    OK(weft_put(ctx, &course->step[PUT_OWN], &words[PUT_OWN], 8, me));
    OK(weft_quiet(ctx));
    await(&course->seen[PUT_OWN], "put of 8 bytes to the own GPU");
    OK(weft_put(ctx, &course->step[PUT_PEER], &words[PUT_PEER], 8, next));
    OK(weft_quiet(ctx));
    await(&course->seen[PUT_PEER], "put of 8 bytes to a peer's GPU");
    for (uint64_t i = 0; i < WORDS; i++) {
        block[i] = word_of(me, BLOCK_OWN, i);
        block[WORDS + i] = word_of(me, BLOCK_PEER, i);
    }
    OK(weft_put(ctx, course->from_own, block, WORDS * 8, me));
    OK(weft_fence(ctx));
    OK(weft_p64(ctx, &course->step[BLOCK_OWN], words[BLOCK_OWN], me));
    OK(weft_quiet(ctx));
    await(&course->seen[BLOCK_OWN], "put of 4 KiB to the own GPU");
    OK(weft_put(ctx, course->from_peer, block + WORDS, WORDS * 8, next));
    OK(weft_quiet(ctx));
    OK(weft_p64(ctx, &course->step[BLOCK_PEER], words[BLOCK_PEER], next));
    OK(weft_quiet(ctx));
    await(&course->seen[BLOCK_PEER], "put of 4 KiB to a peer's GPU");
    free(block);
}

static void read_made(int pe)
{
    uint64_t word = 0, *words = calloc(WORDS, 8);
    for (uint64_t i = 0; i < WORDS; i += 73) {
        OK(weft_g64(ctx, &course->made[i], &word, pe));
        CHECK(word == word_of(pe, 3, i));
    }
    OK(weft_get(ctx, &word, &course->made[5], 8, pe));
    CHECK(word == word_of(pe, 3, 5));
    OK(weft_get(ctx, words, course->made, WORDS * 8, pe));
    for (uint64_t i = 0; i < WORDS; i++)
        CHECK(words[i] == word_of(pe, 3, i));
    free(words);
}

int main(void)
{
    weft_stream stream;
    device_begin();
    int on_gpu = weft_target_get() == WEFT_CUDA;
    OK(WEFT_RESIDENT_BLOCKS(resident, on_gpu ? THREADS : 32, 0, &blocks));
    CHECK(blocks > 0);
    next = (me + 1) % n_pes;
    previous = (me + n_pes - 1) % n_pes;
    course = symmetric(sizeof *course);
    OK(weft_stream_create(&stream));
    barrier();
    OK(WEFT_LAUNCH(resident, (unsigned)blocks, on_gpu ? THREADS : 32, 0, stream, course, me,
                   previous, LIMIT_NS));
    await(&course->started, "the start");
    barrier(); /* all kernels have started */
    put_steps();
    read_made(me);
    read_made(next);
    await(&course->started, "gets");
    barrier(); /* no PE reads any more */
    OK(weft_p64(ctx, &course->step[LEAVE], LEAVE + 1, me));
    OK(weft_stream_synchronize(stream));
    struct course end;
    fetch(&end, course, sizeof end);
    CHECK(end.ended == 1);
    CHECK(end.wrong == 0);
    CHECK(end.present == (uint64_t)blocks);
    OK(weft_stream_destroy(stream));
    device_end();
    return 0;
}
#endif
