/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of a put_signal and the following quiet through the proxy, computed from times that the
 * device and the proxy thread have recorded: name and mean duration of each. For the host; knows
 * neither jobs nor output. */
#ifndef WEFT_BENCH_DEVICE_STEPS_H
#define WEFT_BENCH_DEVICE_STEPS_H

enum { PROXY_STEPS = 10 };
extern const char *const proxy_step_names[PROXY_STEPS];

/* One round in ns: at[0] is the call, at[i] the end of step i. Steps FIRST to LAST use the host's
 * clock, the others the device's. */
enum { PROXY_STEP_HOST_FIRST = 3, PROXY_STEP_HOST_LAST = 8 };
struct proxy_round {
    double at[PROXY_STEPS + 1];
};

/* Computes the mean end of each step since the call. two_clocks: host and device have different
 * clocks. Their offset is chosen so that the fastest trips in both directions take the same
 * time. */
void proxy_steps_average(const struct proxy_round *rounds, int n, int two_clocks,
                         double since_call[PROXY_STEPS]);

#endif
