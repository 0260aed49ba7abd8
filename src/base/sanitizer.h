/* SPDX-License-Identifier: Apache-2.0 */
/* Annotations for sanitizers. ThreadSanitizer does not model fences: where the library relies on a
 * fence before a relaxed store, the store becomes a release under it (the same instruction on x86),
 * so that it sees the order of the fence. AddressSanitizer gets the unused bytes of a buffer. */
#ifndef WEFT_BASE_SANITIZER_H
#define WEFT_BASE_SANITIZER_H

#if defined(__SANITIZE_THREAD__)
#define WEFT_THREAD_SANITIZER 1
#elif defined(__SANITIZE_ADDRESS__)
#define WEFT_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEFT_ADDRESS_SANITIZER 1
#endif
#if __has_feature(thread_sanitizer)
#define WEFT_THREAD_SANITIZER 1
#endif
#endif

#ifdef WEFT_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#define SANITIZER_HIDE(bytes, count) __asan_poison_memory_region(bytes, count)
#define SANITIZER_SHOW(bytes, count) __asan_unpoison_memory_region(bytes, count)
#else
#define SANITIZER_HIDE(bytes, count) ((void)(bytes), (void)(count))
#define SANITIZER_SHOW(bytes, count) ((void)(bytes), (void)(count))
#endif

#ifdef WEFT_THREAD_SANITIZER
#define STORE_AFTER_FENCE  __ATOMIC_RELEASE
#define UPDATE_AFTER_FENCE __ATOMIC_ACQ_REL
#else
#define STORE_AFTER_FENCE  __ATOMIC_RELAXED
#define UPDATE_AFTER_FENCE __ATOMIC_RELAXED
#endif

#endif
