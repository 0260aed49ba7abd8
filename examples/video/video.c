/* SPDX-License-Identifier: Apache-2.0 */
/* Processes frames of a camera or a clip by kernels, where the capture device has written them: in
 * pinned host memory that the GPU reads. There is no copy between the camera and the kernel.
 *
 *     ./video                                      # the camera /dev/video0
 *     ./video --make clip.y4m && ./video clip.y4m
 *
 * Each frame is checked: it must not have changed while the kernel read it (the CPU computes the
 * same checksum afterwards), it must be complete, and no frame number may be missing. The program
 * prints the latency from the capture to the end of the kernel, and the frames per second. */
#include "../check.h"
#include "frame.h"
#include "look.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <weft/launch.h>

enum { LOST_SHOWN = 8 };

struct options {
    const char *path, *make;
    struct source_settings settings;
    uint32_t frames; /* 0: all frames of a clip, 120 of a camera */
    uint32_t check;  /* the CPU checks one of this many frames; 0: none */
    bool each;
};

/* Statistics of the frames so far. */
struct tally {
    uint64_t *latency_ns;
    uint64_t first_ns, last_ns, next_sequence, lost;
    uint32_t frames, bad, reported_lost;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    interrupted = 1;
}

bool complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("video: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return false;
}

uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void *frame_memory(weft_job *job, size_t bytes)
{
    void *memory = NULL;
    if (weft_alloc(job, WEFT_HOST, (bytes + 4095) / 4096 * 4096, 4096, 0, &memory))
        complain("%s", weft_last_error());
    return memory;
}

/* ------------------------------------------------------------------------------- one frame */

static bool same_pixels(const struct scan_result *seen, const struct picture *p,
                        const unsigned char *data)
{
    uint32_t pixels[BRIGHTNESSES] = {0};
    for (uint32_t y = 0; y < p->height; y++)
        for (uint32_t x = 0; x < p->width; x++) {
            size_t at = p->luma + (size_t)y * p->stride + (size_t)x * p->step;
            if (at < p->bytes)
                pixels[data[at]]++;
        }
    return memcmp(pixels, seen->pixels, sizeof pixels) == 0;
}

/* Returns NULL, or what is wrong with the frame. The kernel's result is compared with the present
 * contents: they differ if the frame was written while it was read, or was read from another
 * place. */
static const char *check_frame(const struct picture *p, const struct frame *frame,
                               const struct scan_result *seen, bool compare)
{
    if (frame->fault)
        return frame->fault;
    if (compare && seen->checksum != checksum_of(frame->data, p->bytes))
        return "the kernel saw other bytes than are there now: it is torn";
    if (compare && !same_pixels(seen, p, frame->data))
        return "the kernel counted other pixels than are there";
    if (frame->has_checksum && seen->checksum != frame->checksum)
        return "it differs from what was written";
    return NULL;
}

static void note_sequence(struct tally *tally, const struct frame *frame)
{
    if (tally->frames && frame->sequence != tally->next_sequence) {
        uint64_t lost =
            frame->sequence > tally->next_sequence ? frame->sequence - tally->next_sequence : 0;
        tally->lost += lost;
        if (tally->reported_lost++ < LOST_SHOWN)
            printf("%" PRIu64 " lost: %s %" PRIu64 " arrived, expected %" PRIu64 "\n", lost,
                   "frame", frame->sequence, tally->next_sequence);
    }
    tally->next_sequence = frame->sequence + 1;
}

static void show_frame(const struct picture *p, const struct frame *frame,
                       const struct scan_result *seen, uint64_t latency_ns)
{
    uint64_t sum = 0, pixels = 0;
    int least = -1, most = 0;
    for (int i = 0; i < BRIGHTNESSES; i++) {
        sum += (uint64_t)i * seen->pixels[i];
        pixels += seen->pixels[i];
        if (seen->pixels[i]) {
            least = least < 0 ? i : least;
            most = i;
        }
    }
    printf("frame %" PRIu64 ": checksum %016" PRIx64 ", brightness %d to %d, mean %.2f, %.3f ms\n",
           frame->sequence, seen->checksum, least, most, (double)sum / (double)pixels,
           1e-6 * (double)latency_ns);
}

