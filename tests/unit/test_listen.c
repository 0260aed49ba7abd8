/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses at which a process listens, and the unique id that contains them. Sockets,
 * interfaces and random numbers are fakes. */
#include "boot/rendezvous/listen.h"
#include "boot/rendezvous/unique_id.h"

#include "base/status.h"
#include "driver/crypto.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* ----------------------------------------------------------------------------------- the system */

enum { FD = 50 };

static struct {
    int sockets, closes, reuses, both;
    int first;                                               /* descriptor */
    bool no_socket[2], no_bind[2], no_listen[2], no_name[2]; /* of IPv6 and of IPv4 */
    int port;                                                /* the requested port */
    int freed;
    bool no_list, no_random, no_crypto;
} os;

static bool v4_now;

int __wrap_socket(int family, int type, int protocol);
int __wrap_socket(int family, int type, int protocol)
{
    v4_now = family == AF_INET;
    assert_true(v4_now || family == AF_INET6);
    assert_int_equal(type, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_int_equal(protocol, 0);
    errno = ENFILE;
    return os.no_socket[v4_now] ? -1 : os.first + os.sockets++;
}

int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t bytes);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t bytes)
{
    int on;
    assert_int_equal(bytes, sizeof on);
    assert_int_equal(fd, os.first + os.sockets - 1);
    memcpy(&on, value, sizeof on);
    if (level == SOL_SOCKET) {
        assert_int_equal(option, SO_REUSEADDR);
        assert_int_equal(on, 1);
        os.reuses++;
    } else {
        assert_int_equal(level, IPPROTO_IPV6);
        assert_int_equal(option, IPV6_V6ONLY);
        assert_int_equal(on, 0);
        assert_false(v4_now);
        os.both++;
    }
    return 0;
}

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t bytes);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
    (void)fd;
    assert_int_equal(bytes, v4_now ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
    assert_int_equal(address->sa_family, v4_now ? AF_INET : AF_INET6);
    os.port = ntohs(((const struct sockaddr_in *)(const void *)address)->sin_port);
    errno = EADDRINUSE;
    return os.no_bind[v4_now] ? -1 : 0;
}

int __wrap_listen(int fd, int most);
int __wrap_listen(int fd, int most)
{
    (void)fd;
    assert_int_equal(most, 4096);
    errno = EOPNOTSUPP;
    return os.no_listen[v4_now] ? -1 : 0;
}

int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *bytes);
int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *bytes)
{
    (void)fd, (void)bytes;
    if (!os.no_name[v4_now])
        ((struct sockaddr_in *)(void *)address)->sin_port = htons(v4_now ? 4444 : 6666);
    errno = EBADF;
    return os.no_name[v4_now] ? -1 : 0;
}

int __wrap_close(int fd);
int __wrap_close(int fd)
{
    assert_true(fd >= os.first && fd < os.first + 9);
    os.closes++;
    errno = EINTR; /* must not be reported */
    return 0;
}

static struct sockaddr_in near4 = {.sin_family = AF_INET}, far4 = {.sin_family = AF_INET},
                          down4 = {.sin_family = AF_INET};
static struct sockaddr_in6 far6 = {.sin6_family = AF_INET6}, link6 = {.sin6_family = AF_INET6},
                           near6 = {.sin6_family = AF_INET6};
static struct sockaddr packet = {.sa_family = AF_PACKET};

static struct ifaddrs interfaces[] = {
    {.ifa_addr = (struct sockaddr *)&near4, .ifa_flags = IFF_UP | IFF_LOOPBACK},
    {.ifa_addr = NULL, .ifa_flags = IFF_UP},
    {.ifa_addr = &packet, .ifa_flags = IFF_UP},
    {.ifa_addr = (struct sockaddr *)&far4, .ifa_flags = IFF_UP | IFF_MULTICAST},
    {.ifa_addr = (struct sockaddr *)&down4, .ifa_flags = IFF_MULTICAST},
    {.ifa_addr = (struct sockaddr *)&link6, .ifa_flags = IFF_UP},
    {.ifa_addr = (struct sockaddr *)&far6, .ifa_flags = IFF_UP},
    {.ifa_addr = (struct sockaddr *)&near6, .ifa_flags = IFF_UP | IFF_LOOPBACK},
};
enum { INTERFACES = sizeof interfaces / sizeof interfaces[0] };

