/* SPDX-License-Identifier: Apache-2.0 */
/* Path net where it differs from other paths: libfabric is absent at one PE, names that libfabric
 * does not offer, transfers across the boundaries of registered memory, both directions at once,
 * many small operations in one message mixed with all others, and what the path reports about
 * itself. Also what it reports about keys that an unauthenticated peer could guess (finding A1).
 *
 *   net absent | keys TEXT | unknown_provider | unknown_interface | one_unknown | spins | reads |
 *   moves [PROVIDER] */
#include "job.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdbool.h>

void *__real_dlopen(const char *file, int flags);
void *__wrap_dlopen(const char *file, int flags);

static bool absent;

void *__wrap_dlopen(const char *file, int flags)
{
    if (absent && file && strncmp(file, "libfabric", 9) == 0)
        return __real_dlopen("libfabric-that-is-not-here.so", flags);
    return __real_dlopen(file, flags);
}

/* Every PE gets the same error, so that no PE waits. */
static int refused(weft_status wanted, const char *sentence)
{
    weft_job *job;
    FAILS(weft_init(&job, NULL), wanted, sentence);
    printf("refused as it should be\n");
    return 0;
}

enum { CHUNK = 16 << 20, AREA = 3 * CHUNK + 4096 };

/* Bytes 8 * at to 8 * at + 7. */
static inline uint64_t content_word(size_t at, int pe, int round)
{
    uint64_t x =
        ((uint64_t)(unsigned)(pe * 1000 + round) << 32 | (at + 1)) * UINT64_C(0x9e3779b97f4a7c15);
    return x ^ x >> 32;
}

static inline unsigned char content(size_t i, int pe, int round)
{
    return (unsigned char)(content_word(i / 8, pe, round) >> i % 8 * 8);
}

static void fill(unsigned char *to, size_t bytes, int pe, int round)
{
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = content_word(i / 8, pe, round);
        memcpy(to + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
}

/* Transfers next to chunk boundaries, to the next PE and from it, all in flight at once. */
static void across_chunks(weft_job *job)
{
    static const struct {
        size_t at, bytes;
    } parts[] = {
        {1, 5000},         {CHUNK - 1, 2},           {CHUNK - 4097, 8195}, {2 * CHUNK - 3, 7},
        {CHUNK / 2, 4096}, {CHUNK / 2 + 4096, 4097}, {2 * CHUNK + 9, 65},  {3 * CHUNK - 11, 77},
    };
    enum { PARTS = sizeof parts / sizeof parts[0] };
    int me = weft_my_pe(job), n = weft_n_pes(job), to = (me + 1) % n, from = (me + n - 1) % n;
    weft_ctx *ctx = weft_default_ctx(job);
    unsigned char *area, *mine = malloc(AREA), *back = calloc(AREA, 1);
    CHECK(mine && back);
    OK(weft_alloc(job, WEFT_HOST, AREA, 0, 0, (void **)&area));
    fill(mine, AREA, me, 1);
    for (int i = 0; i < PARTS; i++)
        OK(weft_put_nbi(ctx, area + parts[i].at, mine + parts[i].at, parts[i].bytes, to));
    OK(weft_quiet(ctx));
    for (int i = 0; i < PARTS; i++)
        OK(weft_get_nbi(ctx, back + parts[i].at, area + parts[i].at, parts[i].bytes, to));
    OK(weft_quiet(ctx));
    OK(weft_barrier(weft_team_world(job)));
    for (int i = 0; i < PARTS; i++)
        for (size_t k = parts[i].at; k < parts[i].at + parts[i].bytes; k++)
            CHECK(area[k] == content(k, from, 1) && back[k] == content(k, me, 1));
    OK(weft_barrier(weft_team_world(job)));
    /* the whole area, in one operation each way */
    fill(mine, AREA, me, 2);
    OK(weft_put(ctx, area, mine, AREA, to));
    OK(weft_get(ctx, back, area, AREA, to));
    OK(weft_barrier(weft_team_world(job)));
    for (size_t i = 0; i < AREA; i += 1 + i % 17)
        CHECK(area[i] == content(i, from, 2) && back[i] == content(i, me, 2));
    OK(weft_free(job, area));
    free(mine);
    free(back);
}

/* More small operations than the send windows hold, of every kind, in the order of the fences. */
static void many_small(weft_job *job)
{
    enum { ROUNDS = 3000 };
    int me = weft_my_pe(job), n = weft_n_pes(job), to = (me + 1) % n, from = (me + n - 1) % n;
    weft_ctx *ctx = weft_default_ctx(job);
    struct {
        uint64_t values[ROUNDS], sum, last, signal;
        unsigned char large[6000];
    } * area;
    static uint64_t mine[ROUNDS];
    unsigned char large[6000];
    uint64_t before = 0, sum = 0;
    area = alloc(job, sizeof *area);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        mine[i] = (i + 1) * 0x9e3779b97f4a7c15u ^ (uint64_t)me << 56;
        OK(weft_put_nbi(ctx, &area->values[i], &mine[i], sizeof mine[i], to));
        OK(weft_atomic_add64(ctx, &area->sum, mine[i], to));
        sum += mine[i];
        if (i % 500 == 499) {
            memset(large, (int)(i / 500) + me, sizeof large);
            OK(weft_put(ctx, area->large, large, sizeof large, to));
            /* The counter follows the data, although the data took another route (RMA). */
            OK(weft_fence(ctx));
            OK(weft_atomic_set64(ctx, &area->last, i, to));
            OK(weft_atomic_fetch64(ctx, &area->sum, &before, to));
            CHECK(before == sum);
        }
    }
    OK(weft_quiet(ctx));
    OK(weft_put_signal(ctx, area->large, large, sizeof large, &area->signal, 77, WEFT_SIGNAL_ADD,
                       to));
    OK(weft_signal_wait(ctx, &area->signal, WEFT_EQ, 77, NULL));
    CHECK(area->last == ROUNDS - 1);
    for (uint64_t i = 0; i < ROUNDS; i++)
        CHECK(area->values[i] == ((i + 1) * 0x9e3779b97f4a7c15u ^ (uint64_t)from << 56));
    for (size_t i = 0; i < sizeof large; i++)
        CHECK(area->large[i] == (unsigned char)(ROUNDS / 500 - 1 + from));
    OK(weft_barrier(weft_team_world(job)));
    OK(weft_free(job, area));
}