static weft_status process_frame(const struct options *options, const struct picture *picture,
                                 struct scan *scan, const struct frame *frame, struct tally *tally)
{
    const struct scan_result *seen;
    weft_status status = scan_frame(scan, picture, frame->data, &seen);
    if (status)
        return status;
    uint64_t end = now_ns(), latency = end - frame->captured_ns;
    note_sequence(tally, frame);
    bool compare = options->check && tally->frames % options->check == 0;
    const char *fault = check_frame(picture, frame, seen, compare);
    if (fault && tally->bad++ < LOST_SHOWN)
        printf("frame %" PRIu64 " is bad: %s\n", frame->sequence, fault);
    if (options->each)
        show_frame(picture, frame, seen, latency);
    if (!tally->frames)
        tally->first_ns = end;
    tally->last_ns = end;
    tally->latency_ns[tally->frames++] = latency;
    return WEFT_OK;
}

/* ------------------------------------------------------------------------------- the report */

static int by_size(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void report(const struct source *source, struct tally *tally)
{
    uint32_t n = tally->frames;
    if (!n) {
        puts("no frame came");
        return;
    }
    double seconds = 1e-9 * (double)(tally->last_ns - tally->first_ns);
    uint64_t *t = tally->latency_ns;
    qsort(t, n, sizeof *t, by_size);
    printf("%u frames", n);
    if (n > 1 && seconds > 0)
        printf(" in %.2f s: %.1f frames/s, %.1f MB/s", seconds, (n - 1) / seconds,
               1e-6 * (double)source->picture.bytes * (n - 1) / seconds);
    printf("; %" PRIu64 " lost, %u bad\n", tally->lost, tally->bad);
    printf("latency, from %s to the end of the kernel: min %.3f ms, median %.3f ms, p99 %.3f ms, "
           "max %.3f ms\n",
           source->moment, 1e-6 * (double)t[0], 1e-6 * (double)t[n / 2],
           1e-6 * (double)t[((size_t)n * 99 + 99) / 100 - 1], 1e-6 * (double)t[n - 1]);
}

/* Returns 0 if all frames were right. */
static int capture(weft_job *job, const struct options *options, struct source *source, bool camera)
{
    const struct picture *p = &source->picture;
    uint32_t most = options->frames ? options->frames : camera ? 120 : UINT32_MAX, room = 0;
    struct tally tally = {0};
    struct scan *scan;
    struct frame frame;
    enum source_next next = SOURCE_END;
    CHECK(job, scan_create(job, &scan));
    printf("%s, %u x %u, %s\nframes: %s\nkernels on %s\n", source->name, p->width, p->height,
           p->format, source->memory, weft_target_name(weft_target_get()));
    while (!interrupted && tally.frames < most) {
        if (tally.frames == room) {
            room = room ? 2 * room : 256;
            tally.latency_ns = realloc(tally.latency_ns, room * sizeof *tally.latency_ns);
            if (!tally.latency_ns)
                CHECK(job, WEFT_ERR_NO_MEMORY);
        }
        next = source->ops->next(source, &frame);
        if (next != SOURCE_FRAME)
            break;
        CHECK(job, process_frame(options, p, scan, &frame, &tally));
        if (!source->ops->release_frame(source, &frame)) {
            next = SOURCE_FAILED;
            break;
        }
    }
    report(source, &tally);
    free(tally.latency_ns);
    source->ops->close(source);
    CHECK(job, scan_destroy(job, scan));
    return next == SOURCE_FAILED || tally.bad || !tally.frames;
}

/* ------------------------------------------------------------------------------- options */

static int usage(FILE *to)
{
    fputs(
        "usage: video [option ...] [CAMERA | CLIP.y4m]    (neither: /dev/video0; -: a clip by the "
        "standard input)\n"
        "  --frames N      number of frames (default: all of a clip, 120 of a camera)\n"
        "  --size WxH      ask the camera for frames of that size; with --make, make them so\n"
        "  --format NAME   ask the camera for pixels of that format: YUYV, UYVY, NV12, YU12,\n"
        "                  GREY, RGB3, BGR3\n"
        "  --rate N        frames per second requested from the camera\n"
        "  --memory WAY    userptr, mmap or copy (default auto: the first that works)\n"
        "  --buffers N     buffers between camera and kernel (default 4)\n"
        "  --each          a line for each frame\n"
        "  --make FILE     write a clip (default: 30 frames of 320x180) and exit\n",
        to);
    return to == stdout ? 0 : 2;
}

static bool parse_number(const char *what, const char *text, uint32_t least, uint32_t most,
                         uint32_t *value)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || number < least || number > most)
        return complain("--%s %s: expected a whole number from %u to %u", what, text, least, most);
    *value = (uint32_t)number;
    return true;
}

