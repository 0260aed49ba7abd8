/* SPDX-License-Identifier: Apache-2.0 */
/* A thread of the library blocks all signals, and the thread that starts it keeps its signal
 * mask. */
#include "base/thread.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const int some[] = {SIGINT, SIGTERM, SIGUSR1, SIGALRM, SIGCHLD, SIGPROF};
enum { SOME = sizeof some / sizeof some[0] };

static void *look(void *argument)
{
    pthread_sigmask(SIG_SETMASK, NULL, argument);
    return argument;
}

static void takes_no_signal(void **unused)
{
    sigset_t in_thread, own, before;
    pthread_t thread;
    void *result;
    sigemptyset(&own);
    /* A mask that differs from an empty one, so that the test can see it restored. */
    sigaddset(&own, SIGUSR2);
    pthread_sigmask(SIG_SETMASK, &own, &before);
    sigemptyset(&in_thread);
    assert_int_equal(thread_start(&thread, look, &in_thread), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &in_thread);
    pthread_sigmask(SIG_SETMASK, &before, &own);
    for (int i = 0; i < SOME; i++) {
        assert_true(sigismember(&in_thread, some[i]));
        assert_false(sigismember(&own, some[i]));
    }
    assert_true(sigismember(&own, SIGUSR2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(takes_no_signal)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
