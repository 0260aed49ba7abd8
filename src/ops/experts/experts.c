/* SPDX-License-Identifier: Apache-2.0 */
/* Creation of objects for dispatch and combine, their memory, and what their kernels report. */
#include "ops/experts/experts.h"

#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "job/device_state.h"
#include "ops/access.h"
#include "ops/coll/coll.h"
#include "ops/coll/kernel.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 256, TOKENS_MOST = 1 << 24 };

/* Results that return within about 20 us are not divided into parts. */
static const size_t part_bytes = 16u << 20;

/* ------------------------------------------------------------------------------- attributes */

static size_t type_bytes(weft_type type)
{
    switch ((int)type) {
    case WEFT_FP8_E4M3:
    case WEFT_FP8_E5M2:
        return 1;
    case WEFT_HALF:
    case WEFT_BFLOAT16:
        return 2;
    case WEFT_FLOAT:
        return 4;
    default:
        return 0;
    }
}

static weft_status check_number(const char *function, const char *name, uint64_t value,
                                uint64_t least, uint64_t most)
{
    if (value >= least && value <= most)
        return WEFT_OK;
    return base_fail(WEFT_ERR_ARGUMENT, "%s: %s is %llu; from %llu to %llu are allowed", function,
                     name, (unsigned long long)value, (unsigned long long)least,
                     (unsigned long long)most);
}

static weft_status check_types(const char *function, const weft_experts_attr *a)
{
    size_t bytes = type_bytes(a->type), result_bytes = type_bytes(a->result_type);
    if (!bytes)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "%s: type %d; use WEFT_BFLOAT16, WEFT_HALF, WEFT_FLOAT, WEFT_FP8_E4M3 or "
                         "WEFT_FP8_E5M2",
                         function, (int)a->type);
    if (result_bytes < 2)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "%s: result_type %d; use WEFT_BFLOAT16, WEFT_HALF or WEFT_FLOAT", function,
                         (int)a->result_type);
    if (a->hidden * bytes % 16 || a->hidden * result_bytes % 16)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "%s: hidden is %u; tokens of %zu and results of %zu bytes are not "
                         "multiples of 16 bytes",
                         function, a->hidden, a->hidden * bytes, a->hidden * result_bytes);
    return WEFT_OK;
}

static weft_status check_experts_attr(const char *function, int members, const weft_experts_attr *a)
{
    if (!a)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: attr is null", function);
    if (a->size != sizeof *a)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: attr->size is %zu, this library's is %zu",
                         function, a->size, sizeof *a);
    if (members > EXPERTS_MEMBERS_MOST)
        return base_fail(WEFT_ERR_UNSUPPORTED, "%s: %d members; at most %d are supported", function,
                         members, EXPERTS_MEMBERS_MOST);
    weft_status status =
        check_number(function, "members", (uint64_t)(int64_t)members, 1, EXPERTS_MEMBERS_MOST);
    if (!status)
        status = check_number(function, "tokens", a->tokens, 1, TOKENS_MOST);
    if (!status)
        status = check_number(function, "hidden", a->hidden, 1, 1 << 24);
    if (!status)
        status =
            check_number(function, "experts", a->experts, 1, (uint64_t)members * EXPERTS_OWN_MOST);
    if (!status)
        status = check_number(function, "top", a->top, 1,
                              a->experts < EXPERTS_TOP_MOST ? a->experts : EXPERTS_TOP_MOST);
    if (!status)
        status = check_number(function, "rows", a->rows, 0, INT32_MAX);
    if (!status && (uint64_t)a->tokens * (uint64_t)members > INT32_MAX)
        status = base_fail(WEFT_ERR_ARGUMENT,
                           "%s: %u tokens of each of %d members are more than %d rows", function,
                           a->tokens, members, INT32_MAX);
    if (!status && a->scales % 4)
        status = base_fail(WEFT_ERR_ARGUMENT, "%s: scales is %u; a multiple of 4 is needed",
                           function, a->scales);
    return status ? status : check_types(function, a);
}

