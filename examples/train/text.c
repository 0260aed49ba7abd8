/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"
#include "../check.h"

#include <errno.h>
#include <string.h>

#include <weft_device.h>

uint32_t text_crc32c(const void *data, size_t bytes)
{
    const unsigned char *at = data;
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

/* Reads the file, at most TEXT_MOST bytes. Returns NULL with a message if it is too short. */
static uint8_t *read_file(const char *path, uint64_t least, uint64_t *length)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = malloc(TEXT_MOST);
    errno = file && !bytes ? ENOMEM : errno;
    *length = file && bytes ? fread(bytes, 1, TEXT_MOST, file) : 0;
    bool good = file && bytes && !ferror(file);
    if (!good)
        fprintf(stderr, "train: %s: %s\n", path, strerror(errno));
    else if (*length < least)
        fprintf(stderr,
                "train: %s has %llu characters; at least %llu are needed, 2 more than --context\n",
                path, (unsigned long long)*length, (unsigned long long)least);
    if (file)
        fclose(file);
    if (good && *length >= least)
        return bytes;
    free(bytes);
    *length = 0;
    return NULL;
}

/* Numbers the characters in the order of their codes. */
static uint32_t number_characters(uint8_t *bytes, uint64_t length, uint8_t letters[256])
{
    uint8_t ids[256] = {0};
    uint32_t count = 0;
    for (uint64_t i = 0; i < length; i++)
        ids[bytes[i]] = 1;
    for (int code = 0; code < 256; code++)
        if (ids[code]) {
            letters[count] = (uint8_t)code;
            ids[code] = (uint8_t)count++;
        }
    for (uint64_t i = 0; i < length; i++)
        bytes[i] = ids[bytes[i]];
    return count;
}

bool text_read(weft_job *job, const char *path, uint64_t least, struct text *text)
{
    uint8_t *bytes = NULL;
    void *memory;
    weft_team *world = weft_team_world(job);
    CHECK(job, weft_alloc(job, WEFT_HOST, sizeof *text, 0, 0, &memory));
    struct text *shared = memory;
    *text = (struct text){0};
    if (weft_my_pe(job) == 0) {
        bytes = read_file(path, least, &text->length);
        text->crc32c = text_crc32c(bytes, text->length);
        text->vocabulary = number_characters(bytes, text->length, text->letters);
        *shared = *text;
    }
    CHECK(job, weft_broadcast(world, shared, shared, sizeof *shared, 0));
    *text = *shared;
    CHECK(job, weft_free(job, memory));
    if (!text->length)
        return false;
    CHECK(job, weft_alloc(job, weft_device_kind(job), text->length, 0, 0, &memory));
    text->ids = memory;
    for (int pe = 0; bytes && pe < weft_n_pes(job); pe++)
        CHECK(job, weft_put(weft_default_ctx(job), memory, bytes, text->length, pe));
    CHECK(job, weft_barrier(world));
    free(bytes);
    return true;
}

weft_status text_free(weft_job *job, struct text *text)
{
    return weft_free(job, text->ids);
}
