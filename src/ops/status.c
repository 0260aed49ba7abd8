/* SPDX-License-Identifier: Apache-2.0 */
/* Queries of a status and of the library. */
#include "base/status.h"

WEFT_EXPORT const char *weft_last_error(void)
{
    return base_last_error();
}

WEFT_EXPORT const char *weft_status_name(weft_status status)
{
    return base_status_name(status);
}

WEFT_EXPORT const char *weft_status_text(weft_status status)
{
    return base_status_text(status);
}

WEFT_EXPORT const char *weft_version(void)
{
    return WEFT_VERSION_STRING;
}
