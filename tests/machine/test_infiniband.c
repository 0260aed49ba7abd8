/* SPDX-License-Identifier: Apache-2.0 */
/* The rate that an InfiniBand port could have: valid and invalid answers of ports and names of
 * boards; and the live reader, over an imitated /sys and a mock kernel (the linker replaces
 * ioctl(), write(), poll() and read()). */
#include "made_tree.h"

#include <errno.h>
#include <poll.h>
#include <rdma/ib_user_mad.h>
#include <stdlib.h>

#include "machine/checks/doctor.h"
#include "machine/live/infiniband_decode.h"
#include "machine/live/live.h"

enum { HEADER = sizeof(struct ib_user_mad_hdr), PACKET = HEADER + INFINIBAND_MAD_BYTES };

/* The link widths and speeds of a port as in PortInfo, taken from the specification's table and not
 * from the code. */
struct said {
    int widths, speeds, extended;
    bool knows_extended;
};

static void answer_to(uint8_t *mad, const struct said *port)
{
    mad[3] = 0x81;
    mad[4] = 0x80;
    mad[64 + 22] = port->knows_extended ? 0x40 : 0;
    mad[64 + 30] = (uint8_t)port->widths;
    mad[64 + 32] = (uint8_t)(port->speeds << 4 | 4);
    mad[64 + 62] = (uint8_t)(0x20 | port->extended);
}

