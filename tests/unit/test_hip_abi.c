/* SPDX-License-Identifier: Apache-2.0 */
/* Weft's declarations of HIP are equal to those of <hip/hip_runtime_api.h>. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "driver/hip.h"

#include "hip_abi.h"

extern const size_t theirs_sizes[];
extern const long long theirs_constants[];

static void sizes_and_offsets(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        size_t ours;
    } rows[] = {
#define X(ours, theirs) {#theirs, ours},
        ABI_SIZES(X)};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].ours != theirs_sizes[i])
            fail_msg("%s is %zu here, %zu there", rows[i].what, rows[i].ours, theirs_sizes[i]);
}

static void constants(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        long long ours;
    } rows[] = {
#define ROW(name, value) {#name, value},
        HIP_CONSTANTS(ROW) HIP_SAME_CONSTANTS(ROW)};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].ours != theirs_constants[i])
            fail_msg("%s is %lld here, %lld there", rows[i].name, rows[i].ours,
                     theirs_constants[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_and_offsets),
        cmocka_unit_test(constants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
