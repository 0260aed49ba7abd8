/* SPDX-License-Identifier: Apache-2.0 */
/* Logs of NCCL, in the format of several versions: what is slow, how many channels, the first line;
 * and lines that look like others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "machine/checks/nccl_log.h"

static struct nccl_log log_read;

static void read_file(const char *name)
{
    static char text[65536];
    char path[512];
    snprintf(path, sizeof path, LOGS "/%s.log", name);
    FILE *from = fopen(path, "r");
    assert_non_null(from);
    size_t length = fread(text, 1, sizeof text, from);
    fclose(from);
    assert_true(nccl_log_read(text, length, &log_read));
}

static void read_text(const char *text)
{
    assert_true(nccl_log_read(text, strlen(text), &log_read));
}

/* The finding of a reason; `why` NULL: any. */
static const struct nccl_finding *find(enum reason reason, const char *why)
{
    for (int i = 0; i < log_read.n; i++)
        if (log_read.list[i].reason == reason &&
            (!why || (log_read.list[i].why && strstr(log_read.list[i].why, why))))
            return &log_read.list[i];
    return NULL;
}

static void test_files(void **state)
{
    static const struct {
        const char *file;
        enum reason reason;
        const char *why;
        int weight, count; /* weight -1: not reported */
        long line;
    } cases[] = {
        {"nccl-2.27-slow", REASON_NCCL_SHM, NULL, WEIGHT_SLOW, 4, 27},
        {"nccl-2.27-slow", REASON_NCCL_NO_GDR, NULL, WEIGHT_SLOW, 4, 25},
        {"nccl-2.27-slow", REASON_NCCL_GDR_OFF, NULL, WEIGHT_SLOW, 2, 17},
        {"nccl-2.27-slow", REASON_NCCL_P2P_OFF, NULL, WEIGHT_SLOW, 1, 19},
        {"nccl-2.27-slow", REASON_NCCL_NVLS, NULL, WEIGHT_NOTE, 2, 20},
        {"nccl-2.27-slow", REASON_NCCL_ENV, "few channels", WEIGHT_SLOW, 2, 10},
        {"nccl-2.27-slow", REASON_NCCL_ENV, "one algorithm", WEIGHT_NOTE, 1, 12},
        {"nccl-2.27-slow", REASON_NCCL_NET_INSIDE, NULL, -1, 0, 0},
        {"nccl-2.27-slow", REASON_NCCL_SOCKET, NULL, -1, 0, 0},
        {"nccl-2.21-good", REASON_NCCL_GDR_OFF, NULL, WEIGHT_NOTE, 1, 12},
        {"nccl-2.21-good", REASON_NCCL_SYS, NULL, -1, 0, 0},
        {"nccl-2.18-socket", REASON_NCCL_SOCKET, NULL, WEIGHT_SLOW, 2, 7},
        {"nccl-2.18-socket", REASON_NCCL_NO_IB, NULL, WEIGHT_SLOW, 1, 2},
        {"nccl-2.18-socket", REASON_NCCL_SYS, NULL, WEIGHT_SLOW, 1, 6},
        {"nccl-2.18-socket", REASON_NCCL_ENV, "RDMA is off", WEIGHT_SLOW, 1, 1},
        {"nccl-2.4-ring", REASON_NCCL_SHM, NULL, WEIGHT_SLOW, 1, 8},
        {"nccl-2.4-ring", REASON_NCCL_NET_INSIDE, NULL, WEIGHT_SLOW, 1, 9},
        {"nccl-2.4-ring", REASON_NCCL_SOCKET, NULL, -1, 0, 0},
        {"nccl-2.4-ring", REASON_NCCL_ENV, "peer access", WEIGHT_SLOW, 1, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        read_file(cases[i].file);
        const struct nccl_finding *f = find(cases[i].reason, cases[i].why);
        int weight = f ? (int)f->weight : -1;
        if (weight != cases[i].weight ||
            (f && (f->count != cases[i].count || f->line != cases[i].line)))
            fail_msg("%s, %s: weight %d, count %d, line %ld", cases[i].file,
                     reason_table[cases[i].reason].code, weight, f ? f->count : 0, f ? f->line : 0);
    }
}

static void test_heads(void **state)
{
    static const struct {
        const char *file, *version;
        int hosts, ranks, faults, channels[NCCL_TRANSPORTS];
    } cases[] = {
        {"nccl-2.27-slow", "2.27.3+cuda12.9", 2, 4, 5, {0, 4, 0, 4, 0}},
        {"nccl-2.21-good", "2.21.5+cuda12.4", 2, 4, 0, {3, 0, 2, 0, 0}},
        {"nccl-2.18-socket", "2.18.3+cuda12.2", 1, 0, 4, {0, 0, 0, 0, 2}},
        {"nccl-2.4-ring", "2.4.8+cuda10.0", 1, 4, 3, {2, 1, 0, 0, 1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        read_file(cases[i].file);
        assert_string_equal(log_read.version, cases[i].version);
        assert_int_equal(log_read.hosts, cases[i].hosts);
        assert_int_equal(log_read.ranks, cases[i].ranks);
        assert_int_equal(log_read.faults, cases[i].faults);
        assert_memory_equal(log_read.channels, cases[i].channels, sizeof cases[i].channels);
    }
}

/* Where the name of the host stands, and ranks that differ between communicators. */
static void test_hosts(void **state)
{
    read_text(
        "[1,0]<stdout>:n1:10:11 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0\n"
        "[1,1]<stdout>:n1:12:13 [1] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [receive] via "
        "NET/IB/0\r\n");
    assert_int_equal(log_read.hosts, 1);
    assert_int_equal(find(REASON_NCCL_NET_INSIDE, NULL)->count, 1);
    assert_null(find(REASON_NCCL_NO_GDR, NULL));
    read_text("n1:10:11 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0\n"
              "n2:12:13 [1] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [receive] via NET/IB/0\n");
    assert_int_equal(log_read.hosts, 2);
    assert_int_equal(find(REASON_NCCL_NO_GDR, NULL)->count, 1);
    /* rank 0 of two communicators: it is not known which one the channel is of */
    read_text("n1:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 - Init START\n"
              "n2:1:2 [0] NCCL INFO comm 0x2 rank 0 nranks 2 cudaDev 0 - Init START\n"
              "n1:3:4 [1] NCCL INFO comm 0x1 rank 1 nranks 2 cudaDev 1 - Init START\n"
              "n1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0\n");
    assert_null(find(REASON_NCCL_NET_INSIDE, NULL));
    read_text("n1:1:2 [0] NCCL INFO NET/IB : No device found.\n"
              "n1:1:2 [0] NCCL INFO NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'\n"
              "n1:1:2 [0] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [receive] via NET/Socket/0\n"
              "n1:3:4 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [send] via NET/Socket/0\n");
    assert_int_equal(find(REASON_NCCL_NO_IB, NULL)->weight, WEIGHT_NOTE);
    assert_int_equal(find(REASON_NCCL_NET_INSIDE, NULL)->count, 1);
    assert_null(find(REASON_NCCL_GDR_OFF, NULL));
    read_text("n1:1:2 [0] NCCL INFO Failed to initialize NET plugin IB\n");
    assert_int_equal(find(REASON_NCCL_NO_IB, NULL)->weight, WEIGHT_NOTE); /* of one host */
    read_text("NCCL INFO Channel 00/0 : 0[0] -> 1[1] via SHM\n");         /* without a host */
    assert_int_equal(log_read.hosts, 0);
    assert_int_equal(find(REASON_NCCL_SHM, NULL)->count, 1);
}

/* Lines that say the opposite, or something else. */
static void test_others(void **state)
{
    static const char *const lines[] = {
        "n:1:2 [0] NCCL INFO NVLS multicast support is available on dev 0",
        "n:1:2 [0] NCCL INFO GPU Direct RDMA Enabled for GPU 0 / HCA 0 (distance 4 <= 4), read 1",
        "n:1:2 [0] NCCL INFO Channel 00/02 :    0   1",
        "n:1:2 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 0.",
        "n:1:2 [0] NCCL INFO NCCL_P2P_LEVEL set by environment to SYS",
        "n:1:2 [0] NCCL INFO NCCL_MAX_NCHANNELS set by environment to 16.",
        "n:1:2 [0] NCCL INFO NCCL_BUFFSIZE set by environment to 8388608.",
        "n:1:2 [0] NCCL INFO Pattern 4, crossNic 0, nChannels 8, bw 40/40, type NVL/SYS",
        "n:1:2 [0] NCCL INFO Pattern 1, crossNic 0, nChannels 8, bw 40/40, type SYS/SYS",
        "n:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/indirect/2[2]",
        "n:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 99999999999[1] via SHM",
        "n:1:2 [0] NCCL INFO Channel 00/0 : 0[0",
        "n:1:2 [0] NCCL INFO Channel 00/0 : via SHM",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        read_text(lines[i]);
        if (log_read.n)
            fail_msg("%s: %s", lines[i], reason_table[log_read.list[0].reason].code);
    }
}

static void test_no_log(void **state)
{
    static const char text[] = "loss 1.0\nepoch 2\n";
    assert_false(nccl_log_read(text, sizeof text - 1, &log_read));
    assert_int_equal(log_read.lines, 2);
    assert_false(nccl_log_read("", 0, &log_read));
    read_text("NCCL version 2.19.3+cuda12.0\n"); /* NCCL_DEBUG=VERSION */
    assert_int_equal(log_read.own_lines, 1);
    assert_int_equal(log_read.n, 0);
}

/* More kinds, hosts and ranks than there is space for. */
static void test_many(void **state)
{
    char *text, line[200];
    size_t length;
    FILE *to = open_memstream(&text, &length);
    assert_non_null(to);
    for (int i = 0; i < 3000; i++) {
        snprintf(line, sizeof line,
                 "host%d:1:2 [0] NCCL INFO Channel 00/0 : %d[0] -> %d[0] [send] via NET/Socket/0\n",
                 i, i * 30, i * 30 + 1);
        fputs(line, to);
    }
    fclose(to);
    read_text(text);
    assert_int_equal(log_read.hosts, NCCL_HOSTS);
    assert_int_equal(find(REASON_NCCL_SOCKET, NULL)->count, (NCCL_RANKS - 2) / 30 + 1);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),  cmocka_unit_test(test_heads),  cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_others), cmocka_unit_test(test_no_log), cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
