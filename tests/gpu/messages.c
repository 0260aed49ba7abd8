/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of <weft/stream.h> on both targets:
 *   messages [N]        N random programs against a model: up to 4 calls without a wait in between,
 *                       any pairs of the world or of a team in reverse order, up to 160 messages of
 *                       0 bytes to many slots, rooms of one and of many channels, two streams
 *   messages longest    the longest list: 65535 messages of a PE to itself
 *   messages split      messages of one call arrive in several calls, and the reverse, also those
 *                       of a PE to itself
 *   messages apart      calls with different members at the same time on two streams
 *   messages graph      calls in a graph, replayed between other calls
 *   messages differs [BYTES]  PE 0 sends 1000 bytes, and PE 1 expects BYTES
 *   messages absent     PE 1 expects a message that is not sent
 *   messages arguments  invalid calls
 *   messages late       an object that is older than the job's GPU side */
#include "tests/job/job.h"

#include "driver/gpu_api.h"
#include "gpu/gpu.h"
#include "job/job.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>
#include <weft/simt_executor.h>
#include <weft/stream.h>

enum { FEW = 24, MOST = 160, BYTES = 2 << 20, LONGEST = 65535, UNTOUCHED = 0xee, OBJECTS = 3 };

static weft_job *job;
static weft_team *world;
static int me, n;
static bool on_cuda;
static struct gpu_api driver;
static weft_stream streams[2];
static char *out, *in; /* memory of this PE alone */
static unsigned char *host;

struct object {
    weft_team *team;
    weft_messages *messages;
    int n, me;
};
static struct object objects[OBJECTS];

struct message {
    int from, to, call, seed; /* from, to: members */
    size_t bytes, from_at, to_at;
};

static uint32_t draw(uint64_t *state, uint32_t below)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    return (uint32_t)((x ^ x >> 31) >> 32) % below;
}

/* ------------------------------------------------------------------------------ both targets */

static void make_current(void)
{
    CUcontext context;
    OK(gpu_api_open(&driver));
    CHECK(!driver.DevicePrimaryCtxRetain(&context, job->gpu->device.device));
    CHECK(!driver.CtxPushCurrent(context));
}

static void *private_memory(size_t bytes)
{
    CUdeviceptr at = 0;
    if (!on_cuda)
        return malloc(bytes);
    CHECK(!driver.MemAlloc(&at, bytes));
    return (void *)(uintptr_t)at;
}

static void to_memory(void *to, const void *from, size_t bytes)
{
    if (!on_cuda) {
        memcpy(to, from, bytes);
        return;
    }
    CHECK(!driver.MemcpyHtoD((uintptr_t)to, from, bytes));
    CHECK(!driver.StreamSynchronize(NULL)); /* the copy may return before the data has arrived */
}

static void from_memory(void *to, const void *from, size_t bytes)
{
    if (!on_cuda)
        memcpy(to, from, bytes);
    else
        CHECK(!driver.MemcpyDtoH(to, (uintptr_t)from, bytes));
}

static void wait_for(weft_stream stream)
{
    if (on_cuda)
        CHECK(!driver.StreamSynchronize(stream));
    else
        (void)weft_simt_stream_synchronize(stream);
}

static void make_stream(weft_stream *stream)
{
    if (on_cuda)
        CHECK(!driver.StreamCreate((CUstream *)stream, CU_STREAM_NON_BLOCKING));
    else
        OK(weft_simt_stream_create((weft_simt_stream **)stream));
}

static void new_object(int i, weft_team *team, size_t room)
{
    objects[i] = (struct object){.team = team, .n = n, .me = weft_team_my_pe(team)};
    OK(weft_messages_create(team, room, &objects[i].messages));
}

/* Exit 77 = skipped: this machine has no GPU. */
static void open_gpu(void)
{
    void *unused;
    weft_status status = weft_alloc(job, WEFT_GPU, 64, 0, 0, &unused);
    if (status == WEFT_ERR_UNSUPPORTED) {
        fprintf(stderr, "skipped: %s\n", weft_last_error());
        exit(77);
    }
    OK(status);
}

