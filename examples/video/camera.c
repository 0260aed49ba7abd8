/* SPDX-License-Identifier: Apache-2.0 */
/* A camera: capture by V4L2 into memory that kernels read. Ways to get frames there, best first:
 *
 *     userptr  the driver writes into blocks of the job's host heap, which is pinned for the GPU
 *     mmap     the driver's own buffers, mapped here and registered, so that the GPU reads them
 *     copy     the driver's own buffers, copied by the CPU into the host heap, if neither works
 *
 * Before a buffer goes to the driver, marks are written into some of its rows. A mark that is still
 * there afterwards shows that the frame was not written completely. Source: Linux media
 * documentation, part 2, "Video for Linux API". */
#include "frame.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/videodev2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/gpu.h>

enum { MARKS = 16, PATIENCE_MS = 5000, MOMENT = sizeof(((struct source *)0)->moment) };

struct camera_buffer {
    unsigned char *driver; /* memory that the driver writes */
    unsigned char *seen;   /* memory that kernels read */
    size_t mapped;         /* bytes to unmap, 0: none */
    bool registered;
};

struct camera {
    struct source source;
    weft_job *job;
    int fd;
    const char *path;
    struct v4l2_pix_format format;
    enum v4l2_memory memory;
    struct camera_buffer *buffers;
    uint32_t buffer_count;
    bool copies, streams;
};

static const uint64_t mark = 0x5ca1ab1e0ddba11u;

static int camera_ioctl(const struct camera *camera, unsigned long request, void *argument)
{
    int result;
    do
        result = ioctl(camera->fd, request, argument);
    while (result < 0 && errno == EINTR);
    return result;
}

/* ------------------------------------------------------------------------------- formats */

/* Byte offset of the luma in a row, bytes from pixel to pixel, and whether chroma planes with half
 * as many rows follow. For RGB the green component counts as luma. */
static const struct format {
    uint32_t fourcc, luma, step;
    bool chroma;
} formats[] = {{V4L2_PIX_FMT_YUYV, 0, 2, false}, {V4L2_PIX_FMT_UYVY, 1, 2, false},
               {V4L2_PIX_FMT_NV12, 0, 1, true},  {V4L2_PIX_FMT_YUV420, 0, 1, true},
               {V4L2_PIX_FMT_GREY, 0, 1, false}, {V4L2_PIX_FMT_RGB24, 1, 3, false},
               {V4L2_PIX_FMT_BGR24, 1, 3, false}};
enum { FORMATS = sizeof formats / sizeof formats[0] };

static const struct format *find_format(uint32_t fourcc)
{
    for (size_t i = 0; i < FORMATS; i++)
        if (formats[i].fourcc == fourcc)
            return &formats[i];
    return NULL;
}

static void format_name(uint32_t fourcc, char text[5])
{
    for (int i = 0; i < 4; i++) {
        char c = (char)(fourcc >> 8 * i & 0x7f);
        text[i] = c > ' ' ? c : '_';
    }
    text[4] = '\0';
}

static void append_text(char *list, size_t size, const char *word)
{
    size_t used = strlen(list);
    snprintf(list + used, size - used, "%s%s", used ? ", " : "", word);
}

static void list_known(char *list, size_t size)
{
    char name[5];
    list[0] = '\0';
    for (size_t i = 0; i < FORMATS; i++) {
        format_name(formats[i].fourcc, name);
        append_text(list, size, name);
    }
}

/* Lists the formats that the device offers; returns the first known one, or 0. */
static uint32_t list_offered(const struct camera *camera, char *list, size_t size)
{
    struct v4l2_fmtdesc at = {.type = V4L2_BUF_TYPE_VIDEO_CAPTURE};
    uint32_t first = 0;
    char name[5];
    list[0] = '\0';
    for (; camera_ioctl(camera, VIDIOC_ENUM_FMT, &at) == 0; at.index++) {
        format_name(at.pixelformat, name);
        append_text(list, size, name);
        if (!first && find_format(at.pixelformat))
            first = at.pixelformat;
    }
    return first;
}

static bool refuse_format(const struct camera *camera, const char *wanted)
{
    char known[64], offered[256];
    list_known(known, sizeof known);
    list_offered(camera, offered, sizeof offered);
    return complain(
        "%s: pixels of format %s are not available; the device offers %s; supported here: %s",
        camera->path, wanted, offered[0] ? offered : "none", known);
}

