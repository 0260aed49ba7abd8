/* SPDX-License-Identifier: Apache-2.0 */
/* Finding A18: a program whose kernels only nvcc compiled, on a machine where CUDA finds no GPU. It
 * registers what the constructors of such a program register: a unit for cuda and none for simt. */
#include <weft.h>
#include <weft/device/control.h>
#include <weft/device/state.h>

#include <stdio.h>

static int upload(const struct weft_dev *state, int ordinal)
{
    printf("CHECK: the state was written to device %d\n", ordinal);
    return 0;
}

static const char *error_text(int error)
{
    return "none";
}

static struct weft_device_unit unit = {.size = sizeof unit,
                                       .version = WEFT_DEV_VERSION,
                                       .bytes = sizeof(struct weft_dev),
                                       .cuda = 1,
                                       .upload = upload,
                                       .error_text = error_text};

__attribute__((constructor)) static void register_unit(void)
{
    weft_device_register(&unit);
}

int main(void)
{
    weft_job *job;
    weft_status status = weft_init(&job, NULL);
    if (status) {
        printf("weft_init: %s\n", weft_last_error());
        return status == WEFT_ERR_UNSUPPORTED ? 3 : 1;
    }
    printf("weft_init: joined\n");
    return weft_finalize(job) != WEFT_OK;
}