/* With WEFT_TARGET=cuda the first object opens the GPU side. */
static void begin(void)
{
    const char *target = getenv("WEFT_TARGET");
    weft_team *reversed;
    OK(weft_init(&job, NULL));
    world = weft_team_world(job);
    me = weft_my_pe(job);
    n = weft_n_pes(job);
    on_cuda = !target || strcmp(target, "simt") != 0;
    if (!target)
        open_gpu();
    new_object(0, world, (size_t)n * 4096);
    new_object(1, world, 1 << 20);
    OK(weft_team_split_strided(world, n - 1, -1, n, &reversed));
    new_object(2, reversed, 300000);
    if (on_cuda)
        make_current();
    make_stream(&streams[0]);
    make_stream(&streams[1]);
    out = private_memory(BYTES);
    in = private_memory(BYTES);
    host = malloc(BYTES);
    CHECK(out && in && host);
}

static void end(void)
{
    for (int i = 0; i < OBJECTS; i++)
        OK(weft_messages_destroy(objects[i].messages));
    OK(weft_messages_destroy(NULL));
    OK(weft_finalize(job));
}

/* ------------------------------------------------------------------------------------ a model */

static unsigned char byte_of(int seed, size_t i)
{
    return (unsigned char)((i * 2654435761u + (unsigned)seed * 40503u) >> 13);
}

/* Places the messages in the memory of both ends, with gaps. */
static void place(struct message *m, int count)
{
    size_t at = 0;
    for (int i = 0; i < count; i++) {
        if (at + m[i].bytes + 16 > BYTES)
            m[i].bytes = 0;
        m[i].from_at = at + (unsigned)i % 3;
        m[i].to_at = at + (unsigned)i % 7;
        at += m[i].bytes + 7;
    }
}

/* Writes what this member sends, and makes the rest known. */
static void write_memory(const struct message *m, int count, int member)
{
    memset(host, 0, BYTES);
    for (int i = 0; i < count; i++)
        for (size_t b = 0; b < m[i].bytes && m[i].from == member; b++)
            host[m[i].from_at + b] = byte_of(m[i].seed, b);
    to_memory(out, host, BYTES);
    memset(host, UNTOUCHED, BYTES);
    to_memory(in, host, BYTES);
}

static void check_memory(const struct message *m, int count, int member, const char *what)
{
    from_memory(host, in, BYTES);
    for (int i = 0; i < count; i++)
        for (size_t b = 0; b < m[i].bytes && m[i].to == member; b++) {
            unsigned char *is = &host[m[i].to_at + b];
            if (*is != byte_of(m[i].seed, b)) {
                fprintf(stderr, "PE %d: %s: message %d of %d, from %d, %zu bytes: byte %zu\n", me,
                        what, i, count, m[i].from, m[i].bytes, b);
                exit(1);
            }
            *is = UNTOUCHED;
        }
    for (size_t b = 0; b < BYTES; b++)
        CHECK(host[b] == UNTOUCHED);
}

/* This member's part of a call, in an order of its own: messages of a pair keep theirs. Without
 * `own`, sends are first. */
static void call(const struct object *o, const struct message *m, int count, int which,
                 uint64_t *own, weft_stream stream)
{
    weft_message list[2 * MOST];
    size_t made = 0;
    for (int i = 0; i < count; i++) {
        if (m[i].call != which)
            continue;
        if (m[i].from == o->me)
            list[made++] = (weft_message){out + m[i].from_at, m[i].bytes, m[i].to, 0};
        if (m[i].to == o->me && own)
            list[made++] = (weft_message){in + m[i].to_at, m[i].bytes, m[i].from, 1};
    }
    for (int i = 0; i < count && !own; i++)
        if (m[i].call == which && m[i].to == o->me)
            list[made++] = (weft_message){in + m[i].to_at, m[i].bytes, m[i].from, 1};
    for (size_t tries = 0; tries < 4 * made && own; tries++) {
        weft_message *a = &list[draw(own, (uint32_t)made)], *b = a + 1, first = *a;
        if (b == list + made || (a->member == b->member && a->receives == b->receives))
            continue;
        *a = *b;
        *b = first;
    }
    OK(weft_messages_on_stream(o->messages, list, made, stream));
}

static int draw_messages(struct message *m, const struct object *o, uint64_t *state)
{
    int count = 1 + (int)draw(state, draw(state, 6) ? FEW : MOST);
    int calls = 1 + (int)draw(state, 4);
    for (int i = 0; i < count; i++) {
        uint32_t most = draw(state, 8) ? 3000 : BYTES / 40;
        m[i] = (struct message){.from = (int)draw(state, (uint32_t)o->n),
                                .to = (int)draw(state, (uint32_t)o->n),
                                .call = i * calls / count,
                                .seed = (int)draw(state, 1000)};
        m[i].bytes = draw(state, 10) ? draw(state, most) : 0;
    }
    place(m, count);
    return count;
}

