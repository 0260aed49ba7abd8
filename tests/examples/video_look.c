/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of examples/video compared with the CPU on frames of every layout: padded rows, pixels
 * of several bytes, brightness at an offset, additional colour planes, sizes that end within 16 and
 * within 8 bytes, pictures with flat areas and with noise. */
#include "look.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static weft_job *job;
static uint32_t state = 1;

static void must(weft_status status, int line)
{
    if (!status)
        return;
    fprintf(stderr, "line %d: %s: %s\n", line, weft_status_name(status), weft_last_error());
    weft_abort(job, 1);
}
#define MUST(call) must((call), __LINE__)

static uint32_t below(uint32_t n)
{
    state = state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(state >> 8) * n >> 24);
}

static void fill(unsigned char *data, size_t bytes)
{
    uint32_t flat = below(3) ? 1 + below(90) : 1, left = 0;
    unsigned char value = 0;
    for (size_t i = 0; i < bytes; i++, left--) {
        if (!left) {
            value = (unsigned char)below(256);
            left = 1 + below(flat);
        }
        data[i] = value;
    }
}

static struct picture random_picture(void)
{
    struct picture p = {
        .width = 1 + below(70), .height = 1 + below(40), .luma = below(3), .step = 1 + below(4)};
    p.stride = p.luma + p.width * p.step + (below(2) ? below(40) : 0);
    p.bytes = (size_t)p.stride * p.height + (below(2) ? below(500) : 0);
    return p;
}

/* Computed byte by byte from the definition, without code of the program. */
static int compare(const struct picture *p, const unsigned char *data,
                   const struct scan_result *seen)
{
    uint32_t pixels[BRIGHTNESSES] = {0};
    for (uint32_t y = 0; y < p->height; y++)
        for (uint32_t x = 0; x < p->width; x++)
            pixels[data[p->luma + (size_t)y * p->stride + (size_t)x * p->step]]++;
    if (memcmp(pixels, seen->pixels, sizeof pixels) == 0 &&
        seen->checksum == checksum_of(data, p->bytes))
        return 0;
    fprintf(stderr, "%u x %u, luma %u, stride %u, step %u, %zu bytes: %s\n", p->width, p->height,
            p->luma, p->stride, p->step, p->bytes,
            memcmp(pixels, seen->pixels, sizeof pixels) ? "other pixels" : "another checksum");
    return 1;
}

/* The checksum changes if any two words of a frame are exchanged or any byte is altered. */
static int tells(unsigned char *data, size_t bytes)
{
    uint64_t before = checksum_of(data, bytes), words[2];
    size_t a = 8 * below((uint32_t)(bytes / 8)), b = 8 * below((uint32_t)(bytes / 8));
    memcpy(&words[0], data + a, 8);
    memcpy(&words[1], data + b, 8);
    memcpy(data + a, &words[1], 8);
    memcpy(data + b, &words[0], 8);
    int wrong = words[0] != words[1] && checksum_of(data, bytes) == before;
    data[below((uint32_t)bytes)] ^= (unsigned char)(1 << below(8));
    return wrong || checksum_of(data, bytes) == before;
}

int main(void)
{
    enum { ROUNDS = 60, MOST = 70 * 4 * 45 + 45 * 40 + 600 };
    int faults = 0;
    struct scan *scan;
    const struct scan_result *seen;
    void *memory;
    MUST(weft_init(&job, NULL));
    MUST(scan_create(job, &scan));
    MUST(weft_alloc(job, WEFT_HOST, MOST, 4096, 0, &memory));
    for (int i = 0; i < ROUNDS; i++) {
        struct picture p = random_picture();
        fill(memory, MOST);
        MUST(scan_frame(scan, &p, memory, &seen));
        faults += compare(&p, memory, seen);
    }
    for (int i = 0; i < ROUNDS; i++)
        faults += tells(memory, 4001);
    MUST(weft_free(job, memory));
    MUST(scan_destroy(job, scan));
    MUST(weft_finalize(job));
    return faults != 0;
}
