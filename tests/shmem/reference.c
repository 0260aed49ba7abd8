/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the reference page and the coverage table of OpenSHMEM from the headers.
 *   reference SOURCE reference  every routine in full
 *   reference SOURCE coverage   section, routines and tests of each group
 * For the coverage, standard input has a line "test symbol" for every symbol that a test's object
 * file refers to, also for inline routines that the test calls. Exits with 1 if no test calls a
 * routine. */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/shmem/types.h>

struct row {
    const char *section; /* of a group, else NULL */
    const char *name;
    const char *ret, *params;
};

#define WEFT_SHMEM_NORETURN
#define WEFT_SHMEM_HOOKS_H
#define WEFT_SHMEM_GROUP(section, name)                 {section, name, NULL, NULL},
#define ROUTINE(ret, name, params)                      {NULL, #name, #ret, #params},
#define WEFT_SHMEM_INLINE(ret, name, params, args, ...) ROUTINE(ret, name, params)
#define WEFT_SHMEM_INLINE_VOID(name, params, args, ...) ROUTINE(void, name, params)
#define WEFT_SHMEM_EXTERN(ret, name, params)            ROUTINE(ret, name, params)

static const struct row rows[] = {
#include <weft/shmem/setup.h>

#include <weft/shmem/rma.h>

#include <weft/shmem/amo.h>

#include <weft/shmem/wait.h>

#include <weft/shmem/collective.h>

#include <weft/shmem/active_set.h>

#include <weft/shmem/deprecated.h>

#include <weft/shmem/extensions.h>
};
enum { ROWS = sizeof rows / sizeof rows[0], MOST_TEXT = 1 << 20 };

static const char *source;
static char tests_of[ROWS][1024];
static bool called[ROWS];
static char generic[MOST_TEXT];

static char *read_file(const char *path, char *text)
{
    FILE *file = fopen(path, "r");
    if (!file) {
        perror(path);
        exit(2);
    }
    size_t n = fread(text, 1, MOST_TEXT - 1, file);
    text[n] = '\0';
    fclose(file);
    return text;
}

/* Prints C text without the blank after a star. */
static void print_c(const char *text)
{
    for (char before = 0; *text; before = *text++)
        if (*text != ' ' || before != '*')
            putchar(*text);
}

static bool has_selection(const char *group)
{
    char define[128];
    snprintf(define, sizeof define, "#define %s(", group);
    return strstr(generic, define) != NULL;
}

static int group_of(int routine)
{
    while (!rows[routine].section)
        routine--;
    return routine;
}

/* A test that calls a routine is a test of its group; each is listed once, in the order of the
 * input. */
static void cover(const char *test, int routine)
{
    char *tests = tests_of[group_of(routine)];
    size_t used = strlen(tests), length = strlen(test);
    called[routine] = true;
    if (used >= length && strcmp(tests + used - length, test) == 0)
        return;
    snprintf(tests + used, sizeof tests_of[0] - used, "%s%s", used ? ", " : "", test);
}

static void read_symbols(void)
{
    char test[128], symbol[128];
    while (scanf("%127s %127s", test, symbol) == 2)
        for (int i = 0; i < ROWS; i++)
            if (!rows[i].section && strcmp(rows[i].name, symbol) == 0)
                cover(test, i);
}

static int routines_of(int group)
{
    int count = 0;
    while (group + 1 + count < ROWS && !rows[group + 1 + count].section)
        count++;
    return count;
}

static void print_section(const char *section)
{
    if (isdigit((unsigned char)*section))
        printf("section %s", section);
    else
        printf("%s", section);
}

static void write_reference(void)
{
    printf("# OpenSHMEM reference\n\n"
           "Every routine of `shmem.h` and `shmemx.h`, with the section of OpenSHMEM 1.5 that "
           "describes it.\nMade from the headers by `./dev docs`. Each routine is\nalso there as "
           "`pshmem_...` (`pshmem.h`).\n");
    for (int i = 0; i < ROWS; i++) {
        if (rows[i].section) {
            printf("%s\n## %s\n\nOpenSHMEM 1.5, ", i ? "```\n" : "", rows[i].name);
            print_section(rows[i].section);
            printf(".%s\n\n```c\n", has_selection(rows[i].name)
                                        ? " A C11 selection by type has the group's name."
                                        : "");
            continue;
        }
        print_c(rows[i].ret);
        printf("%s%s", strchr(rows[i].ret, '*') ? "" : " ", rows[i].name);
        print_c(rows[i].params);
        printf(";\n");
    }
    printf("```\n");
}

static int write_coverage(void)
{
    int faults = 0, routines = 0, groups = 0;
    printf(
        "# Coverage of OpenSHMEM 1.5\n\n"
        "Made from the headers and the tests by `./dev docs`. The routines of each group in full: "
        "[shmem-reference.md](shmem-reference.md). Tests are in `tests/shmem/` and\nrun with "
        "several numbers of PEs; a test stands here when its object file calls a routine of "
        "the group.\nEach routine is called by one.\n\n"
        "| group | section | routines | C11 | tests |\n| --- | --- | ---: | :-: | --- |\n");
    for (int i = 0; i < ROWS; i++) {
        if (!rows[i].section)
            continue;
        int count = routines_of(i);
        routines += count;
        groups++;
        printf("| %s | %s | %d | %s | %s |\n", rows[i].name, rows[i].section, count,
               has_selection(rows[i].name) ? "yes" : "", tests_of[i]);
        for (int r = i + 1; r <= i + count; r++) {
            if (called[r])
                continue;
            fprintf(stderr, "%s is called by no test\n", rows[r].name);
            faults = 1;
        }
    }
    printf("\n%d routines in %d groups.\n", routines, groups);
    return faults;
}

int main(int argc, char **argv)
{
    char path[512];
    if (argc != 3) {
        fprintf(stderr, "usage: reference SOURCE reference|coverage\n");
        return 2;
    }
    source = argv[1];
    snprintf(path, sizeof path, "%s/include/weft/shmem/generic.h", source);
    read_file(path, generic);
    if (strcmp(argv[2], "reference") == 0) {
        write_reference();
        return 0;
    }
    read_symbols();
    return write_coverage();
}
