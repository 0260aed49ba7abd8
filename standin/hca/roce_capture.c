/* SPDX-License-Identifier: Apache-2.0 */
/* Writes datagrams as IPv4 packets to a pcap file. The IPv4 header is what the kernel sends, except
 * for the time to live and the UDP checksum, which is left out. */
#include "roce_capture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAGIC_NS = 0xa1b23c4d, LINK_IPV4 = 228, LONGEST = 65536 };

struct roce_capture {
    FILE *file;
};

struct roce_capture *roce_capture_open(const char *name, unsigned device)
{
    char path[4096];
    if (!name)
        return NULL;
    struct roce_capture *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    snprintf(path, sizeof path, "%s.%ld.%u.pcap", name, (long)getpid(), device);
    c->file = fopen(path, "we");
    if (!c->file) {
        fprintf(stderr, "soft HCA: cannot capture packets: %s: %s (SOFT_HCA_CAPTURE)\n", path,
                strerror(errno));
        free(c);
        return NULL;
    }
    /* Version 2.4, no time zone, no accuracy. */
    uint32_t head[6] = {MAGIC_NS, 2 | 4 << 16, 0, 0, LONGEST, LINK_IPV4};
    fwrite(head, sizeof head, 1, c->file);
    return c;
}

void roce_capture_close(struct roce_capture *c)
{
    if (!c)
        return;
    fclose(c->file);
    free(c);
}

void roce_capture_add(struct roce_capture *c, const struct roce_route *route, const uint8_t *bytes,
                      uint32_t n)
{
    struct timespec t;
    uint8_t head[ROCE_PSEUDO_BYTES];
    uint32_t sum = 0;
    clock_gettime(CLOCK_REALTIME, &t);
    roce_pseudo_header(route, n, head);
    for (unsigned i = 0; i < 20; i += 2)
        sum += (uint32_t)head[i] << 8 | head[i + 1];
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~(sum + (sum >> 16)); /* the sum of both halves may carry again */
    head[10] = (uint8_t)(sum >> 8);
    head[11] = (uint8_t)sum;
    uint32_t record[4] = {(uint32_t)t.tv_sec, (uint32_t)t.tv_nsec, (uint32_t)sizeof head + n,
                          (uint32_t)sizeof head + n};
    fwrite(record, sizeof record, 1, c->file);
    fwrite(head, sizeof head, 1, c->file);
    fwrite(bytes, n, 1, c->file);
    fflush(c->file);
}
