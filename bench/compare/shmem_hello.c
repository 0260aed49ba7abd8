/* SPDX-License-Identifier: Apache-2.0 */
/* Start-up benchmark: initialises, prints the memory of this PE, finalises. run.sh measures the
 * elapsed time. */
#include <shmem.h>

#include <stdio.h>
#include <string.h>

/* Returns the value of a "Name: 123 kB" line of a /proc file in kB, or -1. */
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
