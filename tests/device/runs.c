/* SPDX-License-Identifier: Apache-2.0 */
/* Single values that the lanes of a warp store together: each arrives at its address, at every
 * width, at odd addresses, in partly full warps, ascending and descending, to several PEs and
 * several to one address, and no other byte changes. Where device code has no direct address of the
 * peer, neighbouring values become one request, which the black box counts. A GPU does not
 * guarantee which lanes run together, so there the count is only printed. */
#include "device_test.h"

enum { LANES = 32, PAGE = 4096, ROOM = 4 * PAGE, GUARD = 0xd7 };

/* The address of a lane's value, in values from the start. */
enum layout { BY_LANE, BY_RANK, APART, BACKWARDS, ONE_PLACE, PAIRS, SWAPPED };
/* The operation that stores the value. */
enum given { P, PUT, PUT_NBI, WAYS };

WEFT_DEV_BOTH unsigned place_of(int layout, uint32_t mask, unsigned lane)
{
    unsigned rank = 0;
    for (unsigned i = 0; i < lane; i++)
        rank += mask >> i & 1;
    return layout == BY_RANK     ? rank
           : layout == APART     ? lane + (lane >= 16 ? 3 : 0)
           : layout == BACKWARDS ? LANES - 1 - lane
           : layout == ONE_PLACE ? 7
           : layout == PAIRS     ? lane / 2
           : layout == SWAPPED   ? lane ^ 1
                                 : lane;
}

/* Eight lanes store to the next PE and eight to the one after it, or all to the next. */
WEFT_DEV_BOTH int target_of(int spread, unsigned lane, int pe, int n_pes)
{
    return (pe + 1 + (spread ? (int)(lane / 8 % 2) : 0)) % n_pes;
}

WEFT_DEV_BOTH uint64_t value_of(int pe, unsigned lane, unsigned round)
{
    return 0x8100fe02fd03fc01u + (uint64_t)lane * 0x0301050709f1e3d5u +
           (uint64_t)pe * 0x1000100010001010u + round * 0x40c0a0e010305070u;
}

WEFT_KERNEL(give, (char *, start), (unsigned, width), (uint32_t, mask), (int, layout),
            (int, spread), (int, how), (unsigned, round), (char *, source))
{
    unsigned lane = weft_dev_lane();
    int pe = target_of(spread, lane, weft_dev_my_pe(), weft_dev_n_pes());
    uint64_t value = value_of(weft_dev_my_pe(), lane, round), own[16] = {value};
    char *at = start + (size_t)place_of(layout, mask, lane) * width;
    if (how == PUT_NBI)
        ((uint64_t *)source)[lane] = value;
    if (mask >> lane & 1) {
        if (how == PUT)
            weft_thread_put(at, own, width, pe);
        else if (how == PUT_NBI)
            weft_thread_put_nbi(at, source + 8 * lane, width, pe);
        else if (width == 8)
            weft_thread_p64(at, value, pe);
        else if (width == 4)
            weft_thread_p32(at, (uint32_t)value, pe);
        else if (width == 2)
            weft_thread_p16(at, (uint16_t)value, pe);
        else
            weft_thread_p8(at, (uint8_t)value, pe);
    }
    weft_warp_quiet();
}

/* Repeatedly: more runs in flight than the ring has entries. */
WEFT_KERNEL(give_many, (uint64_t *, words), (int, rounds), (int, pe))
{
    size_t threads = weft_dev_grid_threads(), at = weft_dev_grid_rank();
    for (int i = 0; i < rounds; i++, at += threads)
        weft_thread_p64(words + at, (at + 1) * 0x0101010101010101u, pe);
    weft_block_quiet();
}

#if WEFT_HOST_CODE

#include "job/job.h"

struct sample {
    uint32_t mask;
    enum layout layout;
    int spread;
    int before_page; /* values before the end of a page; 0: not near one */
    int runs;        /* requests if every lane's peer needs a transport */
};

static const struct sample samples[] = {
    {0xffffffffu, BY_LANE, 0, 0, 1},    {0x7fffffffu, BY_LANE, 0, 0, 1},
    {0x00000001u, BY_LANE, 0, 0, 1},    {0x80000000u, BY_LANE, 0, 0, 1},
    {0x80000001u, BY_LANE, 0, 0, 2},    {0xa5a5f00fu, BY_LANE, 0, 0, 8},
    {0xa5a5f00fu, BY_RANK, 0, 0, 1},    {0x55555555u, BY_RANK, 0, 0, 1},
    {0xffffffffu, APART, 0, 0, 2},      {0x0ff00ff0u, APART, 0, 0, 2},
    {0xffffffffu, BACKWARDS, 0, 0, 32}, {0xffffffffu, ONE_PLACE, 0, 0, 1},
    {0xffffffffu, PAIRS, 0, 0, 1},      {0xfffffffeu, PAIRS, 0, 0, 1},
    {0xffffffffu, SWAPPED, 0, 0, 32},   {0xffffffffu, BY_LANE, 0, 5, 2},
    {0xffffffffu, BY_LANE, 0, 32, 1},   {0xffffffffu, BY_LANE, 1, 0, 4},
    {0xffffffffu, PAIRS, 1, 0, 4},
};

