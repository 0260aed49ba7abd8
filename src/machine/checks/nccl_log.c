/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of NCCL's log, as versions 2.4 to 2.30 print them. A line is
 *     HOST:PID:TID [GPU] NCCL INFO TEXT
 * behind anything that a launcher prints. Two passes: the first finds on which host each rank is,
 * the second judges the lines. See nccl_log.h. */
#include "machine/checks/nccl_log.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *const nccl_transport_names[NCCL_TRANSPORTS] = {
    "P2P", "SHM", "NET with GPUDirect RDMA", "NET without GPUDirect RDMA", "NET/Socket (TCP)"};

enum { LINE_MOST = 1024, HOST_MOST = 64, HOST_UNKNOWN = 0, HOST_SEVERAL = -1 };

struct nccl_log_reader {
    struct nccl_log *log;
    char hosts[NCCL_HOSTS][HOST_MOST];
    short host_of[NCCL_RANKS]; /* 1 + index of the host; HOST_UNKNOWN; HOST_SEVERAL: communicators
                                  differ in it */
    int sends[NCCL_TRANSPORTS], receives[NCCL_TRANSPORTS];
};

/* --- one line --------------------------------------------------------------------------------- */

/* A channel between two ranks. */
struct nccl_channel {
    int from, to;
    bool send, receive; /* the end that printed it; neither: the sender, over P2P or SHM */
    enum nccl_transport transport;
};

struct nccl_line {
    const char *text; /* behind "NCCL INFO " or "NCCL WARN "; NULL: no line of NCCL */
    char host[HOST_MOST];
};

/* `at`, moved back over characters `skip`, at most to `line`. */
static const char *back_over(const char *line, const char *at, char skip)
{
    while (at > line && at[-1] == skip)
        at--;
    return at;
}

/* Where the text that ends at `at` begins, behind the nearest of these characters. */
static const char *back_to(const char *line, const char *at, const char *stops)
{
    while (at > line && !strchr(stops, at[-1]))
        at--;
    return at;
}

/* Copies HOST of "HOST:PID:TID [GPU] " before `at`; "" when the line has none. A launcher may have
 * put "[1,0]<stdout>:" directly before it. */
static void read_host(const char *line, const char *at, char *host)
{
    *host = '\0';
    at = back_over(line, at, ' ');
    if (at > line && at[-1] == ']')
        at = back_over(line, back_to(line, at, "["), '[');
    at = back_over(line, at, ' ');
    const char *thread = back_to(line, at, ": "), *process, *name;
    if (thread == line || thread[-1] != ':' || thread == at)
        return;
    process = back_to(line, thread - 1, ": ");
    if (process == line || process[-1] != ':' || process == thread - 1)
        return;
    name = back_to(line, process - 1, ":> ");
    size_t length = (size_t)(process - 1 - name);
    if (length && length < HOST_MOST) {
        memcpy(host, name, length);
        host[length] = '\0';
    }
}

static struct nccl_line split_line(const char *line)
{
    struct nccl_line parts = {.text = NULL};
    const char *at = strstr(line, "NCCL INFO ");
    if (!at)
        at = strstr(line, "NCCL WARN ");
    if (!at)
        return parts;
    parts.text = at + 10;
    read_host(line, at, parts.host);
    return parts;
}

/* Reads "3[1a000]" or "3" and returns what follows; NULL: no rank. */
static const char *read_rank(const char *at, int *rank)
{
    char *end;
    long number = strtol(at, &end, 10);
    if (end == at || number < 0 || number >= NCCL_RANKS)
        return NULL;
    *rank = (int)number;
    if (*end != '[')
        return end;
    end = strchr(end, ']');
    return end ? end + 1 : NULL;
}

static enum nccl_transport transport_of(const char *via)
{
    if (strncmp(via, "P2P", 3) == 0)
        return NCCL_P2P;
    if (strncmp(via, "SHM", 3) == 0 || strncmp(via, "direct shared memory", 20) == 0)
        return NCCL_SHM;
    if (strncmp(via, "NET/Socket", 10) == 0)
        return NCCL_NET_SOCKET;
    if (strncmp(via, "NET/", 4) == 0 || strncmp(via, "COLLNET/", 8) == 0)
        return strstr(via, "GDRDMA") ? NCCL_NET_RDMA : NCCL_NET_HOST;
    return NCCL_TRANSPORTS;
}