/* Sets the layout of the frames that the device has accepted. */
static void set_layout(struct camera *camera, const struct format *format)
{
    const struct v4l2_pix_format *pix = &camera->format;
    struct picture *p = &camera->source.picture;
    uint32_t row = pix->width * format->step;
    format_name(pix->pixelformat, p->format);
    p->width = pix->width;
    p->height = pix->height;
    p->luma = format->luma;
    p->step = format->step;
    p->stride = pix->bytesperline > row ? pix->bytesperline : row;
    p->bytes = (size_t)p->stride * p->height;
    if (format->chroma)
        p->bytes += (size_t)p->stride * ((p->height + 1) / 2);
    if (p->bytes > pix->sizeimage)
        p->bytes = pix->sizeimage;
}

static bool set_format(struct camera *camera, const struct source_settings *settings)
{
    struct v4l2_format wanted = {.type = V4L2_BUF_TYPE_VIDEO_CAPTURE};
    char offered[256];
    if (camera_ioctl(camera, VIDIOC_G_FMT, &wanted) < 0)
        return complain("%s: VIDIOC_G_FMT: %s", camera->path, strerror(errno));
    struct v4l2_pix_format *pix = &wanted.fmt.pix;
    if (settings->format) {
        if (strlen(settings->format) != 4)
            return refuse_format(camera, settings->format);
        memcpy(&pix->pixelformat, settings->format, 4);
    } else if (!find_format(pix->pixelformat)) {
        pix->pixelformat = list_offered(camera, offered, sizeof offered);
    }
    uint32_t fourcc = pix->pixelformat;
    const struct format *format = find_format(fourcc);
    if (!format)
        return refuse_format(camera, settings->format ? settings->format : "any known kind");
    if (settings->width) {
        pix->width = settings->width;
        pix->height = settings->height;
    }
    pix->bytesperline = pix->sizeimage = 0;
    if (camera_ioctl(camera, VIDIOC_S_FMT, &wanted) < 0)
        return errno == EBUSY
                   ? complain("%s is in use by another program; end that one first", camera->path)
                   : complain("%s: VIDIOC_S_FMT: %s", camera->path, strerror(errno));
    char name[5];
    format_name(fourcc, name);
    if (pix->pixelformat != fourcc)
        return refuse_format(camera, name);
    camera->format = *pix;
    set_layout(camera, format);
    return true;
}

/* ------------------------------------------------------------------------------- buffers */

/* Returns the address of mark i: alternately at the begin and the end of a row. NULL if rows are
 * too short. */
static unsigned char *mark_place(const struct camera *camera, unsigned char *data, uint32_t i)
{
    const struct picture *p = &camera->source.picture;
    size_t row = (size_t)p->width * p->step, y = (size_t)i * (p->height - 1) / (MARKS - 1);
    if (row < sizeof mark)
        return NULL;
    return data + y * p->stride + (i % 2 ? row - sizeof mark : 0);
}

static bool queue_buffer(struct camera *camera, uint32_t index)
{
    struct camera_buffer *buffer = &camera->buffers[index];
    struct v4l2_buffer at = {
        .type = V4L2_BUF_TYPE_VIDEO_CAPTURE, .memory = camera->memory, .index = index};
    if (camera->memory == V4L2_MEMORY_USERPTR) {
        at.m.userptr = (unsigned long)buffer->driver;
        at.length = camera->format.sizeimage;
    }
    for (uint32_t i = 0; i < MARKS && mark_place(camera, buffer->driver, i); i++)
        memcpy(mark_place(camera, buffer->driver, i), &mark, sizeof mark);
    return camera_ioctl(camera, VIDIOC_QBUF, &at) == 0;
}

static bool queue_all(struct camera *camera)
{
    for (uint32_t i = 0; i < camera->buffer_count; i++)
        if (!queue_buffer(camera, i))
            return false;
    return true;
}

static void drop_buffers(struct camera *camera)
{
    struct v4l2_requestbuffers none = {.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
                                       .memory = camera->memory};
    for (uint32_t i = 0; i < camera->buffer_count; i++) {
        struct camera_buffer *buffer = &camera->buffers[i];
        if (buffer->registered)
            weft_unregister(camera->job, buffer->driver);
        if (buffer->mapped)
            munmap(buffer->driver, buffer->mapped);
    }
    free(camera->buffers);
    camera->buffers = NULL;
    camera->buffer_count = 0;
    camera_ioctl(camera, VIDIOC_REQBUFS, &none);
}

