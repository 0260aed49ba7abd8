/* SPDX-License-Identifier: Apache-2.0 */
/* The start-up benchmark: joins, says how much memory this PE occupies, leaves. run.sh takes the
 * wall time. */
#include <shmem.h>

#include <stdio.h>
#include <string.h>

/* A "Name:   123 kB" line of a /proc file, in kB; -1 when there is none. */
static long read_kb(const char *file, const char *name)
{
    char line[256];
    long kb = -1;
    FILE *in = fopen(file, "r");
    while (in && fgets(line, sizeof line, in))
        if (strncmp(line, name, strlen(name)) == 0)
            sscanf(line + strlen(name), "%ld", &kb);
    if (in)
        fclose(in);
    return kb;
}

int main(void)
{
    shmem_init();
    shmem_barrier_all();
    printf("rss_kb %ld pss_kb %ld\n", read_kb("/proc/self/status", "VmRSS:"),
           read_kb("/proc/self/smaps_rollup", "Pss:"));
    fflush(stdout);
    shmem_finalize();
    return 0;
}
