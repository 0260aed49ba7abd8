/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of a PE's node: the kernel, the namespaces and the values that `weft run` passes.
 * Also tested: a system that does not provide them, and missing memory. */
#include "base/config.h"
#include "base/status.h"
#include "boot/methods.h"
#include "callocs.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cmocka.h>

enum { PES = 6, CARD = 48 + 4 * 8 + BOOT_HOST_BYTES };

static struct {
    int fd, closed;
    ssize_t reads; /* return value of read() */
    bool no_name, no_namespaces;
    struct {
        char kernel[48];
        uint64_t network, pid;
        int64_t entry, part;
        char host[BOOT_HOST_BYTES];
    } card;
} os;

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    if (strcmp(path, "/proc/sys/kernel/random/boot_id"))
        return __real_open(path, flags, 0);
    assert_int_equal(flags, O_RDONLY | O_CLOEXEC);
    return os.fd;
}

ssize_t __wrap_read(int fd, void *to, size_t bytes);
ssize_t __wrap_read(int fd, void *to, size_t bytes)
{
    assert_int_equal(fd, os.fd);
    assert_int_equal(bytes, 47);
    if (os.reads > 0)
        memcpy(to, "the id of this boot", (size_t)os.reads);
    return os.reads;
}

int __wrap_close(int fd);
int __wrap_close(int fd)
{
    assert_int_equal(fd, os.fd);
    os.closed++;
    return 0;
}

int __wrap_uname(struct utsname *name);
int __wrap_uname(struct utsname *name)
{
    memset(name, '#', sizeof *name);
    strcpy(name->nodename, "a-host-of-a-name-that-is-longer-than-48-characters-or-63");
    return os.no_name ? -1 : 0;
}

int __wrap_stat(const char *path, struct stat *st);
int __wrap_stat(const char *path, struct stat *st)
{
    bool network = strcmp(path, "/proc/self/ns/net") == 0;
    assert_true(network || strcmp(path, "/proc/self/ns/pid") == 0);
    *st = (struct stat){.st_ino = network ? 77 : 88};
    return os.no_namespaces ? -1 : 0;
}

/* All PEs except the last are on one node. */
static weft_status gather(struct boot *boot, const void *mine, void *all, size_t bytes)
{
    assert_int_equal(bytes, CARD);
    assert_int_equal(sizeof os.card, CARD);
    memcpy(&os.card, mine, bytes);
    for (int pe = 0; pe < boot->npes; pe++)
        memcpy((char *)all + (size_t)pe * CARD, mine, CARD);
    ((char *)all)[(boot->npes - 1) * (size_t)CARD + 50]++;
    return WEFT_OK;
}

static const struct boot_ops ops = {.allgather = gather};
static struct boot boot;

static void reset(void)
{
    memset(&os, 0, sizeof os);
    callocs = (struct callocs){.left = -1};
    os.fd = 60;
    os.reads = 19;
    boot = (struct boot){.ops = &ops, .pe = 4, .npes = PES};
}

static void what_the_system_tells(void **state)
{
    static const char name[] = "a-host-of-a-name-that-is-longer-than-48-characters-or-63";
    static const struct {
        int fd;
        ssize_t reads;
        bool no_name, no_namespaces;
        const char *kernel;
    } rows[] = {{60, 19, false, false, "the id of this boot"},
                {0, 7, false, false, "the id "},
                {60, 1, true, false, "t"},
                {-1, 19, false, true, NULL},
                {60, 0, false, false, NULL},
                {60, -1, false, false, NULL},
                {60, 0, true, false, ""}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char kernel[48] = "";
        reset();
        os.fd = rows[i].fd;
        os.reads = rows[i].reads;
        os.no_name = rows[i].no_name;
        os.no_namespaces = rows[i].no_namespaces;
        assert_int_equal(boot_find_nodes(&boot), WEFT_OK);
        memcpy(kernel, rows[i].kernel ? rows[i].kernel : name,
               rows[i].kernel ? strlen(rows[i].kernel) : 47);
        assert_memory_equal(os.card.kernel, kernel, sizeof kernel);
        assert_string_equal(os.card.host, rows[i].no_name ? "" : name);
        assert_int_equal(os.card.network, rows[i].no_namespaces ? 0 : 77);
        assert_int_equal(os.card.pid, rows[i].no_namespaces ? 0 : 88);
        assert_int_equal(os.card.entry, -1);
        assert_int_equal(os.card.part, 0);
        for (size_t k = strlen(os.card.host); k < BOOT_HOST_BYTES; k++)
            assert_int_equal(os.card.host[k], 0);
        assert_int_equal(os.closed, rows[i].fd >= 0);
        assert_int_equal(boot.nodes, 2);
        assert_int_equal(boot.local_npes, PES - 1);
        assert_int_equal(boot.local_pe, 4);
        assert_string_equal(boot_where(&boot, 5).text + (rows[i].no_name ? 4 : 0),
                            rows[i].no_name ? ""
                                            : " on a-host-of-a-name-that-is-longer-than-48-"
                                              "characters-or-63");
        boot_unset(&boot);
        assert_int_equal(callocs.memory, 0);
    }
}

static void what_weft_run_says(void **state)
{
    static const char *const parts[] = {"0", "1", "2", "5"};
    static const int part[] = {0, 4, 2, 0};
    (void)state;
    setenv("WEFT_BOOT_HOST", "given", 1);
    setenv("WEFT_BOOT_NODE", "3", 1);
    for (int i = 0; i < 4; i++) {
        setenv("WEFT_TEST_NODE_PES", parts[i], 1);
        config_reset();
        reset();
        assert_int_equal(boot_find_nodes(&boot), WEFT_OK);
        assert_string_equal(os.card.host, "given");
        assert_int_equal(os.card.entry, 3);
        assert_int_equal(os.card.part, part[i]);
        boot_unset(&boot);
    }
    unsetenv("WEFT_BOOT_HOST");
    unsetenv("WEFT_BOOT_NODE");
    unsetenv("WEFT_TEST_NODE_PES");
    config_reset();
}

static void there_is_no_memory(void **state)
{
    static const char *const words[] = {
        "no memory for 6 node identities", "no memory for the node tables of 6 PEs",
        "no memory for the node tables of 6 PEs", "no memory for the nodes of 6 PEs",
        "no memory for the names of 2 nodes"};
    (void)state;
    for (int left = 0; left < 5; left++) {
        reset();
        callocs.left = left;
        assert_int_equal(boot_find_nodes(&boot), WEFT_ERR_NO_MEMORY);
        assert_string_equal(base_last_error(), words[left]);
        boot_unset(&boot);
        assert_int_equal(callocs.memory, 0);
    }
    for (int left = 0; left < 2; left++) {
        reset();
        callocs.left = left;
        assert_int_equal(boot_one_node(&boot), WEFT_ERR_NO_MEMORY);
        assert_true(!boot.local_pes && !boot.node_of && !boot.nodes);
        assert_int_equal(callocs.memory, 0);
    }
    reset();
    assert_int_equal(boot_one_node(&boot), WEFT_OK);
    for (int pe = 0; pe < PES; pe++)
        assert_int_equal(boot.local_pes[pe], pe);
    boot_unset(&boot);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_system_tells),
        cmocka_unit_test(what_weft_run_says),
        cmocka_unit_test(there_is_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
