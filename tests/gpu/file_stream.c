/* SPDX-License-Identifier: Apache-2.0 */
/* File operations in stream order: the file holds what earlier work on the stream wrote, and later
 * work sees what was read. */
#include "gpu_test.h"

#include "driver/gpu_api.h"

#include <unistd.h>

#include <weft/stream.h>
#include <weft_file.h>

enum { BYTES = 100001, ROUNDS = 8 };

int main(void)
{
    weft_job *job;
    weft_file *file;
    struct gpu_api driver;
    CUstream stream;
    CUdevice device;
    CUcontext context;
    weft_file_result written, read, late;
    static unsigned char mine[BYTES], seen[BYTES];
    char path[64];
    OK(weft_init(&job, NULL));
    int me = weft_my_pe(job), ordinal = 0;
    weft_ctx *ctx = weft_default_ctx(job);
    char *a = gpu_alloc(job, BYTES, 0), *b = gpu_alloc(job, BYTES, 0),
         *c = gpu_alloc(job, BYTES, 0);
    OK(gpu_api_open(&driver));
    CHECK(driver.PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (uintptr_t)a) ==
          0);
    CHECK(driver.DeviceGet(&device, ordinal) == 0);
    CHECK(driver.DevicePrimaryCtxRetain(&context, device) == 0);
    CHECK(driver.CtxPushCurrent(context) == 0);
    CHECK(driver.StreamCreate(&stream, CU_STREAM_NON_BLOCKING) == 0);
    snprintf(path, sizeof path, "./weft_stream.%d.%d", (int)getppid(), me);
    OK(weft_file_open(job, path, WEFT_FILE_READ | WEFT_FILE_WRITE | WEFT_FILE_CREATE, NULL, &file));
    for (int round = 0; round < ROUNDS; round++) {
        make_pattern(mine, me + round, BYTES);
        fill(job, a, mine, BYTES);
        OK(weft_put_on_stream(ctx, b, a, BYTES, me, stream));
        OK(weft_file_write_on_stream(file, b, BYTES, 3, me, &written, stream));
        OK(weft_file_read_on_stream(file, a, BYTES - 10, 13, me, &read, stream));
        OK(weft_put_on_stream(ctx, c, a, BYTES, me, stream));
        OK(weft_file_read_on_stream(file, b, 50, BYTES, me, &late, stream));
        CHECK(driver.StreamSynchronize(stream) == 0);
        CHECK(written.done == BYTES && read.done == BYTES - 10);
        CHECK(late.status == WEFT_ERR_RANGE && late.done == 3);
        look(job, seen, c, BYTES);
        CHECK(memcmp(seen, mine + 10, BYTES - 10) == 0);
        FAILS(weft_file_quiet(file), WEFT_ERR_RANGE, "past the end");
    }
    OK(weft_file_close(file));
    CHECK(unlink(path) == 0);
    CHECK(driver.StreamDestroy(stream) == 0);
    OK(weft_finalize(job));
    return 0;
}