/* Requests buffers of that kind from the driver. On failure `why` says what failed. */
static bool request(struct camera *camera, enum v4l2_memory memory, uint32_t count, char why[160])
{
    struct v4l2_requestbuffers wanted = {
        .count = count, .type = V4L2_BUF_TYPE_VIDEO_CAPTURE, .memory = memory};
    camera->memory = memory;
    if (camera_ioctl(camera, VIDIOC_REQBUFS, &wanted) < 0) {
        snprintf(why, 160, "VIDIOC_REQBUFS: %s", strerror(errno));
        return false;
    }
    camera->buffers = calloc(wanted.count ? wanted.count : 1, sizeof *camera->buffers);
    camera->buffer_count = camera->buffers ? wanted.count : 0;
    if (camera->buffer_count)
        return true;
    snprintf(why, 160, "no buffer is available");
    return false;
}

static bool use_userptr(struct camera *camera, const struct source_settings *settings,
                        char why[160])
{
    if (!request(camera, V4L2_MEMORY_USERPTR, settings->buffers, why))
        return false;
    for (uint32_t i = 0; i < camera->buffer_count; i++) {
        struct camera_buffer *buffer = &camera->buffers[i];
        buffer->driver = buffer->seen = frame_memory(settings->job, camera->format.sizeimage);
        if (!buffer->driver) {
            snprintf(why, 160, "the host heap has no room");
            return false;
        }
    }
    if (queue_all(camera))
        return true;
    snprintf(why, 160, "VIDIOC_QBUF of a user pointer: %s", strerror(errno));
    return false;
}

static bool map_one(struct camera *camera, uint32_t index, char why[160])
{
    struct v4l2_buffer at = {
        .type = V4L2_BUF_TYPE_VIDEO_CAPTURE, .memory = V4L2_MEMORY_MMAP, .index = index};
    if (camera_ioctl(camera, VIDIOC_QUERYBUF, &at) < 0) {
        snprintf(why, 160, "VIDIOC_QUERYBUF: %s", strerror(errno));
        return false;
    }
    void *mapped =
        mmap(NULL, at.length, PROT_READ | PROT_WRITE, MAP_SHARED, camera->fd, (off_t)at.m.offset);
    if (mapped == MAP_FAILED) {
        snprintf(why, 160, "mmap of a buffer: %s", strerror(errno));
        return false;
    }
    camera->buffers[index].driver = camera->buffers[index].seen = mapped;
    camera->buffers[index].mapped = at.length;
    return true;
}

static bool map_all(struct camera *camera, const struct source_settings *settings, char why[160])
{
    if (!request(camera, V4L2_MEMORY_MMAP, settings->buffers, why))
        return false;
    for (uint32_t i = 0; i < camera->buffer_count; i++)
        if (!map_one(camera, i, why))
            return false;
    return true;
}

static bool use_mmap(struct camera *camera, const struct source_settings *settings, char why[160])
{
    if (!map_all(camera, settings, why))
        return false;
    for (uint32_t i = 0; settings->gpu && i < camera->buffer_count; i++) {
        struct camera_buffer *buffer = &camera->buffers[i];
        if (weft_register(settings->job, buffer->driver, buffer->mapped)) {
            snprintf(why, 160, "%.150s", weft_last_error());
            return false;
        }
        buffer->registered = true;
    }
    if (queue_all(camera))
        return true;
    snprintf(why, 160, "VIDIOC_QBUF: %s", strerror(errno));
    return false;
}

static bool use_copy(struct camera *camera, const struct source_settings *settings, char why[160])
{
    if (!map_all(camera, settings, why))
        return false;
    camera->copies = true;
    for (uint32_t i = 0; i < camera->buffer_count; i++)
        if (!(camera->buffers[i].seen =
                  frame_memory(settings->job, camera->source.picture.bytes))) {
            snprintf(why, 160, "the host heap has no room");
            return false;
        }
    if (queue_all(camera))
        return true;
    snprintf(why, 160, "VIDIOC_QBUF: %s", strerror(errno));
    return false;
}

/* Ways to memory that both the driver and the kernels can access, best first. */
static const struct way {
    const char *name, *words;
    bool (*take)(struct camera *camera, const struct source_settings *settings, char why[160]);
} ways[] = {{"userptr", "written by the driver into the host heap (user pointers)", use_userptr},
            {"mmap", "the driver's own buffers, mapped", use_mmap},
            {"copy", "copied by the CPU from the driver's buffers into the host heap", use_copy}};
enum { WAYS = sizeof ways / sizeof ways[0] };

