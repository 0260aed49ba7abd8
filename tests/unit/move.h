/* SPDX-License-Identifier: Apache-2.0 */
/* Records the text of each call that a collective makes, in order. Each call can be made to fail.
 * Include cmocka.h first. The program is linked with --wrap of all of these functions
 * (CMakeLists.txt). */
#ifndef WEFT_TESTS_UNIT_MOVE_H
#define WEFT_TESTS_UNIT_MOVE_H

#include "tests/unit/ops_job.h"

#include "ops/coll/coll.h"

#include <stdio.h>
#include <stdlib.h>

enum { PHASE = 100, TO = 512, MOST_MEMBERS = 65, BIG = 32 * 1024 };

static char calls[4096];  /* text of all calls, in order */
static const char *fails; /* the call that fails; NULL = none */
static int blocks;        /* memory blocks that are not freed */
static bool no_memory;
static struct coll_block_record shares[MOST_MEMBERS];
static char source[4 * BIG], own[4 * BIG], large[OPS_PES][2 * BIG];
static struct mailbox mailboxes[OPS_PES][MOST_MEMBERS];
static struct mailbox *mailbox_at[MOST_MEMBERS];
static int pes[MOST_MEMBERS];
static struct team_nodes nodes;

static __attribute__((format(printf, 2, 3))) weft_status called(const char *name,
                                                                const char *format, ...)
{
    size_t used = strlen(calls);
    va_list arguments;
    used += (size_t)snprintf(calls + used, sizeof calls - used, "%s", name);
    va_start(arguments, format);
    used += (size_t)vsnprintf(calls + used, sizeof calls - used, format, arguments);
    va_end(arguments);
    snprintf(calls + used, sizeof calls - used, "; ");
    return fails && !strcmp(fails, name) ? base_fail(WEFT_ERR_SYSTEM, "%s fails", name) : WEFT_OK;
}

/* Offset of an address in the source. */
static long in_source(const void *at)
{
    return (const char *)at - source;
}

weft_status __wrap_job_fail_all(struct weft_job *job, weft_status status, const char *sentence);
weft_status __wrap_job_fail_all(struct weft_job *job, weft_status status, const char *sentence)
{
    assert_ptr_equal(job, &ops.job);
    called("fail_all", " %s", sentence);
    return status;
}

weft_status __wrap_coll_begin(const char *function, struct weft_team *team,
                              enum box_operation operation, int root, uint64_t bytes,
                              uint64_t detail, uint64_t *phase);
weft_status __wrap_coll_begin(const char *function, struct weft_team *team,
                              enum box_operation operation, int root, uint64_t bytes,
                              uint64_t detail, uint64_t *phase)
{
    (void)operation;
    assert_ptr_equal(team, &ops.team);
    *phase = PHASE;
    return called("begin", " %s %d %llu %llx", function, root, (unsigned long long)bytes,
                  (unsigned long long)detail);
}

weft_status __wrap_coll_find_range(const char *function, const char *argument,
                                   struct weft_team *team, const void *address, size_t bytes,
                                   struct symmetric_range *range);
weft_status __wrap_coll_find_range(const char *function, const char *argument,
                                   struct weft_team *team, const void *address, size_t bytes,
                                   struct symmetric_range *range)
{
    (void)function;
    assert_ptr_equal(team, &ops.team);
    *range = (struct symmetric_range){SEG_HEAP, (size_t)((uintptr_t)address - (uintptr_t)own)};
    if (!strcmp(argument, "src"))
        *range = (struct symmetric_range){SEG_HEAP, (size_t)in_source(address)};
    return called("place", " %s %zu", argument, bytes);
}

weft_status __wrap_coll_notify_slow(struct weft_team *team, int member, uint64_t phase);
weft_status __wrap_coll_notify_slow(struct weft_team *team, int member, uint64_t phase)
{
    assert_ptr_equal(team, &ops.team);
    return called("notify", " %d %d", member, (int)phase);
}

weft_status __wrap_coll_await_slow(struct weft_team *team, int member, uint64_t phase,
                                   enum box_operation operation);
weft_status __wrap_coll_await_slow(struct weft_team *team, int member, uint64_t phase,
                                   enum box_operation operation)
{
    assert_ptr_equal(team, &ops.team);
    (void)operation;
    return called("await", " %d %d", member, (int)phase);
}

weft_status __wrap_coll_put_notify_slow(struct weft_team *team, int member,
                                        struct symmetric_range to, const void *src, size_t bytes,
                                        uint64_t phase, bool nbi);
weft_status __wrap_coll_put_notify_slow(struct weft_team *team, int member,
                                        struct symmetric_range to, const void *src, size_t bytes,
                                        uint64_t phase, bool nbi)
{
    assert_ptr_equal(team, &ops.team);
    return called("put", " %d %zu<%ld %zu %d%s", member, to.offset,
                  (size_t)in_source(src) < sizeof source ? in_source(src) : -1L, bytes, (int)phase,
                  nbi ? " nbi" : "");
}