int __wrap_getifaddrs(struct ifaddrs **list);
int __wrap_getifaddrs(struct ifaddrs **list)
{
    *list = interfaces;
    for (int i = 0; i + 1 < INTERFACES; i++)
        interfaces[i].ifa_next = &interfaces[i + 1];
    return os.no_list ? -1 : 0;
}

void __wrap_freeifaddrs(struct ifaddrs *list);
void __wrap_freeifaddrs(struct ifaddrs *list)
{
    assert_ptr_equal(list, interfaces);
    os.freed++;
}

ssize_t __wrap_getrandom(void *bytes, size_t n, unsigned flags);
ssize_t __wrap_getrandom(void *bytes, size_t n, unsigned flags)
{
    assert_int_equal(flags, 0);
    assert_int_equal(n, UNIQUE_ID_SECRET_BYTES);
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)bytes)[i] = (unsigned char)(i * 3 + 1);
    errno = EAGAIN;
    return os.no_random ? (ssize_t)n - 1 : (ssize_t)n;
}

weft_status __wrap_crypto_load(const struct crypto_driver **driver);
weft_status __wrap_crypto_load(const struct crypto_driver **driver)
{
    (void)driver;
    return os.no_crypto ? WEFT_ERR_UNSUPPORTED : WEFT_OK;
}

static int reset(void **state)
{
    (void)state;
    memset(&os, 0, sizeof os);
    os.first = FD;
    memcpy(&near4.sin_addr, (unsigned char[]){127, 0, 0, 1}, 4);
    memcpy(&far4.sin_addr, (unsigned char[]){10, 20, 30, 40}, 4);
    memcpy(&down4.sin_addr, (unsigned char[]){10, 20, 30, 41}, 4);
    for (int i = 0; i < 16; i++)
        far6.sin6_addr.s6_addr[i] = (unsigned char)(0x20 + i);
    link6.sin6_addr.s6_addr[0] = 0xfe;
    link6.sin6_addr.s6_addr[1] = 0x80;
    near6.sin6_addr.s6_addr[15] = 1;
    return 0;
}

/* ------------------------------------------------------------------------------------ listening */

/* Listening uses IPv6 with IPv4 mapped, or else IPv4. */
static void by_both_protocols_or_one(void **state)
{
    for (int i = 0; i < 5; i++)
        for (int first = 0; first < 2; first++) {
            int port = 0x1234;
            reset(state);
            os.first = first ? FD : 0;
            os.no_socket[0] = i == 1;
            os.no_bind[0] = i == 2;
            os.no_listen[0] = i == 3;
            os.no_name[0] = i == 4;
            int made = i == 0 || i == 1 ? 1 : 2;
            assert_int_equal(listen_everywhere(&port), os.first + made - 1);
            assert_int_equal(os.sockets, made);
            assert_int_equal(os.closes, made - 1);
            assert_int_equal(os.port, 0x1234);
            assert_int_equal(port, i ? 4444 : 6666);
            assert_int_equal(os.reuses, made);
            assert_int_equal(os.both, i != 1);
        }
}

static void by_none(void **state)
{
    static const int errors[] = {ENFILE, EADDRINUSE, EOPNOTSUPP, EBADF};
    for (int i = 0; i < 4; i++) {
        int port = 7;
        reset(state);
        for (int v4 = 0; v4 < 2; v4++) {
            os.no_socket[v4] = i == 0;
            os.no_bind[v4] = i == 1;
            os.no_listen[v4] = i == 2;
            os.no_name[v4] = i == 3;
        }
        assert_int_equal(listen_everywhere(&port), -1);
        assert_int_equal(errno, errors[i]);
        assert_int_equal(os.closes, i ? 2 : 0);
    }
}

