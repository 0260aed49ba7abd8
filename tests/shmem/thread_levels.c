/* SPDX-License-Identifier: Apache-2.0 */
/* Each requested thread level is provided; an invalid level is refused before any effect. */
#include "check.h"

int main(int argc, char **argv)
{
    int wanted = argc > 1 ? atoi(argv[1]) : SHMEM_THREAD_FUNNELED, provided = -1, level = -1;
    if (shmem_init_thread(17, &provided) == 0 || provided != -1)
        return 1;
    if (shmem_init_thread(wanted, &provided) != 0)
        return 1;
    shmem_query_thread(&level);
    CHECK(provided == wanted && level == wanted);
    shmem_barrier_all();
    shmem_finalize();
    return 0;
}
