/* SPDX-License-Identifier: Apache-2.0 */
/* put, get, single values and atomics called by kernels: `from` accesses `to`. */
#include "bench/device/device.h"
#include "device/plan.h"

#include <stdlib.h>

static uint64_t seed_of(int pe)
{
    return (uint64_t)OWN * (uint64_t)(pe + 1);
}

/* Bytes that one block reads before it reads the same address again: more than the L1 cache of a
 * multiprocessor holds. */
enum { READ_WINDOW = 1 << 20, READ_WINDOW_BITS = 20 - 3 };

static size_t all_units(const struct bench_options *options)
{
    const struct bench_entry units = {.by_units = true};
    return (size_t)bench_units(options, &units);
}

/* Number of places to which small puts of a block go in turn. */
static uint64_t put_slots(const struct bench_options *options, size_t bytes)
{
    return options->scope == SCOPE_BLOCK ? plan_slots(bytes) : 1;
}

static uint64_t get_slots(const struct bench_options *options, size_t bytes)
{
    size_t round =
        all_units(options) / (size_t)options->ctas * bytes; /* bytes of one round of a block */
    uint64_t slots = 1;
    while (slots * round < READ_WINDOW)
        slots *= 2;
    return slots;
}

size_t device_put_buffer_bytes(const struct bench_options *options, size_t bytes)
{
    return all_units(options) * put_slots(options, bytes) * bytes + 8;
}

size_t device_get_buffer_bytes(const struct bench_options *options, size_t bytes)
{
    return all_units(options) * get_slots(options, bytes) * bytes + 8;
}

/* Single values go to 1 << bits words, a window for each block. */
static unsigned word_bits(const struct bench_options *options)
{
    unsigned bits = READ_WINDOW_BITS;
    while ((1 << (bits - READ_WINDOW_BITS)) < options->ctas)
        bits++;
    return bits;
}

size_t device_words_buffer_bytes(const struct bench_options *options, size_t bytes)
{
    return (size_t)8 << word_bits(options);
}

/* -------------------------------------------------------------------------------- put, get */

weft_status device_put_run(struct bench *bench, struct bench_case *c, uint64_t iterations,
                           double *ns)
{
    const struct bench_options *o = bench->options;
    if (bench->me != bench->from)
        return WEFT_OK;
    weft_status status = DEVICE_LAUNCH(
        put_rate, o->scope, o->ctas, o->threads, 0, bench->device->stream, c->dst, c->src, c->bytes,
        put_slots(o, c->bytes), bench->to, iterations, bench->device->times);
    return status ? status : device_finish(bench, (unsigned)o->ctas, ns, NULL);
}

weft_status device_get_run(struct bench *bench, struct bench_case *c, uint64_t iterations,
                           double *ns)
{
    const struct bench_options *o = bench->options;
    if (bench->me != bench->from)
        return WEFT_OK;
    weft_status status = DEVICE_LAUNCH(
        get_rate, o->scope, o->ctas, o->threads, 0, bench->device->stream, c->dst, c->src, c->bytes,
        get_slots(o, c->bytes), bench->to, iterations, bench->device->times);
    return status ? status : device_finish(bench, (unsigned)o->ctas, ns, NULL);
}

/* Writes each place of each unit once; then the receiver compares with the sender's pattern. */
static weft_status check_device_move(
    struct bench *bench, struct bench_case *c, int receiver, int sender, uint64_t slots,
    weft_status (*run)(struct bench *, struct bench_case *, uint64_t, double *), bool *right)
{
    double ignored = 0;
    size_t room = all_units(bench->options) * slots * c->bytes + 8;
    weft_status status = device_fill(bench, c->src, room - 8, seed_of(bench->me));
    if (!status)
        status = device_fill(bench, c->dst, room - 8, STALE);
    if (!status)
        status = weft_barrier(bench->world);
    if (!status)
        status = run(bench, c, slots, &ignored);
    if (!status)
        status = weft_barrier(bench->world);
    if (!status && bench->me == receiver)
        status = device_holds(bench, c->dst, room - 8, 0, seed_of(sender), right);
    return status;
}

weft_status device_put_check(struct bench *bench, struct bench_case *c, bool *right)
{
    return check_device_move(bench, c, bench->to, bench->from, put_slots(bench->options, c->bytes),
                             device_put_run, right);
}

weft_status device_get_check(struct bench *bench, struct bench_case *c, bool *right)
{
    return check_device_move(bench, c, bench->from, bench->to, get_slots(bench->options, c->bytes),
                             device_get_run, right);
}

/* --------------------------------------------------------------------------- single values */

/* Number of rounds that access each word. */
static uint64_t covering(const struct bench_options *o)
{
    uint64_t threads = (uint64_t)o->ctas * (uint64_t)o->threads;
    return (((uint64_t)1 << word_bits(o)) + threads - 1) / threads;
}

static weft_status put_words(struct bench *bench, struct bench_case *c, int scattered,
                             uint64_t iterations, double *ns)
{
    const struct bench_options *o = bench->options;
    if (bench->me != bench->from)
        return WEFT_OK;
    weft_status status =
        WEFT_LAUNCH(p_rate, o->ctas, o->threads, 0, bench->device->stream, c->dst, word_bits(o),
                    scattered, bench->to, iterations, bench->device->times);
    return status ? status : device_finish(bench, (unsigned)o->ctas, ns, NULL);
}

