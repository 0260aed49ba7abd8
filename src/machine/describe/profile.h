/* SPDX-License-Identifier: Apache-2.0 */
/* The profile of a node: a few dozen facts of the model that should be equal on all nodes of a
 * cluster, and expectations of these facts. Pure functions. */
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

/* The reason of an unknown fact of a device that does not exist, such as the model of the GPUs of a
 * machine without GPUs. */
#define PROFILE_NONE "there is none"

struct profile_fact {
    bool known;
    bool at_least;           /* expected: this number or more, or this version or a later one */
    int64_t number;          /* value of a number */
    char text[PROFILE_TEXT]; /* value of a text, or the reason of an unknown fact */
};

/* All-zero bytes: nothing is known, or nothing is expected. */
struct profile {
    struct profile_fact facts[PROFILE_COUNT];
};

struct profile_info {
    const char *name;
    bool is_text;
    int percent; /* a number must reach this percentage of the expected one; 100: must be equal */
    const char *about;
};
extern const struct profile_info profile_infos[PROFILE_COUNT];

/* Computes the profile of a machine. */
void profile_of(const struct machine *machine, struct profile *profile);

/* Result of comparing a fact with the expected one. */
enum profile_match {
    PROFILE_AS_EXPECTED, /* equal; nothing is expected; or no such device exists */
    PROFILE_DIFFERS,
    PROFILE_NOT_SEEN, /* a value is expected, and the node's value is unknown */
};
enum profile_match profile_compare(enum profile_id id, const struct profile_fact *expected,
                                   const struct profile_fact *seen);

/* Prints a fact into `text`, such as "8", ">= 570.86" or "not known", and returns `text`. */
const char *profile_show(enum profile_id id, const struct profile_fact *fact, char *text,
                         size_t size);

/* The facts as a JSON object: a known fact as its value, an unknown one as {"unknown": why}. */
json_t *profile_json(const struct profile *profile);

/* Reads such an object. Unknown keys are ignored with `lenient` (another version of Weft may have
 * written it), else they are WEFT_ERR_ARGUMENT, like a value of the wrong type. `name` is the name
 * of the source in messages. */
weft_status profile_parse(const json_t *object, const char *name, bool lenient,
                          struct profile *profile);

/* The argument of --against: a file with "weft-expect" (written by hand or by `weft doctor
 * --expect`), a recorded machine ("weft-machine"), or any other argument of --machine; of that one,
 * numbers of 0 and empty texts expect nothing. WEFT_ERR_ARGUMENT: the message has the place. */
weft_status profile_load(const char *file, struct profile *expected);

/* Text of a file for --against that expects this profile. The caller frees it. NULL: no memory. */
char *profile_expectation(const struct profile *profile);

#endif
