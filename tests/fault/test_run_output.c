/* SPDX-License-Identifier: Apache-2.0 */
/* What `weft run` does with the output, the input and the terminal of its PEs, and with their
 * status. argv: the command weft, the other arguments of the fault tests (unused here), optionally
 * the one test to run. */
#include "fault/faults.h"

#include <fcntl.h>
#include <pty.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char *weft;
static struct outcome outcome;

static int before(void **state)
{
    faults_remember();
    return 0;
}

static int after(void **state)
{
    faults_expect_nothing_left();
    return 0;
}

/* -------------------------------------------------------------------------------------- output */

static void status_of_first_failure(void **state)
{
    faults_run((char *[]){weft, "run", "-n", "3", "/bin/sh", "-c",
                          "[ $WEFT_PE -ne 1 ] && sleep 5; exit 9", NULL},
               &outcome);
    faults_expect(&outcome, 9, "exited with status 9; ending the job");
}

static void prefixed_lines(void **state)
{
    faults_run((char *[]){weft, "run", "-n", "3", "--prefix", "/bin/sh", "-c",
                          "i=0; while [ $i -lt 200 ]; do echo line $i of $WEFT_PE; i=$((i+1)); "
                          "done; printf 'no end %s' $WEFT_PE",
                          NULL},
               &outcome);
    assert_int_equal(outcome.status, 0);
    int lines = 0;
    char *rest = outcome.output;
    for (char *line; (line = strsep(&rest, "\n")) && rest; lines++) {
        int pe, number, of;
        bool good = sscanf(line, "[%d] line %d of %d", &pe, &number, &of) == 3 ||
                    sscanf(line, "[%d] no end %d", &pe, &of) == 2;
        if (!good || pe != of)
            fail_msg("a mixed line: \"%s\"", line);
    }
    assert_int_equal(lines, 3 * 201);
}

static void prefixed_bytes_are_kept(void **state)
{
    faults_run((char *[]){"/bin/sh", "-c",
                          "\"$0\" run -n 1 --prefix sh -c 'printf \"a\\0b\\n\"; "
                          "head -c 3000000 /dev/zero | tr \"\\0\" x' | tee /dev/null | "
                          "cksum; printf \"[0] a\\0b\\n\" > /dev/null; "
                          "(printf \"[0] a\\0b\\n\"; for n in 1 2; do printf \"[0] \"; "
                          "head -c 1048576 /dev/zero | tr \"\\0\" x; echo; done; printf \"[0] \"; "
                          "head -c 902848 /dev/zero | tr \"\\0\" x; echo) | wc -c",
                          weft, NULL},
               &outcome);
    /* The reader cuts 3,000,000 bytes after 1 MiB or slightly later, at the end of a read. */
    long sum, bytes, reference;
    assert_int_equal(sscanf(outcome.output, "%ld %ld %ld", &sum, &bytes, &reference), 3);
    assert_true(bytes >= reference - 5 && bytes <= reference);
}

static void output_in_files(void **state)
{
    char folder[] = "/tmp/faults-XXXXXX", path[64], text[64] = "";
    assert_non_null(mkdtemp(folder));
    faults_run((char *[]){weft, "run", "-n", "2", "--output-dir", folder, "/bin/sh", "-c",
                          "echo out $WEFT_PE; echo err $WEFT_PE >&2", NULL},
               &outcome);
    assert_int_equal(outcome.status, 0);
    assert_string_equal(outcome.output, "");
    for (int pe = 0; pe < 2; pe++) {
        for (int stream = 0; stream < 2; stream++) {
            char expected[16];
            snprintf(path, sizeof path, "%s/pe.%d.%s", folder, pe, stream ? "err" : "out");
            snprintf(expected, sizeof expected, "%s %d\n", stream ? "err" : "out", pe);
            int fd = open(path, O_RDONLY);
            ssize_t n = read(fd, text, sizeof text - 1);
            text[n > 0 ? n : 0] = '\0';
            close(fd);
            unlink(path);
            assert_string_equal(text, expected);
        }
    }
    rmdir(folder);
    faults_run((char *[]){weft, "run", "-n", "1", "--output-dir", "/proc/nowhere", "true", NULL},
               &outcome);
    faults_expect(&outcome, 1, "--output-dir /proc/nowhere: ");
}

static void reader_of_output_goes_away(void **state)
{
    faults_run(
        (char *[]){"/bin/sh", "-c", "\"$0\" run -n 2 --prefix yes | head -1; echo end", weft, NULL},
        &outcome);
    assert_true(faults_contain(&outcome, "y\nend\n") || faults_contain(&outcome, "y\n"));
    assert_int_equal(outcome.status, 0);
}

static void standard_input_goes_to_first_pe(void **state)
{
    faults_run((char *[]){"/bin/sh", "-c", "echo wool | \"$0\" run -n 3 --prefix cat", weft, NULL},
               &outcome);
    assert_string_equal(outcome.output, "[0] wool\n");
}

/* ------------------------------------------------------------------------------------ terminal */

static pid_t start_on_terminal(int *terminal, char *const argv[])
{
    pid_t pid = forkpty(terminal, NULL, NULL, NULL);
    if (pid == 0) {
        execv(argv[0], argv);
        _exit(127);
    }
    return pid;
}

static void read_terminal_until(int terminal, const char *text, int times)
{
    static char seen[4096];
    size_t used = 0;
    for (;;) {
        int count = 0;
        seen[used] = '\0';
        for (const char *at = seen; (at = strstr(at, text)); at++)
            count++;
        if (count >= times)
            return;
        ssize_t n = read(terminal, seen + used, sizeof seen - 1 - used);
        if (n <= 0)
            fail_msg("the terminal closed before \"%s\" came %d times: %s", text, times, seen);
        used += (size_t)n;
    }
}

static void terminal_input_is_relayed(void **state)
{
    int terminal, status;
    pid_t pid = start_on_terminal(&terminal, (char *[]){weft, "run", "-n", "2", "cat", NULL});
    assert_int_equal(write(terminal, "warp\n", 5), 5);
    read_terminal_until(terminal, "warp", 2); /* the echo, and the output of cat */
    assert_int_equal(write(terminal, "\004", 1), 1);
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    close(terminal);
}

static void keyboard_stops_and_ends_the_job(void **state)
{
    int terminal, status;
    pid_t pid = start_on_terminal(
        &terminal, (char *[]){weft, "run", "-n", "2", "sh", "-c", "echo up; sleep 100", NULL});
    read_terminal_until(terminal, "up", 2);
    assert_int_equal(write(terminal, "\032", 1), 1); /* Ctrl-Z */
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    kill(pid, SIGCONT);
    usleep(50000);
    assert_int_equal(write(terminal, "\003", 1), 1); /* Ctrl-C */
    waitpid(pid, &status, 0);
    assert_int_equal(status, (128 + SIGINT) << 8);
    close(terminal);
}

int main(int argc, char **argv)
{
    if (argc < 4 || argc > 5)
        return 2;
    weft = argv[1];
#define TEST(name) cmocka_unit_test_setup_teardown(name, before, after)
    const struct CMUnitTest tests[] = {
        TEST(status_of_first_failure),    TEST(prefixed_lines),
        TEST(prefixed_bytes_are_kept),    TEST(output_in_files),
        TEST(reader_of_output_goes_away), TEST(standard_input_goes_to_first_pe),
        TEST(terminal_input_is_relayed),  TEST(keyboard_stops_and_ends_the_job),
    };
    if (argc == 5)
        cmocka_set_test_filter(argv[4]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
