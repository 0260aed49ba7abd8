/* SPDX-License-Identifier: Apache-2.0 */
/* A program for the test of `weft hca`: two queues, three writes that complete and one that is
 * refused. It prints "ready" and waits until its standard input ends. */
#include "client.h"

#include <stdio.h>
#include <unistd.h>

int main(void)
{
    struct client a, b;
    struct client_options o = {.log_sq = 6};
    struct mlx5_cqe64 e;
    uint64_t v = 7;
    char end;
    if (client_open(&a, &o) || client_open(&b, &o))
        return 1;
    client_pair(&a, &b);
    if (client_connect(&a) || client_connect(&b))
        return 1;
    uint16_t last = 0;
    for (int i = 0; i < 3; i++)
        last = client_write_inline(&a, a.remote_memory, &v, sizeof v);
    if (client_poll_index(&a, last, &e) != MLX5_CQE_REQ)
        return 1;
    last = client_write_inline(&a, a.remote_memory + CLIENT_MEMORY - 7, &v, sizeof v);
    if (client_poll_index(&a, last, &e) != MLX5_CQE_REQ_ERR)
        return 1;
    puts("ready");
    fflush(stdout);
    while (read(0, &end, 1) > 0)
        ;
    client_close(&a);
    client_close(&b);
    return 0;
}