weft_status __wrap_coll_exchange(struct weft_team *team, enum box_operation operation,
                                 const void *mine, void *all, size_t bytes);
weft_status __wrap_coll_exchange(struct weft_team *team, enum box_operation operation,
                                 const void *mine, void *all, size_t bytes)
{
    if (operation == BOX_OP_COLLECT) {
        shares[team->me] = *(const struct coll_block_record *)mine;
        memcpy(all, shares, (size_t)team->n * sizeof *shares);
        return called("shares", " %zu", bytes);
    }
    return called("exchange", " %ld %zu", in_source(mine), bytes);
}

weft_status __wrap_coll_exchange_each(struct weft_team *team, enum box_operation operation,
                                      const void *mine, void *all, size_t bytes);
weft_status __wrap_coll_exchange_each(struct weft_team *team, enum box_operation operation,
                                      const void *mine, void *all, size_t bytes)
{
    (void)team, (void)operation, (void)all;
    return called("exchange_each", " %ld %zu", in_source(mine), bytes);
}

weft_status __wrap_coll_nodes_broadcast(struct weft_team *team, struct symmetric_range to,
                                        const void *src, size_t bytes, int root, uint64_t phase);
weft_status __wrap_coll_nodes_broadcast(struct weft_team *team, struct symmetric_range to,
                                        const void *src, size_t bytes, int root, uint64_t phase)
{
    (void)team;
    return called("nodes_broadcast", " %zu<%ld %zu from %d %d", to.offset, in_source(src), bytes,
                  root, (int)phase);
}

weft_status __wrap_coll_nodes_collect(struct weft_team *team, enum box_operation operation,
                                      struct symmetric_range to, const void *src, const size_t *at,
                                      const size_t *bytes, uint64_t phase);
weft_status __wrap_coll_nodes_collect(struct weft_team *team, enum box_operation operation,
                                      struct symmetric_range to, const void *src, const size_t *at,
                                      const size_t *bytes, uint64_t phase)
{
    (void)team, (void)operation;
    return called("nodes_collect", " %zu %s %zu:%zu %zu:%zu %zu:%zu %d", to.offset,
                  src == source ? "source" : "copy", at[0], bytes[0], at[1], bytes[1], at[2],
                  bytes[2], (int)phase);
}

weft_status __wrap_coll_nodes_alltoall(struct weft_team *team, enum box_operation operation,
                                       const struct coll_nodes_blocks *what, uint64_t phase);
weft_status __wrap_coll_nodes_alltoall(struct weft_team *team, enum box_operation operation,
                                       const struct coll_nodes_blocks *what, uint64_t phase)
{
    (void)team, (void)operation;
    return called("nodes_alltoall", " %zu<%zu %zu*%zu %zu %zu %d", what->to.offset,
                  what->from.offset, what->element, what->n, what->dst_stride, what->src_stride,
                  (int)phase);
}

weft_status __wrap_coll_gpu_broadcast(struct weft_team *team, void *dst, const void *src,
                                      size_t bytes, int root, uint64_t phase);
weft_status __wrap_coll_gpu_broadcast(struct weft_team *team, void *dst, const void *src,
                                      size_t bytes, int root, uint64_t phase)
{
    (void)team, (void)dst, (void)src;
    return called("gpu_broadcast", " %zu %d %d", bytes, root, (int)phase);
}

weft_status __wrap_coll_gpu_nodes_collect(struct weft_team *team, enum box_operation operation,
                                          void *dst, const void *src, const size_t *at,
                                          const size_t *sizes, uint64_t phase);
weft_status __wrap_coll_gpu_nodes_collect(struct weft_team *team, enum box_operation operation,
                                          void *dst, const void *src, const size_t *at,
                                          const size_t *sizes, uint64_t phase)
{
    (void)team, (void)operation, (void)dst, (void)src;
    return called("gpu_nodes_collect", " %zu:%zu %zu:%zu %zu:%zu %d", at[0], sizes[0], at[1],
                  sizes[1], at[2], sizes[2], (int)phase);
}

weft_status __wrap_coll_gpu_blocks(struct weft_team *team, enum box_operation operation, void *dst,
                                   const void *src, size_t src_step, size_t bytes, size_t at);
weft_status __wrap_coll_gpu_blocks(struct weft_team *team, enum box_operation operation, void *dst,
                                   const void *src, size_t src_step, size_t bytes, size_t at)
{
    (void)team, (void)operation, (void)dst, (void)src;
    return called("gpu_blocks", " %zu %zu %zu", src_step, bytes, at);
}

