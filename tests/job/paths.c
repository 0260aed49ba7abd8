/* SPDX-License-Identifier: Apache-2.0 */
/* Which path a pair uses, what happens when a path fails its path test, and how late errors are
 * reported. The path `slow` corrupts data or fails on demand; the first argument names the case,
 * for which WEFT_PATH and WEFT_TEST_SLOW are set. */
#include "tests/job/job.h"

static weft_job *job;
static int me, npes;

static weft_path_info query(int pe, weft_kind kind)
{
    weft_path_info info = {.size = sizeof info, .kind = kind};
    OK(weft_path_query(job, pe, &info));
    return info;
}

/* WEFT_PATH=slow, WEFT_TEST_SLOW=lie=1: no path is left; the message names the pair and the reason.
 */
static void all_lie(void)
{
    weft_status status = weft_init(&job, NULL);
    CHECK(status == WEFT_ERR_NO_PATH);
    CHECK(strstr(weft_last_error(), "slow: its path test failed"));
    CHECK(strstr(weft_last_error(), "it had put 0x"));
    CHECK(strstr(weft_last_error(), "WEFT_PATH allows no other"));
    CHECK(strstr(weft_last_error(), "from PE "));
}

/* WEFT_PATH=^p2p,^staged: weft_init() fails with the reason before any path test. */
static void none_left(void)
{
    CHECK(weft_init(&job, NULL) == WEFT_ERR_NO_PATH);
    CHECK(strstr(weft_last_error(), "p2p: excluded by WEFT_PATH"));
    CHECK(strstr(weft_last_error(), "self: another PE"));
}

/* Only PE 1 excludes all paths. All PEs fail, with a message that names PE 1 and its WEFT_PATH. */
static void one_excludes(void)
{
    const char *pe = getenv("WEFT_PE");
    if (pe && strcmp(pe, "1") == 0)
        setenv("WEFT_PATH", "^p2p,^staged,^net", 1);
    CHECK(weft_init(&job, NULL) == WEFT_ERR_NO_PATH);
    CHECK(strstr(weft_last_error(), "net: excluded by WEFT_PATH"));
    CHECK(strstr(weft_last_error(), "WEFT_PATH of PE 1 is ^p2p,^staged,^net"));
}

static void begin(void);

/* WEFT_PATH=^p2p, or a path before staged that fails its path test: staged is chosen without being
 * named, passes its path test, and moves data correctly although the memory has no direct
 * address. */
static void is_staged(const char *reason)
{
    enum { BYTES = 300001 }; /* several chunks, the last one of odd size */
    begin();
    int next = (me + 1) % npes, before = (me + npes - 1) % npes;
    weft_path_info info = query(next, WEFT_HOST);
    CHECK(strcmp(info.name, "staged") == 0 && info.proven == 1 && info.load_store == 0);
    CHECK(strstr(info.reason, reason));
    unsigned char *to = alloc(job, BYTES), *from = alloc(job, BYTES), *back = alloc(job, BYTES);
    CHECK(weft_ptr(job, to, next) == NULL);
    for (int i = 0; i < BYTES; i++)
        from[i] = (unsigned char)(i * 31 + me * 7 + (i >> 11));
    OK(weft_put(weft_default_ctx(job), to, from, BYTES, next));
    OK(weft_barrier(weft_team_world(job)));
    for (int i = 0; i < BYTES; i++)
        CHECK(to[i] == (unsigned char)(i * 31 + before * 7 + (i >> 11)));
    OK(weft_get(weft_default_ctx(job), back, to, BYTES, next));
    for (int i = 0; i < BYTES; i++)
        CHECK(back[i] == from[i]);
    CHECK(query(next, WEFT_HOST).bytes >= 2 * BYTES);
    OK(weft_finalize(job));
}

static void without_p2p(void)
{
    is_staged("p2p: excluded by WEFT_PATH; staged: through host memory that both PEs map");
}

static void staged_after_lies(void)
{
    is_staged("slow: its path test failed; staged: chosen by WEFT_PATH");
}

static void begin(void)
{
    OK(weft_init(&job, NULL));
    me = weft_my_pe(job);
    npes = weft_n_pes(job);
}

/* WEFT_PATH=slow,weak, WEFT_TEST_SLOW=lie=1: slow fails its path test; weak is chosen and passes
 * its own. */
static void first_lies(void)
{
    begin();
    for (int pe = 0; pe < npes; pe++) {
        weft_path_info info = query(pe, WEFT_HOST);
        CHECK(info.proven == 1);
        CHECK(strcmp(info.name, pe == me ? "self" : "weak") == 0);
        CHECK(pe == me || strstr(info.reason, "slow: its path test failed; weak: chosen"));
    }
    uint64_t *words = alloc(job, 64);
    OK(weft_p64(weft_default_ctx(job), &words[1], 0xfedcba9876543210u - (unsigned)me,
                (me + 1) % npes));
    OK(weft_barrier(weft_team_world(job)));
    CHECK(words[1] == 0xfedcba9876543210u - (unsigned)((me + npes - 1) % npes));
    OK(weft_finalize(job));
}

