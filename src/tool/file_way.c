/* SPDX-License-Identifier: Apache-2.0 */
/* See file_way.h. */
#include "tool/file_way.h"

#include "file/file.h"

weft_status tool_file_way(const char *path, bool with_gpu, weft_file_info *info)
{
    const weft_file_attr attr = {0};
    struct file_settings settings;
    struct opened_file file;
    struct file_engine *engine;
    weft_status status = file_choose_settings(&attr, WEFT_FILE_READ, &settings);
    if (!status)
        status = file_open(&file_system_calls, path, WEFT_FILE_READ, 0, &file);
    if (status)
        return status;
    status = file_engine_choose(&file, &settings, &engine);
    if (!status) {
        file_engine_describe(engine, with_gpu, info);
        file_engine_close(engine);
    }
    file_close(&file);
    file_cufile_end(NULL);
    return status;
}
