/* SPDX-License-Identifier: Apache-2.0 */
/* The target that device code runs on. It is decided once, from WEFT_TARGET, from whether the
 * program has a CUDA half (which brings its own runtime), and from whether that runtime finds a
 * GPU. */
#include "base/config.h"
#include "base/log.h"
#include "job/device_state.h"

enum { TARGET_AUTO, TARGET_CUDA, TARGET_SIMT }; /* values of WEFT_TARGET */

static const struct weft_cuda_runtime *cuda; /* set by constructors, before main() */
static pthread_once_t decided = PTHREAD_ONCE_INIT;
static weft_target target;
static int n_devices; /* number of GPUs that CUDA can use; queried once, and never for simt */

void device_runtime_register(const struct weft_cuda_runtime *runtime)
{
    const struct weft_cuda_runtime *none = NULL;
    if (runtime->size < sizeof *runtime)
        log_error(
            LOG_JOB,
            "a CUDA half was compiled against another weft/launch.h (its table has %zu bytes; this "
            "library needs %zu): its kernels are not used",
            runtime->size, sizeof *runtime);
    else
        __atomic_compare_exchange_n(&cuda, &none, runtime, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

static void decide(void)
{
    int wanted = config_choice(CONFIG_TARGET);
    if (wanted != TARGET_SIMT && cuda)
        n_devices = cuda->devices();
    if (wanted == TARGET_CUDA || (wanted == TARGET_AUTO && n_devices > 0))
        target = WEFT_CUDA;
}

weft_target device_target(void)
{
    pthread_once(&decided, decide);
    return target;
}

bool device_target_is_auto(void)
{
    return config_choice(CONFIG_TARGET) == TARGET_AUTO;
}

const struct weft_cuda_runtime *device_runtime(int *devices)
{
    pthread_once(&decided, decide);
    *devices = n_devices;
    return cuda;
}
