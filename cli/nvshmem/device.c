/* SPDX-License-Identifier: Apache-2.0 */
/* libnvshmem_device.a, for makefiles that name it: device code is in the headers, and this is
 * all. */
const char *weft_nvshmem_device_library(void);

const char *weft_nvshmem_device_library(void)
{
    return "the device code of Weft is in its headers";
}
