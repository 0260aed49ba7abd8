/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the places of a source file where a fault can be made by rule, and writes a copy in which
 * each of them is a switch, weft_mutant(number) of record.h. Knows C by its tokens alone: what does
 * not compile, or draws a warning, is left out in a further call. Usage:
 *
 *     sites SOURCE TREE HEADER LEFT_OUT < names
 *
 * names: of the files, relative to SOURCE, one a line; LEFT_OUT: a file with the numbers of places
 * that are not to be switches. Prints a line per place: number, file, line, rule, the text there.
 * Numbers are the order of the places in all files, left out or not. A switch that is off changes
 * nothing of what the program does. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TOKENS_MOST = 200000, EDITS_MOST = 100000, EDIT_BYTES = 200, PLACES_MOST = 2000000 };

struct token {
    size_t begin, end;
    int line;
    int partner; /* of a bracket: the token of its other one, -1: none */
    char kind;   /* 'a' a name, '0' a number, 's' a string or character, 'o' an operator */
};

struct edit {
    size_t at;
    int order; /* of edits at one place */
    char text[EDIT_BYTES];
};

static struct {
    const char *name;
    char *text;
    size_t bytes;
    struct token tokens[TOKENS_MOST];
    int n;
    struct edit edits[EDITS_MOST];
    int n_edits;
} file;

static int number; /* of the last place */
static bool left_out[PLACES_MOST];

/* ------------------------------------------------------------------------------------- tokens */

static bool is(int i, const char *text)
{
    if (i < 0 || i >= file.n)
        return false;
    const struct token *t = &file.tokens[i];
    return t->end - t->begin == strlen(text) &&
           memcmp(file.text + t->begin, text, t->end - t->begin) == 0;
}

static bool is_one_of(int i, const char *const *list)
{
    for (; *list; list++)
        if (is(i, *list))
            return true;
    return false;
}

static bool is_name(int i)
{
    return i >= 0 && i < file.n && file.tokens[i].kind == 'a';
}

/* A preprocessor line with what continues it, a comment, or white space: where it ends. */
static size_t skip(size_t at, bool line_begins, int *line)
{
    const char *s = file.text;
    if (s[at] == '#' && line_begins) {
        while (s[at] && s[at] != '\n') {
            *line += s[at] == '\\' && s[at + 1] == '\n';
            at += s[at] == '\\' && s[at + 1] ? 2 : 1;
        }
        return at;
    }
    if (s[at] == '/' && s[at + 1] == '/') {
        while (s[at] && s[at] != '\n')
            at++;
        return at;
    }
    if (s[at] == '/' && s[at + 1] == '*') {
        for (at += 2; s[at] && !(s[at] == '*' && s[at + 1] == '/'); at++)
            *line += s[at] == '\n';
        return s[at] ? at + 2 : at;
    }
    if (isspace((unsigned char)s[at])) {
        *line += s[at] == '\n';
        return at + 1;
    }
    return at;
}

static size_t token_end(size_t at, char *kind)
{
    static const char *const operators[] = {"<<=", ">>=", "...", "->", "++", "--", "<<", ">>",
                                            "<=",  ">=",  "==",  "!=", "&&", "||", "+=", "-=",
                                            "*=",  "/=",  "%=",  "&=", "|=", "^=", NULL};
    const char *s = file.text;
    if (isalpha((unsigned char)s[at]) || s[at] == '_') {
        *kind = 'a';
        while (isalnum((unsigned char)s[at]) || s[at] == '_')
            at++;
        return at;
    }
    if (isdigit((unsigned char)s[at])) {
        *kind = '0';
        while (isalnum((unsigned char)s[at]) || s[at] == '.')
            at++;
        return at;
    }
    if (s[at] == '"' || s[at] == '\'') {
        char quote = s[at++];
        *kind = 's';
        while (s[at] && s[at] != quote)
            at += s[at] == '\\' && s[at + 1] ? 2 : 1;
        return s[at] ? at + 1 : at;
    }
    *kind = 'o';
    for (const char *const *o = operators; *o; o++)
        if (strncmp(s + at, *o, strlen(*o)) == 0)
            return at + strlen(*o);
    return at + 1;
}

static void tokenize(void)
{
    static int open[TOKENS_MOST];
    int depth = 0, line = 1;
    bool line_begins = true;
    file.n = 0;
    for (size_t at = 0; at < file.bytes && file.n < TOKENS_MOST;) {
        size_t next = skip(at, line_begins, &line);
        if (next != at) {
            line_begins |= memchr(file.text + at, '\n', next - at) != NULL &&
                           isspace((unsigned char)file.text[at]);
            at = next;
            continue;
        }
        struct token *t = &file.tokens[file.n];
        *t = (struct token){.begin = at, .line = line, .partner = -1};
        at = t->end = token_end(at, &t->kind);
        line_begins = false;
        char c = file.text[t->begin];
        if (t->kind == 'o' && strchr("([{", c)) {
            open[depth++] = file.n;
        } else if (t->kind == 'o' && strchr(")]}", c) && depth > 0) {
            t->partner = open[--depth];
            file.tokens[t->partner].partner = file.n;
        }
        file.n++;
    }
}

