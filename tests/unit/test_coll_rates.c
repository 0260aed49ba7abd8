/* SPDX-License-Identifier: Apache-2.0 */
/* The rates file. A written file is read back. A truncated or modified file, one of another version
 * or machine, and invalid numbers are rejected with a reason, and the rates stay unchanged. Also
 * tested: the location of the file, and the effect of the rates on the choice. */
#include "ops/coll/rates.h"

#include "base/config.h"
#include "base/crc32c.h"
#include "base/status.h"
#include "gpu/coll/kernels.h"
#include "ops/coll/choose.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/weft-test-rates.XXXXXX", path[128];
static const struct coll_machine machine = {"NVIDIA H200", 4, 13000};
static const struct coll_measured measured = {"2026-11-23", 4};
static struct coll_rates written;
static char text[8192];
static size_t length;

static void put(const char *words, size_t bytes)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(words, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

/* Writes the file with `old` replaced by `new` and a matching CRC. */
static void put_changed(const char *old, const char *new)
{
    char changed[8192];
    const char *at = strstr(text, old);
    assert_non_null(at);
    int before = (int)(at - text);
    snprintf(changed, sizeof changed, "%.*s%s%s", before, text, new, at + strlen(old));
    size_t bytes = (size_t)(strstr(changed, "crc32c ") - changed);
    sprintf(changed + bytes, "crc32c %08x\n", crc32c(0, changed, bytes));
    put(changed, strlen(changed));
}

/* Checks that the file is rejected and that the rates stay unchanged. */
static void refused(const struct coll_machine *of, const char *words)
{
    struct coll_rates rates = coll_rates_built_in;
    struct coll_measured when = {"never", 7};
    assert_int_equal(coll_rates_read(path, of, &rates, &when, NULL), WEFT_ERR_CONFIG);
    if (!strstr(base_last_error(), words))
        fail_msg("\"%s\" has no \"%s\"", base_last_error(), words);
    if (access(path, F_OK) == 0) /* the message begins with the file's name */
        assert_memory_equal(base_last_error(), path, strlen(path));
    assert_non_null(strstr(base_last_error(), "weft bench coll --tune"));
    assert_memory_equal(&rates, &coll_rates_built_in, sizeof rates);
    assert_int_equal(when.pes, 7);
}

static int begin(void **state)
{
    (void)state;
    written = coll_rates_built_in;
    written.push_us = 1.0 / 3;
    written.combine_us = 6;
    written.estimates = 1u << COLL_RATE_lines_us | 1u << COLL_RATE_lines_gbps;
    written.stores_gbps = 123.456789012345678;
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/a/b/rates", folder);
    if (coll_rates_write(path, &machine, &written, &measured))
        return 1;
    FILE *file = fopen(path, "r");
    length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    return 0;
}

static void round_trip(void **state)
{
    (void)state;
    struct coll_rates rates = coll_rates_built_in;
    struct coll_measured when;
    struct coll_machine of;
    put(text, length);
    assert_int_equal(coll_rates_read(path, &machine, &rates, &when, &of), WEFT_OK);
    assert_memory_equal(&rates, &written, sizeof rates); /* identical bits */
    assert_int_equal(coll_rates_hash(&rates), crc32c(0, &written, sizeof written));
    assert_int_not_equal(coll_rates_hash(&rates), coll_rates_hash(&coll_rates_built_in));
    assert_string_equal(when.date, "2026-11-23");
    assert_int_equal(when.pes, 4);
    assert_string_equal(of.gpu, "NVIDIA H200");
    assert_int_equal(coll_rates_read(path, NULL, &rates, &when, NULL), WEFT_OK);
    DIR *list = opendir(folder); /* no temporary file remains in the folder */
    int entries = 0;
    while (readdir(list))
        entries++;
    closedir(list);
    assert_int_equal(entries, 3);
}

/* The file truncated at every length, and with every single byte changed. */
static void cut_or_changed(void **state)
{
    (void)state;
    for (size_t n = 0; n < length; n++) {
        put(text, n);
        refused(&machine, n < 32 ? "another version" : "cut off");
    }
    for (size_t i = 0; i + 1 < length; i++) {
        char other[8192];
        memcpy(other, text, length);
        other[i] ^= 1;
        put(other, length);
        refused(&machine, i < 32 ? "another version" : "cut off or was changed");
    }
    put(text, length);
    FILE *file = fopen(path, "a");
    fputs("more\n", file);
    fclose(file);
    refused(&machine, "cut off or was changed");
    memset(text + length, 'x', sizeof text - 1 - length);
    put(text, sizeof text - 1);
    refused(&machine, "cut off");
    text[length] = '\0';
    text[length] = '\0';
    put(text, length + 1); /* with a zero byte appended */
    refused(&machine, "it is not a rates file");
    put(text, length - 1);
    file = fopen(path, "a"); /* the CRC is right, but its line has extra characters */
    fputs(" \n", file);
    fclose(file);
    refused(&machine, "cut off or was changed");
    unlink(path);
    refused(&machine, "No such file");
}

static void not_rates(void **state)
{
    (void)state;
    put_changed("version 3", "version 2");
    refused(&machine, "another version");
    static const char *const values[] = {"nan", "-nan", "inf", "-1", "0", "1e300"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char line[64];
        snprintf(line, sizeof line, "\ncombine_us %s\n", values[i]);
        put_changed("\ncombine_us 6\n", line);
        refused(&machine, "combine_us is ");
        refused(&machine, values[i]);
    }
    put_changed("combine_us 6\n", "combine_us six\n");
    refused(&machine, "combine_us is missing or holds no number");
    put_changed("combine_us 6\n", "combine_us 6 us\n");
    refused(&machine, "combine_us is missing or holds no number");
    put_changed("combine_us 6\n", "");
    refused(&machine, "combine_us is missing");
    put_changed("combine_us 6\n", "combine_us 6\ncombine_us 6\n");
    refused(&machine, "spread_us is missing");
    put_changed("estimates ", "guesses ");
    refused(&machine, "the line of estimates is missing");
    put_changed("estimates lines_us", "estimates lines");
    refused(&machine, "\"lines\" among the estimates is not the name of a rate");
    put_changed("crc32c ", "more_us 1\ncrc32c ");
    refused(&machine, "it contains unknown lines");
    put_changed("combine_us 6\n", "combine_us \n");
    refused(&machine, "combine_us is missing or holds no number");
    static const char *const heads[][2] = {
        {"pes 4", "pes x"},
        {"pes 4", "pes 4x"},
        {"pes 4", "pes 0"},
        {"pes 4", "pes -1"},
        {"pes 4", "pes 1073741824"},
        {"gpu ", "gpx "},
        {"gpu ", "gpu\t"},
        {"pes 4\n", ""},
        {"NVIDIA H200", "01234567890123456789012345678901234567890123456789"
                        "0123456789012345678901234567890123456789012345"},
    };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        put_changed(heads[i][0], heads[i][1]);
        refused(&machine, "does not say which machine");
    }
    struct coll_rates rates;
    struct coll_measured when;
    struct coll_machine of;
    put_changed("NVIDIA H200", "01234567890123456789012345678901234567890123456789"
                               "012345678901234567890123456789012345678901234");
    refused(&machine, "it is for 4 0123456789");
    put_changed("pes 4", "pes 1");
    assert_int_equal(coll_rates_read(path, NULL, &rates, &when, &of), WEFT_OK);
    assert_int_equal(when.pes, 1);
    put_changed("pes 4", "pes 1073741823");
    assert_int_equal(coll_rates_read(path, NULL, &rates, &when, &of), WEFT_OK);
    assert_int_equal(when.pes, 1073741823);
}

