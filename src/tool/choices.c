/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the path choices of a running job. See choices.h. */
#include "tool/choices.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "box/choices.h"
#include "path/path.h"
#include "tool/system_segment.h"

_Static_assert((int)CHOICES_PATHS_MOST >= (int)BOX_PATHS, "every path has a place");
_Static_assert((int)CHOICES_WHY_BYTES >= (int)BOX_REASON_BYTES, "every reason has room");
_Static_assert((int)CHOICES_KINDS == (int)BOX_KINDS, "every kind of memory has a place");

/* Adds one path to the choice; ignores a column without a name. */
static void decode_path(const struct box *box, const struct box_choices *table,
                        const struct box_choice *from, int column, struct choice *choice)
{
    uint16_t why = from->why[column];
    struct choice_path *path = &choice->paths[choice->n_paths];
    uint32_t count = table->count < BOX_REASONS ? table->count : BOX_REASONS;
    *path = (struct choice_path){.failed = from->failed >> column & 1};
    system_segment_text(path->name, box->paths[column], sizeof path->name);
    if (!path->name[0])
        return;
    if (why && why <= count)
        system_segment_text(path->why, table->reasons[why - 1], BOX_REASON_BYTES);
    choice->n_paths++;
}

static void decode_choice(const struct box *box, const struct box_choices *table,
                          const struct box_choice *from, struct choice *choice)
{
    static const enum choice_proof proofs[] = {[BOX_KIND_UNUSED] = CHOICE_UNUSED,
                                               [BOX_PROOF_NONE] = CHOICE_NOT_PROVEN,
                                               [BOX_PROOF_GOOD] = CHOICE_PROVEN,
                                               [BOX_PROOF_BAD] = CHOICE_FAILED};
    *choice = (struct choice){.proof = CHOICE_UNUSED};
    if (from->proof == BOX_KIND_UNUSED || from->proof > BOX_PROOF_BAD)
        return;
    choice->proof = proofs[from->proof];
    /* The column after the paths means "no path" and has no reason. */
    if (from->path < BOX_PATHS && from->why[from->path])
        decode_path(box, table, from, from->path, choice);
    choice->taken = choice->n_paths > 0;
    for (int column = 0; column < BOX_PATHS; column++)
        if (from->why[column] && column != from->path)
            decode_path(box, table, from, column, choice);
}

bool choices_decode(const void *slot, size_t bytes, int to, struct choices *choices)
{
    /* The PE may keep writing, so all checks and texts use one copy. */
    static struct box box;
    static struct box_choices table;
    *choices = (struct choices){.to = to};
    if (bytes < sizeof box)
        return false;
    memcpy(&box, slot, sizeof box);
    uint64_t at = box.choices_offset;
    if (box.magic != BOX_MAGIC || box.version != BOX_VERSION || box.npes <= 0 || at % 8 ||
        at > bytes || box_choices_bytes(box.npes) > bytes - at || to < 0 || to >= box.npes)
        return false;
    const struct box_choices *there = (const void *)((const char *)slot + at);
    memcpy(&table, there, sizeof table);
    choices->from = box.pe;
    choices->npes = box.npes;
    choices->pid = box.pid;
    system_segment_text(choices->program, box.program, sizeof choices->program);
    for (int kind = 0; kind < CHOICES_KINDS; kind++) {
        struct box_choice one = there->choices[(size_t)kind * (size_t)box.npes + (size_t)to];
        decode_choice(&box, &table, &one, &choices->kinds[kind]);
    }
    return true;
}

/* Slot of a PE; -1 when the PE is not on this node or does not exist. *npes: PEs of the job, 0 =
 * unknown. */
static int slot_of(const struct system_segment *segment, int pe, int *npes)
{
    int found = -1;
    for (int slot = 0; slot < segment->slots; slot++) {
        const struct box *box = system_segment_map(segment, slot, sizeof *box);
        if (!box)
            continue;
        if (box->magic == BOX_MAGIC && box->version == BOX_VERSION) {
            *npes = box->npes;
            found = box->pe == pe ? slot : found;
        }
        munmap((void *)box, sizeof *box);
    }
    return found;
}

static bool read_from(const struct system_segment *segment, int pid, int from, int to,
                      struct choices *choices, char *why, int why_bytes)
{
    int npes = 0, slot = slot_of(segment, from, &npes);
    int wrong = from < 0 || from >= npes ? from : to;
    if (wrong < 0 || wrong >= npes) {
        snprintf(why, (size_t)why_bytes, "PE %d: the job of process %d has the PEs 0 ... %d", wrong,
                 pid, npes - 1);
        return false;
    }
    if (slot < 0) {
        snprintf(why, (size_t)why_bytes,
                 "PE %d of the job of process %d is on another machine or has not started; run the "
                 "command there",
                 from, pid);
        return false;
    }
    const void *mapped = system_segment_map(segment, slot, segment->stride);
    bool good = mapped && choices_decode(mapped, segment->stride, to, choices);
    if (!good)
        snprintf(why, (size_t)why_bytes, "the black box of PE %d cannot be read", from);
    if (mapped)
        munmap((void *)mapped, segment->stride);
    return good;
}

bool choices_read_all(int pid, void (*visit)(void *argument, const struct choices *one),
                      void *argument, char *why, int why_bytes)
{
    static struct choices one;
    struct system_segment segment;
    int pe = system_segment_find_pe(pid);
    if (!system_segment_open(pe ? pe : pid, &segment, why, why_bytes))
        return false;
    for (int slot = 0; slot < segment.slots; slot++) {
        const void *mapped = system_segment_map(&segment, slot, segment.stride);
        if (!mapped)
            continue;
        for (int to = 0; choices_decode(mapped, segment.stride, to, &one); to++)
            visit(argument, &one);
        munmap((void *)mapped, segment.stride);
    }
    system_segment_close(&segment);
    return true;
}

bool choices_read(int pid, int from, int to, struct choices *choices, char *why, int why_bytes)
{
    struct system_segment segment;
    int pe = system_segment_find_pe(pid);
    if (!system_segment_open(pe ? pe : pid, &segment, why, why_bytes))
        return false;
    bool good = read_from(&segment, pid, from, to, choices, why, why_bytes);
    system_segment_close(&segment);
    return good;
}

weft_status choices_check_order(const char *text)
{
    struct path_order order;
    return path_order_parse(text, &order);
}
