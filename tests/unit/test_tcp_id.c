/* SPDX-License-Identifier: Apache-2.0 */
/* PEs that boot with a unique id: which arguments are rejected, and where PE 0 listens and the
 * other PEs connect, with and without a secret. */
#include "tests/unit/tcp.h"

#include "boot/rendezvous/unique_id.h"

static struct {
    bool bad, unkeyed;
    int fd; /* listens at all addresses */
    const weft_unique_id *id;
} given;

bool __wrap_unique_id_good(const weft_unique_id *id);
bool __wrap_unique_id_good(const weft_unique_id *id)
{
    assert_ptr_equal(id, given.id);
    return !given.bad;
}

int __wrap_unique_id_port(const weft_unique_id *id);
int __wrap_unique_id_port(const weft_unique_id *id)
{
    assert_ptr_equal(id, given.id);
    return 7777;
}

int __wrap_unique_id_read(const weft_unique_id *id, struct rendezvous_address *at, int most,
                          uint8_t secret[UNIQUE_ID_SECRET_BYTES], bool *keyed);
int __wrap_unique_id_read(const weft_unique_id *id, struct rendezvous_address *at, int most,
                          uint8_t secret[UNIQUE_ID_SECRET_BYTES], bool *keyed)
{
    assert_ptr_equal(id, given.id);
    assert_int_equal(most, 64);
    memset(secret, 'k', UNIQUE_ID_SECRET_BYTES);
    *keyed = !given.unkeyed;
    for (int i = 0; i < 2; i++) {
        at[i] = (struct rendezvous_address){.bytes = sizeof v4};
        memcpy(&at[i].address, &v4, sizeof v4);
    }
    return 2;
}

int __wrap_listen_everywhere(int *port);
int __wrap_listen_everywhere(int *port)
{
    assert_int_equal(*port, 7777);
    os.binds = 99;
    errno = EADDRINUSE;
    return given.fd;
}

static weft_unique_id id;

static weft_status open_id(struct boot **boot, int pe, int npes)
{
    given.id = &id;
    *boot = NULL;
    return boot_open_id(boot, &id, pe, npes);
}

static void what_is_no_pe_of_a_job_is_refused(void **state)
{
    static const struct {
        int pe, npes;
        bool ok;
    } rows[] = {{0, 0, false}, {-1, 3, false},    {3, 3, false},        {2, 3, true},
                {0, 3, true},  {0, 65537, false}, {65535, 65536, true}, {0, 1, true},
                {1, 1, false}, {0, -1, false},    {0, 2, true}};
    struct boot *boot;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char words[60];
        reset("1");
        given.fd = os.fd;
        weft_status status = open_id(&boot, rows[i].pe, rows[i].npes);
        assert_int_equal(status, rows[i].ok ? WEFT_OK : WEFT_ERR_ARGUMENT);
        snprintf(words, sizeof words, "PE %d is not in a job of %d PEs", rows[i].pe, rows[i].npes);
        if (!rows[i].ok)
            assert_string_equal(base_last_error(), words);
        assert_int_equal(os.singles, rows[i].ok && rows[i].npes == 1);
        assert_int_equal(os.inits, rows[i].ok && rows[i].npes > 1);
        if (boot)
            closed(boot);
        assert_int_equal(callocs.memory, 0);
    }
    reset("1");
    given.bad = true;
    assert_int_equal(open_id(&boot, 0, 3), WEFT_ERR_ARGUMENT);
    assert_non_null(strstr(base_last_error(), "was not made by weft_unique_id_get()"));
    given.bad = false;
    callocs.left = 0;
    assert_int_equal(open_id(&boot, 0, 3), WEFT_ERR_NO_MEMORY);
    assert_string_equal(base_last_error(), "no memory for the connections at start");
}

static void with_its_secret_at_all_addresses(void **state)
{
    struct boot *boot;
    (void)state;
    for (int pe = 0; pe < 2; pe++) {
        reset(NULL);
        given.fd = os.fd = pe ? 60 : 0;
        assert_int_equal(open_id(&boot, pe, 3), WEFT_OK);
        assert_int_equal(os.log_pe, pe);
        assert_int_equal(os.meeting.me, pe);
        assert_int_equal(os.meeting.n, 3);
        assert_int_equal(os.meeting.key_bytes, UNIQUE_ID_SECRET_BYTES);
        assert_string_equal(os.meeting.job, "unique id");
        assert_string_equal(os.meeting.what, "TCP start");
        assert_true(os.meeting.many_addresses);
        assert_int_equal(os.binds, pe ? 0 : 99);
        assert_int_equal(os.listening, pe ? -1 : 0);
        if (pe) {
            assert_int_equal(os.count, 2);
            assert_memory_equal(&os.at[1].address, &v4, sizeof v4);
        }
        assert_int_equal(boot->pe, pe);
        assert_int_equal(boot->npes, 3);
        closed(boot);
        assert_int_equal(os.closes, !pe);
    }
    reset(NULL);
    given.fd = -1;
    assert_int_equal(open_id(&boot, 0, 3), WEFT_ERR_BOOT);
    assert_string_equal(base_last_error(),
                        "PE 0 cannot listen at \"the host of the unique id\", ports 7777 to 7777: "
                        "Address already in use; set WEFT_BOOT_PORT to a free port");
    assert_int_equal(callocs.memory, 0);
}

static void without_a_secret_by_a_local_name(void **state)
{
    struct boot *boot;
    (void)state;
    given.unkeyed = true;
    for (int pe = 0; pe < 2; pe++) {
        reset(NULL);
        assert_int_equal(open_id(&boot, pe, 3), WEFT_OK);
        assert_null(os.meeting.key);
        assert_int_equal(os.meeting.key_bytes, 0);
        assert_int_equal(os.binds, !pe);
        if (pe) {
            assert_int_equal(os.count, 1);
            assert_memory_equal(((struct sockaddr_un *)&os.at[0].address)->sun_path,
                                "\0weft/1234/7777", 16);
        }
        closed(boot);
    }
    given.unkeyed = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_pe_of_a_job_is_refused),
        cmocka_unit_test(with_its_secret_at_all_addresses),
        cmocka_unit_test(without_a_secret_by_a_local_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
