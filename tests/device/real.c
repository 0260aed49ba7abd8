/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of real and complex numbers by device code in every scope: every operation on every
 * type, averages, scaled and weighted sums, allreduce, reducescatter and reduce, and 16-bit and
 * 8-bit types, in packets and in slices, with full and partial vectors. Results equal the serial
 * reference of the host and stream tests bit for bit. */
#include "device_test.h"

#if WEFT_HOST_CODE
#include "tests/gpu/coll_reference.h"
#endif

enum { MOST = 70000, MEMBERS = 8 };

enum goes { EACH, ALL, ROOT, GOES };
enum by { OPERATION, SCALED, WEIGHTED };

#define OF(each, all, to, ...)                                                                     \
    goes == EACH  ? each(team, dst, src, n, type, __VA_ARGS__)                                     \
    : goes == ALL ? all(team, dst, src, n, type, __VA_ARGS__)                                      \
                  : to(team, dst, src, n, type, __VA_ARGS__, root)
#define COMBINE_IN(scope)                                                                          \
    by == OPERATION                                                                                \
        ? OF(weft_##scope##_reducescatter, weft_##scope##_allreduce, weft_##scope##_reduce, op)    \
    : by == SCALED ? OF(weft_##scope##_reducescatter_scaled, weft_##scope##_allreduce_scaled,      \
                        weft_##scope##_reduce_scaled, factor)                                      \
                   : OF(weft_##scope##_reducescatter_weighted, weft_##scope##_allreduce_weighted,  \
                        weft_##scope##_reduce_weighted, factor)

WEFT_KERNEL(combine, (int, scope), (enum goes, goes), (enum by, by), (int, root), (int, team),
            (void *, dst), (const void *, src), (size_t, n), (weft_type, type), (weft_op, op),
            (double, factor), (int *, result))
{
    int status = 0;
    if (scope == WEFT_DEV_BLOCK)
        status = COMBINE_IN(block);
    else if (scope == WEFT_DEV_WARP && weft_dev_warp() == 0)
        status = COMBINE_IN(warp);
    else if (scope == WEFT_DEV_THREAD && weft_dev_thread_rank() == 0)
        status = COMBINE_IN(thread);
    if (weft_dev_thread_rank() == 0)
        *result = status;
}

#if WEFT_HOST_CODE

static unsigned char *src, *dst;
static int *result;
static int pes[MEMBERS];

static void one(weft_team *team, weft_type type, weft_op op, int scope, enum goes goes, size_t n,
                size_t off, int in_place)
{
    static unsigned char buffer[MOST];
    static uint64_t salt;
    static const char *const names[] = {"reducescatter", "allreduce", "reduce"};
    int members = weft_team_n_pes(team), mine = weft_team_my_pe(team), status;
    size_t width = ref_bytes(type), total = goes == EACH ? n * (size_t)members : n;
    int root = (int)(salt % (uint64_t)members);
    enum by by = op == REF_SCALED ? SCALED : op == REF_WEIGHTED ? WEIGHTED : OPERATION;
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
    unsigned char *to = dst + off;
    if (in_place)
        to = src + off + (goes == EACH ? (size_t)mine * n * width : 0);
    OK(weft_barrier(team));
    LAUNCH(combine, 1, 96, 0, NULL, scope, goes, by, root, weft_team_device(team), to, src + off, n,
           type, op, by == WEIGHTED ? ref_weight(salt, me) : ref_factor(salt), result);
    fetch(&status, result, sizeof status);
    CHECK(status == WEFT_OK);
    memset(buffer, 0x5a, (n + 1) * width);
    fetch(buffer, to, (n + !in_place) * width);
    for (size_t i = 0; i < n; i++) {
        ref_reduced(wanted, type, op, pes, members, (goes == EACH ? n * (size_t)mine : 0) + i,
                    salt);
        if (goes == ROOT && mine != root)
            memset(wanted, 0x5a, sizeof wanted);
        if (goes == ROOT && mine != root && in_place)
            ref_element(wanted, type, me, i, salt);
        if (memcmp(wanted, buffer + i * width, width) != 0) {
            fprintf(stderr, "type %d by %d, %s of %zu by scope %d: element %zu of PE %d is wrong\n",
                    (int)type, (int)op, names[goes], n, scope, i, me);
            exit(1);
        }
    }
    CHECK(buffer[n * width] == 0x5a);
    OK(weft_barrier(team));
}

static void everything(weft_team *team)
{
    static const weft_type types[] = {WEFT_FLOAT,         WEFT_DOUBLE,         WEFT_HALF,
                                      WEFT_BFLOAT16,      WEFT_FP8_E4M3,       WEFT_FP8_E5M2,
                                      WEFT_COMPLEX_FLOAT, WEFT_COMPLEX_DOUBLE, WEFT_INT8,
                                      WEFT_UINT16,        WEFT_INT32,          WEFT_UINT64};
    static const weft_op ops[] = {WEFT_SUM,     WEFT_AVG, REF_SCALED, WEFT_PROD,
                                  REF_WEIGHTED, WEFT_MIN, WEFT_MAX};
    size_t slot = weft_dev_slot_bytes(n_pes, weft_team_device(team)) / 2;
    int turn = 0;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
            for (int goes = 0; goes < GOES; goes++, turn++) {
                int scaled = ops[o] == REF_SCALED || ops[o] == REF_WEIGHTED;
                if (!ref_defined(types[t], ops[o]) || (types[t] <= WEFT_UINT64 && scaled))
                    continue;
                size_t width = ref_bytes(types[t]), large = (slot + 300) / width;
                one(team, types[t], ops[o], turn / 2 % 3, (enum goes)goes, 1 + (size_t)turn % 40, 0,
                    0);
                if (o > 2 && turn % 4)
                    continue;
                large = large * width * (size_t)weft_team_n_pes(team) < MOST - 64
                            ? large
                            : (MOST - 64) / width / (size_t)weft_team_n_pes(team) - 1;
                one(team, types[t], ops[o], 2, (enum goes)goes, large + (size_t)turn % 5, 0, 0);
                one(team, types[t], ops[o], turn % 2, (enum goes)goes, large / 2,
                    (size_t)(turn % 3) * width, 0);
            }
}

/* Weighted sums around the largest size that packets carry (the factor shares the slots), and sizes
 * around other limits. */
static void weighted_edges(weft_team *team)
{
    static const weft_type types[] = {WEFT_FLOAT, WEFT_BFLOAT16, WEFT_FP8_E5M2, WEFT_DOUBLE,
                                      WEFT_COMPLEX_DOUBLE};
    static const size_t counts[] = {0, 1, 2, 3, 5, 7, 17, 31, 67};
    size_t members = (size_t)weft_team_n_pes(team);
    size_t slot = weft_dev_slot_bytes(n_pes, weft_team_device(team)) / 2;
    int turn = 0;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int goes = 0; goes < GOES; goes++)
            for (int in_place = 0; in_place < 2; in_place++) {
                size_t width = ref_bytes(types[t]), most = (slot - 16) / width, edge = slot / width;
                const size_t large[] = {most - 1, most, most + 1, edge, edge + 1};
                for (size_t c = 0; c < sizeof counts / sizeof *counts; c++, turn++)
                    one(team, types[t], REF_WEIGHTED, turn % 3, (enum goes)goes, counts[c],
                        (size_t)(turn % 2) * width, in_place);
                for (size_t c = 0; c < sizeof large / sizeof *large; c++, turn++)
                    if ((goes == EACH ? members : 1) * (large[c] + 1) * width < MOST - 64)
                        one(team, types[t], REF_WEIGHTED, turn % 3, (enum goes)goes, large[c], 0,
                            in_place);
            }
}

/* With "edges": only weighted sums, on the world team. */
int main(int argc, char **argv)
{
    int edges = argc > 1 && strcmp(argv[1], "edges") == 0;
    device_begin();
    CHECK(n_pes <= MEMBERS);
    src = symmetric(MOST + 64);
    dst = symmetric(MOST + 64);
    result = symmetric(sizeof *result);
    weft_team *reverse;
    OK(weft_team_split_strided(weft_team_world(job), n_pes - 1, -1, n_pes, &reverse));
    if (!edges) {
        everything(weft_team_world(job));
        everything(reverse);
        weighted_edges(reverse);
    }
    weighted_edges(weft_team_world(job));
    int status;
    LAUNCH(combine, 1, 32, 0, NULL, WEFT_DEV_BLOCK, ALL, OPERATION, 0, WEFT_DEV_WORLD, dst, src,
           (size_t)0, WEFT_FLOAT, WEFT_AVG, 0.0, result);
    fetch(&status, result, sizeof status);
    CHECK(status == WEFT_OK); /* count 0 */
    OK(weft_team_destroy(reverse));
    device_end();
    return 0;
}
#endif
