/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of one operation, which `weft bench gda --trace` and `weft bench proxy --trace` print:
 * the time that each took and its end since the call. */
#include "bench/device/device.h"

#include <jansson.h>

static double step_us(const struct device_steps *s, int step)
{
    return (s->ends[step] - (step ? s->ends[step - 1] : 0)) / 1e3;
}

static void print_step_table(const struct bench *bench, const struct device_steps *s)
{
    printf("%s, mean of %d\n", s->operation, s->rounds);
    printf("PE %d to PE %d over %s, target %s\n", bench->from, bench->to, bench->path,
           bench_target_names[bench->options->target]);
    printf("%-26s %12s %12s\n", "step", "took", "since call");
    for (int step = 0; step < s->count; step++)
        printf("%-26s %12s %12s\n", s->names[step], bench_us_text(step_us(s, step)).text,
               bench_us_text(s->ends[step] / 1e3).text);
}

static void print_steps_json(const struct bench *bench, const struct device_steps *s)
{
    json_t *steps = json_array();
    for (int step = 0; step < s->count; step++)
        json_array_append_new(steps,
                              json_pack("{s:s, s:f, s:f}", "step", s->names[step], "us",
                                        step_us(s, step), "since_call_us", s->ends[step] / 1e3));
    json_t *row =
        json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:o}", "bench", s->bench, "path", bench->path,
                  "target", bench_target_names[bench->options->target], "from", bench->from, "to",
                  bench->to, "rounds", s->rounds, "steps", steps);
    json_dumpf(row, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(row);
}

void device_print_steps(const struct bench *bench, const struct device_steps *steps)
{
    if (bench->options->json)
        print_steps_json(bench, steps);
    else
        print_step_table(bench, steps);
}
