/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a device for `weft hca`: the device, its QPs, its memory keys and the last lines of
 * its error log as one JSON object. The connector thread reads them under the device's lock and
 * sends them without it; a client that does not read is dropped after SEND_MS. */
#include "hca.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PIECE_BYTES = 16 << 10, SEND_MS = 1000, KEYS_SHOWN = 256 };

static const char *const state_names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERROR"};
static const char *const type_names[] = {"RC", "DCI", "DCT"};
static const char *const mode_names[] = {"strict", "adversarial", "lenient"};

static void put_text(FILE *to, const char *text)
{
    fputc('"', to);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        if (*c == '"' || *c == '\\')
            fprintf(to, "\\%c", *c);
        else if (*c < 0x20)
            fprintf(to, "\\u%04x", *c);
        else
            fputc(*c, to);
    fputc('"', to);
}

static void put_queue(FILE *to, const struct qp *qp)
{
    char peer[ADDRESS_TEXT] = "";
    if (qp->requester.remote_qpn)
        address_text(qp->requester.remote, peer);
    fprintf(to,
            "{\"qpn\":%u,\"type\":\"%s\",\"state\":\"%s\",\"peer\":\"%s\",\"peer_qpn\":%u,"
            "\"posted\":%llu,\"waiting_blocks\":%u,\"in_flight\":%u,\"completed\":%llu,"
            "\"received\":%llu,\"bytes\":%llu,\"errors\":%llu,\"retries\":%llu}",
            qp->qpn, type_names[qp->type], state_names[qp->state], peer, qp->requester.remote_qpn,
            (unsigned long long)qp->counts.requests, (uint16_t)(qp->send.producer - qp->send.taken),
            qp->send.outstanding_tail - qp->send.outstanding_head,
            (unsigned long long)qp->counts.completions, (unsigned long long)qp->counts.received,
            (unsigned long long)qp->counts.bytes, (unsigned long long)qp->counts.errors,
            (unsigned long long)qp->counts.retries);
}

static void put_queues(FILE *to, const struct device *d)
{
    const char *between = "";
    fputs(",\"queues\":[", to);
    for (unsigned i = 0; i < MAX_QPS; i++) {
        if (!d->objects.qps[i])
            continue;
        fputs(between, to);
        put_queue(to, d->objects.qps[i]);
        between = ",";
    }
    fputc(']', to);
}

static void put_keys(FILE *to, const struct device *d)
{
    unsigned all = 0;
    fputs(",\"keys\":[", to);
    for (uint32_t i = 0; i < d->objects.keys.count; i++) {
        const struct mr_entry *e = &d->objects.keys.entries[i];
        if (!e->valid || ++all > KEYS_SHOWN)
            continue;
        fprintf(to,
                "%s{\"key\":%u,\"address\":%llu,\"bytes\":%llu,\"pd\":%u,\"access\":\"%s%s%s%s\"}",
                all > 1 ? "," : "", i << 8 | e->tag, (unsigned long long)e->address,
                (unsigned long long)e->bytes, e->pd, e->access & MR_LOCAL_WRITE ? "l" : "-",
                e->access & MR_REMOTE_WRITE ? "w" : "-", e->access & MR_REMOTE_READ ? "r" : "-",
                e->access & MR_REMOTE_ATOMIC ? "a" : "-");
    }
    fprintf(to, "],\"keys_in_all\":%u", all);
}

static void put_log(FILE *to, const struct device *d)
{
    uint64_t first = d->record.line_count > LOG_LINES ? d->record.line_count - LOG_LINES : 0;
    fputs(",\"log\":[", to);
    for (uint64_t i = first; i < d->record.line_count; i++) {
        if (i > first)
            fputc(',', to);
        put_text(to, d->record.lines[i % LOG_LINES].text);
    }
    fputc(']', to);
}

static void put_device(FILE *to, const struct device *d)
{
    char name[32] = "";
    FILE *comm = fopen("/proc/self/comm", "re");
    if (comm && fgets(name, sizeof name, comm))
        name[strcspn(name, "\n")] = '\0';
    if (comm)
        fclose(comm);
    fprintf(to, "{\"pid\":%d,\"program\":", (int)getpid());
    put_text(to, name);
    fprintf(
        to,
        ",\"device\":\"mlx5_soft%u\",\"lid\":%u,\"link\":\"%s\",\"mode\":\"%s\",\"doorbells\":%llu,"
        "\"requests\":%llu,\"by_gpu\":%llu,\"errors\":%llu",
        d->number, d->lid, d->config->link == LINK_IB ? "ib" : "roce", mode_names[d->config->mode],
        (unsigned long long)d->record.doorbells, (unsigned long long)d->record.requests,
        (unsigned long long)d->record.by_gpu, (unsigned long long)d->record.errors);
}

static char *describe_device(struct device *d, size_t *bytes)
{
    char *text = NULL;
    FILE *to = open_memstream(&text, bytes);
    if (!to)
        return NULL;
    device_lock(d);
    put_device(to, d);
    put_queues(to, d);
    put_keys(to, d);
    put_log(to, d);
    device_unlock(d);
    fputs("}\n", to);
    if (fclose(to)) {
        free(text);
        return NULL;
    }
    return text;
}

/* Answers a client that has sent REPORT_QUERY. */
void report_answer(struct device *d, int socket)
{
    struct timeval patience = {SEND_MS / 1000, SEND_MS % 1000 * 1000};
    size_t bytes = 0;
    char *text = describe_device(d, &bytes), question[16];
    /* Consume the query: closing a socket with unread data would discard the answer. */
    if (recv(socket, question, sizeof question, MSG_DONTWAIT) < 0)
        bytes = 0;
    setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    for (size_t at = 0, piece; text && at < bytes; at += piece) {
        piece = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        if (send(socket, text + at, piece, MSG_NOSIGNAL) != (ssize_t)piece)
            break;
    }
    free(text);
}
