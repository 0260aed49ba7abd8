/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by topo, explain and doctor: options, reading the machine, and measuring it. */
#ifndef WEFT_CLI_MACHINE_OPTIONS_H
#define WEFT_CLI_MACHINE_OPTIONS_H

#include <argp.h>
#include <jansson.h>

#include "colour.h"
#include "columns.h"
#include "machine/machine.h"
#include "machine/reasons.h"
#include "machine/routes/routes.h"

struct machine_options {
    const char *file;    /* --machine: file or description; NULL: the live machine */
    const char *what_if; /* --what-if */
    int json;
    int measure;
    int fault_percent; /* --fault-below; 0: WEFT_FAULT_PERCENT, or the value of the machine file */
};

/* Options common to the three commands, as an argp child whose input is the struct
 * machine_options. */
extern const struct argp machine_options_argp;

/* Reads the machine and applies --what-if. NULL: it has printed why to stderr. */
struct machine *machine_options_read(const struct machine_options *options);

/* Measures all pairs, or prints why not. `quick`: small transfers. */
void machine_options_measure(const struct machine_options *options, struct machine *machine,
                             int quick);

/* Ends a command that takes no argument with an error; a file may be meant for --machine. */
void machine_options_refuse(struct argp_state *state, const char *argument);

/* Runs the path test and a short measurement on the GPUs of this machine; does not use NICs. */
void machine_options_try(struct machine *machine);

/* GB/s as a JSON number with one decimal; null when 0. */
json_t *json_gbps(int64_t mbps);
json_t *json_us(int64_t ns);

/* A fact: its value, or {"unknown": why}. */
json_t *json_fact_number(struct machine_number number);
json_t *json_fact_flag(struct machine_number number);
json_t *json_fact_text(struct machine_text text);

/* Red: off or degraded; yellow: unknown; no colour: a note. */
enum colour colour_of_weight(enum weight weight);

json_t *json_finding(const struct finding *finding);
void json_print(json_t *root);

#endif
