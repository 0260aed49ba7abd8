/* SPDX-License-Identifier: Apache-2.0 */
/* The table of reason codes, and findings. A finding is a reason that a check observed at a place,
 * with its evidence. */
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
    const char *who;   /* "user", "root", "root, then reboot", "provider" */
    const char *lasts; /* "this process only", "until reboot", "permanent", "no remedy" */
};

extern const struct reason_text reason_table[REASON_COUNT];

/* In any case of letters. NULL when there is no such code. */
const struct reason_text *reason_find(const char *code);
/* The nearest code; NULL: none is near. */
const char *reason_nearest(const char *code);

/* Effect of a finding on the pair or the machine, the most severe first. */
enum weight {
    WEIGHT_OFF,     /* a faster route is off */
    WEIGHT_SLOW,    /* the route works, below the rate that it could reach */
    WEIGHT_UNKNOWN, /* the check could not observe this; the remedy makes the observation */
    WEIGHT_NOTE,    /* information, no fault */
};

extern const char *const weight_names[];

struct finding {
    enum reason reason;
    enum weight weight;
    char place[64];          /* "gpu0 gpu1", "mlx5_0", "limits" */
    char path[64];           /* the route that it concerns; "" when none */
    char evidence[256];      /* what the check observed */
    char remedy[400];        /* with {dev} replaced by the device */
    const char *advice;      /* the remedy before that replacement; equal pointers: one remedy */
    const char *who, *lasts; /* who can apply the remedy, and its lifetime */
    char repair[256]; /* changes (whatif.h) that have the effect of the remedy; "" when none */
    unsigned
        routes_off;    /* kinds of routes that it turns off: ROUTE_BIT(kind); 0 unless WEIGHT_OFF */
    int64_t gain_mbps; /* MB/s that the repair adds to the pair; 0 when none or unknown */
    bool dropped;      /* the list has the same with a more severe weight */
};

/* All-zero bytes are an empty list; findings_free() releases it. */
struct findings {
    struct finding *list;
    int n, capacity;
    const char *place;   /* copied to each finding that is added */
    const char *path;    /* copied to each finding that is added */
    unsigned routes_off; /* copied to each finding of WEIGHT_OFF that is added */
    bool off_only; /* the caller needs what turns routes off: costly checks of the rest may be left
                    */
    /* Chains of findings of the same reason and evidence: the latest finding of each chain, by
     * hash, and the one before each finding; 1 + its index, 0: none. Made for `chained` findings.
     */
    int *latest, *before;
    int chains, chained;
    int of_reason[REASON_COUNT]; /* findings of each reason, of the chained ones */
};

/* Adds a finding, unless the list has one of the same reason and evidence with the same or a more
 * severe weight: then returns NULL. `device` replaces {dev} in the remedy. The pointer is valid
 * until the next finding is added. */
struct finding *finding_add(struct findings *findings, enum reason reason, enum weight weight,
                            const char *device, const char *evidence_format, ...)
    __attribute__((format(printf, 5, 6)));

/* The latest finding before index `at` with the reason and evidence of `like`; -1: none. */
int finding_before(struct findings *findings, int at, const struct finding *like);

/* Keeps the first n findings, which may have been changed. */
void findings_cut(struct findings *findings, int n);

/* Appends a change to the repair of a finding. Does nothing for NULL. */
void finding_repair(struct finding *finding, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Replaces the remedy of the table where it cannot work on this device; {dev} stands for `device`.
 * `remedy` is static. Does nothing for NULL. */
void finding_remedy(struct finding *finding, const char *remedy, const char *device);

/* For a remedy that the user applies to a program or container of their own. Does nothing for NULL.
 */
void finding_by_user(struct finding *finding);

void findings_free(struct findings *findings);

/* Moves the findings of `from` to the end of `to`, as finding_add() does. `from` is empty then. */
void findings_merge(struct findings *to, struct findings *from);

/* True when a finding turns off routes of one of these kinds (ROUTE_BIT(kind)). */
bool findings_turn_off(const struct findings *findings, unsigned kinds);

/* True when a finding has this reason. */
bool findings_have(struct findings *findings, enum reason reason);

/* Prints the whole table as Markdown ("md"), or as the source of the manual page ("man"). */
void reasons_print(FILE *to, const char *format);

#endif
