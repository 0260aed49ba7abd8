/* SPDX-License-Identifier: Apache-2.0 */
/* struct epoch, in one thread, and in threads that give and complete operations concurrently. */
#include "base/epoch.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { GIVERS = 3, EACH = 20000 };

static void counts(void **state)
{
    struct epoch e = {0};
    uint64_t upto, later;
    (void)state;
    assert_false(epoch_is_open(&e, &upto));
    assert_int_equal(epoch_give(&e), 0);
    assert_int_equal(epoch_give(&e), 1);
    assert_true(epoch_is_open(&e, &upto));
    assert_int_equal(upto, 2);
    /* Operations given during the work stay open. An older quiet closes fewer operations and
     * reopens none. */
    epoch_give(&e);
    assert_true(epoch_is_open(&e, &later));
    epoch_close(&e, upto);
    assert_true(epoch_is_open(&e, &later));
    epoch_close(&e, later);
    assert_false(epoch_is_open(&e, &later));
    epoch_close(&e, upto);
    assert_false(epoch_is_open(&e, &later));
}

/* Each giver stores, gives and quiets. Completing copies the values that all givers have stored.
 * After its quiet, a giver finds its own stores copied, no matter which thread copied them. */
static struct epoch shared;
static _Atomic uint64_t stored[GIVERS], copied[GIVERS];
static _Atomic unsigned wrong;

static void complete(void)
{
    for (int i = 0; i < GIVERS; i++) {
        uint64_t now = atomic_load_explicit(&stored[i], memory_order_relaxed);
        uint64_t before = atomic_load_explicit(&copied[i], memory_order_relaxed);
        while (before < now &&
               !atomic_compare_exchange_weak_explicit(&copied[i], &before, now,
                                                      memory_order_relaxed, memory_order_relaxed))
            ;
    }
}

static void *give(void *argument)
{
    size_t me = (size_t)(uintptr_t)argument;
    for (uint64_t i = 1; i <= EACH; i++) {
        uint64_t upto;
        atomic_store_explicit(&stored[me], i, memory_order_relaxed);
        epoch_give(&shared);
        if (epoch_is_open(&shared, &upto)) {
            complete();
            epoch_close(&shared, upto);
        }
        if (atomic_load_explicit(&copied[me], memory_order_relaxed) < i)
            atomic_fetch_add(&wrong, 1);
    }
    return NULL;
}

static void by_several_threads(void **state)
{
    pthread_t threads[GIVERS];
    (void)state;
    for (size_t i = 0; i < GIVERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, give, (void *)(uintptr_t)i), 0);
    for (size_t i = 0; i < GIVERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(wrong, 0);
    assert_int_equal(atomic_load(&shared.given), GIVERS * EACH);
    assert_int_equal(atomic_load(&shared.complete), GIVERS * EACH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts),
        cmocka_unit_test(by_several_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
