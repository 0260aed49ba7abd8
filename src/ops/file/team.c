/* SPDX-License-Identifier: Apache-2.0 */
/* A file spread over the members of a team, and gathered from them. Who has the file is told to
 * all; each block then has one mover, which everybody works out alike, and what came of it is told
 * to all. */
#include "ops/coll/coll.h"
#include "ops/file/file.h"

#include <stdlib.h>

/* What a member tells before, and after. */
struct card {
    uint64_t bytes, offset;
    int32_t has, refused; /* the file; a status that keeps this member from moving anything */
};

/* Of the block of another member, told to that one. */
struct outcome {
    uint64_t done;
    int32_t status, error;
    uint32_t crc32c, spare;
};

struct spread {
    const char *function;
    struct weft_team *team;
    weft_file *file;
    char *memory;
    size_t bytes;
    uint64_t offset;
    bool write;
    struct card *cards; /* [team->n] */
};

/* The member that moves block i: its own one, else those that have the file in turn. -1: nobody has
 * it. */
static int mover_of(const struct spread *s, int i)
{
    int holders = 0, wanted = 0;
    if (s->cards[i].has)
        return i;
    for (int k = 0; k < s->team->n; k++)
        holders += s->cards[k].has != 0;
    if (!holders)
        return -1;
    for (int k = 0; k < i; k++)
        wanted += !s->cards[k].has;
    wanted %= holders;
    for (int k = 0; k < s->team->n; k++)
        if (s->cards[k].has && wanted-- == 0)
            return k;
    return -1;
}

static weft_status compare_parts(const struct spread *s)
{
    for (int i = 1; i < s->team->n; i++)
        if (s->cards[i].bytes != s->cards[0].bytes || s->cards[i].offset != s->cards[0].offset)
            return base_fail(
                WEFT_ERR_MISMATCH,
                "%s: PE %d calls it with %llu bytes at offset %llu, PE %d with %llu at %llu",
                s->function, s->team->pes[i], (unsigned long long)s->cards[i].bytes,
                (unsigned long long)s->cards[i].offset, s->team->pes[0],
                (unsigned long long)s->cards[0].bytes, (unsigned long long)s->cards[0].offset);
    for (int i = 0; i < s->team->n; i++)
        if (s->cards[i].refused)
            return base_fail((weft_status)s->cards[i].refused, "%s: PE %d cannot take part: %s",
                             s->function, s->team->pes[i],
                             i == s->team->me ? weft_last_error()
                                              : weft_status_text((weft_status)s->cards[i].refused));
    return mover_of(s, 0) < 0
               ? base_fail(WEFT_ERR_ARGUMENT, "%s: file is null at every member", s->function)
               : WEFT_OK;
}

/* Moves the blocks that are this member's to move; outcomes[i] is for member i. */
static weft_status move_mine(const struct spread *s, struct outcome *outcomes)
{
    int n = s->team->n;
    weft_file_result *results = calloc((unsigned)n, sizeof *results);
    struct file_transfer *list = calloc((unsigned)n, sizeof *list);
    size_t count = 0;
    weft_status status = results && list
                             ? WEFT_OK
                             : base_fail(WEFT_ERR_NO_MEMORY, "%s: no private memory", s->function);
    for (int i = 0; i < n && s->bytes && results && list; i++) {
        if (mover_of(s, i) != s->team->me)
            continue;
        struct file_part part = {s->memory, s->bytes, s->offset + (uint64_t)i * s->bytes,
                                 s->team->pes[i], &results[i]};
        weft_status found = file_find(s->function, s->file, s->write, &part, &list[count]);
        if (found)
            results[i].status = found;
        else
            count++;
        status = status ? status : found;
    }
    if (count) {
        weft_status moved = file_engine_run(s->file->engine, list, count);
        status = status ? status : moved;
    }
    for (int i = 0; i < n; i++)
        outcomes[i] = results && list ? (struct outcome){.done = results[i].done,
                                                         .status = results[i].status,
                                                         .error = results[i].error,
                                                         .crc32c = results[i].crc32c}
                                      : (struct outcome){.status = WEFT_ERR_NO_MEMORY};
    free(list);
    free(results);
    return status;
}

