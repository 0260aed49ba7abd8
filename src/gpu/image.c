/* SPDX-License-Identifier: Apache-2.0 */
/* The library's kernels, included by the assembler: PTX, and cubins when the build had ptxas. See
 * image.h. */
#include "gpu/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/lz4.h"

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
#define GPU_CODE(symbol, image, ptx, arch, file) {image, ptx, arch, symbol, symbol##_end, NULL},
#include WEFT_GPU_CODES
#undef GPU_CODE
#endif
    {-1, false, 0, NULL, NULL, NULL}};

const struct gpu_image gpu_kernels_image = {codes, KERNELS};
const struct gpu_image gpu_coll_kernels_image = {codes, COLL_KERNELS};

const struct gpu_code *gpu_image_find_amd(const struct gpu_image *image, const char *architecture)
{
    size_t length = strcspn(architecture, ":");
    for (const struct gpu_code *code = image->codes; code->begin; code++)
        if (code->image == image->image && code->amd && strlen(code->amd) == length &&
            memcmp(code->amd, architecture, length) == 0)
            return code;
    return NULL;
}

void gpu_image_list_amd(const struct gpu_image *image, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (const struct gpu_code *code = image->codes; code->begin; code++) {
        if (code->image != image->image || !code->amd)
            continue;
        int n = snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", code->amd);
        if (n > 0 && used + (size_t)n < bytes)
            used += (size_t)n;
    }
}

const char *gpu_unpack(const char *begin, const char *end, char **unpacked)
{
    size_t bytes = (size_t)(end - begin);
    *unpacked = NULL;
    if (!lz4_is_frame(begin, bytes))
        return begin;
    *unpacked = lz4_decode(begin, bytes, &bytes);
    return *unpacked;
}

const char *gpu_code_kind(const struct gpu_code *code)
{
    return code && code->amd ? "code object" : code && !code->ptx ? "cubin" : "PTX";
}