/* -------------------------------------------------------------------------------------- edits */

static void edit(size_t at, int order, const char *format, ...)
{
    if (file.n_edits == EDITS_MOST)
        return;
    struct edit *e = &file.edits[file.n_edits++];
    e->at = at;
    e->order = order;
    va_list args;
    va_start(args, format);
    vsnprintf(e->text, sizeof e->text, format, args);
    va_end(args);
}

/* A place; false: it is left out. */
static bool place(int token, const char *rule)
{
    const struct token *t = &file.tokens[token];
    const char *line = file.text + t->begin, *end;
    if (++number >= PLACES_MOST) {
        fprintf(stderr, "sites: more than %d places\n", PLACES_MOST);
        exit(2);
    }
    if (left_out[number])
        return false;
    while (line > file.text && line[-1] != '\n')
        line--;
    while (*line == ' ')
        line++;
    end = line + strcspn(line, "\n");
    printf("%d\t%s\t%d\t%s\t%.*s\n", number, file.name, t->line, rule, (int)(end - line), line);
    return true;
}

static int before(const void *a, const void *b)
{
    const struct edit *x = a, *y = b;
    return x->at != y->at ? (x->at > y->at) - (x->at < y->at)
                          : (x->order > y->order) - (x->order < y->order);
}

/* -------------------------------------------------------------------------------------- rules */

static const char *const types[] = {
    "struct",        "const",          "static",   "unsigned",   "signed", "int",     "long",
    "short",         "char",           "bool",     "float",      "double", "void",    "enum",
    "union",         "volatile",       "extern",   "typedef",    "size_t", "_Atomic", "_Alignas",
    "_Thread_local", "_Static_assert", "register", "__typeof__", "inline", NULL};
static const char *const keywords[] = {"if",    "for",      "while",  "do",   "switch",
                                       "case",  "default",  "return", "goto", "else",
                                       "break", "continue", "sizeof", NULL};
/* What must not be left out or changed: it acts outside of the program under test. */
static const char *const dangerous[] = {
    "kill",       "unlink",   "rmdir",  "remove", "rename",
    "setrlimit",  "mount",    "umount", "reboot", "pidfd_send_signal",
    "shm_unlink", "unlinkat", NULL};

static bool begins_declaration(int i)
{
    if (is_one_of(i, types))
        return true;
    if (!is_name(i) || is_one_of(i, keywords))
        return false;
    int k = i + 1;
    while (is(k, "*"))
        k++;
    return is_name(k) && !is_one_of(k, keywords) &&
           (k > i + 1 ? is(k + 1, "=") || is(k + 1, ";") || is(k + 1, ",") : true);
}

static int statement_end(int i)
{
    for (; i < file.n; i++) {
        if (file.tokens[i].partner > i)
            i = file.tokens[i].partner;
        else if (is(i, ";") || is(i, "}") || is(i, "{"))
            return is(i, ";") ? i : -1;
    }
    return -1;
}

static bool holds(int from, int to, const char *const *list)
{
    for (int i = from; i <= to; i++)
        if (is_one_of(i, list))
            return true;
    return false;
}

/* The token behind the operand of a binary operator that ends in front of one of `ends`. */
static int operand_end(int i, const char *const *ends)
{
    for (; i < file.n; i++) {
        if (file.tokens[i].partner > i)
            i = file.tokens[i].partner;
        else if (file.tokens[i].partner >= 0 || is_one_of(i, ends))
            return i;
    }
    return -1;
}

static void leave_statement_out(int i)
{
    int end = statement_end(i);
    if (end < 0 || holds(i, end, dangerous) || begins_declaration(i) || is(i + 1, ":"))
        return;
    bool simple = is_name(i) && !is_one_of(i, keywords);
    simple |= is(i, "*") || is(i, "++") || is(i, "--") || is(i, "break") || is(i, "continue") ||
              is(i, "goto");
    simple |= is(i, "return") && is(i + 1, ";");
    if (simple && place(i, "statement left out"))
        edit(file.tokens[i].begin, 0, "if (weft_mutant(%d)) ; else ", number);
    if (is(i, "return") && !is(i + 1, ";") &&
        !(end == i + 2 &&
          (is(i + 1, "0") || is(i + 1, "WEFT_OK") || is(i + 1, "NULL") || is(i + 1, "false"))) &&
        place(i, "returns 0"))
        edit(file.tokens[i].begin, 0, "if (weft_mutant(%d)) return 0; else ", number);
}

