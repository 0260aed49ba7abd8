/* SPDX-License-Identifier: Apache-2.0 */
/* The values in NVIDIA's <cuda.h>. The build passes the names of the constants from Weft's table as
 * text, because both headers define these constants. */
#include <cuda.h>

#if CUDA_VERSION < 13000
#define CU_JIT_SPLIT_COMPILE 34
#endif

#include "cuda_abi.h"

extern const size_t theirs_sizes[];
extern const long long theirs_constants[];

const size_t theirs_sizes[] = {
#define X(expression) expression,
    ABI_SIZES(X)};

const long long theirs_constants[] = {
#include "cuda_abi_constants.inc"
};
