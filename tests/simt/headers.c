/* SPDX-License-Identifier: Apache-2.0 */
/* Uses every kind of macro of the device headers; compiled as C++ by a test. */
#include <weft/launch.h>
#include <weft/simt_executor.h>

WEFT_CONST int factor;
WEFT_GLOBAL int counter;

WEFT_DEVICE_NOINLINE int scaled(int x)
{
    return x * factor + counter;
}

WEFT_KERNEL(nothing)
{
    weft_dev_sync_block();
}

WEFT_KERNEL(something, (int *WEFT_RESTRICT, out), (const uint64_t *, in))
{
    WEFT_SHARED(float, tile, [2][33]);
    WEFT_SHARED_DYNAMIC(double, rest);
    tile[1][weft_dev_lane()] = 1;
    rest[0] = weft_dev_f64_bits(weft_dev_load_u64(in, WEFT_ORDER_ACQUIRE, WEFT_SCOPE_SYS));
    weft_dev_store_vec16_relaxed(out, weft_dev_load_vec16_relaxed(in));
    out[4] = scaled((int)tile[1][0] + (int)rest[0]);
    out[5] = (int)weft_dev_atomic_add_f32(&tile[0][0], 1, WEFT_ORDER_RELAXED, WEFT_SCOPE_CTA);
}

WEFT_KERNEL_DECLARE(elsewhere, (int, x));

weft_status launch_all(int *out, const uint64_t *in);
weft_status launch_all(int *out, const uint64_t *in)
{
    weft_status status = WEFT_LAUNCH(nothing, 1, weft_dim(8, 8, 1), 0, NULL);
    if (!status)
        status = WEFT_LAUNCH(something, 1u, (size_t)32, 64, NULL, out, in);
    return status ? status : WEFT_LAUNCH_COOPERATIVE(elsewhere, 2, 32, 0, NULL, 5);
}
