/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a node of a cluster: JSON on one line, after a marker line that separates it
 * from other output of the remote shell. Only this file writes and reads it. */
#include "doctor/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char marker[] = "weft-node-report";
enum { REPORT_VERSION = 1, FAULTS_MOST = 4096 };

char *doctor_node_write(const struct machine *machine, const struct diagnosis *diagnosis)
{
    struct profile *profile = malloc(sizeof *profile);
    struct node node = {.n_faults = 0};
    char *line = NULL, *text = NULL;
    if (!profile)
        return NULL;
    profile_of(machine, profile);
    node_add_faults(&node, diagnosis);
    json_t *faults = json_array();
    for (size_t i = 0; i < node.n_faults; i++)
        json_array_append_new(faults,
                              json_pack("{s:s, s:s, s:s}", "code", node.faults[i].code, "place",
                                        node.faults[i].place, "evidence", node.faults[i].evidence));
    json_t *root = json_pack("{s:i, s:s, s:o, s:o}", marker, REPORT_VERSION, "host",
                             text_or(machine->system.hostname, "?"), "facts", profile_json(profile),
                             "faults", faults);
    line = root ? json_dumps(root, JSON_COMPACT) : NULL;
    if (line && asprintf(&text, "%s\n%s\n", marker, line) < 0)
        text = NULL;
    json_decref(root);
    free(line);
    free(node.faults);
    free(profile);
    return text;
}

static void copy_text(char *to, size_t size, const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    snprintf(to, size, "%s", text ? text : "");
}

static bool read_faults(struct node *node, const json_t *faults)
{
    size_t n = json_array_size(faults);
    if (!json_is_array(faults) || n > FAULTS_MOST)
        return false;
    node->faults = calloc(n + 1, sizeof *node->faults);
    for (size_t i = 0; node->faults && i < n; i++) {
        const json_t *one = json_array_get(faults, i);
        struct node_fault *fault = &node->faults[node->n_faults++];
        copy_text(fault->code, sizeof fault->code, one, "code");
        copy_text(fault->place, sizeof fault->place, one, "place");
        copy_text(fault->evidence, sizeof fault->evidence, one, "evidence");
    }
    return node->faults != NULL;
}

/* The line after the last marker line. */
static const char *find_report(const char *text)
{
    const char *found = NULL;
    for (const char *at = text; (at = strstr(at, marker)); at += sizeof marker - 1)
        if ((at == text || at[-1] == '\n') && at[sizeof marker - 1] == '\n')
            found = at + sizeof marker;
    return found;
}

bool doctor_node_read(struct node *node, const char *text)
{
    json_error_t error;
    const char *report = find_report(text);
    json_t *root = report ? json_loadb(report, strcspn(report, "\n"), 0, &error) : NULL;
    json_int_t version = json_integer_value(json_object_get(root, marker));
    if (!root)
        snprintf(node->why, sizeof node->why, "%s",
                 report ? "its report is truncated" : "it sent no report");
    else if (version != REPORT_VERSION)
        snprintf(node->why, sizeof node->why,
                 "its report has version %" JSON_INTEGER_FORMAT
                 ", this weft reads %d: install the same version",
                 version, REPORT_VERSION);
    else if (profile_parse(json_object_get(root, "facts"), "its report", true, &node->profile))
        snprintf(node->why, sizeof node->why, "%s", weft_last_error());
    else if (!read_faults(node, json_object_get(root, "faults")))
        snprintf(node->why, sizeof node->why, "its report lists no faults");
    else
        node->reached = true;
    if (!*node->name)
        copy_text(node->name, sizeof node->name, root, "host");
    json_decref(root);
    return node->reached;
}
