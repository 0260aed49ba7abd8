// SPDX-License-Identifier: Apache-2.0
// How many writes of 8 bytes a second the software HCA carries out between two queues of one process, and
// the CPU time that its engine takes for one. Printed, not judged.
#include "client.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    enum { BATCH = 1024, IN_FLIGHT = 8 };
    unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 4000;
    struct client a, b;
    struct client_options o = {.log_sq = 14};
    if (client_open(&a, &o) || client_open(&b, &o))
        return 1;
    client_pair(&a, &b);
    if (client_connect(&a) || client_connect(&b))
        return 1;
    uint16_t ends[IN_FLIGHT] = {0};
    struct mlx5_cqe64 e;
    double begin = now();
    for (unsigned r = 0; r < rounds; r++) {
        struct wqe_maker w;
        if (r >= IN_FLIGHT) {
            // All up to the batch before the last few has completed; a later one may show instead.
            for (;;) {
                uint64_t last =
                    __atomic_load_n((uint64_t *)&a.cqes[0].sop_drop_qpn, __ATOMIC_ACQUIRE);
                uint16_t seen = (uint16_t)((last >> 32 & 0xff) << 8 | (last >> 40 & 0xff));
                if ((last >> 60) == 13)
                    return 2;
                if ((last >> 60) == 0 && (int16_t)(seen - ends[r % IN_FLIGHT]) >= 0)
                    break;
            }
        }
        for (unsigned i = 0; i < BATCH; i++) {
            uint64_t v = (uint64_t)r * BATCH + i;
            wqe_begin(&w, &a, MLX5_OPCODE_RDMA_WRITE, 0,
                      i == BATCH - 1 ? MLX5_WQE_CTRL_CQ_UPDATE : 0, 0);
            wqe_remote(&w, a.remote_memory + i * 8, a.remote_rkey);
            wqe_inline(&w, &v, 8);
            ends[r % IN_FLIGHT] = wqe_end(&w);
        }
        client_doorbell(&a);
    }
    if (client_poll_index(&a, ends[(rounds - 1) % IN_FLIGHT], &e) != MLX5_CQE_REQ)
        return 3;
    double s = now() - begin;
    struct timespec all, mine;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &all);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &mine);
    double engine = (double)(all.tv_sec - mine.tv_sec) * 1e9 + (double)(all.tv_nsec - mine.tv_nsec);
    printf("%.2f M writes of 8 bytes a second; CPU time of the engine %.1f ns a write\n",
           rounds * BATCH / s * 1e-6, engine / rounds / BATCH);
    client_close(&a);
    client_close(&b);
    return 0;
}
