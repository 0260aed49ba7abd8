/* SPDX-License-Identifier: Apache-2.0 */
/* shmem_global_exit() of one PE ends all PEs with its exit code, while the others wait for a value
 * that never arrives. */
#include "check.h"

static long never;

int main(int argc, char **argv)
{
    shmem_init();
    shmem_barrier_all();
    if (shmem_my_pe() == shmem_n_pes() - 1) {
        printf("leaving\n"); /* the program does not flush */
        shmem_global_exit(argc > 1 ? atoi(argv[1]) : 7);
    }
    shmem_long_wait_until(&never, SHMEM_CMP_NE, 0);
    return 0;
}
