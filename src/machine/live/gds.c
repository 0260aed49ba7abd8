/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of GPUDirect Storage that NVIDIA's gdscheck prints: the drivers that are registered with
 * the module nvidia_fs, and whether cuFile's settings allow copies through host memory. */
#include "machine/live/live.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODULES_BYTES = 4096, SETTINGS_BYTES = 65536 };

/* The file has a line such as "nvme: 1" for each driver. */
static void read_modules(struct machine *machine, const struct machine_source *source)
{
    struct machine_text *to = &machine->drivers.nvidia_fs_modules;
    struct live_path path = live_path(source, "proc/driver/nvidia-fs/modules");
    char text[MODULES_BYTES], names[512] = "", *save = NULL;
    long n = live_bytes(path.text, text, sizeof text - 1);
    if (n < 0) {
        text_unknown(machine, to, "%s: %s", path.text, strerror(errno));
        return;
    }
    text[n] = '\0';
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        line[strcspn(line, ": \t")] = '\0';
        if (*line && strlen(names) + strlen(line) + 2 < sizeof names) {
            strcat(names, *names ? " " : "");
            strcat(names, line);
        }
    }
    text_set(machine, to, names);
}

/* cufile.json is JSON with comments from "//" to the end of a line; replaces them by blanks. */
static void blank_comments(char *text)
{
    bool quoted = false;
    for (char *c = text; *c; c++) {
        if (quoted && *c == '\\' && c[1]) {
            c++;
        } else if (*c == '"') {
            quoted = !quoted;
        } else if (!quoted && c[0] == '/' && c[1] == '/') {
            while (*c && *c != '\n')
                *c++ = ' ';
            if (!*c)
                return;
        }
    }
}

/* Value of a setting anywhere in the file; `preset` when the file does not have it. */
static bool is_set(const char *text, const char *key, bool preset)
{
    const char *at = strstr(text, key);
    if (!at)
        return preset;
    at += strlen(key);
    at += strspn(at, "\" \t\n:");
    return strncmp(at, "true", 4) == 0;
}

/* Without the file or the setting, cuFile copies through host memory where no direct route works.
 */
static void read_settings(struct machine *machine, const struct machine_source *source)
{
    struct machine_text *to = &machine->drivers.cufile_compat;
    const char *own = *source->root ? NULL : getenv("CUFILE_ENV_PATH_JSON");
    struct live_path path = live_path(source, "etc/cufile.json");
    char *text = malloc(SETTINGS_BYTES);
    if (own)
        snprintf(path.text, sizeof path.text, "%s", own);
    long n = text ? live_bytes(path.text, text, SETTINGS_BYTES - 1) : -1;
    if (n < 0 && errno != ENOENT) {
        text_unknown(machine, to, "%s: %s", path.text, strerror(errno));
    } else {
        if (text)
            text[n < 0 ? 0 : n] = '\0';
        if (text)
            blank_comments(text);
        text_set(machine, to,
                 !text                                          ? "allowed"
                 : is_set(text, "\"force_compat_mode\"", false) ? "forced"
                 : is_set(text, "\"allow_compat_mode\"", true)  ? "allowed"
                                                                : "refused");
    }
    free(text);
}

void live_gds(struct machine *machine, const struct machine_source *source)
{
    bool nvidia = false;
    for (size_t i = 0; i < machine->n_pci; i++)
        nvidia |= number_is(machine->pci[i].vendor, 0x10de);
    if (!nvidia)
        return;
    if (number_is(machine->drivers.nvidia_fs, 1))
        read_modules(machine, source);
    if (*text_or(machine->drivers.libcufile, ""))
        read_settings(machine, source);
}
