/* SPDX-License-Identifier: Apache-2.0 */
/* What one machine of a cluster has in common with the others, or should: a few dozen facts drawn
 * from the model, and what is expected of them. Pure; knows nothing of how a node is reached. */
#ifndef WEFT_MACHINE_PROFILE_H
#define WEFT_MACHINE_PROFILE_H

#include <jansson.h>

#include "machine/describe/profile.def"
#include "machine/machine.h"

enum profile_id {
#define PROFILE_ID(name, ...) PROFILE_##name,
    PROFILE_FACTS(PROFILE_ID, PROFILE_ID)
#undef PROFILE_ID
        PROFILE_COUNT
};

enum { PROFILE_TEXT = 192, PROFILE_VERSION = 1 };

/* Why a fact is unknown of which there is nothing: the model of no GPU. */
#define PROFILE_NONE "there is none"

struct profile_fact {
    bool known;
    bool least; /* expected: this or more (of a text: this version or a later one) */
    int64_t number;
    char text[PROFILE_TEXT]; /* the value of a text; why it is unknown */
};

/* All-zero bytes: nothing is known, or nothing is expected. */
struct profile {
    struct profile_fact facts[PROFILE_COUNT];
};

struct profile_info {
    const char *name;
    bool is_text;
    int percent; /* 100: equal */
    const char *about;
};
extern const struct profile_info profile_infos[PROFILE_COUNT];

/* What the machine says of each fact; unknown where the machine does not know. */
void profile_of(const struct machine *machine, struct profile *profile);

/* How a fact stands beside what is expected of it. */
enum profile_match {
    PROFILE_AS_EXPECTED, /* or nothing is expected, or there is nothing that could have the fact */
    PROFILE_DIFFERS,
    PROFILE_NOT_SEEN, /* something is expected, and this node does not know */
};
enum profile_match profile_compare(enum profile_id id, const struct profile_fact *expected,
                                   const struct profile_fact *seen);

/* "8", ">= 570.86", "not known". */
const char *profile_show(enum profile_id id, const struct profile_fact *fact, char *text,
                         size_t size);

/* The facts as a JSON object: what is known as a value, the rest as {"unknown": why}. */
json_t *profile_json(const struct profile *profile);

/* Reads such an object. Keys that are no fact are left out with `lenient` (another version of Weft
 * wrote it), else WEFT_ERR_ARGUMENT, as for a value of the wrong type. "name": what the sentence
 * calls it. */
weft_status profile_parse(const json_t *object, const char *name, bool lenient,
                          struct profile *profile);

/* What --against takes: a file with "weft-expect" (written by hand or by `weft doctor --expect`), a
 * recorded machine ("weft-machine"), or what else --machine takes, which expects nothing where it
 * has none. WEFT_ERR_ARGUMENT with the place. */
weft_status profile_load(const char *file, struct profile *expected);

/* A file for --against that expects what this profile has. To be freed. NULL: no memory. */
char *profile_expectation(const struct profile *profile);

#endif
