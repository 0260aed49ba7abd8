/* SPDX-License-Identifier: Apache-2.0 */
/* What a PE reads from RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT and what it rejects, where PE
 * 0 listens and the other PEs connect, and that a failure leaves nothing open. */
#include "tests/unit/tcp.h"

static void refused(weft_status status, const char *words)
{
    struct boot *boot = NULL;
    assert_int_equal(boot_open_tcp(&boot), status);
    if (!strstr(base_last_error(), words))
        fail_msg("\"%s\" does not say \"%s\"", base_last_error(), words);
    assert_null(boot);
    assert_int_equal(callocs.memory, 0);
    assert_int_equal(os.freed, os.resolved - (os.resolve_error != 0));
}

static void what_the_environment_says_is_checked(void **state)
{
    static const struct {
        const char *name, *value, *words;
        weft_status status;
    } rows[] = {
        {"RANK", NULL, "RANK is not set; WEFT_BOOT=tcp needs", WEFT_ERR_BOOT},
        {"RANK", "", "RANK is not set", WEFT_ERR_BOOT},
        {"RANK", "3", "RANK is \"3\", which is not a number from 0 to 2", WEFT_ERR_BOOT},
        {"RANK", "-1", "RANK is \"-1\"", WEFT_ERR_BOOT},
        {"RANK", "1x", "RANK is \"1x\"", WEFT_ERR_BOOT},
        {"RANK", "99999999999999999999", "RANK is", WEFT_ERR_BOOT},
        {"WORLD_SIZE", "0", "WORLD_SIZE is \"0\", which is not a number from 1", WEFT_ERR_BOOT},
        {"WORLD_SIZE", "65537", "to 65536", WEFT_ERR_BOOT},
        {"MASTER_PORT", "0", "MASTER_PORT is \"0\"", WEFT_ERR_BOOT},
        {"MASTER_PORT", "65536", "from 1 to 65535", WEFT_ERR_BOOT},
        {"MASTER_PORT", "65535", "there is no port after it", WEFT_ERR_BOOT},
        {"MASTER_ADDR", "", "MASTER_ADDR is not set", WEFT_ERR_BOOT},
        {"MASTER_ADDR", NULL, "MASTER_ADDR is not set", WEFT_ERR_BOOT},
        {"WEFT_BOOT_PORT", "65536", "WEFT_BOOT_PORT is 65536, which", WEFT_ERR_CONFIG},
        {"WEFT_BOOT_PORT", "-1", "WEFT_BOOT_PORT is -1, which", WEFT_ERR_CONFIG},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        reset("1");
        assert_true(boot_tcp_known());
        set(rows[i].name, rows[i].value);
        refused(rows[i].status, rows[i].words);
        assert_int_equal(os.resolved, 0);
        assert_int_equal(boot_tcp_known(), rows[i].value != NULL);
    }
    reset("0");
    set("WORLD_SIZE", "1");
    struct boot *boot;
    assert_int_equal(boot_open_tcp(&boot), WEFT_OK);
    assert_int_equal(os.singles, 1);
    assert_int_equal(os.log_pe, 0);
}

