/* SPDX-License-Identifier: Apache-2.0 */
/* See prove.h. */
#include "path/prove.h"

#include "base/status.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

enum { DATA_WORDS = 6 };

/* Differs in every byte between pairs, path tests and words, and is never all zeros or ones. */
static uint64_t make_pattern(int from, int to, uint64_t round, int word)
{
    uint64_t x = (uint64_t)from << 40 ^ (uint64_t)to << 20 ^ round << 4 ^ (uint64_t)word;
    x = (x + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* The value that path test `round` adds to the counter: large, so that a lost half of the word is
 * noticed. */
static uint64_t make_addend(int from, int to, uint64_t round)
{
    return make_pattern(from, to, round, DATA_WORDS) >> 3;
}

/* The start value of the counter: a path test does not depend on an earlier one, whose atomics may
 * have been lost. */
static uint64_t make_start_value(int from, int to, uint64_t round)
{
    return make_pattern(from, to, round, DATA_WORDS + 1);
}

static struct remote remote_field(struct remote line, size_t offset)
{
    line.offset += offset;
    return line;
}

static weft_status run_operations(struct remote to, struct peer *atomics, uint64_t round,
                                  uint64_t *before, uint64_t *back)
{
    const struct path_ops *ops = to.peer->ops;
    struct path_state *state = to.peer->state;
    struct remote counter = {atomics, to.segment, to.offset + offsetof(struct prove_line, counter)};
    int me = to.peer->world->pe, pe = to.peer->pe;
    uint64_t data[DATA_WORDS];
    for (int i = 0; i < DATA_WORDS; i++)
        data[i] = make_pattern(me, pe, round, i);
    weft_status status =
        ops->put(remote_field(to, offsetof(struct prove_line, data)), data, sizeof data, false);
    if (!status)
        status = atomics->ops->atomic(counter, WEFT_AMO_SET, sizeof *before,
                                      make_start_value(me, pe, round), 0, NULL, false);
    if (!status)
        status = ops->fence(state);
    if (!status)
        status =
            ops->store(remote_field(to, offsetof(struct prove_line, flag)), &round, sizeof round);
    if (!status)
        status = atomics->ops->atomic(counter, WEFT_AMO_FETCH_ADD, sizeof *before,
                                      make_addend(me, pe, round), 0, before, false);
    if (!status)
        status = ops->quiet(state);
    if (!status)
        status = ops->get(remote_field(to, offsetof(struct prove_line, data)), back,
                          DATA_WORDS * sizeof *back, false);
    return status;
}

void prove_send(struct remote to, struct peer *atomics, uint64_t round,
                char evidence[PROVE_EVIDENCE_BYTES])
{
    int me = to.peer->world->pe, pe = to.peer->pe;
    uint64_t before = 0, back[DATA_WORDS] = {0};
    evidence[0] = '\0';
    weft_status status = run_operations(to, atomics, round, &before, back);
    if (status) {
        base_shorten(evidence, PROVE_EVIDENCE_BYTES, base_last_error());
        return;
    }
    if (before != make_start_value(me, pe, round)) {
        snprintf(evidence, PROVE_EVIDENCE_BYTES,
                 "an atomic from PE %d found %#llx at PE %d instead of %#llx", me,
                 (unsigned long long)before, pe,
                 (unsigned long long)make_start_value(me, pe, round));
        return;
    }
    for (int i = 0; i < DATA_WORDS; i++)
        if (back[i] != make_pattern(me, pe, round, i)) {
            snprintf(evidence, PROVE_EVIDENCE_BYTES,
                     "PE %d read word %d back from PE %d as %#llx; it had put %#llx", me, i, pe,
                     (unsigned long long)back[i],
                     (unsigned long long)make_pattern(me, pe, round, i));
            return;
        }
}

void prove_receive(const struct prove_line *line, int from, int me, uint64_t round,
                   char evidence[PROVE_EVIDENCE_BYTES])
{
    /* Acquire: pairs with the store of the flag, which the sender ordered after the data. */
    uint64_t flag = __atomic_load_n(&line->flag, __ATOMIC_ACQUIRE);
    uint64_t counter = __atomic_load_n(&line->counter, __ATOMIC_RELAXED);
    uint64_t expected = make_start_value(from, me, round) + make_addend(from, me, round);
    evidence[0] = '\0';
    if (flag != round) {
        snprintf(evidence, PROVE_EVIDENCE_BYTES, "the flag of PE %d shows %llu at PE %d, not %llu",
                 from, (unsigned long long)flag, me, (unsigned long long)round);
        return;
    }
    for (int i = 0; i < DATA_WORDS; i++)
        if (line->data[i] != make_pattern(from, me, round, i)) {
            snprintf(evidence, PROVE_EVIDENCE_BYTES,
                     "word %d from PE %d is %#llx at PE %d instead of %#llx", i, from,
                     (unsigned long long)line->data[i], me,
                     (unsigned long long)make_pattern(from, me, round, i));
            return;
        }
    if (counter != expected)
        snprintf(evidence, PROVE_EVIDENCE_BYTES,
                 "atomics of PE %d added up to %#llx at PE %d instead of %#llx", from,
                 (unsigned long long)counter, me, (unsigned long long)expected);
}
