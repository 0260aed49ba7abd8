/* SPDX-License-Identifier: Apache-2.0 */
/* Collective file transfers: one block for each member of a team. The members exchange which of
 * them have the file open. From that all members compute the same assignment of each block to one
 * member that transfers it; afterwards they exchange the results. */
#include "ops/coll/coll.h"
#include "ops/file/file.h"

#include <stdlib.h>

/* What a member reports before the transfer. */
struct transfer_record {
    uint64_t bytes, offset;
    /* has_file: this member has the file open. refused: status that prevents this member from
     * transfers */
    int32_t has_file, refused;
};

/* Result of a block that was transferred for another member; sent to that member. */
struct block_result {
    uint64_t done;
    int32_t status, error;
    uint32_t crc32c, spare;
};

struct team_transfer {
    const char *function;
    struct weft_team *team;
    weft_file *file;
    char *memory;
    size_t bytes;
    uint64_t offset;
    bool write;
    struct transfer_record *records; /* [team->n] */
};

/* Returns the member that transfers block i: member i if it has the file, else the members with the
 * file in turn. -1: no member has the file. */
static int mover_of(const struct team_transfer *s, int i)
{
    int with_file = 0, wanted = 0;
    if (s->records[i].has_file)
        return i;
    for (int k = 0; k < s->team->n; k++)
        with_file += s->records[k].has_file != 0;
    if (!with_file)
        return -1;
    for (int k = 0; k < i; k++)
        wanted += !s->records[k].has_file;
    wanted %= with_file;
    for (int k = 0; k < s->team->n; k++)
        if (s->records[k].has_file && wanted-- == 0)
            return k;
    return -1;
}

static weft_status compare_parts(const struct team_transfer *s)
{
    for (int i = 1; i < s->team->n; i++)
        if (s->records[i].bytes != s->records[0].bytes ||
            s->records[i].offset != s->records[0].offset)
            return base_fail(
                WEFT_ERR_MISMATCH,
                "%s: PE %d calls it with %llu bytes at offset %llu, PE %d with %llu at %llu",
                s->function, s->team->pes[i], (unsigned long long)s->records[i].bytes,
                (unsigned long long)s->records[i].offset, s->team->pes[0],
                (unsigned long long)s->records[0].bytes, (unsigned long long)s->records[0].offset);
    for (int i = 0; i < s->team->n; i++)
        if (s->records[i].refused)
            return base_fail((weft_status)s->records[i].refused, "%s: PE %d cannot take part: %s",
                             s->function, s->team->pes[i],
                             i == s->team->me
                                 ? weft_last_error()
                                 : weft_status_text((weft_status)s->records[i].refused));
    return mover_of(s, 0) < 0
               ? base_fail(WEFT_ERR_ARGUMENT, "%s: file is null at every member", s->function)
               : WEFT_OK;
}

/* Transfers the blocks that are assigned to this member. outcomes[i] is the result for member i. */
static weft_status move_mine(const struct team_transfer *s, struct block_result *outcomes)
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
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): file_find() refuses NULL */
        weft_status moved = file_engine_run(s->file->engine, list, count);
        status = status ? status : moved;
    }
    for (int i = 0; i < n; i++)
        outcomes[i] = results && list ? (struct block_result){.done = results[i].done,
                                                              .status = results[i].status,
                                                              .error = results[i].error,
                                                              .crc32c = results[i].crc32c}
                                      : (struct block_result){.status = WEFT_ERR_NO_MEMORY};
    free(list);
    free(results);
    return status;
}

/* Exchanges the result of each block, so that all members return the same status. */
static weft_status exchange_outcomes(const struct team_transfer *s,
                                     const struct block_result *outcomes, struct block_result *all,
                                     weft_file_result *result)
{
    struct block_result mine;
    struct weft_team *team = s->team;
    /* First each member receives the result of its own block, then all members exchange these
     * results. */
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
                "%s: block %d for PE %d, transferred by PE %d: %s; its first %llu bytes are safe",
                s->function, i, team->pes[i], team->pes[mover_of(s, i)],
                all[i].error ? strerror(all[i].error)
                             : weft_status_text((weft_status)all[i].status),
                (unsigned long long)all[i].done);
    return status;
}

static weft_status run_parts(struct team_transfer *s, weft_file_result *result)
{
    struct weft_team *team = s->team;
    struct block_result *outcomes = calloc(2 * (size_t)(unsigned)team->n, sizeof *outcomes);
    s->records = calloc((unsigned)team->n, sizeof *s->records);
    weft_status own = outcomes && s->records ? WEFT_OK : WEFT_ERR_NO_MEMORY;
    if (own) { /* the other members wait for this one, so the job must fail */
        free(outcomes);
        free(s->records);
        base_fail(own, "%s: no private memory for %d members", s->function, team->n);
        return job_fail_all(team->job, own, weft_last_error());
    }
    struct transfer_record own_record = {
        .bytes = s->bytes, .offset = s->offset, .has_file = s->file != NULL};
    if (s->file)
        own_record.refused = file_check(s->function, s->file);
    weft_status status =
        coll_exchange(team, BOX_OP_FILE_TEAM, &own_record, s->records, sizeof own_record);
    if (!status)
        status = compare_parts(s);
    if (!status) {
        move_mine(s, outcomes); /* failures are reported in outcomes */
        status = exchange_outcomes(s, outcomes, outcomes + team->n, result);
    }
    free(s->records);
    free(outcomes);
    return status;
}

static weft_status team_transfer(struct team_transfer s, weft_file_result *result)
{
    struct symmetric_range range;
    uint64_t phase;
    weft_status status =
        coll_begin(s.function, s.team, BOX_OP_FILE_TEAM, 0, s.bytes, s.offset, &phase);
    if (status || !s.bytes)
        return status;
    bool gpu = s.team->job->gpu && gpu_place_of(s.team->job->gpu, s.memory) == GPU_PLACE_DEVICE;
    if (!gpu)
        status =
            coll_find_range(s.function, s.write ? "src" : "dst", s.team, s.memory, s.bytes, &range);
    if (!status && s.bytes > (uint64_t)INT64_MAX / (uint64_t)s.team->n)
        status =
            base_fail(WEFT_ERR_RANGE, "%s: %d blocks of %zu bytes exceed the largest file size",
                      s.function, s.team->n, s.bytes);
    return status ? status : run_parts(&s, result);
}

WEFT_EXPORT weft_status weft_file_scatter(weft_team *team, weft_file *file, void *dst, size_t bytes,
                                          uint64_t offset, weft_file_result *result)
{
    return team_transfer((struct team_transfer){.function = "weft_file_scatter",
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
    return team_transfer((struct team_transfer){.function = "weft_file_gather",
                                                .team = team,
                                                .file = file,
                                                .memory = (char *)src,
                                                .bytes = bytes,
                                                .offset = offset,
                                                .write = true},
                         result);
}