/* Messages and RMA writes to the same bytes: the later write wins. */
static void overlaps(weft_job *job)
{
    enum { ROUNDS = 400, LARGE = 9000, AT = 4001 };
    int me = weft_my_pe(job), n = weft_n_pes(job), to = (me + 1) % n;
    weft_ctx *ctx = weft_default_ctx(job);
    unsigned char *area = alloc(job, LARGE), *large = malloc(LARGE), *other = malloc(LARGE);
    unsigned char small[40];
    CHECK(large && other);
    for (int i = 0; i < ROUNDS; i++) {
        memset(large, i, LARGE);
        memset(other, i + 1, LARGE);
        memset(small, i + 2, sizeof small);
        OK(weft_put_nbi(ctx, area + AT, small, sizeof small, to));
        OK(weft_fence(ctx));
        OK(weft_put_nbi(ctx, area, large, LARGE, to));
        OK(weft_fence(ctx));
        if (i % 3 == 1)
            OK(weft_put_nbi(ctx, area + AT, small, sizeof small, to));
        else if (i % 3 == 2)
            OK(weft_put_nbi(ctx, area, other, LARGE, to));
        OK(weft_barrier(weft_team_world(job)));
        CHECK(area[AT] == (unsigned char)(i % 3 == 0 ? i : i % 3 == 1 ? i + 2 : i + 1));
        CHECK(area[AT + 39] == area[AT] && area[0] == (unsigned char)(i + (i % 3 == 2)));
        OK(weft_barrier(weft_team_world(job)));
    }
    free(large);
    free(other);
    OK(weft_free(job, area));
}

static int moves(const char *provider)
{
    weft_job *job;
    OK(weft_init(&job, NULL));
    weft_path_info path = {.size = sizeof path};
    OK(weft_path_query(job, (weft_my_pe(job) + 1) % weft_n_pes(job), &path));
    CHECK(strcmp(path.name, "net") == 0 && !path.load_store && path.proven == 1);
    CHECK(strstr(path.reason, "net: provider ") && strstr(path.reason, provider));
    across_chunks(job);
    many_small(job);
    overlaps(job);
    OK(weft_finalize(job));
    return 0;
}

/* Only PE 1 names an interface that does not exist. PE 1 gets the plain message; the others get it
 * with the prefix "PE 1: ", once. */
static int one_unknown(bool it_is_me)
{
    static const char sentence[] = "WEFT_FABRIC_INTERFACE is \"moon0\"";
    weft_job *job;
    if (it_is_me)
        setenv("WEFT_FABRIC_INTERFACE", "moon0", 1);
    FAILS(weft_init(&job, NULL), WEFT_ERR_CONFIG, sentence);
    const char *said = weft_last_error();
    CHECK(it_is_me || strncmp(said, "PE 1: ", 6) == 0);
    CHECK(strstr(said, sentence) == said + (it_is_me ? 0 : 6));
    printf("refused as it should be\n");
    return 0;
}

