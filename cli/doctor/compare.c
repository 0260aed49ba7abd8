/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the comparison of one machine with an expectation, which profile_compare() makes. */
#include "doctor/doctor.h"

#include <stdio.h>

#include "columns.h"

static int count_facts(const struct profile *seen, const struct profile *expected,
                       enum profile_match match)
{
    int n = 0;
    for (int id = 0; id < PROFILE_COUNT; id++)
        n += profile_compare(id, &expected->facts[id], &seen->facts[id]) == match;
    return n;
}

int doctor_count_differences(const struct profile *seen, const struct profile *expected)
{
    return count_facts(seen, expected, PROFILE_DIFFERS);
}

int doctor_print_comparison(const struct profile *seen, const struct profile *expected,
                            const char *name)
{
    char value[PROFILE_TEXT + 8], wanted[PROFILE_TEXT + 8];
    int differs = count_facts(seen, expected, PROFILE_DIFFERS), judged = 0;
    int not_seen = count_facts(seen, expected, PROFILE_NOT_SEEN);
    for (int id = 0; id < PROFILE_COUNT; id++)
        judged += expected->facts[id].known;
    columns_print(stdout, 14, "%-12s  against %s: %d of %d facts differ, %d not seen",
                  differs    ? "DIFFERS"
                  : not_seen ? "not verified"
                             : "as expected",
                  name, differs, judged, not_seen);
    for (int id = 0; id < PROFILE_COUNT; id++) {
        const struct profile_fact *fact = &seen->facts[id], *want = &expected->facts[id];
        enum profile_match match = profile_compare(id, want, fact);
        if (match == PROFILE_AS_EXPECTED)
            continue;
        profile_show(id, want, wanted, sizeof wanted);
        profile_show(id, fact, value, sizeof value);
        columns_print(stdout, 10, "  %-7s %s: %s, %s expected%s%s%s",
                      match == PROFILE_DIFFERS ? "differs" : "unknown", profile_infos[id].name,
                      value, wanted, match == PROFILE_DIFFERS ? "" : " (",
                      match == PROFILE_DIFFERS ? "" : why_unknown(fact->text),
                      match == PROFILE_DIFFERS ? "" : ")");
    }
    return differs;
}

/* The value of a fact; null when unknown. */
static json_t *value_json(int id, const struct profile_fact *fact)
{
    char text[PROFILE_TEXT + 8];
    if (!fact->known)
        return json_null();
    return profile_infos[id].is_text || fact->at_least
               ? json_string(profile_show(id, fact, text, sizeof text))
               : json_integer(fact->number);
}

json_t *doctor_json_comparison(const struct profile *seen, const struct profile *expected,
                               const char *name)
{
    json_t *list = json_array();
    for (int id = 0; id < PROFILE_COUNT; id++) {
        const struct profile_fact *fact = &seen->facts[id], *want = &expected->facts[id];
        enum profile_match match = profile_compare(id, want, fact);
        if (match == PROFILE_AS_EXPECTED)
            continue;
        json_t *one = json_pack("{s:s, s:s, s:o, s:o}", "fact", profile_infos[id].name, "match",
                                match == PROFILE_DIFFERS ? "differs" : "not seen", "expected",
                                value_json(id, want), "seen", value_json(id, fact));
        if (match == PROFILE_NOT_SEEN)
            json_object_set_new(one, "why", json_string(why_unknown(fact->text)));
        json_array_append_new(list, one);
    }
    return json_pack("{s:s, s:i, s:i, s:o}", "expected_by", name, "differs",
                     count_facts(seen, expected, PROFILE_DIFFERS), "not_seen",
                     count_facts(seen, expected, PROFILE_NOT_SEEN), "differences", list);
}