/* WEFT_PATH=slow,p2p, WEFT_TEST_SLOW=lie=120: slow passes at init and fails in weft_prove(). */
static void lies_later(void)
{
    begin();
    int other = (me + 1) % npes;
    uint64_t *words = alloc(job, 64);
    CHECK(strcmp(query(other, WEFT_HOST).name, "slow") == 0);
    CHECK(weft_ptr(job, words, other) == NULL);
    for (int i = 0; i < 120; i++) /* path slow counts the operations of each context */
        OK(weft_p64(weft_default_ctx(job), &words[2], 7, other));
    OK(weft_prove(job));
    weft_path_info info = query(other, WEFT_HOST);
    CHECK(strcmp(info.name, "p2p") == 0 && info.proven == 1 && info.load_store == 1);
    CHECK(strstr(info.reason, "(slow: round 0: byte"));
    volatile uint64_t *there = weft_ptr(job, words, other);
    CHECK(there != NULL);
    there[3] = 0x8000000000000003u + (unsigned)me;
    OK(weft_barrier(weft_team_world(job)));
    CHECK(words[3] == 0x8000000000000003u + (unsigned)((me + npes - 1) % npes));
    OK(weft_finalize(job));
}

/* WEFT_PATH=slow, WEFT_TEST_SLOW=fail=100: an operation fails after its call has returned.
 * weft_quiet() reports the failure once, and every later call to that PE fails. The other PEs
 * remain reachable. */
static void fails_late(void)
{
    begin();
    weft_ctx *ctx;
    uint64_t *words = alloc(job, 4096);
    int other = (me + 1) % npes, third = (me + 2) % npes;
    OK(weft_ctx_create(weft_team_world(job), 0, &ctx));
    for (int i = 0; i < 120; i++) { /* a call may succeed until the failure is known */
        weft_status status = weft_p64(ctx, &words[i], 5, other);
        CHECK(status == WEFT_OK || (i >= 100 && status == WEFT_ERR_PATH));
    }
    char wanted[80];
    snprintf(wanted, sizeof wanted, "operation 100, put of 8 bytes at PE %d", other);
    FAILS(weft_quiet(ctx), WEFT_ERR_PATH, wanted);
    OK(weft_quiet(ctx));
    char later[80];
    snprintf(later, sizeof later, "an earlier operation to PE %d failed", other);
    uint64_t value;
    FAILS(weft_p64(ctx, words, 5, other), WEFT_ERR_PATH, later);
    FAILS(weft_g64(ctx, words, &value, other), WEFT_ERR_PATH, later);
    if (third != other && third != me)
        OK(weft_p64(ctx, &words[300 + me], 0xc000000000000001u, third));
    OK(weft_ctx_destroy(ctx));
    OK(weft_barrier(weft_team_world(job)));
    if (npes > 2)
        CHECK(words[300 + (me + npes - 2) % npes] == 0xc000000000000001u);
    OK(weft_finalize(job));
}

/* WEFT_PATH=gda,p2p where gda is unavailable, and the reason contains a long file name: the text
 * begins with the reason for p2p and ends with " ..." where it is cut. */
static void long_reason(void)
{
    begin();
    weft_path_info info = query((me + 1) % npes, WEFT_HOST);
    CHECK(strcmp(info.name, "p2p") == 0 && strlen(info.reason) < sizeof info.reason);
    CHECK(strstr(info.reason, "p2p: chosen by WEFT_PATH; gda: ") == info.reason);
    CHECK(strcmp(info.reason + strlen(info.reason) - 4, " ...") == 0);
    OK(weft_finalize(job));
}

/* The library's default order of paths. */
static void by_itself(void)
{
    begin();
    weft_path_info info = {.size = sizeof info, .kind = (weft_kind)2};
    FAILS(weft_path_query(job, 0, &info), WEFT_ERR_ARGUMENT, "not a weft_kind");
    info.kind = WEFT_GPU;
    FAILS(weft_path_query(job, 0, &info), WEFT_ERR_UNSUPPORTED, "no GPU side");
    info.size = offsetof(weft_path_info, kind);
    OK(weft_path_query(job, 0, &info));
    CHECK(info.size == offsetof(weft_path_info, kind) && info.kind == WEFT_GPU);
    for (int pe = 0; pe < npes; pe++) {
        info = query(pe, WEFT_HOST);
        CHECK(strcmp(info.name, pe == me ? "self" : "p2p") == 0);
        CHECK(info.proven == 1 && info.load_store == 1);
    }
    OK(weft_finalize(job));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"all_lie", all_lie},
                 {"none_left", none_left},
                 {"one_excludes", one_excludes},
                 {"first_lies", first_lies},
                 {"lies_later", lies_later},
                 {"fails_late", fails_late},
                 {"by_itself", by_itself},
                 {"without_p2p", without_p2p},
                 {"staged_after_lies", staged_after_lies},
                 {"long_reason", long_reason}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (argc < 2 || strcmp(argv[1], cases[i].name) != 0)
            continue;
        cases[i].run();
        puts(
            "as it should be"); /* a job whose PEs could not join ends with status 1 all the same */
        return 0;
    }
    fprintf(stderr, "no case %s\n", argc < 2 ? "given" : argv[1]);
    return 2;
}