static char *room, *source;
static int carried; /* device code has no direct address of the other PEs */
static int counted; /* and a host thread executes the requests and counts them */

static uint64_t requests(void)
{
    uint64_t all = 0;
    for (int i = 0; i < BOX_PROXIES; i++)
        all += atomic_load(&job->box->proxies[i].carried);
    return all;
}

/* Whether a lane of a PE stored this value here; *meant: a lane stores to this place. */
static int given_here(const struct sample *s, size_t place, uint64_t seen, unsigned width,
                      unsigned round, int *meant)
{
    uint64_t bits = width == 8 ? ~(uint64_t)0 : ((uint64_t)1 << 8 * width) - 1;
    int found = 0;
    *meant = 0;
    for (int pe = 0; pe < n_pes; pe++)
        for (unsigned lane = 0; lane < LANES; lane++) {
            if (!(s->mask >> lane & 1) || target_of(s->spread, lane, pe, n_pes) != me ||
                place_of(s->layout, s->mask, lane) != place)
                continue;
            *meant = 1;
            found |= seen == (value_of(pe, lane, round) & bits);
        }
    return found;
}

static void check_room(const struct sample *s, size_t offset, unsigned width, unsigned round)
{
    static unsigned char seen[ROOM];
    fetch(seen, room, ROOM);
    for (size_t i = 0; i < ROOM;) {
        int meant = 0;
        uint64_t value = 0;
        size_t place = (i - offset) / width;
        if (i >= offset && place < LANES + 3) {
            memcpy(&value, seen + i, width);
            int found = given_here(s, place, value, width, round, &meant);
            CHECK(found || !meant);
        }
        CHECK(meant || seen[i] == GUARD);
        i += meant ? width : 1;
    }
}

/* Those of `runs` whose peer is another PE: this PE's own part is direct. */
static int wanted_requests(const struct sample *s)
{
    return !counted ? 0 : s->spread && n_pes == 2 ? s->runs / 2 : s->runs;
}

static void one(const struct sample *s, unsigned width, int how, unsigned odd, unsigned round)
{
    static unsigned char guard[ROOM];
    size_t offset = (size_t)odd * width;
    if (s->before_page)
        offset = PAGE + (PAGE - (uintptr_t)room % PAGE) - (size_t)s->before_page * width;
    memset(guard, GUARD, sizeof guard);
    store(room, guard, ROOM);
    barrier();
    uint64_t before = requests();
    LAUNCH(give, 1, LANES, 0, NULL, room + offset, width, s->mask, (int)s->layout, s->spread, how,
           round, source);
    int came = (int)(requests() - before), wanted = wanted_requests(s);
    barrier();
    check_room(s, offset, width, round);
    if (came != wanted)
        fprintf(stderr, "mask %#x, layout %d, width %u, way %d: %d requests in place of %d\n",
                s->mask, (int)s->layout, width, how, came, wanted);
    CHECK(came == wanted || weft_target_get() == WEFT_CUDA);
    barrier();
}

static void many(void)
{
    enum { ROUNDS = 24, BLOCKS = 3, THREADS = 96, N = ROUNDS * BLOCKS * THREADS };
    static uint64_t seen[N];
    uint64_t *words = symmetric(sizeof seen);
    barrier();
    uint64_t before = requests();
    LAUNCH(give_many, BLOCKS, THREADS, 0, NULL, words, ROUNDS, (me + 1) % n_pes);
    uint64_t came = requests() - before;
    barrier();
    fetch(seen, words, sizeof seen);
    for (uint64_t i = 0; i < N; i++)
        CHECK(seen[i] == (i + 1) * 0x0101010101010101u);
    /* The 256 bytes of a warp lie in one page or two. */
    CHECK(!carried || weft_target_get() == WEFT_CUDA || came <= 2 * N / LANES);
}

int main(void)
{
    device_begin();
    room = symmetric(ROOM);
    source = symmetric(LANES * 8);
    carried = n_pes > 1 && !job_direct(job, weft_device_kind(job), (me + 1) % n_pes);
    weft_path_info info = {.size = sizeof info, .kind = weft_device_kind(job)};
    OK(weft_path_query(job, (me + 1) % n_pes, &info));
    const char *initiator = getenv("WEFT_TEST_GDA_INITIATOR");
    counted =
        carried && (strcmp(info.name, "gda") != 0 || (initiator && !strcmp(initiator, "cpu")));
    unsigned round = 0;
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++)
        for (unsigned width = 1; width <= 8; width *= 2)
            for (int how = 0; how < WAYS; how++, round++)
                one(&samples[i], width, how, 3 + 2 * (round % 8), round);
    many();
    device_end();
    return 0;
}
#endif
