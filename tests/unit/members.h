/* SPDX-License-Identifier: Apache-2.0 */
/* A team whose members are coroutines of this process, for tests of collectives. Members of one
 * node load and store each other's memory. Between nodes, data arrives late: a put at the next
 * fence or quiet, a nonblocking get at the next quiet. A call of a fake can be made to fail.
 * Include cmocka.h first. */
#ifndef WEFT_TESTS_UNIT_MEMBERS_H
#define WEFT_TESTS_UNIT_MEMBERS_H

#include "gpu/gpu.h"
#include "job/waiter.h"
#include "ops/coll/coll.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { MOST_MEMBERS = 7, MEMBER_HEAP = 24 << 20, MOST_LATE = 64 };

/* The nodes of the members. */
struct layout {
    int n, node[MOST_MEMBERS];
    bool nodes;  /* the team knows the nodes */
    bool apart;  /* no member loads and stores another member's memory */
    int refuses; /* the member whose allocation fails, counted from 1; 0 = none */
    int allows;  /* number of its allocations that succeed first */
};

/* A put or get that is not yet done. */
struct late {
    char *to;
    const char *from;
    char *copy; /* copy of the put data, to be freed */
    size_t bytes;
};

static struct member {
    struct weft_job job;
    struct weft_ctx ctx, system_ctx;
    struct weft_team team;
    struct team_nodes nodes;
    struct box box;
    char *map[3 * MOST_MEMBERS][SEG_COUNT];
    struct mailbox *system, *at[MOST_MEMBERS]; /* system: mailboxes begin the system segment */
    struct late puts[MOST_LATE], gets[MOST_LATE];
    int late_puts, late_gets;
    struct box_wait wait;
    ucontext_t here;
    bool lives;
    bool arrived; /* all data had arrived when the call returned */
    weft_status status;
    int calls_after; /* calls after the member's failure */
    int reported;    /* failures of the job that the member reported */
    int32_t fault;
    char *heap;
    char stack[384 << 10];
} members[MOST_MEMBERS];

static struct {
    struct layout layout;
    int pes[MOST_MEMBERS];
    int of[MOST_MEMBERS], first[MOST_MEMBERS + 1], in_nodes[MOST_MEMBERS];
    struct member *now; /* the running member; NULL = the test itself */
    void (*body)(int me);
    ucontext_t back;
    uint32_t random;
    int fruitless;  /* consecutive waits without progress */
    int calls;      /* calls of the fakes, without waits */
    size_t crossed; /* bytes of puts and gets between members that do not share memory */
    int fails_at;   /* number of the call that fails (fails_wait: of the wait); 0 = none */
    int waits;      /* slow waits */
    enum box_operation operation; /* which all waits are part of; BOX_OP_NONE: not compared */
    int fails_wait;
    int failed;  /* the member whose call failed; -1 = none */
    long memory; /* allocations not yet freed */
    int refused; /* allocations that failed, and the successful ones before them */
} crowd;

static void switch_away(void)
{
    struct member *self = crowd.now;
    crowd.now = NULL;
    swapcontext(&self->here, &crowd.back);
}

static void member_body(void)
{
    crowd.body((int)(crowd.now - members));
    crowd.now->lives = false;
    switch_away();
}

static uint32_t any_number(void)
{
    crowd.random = crowd.random * 1664525 + 1013904223;
    return crowd.random >> 16;
}

/* Runs in each call of a fake. It may switch to other members, and it may fail. */
static weft_status beneath(weft_ctx *ctx)
{
    struct member *self = crowd.now;
    if (any_number() % 2)
        switch_away();
    assert_ptr_equal(ctx, &self->system_ctx);
    crowd.fruitless = 0;
    self->calls_after += crowd.failed == self - members;
    if (++crowd.calls != crowd.fails_at)
        return WEFT_OK;
    crowd.failed = (int)(self - members);
    return base_fail(WEFT_ERR_SYSTEM, "call %d fails", crowd.calls);
}

static struct member *member_of_pe(int pe)
{
    for (int i = 0; i < crowd.layout.n; i++)
        if (crowd.pes[i] == pe)
            return &members[i];
    fail_msg("PE %d is not of the team", pe);
    return NULL;
}

/* Whether the address is in the buffers of reductions of the running member. */
static bool is_buffer(const struct member *self, const void *address)
{
    size_t at = (size_t)((const char *)address - (char *)self->system);
    return at - reduce_buffers_offset(3 * MOST_MEMBERS) < sizeof(struct reduce_buffer);
}

/* Translates a symmetric address of the running member into the address at `pe`. */
static char *there(const void *address, int pe)
{
    struct member *self = crowd.now, *other = member_of_pe(pe);
    size_t in_heap = (size_t)((const char *)address - self->heap);
    size_t in_system = (size_t)((const char *)address - (char *)self->system);
    if (in_heap < MEMBER_HEAP)
        return other->heap + in_heap;
    assert_true(in_system < sizeof(struct mailbox[MOST_MEMBERS]) || is_buffer(self, address));
    return (char *)other->system + in_system;
}

