/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a log of NCCL. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "machine/checks/nccl_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct nccl_log log;
    char *text = malloc(size); /* without a zero behind it */
    if (!text && size)
        return 0;
    memcpy(text, data, size);
    nccl_log_read(text, size, &log);
    free(text);
    for (int i = 0; i < log.n; i++)
        if (log.list[i].count <= 0 || log.list[i].line <= 0 || log.list[i].line > log.lines ||
            !memchr(log.list[i].text, '\0', sizeof log.list[i].text))
            abort();
    return 0;
}
