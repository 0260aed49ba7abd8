/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a machine file and checks it against the schema. Messages have the line of an error. Uses
 * only the schema, not the meaning of the facts. */
#include "machine/machine.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/read_file.h"
#include "base/status.h"
#include "base/text.h"
#include "machine/import/import.h"

struct reader {
    const char *text;
    const char *name;
    struct machine *machine;
    /* current position, for messages */
    const char *record; /* name of the list or struct; NULL outside of one */
    size_t item;        /* index in the list */
    bool single;        /* `record` is a struct, not a list */
};

/* --- finding the line of a fact, which the JSON parser does not keep -------------------------- */

struct scanner {
    const char *at;
    int line;
};

static void scan_space(struct scanner *s)
{
    for (; *s->at && (isspace((unsigned char)*s->at) || *s->at == ',' || *s->at == ':'); s->at++)
        s->line += *s->at == '\n';
}

/* Compares a quoted string with `word` and moves past it. The text is valid JSON: the parser has
 * accepted it. */
static bool scan_string(struct scanner *s, const char *word)
{
    size_t length = strlen(word);
    bool same = strncmp(s->at + 1, word, length) == 0 && s->at[1 + length] == '"';
    for (s->at++; *s->at && *s->at != '"'; s->at++)
        if (*s->at == '\\' && s->at[1])
            s->at++;
    s->at += *s->at == '"';
    return same;
}

static void scan_value(struct scanner *s)
{
    int depth = 0;
    scan_space(s);
    do {
        if (*s->at == '"') {
            scan_string(s, "");
        } else if (*s->at == '{' || *s->at == '[') {
            depth++;
            s->at++;
        } else if (*s->at == '}' || *s->at == ']') {
            depth--;
            s->at++;
        } else if (*s->at) {
            s->at++;
            if (depth == 0 && (!*s->at || strchr(",}] \t\r\n", *s->at)))
                break;
        }
        if (depth > 0)
            scan_space(s);
    } while (*s->at && depth > 0);
}

/* Moves to the value of `key` in the object at the current position. */
static bool scan_to_key(struct scanner *s, const char *key)
{
    scan_space(s);
    if (*s->at != '{')
        return false;
    s->at++;
    for (scan_space(s); *s->at == '"'; scan_space(s)) {
        bool found = scan_string(s, key);
        scan_space(s);
        if (found)
            return true;
        scan_value(s);
    }
    return false;
}

static int line_of_field(const struct reader *r, const char *field)
{
    struct scanner s = {.at = r->text, .line = 1};
    if (r->record && scan_to_key(&s, r->record) && !r->single) {
        scan_space(&s);
        if (*s.at == '[')
            s.at++;
        for (size_t i = 0; i < r->item; i++)
            scan_value(&s);
        scan_space(&s);
    }
    if (field)
        scan_to_key(&s, field);
    return s.line;
}

static weft_status fail_at(const struct reader *r, const char *field, const char *what)
{
    char item[32] = "";
    if (!r->single && r->record)
        snprintf(item, sizeof item, "[%zu]", r->item);
    return base_fail(WEFT_ERR_ARGUMENT, "%s:%d: %s%s%s%s: %s", r->name, line_of_field(r, field),
                     r->record ? r->record : "machine", item, field ? "." : "", field ? field : "",
                     what);
}

/* --- facts ------------------------------------------------------------------------------------ */

/* The reason of {"unknown": why}; NULL for any other value. */
static const char *unknown_reason(struct reader *r, const json_t *value)
{
    const char *why = json_string_value(json_object_get(value, "unknown"));
    return why ? machine_printf(r->machine, "%s", why) : NULL;
}