static void random_program(const struct object *o, uint64_t *state, uint64_t *own)
{
    struct message m[MOST];
    int count = draw_messages(m, o, state);
    weft_stream stream = streams[draw(own, 2)];
    write_memory(m, count, o->me);
    for (int c = 0; c < 4; c++)
        call(o, m, count, c, own, stream);
    wait_for(stream);
    check_memory(m, count, o->me, "program");
}

static void random_programs(int programs)
{
    uint64_t state = 5, own = (uint64_t)me * 77 + 3;
    for (int i = 0; i < programs; i++) {
        uint32_t object = draw(&state, OBJECTS);
        random_program(&objects[object], &state, &own);
    }
}

/* ---------------------------------------------------------------------------------- other calls */

static void longest(void)
{
    weft_message *list = malloc(2 * (size_t)LONGEST * sizeof *list);
    enum { EACH = LONGEST / 2 };
    CHECK(list);
    for (size_t i = 0; i < BYTES; i++)
        host[i] = byte_of(1, i);
    to_memory(out, host, BYTES);
    for (size_t i = 0; i < EACH; i++) {
        list[i] = (weft_message){out + 8 * i, 1 + i % 8, me, 0};
        list[EACH + i] = (weft_message){in + 8 * i, 1 + i % 8, me, 1};
    }
    list[2 * EACH] = (weft_message){NULL, 0, me, 1};
    OK(weft_messages_on_stream(objects[1].messages, list, LONGEST, streams[0]));
    wait_for(streams[0]);
    from_memory(host, in, BYTES);
    for (size_t i = 0; i < 8 * (size_t)EACH; i++)
        CHECK(i % 8 > i / 8 % 8 || host[i] == byte_of(1, i));
    FAILS(weft_messages_on_stream(objects[1].messages, list, LONGEST + 1, streams[0]),
          WEFT_ERR_ARGUMENT, "65536 messages; at most 65535");
    free(list);
}

/* PE 0 sends in `parts` calls what the others receive in `other` calls. */
static void split(int parts, int other, int seed)
{
    enum { TOGETHER = 12 };
    struct message m[TOGETHER * MOST / FEW];
    uint64_t own = (uint64_t)me;
    int count = 0;
    for (int to = 1; to < n; to++)
        for (int i = 0; i < TOGETHER; i++, count++)
            m[count] = (struct message){.to = to,
                                        .call = i * (me ? other : parts) / TOGETHER,
                                        .seed = seed + count,
                                        .bytes = (size_t)(1 + i * 977)};
    place(m, count);
    write_memory(m, count, me);
    for (int c = 0; c < TOGETHER; c++)
        call(&objects[1], m, count, c, &own, streams[0]);
    wait_for(streams[0]);
    check_memory(m, count, me, "split");
}

/* A PE sends to itself in one call and receives in the next one, and both in one call. */
static void split_own(void)
{
    weft_message send = {out, 700, me, 0}, receive = {in, 700, me, 1};
    weft_message both[] = {{out + 800, 900, me, 0}, {in + 1000, 900, me, 1}};
    struct message m[] = {
        {.from = me, .to = me, .seed = 3, .bytes = 700},
        {.from = me, .to = me, .seed = 4, .bytes = 900, .from_at = 800, .to_at = 1000}};
    for (int round = 0; round < 3; round++) {
        write_memory(m, 2, me);
        OK(weft_messages_on_stream(objects[1].messages, &send, 1, streams[0]));
        if (round == 1) { /* the one sent above is received first */
            weft_message all[] = {both[0], receive};
            OK(weft_messages_on_stream(objects[1].messages, all, 2, streams[0]));
            OK(weft_messages_on_stream(objects[1].messages, &both[1], 1, streams[0]));
        } else {
            OK(weft_messages_on_stream(objects[1].messages, &receive, 1, streams[0]));
            OK(weft_messages_on_stream(objects[1].messages, both, 2, streams[0]));
        }
        wait_for(streams[0]);
        check_memory(m, 2, me, "own");
    }
}

/* PE 0 sends long lists to PE 1 and to PE 2 on two streams; PE 1 has its call after PE 2 has
 * received. */
