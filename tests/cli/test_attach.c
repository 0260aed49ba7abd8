/* SPDX-License-Identifier: Apache-2.0 */
/* `weft attach` with prepared black boxes and times: the decoded values, the output for people and
 * for programs, and the sentence that names the PE that blocks the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/attach.h"
#include "base/printable.h"
#include "box/box.h"
#include "job/device_state.h"
#include "memory/segment.h"
#include "nccl/state.h"

#define SECOND 1000000000ull

/* --- untrusted text -------------------------------------------------------------------------- */

static void text_of_others_is_made_printable(void **state)
{
    static const struct {
        const char *is, *becomes;
    } cases[] = {
        {"", ""},
        {"plain text ~", "plain text ~"},
        {"\033[31mred\033[0m", "?[31mred?[0m"},
        {"tab\tbell\a\x7f", "tab?bell??"},
        {"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\xa7\xb6",
         "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\xa7\xb6"},
        {"latin \xfc.", "latin ?."},
        {"c1 \xc2\x9b.", "c1 ??."}, /* a terminal treats U+009B like ESC [ */
        {"\xc2\xa0", "\xc2\xa0"},
        {"overlong \xc0\xaf \xe0\x80\xaf", "overlong ?? ???"},
        {"surrogate \xed\xa0\x80", "surrogate ???"},
        {"above \xf4\x90\x80\x80", "above ????"},
        {"last \xf4\x8f\xbf\xbf", "last \xf4\x8f\xbf\xbf"},
        {"cut \xe2\x82", "cut ??"},
        {"\xff", "?"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s", cases[i].is);
        assert_ptr_equal(printable(text), text);
        assert_string_equal(text, cases[i].becomes);
    }
}

/* --- decoding --------------------------------------------------------------------------------- */

static char *new_box(struct box **box)
{
    char *bytes = calloc(1, BOXES_BYTES);
    assert_non_null(bytes);
    *box = (struct box *)(void *)bytes;
    (*box)->magic = BOX_MAGIC;
    (*box)->version = BOX_VERSION;
    (*box)->pe = 3;
    (*box)->pid = 4711;
    (*box)->state = BOX_RUNNING;
    (*box)->start_ns = 7 * SECOND;
    (*box)->collectives = 12;
    return bytes;
}

static void a_box_is_decoded(void **state)
{
    struct box *box;
    struct boxes_pe pe = {.alive = true};
    (void)state;
    char *bytes = new_box(&box);
    snprintf(box->program, sizeof box->program, "bad\033[2J\xfe.exe");
    memset(box->failure, 'x', sizeof box->failure); /* without a terminating zero */
    box->waits[2] = (struct box_wait){.operation = BOX_OP_BARRIER,
                                      .peer = 1,
                                      .team = 3,
                                      .compare = WEFT_GE,
                                      .offset = 192,
                                      .segment = SEG_SYSTEM,
                                      .expected = 5,
                                      .seen = 4,
                                      .since_ns = 8 * SECOND};
    box->waits[5] = (struct box_wait){.operation = BOX_OP_WAIT,
                                      .peer = -1,
                                      .team = -1,
                                      .compare = 77,
                                      .segment = SEG_GPU,
                                      .expected = 1};
    box->waits[6] = (struct box_wait){.operation = BOX_OP_WAIT,
                                      .peer = -1,
                                      .team = -1,
                                      .compare = WEFT_LT,
                                      .is_signed = 1,
                                      .offset = 24,
                                      .segment = SEG_HEAP,
                                      .expected = (uint64_t)-5,
                                      .seen = INT64_MIN};
    box->waits[7] = (struct box_wait){.operation = BOX_OP_QUIET,
                                      .peer = 5,
                                      .team = -1,
                                      .compare = BOX_COMPARE_REQUEST,
                                      .segment = SEG_SYSTEM,
                                      .expected = 436,
                                      .seen = 800};
    box->past_count = BOX_HISTORY + 2; /* the first two entries are overwritten */
    box->past[2] = (struct box_past){.operation = BOX_OP_SYNC};
    box->past[1] = (struct box_past){.operation = BOX_OP_ALLREDUCE, .bytes = 800};
    snprintf(box->paths[1], sizeof box->paths[1], "p2p");
    box->counters[0][1].operations = 10;
    box->counters[0][1].bytes = 1000;
    box->counters[0][1].last = box_last(BOX_OP_GET, 65535, 70368744177663);
    box->counters[31][1].operations = 5;
    box->counters[31][1].bytes = 24;
    snprintf(box->paths[2], sizeof box->paths[2], "unused");
    device_box(box)->version = WEFT_DEV_VERSION;
    device_box(box)->records[4] = (struct weft_dev_record){.state = WEFT_DEV_RECORD_WAITING,
                                                           .operation = 1,
                                                           .peer = -1,
                                                           .team = -1,
                                                           .compare = WEFT_GE,
                                                           .expected = 42,
                                                           .seen = 41,
                                                           .waited_ns = 2500000000,
                                                           .block = 6,
                                                           .thread = 7};
    boxes_decode(bytes, &pe);
    assert_true(pe.present && pe.alive);
    assert_int_equal(pe.pe, 3);
    assert_int_equal(pe.pid, 4711);
    assert_int_equal(pe.state, BOXES_RUNNING);
    assert_int_equal(pe.collectives, 12);
    assert_string_equal(pe.program, "bad?[2J?.exe");
    assert_int_equal(strlen(pe.failure), sizeof box->failure - 1);

    assert_int_equal(pe.n_waits, 4);
    assert_string_equal(pe.waits[0].what, "awaits step 5 of team 3, which is at step 4");
    assert_string_equal(pe.waits[1].what, "expected ? 1, seen 0 at offset 0 of the GPU heap");
    assert_string_equal(pe.waits[2].what,
                        "expected < -5, seen -9223372036854775808 at offset 24 of "
                        "the heap");
    assert_string_equal(pe.waits[3].what, "request 436 of the path is not complete");
    assert_string_equal(pe.waits[0].operation, "barrier");
    assert_string_equal(pe.waits[0].compare, ">=");
    assert_string_equal(pe.waits[0].segment, "library's memory");
    assert_int_equal(pe.waits[0].peer, 1);
    assert_int_equal(pe.waits[0].expected, 5);
    assert_int_equal(pe.waits[0].seen, 4);
    assert_int_equal(pe.waits[0].offset, 192);
    assert_int_equal(pe.waits[0].since_ns, 8 * SECOND);
    assert_string_equal(pe.waits[1].compare, "?");
    assert_string_equal(pe.waits[1].segment, "GPU heap");

    assert_int_equal(pe.n_past, BOX_HISTORY);
    assert_int_equal(pe.past_count, BOX_HISTORY + 2);
    assert_string_equal(pe.past[0].operation, "sync");
    assert_string_equal(pe.past[BOX_HISTORY - 1].operation, "allreduce");
    assert_int_equal(pe.past[BOX_HISTORY - 1].bytes, 800);

    assert_int_equal(pe.n_paths, 1);
    assert_string_equal(pe.paths[0].name, "p2p");
    assert_int_equal(pe.paths[0].operations, 15);
    assert_int_equal(pe.paths[0].bytes, 1024);
    assert_string_equal(pe.paths[0].last, "get from PE 65535 at offset 70368744177663");

    assert_int_equal(pe.n_kernels, 1);
    assert_non_null(strstr(pe.kernels[0], "PE 3, kernel block 6 thread 7: "));
    assert_non_null(strstr(pe.kernels[0], "has been waiting 2.5 s: expected >= 42, seen 41"));
    free(bytes);
}

/* The backlog of an operation is shown only while one is in progress; otherwise it is 0. */
static void the_proxy_is_decoded(void **state)
{
    struct box *box;
    struct boxes_pe pe;
    (void)state;
    char *bytes = new_box(&box);
    box->proxies[0].carried = 70001;
    box->proxies[0].completed = 69000;
    box->proxies[0].behind = 17;
    boxes_decode(bytes, &pe);
    assert_int_equal(pe.proxy.carried, 70001);
    assert_int_equal(pe.proxy.completed, 69000);
    assert_int_equal(pe.proxy.behind, 0);
    assert_string_equal(pe.proxy.under_way, "");
    box->proxies[0].since_ns = 9 * SECOND;
    box->proxies[0].operation = WEFT_DEV_OP_PUT_SIGNAL;
    box->proxies[0].peer = 65535;
    boxes_decode(bytes, &pe);
    assert_int_equal(pe.proxy.since_ns, 9 * SECOND);
    assert_int_equal(pe.proxy.behind, 17);
    assert_string_equal(pe.proxy.under_way, "put_signal to PE 65535");
    box->proxies[0].operation = WEFT_DEV_OP_QUIET;
    box->proxies[0].peer = -1;
    boxes_decode(bytes, &pe);
    assert_string_equal(pe.proxy.under_way, "quiet");
    box->proxies[0].operation = 0xfffffff0u;
    boxes_decode(bytes, &pe);
    assert_string_equal(pe.proxy.under_way, "an unknown operation");
    assert_int_equal(pe.n_rings, 1);
    box->proxies[5].carried = 30;
    box->proxies[5].completed = 20;
    box->proxies[5].behind = 4;
    box->proxies[5].since_ns = 8 * SECOND;
    box->proxies[5].operation = WEFT_DEV_OP_G;
    box->proxies[5].peer = 3;
    box->proxies[7].since_ns = 9 * SECOND;
    boxes_decode(bytes, &pe);
    assert_int_equal(pe.n_rings, 3);
    assert_true(pe.rings[0].ring == 0 && pe.rings[1].ring == 5 && pe.rings[2].ring == 7);
    assert_string_equal(pe.rings[1].under_way, "g to PE 3");
    assert_int_equal(pe.rings[0].carried, 70001);
    assert_true(pe.proxy.carried == 70031 && pe.proxy.completed == 69020 && pe.proxy.behind == 21);
    assert_int_equal(pe.proxy.since_ns, 8 * SECOND); /* the longest wait */
    assert_string_equal(pe.proxy.under_way, "g to PE 3");
    free(bytes);
}

static void what_is_no_box_is_not_present(void **state)
{
    struct box *box;
    struct boxes_pe pe;
    (void)state;
    char *bytes = new_box(&box);
    box->magic++;
    boxes_decode(bytes, &pe);
    assert_false(pe.present);
    box->magic--;
    box->version++;
    boxes_decode(bytes, &pe);
    assert_false(pe.present);
    box->version--;
    device_box(box)->version = WEFT_DEV_VERSION + 1; /* kernels of another version are ignored */
    device_box(box)->records[0].state = WEFT_DEV_RECORD_WAITING;
    boxes_decode(bytes, &pe);
    assert_true(pe.present);
    assert_int_equal(pe.n_kernels, 0);
    free(bytes);
}

/* --- a mock job ------------------------------------------------------------------------------- */

static struct boxes_pe pes[4];

/* n PEs that run and wait for nothing; PE i is process 100 + i. */
static struct boxes_job make_job(int n)
{
    memset(pes, 0, sizeof pes);
    for (int i = 0; i < n; i++) {
        pes[i] = (struct boxes_pe){.present = true,
                                   .alive = true,
                                   .pe = i,
                                   .pid = 100 + i,
                                   .state = BOXES_RUNNING,
                                   .program = "prog",
                                   .start_ns = 10 * SECOND};
    }
    return (struct boxes_job){.count = n, .now_ns = 12 * SECOND + SECOND / 2, .pes = pes};
}

static void wait_for(int slot, const char *operation, int peer)
{
    pes[slot].waits[pes[slot].n_waits++] = (struct boxes_wait){.operation = operation,
                                                               .peer = peer,
                                                               .compare = ">=",
                                                               .expected = 5,
                                                               .seen = 4,
                                                               .offset = 64,
                                                               .segment = "heap",
                                                               .since_ns = 11 * SECOND,
                                                               .what = "words of it"};
}

static void did(int slot, const char *operation, uint64_t bytes)
{
    pes[slot].past[pes[slot].n_past++] = (struct boxes_past){operation, bytes};
    pes[slot].past_count++;
}

static void says(const struct boxes_job *job, const char *expected)
{
    char sentence[512];
    attach_diagnose(job, sentence, sizeof sentence);
    assert_string_equal(sentence, expected);
}

static void nothing_is_stuck(void **state)
{
    (void)state;
    struct boxes_job job = make_job(3);
    says(&job, "nothing is stuck: no PE has been waiting for more than a millisecond");
}

static void the_dead_are_named_first(void **state)
{
    (void)state;
    struct boxes_job job = make_job(3);
    wait_for(0, "barrier", 2);
    pes[2].alive = false;
    did(2, "sync", 0);
    did(2, "put", 8);
    says(&job, "PE 2 (pid 102) has died; its last operation was put");
    assert_string_equal(attach_state(&pes[2]), "dead");
    pes[2].state = BOXES_FINALIZED; /* has finalized */
    assert_string_equal(attach_state(&pes[2]), "finalized");
    says(&job, "1 of 3 PEs wait, directly or through others, for PE 2 (pid 102), which has "
               "finalized: their calls do not match");
}

static void chains_lead_to_who_does_not_wait(void **state)
{
    (void)state;
    struct boxes_job job = make_job(4);
    wait_for(0, "barrier", 1);
    wait_for(1, "allreduce", 3);
    wait_for(2, "barrier", 0);
    did(3, "get", 64);
    pes[3].collectives = 41;
    says(&job, "3 of 4 PEs wait, directly or through others, for PE 3 (pid 103), which is not "
               "waiting in Weft: it computes, or is blocked elsewhere (last operation: get, "
               "collectives done: 41)");
    assert_int_equal(attach_waits_for(&job, 0), 1);
    assert_int_equal(attach_waits_for(&job, 3), ATTACH_NOBODY);
}

static void slots_are_not_pe_numbers(void **state)
{
    (void)state;
    struct boxes_job job = make_job(2); /* PEs 6 and 7 are on this node */
    pes[0].pe = 6;
    pes[1].pe = 7;
    wait_for(0, "sync", 7);
    says(&job, "1 of 2 PEs wait, directly or through others, for PE 7 (pid 101), which is not "
               "waiting in Weft: it computes, or is blocked elsewhere (last operation: none, "
               "collectives done: 0)");
    pes[0].waits[0].peer = 1; /* on another node */
    assert_int_equal(attach_waits_for(&job, 0), ATTACH_SOMEBODY);
}

static void circles_are_deadlocks(void **state)
{
    (void)state;
    struct boxes_job job = make_job(4);
    wait_for(0, "barrier", 1); /* leads into the cycle */
    wait_for(1, "broadcast", 2);
    wait_for(2, "allreduce", 3);
    wait_for(3, "alloc", 1);
    char sentence[512];
    attach_diagnose(&job, sentence, sizeof sentence);
    assert_non_null(strstr(sentence, "deadlock: PE 1 (in broadcast) and PE 2 (in allreduce)"));
    assert_non_null(strstr(sentence,
                           " wait for each other, directly or in a circle; their calls do "
                           "not match"));
    job = make_job(2);
    wait_for(0, "barrier", 1);
    wait_for(1, "allreduce", 0);
    says(&job,
         "deadlock: PE 0 (in barrier) and PE 1 (in allreduce) wait for each other, directly or "
         "in a circle; their calls do not match");
    job = make_job(1);
    wait_for(0, "signal_wait", 0);
    says(&job, "deadlock: PE 0 (in signal_wait) waits for itself");
    /* The report starts at the lowest PE of the cycle, wherever the chain entered it. */
    job = make_job(3);
    wait_for(0, "barrier", 1);
    wait_for(1, "allreduce", 0);
    wait_for(2, "sync", 1);
    says(&job,
         "deadlock: PE 0 (in barrier) and PE 1 (in allreduce) wait for each other, directly or "
         "in a circle; their calls do not match");
}

static void own_memory_that_nobody_changes(void **state)
{
    (void)state;
    struct boxes_job job = make_job(3);
    wait_for(1, "wait_until", -1);
    says(&job, "PE 1 waits in wait_until for its own memory to change (words of "
               "it), and the PE that should store there is unknown; 1 of 3 PEs wait");
    wait_for(2, "barrier", 1); /* through PE 1, whose wait has no known peer */
    says(&job, "PE 1 waits in wait_until for its own memory to change (words of "
               "it), and the PE that should store there is unknown; 2 of 3 PEs wait");
}

static void states_have_names(void **state)
{
    static const char *const names[] = {"starting", "running", "finalized", "aborted", "unknown"};
    struct boxes_pe pe = {.present = false};
    (void)state;
    assert_string_equal(attach_state(&pe), "not started");
    pe.present = pe.alive = true;
    for (int i = 0; i < 5; i++) {
        pe.state = (enum boxes_state)i;
        assert_string_equal(attach_state(&pe), names[i]);
    }
}

/* --- output ----------------------------------------------------------------------------------- */

static struct boxes_job example(void)
{
    struct boxes_job job = make_job(3);
    pes[2].present = false;
    wait_for(0, "barrier", 1);
    snprintf(pes[0].failure, sizeof pes[0].failure, "lost");
    snprintf(pes[0].kernels[0], sizeof pes[0].kernels[0], "kernel words");
    pes[0].n_kernels = 1;
    pes[0].proxy.carried = 9;
    pes[0].proxy.completed = 7;
    pes[0].proxy.behind = 3;
    pes[0].proxy.since_ns = job.now_ns - SECOND / 2;
    snprintf(pes[0].proxy.under_way, sizeof pes[0].proxy.under_way, "put to PE 1");
    pes[0].rings[0] = pes[0].proxy;
    pes[0].rings[1] = (struct boxes_proxy){.ring = 2, .carried = 5, .completed = 5};
    pes[0].n_rings = 2;
    pes[0].paths[0] = (struct boxes_path){"p2p", 20, 160, "get from PE 1"};
    pes[0].n_paths = 1;
    did(1, "alloc", 0);
    did(1, "put", 4096);
    did(1, "sync", 0);
    return job;
}

static char *printed(void (*print)(FILE *to, const struct boxes_job *job))
{
    struct boxes_job job = example();
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    print(to, &job);
    fclose(to);
    return text;
}

static void print_json(FILE *to, const struct boxes_job *job)
{
    struct communicator one = {.pid = 101,
                               .rank = 1,
                               .size = 2,
                               .device = 3,
                               .hash = 255,
                               .state = "ready",
                               .calls = {[0] = 4, [9] = 7},
                               .name = "dp"};
    attach_json(to, job, &(struct communicators){1, &one});
}

static void print_two(FILE *to, const struct boxes_job *job)
{
    attach_text(to, job, 2);
}

static void people_read(void **state)
{
    static const char expected[] =
        "PE 0  pid 100  prog  running for 2.5 s\n"
        "    failed: lost\n"
        "    waiting 1.5 s in barrier for PE 1: words of it\n"
        "    kernel words\n"
        "    proxy: 9 operations executed, 7 complete; put to PE 1 in progress for 0.5 s, at "
        "least 3 queued behind it\n"
        "    proxy, ring 2: 5 operations executed, 5 complete\n"
        "    path p2p: 20 operations, 160 bytes, last: get from PE 1\n"
        "PE 1  pid 101  prog  running for 2.5 s\n"
        "    last operations: put(4096 B) sync  (3 in all)\n"
        "PE ?  not started\n"
        "\nwho waits for whom:\n"
        "    PE 0 --barrier--> PE 1\n"
        "\n1 of 3 PEs wait, directly or through others, for PE 1 (pid 101), which is not waiting "
        "in "
        "Weft: it computes, or is blocked elsewhere (last operation: sync, collectives done: 0)\n";
    (void)state;
    char *text = printed(print_two);
    assert_string_equal(text, expected);
    free(text);
}

/* A job over two nodes: the output names the remote PE that a PE waits for, and says that other PEs
 * are on other nodes. */
static void other_nodes_are_named(void **state)
{
    struct boxes_job job = make_job(2);
    char *text = NULL, host[256] = "", first[400];
    size_t bytes;
    (void)state;
    pes[0].npes = pes[1].npes = 4;
    pes[0].node = pes[1].node = 1;
    wait_for(0, "barrier", 3);
    wait_for(1, "wait_until", -1);
    FILE *to = open_memstream(&text, &bytes);
    attach_text(to, &job, 2);
    fclose(to);
    gethostname(host, sizeof host - 1);
    snprintf(
        first, sizeof first,
        "node 1 of the job, on %s: 2 of its 4 PEs; `weft attach` on the other hosts shows theirs\n",
        host);
    assert_memory_equal(text, first, strlen(first));
    assert_non_null(strstr(text, "    PE 0 --barrier--> PE 3, on another node\n"
                                 "    PE 1 --wait_until--> ?\n"));
    free(text);
    pes[0].npes = pes[1].npes = 2; /* all PEs are on this node */
    to = open_memstream(&text, &bytes);
    attach_text(to, &job, 2);
    fclose(to);
    assert_memory_equal(text, "PE 0 ", 5);
    free(text);
}

static void programs_read(void **state)
{
    static const char expected[] =
        "{\n  \"pes\": [\n    {\n      \"pe\": 0,\n      \"pid\": 100,\n      \"node\": 0,\n      "
        "\"npes\": 0,\n      \"program\": "
        "\"prog\",\n      \"state\": \"running\",\n      \"seconds\": 2.5,\n      \"failure\": "
        "\"lost\",\n      \"waits\": [\n        {\n          \"operation\": \"barrier\",\n"
        "          \"peer\": 1,\n          \"seconds\": 1.5,\n          \"compare\": \">=\",\n"
        "          \"expected\": 5,\n          \"seen\": 4,\n          \"offset\": 64,\n"
        "          \"segment\": \"heap\"\n        }\n      ],\n      \"kernels\": [\n"
        "        \"kernel words\"\n      ],\n      \"proxy\": {\n        \"carried\": 9,\n"
        "        \"completed\": 7,\n        \"behind\": 3,\n        \"under_way\": \"put to PE "
        "1\",\n"
        "        \"seconds\": 0.5,\n        \"rings\": [\n          {\n            \"carried\": "
        "9,\n"
        "            \"completed\": 7,\n            \"behind\": 3,\n"
        "            \"under_way\": \"put to PE 1\",\n            \"seconds\": 0.5,\n"
        "            \"ring\": 0\n          },\n          {\n            \"carried\": 5,\n"
        "            \"completed\": 5,\n            \"behind\": 0,\n"
        "            \"under_way\": \"\",\n            \"seconds\": 0.0,\n"
        "            \"ring\": 2\n          }\n        ]\n      },\n      \"paths\": {\n        "
        "\"p2p\": {\n"
        "          \"operations\": 20,\n          \"bytes\": 160,\n          \"last\": \"get from "
        "PE 1\"\n        }\n      }\n    },\n"
        "    {\n      \"pe\": 1,\n      \"pid\": 101,\n      \"node\": 0,\n      \"npes\": 0,\n   "
        "   \"program\": \"prog\",\n"
        "      \"state\": \"running\",\n      \"seconds\": 2.5,\n      \"failure\": \"\",\n"
        "      \"waits\": [],\n      \"kernels\": [],\n      \"proxy\": {\n        \"carried\": "
        "0,\n"
        "        \"completed\": 0,\n        \"behind\": 0,\n        \"under_way\": \"\",\n"
        "        \"seconds\": 0.0,\n        \"rings\": []\n      },\n      \"paths\": {}\n    }\n "
        " ],\n"
        "  \"diagnosis\": \"1 of 3 PEs wait, directly or through others, for PE 1 (pid 101), which "
        "is not waiting in Weft: it computes, or is blocked elsewhere (last operation: sync, "
        "collectives done: 0)\",\n"
        "  \"communicators\": [\n    {\n      \"hash\": \"00000000000000ff\",\n"
        "      \"name\": \"dp\",\n      \"rank\": 1,\n      \"size\": 2,\n"
        "      \"pid\": 101,\n      \"device\": 3,\n      \"state\": \"ready\",\n"
        "      \"failure\": \"\",\n      \"calls\": {\n        \"AllReduce\": 4,\n"
        "        \"Reduce\": 0,\n        \"ReduceScatter\": 0,\n        \"Broadcast\": 0,\n"
        "        \"AllGather\": 0,\n        \"AlltoAll\": 0,\n        \"Gather\": 0,\n"
        "        \"Scatter\": 0,\n        \"PutSignal\": 0,\n        \"Send\": 7,\n"
        "        \"Recv\": 0,\n        \"WaitSignal\": 0\n      },\n      \"behind\": {}\n"
        "    }\n  ]\n}\n";
    (void)state;
    char *text = printed(print_json);
    assert_string_equal(text, expected);
    free(text);
}

/* A table that a process wrote: free entries, and bytes that it should not have. */
static void communicators_are_decoded(void **state)
{
    static struct nccl_table table = {
        .magic = NCCL_TABLE_MAGIC, .version = NCCL_TABLE_VERSION, .pid = 100};
    struct communicators all = {0};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct nccl_entry *entry = &table.entry[5 * i];
        entry->state = i ? 77 : COMM_FAILED;
        entry->rank = i;
        entry->size = 2;
        entry->hash = 0xabc;
        entry->begun[ALL_GATHER] = (uint64_t)(9 - 2 * i);
        entry->begun[RECV] = (uint64_t)(3 - i);
        memset(entry->name, i ? 'x' : 0, sizeof entry->name);
    }
    strcpy(table.entry[0].name, "a\nb");
    strcpy(table.entry[0].failure, "PE 1 has died");
    table.entry[1].state = COMM_FREED;
    communicators_decode(&table, sizeof table, 99, &all);
    communicators_decode(&table, sizeof table - 1, 100, &all);
    table.magic++;
    communicators_decode(&table, sizeof table, 100, &all);
    assert_int_equal(all.count, 0);
    table.magic--;
    communicators_decode(&table, sizeof table, 100, &all);
    assert_int_equal(all.count, 2);
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    attach_communicators_text(to, &all);
    fclose(to);
    assert_non_null(strstr(text, "NCCL communicator 0000000000000abc, a?b of 2 ranks"));
    assert_non_null(strstr(text, "rank 0  pid 100  GPU 0  failed: AllGather 9, Recv 3\n"
                                 "        failed: PE 1 has died\n"));
    assert_non_null(strstr(text, "rank 1  pid 100  GPU 0  unknown: AllGather 7 (2 behind), "
                                 "Recv 2\n"));
    assert_int_equal(strlen(all.ranks[1].name), sizeof all.ranks[1].name - 1);
    free(text);
    communicators_free(&all);
}

static void times_never_run_backwards(void **state)
{
    (void)state;
    assert_true(attach_seconds(3 * SECOND, 1 * SECOND) == 2);
    assert_true(attach_seconds(1 * SECOND, 3 * SECOND) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_of_others_is_made_printable),
        cmocka_unit_test(a_box_is_decoded),
        cmocka_unit_test(communicators_are_decoded),
        cmocka_unit_test(the_proxy_is_decoded),
        cmocka_unit_test(what_is_no_box_is_not_present),
        cmocka_unit_test(nothing_is_stuck),
        cmocka_unit_test(the_dead_are_named_first),
        cmocka_unit_test(chains_lead_to_who_does_not_wait),
        cmocka_unit_test(slots_are_not_pe_numbers),
        cmocka_unit_test(circles_are_deadlocks),
        cmocka_unit_test(own_memory_that_nobody_changes),
        cmocka_unit_test(states_have_names),
        cmocka_unit_test(people_read),
        cmocka_unit_test(other_nodes_are_named),
        cmocka_unit_test(programs_read),
        cmocka_unit_test(times_never_run_backwards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
