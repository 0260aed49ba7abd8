/* SPDX-License-Identifier: Apache-2.0 */
/* Reads small files of the kernel, and calls the readers of the live machine in order. See live.h.
 */
#include "machine/live/live.h"

#include "machine/facts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct live_path live_path(const struct machine_source *source, const char *format, ...)
{
    struct live_path path;
    int n = snprintf(path.text, sizeof path.text, "%s/", source->root);
    va_list arguments;
    va_start(arguments, format);
    if (n >= 0 && (size_t)n < sizeof path.text)
        n += vsnprintf(path.text + n, sizeof path.text - (size_t)n, format, arguments);
    va_end(arguments);
    if (n < 0 || (size_t)n >= sizeof path.text)
        path.text[0] = '\0'; /* opening it fails with ENOENT */
    return path;
}

long live_bytes(const char *path, void *bytes, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -1;
    size_t have = 0;
    ssize_t got = 0;
    while (have < size && (got = read(fd, (char *)bytes + have, size - have)) > 0)
        have += (size_t)got;
    int error = errno;
    close(fd);
    errno = error;
    return got < 0 && have == 0 ? -1 : (long)have;
}

bool live_line(const char *path, char *line, size_t size)
{
    long n = live_bytes(path, line, size - 1);
    if (n < 0)
        return false;
    line[n] = '\0';
    line[strcspn(line, "\n")] = '\0';
    return true;
}

void live_number(struct machine *machine, struct machine_number *to, const char *path)
{
    char line[128], *end;
    if (!live_line(path, line, sizeof line)) {
        number_unknown(machine, to, "%s: %s", path, strerror(errno));
        return;
    }
    errno = 0;
    long long value = strtoll(line, &end, 0);
    if (end == line || errno)
        number_unknown(machine, to, "%s holds \"%s\"", path, line);
    else
        number_set(to, value);
}

void live_text(struct machine *machine, struct machine_text *to, const char *path)
{
    char line[1024];
    if (!live_line(path, line, sizeof line)) {
        text_unknown(machine, to, "%s: %s", path, strerror(errno));
        return;
    }
    for (size_t n = strlen(line); n && (line[n - 1] == ' ' || line[n - 1] == '\t'); n--)
        line[n - 1] = '\0';
    text_set(machine, to, line);
}

bool live_link(const char *path, char *name, size_t size)
{
    char target[4096];
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n < 0)
        return false;
    target[n] = '\0';
    const char *slash = strrchr(target, '/');
    snprintf(name, size, "%s", slash ? slash + 1 : target);
    return true;
}

bool live_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

void live_pci_address(struct machine *machine, struct machine_text *to, const char *path)
{
    char *real = realpath(path, NULL), *save = NULL;
    const char *found = "";
    for (char *part = real ? strtok_r(real, "/", &save) : NULL; part;
         part = strtok_r(NULL, "/", &save)) {
        unsigned domain, bus, device, function;
        int end = 0;
        if (sscanf(part, "%x:%x:%x.%x%n", &domain, &bus, &device, &function, &end) == 4 &&
            part[end] == '\0')
            found = part;
    }
    text_set(machine, to, found);
    free(real);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char **live_names(struct machine *machine, const char *path)
{
    size_t n = 0, capacity = 64;
    const char **names = machine_alloc(machine, capacity * sizeof *names);
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        if (entry->d_name[0] == '.')
            continue;
        if (n + 1 == capacity) {
            const char **larger = machine_alloc(machine, 2 * capacity * sizeof *names);
            memcpy(larger, names, n * sizeof *names);
            names = larger;
            capacity *= 2;
        }
        names[n++] = machine_printf(machine, "%s", entry->d_name);
    }
    if (directory)
        closedir(directory);
    qsort(names, n, sizeof *names, by_name);
    names[n] = NULL;
    return names;
}

struct machine *machine_read_live(const struct machine_source *source)
{
    struct machine *machine = machine_new(*source->root ? source->root : "live");
    live_system(machine, source);
    live_cpu(machine, source);
    fact_fill_socket_link(machine);
    live_pci(machine, source);
    live_drivers(machine, source);
    live_limits(machine, source);
    live_nic(machine, source);
    live_ethernet(machine, source);
    live_infiniband(machine, source);
    live_disk(machine, source);
    live_gds(machine, source);
    live_capture(machine, source);
    if (source->gpus)
        live_gpu(machine, source);
    live_log(machine, source);
    machine_reject_invalid(machine);
    return machine;
}
