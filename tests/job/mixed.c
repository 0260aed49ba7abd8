/* SPDX-License-Identifier: Apache-2.0 */
/* A job over two nodes whose pairs take path p2p within a node and gda between nodes, chosen by the
 * library. The adapters' atomics are a load and a store, so all atomics must take path gda. Two PEs
 * to a node, three or four PEs.
 *
 *   mixed chosen     which paths were chosen, and what is said of atomics
 *   mixed words      atomics and signals of all PEs on the same words, by every function
 *   mixed order      an atomic, a fence and a store, at the PE of the same node
 *   mixed strong     the adapters are atomic with CPUs: each pair keeps its own path
 *   mixed none       the adapters have no atomics: those between nodes take path net, in order with
 *                    the data, which take gda
 *   mixed none_first_use  the same with queues that are connected at first use
 *   mixed fails      gda fails its path test at one pair: the whole job leaves it
 *   mixed first_use  the queues between nodes are connected and tested when they are first used
 *   mixed first_use_fails   the same where that test fails, and path net takes over
 *   mixed refused TEXT [PE]   the adapter of that PE, or of all PEs, refuses queues, and path net
 *                    cannot take over: the nodes use net with that reason
 *   mixed first_use_refused PE [connect]  requests of the links of that PE take net, since its
 *                    adapter refuses to create queues, or to connect them
 *   mixed lacks TEXT the reason against gda has that text, and the nodes use net
 *   mixed chosen TEXT  the nodes use gda, and the reason has that text */
#include "job/job.h"
#include "tests/job/job.h"

#include <stdbool.h>

enum { PER_NODE = 2, WORDS = 3 };

static weft_job *job;
static weft_ctx *ctx;
static int me, npes;
static bool lying;
static int rounds = 400;

void __real_prove_send(struct remote to, struct peer *atomics, uint64_t number,
                       char evidence[PROVE_EVIDENCE_BYTES]);
void __wrap_prove_send(struct remote to, struct peer *atomics, uint64_t number,
                       char evidence[PROVE_EVIDENCE_BYTES]);

/* PE 0 reports a fault of its path to PE 1, of the same node, as long as atomics take path gda. */
void __wrap_prove_send(struct remote to, struct peer *atomics, uint64_t number,
                       char evidence[PROVE_EVIDENCE_BYTES])
{
    __real_prove_send(to, atomics, number, evidence);
    if (lying && to.peer->world->pe == 0 && to.peer->pe == 1 &&
        atomics->ops == path_ops_of(PATH_GDA))
        snprintf(evidence, PROVE_EVIDENCE_BYTES, "an atomic was lost");
}

static const char *wanted_path(int pe, const char *between)
{
    return pe == me ? "self" : pe / PER_NODE == me / PER_NODE ? "p2p" : between;
}

/* tested: whether the pairs between the nodes are. */
static void check_chosen(const char *between, bool atomics_apart, const char *text, int tested)
{
    for (int pe = 0; pe < npes; pe++) {
        weft_path_info info = {.size = sizeof info};
        OK(weft_path_query(job, pe, &info));
        const char *wanted = wanted_path(pe, between);
        bool apart = strstr(info.reason, "atomics over path gda, because") != NULL;
        if (strcmp(info.name, wanted) != 0 || info.proven != (wanted == between ? tested : 1) ||
            apart != (atomics_apart && strcmp(wanted, "gda") != 0) ||
            (wanted == between && !strstr(info.reason, text))) {
            fprintf(stderr, "PE %d to PE %d: path %s, proven %d, \"%s\"; wanted %s, \"%s\"\n", me,
                    pe, info.name, info.proven, info.reason, wanted, text);
            exit(1);
        }
    }
}

static void chosen(const char *between, bool atomics_apart, const char *text)
{
    check_chosen(between, atomics_apart, text, 1);
}

