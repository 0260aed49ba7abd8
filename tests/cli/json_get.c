/* SPDX-License-Identifier: Apache-2.0 */
/* Reads values from JSON, for shell tests:
 *
 *   json_get PATH... < TEXT
 *
 * Each object of the input gives a line with the values of the paths ("pes.0.pid"), or "-" for a
 * path that does not exist. A path that ends in # gives the number of elements, one that is "keys"
 * gives the keys of the object. Exit status 1: the input is not JSON in UTF-8. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const json_t *step(const json_t *at, const char *name)
{
    return json_is_array(at) ? json_array_get(at, (size_t)strtoul(name, NULL, 10))
                             : json_object_get(at, name);
}

static void print_keys(json_t *object)
{
    const char *key;
    json_t *value;
    int n = 0;
    json_object_foreach(object, key, value) printf("%s%s", n++ ? "," : "", key);
}

static void print_value(const json_t *value)
{
    if (json_is_string(value))
        fputs(json_string_value(value), stdout);
    else if (value)
        json_dumpf(value, stdout, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
    else
        putchar('-');
}

static void print_path(json_t *root, const char *path)
{
    char names[256];
    const json_t *at = root;
    snprintf(names, sizeof names, "%s", path);
    if (strcmp(path, "keys") == 0) {
        print_keys(root);
        return;
    }
    for (char *name = strtok(names, "."); name && at; name = strtok(NULL, ".")) {
        if (strcmp(name, "#") == 0) {
            printf("%zu", json_is_array(at) ? json_array_size(at) : json_object_size(at));
            return;
        }
        at = step(at, name);
    }
    print_value(at);
}

int main(int argc, char **argv)
{
    json_error_t error;
    for (json_t *root; (root = json_loadf(stdin, JSON_DISABLE_EOF_CHECK, &error));) {
        for (int i = 1; i < argc; i++) {
            print_path(root, argv[i]);
            putchar(i + 1 < argc ? ' ' : '\n');
        }
        json_decref(root);
    }
    if (json_error_code(&error) == json_error_premature_end_of_input || feof(stdin))
        return ferror(stdin) != 0;
    fprintf(stderr, "json_get: line %d: %s\n", error.line, error.text);
    return 1;
}
