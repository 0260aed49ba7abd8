/* SPDX-License-Identifier: Apache-2.0 */
/* The records that both sides of a rendezvous exchange and how they are checked, unique ids, time
 * limits, and what boot over TCP rejects before it connects. */
#include "boot/rendezvous/handshake.h"

#include "base/config.h"
#include "base/status.h"
#include "boot/methods.h"
#include "boot/rendezvous/unique_id.h"
#include "driver/crypto.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static struct rendezvous job(const char *key)
{
    return (struct rendezvous){.what = "a test",
                               .n = 4,
                               .me = 2,
                               .key = key,
                               .key_bytes = key ? strlen(key) : 0,
                               .job = "a job"};
}

/* --- check of records and proofs ----------------------------------------------------------- */

static void what_a_member_says_is_judged(void **state)
{
    struct rendezvous here = job(NULL);
    struct handshake_record good, hello;
    assert_true(handshake_make_record(&here, &good));
    assert_null(handshake_check_record(&here, &good));
    assert_int_equal(good.member, 2);
    assert_int_equal(good.members, 4);
    for (int i = 0; i < 8; i++) {
        static const char *const whys[] = {"it does not speak Weft's protocol",
                                           "it runs another version of Weft",
                                           "it belongs to another job",
                                           "its number is not in this job",
                                           "its number is not in this job",
                                           "its number is not in this job",
                                           NULL,
                                           NULL};
        hello = good;
        if (i == 0)
            hello.magic++;
        if (i == 1)
            hello.version--;
        if (i == 2)
            hello.job[63] = 1;
        if (i == 3)
            hello.members = 5;
        if (i == 4)
            hello.member = 0; /* the hub's own number */
        if (i == 5)
            hello.member = 4;
        if (i == 6)
            hello.member = 1;
        if (i == 7)
            hello.member = 3;
        const char *why = handshake_check_record(&here, &hello);
        if (whys[i])
            assert_string_equal(why, whys[i]);
        else
            assert_null(why);
    }
}

/* A proof is valid only for its side, its key, its job, the greeting and the record. */
static void proofs_are_of_what_was_said(void **state)
{
    const struct crypto_driver *crypto;
    struct rendezvous hub = job("a secret"), other = job("another"), open = job(NULL);
    struct handshake_greeting greeting, second;
    struct handshake_record hello;
    struct handshake_proof proof;
    assert_true(handshake_make_greeting(&open, &greeting));
    assert_true(greeting.magic == HANDSHAKE_MAGIC && greeting.version == HANDSHAKE_VERSION &&
                !greeting.keyed);
    assert_true(handshake_make_record(&open, &hello));
    assert_true(handshake_make_proof(&open, HANDSHAKE_HUB, &greeting, &hello, &proof));
    assert_true(handshake_check_proof(&open, HANDSHAKE_HUB, &greeting, &hello, &proof));
    proof.magic++; /* an invalid proof */
    assert_false(handshake_check_proof(&open, HANDSHAKE_HUB, &greeting, &hello, &proof));
    if (crypto_load(&crypto))
        skip();
    assert_true(handshake_make_greeting(&hub, &greeting));
    assert_true(handshake_make_greeting(&hub, &second));
    assert_true(greeting.keyed == 1 && memcmp(greeting.nonce, second.nonce, 32) != 0);
    assert_true(handshake_make_proof(&hub, HANDSHAKE_MEMBER, &greeting, &hello, &proof));
    assert_true(handshake_check_proof(&hub, HANDSHAKE_MEMBER, &greeting, &hello, &proof));
    assert_false(handshake_check_proof(&hub, HANDSHAKE_HUB, &greeting, &hello, &proof));
    assert_false(handshake_check_proof(&other, HANDSHAKE_MEMBER, &greeting, &hello, &proof));
    assert_false(handshake_check_proof(&hub, HANDSHAKE_MEMBER, &second, &hello, &proof));
    for (int i = 0; i < 4; i++) {
        struct handshake_record changed = hello;
        if (i == 0)
            changed.member++;
        if (i == 1)
            changed.members++;
        if (i == 2)
            changed.job[0]++;
        if (i == 3)
            changed.nonce[31]++;
        assert_false(handshake_check_proof(&hub, HANDSHAKE_MEMBER, &greeting, &changed, &proof));
    }
    proof.mac[31] ^= 1;
    assert_false(handshake_check_proof(&hub, HANDSHAKE_MEMBER, &greeting, &hello, &proof));
    /* Each direction has its own key, and both sides have the same two keys. */
    struct wire one, two;
    assert_int_equal(handshake_finish(&hub, &greeting, &hello, -1, true, &one), WEFT_OK);
    assert_int_equal(handshake_finish(&hub, &greeting, &hello, -1, false, &two), WEFT_OK);
    assert_true(one.keyed && two.keyed);
    assert_memory_equal(one.send_key, two.receive_key, WIRE_KEY_BYTES);
    assert_memory_equal(one.receive_key, two.send_key, WIRE_KEY_BYTES);
    assert_true(memcmp(one.send_key, one.receive_key, WIRE_KEY_BYTES) != 0);
    assert_int_equal(handshake_finish(&open, &greeting, &hello, -1, true, &one), WEFT_OK);
    assert_false(one.keyed);
}