/* Addresses that other hosts can reach come first. Interfaces that are down, link-local addresses
 * and other families are left out. */
static void addresses_in_their_order(void **state)
{
    struct rendezvous_address at[6];
    (void)state;
    memset(at, 0x55, sizeof at);
    assert_int_equal(listen_addresses(at, 6, 0x4321), 4);
    const struct sockaddr_in *v4 = (const void *)&at[0].address;
    const struct sockaddr_in6 *v6 = (const void *)&at[1].address;
    assert_int_equal(at[0].bytes, sizeof *v4);
    assert_int_equal(v4->sin_family, AF_INET);
    assert_int_equal(v4->sin_port, htons(0x4321));
    assert_memory_equal(&v4->sin_addr, &far4.sin_addr, 4);
    assert_int_equal(at[1].bytes, sizeof *v6);
    assert_int_equal(v6->sin6_port, htons(0x4321));
    assert_memory_equal(&v6->sin6_addr, &far6.sin6_addr, 16);
    v4 = (const void *)&at[2].address;
    v6 = (const void *)&at[3].address;
    assert_memory_equal(&v4->sin_addr, &near4.sin_addr, 4);
    assert_memory_equal(&v6->sin6_addr, &near6.sin6_addr, 16);
    assert_int_equal(os.freed, 1);
    assert_int_equal(listen_addresses(at, 3, 7), 3);
    assert_int_equal(listen_addresses(at, 1, 7), 1);
    assert_int_equal(listen_addresses(at, 0, 7), 0);
    os.no_list = true;
    assert_int_equal(listen_addresses(at, 6, 7), 0);
    assert_int_equal(os.freed, 4);
}

/* ----------------------------------------------------------------------------------- unique ids */

/* The bytes of an id: magic, port, number of addresses, whether the secret is used, the secret, the
 * addresses. */
static void an_id_says_where(void **state)
{
    for (int keyed = 0; keyed < 2; keyed++) {
        struct rendezvous_address at[6];
        unsigned char secret[UNIQUE_ID_SECRET_BYTES], bytes[sizeof(weft_unique_id)];
        weft_unique_id id;
        bool is_keyed;
        reset(state);
        os.no_crypto = !keyed;
        os.first = keyed ? FD : 0;
        memset(&id, 0x55, sizeof id);
        assert_int_equal(unique_id_make(&id), WEFT_OK);
        assert_int_equal(os.closes, 1);
        assert_int_equal(os.port, 0);
        memcpy(bytes, &id, sizeof bytes);
        assert_memory_equal(bytes, "WVI2", 4);
        assert_int_equal(bytes[6], 4);
        assert_int_equal(bytes[7], keyed);
        assert_int_equal(bytes[24], 4);
        assert_memory_equal(bytes + 25, &far4.sin_addr, 4);
        assert_int_equal(bytes[29], 16);
        assert_memory_equal(bytes + 30, &far6.sin6_addr, 16);
        for (size_t i = 24 + 2 * (5 + 17); i < sizeof bytes; i++)
            assert_int_equal(bytes[i], 0);
        assert_true(unique_id_good(&id));
        assert_int_equal(unique_id_port(&id), 6666);
        memset(at, 0x55, sizeof at);
        assert_int_equal(unique_id_read(&id, at, 6, secret, &is_keyed), 4);
        assert_int_equal(is_keyed, keyed);
        for (size_t i = 0; i < sizeof secret; i++)
            assert_int_equal(secret[i], i * 3 + 1);
        struct sockaddr_in v4 = far4;
        struct sockaddr_in6 v6 = far6;
        v4.sin_port = v6.sin6_port = htons(6666);
        assert_int_equal(at[0].bytes, sizeof v4);
        assert_memory_equal(&at[0].address, &v4, sizeof v4);
        assert_int_equal(at[1].bytes, sizeof v6);
        assert_memory_equal(&at[1].address, &v6, sizeof v6);
        assert_memory_equal(&((struct sockaddr_in *)&at[2].address)->sin_addr, &near4.sin_addr, 4);
        assert_int_equal(unique_id_read(&id, at, 3, secret, &is_keyed), 3);
    }
}

