/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the answer of an InfiniBand port and as a board's vital product data: the result is
 * a valid rate, or none with a reason. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "machine/live/infiniband_decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct infiniband_port port;
    const char *why = NULL;
    bool good = infiniband_answer(data, size, &port, &why);
    if (good ? port.mbit <= 0 || port.mbit > 1200000 || why : port.mbit || !why)
        abort();
    int64_t board = infiniband_board_mbit(data, size);
    if (board < 0 || board > 99999000)
        abort();
    int64_t possible = infiniband_possible_mbit(&port, board, 1, &why);
    if (possible < 0 || possible > port.mbit || (!possible && port.mbit && !why))
        abort();
    return 0;
}
