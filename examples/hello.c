/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest job: every PE prints its rank.
 *
 *     weft run -n 4 ./hello
 *
 * Started without `weft run` it is a job of one PE. */
#include "check.h"

int main(void)
{
    weft_job *job = NULL;
    CHECK(job, weft_init(&job, NULL)); /* synchronises with the other PEs */

    printf("hello from PE %d of %d\n", weft_my_pe(job), weft_n_pes(job));

    CHECK(job, weft_finalize(job)); /* waits for the other PEs, then frees everything */
    return 0;
}