static void an_id_is_not_made(void **state)
{
    weft_unique_id id;
    (void)state;
    os.no_random = true;
    assert_int_equal(unique_id_make(&id), WEFT_ERR_SYSTEM);
    assert_memory_equal(base_last_error(), "getrandom: ", 11);
    os.no_socket[0] = os.no_socket[1] = true;
    assert_int_equal(unique_id_make(&id), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(base_last_error(), "no free port for a unique id"));
    assert_non_null(strstr(base_last_error(), strerror(ENFILE)));
}

/* An id holds as many addresses as fit. A shorter address may still fit after a longer one that
 * does not. */
static void an_id_has_room_for_some(void **state)
{
    struct rendezvous_address at[24];
    unsigned char secret[UNIQUE_ID_SECRET_BYTES];
    weft_unique_id id;
    bool keyed;
    (void)state;
    for (int i = 0; i < INTERFACES; i++) {
        interfaces[i].ifa_addr = (struct sockaddr *)(i < 7 ? (void *)&far6 : (void *)&far4);
        interfaces[i].ifa_flags = IFF_UP;
    }
    assert_int_equal(unique_id_make(&id), WEFT_OK);
    assert_true(unique_id_good(&id));
    int room = UNIQUE_ID_BYTES - 24, sixes = room / 17 < 7 ? room / 17 : 7;
    int fours = room - 17 * sixes >= 5;
    assert_int_equal(unique_id_read(&id, at, 24, secret, &keyed), sixes + fours);
}

static void what_is_no_id_is_refused(void **state)
{
    static const struct {
        int at, value;
        bool good;
    } rows[] = {{0, 'X', false}, {3, '1', false}, {24, 5, false},  {29, 15, false}, {6, 2, true},
                {6, 0, true},    {6, 5, false},   {6, 200, false}, {29, 4, true},   {5, 0, true}};
    weft_unique_id id, changed;
    unsigned char bytes[sizeof id];
    (void)state;
    reset(state);
    interfaces[0].ifa_addr = (struct sockaddr *)&far4;
    for (int i = 0; i < INTERFACES; i++) {
        interfaces[i].ifa_addr = (struct sockaddr *)(i % 2 ? (void *)&far6 : (void *)&far4);
        interfaces[i].ifa_flags = i < 2 ? IFF_UP : 0;
    }
    assert_int_equal(unique_id_make(&id), WEFT_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        memcpy(bytes, &id, sizeof id);
        bytes[rows[i].at] = (unsigned char)rows[i].value;
        memcpy(&changed, bytes, sizeof id);
        if (unique_id_good(&changed) != rows[i].good)
            fail_msg("row %d", (int)i);
    }
    memcpy(bytes, &id, sizeof id);
    bytes[4] = bytes[5] = 0; /* no port */
    memcpy(&changed, bytes, sizeof id);
    assert_false(unique_id_good(&changed));
    memset(bytes + 24, 4, sizeof bytes - 24); /* one 4-byte address more than fit */
    bytes[4] = 1;
    for (int n = 0; n < 60; n++) {
        bytes[6] = (unsigned char)n;
        memcpy(&changed, bytes, sizeof id);
        assert_int_equal(unique_id_good(&changed), n * 5 <= UNIQUE_ID_BYTES - 24);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_both_protocols_or_one),
        cmocka_unit_test(by_none),
        cmocka_unit_test_setup(addresses_in_their_order, reset),
        cmocka_unit_test(an_id_says_where),
        cmocka_unit_test_setup(an_id_is_not_made, reset),
        cmocka_unit_test_setup(an_id_has_room_for_some, reset),
        cmocka_unit_test_setup(what_is_no_id_is_refused, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
