/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what NCCL and NVSHMEM will do on the machine, and the variables to set. The plan itself is
 * made in src/machine. */
#include "doctor/doctor.h"

#include <string.h>

#include "columns.h"
#include "machine/checks/libraries.h"

/* "28 pairs of GPUs", "1 pair of GPUs". */
static void print_scope(const struct library_use *use, char *text, size_t size)
{
    bool pairs = strncmp(use->scope, "pairs", 5) == 0;
    if (!use->n)
        snprintf(text, size, "%s", use->scope);
    else if (use->n == 1)
        snprintf(text, size, "1 %s%s", pairs ? "pair" : "GPU", use->scope + (pairs ? 5 : 4));
    else
        snprintf(text, size, "%d %s", use->n, use->scope);
}

static void print_uses(const struct library_plan *plan, const char *library)
{
    for (int i = 0; i < plan->n_uses; i++) {
        const struct library_use *use = &plan->uses[i];
        char scope[64];
        if (strcmp(use->library, library) != 0)
            continue;
        print_scope(use, scope, sizeof scope);
        columns_print(stdout, 14, "  %-10s  %s: %s%s%s%s", use->library, scope, use->does,
                      use->n == 1 ? " (" : "", use->n == 1 ? use->example : "",
                      use->n == 1 ? ")" : "");
    }
}

void doctor_print_libraries(const struct machine *machine)
{
    static struct library_plan plan;
    libraries_plan(machine, &plan);
    if (plan.n_uses)
        puts("\nNCCL and NVSHMEM on this machine, by their documented rules (not tried):");
    print_uses(&plan, "NCCL");
    print_uses(&plan, "NVSHMEM");
    for (int i = 0; i < plan.n_variables; i++) {
        const struct library_variable *v = &plan.variables[i];
        columns_print(stdout, 14, "  %-10s  %s%s%s: %s", v->value ? "set" : "set, maybe", v->name,
                      v->value ? "=" : "", v->value ? v->value : "", v->why);
    }
    libraries_free(&plan);
}

json_t *doctor_json_libraries(const struct machine *machine)
{
    static struct library_plan plan;
    json_t *uses = json_array(), *variables = json_array();
    libraries_plan(machine, &plan);
    for (int i = 0; i < plan.n_uses; i++) {
        const struct library_use *use = &plan.uses[i];
        json_array_append_new(uses, json_pack("{s:s, s:s, s:i, s:s, s:s}", "library", use->library,
                                              "scope", use->scope, "count", use->n, "example",
                                              use->example, "does", use->does));
    }
    for (int i = 0; i < plan.n_variables; i++) {
        const struct library_variable *v = &plan.variables[i];
        json_array_append_new(variables,
                              json_pack("{s:s, s:s, s:s?, s:s}", "library", v->library, "name",
                                        v->name, "value", v->value, "why", v->why));
    }
    libraries_free(&plan);
    return json_pack("{s:o, s:o}", "uses", uses, "variables", variables);
}