/* ------------------------------------------------------------------------------- short form */

/* The short form is chosen for at most so many bytes of tokens, or of results, of one PE: with 256
 * tokens of 14 KiB on two H200 it is slower than the long one (docs/experts.md); and for at most so
 * many bytes of slots. */
static const size_t short_bytes = 2u << 20, short_slots = 128u << 20;

static uint32_t count_pieces(size_t bytes)
{
    return (uint32_t)((bytes + EXPERTS_PIECE - 1) / EXPERTS_PIECE);
}

/* Sets the sizes of slots in `c`, whose other sizes are known. Returns the bytes of both sets, or 0
 * where the long form is used. All members get the same, since it follows from the attributes. */
static size_t size_slots(struct experts_call *c, size_t tokens)
{
    size_t n = c->members, top = c->top, form = (size_t)config_choice(CONFIG_TEST_EXPERTS);
    size_t returned = top < n - 1 ? top : n - 1;
    if (form == EXPERTS_FORM_LONG || c->nodes.n || n < 2 || n > EXPERTS_SHORT_MEMBERS ||
        tokens > EXPERTS_SHORT_TOKENS || tokens * n > EXPERTS_SHORT_PLACES ||
        c->experts > EXPERTS_SHORT_EXPERTS || c->parts > 1)
        return 0;
    c->head_pieces =
        count_pieces(EXPERTS_HEAD + EXPERTS_COUNT_WORDS(n, c->experts) * sizeof *c->counts);
    c->row_pieces = count_pieces(c->token_bytes + c->scale_bytes + top * sizeof *c->choices);
    c->result_pieces = count_pieces(c->result_bytes + top * sizeof(float));
    size_t rows = n * tokens * c->row_pieces, results = tokens * returned * c->result_pieces;
    c->set_bytes = (n * c->head_pieces + (rows > results ? rows : results)) * EXPERTS_PIECE_WIRE;
    bool few = tokens * c->token_bytes <= short_bytes && tokens * c->result_bytes <= short_bytes &&
               2 * c->set_bytes <= short_slots;
    return few || form == EXPERTS_FORM_SHORT ? 2 * c->set_bytes : 0;
}

bool experts_reaches_members(const struct weft_team *team)
{
    struct device_view *view;
    if (!device_state_of(team->job, &view) || !view)
        return false;
    for (int i = 0; i < team->n; i++)
        if (!view->part(view, WEFT_DEV_HEAP, team->pes[i]))
            return false;
    return true;
}

/* Decides whether all members use the short form, for which the object has slots. On GPUs, LL128
 * lines must arrive as a whole. CPU threads store a line lane by lane, which takes several times
 * longer than the long form, so simt uses the short form only for tests. Collective over the
 * team. */
static weft_status choose_form(struct weft_experts *e)
{
    struct weft_team *team = e->team;
    int32_t works = experts_reaches_members(team), *all = team->scratch;
    bool wanted = config_choice(CONFIG_TEST_EXPERTS) == EXPERTS_FORM_SHORT;
    weft_status status = WEFT_OK;
    if (device_target() != WEFT_SIMT)
        status = coll_kernel_test_ll128(team, &wanted);
    works &= !status && wanted;
    weft_status exchanged = coll_exchange(team, BOX_OP_SYNC, &works, all, sizeof works);
    for (int i = 0; i < team->n && !exchanged; i++)
        works &= all[i];
    if (!works)
        e->call.slots = NULL;
    else if (!status)
        status = experts_one_kernel_blocks(e, e->short_blocks, &e->one_blocks);
    if (team->me == 0)
        log_debug(LOG_COLL, "dispatch and combine of %d PEs use the %s form", team->n,
                  works ? "short" : "long");
    return status ? status : exchanged;
}

/* ----------------------------------------------------------------------------------- memory */

/* Returns the next piece of the memory at `base`, which may be NULL to count bytes alone. */
static void *take(char *base, size_t *used, size_t n, size_t bytes)
{
    char *piece = base ? base + *used : NULL;
    *used += (n * bytes + ALIGN - 1) / ALIGN * ALIGN;
    return piece;
}

