/* SPDX-License-Identifier: Apache-2.0 */
/* Weft's declarations of the CUDA driver are equal to those of <cuda.h>. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "driver/gpu_api.h"

#include "cuda_abi.h"

extern const size_t theirs_sizes[];
extern const long long theirs_constants[];

static void sizes_and_offsets(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        size_t ours;
    } rows[] = {
#define X(expression) {#expression, expression},
        ABI_SIZES(X)};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].ours != theirs_sizes[i])
            fail_msg("%s is %zu, in <cuda.h> %zu", rows[i].what, rows[i].ours, theirs_sizes[i]);
}

static void constants(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        long long ours;
    } rows[] = {
#define ROW(name, value) {#name, value},
        CUDA_CONSTANTS(ROW)};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].ours != theirs_constants[i])
            fail_msg("%s is %lld, in <cuda.h> %lld", rows[i].name, rows[i].ours,
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
