/* SPDX-License-Identifier: Apache-2.0 */
/* In the style of a program without a launcher: its arguments are the rank, the number of ranks and
 * a file for the id. C, for a host compiler. */
#include <nvshmem.h>

#include <unistd.h>

static int pass_on(const char *path, int rank, nvshmemx_uniqueid_t *id)
{
    char part[4096];
    FILE *file;
    snprintf(part, sizeof part, "%s.part", path);
    if (rank == 0) {
        if (nvshmemx_get_uniqueid(id) != NVSHMEMX_SUCCESS)
            return 1;
        file = fopen(part, "wb");
        if (!file || fwrite(id, sizeof *id, 1, file) != 1 || fclose(file))
            return 1;
        return rename(part, path);
    }
    for (int tries = 0; tries < 1000; tries++) {
        file = fopen(path, "rb");
        if (file) {
            int read = fread(id, sizeof *id, 1, file) == 1;
            fclose(file);
            return !read;
        }
        usleep(10000);
    }
    return 1;
}

int main(int argc, char **argv)
{
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
    nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
    if (argc < 4)
        return 2;
    int rank = atoi(argv[1]), n = atoi(argv[2]);
    if (pass_on(argv[3], rank, &id) || nvshmemx_set_attr_uniqueid_args(rank, n, &id, &attr) ||
        nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attr) != NVSHMEMX_SUCCESS)
        return 1;
    uint32_t *sum = nvshmem_calloc(2, sizeof *sum);
    sum[1] = 0x80000000u + (uint32_t)rank;
    nvshmem_barrier_all();
    nvshmem_uint32_max_reduce(NVSHMEM_TEAM_WORLD, sum, sum + 1, 1);
    int right =
        nvshmem_my_pe() == rank && nvshmem_n_pes() == n && sum[0] == 0x80000000u + (uint32_t)n - 1;
    nvshmem_barrier_all();
    nvshmem_finalize();
    return !right;
}
