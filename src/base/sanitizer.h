/* SPDX-License-Identifier: Apache-2.0 */
/* What the sanitizers need to know. ThreadSanitizer does not model fences: where the library relies
 * on a fence before a relaxed store, the store itself is made a release under it (on x86 the same
 * instruction), so that it sees the order that the fence gives. */
#ifndef WEFT_BASE_SANITIZER_H
#define WEFT_BASE_SANITIZER_H

#if defined(__SANITIZE_THREAD__)
#define WEFT_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEFT_THREAD_SANITIZER 1
#endif
#endif

#ifdef WEFT_THREAD_SANITIZER
#define STORE_AFTER_FENCE  __ATOMIC_RELEASE
#define UPDATE_AFTER_FENCE __ATOMIC_ACQ_REL
#else
#define STORE_AFTER_FENCE  __ATOMIC_RELAXED
#define UPDATE_AFTER_FENCE __ATOMIC_RELAXED
#endif

#endif
