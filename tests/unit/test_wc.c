/* SPDX-License-Identifier: Apache-2.0 */
/* Stores to and loads from memory with a write-combining mapping (gpu/map/wc.h): every requested
 * byte is copied, at every offset in a cache line, and no other byte changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu/map/wc.h"

#include <string.h>

enum { ROOM = 2048, MOST = 700 };

static _Alignas(64) unsigned char mapped[ROOM], plain[ROOM], expected[ROOM];

static const size_t sizes[] = {0,   1,   2,   3,   4,   5,   7,   8,   9,   12, 15,
                               16,  24,  31,  32,  33,  40,  63,  64,  65,  72, 100,
                               127, 128, 129, 191, 192, 511, 512, 577, MOST};

static void fill(void)
{
    for (size_t i = 0; i < ROOM; i++) {
        plain[i] = (unsigned char)(i * 7 + (i >> 8) * 11 + 3);
        mapped[i] = expected[i] = (unsigned char)(i * 5 + (i >> 8) + 101);
    }
}

static void each_store(void (*store)(void *, const void *, size_t))
{
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t to = 64; to < 192; to++)
            for (size_t from = to % 3; from < 24; from += 7) {
                fill();
                memcpy(expected + to, plain + from, sizes[s]);
                store(mapped + to, plain + from, sizes[s]);
                wc_fence();
                assert_memory_equal(mapped, expected, ROOM);
            }
}

static void stores_write_what_is_asked_and_nothing_beside(void **state)
{
    each_store(wc_store);
}

static void posts_do_too(void **state)
{
    each_store(wc_post);
}

static void sends_do_too(void **state)
{
    each_store(wc_send);
}

static void loads_read_what_is_asked_and_write_nothing_beside(void **state)
{
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t from = 64; from < 192; from++)
            for (size_t to = from % 3; to < 24; to += 7) {
                fill();
                memcpy(expected, plain, ROOM);
                memcpy(expected + to, mapped + from, sizes[s]);
                wc_load(plain + to, mapped + from, sizes[s]);
                assert_memory_equal(plain, expected, ROOM);
            }
}

static void the_instructions_have_a_name(void **state)
{
    static const char *const names[] = {"plain", "SSE4.1", "AVX2", "AVX-512"};
    int found = 0;
    for (int i = 0; i < 4; i++)
        found += strcmp(wc_isa_name(), names[i]) == 0;
    assert_int_equal(found, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stores_write_what_is_asked_and_nothing_beside),
        cmocka_unit_test(posts_do_too),
        cmocka_unit_test(sends_do_too),
        cmocka_unit_test(loads_read_what_is_asked_and_write_nothing_beside),
        cmocka_unit_test(the_instructions_have_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