/* Invalid results of a fit of two times are replaced, so that the file can be read; valid values
 * keep their bits. */
static void mended(void **state)
{
    (void)state;
    static const double wrong[] = {283744.9, -3, 0, 1e-9, 1e300, NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct coll_rates rates = written, read = coll_rates_built_in;
        struct coll_measured when;
        rates.engines_gbps = wrong[i];
        rates.one_trip_us = wrong[i] > 1e5 ? 1e5 : wrong[i]; /* the largest valid value */
        assert_int_equal(coll_rates_replace_invalid(&rates), wrong[i] > 1e5 ? 1 : 2);
        assert_true(rates.engines_gbps == coll_rates_built_in.engines_gbps);
        assert_true(rates.one_trip_us == (wrong[i] > 1e5 ? 1e5 : coll_rates_built_in.one_trip_us));
        assert_true(rates.push_us == written.push_us && rates.stores_gbps == written.stores_gbps);
        assert_int_equal(coll_rates_replace_invalid(&rates), 0);
        assert_int_equal(coll_rates_write(path, &machine, &rates, &measured), WEFT_OK);
        assert_int_equal(coll_rates_read(path, &machine, &read, &when, NULL), WEFT_OK);
        assert_memory_equal(&read, &rates, sizeof rates);
    }
}

