/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the three programs of start.sh: times since the start of main, the data, and the line
 * that each process prints. */
#ifndef WEFT_COMPARE_START_H
#define WEFT_COMPARE_START_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { WORDS = 1024 };

static double start_ms;

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static double since_start(void)
{
    return now_ms() - start_ms;
}

/* Word i that PE `pe` sends. */
static float word_of(int pe, int i)
{
    return (float)(1000 * (pe + 1) + i % 977);
}

static void fill_words(float *words, int pe)
{
    for (int i = 0; i < WORDS; i++)
        words[i] = word_of(pe, i);
}

static void check_words(const char *what, const float *words, int from)
{
    for (int i = 0; i < WORDS; i++)
        if (words[i] != word_of(from, i)) {
            fprintf(stderr, "%s: word %d is %g, not %g\n", what, i, (double)words[i],
                    (double)word_of(from, i));
            exit(1);
        }
}

static void check_sums(const char *what, const float *words, int n)
{
    for (int i = 0; i < WORDS; i++) {
        float sum = 0;
        for (int pe = 0; pe < n; pe++)
            sum += word_of(pe, i);
        if (words[i] != sum) {
            fprintf(stderr, "%s: word %d of the sum is %g, not %g\n", what, i, (double)words[i],
                    (double)sum);
            exit(1);
        }
    }
}

/* Prints milliseconds from the start of main until the library was initialised, the memory was
 * allocated, and the first operation was verified. */
static void print_line(const char *side, const char *what, int pe, int n, double set_up,
                       double memory, double verified)
{
    printf("start %s %s pe %d of %d: set up %.1f, memory %.1f, verified %.1f ms\n", side, what, pe,
           n, set_up, memory, verified);
    fflush(stdout);
}

#endif