/* "Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0", before 2.5 "Ring 00 : 0 -> 1 via P2P/IPC". */
static bool read_channel(const char *text, struct nccl_channel *channel)
{
    const char *at = strstr(text, " : "), *via = strstr(text, " via ");
    if ((strncmp(text, "Channel ", 8) != 0 && strncmp(text, "Ring ", 5) != 0) || !at || !via)
        return false;
    at = read_rank(at + 3, &channel->from);
    if (!at || strncmp(at, " -> ", 4) != 0)
        return false;
    at = read_rank(at + 4, &channel->to);
    if (!at || at > via)
        return false;
    channel->send = strncmp(at, " [send]", 7) == 0;
    channel->receive = strncmp(at, " [receive]", 10) == 0;
    channel->transport = transport_of(via + 5);
    return channel->transport != NCCL_TRANSPORTS;
}

/* --- first pass: hosts and ranks -------------------------------------------------------------- */

static short host_number(struct nccl_log_reader *reader, const char *host)
{
    int n = reader->log->hosts;
    for (int i = n; *host && i-- > 0;)
        if (strcmp(reader->hosts[i], host) == 0)
            return (short)(i + 1);
    if (!*host || n == NCCL_HOSTS)
        return HOST_UNKNOWN;
    snprintf(reader->hosts[n], HOST_MOST, "%s", host);
    reader->log->hosts = n + 1;
    return (short)(n + 1);
}

static void place_rank(struct nccl_log_reader *reader, int rank, short host)
{
    short *known = &reader->host_of[rank];
    if (host != HOST_UNKNOWN)
        *known = *known == HOST_UNKNOWN || *known == host ? host : HOST_SEVERAL;
}

/* Reads the version, "rank R nranks N", and which host printed a channel. */
static void learn_line(struct nccl_log_reader *reader, const char *line, long number)
{
    struct nccl_line parts = split_line(line);
    struct nccl_channel channel;
    const char *version = strstr(line, "NCCL version "), *rank;
    int r, n;
    (void)number;
    if (version && !*reader->log->version && isdigit((unsigned char)version[13]))
        sscanf(version + 13, "%47[0-9a-zA-Z.+-]", reader->log->version);
    reader->log->lines++;
    reader->log->own_lines += parts.text || version;
    if (!parts.text)
        return;
    short host = host_number(reader, parts.host);
    if (read_channel(parts.text, &channel))
        place_rank(reader, channel.receive ? channel.to : channel.from, host);
    rank = strstr(parts.text, "rank ");
    if (rank && sscanf(rank, "rank %d nranks %d", &r, &n) == 2 && r >= 0 && r < NCCL_RANKS) {
        place_rank(reader, r, host);
        reader->log->ranks = n > reader->log->ranks && n <= NCCL_RANKS ? n : reader->log->ranks;
    }
}

/* --- second pass: findings -------------------------------------------------------------------- */

/* Adds one line to the finding of this reason and `why`, or makes it. */
static struct nccl_finding *count_line(struct nccl_log *log, enum reason reason, const char *why,
                                       const char *text, long line)
{
    struct nccl_finding *f = log->list;
    while (f < log->list + log->n && (f->reason != reason || f->why != why))
        f++;
    if (f == log->list + NCCL_FINDINGS)
        return f - 1;
    if (f == log->list + log->n) {
        log->n++;
        *f = (struct nccl_finding){
            .reason = reason, .weight = WEIGHT_SLOW, .why = why, .line = line};
        snprintf(f->text, sizeof f->text, "%s", text);
    }
    f->count++;
    return f;
}

