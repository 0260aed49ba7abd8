/* SPDX-License-Identifier: Apache-2.0 */
/* Code that all boot methods share, over an exchange whose result the test writes: which PEs share
 * a node, and which status and message all PEs get if some of them fail. */
#include "base/config.h"
#include "base/status.h"
#include "boot/agree.h"
#include "boot/methods.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { MOST = 6 };

static int gathers, refused_gather; /* the gather with this number fails; 0 = none */

/* ----------------------------------------------------------------------------------- nodes */

static const int *node_of_pe; /* exchange records of the other PEs: a different identity per node */
static char last_card[512];
static size_t card_bytes;

static weft_status gather_cards(struct boot *boot, const void *mine, void *all, size_t bytes)
{
    if (++gathers == refused_gather)
        return base_fail(WEFT_ERR_PEER_DEAD, "PE 3 is gone");
    assert_true(bytes <= sizeof last_card);
    memcpy(last_card, mine, bytes);
    card_bytes = bytes;
    for (int pe = 0; pe < boot->npes; pe++) {
        char *card = (char *)all + (size_t)pe * bytes;
        memcpy(card, mine, bytes);
        card[0] = (char)('a' + node_of_pe[pe]);
        snprintf(card + bytes - BOOT_HOST_BYTES, BOOT_HOST_BYTES, "host of PE %d", pe);
    }
    return WEFT_OK;
}

static const struct boot_ops cards = {.allgather = gather_cards};

static void nodes_are_numbered_as_they_appear(void **state)
{
    static const int said[MOST] = {7, 3, 7, 0, 3, 7}, wanted[MOST] = {0, 1, 0, 2, 1, 0};
    static const struct {
        int pe, local_pe, local_npes, local_pes[3];
    } rows[] = {{0, 0, 3, {0, 2, 5}}, {5, 2, 3, {0, 2, 5}}, {4, 1, 2, {1, 4}}, {3, 0, 1, {3}}};
    node_of_pe = said;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct boot boot = {0};
        boot_set(&boot, &cards, rows[i].pe, MOST);
        for (int again = 0; again < 2; again++) {
            assert_int_equal(boot_find_nodes(&boot), WEFT_OK);
            assert_int_equal(boot.nodes, 3);
            assert_memory_equal(boot.node_of, wanted, sizeof wanted);
            assert_int_equal(boot.local_pe, rows[i].local_pe);
            assert_int_equal(boot.local_npes, rows[i].local_npes);
            assert_memory_equal(boot.local_pes, rows[i].local_pes,
                                (size_t)rows[i].local_npes * sizeof(int));
            assert_string_equal(boot.hosts[0], "host of PE 0");
            assert_string_equal(boot.hosts[1], "host of PE 1");
            assert_string_equal(boot.hosts[2], "host of PE 3");
            assert_string_equal(boot_where(&boot, 4).text, " on host of PE 1");
        }
        boot_unset(&boot);
        assert_true(!boot.local_pes && !boot.node_of && !boot.hosts);
    }
}

static void an_exchange_that_fails_leaves_no_nodes(void **state)
{
    struct boot boot = {0};
    boot_set(&boot, &cards, 1, 2);
    gathers = 0, refused_gather = 1;
    assert_int_equal(boot_find_nodes(&boot), WEFT_ERR_PEER_DEAD);
    assert_null(boot.node_of);
    refused_gather = 0;
}

/* WEFT_TEST_NODE_PES splits a host into several nodes. The PEs of one part have equal records, and
 * WEFT_BOOT_HOST gives the name. */
static void parts_of_a_host_are_nodes(void **state)
{
    static const int one[MOST] = {0};
    char first[sizeof last_card];
    setenv("WEFT_TEST_NODE_PES", "2", 1);
    setenv("WEFT_BOOT_HOST", "name", 1);
    config_reset();
    node_of_pe = one;
    for (int pe = 0; pe < MOST; pe++) {
        struct boot boot = {0};
        boot_set(&boot, &cards, pe, MOST);
        assert_int_equal(boot_find_nodes(&boot), WEFT_OK);
        if (pe % 2 == 1)
            assert_memory_equal(first, last_card, card_bytes);
        else
            assert_int_not_equal(memcmp(first, last_card, card_bytes), 0);
        memcpy(first, last_card, card_bytes);
        assert_string_equal(last_card + card_bytes - BOOT_HOST_BYTES, "name");
        boot_unset(&boot);
    }
    unsetenv("WEFT_TEST_NODE_PES");
    setenv("WEFT_BOOT_NODE", "3", 1); /* each entry of the list of hosts is a node of its own */
    config_reset();
    struct boot boot = {0};
    boot_set(&boot, &cards, 0, 1);
    assert_int_equal(boot_find_nodes(&boot), WEFT_OK);
    memcpy(first, last_card, card_bytes);
    setenv("WEFT_BOOT_NODE", "4", 1);
    config_reset();
    assert_int_equal(boot_find_nodes(&boot), WEFT_OK);
    assert_int_not_equal(memcmp(first, last_card, card_bytes), 0);
    boot_unset(&boot);
    unsetenv("WEFT_BOOT_NODE");
    unsetenv("WEFT_BOOT_HOST");
    config_reset();
}

