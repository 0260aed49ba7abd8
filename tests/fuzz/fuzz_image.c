/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the picture reader. Whatever the bytes, a picture that is accepted has the size
 * that its header tells, and one that is refused leaves nothing behind. */
#include "image.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct image image;
    if (image_parse("fuzz", bytes, size, &image)) {
        if (image.samples || !*weft_last_error())
            abort();
        return 0;
    }
    /* Reads every sample, so that AddressSanitizer sees one that is not there. */
    unsigned sum = 0;
    for (size_t i = 0; i < image_samples(&image); i++)
        sum += image.samples[i];
    if (image_samples(&image) > size || sum > 255u * image_samples(&image))
        abort();
    image_free(&image);
    return 0;
}
