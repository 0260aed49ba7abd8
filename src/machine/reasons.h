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
    char
        repair[256]; /* the change of a what-if that stands for the remedy; "" when there is none */
    unsigned ways;   /* which ways it turns off, bits 1 << enum route_kind; 0 unless WEIGHT_OFF */
    int64_t gain_mbps; /* what that change brings the pair; 0 when it brings nothing or cannot be
                           told */
};

/* All-zero bytes are an empty list; findings_free() releases it. */
struct findings {
    struct finding *list;
    int n, room;
    const char *place; /* given to findings that are added */
    const char *path;
    unsigned ways; /* that what is off turns off */
};

/* Adds a finding unless the same reason with the same evidence is there, of no less weight.
 * `device` fills {dev}. The finding holds until the next one is added; NULL: it was there. */
struct finding *finding_add(struct findings *findings, enum reason reason, enum weight weight,
                            const char *device, const char *evidence_format, ...)
    __attribute__((format(printf, 5, 6)));

/* Appends a change to the repair of a finding; nothing for NULL. */
void finding_repair(struct finding *finding, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Another remedy than that of the table, where that cannot work on this part; {dev} stands for
 * `device`. Nothing for NULL. */
void finding_remedy(struct finding *finding, const char *remedy, const char *device);

void findings_free(struct findings *findings);

/* Moves the findings of `from`, which is empty then, to the end of `to`, as finding_add() does. */
void findings_merge(struct findings *to, struct findings *from);

/* One of them turns off a way of the kinds `ways` (bits 1 << enum route_kind). */
bool findings_turn_off(const struct findings *findings, unsigned ways);

/* One of them is for this reason. */
bool findings_have(const struct findings *findings, enum reason reason);

/* The whole table as docs/reasons.md ("md"), or as the manual page's source ("man"). */
void reasons_print(FILE *to, const char *format);

#endif
