/* SPDX-License-Identifier: Apache-2.0 */
/* Text of mlx5 error syndromes. */
#include "path/gda/error.h"

const char *gda_syndrome_text(unsigned syndrome)
{
    switch (syndrome) {
    case 0x01:
        return "local length error";
    case 0x02:
        return "local queue pair operation error: the request is malformed";
    case 0x04:
        return "local protection error: a key or bounds of local memory";
    case 0x05:
        return "flushed: an earlier request of the queue has failed";
    case 0x06:
        return "memory window bind error";
    case 0x10:
        return "bad response";
    case 0x11:
        return "local access error";
    case 0x12:
        return "remote invalid request error: the peer does not support the operation, or its "
               "address is misaligned";
    case 0x13:
        return "remote access error: key, bounds or permission of the peer's memory";
    case 0x14:
        return "remote operation error";
    case 0x15:
        return "transport retries exceeded: the peer does not answer";
    case 0x16:
        return "receiver-not-ready retries exceeded";
    case 0x22:
        return "aborted";
    default:
        return "an unknown error";
    }
}
