/* SPDX-License-Identifier: Apache-2.0 */
/* Usage: alone MPI_LIBRARY
 * Loads an MPI library in which each process is alone, as NVSHMEM's perftest does, and initializes
 * from its communicator: a job of one PE. Under `weft run` with several PEs the initialization
 * fails with a message that says why. */
#define NVSHMEM_HOSTLIB_ONLY
#include <nvshmem.h>

#include <dlfcn.h>

int main(int argc, char **argv)
{
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
    const char *pes = getenv("WEFT_PES");
    if (argc != 2 || !dlopen(argv[1], RTLD_NOW | RTLD_LOCAL)) {
        fprintf(stderr, "no MPI: %s\n", dlerror());
        return 1;
    }
    int result = nvshmemx_init_attr(NVSHMEMX_INIT_WITH_MPI_COMM, &attr);
    if (pes && atoi(pes) > 1) {
        if (result == NVSHMEMX_ERROR_INTERNAL &&
            strstr(weft_last_error(), "MPI_COMM_WORLD has one process and weft run has started 2"))
            return 0;
        fprintf(stderr, "%d, %d PEs: %s\n", result, nvshmem_n_pes(), weft_last_error());
        return 1;
    }
    if (result || nvshmem_n_pes() != 1) {
        fprintf(stderr, "%d: %s\n", result, weft_last_error());
        return 1;
    }
    nvshmem_finalize();
    return 0;
}
