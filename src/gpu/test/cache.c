/* SPDX-License-Identifier: Apache-2.0 */
/* See cache.h. The first line of the file is the boot id; each further line is a pair. A file
 * of an earlier boot counts as empty and is rewritten. */
#include "gpu/test/cache.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_BYTES = 192, BOOT_ID_BYTES = 40 };

static bool ensure_own_folder(const char *path)
{
    if (mkdir(path, 0700) && errno != EEXIST)
        return false;
    struct stat st;
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
           !(st.st_mode & 022);
}

static bool find_file(const char *name, char *path, unsigned long bytes)
{
    char folder[512];
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    if (runtime && runtime[0] == '/') {
        snprintf(folder, sizeof folder, "%s/weft", runtime);
        if (ensure_own_folder(folder))
            return (unsigned long)snprintf(path, bytes, "%s/%s", folder, name) < bytes;
    }
    const char *home = getenv("HOME");
    if (!home || home[0] != '/')
        return false;
    snprintf(folder, sizeof folder, "%s/.cache", home);
    if (!ensure_own_folder(folder))
        return false;
    snprintf(folder, sizeof folder, "%s/.cache/weft", home);
    return ensure_own_folder(folder) &&
           (unsigned long)snprintf(path, bytes, "%s/%s", folder, name) < bytes;
}

bool proof_cache_file(char *path, unsigned long bytes)
{
    return find_file("gpu-proofs", path, bytes);
}

static bool read_boot_id(char *id)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    bool good = file && fgets(id, BOOT_ID_BYTES, file);
    if (good)
        id[strcspn(id, "\n")] = '\0';
    if (file)
        fclose(file);
    return good;
}

static void format_pair_line(const CUuuid *a, const CUuuid *b, int driver_version, char *line)
{
    bool swap = memcmp(a, b, sizeof *a) > 0;
    const CUuuid *ends[2] = {swap ? b : a, swap ? a : b};
    size_t used = 0;
    for (int end = 0; end < 2; end++) {
        for (size_t i = 0; i < sizeof a->bytes; i++)
            used += (size_t)snprintf(line + used, LINE_BYTES - used, "%02x",
                                     (unsigned char)ends[end]->bytes[i]);
        line[used++] = ' ';
    }
    snprintf(line + used, LINE_BYTES - used, "%d", driver_version);
}

/* Opens a file that only this user can have written. */
static FILE *open_own(const char *path, int flags)
{
    int fd = open(path, flags | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return NULL;
    struct stat st;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 022) {
        log_warn(LOG_GPU,
                 "%s is not a file of this user alone; GPU test results are not cached in it",
                 path);
        close(fd);
        return NULL;
    }
    FILE *file = fdopen(fd, flags & O_RDWR ? "r+" : "r");
    if (!file)
        close(fd);
    return file;
}

/* Returns whether the file is of this boot; *found: it contains the line. */
static bool scan_lines(FILE *file, const char *line, bool *found)
{
    char boot_id[BOOT_ID_BYTES], text[LINE_BYTES];
    *found = false;
    if (!read_boot_id(boot_id) || !fgets(text, sizeof text, file))
        return false;
    text[strcspn(text, "\n")] = '\0';
    if (strcmp(text, boot_id) != 0)
        return false;
    while (!*found && fgets(text, sizeof text, file)) {
        text[strcspn(text, "\n")] = '\0';
        *found = strcmp(text, line) == 0;
    }
    return true;
}

bool proof_cache_contains(const CUuuid *a, const CUuuid *b, int driver_version)
{
    char path[600], line[LINE_BYTES];
    bool found = false;
    FILE *file = proof_cache_file(path, sizeof path) ? open_own(path, O_RDONLY) : NULL;
    if (!file)
        return false;
    format_pair_line(a, b, driver_version, line);
    bool current = scan_lines(file, line, &found);
    fclose(file);
    return current && found;
}

/* Adds the line unless the file contains it. */
static void add_line(const char *name, const char *line)
{
    char path[600], boot_id[BOOT_ID_BYTES];
    bool found;
    FILE *file = find_file(name, path, sizeof path) ? open_own(path, O_RDWR | O_CREAT) : NULL;
    if (!file)
        return;
    /* Several PEs of a job may add lines at the same time. */
    if (flock(fileno(file), LOCK_EX) == 0 && read_boot_id(boot_id)) {
        if (!scan_lines(file, line, &found)) {
            rewind(file);
            if (ftruncate(fileno(file), 0) == 0)
                fprintf(file, "%s\n%s\n", boot_id, line);
        } else if (!found) {
            fseek(file, 0, SEEK_END);
            fprintf(file, "%s\n", line);
        }
    }
    fclose(file);
}

void proof_cache_add(const CUuuid *a, const CUuuid *b, int driver_version)
{
    char line[LINE_BYTES];
    format_pair_line(a, b, driver_version, line);
    add_line("gpu-proofs", line);
}

/* Reads the numbers of a GPU's line, which is the pair of the GPU with itself followed by the
 * numbers. */
static bool read_numbers(const char *text, size_t *numbers, int count)
{
    for (int i = 0; i < count; i++) {
        char *end;
        if (*text != ' ')
            return false;
        numbers[i] = strtoull(text + 1, &end, 10);
        if (end == text + 1)
            return false;
        text = end;
    }
    return true;
}

bool proof_cache_load_numbers(const char *what, const CUuuid *gpu, int driver_version,
                              size_t *numbers, int count)
{
    char path[600], line[LINE_BYTES], text[LINE_BYTES], boot_id[BOOT_ID_BYTES];
    FILE *file = find_file(what, path, sizeof path) ? open_own(path, O_RDONLY) : NULL;
    if (!file)
        return false;
    format_pair_line(gpu, gpu, driver_version, line);
    size_t length = strlen(line);
    bool found = false, current = read_boot_id(boot_id) && fgets(text, sizeof text, file);
    current = current && strncmp(text, boot_id, strlen(boot_id)) == 0;
    while (current && !found && fgets(text, sizeof text, file))
        found = strncmp(text, line, length) == 0 && read_numbers(text + length, numbers, count);
    fclose(file);
    return found;
}

void proof_cache_store_numbers(const char *what, const CUuuid *gpu, int driver_version,
                               const size_t *numbers, int count)
{
    char line[LINE_BYTES];
    format_pair_line(gpu, gpu, driver_version, line);
    size_t used = strlen(line);
    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(line + used, sizeof line - used, " %zu", numbers[i]);
    add_line(what, line);
}

/* Overwrites the line in place, so that lines that others add meanwhile keep their positions. */
void proof_cache_remove(const CUuuid *a, const CUuuid *b, int driver_version)
{
    char path[600], line[LINE_BYTES], text[LINE_BYTES];
    FILE *file = proof_cache_file(path, sizeof path) ? open_own(path, O_RDWR) : NULL;
    if (!file)
        return;
    format_pair_line(a, b, driver_version, line);
    if (flock(fileno(file), LOCK_EX) == 0) {
        long at = 0;
        while (fgets(text, sizeof text, file)) {
            text[strcspn(text, "\n")] = '\0';
            if (strcmp(text, line) == 0) {
                fseek(file, at, SEEK_SET);
                fputc('-', file);
                fflush(file);
                fseek(file, at + (long)strlen(line) + 1, SEEK_SET);
            }
            at = ftell(file);
        }
    }
    fclose(file);
}
