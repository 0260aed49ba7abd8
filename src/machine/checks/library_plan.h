/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the plan for NCCL and NVSHMEM share. See libraries.h. */
#ifndef WEFT_MACHINE_LIBRARY_PLAN_H
#define WEFT_MACHINE_LIBRARY_PLAN_H

#include "machine/checks/explain.h"
#include "machine/checks/libraries.h"

/* Counts one more pair or GPU of a use. */
void library_add_use(struct library_plan *plan, const char *library, const char *scope,
                     const char *example, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Adds a variable, once; `value` as in library_variable. */
void library_add_variable(struct library_plan *plan, const char *library, const char *name,
                          const char *value, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* NULL: the two ends have no route of this kind. */
const struct route *library_find_route(const struct routes *routes, enum route_kind kind);
/* NCCL's names of distances; it has none for NODE, which it counts as PHB. */
const char *library_nccl_level(enum level level);
/* The distance that NCCL finds. In a guest with a flat PCI tree it sees devices at the root
 * complex. */
enum level library_nccl_apart(const struct machine *machine, const struct endpoint *a,
                              const struct endpoint *b);
/* False for a GPU without an index of its own: look-ups by its name would find another one. */
bool library_is_indexed(const struct machine *machine, const struct machine_gpu *gpu);

/* Adds what happens between hosts, and the variables that this depends on. */
void library_plan_hosts(const struct machine *machine, struct library_plan *plan);

#endif
