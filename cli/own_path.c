/* SPDX-License-Identifier: Apache-2.0 */
/* See own_path.h. */
#include "own_path.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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

static bool folder_has(const char *bin, const char *from_bin, const char *file,
                       char folder[PATH_MAX])
{
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", bin, from_bin);
    if (!realpath(path, folder))
        return false;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return access(path, R_OK) == 0;
}

bool cli_find_folder(const char *command, const char *installed, const char *built,
                     const char *file, char folder[PATH_MAX])
{
    char bin[PATH_MAX];
    char *slash = cli_own_path(bin) ? strrchr(bin, '/') : NULL;
    if (slash)
        *slash = '\0';
    if (slash && (folder_has(bin, installed, file, folder) || folder_has(bin, built, file, folder)))
        return true;
    fprintf(stderr,
            "%s: there is no folder %s/%s with %s; install libweft-dev, or call the weft of an "
            "installation or of a build tree\n",
            command, slash ? bin : ".", installed, file);
    return false;
}

/* Escapes quotes and backslashes in JSON. */
void cli_print_path(const char *key, const char *path)
{
    if (!key) {
        puts(path);
        return;
    }
    printf("{\"%s\": \"", key);
    for (const char *c = path; *c; c++) {
        if ((unsigned char)*c < ' ') {
            printf("\\u%04x", *c);
            continue;
        }
        if (*c == '"' || *c == '\\')
            putchar('\\');
        putchar(*c);
    }
    fputs("\"}\n", stdout);
}
