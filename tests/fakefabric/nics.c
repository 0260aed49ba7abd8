/* SPDX-License-Identifier: Apache-2.0 */
/* NICs of the stand-in: each interface is offered twice (FAKE_FABRIC_NICS=2), the second time as
 * "NAME-2" with its own domain.
 *   FAKE_FABRIC_LOSE=NAME:COUNT:PE, or a list: that NIC of that PE fails at its COUNT-th remote
 *     access. Later operations on it are lost, and each completes with an error. COUNT may be
 *     LEAST-MOST: random, and printed.
 *   FAKE_FABRIC_LOSE_DATA=1: the first lost operation is data, not a message and not a confirmation
 *     of a write.
 *   FAKE_FABRIC_DEAF=1: it fails when, from COUNT on, a part of a read has arrived. Nothing more
 *     arrives of the operations in flight, the last of which completes with an error.
 *   FAKE_FABRIC_NO_GPU=NAME: that NIC cannot register GPU memory.
 * With FAKE_FABRIC_NICS each NIC prints its number of remote accesses when it is closed. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define SECOND "-2"
enum { NICS = 32, LOST = 8192, CONFIRMING = 8 };

static struct nic {
    const struct fid *domain;
    char name[64];
    unsigned long accesses, fails_at; /* NEVER: it does not fail */
    bool chosen, failed;
} nics[NICS];
#define NEVER (~0ul)
static int nic_count;

/* Lost operations whose error has not been read. */
static struct {
    const struct nic *nic;
    void *context;
} lost[LOST];
static int lost_count;

void show_second_nics(struct fi_info *list, struct fi_info *(*duplicate)(const struct fi_info *))
{
    if (!asked_for("FAKE_FABRIC_NICS", "2"))
        return;
    for (struct fi_info *one = list; one; one = one->next->next) {
        struct fi_info single = *one, *second;
        char name[80];
        single.next = NULL;
        second = duplicate(&single);
        snprintf(name, sizeof name, "%.60s" SECOND, one->domain_attr->name);
        free(second->domain_attr->name);
        second->domain_attr->name = strdup(name);
        second->next = one->next;
        one->next = second;
    }
}

void hide_second_nic(struct fi_info *info)
{
    char *name = info->domain_attr ? info->domain_attr->name : NULL;
    size_t length = name ? strlen(name) : 0, more = strlen(SECOND);
    if (length > more && strcmp(name + length - more, SECOND) == 0)
        name[length - more] = '\0';
}

static struct nic *nic_of(const struct fid *domain)
{
    for (int i = nic_count - 1; i >= 0; i--)
        if (nics[i].domain == domain)
            return &nics[i];
    broken("a domain that nobody has opened");
}

void note_nic(const struct fid *domain, const char *name)
{
    if (nic_count == NICS)
        broken("more than %d domains", NICS);
    nics[nic_count].domain = domain;
    snprintf(nics[nic_count++].name, sizeof nics[0].name, "%s", name);
}

void tell_of_nic(const struct fid *domain)
{
    const struct nic *nic = nic_of(domain);
    if (asked_for("FAKE_FABRIC_NICS", NULL))
        fprintf(stderr, "fakefabric: %s has carried %lu remote accesses\n", nic->name,
                nic->accesses);
}

/* From the launcher: the library has removed the variable from its environment. */
static int own_pe(void)
{
    static int pe = -2;
    char text[8192], *at = text, *end = text;
    FILE *file = pe == -2 ? fopen("/proc/self/environ", "r") : NULL;
    if (!file)
        return pe;
    end += fread(text, 1, sizeof text - 1, file);
    fclose(file);
    *end = '\0';
    pe = -1;
    for (; at < end && pe < 0; at += strlen(at) + 1)
        sscanf(at, "WEFT_PE=%d", &pe);
    return pe;
}

static unsigned long by_chance(const struct nic *nic, unsigned long least, unsigned long most)
{
    unsigned long chance = 0;
    if (most <= least)
        return least;
    if (getrandom(&chance, sizeof chance, 0) != sizeof chance)
        broken("no random number");
    chance = least + chance % (most - least + 1);
    fprintf(stderr, "fakefabric: %s of PE %d fails at its remote access %lu\n", nic->name, own_pe(),
            chance);
    return chance;
}

static unsigned long failing_access(const struct nic *nic)
{
    const char *text = getenv("FAKE_FABRIC_LOSE");
    for (; text; text = strchr(text, ','), text += text != NULL) {
        char name[64];
        unsigned long least, most;
        int which = -1;
        if (sscanf(text, "%63[^:]:%lu-%lu:%d", name, &least, &most, &which) != 4) {
            if (sscanf(text, "%63[^:]:%lu:%d", name, &least, &which) != 3)
                broken("FAKE_FABRIC_LOSE=%s", text);
            most = least;
        }
        if (own_pe() == which && strcmp(nic->name, name) == 0)
            return by_chance(nic, least, most);
    }
    return NEVER;
}

/* bytes: size of the operation; 0 for a message. */
static bool fails(struct nic *nic, size_t bytes)
{
    if (!nic->chosen)
        nic->fails_at = failing_access(nic);
    nic->chosen = true;
    nic->failed |= nic->accesses >= nic->fails_at && !asked_for("FAKE_FABRIC_DEAF", "1") &&
                   (bytes > CONFIRMING || !asked_for("FAKE_FABRIC_LOSE_DATA", "1"));
    return nic->failed;
}

bool nic_takes_no_gpu_memory(const struct fid *domain)
{
    const char *name = getenv("FAKE_FABRIC_NO_GPU");
    return name && strcmp(name, nic_of(domain)->name) == 0;
}

void nic_carries(const struct fid *domain)
{
    nic_of(domain)->accesses++;
}

static void lose(const struct nic *nic, void *context)
{
    if (lost_count == LOST)
        broken("more than %d posts are lost", LOST);
    lost[lost_count].nic = nic;
    lost[lost_count++].context = context;
}

bool nic_loses(const struct fid *domain, void *context, size_t bytes)
{
    struct nic *nic = nic_of(domain);
    if (!fails(nic, bytes))
        return false;
    lose(nic, context);
    return true;
}

bool nic_is_deaf(const struct fid *domain)
{
    enum { LATEST = 80 };
    struct nic *nic = nic_of(domain);
    if (!asked_for("FAKE_FABRIC_DEAF", "1"))
        return false;
    if (fails(nic, 0) || nic->accesses < nic->fails_at)
        return nic->failed;
    /* If no partial read is seen for long, it fails anyway. */
    void *last = take_last_read(domain, nic->accesses >= nic->fails_at + LATEST);
    nic->failed = last;
    if (last)
        lose(nic, last);
    return nic->failed;
}

bool nic_has_lost(const struct fid *domain)
{
    for (int i = 0; i < lost_count; i++)
        if (lost[i].nic->domain == domain)
            return true;
    return false;
}

void *nic_next_lost(const struct fid *domain)
{
    for (int i = 0; i < lost_count; i++) {
        void *context = lost[i].context;
        if (lost[i].nic->domain != domain)
            continue;
        memmove(&lost[i], &lost[i + 1], (size_t)(--lost_count - i) * sizeof lost[0]);
        return context;
    }
    return NULL;
}