static void test_rates(void **state)
{
    static const struct {
        struct said said;
        int64_t mbit;
        bool halves;
    } cases[] = {
        {{3, 1, 0, false}, 10000, false},  /* SDR, 1x or 4x */
        {{3, 3, 0, false}, 20000, false},  /* DDR */
        {{3, 7, 0, false}, 40000, false},  /* QDR */
        {{3, 7, 1, true}, 56000, false},   /* FDR */
        {{3, 7, 3, true}, 100000, false},  /* EDR */
        {{19, 7, 7, true}, 200000, true},  /* HDR, 1x, 2x or 4x */
        {{19, 7, 15, true}, 400000, true}, /* NDR */
        {{3, 7, 3, false}, 40000, false},  /* extended speeds, but the capability bit is not set */
        {{1, 7, 2, true}, 25000, false},   /* EDR, 1x only */
        {{17, 7, 4, true}, 100000, false}, /* HDR, 1x or 2x: its maximum */
        {{7, 7, 0, false}, 80000, false},  /* 8x */
        {{11, 7, 0, false}, 120000, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t mad[INFINIBAND_MAD_BYTES];
        struct infiniband_port port;
        const char *why = "?";
        infiniband_request(mad, 1);
        answer_to(mad, &cases[i].said);
        assert_true(infiniband_answer(mad, sizeof mad, &port, &why));
        assert_null(why);
        assert_int_equal(port.mbit, cases[i].mbit);
        assert_int_equal(port.halves, cases[i].halves);
    }
}

static void expect_refused(uint8_t *mad, size_t bytes, const char *word)
{
    struct infiniband_port port;
    const char *why = NULL;
    assert_false(infiniband_answer(mad, bytes, &port, &why));
    assert_non_null(strstr(why, word));
    assert_int_equal(port.mbit, 0);
}

static void test_bad_answers(void **state)
{
    static const struct said ndr = {19, 7, 15, true};
    uint8_t mad[INFINIBAND_MAD_BYTES], good[INFINIBAND_MAD_BYTES];
    infiniband_request(mad, 2);
    assert_int_equal(mad[23], 2);
    expect_refused(mad, sizeof mad, "another"); /* the query itself */
    answer_to(mad, &ndr);
    memcpy(good, mad, sizeof good);
    expect_refused(mad, sizeof mad - 1, "truncated");
    expect_refused(mad, 0, "truncated");
    mad[17] = 0x11; /* NodeInfo */
    expect_refused(mad, sizeof mad, "another");
    memcpy(mad, good, sizeof mad);
    mad[5] = 0x0c; /* attribute not supported */
    expect_refused(mad, sizeof mad, "refused");
    memcpy(mad, good, sizeof mad);
    mad[64 + 30] = 0;
    expect_refused(mad, sizeof mad, "no speed or no width");
}

static int64_t board(const char *name)
{
    uint8_t vpd[INFINIBAND_VPD_BYTES] = {0x82, (uint8_t)strlen(name)};
    memcpy(vpd + 3, name, strlen(name));
    return infiniband_board_mbit(vpd, sizeof vpd);
}

static void test_boards(void **state)
{
    assert_int_equal(board("ConnectX-6 VPI adapter card, HDR IB (200Gb/s) and 200GbE, single-port"),
                     200000);
    assert_int_equal(board("ConnectX-6 VPI adapter card, HDR100, EDR IB (100Gb/s) and 100GbE"),
                     100000);
    assert_int_equal(board("NVIDIA ConnectX-7 HHHL Adapter card, 400GbE / NDR IB, PCIe 5.0 x16"),
                     400000);
    assert_int_equal(board("ConnectX-3 VPI; FDR IB (56Gb/s), PCIe3.0 x8 8GT/s"), 56000);
    assert_int_equal(board("Adapter for 16GT/s, 64 GB"), 0);
    assert_int_equal(board(""), 0);
    uint8_t vpd[8] = {0x82, 200, 0, '4', '0', '0', 'G', 'b'}; /* its length exceeds the data */
    assert_int_equal(infiniband_board_mbit(vpd, sizeof vpd), 400000);
    assert_int_equal(infiniband_board_mbit(vpd, 7), 0);
    assert_int_equal(infiniband_board_mbit(vpd, 2), 0);
    vpd[0] = 0x90; /* another item */
    assert_int_equal(infiniband_board_mbit(vpd, sizeof vpd), 0);
}

static void test_possible(void **state)
{
    static const struct infiniband_port hdr = {200000, true}, edr = {100000, false};
    const char *why;
    assert_int_equal(infiniband_possible_mbit(&edr, 0, 40000, &why), 100000);
    assert_int_equal(infiniband_possible_mbit(&hdr, 200000, 100000, &why), 200000);
    assert_int_equal(infiniband_possible_mbit(&hdr, 100000, 100000, &why), 100000);
    assert_null(why);
    /* An HDR board at half its rate cannot be distinguished from an HDR100 board. */
    assert_int_equal(infiniband_possible_mbit(&hdr, 0, 100000, &why), 0);
    assert_non_null(strstr(why, "half"));
    assert_int_equal(infiniband_possible_mbit(&hdr, 0, 200000, &why), 200000);
    assert_int_equal(infiniband_possible_mbit(&hdr, 0, 800000, &why), 0);
    assert_non_null(strstr(why, "faster"));
}

/* --- the live reader -------------------------------------------------------------------------- */

int __real_ioctl(int fd, unsigned long what, ...);
ssize_t __real_write(int fd, const void *bytes, size_t n);
ssize_t __real_read(int fd, void *bytes, size_t n);
int __real_poll(struct pollfd *list, nfds_t n, int timeout);
int __wrap_ioctl(int fd, unsigned long what, ...);
ssize_t __wrap_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_read(int fd, void *bytes, size_t n);
int __wrap_poll(struct pollfd *list, nfds_t n, int timeout);

/* The mock kernel: its answers and its failures. */
static struct {
    int fd; /* of the open device node */
    struct said port;
    int refuse;      /* errno of the registration */
    uint32_t status; /* of the answer; not 0 if none came */
    bool silent, cut;
    uint8_t packet[PACKET];
} kernel = {.fd = -1};

int __wrap_ioctl(int fd, unsigned long what, ...)
{
    if (what == IB_USER_MAD_ENABLE_PKEY) {
        kernel.fd = fd;
        return 0;
    }
    va_list arguments;
    va_start(arguments, what);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if (what != IB_USER_MAD_REGISTER_AGENT)
        return __real_ioctl(fd, what, argument);
    struct ib_user_mad_reg_req *agent = argument;
    assert_int_equal(agent->qpn, 0);
    assert_int_equal(agent->mgmt_class, 0x81);
    agent->id = 7;
    errno = kernel.refuse;
    return kernel.refuse ? -1 : 0;
}

ssize_t __wrap_write(int fd, const void *bytes, size_t n)
{
    if (fd != kernel.fd)
        return __real_write(fd, bytes, n);
    const struct ib_user_mad_hdr *header = bytes;
    assert_int_equal(n, PACKET);
    assert_int_equal(header->id, 7);
    assert_int_equal(header->qpn, 0);
    assert_int_equal(header->lid, 0xffff);
    memcpy(kernel.packet, bytes, n);
    const uint8_t *mad = kernel.packet + HEADER;
    assert_int_equal(mad[3], 1); /* method Get */
    assert_int_equal(mad[7], 0); /* no hops: the query stays in the adapter */
    assert_int_equal(mad[17], 0x15);
    answer_to(kernel.packet + HEADER, &kernel.port);
    return (ssize_t)n;
}

int __wrap_poll(struct pollfd *list, nfds_t n, int timeout)
{
    if (n != 1 || list[0].fd != kernel.fd)
        return __real_poll(list, n, timeout);
    assert_true(timeout > 0 && timeout <= 1000);
    return !kernel.silent;
}

ssize_t __wrap_read(int fd, void *bytes, size_t n)
{
    if (fd != kernel.fd)
        return __real_read(fd, bytes, n);
    memcpy(kernel.packet + offsetof(struct ib_user_mad_hdr, status), &kernel.status,
           sizeof kernel.status);
    memcpy(bytes, kernel.packet, n < PACKET ? n : PACKET);
    kernel.fd = -1;
    return kernel.cut ? 100 : (ssize_t)n;
}

static void put_port(void)
{
    put_text("sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
    put_text("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
    put_text("sys/class/infiniband/mlx5_0/ports/1/rate", "100 Gb/sec (4X EDR)\n");
    put_text("sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
    put_pci("0000:c1:00.0", "pci0000:c0/0000:c0:01.0/0000:c1:00.0", "0x020700\n", 0, 0);
    put_link("sys/class/infiniband/mlx5_0/device",
             "../../../devices/pci0000:c0/0000:c0:01.0/0000:c1:00.0");
    put_text("sys/class/infiniband_mad/abi_version", "5\n");
    put_text("sys/class/infiniband_mad/issm0/ibdev", "mlx5_0\n");
    put_text("sys/class/infiniband_mad/issm0/port", "1\n");
    put_text("sys/class/infiniband_mad/umad0/ibdev", "mlx5_1\n");
    put_text("sys/class/infiniband_mad/umad0/port", "1\n");
    put_text("sys/class/infiniband_mad/umad1/ibdev", "mlx5_0\n");
    put_text("sys/class/infiniband_mad/umad1/port", "1\n");
}

static struct machine *read_machine(void)
{
    struct machine_source source = {.root = root};
    kernel.fd = -1;
    struct machine *m = machine_read_live(&source);
    assert_non_null(m);
    assert_int_equal(m->n_ports, 1);
    assert_true(number_is(m->ports[0].mbit, 100000));
    return m;
}

static void expect_rate(int64_t mbit, bool told)
{
    static struct diagnosis d;
    struct machine *m = read_machine();
    bool seen = false;
    assert_true(number_is(m->ports[0].mbit_max, mbit));
    doctor_examine(m, &d);
    for (int i = 0; i < d.findings.n; i++)
        seen |= d.findings.list[i].reason == REASON_NIC_RATE;
    assert_int_equal(seen, told);
    findings_free(&d.findings);
    machine_free(m);
}

static void expect_unknown(const char *word)
{
    struct machine *m = read_machine();
    assert_false(m->ports[0].mbit_max.known);
    assert_non_null(m->ports[0].mbit_max.why);
    if (!strstr(m->ports[0].mbit_max.why, word))
        fail_msg("no \"%s\" in: %s", word, m->ports[0].mbit_max.why);
    machine_free(m);
}

static void test_live(void **state)
{
    static const char vpd[] = "\x82\x3c\0ConnectX-6 VPI adapter card, HDR IB (200Gb/s) and 200GbE"
                              "\x90\0\0";
    strcpy(root, "/tmp/weft-test-infiniband-XXXXXX");
    assert_non_null(mkdtemp(root));
    put_port();
    expect_unknown("umad1"); /* no such node */
    put_text("dev/infiniband/umad1", "");
    kernel.port = (struct said){3, 7, 3, true};
    expect_rate(100000, false);
    kernel.port = (struct said){19, 7, 7, true};
    expect_unknown("half");
    put("sys/devices/pci0000:c0/0000:c0:01.0/0000:c1:00.0/vpd", vpd, sizeof vpd);
    expect_rate(200000, true);
    kernel.refuse = EPERM;
    expect_unknown("needs root");
    kernel.refuse = 0;
    kernel.status = ETIMEDOUT;
    expect_unknown("timed out");
    kernel.status = 0;
    kernel.cut = true;
    expect_unknown("umad1");
    kernel.cut = false;
    kernel.silent = true;
    expect_unknown("timed out");
    kernel.silent = false;
    remove_below("sys/class/infiniband_mad");
    expect_unknown("ib_umad");
    remove_below("");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates),  cmocka_unit_test(test_bad_answers),
        cmocka_unit_test(test_boards), cmocka_unit_test(test_possible),
        cmocka_unit_test(test_live),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
