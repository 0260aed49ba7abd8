/* SPDX-License-Identifier: Apache-2.0 */
/* PE 0 waits for the last PE, on another node, longer than WEFT_WAIT_LIMIT. While that PE works in
 * Weft the wait continues (slow_peer SECONDS); when it does nothing the wait fails (slow_peer
 * SECONDS idle). */
#include <weft.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "PE %d: line %d: %s: %s\n", weft_my_pe(job), __LINE__, #condition,     \
                    weft_last_error());                                                            \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

int main(int argc, char **argv)
{
    weft_job *job;
    int seconds = argc > 1 ? atoi(argv[1]) : 1, idle = argc > 2;
    CHECK(weft_init(&job, NULL) == WEFT_OK);
    int me = weft_my_pe(job), last = weft_n_pes(job) - 1;
    weft_ctx *ctx = weft_default_ctx(job);
    void *room;
    CHECK(weft_alloc(job, WEFT_HOST, 64, 0, WEFT_ALLOC_ZERO, &room) == WEFT_OK);
    uint64_t *words = room;
    if (me == last) {
        time_t until = time(NULL) + seconds;
        for (uint64_t i = 1; idle || time(NULL) < until; i++) {
            if (!idle)
                CHECK(weft_p64(ctx, &words[1], i, me) == WEFT_OK);
            usleep(2000);
        }
        CHECK(weft_p64(ctx, &words[0], 77, 0) == WEFT_OK);
    }
    if (me == 0) {
        weft_status status = weft_wait_until(ctx, WEFT_UINT64, &words[0], WEFT_EQ, 77);
        if (idle) {
            CHECK(status == WEFT_ERR_TIMEOUT);
            printf("%s\n", weft_last_error());
            fflush(stdout);
            _exit(0);
        }
        CHECK(status == WEFT_OK && words[0] == 77);
    }
    while (idle) /* until PE 0 has seen the failure and the job ends */
        pause();
    if (!idle) /* also a barrier, in which the others have waited for long */
        CHECK(weft_barrier(weft_team_world(job)) == WEFT_OK && weft_finalize(job) == WEFT_OK);
    return 0;
}