/* PE 1 only reads its memory, without a call of the library: its progress thread executes the
 * requests of PE 0. */
static int spins(void)
{
    enum { ROUNDS = 20, BYTES = 70001 };
    weft_job *job;
    OK(weft_init(&job, NULL));
    weft_ctx *ctx = weft_default_ctx(job);
    uint64_t *words = alloc(job, 64), before;
    unsigned char *area = alloc(job, BYTES), *mine = malloc(BYTES), *back = malloc(BYTES);
    CHECK(mine && back);
    OK(weft_barrier(weft_team_world(job)));
    if (weft_my_pe(job) == 1)
        while (__atomic_load_n(words, __ATOMIC_ACQUIRE) < ROUNDS)
            sched_yield();
    for (int round = 0; round < ROUNDS && weft_my_pe(job) == 0; round++) {
        fill(mine, BYTES, 0, round);
        OK(weft_put(ctx, area, mine, BYTES, 1));
        OK(weft_fence(ctx));
        OK(weft_atomic_fetch_add64(ctx, words, 1, &before, 1));
        CHECK(before == (uint64_t)round);
        OK(weft_get(ctx, back, area, BYTES, 1));
        CHECK(memcmp(back, mine, BYTES) == 0);
    }
    for (size_t i = 0; i < BYTES && weft_my_pe(job) == 1; i++)
        CHECK(area[i] == content(i, 0, ROUNDS - 1));
    free(mine);
    free(back);
    OK(weft_finalize(job));
    return 0;
}

/* Large gets in both directions at once, which NICs deliver in fragments. */
static int reads(void)
{
    enum {
        ROUNDS = 10,
        BYTES = 8 << 20
    }; /* with 6 rounds, about one run in several hundred had no read in flight at the failure */
    weft_job *job;
    OK(weft_init(&job, NULL));
    int me = weft_my_pe(job), n = weft_n_pes(job), to = (me + 1) % n;
    unsigned char *area, *mine = malloc(BYTES);
    CHECK(mine);
    OK(weft_alloc(job, WEFT_HOST, BYTES, 0, 0, (void **)&area));
    fill(area, BYTES, me, 0);
    OK(weft_barrier(weft_team_world(job)));
    for (int round = 0; round < ROUNDS; round++) {
        memset(mine, 0, BYTES);
        OK(weft_get(weft_default_ctx(job), mine, area, BYTES, to));
        for (size_t i = 0; i < BYTES; i += 1 + i % 17)
            CHECK(mine[i] == content(i, to, 0));
    }
    OK(weft_barrier(weft_team_world(job)));
    free(mine);
    OK(weft_finalize(job));
    printf("PE %d: all has come\n", me);
    return 0;
}

/* The path's reason contains this text; "": it does not mention keys. Puts and gets succeed. */
static int keys(const char *text)
{
    weft_job *job;
    OK(weft_init(&job, NULL));
    int to = 1 - weft_my_pe(job);
    weft_path_info path = {.size = sizeof path, .kind = WEFT_HOST};
    OK(weft_path_query(job, to, &path));
    printf("%s\n", path.reason);
    CHECK(*text ? strstr(path.reason, text) != NULL : !strstr(path.reason, "keys"));
    across_chunks(job);
    OK(weft_finalize(job));
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "moves", *pe = getenv("WEFT_PE");
    if (strcmp(what, "unknown_provider") == 0)
        return refused(WEFT_ERR_CONFIG, "which libfabric does not offer here; it offers ");
    if (strcmp(what, "unknown_interface") == 0)
        return refused(WEFT_ERR_CONFIG, "WEFT_FABRIC_INTERFACE is \"moon0\"");
    if (strcmp(what, "one_unknown") == 0)
        return one_unknown(pe && strcmp(pe, "1") == 0);
    if (strcmp(what, "spins") == 0)
        return spins();
    if (strcmp(what, "keys") == 0)
        return keys(argc > 2 ? argv[2] : "");
    if (strcmp(what, "reads") == 0)
        return reads();
    if (strcmp(what, "absent") == 0) {
        absent = pe && strcmp(pe, "1") == 0;
        return refused(WEFT_ERR_NO_PATH, "net: PE 1: libfabric cannot be loaded (libfabric");
    }
    return moves(argc > 2 ? argv[2] : "");
}
