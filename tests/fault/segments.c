/* SPDX-License-Identifier: Apache-2.0 */
/* How a PE sets up its segments: no process may change their size, no other process may open them,
 * and a core dump contains only the parts of the PE's own heap that it has allocated. */
#include "../job/job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_DESCRIPTORS = 64 };

static int check_descriptors(void)
{
    int found = 0;
    for (int fd = 0; fd < MOST_DESCRIPTORS; fd++) {
        char link[64], target[256] = "";
        struct stat file;
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        if (readlink(link, target, sizeof target - 1) < 0 || !strstr(target, "memfd:weft-"))
            continue;
        found++;
        CHECK(fstat(fd, &file) == 0 && (file.st_mode & 0777) == 0600);
        CHECK(fcntl(fd, F_GET_SEALS) == (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
        CHECK(ftruncate(fd, 4096) < 0 && errno == EPERM);
        CHECK(ftruncate(fd, file.st_size + 4096) < 0 && errno == EPERM);
    }
    return found;
}

/* Bytes of the segment `name` that a core dump of this process would contain; *inside: how many of
 * them are in [from, to). */
static size_t dumped(const char *name, const void *from, const void *to, size_t *inside)
{
    char line[512];
    unsigned long start = 0, end = 0;
    size_t sum = 0;
    bool ours = false;
    FILE *maps = fopen("/proc/self/smaps", "r");
    CHECK(maps != NULL);
    *inside = 0;
    while (fgets(line, sizeof line, maps)) {
        unsigned long first, last;
        if (sscanf(line, "%lx-%lx ", &first, &last) == 2) {
            start = first;
            end = last;
            ours = strstr(line, name) != NULL;
        }
        if (!ours || strncmp(line, "VmFlags:", 8) != 0 || strstr(line, " dd"))
            continue;
        sum += end - start;
        uintptr_t low = start > (uintptr_t)from ? start : (uintptr_t)from;
        uintptr_t high = end < (uintptr_t)to ? end : (uintptr_t)to;
        *inside += high > low ? high - low : 0;
    }
    fclose(maps);
    return sum;
}

int main(void)
{
    weft_job *job;
    size_t inside;
    OK(weft_init(&job, NULL));
    CHECK(check_descriptors() == 2);
    CHECK(dumped("memfd:weft-heap", NULL, NULL, &inside) == 0);
    char *first = alloc(job, 100000), *second = alloc(job, 300000);
    CHECK(dumped("memfd:weft-heap", first, first + 100000, &inside) < 500000 && inside == 100000);
    dumped("memfd:weft-heap", second, second + 300000, &inside);
    CHECK(inside == 300000);
    for (int pe = 0; pe < weft_n_pes(job); pe++) {
        char *there = weft_ptr(job, first, pe);
        dumped("memfd:weft-heap", there, there + 100000, &inside);
        CHECK(inside == (pe == weft_my_pe(job) ? 100000 : 0));
    }
    CHECK(dumped("memfd:weft-system", NULL, NULL, &inside) == 65536);
    OK(weft_finalize(job));
    return 0;
}