static void apart(void)
{
    enum { EACH = 100 };
    struct message m[2 * EACH];
    uint64_t own = 1;
    CHECK(n == 3);
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < 2 * EACH; i++)
            m[i] = (struct message){.to = 1 + i / EACH,
                                    .call = i / EACH,
                                    .seed = 1000 * round + i,
                                    .bytes = 500 + (size_t)i};
        place(m, 2 * EACH);
        write_memory(m, 2 * EACH, me);
        for (int c = 0; c < 2 && me != 1; c++)
            call(&objects[1], m, 2 * EACH, c, &own, streams[c]);
        if (me == 2)
            wait_for(streams[1]);
        OK(weft_barrier(world));
        if (me == 1)
            call(&objects[1], m, 2 * EACH, 0, &own, streams[0]);
        wait_for(streams[0]);
        wait_for(streams[1]);
        check_memory(m, 2 * EACH, me, "apart");
    }
}

/* The stand-in executes a graph as one stream. Where streams move the messages, each call has at
 * most four from one member to another, as many as there are slots, and sends are first. */
static void graph(void)
{
    bool one_stream = getenv("WEFT_PATH") != NULL;
    int count = one_stream ? 30 : MOST;
    CUresult (*start)(CUstream, int), (*stop)(CUstream, void **);
    CUresult (*instantiate)(void **, void *, unsigned long long), (*launch)(void *, CUstream);
    uint64_t state = 9, own = (uint64_t)me, *order = one_stream ? NULL : &own;
    struct message m[MOST], between[MOST];
    void *captured, *executable;
    CHECK(on_cuda);
    *(void **)&start = dlsym(driver.handle, "cuStreamBeginCapture_v2");
    *(void **)&stop = dlsym(driver.handle, "cuStreamEndCapture");
    *(void **)&instantiate = dlsym(driver.handle, "cuGraphInstantiateWithFlags");
    *(void **)&launch = dlsym(driver.handle, "cuGraphLaunch");
    CHECK(start && stop && instantiate && launch);
    for (int i = 0; i < count; i++) /* a short list, then a long one */
        m[i] = (struct message){.from = i % n,
                                .to = i * 3 / 2 % n,
                                .call = i >= 10,
                                .bytes = i % 20 ? (size_t)i * 11 : 15000};
    place(m, count);
    CHECK(!start(streams[0], 0)); /* the capture includes the first call */
    call(&objects[1], m, count, 0, order, streams[0]);
    call(&objects[1], m, count, 1, order, streams[0]);
    CHECK(!stop(streams[0], &captured));
    CHECK(!instantiate(&executable, captured, 0));
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < count; i++)
            m[i].seed = 100 * round + i;
        write_memory(m, count, me);
        CHECK(!launch(executable, streams[0]));
        if (round == 1)
            CHECK(!launch(executable, streams[0]));
        wait_for(streams[0]);
        check_memory(m, count, me, "graph");
        int others = draw_messages(between, &objects[1], &state);
        for (int i = others; round == 2 && i < MOST; i++) /* a long list too */
            between[i] = (struct message){.from = i % n, .to = i % n, .call = 3, .bytes = 9};
        others = round == 2 ? MOST : others;
        place(between, others);
        write_memory(between, others, me);
        for (int c = 0; c < 4; c++)
            call(&objects[1], between, others, c, &own, streams[0]);
        wait_for(streams[0]);
        check_memory(between, others, me, "between replays");
    }
}

/* --------------------------------------------------------------------------------------- failures
 */

/* PE 1's job fails by what its stream has run into, and then that of the others. */
static void end_of_1(void)
{
    weft_status status = WEFT_OK;
    wait_for(streams[0]);
    for (int i = 0; i < 600 && !status; i++, usleep(10000))
        status = weft_messages_on_stream(objects[1].messages, NULL, 0, streams[0]);
    printf("PE %d: %s: %s\n", me, weft_status_name(status), weft_last_error());
    fflush(stdout);
    usleep(me == 1 ? 0 : 300000);
    _exit(1);
}

/* Where both ends make equally many slots of it, streams do not notice. */
static void differs(size_t bytes)
{
    weft_message sent = {out, 1000, 1, 0}, received = {in, bytes, 0, 1};
    if (me < 2)
        OK(weft_messages_on_stream(objects[1].messages, me ? &received : &sent, 1, streams[0]));
    end_of_1();
}

static void absent(void)
{
    weft_message received = {in, 1000, 0, 1};
    if (me == 1)
        OK(weft_messages_on_stream(objects[1].messages, &received, 1, streams[0]));
    end_of_1();
}