static void turn_condition(int i)
{
    int open = i + 1, close = is(open, "(") ? file.tokens[open].partner : -1;
    if (close < 0 || holds(open, close, dangerous) || !place(i, "condition never true"))
        return;
    edit(file.tokens[open].end, 0, "!weft_mutant(%d) && (", number);
    edit(file.tokens[close].begin, 9, ")");
}

static void change_operator(int i)
{
    static const char *const equality[] = {"&&", "||", "?", ":",  ",",  ";",  "&",  "^",  "|",
                                           "==", "!=", "=", "+=", "-=", "|=", "&=", "^=", NULL};
    static const char *const logic[] = {"&&", "||", "?",  ":",  ",",  ";",
                                        "=",  "+=", "-=", "|=", "&=", NULL};
    if (is(i, "<") || is(i, ">=")) {
        if (place(i, "bound by one"))
            edit(file.tokens[i].end, 0, " weft_mutant(%d) +", number);
    } else if (is(i, "<=") || is(i, ">")) {
        if (place(i, "bound by one"))
            edit(file.tokens[i].end, 0, " -weft_mutant(%d) +", number);
    } else if (is(i, "==") || is(i, "!=")) {
        int end = operand_end(i + 1, equality);
        if (end > 0 && place(i, "comparison turned"))
            edit(file.tokens[end - 1].end, 1, " != weft_mutant(%d)", number);
    } else if (is(i, "&&") || is(i, "||")) {
        int end = operand_end(i + 1, logic);
        if (end < 0 || !place(i, "second condition left out"))
            return;
        edit(file.tokens[i + 1].begin, -1,
             is(i, "&&") ? "(weft_mutant(%d) || (" : "(!weft_mutant(%d) && (", number);
        edit(file.tokens[end - 1].end, 8, "))");
    }
}

static void exchange(int a, int b, const char *rule)
{
    const struct token *x = &file.tokens[a], *y = &file.tokens[b];
    if (!place(a, rule))
        return;
    edit(x->begin, 2, "(weft_mutant(%d) ? %.*s : ", number, (int)(y->end - y->begin),
         file.text + y->begin);
    edit(x->end, 0, ")");
    edit(y->begin, 2, "(weft_mutant(%d) ? %.*s : ", number, (int)(x->end - x->begin),
         file.text + x->begin);
    edit(y->end, 0, ")");
}

static bool is_variable(int i)
{
    return is_name(i) && !is_one_of(i, types) && !is_one_of(i, keywords) && !is(i + 1, "(") &&
           !is(i - 1, ".") && !is(i - 1, "->") &&
           !isupper((unsigned char)file.text[file.tokens[i].begin]);
}

static bool is_alike(int a, int b)
{
    const struct token *x = &file.tokens[a], *y = &file.tokens[b];
    return x->end - x->begin == y->end - y->begin &&
           memcmp(file.text + x->begin, file.text + y->begin, x->end - x->begin) == 0;
}

/* Two arguments of a call that are variables and stand next to each other; the operands of a
 * difference. */
static void change_operands(int i, bool variadic)
{
    bool argument =
        is(i, ",") && (is(i - 2, "(") || is(i - 2, ",")) && (is(i + 2, ")") || is(i + 2, ","));
    bool difference = is(i, "-") && (is(i - 2, "(") || is(i - 2, "=") || is(i - 2, ",")) &&
                      (is(i + 2, ")") || is(i + 2, ";") || is(i + 2, ","));
    if ((argument && !variadic) || difference)
        if (is_variable(i - 1) && is_variable(i + 1) && !is_alike(i - 1, i + 1))
            exchange(i - 1, i + 1, "operands exchanged");
}

static void change_number(int i)
{
    const struct token *t = &file.tokens[i];
    const char *s = file.text + t->begin;
    for (size_t k = 0; k < t->end - t->begin; k++)
        if (!isdigit((unsigned char)s[k]) && !strchr("uUlL", s[k]))
            return; /* hexadecimal or real */
    if (place(i, "constant by one")) {
        edit(t->begin, 3, "(");
        edit(t->end, 0, " + weft_mutant(%d))", number);
    }
}

/* ------------------------------------------------------------------------------------ a file */

static bool begins_body(int i)
{
    int k = i - 1;
    while (is(k, ")") && file.tokens[k].partner > 1 &&
           (is(file.tokens[k].partner - 1, "__attribute__") || is(file.tokens[k].partner, "("))) {
        int open = file.tokens[k].partner;
        if (is(open - 1, "__attribute__"))
            k = open - 2;
        else
            return is_name(open - 1);
    }
    return false;
}

