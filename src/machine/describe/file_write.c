/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a machine as readable JSON: one fact per line for structs, one item per line for lists.
 * Unknown facts have their reason. Uses only the schema. */
#include "machine/machine.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct writer {
    FILE *to;
    bool anonymous;
    const char *seen[4096]; /* masked texts; the index makes the placeholder */
    size_t n_seen;
};

static void write_string(struct writer *w, const char *text)
{
    json_t *string = json_string(text);
    if (!string) /* JSON cannot hold a text that is not UTF-8 */
        string = json_string("(not UTF-8)");
    char *quoted = json_dumps(string, JSON_ENCODE_ANY);
    fputs(quoted ? quoted : "\"\"", w->to);
    free(quoted);
    json_decref(string);
}

static void write_masked(struct writer *w, const char *text, enum machine_mask mask)
{
    size_t i = 0;
    while (i < w->n_seen && strcmp(w->seen[i], text) != 0)
        i++;
    if (i == w->n_seen && i < sizeof w->seen / sizeof w->seen[0])
        w->seen[w->n_seen++] = text;
    fprintf(w->to, "\"%s-%zu\"", mask == MASK_SERIAL ? "serial" : "address", i + 1);
}

static void write_unknown(struct writer *w, const char *why)
{
    fputs("{\"unknown\": ", w->to);
    write_string(w, why);
    fputc('}', w->to);
}

static void write_number(struct writer *w, const struct machine_field *field,
                         const struct machine_number *number)
{
    if (!number->known)
        write_unknown(w, why_unknown(number->why));
    else if (field->type == FIELD_FLAG)
        fputs(number->value ? "true" : "false", w->to);
    else
        fprintf(w->to, "%" PRId64, number->value);
}

static void write_text(struct writer *w, const struct machine_field *field,
                       const struct machine_text *text)
{
    if (!text->value)
        write_unknown(w, why_unknown(text->why));
    else if (w->anonymous && field->mask && strspn(text->value, "0-:") < strlen(text->value))
        write_masked(w, text->value, field->mask);
    else
        write_string(w, text->value);
}

/* An unknown fact without a reason is left out: the reader sets it to the same. */
static bool is_left_out(const struct machine_field *field, const void *fact)
{
    if (field->type == FIELD_NUMBER || field->type == FIELD_FLAG) {
        const struct machine_number *number = fact;
        return !number->known && !number->why;
    }
    const struct machine_text *text = fact;
    return !text->value && !text->why;
}

static void write_item(struct writer *w, const struct machine_record *record, const void *item)
{
    bool first = true;
    size_t n;
    const struct machine_field *fields = record->fields(&n);
    fputc('{', w->to);
    for (size_t i = 0; i < n; i++) {
        const void *fact = (const char *)item + fields[i].offset;
        if (is_left_out(&fields[i], fact))
            continue;
        fputs(first ? "" : ",", w->to);
        fputs(record->single ? "\n    " : first ? "" : " ", w->to);
        fprintf(w->to, "\"%s\": ", fields[i].name);
        first = false;
        if (fields[i].type == FIELD_NUMBER || fields[i].type == FIELD_FLAG)
            write_number(w, &fields[i], fact);
        else
            write_text(w, &fields[i], fact);
    }
    fputs(record->single && !first ? "\n  }" : "}", w->to);
}

static void write_record(struct writer *w, const struct machine *machine,
                         const struct machine_record *record)
{
    fprintf(w->to, ",\n  \"%s\": ", record->name);
    if (record->single) {
        write_item(w, record, record_item(machine, record, 0));
        return;
    }
    size_t n = record_count(machine, record);
    fputc('[', w->to);
    for (size_t i = 0; i < n; i++) {
        fputs(i ? ",\n    " : "\n    ", w->to);
        write_item(w, record, record_item(machine, record, i));
    }
    fputs(n ? "\n  ]" : "]", w->to);
}

char *machine_format(const struct machine *machine, bool anonymous)
{
    char *text = NULL;
    size_t length = 0;
    struct writer *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->to = open_memstream(&text, &length);
    w->anonymous = anonymous;
    if (w->to) {
        fprintf(w->to, "{\n  \"weft-machine\": %d", MACHINE_FILE_VERSION);
        if (machine->note) {
            fputs(",\n  \"note\": ", w->to);
            write_string(w, machine->note);
        }
        for (size_t i = 0; i < machine_n_records; i++)
            if (machine_records[i].single || record_count(machine, &machine_records[i]))
                write_record(w, machine, &machine_records[i]);
        fputs("\n}\n", w->to);
        if (fclose(w->to) != 0) {
            free(text);
            text = NULL;
        }
    }
    free(w);
    return text;
}
