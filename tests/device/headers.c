/* SPDX-License-Identifier: Apache-2.0 */
/* The device headers compile alone, as C and as C++. */
#include <weft_device.h>

int device_headers(void);
int device_headers(void)
{
    return weft_dev_n_pes();
}
