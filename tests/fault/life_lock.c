/* SPDX-License-Identifier: Apache-2.0 */
/* Only the life lock reports a death: PE 1 releases its lock, as its exit would, but lives and
 * keeps its connection, so that neither the launcher nor a connection reports its end. PE 0 must
 * not wait for it until the limit. `weft run -n 2` starts this program; the test checks what PE 0
 * prints. */
#include "../job/job.h"

#include <unistd.h>

enum { MOST_DESCRIPTORS = 256 };

/* The kernel releases a POSIX lock when the process closes any descriptor of the file. */
static void drop_life_lock(void)
{
    int dropped = 0;
    for (int fd = 0; fd < MOST_DESCRIPTORS; fd++) {
        char path[64], target[256] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (readlink(path, target, sizeof target - 1) < 0 || !strstr(target, "memfd:weft-system"))
            continue;
        int other = dup(fd);
        CHECK(other >= 0);
        close(other);
        dropped++;
    }
    CHECK(dropped == 1);
}

int main(void)
{
    weft_job *job;
    OK(weft_init(&job, NULL));
    CHECK(weft_n_pes(job) == 2);
    OK(weft_barrier(weft_team_world(job)));
    if (weft_my_pe(job) == 1) {
        drop_life_lock();
        for (;;)
            pause();
    }
    weft_status status = weft_barrier(weft_team_world(job));
    fprintf(stderr, "life lock: %s: %s\n", weft_status_name(status), weft_last_error());
    return status ? 3 : 0;
}
