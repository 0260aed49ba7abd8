/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's parameters by key, which only read: the variables of NCCL that have an effect here, and
 * Weft's own for users (`weft env`). A value is a text; of a variable that is not set, its default
 * or "". */
#include "nccl/comm.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"

enum { MOST_KEYS = 128 };

static struct ncclParamHandle {
    const char *key, *preset;
} parameters[MOST_KEYS];
static const char *keys[MOST_KEYS];
static int n_parameters;

static void add(const char *key, const char *preset)
{
    keys[n_parameters] = key;
    parameters[n_parameters++] = (struct ncclParamHandle){key, preset};
}

static void make_table(void)
{
    _Static_assert(CONFIG_USER_COUNT < MOST_KEYS / 2, "the table has room");
    for (int i = 0; i < MOST_KEYS / 2 && environment_name(i); i++)
        add(environment_name(i), "");
#define ADD(id, type, preset, choices, text) add("WEFT_" #id, preset);
    CONFIG_USER_VARS(ADD)
#undef ADD
}

static void need_table(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    environment_apply();
    pthread_once(&once, make_table);
}

static ncclParamHandle_t find(const char *function, const char *key)
{
    need_table();
    for (int i = 0; key && i < n_parameters; i++)
        if (!strcmp(keys[i], key))
            return &parameters[i];
    nccl_keep("%s: there is no parameter \"%s\"; ncclParamGetAllParameterKeys() lists them",
              function, key ? key : "(null)");
    return NULL;
}

static const char *value_of(ncclParamHandle_t parameter)
{
    const char *value = getenv(parameter->key);
    return value ? value : parameter->preset;
}

static ncclResult_t check(const char *function, ncclParamHandle_t handle, const void *to)
{
    return handle && to
               ? ncclSuccess
               : nccl_fail(ncclInvalidArgument, "%s: the handle or the result is null", function);
}

ncclResult_t ncclParamBind(ncclParamHandle_t *handle, const char *key)
{
    ncclParamHandle_t found = find("ncclParamBind", key);
    if (!handle)
        return nccl_fail(ncclInvalidArgument, "ncclParamBind: the handle is null");
    if (!found)
        return ncclInvalidArgument;
    *handle = found;
    return ncclSuccess;
}

static ncclResult_t not_a_number(const char *function, ncclParamHandle_t handle)
{
    return nccl_fail(ncclInvalidArgument, "%s: %s is \"%s\", which is no number of this type",
                     function, handle->key, value_of(handle));
}

static ncclResult_t get_signed(const char *function, ncclParamHandle_t handle, int64_t least,
                               int64_t most, int64_t *number)
{
    char *end;
    const char *text = value_of(handle);
    errno = 0;
    *number = strtoll(text, &end, 0);
    return errno || end == text || *end || *number < least || *number > most
               ? not_a_number(function, handle)
               : ncclSuccess;
}

static ncclResult_t get_unsigned(const char *function, ncclParamHandle_t handle, uint64_t most,
                                 uint64_t *number)
{
    char *end;
    const char *text = value_of(handle);
    errno = 0;
    *number = strtoull(text, &end, 0);
    return errno || end == text || *end || strchr(text, '-') || *number > most
               ? not_a_number(function, handle)
               : ncclSuccess;
}

#define GET(name, type, wide, read)                                                                \
    ncclResult_t ncclParamGet##name(ncclParamHandle_t handle, type *value)                         \
    {                                                                                              \
        wide number = 0;                                                                           \
        ncclResult_t result = check("ncclParamGet" #name, handle, value);                          \
        if (!result)                                                                               \
            result = read;                                                                         \
        if (!result)                                                                               \
            *value = (type)number;                                                                 \
        return result;                                                                             \
    }
#define SIGNED(name, type, least, most)                                                            \
    GET(name, type, int64_t, get_signed("ncclParamGet" #name, handle, least, most, &number))
#define UNSIGNED(name, type, most)                                                                 \
    GET(name, type, uint64_t, get_unsigned("ncclParamGet" #name, handle, most, &number))
SIGNED(I8, int8_t, INT8_MIN, INT8_MAX)
SIGNED(I16, int16_t, INT16_MIN, INT16_MAX)
SIGNED(I32, int32_t, INT32_MIN, INT32_MAX)
SIGNED(I64, int64_t, INT64_MIN, INT64_MAX)
UNSIGNED(U8, uint8_t, UINT8_MAX)
UNSIGNED(U16, uint16_t, UINT16_MAX)
UNSIGNED(U32, uint32_t, UINT32_MAX)
UNSIGNED(U64, uint64_t, UINT64_MAX)

ncclResult_t ncclParamGetStr(ncclParamHandle_t handle, const char **value)
{
    ncclResult_t result = check("ncclParamGetStr", handle, value);
    if (!result)
        *value = value_of(handle);
    return result;
}

/* The text with its end. */
ncclResult_t ncclParamGet(ncclParamHandle_t handle, void *value, int room, int *bytes)
{
    ncclResult_t result = check("ncclParamGet", handle, value);
    if (!result && !bytes)
        result = nccl_fail(ncclInvalidArgument, "ncclParamGet: the size is null");
    if (result)
        return result;
    *bytes = (int)strlen(value_of(handle)) + 1;
    if (*bytes > room)
        return nccl_fail(ncclInvalidArgument, "ncclParamGet: %s takes %d bytes, there are %d",
                         handle->key, *bytes, room);
    memcpy(value, value_of(handle), (size_t)*bytes);
    return ncclSuccess;
}

ncclResult_t ncclParamGetParameter(const char *key, const char **value, int *bytes)
{
    ncclParamHandle_t found = find("ncclParamGetParameter", key);
    if (!value || !bytes)
        return nccl_fail(ncclInvalidArgument, "ncclParamGetParameter: a result is null");
    if (!found)
        return ncclInvalidArgument;
    *value = value_of(found);
    *bytes = (int)strlen(*value);
    return ncclSuccess;
}

ncclResult_t ncclParamGetAllParameterKeys(const char ***table, int *n)
{
    if (!table || !n)
        return nccl_fail(ncclInvalidArgument, "ncclParamGetAllParameterKeys: a result is null");
    need_table();
    *table = keys;
    *n = n_parameters;
    return ncclSuccess;
}

/* To the log of NCCL_DEBUG=INFO. */
void ncclParamDumpAll(void)
{
    need_table();
    for (int i = 0; i < n_parameters; i++)
        nccl_info(NULL, "ENV", "%s=%s%s", keys[i], value_of(&parameters[i]),
                  getenv(keys[i]) ? "" : " (not set)");
}
