/* SPDX-License-Identifier: Apache-2.0 */
/* See cufile.h. */
#include "driver/cufile.h"

#include "driver/driver.h"

#include <stdio.h>
#include <string.h>

weft_status cufile_load(struct cufile *cufile)
{
    static const char *const names[] = {"libcufile.so.0", NULL};
    static const struct driver_symbol symbols[] = {
#define SYMBOL(field, symbol, older, optional, result, parameters)                                 \
    {{#symbol, older}, offsetof(struct cufile, field), optional},
        CUFILE_FUNCTIONS(SYMBOL)
#undef SYMBOL
    };
    const struct driver_library library = {
        .what = "cuFile's library",
        .remedy = "apt-get install libcufile-13-0, or LD_LIBRARY_PATH to the CUDA toolkit's lib64",
        .names = names,
        .symbols = symbols,
        .symbol_count = sizeof symbols / sizeof symbols[0],
    };
    void *handle = NULL;
    weft_status status = driver_load(&library, cufile, sizeof *cufile, &handle);
    cufile->handle = handle;
    return status;
}

void cufile_unload(struct cufile *cufile)
{
    driver_unload(cufile->handle);
    memset(cufile, 0, sizeof *cufile);
}

static const struct {
    int error;
    const char *text;
} texts[] = {
    {5001, "the kernel module nvidia_fs is not loaded, and its compatibility mode is off"},
    {5004, "the module nvidia_fs is of another version"},
    {5007, "this platform does not support GPUDirect Storage"},
    {5008, "this file does not support direct transfers"},
    {5009, "this GPU does not support direct transfers"},
    {5010, "the module nvidia_fs refused"},
    {5011, "the CUDA driver refused"},
    {5012, "the address is not GPU memory"},
    {5013, "this kind of GPU memory cannot be used"},
    {5014, "the range exceeds its allocation"},
    {5020, "the descriptor is not for direct I/O"},
    {5027, "cuFile cannot look the file's disk up (/run/udev/data has no entry for it, as in "
           "containers)"},
    {5030, "an internal error"},
    {5031, "cuFile cannot open the file again, for example because its name was removed"},
    {5033, "cuFile could not be initialized"},
    {5034, "cuFile's configuration disables this file"},
    {5036, "GPU memory could not be pinned"},
    {5044, "the transfer failed"},
};

const char *cufile_error_text(struct cufile_error error, char *text, size_t bytes)
{
    const char *words = "see cufile.log, CUFILE_LOGGING_LEVEL=DEBUG";
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i].error == error.error)
            words = texts[i].text;
    if (error.error == CUFILE_ERROR_CUDA)
        snprintf(text, bytes, "error %d (CUDA %d): %s", error.error, error.cuda, words);
    else
        snprintf(text, bytes, "error %d: %s", error.error, words);
    return text;
}
