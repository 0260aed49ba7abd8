/* SPDX-License-Identifier: Apache-2.0 */
/* Converts the records of device code to text. Device code may write the box while it is read. */
#include "job/device_state.h"

#include "base/type_names.h"
#include "gpu/coll/kernels.h"
#include "path/gda/error.h"

#include <stdio.h>
#include <string.h>

const char *device_operation_name(uint32_t operation)
{
    static const char *const names[] = {
#define NAME(id, name) name,
        WEFT_DEV_OPERATIONS(NAME)
#undef NAME
    };
    return operation < WEFT_DEV_OP_COUNT ? names[operation] : "an unknown operation";
}

static void text_wait(const struct weft_dev_record *record, const char *who, char *text,
                      size_t bytes)
{
    static const char *const signs[] = {"==", "!=", ">", "<=", "<", ">="};
    char whom[32] = "";
    if (record->operation == WEFT_DEV_OP_GRID) {
        snprintf(
            text, bytes,
            "%s %s %.1f s for the %llu blocks of this kernel that share a collective: %llu have "
            "come; all must be resident at the same time (use WEFT_LAUNCH_COOPERATIVE) and "
            "call it",
            who, record->state == WEFT_DEV_RECORD_WAITING ? "has been waiting" : "waited",
            (double)record->waited_ns * 1e-9, (unsigned long long)record->expected,
            (unsigned long long)record->seen);
        return;
    }
    if (record->peer >= 0)
        snprintf(whom, sizeof whom, " for PE %d", record->peer);
    snprintf(text, bytes, "%s %s %.1f s%s: expected %s %llu, seen %llu at address %#llx%s", who,
             record->state == WEFT_DEV_RECORD_WAITING ? "has been waiting" : "waited",
             (double)record->waited_ns * 1e-9, whom,
             signs[record->compare < WEFT_CMP_COUNT ? record->compare : WEFT_GE],
             (unsigned long long)record->expected, (unsigned long long)record->seen,
             (unsigned long long)record->address,
             record->state == WEFT_DEV_RECORD_WAITING ? "" : " (limit WEFT_WAIT_LIMIT)");
}

static int bits(uint64_t word, int from, int count)
{
    return (int)(word >> from & ((1u << count) - 1));
}

static void text_place(uint64_t place, int pe, char *text, size_t bytes)
{
    static const char *const segments[WEFT_DEV_SEGMENTS] = {
        [WEFT_DEV_HEAP] = "the heap",
        [WEFT_DEV_OTHER] = "the other heap",
        [WEFT_DEV_DATA] = "the program's data",
    };
    unsigned segment = (unsigned)(place >> 60) - 1;
    if (place && segment < WEFT_DEV_SEGMENTS)
        snprintf(text, bytes, "byte %llu of %s at PE %d",
                 (unsigned long long)(place & (((uint64_t)1 << 60) - 1)), segments[segment], pe);
    else
        snprintf(text, bytes, "no symmetric memory at PE %d", pe);
}

/* Text of a mismatch that only device code detects. */
static void text_places(const struct weft_dev_record *record, int pe, const char *who, char *text,
                        size_t bytes)
{
    char here[64], there[64];
    text_place(record->expected, pe, here, sizeof here);
    text_place(record->seen, record->peer, there, sizeof there);
    if (record->address == WEFT_DEV_ARG_ELEMENT)
        snprintf(text, bytes, "%s: elements of %llu bytes at PE %d, of %llu at PE %d", who,
                 (unsigned long long)record->expected, pe, (unsigned long long)record->seen,
                 record->peer);
    else
        snprintf(text, bytes, "%s: %s is %s, %s; all members must pass the same symmetric address",
                 who, record->address == WEFT_DEV_ARG_FROM ? "src" : "dst", here, there);
}

/* Text for members of a team that called a collective with different arguments. expected and seen
 * are the words of enum coll_header of this PE and of record->peer. */