/* A list of estimates that does not fit its buffer is cut at the end of the buffer. */
static void estimates_cut_off(void **state)
{
    (void)state;
    struct coll_rates rates = coll_rates_built_in;
    rates.estimates =
        1u << COLL_RATE_lines_us | 1u << COLL_RATE_two_lines_us | 1u << COLL_RATE_lines_gbps;
    static const char whole[] = "lines_us, two_lines_us, lines_gbps";
    for (size_t bytes = 1; bytes < sizeof whole; bytes++) {
        char names[256];
        memset(names, '#', sizeof names);
        coll_rates_estimates(&rates, ", ", names, bytes);
        assert_int_equal(strlen(names), bytes - 1);
        assert_memory_equal(names, whole, bytes - 1);
        for (size_t i = bytes; i < sizeof names; i++)
            assert_int_equal(names[i], '#');
    }
    rates.estimates = UINT64_C(1) << COLL_RATE_COUNT; /* a bit without a rate */
    char names[64];
    coll_rates_estimates(&rates, ", ", names, sizeof names);
    assert_string_equal(names, "none");
}

/* The rates record which of them are estimates: in the file, in the hash, and for rates that were
 * replaced. */
static void estimates(void **state)
{
    (void)state;
    struct coll_rates rates = written, read = coll_rates_built_in;
    struct coll_measured when;
    char names[600];
    coll_rates_estimates(&coll_rates_built_in, ", ", names, sizeof names);
    assert_string_equal(names, "spread_us");
    rates.estimates = 0;
    assert_int_not_equal(coll_rates_hash(&rates), coll_rates_hash(&written));
    coll_rates_estimates(&rates, ", ", names, sizeof names);
    assert_string_equal(names, "none");
    for (int turn = 0; turn < 2; turn++) {
        assert_int_equal(coll_rates_write(path, &machine, &rates, &measured), WEFT_OK);
        assert_int_equal(coll_rates_read(path, &machine, &read, &when, NULL), WEFT_OK);
        assert_memory_equal(&read, &rates, sizeof rates);
        rates.engines_gbps = NAN;
        coll_rates_replace_invalid(&rates);
        assert_true(coll_rates_estimated(&rates, COLL_RATE_engines_gbps));
        coll_rates_estimates(&rates, ", ", names, sizeof names);
        assert_string_equal(names, "engines_gbps");
    }
    struct coll_question q = {COLL_ALLTOALL, 4,  64 << 20,         COLL_WIDE_SET, false,
                              false,         64, COLL_ALGO_STAGED, false,         false};
    rates.scratch_gbps = 100;
    double slow = coll_cost(&q, &rates, COLL_ALGO_STAGED);
    rates.scratch_gbps = 200;
    assert_true(slow > 1.9 * coll_cost(&q, &rates, COLL_ALGO_STAGED));
    rates.block_scratch_gbps = 200.0 / 64 / 4;
    assert_true(slow < 0.6 * coll_cost(&q, &rates, COLL_ALGO_STAGED));
}

static void other_machines(void **state)
{
    (void)state;
    put(text, length);
    static const struct coll_machine others[] = {
        {"NVIDIA H100", 4, 13000}, {"NVIDIA H200", 8, 13000}, {"NVIDIA H200", 4, 12040}};
    for (size_t i = 0; i < 3; i++)
        refused(&others[i], "it is for 4 NVIDIA H200 with CUDA 13000; this machine has");
}