static void arguments(void)
{
    uint64_t state = 1, own = (uint64_t)me;
    weft_messages *m = objects[1].messages, *made = m;
    weft_message list[2] = {{out, 8, me, 0}, {in, 8, me, 1}};
    char plain[8];
    FAILS(weft_messages_create(NULL, 1 << 20, &made), WEFT_ERR_ARGUMENT,
          "weft_messages_create: team is null");
    FAILS(weft_messages_create(world, 1 << 20, NULL), WEFT_ERR_ARGUMENT,
          "weft_messages_create: messages is null");
    FAILS(weft_messages_create(world, (size_t)n * 4096 - 1, &made), WEFT_ERR_ARGUMENT,
          "members need at least");
    CHECK(!made);
    if (n > 1) {
        made = m;
        FAILS(weft_messages_create(world, (1 << 20) + (me == 1), &made), WEFT_ERR_MISMATCH,
              "weft_messages_create: room is 104857");
        CHECK(!made);
    }
    FAILS(weft_messages_on_stream(NULL, list, 2, streams[0]), WEFT_ERR_ARGUMENT,
          "weft_messages_on_stream: messages is null");
    FAILS(weft_messages_on_stream(m, NULL, 1, streams[0]), WEFT_ERR_ARGUMENT,
          "weft_messages_on_stream: list is null");
    OK(weft_messages_on_stream(m, NULL, 0, streams[0]));
    list[1].member = -1;
    FAILS(weft_messages_on_stream(m, list, 2, streams[0]), WEFT_ERR_PE, "message 1 has member -1");
    list[1].member = n;
    FAILS(weft_messages_on_stream(m, list, 2, streams[0]), WEFT_ERR_PE, "; the team has ");
    list[1] = (weft_message){NULL, 8, me, 1};
    FAILS(weft_messages_on_stream(m, list, 2, streams[0]), WEFT_ERR_ARGUMENT,
          "message 1 has a null address");
    list[1] = (weft_message){in, (size_t)1 << 40, me, 1};
    FAILS(weft_messages_on_stream(m, list, 2, streams[0]), WEFT_ERR_ARGUMENT,
          "message 1 has 1099511627776 bytes; less than 1 TiB");
    list[1] = (weft_message){plain, 8, me, 1};
    if (on_cuda && !getenv("WEFT_PATH"))
        FAILS(weft_messages_on_stream(m, list, 2, streams[0]), WEFT_ERR_ADDRESS,
              "message 1 is at 0x");
    if (on_cuda && !getenv("WEFT_PATH") && me == 0 && n > 1) {
        weft_message more[] = {{out, 100000, 1, 0}, {out, 8, 0, 0}, {in, 9, 0, 1}};
        FAILS(weft_messages_on_stream(m, more, 3, streams[0]), WEFT_ERR_MISMATCH,
              "PE 0 sends itself 8 bytes and receives 9");
        more[2] = (weft_message){plain, 8, 1, 1};
        FAILS(weft_messages_on_stream(m, more, 3, streams[0]), WEFT_ERR_ADDRESS,
              "message 2 is at 0x");
    }
    for (int i = 0; i < 5; i++) /* nothing of these calls was done */
        random_program(&objects[1], &state, &own);
}

/* Without WEFT_TARGET, and so far without GPU memory. */
static void late(void)
{
    weft_message list[1] = {{&job, 0, 0, 0}};
    weft_messages *early;
    OK(weft_init(&job, NULL));
    OK(weft_messages_create(weft_team_world(job), 1 << 20, &early));
    open_gpu();
    FAILS(weft_messages_on_stream(early, list, 1, NULL), WEFT_ERR_ARGUMENT,
          "the object was created before the job had a GPU side");
    OK(weft_messages_destroy(early));
    OK(weft_finalize(job));
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "late") == 0) {
        late();
        return 0;
    }
    begin();
    if (strcmp(name, "longest") == 0)
        longest();
    else if (strcmp(name, "split") == 0) {
        split(1, 4, 0);
        split(6, 2, 50);
        split_own();
    } else if (strcmp(name, "apart") == 0)
        apart();
    else if (strcmp(name, "graph") == 0)
        graph();
    else if (strcmp(name, "differs") == 0)
        differs(argc > 2 ? strtoull(argv[2], NULL, 10) : 2000);
    else if (strcmp(name, "absent") == 0)
        absent();
    else if (strcmp(name, "arguments") == 0)
        arguments();
    else
        random_programs(argc > 1 ? atoi(argv[1]) : 60);
    end();
    return 0;
}