/* Every PE adds 1 to each word of every PE by four functions and takes a ticket; nothing is lost,
 * and no ticket is given twice. */
static void words(void)
{
    struct area {
        uint64_t words[WORDS], ticket, signal, data[4];
        uint32_t narrow, locked;
    } *area = alloc(job, sizeof *area);
    uint64_t payload[4] = {5, 6, 7, 8}, before = 0;
    uint8_t *seen = calloc((size_t)npes * rounds, 1);
    uint32_t holder, narrow = 0;
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < npes; i++) {
            int pe = (me + i) % npes;
            OK(weft_atomic_add64(ctx, &area->words[round % WORDS], 1, pe));
            OK(weft_atomic_fetch_add64(ctx, &area->words[round % WORDS], 1, &before, pe));
            OK(weft_atomic_nbi(ctx, WEFT_AMO_ADD, 8, &area->words[round % WORDS], 0, 1, NULL, pe));
            OK(weft_signal(ctx, &area->signal, 1, WEFT_SIGNAL_ADD, pe));
            OK(weft_put_signal(ctx, area->data, payload, sizeof payload, &area->signal, 1,
                               WEFT_SIGNAL_ADD, pe));
            if (pe)
                continue;
            OK(weft_atomic_fetch_add64(ctx, &area->ticket, 1, &before, 0));
            CHECK(before < (uint64_t)npes * rounds && !seen[before]);
            seen[before] = 1;
            do /* a lock, by compare and swap, over a word that is read and written */
                OK(weft_atomic_cswap32(ctx, &area->locked, 0, (uint32_t)me + 1, &holder, 0));
            while (holder);
            OK(weft_g32(ctx, &area->narrow, &narrow, 0));
            OK(weft_p32(ctx, &area->narrow, narrow + 3, 0));
            OK(weft_fence(ctx));
            OK(weft_atomic_swap32(ctx, &area->locked, 0, &holder, 0));
            CHECK(holder == (uint32_t)me + 1);
        }
    OK(weft_barrier(weft_team_world(job)));
    uint64_t sum = area->words[0] + area->words[1] + area->words[2], all = (uint64_t)npes * rounds;
    if (sum != 3 * all || area->signal != 2 * all || area->data[3] != 8 ||
        (!me && (area->ticket != all || area->narrow != 3 * all))) {
        fprintf(stderr, "PE %d: words %llu of %llu, signals %llu of %llu, tickets %llu, lock %u\n",
                me, (unsigned long long)sum, (unsigned long long)(3 * all),
                (unsigned long long)area->signal, (unsigned long long)(2 * all),
                (unsigned long long)area->ticket, area->narrow);
        exit(1);
    }
    free(seen);
    OK(weft_free(job, area));
}

/* What precedes a fence arrives before what follows it, though the atomic goes by the adapter and
 * the flag is a store of this PE. PE 0 tells PE 1; also PE 0 itself. */
static void order(void)
{
    struct area {
        uint64_t word;
        _Alignas(64) uint64_t flag;
        _Alignas(64) uint64_t back;
    } *area = alloc(job, sizeof *area);
    uint64_t late = 0;
    for (uint64_t round = 1; round <= 2 * (uint64_t)rounds && me < PER_NODE; round++) {
        if (me == 1) {
            OK(weft_wait_until(ctx, WEFT_UINT64, &area->flag, WEFT_GE, round));
            late += __atomic_load_n(&area->word, __ATOMIC_RELAXED) < round;
            OK(weft_p64(ctx, &area->back, round, 0));
            continue;
        }
        OK(weft_atomic_add64(ctx, &area->word, 1, 1));
        OK(weft_fence(ctx));
        OK(weft_p64(ctx, &area->flag, round, 1));
        OK(weft_wait_until(ctx, WEFT_UINT64, &area->back, WEFT_GE, round));
        OK(weft_atomic_add64(ctx, &area->word, 1, 0));
        OK(weft_fence(ctx));
        late += __atomic_load_n(&area->word, __ATOMIC_RELAXED) != round;
    }
    CHECK(late == 0);
    OK(weft_barrier(weft_team_world(job)));
}

