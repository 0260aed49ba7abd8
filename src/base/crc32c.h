/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C (Castagnoli), as iSCSI, ext4 and NVMe use it: reflected, initial value and final
 * exclusive-or 0xffffffff. Source: RFC 3720, section 12.1 and B.4. */
#ifndef WEFT_BASE_CRC32C_H
#define WEFT_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Of the bytes behind those whose CRC is `crc`; 0 of none. */
uint32_t crc32c(uint32_t crc, const void *data, size_t bytes);

/* What so many bytes behind others do to the CRC of those. Zeroed at first; kept, it spares the
 * work when the next length is the same. */
struct crc32c_shift {
    uint64_t bytes;
    uint32_t map[32];
};

/* Of two runs of bytes behind one another, from the CRC of each and the length of the second. */
uint32_t crc32c_join(struct crc32c_shift *shift, uint32_t first, uint32_t second,
                     uint64_t second_bytes);

#endif
