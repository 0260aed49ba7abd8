/* SPDX-License-Identifier: Apache-2.0 */
/* Makes examples/data/weave.ppm, the picture that `weft demo` mends when it is given none: a plain
 * weave. Integers only, so that it has the same pixels wherever it is made:
 *
 *   A thread is THREAD pixels wide. The thread that lies on top at (x, y) is the horizontal one
 *   (weft) where (x / THREAD + y / THREAD) is even, else the vertical one (warp).
 *   Across the thread, at a = 0 ... THREAD - 1, its brightness is 96 + 4 a' (THREAD - a') * 140 /
 *   THREAD^2 with a' = a + 1/2; along it, it is less by up to 35 towards both ends.
 *   The weft goes from blue to green from left to right, the warp from red to yellow downwards.
 *
 * Usage: make_picture FILE           writes it, a PNG
 *        make_picture --check FILE   whether FILE is it, pixel for pixel */
#include "image.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 256, HEIGHT = 192, THREAD = 32 };

/* 0 at the edges of a thread, 256 in its middle. */
static int arch(int a)
{
    return (2 * a + 1) * (2 * THREAD - 2 * a - 1) * 256 / (THREAD * THREAD);
}

static int blend(int from, int to, int at, int end)
{
    return from + (to - from) * at / end;
}

static void draw_pixel(uint8_t *pixel, int x, int y)
{
    int weft_on_top = (x / THREAD + y / THREAD) % 2 == 0;
    int across = weft_on_top ? y % THREAD : x % THREAD;
    int along = weft_on_top ? x % THREAD : y % THREAD;
    int light = 96 + 140 * arch(across) / 256 - 35 * (256 - arch(along)) / 256;
    int red = weft_on_top ? 70 : 250;
    int green = weft_on_top ? blend(110, 230, x, WIDTH) : blend(80, 220, y, HEIGHT);
    int blue = weft_on_top ? blend(250, 150, x, WIDTH) : 90;
    pixel[0] = (uint8_t)(red * light / 256);
    pixel[1] = (uint8_t)(green * light / 256);
    pixel[2] = (uint8_t)(blue * light / 256);
}

static bool is_drawn(const struct image *drawn, const char *path)
{
    struct image image;
    if (image_read(path, &image)) {
        fprintf(stderr, "make_picture: %s\n", weft_last_error());
        return false;
    }
    bool same = image.width == drawn->width && image.height == drawn->height &&
                image.channels == drawn->channels &&
                memcmp(image.samples, drawn->samples, image_samples(drawn)) == 0;
    image_free(&image);
    if (!same)
        fprintf(stderr, "make_picture: %s is another picture\n", path);
    return same;
}

int main(int argc, char **argv)
{
    static uint8_t samples[HEIGHT][WIDTH][3];
    struct image image = {WIDTH, HEIGHT, 3, &samples[0][0][0]};
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            draw_pixel(samples[y][x], x, y);
    if (argc == 3 && strcmp(argv[1], "--check") == 0)
        return is_drawn(&image, argv[2]) ? 0 : 1;
    if (argc != 2) {
        fprintf(stderr, "usage: make_picture FILE | --check FILE\n");
        return 2;
    }
    if (!image_write_png(argv[1], &image))
        return 0;
    fprintf(stderr, "make_picture: %s\n", weft_last_error());
    return 1;
}
