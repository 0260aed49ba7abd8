/* SPDX-License-Identifier: Apache-2.0 */
/* Device code that clang compiled, as part of a program. The file that weft_kernels() of the CMake
 * package makes for each source, and `weft cc`, include this header in C:
 *
 *     WEFT_IMAGE("shift.c", "/tmp/shift.ptx")   the PTX of this file becomes part of the object
 *     WEFT_IMAGE_CODE(gfx90a, "/tmp/shift.gfx90a")   so does its code for that GPU: a code object
 *                                               of AMD, or a cubin (sm_90)
 *     WEFT_IMAGE_STATE(2)                       it has weft_dev_state: the library fills it; 2 is
 *                                               its weft_dev_carriers
 *     WEFT_IMAGE_KERNEL(shift)                  it has this WEFT_KERNEL
 *
 * The library loads a cubin for the GPU's generation, else the PTX, through the CUDA driver when it
 * is first needed, and a code object through HIP. */
#ifndef WEFT_DEVICE_IMAGE_H
#define WEFT_DEVICE_IMAGE_H

#include <weft/device/control.h>
#include <weft/launch.h>

#ifdef __cplusplus
extern "C" {
#endif

/* PTX text, as it is or as a frame of LZ4 (lz4 --content-size). */
struct weft_image {
    const char *source; /* for messages */
    const char *begin, *end;
    struct weft_loaded *loaded; /* modules of it, one for each context; the library's */
};

struct weft_image_kernel {
    struct weft_image *image;
    const char *name;
};

/* Writes the state into the image's copy on device `ordinal` of the visible ones, or, if it is
 * negative, of the current context. Returns 0 or an error that weft_driver_runtime.error_text()
 * explains. */
int weft_image_upload(struct weft_image *image, const struct weft_dev *state, size_t bytes,
                      int ordinal);

/* Adds code for the GPU `arch` ("gfx942", "sm_90"), an ELF file as it is or as a frame of LZ4, with
 * the same kernels and state. It must stay as it is. */
void weft_image_add_code(const struct weft_image *image, const char *arch, const char *begin,
                         const char *end);

#ifdef __cplusplus
}
#endif

#define WEFT_IMAGE(source, file)                                                                   \
    __asm__(".pushsection .rodata, \"a\"\n"                                                        \
            ".balign 64\n"                                                                         \
            "weft_image_begin:\n"                                                                  \
            ".incbin \"" file "\"\n"                                                               \
            ".byte 0\n"                                                                            \
            "weft_image_end:\n"                                                                    \
            ".popsection\n");                                                                      \
    extern const char weft_image_begin[] __attribute__((visibility("hidden")));                    \
    extern const char weft_image_end[] __attribute__((visibility("hidden")));                      \
    static struct weft_image weft_image = {source, weft_image_begin, weft_image_end, NULL};        \
    __attribute__((constructor)) static void weft_image_register(void)                             \
    {                                                                                              \
        weft_cuda_register(&weft_driver_runtime);                                                  \
    }

#define WEFT_IMAGE_CODE(arch, file)                                                                \
    __asm__(".pushsection .rodata, \"a\"\n"                                                        \
            ".balign 64\n"                                                                         \
            "weft_image_" #arch "_begin:\n"                                                        \
            ".incbin \"" file "\"\n"                                                               \
            "weft_image_" #arch "_end:\n"                                                          \
            ".popsection\n");                                                                      \
    extern const char weft_image_##arch##_begin[] __attribute__((visibility("hidden")));           \
    extern const char weft_image_##arch##_end[] __attribute__((visibility("hidden")));             \
    __attribute__((constructor)) static void weft_image_register_##arch(void)                      \
    {                                                                                              \
        weft_image_add_code(&weft_image, #arch, weft_image_##arch##_begin,                         \
                            weft_image_##arch##_end);                                              \
    }

#define WEFT_IMAGE_STATE(transports)                                                               \
    static int weft_image_unit_upload(const struct weft_dev *state, int ordinal)                   \
    {                                                                                              \
        return weft_image_upload(&weft_image, state, sizeof *state, ordinal);                      \
    }                                                                                              \
    static const char *weft_image_unit_error(int error)                                            \
    {                                                                                              \
        return weft_driver_runtime.error_text(error);                                              \
    }                                                                                              \
    static struct weft_device_unit weft_image_unit = {.size = sizeof weft_image_unit,              \
                                                      .version = WEFT_DEV_VERSION,                 \
                                                      .bytes = sizeof(struct weft_dev),            \
                                                      .cuda = 1,                                   \
                                                      .upload = weft_image_unit_upload,            \
                                                      .error_text = weft_image_unit_error,         \
                                                      .carriers = transports};                     \
    __attribute__((constructor)) static void weft_image_unit_register(void)                        \
    {                                                                                              \
        weft_device_register(&weft_image_unit);                                                    \
    }                                                                                              \
    __attribute__((destructor)) static void weft_image_unit_unregister(void)                       \
    {                                                                                              \
        weft_device_unregister(&weft_image_unit);                                                  \
    }

#define WEFT_IMAGE_KERNEL(name)                                                                    \
    static const struct weft_image_kernel weft_image_kernel_##name = {&weft_image,                 \
                                                                      "weft_cuda_kernel_" #name};  \
    extern const struct weft_kernel_cuda weft_kernel_cuda_##name                                   \
        __attribute__((visibility("hidden")));                                                     \
    const struct weft_kernel_cuda weft_kernel_cuda_##name = {&weft_driver_runtime,                 \
                                                             &weft_image_kernel_##name};

#endif
