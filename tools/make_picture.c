/* SPDX-License-Identifier: Apache-2.0 */
/* Makes examples/data/weave.ppm, the picture that `weft demo` mends when it is given none: a plain
 * weave. Integers only, so that the file has the same bytes wherever it is made:
 *
 *   A thread is THREAD pixels wide. The thread that lies on top at (x, y) is the horizontal one
 *   (weft) where (x / THREAD + y / THREAD) is even, else the vertical one (warp).
 *   Across the thread, at a = 0 ... THREAD - 1, its brightness is 96 + 4 a' (THREAD - a') * 140 /
 *   THREAD^2 with a' = a + 1/2; along it, it is less by up to 35 towards both ends.
 *   The weft goes from blue to green from left to right, the warp from red to yellow downwards.
 *
 * Usage: make_picture FILE (or standard output). */
#include <stdio.h>

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

static void put_pixel(FILE *file, int x, int y)
{
    int weft_on_top = (x / THREAD + y / THREAD) % 2 == 0;
    int across = weft_on_top ? y % THREAD : x % THREAD;
    int along = weft_on_top ? x % THREAD : y % THREAD;
    int light = 96 + 140 * arch(across) / 256 - 35 * (256 - arch(along)) / 256;
    int red = weft_on_top ? 70 : 250;
    int green = weft_on_top ? blend(110, 230, x, WIDTH) : blend(80, 220, y, HEIGHT);
    int blue = weft_on_top ? blend(250, 150, x, WIDTH) : 90;
    fputc(red * light / 256, file);
    fputc(green * light / 256, file);
    fputc(blue * light / 256, file);
}

int main(int argc, char **argv)
{
    FILE *file = argc > 1 ? fopen(argv[1], "wb") : stdout;
    if (!file) {
        perror(argv[1]);
        return 1;
    }
    fprintf(file, "P6\n# tools/make_picture.c\n%d %d\n255\n", WIDTH, HEIGHT);
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            put_pixel(file, x, y);
    if (ferror(file) || fclose(file) != 0) {
        perror("make_picture");
        return 1;
    }
    return 0;
}
