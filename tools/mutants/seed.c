/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a copy of the source tree in which every fault of the lists can be switched on by the
 * environment variable MUTANT, so that one build serves all. Usage:
 *
 *     seed SOURCE TREE LIST...  < names of the files, relative to SOURCE, one a line
 *
 * A list has one entry per fault, see README.md. The text of an entry is found whatever its white
 * space, must stand there exactly once, and is replaced by a choice between it and its fault. Files
 * that would not change are not written, so that a build goes on where it was. Prints a line per
 * fault: number, sum, name, `short` or `-`, `survives` or `-`, the regular expression of its tests.
 * The number is made from the name, so that a new entry changes no file but its own; the sum is
 * over the texts of the entry, and tells whether a result is one of this entry. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum form { EXPRESSION, STATEMENT, RAW };

struct fault {
    char *name, *file, *tests, *after, *old, *new;
    unsigned number;
    enum form form;
    bool is_short, survives, placed;
    size_t begin, end; /* where `old` stands in the file */
};

static struct fault *faults;
static size_t fault_count;
static int errors;

static void die(const char *what, const char *name)
{
    fprintf(stderr, "seed: %s %s: %s\n", what, name, strerror(errno));
    exit(2);
}

static void complain(const struct fault *fault, const char *what, const char *text)
{
    fprintf(stderr, "mutant %s: %s%s%s%s\n", fault->name, fault->file ? fault->file : "no file",
            ": ", what, text);
    errors++;
}

static char *read_file(const char *name, size_t *bytes)
{
    FILE *file = fopen(name, "rb");
    struct stat about;
    if (!file)
        return NULL;
    if (fstat(fileno(file), &about))
        die("stat", name);
    char *text = malloc((size_t)about.st_size + 1);
    if (!text)
        die("reading", name);
    *bytes = fread(text, 1, (size_t)about.st_size, file);
    text[*bytes] = 0;
    fclose(file);
    return text;
}

/* ------------------------------------------------------------------------------------- lists */

/* Several lines of one key are one text. */
static void append(char **to, const char *line)
{
    size_t before = *to ? strlen(*to) + 1 : 0;
    *to = realloc(*to, before + strlen(line) + 1);
    if (!*to)
        die("reading", "a list");
    if (before)
        (*to)[before - 1] = '\n';
    strcpy(*to + before, line);
}

/* FNV-1a */
static uint32_t sum_over(const char *text, uint32_t sum)
{
    for (; text && *text; text++)
        sum = (sum ^ (unsigned char)*text) * 16777619u;
    return (sum ^ 0xff) * 16777619u;
}

/* 0 is no fault. */
static unsigned number_of(const char *name)
{
    return (sum_over(name, 2166136261u) & 0x7fffffff) | 1;
}

static uint32_t sum_of(const struct fault *fault)
{
    const char *const texts[] = {fault->file, fault->tests, fault->after, fault->old, fault->new};
    uint32_t sum = (uint32_t)fault->form;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        sum = sum_over(texts[i], sum);
    return sum;
}

static void new_fault(const char *name)
{
    for (size_t i = 0; i < fault_count; i++) {
        if (faults[i].number == number_of(name)) {
            fprintf(stderr, "mutant %s: another one has this name, or a name of the same number\n",
                    name);
            errors++;
        }
    }
    faults = realloc(faults, (fault_count + 1) * sizeof *faults);
    if (!faults)
        die("reading", "a list");
    faults[fault_count++] = (struct fault){.name = strdup(name), .number = number_of(name)};
}

static enum form form_of(struct fault *fault, const char *word)
{
    if (strcmp(word, "statement") == 0)
        return STATEMENT;
    if (strcmp(word, "raw") == 0)
        return RAW;
    complain(fault, "form is neither statement nor raw: ", word);
    return EXPRESSION;
}

static void read_line(const char *list, int number, char *line)
{
    char *value = line + strcspn(line, " ");
    if (*value)
        *value++ = 0;
    if (strcmp(line, "mutant") == 0) {
        new_fault(value);
        return;
    }
    struct fault *fault = fault_count ? &faults[fault_count - 1] : NULL;
    if (fault && strcmp(line, "file") == 0)
        append(&fault->file, value);
    else if (fault && strcmp(line, "tests") == 0)
        append(&fault->tests, value);
    else if (fault && strcmp(line, "after") == 0)
        append(&fault->after, value);
    else if (fault && strcmp(line, "old") == 0)
        append(&fault->old, value);
    else if (fault && strcmp(line, "new") == 0)
        append(&fault->new, value);
    else if (fault && strcmp(line, "form") == 0)
        fault->form = form_of(fault, value);
    else if (fault && strcmp(line, "short") == 0)
        fault->is_short = true;
    else if (fault && strcmp(line, "survives") == 0)
        fault->survives = true;
    else {
        fprintf(stderr, "%s:%d: unknown key \"%s\"\n", list, number, line);
        errors++;
    }
}