/* Atomics at the next node by another path than the data: a fence orders data before an atomic and
 * an atomic before data, and a put with signal its data before its signal. PE 0 tells the first PE
 * of the other node. */
static void order_apart(void)
{
    enum { BYTES = 256 << 10, LAST = BYTES / 8 - 1 };
    struct area {
        uint64_t data[BYTES / 8];
        _Alignas(64) uint64_t word;
        _Alignas(64) uint64_t flag;
        _Alignas(64) uint64_t signal;
        _Alignas(64) uint64_t back;
    } *area = alloc(job, sizeof *area), *mine = alloc(job, sizeof *mine);
    uint64_t late = 0, early = 0, unsignalled = 0, added = 0;
    for (uint64_t round = 1; round <= 150 && (!me || me == PER_NODE); round++) {
        uint64_t step = 3 * round;
        if (me) {
            OK(weft_wait_until(ctx, WEFT_UINT64, &area->word, WEFT_GE, round));
            late += area->data[0] != step || area->data[LAST] != step;
            OK(weft_p64(ctx, &area->back, step, 0));
            OK(weft_wait_until(ctx, WEFT_UINT64, &area->flag, WEFT_GE, round));
            early += __atomic_load_n(&area->signal, __ATOMIC_RELAXED) < 2 * round - 1;
            OK(weft_p64(ctx, &area->back, step + 1, 0));
            OK(weft_wait_until(ctx, WEFT_UINT64, &area->signal, WEFT_GE, 2 * round));
            unsignalled += area->data[0] != step + 1 || area->data[LAST] != step + 1;
            OK(weft_p64(ctx, &area->back, step + 2, 0));
            continue;
        }
        mine->data[0] = mine->data[LAST] = step;
        OK(weft_put_nbi(ctx, area->data, mine->data, BYTES, PER_NODE));
        OK(weft_fence(ctx));
        OK(weft_atomic_add64(ctx, &area->word, 1, PER_NODE));
        OK(weft_wait_until(ctx, WEFT_UINT64, &area->back, WEFT_GE, step));
        OK(weft_atomic_nbi(ctx, WEFT_AMO_ADD, 8, &area->signal, 0, 1, NULL, PER_NODE));
        OK(weft_fence(ctx));
        OK(weft_p64(ctx, &area->flag, round, PER_NODE));
        OK(weft_wait_until(ctx, WEFT_UINT64, &area->back, WEFT_GE, step + 1));
        mine->data[0] = mine->data[LAST] = step + 1;
        OK(weft_put_signal_nbi(ctx, area->data, mine->data, BYTES, &area->signal, 1,
                               WEFT_SIGNAL_ADD, PER_NODE));
        OK(weft_wait_until(ctx, WEFT_UINT64, &area->back, WEFT_GE, step + 2));
        added++;
    }
    if (late || early || unsignalled)
        fprintf(stderr,
                "data behind the atomic %llu times, the atomic behind data %llu, data behind "
                "the signal %llu\n",
                (unsigned long long)late, (unsigned long long)early,
                (unsigned long long)unsignalled);
    CHECK(!late && !early && !unsignalled && (me || added == 150));
    OK(weft_barrier(weft_team_world(job)));
    OK(weft_signal(ctx, &area->signal, 7, WEFT_SIGNAL_SET, (me + 1) % npes)); /* a write */
    OK(weft_quiet(ctx));
    OK(weft_barrier(weft_team_world(job)));
    CHECK(area->signal == 7);
}

static void none(int tested)
{
    static const char text[] = "atomics over path net, because the adapters have none";
    check_chosen("gda", false, text, tested);
    words();
    order_apart();
    chosen("gda", false, text);
    for (int pe = 0; pe < npes; pe++) { /* no adapter has refused an atomic */
        weft_path_info info = {.size = sizeof info};
        OK(weft_path_query(job, pe, &info));
        CHECK(!strstr(info.reason, "failed queues"));
    }
}