/* Sets the addresses of what relays need. What a dispatch and a combine need overlaps. */
static void place_relays(struct experts_call *c, const struct experts_division *d, char *base,
                         size_t *used)
{
    struct experts_nodes *nodes = &c->nodes;
    size_t slots = d->sources * c->tokens_most;
    size_t results = d->results * ((c->tokens_most + c->parts - 1) / c->parts);
    nodes->of = take(base, used, c->members, sizeof *nodes->of);
    nodes->first = take(base, used, d->nodes + 1, sizeof *nodes->first);
    nodes->members = take(base, used, c->members, sizeof *nodes->members);
    size_t combine = *used;
    nodes->heads = take(base, used, d->sources, sizeof *nodes->heads);
    nodes->places = take(base, used, d->places * c->tokens_most, sizeof *nodes->places);
    nodes->rows.x = take(base, used, slots, c->token_bytes);
    nodes->rows.scales = take(base, used, slots, c->scale_bytes);
    nodes->rows.choices = take(base, used, slots * c->top, sizeof *nodes->rows.choices);
    nodes->results = take(base, &combine, results, c->result_bytes);
    nodes->weights = take(base, &combine, results * c->top, sizeof *nodes->weights);
    *used = combine > *used ? combine : *used;
}

/* Sets the sizes of `c`, and the pointers into the memory at `base`. Returns its size in bytes. */
static size_t place_memory(struct experts_call *c, int members, const weft_experts_attr *a,
                           const struct experts_division *d, char *base)
{
    size_t used = 0, tokens = a->tokens, n = (size_t)members, top = a->top;
    size_t words = EXPERTS_COUNT_WORDS(n, (size_t)a->experts);
    c->members = (uint32_t)members;
    c->nodes.n = (uint32_t)d->nodes;
    c->tokens_most = a->tokens;
    c->experts = a->experts;
    c->top = a->top;
    c->rows = a->rows && a->rows < tokens * n ? a->rows : (uint32_t)(tokens * n);
    c->token_bytes = a->hidden * (uint32_t)type_bytes(a->type);
    c->scale_bytes = a->scales * (uint32_t)sizeof(float);
    c->result_bytes = a->hidden * (uint32_t)type_bytes(a->result_type);
    c->result_type = a->result_type;
    c->parts = members == 1 || tokens * c->result_bytes < part_bytes ? 1 : EXPERTS_PARTS_MOST;
    size_t returned = tokens * d->returned;
    c->rows_in = take(base, &used, c->rows, c->token_bytes);
    c->scales_in = take(base, &used, c->rows, c->scale_bytes);
    c->choices_in = take(base, &used, c->rows * top, sizeof *c->choices_in);
    c->returned = take(base, &used, returned, c->result_bytes);
    c->weights_returned = take(base, &used, returned * top, sizeof *c->weights_returned);
    c->counts = take(base, &used, n * words, sizeof *c->counts);
    c->own_counts = take(base, &used, words, sizeof *c->own_counts);
    c->choices = take(base, &used, tokens * top, sizeof *c->choices);
    c->error = take(base, &used, 1, sizeof *c->error);
    c->pes = take(base, &used, n, sizeof *c->pes);
    if (d->nodes)
        place_relays(c, d, base, &used);
    size_t slots = size_slots(c, tokens);
    if (slots) {
        c->rounds = take(base, &used, 1, sizeof *c->rounds);
        c->slots = take(base, &used, 1, slots);
    }
    return used;
}

/* The layout of nodes.h. */
static size_t layout_bytes(int members, const weft_experts_attr *a,
                           const struct experts_division *d)
{
    size_t columns = (size_t)members + d->nodes + d->places;
    return (EXPERTS_PLACES_AT(members, (size_t)a->experts) + a->tokens * columns) *
               sizeof(uint32_t) +
           (d->nodes + d->sources) * sizeof(struct experts_head);
}

/* Not less than those of any division: each member that is outside a node adds one place, and as
 * many members as the node has, less one, may be added by rounding up. */