/* What came of each block is told to all, so that all return the same. */
static weft_status tell(const struct spread *s, const struct outcome *outcomes, struct outcome *all,
                        weft_file_result *result)
{
    struct outcome mine;
    struct weft_team *team = s->team;
    /* To each member what was done for it; then each tells of its own block. */
    weft_status status = coll_exchange_each(team, BOX_OP_FILE_TEAM, outcomes, all, sizeof *all);
    if (status)
        return status;
    mine = all[mover_of(s, team->me)];
    if (result)
        *result = (weft_file_result){.status = (weft_status)mine.status,
                                     .error = mine.error,
                                     .done = mine.done,
                                     .crc32c = mine.crc32c};
    status = coll_exchange(team, BOX_OP_FILE_TEAM, &mine, all, sizeof mine);
    for (int i = 0; i < team->n && !status; i++)
        if (all[i].status)
            status = base_fail(
                (weft_status)all[i].status,
                "%s: block %d, for PE %d, moved by PE %d: %s; its first %llu bytes are safe",
                s->function, i, team->pes[i], team->pes[mover_of(s, i)],
                all[i].error ? strerror(all[i].error)
                             : weft_status_text((weft_status)all[i].status),
                (unsigned long long)all[i].done);
    return status;
}

static weft_status run_parts(struct spread *s, weft_file_result *result)
{
    struct weft_team *team = s->team;
    struct outcome *outcomes = calloc(2 * (size_t)(unsigned)team->n, sizeof *outcomes);
    s->cards = calloc((unsigned)team->n, sizeof *s->cards);
    weft_status own = outcomes && s->cards ? WEFT_OK : WEFT_ERR_NO_MEMORY;
    if (own) { /* the others wait for this one: the job cannot go on */
        free(outcomes);
        free(s->cards);
        base_fail(own, "%s: no private memory for %d members", s->function, team->n);
        return job_fail_all(team->job, own, weft_last_error());
    }
    struct card card = {.bytes = s->bytes, .offset = s->offset, .has = s->file != NULL};
    if (s->file)
        card.refused = file_check(s->function, s->file);
    weft_status status = coll_exchange(team, BOX_OP_FILE_TEAM, &card, s->cards, sizeof card);
    if (!status)
        status = compare_parts(s);
    if (!status) {
        move_mine(s, outcomes); /* failures are in the outcomes */
        status = tell(s, outcomes, outcomes + team->n, result);
    }
    free(s->cards);
    free(outcomes);
    return status;
}

static weft_status spread(struct spread s, weft_file_result *result)
{
    struct place place;
    uint64_t phase;
    weft_status status =
        coll_begin(s.function, s.team, BOX_OP_FILE_TEAM, 0, s.bytes, s.offset, &phase);
    if (status || !s.bytes)
        return status;
    bool gpu = s.team->job->gpu && gpu_place_of(s.team->job->gpu, s.memory) == GPU_PLACE_DEVICE;
    if (!gpu)
        status = coll_place(s.function, s.write ? "src" : "dst", s.team, s.memory, s.bytes, &place);
    if (!status && s.bytes > (uint64_t)INT64_MAX / (uint64_t)s.team->n)
        status =
            base_fail(WEFT_ERR_RANGE, "%s: %d blocks of %zu bytes are more than a file can have",
                      s.function, s.team->n, s.bytes);
    return status ? status : run_parts(&s, result);
}

WEFT_EXPORT weft_status weft_file_scatter(weft_team *team, weft_file *file, void *dst, size_t bytes,
                                          uint64_t offset, weft_file_result *result)
{
    return spread((struct spread){.function = "weft_file_scatter",
                                  .team = team,
                                  .file = file,
                                  .memory = dst,
                                  .bytes = bytes,
                                  .offset = offset},
                  result);
}

WEFT_EXPORT weft_status weft_file_gather(weft_team *team, weft_file *file, const void *src,
                                         size_t bytes, uint64_t offset, weft_file_result *result)
{
    return spread((struct spread){.function = "weft_file_gather",
                                  .team = team,
                                  .file = file,
                                  .memory = (char *)src,
                                  .bytes = bytes,
                                  .offset = offset,
                                  .write = true},
                  result);
}
