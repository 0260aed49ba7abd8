/* SPDX-License-Identifier: Apache-2.0 */
/* Agreement on the outcome of a step that every PE takes and any PE may fail. */
#ifndef WEFT_BOOT_AGREE_H
#define WEFT_BOOT_AGREE_H

#include "boot/boot.h"

/* Collective. Returns WEFT_OK at every PE when `status` is WEFT_OK at every PE. Else returns at
 * every PE the status of the lowest PE that failed, with that PE's last-error sentence ("PE 3:
 * ..."). */
weft_status boot_agree(struct boot *boot, weft_status status);

/* The static analyser does not see that this PE's failure is one of all. */
#ifdef __clang_analyzer__
#define boot_agree(boot, status)                                                                   \
    __extension__({                                                                                \
        const weft_status given_ = (status), agreed_ = boot_agree(boot, given_);                   \
        given_ ? given_ : agreed_;                                                                 \
    })
#endif

#endif