static weft_status read_number(struct reader *r, const struct machine_field *field,
                               struct machine_number *to, const json_t *value)
{
    char what[160];
    if (field->type == FIELD_FLAG && json_is_boolean(value)) {
        number_set(to, json_is_true(value));
        return WEFT_OK;
    }
    if (field->type == FIELD_FLAG || !json_is_integer(value))
        return fail_at(r, field->name,
                       field->type == FIELD_FLAG
                           ? "expected true, false or {\"unknown\": \"why\"}"
                           : "expected a whole number or {\"unknown\": \"why\"}");
    int64_t number = json_integer_value(value);
    if (number < field->low || number > field->high) {
        snprintf(what, sizeof what, "%" PRId64 " is outside %" PRId64 "..%" PRId64, number,
                 field->low, field->high);
        return fail_at(r, field->name, what);
    }
    number_set(to, number);
    return WEFT_OK;
}

static weft_status read_text(struct reader *r, const struct machine_field *field,
                             struct machine_text *to, const json_t *value)
{
    if (!json_is_string(value))
        return fail_at(r, field->name, "expected a text or {\"unknown\": \"why\"}");
    const char *text = json_string_value(value);
    if (field->words && !word_is_one_of(text, field->words)) {
        char what[400];
        snprintf(what, sizeof what, "\"%.60s\" is not one of %s", text, field->words);
        return fail_at(r, field->name, what);
    }
    text_set(r->machine, to, text);
    return WEFT_OK;
}

static weft_status read_fact(struct reader *r, const struct machine_record *record, void *item,
                             const char *key, const json_t *value)
{
    size_t n;
    const struct machine_field *fields = record->fields(&n);
    for (size_t i = 0; i < n; i++) {
        const struct machine_field *field = &fields[i];
        if (strcmp(field->name, key) != 0)
            continue;
        bool is_number = field->type == FIELD_NUMBER || field->type == FIELD_FLAG;
        void *fact = (char *)item + field->offset;
        const char *why = unknown_reason(r, value);
        if (why && is_number)
            ((struct machine_number *)fact)->why = why;
        else if (why)
            ((struct machine_text *)fact)->why = why;
        else
            return is_number ? read_number(r, field, fact, value)
                             : read_text(r, field, fact, value);
        return WEFT_OK;
    }
    const char *near = record_nearest_field(record, key);
    char what[200];
    snprintf(what, sizeof what, "there is no such fact%s%s", near ? "; nearest: " : "",
             near ? near : "");
    return fail_at(r, key, what);
}

static weft_status read_item(struct reader *r, const struct machine_record *record, void *item,
                             json_t *object)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return fail_at(r, NULL, "expected an object { ... }");
    json_object_foreach(object, key, value)
    {
        weft_status status = read_fact(r, record, item, key, value);
        if (status)
            return status;
    }
    return WEFT_OK;
}

static weft_status read_record(struct reader *r, const struct machine_record *record, json_t *value)
{
    r->record = record->name;
    r->single = record->single;
    r->item = 0;
    if (record->single)
        return read_item(r, record, record_item(r->machine, record, 0), value);
    if (!json_is_array(value)) {
        r->single = true;
        return fail_at(r, NULL, "expected a list [ ... ]");
    }
    for (r->item = 0; r->item < json_array_size(value); r->item++) {
        void *item = record_append(r->machine, record);
        weft_status status = read_item(r, record, item, json_array_get(value, r->item));
        if (status)
            return status;
    }
    return WEFT_OK;
}

static weft_status read_format_version(struct reader *r, const json_t *root)
{
    const json_t *version = json_object_get(root, "weft-machine");
    if (!json_is_integer(version))
        return base_fail(WEFT_ERR_ARGUMENT,
                         "%s:1: not a machine file: no \"weft-machine\": %d (the format version)",
                         r->name, MACHINE_FILE_VERSION);
    if (json_integer_value(version) == MACHINE_FILE_VERSION)
        return WEFT_OK;
    return base_fail(WEFT_ERR_ARGUMENT,
                     "%s:%d: the file has format version %lld, but this weft reads version %d: %s",
                     r->name, line_of_field(r, "weft-machine"),
                     (long long)json_integer_value(version), MACHINE_FILE_VERSION,
                     json_integer_value(version) > MACHINE_FILE_VERSION
                         ? "use the weft that wrote it, or a newer one"
                         : "this version never existed");
}

