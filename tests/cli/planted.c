/* SPDX-License-Identifier: Apache-2.0 */
/* Makes `weft_planted`, the command with known faults and known times. The linker redirects the
 * command's library calls to the functions here (--wrap), and this file replaces the clock of `weft
 * bench`. It knows the operations, not what the command makes of them.
 *
 *   PLANT_FAULT=NAME   that operation corrupts one bit of its result
 *   PLANT_COSTS=LIST   durations of operations in ns: "put=250,barrier=1000"; all others take 0 ns.
 *                      "spread=10": in repetition r of 1 to 9 each takes 10 * ((r * 4) % 9) ns
 *                      more. PE n takes n + 1 times as long */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weft.h>
#include <weft/launch.h>

#include "bench/bench.h"
#include "device/kernels.h"

/* ------------------------------------------------------------------------------------ the clock */

static uint64_t pe;
static const char *fault; /* PLANT_FAULT */
static struct cost {
    char name[32];
    uint64_t ns;
} costs[9]; /* PLANT_COSTS, and an empty name */

/* Runs before main(), because the library removes the launcher's variables from the environment. */
__attribute__((constructor)) static void read_environment(void)
{
    const char *text = getenv("WEFT_PE"), *list = getenv("PLANT_COSTS");
    unsigned long long ns;
    pe = text ? strtoull(text, NULL, 10) : 0;
    fault = getenv("PLANT_FAULT");
    for (struct cost *c = costs; c < costs + 8 && list; c++) {
        if (sscanf(list, "%31[^=]=%llu", c->name, &ns) != 2)
            return;
        c->ns = ns * (1 + pe);
        list = strchr(list, ',');
        list += list != NULL;
    }
}

static uint64_t cost_of(const char *name)
{
    const struct cost *cost = costs;
    while (*cost->name && strcmp(cost->name, name) != 0)
        cost++;
    return cost->ns;
}

static uint64_t syncs; /* each repetition begins with one */
static double spent_ns;
static bool spent;

static void spend(const char *name)
{
    uint64_t cost = cost_of(name);
    if (!*costs->name)
        return;
    spent = true;
    spent_ns += cost ? (double)(cost + cost_of("spread") * (syncs % 9 * 4 % 9)) : 0;
}

static uint64_t real_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The time between two readings is the cost of the operations between them, or the real time if
 * there are none. */
uint64_t bench_now_ns(void)
{
    static uint64_t now, last_real;
    uint64_t real = real_ns();
    now += spent ? (uint64_t)spent_ns : real - last_real;
    last_real = real;
    spent = false;
    spent_ns = 0;
    return now;
}

/* ----------------------------------------------------------------------------------- the faults */

static bool faulty(const char *name)
{
    return fault && strcmp(fault, name) == 0;
}

weft_status __real_weft_put(weft_ctx *, void *, const void *, size_t, int);
weft_status __real_weft_get(weft_ctx *, void *, const void *, size_t, int);
weft_status __real_weft_quiet(weft_ctx *);

/* Corrupts the last byte of symmetric memory of PE pe, host or GPU. */
static weft_status spoil(weft_ctx *ctx, void *dst, size_t bytes, int pe)
{
    char *last = (char *)dst + bytes - 1, byte = 0;
    weft_status status = __real_weft_quiet(ctx);
    if (!status)
        status = __real_weft_get(ctx, &byte, last, 1, pe);
    byte ^= 0x40;
    return status ? status : __real_weft_put(ctx, last, &byte, 1, pe);
}

/* Corrupts the upper half of a word that other PEs may be changing. The value that a swap loses is
 * random; 4 bytes are correct by chance in one of 2^32 runs, one byte would be in one of 256. */
static weft_status stamp(weft_ctx *ctx, void *word, int pe)
{
    static const uint32_t wrong = 0x5a5a5a5a;
    weft_status status = __real_weft_quiet(ctx);
    return status ? status : __real_weft_put(ctx, (char *)word + 4, &wrong, sizeof wrong, pe);
}