/* Both ends of a NET channel count it, so only one of them makes the number of channels. */
static void judge_channel(struct nccl_log_reader *reader, const struct nccl_channel *c,
                          const char *text, long line)
{
    static const enum reason slow[NCCL_TRANSPORTS] = {REASON_COUNT, REASON_NCCL_SHM, REASON_COUNT,
                                                      REASON_NCCL_NO_GDR, REASON_NCCL_SOCKET};
    short from = reader->host_of[c->from], to = reader->host_of[c->to];
    bool net = c->transport >= NCCL_NET_RDMA;
    bool inside = net && from > 0 && from == to && c->from != c->to;
    enum reason reason = inside ? REASON_NCCL_NET_INSIDE : slow[c->transport];
    *(c->receive ? &reader->receives[c->transport] : &reader->sends[c->transport]) += 1;
    if (reason == REASON_COUNT)
        return;
    struct nccl_finding *f = count_line(reader->log, reason, NULL, text, line);
    f->channels = true;
    f->count -= c->receive; /* weigh_findings() takes the greater number */
    f->receives += c->receive;
}

/* Settings of the environment that make NCCL slower. */
static void judge_variable(struct nccl_log *log, const char *text, long line)
{
    static const struct {
        const char *name, *value; /* value NULL: any; "<N": a number below N */
        const char *why;
    } table[] = {
        {"NCCL_P2P_DISABLE", "1", "peer access between GPUs is off"},
        {"NCCL_P2P_LEVEL", "LOC", "peer access between GPUs is off"},
        {"NCCL_P2P_LEVEL", "NVL", "there is no peer access over PCIe"},
        {"NCCL_SHM_DISABLE", "1", "GPUs without peer access use the network"},
        {"NCCL_IB_DISABLE", "1", "RDMA is off: TCP between hosts"},
        {"NCCL_NET", "Socket", "RDMA is off: TCP between hosts"},
        {"NCCL_NET_GDR_LEVEL", "LOC", "GPUDirect RDMA is off"},
        {"NCCL_NET_GDR_READ", "0", "data is copied to host memory before it is sent"},
        {"NCCL_DMABUF_ENABLE", "0", "GPUDirect RDMA needs nvidia_peermem"},
        {"NCCL_NVLS_ENABLE", "0", "NVLS is off"},
        {"NCCL_CUMEM_ENABLE", "0", "NVLS is off, which needs it"},
        {"NCCL_NVB_DISABLE", "1", "no GPU relays over NVLink between GPUs without a link"},
        {"NCCL_PXN_DISABLE", "1", "no GPU relays over NVLink to the NIC of another GPU"},
        {"NCCL_MAX_NCHANNELS", "<8", "few channels limit the bandwidth"},
        {"NCCL_MAX_NRINGS", "<8", "few channels limit the bandwidth"},
        {"NCCL_MAX_CTAS", "<8", "few channels limit the bandwidth"},
        {"NCCL_BUFFSIZE", "<4194304", "buffers below the default of 4 MiB limit the bandwidth"},
        {"NCCL_ALGO", NULL, "one algorithm for all sizes"},
        {"NCCL_PROTO", NULL, "one protocol for all sizes"},
    };
    char name[64], value[64];
    if (sscanf(text, "%63[A-Z0-9_] set by environment to %63s", name, value) != 2)
        return;
    size_t length = strlen(value);
    while (length && value[length - 1] == '.')
        value[--length] = '\0';
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const char *slow = table[i].value;
        bool is = !slow          ? true
                  : *slow == '<' ? strtol(value, NULL, 10) < strtol(slow + 1, NULL, 10)
                                 : strcasecmp(value, slow) == 0;
        if (strcmp(name, table[i].name) == 0 && is) {
            struct nccl_finding *f = count_line(log, REASON_NCCL_ENV, table[i].why, text, line);
            f->weight = slow ? WEIGHT_SLOW : WEIGHT_NOTE;
        }
    }
}