static void count_bytes(int pe, size_t bytes)
{
    if (!crowd.now->at[member_of_pe(pe) - members])
        crowd.crossed += bytes;
}

void *__real_malloc(size_t bytes);
void __real_free(void *memory);

static void carry_out(struct late *late, int *n)
{
    for (int i = 0; i < *n; i++) {
        memcpy(late[i].to, late[i].from, late[i].bytes);
        __real_free(late[i].copy);
    }
    *n = 0;
}

static void put_late(struct late *all, int *n, void *to, const void *from, size_t bytes, bool copy)
{
    assert_true(*n < MOST_LATE);
    struct late *late = &all[(*n)++];
    *late = (struct late){.to = to, .from = from, .bytes = bytes};
    if (!copy)
        return;
    late->from = late->copy = __real_malloc(bytes + 1);
    memcpy(late->copy, from, bytes);
}

weft_status __wrap_weft_put(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe);
weft_status __wrap_weft_put(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe)
{
    weft_status status = beneath(ctx);
    if (status)
        return status;
    char *to = there(dst, pe);
    size_t in_heap = (size_t)((char *)dst - crowd.now->heap);
    count_bytes(pe, bytes);
    if (in_heap < MEMBER_HEAP || is_buffer(crowd.now, dst))
        put_late(crowd.now->puts, &crowd.now->late_puts, to, src, bytes, true);
    else
        memcpy(to, src, bytes);
    return WEFT_OK;
}

weft_status __wrap_weft_put_nbi(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe);
weft_status __wrap_weft_put_nbi(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe)
{
    weft_status status = beneath(ctx);
    if (status)
        return status;
    count_bytes(pe, bytes);
    put_late(crowd.now->gets, &crowd.now->late_gets, there(dst, pe), src, bytes, false);
    return WEFT_OK;
}

weft_status __wrap_weft_get(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe);
weft_status __wrap_weft_get(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe)
{
    weft_status status = beneath(ctx);
    if (status)
        return status;
    count_bytes(pe, bytes);
    memcpy(dst, there(src, pe), bytes);
    return WEFT_OK;
}

weft_status __wrap_weft_get_nbi(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe);
weft_status __wrap_weft_get_nbi(weft_ctx *ctx, void *dst, const void *src, size_t bytes, int pe)
{
    weft_status status = beneath(ctx);
    if (status)
        return status;
    count_bytes(pe, bytes);
    put_late(crowd.now->gets, &crowd.now->late_gets, dst, there(src, pe), bytes, false);
    return WEFT_OK;
}

static weft_status signalled(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                             uint64_t *signal, uint64_t value, weft_signal_op op, int pe)
{
    weft_status status = beneath(ctx);
    if (status)
        return status;
    assert_int_equal(op, WEFT_SIGNAL_SET);
    count_bytes(pe, bytes);
    memcpy(there(dst, pe), src, bytes);
    *(uint64_t *)(void *)there(signal, pe) = value;
    return WEFT_OK;
}

weft_status __wrap_weft_put_signal(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                   uint64_t *signal, uint64_t value, weft_signal_op op, int pe);
weft_status __wrap_weft_put_signal(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                   uint64_t *signal, uint64_t value, weft_signal_op op, int pe)
{
    return signalled(ctx, dst, src, bytes, signal, value, op, pe);
}

weft_status __wrap_weft_put_signal_nbi(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                       uint64_t *signal, uint64_t value, weft_signal_op op, int pe);
weft_status __wrap_weft_put_signal_nbi(weft_ctx *ctx, void *dst, const void *src, size_t bytes,
                                       uint64_t *signal, uint64_t value, weft_signal_op op, int pe)
{
    weft_status status = signalled(ctx, dst, src, bytes, signal, value, op, pe);
    /* The source must stay unchanged until the next quiet, so the fake puts it again then. */
    if (!status)
        put_late(crowd.now->gets, &crowd.now->late_gets, there(dst, pe), src, bytes, false);
    return status;
}

static void copy_strided(char *to, const char *from, ptrdiff_t to_stride, ptrdiff_t from_stride,
                         size_t element, size_t n)
{
    for (size_t i = 0; i < n; i++)
        memcpy(to + (ptrdiff_t)i * to_stride * (ptrdiff_t)element,
               from + (ptrdiff_t)i * from_stride * (ptrdiff_t)element, element);
}

weft_status __wrap_weft_iput(weft_ctx *ctx, void *dst, const void *src, ptrdiff_t dst_stride,
                             ptrdiff_t src_stride, size_t element, size_t n, int pe);