static bool parse_size(const char *text, struct source_settings *settings)
{
    char rest;
    if (sscanf(text, "%5" SCNu32 "x%5" SCNu32 "%c", &settings->width, &settings->height, &rest) ==
            2 &&
        settings->width >= 16 && settings->height >= 16 && settings->width <= 16384 &&
        settings->height <= 16384)
        return true;
    return complain("--size %s: expected WIDTHxHEIGHT, each from 16 to 16384, as in 640x360", text);
}

static bool parse_memory(const char *text, struct source_settings *settings)
{
    static const char *const known[] = {"auto", "userptr", "mmap", "copy"};
    settings->memory = text;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(text, known[i]) == 0)
            return true;
    return complain("--memory %s: expected auto, userptr, mmap or copy", text);
}

static bool parse_one(int option, const char *value, struct options *options)
{
    switch (option) {
    case 'n':
        return parse_number("frames", value, 1, 100000000, &options->frames);
    case 'b':
        return parse_number("buffers", value, 1, 32, &options->settings.buffers);
    case 'c':
        return parse_number("check", value, 0, 1000000, &options->check);
    case 'r':
        return parse_number("rate", value, 1, 10000, &options->settings.rate);
    case 's':
        return parse_size(value, &options->settings);
    case 'm':
        return parse_memory(value, &options->settings);
    case 'f':
        options->settings.format = value;
        return true;
    case 'M':
        options->make = value;
        return true;
    case 'e':
        options->each = true;
        return true;
    }
    return false;
}

/* Returns -1 to continue, else the exit status. */
static int parse(int argc, char **argv, struct options *options)
{
    static const struct option known[] = {{"frames", required_argument, NULL, 'n'},
                                          {"size", required_argument, NULL, 's'},
                                          {"format", required_argument, NULL, 'f'},
                                          {"memory", required_argument, NULL, 'm'},
                                          {"buffers", required_argument, NULL, 'b'},
                                          {"each", no_argument, NULL, 'e'},
                                          {"make", required_argument, NULL, 'M'},
                                          {"check", required_argument, NULL, 'c'},
                                          {"rate", required_argument, NULL, 'r'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
    int option;
    while ((option = getopt_long(argc, argv, "h", known, NULL)) != -1) {
        if (option == 'h')
            return usage(stdout);
        if (option == '?')
            return usage(stderr);
        if (!parse_one(option, optarg, options))
            return 2;
    }
    if (optind + 1 < argc)
        return usage(stderr);
    if (optind < argc)
        options->path = argv[optind];
    return -1;
}

static bool is_camera(const char *path)
{
    struct stat about;
    if (stat(path, &about))
        return strncmp(path, "/dev/", 5) == 0; /* a name in /dev is a camera */
    return S_ISCHR(about.st_mode);
}

static int run(const struct options *options)
{
    weft_job *job = NULL;
    CHECK(job, weft_init(&job, NULL));
    if (weft_n_pes(job) != 1) {
        if (weft_my_pe(job) == 0)
            complain("a camera has one reader: start it as one PE, not %d", weft_n_pes(job));
        CHECK(job, weft_finalize(job));
        return 2;
    }
    struct source_settings settings = options->settings;
    settings.job = job;
    settings.gpu = weft_target_get() == WEFT_CUDA;
    bool camera = is_camera(options->path);
    struct source *source =
        camera ? camera_open(options->path, &settings) : clip_open(options->path, &settings);
    int status = source ? capture(job, options, source, camera) : 2;
    CHECK(job, weft_finalize(job));
    return status;
}

int main(int argc, char **argv)
{
    struct options options = {
        .path = "/dev/video0", .check = 1, .settings = {.memory = "auto", .buffers = 4}};
    int status = parse(argc, argv, &options);
    if (status >= 0)
        return status;
    if (options.make) {
        uint32_t width = options.settings.width ? options.settings.width : 320;
        uint32_t height = options.settings.height ? options.settings.height : 180;
        return clip_make(options.make, width, height, options.frames ? options.frames : 30) ? 0 : 2;
    }
    setlinebuf(stdout); /* print each line at once, also into a pipe */
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return run(&options);
}
