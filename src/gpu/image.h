/* SPDX-License-Identifier: Apache-2.0 */
/* Code of the library's kernels, embedded by the build: PTX text, cubins and code objects, as they
 * are or as frames of LZ4; and the code objects for AMD GPUs that programs bring
 * (weft_image_add_code() of <weft/device/image.h>). */
#ifndef WEFT_GPU_IMAGE_H
#define WEFT_GPU_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

#include <weft/device/image.h>

struct gpu_code {
    int image; /* which source */
    bool ptx;
    int arch;          /* compute capability times 10 that it is for; of PTX, the lowest */
    const char *begin; /* NULL: the end of a list */
    const char *end;
    const char *amd; /* "gfx942": a code object for this architecture of AMD; NULL: for NVIDIA */
};

/* One embedded source of kernels (image.c). A list without code for it comes from a build without a
 * compiler for kernels. */
struct gpu_image {
    const struct gpu_code *codes; /* the best first */
    int image;
};
extern const struct gpu_image gpu_kernels_image, gpu_coll_kernels_image, gpu_nvshmem_image,
    gpu_experts_image;

/* Returns the code object for a GPU of AMD, whose architecture HIP calls
 * "gfx942:sramecc+:xnack-", or NULL if the build has none. */
const struct gpu_code *gpu_image_find_amd(const struct gpu_image *image, const char *architecture);

/* Lists the architectures of AMD for which the image has code, such as "gfx90a, gfx942". */
void gpu_image_list_amd(const struct gpu_image *image, char *text, size_t bytes);

/* Finds the code object of a program's image for a GPU of AMD, as gpu_image_find_amd().
 * WEFT_ERR_UNSUPPORTED: there is none; the sentence names those that there are. */
weft_status program_find_amd(const struct weft_image *image, const char *architecture,
                             const char **begin, const char **end);

/* Finds the cubin of a program's image for a GPU of that compute capability, 90 for 9.0: the one of
 * the latest minor version that runs there. */
bool program_find_cubin(const struct weft_image *image, int capability, const char **begin,
                        const char **end);

/* Whether the program has brought code for GPUs of AMD. */
bool program_has_amd(void);

/* Keeps code of a program for "gfx942" or "sm_90", which is there as long as the program runs. */
void program_add_code(const struct weft_image *image, const char *architecture, const char *begin,
                      const char *end);

/* Returns the code in a frame of LZ4, which *unpacked keeps until it is freed, or what is no frame
 * as it is. NULL: no memory. */
const char *gpu_unpack(const char *begin, const char *end, char **unpacked);

/* Edits the PTX of an image, which is for compute capability 9.0, for GPUs from 7.0 on: without
 * programmatic dependent launches, which those do not have. */
void gpu_ptx_lower(char *ptx);

/* Returns "cubin", "PTX" or "code object". */
const char *gpu_code_kind(const struct gpu_code *code);

#endif