/* PEs are on the same node if the kernel's boot id and the namespaces that they need to reach each
 * other are equal. */
static void a_node_is_a_kernel_and_its_namespaces(void **state)
{
    static const int one[1] = {0};
    static const char *const namespaces[] = {"/proc/self/ns/net", "/proc/self/ns/pid"};
    struct boot boot = {0};
    char id[64] = "";
    node_of_pe = one;
    boot_set(&boot, &cards, 0, 1);
    assert_int_equal(boot_find_nodes(&boot), WEFT_OK);
    boot_unset(&boot);
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (file) {
        assert_non_null(fgets(id, sizeof id, file));
        fclose(file);
        assert_memory_equal(last_card, id, strlen(id));
    }
    for (int i = 0; i < 2; i++) {
        struct stat at;
        if (stat(namespaces[i], &at))
            continue;
        uint64_t wanted = at.st_ino;
        assert_non_null(memmem(last_card, card_bytes, &wanted, sizeof wanted));
    }
}

static void one_node_has_all_pes(void **state)
{
    struct boot boot = {0};
    boot_set(&boot, &cards, 2, 4);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(boot_one_node(&boot), WEFT_OK);
        for (int pe = 0; pe < 4; pe++)
            assert_true(boot.local_pes[pe] == pe && boot.node_of[pe] == 0);
        assert_true(boot.local_pe == 2 && boot.local_npes == 4 && boot.nodes == 1);
    }
    boot_unset(&boot);
}

/* ----------------------------------------------------------------------- agreement of PEs */

static struct said {
    int32_t status;
    const char *sentence;
} said[3];
static char own_words[1024];

static weft_status gather_said(struct boot *boot, const void *mine, void *all, size_t bytes)
{
    if (++gathers == refused_gather)
        return base_fail(WEFT_ERR_BOOT, "no more exchanges");
    if (gathers == 2)
        memcpy(own_words, mine, bytes);
    for (int pe = 0; pe < boot->npes; pe++) {
        char *to = (char *)all + (size_t)pe * bytes;
        if (pe == boot->pe)
            memcpy(to, mine, bytes);
        else if (bytes == sizeof said[0].status)
            memcpy(to, &said[pe].status, bytes);
        else
            snprintf(to, bytes, "%s", said[pe].sentence);
    }
    return WEFT_OK;
}

static const struct boot_ops words = {.allgather = gather_said};

static weft_status agree_as(struct boot *boot, int pe)
{
    gathers = 0;
    boot_set(boot, &words, pe, 3);
    return boot_agree(boot, said[pe].status
                                ? base_fail((weft_status)said[pe].status, "%s", said[pe].sentence)
                                : WEFT_OK);
}

