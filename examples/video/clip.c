/* SPDX-License-Identifier: Apache-2.0 */
/* A clip: frames in a file of the format YUV4MPEG2 (.y4m), which ffmpeg and mplayer write and play,
 * read directly into memory that kernels read. clip_make() writes the number and checksum of each
 * frame into the comment that the format allows there: "FRAME XWEFT=17:8f03...". Missing or changed
 * frames are therefore detected. */
#include "frame.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { LINE = 512, MOST_EDGE = 16384 };

struct clip {
    struct source source;
    FILE *file;
    const char *path;
    unsigned char **buffers;
    uint32_t buffer_count;
    uint64_t frames; /* frames read so far */
};

/* Chroma subsampling: each of two planes has one sample for this many pixels. */
static const struct chroma {
    const char *name;
    uint32_t across, down; /* 0: no chroma */
} chromas[] = {{"420jpeg", 2, 2}, {"420paldv", 2, 2}, {"420mpeg2", 2, 2}, {"420", 2, 2},
               {"422", 2, 1},     {"444", 1, 1},      {"411", 4, 1},      {"mono", 0, 0}};

static size_t bytes_of(const struct chroma *c, uint32_t width, uint32_t height)
{
    size_t luma = (size_t)width * height;
    if (!c->across)
        return luma;
    size_t columns = (width + c->across - 1) / c->across, rows = (height + c->down - 1) / c->down;
    return luma + 2 * columns * rows;
}

static const struct chroma *find_chroma(const char *name)
{
    for (size_t i = 0; i < sizeof chromas / sizeof chromas[0]; i++)
        if (strcmp(chromas[i].name, name) == 0)
            return &chromas[i];
    return NULL;
}

/* Reads a line without its newline. Returns 1; 0 at the end of the file; -1 if it is too long or
 * has no newline. */
static int read_line(FILE *file, char line[LINE])
{
    int c = 0;
    size_t n = 0;
    while (n < LINE - 1 && (c = getc(file)) != EOF && c != '\n')
        line[n++] = (char)c;
    line[n] = '\0';
    if (c == EOF && n == 0)
        return 0;
    return c == '\n' ? 1 : -1;
}

/* Parses a whole number up to `most` with nothing after it; returns 0 if it is invalid. */
static uint32_t number_in(const char *text, uint32_t most)
{
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && !*end && !errno && value <= most ? (uint32_t)value
                                                                                : 0;
}

static bool parse_header(const char *path, char *line, struct picture *picture)
{
    char *rest, *word = strtok_r(line, " ", &rest), chroma[32] = "420";
    if (!word || strcmp(word, "YUV4MPEG2") != 0)
        return complain(
            "%s is not a clip: it does not begin with YUV4MPEG2. ffmpeg makes one: "
            "ffmpeg -i FILM -pix_fmt yuv420p CLIP.y4m; and so does video --make CLIP.y4m",
            path);
    while ((word = strtok_r(NULL, " ", &rest))) {
        if (word[0] == 'W')
            picture->width = number_in(word + 1, MOST_EDGE);
        else if (word[0] == 'H')
            picture->height = number_in(word + 1, MOST_EDGE);
        else if (word[0] == 'C')
            snprintf(chroma, sizeof chroma, "%s", word + 1);
    }
    if (!picture->width || !picture->height)
        return complain("%s: its first line gives no width (W) and height (H) from 1 to %d", path,
                        MOST_EDGE);
    const struct chroma *found = find_chroma(chroma);
    if (!found)
        return complain("%s: its pixels are of format C%s, which is not supported; supported are "
                        "C420 "
                        "(420jpeg, 420paldv, 420mpeg2), C422, C444, C411 and Cmono, of 8 bits: "
                        "ffmpeg -i CLIP -pix_fmt yuv420p OTHER.y4m",
                        path, chroma);
    snprintf(picture->format, sizeof picture->format, "C%.14s", chroma);
    picture->stride = picture->width;
    picture->step = 1;
    picture->bytes = bytes_of(found, picture->width, picture->height);
    return true;
}

/* Parses "FRAME", with number and checksum if clip_make() has written them. */
static bool parse_frame(struct clip *clip, char *line, struct frame *frame)
{
    char *rest, *word = strtok_r(line, " ", &rest);
    if (!word || strcmp(word, "FRAME") != 0)
        return complain("%s: no frame begins where number %llu should; the file is damaged there",
                        clip->path, (unsigned long long)clip->frames);
    while ((word = strtok_r(NULL, " ", &rest))) {
        unsigned long long sequence, checksum;
        if (sscanf(word, "XWEFT=%llu:%llx", &sequence, &checksum) != 2)
            continue;
        frame->sequence = sequence;
        frame->checksum = checksum;
        frame->has_checksum = true;
    }
    return true;
}

