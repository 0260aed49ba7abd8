/* SPDX-License-Identifier: Apache-2.0 */
/* A finalize that PE 1 does not reach: it ends before (`ends`), or stays away beyond the wait limit
 * (`away`). The others come back from it, and what they ask for afterwards is refused, not
 * fatal. */
#include "values.h"

#include <unistd.h>

int main(int argc, char **argv)
{
    begin();
    nvshmem_barrier_all();
    if (me == 1) {
        if (argc > 1 && !strcmp(argv[1], "away"))
            sleep(3);
        exit(0);
    }
    nvshmem_finalize();
    CHECK(!nvshmem_malloc(64), "after the end");
    CHECK(nvshmemx_init_status() == NVSHMEM_STATUS_NOT_INITIALIZED, "after the end");
    if (!faults)
        printf("PE %d came back from finalize\n", me);
    return faults != 0;
}