weft_status __wrap_weft_iput(weft_ctx *ctx, void *dst, const void *src, ptrdiff_t dst_stride,
                             ptrdiff_t src_stride, size_t element, size_t n, int pe)
{
    weft_status status = beneath(ctx);
    if (status)
        return status;
    count_bytes(pe, n * element);
    copy_strided(there(dst, pe), src, dst_stride, src_stride, element, n);
    return WEFT_OK;
}

weft_status __wrap_weft_iget(weft_ctx *ctx, void *dst, const void *src, ptrdiff_t dst_stride,
                             ptrdiff_t src_stride, size_t element, size_t n, int pe);
weft_status __wrap_weft_iget(weft_ctx *ctx, void *dst, const void *src, ptrdiff_t dst_stride,
                             ptrdiff_t src_stride, size_t element, size_t n, int pe)
{
    weft_status status = beneath(ctx);
    if (status)
        return status;
    count_bytes(pe, n * element);
    copy_strided(dst, there(src, pe), dst_stride, src_stride, element, n);
    return WEFT_OK;
}

weft_status __wrap_weft_fence(weft_ctx *ctx);
weft_status __wrap_weft_fence(weft_ctx *ctx)
{
    weft_status status = beneath(ctx);
    if (!status)
        carry_out(crowd.now->puts, &crowd.now->late_puts);
    return status;
}

weft_status __wrap_weft_quiet(weft_ctx *ctx);
weft_status __wrap_weft_quiet(weft_ctx *ctx)
{
    weft_status status = beneath(ctx);
    if (status)
        return status;
    carry_out(crowd.now->puts, &crowd.now->late_puts);
    carry_out(crowd.now->gets, &crowd.now->late_gets);
    return WEFT_OK;
}

/* If no member makes progress any more, the awaited value never arrives and the wait fails. */
weft_status __wrap_waiter_slow(struct waiter *waiter, uint64_t seen);
weft_status __wrap_waiter_slow(struct waiter *waiter, uint64_t seen)
{
    struct member *self = crowd.now;
    assert_true(seen < waiter->expected);
    assert_ptr_equal(waiter->job, &self->job);
    if (crowd.operation)
        assert_string_equal(box_operation_name(waiter->operation),
                            box_operation_name(crowd.operation));
    if (!waiter->slot) {
        waiter->slot = &self->wait;
        crowd.fruitless = 0;
        self->calls_after += crowd.failed == self - members;
        if (++crowd.waits == crowd.fails_wait) {
            crowd.failed = (int)(self - members);
            return base_fail(WEFT_ERR_SYSTEM, "wait %d fails", crowd.waits);
        }
    }
    if (++crowd.fruitless > 20 * crowd.layout.n)
        return base_fail(WEFT_ERR_TIMEOUT, "nothing happens any more");
    switch_away();
    return WEFT_OK;
}

void __wrap_waiter_unpublish(struct waiter *waiter);
void __wrap_waiter_unpublish(struct waiter *waiter)
{
    assert_ptr_equal(waiter->slot, &crowd.now->wait);
}

weft_status __wrap_job_fail(struct weft_job *job, weft_status status, const char *sentence);
weft_status __wrap_job_fail(struct weft_job *job, weft_status status, const char *sentence)
{
    assert_ptr_equal(job, &crowd.now->job);
    crowd.now->reported++;
    return base_fail(status, "%s", sentence);
}

weft_status __wrap_job_fail_all(struct weft_job *job, weft_status status, const char *sentence);
weft_status __wrap_job_fail_all(struct weft_job *job, weft_status status, const char *sentence)
{
    assert_ptr_equal(job, &crowd.now->job);
    crowd.now->reported++;
    return base_fail(status, "%s", sentence);
}

void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    if (!crowd.now)
        return __real_malloc(bytes);
    if (crowd.layout.refuses == crowd.now - members + 1 && crowd.refused++ >= crowd.layout.allows)
        return NULL;
    void *memory = __real_malloc(bytes);
    memset(memory, 0x77, bytes < 4096 ? bytes : 4096);
    crowd.memory++;
    return memory;
}

void __wrap_free(void *memory);
void __wrap_free(void *memory)
{
    crowd.memory -= crowd.now && memory;
    __real_free(memory);
}

/* ------------------------------------------------------------------------------------- the team */