static enum source_next clip_next(struct source *source, struct frame *frame)
{
    struct clip *clip = (struct clip *)source;
    char line[LINE];
    int buffer = (int)(clip->frames % clip->buffer_count);
    *frame = (struct frame){.buffer = buffer,
                            .data = clip->buffers[buffer],
                            .sequence = clip->frames,
                            .captured_ns = now_ns()};
    int got = read_line(clip->file, line);
    if (got == 0 && !ferror(clip->file))
        return SOURCE_END;
    if (got < 0 && !feof(clip->file))
        line[0] = '\0'; /* not a line of this format */
    if (!ferror(clip->file) && !parse_frame(clip, line, frame))
        return SOURCE_FAILED;
    size_t size = source->picture.bytes, read = fread(clip->buffers[buffer], 1, size, clip->file);
    if (read < size) {
        const char *why = ferror(clip->file) ? strerror(errno) : "the file is truncated";
        complain("%s: frame %llu has %zu of its %zu bytes: %s", clip->path,
                 (unsigned long long)clip->frames, read, size, why);
        return SOURCE_FAILED;
    }
    clip->frames++;
    return SOURCE_FRAME;
}

static bool clip_release_frame(struct source *source, const struct frame *frame)
{
    return true;
}

static void clip_close(struct source *source)
{
    struct clip *clip = (struct clip *)source;
    if (clip->file != stdin)
        fclose(clip->file);
    free(clip->buffers); /* the frames belong to the job */
    free(clip);
}

static bool prepare_buffers(struct clip *clip, const struct source_settings *settings)
{
    char line[LINE];
    struct source *source = &clip->source;
    if (read_line(clip->file, line) <= 0)
        line[0] = '\0';
    if (ferror(clip->file))
        return complain("%s: %s", clip->path, strerror(errno));
    if (!parse_header(clip->path, line, &source->picture))
        return false;
    clip->buffer_count = settings->buffers;
    clip->buffers = calloc(settings->buffers, sizeof *clip->buffers);
    for (uint32_t i = 0; clip->buffers && i < settings->buffers; i++)
        if (!(clip->buffers[i] = frame_memory(settings->job, source->picture.bytes)))
            return false;
    snprintf(source->name, sizeof source->name, "%s: a clip", clip->path);
    snprintf(source->memory, sizeof source->memory,
             "read from the file into the host heap%s, %u buffers of %zu bytes in turn",
             settings->gpu ? ", pinned, which the GPU reads" : ", which the kernels read",
             settings->buffers, source->picture.bytes);
    snprintf(source->moment, sizeof source->moment, "the beginning of its read");
    return clip->buffers || complain("no memory for %u buffers", settings->buffers);
}

struct source *clip_open(const char *path, const struct source_settings *settings)
{
    static const struct source_ops ops = {clip_next, clip_release_frame, clip_close};
    struct stat about;
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    if (!file || fstat(fileno(file), &about)) {
        complain("%s: %s. Without a camera, make a clip: video --make %s", path, strerror(errno),
                 path);
        return NULL;
    }
    struct clip *clip = S_ISDIR(about.st_mode) ? NULL : calloc(1, sizeof *clip);
    if (!clip) {
        complain("%s is a folder; give a camera (/dev/video0) or a clip (.y4m)", path);
        fclose(file);
        return NULL;
    }
    clip->source.ops = &ops;
    clip->file = file;
    clip->path = path;
    if (prepare_buffers(clip, settings))
        return &clip->source;
    clip_close(&clip->source);
    return NULL;
}

/* ------------------------------------------------------------------------------- writing a clip */

/* Draws a moving gradient, a block that moves the other way, and changing colours. */
static void draw_frame(unsigned char *data, uint32_t width, uint32_t height, uint32_t number)
{
    size_t chroma = bytes_of(&chromas[0], width, height);
    uint32_t left = (5 * number) % width, top = (3 * number) % height;
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++) {
            bool in_block = x - left < width / 4 && y - top < height / 3;
            data[(size_t)y * width + x] =
                (unsigned char)(in_block ? 235 - number % 64 : 16 + (x + 2 * y + 7 * number) % 200);
        }
    for (size_t i = (size_t)width * height; i < chroma; i++)
        data[i] = (unsigned char)(64 + (i / 64 + 11 * number) % 128);
}

bool clip_make(const char *path, uint32_t width, uint32_t height, uint32_t frames)
{
    size_t bytes = bytes_of(&chromas[0], width, height);
    unsigned char *data = malloc(bytes);
    FILE *file = data ? fopen(path, "wb") : NULL;
    if (!file) {
        complain("%s: %s", path, data ? strerror(errno) : "no memory for a frame");
        free(data);
        return false;
    }
    fprintf(file, "YUV4MPEG2 W%u H%u F30:1 Ip A1:1 C420jpeg\n", width, height);
    for (uint32_t i = 0; i < frames && !ferror(file); i++) {
        draw_frame(data, width, height, i);
        fprintf(file, "FRAME XWEFT=%u:%016llx\n", i, (unsigned long long)checksum_of(data, bytes));
        fwrite(data, 1, bytes, file);
    }
    free(data);
    bool failed = ferror(file);
    if (fclose(file) || failed)
        return complain("%s: could not be written: %s; the file is not a complete clip", path,
                        strerror(errno));
    return true;
}
