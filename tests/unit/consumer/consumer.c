/* SPDX-License-Identifier: Apache-2.0 */
/* A user's program, as C and as C++: built against the installed package, run as a job of one. */
#include <stdio.h>
#include <weft.h>

#if WEFT_VERSION != WEFT_MAKE_VERSION(WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR, WEFT_VERSION_PATCH)
#error "WEFT_VERSION is not the version of its three parts"
#endif

int main(void)
{
    weft_job *job;
    void *block;
    uint64_t there = 0;
    if (weft_init(&job, NULL) || weft_alloc(job, WEFT_HOST, 64, 0, 0, &block) ||
        weft_p64(weft_default_ctx(job), block, 42, weft_my_pe(job)) ||
        weft_quiet(weft_default_ctx(job)) ||
        weft_g64(weft_default_ctx(job), block, &there, weft_my_pe(job)) || weft_finalize(job)) {
        fprintf(stderr, "%s\n", weft_last_error());
        return 1;
    }
    printf("%s %d\n", weft_version(), (int)there);
    return there == 42 ? 0 : 1;
}