static void the_other_end_is_described(void **state)
{
    static const struct {
        const char *address, *text;
    } rows[] = {{"10.1.2.3", "10.1.2.3:4711"},
                {"::ffff:10.1.2.3", "10.1.2.3:4711"},
                {"fe80::7", "[fe80::7]:4711"},
                {NULL, "?"}};
    char text[96], expected[96];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sockaddr_storage address = {0};
        struct sockaddr_in *v4 = (void *)&address;
        struct sockaddr_in6 *v6 = (void *)&address;
        *text = '\0';
        if (rows[i].address && inet_pton(AF_INET, rows[i].address, &v4->sin_addr) == 1) {
            v4->sin_family = AF_INET;
            v4->sin_port = htons(4711);
        } else if (rows[i].address) {
            v6->sin6_family = AF_INET6;
            v6->sin6_port = htons(4711);
            assert_int_equal(inet_pton(AF_INET6, rows[i].address, &v6->sin6_addr), 1);
        }
        handshake_describe_address(&address, text, sizeof text);
        assert_string_equal(text, rows[i].text);
    }
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_true(handshake_same_user(pair[0]));
    handshake_describe_peer(pair[0], text, sizeof text);
    snprintf(expected, sizeof expected, "process %d of user %d", (int)getpid(), (int)geteuid());
    assert_string_equal(text, expected);
    close(pair[0]);
    close(pair[1]);
    handshake_describe_peer(pair[0], text, sizeof text);
    assert_string_equal(text, "a peer that is gone");
    assert_false(handshake_same_user(pair[0]));
}

/* --- unique ids ------------------------------------------------------------------------------- */

/* The layout of unique_id.c: magic, port, number of addresses, keyed, secret, addresses. */
static weft_unique_id made_id(const uint8_t *room, size_t bytes, uint8_t addresses)
{
    static const uint8_t head[] = {0x57, 0x56, 0x49, 0x32, 0x39, 0x30, 0, 1};
    weft_unique_id id = {{0}};
    uint8_t *at = (uint8_t *)&id;
    memcpy(at, head, sizeof head);
    at[6] = addresses;
    for (int i = 0; i < UNIQUE_ID_SECRET_BYTES; i++)
        at[8 + i] = (uint8_t)(3 * i + 1);
    memcpy(at + 8 + UNIQUE_ID_SECRET_BYTES, room, bytes);
    return id;
}

