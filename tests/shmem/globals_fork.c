/* SPDX-License-Identifier: Apache-2.0 */
/* A child of fork() has its own copy of the global variables as of fork(). The variables of parent
 * and peers do not change, and the child's exit does not finalize the job. */
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

static int value = 1;
static int big[100000];

int main(void)
{
    shmem_init();
    int me = shmem_my_pe(), pipes[2];
    value = me + 10;
    big[99999] = 5;
    shmem_barrier_all();
    CHECK(pipe(pipes) == 0);
    pid_t child = fork();
    if (child == 0) {
        char go;
        if (read(pipes[0], &go, 1) != 1) /* the parent has written me + 20 before */
            _exit(1);
        int good = value == me + 10 && big[99999] == 5;
        value = 999;
        big[0] = 999;
        exit(good ? 0 : 1);
    }
    value = me + 20;
    CHECK(write(pipes[1], "g", 1) == 1);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(value == me + 20 && big[0] == 0);
    shmem_barrier_all();
    CHECK(shmem_int_g(&value, (me + 1) % shmem_n_pes()) == (me + 1) % shmem_n_pes() + 20);
    shmem_finalize();
    return 0;
}
