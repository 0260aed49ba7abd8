/* SPDX-License-Identifier: Apache-2.0 */
/* Link modes and rtnetlink answers, valid and invalid; and the live reader that requests them, over
 * a mock kernel (the linker replaces ioctl(), sendto() and recv()). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <linux/ethtool.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include "machine/checks/doctor.h"
#include "machine/live/ethernet_decode.h"
#include "machine/live/live.h"

/* Some modes of each speed, by the names in the header. */
static void test_modes(void **state)
{
    static const struct {
        int bit;
        int64_t mbit;
    } cases[] = {
        {ETHTOOL_LINK_MODE_10baseT_Half_BIT, 10},
        {ETHTOOL_LINK_MODE_1000baseKX_Full_BIT, 1000},
        {ETHTOOL_LINK_MODE_10000baseER_Full_BIT, 10000},
        {ETHTOOL_LINK_MODE_25000baseSR_Full_BIT, 25000},
        {ETHTOOL_LINK_MODE_40000baseLR4_Full_BIT, 40000},
        {ETHTOOL_LINK_MODE_50000baseSR2_Full_BIT, 50000},
        {ETHTOOL_LINK_MODE_50000baseDR_Full_BIT, 50000},
        {ETHTOOL_LINK_MODE_56000baseKR4_Full_BIT, 56000},
        {ETHTOOL_LINK_MODE_100000baseKR4_Full_BIT, 100000},
        {ETHTOOL_LINK_MODE_100000baseDR2_Full_BIT, 100000},
        {ETHTOOL_LINK_MODE_100000baseDR_Full_BIT, 100000},
        {ETHTOOL_LINK_MODE_200000baseKR4_Full_BIT, 200000},
        {ETHTOOL_LINK_MODE_200000baseCR2_Full_BIT, 200000},
        {ETHTOOL_LINK_MODE_400000baseKR8_Full_BIT, 400000},
        {ETHTOOL_LINK_MODE_400000baseCR4_Full_BIT, 400000},
        {93, 800000}, /* 800000baseCR8, since Linux 6.1 */
        {ETHTOOL_LINK_MODE_Autoneg_BIT, 0},
        {ETHTOOL_LINK_MODE_FIBRE_BIT, 0},
        {ETHTOOL_LINK_MODE_FEC_RS_BIT, 0},
        {ETHTOOL_LINK_MODE_FEC_LLRS_BIT, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t modes[4] = {0};
        modes[cases[i].bit / 32] = 1u << cases[i].bit % 32;
        assert_int_equal(ethernet_fastest_mbit(modes, 4), cases[i].mbit);
    }
    const uint32_t both[4] = {1u << 12, 1u << 4, 1u << 2, 0}; /* 10G, 100G, 200G */
    assert_int_equal(ethernet_fastest_mbit(both, 4), 200000);
    assert_int_equal(ethernet_fastest_mbit(both, 2), 100000);
    assert_int_equal(ethernet_fastest_mbit(both, 0), 0);
}

/* The kernel's answer for an interface with PFC on priority 3: a name, then the IEEE settings with
 * ETS and PFC. */
static size_t make_answer(uint8_t *message)
{
    static const uint8_t attributes[] = {
        9,  0, 2,  0,    'e', 't',  'h', '0', 0, 0, 0, 0, /* IFNAME */
        36, 0, 13, 0x80,                                  /* IEEE, nested */
        8,  0, 1,  0,    1,   2,    3,   4,               /* ETS, shortened here */
        24, 0, 2,  0,    8,   0x08, 0,   0,   0, 0, 0, 0, /* PFC: 8 classes, priority 3 */
        0,  0, 0,  0,    0,   0,    0,   0,   0, 0, 0, 0};
    struct nlmsghdr header = {.nlmsg_len = NLMSG_SPACE(4) + sizeof attributes,
                              .nlmsg_type = RTM_GETDCB};
    memset(message, 0, header.nlmsg_len);
    memcpy(message, &header, sizeof header);
    memcpy(message + NLMSG_SPACE(4), attributes, sizeof attributes);
    return header.nlmsg_len;
}

static void test_pfc(void **state)
{
    uint8_t message[256];
    int64_t priorities = -1;
    size_t bytes = make_answer(message);
    assert_true(ethernet_pfc_answer(message, bytes, &priorities));
    assert_int_equal(priorities, 8);
    for (size_t cut = 0; cut < bytes;
         cut++) { /* own allocation, so that a sanitizer finds a read beyond it */
        uint8_t *copy = malloc(cut ? cut : 1);
        memcpy(copy, message, cut);
        if (cut >= sizeof(uint32_t)) /* so that an attribute is too long, not the message */
            memcpy(copy, &(uint32_t){(uint32_t)cut}, sizeof(uint32_t));
        assert_false(ethernet_pfc_answer(copy, cut, &priorities));
        free(copy);
    }
    for (size_t at = 0; at < bytes; at++)
        for (int value = 0; value < 256; value++) {
            uint8_t *copy = malloc(bytes);
            memcpy(copy, message, bytes);
            copy[at] = (uint8_t)value;
            ethernet_pfc_answer(copy, bytes, &priorities);
            free(copy);
        }
    for (int i = 0; i < 3;
         i++) { /* length below the header's, length beyond the data, other type */
        struct nlmsghdr header = {.nlmsg_len =
                                      i == 0 ? NLMSG_SPACE(4) - 1 : (uint32_t)bytes + (i == 1),
                                  .nlmsg_type = i == 2 ? RTM_NEWLINK : RTM_GETDCB};
        memcpy(message, &header, sizeof header);
        assert_false(ethernet_pfc_answer(message, bytes, &priorities));
    }
    char longest[65], longer[66];
    memset(longest, 'e', sizeof longest);
    memset(longer, 'e', sizeof longer);
    longest[63] = longer[64] = 0;
    assert_int_equal(ethernet_pfc_request(longest, message, sizeof message), 20 + 4 + 64);
    assert_int_equal(ethernet_pfc_request(longer, message, sizeof message), 0);
    assert_int_equal(ethernet_pfc_request("eth0", message, sizeof message), 32);
    assert_int_equal(ethernet_pfc_request("eth0", message, 31), 0);
    assert_false(ethernet_pfc_answer(message, 32, &priorities));
}

/* --- the live reader -------------------------------------------------------------------------- */

static struct {
    int words, bit; /* of the link modes; 0 words: the call fails */
    int priorities; /* priorities with flow control; negative: not supported by the driver */
    int asked;      /* requests not answered yet */
} kernel;

int __wrap_ioctl(int fd, unsigned long what, ...);
ssize_t __wrap_sendto(int fd, const void *message, size_t bytes, int flags,
                      const struct sockaddr *to, socklen_t size);
ssize_t __wrap_recv(int fd, void *message, size_t bytes, int flags);

int __wrap_ioctl(int fd, unsigned long what, ...)
{
    va_list arguments;
    va_start(arguments, what);
    struct ifreq *request = va_arg(arguments, struct ifreq *);
    va_end(arguments);
    struct ethtool_link_settings *settings = (void *)request->ifr_data;
    assert_true(strncmp(request->ifr_name, "eth0", 5) == 0 || !kernel.words);
    assert_int_equal(settings->cmd, ETHTOOL_GLINKSETTINGS);
    if (!kernel.words) {
        errno = EOPNOTSUPP;
        return -1;
    }
    if (settings->link_mode_masks_nwords != kernel.words)
        settings->link_mode_masks_nwords = (int8_t)-kernel.words;
    else
        settings->link_mode_masks[kernel.bit / 32] = 1u << kernel.bit % 32;
    return 0;
}

ssize_t __wrap_sendto(int fd, const void *message, size_t bytes, int flags,
                      const struct sockaddr *to, socklen_t size)
{
    assert_int_equal(to->sa_family, AF_NETLINK);
    assert_int_equal(((const struct nlmsghdr *)message)->nlmsg_len, bytes);
    assert_memory_equal((const char *)message + NLMSG_SPACE(4) + 4, "eth0", 5);
    kernel.asked++;
    return (ssize_t)bytes;
}

ssize_t __wrap_recv(int fd, void *message, size_t bytes, int flags)
{
    assert_int_equal(kernel.asked--, 1);
    if (kernel.priorities < 0) {
        errno = EAGAIN;
        return -1;
    }
    size_t n = make_answer(message);
    ((uint8_t *)message)[n - 24 + 4 + 1] = (uint8_t)kernel.priorities;
    return (ssize_t)n;
}

/* An active RoCE port of 200 Gbit/s. */
static struct machine *ask(void)
{
    struct machine *m = machine_new("made");
    struct machine_nic *nic = machine_add_nic(m);
    struct machine_port *port = machine_add_port(m);
    text_set(m, &nic->name, "mlx5_0");
    text_set(m, &port->nic, "mlx5_0");
    text_set(m, &port->layer, "roce");
    text_set(m, &port->state, "active");
    text_set(m, &port->netdev, "eth0");
    number_set(&port->port, 1);
    number_set(&port->mbit, 200000);
    live_ethernet(m, &(struct machine_source){.root = ""});
    return m;
}

static void expect_told(bool rate, bool flow_control)
{
    static struct diagnosis d;
    struct machine *m = ask();
    bool told_rate = false, told_flow = false;
    doctor_examine(m, &d);
    for (int i = 0; i < d.findings.n; i++) {
        told_rate |= d.findings.list[i].reason == REASON_NIC_RATE;
        told_flow |= d.findings.list[i].reason == REASON_ROCE_PFC;
    }
    assert_int_equal(told_rate, rate);
    assert_int_equal(told_flow, flow_control);
    findings_free(&d.findings);
    machine_free(m);
}

static void test_live(void **state)
{
    kernel.words = 4;
    kernel.bit = ETHTOOL_LINK_MODE_400000baseCR4_Full_BIT;
    kernel.priorities = 8;
    struct machine *m = ask();
    assert_true(number_is(m->ports[0].mbit_max, 400000));
    assert_true(number_is(m->ports[0].pfc, 8));
    machine_free(m);
    expect_told(true, false);
    kernel.bit = ETHTOOL_LINK_MODE_200000baseCR4_Full_BIT;
    kernel.priorities = 0;
    expect_told(false, true);
    kernel.words = 0;
    kernel.priorities = -1;
    m = ask();
    assert_false(m->ports[0].mbit_max.known || m->ports[0].pfc.known);
    assert_non_null(strstr(m->ports[0].mbit_max.why, "eth0"));
    machine_free(m);
    expect_told(false, false);
}

/* For a name without an interface nothing is requested: an answer in the queue does not belong to
 * it. */
static void test_no_question(void **state)
{
    char name[100];
    memset(name, 'e', sizeof name);
    name[99] = 0;
    struct machine *m = machine_new("made");
    struct machine_port *port = machine_add_port(m);
    kernel.words = 0;
    kernel.priorities = 8;
    text_set(m, &port->layer, "roce");
    text_set(m, &port->netdev, name);
    live_ethernet(m, &(struct machine_source){.root = ""});
    assert_false(port->pfc.known);
    text_set(m, &port->layer, "infiniband");
    port->pfc.why = NULL;
    live_ethernet(m, &(struct machine_source){.root = ""});
    assert_null(port->pfc.why);
    machine_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_pfc),
        cmocka_unit_test(test_live),
        cmocka_unit_test(test_no_question),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
