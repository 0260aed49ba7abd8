/* SPDX-License-Identifier: Apache-2.0 */
/* See read_file.h. */
#include "base/read_file.h"

#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAUSE_MS = 10000, FIRST_BYTES = 64 << 10 };

/* Returns the bytes read, 0 at the end, or -1 with errno. A pipe that no process has opened for
 * writing yet would read as ended, so this waits first. */
static ssize_t read_some(int fd, char *to, size_t bytes)
{
    for (;;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int n = poll(&ready, 1, PAUSE_MS);
        if (n == 0)
            errno = ETIMEDOUT;
        ssize_t got = n > 0 ? read(fd, to, bytes) : -1;
        if (got >= 0 || (errno != EINTR && errno != EAGAIN))
            return got;
    }
}

static weft_status read_all(int fd, const char *path, size_t most, char **text, size_t *bytes)
{
    size_t size = FIRST_BYTES;
    for (*bytes = 0;; size *= 2) {
        char *larger = realloc(*text, size + 1);
        if (!larger)
            return base_fail(WEFT_ERR_NO_MEMORY, "read %s: no private memory", path);
        *text = larger;
        while (*bytes < size) {
            ssize_t got = read_some(fd, *text + *bytes, size - *bytes);
            if (got < 0)
                return base_fail(WEFT_ERR_SYSTEM, "read %s: %s", path,
                                 errno == ETIMEDOUT ? "nothing was written to it for 10 s"
                                                    : strerror(errno));
            *bytes += (size_t)got;
            if (*bytes > most)
                return base_fail(WEFT_ERR_SYSTEM, "read %s: it has more than %zu bytes", path,
                                 most);
            if (got == 0) {
                (*text)[*bytes] = '\0';
                return WEFT_OK;
            }
        }
    }
}

weft_status base_read_file(const char *path, size_t most, char **text, size_t *bytes)
{
    *text = NULL;
    *bytes = 0;
    /* Without O_NONBLOCK the open itself would wait for a writer of a named pipe without a time
     * limit. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return base_fail(WEFT_ERR_SYSTEM, "open %s: %s", path, strerror(errno));
    weft_status status = read_all(fd, path, most, text, bytes);
    close(fd);
    if (status) {
        free(*text);
        *text = NULL;
    }
    return status;
}