static void where(void **state)
{
    (void)state;
    char found[256], why[512];
    struct coll_rates rates;
    struct coll_measured when;
    setenv("XDG_CACHE_HOME", folder, 1);
    config_reset();
    assert_false(coll_rates_any());
    assert_true(coll_rates_file(&machine, found, sizeof found));
    assert_non_null(strstr(found, "/weft/coll-rates-NVIDIA-H200-x4-13000"));
    coll_rates_find(&machine, &rates, &when, found, sizeof found, why, sizeof why);
    assert_string_equal(found, ""); /* there is no file and none was configured */
    assert_string_equal(why, "");
    assert_memory_equal(&rates, &coll_rates_built_in, sizeof rates);
    assert_true(coll_rates_file(&machine, found, sizeof found));
    assert_int_equal(coll_rates_write(found, &machine, &written, &measured), WEFT_OK);
    assert_true(coll_rates_any());
    coll_rates_find(&machine, &rates, &when, found, sizeof found, why, sizeof why);
    assert_memory_equal(&rates, &written, sizeof rates);
    assert_non_null(strstr(found, folder));
    setenv("WEFT_COLL_RATES", "off", 1);
    config_reset();
    coll_rates_find(&machine, &rates, &when, found, sizeof found, why, sizeof why);
    assert_memory_equal(&rates, &coll_rates_built_in, sizeof rates);
    assert_false(coll_rates_file(&machine, found, sizeof found));
    setenv("WEFT_COLL_RATES", "/nowhere/rates", 1);
    config_reset();
    coll_rates_find(&machine, &rates, &when, found, sizeof found, why, sizeof why);
    assert_memory_equal(&rates, &coll_rates_built_in, sizeof rates);
    assert_non_null(strstr(why, "/nowhere/rates: No such file"));
    assert_string_equal(found, "");
    unsetenv("WEFT_COLL_RATES");
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", "nowhere", 1);
    config_reset();
    assert_false(coll_rates_file(&machine, found, sizeof found));
}

static int open_files(void)
{
    int count = 0;
    DIR *list = opendir("/proc/self/fd");
    assert_non_null(list);
    while (readdir(list))
        count++;
    closedir(list);
    return count;
}

/* The name of the file consists of the cache folder and the machine's name. A name that does not
 * fit its buffer is rejected. */
