/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict of `weft doctor`: what to fix and what to check, by what each would gain. A thing is
 * a reason with one remedy, at however many places it was found. */
#include "doctor/doctor.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "colour.h"
#include "columns.h"

enum { VERDICT_THINGS = 4 * REASON_COUNT };

struct doctor_thing {
    const struct finding *first; /* the finding of this reason whose repair gains most */
    int places;
    bool fix; /* else it could not be observed, and has to be checked */
};

struct verdict_things {
    struct doctor_thing list[VERDICT_THINGS];
    int n, fixes, fix_places, checks, check_places;
};

static void count_thing(struct verdict_things *things, const struct finding *finding)
{
    bool fix = finding->weight <= WEIGHT_SLOW;
    int at = 0;
    while (at < things->n &&
           (things->list[at].first->reason != finding->reason ||
            things->list[at].first->advice != finding->advice || things->list[at].fix != fix))
        at++;
    if (at == VERDICT_THINGS)
        return;
    struct doctor_thing *thing = &things->list[at];
    if (at == things->n) {
        things->n++;
        *thing = (struct doctor_thing){.first = finding, .fix = fix};
        *(fix ? &things->fixes : &things->checks) += 1;
    }
    if (finding->gain_mbps > thing->first->gain_mbps)
        thing->first = finding;
    thing->places++;
    *(fix ? &things->fix_places : &things->check_places) += 1;
}

/* What to fix before what to check, then by gain; else in the order of the checks. */
static int compare_things(const void *left, const void *right)
{
    const struct doctor_thing *a = left, *b = right;
    if (a->fix != b->fix)
        return a->fix ? -1 : 1;
    if (a->first->gain_mbps != b->first->gain_mbps)
        return a->first->gain_mbps > b->first->gain_mbps ? -1 : 1;
    return a->first < b->first ? -1 : a->first > b->first;
}

static void find_things(const struct diagnosis *d, struct verdict_things *things)
{
    memset(things, 0, sizeof *things);
    for (int i = 0; i < d->findings.n; i++)
        if (d->findings.list[i].weight <= WEIGHT_UNKNOWN)
            count_thing(things, &d->findings.list[i]);
    qsort(things->list, (size_t)things->n, sizeof things->list[0], compare_things);
}

/* Length of the first sentence of a remedy: the rest stands with the finding below. */
static int first_sentence(const char *remedy)
{
    const char *end = strstr(remedy, ". ");
    while (end && !isupper((unsigned char)end[2]))
        end = strstr(end + 1, ". ");
    return end ? (int)(end - remedy) : (int)strlen(remedy);
}

static void print_thing(const struct doctor_thing *thing)
{
    const struct finding *f = thing->first;
    const struct reason_text *r = &reason_table[f->reason];
    char more[32] = "", gain[48] = "", gbps[16];
    enum colour colour = thing->fix ? COLOUR_FAULT : COLOUR_WARN;
    if (thing->places > 1)
        snprintf(more, sizeof more, " and %d more", thing->places - 1);
    if (f->gain_mbps)
        snprintf(gain, sizeof gain, ", %s GB/s more", show_gbps(f->gain_mbps, gbps, sizeof gbps));
    columns_print(stdout, 9, "  %s%-5s%s  %s%s%s%s%s: %.*s%s%s%s", colour_begin(colour),
                  thing->fix ? "fix" : "check", colour_end(colour), r->code, *f->place ? ", " : "",
                  f->place, more, gain, first_sentence(f->remedy), f->remedy,
                  thing->fix ? " [" : "", thing->fix ? f->who : "", thing->fix ? "]" : "");
}

static void print_places(int places, int things)
{
    if (places > things)
        printf(" at %d places", places);
}

void doctor_print_verdict(const struct diagnosis *d)
{
    static struct verdict_things things;
    find_things(d, &things);
    if (things.fixes)
        printf("%s%d thing%s to fix%s", colour_begin(COLOUR_FAULT), things.fixes,
               things.fixes == 1 ? "" : "s", colour_end(COLOUR_FAULT));
    else
        printf("%snothing to fix%s", colour_begin(COLOUR_OK), colour_end(COLOUR_OK));
    print_places(things.fix_places, things.fixes);
    if (things.checks) {
        printf(", %d to check", things.checks);
        print_places(things.check_places, things.checks);
    }
    putchar('\n');
    for (int i = 0; i < things.n; i++)
        print_thing(&things.list[i]);
}

json_t *doctor_json_verdict(const struct diagnosis *d)
{
    static struct verdict_things things;
    find_things(d, &things);
    json_t *list = json_array();
    for (int i = 0; i < things.n; i++) {
        const struct finding *f = things.list[i].first;
        const struct reason_text *r = &reason_table[f->reason];
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:i, s:I, s:s, s:s}", "do",
                                              things.list[i].fix ? "fix" : "check", "code", r->code,
                                              "place", f->place, "places", things.list[i].places,
                                              "gain_mbps", (json_int_t)f->gain_mbps, "remedy",
                                              f->remedy, "who", f->who));
    }
    return list;
}