static void text_mismatch(const struct weft_dev_record *record, int pe, const char *who, char *text,
                          size_t bytes)
{
    uint64_t a = record->expected, b = record->seen;
    int peer = record->peer;
    double factors[2];
    memcpy(&factors[0], &a, sizeof a);
    memcpy(&factors[1], &b, sizeof b);
    if (record->address >= WEFT_DEV_ARG_TO)
        text_places(record, pe, who, text, bytes);
    else if (record->address == COLL_HEADER_BYTES)
        snprintf(text, bytes, "%s: %llu bytes at PE %d, %llu at PE %d", who, (unsigned long long)a,
                 pe, (unsigned long long)b, peer);
    else if (record->address == COLL_HEADER_DETAIL && record->operation == WEFT_DEV_OP_ALLTOALL)
        snprintf(text, bytes, "%s: strides %d and %d (dst, src) at PE %d, %d and %d at PE %d", who,
                 (int)(a >> 32), (int)a, pe, (int)(b >> 32), (int)b, peer);
    else if (record->address == COLL_HEADER_DETAIL)
        snprintf(text, bytes,
                 "%s: factor %.9g at PE %d, %.9g at PE %d (of integer types: %lld, %lld)", who,
                 factors[0], pe, factors[1], peer, (long long)a, (long long)b);
    else if (record->address == COLL_HEADER_ALGORITHM)
        snprintf(
            text, bytes,
            "%s: dst or src is symmetric memory at one of PE %d and PE %d and other memory, or "
            "not aligned to elements, at the other, or their limits of SMs differ "
            "(weft_team_use_sms()); all members must pass the same",
            who, pe, peer);
    else if (bits(a, 56, 2) != bits(b, 56, 2))
        snprintf(text, bytes, "%s: %s at PE %d, so nothing is done", who,
                 bits(a | b, 56, 2) == WEFT_DEV_WRONG_RANGE ? "dst runs past the end of its segment"
                                                            : "dst and src overlap",
                 bits(b, 56, 2) ? peer : pe);
    else if (bits(a, 0, 8) != bits(b, 0, 8))
        snprintf(text, bytes, "%s: PE %d calls %s while PE %d calls %s", who, pe,
                 device_operation_name((uint32_t)bits(a, 0, 8)), peer,
                 device_operation_name((uint32_t)bits(b, 0, 8)));
    else if (a >> 63 != b >> 63)
        snprintf(text, bytes,
                 "%s: by blocks of a grid at PE %d, by one thread, warp or block at PE %d", who,
                 a >> 63 ? pe : peer, a >> 63 ? peer : pe);
    else if (bits(a, 8, 16) != bits(b, 8, 16))
        snprintf(text, bytes, "%s: %s by %s at PE %d, %s by %s at PE %d", who,
                 base_type_name(bits(a, 8, 8)), base_op_name(bits(a, 16, 8)), pe,
                 base_type_name(bits(b, 8, 8)), base_op_name(bits(b, 16, 8)), peer);
    else if (bits(a, 24, 16) != bits(b, 24, 16))
        snprintf(text, bytes, "%s: root %d at PE %d, %d at PE %d", who, bits(a, 24, 16) - 1, pe,
                 bits(b, 24, 16) - 1, peer);
    else
        snprintf(text, bytes, "%s: a team of %d at PE %d, of %d at PE %d", who, bits(a, 40, 16), pe,
                 bits(b, 40, 16), peer);
}

static void text_argument(const struct weft_dev_record *record, const char *who, char *text,
                          size_t bytes)
{
    unsigned long long address = record->address, expected = record->expected, seen = record->seen;
    if (record->compare == WEFT_EQ) /* seen: bytes of dst; waited_ns: bytes of src */
        snprintf(text, bytes,
                 "%s: dst %#llx (%llu bytes) and src %#llx (%llu bytes) overlap, and neither is "
                 "the own block of the other",
                 who, address, seen, expected, (unsigned long long)record->waited_ns);
    else if (record->compare == WEFT_NE) /* expected: index of the queue */
        snprintf(text, bytes,
                 "%s: queue %llu to a PE belongs to block %llu alone, and two threads posted to it "
                 "at the same time (weft_device_queue_mode)",
                 who, expected, expected);
    else if (record->compare == WEFT_GE) /* expected: both strides; seen: bytes of an element */
        snprintf(text, bytes,
                 "%s: strides %d and %d (dst, src), element of %llu bytes; at least 1 is needed",
                 who, (int)(record->expected >> 32), (int)record->expected, seen);
    else if (record->compare == WEFT_LT) /* barriers of nccl_device.h */
        snprintf(text, bytes,
                 "%s: number %llu, and there are %llu; ask ncclDevCommCreate() for more", who, seen,
                 expected);
    else /* expected: blocks that shall take part; seen: blocks of the grid */
        snprintf(text, bytes,
                 "%s: the first %llu blocks of %llu must share it, but block %u called it", who,
                 expected, seen, record->block);
}

