/* SPDX-License-Identifier: Apache-2.0 */
/* The library's kernels, included by the assembler: PTX, and cubins when the build had ptxas. See
 * module.h. */
#include "gpu/module.h"

#include <stddef.h>

#ifdef WEFT_GPU_CODES
/* Made by the build: GPU_CODE(symbol, image, 1 for PTX, compute capability times 10, file), sorted
 * by image; the best first. */
#define GPU_CODE(symbol, image, ptx, arch, file)                                                   \
    __asm__(".pushsection .rodata, \"a\"\n"                                                        \
            ".balign 64\n" #symbol ":\n"                                                           \
            ".incbin \"" file "\"\n" #symbol "_end:\n"                                             \
            ".popsection\n");                                                                      \
    extern const char symbol[] __attribute__((visibility("hidden")));                              \
    extern const char symbol##_end[] __attribute__((visibility("hidden")));
#include WEFT_GPU_CODES
#undef GPU_CODE
#endif

enum { KERNELS, COLL_KERNELS };

static const struct gpu_code codes[] = {
#ifdef WEFT_GPU_CODES
#define GPU_CODE(symbol, image, ptx, arch, file) {image, ptx, arch, symbol, symbol##_end},
#include WEFT_GPU_CODES
#undef GPU_CODE
#endif
    {-1, false, 0, NULL, NULL}};

const struct gpu_image gpu_kernels_image = {codes, KERNELS};
const struct gpu_image gpu_coll_kernels_image = {codes, COLL_KERNELS};
