/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest job: every PE says who it is.
 *
 *     weft run -n 4 ./hello
 *
 * Started without `weft run` it is a job of one PE. */
#include "check.h"

int main(void)
{
    weft_job *job = NULL;
    CHECK(job, weft_init(&job, NULL)); /* meets the other PEs */

    printf("hello from PE %d of %d\n", weft_my_pe(job), weft_n_pes(job));

    CHECK(job, weft_finalize(job)); /* waits for the other PEs, then lets go of everything */
    return 0;
}
