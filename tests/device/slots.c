/* SPDX-License-Identifier: Apache-2.0 */
/* The variables of the proxy. WEFT_TEST_PROXY_SLOTS: a ring of that size executes operations.
 * WEFT_PROXY_CPUS: the thread runs on those CPUs, or the job does not start. WEFT_TEST_PROXY: the
 * thread exists although no peer needs it. */
#include "device_test.h"

WEFT_KERNEL(put_all, (uint64_t *, words), (int, n), (int, pe))
{
    for (int i = (int)weft_dev_thread_rank(); i < n; i += (int)weft_dev_block_threads())
        weft_thread_p64(words + i, (uint64_t)i * 0x0101010101010101u, pe);
    weft_block_quiet();
}

#if WEFT_HOST_CODE

#include <dirent.h>

/* Reads /proc/self/task of the thread named weft-proxy. */
static int proxy_cpus(char list[64])
{
    DIR *tasks = opendir("/proc/self/task");
    int found = 0;
    CHECK(tasks);
    for (struct dirent *task; !found && (task = readdir(tasks));) {
        char name[300], line[256], comm[64] = "";
        snprintf(name, sizeof name, "/proc/self/task/%s/status", task->d_name);
        FILE *file = fopen(name, "r");
        while (file && fgets(line, sizeof line, file)) {
            if (sscanf(line, "Name: %63s", comm) != 1 && strcmp(comm, "weft-proxy") == 0 &&
                strncmp(line, "Cpus_allowed_list:", 18) == 0)
                found = sscanf(line + 18, "%63s", list) == 1;
        }
        if (file)
            fclose(file);
    }
    closedir(tasks);
    return found;
}

/* WEFT_PROXY_CPUS and WEFT_TEST_PROXY=always: the thread exists although every peer is direct. */
static void placed(const char *cpus)
{
    char list[64] = "";
    device_begin();
    CHECK(proxy_cpus(list));
    CHECK(strcmp(list, cpus) == 0);
    device_end();
    CHECK(!proxy_cpus(list));
}

static void not_placed(void)
{
    FAILS(weft_init(&job, NULL), WEFT_ERR_CONFIG,
          "WEFT_PROXY_CPUS is \"1000\", none of which this process may use");
    CHECK(job == NULL);
    fprintf(stderr, "seen: %s\n", weft_last_error());
}

static void carried(void)
{
    enum { N = 100 };
    uint64_t seen[N];
    device_begin();
    uint64_t *words = symmetric(N * sizeof *words);
    barrier();
    LAUNCH(put_all, 1, 64, 0, NULL, words, N, (me + 1) % n_pes);
    barrier();
    fetch(seen, words, sizeof seen);
    for (uint64_t i = 0; i < N; i++)
        CHECK(seen[i] == i * 0x0101010101010101u);
    device_end();
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "placed") == 0)
        placed(argv[2]);
    else if (argc > 1 && strcmp(argv[1], "not_placed") == 0)
        not_placed();
    else
        carried();
    return 0;
}
#endif
