/* SPDX-License-Identifier: Apache-2.0 */
/* Shows how passed path tests of pairs of GPUs are cached for this boot: which pairs are found, and
 * which files are trusted. */
#include "gpu/test/cache.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char home[64];
static const CUuuid a = {{1, 2, 3}}, b = {{1, 2, 3, [15] = 4}}, c = {{'\xff'}};

static int make_home(void **state)
{
    snprintf(home, sizeof home, "/tmp/weft-test-proofs-XXXXXX");
    unsetenv("XDG_RUNTIME_DIR");
    return mkdtemp(home) && setenv("HOME", home, 1) == 0 ? 0 : -1;
}

static int remove_home(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", home);
    return system(command);
}

static void place(char *path, const char *name)
{
    sprintf(path, "%s/%s", home, name);
}

static void both_orders_of_a_pair_are_known(void **state)
{
    assert_false(proof_cache_contains(&a, &b, 12));
    proof_cache_add(&b, &a, 12);
    proof_cache_add(&a, &c, 12);
    assert_true(proof_cache_contains(&a, &b, 12));
    assert_true(proof_cache_contains(&b, &a, 12));
    assert_true(proof_cache_contains(&c, &a, 12));
    assert_false(proof_cache_contains(&b, &c, 12));
    assert_false(proof_cache_contains(&a, &b, 13)); /* another driver version */
    assert_false(proof_cache_contains(&a, &b, 1));
}

static void a_pair_is_kept_once_and_taken_away_alone(void **state)
{
    char path[600];
    struct stat before, after;
    assert_true(proof_cache_file(path, sizeof path));
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(before.st_mode & 0777, 0600);
    proof_cache_add(&a, &b, 12);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    proof_cache_remove(&b, &a, 12);
    assert_false(proof_cache_contains(&a, &b, 12));
    assert_true(proof_cache_contains(&a, &c, 12));
    proof_cache_remove(&a, &c, 11); /* no entry of that driver version */
    assert_true(proof_cache_contains(&a, &c, 12));
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    proof_cache_add(&a, &b, 12); /* appended; the other entries stay */
    assert_true(proof_cache_contains(&a, &b, 12) && proof_cache_contains(&a, &c, 12));
}

static void numbers_of_a_gpu_are_kept(void **state)
{
    const size_t kept[3] = {7, 0, SIZE_MAX}, other[3] = {1, 2, 3};
    size_t read[4] = {5, 5, 5, 5};
    assert_false(proof_cache_load_numbers("sizes", &a, 12, read, 3));
    proof_cache_store_numbers("sizes", &b, 12, other, 3);
    proof_cache_store_numbers("sizes", &a, 12, kept, 3);
    assert_false(proof_cache_load_numbers("other", &a, 12, read, 3));
    assert_false(proof_cache_load_numbers("sizes", &a, 1, read, 3));
    assert_false(proof_cache_load_numbers("sizes", &c, 12, read, 3));
    assert_true(proof_cache_load_numbers("sizes", &a, 12, read, 3));
    assert_memory_equal(read, kept, sizeof kept);
    assert_int_equal(read[3], 5);
    /* Fewer numbers were stored. */
    assert_false(proof_cache_load_numbers("sizes", &a, 12, read, 4));
    assert_true(proof_cache_load_numbers("sizes", &b, 12, read, 2));
    char path[600], line[600];
    place(path, ".cache/weft/sizes"); /* makes a line malformed after its GPU */
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    for (int i = 0; i < 2; i++)
        assert_non_null(fgets(line, sizeof line, file));
    assert_int_equal(fseek(file, -6, SEEK_CUR), 0);
    assert_int_equal(fwrite(" 1 x 3", 1, 5, file), 5);
    fclose(file);
    assert_true(proof_cache_load_numbers("sizes", &b, 12, read, 1));
    assert_false(proof_cache_load_numbers("sizes", &b, 12, read, 2));
    read[0] = 1, read[1] = 2;
    assert_true(read[0] == 1 && read[1] == 2);
}

static void another_boot_begins_anew(void **state)
{
    char path[600], old[600];
    assert_true(proof_cache_file(path, sizeof path));
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    fputs("00000000", file);
    fclose(file);
    assert_false(proof_cache_contains(&a, &c, 12));
    proof_cache_add(&b, &c, 12);
    assert_true(proof_cache_contains(&b, &c, 12));
    assert_false(proof_cache_contains(&a, &c, 12));
    place(old, ".cache/weft/sizes");
    file = fopen(old, "r+");
    assert_non_null(file);
    fputs("00000000", file);
    fclose(file);
    size_t read[1];
    assert_false(proof_cache_load_numbers("sizes", &a, 12, read, 1));
}

static void files_that_others_may_write_are_not_believed(void **state)
{
    char path[600], folder[600], other[600];
    assert_true(proof_cache_file(path, sizeof path));
    for (int i = 0; i < 2; i++) {
        chmod(path, i ? 0602 : 0620);
        assert_false(proof_cache_contains(&b, &c, 12));
    }
    chmod(path, 0600);
    assert_true(proof_cache_contains(&b, &c, 12));
    place(other, "other");
    assert_int_equal(rename(path, other), 0);
    /* A symbolic link is rejected, even to a trusted file. */
    assert_int_equal(symlink(other, path), 0);
    assert_false(proof_cache_contains(&b, &c, 12));
    unlink(path);
    assert_int_equal(rename(other, path), 0);
    place(folder, ".cache/weft");
    chmod(folder, 0720);
    assert_false(proof_cache_file(path, sizeof path));
    chmod(folder, 0700);
    place(folder, ".cache");
    chmod(folder, 0777);
    assert_false(proof_cache_file(path, sizeof path));
    chmod(folder, 0755); /* other users may only read */
    assert_true(proof_cache_file(path, sizeof path));
    size_t length = strlen(path);
    assert_false(proof_cache_file(path, length));
    assert_true(proof_cache_file(path, length + 1));
}

static void the_runtime_folder_comes_first(void **state)
{
    char path[600], expected[600], folder[600];
    setenv("XDG_RUNTIME_DIR", home, 1);
    place(expected, "weft/gpu-proofs");
    assert_true(proof_cache_file(path, sizeof path));
    assert_string_equal(path, expected);
    place(folder, "weft"); /* makes the folder writable for other users */
    chmod(folder, 0777);
    place(expected, ".cache/weft/gpu-proofs");
    assert_true(proof_cache_file(path, sizeof path));
    assert_string_equal(path, expected);
    setenv("XDG_RUNTIME_DIR", "relative", 1);
    assert_true(proof_cache_file(path, sizeof path));
    assert_string_equal(path, expected);
    setenv("HOME", "relative", 1);
    assert_false(proof_cache_file(path, sizeof path));
    unsetenv("HOME");
    assert_false(proof_cache_file(path, sizeof path));
    assert_false(proof_cache_contains(&b, &c, 12));
    proof_cache_add(&b, &c, 12);
    proof_cache_remove(&b, &c, 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_orders_of_a_pair_are_known),
        cmocka_unit_test(a_pair_is_kept_once_and_taken_away_alone),
        cmocka_unit_test(numbers_of_a_gpu_are_kept),
        cmocka_unit_test(another_boot_begins_anew),
        cmocka_unit_test(files_that_others_may_write_are_not_believed),
        cmocka_unit_test(the_runtime_folder_comes_first),
    };
    return cmocka_run_group_tests(tests, make_home, remove_home);
}
