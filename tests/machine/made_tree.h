/* SPDX-License-Identifier: Apache-2.0 */
/* A directory that imitates /sys, /proc and /dev, for the live readers. */
#ifndef WEFT_TESTS_MACHINE_MADE_TREE_H
#define WEFT_TESTS_MACHINE_MADE_TREE_H

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[64];

static void make_parents(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
}

static void put(const char *name, const void *bytes, size_t n)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *file = fopen(path, "w");
    if (!file) {
        make_parents(path);
        file = fopen(path, "w");
    }
    assert_non_null(file);
    fwrite(bytes, 1, n, file);
    fclose(file);
}

static void put_text(const char *name, const char *text)
{
    put(name, text, strlen(text));
}

static void put_link(const char *name, const char *target)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    make_parents(path);
    assert_int_equal(symlink(target, path), 0);
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *where)
{
    (void)s, (void)kind, (void)where;
    return remove(path);
}

/* Removes `name` and all below it; "": the whole tree. It starts no program, because a test makes
 * hundreds of calls. */
static void remove_below(const char *name)
{
    char path[512];
    struct stat s;
    snprintf(path, sizeof path, "%s/%s", root, name);
    if (lstat(path, &s) == 0)
        assert_int_equal(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* `kind`: port type of the PCI Express capability; -1: none. */
static void put_pci(const char *bdf, const char *path, const char *class, int kind, int acs)
{
    char name[300];
    uint8_t config[4096] = {0x86, 0x80};
    config[0x06] = 0x10;
    config[0x34] = 0x40;
    config[0x40] = 0x10;
    config[0x42] = kind < 0 ? 0 : (uint8_t)(kind << 4);
    config[0x48] = 0x10; /* relaxed ordering, MaxPayload 128, MaxReadReq 4096 */
    config[0x49] = 0x50;
    config[0x4c] = 4;
    config[0x4d] = 1; /* x16: 16 << 4 */
    config[0x52] = 4;
    config[0x53] = 1;
    config[0x100] = 0x0d;
    config[0x102] = 1;
    config[0x106] = (uint8_t)acs;
    snprintf(name, sizeof name, "sys/devices/%s/config", path);
    put(name, config, kind < 0 ? 64 : sizeof config);
    snprintf(name, sizeof name, "sys/devices/%s/class", path);
    put_text(name, class);
    snprintf(name, sizeof name, "sys/devices/%s/vendor", path);
    put_text(name, "0x8086\n");
    snprintf(name, sizeof name, "sys/devices/%s/device", path);
    put_text(name, "0x1234\n");
    snprintf(name, sizeof name, "sys/devices/%s/numa_node", path);
    put_text(name, "0\n");
    snprintf(name, sizeof name, "sys/devices/%s/resource", path);
    put_text(name, "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
                   "0x0000380000000000 0x00003fffffffffff 0x000000000014220c\n");
    char target[300];
    snprintf(name, sizeof name, "sys/bus/pci/devices/%s", bdf);
    snprintf(target, sizeof target, "../../../devices/%s", path);
    put_link(name, target);
}

#endif