static struct experts_division largest_division(int members)
{
    size_t others = (size_t)members - 1;
    struct experts_division none = {0};
    return members < 3
               ? none
               : (struct experts_division){.nodes = others, .places = others, .sources = others};
}

weft_status experts_form_of(const char *function, int members, const weft_experts_attr *attr,
                            struct experts_form *form)
{
    weft_status status = check_experts_attr(function, members, attr);
    if (status)
        return status;
    *form = (struct experts_form){
        .division = experts_divide_evenly((size_t)members, attr->top, attr->node_members)};
    form->sizes.nodes.n = (uint32_t)form->division.nodes;
    form->symmetric = place_memory(&form->sizes, members, attr, &form->division, NULL);
    form->is_short = size_slots(&form->sizes, attr->tokens) > 0;
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_experts_sizes(int members, const weft_experts_attr *attr,
                                           weft_experts_size *size)
{
    static const char name[] = "weft_experts_sizes";
    struct experts_form form;
    weft_status status = experts_form_of(name, members, attr, &form);
    if (!status && !size)
        status = base_fail(WEFT_ERR_ARGUMENT, "%s: size is null", name);
    if (status)
        return status;
    const struct experts_division largest = largest_division(members);
    size->symmetric = form.symmetric;
    size->layout = layout_bytes(members, attr, &largest);
    size->relays = form.division.nodes > 0;
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_experts_query(const weft_experts *e, weft_experts_size *size)
{
    if (!e || !size)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_experts_query: %s is null",
                         e ? "size" : "experts");
    *size = e->size;
    return WEFT_OK;
}

/* Writes the PE numbers of the team's members to the object's memory. */
static weft_status write_pes(struct weft_experts *e)
{
    return weft_put(e->team->job->default_ctx, (void *)(uintptr_t)e->call.pes, e->team->pes,
                    (size_t)e->team->n * sizeof *e->call.pes, e->team->job->pe);
}

static weft_status allocate(struct weft_experts *e)
{
    struct weft_team *team = e->team;
    struct weft_job *job = team->job;
    weft_status status = WEFT_OK;
    bool relays = experts_has_relays(team, e->attr.top, &status);
    if (status)
        return status;
    const struct experts_division d =
        experts_divide((size_t)team->n, e->attr.top, relays ? (size_t)team->nodes->n : 0,
                       relays ? team->nodes->first : NULL);
    e->size.symmetric = place_memory(&e->call, team->n, &e->attr, &d, NULL);
    e->size.layout = layout_bytes(team->n, &e->attr, &d);
    e->size.relays = relays;
    status = weft_alloc(job, weft_device_kind(job), e->size.symmetric, ALIGN, WEFT_ALLOC_ZERO,
                        &e->memory);
    if (status)
        return status;
    place_memory(&e->call, team->n, &e->attr, &d, e->memory);
    e->call.me = e->call.position = (uint32_t)team->me;
    e->call.team = team->slot;
    status = write_pes(e);
    if (!status)
        status = experts_load_kernels(e);
    if (relays) {
        weft_status made = experts_nodes_create(e);
        status = status ? status : made;
    }
    if (e->call.slots) {
        weft_status chosen = choose_form(e);
        status = status ? status : chosen;
    }
    if (!status && e->call.parts > 1)
        status = experts_events_create(e);
    if (status)
        weft_free(job, e->memory);
    return status;
}

/* A block takes at most one SM. */
static unsigned blocks_within(uint32_t sms, unsigned most)
{
    return sms && sms < most ? sms : most;
}

WEFT_EXPORT weft_status weft_experts_create(weft_team *team, const weft_experts_attr *attr,
                                            weft_experts **experts)
{
    static const char name[] = "weft_experts_create";
    if (!team || !experts)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: %s is null", name, team ? "experts" : "team");
    *experts = NULL;
    if (atomic_load(&team->job->state) != JOB_RUNNING)
        return job_finalized(name);
    weft_status status = check_experts_attr(name, team->n, attr);
    if (!status)
        status = weft_device_start(team->job);
    if (status)
        return status;
    struct weft_experts *e = calloc(1, sizeof *e);
    if (!e)
        return base_fail(WEFT_ERR_NO_MEMORY, "%s: no private memory", name);
    bool simt = device_target() == WEFT_SIMT;
    *e = (struct weft_experts){.team = team,
                               .attr = *attr,
                               /* On CPUs few lanes do the work of many on a GPU. */
                               .blocks = blocks_within(attr->sms, simt ? 2 : 264),
                               .threads = simt ? 32 : EXPERTS_ROW_THREADS,
                               .many_threads = simt ? 64 : EXPERTS_THREADS_MOST,
                               .short_blocks =
                                   blocks_within(attr->sms, simt ? 2 : EXPERTS_SHORT_BLOCKS)};
    status = allocate(e);
    if (status) {
        free(e);
        return status;
    }
    e->part_blocks = e->blocks;
    if (e->call.parts > 1 && attr->sms)
        e->part_blocks = blocks_within((attr->sms + 1) / 2, e->blocks);
    *experts = e;
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_experts_destroy(weft_experts *e)
{
    if (!e)
        return WEFT_OK;
    if (atomic_load(&e->team->job->state) != JOB_RUNNING)
        return job_finalized("weft_experts_destroy");
    weft_status status = weft_free(e->team->job, e->memory);
    weft_status destroyed = weft_team_destroy(e->node);
    experts_events_destroy(e);
    free(e);
    return status ? status : destroyed;
}

/* ---------------------------------------------------------------------------------- queries */

WEFT_EXPORT weft_status weft_experts_range(const weft_experts *e, int pe, uint32_t *first,
                                           uint32_t *n)
{
    if (!e || !first || !n)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_experts_range: an argument is null");
    if (pe < 0 || pe >= e->team->n)
        return base_fail(WEFT_ERR_PE, "weft_experts_range: PE %d; the team has %d members", pe,
                         e->team->n);
    *first = (uint32_t)((uint64_t)pe * e->attr.experts / e->call.members);
    *n = (uint32_t)(((uint64_t)pe + 1) * e->attr.experts / e->call.members) - *first;
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_experts_received(const weft_experts *e, void **x, float **scales)
{
    if (!e || !x || !scales)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_experts_received: an argument is null");
    *x = e->call.rows_in;
    *scales = e->attr.scales ? (float *)(void *)e->call.scales_in : NULL;
    return WEFT_OK;
}

WEFT_EXPORT weft_status weft_experts_check(weft_experts *e)
{
    static const struct experts_error none;
    struct experts_error found;
    if (!e)
        return base_fail(WEFT_ERR_ARGUMENT, "weft_experts_check: experts is null");
    struct weft_job *job = e->team->job;
    if (atomic_load(&job->state) != JOB_RUNNING)
        return job_finalized("weft_experts_check");
    weft_status status = weft_get(job->default_ctx, &found, e->call.error, sizeof found, job->pe);
    if (status || found.kind == EXPERTS_FAULT_NONE)
        return status;
    status = weft_put(job->default_ctx, e->call.error, &none, sizeof none, job->pe);
    if (status)
        return status;
    if (found.kind == EXPERTS_FAULT_EXPERT)
        return base_fail(WEFT_ERR_RANGE,
                         "topk_idx of token %llu names expert %lld, and the experts are 0 to %u; "
                         "it was left out",
                         (unsigned long long)(found.place / e->attr.top), (long long)found.value,
                         e->attr.experts - 1);
    if (found.kind == EXPERTS_FAULT_TOKENS)
        return base_fail(WEFT_ERR_RANGE,
                         "a dispatch of %lld tokens had a known layout, which has %llu tokens",
                         (long long)found.value, (unsigned long long)found.place);
    return base_fail(WEFT_ERR_RANGE,
                     "%lld rows were sent to PE %d, and rows is %u: those beyond were dropped; "
                     "create the object with more rows",
                     (long long)found.value, e->team->me, e->call.rows);
}
