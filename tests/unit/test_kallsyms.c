/* SPDX-License-Identifier: Apache-2.0 */
/* driver_run_without_kallsyms(): what it runs cannot read /proc/kallsyms and reads everything else;
 * the caller keeps its rights. */
#include "driver/kallsyms.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

enum { CREATE_RULESET_VERSION = 1 };

static const char *const files[] = {
    "/proc/kallsyms",        "/proc/self/status", "/proc/thread-self/stat",
    "/proc/cpuinfo",         "/proc/net/tcp",     "/proc/sys/kernel/osrelease",
    "/sys/class/net/lo/mtu", "/etc/passwd",       "/dev/null"};
enum { FILES = sizeof files / sizeof files[0] };

struct seen {
    pthread_t thread;
    int errors[FILES]; /* of open() and read(); 0: none */
    int own_file;
    int no_new_privileges;
};

static char own_file[] = "/tmp/weft-test-kallsyms-XXXXXX";

static int try_to_read(const char *name)
{
    char byte;
    int file = open(name, O_RDONLY | O_CLOEXEC), error = file < 0 ? errno : 0;
    if (file >= 0 && read(file, &byte, 1) < 0)
        error = errno;
    if (file >= 0)
        close(file);
    return error;
}

static void look(void *argument)
{
    struct seen *seen = argument;
    seen->thread = pthread_self();
    for (int i = 0; i < FILES; i++)
        seen->errors[i] = try_to_read(files[i]);
    seen->own_file = try_to_read(own_file);
    seen->no_new_privileges = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
}

static void all_but_one_file_can_be_read(void **unused)
{
    struct seen before, within, after;
    look(&before);
    if (syscall(444, NULL, 0, CREATE_RULESET_VERSION) < 1 || before.errors[0])
        skip();
    for (int times = 0; times < 3; times++) {
        driver_run_without_kallsyms(look, &within);
        look(&after);
        assert_false(pthread_equal(within.thread, before.thread));
        assert_int_equal(within.errors[0], EACCES);
        for (int i = 1; i < FILES; i++)
            assert_int_equal(within.errors[i], before.errors[i]);
        assert_int_equal(within.own_file, 0);
        assert_int_equal(after.errors[0], 0);
        assert_int_equal(after.no_new_privileges, before.no_new_privileges);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_but_one_file_can_be_read),
    };
    int file = mkstemp(own_file);
    if (file < 0 || close(file))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(own_file);
    return failed;
}
