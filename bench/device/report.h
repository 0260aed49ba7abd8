/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of figures, as a table with aim and baseline of each row and as JSON lines. Used by
 * weft_device_bench and by the programs that measure other libraries with the same loops; knows
 * nothing of any of them. */
#ifndef WEFT_BENCH_DEVICE_REPORT_H
#define WEFT_BENCH_DEVICE_REPORT_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct report {
    const char *side;   /* "weft", "nvshmem", "nccl" */
    const char *target; /* "cuda", "simt" */
    int pes;
    int json;        /* JSON lines instead of the table */
    const char *log; /* JSON lines are also written to this file; NULL: none */
};

/* note: describes what was measured. */
void report_begin(const struct report *report, const char *note);

/* Prints a row: the median of n values in `unit` ("us", "s": less is better; "GB/s", "G/s",
 * "ratio": more is better). Sorts the values. Returns the median. */
double report_row(const struct report *report, const char *row, const char *unit, double *values,
                  int n);

/* Formats a row's name with numbers: row_name("put.%u.%zu", ...). Valid until the eighth call after
 * this one. */
const char *row_name(const char *format, ...) __attribute__((format(printf, 1, 2)));

#ifdef __cplusplus
}
#endif

#endif
