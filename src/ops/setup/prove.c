/* SPDX-License-Identifier: Apache-2.0 */
/* weft_prove(): tests every path. The two PEs of a pair exchange patterns, flags and atomics over
 * their path, as a program would, and compare what arrived. The evidence of a failure is
 * recorded. */
#include "ops/coll/coll.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROOF_ROUNDS = 8, PROOF_BYTES = 4096 };

/* Symmetric memory that the partner of the round writes. */
struct proof {
    uint64_t flag;
    uint64_t counter;
    unsigned char data[PROOF_BYTES];
};

static unsigned char pattern(int from, int round, int i)
{
    return (unsigned char)((unsigned)from * 131u + (unsigned)round * 17u + (unsigned)i * 7u + 1u);
}

static weft_status compare_received(const struct proof *proof, int partner, int round)
{
    for (int i = 0; i < PROOF_BYTES; i++)
        if (proof->data[i] != pattern(partner, round, i))
            return base_fail(WEFT_ERR_PATH,
                             "round %d: byte %d from PE %d is %#x where %#x was sent, although its "
                             "flag has arrived",
                             round, i, partner, proof->data[i], pattern(partner, round, i));
    return WEFT_OK;
}

static weft_status one_round(struct weft_job *job, struct proof *proof, struct proof *mine,
                             int partner, int round, uint64_t serial)
{
    weft_ctx *ctx = job->default_ctx;
    for (int i = 0; i < PROOF_BYTES; i++)
        mine->data[i] = pattern(job->pe, round, i);
    weft_status status = weft_put(ctx, proof->data, mine->data, PROOF_BYTES, partner);
    if (!status)
        status = weft_fence(ctx);
    if (!status)
        status = weft_p64(ctx, &proof->flag, serial, partner);
    if (!status)
        status = weft_wait_until(ctx, WEFT_UINT64, &proof->flag, WEFT_GE, serial);
    if (!status)
        status = compare_received(proof, partner, round);
    /* Handshake by atomics: the partner must have read before the next round writes. */
    uint64_t before;
    if (!status)
        status = weft_atomic_fetch_add64(ctx, &proof->counter, 1, &before, partner);
    if (!status)
        status = weft_wait_until(ctx, WEFT_UINT64, &proof->counter, WEFT_GE, (uint64_t)round + 1);
    if (!status && before > (uint64_t)round)
        status = base_fail(WEFT_ERR_PATH, "round %d: the counter at PE %d was %llu before the add",
                           round, partner, (unsigned long long)before);
    return status;
}

/* Tests one pair. A failure is only recorded in `evidence`. */
static void prove_pair(struct weft_job *job, struct proof *proof, struct proof *mine, int partner,
                       uint64_t serial, char evidence[PROVE_EVIDENCE_BYTES])
{
    weft_status status = WEFT_OK;
    for (int round = 0; round < PROOF_ROUNDS && !status; round++)
        status = one_round(job, proof, mine, partner, round, serial + (uint64_t)round);
    if (status)
        snprintf(evidence, PROVE_EVIDENCE_BYTES, "%s", weft_last_error());
}

/* Partner of `pe` in a round of a round-robin tournament of n (even) players: every pair meets once
 * in n - 1 rounds (circle method). */
static int tournament_partner(int pe, int round, int n)
{
    int ring = n - 1;
    if (pe == ring)
        return round * (n / 2) % ring; /* the player i with 2 i = round (mod ring) */
    int partner = ((round - pe) % ring + ring) % ring;
    return partner == pe ? ring : partner;
}

/* Tests every pair once. Barriers of the boot protocol separate the rounds; they need none of the
 * paths. */
static weft_status prove_all(struct weft_job *job, struct proof *proof, struct proof *mine,
                             uint64_t *serial, char (*evidence)[PROVE_EVIDENCE_BYTES])
{
    int players = job->npes + job->npes % 2;
    weft_status status = WEFT_OK;
    for (int round = 0; round < players - 1 && !status; round++, *serial += PROOF_ROUNDS) {
        int partner = tournament_partner(job->pe, round, players);
        if (partner < job->npes)
            prove_pair(job, proof, mine, partner, *serial, evidence[partner]);
        status = job->boot->ops->barrier(job->boot);
        proof->counter = 0;
        if (!status)
            status = job->boot->ops->barrier(job->boot);
    }
    return status;
}

static weft_status prove_until_settled(struct weft_job *job, struct proof *proof,
                                       struct proof *mine)
{
    size_t bytes = (size_t)job->npes * PROVE_EVIDENCE_BYTES;
    char(*evidence)[PROVE_EVIDENCE_BYTES] = malloc(bytes);
    weft_status status = evidence ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory");
    bool again = true;
    for (uint64_t serial = 1; again && !status;) {
        memset(evidence, 0, bytes);
        status = prove_all(job, proof, mine, &serial, evidence);
        if (!status)
            status = job_drop_failed_paths(job, WEFT_HOST, evidence, &again);
    }
    free(evidence);
    return status;
}

WEFT_EXPORT weft_status weft_prove(weft_job *job)
{
    if (!job)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_prove: job is null");
    if (atomic_load(&job->state) != JOB_RUNNING)
        return job_finalized("weft_prove");
    struct proof *proof = NULL, *mine = malloc(sizeof *mine);
    if (!mine)
        return base_fail(WEFT_ERR_NO_MEMORY, "weft_prove: no private memory");
    /* A barrier first: if a PE does not call weft_prove(), the error names weft_prove() and not a
     * function that it uses. */
    weft_status status = coll_barrier("weft_prove", job->world, BOX_OP_PROVE);
    if (!status)
        status = weft_alloc(job, WEFT_HOST, sizeof *proof, 0, WEFT_ALLOC_ZERO, (void **)&proof);
    if (!status)
        status = prove_until_settled(job, proof, mine);
    free(mine);
    if (proof && !status)
        status = weft_free(job, proof);
    return status;
}
