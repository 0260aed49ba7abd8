/* SPDX-License-Identifier: Apache-2.0 */
/* See steps.h. */
#include "steps.h"

const char *const proxy_step_names[PROXY_STEPS] = {
    "ticket taken",  "descriptor written", "seen by the thread",
    "decoded",       "handed to the path", "path returned",
    "complete",      "count written",      "count seen by the device",
    "call returned",
};

/* Returns the offset that converts the host's clock to the device's. */
static double clock_offset(const struct proxy_round *rounds, int n)
{
    double there = 1e300, back = 1e300;
    for (int i = 0; i < n; i++) {
        const double *at = rounds[i].at;
        double out = at[PROXY_STEP_HOST_FIRST] - at[PROXY_STEP_HOST_FIRST - 1];
        double in = at[PROXY_STEP_HOST_LAST + 1] - at[PROXY_STEP_HOST_LAST];
        there = out < there ? out : there;
        back = in < back ? in : back;
    }
    return (back - there) / 2;
}

void proxy_steps_average(const struct proxy_round *rounds, int n, int two_clocks,
                         double since_call[PROXY_STEPS])
{
    double offset = two_clocks ? clock_offset(rounds, n) : 0;
    for (int step = 1; step <= PROXY_STEPS; step++) {
        double sum = 0;
        for (int i = 0; i < n; i++)
            sum += rounds[i].at[step] - rounds[i].at[0] +
                   (step >= PROXY_STEP_HOST_FIRST && step <= PROXY_STEP_HOST_LAST ? offset : 0);
        since_call[step - 1] = sum / n;
    }
}