static weft_status check_put_words(struct bench *bench, struct bench_case *c, int scattered,
                                   bool *right)
{
    double ignored = 0;
    size_t room = device_words_buffer_bytes(bench->options, 8);
    weft_status status = device_fill(bench, c->dst, room, STALE);
    if (!status)
        status = weft_barrier(bench->world);
    if (!status)
        status = put_words(bench, c, scattered, covering(bench->options), &ignored);
    if (!status)
        status = weft_barrier(bench->world);
    if (!status && bench->me == bench->to)
        status = device_holds(bench, c->dst, room, 0, 0, right);
    return status;
}

weft_status device_p_run(struct bench *bench, struct bench_case *c, uint64_t iterations, double *ns)
{
    return put_words(bench, c, 0, iterations, ns);
}

weft_status device_p_check(struct bench *bench, struct bench_case *c, bool *right)
{
    return check_put_words(bench, c, 0, right);
}

weft_status device_p_scattered_run(struct bench *bench, struct bench_case *c, uint64_t iterations,
                                   double *ns)
{
    return put_words(bench, c, 1, iterations, ns);
}

weft_status device_p_scattered_check(struct bench *bench, struct bench_case *c, bool *right)
{
    return check_put_words(bench, c, 1, right);
}

/* The kernel compares the values that it reads. */
static weft_status get_words(struct bench *bench, struct bench_case *c, uint64_t iterations,
                             double *ns, uint64_t *wrong)
{
    const struct bench_options *o = bench->options;
    if (bench->me != bench->from)
        return WEFT_OK;
    weft_status status = WEFT_LAUNCH(g_rate, o->ctas, o->threads, 0, bench->device->stream, c->src,
                                     word_bits(o), 0, bench->to, iterations, bench->device->times);
    return status ? status : device_finish(bench, (unsigned)o->ctas, ns, wrong);
}

weft_status device_g_run(struct bench *bench, struct bench_case *c, uint64_t iterations, double *ns)
{
    return get_words(bench, c, iterations, ns, NULL);
}

weft_status device_g_check(struct bench *bench, struct bench_case *c, bool *right)
{
    double ignored = 0;
    uint64_t wrong = 0;
    weft_status status =
        device_fill(bench, c->src, device_words_buffer_bytes(bench->options, 8), 0);
    if (!status)
        status = weft_barrier(bench->world);
    if (!status)
        status = get_words(bench, c, covering(bench->options), &ignored, &wrong);
    *right = wrong == 0;
    return status ? status : weft_barrier(bench->world);
}

/* --------------------------------------------------------------------------------- atomics */

weft_status device_fetch_add_run(struct bench *bench, struct bench_case *c, uint64_t iterations,
                                 double *ns)
{
    if (bench->me != bench->from)
        return WEFT_OK;
    weft_status status =
        WEFT_LAUNCH(atomic_latency, 1, 1, 0, bench->device->stream, c->dst, DEVICE_ATOMIC_FETCH_ADD,
                    bench->to, iterations, bench->device->times);
    return status ? status : device_finish(bench, 1, ns, NULL);
}

weft_status device_add_run(struct bench *bench, struct bench_case *c, uint64_t iterations,
                           double *ns)
{
    const struct bench_options *o = bench->options;
    if (bench->me != bench->from)
        return WEFT_OK;
    weft_status status =
        WEFT_LAUNCH(atomic_rate, o->ctas, o->threads, 0, bench->device->stream, c->dst,
                    word_bits(o), bench->to, iterations, bench->device->times);
    return status ? status : device_finish(bench, (unsigned)o->ctas, ns, NULL);
}

/* Gives every PE the sum of the words of `to`. */
static weft_status sum_words(struct bench *bench, const void *words, size_t n, uint64_t *sum)
{
    uint64_t *copy = malloc(n * 8);
    if (!copy)
        return WEFT_ERR_NO_MEMORY;
    weft_status status = weft_get(bench->ctx, copy, words, n * 8, bench->to);
    *sum = 0;
    for (size_t i = 0; !status && i < n; i++)
        *sum += copy[i];
    free(copy);
    return status;
}

/* All PEs add to the words of `to` at once: no addition may be lost. */
static weft_status check_adds(struct bench *bench, struct bench_case *c, unsigned ctas,
                              unsigned threads, size_t n, bool *right)
{
    uint64_t before = 0, after = 0, rounds = 10;
    struct bench_device *d = bench->device;
    double ignored = 0;
    weft_status status = weft_barrier(bench->world);
    if (!status)
        status = sum_words(bench, c->dst, n, &before);
    if (!status)
        status = weft_barrier(bench->world);
    if (!status && n == 1)
        status = WEFT_LAUNCH(atomic_latency, 1, 1, 0, d->stream, c->dst, DEVICE_ATOMIC_FETCH_ADD,
                             bench->to, rounds, d->times);
    else if (!status)
        status = WEFT_LAUNCH(atomic_rate, ctas, threads, 0, d->stream, c->dst,
                             word_bits(bench->options), bench->to, rounds, d->times);
    if (!status)
        status = device_finish(bench, ctas, &ignored, NULL);
    if (!status)
        status = weft_barrier(bench->world);
    if (!status)
        status = sum_words(bench, c->dst, n, &after);
    *right = after - before == rounds * ctas * threads * (uint64_t)bench->n;
    return status ? status : weft_barrier(bench->world);
}

weft_status device_fetch_add_check(struct bench *bench, struct bench_case *c, bool *right)
{
    return check_adds(bench, c, 1, 1, 1, right);
}

weft_status device_add_check(struct bench *bench, struct bench_case *c, bool *right)
{
    return check_adds(bench, c, (unsigned)bench->options->ctas, (unsigned)bench->options->threads,
                      (size_t)1 << word_bits(bench->options), right);
}
