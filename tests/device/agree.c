/* SPDX-License-Identifier: Apache-2.0 */
/* Checking mode of device code (WEFT_CHECK=1): the last PE calls a collective with other arguments
 * than the rest, or all PEs pass invalid arguments. Every PE gets an error before any data moves,
 * and the message names the PE and the difference.
 *   device_agree CASE thread|warp|block|grid|blocks  one difference
 *   device_agree nothing FORM                        equal valid calls, in place and not,
 *                                                    succeed */
#define WEFT_DEVICE_CHECK
#define WEFT_KERNEL_THREADS 64
#include "device_test.h"

enum { ROOM = 4096, HALF = 2048, PART = 2, BLOCKS = 3, THREADS = 64, PES = 8 };
enum form { THREAD, WARP, BLOCK, GRID, SOME_BLOCKS, FORMS };

/* `odd`: this PE is the one that differs. */
struct call {
    int odd, me, n;
    char *dst;
    char *src, *apart; /* `src` is symmetric, `apart` is local to this PE */
    const uint64_t *eight, *at;
};

/* X(name, status at the other PEs, status at the PE that differs, text in the message, the call) */
#define DIFFERENCES(X, form, ...)                                                                  \
    X(operation, MISMATCH, MISMATCH, "calls",                                                      \
      c.odd ? weft_##form##_barrier(__VA_ARGS__) : weft_##form##_sync(__VA_ARGS__))                \
    X(bytes, MISMATCH, MISMATCH, "bytes at PE",                                                    \
      weft_##form##_allgather(__VA_ARGS__, c.dst, c.src, c.odd ? 24 : 16))                         \
    X(count, MISMATCH, MISMATCH, "bytes at PE",                                                    \
      weft_##form##_reducescatter(__VA_ARGS__, c.dst, c.src, c.odd ? 3 : 2, WEFT_INT32, WEFT_SUM)) \
    X(root, MISMATCH, MISMATCH, "root",                                                            \
      weft_##form##_broadcast(__VA_ARGS__, c.dst, c.src, 16, c.odd))                               \
    X(gather_root, MISMATCH, MISMATCH, "root",                                                     \
      weft_##form##_gather(__VA_ARGS__, c.dst, c.src, 16, c.odd))                                  \
    X(scatter_root, MISMATCH, MISMATCH, "root",                                                    \
      weft_##form##_scatter(__VA_ARGS__, c.dst, c.src, 16, c.odd))                                 \
    X(type, MISMATCH, MISMATCH, "WEFT_UINT32 by WEFT_SUM",                                         \
      weft_##form##_allreduce(__VA_ARGS__, c.dst, c.src, 4, c.odd ? WEFT_INT32 : WEFT_UINT32,      \
                              WEFT_SUM))                                                           \
    X(op, MISMATCH, MISMATCH, "by",                                                                \
      weft_##form##_reduce(__VA_ARGS__, c.dst, c.src, 4, WEFT_INT32, c.odd ? WEFT_MAX : WEFT_SUM,  \
                           0))                                                                     \
    X(reduce_root, MISMATCH, MISMATCH, "root",                                                     \
      weft_##form##_reduce_weighted(__VA_ARGS__, c.dst, c.src, 4, WEFT_FLOAT, c.me, c.odd))        \
    X(factor, MISMATCH, MISMATCH, "factor 0.",                                                     \
      weft_##form##_reducescatter_scaled(__VA_ARGS__, c.dst, c.src, 4, WEFT_FLOAT,                 \
                                         c.odd ? 0.25 : 0.5))                                      \
    X(weighted, MISMATCH, MISMATCH, "by a weighted sum",                                           \
      c.odd ? weft_##form##_allreduce_weighted(__VA_ARGS__, c.dst, c.src, 4, WEFT_FLOAT, 0.5)      \
            : weft_##form##_allreduce_scaled(__VA_ARGS__, c.dst, c.src, 4, WEFT_FLOAT, 0.5))       \
    X(strides, MISMATCH, MISMATCH, "strides",                                                      \
      weft_##form##_alltoalls(__VA_ARGS__, c.dst, c.src, c.odd ? 3 : 2, 1, 4, 2))                  \
    X(element, MISMATCH, MISMATCH, "elements of",                                                  \
      weft_##form##_alltoalls(__VA_ARGS__, c.dst, c.src, 2, 1, c.odd ? 4 : 8, c.odd ? 4 : 2))      \
    X(gaps, MISMATCH, MISMATCH, "strides",                                                         \
      c.odd ? weft_##form##_alltoall(__VA_ARGS__, c.dst, c.src, 16)                                \
            : weft_##form##_alltoalls(__VA_ARGS__, c.dst, c.src, 2, 1, 4, 4))                      \
    X(dst_broadcast, MISMATCH, MISMATCH, "dst is byte",                                            \
      weft_##form##_broadcast(__VA_ARGS__, c.dst + 8 * c.odd, c.src, 16, 0))                       \
    X(dst_allgather, MISMATCH, MISMATCH, "dst is byte",                                            \
      weft_##form##_allgather(__VA_ARGS__, c.dst + 8 * c.odd, c.src, 16))                          \
    X(dst_alltoall, MISMATCH, MISMATCH, "dst is byte",                                             \
      weft_##form##_alltoall(__VA_ARGS__, c.dst + 8 * c.odd, c.src, 16))                           \
    X(dst_gather, MISMATCH, MISMATCH, "dst is byte",                                               \
      weft_##form##_gather(__VA_ARGS__, c.dst + 8 * c.odd, c.src, 16, 0))                          \
    X(dst_scatter, MISMATCH, MISMATCH, "dst is byte",                                              \
      weft_##form##_scatter(__VA_ARGS__, c.dst + 8 * c.odd, c.src, 16, 0))                         \
    X(dst_collect, MISMATCH, MISMATCH, "dst is byte",                                              \
      weft_##form##_collect(__VA_ARGS__, c.dst + 8 * c.odd, c.src, 16))                            \
    X(dst_alltoallv, MISMATCH, MISMATCH, "dst is byte",                                            \
      weft_##form##_alltoallv(__VA_ARGS__, c.dst + 8 * c.odd, 16 * PES, c.eight, c.at, c.src,      \
                              c.eight, c.at))                                                      \
    X(dst_alltoalls, MISMATCH, MISMATCH, "dst is byte",                                            \
      weft_##form##_alltoalls(__VA_ARGS__, c.dst + 8 * c.odd, c.src, 2, 1, 4, 4))                  \
    X(dst_allreduce, MISMATCH, MISMATCH, "dst is byte",                                            \
      weft_##form##_allreduce(__VA_ARGS__, c.dst + 8 * c.odd, c.src, 4, WEFT_INT32, WEFT_SUM))     \
    X(dst_reduce, MISMATCH, MISMATCH, "dst is byte",                                               \
      weft_##form##_reduce(__VA_ARGS__, c.dst + 8 * c.odd, c.src, 4, WEFT_INT32, WEFT_SUM, 0))     \
    X(src_allreduce, MISMATCH, MISMATCH, "src is byte",                                            \
      weft_##form##_allreduce(__VA_ARGS__, c.dst, c.src + 8 * c.odd, 4, WEFT_INT32, WEFT_SUM))     \
    X(src_reducescatter, MISMATCH, MISMATCH, "src is byte",                                        \
      weft_##form##_reducescatter(__VA_ARGS__, c.dst, c.src + 8 * c.odd, 4, WEFT_INT32, WEFT_SUM)) \
    X(symmetric, MISMATCH, MISMATCH, "no symmetric memory at PE",                                  \
      weft_##form##_allgather(__VA_ARGS__, c.odd ? c.apart : c.dst, c.src, 16))                    \
    X(src_symmetric, MISMATCH, MISMATCH, "no symmetric memory at PE",                              \
      weft_##form##_allreduce(__VA_ARGS__, c.dst, c.odd ? c.apart : c.src, 4, WEFT_INT32,          \
                              WEFT_SUM))                                                           \
    X(overlap_broadcast, MISMATCH, ARGUMENT, "overlap",                                            \
      weft_##form##_broadcast(__VA_ARGS__, c.dst, c.odd ? c.dst + 8 : c.src, 16, c.n - 1))         \
    X(overlap_allgather, MISMATCH, ARGUMENT, "overlap",                                            \
      weft_##form##_allgather(__VA_ARGS__, c.dst, c.odd ? c.dst + 16 * c.me + 8 : c.src, 16))      \
    X(overlap_alltoall, MISMATCH, ARGUMENT, "overlap",                                             \
      weft_##form##_alltoall(__VA_ARGS__, c.dst, c.odd ? c.dst : c.src, 16))                       \
    X(overlap_gather, MISMATCH, ARGUMENT, "overlap",                                               \
      weft_##form##_gather(__VA_ARGS__, c.dst, c.odd ? c.dst + 8 : c.src, 16, c.n - 1))            \
    X(overlap_scatter, MISMATCH, ARGUMENT, "overlap",                                              \
      weft_##form##_scatter(__VA_ARGS__, c.dst, c.odd ? c.dst - 8 : c.src, 16, c.n - 1))           \
    X(overlap_alltoallv, MISMATCH, ARGUMENT, "overlap",                                            \
      weft_##form##_alltoallv(__VA_ARGS__, c.dst, 16 * PES, c.eight, c.at, c.odd ? c.dst : c.src,  \
                              c.eight, c.at))                                                      \
    X(overlap_alltoalls, MISMATCH, ARGUMENT, "overlap",                                            \
      weft_##form##_alltoalls(__VA_ARGS__, c.dst, c.odd ? c.dst + 4 : c.src, 2, 2, 4, 4))          \
    X(overlap_allreduce, MISMATCH, ARGUMENT, "overlap",                                            \
      weft_##form##_allreduce(__VA_ARGS__, c.dst, c.odd ? c.dst + 8 : c.src, 4, WEFT_INT32,        \
                              WEFT_SUM))                                                           \
    X(overlap_reducescatter, MISMATCH, ARGUMENT, "overlap",                                        \
      weft_##form##_reducescatter(__VA_ARGS__, c.dst, c.odd ? c.dst : c.src, 4, WEFT_INT32,        \
                                  WEFT_SUM))                                                       \
    X(overlap_reduce, MISMATCH, ARGUMENT, "overlap",                                               \
      weft_##form##_reduce(__VA_ARGS__, c.dst, c.odd ? c.dst + 8 : c.src, 4, WEFT_INT32, WEFT_SUM, \
                           c.n - 1))                                                               \
    X(overlap_collect, OK, ARGUMENT, "overlap",                                                    \
      weft_##form##_collect(__VA_ARGS__, c.dst, c.odd ? c.dst + 16 * c.me + 8 : c.src, 16))        \
    X(range_alltoallv, MISMATCH, RANGE, "past the end of",                                         \
      weft_##form##_alltoallv(__VA_ARGS__, c.dst, c.odd ? (size_t)1 << 40 : HALF, c.eight, c.at,   \
                              c.src, c.eight, c.at))                                               \
    X(range_allgather, RANGE, RANGE, "past the end of",                                            \
      weft_##form##_allgather(__VA_ARGS__, c.dst, c.src, ~(size_t)0 / (unsigned)c.n + 1))          \
    X(range_gather, RANGE, RANGE, "past the end of",                                               \
      weft_##form##_gather(__VA_ARGS__, c.dst, c.src, ~(size_t)0 / (unsigned)c.n + 1, 0))          \
    X(range_allreduce, RANGE, RANGE, "past the end of",                                            \
      weft_##form##_allreduce(__VA_ARGS__, c.dst, c.dst, ~(size_t)0 / 4 + 1, WEFT_INT32,           \
                              WEFT_SUM))                                                           \
    X(range_broadcast, RANGE, RANGE, "past the end of",                                            \
      weft_##form##_broadcast(__VA_ARGS__, c.dst, c.src, (size_t)1 << 40, 0))

#define NUMBER(name, here, there, words, call) CASE_##name,
enum difference { DIFFERENCES(NUMBER, thread, 0) CASES, NOTHING };

#define CASE(name, here, there, words, call)                                                       \
    case CASE_##name:                                                                              \
        return call;
/* Valid calls: in place where the API allows it, with equal arguments at all PEs. */
#define ALIKE(form, ...)                                                                           \
    int s = 0;                                                                                     \
    s |= weft_##form##_broadcast(__VA_ARGS__, c.dst, c.dst, 16, 0);                                \
    s |= weft_##form##_broadcast(__VA_ARGS__, c.me == 0 ? NULL : c.dst, c.dst, 16, 0);             \
    s |= weft_##form##_allgather(__VA_ARGS__, c.dst, c.dst + 16 * c.me, 16);                       \
    s |= weft_##form##_allgather(__VA_ARGS__, c.dst, c.apart, 16);                                 \
    s |= weft_##form##_gather(__VA_ARGS__, c.dst, c.me == 1 ? c.dst + 16 : c.src, 16, 1);          \
    s |= weft_##form##_scatter(__VA_ARGS__, c.src + 16, c.src, 16, 1);                             \
    s |= weft_##form##_collect(__VA_ARGS__, c.dst, c.dst + 16 * c.me, 16);                         \
    s |= weft_##form##_collect(__VA_ARGS__, c.dst, c.me ? c.src : c.dst + 512, c.me ? 16 : 0);     \
    s |= weft_##form##_alltoallv(__VA_ARGS__, c.dst, HALF - 8 * (size_t)c.me, c.eight, c.at,       \
                                 c.src, c.eight, c.at);                                            \
    s |= weft_##form##_alltoalls(__VA_ARGS__, c.dst, c.src, 2, 1, 4, 4);                           \
    s |= weft_##form##_alltoall(__VA_ARGS__, c.dst, c.src, 16);                                    \
    s |= weft_##form##_allreduce(__VA_ARGS__, c.dst, c.dst, 4, WEFT_INT32, WEFT_MAX);              \
    s |= weft_##form##_reducescatter(__VA_ARGS__, c.src + 16 * c.me, c.src, 4, WEFT_INT32,         \
                                     WEFT_MAX);                                                    \
    s |= weft_##form##_reduce(__VA_ARGS__, c.dst, c.src, 4, WEFT_INT32, WEFT_MAX, 1);              \
    s |= weft_##form##_allreduce_weighted(__VA_ARGS__, c.dst, c.src, 4, WEFT_FLOAT, c.me + 1);     \
    return s;
#define BY(form, ...)                                                                              \
    WEFT_DEVICE_NOINLINE int alike_##form(const struct call c){ALIKE(                              \
        form, __VA_ARGS__)} WEFT_DEVICE_NOINLINE int by_##form(int what, const struct call c)      \
    {                                                                                              \
        switch (what) {                                                                            \
            DIFFERENCES(CASE, form, __VA_ARGS__)                                                   \
        default:                                                                                   \
            return alike_##form(c);                                                                \
        }                                                                                          \
    }
BY(thread, WEFT_DEV_WORLD)
BY(warp, WEFT_DEV_WORLD)
BY(block, WEFT_DEV_WORLD)
BY(grid, WEFT_DEV_WORLD)
BY(blocks, PART, WEFT_DEV_WORLD)

WEFT_KERNEL(differ, (int, what), (int, form), (struct call, c), (int *, result))
{
    unsigned block = weft_dev_block_rank(), thread = weft_dev_thread_rank();
    int status = 0;
    if (form == GRID)
        status = by_grid(what, c);
    else if (form == SOME_BLOCKS && block < PART)
        status = by_blocks(what, c);
    else if (form == BLOCK && block == 0)
        status = by_block(what, c);
    else if (form == WARP && block == 0 && thread < WEFT_WARP_LANES)
        status = by_warp(what, c);
    else if (form == THREAD && block == 0 && thread == 0)
        status = by_thread(what, c);
    if (thread == 0)
        result[block] = status;
}

/* The last PE calls the grid form, the other PEs call the block form. */
WEFT_KERNEL(forms_differ, (struct call, c), (int *, result))
{
    int status = c.odd                        ? weft_grid_allgather(0, c.dst, c.src, 16)
                 : weft_dev_block_rank() == 0 ? weft_block_allgather(0, c.dst, c.src, 16)
                                              : 0;
    if (weft_dev_thread_rank() == 0)
        result[weft_dev_block_rank()] = status;
}

#if WEFT_HOST_CODE
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#define ROW(name, here, there, words, call) {#name, WEFT_ERR_##here, WEFT_ERR_##there, words},
#define WEFT_ERR_OK                         WEFT_OK
static const struct {
    const char *name;
    weft_status here, there;
    const char *words;
} rows[CASES] = {DIFFERENCES(ROW, thread, 0)};
static const char *const forms[FORMS] = {"thread", "warp", "block", "grid", "blocks"};

/* A PE that exits early would make the others report its death instead of the difference, so every
 * PE stays until all have checked their result. */
static void end_together(_Atomic int *told)
{
    fflush(NULL);
    if (!told)
        sleep(4); /* without loads of PE 0's memory */
    else
        atomic_fetch_add(told, 1);
    for (int i = 0; told && i < 6000 && atomic_load(told) < n_pes; i++)
        usleep(10000);
    _exit(0);
}

/* Checks the blocks that took part. A block of a grid may report MISMATCH, or TIMEOUT, in place of
 * the exact error. */
static void check_results(int form, const int *result, weft_status wanted)
{
    int blocks = form == GRID ? BLOCKS : form == SOME_BLOCKS ? PART : 1;
    for (int b = 0; b < blocks; b++)
        CHECK(result[b] == wanted || (form >= GRID && wanted && result[b] == WEFT_ERR_MISMATCH) ||
              (form >= GRID && wanted == WEFT_ERR_ARGUMENT && result[b] == WEFT_ERR_TIMEOUT));
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    int what = 0, form = 0;
    bool by_forms = strcmp(argv[1], "form") == 0;
    while (what < CASES && strcmp(argv[1], rows[what].name))
        what++;
    while (form < FORMS && strcmp(argv[2], forms[form]))
        form++;
    CHECK(form < FORMS && (what < CASES || by_forms || strcmp(argv[1], "nothing") == 0));
    device_begin();
    CHECK(n_pes <= PES);
    uint64_t words[2][PES];
    for (int i = 0; i < PES; i++) {
        words[0][i] = 8;
        words[1][i] = 16 * (uint64_t)i;
    }
    uint64_t *arrays = symmetric(sizeof words);
    store(arrays, words, sizeof words);
    char *whole = symmetric(3 * ROOM);
    static char apart[ROOM];
    struct call c = {me == n_pes - 1, me, n_pes, whole, whole + ROOM, apart, arrays, arrays + PES};
    c.dst += ROOM / 2;
    if (WEFT_TARGET_CUDA) /* never accessed: the address is in no symmetric segment */
        c.apart = (char *)(uintptr_t)65536;
    if (what == CASES)
        c.apart = c.src; /* valid calls read it */
    int *result = symmetric(BLOCKS * sizeof *result);
    _Atomic int *told = NULL;
    OK(weft_alloc(job, WEFT_HOST, sizeof *told, 0, WEFT_ALLOC_ZERO, (void **)&told));
    told = weft_ptr(job, (void *)told, 0);
    barrier();
    if (by_forms)
        OK(WEFT_LAUNCH(forms_differ, BLOCKS, THREADS, 0, NULL, c, result));
    else
        OK(WEFT_LAUNCH(differ, BLOCKS, THREADS, 0, NULL, what == CASES ? NOTHING : what, form, c,
                       result));
    weft_status status = weft_stream_synchronize(NULL);
    if (what == CASES && !by_forms) {
        OK(status);
        for (int b = 0; b < BLOCKS && !WEFT_TARGET_CUDA; b++)
            CHECK(result[b] == WEFT_OK);
        barrier();
        device_end();
        return 0;
    }
    weft_status wanted = by_forms ? WEFT_ERR_MISMATCH : c.odd ? rows[what].there : rows[what].here;
    const char *text = by_forms ? "by blocks of a grid at PE" : rows[what].words;
    if (!WEFT_TARGET_CUDA && !by_forms)
        check_results(form, result, wanted);
    bool collects = what == CASE_overlap_collect;
    for (int i = 0; i < 3 * ROOM && !WEFT_TARGET_CUDA && !collects; i++)
        CHECK(whole[i] == 0);
    if (wanted)
        FAILS(weft_device_check(job), wanted, text);
    else
        OK(weft_device_check(job));
    char blamed[32];
    snprintf(blamed, sizeof blamed, "at PE %d", n_pes - 1);
    CHECK(!wanted || wanted == WEFT_ERR_RANGE || c.odd || what == CASE_operation ||
          strstr(weft_last_error(), blamed));
    fprintf(stderr, "seen: %s\n", wanted ? weft_last_error() : "nothing");
    end_together(told);
}
#endif