/* Corrupts the records of a kernel on the way to the host: the last block gets an additional wrong
 * word, or a status, or times that make two blocks together take 12 us. */
static void spoil_notes(struct device_times *notes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        notes[i].wrong += faulty("kernel_wrong") && i == n - 1;
        if (faulty("kernel_status"))
            notes[i].status = WEFT_ERR_RANGE;
        if (faulty("kernel_times")) {
            notes[i].start = 1000 - 10 * i;
            notes[i].end = 12000 + 990 * (i == 1);
        }
    }
}

weft_status __wrap_weft_get(weft_ctx *, void *, const void *, size_t, int);
weft_status __wrap_weft_get(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe)
{
    weft_status status = __real_weft_get(ctx, dst, src, bytes, pe);
    spend("get");
    if (!status && faulty("get"))
        ((char *)dst)[bytes - 1] ^= 0x40;
    if (!status && bytes == 8 && faulty("count_wrong")) /* the result of a checking kernel */
        ++*(uint64_t *)dst;
    if (!status && bytes % sizeof(struct device_times) == 0)
        spoil_notes(dst, bytes / sizeof(struct device_times));
    return status;
}

/* WRAP(name in PLANT_*, function, parameters, arguments, fault after the real call). */
#define WRAP(name, function, parameters, arguments, wrong)                                         \
    weft_status __real_##function parameters;                                                      \
    weft_status __wrap_##function parameters;                                                      \
    weft_status __wrap_##function parameters                                                       \
    {                                                                                              \
        weft_status status = __real_##function arguments;                                          \
        spend(name);                                                                               \
        return !status && faulty(name) ? (wrong) : status;                                         \
    }

WRAP("put", weft_put, (weft_ctx * ctx, void *dst, const void *src, size_t bytes, int pe),
     (ctx, dst, src, bytes, pe), bytes > 8 ? spoil(ctx, dst, bytes, pe) : WEFT_OK)
WRAP("quiet", weft_quiet, (weft_ctx * ctx), (ctx), WEFT_OK)
WRAP("p", weft_p64, (weft_ctx * ctx, void *dst, uint64_t value, int pe), (ctx, dst, value, pe),
     spoil(ctx, dst, 8, pe))
WRAP("g", weft_g64, (weft_ctx * ctx, const void *src, uint64_t *value, int pe),
     (ctx, src, value, pe), (*value ^= 1ull << 63, WEFT_OK))

#define ATOMIC_SET(name)                                                                           \
    WRAP("atomic_" #name, weft_atomic_##name##64,                                                  \
         (weft_ctx * ctx, void *var, uint64_t value, int pe), (ctx, var, value, pe),               \
         stamp(ctx, var, pe))
#define ATOMIC_FETCH(name)                                                                         \
    WRAP("atomic_" #name, weft_atomic_##name##64,                                                  \
         (weft_ctx * ctx, void *var, uint64_t value, uint64_t *fetched, int pe),                   \
         (ctx, var, value, fetched, pe), stamp(ctx, var, pe))
ATOMIC_SET(add)
ATOMIC_SET(set)
ATOMIC_SET(and)
ATOMIC_SET(or)
ATOMIC_SET(xor)
ATOMIC_FETCH(fetch_add)
ATOMIC_FETCH(swap)
ATOMIC_FETCH(fetch_and)
ATOMIC_FETCH(fetch_or)
ATOMIC_FETCH(fetch_xor)
WRAP("atomic_fetch", weft_atomic_fetch64,
     (weft_ctx * ctx, const void *var, uint64_t *fetched, int pe), (ctx, var, fetched, pe),
     (*fetched ^= 1ull << 63, WEFT_OK))
WRAP("atomic_cswap", weft_atomic_cswap64,
     (weft_ctx * ctx, void *var, uint64_t expected, uint64_t value, uint64_t *fetched, int pe),
     (ctx, var, expected, value, fetched, pe), *fetched == expected ? stamp(ctx, var, pe) : WEFT_OK)

