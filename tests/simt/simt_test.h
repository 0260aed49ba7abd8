/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests of the SIMT executor. */
#ifndef SIMT_TEST_H
#define SIMT_TEST_H

#include "base/config.h"

#include <weft/launch.h>
#include <weft/simt_executor.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define assert_ok(call) assert_string_equal(weft_status_name(call), "WEFT_OK")

/* Restarts the executor with an environment variable set to `value`. */
static inline void restart_with(const char *name, const char *value)
{
    weft_simt_shutdown();
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
    config_reset();
}

/* The next synchronize fails, with a message that contains all of these words. */
static inline void expect_report(const char *a, const char *b, const char *c)
{
    assert_int_equal(weft_stream_synchronize(NULL), WEFT_ERR_KERNEL);
    const char *const words[] = {a, b, c};
    for (int i = 0; i < 3; i++)
        if (!strstr(weft_last_error(), words[i]))
            fail_msg("\"%s\" is not in: %s", words[i], weft_last_error());
    assert_ok(weft_stream_synchronize(NULL));
}

#endif
