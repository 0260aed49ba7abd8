/* SPDX-License-Identifier: Apache-2.0 */
/* Two connected clients of the software HCA, for tests with cmocka. */
#ifndef WEFT_TESTS_HCA_PAIR_H
#define WEFT_TESTS_HCA_PAIR_H

#include "client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static inline void open_pair(struct client *a, struct client *b, const struct client_options *o)
{
    assert_int_equal(client_open(a, o), 0);
    assert_int_equal(client_open(b, o), 0);
    client_pair(a, b);
    assert_int_equal(client_connect(b), 0);
    assert_int_equal(client_connect(a), 0);
}

static inline void close_pair(struct client *a, struct client *b)
{
    client_close(a);
    client_close(b);
}

#endif
