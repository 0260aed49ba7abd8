/* SPDX-License-Identifier: Apache-2.0 */
/* The host list of `weft run`: which names and numbers it accepts, and how PEs are distributed over
 * hosts. */
#include "run/hosts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char said[1024];

void run_say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(said, sizeof said, format, arguments);
    va_end(arguments);
}

/* Writes each host and its number of PEs: "a:2 b:0". */
static void spell(const struct run_options *options, char *text)
{
    *text = '\0';
    for (int i = 0; i < options->host_count; i++)
        sprintf(text + strlen(text), "%s%s:%d", i ? " " : "", options->hosts[i].name,
                options->hosts[i].npes);
}

static void forget(struct run_options *options)
{
    for (int i = 0; i < options->host_count; i++)
        free(options->hosts[i].name);
    free(options->hosts);
    *options = (struct run_options){.npes = 0};
}

static void lists(void **state)
{
    static const struct {
        const char *list, *hosts; /* hosts NULL: refused */
        const char *sentence;     /* with this message */
    } rows[] = {
        {"a", "a:0", NULL},
        {"a,b:3,me@c:16384", "a:0 b:3 me@c:16384", NULL},
        {"a,", "a:0", NULL},
        {"", "", NULL},
        {"::1,[::1],[fe80::1%eth0]:4,10.0.0.1:2", "::1:0 ::1:0 fe80::1%eth0:4 10.0.0.1:2", NULL},
        {"me@[::1]:2", "me@[::1]:2", NULL},
        {"n[1-3]:2,x", "n1:2 n2:2 n3:2 x:0", NULL},
        {"n[08-10,3]", "n08:0 n09:0 n10:0 n3:0", NULL},
        {"n[1,2]b[3-4]", "n1b3:0 n1b4:0 n2b3:0 n2b4:0", NULL},
        {"n[5-5]", "n5:0", NULL},
        {"a:0", NULL, "host \"a:0\": expected a number of PEs from 1 to 16384 after the colon"},
        {"a:16385", NULL,
         "host \"a:16385\": expected a number of PEs from 1 to 16384 after the colon"},
        {"a:", NULL, "host \"a:\": expected a number of PEs from 1 to 16384 after the colon"},
        {"a:2x", NULL, "host \"a:2x\": expected a number of PEs from 1 to 16384 after the colon"},
        {"-oProxy", NULL, "\"-oProxy\" is not the name of a host"},
        {"a,,b", NULL, "\"\" is not the name of a host"},
        {":2", NULL, "\"\" is not the name of a host"},
        {"a;b", NULL, "\"a;b\" is not the name of a host"},
        {"a b", NULL, "\"a b\" is not the name of a host"},
        {"n[]", NULL, "host \"n[]\": expected numbers in the brackets, such as [01-04,7]"},
        {"n[3-1]", NULL, "host \"n[3-1]\": expected numbers in the brackets, such as [01-04,7]"},
        {"n[1-70000]", NULL,
         "host \"n[1-70000]\": expected numbers in the brackets, such as [01-04,7]"},
        {"n[1", NULL, "host \"n[1\": expected numbers in the brackets, such as [01-04,7]"},
        {"n[1;2]", NULL, "host \"n[1;2]\": expected numbers in the brackets, such as [01-04,7]"},
        {"n[a]", NULL, "host \"n[a]\": expected numbers in the brackets, such as [01-04,7]"},
        {"n[1,]", NULL, "host \"n[1,]\": expected numbers in the brackets, such as [01-04,7]"},
        {"n[-1]", NULL, "host \"n[-1]\": expected numbers in the brackets, such as [01-04,7]"},
        {"n[0000000000000000001]", NULL,
         "host \"n[0000000000000000001]\": expected numbers in the brackets, such as [01-04,7]"},
        {"n[000000000000000001]", "n000000000000000001:0", NULL},
        {"n[0-65535],b", NULL, "more than 65536 hosts"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static char text[1 << 20];
        struct run_options options = {.npes = 0};
        *said = '\0';
        bool good = run_parse_hosts(&options, rows[i].list);
        if (good != (rows[i].hosts != NULL))
            fail_msg("%s: %s", rows[i].list, good ? "taken" : said);
        if (good)
            spell(&options, text);
        assert_string_equal(good ? text : said, good ? rows[i].hosts : rows[i].sentence);
        forget(&options);
    }
}

static void files(void **state)
{
    static const struct {
        const char *text, *hosts, *sentence;
        size_t bytes; /* 0: all */
    } rows[] = {
        {"a\n\n# none\n  b slots=3 # so many\nc:2\n\td\r\n", "a:0 b:3 c:2 d:0", NULL, 0},
        {"a", "a:0", NULL, 0},
        {"[::1] slots=2", "::1:2", NULL, 0},
        {"a cores=2\n", NULL, "host file: \"cores=2\" after host a; only slots=N is allowed there",
         0},
        {"a slots=0\n", NULL,
         "host \"a:0\": expected a number of PEs from 1 to 16384 after the colon", 0},
        {"# nothing\n", NULL, "names no host", 0},
        {"a\0b", NULL, "is not a text file: it has a zero byte", 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[] = "/tmp/weft-test-hosts-XXXXXX", text[512];
        struct run_options options = {.npes = 0};
        size_t bytes = rows[i].bytes ? rows[i].bytes : strlen(rows[i].text);
        int fd = mkstemp(path);
        assert_int_equal(write(fd, rows[i].text, bytes), bytes);
        close(fd);
        bool good = run_parse_hostfile(&options, path);
        unlink(path);
        if (good != (rows[i].hosts != NULL))
            fail_msg("file %zu: %s", i, good ? "taken" : said);
        spell(&options, text);
        if (good)
            assert_string_equal(text, rows[i].hosts);
        else
            assert_non_null(strstr(said, rows[i].sentence));
        forget(&options);
    }
    struct run_options options = {.npes = 0};
    assert_false(run_parse_hostfile(&options, "/nonexistent/hosts"));
    assert_non_null(strstr(said, "--hostfile: open /nonexistent/hosts"));
}

static void shares(void **state)
{
    static const struct {
        const char *list;
        int npes; /* value of -n; 0: not given */
        const char *dealt;
        int all;
    } rows[] = {
        {"a,b:3", 0, "a:1 b:3", 4},
        {"a:2,b:3", 4, "a:2 b:2", 4},
        {"a:2,b:3", 2, "a:2", 2},
        {"a:2,b:3", 1, "a:1", 1},
        {"a,b,c", 8, "a:2 b:3 c:3", 8},
        {"a,b,c", 2, "b:1 c:1", 2},
        {"a,b:3,c", 8, "a:2 b:3 c:3", 8},
        {"a,b:3,c", 3, "b:3", 3},
        {"a:2,b:3", 6, NULL, 0},
        {"a:16384,b", 0, NULL, 0},
        {"a:16383,b", 0, "a:16383 b:1", 16384},
        {"a,b", 16384, "a:8192 b:8192", 16384},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[256];
        struct run_options options = {.npes = rows[i].npes};
        assert_true(run_parse_hosts(&options, rows[i].list));
        assert_int_equal(run_distribute_pes(&options), rows[i].dealt != NULL);
        spell(&options, text);
        if (rows[i].dealt) {
            assert_string_equal(text, rows[i].dealt);
            assert_int_equal(options.npes, rows[i].all);
        }
        forget(&options);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists),
        cmocka_unit_test(files),
        cmocka_unit_test(shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
