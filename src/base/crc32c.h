/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C (Castagnoli), as iSCSI, ext4 and NVMe use it: reflected, initial value and final
 * exclusive-or 0xffffffff. Source: RFC 3720, section 12.1 and B.4. */
#ifndef WEFT_BASE_CRC32C_H
#define WEFT_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Extends the CRC `crc` of earlier bytes by these bytes; 0 is the CRC of no bytes. */
uint32_t crc32c(uint32_t crc, const void *data, size_t bytes);

/* Cache for crc32c_join(): the effect of `bytes` further bytes on a CRC. Zero it first; reuse saves
 * work while the length is the same. */
struct crc32c_shift {
    uint64_t bytes;
    uint32_t map[32];
};

/* CRC of two consecutive ranges of bytes, from the CRC of each and the length of the second. */
uint32_t crc32c_join(struct crc32c_shift *shift, uint32_t first, uint32_t second,
                     uint64_t second_bytes);

#endif
