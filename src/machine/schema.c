/* SPDX-License-Identifier: Apache-2.0 */
/* The schema as data, and functions that work on any fact: setting a fact by name, copying a
 * machine, finding the nearest name. */
#include "machine/machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"

/* `self` is the struct whose fields are listed; each function below defines it. */
#define NUMBER(name, lo, hi, about)                                                                \
    {#name, FIELD_NUMBER, offsetof(self, name), lo, hi, NULL, MASK_NONE, about},
#define FLAG(name, about) {#name, FIELD_FLAG, offsetof(self, name), 0, 1, NULL, MASK_NONE, about},
#define WORD(name, words, about)                                                                   \
    {#name, FIELD_WORD, offsetof(self, name), 0, 0, words, MASK_NONE, about},
#define TEXT(name, mask, about) {#name, FIELD_TEXT, offsetof(self, name), 0, 0, NULL, mask, about},
#define FIELDS_OF(member, singular, FIELDS, ...)                                                   \
    static const struct machine_field *fields_##singular(size_t *n)                                \
    {                                                                                              \
        typedef struct machine_##singular self;                                                    \
        static const struct machine_field fields[] = {FIELDS(NUMBER, FLAG, WORD, TEXT)};           \
        *n = sizeof fields / sizeof fields[0];                                                     \
        return fields;                                                                             \
    }
MACHINE_SINGLES(FIELDS_OF)
MACHINE_LISTS(FIELDS_OF)

#define SINGLE(member, singular, ...)                                                              \
    {#member,                                                                                      \
     "",                                                                                           \
     true,                                                                                         \
     sizeof(struct machine_##singular),                                                            \
     offsetof(struct machine, member),                                                             \
     0,                                                                                            \
     fields_##singular},
#define LIST(member, singular, FIELDS, key)                                                        \
    {#member,                                                                                      \
     key,                                                                                          \
     false,                                                                                        \
     sizeof(struct machine_##singular),                                                            \
     offsetof(struct machine, member),                                                             \
     offsetof(struct machine, n_##member),                                                         \
     fields_##singular},

const struct machine_record machine_records[] = {MACHINE_SINGLES(SINGLE) MACHINE_LISTS(LIST)};
const size_t machine_n_records = sizeof machine_records / sizeof machine_records[0];

bool word_is_one_of(const char *word, const char *words)
{
    size_t length = strlen(word);
    for (const char *at = words; length && at; at = strchr(at, '|')) {
        at += *at == '|';
        if (strncmp(at, word, length) == 0 && (at[length] == '|' || at[length] == '\0'))
            return true;
    }
    return false;
}

const char *record_nearest_field(const struct machine_record *record, const char *word)
{
    size_t n;
    const struct machine_field *fields = record->fields(&n);
    const char *names[64];
    for (size_t i = 0; i < n && i < 64; i++)
        names[i] = fields[i].name;
    return base_nearest(word, names, n < 64 ? n : 64);
}

static const struct machine_record *find_record(const char *name, size_t length)
{
    for (size_t i = 0; i < machine_n_records; i++)
        if (strlen(machine_records[i].name) == length &&
            strncmp(machine_records[i].name, name, length) == 0)
            return &machine_records[i];
    return NULL;
}

static const struct machine_field *find_field(const struct machine_record *record, const char *name)
{
    size_t n;
    const struct machine_field *fields = record->fields(&n);
    for (size_t i = 0; i < n; i++)
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
    return NULL;
}

/* The item whose key field equals `key`; in a list without key field, the item at that index. */
static void *find_item(const struct machine *machine, const struct machine_record *record,
                       const char *key)
{
    const struct machine_field *field = find_field(record, record->key);
    char *end;
    long number = strtol(key, &end, 10);
    bool is_number = *key && *end == '\0' && number >= 0;
    for (size_t i = 0; field && i < record_count(machine, record); i++) {
        char *item = record_item(machine, record, i);
        if (field->type == FIELD_TEXT
                ? text_is(*(struct machine_text *)(item + field->offset), key)
                : is_number && number_is(*(struct machine_number *)(item + field->offset), number))
            return item;
    }
    if (!field && is_number && (size_t)number < record_count(machine, record))
        return record_item(machine, record, (size_t)number);
    return NULL;
}

static weft_status set_number(struct machine *machine, const struct machine_field *field,
                              struct machine_number *number, const char *value, bool check)
{
    if (strcmp(value, "unknown") == 0) {
        number_unknown(machine, number, "set to unknown");
        return WEFT_OK;
    }
    if (field->type == FIELD_FLAG && (strcmp(value, "true") == 0 || strcmp(value, "yes") == 0))
        value = "1";
    if (field->type == FIELD_FLAG && (strcmp(value, "false") == 0 || strcmp(value, "no") == 0))
        value = "0";
    char *end;
    errno = 0;
    long long v = strtoll(value, &end, 0);
    if (!*value || *end || errno)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: \"%s\" is not a whole number", field->name, value);
    if (check && (v < field->low || v > field->high))
        return base_fail(WEFT_ERR_ARGUMENT, "%s: %lld is outside %lld..%lld", field->name, v,
                         (long long)field->low, (long long)field->high);
    number_set(number, v);
    return WEFT_OK;
}

static weft_status set_text(struct machine *machine, const struct machine_field *field,
                            struct machine_text *text, const char *value, bool check)
{
    if (strcmp(value, "unknown") == 0 &&
        !(field->words && word_is_one_of("unknown", field->words))) {
        text_unknown(machine, text, "set to unknown");
        return WEFT_OK;
    }
    if (check && field->words && !word_is_one_of(value, field->words))
        return base_fail(WEFT_ERR_ARGUMENT, "%s: \"%s\" is not one of %s", field->name, value,
                         field->words);
    text_set(machine, text, value);
    return WEFT_OK;
}

weft_status machine_set(struct machine *machine, const char *place, const char *value, bool check)
{
    const char *dot = strrchr(place, '.');
    const char *bracket = strchr(place, '[');
    /* A key such as 0000:40:01.1 contains a dot, so the field is what follows the bracket. */
    const char *close = bracket ? strrchr(bracket, ']') : NULL;
    if (bracket && close)
        dot = close[1] == '.' ? close + 1 : NULL;
    size_t length = strcspn(place, "[.");
    const struct machine_record *record = find_record(place, length);
    if (!dot || !record || (bracket && !close) || record->single != !bracket)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "\"%s\" is not a fact; write e.g. system.iommu_mode or gpus[0].ecc",
                         place);
    void *item = record_item(machine, record, 0);
    if (bracket) {
        char key[128];
        snprintf(key, sizeof key, "%.*s", (int)(close - bracket - 1), bracket + 1);
        item = find_item(machine, record, key);
        if (!item)
            return base_fail(WEFT_ERR_ARGUMENT, "%s: there is no %s[%s]", place, record->name, key);
    }
    const struct machine_field *field = find_field(record, dot + 1);
    if (!field) {
        const char *near = record_nearest_field(record, dot + 1);
        return base_fail(WEFT_ERR_ARGUMENT, "%s: %s has no fact \"%s\"%s%s", place, record->name,
                         dot + 1, near ? "; nearest: " : "", near ? near : "");
    }
    if (field->type == FIELD_NUMBER || field->type == FIELD_FLAG)
        return set_number(machine, field, (void *)((char *)item + field->offset), value, check);
    return set_text(machine, field, (void *)((char *)item + field->offset), value, check);
}

/* NULL stays NULL. */
static const char *copy_text(struct machine *machine, const char *text)
{
    size_t bytes = text ? strlen(text) + 1 : 0;
    return text ? memcpy(machine_alloc(machine, bytes), text, bytes) : NULL;
}

static void copy_item(struct machine *machine, const struct machine_record *record, void *to,
                      const void *from)
{
    memcpy(to, from, record->item_bytes);
    size_t n_fields;
    const struct machine_field *fields = record->fields(&n_fields);
    for (size_t i = 0; i < n_fields; i++) {
        const struct machine_field *field = &fields[i];
        if (field->type == FIELD_NUMBER || field->type == FIELD_FLAG) {
            struct machine_number *n = (void *)((char *)to + field->offset);
            n->why = copy_text(machine, n->why);
        } else {
            struct machine_text *t = (void *)((char *)to + field->offset);
            t->value = copy_text(machine, t->value);
            t->why = copy_text(machine, t->why);
        }
    }
}

struct machine *machine_copy(const struct machine *machine)
{
    struct machine *copy = machine_new(machine->origin);
    copy->note = copy_text(copy, machine->note);
    for (size_t r = 0; r < machine_n_records; r++) {
        const struct machine_record *record = &machine_records[r];
        for (size_t i = 0; i < record_count(machine, record); i++) {
            void *to = record->single ? record_item(copy, record, 0) : record_append(copy, record);
            copy_item(copy, record, to, record_item(machine, record, i));
        }
    }
    return copy;
}

static void reject_number(struct machine *machine, const struct machine_field *field,
                          struct machine_number *number)
{
    if (number->known && (number->value < field->low || number->value > field->high))
        number_unknown(machine, number, "the value read, %lld, is outside %lld..%lld",
                       (long long)number->value, (long long)field->low, (long long)field->high);
}

static void reject_word(struct machine *machine, const struct machine_field *field,
                        struct machine_text *text)
{
    if (text->value && field->words && !word_is_one_of(text->value, field->words))
        text_unknown(machine, text, "the value read, \"%.60s\", is not a known word", text->value);
}

void machine_reject_invalid(struct machine *machine)
{
    for (size_t r = 0; r < machine_n_records; r++) {
        const struct machine_record *record = &machine_records[r];
        size_t n;
        const struct machine_field *fields = record->fields(&n);
        for (size_t i = 0; i < record_count(machine, record); i++)
            for (size_t f = 0; f < n; f++) {
                void *fact = (char *)record_item(machine, record, i) + fields[f].offset;
                if (fields[f].type == FIELD_NUMBER || fields[f].type == FIELD_FLAG)
                    reject_number(machine, &fields[f], fact);
                else
                    reject_word(machine, &fields[f], fact);
            }
    }
}
