/* SPDX-License-Identifier: Apache-2.0 */
/* The pattern by which `weft bench` detects wrong data: it detects every changed bit of every byte
 * at every size, and data at a wrong offset. */
#include "bench/bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 40, SEED = 77 };

static void every_bit_counts(void **state)
{
    for (size_t bytes = 0; bytes <= MOST; bytes++) {
        unsigned char buffer[MOST + 1];
        memset(buffer, 0x5a, sizeof buffer);
        bench_fill(buffer, bytes, SEED);
        assert_int_equal(buffer[bytes], 0x5a);
        assert_true(bench_holds(buffer, bytes, SEED));
        for (size_t bit = 0; bit < 8 * bytes; bit++) {
            buffer[bit / 8] ^= (unsigned char)(1 << bit % 8);
            assert_false(bench_holds(buffer, bytes, SEED));
            buffer[bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
    }
}

static void the_seed_and_the_place_count(void **state)
{
    unsigned char buffer[MOST];
    bench_fill(buffer, MOST, SEED);
    assert_false(bench_holds(buffer, MOST, SEED + 1));
    assert_false(bench_holds(buffer + 8, MOST - 8, SEED));
    for (uint64_t i = 0; i < MOST / 8; i++)
        for (uint64_t j = 0; j < i; j++)
            assert_true(bench_word(SEED, i) != bench_word(SEED, j));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bit_counts),
        cmocka_unit_test(the_seed_and_the_place_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