/* Corrupts the data before they are sent, so that they are wrong when the signal arrives. */
weft_status __real_weft_put_signal(weft_ctx *, void *, const void *, size_t, uint64_t *, uint64_t,
                                   weft_signal_op, int);
weft_status __wrap_weft_put_signal(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                   uint64_t *signal, uint64_t value, weft_signal_op op, int pe);
weft_status __wrap_weft_put_signal(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                   uint64_t *signal, uint64_t value, weft_signal_op op, int pe)
{
    static char copy[1 << 20];
    spend("put_signal");
    if (!faulty("put_signal") || bytes > sizeof copy)
        return __real_weft_put_signal(ctx, dst, src, bytes, signal, value, op, pe);
    memcpy(copy, src, bytes);
    copy[bytes - 1] ^= 0x40;
    return __real_weft_put_signal(ctx, dst, copy, bytes, signal, value, op, pe);
}

/* Waits and synchronizations return at once. */
#define WRAP_WAIT(name, function, parameters, arguments)                                           \
    weft_status __real_##function parameters;                                                      \
    weft_status __wrap_##function parameters;                                                      \
    weft_status __wrap_##function parameters                                                       \
    {                                                                                              \
        spend(name);                                                                               \
        return faulty(name) ? WEFT_OK : __real_##function arguments;                               \
    }
WRAP_WAIT("wait", weft_wait_until,
          (weft_ctx * ctx, weft_type type, const void *var, weft_cmp cmp, uint64_t value),
          (ctx, type, var, cmp, value))
WRAP_WAIT("signal_wait", weft_signal_wait,
          (weft_ctx * ctx, const uint64_t *signal, weft_cmp cmp, uint64_t value, uint64_t *seen),
          (ctx, signal, cmp, value, seen))
WRAP_WAIT("barrier", weft_barrier, (weft_team * team), (team))

weft_status __real_weft_sync(weft_team *);
weft_status __wrap_weft_sync(weft_team *);
weft_status __wrap_weft_sync(weft_team *team)
{
    syncs++;
    spend("sync");
    return faulty("sync") ? WEFT_OK : __real_weft_sync(team);
}

/* Collectives: corrupts the last byte that this PE received. */
#define SPOIL_OWN(bytes) (((char *)dst)[(bytes)-1] ^= 0x40, WEFT_OK)
WRAP("broadcast", weft_broadcast,
     (weft_team * team, void *dst, const void *src, size_t bytes, int root),
     (team, dst, src, bytes, root), SPOIL_OWN(bytes))
WRAP("allgather", weft_allgather, (weft_team * team, void *dst, const void *src, size_t bytes),
     (team, dst, src, bytes), SPOIL_OWN(bytes))
WRAP("collect", weft_collect, (weft_team * team, void *dst, const void *src, size_t bytes),
     (team, dst, src, bytes), SPOIL_OWN(bytes))
WRAP("alltoall", weft_alltoall, (weft_team * team, void *dst, const void *src, size_t bytes),
     (team, dst, src, bytes), SPOIL_OWN(bytes))
/* Corrupts the gap between elements, and bytes behind a block that is smaller than its space. */
WRAP("alltoalls", weft_alltoalls,
     (weft_team * team, void *dst, const void *src, ptrdiff_t dst_stride, ptrdiff_t src_stride,
      size_t element, size_t n),
     (team, dst, src, dst_stride, src_stride, element, n),
     SPOIL_OWN((size_t)dst_stride *element *n))
WRAP("alltoallv", weft_alltoallv,
     (weft_team * team, void *dst, size_t room, const uint64_t *recv_bytes, const uint64_t *recv_at,
      const void *src, const uint64_t *send_bytes, const uint64_t *send_at),
     (team, dst, room, recv_bytes, recv_at, src, send_bytes, send_at), SPOIL_OWN(room))
WRAP("allreduce", weft_allreduce,
     (weft_team * team, void *dst, const void *src, size_t n, weft_type type, weft_op op),
     (team, dst, src, n, type, op), type == WEFT_INT64 ? SPOIL_OWN(8 * n) : WEFT_OK)
