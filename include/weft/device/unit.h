/* SPDX-License-Identifier: Apache-2.0 */
/* This translation unit's copy of the device state, and its registration with the library. Without
 * relocatable device code every unit has its own copy, so nothing needs linking on the device. Only
 * <weft_device.h> includes it. */
#ifndef WEFT_DEVICE_UNIT_H
#define WEFT_DEVICE_UNIT_H

#include <weft/device/control.h>
#include <weft/device/simt.h>

/* Only the host writes it, never while kernels run. weft_module_init() finds it by this name. */
#ifndef WEFT_STATE_BY_POINTER

#define WEFT_DEV_CARRIER_BIT(ID, name) | 1u << WEFT_DEV_CARRIER_##ID
#if WEFT_DEVICE_ONLY
extern "C" {
__constant__ struct weft_dev weft_dev_state;
/* The transports that are compiled in; weft_image.sh reads the value in the PTX. */
__constant__ unsigned weft_dev_carriers = 0 WEFT_DEV_CARRIERS(WEFT_DEV_CARRIER_BIT);
}
#else
WEFT_CONST struct weft_dev weft_dev_state;
#endif

/* <weft/device/image.h> registers what clang compiles. weft_module_init() gives the state to what
 * NVRTC compiles. */
#if !WEFT_DEVICE_ONLY

#if WEFT_TARGET_CUDA

static int weft_dev_upload(const struct weft_dev *state, int ordinal)
{
    cudaError_t error = ordinal < 0 ? cudaSuccess : cudaSetDevice(ordinal);
    if (error == cudaSuccess)
        error = cudaMemcpyToSymbol(weft_dev_state, state, sizeof weft_dev_state);
    return error;
}

static const char *weft_dev_upload_error(int error)
{
    return cudaGetErrorString((cudaError_t)error);
}

#else

static int weft_dev_upload(const struct weft_dev *state, int ordinal)
{
    (void)ordinal;
    weft_dev_state = *state;
    return 0;
}

static const char *weft_dev_upload_error(int error)
{
    (void)error;
    return "";
}

#endif

#ifdef WEFT_BUILDING
#define WEFT_DEV_UNIT_OWN 1
#else
#define WEFT_DEV_UNIT_OWN 0
#endif
static struct weft_device_unit weft_dev_unit = {sizeof(struct weft_device_unit),
                                                WEFT_DEV_VERSION,
                                                sizeof(struct weft_dev),
                                                WEFT_TARGET_CUDA,
                                                weft_dev_upload,
                                                weft_dev_upload_error,
                                                NULL,
                                                0,
                                                0 WEFT_DEV_CARRIERS(WEFT_DEV_CARRIER_BIT),
                                                WEFT_DEV_UNIT_OWN};
#undef WEFT_DEV_UNIT_OWN

__attribute__((constructor)) static void weft_dev_unit_register(void)
{
    weft_device_register(&weft_dev_unit);
}

__attribute__((destructor)) static void weft_dev_unit_unregister(void)
{
    weft_device_unregister(&weft_dev_unit);
}

#endif
#undef WEFT_DEV_CARRIER_BIT

#endif

#endif