static void first_use(void)
{
    weft_path_info info = {.size = sizeof info};
    check_chosen("gda", true, "to be connected and tested at first use", 0);
    words();
    chosen("gda", true, "requests to mlx5_soft0");
    OK(weft_path_query(job, me ? 0 : npes - 1, &info));
    CHECK(!strstr(info.reason, "first use"));
}

/* Queues of PE `refuses` to the other node were not created, and each end of the links knows why.
 */
static void first_use_refused(int refuses, bool connect)
{
    const char *own = connect ? "port 1: it was not connected: mlx5_soft0 rejected INIT2RTR_QP"
                              : "port 1: it was not created: mlx5_soft0 rejected CREATE_";
    const char *its = connect ? "port 1: the peer has stopped the queue"
                              : "port 1: the peer's adapter refuses queues";
    /* An atomic of a peer comes before that PE uses its own queues. */
    uint64_t before, *early = alloc(job, sizeof *early);
    if (me != refuses)
        OK(weft_atomic_fetch_add64(ctx, early, 1, &before, refuses));
    OK(weft_barrier(weft_team_world(job)));
    if (me == refuses)
        CHECK(*early == (uint64_t)npes - 1);
    words();
    for (int pe = 0; pe < npes; pe++) {
        weft_path_info info = {.size = sizeof info};
        bool between = pe / PER_NODE != me / PER_NODE;
        OK(weft_path_query(job, pe, &info));
        const char *text = !between || (me != refuses && pe != refuses) ? "failed queues"
                           : me == refuses                              ? own
                                                                        : its;
        bool found = strstr(info.reason, text) != NULL;
        if (found != (text[0] == 'p') || strcmp(info.name, wanted_path(pe, "gda")) != 0) {
            fprintf(stderr, "PE %d to PE %d: path %s, \"%s\"; \"%s\"\n", me, pe, info.name,
                    info.reason, text);
            exit(1);
        }
    }
}

/* The faults of the software adapter happen at one PE alone. */
static void keep_faults_of(const char *pe)
{
    const char *own = getenv("WEFT_PE");
    if (pe && own && strcmp(own, pe) != 0)
        unsetenv("SOFT_HCA_FAIL_AT");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "refused") == 0)
        keep_faults_of(argc > 3 ? argv[3] : NULL);
    else if (strcmp(what, "first_use_refused") == 0)
        keep_faults_of(argv[2]);
    lying = strcmp(what, "fails") == 0;
    if (strstr(what, "first_use"))
        rounds = 40; /* what matters is over then */
    OK(weft_init(&job, NULL));
    ctx = weft_default_ctx(job);
    me = weft_my_pe(job);
    npes = weft_n_pes(job);
    if (lying)
        chosen("net", false, "gda: its path test failed; net: ");
    else if (strcmp(what, "lacks") == 0 || strcmp(what, "refused") == 0)
        chosen("net", false, argv[2]);
    else if (strcmp(what, "strong") == 0)
        chosen("gda", false, "requests to mlx5_soft0");
    else if (strncmp(what, "first_use", 9) != 0 && strncmp(what, "none", 4) != 0)
        chosen("gda", true, argc > 2 ? argv[2] : "requests to mlx5_soft0");
    if (strcmp(what, "first_use") == 0)
        first_use();
    else if (strcmp(what, "first_use_refused") == 0)
        first_use_refused(atoi(argv[2]), argc > 3);
    else if (strncmp(what, "none", 4) == 0)
        none(strcmp(what, "none") == 0);
    else if (strcmp(what, "order") == 0)
        order();
    else if (strcmp(what, "chosen") != 0)
        words();
    OK(weft_finalize(job));
    return 0;
}