/* Lines that are no channel. */
static void judge_text(struct nccl_log *log, const char *text, long line)
{
    const char *type = strncmp(text, "Pattern 4,", 10) == 0 ? strstr(text, ", type ") : NULL;
    if (strstr(text, "NET/IB : No device found") ||
        strstr(text, "Failed to initialize NET plugin IB"))
        count_line(log, REASON_NCCL_NO_IB, NULL, text, line);
    else if (strstr(text, "GPU Direct RDMA Disabled for") && strncmp(text, "NET/Socket", 10) != 0)
        count_line(log, REASON_NCCL_GDR_OFF, NULL, text, line);
    else if (strncmp(text, "P2P is disabled between", 23) == 0)
        count_line(log, REASON_NCCL_P2P_OFF, NULL, text, line);
    else if (strstr(text, "NVLS multicast support is not available") ||
             strstr(text, " 0 nvls channels"))
        count_line(log, REASON_NCCL_NVLS, NULL, text, line);
    else if (type && strncmp(type + 7, "SYS", 3) == 0)
        count_line(log, REASON_NCCL_SYS, NULL, text, line);
    else
        judge_variable(log, text, line);
}

static void judge_line(struct nccl_log_reader *reader, const char *line, long number)
{
    struct nccl_line parts = split_line(line);
    struct nccl_channel channel;
    if (!parts.text)
        return;
    if (read_channel(parts.text, &channel))
        judge_channel(reader, &channel, parts.text, number);
    else
        judge_text(reader->log, parts.text, number);
}

/* --- both ------------------------------------------------------------------------------------- */

typedef void line_function(struct nccl_log_reader *reader, const char *line, long number);

/* Calls the function with each line; characters that do not print become '?'. */
static void each_line(struct nccl_log_reader *reader, const char *text, size_t length,
                      line_function *function)
{
    char line[LINE_MOST];
    long number = 0;
    for (size_t at = 0; at < length;) {
        const char *end = memchr(text + at, '\n', length - at);
        size_t all = end ? (size_t)(end - text) - at : length - at;
        size_t n = all < sizeof line - 1 ? all : sizeof line - 1;
        while (n && (text[at + n - 1] == '\r' || text[at + n - 1] == ' '))
            n--;
        for (size_t i = 0; i < n; i++)
            line[i] = isprint((unsigned char)text[at + i]) ? text[at + i] : '?';
        line[n] = '\0';
        function(reader, line, ++number);
        at += all + 1;
    }
}

/* What is a note: a GPU or NIC that is off where no channel took a slow path. */
static void weigh_findings(struct nccl_log_reader *reader)
{
    struct nccl_log *log = reader->log;
    int all = 0;
    bool tcp = false; /* between hosts */
    for (int t = 0; t < NCCL_TRANSPORTS; t++) {
        int sends = reader->sends[t], receives = reader->receives[t];
        log->channels[t] = sends > receives ? sends : receives;
        all += log->channels[t];
    }
    for (int i = 0; i < log->n; i++)
        tcp |= log->list[i].reason == REASON_NCCL_SOCKET;
    for (int i = 0; i < log->n; i++) {
        struct nccl_finding *f = &log->list[i];
        if (f->channels && f->receives > f->count)
            f->count = f->receives;
        if (f->reason == REASON_NCCL_NVLS ||
            (f->reason == REASON_NCCL_GDR_OFF && all && !log->channels[NCCL_NET_HOST]) ||
            (f->reason == REASON_NCCL_NO_IB && !tcp))
            f->weight = WEIGHT_NOTE;
        log->faults += f->weight == WEIGHT_SLOW;
    }
}

/* What is slow before notes, channels before other lines (the order of the reasons), then by line.
 */
static int by_weight_and_kind(const void *a, const void *b)
{
    const struct nccl_finding *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? -1 : 1;
    if (x->reason != y->reason)
        return x->reason < y->reason ? -1 : 1;
    return x->line < y->line ? -1 : x->line > y->line;
}

bool nccl_log_read(const char *text, size_t length, struct nccl_log *log)
{
    struct nccl_log_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        abort();
    memset(log, 0, sizeof *log);
    reader->log = log;
    each_line(reader, text, length, learn_line);
    each_line(reader, text, length, judge_line);
    weigh_findings(reader);
    qsort(log->list, (size_t)log->n, sizeof log->list[0], by_weight_and_kind);
    free(reader);
    return log->own_lines > 0;
}
