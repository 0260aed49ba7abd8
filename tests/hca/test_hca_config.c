/* SPDX-License-Identifier: Apache-2.0 */
/* The variables SOFT_HCA_*: the value of each, the limits of numbers, and the messages for wrong
 * values. A process reads them once, so each case runs in a child process. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* settings: names and values in turn. */
static void set_all(const char *settings)
{
    char copy[600], *save = NULL;
    clearenv();
    snprintf(copy, sizeof copy, "%s", settings);
    for (char *one = strtok_r(copy, " ", &save); one; one = strtok_r(NULL, " ", &save)) {
        char *value = strchr(one, '=');
        *value++ = '\0';
        setenv(one, value, 1);
    }
}

static void print_config(void)
{
    bool good;
    const struct config *c = config_get(&good);
    if (!good)
        return;
    dprintf(STDERR_FILENO, "%u %u %u %u %u %u %u %u %u %u %u %u %u %s:", (unsigned)c->mode,
            (unsigned)c->link, c->devices, (unsigned)c->log, c->seed, c->idle_us, c->atomics,
            c->apart, c->fail_at, (unsigned)c->gpu, (unsigned)c->engine, c->ring_kib, c->check_icrc,
            c->capture ? c->capture : "-");
    for (unsigned i = 0; i < c->address_count; i++)
        dprintf(STDERR_FILENO, " %08x", c->addresses[i]);
}

static void gives(const char *settings, const char *expected)
{
    char text[2000];
    size_t used = 0;
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        set_all(settings);
        print_config();
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t n; (n = read(ends[0], text + used, sizeof text - 1 - used)) > 0;)
        used += (size_t)n;
    text[used] = '\0';
    close(ends[0]);
    waitpid(child, &status, 0);
    if (status)
        fail_msg("%s: status 0x%x: %s", settings, status, text);
    /* A message may be followed by others; values are the whole output. */
    bool values = strncmp(expected, "soft HCA", 8) != 0;
    if (values ? strcmp(text, expected) != 0 : strncmp(text, expected, strlen(expected)) != 0)
        fail_msg("%s: \"%s\", expected \"%s\"", settings, text, expected);
}

static void each_has_its_value(void **state)
{
    gives("", "0 0 1 1 1 1000 0 0 0 0 0 512 0 -:");
    gives("SOFT_HCA_MODE= SOFT_HCA_DEVICES=",
          "0 0 1 1 1 1000 0 0 0 0 0 512 0 -:"); /* empty counts as unset */
    gives("SOFT_HCA_MODE=adversarial SOFT_HCA_LINK=roce SOFT_HCA_DEVICES=8 SOFT_HCA_LOG=all "
          "SOFT_HCA_SEED=4294967295 SOFT_HCA_IDLE_US=1000000 SOFT_HCA_ATOMICS=weak "
          "SOFT_HCA_APART=1 "
          "SOFT_HCA_FAIL_AT=4294967295 SOFT_HCA_GPU=none SOFT_HCA_ENGINE=other "
          "SOFT_HCA_RING_KIB=65536 "
          "SOFT_HCA_ICRC=check SOFT_HCA_CAPTURE=/x "
          "SOFT_HCA_ADDRESS=10.0.0.1,lo,239.1.2.3,fd00::5,::ffff:10.0.0.7,2001:db8::1",
          "1 1 8 2 4294967295 1000000 1 1 4294967295 3 2 65536 1 /x: 0a000001 7f000000 "
          "ef010203 f0000000 0a000007 f0000001");
    gives("SOFT_HCA_MODE=lenient SOFT_HCA_LOG=none SOFT_HCA_GPU=dmabuf SOFT_HCA_ENGINE=gpu "
          "SOFT_HCA_SEED=0 "
          "SOFT_HCA_IDLE_US=1 SOFT_HCA_RING_KIB=64",
          "2 0 1 0 0 1 0 0 0 1 1 64 0 -:");
    gives("SOFT_HCA_GPU=peermem SOFT_HCA_RING_KIB=65", "0 0 1 1 1 1000 0 0 0 2 0 128 0 -:");
    gives("SOFT_HCA_RING_KIB=96", "0 0 1 1 1 1000 0 0 0 0 0 128 0 -:");
    gives("SOFT_HCA_RING_KIB=128", "0 0 1 1 1 1000 0 0 0 0 0 128 0 -:");
    gives("SOFT_HCA_RING_KIB=33000", "0 0 1 1 1 1000 0 0 0 0 0 65536 0 -:");
}

