/* SPDX-License-Identifier: Apache-2.0 */
/* All paths through memory of a pair within a node fail their path test; path net is then loaded
 * and used. The linker's --wrap lets the path tests of p2p and staged fail: it puts a failure into
 * the evidence they return.
 *
 *   last_way taken       libfabric is available: the job continues over net
 *   last_way absent      libfabric cannot be loaded: the job fails and says what net lacks
 *   last_way excluded    WEFT_PATH=^net: the job fails without loading libfabric
 *   last_way later       p2p and staged fail only in weft_prove() */
#include "job/job.h"
#include "tests/job/job.h"

#include <dlfcn.h>
#include <stdbool.h>

void __real_prove_send(struct remote to, struct peer *atomics, uint64_t number,
                       char evidence[PROVE_EVIDENCE_BYTES]);
void __wrap_prove_send(struct remote to, struct peer *atomics, uint64_t number,
                       char evidence[PROVE_EVIDENCE_BYTES]);
weft_status __real_job_drop_failed_paths(struct weft_job *job, weft_kind kind,
                                         char (*evidence)[PROVE_EVIDENCE_BYTES], bool *again);
weft_status __wrap_job_drop_failed_paths(struct weft_job *job, weft_kind kind,
                                         char (*evidence)[PROVE_EVIDENCE_BYTES], bool *again);
void *__real_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags);

static bool lying = true, absent;
static int looked; /* attempts to load libfabric */

/* Only one end of a pair sees the failure. In weft_init() both functions below call this: lld wraps
 * job_drop_failed_paths() also where it is called in its own file, ld does not. */
static void lie(int from, int to, int path, char evidence[PROVE_EVIDENCE_BYTES])
{
    if (strcmp(evidence, "made to lie") == 0)
        return;
    CHECK(!evidence[0]);
    if (lying && to > from && (path == PATH_P2P || path == PATH_STAGED))
        snprintf(evidence, PROVE_EVIDENCE_BYTES, "made to lie");
}

/* The path test in weft_init(). */
void __wrap_prove_send(struct remote to, struct peer *atomics, uint64_t number,
                       char evidence[PROVE_EVIDENCE_BYTES])
{
    __real_prove_send(to, atomics, number, evidence);
    lie(to.peer->world->pe, to.peer->pe, to.peer->path, evidence);
}

/* The path test in weft_prove(). */
weft_status __wrap_job_drop_failed_paths(struct weft_job *job, weft_kind kind,
                                         char (*evidence)[PROVE_EVIDENCE_BYTES], bool *again)
{
    for (int pe = 0; pe < job->npes; pe++)
        lie(job->pe, pe, job->paths.choices[kind][pe].path, evidence[pe]);
    return __real_job_drop_failed_paths(job, kind, evidence, again);
}

void *__wrap_dlopen(const char *name, int flags)
{
    bool fabric = name && strstr(name, "libfabric");
    looked += fabric;
    return fabric && absent ? __real_dlopen("libno-such-fabric.so.1", flags)
                            : __real_dlopen(name, flags);
}

/* Every kind of operation between all pairs, with correct results. */
static void use(weft_job *job)
{
    enum { WORDS = 40001 }; /* large enough for RMA writes; the last fragment has an odd size */
    weft_ctx *ctx = weft_default_ctx(job);
    int me = weft_my_pe(job), npes = weft_n_pes(job), next = (me + 1) % npes,
        before = (me + npes - 1) % npes;
    uint64_t *to = alloc(job, (WORDS + 2) * sizeof *to), *from = alloc(job, WORDS * sizeof *to);
    for (uint64_t i = 0; i < WORDS; i++)
        from[i] = i * 0x9e3779b97f4a7c15u + (uint64_t)me;
    OK(weft_put_signal(ctx, to, from, WORDS * sizeof *to, &to[WORDS], 7, WEFT_SIGNAL_SET, next));
    OK(weft_signal_wait(ctx, &to[WORDS], WEFT_EQ, 7, NULL));
    for (uint64_t i = 0; i < WORDS; i++)
        CHECK(to[i] == i * 0x9e3779b97f4a7c15u + (uint64_t)before);
    for (int pe = 0; pe < npes; pe++)
        OK(weft_atomic_add64(ctx, &to[WORDS + 1], (uint64_t)(me + 1) << 33, pe));
    OK(weft_barrier(weft_team_world(job)));
    CHECK(to[WORDS + 1] == (uint64_t)(npes * (npes + 1) / 2) << 33);
    memset(from, 0, WORDS * sizeof *from);
    OK(weft_get(ctx, from, to, WORDS * sizeof *to, next));
    for (uint64_t i = 0; i < WORDS; i++)
        CHECK(from[i] == i * 0x9e3779b97f4a7c15u + (uint64_t)me);
    OK(weft_barrier(weft_team_world(job)));
}

static void is_over(weft_job *job, const char *name)
{
    for (int pe = 0; pe < weft_n_pes(job); pe++) {
        weft_path_info info = {.size = sizeof info};
        OK(weft_path_query(job, pe, &info));
        bool self = pe == weft_my_pe(job);
        CHECK(strcmp(info.name, self ? "self" : name) == 0 && info.proven == 1);
        if (self || strcmp(name, "net") != 0)
            continue;
        CHECK(
            strstr(info.reason, "p2p: its path test failed; staged: its path test failed; gda: "));
        CHECK(strstr(info.reason, "; net: provider "));
        CHECK(strstr(info.reason, "(staged: made to lie)"));
        void *somewhere = alloc(job, 8);
        CHECK(weft_ptr(job, somewhere, pe) == NULL);
        OK(weft_free(job, somewhere));
    }
}

static void taken(void)
{
    weft_job *job;
    OK(weft_init(&job, NULL));
    CHECK(looked == 1);
    is_over(job, "net");
    use(job);
    OK(weft_finalize(job));
}

static void later(void)
{
    weft_job *job;
    lying = false;
    OK(weft_init(&job, NULL));
    CHECK(looked == 0);
    is_over(job, "p2p");
    use(job);
    lying = true;
    OK(weft_prove(job)); /* p2p fails here, then staged; net remains */
    is_over(job, "net");
    use(job);
    OK(weft_finalize(job));
}

static void fails(const char *lacks)
{
    weft_job *job;
    CHECK(weft_init(&job, NULL) == WEFT_ERR_NO_PATH);
    const char *said = weft_last_error();
    CHECK(strstr(said, "from PE ") &&
          strstr(said, "p2p: its path test failed; staged: its path test failed"));
    CHECK(strstr(said, lacks));
    CHECK(strstr(said, "the test of path staged saw: made to lie"));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "taken") == 0) {
        taken();
    } else if (strcmp(what, "later") == 0) {
        later();
    } else if (strcmp(what, "absent") == 0) {
        absent = true;
        fails("; net: PE 0: libfabric cannot be loaded (libno-such-fabric.so.1: ");
        CHECK(looked == 1);
    } else if (strcmp(what, "excluded") == 0) {
        fails("; net: excluded by WEFT_PATH");
        CHECK(looked == 0);
    } else {
        return 2;
    }
    puts("as it should be"); /* a job whose PEs could not join also ends with status 1 */
    return 0;
}