static bool choose_memory(struct camera *camera, const struct source_settings *settings)
{
    struct source *source = &camera->source;
    bool any = strcmp(settings->memory, "auto") == 0;
    char refused[400] = "", why[160];
    for (size_t i = 0; i < WAYS; i++) {
        if (!any && strcmp(settings->memory, ways[i].name) != 0)
            continue;
        if (ways[i].take(camera, settings, why)) {
            snprintf(source->memory, sizeof source->memory, "%s, %s; %u buffers of %zu bytes%s%s",
                     ways[i].words,
                     settings->gpu ? "pinned, which the GPU reads" : "which the kernels read",
                     camera->buffer_count, source->picture.bytes, refused[0] ? "; not " : "",
                     refused);
            return true;
        }
        drop_buffers(camera);
        size_t used = strlen(refused);
        snprintf(refused + used, sizeof refused - used, "%s%s (%s)", used ? ", not " : "",
                 ways[i].name, why);
    }
    return complain("%s: no memory for frames: not %s%s", camera->path, refused,
                    any ? "" : "; --memory auto uses what works");
}

/* ------------------------------------------------------------------------------- the device */

/* Lists the cameras that exist. */
static void list_cameras(char *list, size_t size)
{
    glob_t found = {0};
    list[0] = '\0';
    if (glob("/dev/video*", 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++) {
            struct camera at = {.fd = open(found.gl_pathv[i], O_RDWR | O_NONBLOCK | O_CLOEXEC)};
            struct v4l2_capability is = {0};
            if (at.fd >= 0 && camera_ioctl(&at, VIDIOC_QUERYCAP, &is) == 0 &&
                is.device_caps & V4L2_CAP_VIDEO_CAPTURE)
                append_text(list, size, found.gl_pathv[i]);
            if (at.fd >= 0)
                close(at.fd);
        }
    globfree(&found);
}

static bool refuse_device(const char *path, const char *why)
{
    char cameras[256];
    list_cameras(cameras, sizeof cameras);
    if (cameras[0])
        return complain("%s %s; cameras here: %s", path, why, cameras);
    return complain("%s %s; there is no camera here. Without one, make a clip: video --make "
                    "clip.y4m, then video clip.y4m",
                    path, why);
}

static bool open_device(struct camera *camera)
{
    struct v4l2_capability is = {0};
    char why[128];
    camera->fd = open(camera->path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (camera->fd < 0 && errno == EACCES)
        return complain("%s: %s; cameras are for the group video: usermod -aG video USER",
                        camera->path, strerror(errno));
    if (camera->fd < 0) {
        snprintf(why, sizeof why, "cannot be opened: %s", strerror(errno));
        return refuse_device(camera->path, why);
    }
    if (camera_ioctl(camera, VIDIOC_QUERYCAP, &is) < 0)
        return refuse_device(camera->path, "is not a V4L2 device");
    uint32_t can = is.capabilities & V4L2_CAP_DEVICE_CAPS ? is.device_caps : is.capabilities;
    if (can & V4L2_CAP_VIDEO_CAPTURE_MPLANE && !(can & V4L2_CAP_VIDEO_CAPTURE))
        return refuse_device(camera->path,
                             "captures separate planes (multi-planar), which this program does "
                             "not support");
    if (!(can & V4L2_CAP_VIDEO_CAPTURE))
        return refuse_device(camera->path, "captures no pictures");
    if (!(can & V4L2_CAP_STREAMING))
        return refuse_device(camera->path, "supports only read()");
    snprintf(camera->source.name, sizeof camera->source.name, "%s: %.32s (driver %.16s)",
             camera->path, (const char *)is.card, (const char *)is.driver);
    return true;
}

/* Sets the frame rate. If the driver cannot, it keeps its own rate; the report shows it. */
static void set_rate(struct camera *camera, uint32_t rate)
{
    struct v4l2_streamparm wanted = {.type = V4L2_BUF_TYPE_VIDEO_CAPTURE};
    wanted.parm.capture.timeperframe = (struct v4l2_fract){1, rate};
    if (rate && camera_ioctl(camera, VIDIOC_S_PARM, &wanted) < 0)
        complain("%s: VIDIOC_S_PARM: %s; it keeps its own rate", camera->path, strerror(errno));
}

static bool start_camera(struct camera *camera)
{
    int type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
    if (camera_ioctl(camera, VIDIOC_STREAMON, &type) < 0)
        return errno == EBUSY
                   ? complain("%s is in use by another program; end that one first", camera->path)
                   : complain("%s: VIDIOC_STREAMON: %s", camera->path, strerror(errno));
    camera->streams = true;
    return true;
}

static void camera_close(struct source *source)
{
    struct camera *camera = (struct camera *)source;
    int type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
    if (camera->streams)
        camera_ioctl(camera, VIDIOC_STREAMOFF, &type);
    if (camera->buffers)
        drop_buffers(camera);
    if (camera->fd >= 0)
        close(camera->fd);
    free(camera);
}

/* ------------------------------------------------------------------------------- frames */

static bool await_frame(const struct camera *camera)
{
    struct pollfd at = {.fd = camera->fd, .events = POLLIN};
    int ready;
    do
        ready = poll(&at, 1, PATIENCE_MS);
    while (ready < 0 && errno == EINTR);
    if (ready > 0)
        return true;
    return complain("%s: no frame came within %d s; is its input connected (v4l2-ctl --all)?",
                    camera->path, PATIENCE_MS / 1000);
}

static const char *find_fault(const struct camera *camera, const struct v4l2_buffer *from)
{
    unsigned char *data = camera->buffers[from->index].driver;
    uint64_t there;
    if (from->flags & V4L2_BUF_FLAG_ERROR)
        return "the driver says that it is damaged";
    if (from->bytesused && from->bytesused < camera->source.picture.bytes)
        return "the driver gave a part of it";
    for (uint32_t i = 0; i < MARKS && mark_place(camera, data, i); i++) {
        memcpy(&there, mark_place(camera, data, i), sizeof there);
        if (there == mark)
            return "a part of it was not written";
    }
    return NULL;
}

/* Returns the capture time if the driver reports it by CLOCK_MONOTONIC, else the time of arrival. A
 * time in the future is not used: some drivers report when the frame is due. */
static uint64_t capture_time(struct camera *camera, const struct v4l2_buffer *from)
{
    char *moment = camera->source.moment;
    uint64_t now = now_ns(), stamp = (uint64_t)from->timestamp.tv_sec * 1000000000u +
                                     (uint64_t)from->timestamp.tv_usec * 1000u;
    bool exposure = (from->flags & V4L2_BUF_FLAG_TSTAMP_SRC_MASK) == V4L2_BUF_FLAG_TSTAMP_SRC_SOE;
    if ((from->flags & V4L2_BUF_FLAG_TIMESTAMP_MASK) != V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC)
        snprintf(moment, MOMENT, "its arrival here (the driver uses another clock)");
    else if (stamp > now)
        snprintf(moment, MOMENT, "its arrival here (the driver's times are %.0f ms ahead)",
                 1e-6 * (double)(stamp - now));
    else if (!moment[0])
        snprintf(moment, MOMENT, "%s (driver's time)",
                 exposure ? "the start of its exposure" : "the end of its capture");
    return strstr(moment, "driver's time)") ? stamp : now;
}

static enum source_next camera_next(struct source *source, struct frame *frame)
{
    struct camera *camera = (struct camera *)source;
    struct v4l2_buffer from;
    int got;
    do {
        if (!await_frame(camera))
            return SOURCE_FAILED;
        from = (struct v4l2_buffer){.type = V4L2_BUF_TYPE_VIDEO_CAPTURE, .memory = camera->memory};
        got = camera_ioctl(camera, VIDIOC_DQBUF, &from);
    } while (got < 0 && errno == EAGAIN);
    if (got < 0) {
        complain("%s: VIDIOC_DQBUF: %s", camera->path, strerror(errno));
        return SOURCE_FAILED;
    }
    struct camera_buffer *buffer = &camera->buffers[from.index];
    *frame = (struct frame){.buffer = (int)from.index,
                            .data = buffer->seen,
                            .sequence = from.sequence,
                            .captured_ns = capture_time(camera, &from),
                            .fault = find_fault(camera, &from)};
    if (camera->copies)
        memcpy(buffer->seen, buffer->driver, source->picture.bytes);
    return SOURCE_FRAME;
}

static bool camera_release_frame(struct source *source, const struct frame *frame)
{
    struct camera *camera = (struct camera *)source;
    return queue_buffer(camera, (uint32_t)frame->buffer) ||
           complain("%s: VIDIOC_QBUF: %s", camera->path, strerror(errno));
}

struct source *camera_open(const char *path, const struct source_settings *settings)
{
    static const struct source_ops ops = {camera_next, camera_release_frame, camera_close};
    struct camera *camera = calloc(1, sizeof *camera);
    if (!camera) {
        complain("no memory");
        return NULL;
    }
    camera->source.ops = &ops;
    camera->job = settings->job;
    camera->path = path;
    camera->fd = -1;
    if (open_device(camera) && set_format(camera, settings)) {
        set_rate(camera, settings->rate);
        if (choose_memory(camera, settings) && start_camera(camera))
            return &camera->source;
    }
    camera_close(&camera->source);
    return NULL;
}