static void change_body(int from, int to)
{
    static const char *const variadic_names[] = {
        "printf",    "snprintf", "fprintf",  "base_fail", "base_fail_context",
        "log_debug", "log_info", "log_warn", "log_error", NULL};
    bool declares = false, label = false;
    int variadic_until = -1;
    for (int i = from + 1; i < to; i++) {
        bool head = is(i - 1, ")") && file.tokens[i - 1].partner > 0 &&
                    (is(file.tokens[i - 1].partner - 1, "if") ||
                     is(file.tokens[i - 1].partner - 1, "for") ||
                     is(file.tokens[i - 1].partner - 1, "while") ||
                     is(file.tokens[i - 1].partner - 1, "switch"));
        bool begins = is(i - 1, ";") || is(i - 1, "{") || is(i - 1, "}") || is(i - 1, "else") ||
                      head || (is(i - 1, ":") && label);
        bool in_parentheses = false;
        for (int k = i - 1; k > from && k > i - 40 && !in_parentheses; k--)
            in_parentheses = is(k, "(") && file.tokens[k].partner > i && is(k - 1, "for");
        if (begins && !in_parentheses) {
            declares = begins_declaration(i);
            leave_statement_out(i);
        }
        if (is(i, "case") || is(i, "default") || (begins && is_name(i) && is(i + 1, ":")))
            label = true;
        else if (is(i, ";") || is(i, "{"))
            label = false;
        if (is(i, "if"))
            turn_condition(i);
        if (is_one_of(i, variadic_names) && is(i + 1, "("))
            variadic_until = file.tokens[i + 1].partner;
        bool in_case = label && !is(i - 1, ":");
        if (file.tokens[i].kind == 'o' && !in_case) {
            change_operator(i);
            change_operands(i, i < variadic_until);
        }
        if (file.tokens[i].kind == '0' && !in_case && !(declares && is(i - 1, "[")) &&
            i >= variadic_until)
            change_number(i);
    }
}

static void change_file(void)
{
    tokenize();
    file.n_edits = 0;
    for (int i = 0; i < file.n; i++) {
        if (!is(i, "{") || file.tokens[i].partner < 0)
            continue;
        if (begins_body(i))
            change_body(i, file.tokens[i].partner);
        /* extern "C" { has functions in it. */
        if (!(i > 0 && file.tokens[i - 1].kind == 's'))
            i = file.tokens[i].partner;
    }
    qsort(file.edits, (size_t)file.n_edits, sizeof file.edits[0], before);
}

static void write_copy(const char *path, const char *header)
{
    char *made = NULL;
    size_t bytes = 0, at = 0;
    FILE *out = open_memstream(&made, &bytes);
    if (file.n_edits)
        fprintf(out, "#include \"%s\"\n#line 1\n", header);
    for (int i = 0; i < file.n_edits; i++) {
        fwrite(file.text + at, 1, file.edits[i].at - at, out);
        fputs(file.edits[i].text, out);
        at = file.edits[i].at;
    }
    fwrite(file.text + at, 1, file.bytes - at, out);
    fclose(out);
    FILE *old = fopen(path, "rb");
    char *was = malloc(bytes + 1);
    bool same = old && fread(was, 1, bytes + 1, old) == bytes && memcmp(was, made, bytes) == 0;
    if (old)
        fclose(old);
    free(was);
    if (!same) {
        unlink(path);
        FILE *copy = fopen(path, "wb");
        if (!copy || fwrite(made, 1, bytes, copy) != bytes || fclose(copy)) {
            fprintf(stderr, "sites: writing %s: %s\n", path, strerror(errno));
            exit(2);
        }
    }
    free(made);
}

int main(int argc, char **argv)
{
    char name[PATH_MAX], path[2 * PATH_MAX];
    if (argc != 5) {
        fprintf(stderr, "usage: sites SOURCE TREE HEADER LEFT_OUT < names\n");
        return 2;
    }
    FILE *list = fopen(argv[4], "r");
    for (int k; list && fscanf(list, "%d", &k) == 1;)
        if (k > 0 && k < PLACES_MOST)
            left_out[k] = true;
    while (fgets(name, sizeof name, stdin)) {
        struct stat about;
        name[strcspn(name, "\n")] = '\0';
        snprintf(path, sizeof path, "%s/%s", argv[1], name);
        FILE *in = fopen(path, "rb");
        if (!in || fstat(fileno(in), &about)) {
            fprintf(stderr, "sites: %s: %s\n", path, strerror(errno));
            return 2;
        }
        file.name = name;
        file.text = calloc(1, (size_t)about.st_size + 4);
        file.bytes = fread(file.text, 1, (size_t)about.st_size, in);
        fclose(in);
        change_file();
        snprintf(path, sizeof path, "%s/%s", argv[2], name);
        write_copy(path, argv[3]);
        free(file.text);
    }
    return 0;
}