static void wrong_ones_are_named(void **state)
{
    static const char *const numbers[][3] = {
        {"DEVICES", "1", "8"}, {"SEED", "0", "4294967295"},    {"IDLE_US", "1", "1000000"},
        {"APART", "0", "1"},   {"FAIL_AT", "0", "4294967295"}, {"RING_KIB", "64", "65536"},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        long least = strtol(numbers[i][1], NULL, 10), most = strtol(numbers[i][2], NULL, 10);
        char values[5][32], settings[400], expected[800];
        snprintf(values[0], 32, "%ld", least - 1);
        snprintf(values[1], 32, "%ld", most + 1);
        snprintf(values[2], 32, "%ldx", least);
        snprintf(values[3], 32, "x");
        snprintf(values[4], 32, "99999999999999999999");
        for (int k = 0; k < 5; k++) {
            snprintf(settings, sizeof settings, "SOFT_HCA_%s=%s", numbers[i][0], values[k]);
            snprintf(expected, sizeof expected,
                     "soft HCA: SOFT_HCA_%s=%s is not a number from %s to %s\n", numbers[i][0],
                     values[k], numbers[i][1], numbers[i][2]);
            gives(settings, expected);
        }
    }
    gives("SOFT_HCA_MODE=stric",
          "soft HCA: SOFT_HCA_MODE=stric is none of: strict adversarial lenient\n");
    gives("SOFT_HCA_MODE=stricter",
          "soft HCA: SOFT_HCA_MODE=stricter is none of: strict adversarial lenient\n");
    gives("SOFT_HCA_ATOMICS=1", "soft HCA: SOFT_HCA_ATOMICS=1 is none of: hca weak global none\n");
    gives("SOFT_HCA_ICRC=1", "soft HCA: SOFT_HCA_ICRC=1 is none of: ignore check\n");
    gives("SOFT_HCA_MOD=strict",
          "soft HCA: unknown variable SOFT_HCA_MOD; known are SOFT_HCA_MODE SOFT_HCA_LINK ");
    gives("SOFT_HCA_MODES=strict", "soft HCA: unknown variable SOFT_HCA_MODES; known are ");
    for (int i = 0; i < 3; i++) {
        static const char *const faults[] = {"", " SOFT_HCA_FAIL=create", " SOFT_HCA_FAIL=connect"};
        char settings[80];
        snprintf(settings, sizeof settings, "SOFT_HCA_FAIL_VALUE=7%s", faults[i]);
        gives(settings, "soft HCA: SOFT_HCA_FAIL_VALUE is for SOFT_HCA_FAIL=port, path or adapter, "
                        "which is not set\n");
    }
    gives("SOFT_HCA_FAIL_VALUE=7 SOFT_HCA_FAIL=path", "0 0 1 1 1 1000 0 0 0 0 0 512 0 -:");
    gives("SOFT_HCA_ADDRESS=10.0.0.1",
          "soft HCA: SOFT_HCA_ADDRESS is for SOFT_HCA_LINK=roce, which is not set\n");
    gives("SOFT_HCA_LINK=roce SOFT_HCA_ADDRESS=10.0.0",
          "soft HCA: SOFT_HCA_ADDRESS: \"10.0.0\" is not an IPv4 address, an IPv6 address that is "
          "not link-local, or lo\n");
    gives("SOFT_HCA_LINK=roce SOFT_HCA_ADDRESS=lo,,lo",
          "soft HCA: SOFT_HCA_ADDRESS: \"\" is not an IPv4 address, an IPv6 address that is "
          "not link-local, or lo\n");
    gives("SOFT_HCA_LINK=roce SOFT_HCA_ADDRESS=0.1.2.3",
          "soft HCA: SOFT_HCA_ADDRESS: \"0.1.2.3\" is not an IPv4 address, an IPv6 address that is "
          "not link-local, or lo\n");
    gives("SOFT_HCA_LINK=roce SOFT_HCA_ADDRESS=100.100.100.1000",
          "soft HCA: SOFT_HCA_ADDRESS: \"100.100.100.1000\" is not an IPv4 address, an IPv6 "
          "address that is "
          "not link-local, or lo\n");
    gives("SOFT_HCA_LINK=roce SOFT_HCA_ADDRESS=fe80::1",
          "soft HCA: SOFT_HCA_ADDRESS: \"fe80::1\" is not an IPv4 address, an IPv6 address that is "
          "not link-local, or lo\n");
    gives(
        "SOFT_HCA_LINK=roce SOFT_HCA_ADDRESS=240.0.0.1",
        "soft HCA: SOFT_HCA_ADDRESS: \"240.0.0.1\" is not an IPv4 address, an IPv6 address that is "
        "not link-local, or lo\n");
    gives("SOFT_HCA_LINK=roce SOFT_HCA_ADDRESS=lop",
          "soft HCA: SOFT_HCA_ADDRESS: \"lop\" is not an IPv4 address, an IPv6 address that is "
          "not link-local, or lo\n");
    char many[600] = "SOFT_HCA_LINK=roce SOFT_HCA_ADDRESS=lo", sentence[100];
    for (int i = 1; i < CONFIG_ADDRESSES; i++)
        strcat(many, ",lo");
    char expected[800] = "0 1 1 1 1 1000 0 0 0 0 0 512 0 -:";
    for (int i = 0; i < CONFIG_ADDRESSES; i++)
        strcat(expected, " 7f000000");
    gives(many, expected);
    strcat(many, ",lo");
    snprintf(sentence, sizeof sentence, "soft HCA: SOFT_HCA_ADDRESS has more than %d addresses\n",
             CONFIG_ADDRESSES);
    gives(many, sentence);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_has_its_value),
        cmocka_unit_test(wrong_ones_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