static void names_of_files(void **state)
{
    (void)state;
    char found[1200], wanted[1200], longer[600];
    struct coll_machine odd = {"az AZ/09`{@[:;_", 3, 12080};
    static const struct {
        const char *cache, *home, *folder;
    } table[] = {
        {"/x", "/home", "/x/weft"},
        {NULL, "/home", "/home/.cache/weft"},
        {"x/y", "/h", "/h/.cache/weft"},
        {"", "/h", "/h/.cache/weft"},
        {NULL, "x/y", NULL},
        {NULL, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        unsetenv("XDG_CACHE_HOME");
        unsetenv("HOME");
        if (table[i].cache)
            setenv("XDG_CACHE_HOME", table[i].cache, 1);
        if (table[i].home)
            setenv("HOME", table[i].home, 1);
        assert_int_equal(coll_rates_file(&odd, found, sizeof found), table[i].folder != NULL);
        if (!table[i].folder)
            continue;
        snprintf(wanted, sizeof wanted, "%s/coll-rates-az-AZ-09--------x3-12080", table[i].folder);
        assert_string_equal(found, wanted);
        assert_true(coll_rates_file(&odd, found, strlen(wanted) + 1));
        assert_false(coll_rates_file(&odd, found, strlen(wanted)));
    }
    memset(odd.gpu, 'g', sizeof odd.gpu - 1);
    odd.gpu[sizeof odd.gpu - 1] = '\0';
    setenv("HOME", "/h", 1);
    assert_true(coll_rates_file(&odd, found, sizeof found));
    assert_non_null(strstr(found, odd.gpu));
    memset(longer, 'l', sizeof longer);
    longer[0] = '/';
    longer[512 - sizeof "/weft"] = '\0'; /* the name of the folder has 511 characters */
    setenv("XDG_CACHE_HOME", longer, 1);
    assert_true(coll_rates_file(&odd, found, sizeof found));
    strcat(longer, "l");
    setenv("XDG_CACHE_HOME", longer, 1);
    assert_false(coll_rates_file(&odd, found, sizeof found));
    setenv("WEFT_COLL_RATES", "/some/rates", 1);
    config_reset();
    assert_true(coll_rates_file(&odd, found, sizeof "/some/rates"));
    assert_false(coll_rates_file(&odd, found, sizeof "/some/rates" - 1));
    char why[] = "#";
    struct coll_rates rates;
    struct coll_measured when;
    coll_rates_find(&odd, &rates, &when, found, sizeof found, why, 0);
    assert_string_equal(why, "#");
    assert_string_equal(found, "");
    unsetenv("WEFT_COLL_RATES");
    config_reset();
    setenv("XDG_CACHE_HOME", folder, 1); /* an existing folder without a rates file */
    snprintf(wanted, sizeof wanted, "%s/weft", folder);
    assert_true(mkdir(wanted, 0700) == 0 || errno == EEXIST);
    int before = open_files();
    assert_false(coll_rates_any());
    assert_int_equal(open_files(), before);
    assert_int_equal(rmdir(wanted), 0);
    unsetenv("XDG_CACHE_HOME");
}

/* A failed write is reported, and leaves no file and no open descriptor. */
static void not_written(void **state)
{
    (void)state;
    char to[700], beside[720], pid[16];
    struct stat about;
    int before = open_files();
    snprintf(pid, sizeof pid, ".%d", (int)getpid());
    memset(to, 'p', sizeof to);
    memcpy(to, "/dev/null/", 10);
    to[640 - strlen(pid) - 1] = '\0';
    assert_int_equal(coll_rates_write(to, &machine, &written, &measured), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(base_last_error(), "Not a directory"));
    strcat(to, "p");
    assert_int_equal(coll_rates_write(to, &machine, &written, &measured), WEFT_ERR_CONFIG);
    assert_non_null(strstr(base_last_error(), "too long"));
    static const struct {
        const char *device, *words;
    } table[] = {{"/dev/full", "No space left"}, {"/dev/null", "Invalid argument"}};
    snprintf(to, sizeof to, "%s/device", folder);
    snprintf(beside, sizeof beside, "%s%s", to, pid);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(symlink(table[i].device, beside), 0);
        assert_int_equal(coll_rates_write(to, &machine, &written, &measured), WEFT_ERR_SYSTEM);
        assert_non_null(strstr(base_last_error(), table[i].words));
        assert_int_equal(lstat(beside, &about), -1);
        assert_int_equal(lstat(to, &about), -1);
    }
    snprintf(to, sizeof to, "%s/a/b", folder); /* the target is a folder */
    snprintf(beside, sizeof beside, "%s%s", to, pid);
    assert_int_equal(coll_rates_write(to, &machine, &written, &measured), WEFT_ERR_SYSTEM);
    assert_int_equal(lstat(beside, &about), -1);
    assert_int_equal(open_files(), before);
    snprintf(to, sizeof to, "%s/a", folder);
    assert_int_equal(stat(to, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0700);
    char here[256];
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(coll_rates_write("r/rates", &machine, &written, &measured), WEFT_OK);
    assert_int_equal(chdir(here), 0);
}

/* A slower fence moves the limit of LL to larger sizes, and a slower link for LL moves it to
 * smaller sizes. More bytes per block mean fewer blocks. */
static void choice(void **state)
{
    (void)state;
    struct coll_question q = {COLL_ALLGATHER, 2,  128 << 10,      COLL_WIDE_SET, false,
                              true,           64, COLL_ALGO_AUTO, false,         false};
    struct coll_rates rates = coll_rates_built_in;
    assert_int_equal(coll_choose(&q, &rates).algorithm, COLL_ALGO_LL);
    rates.packets_gbps = 20;
    assert_int_equal(coll_choose(&q, &rates).algorithm, COLL_ALGO_SIMPLE);
    rates.push_us = 40;
    assert_int_equal(coll_choose(&q, &rates).algorithm, COLL_ALGO_LL);
    q.bytes = 16 << 20;
    q.forced = COLL_ALGO_SIMPLE;
    assert_int_equal(coll_choose(&q, &rates).blocks, 64);
    rates.block_share_bytes = 1 << 20;
    assert_int_equal(coll_choose(&q, &rates).blocks, 16);
    q.bytes = 311000;
    assert_float_equal(coll_floor(&q, &coll_rates_built_in), 0.7 * 4 + 1, 1e-9);
    q.what = COLL_ALLREDUCE;
    q.members = 4;
    assert_float_equal(coll_least_bytes(&q), 1.5 * 311000, 1e-9);
    q.what = COLL_BROADCAST;
    assert_float_equal(coll_least_bytes(&q), 311000, 1e-9);
    q.what = COLL_ALLTOALL;
    assert_float_equal(coll_least_bytes(&q), 3 * 311000, 1e-9);
    assert_true(coll_cost(&q, &rates, COLL_ALGO_COPIES) < 0);
}

static int end(void **state)
{
    (void)state;
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(cut_or_changed),
        cmocka_unit_test(not_rates),
        cmocka_unit_test(mended),
        cmocka_unit_test(estimates),
        cmocka_unit_test(other_machines),
        cmocka_unit_test(estimates_cut_off),
        cmocka_unit_test(names_of_files),
        cmocka_unit_test(not_written),
        cmocka_unit_test(where),
        cmocka_unit_test(choice),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
