/* SPDX-License-Identifier: Apache-2.0 */
/* Any environment, one entry in each line. The table refuses or accepts it and never crashes, and
 * accepted values can be read. */
#include "base/config.h"
#include "path/path.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_at(const char *text)
{
    uint64_t number;
    struct path_order order;
    config_parse_size(text, &number);
    config_parse_duration(text, &number);
    if (path_order_parse(text, &order) == WEFT_OK && order.count > PATH_COUNT)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 2); /* glibc's getenv() reads two bytes of an empty entry */
    char *entries[64];
    int count = 0;
    memcpy(text, data, size);
    text[size] = text[size + 1] = '\0';
    look_at(text);
    char *rest = text;
    while (count < 63 && rest)
        entries[count++] = strsep(&rest, "\n");
    entries[count] = NULL;
    char **saved = environ;
    environ = entries;
    config_reset();
    config_check();
    for (int id = 0; id < CONFIG_COUNT; id++) {
        config_string((enum config_id)id);
        config_size((enum config_id)id);
        config_origin((enum config_id)id);
    }
    environ = saved;
    config_reset();
    free(text);
    return 0;
}
