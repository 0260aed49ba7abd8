/* SPDX-License-Identifier: Apache-2.0 */
/* The values in AMD's <hip/hip_runtime_api.h>. The build passes the names of the constants from
 * Weft's tables as text, because both headers define these constants. */
#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>

#include "hip_abi.h"

extern const size_t theirs_sizes[];
extern const long long theirs_constants[];

const size_t theirs_sizes[] = {
#define X(ours, theirs) theirs,
    ABI_SIZES(X)};

const long long theirs_constants[] = {
#include "hip_abi_constants.inc"
};
