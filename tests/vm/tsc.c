/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the frequency of this CPU's time-stamp counter in kHz, which is also that of a guest under
 * software emulation; nothing where there is no counter. A guest that measures it itself gets a
 * wrong value, and a wrong clock, when the host delays it during the measurement; here each pair of
 * readings is the closest of many. */
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#ifdef __x86_64__
#include <x86intrin.h>

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void read_both(uint64_t *ticks, uint64_t *ns)
{
    uint64_t closest = UINT64_MAX;
    for (int i = 0; i < 1000; i++) {
        uint64_t before = __rdtsc(), at = now_ns(), after = __rdtsc();
        if (after - before >= closest)
            continue;
        closest = after - before;
        *ticks = before;
        *ns = at;
    }
}

int main(void)
{
    uint64_t ticks, ns, ticks_then, ns_then;
    read_both(&ticks, &ns);
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    read_both(&ticks_then, &ns_then);
    printf("%.0f\n", (double)(ticks_then - ticks) * 1e6 / (double)(ns_then - ns));
    return 0;
}
#else
int main(void)
{
    return 0;
}
#endif
