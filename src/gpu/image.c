/* SPDX-License-Identifier: Apache-2.0 */
/* The images of the kernels, included into the library by the assembler: the committed PTX, as text
 * or compressed, and the fat binaries when the build had nvcc. */
#include "gpu/module.h"

#include <stddef.h>

/* Defines a hidden symbol with the bytes of a file; `end` terminates a text. */
#define TAKE_IN(symbol, file, end)                                                                 \
    __asm__(".pushsection .rodata, \"a\"\n"                                                        \
            ".balign 64\n"                                                                         \
            ".globl " #symbol "\n"                                                                 \
            ".hidden " #symbol "\n" #symbol ":\n"                                                  \
            ".incbin \"" file "\"\n" end ".popsection\n");                                         \
    extern const char symbol[] __attribute__((visibility("hidden")))

TAKE_IN(gpu_kernels_ptx, WEFT_GPU_PTX, ".byte 0\n");
TAKE_IN(gpu_coll_kernels_ptx, WEFT_GPU_COLL_PTX, ".byte 0\n");

#ifdef WEFT_GPU_FATBIN
TAKE_IN(gpu_kernels_fatbin, WEFT_GPU_FATBIN, "");
TAKE_IN(gpu_coll_kernels_fatbin, WEFT_GPU_COLL_FATBIN, "");
#else
#define gpu_kernels_fatbin      NULL
#define gpu_coll_kernels_fatbin NULL
#endif

const struct gpu_image gpu_kernels_image = {gpu_kernels_fatbin, gpu_kernels_ptx};
const struct gpu_image gpu_coll_kernels_image = {gpu_coll_kernels_fatbin, gpu_coll_kernels_ptx};
