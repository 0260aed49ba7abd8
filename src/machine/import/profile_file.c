/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes profiles as JSON: the files of --against, and the report of a node. See
 * profile.h. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/printable.h"
#include "base/read_file.h"
#include "base/status.h"
#include "base/text.h"
#include "machine/describe/profile.h"
#include "machine/import/import.h"
#include "machine/machine.h"

json_t *profile_json(const struct profile *profile)
{
    json_t *object = json_object();
    for (int id = 0; id < PROFILE_COUNT; id++) {
        const struct profile_fact *fact = &profile->facts[id];
        json_t *value = NULL;
        if (fact->known && profile_infos[id].is_text)
            value = json_string(fact->text);
        else if (fact->known)
            value = json_integer(fact->number);
        /* JSON cannot hold a text that is not UTF-8 */
        json_object_set_new(object, profile_infos[id].name,
                            value ? value
                                  : json_pack("{s:s}", "unknown",
                                              fact->known ? "not UTF-8" : why_unknown(fact->text)));
    }
    return object;
}

char *profile_expectation(const struct profile *profile)
{
    json_t *object = json_object(), *value;
    const char *key;
    json_t *facts = profile_json(profile);
    json_object_set_new(object, "weft-expect", json_integer(PROFILE_VERSION));
    json_object_foreach(facts, key, value) if (!json_is_object(value))
        json_object_set(object, key, value);
    json_decref(facts);
    char *text = json_dumps(object, JSON_INDENT(2));
    json_decref(object);
    return text;
}

static int find_fact(const char *name)
{
    for (int id = 0; id < PROFILE_COUNT; id++)
        if (strcmp(profile_infos[id].name, name) == 0)
            return id;
    return -1;
}

static const char *nearest_fact(const char *name)
{
    const char *names[PROFILE_COUNT];
    for (int id = 0; id < PROFILE_COUNT; id++)
        names[id] = profile_infos[id].name;
    return base_nearest(name, names, PROFILE_COUNT);
}

static weft_status parse_text(const char *name, int id, const char *text, struct profile_fact *fact)
{
    fact->known = true;
    if (strncmp(text, ">=", 2) == 0) {
        fact->at_least = true;
        text += 2 + strspn(text + 2, " ");
    }
    if (profile_infos[id].is_text) {
        if (strlen(text) >= sizeof fact->text)
            return base_fail(WEFT_ERR_ARGUMENT, "%s: %s is longer than %zu bytes", name,
                             profile_infos[id].name, sizeof fact->text - 1);
        printable(strcpy(fact->text, text));
        return WEFT_OK;
    }
    char *end;
    errno = 0;
    fact->number = strtoll(text, &end, 10);
    if (end == text || *end || errno)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "%s: %s is \"%.60s\"; expected a whole number or \">= NUMBER\"", name,
                         profile_infos[id].name, text);
    return WEFT_OK;
}

static weft_status parse_fact(const json_t *value, const char *name, int id,
                              struct profile_fact *fact)
{
    if (json_is_object(value)) { /* {"unknown": why} */
        const char *why = json_string_value(json_object_get(value, "unknown"));
        snprintf(fact->text, sizeof fact->text, "%s", why_unknown(why));
        return WEFT_OK;
    }
    if (json_is_string(value))
        return parse_text(name, id, json_string_value(value), fact);
    if (profile_infos[id].is_text || !(json_is_integer(value) || json_is_boolean(value)))
        return base_fail(WEFT_ERR_ARGUMENT, "%s: %s is not %s", name, profile_infos[id].name,
                         profile_infos[id].is_text ? "a text" : "a whole number");
    fact->known = true;
    fact->number = json_is_boolean(value) ? json_is_true(value) : json_integer_value(value);
    return WEFT_OK;
}

weft_status profile_parse(const json_t *object, const char *name, bool lenient,
                          struct profile *profile)
{
    const char *key;
    json_t *value;
    memset(profile, 0, sizeof *profile);
    json_object_foreach((json_t *)object, key, value)
    {
        int id = find_fact(key);
        if (id < 0 && (lenient || strcmp(key, "weft-expect") == 0 || strcmp(key, "note") == 0))
            continue;
        if (id < 0) {
            const char *near = nearest_fact(key);
            return base_fail(WEFT_ERR_ARGUMENT, "%s: \"%.60s\" is not a fact that is compared%s%s",
                             name, key, near ? "; nearest: " : "", near ? near : "");
        }
        weft_status status = parse_fact(value, name, id, &profile->facts[id]);
        if (status)
            return status;
    }
    return WEFT_OK;
}

/* Drops expectations of 0 and of empty texts: the description "8 h200" does not mean "no NICs", and
 * a file of another program does not have every device. */
static void drop_empty_expectations(struct profile *expected)
{
    for (int id = 0; id < PROFILE_COUNT; id++) {
        struct profile_fact *fact = &expected->facts[id];
        if (profile_infos[id].is_text ? !*fact->text : !fact->number)
            fact->known = false;
    }
}

/* `text` is the content of `file`; NULL when there is no such file, so that it is a description. */
static weft_status load_machine(const char *file, const char *text, size_t bytes, bool described,
                                struct profile *expected)
{
    struct machine *machine;
    weft_status status =
        text ? import_any(text, bytes, file, &machine) : machine_load(file, &machine);
    if (status) {
        char why[512];
        snprintf(why, sizeof why, "%s", weft_last_error());
        return base_fail(status,
                         "%s; it is not an expectation either (JSON with \"weft-expect\": 1)", why);
    }
    profile_of(machine, expected);
    if (described)
        drop_empty_expectations(expected);
    machine_free(machine);
    return WEFT_OK;
}

static weft_status parse_expectation(const json_t *root, const char *file, struct profile *expected)
{
    const json_t *version = json_object_get(root, "weft-expect");
    if (!json_is_integer(version) || json_integer_value(version) < 1)
        return base_fail(WEFT_ERR_ARGUMENT, "%s: \"weft-expect\" is not a version, e.g. 1", file);
    if (json_integer_value(version) > PROFILE_VERSION)
        return base_fail(WEFT_ERR_ARGUMENT,
                         "%s has version %" JSON_INTEGER_FORMAT
                         ", from a newer weft; this weft reads versions up to %d",
                         file, json_integer_value(version), PROFILE_VERSION);
    return profile_parse(root, file, false, expected);
}

weft_status profile_load(const char *file, struct profile *expected)
{
    json_error_t error;
    char *text = NULL;
    size_t bytes = 0;
    weft_status status = WEFT_OK;
    if (access(file, F_OK) == 0)
        status = base_read_file(file, MACHINE_FILE_MOST, &text, &bytes);
    if (status)
        return status;
    json_t *root = text ? json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error) : NULL;
    if (root && json_object_get(root, "weft-expect"))
        status = parse_expectation(root, file, expected);
    else if (root && !json_object_get(root, "weft-machine"))
        status = base_fail(WEFT_ERR_ARGUMENT,
                           "%s has no known format: expected an expectation (\"weft-expect\": 1, "
                           "from `weft doctor --expect`) or a recorded machine "
                           "(\"weft-machine\": 1, from `weft topo --record`)",
                           file);
    else
        status = load_machine(file, text, bytes, !root, expected);
    json_decref(root);
    free(text);
    return status;
}
