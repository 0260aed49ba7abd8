/* SPDX-License-Identifier: Apache-2.0 */
/* The table of reason codes as data, and findings: a reason seen at a place, with its evidence. */
#ifndef WEFT_MACHINE_REASONS_H
#define WEFT_MACHINE_REASONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "machine/reasons.def"

enum reason {
#define ID(id, ...) REASON_##id,
    REASONS(ID)
#undef ID
        REASON_COUNT
};

struct reason_text {
    const char *code, *cause, *evidence, *remedy;
    const char *who;   /* "user", "root", "root and reboot", "provider" */
    const char *lasts; /* "this process", "until boot", "for good", "nothing to apply" */
};

extern const struct reason_text reason_table[REASON_COUNT];

/* NULL when there is no such code. */
const struct reason_text *reason_find(const char *code);

/* What a finding does to the pair or the machine. */
enum weight {
    WEIGHT_OFF,     /* a better way is off */
    WEIGHT_SLOW,    /* works, below what it could give */
    WEIGHT_UNKNOWN, /* could not be observed; the remedy is what would make the observation */
    WEIGHT_NOTE,    /* good to know */
};

extern const char *const weight_names[];

struct finding {
    enum reason reason;
    enum weight weight;
    char place[64];     /* "gpu0 gpu1", "mlx5_0", "limits" */
    char path[64];      /* the way that it concerns; "" when none */
    char evidence[256]; /* as observed */
    char remedy[400];   /* with the device filled in */
    int64_t gain_mbps;  /* what it would bring; 0 when it cannot be told */
};

/* All-zero bytes are an empty list; findings_free() releases it. */
struct findings {
    struct finding *list;
    int n, room;
    const char *place; /* given to findings that are added */
    const char *path;
    int64_t gain_mbps;
};

/* Adds a finding unless the same reason with the same evidence is there. `device` fills {dev}. */
void finding_add(struct findings *findings, enum reason reason, enum weight weight,
                 const char *device, const char *evidence_format, ...)
    __attribute__((format(printf, 5, 6)));

void findings_free(struct findings *findings);

/* The whole table as docs/reasons.md ("md"), as the manual page's source ("man"), or as text. */
void reasons_print(FILE *to, const char *format);

#endif
