/* SPDX-License-Identifier: Apache-2.0 */
/* SipHash-2-4 (Aumasson, Bernstein, 2012): a 64-bit hash that cannot be computed without the key,
 * for numbers that an unauthenticated peer must not guess. */
#ifndef WEFT_BASE_SIPHASH_H
#define WEFT_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

enum { SIPHASH_KEY_BYTES = 16 };

uint64_t siphash(const uint8_t key[SIPHASH_KEY_BYTES], const void *bytes, size_t count);

#endif
