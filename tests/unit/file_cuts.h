/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that hold for every cut of a transfer into pieces, for the unit test and the fuzz
 * target. */
#ifndef WEFT_TESTS_FILE_CUTS_H
#define WEFT_TESTS_FILE_CUTS_H

#include "file/plan.h"

/* Returns NULL, or what is wrong with the cuts. *count: number of pieces. */
static inline const char *wrong_cut(const struct file_shape *s, const struct file_cut *c, size_t at)
{
    if (c->at != at)
        return "the piece does not begin where the last one ended";
    if (c->bytes == 0 || c->bytes > s->bytes - at)
        return "the piece is empty, or runs past the end of the transfer";
    if (c->io_bytes == 0 || c->io_bytes > s->chunk)
        return "the request is empty, or larger than a chunk and its buffer";
    if (c->direct && !s->direct)
        return "past the page cache though that is refused";
    if (c->direct && (c->io_offset % s->alignment || c->io_bytes % s->alignment))
        return "a direct request is not aligned in the file";
    if (c->direct && !c->buffer && (s->address + at) % s->memory_alignment)
        return "a direct request is not aligned in memory";
    if (!c->buffer && (!s->in_place || c->skip || c->io_bytes != c->bytes))
        return "a request in place is not the piece";
    if (c->io_offset + c->skip != s->offset + at || c->skip + c->bytes > c->io_bytes)
        return "the piece does not lie in its request";
    if (s->write && (c->skip || c->io_bytes != c->bytes))
        return "a write touches what was not given to it";
    return 0;
}

static inline const char *wrong_cuts(const struct file_shape *s, size_t *count)
{
    const char *wrong = 0;
    *count = 0;
    for (size_t at = 0; at < s->bytes && !wrong; ++*count) {
        struct file_cut c = file_cut_at(s, at);
        wrong = wrong_cut(s, &c, at);
        at += c.bytes;
    }
    return wrong;
}

#endif