/* The PEs try all addresses with each port: the ports after MASTER_PORT, or the configured one. */
static void where_the_others_look_for_the_first(void **state)
{
    static const struct {
        const char *master, *port;
        int first, ports;
    } rows[] = {{"7000", NULL, 7001, 8},
                {"7000", "9000", 9000, 1},
                {"65533", NULL, 65534, 2},
                {"65534", NULL, 65535, 1},
                {"65535", "65535", 65535, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        reset("2");
        set("MASTER_PORT", rows[i].master);
        set("WEFT_BOOT_PORT", rows[i].port);
        set("WEFT_SECRET", "a secret");
        closed(opened());
        assert_int_equal(os.count, 2 * rows[i].ports);
        for (int k = 0; k < rows[i].ports; k++) {
            const struct sockaddr_in *in4 = (const void *)&os.at[2 * k].address;
            const struct sockaddr_in6 *in6 = (const void *)&os.at[2 * k + 1].address;
            assert_int_equal(ntohs(in4->sin_port), rows[i].first + k);
            assert_int_equal(ntohs(in6->sin6_port), rows[i].first + k);
            assert_memory_equal(&in4->sin_addr, &v4.sin_addr, 4);
            assert_memory_equal(&in6->sin6_addr, &v6.sin6_addr, 16);
            assert_int_equal(os.at[2 * k].bytes, sizeof *in4);
            assert_int_equal(os.at[2 * k + 1].bytes, sizeof *in6);
        }
        assert_string_equal(os.meeting.what, "TCP start");
        assert_string_equal(os.meeting.key, "a secret");
        assert_int_equal(os.meeting.key_bytes, 8);
        assert_int_equal(os.meeting.n, 3);
        assert_int_equal(os.meeting.me, 2);
        assert_false(os.meeting.many_addresses);
        assert_int_equal(os.log_pe, 2);
        assert_int_equal(os.n, 3);
        assert_int_equal(os.me, 2);
        assert_string_equal(os.warning, ""); /* PE 0 warns */
    }
}

static void names_of_jobs(void **state)
{
    (void)state;
    reset("1");
    closed(opened());
    assert_string_equal(os.meeting.job, "7000/0/");
    reset("1");
    set("TORCHELASTIC_RUN_ID", "a_run_id_of_more_than_forty_characters_is_cut");
    set("TORCHELASTIC_RESTART_COUNT", "4");
    closed(opened());
    assert_string_equal(os.meeting.job, "7000/4/a_run_id_of_more_than_forty_characters_i");
}

static void without_a_secret_on_one_machine(void **state)
{
    static const struct {
        unsigned char first;
        int far6;
        const char *local;
        bool one;
    } rows[] = {{127, 0, NULL, true}, {126, 0, NULL, false}, {127, 1, NULL, false},
                {10, 1, "3", true},   {10, 1, "2", false},   {127, 0, "2", true}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        reset("1");
        *(unsigned char *)&v4.sin_addr = rows[i].first;
        v6.sin6_addr.s6_addr[0] = (unsigned char)rows[i].far6;
        set("LOCAL_WORLD_SIZE", rows[i].local);
        if (!rows[i].one) {
            refused(WEFT_ERR_BOOT, "MASTER_ADDR is \"master\", so this job may span machines");
            continue;
        }
        closed(opened());
        const struct sockaddr_un *name = (const void *)&os.at[0].address;
        assert_int_equal(os.count, 1);
        assert_int_equal(name->sun_family, AF_UNIX);
        assert_memory_equal(name->sun_path, "\0weft/1234/7000", 16);
        assert_int_equal(os.at[0].bytes, offsetof(struct sockaddr_un, sun_path) + 15);
        assert_string_equal(os.meeting.what, "local start");
        assert_null(os.meeting.key);
        assert_int_equal(os.locals, 0); /* local sockets carry frames and descriptors */
    }
}

static void names_are_not_resolved(void **state)
{
    (void)state;
    reset("1");
    os.resolve_error = EAI_NONAME;
    refused(WEFT_ERR_BOOT, gai_strerror(EAI_NONAME));
    reset("1");
    os.resolve_error = EAI_SYSTEM;
    refused(WEFT_ERR_BOOT, "MASTER_ADDR is \"master\": Too many open files");
    reset("1");
    addresses = 0;
    refused(WEFT_ERR_BOOT, "MASTER_ADDR \"master\" has no address");
    reset("1");
    set("WEFT_SECRET", "s");
    os.crypto = WEFT_ERR_UNSUPPORTED;
    refused(WEFT_ERR_UNSUPPORTED, "no crypto");
}

static void a_short_secret_is_warned_of(void **state)
{
    static const char *const secrets[] = {"123456789012345", "1234567890123456"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        reset("0");
        set("WEFT_SECRET", secrets[i]);
        closed(opened());
        assert_int_equal(strstr(os.warning, "only 15 characters") != NULL, i == 0);
        assert_int_equal(*os.warning != '\0', i == 0);
    }
}

/* PE 0 listens at the first free port of the address, or at any address if the given one is not
 * local. */
static void where_the_first_listens(void **state)
{
    static const struct {
        int errors[4], fd, binds, any, port, status;
        const char *words;
    } rows[] = {
        {{0}, 60, 1, 0, 7001, 0, NULL},
        {{0}, 0, 1, 0, 7001, 0, NULL},
        {{EADDRINUSE, EADDRINUSE, 0}, 60, 3, 0, 7002, 0, NULL},
        {{EADDRNOTAVAIL, 0}, 60, 2, 1, 7001, 0, NULL},
        {{EADDRINUSE, EADDRNOTAVAIL, 0}, 0, 3, 1, 7001, 0, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        reset("0");
        set("WEFT_SECRET", "1234567890123456");
        os.fd = rows[i].fd;
        memcpy(os.bind_errors, rows[i].errors, sizeof rows[i].errors);
        closed(opened());
        assert_int_equal(os.listening, rows[i].fd);
        assert_int_equal(os.binds, rows[i].binds);
        assert_int_equal(os.any, rows[i].any);
        assert_int_equal(os.ports[os.binds - 1], rows[i].port);
        assert_int_equal(os.closes, os.binds);
        assert_int_equal(os.reuses, os.binds);
        assert_int_equal(os.accepts, 1);
        assert_int_equal(os.connects, 0);
    }
    reset("0");
    set("WEFT_SECRET", "1234567890123456");
    for (int i = 0; i < 80; i++)
        os.bind_errors[i] = i == 5 ? EACCES : EADDRINUSE;
    refused(WEFT_ERR_BOOT,
            "PE 0 cannot listen at \"master\", ports 7001 to 7008: Permission denied");
    assert_int_equal(os.binds, 16);
    reset("0");
    os.bind_errors[0] = EADDRINUSE;
    refused(WEFT_ERR_BOOT, "at the abstract socket @weft/1234/7000: Address already in use; is");
    reset("0");
    os.fd = -1;
    refused(WEFT_ERR_BOOT, "PE 0 cannot listen");
    assert_int_equal(os.closes + os.binds, 0);
}

static void what_fails_leaves_nothing(void **state)
{
    static const struct {
        const char *rank;
        weft_status *status;
        int left;
        const char *words;
    } rows[] = {{"0", &os.accept, -1, "not all came"},    {"1", &os.connect, -1, "nobody there"},
                {"1", &os.init, -1, "no member"},         {"1", &os.nodes, -1, "no nodes"},
                {"1", &os.local, -1, "no node"},          {"1", NULL, 0, "no memory for the conn"},
                {"1", NULL, 1, "no memory for the conn"}, {"1", NULL, 2, "no memory for 3 PEs"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        reset(rows[i].rank);
        set("WEFT_SECRET", "1234567890123456");
        callocs.left = rows[i].left;
        if (rows[i].status)
            *rows[i].status = WEFT_ERR_TIMEOUT;
        refused(rows[i].status ? WEFT_ERR_TIMEOUT : WEFT_ERR_NO_MEMORY, rows[i].words);
        assert_int_equal(os.refused, i == 0);
        assert_int_equal(os.closes, i == 0);
        bool later = i == 3 || i == 4; /* the other PEs get the failure */
        assert_int_equal(os.failed[0], later);
        assert_int_equal(os.closed[0], later);
        assert_int_equal(os.closed[1] + os.failed[1], 0);
        if (later)
            assert_string_equal(os.said, rows[i].words);
        assert_false(os.clean);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_environment_says_is_checked),
        cmocka_unit_test(where_the_others_look_for_the_first),
        cmocka_unit_test(names_of_jobs),
        cmocka_unit_test(without_a_secret_on_one_machine),
        cmocka_unit_test(names_are_not_resolved),
        cmocka_unit_test(a_short_secret_is_warned_of),
        cmocka_unit_test(where_the_first_listens),
        cmocka_unit_test(what_fails_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