static void read_list(const char *name)
{
    size_t bytes;
    char *text = read_file(name, &bytes), *next;
    int number = 0;
    if (!text)
        die("reading", name);
    for (char *line = text; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        number++;
        if (*line && *line != '#')
            read_line(name, number, line);
    }
    free(text);
}

/* After a string or character constant that begins at `at`. */
static const char *skip_quoted(const char *at)
{
    char quote = *at++;
    while (*at && *at != quote)
        at += *at == '\\' && at[1] ? 2 : 1;
    return *at ? at + 1 : at;
}

/* Whether brackets are closed where they are opened, and `?` and `:` are pairs. Outside brackets
 * an expression has no `;`. */
static bool is_whole(const char *text, bool expression)
{
    int depth = 0, open_choices = 0;
    while (*text && depth >= 0 && open_choices >= 0) {
        if (*text == '"' || *text == '\'') {
            text = skip_quoted(text);
            continue;
        }
        depth += strchr("([{", *text) != NULL;
        depth -= strchr(")]}", *text) != NULL;
        if (expression && depth == 0)
            open_choices += (*text == '?') - (*text == ':');
        if (expression && depth == 0 && *text == ';')
            return false;
        text++;
    }
    return depth == 0 && open_choices == 0;
}

static bool begins_statement(const char *text)
{
    static const char *const words[] = {"return", "if",    "for",      "while", "do",
                                        "goto",   "break", "continue", "switch"};
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz_");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == length && strncmp(text, words[i], length) == 0)
            return true;
    return false;
}

/* A fault that cannot compile would stop the build of all. */
static void check_text(struct fault *fault, const char *text)
{
    bool expression = fault->form == EXPRESSION;
    if (!is_whole(text, expression) || (expression && begins_statement(text)))
        complain(
            fault,
            expression ? "this is no whole expression: " : "this is no whole statement: ", text);
}

static void check_entry(struct fault *fault)
{
    if (!fault->file || !fault->tests || !fault->old || !fault->new) {
        complain(fault, "an entry needs file, tests, old and new", "");
        return;
    }
    if (fault->form != RAW) {
        check_text(fault, fault->old);
        check_text(fault, fault->new);
    }
}

/* ----------------------------------------------------------------------------------- seeding */

/* Where `anchor` ends when it stands at `at`, white space taken alike; NULL when it does not. A
 * backslash that continues a macro's line counts as white space. */
static const char *matches(const char *at, const char *anchor)
{
    while (*anchor) {
        if (isspace((unsigned char)*anchor)) {
            while (isspace((unsigned char)*anchor))
                anchor++;
            if (!*anchor)
                return at;
            if (!isspace((unsigned char)*at))
                return NULL;
            while (isspace((unsigned char)*at) || (*at == '\\' && at[1] == '\n'))
                at++;
            continue;
        }
        if (*at != *anchor)
            return NULL;
        at++;
        anchor++;
    }
    return at;
}

static bool in_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Words of the anchor are whole words of the text. */
static const char *find(const char *text, const char *anchor, const char **end)
{
    for (char before = ' '; *text; before = *text++)
        if ((*end = matches(text, anchor)) && !(in_word(before) && in_word(*anchor)) &&
            !(in_word(**end) && in_word((*end)[-1])))
            return text;
    return NULL;
}

static void place(struct fault *fault, const char *text)
{
    const char *from = text, *end, *again;
    if (fault->after) {
        const char *at = find(text, fault->after, &end);
        if (!at) {
            complain(fault, "this text of `after` no longer stands there: ", fault->after);
            return;
        }
        from = end;
    }
    const char *at = find(from, fault->old, &end);
    if (!at) {
        complain(fault, "this text no longer stands there: ", fault->old);
        return;
    }
    fault->begin = (size_t)(at - text);
    fault->end = (size_t)(end - text);
    if (!fault->after && find(at + 1, fault->old, &again))
        complain(fault, "this text stands there more than once (say `after`): ", fault->old);
    else
        fault->placed = true;
}

static void put_raw(FILE *out, const char *text, unsigned number)
{
    for (const char *at; (at = strstr(text, "MUTANT")); text = at + 6)
        fprintf(out, "%.*sweft_mutant(%u)", (int)(at - text), text, number);
    fputs(text, out);
}

/* The faults of one place, one within the other; in the middle the original text. */
static void put_choice(FILE *out, const char *text, const struct fault *first, size_t i)
{
    while (i < fault_count &&
           !(faults[i].placed && faults[i].file && strcmp(faults[i].file, first->file) == 0 &&
             faults[i].begin == first->begin && faults[i].end == first->end))
        i++;
    if (i == fault_count) {
        fwrite(text + first->begin, 1, first->end - first->begin, out);
        return;
    }
    const struct fault *fault = &faults[i];
    if (fault->form == RAW) {
        put_raw(out, fault->new, fault->number);
        return;
    }
    fprintf(out,
            fault->form == STATEMENT ? "if (weft_mutant(%u)) { %s } else { "
                                     : "(weft_mutant(%u) ? (%s) : (",
            fault->number, fault->new);
    put_choice(out, text, first, i + 1);
    fputs(fault->form == STATEMENT ? " }" : "))", out);
}