static void the_lowest_that_failed_is_heard(void **state)
{
    enum { A = WEFT_ERR_PATH, B = WEFT_ERR_NO_MEMORY };
    static const struct {
        struct said said[3];
        weft_status status;
        const char *sentence[3]; /* expected at each PE */
    } rows[] = {
        {{{0, ""}, {0, ""}, {0, ""}}, WEFT_OK, {NULL}},
        {{{0, ""}, {A, "cut"}, {B, "full"}}, A, {"PE 1: cut", "cut", "PE 1: cut"}},
        {{{A, "cut"}, {0, ""}, {B, "full"}}, A, {"cut", "PE 0: cut", "PE 0: cut"}},
        {{{0, ""}, {0, ""}, {B, "full"}}, B, {"PE 2: full", "PE 2: full", "full"}},
        /* A PE repeats the message of another PE: the result names the other PE, if the job has
         * such a PE. */
        {{{0, ""}, {A, "PE 2: full"}, {0, ""}}, A, {"PE 2: full", "PE 2: full", "full"}},
        {{{0, ""}, {A, "PE 0: full"}, {0, ""}}, A, {"full", "PE 0: full", "PE 0: full"}},
        {{{0, ""}, {A, "PE 2 on b: full"}, {0, ""}}, A, {"PE 2: full", "PE 2: full", "full"}},
        {{{0, ""}, {A, "PE 3: x"}, {0, ""}}, A, {"PE 1: PE 3: x", "PE 3: x", "PE 1: PE 3: x"}},
        {{{0, ""}, {A, "PE -1: x"}, {0, ""}}, A, {"PE 1: PE -1: x", "PE -1: x", "PE 1: PE -1: x"}},
        {{{0, ""}, {A, "PE 2 ended"}, {0, ""}},
         A,
         {"PE 1: PE 2 ended", "PE 2 ended", "PE 1: PE 2 ended"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int pe = 0; pe < 3; pe++) {
            struct boot boot = {0};
            memcpy(said, rows[i].said, sizeof said);
            base_fail(WEFT_ERR_JOB, "of before");
            assert_int_equal(agree_as(&boot, pe), rows[i].status);
            assert_int_equal(gathers, rows[i].status ? 2 : 1);
            assert_string_equal(base_last_error(),
                                rows[i].status ? rows[i].sentence[pe] : "of before");
        }
}

static void its_host_is_named(void **state)
{
    char hosts[2][BOOT_HOST_BYTES] = {"one", "two"};
    int node_of[3] = {0, 1, 0};
    struct boot boot = {.nodes = 2, .hosts = hosts, .node_of = node_of};
    memcpy(said, ((struct said[]){{0, ""}, {WEFT_ERR_PATH, "cut"}, {0, ""}}), sizeof said);
    assert_int_equal(agree_as(&boot, 0), WEFT_ERR_PATH);
    assert_string_equal(base_last_error(), "PE 1 on two: cut");
    said[1].sentence = "PE 2 on one: full";
    assert_int_equal(agree_as(&boot, 0), WEFT_ERR_PATH);
    assert_string_equal(base_last_error(), "PE 2 on one: full");
}

static void alone_there_is_nothing_to_agree_on(void **state)
{
    struct boot boot = {.ops = &words, .npes = 1};
    gathers = 0;
    assert_int_equal(boot_agree(&boot, WEFT_ERR_PATH), WEFT_ERR_PATH);
    assert_int_equal(boot_agree(&boot, WEFT_OK), WEFT_OK);
    assert_int_equal(gathers, 0);
}

static void an_exchange_that_fails_is_the_outcome(void **state)
{
    memcpy(said, ((struct said[]){{0, ""}, {WEFT_ERR_PATH, "cut"}, {0, ""}}), sizeof said);
    for (refused_gather = 1; refused_gather <= 2; refused_gather++)
        for (int pe = 0; pe < 3; pe++) {
            struct boot boot = {0};
            assert_int_equal(agree_as(&boot, pe), WEFT_ERR_BOOT);
            assert_int_equal(gathers, refused_gather);
            assert_string_equal(base_last_error(), "no more exchanges");
        }
    refused_gather = 0;
}

/* A message without a terminating zero in its field, as another build might send it, is cut at the
 * end of the field. */
static void long_sentences_are_cut(void **state)
{
    static char longest[2000];
    struct boot boot = {0};
    memset(longest, 'w', sizeof longest - 1);
    memcpy(said, ((struct said[]){{WEFT_ERR_PATH, longest}, {0, ""}, {0, ""}}), sizeof said);
    assert_int_equal(agree_as(&boot, 1), WEFT_ERR_PATH);
    assert_memory_equal(base_last_error(), "PE 0: wwww", 10);
    assert_int_equal(agree_as(&boot, 0), WEFT_ERR_PATH);
    assert_true(strlen(own_words) < 768);
}

static void nothing_is_left_behind(void **state)
{
    static const int nodes[MOST] = {7, 3, 7, 0, 3, 7};
    size_t before = 0;
    node_of_pe = nodes;
    for (int again = 0; again < 3; again++) {
        struct boot boot = {0};
        if (again == 1)
            before = mallinfo2().uordblks;
        boot_set(&boot, &cards, 4, MOST);
        assert_int_equal(boot_find_nodes(&boot), WEFT_OK);
        assert_int_equal(boot_find_nodes(&boot), WEFT_OK);
        assert_int_equal(boot_one_node(&boot), WEFT_OK);
        boot_unset(&boot);
        gathers = 0, refused_gather = 1;
        assert_int_equal(boot_find_nodes(&boot), WEFT_ERR_PEER_DEAD);
        refused_gather = 0;
        memcpy(said, ((struct said[]){{0, ""}, {WEFT_ERR_PATH, "cut"}, {0, ""}}), sizeof said);
        assert_int_equal(agree_as(&boot, 2), WEFT_ERR_PATH);
        said[1].status = WEFT_OK;
        assert_int_equal(agree_as(&boot, 2), WEFT_OK);
    }
    assert_int_equal(mallinfo2().uordblks, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_are_numbered_as_they_appear),
        cmocka_unit_test(an_exchange_that_fails_leaves_no_nodes),
        cmocka_unit_test(parts_of_a_host_are_nodes),
        cmocka_unit_test(one_node_has_all_pes),
        cmocka_unit_test(the_lowest_that_failed_is_heard),
        cmocka_unit_test(its_host_is_named),
        cmocka_unit_test(alone_there_is_nothing_to_agree_on),
        cmocka_unit_test(an_exchange_that_fails_is_the_outcome),
        cmocka_unit_test(long_sentences_are_cut),
        cmocka_unit_test(a_node_is_a_kernel_and_its_namespaces),
        cmocka_unit_test(nothing_is_left_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
