/* SPDX-License-Identifier: Apache-2.0 */
/* The images of kernels.cu, taken into the library by the assembler: the committed PTX text, and
 * the fat binary when the build had nvcc. */
#include "gpu/module.h"

#include <stddef.h>

__asm__(".pushsection .rodata, \"a\"\n"
        ".balign 64\n"
        ".globl gpu_image_ptx\n"
        ".hidden gpu_image_ptx\n"
        "gpu_image_ptx:\n"
        ".incbin \"" WEFT_GPU_PTX "\"\n"
        ".byte 0\n"
        ".popsection\n");

#ifdef WEFT_GPU_FATBIN
__asm__(".pushsection .rodata, \"a\"\n"
        ".balign 64\n"
        ".globl gpu_image_fatbin_bytes\n"
        ".hidden gpu_image_fatbin_bytes\n"
        "gpu_image_fatbin_bytes:\n"
        ".incbin \"" WEFT_GPU_FATBIN "\"\n"
        ".popsection\n");
extern const char gpu_image_fatbin_bytes[] __attribute__((visibility("hidden")));
const void *const gpu_image_fatbin = gpu_image_fatbin_bytes;
#else
const void *const gpu_image_fatbin = NULL;
#endif