static struct fault *next_placed(const char *file, size_t from)
{
    struct fault *first = NULL;
    for (size_t i = 0; i < fault_count; i++) {
        struct fault *fault = &faults[i];
        if (fault->placed && strcmp(fault->file, file) == 0 && fault->begin >= from &&
            (!first || fault->begin < first->begin))
            first = fault;
    }
    return first;
}

static void check_overlap(const char *file)
{
    for (size_t i = 0; i < fault_count; i++) {
        for (size_t k = i + 1; k < fault_count; k++) {
            struct fault *a = &faults[i], *b = &faults[k];
            if (!a->placed || !b->placed || strcmp(a->file, file) || strcmp(b->file, file))
                continue;
            bool same = a->begin == b->begin && a->end == b->end;
            if (!same && a->begin < b->end && b->begin < a->end)
                complain(b, "its text overlaps that of mutant ", a->name);
        }
    }
}

/* The text with its faults; the header that they need stands in front. */
static char *seeded(const char *file, const char *text, size_t *bytes, const char *header)
{
    char *result;
    bool any = false;
    for (size_t i = 0; i < fault_count; i++) {
        if (faults[i].file && faults[i].old && faults[i].new &&strcmp(faults[i].file, file) == 0) {
            place(&faults[i], text);
            any = true;
        }
    }
    if (!any)
        return NULL;
    check_overlap(file);
    FILE *out = open_memstream(&result, bytes);
    size_t done = 0;
    fprintf(out, "#include \"%s\"\n#line 1\n", header);
    for (struct fault *fault; (fault = next_placed(file, done)); done = fault->end) {
        fwrite(text + done, 1, fault->begin - done, out);
        put_choice(out, text, fault, 0);
    }
    fputs(text + done, out);
    fclose(out);
    return result;
}

static void make_folders(char *path)
{
    for (char *slash = path; (slash = strchr(slash + 1, '/'));) {
        *slash = 0;
        if (mkdir(path, 0777) && errno != EEXIST)
            die("making", path);
        *slash = '/';
    }
}

static void write_changed(char *path, const char *text, size_t bytes, mode_t mode)
{
    size_t before;
    char *old = read_file(path, &before);
    bool same = old && before == bytes && memcmp(old, text, bytes) == 0;
    free(old);
    if (same)
        return;
    make_folders(path);
    unlink(path);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(text, 1, bytes, file) != bytes || fclose(file) || chmod(path, mode))
        die("writing", path);
}

static void copy_file(const char *source, const char *tree, const char *name)
{
    char from[2 * PATH_MAX], to[2 * PATH_MAX], header[2 * PATH_MAX];
    struct stat about;
    size_t bytes, seeded_bytes;
    snprintf(from, sizeof from, "%s/%s", source, name);
    snprintf(to, sizeof to, "%s/%s", tree, name);
    snprintf(header, sizeof header, "%s/tools/mutants/mutant.h", tree);
    if (lstat(from, &about) || !S_ISREG(about.st_mode))
        return; /* deleted, or a link to another file of the tree */
    char *text = read_file(from, &bytes);
    if (!text)
        die("reading", from);
    char *with_faults = seeded(name, text, &seeded_bytes, header);
    write_changed(to, with_faults ? with_faults : text, with_faults ? seeded_bytes : bytes,
                  about.st_mode & 0777);
    free(with_faults);
    free(text);
}

int main(int argc, char **argv)
{
    char name[PATH_MAX];
    if (argc < 4) {
        fprintf(stderr, "usage: seed SOURCE TREE LIST... < names\n");
        return 2;
    }
    for (int i = 3; i < argc; i++)
        read_list(argv[i]);
    for (size_t i = 0; i < fault_count; i++)
        check_entry(&faults[i]);
    while (fgets(name, sizeof name, stdin)) {
        name[strcspn(name, "\n")] = 0;
        copy_file(argv[1], argv[2], name);
    }
    for (size_t i = 0; i < fault_count; i++) {
        struct fault *fault = &faults[i];
        char path[2 * PATH_MAX];
        struct stat about;
        snprintf(path, sizeof path, "%s/%s", argv[1], fault->file ? fault->file : "");
        if (fault->file && stat(path, &about))
            complain(fault, "there is no such file", "");
        printf("%u\t%08x\t%s\t%s\t%s\t%s\n", fault->number, (unsigned)sum_of(fault), fault->name,
               fault->is_short ? "short" : "-", fault->survives ? "survives" : "-",
               fault->tests ? fault->tests : "");
    }
    return errors ? 1 : 0;
}