static weft_status read_key(struct reader *r, const char *key, json_t *value)
{
    if (strcmp(key, "weft-machine") == 0)
        return WEFT_OK;
    r->record = NULL;
    if (strcmp(key, "note") == 0) {
        if (!json_is_string(value))
            return fail_at(r, key, "expected a text");
        r->machine->note = machine_printf(r->machine, "%s", json_string_value(value));
        return WEFT_OK;
    }
    const char *names[32];
    for (size_t i = 0; i < machine_n_records; i++) {
        if (strcmp(machine_records[i].name, key) == 0)
            return read_record(r, &machine_records[i], value);
        names[i] = machine_records[i].name;
    }
    const char *near = base_nearest(key, names, machine_n_records);
    char what[200];
    snprintf(what, sizeof what, "there is no such list%s%s", near ? "; nearest: " : "",
             near ? near : "");
    return fail_at(r, key, what);
}

static weft_status read_root(struct reader *r, json_t *root)
{
    const char *key;
    json_t *value;
    weft_status status = read_format_version(r, root);
    json_object_foreach(root, key, value)
    {
        if (!status)
            status = read_key(r, key, value);
    }
    if (status)
        return status;
    status = machine_check(r->machine);
    return status ? base_fail_context(status, "%s", r->name) : WEFT_OK;
}

weft_status machine_parse(const char *text, size_t length, const char *name,
                          struct machine **machine)
{
    json_error_t error;
    *machine = NULL;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return base_fail(WEFT_ERR_ARGUMENT, "%s:%d: %s%s", name, error.line, error.text,
                         error.position >= (int)length ? " (the file is truncated)" : "");
    if (!json_is_object(root) || memchr(text, '\0', length)) {
        json_decref(root);
        return base_fail(WEFT_ERR_ARGUMENT, "%s:1: not a machine file: expected an object { ... }",
                         name);
    }
    char *copy = strndup(text, length);
    char origin[300];
    snprintf(origin, sizeof origin, "file %.280s", name);
    struct reader r = {.text = copy ? copy : "", .name = name, .machine = machine_new(origin)};
    weft_status status = read_root(&r, root);
    free(copy);
    json_decref(root);
    if (status)
        machine_free(r.machine);
    else
        *machine = r.machine;
    return status;
}

weft_status machine_read_file(const char *path, struct machine **machine)
{
    *machine = NULL;
    char *text;
    size_t length;
    weft_status status = base_read_file(path, MACHINE_FILE_MOST, &text, &length);
    if (status)
        return status;
    const char *slash = strrchr(path, '/');
    status = import_any(text, length, slash ? slash + 1 : path, machine);
    free(text);
    return status;
}

static weft_status load_unindexed(const char *file_or_description, struct machine **machine)
{
    if (strcmp(file_or_description, "-") == 0)
        return machine_read_file("/dev/stdin", machine);
    if (access(file_or_description, F_OK) == 0)
        return machine_read_file(file_or_description, machine);
    weft_status status = machine_synthetic(file_or_description, machine);
    if (status && strchr(file_or_description, '/'))
        return base_fail(WEFT_ERR_SYSTEM, "open %s: %s", file_or_description, strerror(ENOENT));
    if (status && !strpbrk(file_or_description, " ,"))
        return base_fail(WEFT_ERR_SYSTEM,
                         "there is no file %s here; a description has words, such as \"2 socket, 4 "
                         "gpu each\"",
                         file_or_description);
    if (status)
        return base_fail_context(status, "no file \"%s\", and as a description",
                                 file_or_description);
    return WEFT_OK;
}

weft_status machine_load(const char *file_or_description, struct machine **machine)
{
    weft_status status = load_unindexed(file_or_description, machine);
    if (!status)
        machine_index(*machine);
    return status;
}
