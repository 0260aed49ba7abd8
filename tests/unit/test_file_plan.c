/* SPDX-License-Identifier: Apache-2.0 */
/* Shows that transfers are cut into pieces correctly: every small transfer, and transfers at the
 * end of the largest file. Compares the checksum with its definition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/crc32c.h"
#include "tests/job/file.h"
#include "tests/unit/file_cuts.h"

static void check(const struct file_shape *s, size_t most)
{
    size_t count;
    const char *wrong = wrong_cuts(s, &count);
    if (wrong)
        fail_msg(
            "%s: %s %s %s, alignment %u and %u, chunk %zu, offset %llu, %zu bytes, address %zu",
            wrong, s->write ? "write" : "read", s->direct ? "direct" : "buffered",
            s->in_place ? "in place" : "by buffer", s->alignment, s->memory_alignment, s->chunk,
            (unsigned long long)s->offset, s->bytes, (size_t)s->address);
    if (count > most)
        fail_msg("%zu pieces of %zu bytes at %llu, chunk %zu", count, s->bytes,
                 (unsigned long long)s->offset, s->chunk);
}

/* Blocks of 8 bytes and memory alignment of 4 use the same arithmetic and reach all its cases.
 * There are at most as many pieces as chunks touched, and two for the ends. */
static void every_small_transfer(void **state)
{
    (void)state;
    for (unsigned flags = 0; flags < 8; flags++)
        for (uint64_t offset = 0; offset < 40; offset++)
            for (size_t bytes = 1; bytes < 70; bytes++)
                for (uintptr_t address = 64; address < 72; address++)
                    for (size_t chunk = 8; chunk <= 24; chunk += 8) {
                        struct file_shape s = {.write = flags & 1,
                                               .direct = flags & 2,
                                               .in_place = flags & 4,
                                               .alignment = 8,
                                               .memory_alignment = 4,
                                               .chunk = chunk,
                                               .offset = offset,
                                               .bytes = bytes,
                                               .address = address};
                        check(&s, (offset + bytes - 1) / chunk - offset / chunk + 3);
                    }
}

/* Whole blocks of aligned memory are transferred in place. */
static void aligned_goes_in_place(void **state)
{
    (void)state;
    struct file_shape s = {.direct = true,
                           .in_place = true,
                           .alignment = 4096,
                           .memory_alignment = 512,
                           .chunk = 1 << 20,
                           .offset = 100,
                           .bytes = 10 << 20,
                           .address = (1 << 21) + 100};
    struct file_cut head = file_cut_at(&s, 0), next = file_cut_at(&s, 4096 - 100);
    assert_int_equal(head.bytes, 4096 - 100);
    assert_true(head.buffer && next.direct && !next.buffer);
    assert_int_equal(next.bytes, (1 << 20) - 4096);
    s.write = true;
    head = file_cut_at(&s, 0);
    assert_false(head.direct || head.buffer);
}

static void ends_of_files(void **state)
{
    (void)state;
    for (unsigned flags = 0; flags < 8; flags++)
        for (uint64_t from_end = 1; from_end < 3 * 4096; from_end += 997) {
            struct file_shape s = {.write = flags & 1,
                                   .direct = flags & 2,
                                   .in_place = flags & 4,
                                   .alignment = 4096,
                                   .memory_alignment = 512,
                                   .chunk = 8192,
                                   .offset = INT64_MAX - from_end,
                                   .bytes = from_end,
                                   .address = 4096 * 7 + 512 * (flags >> 2)};
            check(&s, 6);
        }
}

static void checksum(void **state)
{
    (void)state;
    static unsigned char data[5000];
    uint64_t random = 77;
    struct crc32c_shift shift = {0};
    random_bytes(&random, data, sizeof data);
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c(0, data, 0), 0);
    for (int i = 0; i < 300; i++) {
        size_t start = next_random(&random) % 60, n = next_random(&random) % (sizeof data - 60),
               cut = n ? next_random(&random) % n : 0;
        uint32_t whole = crc32c(0, data + start, n), wanted = slow_crc32c(data + start, n);
        assert_int_equal(whole, wanted);
        uint32_t first = crc32c(0, data + start, cut);
        assert_int_equal(crc32c(first, data + start + cut, n - cut), wanted);
        assert_int_equal(
            crc32c_join(&shift, first, crc32c(0, data + start + cut, n - cut), n - cut), wanted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_small_transfer),
        cmocka_unit_test(aligned_goes_in_place),
        cmocka_unit_test(ends_of_files),
        cmocka_unit_test(checksum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