struct coll_block_record __wrap_coll_gpu_block_record(const struct weft_team *team, const void *dst,
                                                      const void *src, size_t bytes);
struct coll_block_record __wrap_coll_gpu_block_record(const struct weft_team *team, const void *dst,
                                                      const void *src, size_t bytes)
{
    (void)team;
    assert_true(dst != src);
    assert_true(dst == own || dst == own + TO || (uintptr_t)dst == OPS_GPU);
    return (struct coll_block_record){bytes, 5};
}

weft_status __wrap_coll_gpu_collect(struct weft_team *team, void *dst, const void *src,
                                    const struct coll_block_record *of, size_t before,
                                    size_t total);
weft_status __wrap_coll_gpu_collect(struct weft_team *team, void *dst, const void *src,
                                    const struct coll_block_record *of, size_t before, size_t total)
{
    (void)team, (void)dst, (void)src;
    return called("gpu_collect", " %d+%d+%d %zu %zu", (int)of[0].bytes, (int)of[1].bytes,
                  (int)of[2].bytes, before, total);
}

weft_status __wrap_coll_gpu_strided(struct weft_team *team, void *dst, const void *src,
                                    ptrdiff_t dst_stride, ptrdiff_t src_stride, size_t element,
                                    size_t n);
weft_status __wrap_coll_gpu_strided(struct weft_team *team, void *dst, const void *src,
                                    ptrdiff_t dst_stride, ptrdiff_t src_stride, size_t element,
                                    size_t n)
{
    (void)team, (void)dst, (void)src;
    return called("gpu_strided", " %td %td %zu*%zu", dst_stride, src_stride, element, n);
}

weft_status __wrap_gpu_copy(struct gpu *gpu, unsigned lane, void *dst, const void *src,
                            size_t bytes, enum gpu_copy_mode manner);
weft_status __wrap_gpu_copy(struct gpu *gpu, unsigned lane, void *dst, const void *src,
                            size_t bytes, enum gpu_copy_mode manner)
{
    (void)src;
    assert_true(gpu == &ops.gpu && lane == 0 && manner == GPU_DONE);
    memset(dst, 'g', bytes);
    return called("copy", " %zu", bytes);
}

weft_status __wrap_weft_quiet(weft_ctx *ctx);
weft_status __wrap_weft_quiet(weft_ctx *ctx)
{
    assert_ptr_equal(ctx, &ops.system_ctx);
    return called("quiet", "%s", "");
}

weft_status __wrap_weft_iput(weft_ctx *ctx, void *dst, const void *src, ptrdiff_t dst_stride,
                             ptrdiff_t src_stride, size_t element, size_t n, int pe);
weft_status __wrap_weft_iput(weft_ctx *ctx, void *dst, const void *src, ptrdiff_t dst_stride,
                             ptrdiff_t src_stride, size_t element, size_t n, int pe)
{
    assert_ptr_equal(ctx, &ops.system_ctx);
    return called("iput", " %d %td<%ld %td %td %zu*%zu", pe, (char *)dst - own, in_source(src),
                  dst_stride, src_stride, element, n);
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    void *block = no_memory ? NULL : __real_malloc(bytes);
    blocks += block != NULL;
    return block;
}

void __real_free(void *block);
void __wrap_free(void *block);
void __wrap_free(void *block)
{
    blocks -= block != NULL;
    __real_free(block);
}

static int set_up(void **state)
{
    (void)state;
    ops_begin();
    calls[0] = 0;
    fails = NULL;
    blocks = 0;
    no_memory = false;
    memset(mailboxes, 0, sizeof mailboxes);
    memset(shares, 0, sizeof shares);
    for (int i = 0; i < MOST_MEMBERS; i++) {
        mailbox_at[i] = NULL;
        pes[i] = i < OPS_PES ? (i + 2) % 3 : 0; /* PEs 2, 0, 1 */
    }
    for (size_t i = 0; i < sizeof source; i++)
        source[i] = (char)(i % 101 + 1);
    memset(own, 0x5a, sizeof own);
    memset(large, 0x5a, sizeof large);
    ops.job.gpu = NULL;
    ops.job.segments[SEG_HEAP].base = own;
    ops.team.pes = pes;
    ops.team.mailbox_at = mailbox_at;
    ops.team.mailboxes = mailboxes[1];
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(blocks, 0);
    return 0;
}

/* Checks the status of a call and the text of the calls that it makes. */
#define assert_calls(expected_status, text, call)                                                  \
    do {                                                                                           \
        calls[0] = 0;                                                                              \
        assert_int_equal(call, expected_status);                                                   \
        assert_string_equal(calls, text);                                                          \
    } while (0)

static inline bool is_filled(const void *at, int value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (((const char *)at)[i] != value)
            return false;
    return true;
}

#endif
