/* SPDX-License-Identifier: Apache-2.0 */
/* PE 1 does not call finalize: it exits before (`ends`), or sleeps longer than the wait limit
 * (`away`). The other PEs return from finalize, and their later calls fail without ending the
 * process. */
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
