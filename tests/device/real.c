/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of real and complex numbers by device code, in every scope: every operation on every type, averages, scaled
 * sums and the types of 16 and 8 bits, as packets and as slices, whole vectors and not, bit for bit against the serial
 * reference that the tests of the host and of streams have. */
#include "device_test.h"

#if WEFT_HOST_CODE
#include "tests/gpu/coll_reference.h"
#endif

enum { MOST = 70000, MEMBERS = 8 };

#define SUM_IN(scope)                                                                              \
    all ? weft_##scope##_reduce_scaled(team, dst, src, n, type, factor)                            \
        : weft_##scope##_reducescatter_scaled(team, dst, src, n, type, factor)
#define COMBINE_IN(scope)                                                                          \
    all ? weft_##scope##_reduce(team, dst, src, n, type, op)                                       \
        : weft_##scope##_reducescatter(team, dst, src, n, type, op)

WEFT_KERNEL(combine, (int, scope), (int, all), (int, team), (void *, dst), (const void *, src),
            (size_t, n), (weft_type, type), (weft_op, op), (double, factor), (int *, result))
{
    int status = 0;
    if (scope == WEFT_DEV_BLOCK)
        status = factor != 0 ? SUM_IN(block) : COMBINE_IN(block);
    else if (scope == WEFT_DEV_WARP && weft_dev_warp() == 0)
        status = factor != 0 ? SUM_IN(warp) : COMBINE_IN(warp);
    else if (scope == WEFT_DEV_THREAD && weft_dev_thread_rank() == 0)
        status = factor != 0 ? SUM_IN(thread) : COMBINE_IN(thread);
    if (weft_dev_thread_rank() == 0)
        *result = status;
}

#if WEFT_HOST_CODE

static unsigned char *src, *dst;
static int *result;
static int pes[MEMBERS];

static void one(weft_team *team, weft_type type, weft_op op, int scope, int all, size_t n,
                size_t off)
{
    static unsigned char buffer[MOST];
    static uint64_t salt;
    int members = weft_team_n_pes(team), mine = weft_team_my_pe(team), status;
    size_t width = ref_bytes(type), total = all ? n : n * (size_t)members;
    unsigned char wanted[16];
    CHECK((total + 1) * width <= sizeof buffer);
    salt++;
    for (int i = 0; i < members; i++)
        pes[i] = weft_team_translate(team, i, weft_team_world(job));
    for (size_t i = 0; i < total; i++)
        ref_element(buffer + i * width, type, me, i, salt);
    store(src + off, buffer, total * width);
    memset(buffer, 0x5a, (n + 1) * width);
    store(dst + off, buffer, (n + 1) * width);
    OK(weft_barrier(team));
    LAUNCH(combine, 1, 96, 0, NULL, scope, all, weft_team_device(team), dst + off, src + off, n,
           type, op, op == REF_SCALED ? ref_factor(salt) : 0.0, result);
    fetch(&status, result, sizeof status);
    CHECK(status == WEFT_OK);
    fetch(buffer, dst + off, (n + 1) * width);
    for (size_t i = 0; i < n; i++) {
        ref_reduced(wanted, type, op, pes, members, (all ? 0 : n * (size_t)mine) + i, salt);
        if (memcmp(wanted, buffer + i * width, width) != 0) {
            fprintf(stderr, "type %d by %d, %s of %zu by scope %d: element %zu of PE %d is wrong\n",
                    (int)type, (int)op, all ? "reduce" : "reducescatter", n, scope, i, me);
            exit(1);
        }
    }
    CHECK(buffer[n * width] == 0x5a);
    OK(weft_barrier(team));
}

static void everything(weft_team *team)
{
    static const weft_type types[] = {WEFT_FLOAT,         WEFT_DOUBLE,        WEFT_HALF,
                                      WEFT_BFLOAT16,      WEFT_FP8_E4M3,      WEFT_FP8_E5M2,
                                      WEFT_COMPLEX_FLOAT, WEFT_COMPLEX_DOUBLE};
    static const weft_op ops[] = {WEFT_SUM, WEFT_AVG, REF_SCALED, WEFT_PROD, WEFT_MIN, WEFT_MAX};
    size_t slot = weft_dev_slot_bytes(n_pes, weft_team_device(team)) / 2;
    int turn = 0;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
            for (int all = 0; all < 2; all++, turn++) {
                if (!ref_defined(types[t], ops[o]))
                    continue;
                size_t width = ref_bytes(types[t]), large = (slot + 300) / width;
                one(team, types[t], ops[o], turn % 3, all, 1 + (size_t)turn % 40, 0);
                if (o > 2 && turn % 4)
                    continue;
                large = large * width * (size_t)weft_team_n_pes(team) < MOST - 64
                            ? large
                            : (MOST - 64) / width / (size_t)weft_team_n_pes(team) - 1;
                one(team, types[t], ops[o], 2, all, large + (size_t)turn % 5, 0);
                one(team, types[t], ops[o], turn % 2, all, large / 2, (size_t)(turn % 3) * width);
            }
}

int main(void)
{
    device_begin();
    CHECK(n_pes <= MEMBERS);
    src = symmetric(MOST + 64);
    dst = symmetric(MOST + 64);
    result = symmetric(sizeof *result);
    everything(weft_team_world(job));
    weft_team *reverse;
    OK(weft_team_split_strided(weft_team_world(job), n_pes - 1, -1, n_pes, &reverse));
    everything(reverse);
    int status;
    LAUNCH(combine, 1, 32, 0, NULL, WEFT_DEV_BLOCK, 1, WEFT_DEV_WORLD, dst, src, (size_t)0,
           WEFT_FLOAT, WEFT_AVG, 0.0, result);
    fetch(&status, result, sizeof status);
    CHECK(status == WEFT_OK); /* nothing of nothing */
    OK(weft_team_destroy(reverse));
    device_end();
    return 0;
}
#endif
