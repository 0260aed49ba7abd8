/* SPDX-License-Identifier: Apache-2.0 */
/* Status names and the last error message of each thread. */
#include "base/status.h"

#include "base/printable.h"
#include "base/sanitizer.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#undef base_fail
#undef base_fail_context

enum { MESSAGE_BYTES = 1024, MOST_STRUCTURE_BYTES = 4096 };

typedef char thread_text[BASE_TEXT_BYTES];

static _Thread_local thread_text *texts; /* [BASE_TEXTS], mapped when a thread first needs one */
static pthread_key_t texts_key;          /* unmaps them at the end of a thread */
static pthread_once_t texts_once = PTHREAD_ONCE_INIT;
static thread_text shared[BASE_TEXTS]; /* for threads that get no memory */

/* By the kernel itself: a message is also made where an allocation has just failed on purpose.
 * ThreadSanitizer sees only the calls of the C library. */
static void *map(size_t bytes)
{
    const int allow = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
#ifdef WEFT_THREAD_SANITIZER
    return mmap(NULL, bytes, allow, flags, -1, 0);
#else
    return (void *)syscall(SYS_mmap, NULL, bytes, allow, flags, -1, 0);
#endif
}

static void unmap_texts(void *mapped)
{
#ifdef WEFT_THREAD_SANITIZER
    munmap(mapped, BASE_TEXTS * sizeof *texts);
#else
    syscall(SYS_munmap, mapped, BASE_TEXTS * sizeof *texts);
#endif
    texts = NULL;
}

static void make_texts_key(void)
{
    pthread_key_create(&texts_key, unmap_texts);
}

static void map_texts(void)
{
    int kept = errno;
    void *mapped = map(BASE_TEXTS * sizeof *texts);
    if (mapped != MAP_FAILED) {
        texts = mapped;
        pthread_once(&texts_once, make_texts_key);
        pthread_setspecific(texts_key, texts);
    }
    errno = kept;
}

char *base_thread_text(enum base_text which)
{
    if (!texts)
        map_texts();
    return texts ? texts[which] : shared[which];
}

weft_status base_fail(weft_status status, const char *format, ...)
{
    char made[MESSAGE_BYTES]; /* the earlier message may be among the arguments */
    va_list args;
    va_start(args, format);
    vsnprintf(made, sizeof made, format, args);
    va_end(args);
    /* The message may contain text from a peer, a file or a host. */
    strcpy(base_thread_text(BASE_TEXT_ERROR), printable(made));
    return status;
}

weft_status base_fail_context(weft_status status, const char *format, ...)
{
    char *message = base_thread_text(BASE_TEXT_ERROR), earlier[MESSAGE_BYTES];
    memcpy(earlier, message, sizeof earlier);
    va_list args;
    va_start(args, format);
    int n = vsnprintf(message, MESSAGE_BYTES, format, args);
    va_end(args);
    size_t left = n >= 0 && n < MESSAGE_BYTES ? (size_t)(MESSAGE_BYTES - n) : 0;
    if (left > sizeof ": ")
        snprintf(message + n, left, ": %.*s", (int)(left - sizeof ": "), earlier);
    printable(message);
    return status;
}

weft_status base_check_bits(const char *what, unsigned long given, unsigned long known)
{
    if (likely(!(given & ~known)))
        return WEFT_OK;
    return base_fail(WEFT_ERR_ARGUMENT,
                     "%s is %#lx: the bits %#lx are unknown; known are those of %#lx", what, given,
                     given & ~known, known);
}

weft_status base_check_size(const char *what, const void *given, size_t least, size_t known)
{
    size_t size;
    memcpy(&size, given, sizeof size);
    if (size < least || size > MOST_STRUCTURE_BYTES)
        return base_fail(WEFT_ERR_ARGUMENT, "%s.size is %zu; set it to the structure's sizeof, %zu",
                         what, size, known);
    for (size_t i = known; i < size; i++)
        if (((const unsigned char *)given)[i])
            return base_fail(WEFT_ERR_ARGUMENT,
                             "%s.size is %zu; this version of Weft knows the first %zu bytes, and "
                             "byte %zu is not 0",
                             what, size, known, i);
    return WEFT_OK;
}

const char *base_last_error(void)
{
    return texts ? texts[BASE_TEXT_ERROR] : shared[BASE_TEXT_ERROR];
}

const char *base_status_name(weft_status status)
{
    switch (status) {
#define NAME(id, value, text)                                                                      \
    case id:                                                                                       \
        return #id;
        WEFT_STATUS_LIST(NAME)
#undef NAME
    }
    return "unknown status";
}

const char *base_status_text(weft_status status)
{
    switch (status) {
#define TEXT(id, value, text)                                                                      \
    case id:                                                                                       \
        return text;
        WEFT_STATUS_LIST(TEXT)
#undef TEXT
    }
    return "a status that this version of Weft does not know";
}
