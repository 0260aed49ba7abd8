/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a put_signal and the quiet behind it through the proxy, from moments that the device
 * and the proxy's thread have noted: what each is called and how long it takes in the mean. For the
 * host; knows neither jobs nor how figures are printed. */
#ifndef WEFT_BENCH_DEVICE_STEPS_H
#define WEFT_BENCH_DEVICE_STEPS_H

enum { PROXY_STEPS = 10 };
extern const char *const proxy_step_names[PROXY_STEPS];

/* One round in ns: at[0] is the call, at[i] the end of step i, of steps FIRST to LAST by the host's
 * clock, of the others by the device's. */
enum { PROXY_STEP_HOST_FIRST = 3, PROXY_STEP_HOST_LAST = 8 };
struct proxy_round {
    double at[PROXY_STEPS + 1];
};

/* Mean ends of the steps since the call. two_clocks: those of host and device are not one; their
 * distance is then such that the fastest way there and the fastest way back are equally long. */
void proxy_steps_average(const struct proxy_round *rounds, int n, int two_clocks,
                         double since_call[PROXY_STEPS]);

#endif
