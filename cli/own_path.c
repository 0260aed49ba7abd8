/* SPDX-License-Identifier: Apache-2.0 */
/* See own_path.h. */
#include "own_path.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool cli_own_path(char path[PATH_MAX])
{
    static const char whole[] = "/libexec/weft/weft", small[] = "/bin/weft";
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (length < 0) {
        fprintf(stderr, "%s: readlink(\"/proc/self/exe\"): %s\n", program_invocation_short_name,
                strerror(errno));
        return false;
    }
    path[length] = '\0';
    size_t prefix = (size_t)length - (sizeof whole - 1);
    if ((size_t)length < sizeof whole || strcmp(path + prefix, whole) != 0)
        return true;
    char other[PATH_MAX];
    snprintf(other, sizeof other, "%.*s%s", (int)prefix, path, small);
    if (access(other, X_OK) == 0)
        memcpy(path, other, strlen(other) + 1);
    return true;
}