static void text_refused(const struct weft_dev_record *record, int pe, const char *who, char *text,
                         size_t bytes)
{
    unsigned long long address = record->address;
    switch (record->status) {
    case WEFT_ERR_ADDRESS:
        snprintf(text, bytes, "%s: address %#llx is in no symmetric segment", who, address);
        break;
    case WEFT_ERR_RANGE:
        if (record->peer >= 0 && record->operation == WEFT_DEV_OP_ALLTOALLV &&
            record->compare == WEFT_LE) { /* seen: the space that the receiver has reported */
            snprintf(text, bytes, "%s: PE %d has room for %llu bytes of PE %d, which sends %llu",
                     who, record->peer, (unsigned long long)record->seen, pe,
                     (unsigned long long)record->expected);
            break;
        }
        if (record->peer >= 0 && (record->operation == WEFT_DEV_OP_ALLTOALLV ||
                                  record->operation == WEFT_DEV_OP_COLLECT)) {
            /* memory of the receiver that is not symmetric has no address here */
            char where[24] = "it";
            if (address)
                snprintf(where, sizeof where, "%#llx", address);
            snprintf(text, bytes, "%s: PE %d has no room for the %llu bytes that are sent to %s",
                     who, record->peer, (unsigned long long)record->expected, where);
            break;
        }
        snprintf(text, bytes, "%s: %llu bytes from address %#llx run past the end of the segment",
                 who, (unsigned long long)record->expected, address);
        break;
    case WEFT_ERR_PE:
        snprintf(text, bytes, "%s: there is no PE %d", who, record->peer);
        break;
    case WEFT_ERR_NO_PATH: /* expected: path id; seen: a direct address exists */
        snprintf(text, bytes, "%s: device code has no %s PE %d: its path is %s", who,
                 record->seen ? "atomics at" : "direct address of", record->peer,
                 record->expected < PATH_COUNT ? path_name((enum path_id)record->expected)
                                               : "unknown");
        break;
    case WEFT_ERR_PATH: /* expected: queue number; seen: vendor error | syndrome << 8 */
        snprintf(
            text, bytes,
            "%s: queue %llu of path gda to PE %d has failed: %s (syndrome %#04x, vendor %#04x)",
            who, (unsigned long long)record->expected, record->peer,
            gda_syndrome_text((unsigned)(record->seen >> 8 & 0xff)),
            (unsigned)(record->seen >> 8 & 0xff), (unsigned)(record->seen & 0xff));
        break;
    case WEFT_ERR_ARGUMENT:
        text_argument(record, who, text, bytes);
        break;
    case WEFT_ERR_NOT_MEMBER:
        snprintf(text, bytes, "%s: there is no team %d of which this PE is a member", who,
                 record->team);
        break;
    default:
        snprintf(text, bytes, "%s: %s, at address %#llx", who,
                 base_status_text((weft_status)record->status), address);
    }
}

void device_record_text(const struct weft_dev_record *shared, int pe, char *text, size_t bytes)
{
    struct weft_dev_record record = *shared;
    char who[128], team[32] = "";
    if (record.team >= 0)
        snprintf(team, sizeof team, " of team %d", record.team);
    snprintf(who, sizeof who, "PE %d, kernel block %u thread %u: %s%s", pe, record.block,
             record.thread, device_operation_name(record.operation), team);
    if (record.state == WEFT_DEV_RECORD_REFUSED && record.status == WEFT_ERR_MISMATCH)
        text_mismatch(&record, pe, who, text, bytes);
    else if (record.state == WEFT_DEV_RECORD_REFUSED)
        text_refused(&record, pe, who, text, bytes);
    else
        text_wait(&record, who, text, bytes);
}

/* Returns the earliest fault record that has not been overwritten. */
static const struct weft_dev_record *first_fault(const struct weft_dev_box *box)
{
    const struct weft_dev_record *first = NULL;
    for (int i = 0; i < WEFT_DEV_RECORDS; i++) {
        const struct weft_dev_record *record = &box->records[i];
        uint32_t state = __atomic_load_n(&record->state, __ATOMIC_ACQUIRE);
        if (state != WEFT_DEV_RECORD_EXPIRED && state != WEFT_DEV_RECORD_REFUSED)
            continue;
        if (!first || record->ticket < first->ticket)
            first = record;
    }
    return first;
}

/* Appends the name of the device whose queue failed. */
static void add_device(const struct weft_job *job, const struct weft_dev_record *record,
                       char *sentence, size_t bytes)
{
    size_t used = strlen(sentence);
    char name[64] = "";
    if (record->state != WEFT_DEV_RECORD_REFUSED || record->status != WEFT_ERR_PATH)
        return;
    for (int path = 0; path < PATH_COUNT && !name[0]; path++) {
        const struct path_ops *ops = path_ops_of((enum path_id)path);
        if (ops->name_queue && job->paths.common[path])
            ops->name_queue(job->paths.common[path], record->peer, record->expected, name,
                            sizeof name);
    }
    if (name[0] && used < bytes)
        snprintf(sentence + used, bytes - used, ": %s", name);
}

void device_left_text(const struct weft_job *job, char *text, size_t bytes)
{
    uint64_t left = 0;
    if (job->device || job->gpu)
        left = __atomic_load_n(&device_box(job->box)->left, __ATOMIC_RELAXED);
    char whom[32] = "blocks of its own";
    if ((int)(uint32_t)left != job->pe)
        snprintf(whom, sizeof whom, "PE %d", (int)(uint32_t)left);
    text[0] = '\0';
    if (left)
        snprintf(text, bytes, "; PE %d was in %s of team %d, waiting for %s", job->pe,
                 device_operation_name((uint32_t)(left >> 48 & 0x7fff)), (int)(left >> 32 & 0xffff),
                 whom);
}

weft_status device_check(struct weft_job *job)
{
    if (!job->device && !job->gpu)
        return WEFT_OK;
    const struct weft_dev_box *box = device_box(job->box);
    int failed = __atomic_load_n(&box->failed, __ATOMIC_ACQUIRE);
    if (!failed)
        return WEFT_OK;
    char sentence[384] = "device code failed";
    const struct weft_dev_record *record = first_fault(box);
    if (record) {
        device_record_text(record, job->pe, sentence, sizeof sentence);
        add_device(job, record, sentence, sizeof sentence);
    }
    return job_fail(job, (weft_status)failed, sentence);
}