static void ids_hold_addresses_of_both_kinds(void **state)
{
    static const uint8_t room[] = {4, 10, 1, 2, 3, 16, 0xfe, 0x80, 0, 0,   0, 0, 0, 0,
                                   0, 0,  0, 0, 0, 0,  0,    9,    4, 127, 0, 0, 1};
    weft_unique_id id = made_id(room, sizeof room, 3);
    struct rendezvous_address addresses[4] = {{.bytes = 99}};
    uint8_t secret[UNIQUE_ID_SECRET_BYTES];
    bool keyed = false;
    char text[96];
    static const char *const texts[] = {"10.1.2.3:12345", "[fe80::9]:12345", "127.0.0.1:12345"};
    assert_true(unique_id_good(&id));
    assert_int_equal(unique_id_port(&id), 12345);
    addresses[3].bytes = 99;
    assert_int_equal(unique_id_read(&id, addresses, 4, secret, &keyed), 3);
    assert_true(keyed && secret[0] == 1 && secret[15] == 46);
    for (int i = 0; i < 3; i++) {
        handshake_describe_address(&addresses[i].address, text, sizeof text);
        assert_string_equal(text, texts[i]);
        assert_int_equal(addresses[i].bytes,
                         i == 1 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
    }
    assert_int_equal(addresses[3].bytes, 99);
    assert_int_equal(unique_id_read(&id, addresses, 2, secret, &keyed), 2);
    ((uint8_t *)&id)[7] = 0;
    unique_id_read(&id, addresses, 2, secret, &keyed);
    assert_false(keyed);
}

static void ids_that_are_not_whole_are_refused(void **state)
{
    uint8_t room[100];
    for (int i = 0; i < 100; i++) /* 20 addresses of 4 bytes fill the space exactly */
        room[i] = i % 5 ? (uint8_t)i : 4;
    weft_unique_id id = made_id(room, sizeof room, 20);
    assert_true(unique_id_good(&id));
    id = made_id(room, sizeof room, 21);
    assert_false(unique_id_good(&id));
    room[95] = 16; /* the last address begins inside the space and ends outside */
    id = made_id(room, sizeof room, 20);
    assert_false(unique_id_good(&id));
    id = made_id(room, sizeof room, 19);
    assert_true(unique_id_good(&id));
    room[0] = 5;
    id = made_id(room, sizeof room, 1);
    assert_false(unique_id_good(&id));
    id = made_id(room, sizeof room, 0);
    assert_true(unique_id_good(&id));
    ((uint8_t *)&id)[0]++; /* magic */
    assert_false(unique_id_good(&id));
    id = made_id(room, sizeof room, 0);
    ((uint8_t *)&id)[4] = ((uint8_t *)&id)[5] = 0; /* port */
    assert_false(unique_id_good(&id));
}

static void ids_made_here_are_good_and_differ(void **state)
{
    weft_unique_id one, two;
    struct rendezvous_address addresses[24];
    uint8_t first[UNIQUE_ID_SECRET_BYTES], second[UNIQUE_ID_SECRET_BYTES];
    bool keyed;
    assert_int_equal(unique_id_make(&one), WEFT_OK);
    assert_int_equal(unique_id_make(&two), WEFT_OK);
    assert_true(unique_id_good(&one) && unique_id_good(&two));
    assert_true(unique_id_read(&one, addresses, 24, first, &keyed) >
                0); /* at least the loopback address */
    unique_id_read(&two, addresses, 24, second, &keyed);
    assert_true(memcmp(first, second, sizeof first) != 0);
    assert_true(unique_id_port(&one) > 0);
}

/* --- time limits ------------------------------------------------------------------------------ */

static void limit_of(const char *wait, const char *boot)
{
    wait ? setenv("WEFT_WAIT_LIMIT", wait, 1) : unsetenv("WEFT_WAIT_LIMIT");
    boot ? setenv("WEFT_BOOT_LIMIT", boot, 1) : unsetenv("WEFT_BOOT_LIMIT");
    config_reset();
}

static void the_lesser_limit_counts(void **state)
{
    static const struct {
        const char *wait, *boot;
        uint64_t start_ms, join_ms; /* 0 = endless */
    } rows[] = {{"3s", "2s", 3000, 2000}, {"2s", "3s", 2000, 2000}, {"0", "3s", 0, 3000},
                {"4s", "0", 4000, 4000},  {"0", "0", 0, 0},         {"2s", "2s", 2000, 2000}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        limit_of(rows[i].wait, rows[i].boot);
        struct boot_limit start = boot_limit_start(), join = boot_limit_join();
        assert_int_equal(start.endless, rows[i].start_ms == 0);
        assert_int_equal(start.left_ns, rows[i].start_ms * 1000000);
        assert_int_equal(join.endless, rows[i].join_ms == 0);
        assert_int_equal(join.left_ns, rows[i].join_ms * 1000000);
    }
    limit_of(NULL, NULL);
}

static void limits_count_down(void **state)
{
    struct boot_limit limit = {.left_ns = 2500000}, endless = {.endless = true};
    int ends[2];
    assert_true(boot_limit_pause(&limit));
    assert_int_equal(limit.left_ns, 1500000);
    assert_true(boot_limit_pause(&limit));
    assert_false(boot_limit_pause(&limit));
    assert_int_equal(limit.left_ns, 0);
    assert_true(boot_limit_pause(&endless));
    assert_int_equal(pipe(ends), 0);
    limit.left_ns = 3000000;
    assert_false(boot_limit_poll(&limit, ends[0], POLLIN));
    assert_int_equal(limit.left_ns, 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    /* A ready descriptor uses none of the time. */
    assert_true(boot_limit_poll(&limit, ends[0], POLLIN));
    assert_true(boot_limit_poll(&endless, ends[0], POLLIN));
    limit.left_ns = 7000000;
    assert_true(boot_limit_poll(&limit, ends[0], POLLIN));
    assert_int_equal(limit.left_ns, 7000000);
    close(ends[0]);
    close(ends[1]);
}

/* --- boot over TCP ---------------------------------------------------------------------------- */

static void wrong_variables_of_tcp_are_named(void **state)
{
    static const struct {
        const char *size, *rank, *port, *host, *own_port, *sentence;
    } rows[] = {
        {NULL, "0", "9", "h", "",
         "WORLD_SIZE is not set; WEFT_BOOT=tcp needs RANK, WORLD_SIZE, MASTER_ADDR and "
         "MASTER_PORT"},
        {"", "0", "9", "h", "",
         "WORLD_SIZE is not set; WEFT_BOOT=tcp needs RANK, WORLD_SIZE, MASTER_ADDR and "
         "MASTER_PORT"},
        {"0", "0", "9", "h", "", "WORLD_SIZE is \"0\", which is not a number from 1 to 65536"},
        {"65537", "0", "9", "h", "",
         "WORLD_SIZE is \"65537\", which is not a number from 1 to 65536"},
        {"2x", "0", "9", "h", "", "WORLD_SIZE is \"2x\", which is not a number from 1 to 65536"},
        {"99999999999999999999", "0", "9", "h", "",
         "WORLD_SIZE is \"99999999999999999999\", which is not a number from 1 to 65536"},
        {"2", "2", "9", "h", "", "RANK is \"2\", which is not a number from 0 to 1"},
        {"2", "-1", "9", "h", "", "RANK is \"-1\", which is not a number from 0 to 1"},
        {"2", "1", "0", "h", "", "MASTER_PORT is \"0\", which is not a number from 1 to 65535"},
        {"2", "1", "65536", "h", "",
         "MASTER_PORT is \"65536\", which is not a number from 1 to 65535"},
        {"2", "1", "9", NULL, "", "MASTER_ADDR is not set: the host name or address of PE 0"},
        {"2", "1", "9", "", "", "MASTER_ADDR is not set: the host name or address of PE 0"},
        {"2", "1", "9", "h", "65536", "WEFT_BOOT_PORT is 65536, which is not a port"},
        {"2", "1", "9", "h", "-1", "WEFT_BOOT_PORT is -1, which is not a port"},
        {"2", "1", "65535", "h", "",
         "MASTER_PORT is 65535 and there is no port after it: set WEFT_BOOT_PORT"},
    };
    setenv("WEFT_BOOT", "tcp", 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *const names[] = {"WORLD_SIZE", "RANK", "MASTER_PORT", "MASTER_ADDR",
                                     "WEFT_BOOT_PORT"};
        const char *const values[] = {rows[i].size, rows[i].rank, rows[i].port, rows[i].host,
                                      *rows[i].own_port ? rows[i].own_port : NULL};
        struct boot *boot;
        for (int k = 0; k < 5; k++)
            values[k] ? setenv(names[k], values[k], 1) : unsetenv(names[k]);
        assert_int_equal(boot_tcp_known(),
                         rows[i].size && rows[i].rank && rows[i].port && rows[i].host);
        config_reset();
        if (boot_open(&boot, NULL, 0) == WEFT_OK)
            fail_msg("row %zu started", i);
        if (!strstr(weft_last_error(), rows[i].sentence))
            fail_msg("\"%s\" lacks \"%s\"", weft_last_error(), rows[i].sentence);
        assert_null(boot);
    }
    unsetenv("WEFT_BOOT");
    unsetenv("WEFT_BOOT_PORT");
    config_reset();
}

static void hosts_are_named_where_there_are_several(void **state)
{
    char hosts[2][BOOT_HOST_BYTES] = {"one", "two"};
    int node_of[3] = {0, 1, 0};
    struct boot boot = {.npes = 3, .nodes = 2, .hosts = hosts, .node_of = node_of};
    assert_string_equal(boot_where(&boot, 1).text, " on two");
    assert_string_equal(boot_where(&boot, 2).text, " on one");
    assert_string_equal(boot_where(&boot, 0).text, " on one");
    assert_string_equal(boot_where(&boot, 3).text, "");
    assert_string_equal(boot_where(&boot, -1).text, "");
    assert_string_equal(boot_where(NULL, 0).text, "");
    boot.nodes = 1;
    assert_string_equal(boot_where(&boot, 0).text, "");
    boot.nodes = 2;
    boot.hosts = NULL;
    assert_string_equal(boot_where(&boot, 0).text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_member_says_is_judged),
        cmocka_unit_test(proofs_are_of_what_was_said),
        cmocka_unit_test(the_other_end_is_described),
        cmocka_unit_test(ids_hold_addresses_of_both_kinds),
        cmocka_unit_test(ids_that_are_not_whole_are_refused),
        cmocka_unit_test(ids_made_here_are_good_and_differ),
        cmocka_unit_test(the_lesser_limit_counts),
        cmocka_unit_test(limits_count_down),
        cmocka_unit_test(wrong_variables_of_tcp_are_named),
        cmocka_unit_test(hosts_are_named_where_there_are_several),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