static void make_nodes(const struct layout *layout)
{
    int most = 0, placed = 0;
    for (int i = 0; i < layout->n; i++)
        most = layout->node[i] > most ? layout->node[i] : most;
    for (int node = 0; node <= most; node++) {
        crowd.first[node] = placed;
        for (int i = 0; i < layout->n; i++)
            if (layout->node[i] == node)
                crowd.in_nodes[placed++] = i;
    }
    crowd.first[most + 1] = placed;
    struct team_nodes nodes = {.n = most + 1,
                               .least = MOST_MEMBERS,
                               .in_order = true,
                               .of = crowd.of,
                               .first = crowd.first,
                               .members = crowd.in_nodes};
    for (int node = 0; node <= most; node++) {
        int count = crowd.first[node + 1] - crowd.first[node];
        nodes.least = count < nodes.least ? count : nodes.least;
    }
    for (int i = 0; i < layout->n; i++) {
        crowd.of[i] = layout->node[i];
        nodes.in_order &= crowd.in_nodes[i] == i;
    }
    for (int k = 0; k < layout->n; k++) {
        struct member *m = &members[crowd.in_nodes[k]];
        m->nodes = nodes;
        m->nodes.mine = layout->node[crowd.in_nodes[k]];
        m->nodes.local_me = k - crowd.first[m->nodes.mine];
    }
}

static void make_member(const struct layout *layout, int me)
{
    struct member *m = &members[me];
    m->job = (struct weft_job){.pe = crowd.pes[me],
                               .npes = 3 * MOST_MEMBERS,
                               .default_ctx = &m->ctx,
                               .system_ctx = &m->system_ctx,
                               .box = &m->box,
                               .failure.word = &m->fault};
    m->job.segments[SEG_HEAP].base = m->heap;
    m->job.segments[SEG_HEAP].size = MEMBER_HEAP;
    m->job.segments[SEG_SYSTEM].base = (char *)m->system;
    m->ctx = (struct weft_ctx){.job = &m->job,
                               .npes = 3 * MOST_MEMBERS,
                               .fault = &m->fault,
                               .seg[SEG_HEAP] = {(uintptr_t)m->heap, MEMBER_HEAP}};
    m->system_ctx = m->ctx;
    m->team = (struct weft_team){.job = &m->job,
                                 .n = layout->n,
                                 .me = me,
                                 .pes = crowd.pes,
                                 .nodes = layout->nodes ? &m->nodes : NULL,
                                 .direct = !layout->apart,
                                 .radix = 3,
                                 .leader = -1,
                                 .mailboxes = m->system,
                                 .mailbox_at = m->at};
    for (int i = 0; i < layout->n; i++) {
        bool mapped = !layout->apart && layout->node[i] == layout->node[me];
        m->team.direct &= mapped;
        m->at[i] = mapped ? &members[i].system[me] : NULL;
        m->map[crowd.pes[i]][SEG_HEAP] = mapped ? members[i].heap : NULL;
        m->map[crowd.pes[i]][SEG_SYSTEM] = mapped ? (char *)members[i].system : NULL;
    }
    m->job.paths.map = m->map;
}

/* Resets everything except the contents of memory. */
static void crowd_begin(const struct layout *layout)
{
    const size_t system = prove_lines_offset(3 * MOST_MEMBERS);
    static char *heaps, *systems;
    if (!heaps) {
        heaps = mmap(NULL, (size_t)MOST_MEMBERS * MEMBER_HEAP, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        systems = mmap(NULL, (size_t)MOST_MEMBERS * system, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    memset(&crowd, 0, sizeof crowd);
    crowd.layout = *layout;
    crowd.failed = -1;
    crowd.random = 7;
    for (int i = 0; i < layout->n; i++) {
        crowd.pes[i] = (i * 5 + 3) % (3 * MOST_MEMBERS);
        members[i].system = (struct mailbox *)(void *)(systems + (size_t)i * system);
        memset(members[i].system, 0, sizeof(struct mailbox[MOST_MEMBERS]));
        members[i].heap = heaps + (size_t)i * MEMBER_HEAP;
        members[i].late_puts = members[i].late_gets = 0;
        members[i].calls_after = members[i].reported = 0;
    }
    make_nodes(layout);
    for (int i = 0; i < layout->n; i++)
        make_member(layout, i);
}

static void start(struct member *m)
{
    m->lives = true;
    getcontext(&m->here);
    m->here.uc_stack.ss_sp = m->stack;
    m->here.uc_stack.ss_size = sizeof m->stack;
    makecontext(&m->here, member_body, 0);
}

/* Runs `body` in every member until all have returned. */
static void crowd_run(void (*body)(int me))
{
    int left = crowd.layout.n;
    crowd.body = body;
    for (int i = 0; i < crowd.layout.n; i++)
        start(&members[i]);
    while (left) {
        struct member *m = &members[any_number() % (uint32_t)crowd.layout.n];
        if (!m->lives)
            continue;
        crowd.now = m;
        swapcontext(&crowd.back, &m->here);
        left -= !m->lives;
    }
    for (int i = 0; i < crowd.layout.n; i++) {
        struct member *m = &members[i];
        if (crowd.failed < 0)
            assert_int_equal(m->late_puts + m->late_gets, 0);
        for (int k = 0; k < m->late_puts; k++)
            __real_free(m->puts[k].copy);
    }
}

#endif
