/* SPDX-License-Identifier: Apache-2.0 */
/* What topo, explain and doctor share: where the machine comes from, and measuring it. */
#ifndef WEFT_CLI_MACHINE_OPTIONS_H
#define WEFT_CLI_MACHINE_OPTIONS_H

#include <argp.h>
#include <jansson.h>

#include "columns.h"
#include "machine/machine.h"
#include "machine/reasons.h"
#include "machine/routes/routes.h"

struct machine_options {
    const char *file;    /* --machine: file or description; NULL: the live machine */
    const char *what_if; /* --what-if */
    int json;
    int measure;
    int fault_percent; /* --fault-below; 0: WEFT_FAULT_PERCENT, or what the machine's file says */
};

/* Options common to the three commands; give it as an argp child. The input of the child is the
 * struct machine_options. */
extern const struct argp machine_options_argp;

/* Reads the machine and applies the what-if. NULL after printing why to stderr. */
struct machine *machine_options_read(const struct machine_options *options);

/* Measures all pairs, or says why not. `quick`: moves little. */
void machine_options_measure(const struct machine_options *options, struct machine *machine,
                             int quick);

/* Proves and measures the GPUs of this machine briefly; no NIC is tried. */
void machine_options_try(struct machine *machine);

/* GB/s as a JSON number with one decimal; null when 0. */
json_t *json_gbps(int64_t mbps);
json_t *json_us(int64_t ns);

/* A fact: its value, or {"unknown": why}. */
json_t *json_fact_number(struct machine_number number);
json_t *json_fact_flag(struct machine_number number);
json_t *json_fact_text(struct machine_text text);

json_t *json_finding(const struct finding *finding);
void json_print(json_t *root);

#endif
