/* SPDX-License-Identifier: Apache-2.0 */
/* See state.h. Every PE writes and reads its part of each array in the checkpoint's order, and
 * sends what it has read to all PEs. */
#include "state.h"
#include "../check.h"
#include "../checkpoint/checkpoint.h"

#include <inttypes.h>
#include <string.h>

enum { SETTINGS, VALUES, FIRST, SECOND, ARRAYS };

struct parts {
    weft_job *job;
    int me, n;
    void *whole[ARRAYS]; /* symmetric */
    struct checkpoint_array arrays[ARRAYS];
};

/* The name of the arrays contains the shape, so an error message shows both shapes. */
static void make_parts(struct parts *p, weft_job *job, const model_shape *shape,
                       const struct parallel_state *state, uint64_t *settings)
{
    *p = (struct parts){.job = job,
                        .me = weft_my_pe(job),
                        .n = weft_n_pes(job),
                        .whole = {settings, state->values, state->first, state->second}};
    for (int i = 0; i < ARRAYS; i++) {
        struct checkpoint_array *a = &p->arrays[i];
        uint64_t first, count;
        a->element_bytes = i == SETTINGS ? sizeof *settings : sizeof(float);
        a->elements = i == SETTINGS ? (uint64_t)STATE_SETTINGS : model_floats(shape);
        checkpoint_range(a, p->me, p->n, &first, &count);
        a->memory = (char *)p->whole[i] + first * a->element_bytes;
    }
    snprintf(p->arrays[SETTINGS].name, CHECKPOINT_NAME, "settings");
    snprintf(p->arrays[VALUES].name, CHECKPOINT_NAME, "%ux%u context %u vocabulary %u",
             shape->layers, shape->width, shape->context, shape->vocabulary);
    snprintf(p->arrays[FIRST].name, CHECKPOINT_NAME, "first moments");
    snprintf(p->arrays[SECOND].name, CHECKPOINT_NAME, "second moments");
}

static bool failed(weft_job *job)
{
    if (weft_my_pe(job) == 0)
        fprintf(stderr, "train: %s\n", checkpoint_error());
    return false;
}

static uint64_t *settings_memory(weft_job *job, const struct state_settings *settings)
{
    void *memory;
    CHECK(job, weft_alloc(job, WEFT_HOST, sizeof *settings, 0, 0, &memory));
    memcpy(memory, settings, sizeof *settings);
    return memory;
}

bool state_save(weft_job *job, const char *path, const model_shape *shape,
                const struct state_settings *settings, struct parallel *parallel, uint64_t step)
{
    struct parts parts;
    struct parallel_state state;
    uint64_t *memory = settings_memory(job, settings);
    CHECK(job, parallel_state(parallel, &state));
    make_parts(&parts, job, shape, &state, memory);
    weft_status status = checkpoint_write(job, path, step, parts.arrays, ARRAYS);
    CHECK(job, weft_free(job, memory));
    return !status || failed(job);
}

/* Sends the own part of every array to all other PEs. */
static void send_to_all(const struct parts *p)
{
    weft_ctx *ctx = weft_default_ctx(p->job);
    for (int i = 0; i < ARRAYS; i++) {
        const struct checkpoint_array *a = &p->arrays[i];
        uint64_t first, count;
        checkpoint_range(a, p->me, p->n, &first, &count);
        for (int pe = 0; pe < p->n && count; pe++)
            if (pe != p->me)
                CHECK(p->job, weft_put(ctx, a->memory, a->memory, count * a->element_bytes, pe));
    }
    CHECK(p->job, weft_barrier(weft_team_world(p->job)));
}

static bool same_settings(weft_job *job, const char *path, const uint64_t *found,
                          const struct state_settings *settings)
{
    static const char *const names[STATE_SETTINGS] = {"--micro", "--batch", "--heads",
                                                      "--seed",  "--rate",  "a text with checksum"};
    for (int i = 0; i < STATE_SETTINGS; i++) {
        char is[32], was[32];
        const char *form = i == STATE_TEXT ? "%08" PRIx64 : "%" PRIu64;
        if (found[i] == settings->value[i])
            continue;
        snprintf(is, sizeof is, form, settings->value[i]);
        snprintf(was, sizeof was, form, found[i]);
        if (i == STATE_RATE) {
            uint32_t bits[2] = {(uint32_t)settings->value[i], (uint32_t)found[i]};
            float rates[2];
            memcpy(rates, bits, sizeof rates);
            snprintf(is, sizeof is, "%g", (double)rates[0]);
            snprintf(was, sizeof was, "%g", (double)rates[1]);
        }
        if (weft_my_pe(job) == 0)
            fprintf(stderr,
                    "train: %s is of a run with %s %s, not %s: resume with the same settings\n",
                    path, names[i], was, is);
        return false;
    }
    return true;
}

bool state_resume(weft_job *job, const char *path, const model_shape *shape,
                  const struct state_settings *settings, struct parallel *parallel, uint64_t *step)
{
    struct parts parts;
    struct parallel_state state = parallel_place(parallel);
    uint64_t *memory = settings_memory(job, settings);
    int found = 0;
    make_parts(&parts, job, shape, &state, memory);
    weft_status status = checkpoint_read(job, path, step, parts.arrays, ARRAYS, &found);
    bool good = !status && found;
    if (status)
        failed(job);
    else if (!found && weft_my_pe(job) == 0)
        fprintf(stderr, "train: --resume %s: there is no such file\n", path);
    if (good) {
        send_to_all(&parts);
        good = same_settings(job, path, memory, settings);
    }
    CHECK(job, weft_free(job, memory));
    if (good)
        CHECK(job, parallel_load_state(parallel));
    return good;
}
