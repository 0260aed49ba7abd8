/* SPDX-License-Identifier: Apache-2.0 */
/* OpenSHMEM 1.5, section 8: the environment variables of the standard. SMA_x is used where SHMEM_x
 * is not set. */
#include "shmem/routine.h"

#include "base/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    const char *text;
} variables[] = {
    {"SHMEM_VERSION", "when set, PE 0 prints the version of the library at start"},
    {"SHMEM_INFO", "when set, PE 0 prints this text at start"},
    {"SHMEM_SYMMETRIC_SIZE",
     "bytes of the symmetric heap of each PE, with k, m, g or t: 512m, 1.5g"},
    {"SHMEM_DEBUG", "when set, arguments and collective calls are checked (also WEFT_CHECK=1)"},
};

static const char *get_variable(const char *name)
{
    const char *text = getenv(name);
    if (text)
        return text;
    char old[64];
    snprintf(old, sizeof old, "SMA_%s", name + strlen("SHMEM_"));
    return getenv(old);
}

/* Parses a decimal number, followed by at most one of k, m, g, t; rounds up to whole bytes. */
static weft_status parse_size(const char *text, size_t *bytes)
{
    static const char letters[] = "kmgt";
    char *end;
    double number = strtod(text, &end);
    double factor = 1;
    if (*end) {
        const char *letter = strchr(letters, *end | 0x20);
        if (letter && !end[1])
            for (const char *step = letters; step <= letter; step++)
                factor *= 1024;
        else
            end = (char *)text;
    }
    double product = ceil(number * factor);
    if (end == text || !(product >= 1 && product < 9e18))
        return base_fail(WEFT_ERR_CONFIG,
                         "SHMEM_SYMMETRIC_SIZE is \"%s\", which is not a positive number with at "
                         "most one of the suffixes k, m, g, t (such as 512m or 1.5g)",
                         text);
    /* Rounded up to whole pages. */
    *bytes = ((size_t)product + 4095) & ~(size_t)4095;
    return WEFT_OK;
}

weft_status shmem_environment_read(size_t *heap_bytes)
{
    if (get_variable("SHMEM_DEBUG") && !getenv("WEFT_CHECK")) {
        setenv("WEFT_CHECK", "1", 0);
        config_reset();
    }
    const char *size = get_variable("SHMEM_SYMMETRIC_SIZE");
    return size ? parse_size(size, heap_bytes) : WEFT_OK;
}

void shmem_environment_print(void)
{
    if (shmem_own.my_pe != 0)
        return;
    if (get_variable("SHMEM_VERSION"))
        printf("Weft %s, OpenSHMEM %d.%d\n", weft_version(), SHMEM_MAJOR_VERSION,
               SHMEM_MINOR_VERSION);
    if (get_variable("SHMEM_INFO")) {
        for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
            const char *value = get_variable(variables[i].name);
            printf("%-20s = %s\n    %s\n", variables[i].name, value ? value : "(not set)",
                   variables[i].text);
        }
        printf("The WEFT_ variables are listed by `weft env`.\n");
    }
    fflush(stdout);
}
