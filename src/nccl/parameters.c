/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's parameters by key. Weft has none of them; `weft env` lists its own. */
#include "nccl/comm.h"

#include <string.h>

static ncclResult_t unknown(const char *function, const char *key)
{
    return nccl_fail(ncclInvalidArgument,
                     "%s: there is no parameter %s%s%s; `weft env` lists Weft's", function,
                     key ? "\"" : "", key ? key : "with this handle", key ? "\"" : "");
}

ncclResult_t ncclParamBind(ncclParamHandle_t *handle, const char *key)
{
    if (handle)
        *handle = NULL;
    return unknown("ncclParamBind", key);
}

#define GET(name, type)                                                                            \
    ncclResult_t ncclParamGet##name(ncclParamHandle_t handle, type *value)                         \
    {                                                                                              \
        (void)handle, (void)value;                                                                 \
        return unknown("ncclParamGet" #name, NULL);                                                \
    }
GET(I8, int8_t)
GET(I16, int16_t)
GET(I32, int32_t)
GET(I64, int64_t)
GET(U8, uint8_t)
GET(U16, uint16_t)
GET(U32, uint32_t)
GET(U64, uint64_t)
GET(Str, const char *)

ncclResult_t ncclParamGet(ncclParamHandle_t handle, void *value, int room, int *bytes)
{
    (void)handle, (void)value, (void)room, (void)bytes;
    return unknown("ncclParamGet", NULL);
}

ncclResult_t ncclParamGetParameter(const char *key, const char **value, int *bytes)
{
    (void)value, (void)bytes;
    return unknown("ncclParamGetParameter", key);
}

ncclResult_t ncclParamGetAllParameterKeys(const char ***keys, int *n)
{
    static const char *none[1];
    if (!keys || !n)
        return nccl_fail(ncclInvalidArgument, "ncclParamGetAllParameterKeys: a result is null");
    *keys = none;
    *n = 0;
    return ncclSuccess;
}

void ncclParamDumpAll(void)
{
}
