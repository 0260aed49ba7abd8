/* SPDX-License-Identifier: Apache-2.0 */
/* Table of the environment variables SOFT_HCA_*, documented in docs/hca.md. */
#include "config.h"
#include "address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

static const char TEXT[] = "";
static struct config values;
static bool values_good;

static const struct variable {
    const char *name;
    const char *words; /* a choice: its words, separated by blanks; NULL: a number; or TEXT */
    unsigned standard, least, most;
    size_t offset;
} variables[] = {
    {"SOFT_HCA_MODE", "strict adversarial lenient", MODE_STRICT, 0, 0,
     offsetof(struct config, mode)},
    {"SOFT_HCA_LINK", "ib roce", LINK_IB, 0, 0, offsetof(struct config, link)},
    {"SOFT_HCA_DEVICES", NULL, 1, 1, 8, offsetof(struct config, devices)},
    {"SOFT_HCA_LOG", "none errors all", LOG_ERRORS, 0, 0, offsetof(struct config, log)},
    {"SOFT_HCA_SEED", NULL, 1, 0, 0xffffffffu, offsetof(struct config, seed)},
    {"SOFT_HCA_IDLE_US", NULL, 1000, 1, 1000000, offsetof(struct config, idle_us)},
    {"SOFT_HCA_ATOMICS", "hca weak global none", ATOMICS_HCA, 0, 0,
     offsetof(struct config, atomics)},
    {"SOFT_HCA_DC", NULL, 1, 0, 1, offsetof(struct config, dc)},
    {"SOFT_HCA_APART", NULL, 0, 0, 1, offsetof(struct config, apart)},
    {"SOFT_HCA_FAIL_AT", NULL, 0, 0, 0xffffffffu, offsetof(struct config, fail_at)},
    {"SOFT_HCA_FAIL_DEVICES", NULL, 255, 1, 255, offsetof(struct config, fail_devices)},
    {"SOFT_HCA_FAIL", "request port path adapter create connect", FAIL_REQUEST, 0, 0,
     offsetof(struct config, fail)},
    {"SOFT_HCA_FAIL_VALUE", NULL, 0, 0, 0xffffffffu, offsetof(struct config, fail_value)},
    {"SOFT_HCA_SLOW", NULL, 0, 0, 255, offsetof(struct config, slow)},
    {"SOFT_HCA_GPU", "any dmabuf peermem none", GPU_ANY, 0, 0, offsetof(struct config, gpu)},
    {"SOFT_HCA_ENGINE", "cpu gpu other", ENGINE_CPU, 0, 0, offsetof(struct config, engine)},
    {"SOFT_HCA_RING_KIB", NULL, 512, 64, 65536, offsetof(struct config, ring_kib)},
    {"SOFT_HCA_ADDRESS", TEXT, 0, 0, 0, offsetof(struct config, address)},
    {"SOFT_HCA_ICRC", "ignore check", 0, 0, 0, offsetof(struct config, check_icrc)},
    {"SOFT_HCA_CAPTURE", TEXT, 0, 0, 0, offsetof(struct config, capture)},
};
enum { VARIABLES = sizeof variables / sizeof *variables };

static bool choose_word(const struct variable *v, const char *text, unsigned *out)
{
    size_t length = strlen(text);
    unsigned i = 0;
    for (const char *w = v->words; *w; i++) {
        size_t n = strcspn(w, " ");
        if (n == length && !strncmp(w, text, n)) {
            *out = i;
            return true;
        }
        w += n + (w[n] == ' ');
    }
    fprintf(stderr, "soft HCA: %s=%s is none of: %s\n", v->name, text, v->words);
    return false;
}

static bool read_number(const struct variable *v, const char *text, unsigned *out)
{
    char *end;
    errno = 0;
    unsigned long n = strtoul(text, &end, 10);
    if (errno || end == text || *end || *text == '-' || n < v->least || n > v->most) {
        fprintf(stderr, "soft HCA: %s=%s is not a number from %u to %u\n", v->name, text, v->least,
                v->most);
        return false;
    }
    *out = (unsigned)n;
    return true;
}

static bool known(const char *entry)
{
    size_t length = strcspn(entry, "=");
    for (unsigned i = 0; i < VARIABLES; i++)
        if (strlen(variables[i].name) == length && !strncmp(entry, variables[i].name, length))
            return true;
    fprintf(stderr, "soft HCA: unknown variable %.*s; known are", (int)length, entry);
    for (unsigned i = 0; i < VARIABLES; i++)
        fprintf(stderr, " %s", variables[i].name);
    fputc('\n', stderr);
    return false;
}

/* Reads one address; 0: it is none. */
static uint32_t read_address(const char *text)
{
    uint8_t ip[16] = {[10] = 0xff, [11] = 0xff};
    if (!strcmp(text, "lo"))
        return CONFIG_LOOPBACK;
    if (inet_pton(AF_INET, text, ip + 12) != 1 && inet_pton(AF_INET6, text, ip) != 1)
        return 0;
    return address_of_ip(ip);
}

/* Reads IP addresses separated by commas, or "lo". */
static bool read_addresses(struct config *c)
{
    char one[ADDRESS_TEXT + 1];
    if (c->address && c->link != LINK_ROCE) {
        fprintf(stderr, "soft HCA: SOFT_HCA_ADDRESS is for SOFT_HCA_LINK=roce, which is not set\n");
        return false;
    }
    for (const char *at = c->address; at && *at;) {
        size_t n = strcspn(at, ",");
        snprintf(one, sizeof one, "%.*s", (int)n, at);
        uint32_t address = n < sizeof one ? read_address(one) : 0;
        if (!address) {
            fprintf(stderr,
                    "soft HCA: SOFT_HCA_ADDRESS: \"%.*s\" is not an IPv4 address, an IPv6 address "
                    "that is not link-local, or lo\n",
                    (int)n, at);
            return false;
        }
        if (c->address_count == CONFIG_ADDRESSES) {
            fprintf(stderr, "soft HCA: SOFT_HCA_ADDRESS has more than %d addresses\n",
                    CONFIG_ADDRESSES);
            return false;
        }
        c->addresses[c->address_count++] = address;
        at += n + (at[n] == ',');
    }
    return true;
}

static bool read_value(const struct variable *v, const char *text)
{
    void *out = (char *)&values + v->offset;
    if (v->words == TEXT) {
        *(const char **)out = text;
        return true;
    }
    return v->words ? choose_word(v, text, out) : read_number(v, text, out);
}

static void read_all(void)
{
    values_good = true;
    for (char **e = environ; e && *e; e++)
        if (!strncmp(*e, "SOFT_HCA_", 9))
            values_good &= known(*e);
    for (unsigned i = 0; i < VARIABLES; i++) {
        const struct variable *v = &variables[i];
        const char *text = getenv(v->name);
        if (v->words != TEXT)
            *(unsigned *)((char *)&values + v->offset) = v->standard;
        if (text && *text)
            values_good &= read_value(v, text);
    }
    values_good &= read_addresses(&values);
    if (values.fail_value && (values.fail == FAIL_REQUEST || values.fail >= FAIL_CREATE)) {
        fprintf(stderr, "soft HCA: SOFT_HCA_FAIL_VALUE is for SOFT_HCA_FAIL=port, path or adapter, "
                        "which is not set\n");
        values_good = false;
    }
    /* A ring's size is a power of two. */
    while (values.ring_kib & (values.ring_kib - 1))
        values.ring_kib += values.ring_kib & -values.ring_kib;
}

const struct config *config_get(bool *good)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_all);
    if (good)
        *good = values_good;
    return &values;
}
