/* SPDX-License-Identifier: Apache-2.0 */
/* The distances of a description of several hosts, in place of a matrix of all devices: the matrix
 * of one host of each kind, and which hosts links connect. */
#include "topo/topo.h"

#include <inttypes.h>
#include <string.h>

#include "columns.h"

enum { HOSTS_MOST = 256 };

struct hosts {
    const struct topo *topo;
    int of[TOPO_MOST];     /* host of each device */
    int n;                 /* number of hosts */
    int kind[HOSTS_MOST];  /* the first host with the same devices and distances */
    int group[HOSTS_MOST]; /* the first host to which links of its GPUs lead */
};

/* False when all devices are of one host, or the hosts are too many. */
static bool find_hosts(const struct topo *topo, struct hosts *hosts)
{
    *hosts = (struct hosts){.topo = topo};
    for (int i = 0; i < topo->n; i++) {
        const struct machine_pci *pci = topo->ends[i].pci;
        int64_t host = pci ? number_or(pci->host, 0) : 0;
        if (host >= HOSTS_MOST)
            return false;
        hosts->of[i] = (int)host;
        hosts->n = (int)host >= hosts->n ? (int)host + 1 : hosts->n;
    }
    return hosts->n > 1;
}

static void take_host(const struct hosts *hosts, int host, struct topo *one)
{
    const struct topo *all = hosts->topo;
    one->machine = all->machine;
    one->n = one->gpus = one->nics = 0;
    for (int i = 0; i < all->n; i++) {
        if (hosts->of[i] != host)
            continue;
        one->ends[one->n++] = all->ends[i];
        one->gpus += i < all->gpus;
        one->nics += i >= all->gpus && i < all->gpus + all->nics;
    }
}

static bool are_alike(const struct topo *a, const struct topo *b)
{
    if (a->n != b->n || a->gpus != b->gpus || a->nics != b->nics)
        return false;
    for (int i = 0; i < a->n; i++)
        for (int k = i + 1; k < a->n; k++) {
            char x[32], y[32];
            topo_label(a, i, k, x, sizeof x);
            topo_label(b, i, k, y, sizeof y);
            if (strcmp(x, y) != 0)
                return false;
        }
    return true;
}

static void find_host_kinds(struct hosts *hosts)
{
    static struct topo one, other;
    for (int h = 0; h < hosts->n; h++) {
        hosts->kind[h] = h;
        take_host(hosts, h, &one);
        for (int k = 0; k < h && hosts->kind[h] == h; k++) {
            if (hosts->kind[k] != k)
                continue;
            take_host(hosts, k, &other);
            if (are_alike(&one, &other))
                hosts->kind[h] = k;
        }
    }
}

/* Groups the hosts by links between their GPUs. Sets the label of these pairs, "" without any; adds
 * " and others" where it varies. */
static void find_host_groups(struct hosts *hosts, char *label, size_t size)
{
    const struct topo *topo = hosts->topo;
    char here[32];
    label[0] = '\0';
    for (int h = 0; h < hosts->n; h++)
        hosts->group[h] = h;
    for (int a = 0; a < topo->gpus; a++)
        for (int b = a + 1; b < topo->gpus; b++) {
            int x = hosts->of[a], y = hosts->of[b];
            if (x == y)
                continue;
            topo_label(topo, a, b, here, sizeof here);
            if (strcmp(here, level_name(LEVEL_NET)) == 0)
                continue;
            if (!*label)
                snprintf(label, size, "%s", here);
            else if (!strchr(label, ' ') && strcmp(label, here) != 0)
                snprintf(label + strlen(label), size - strlen(label), " and others");
            int low = x < y ? x : y, high = x < y ? y : x;
            if (hosts->group[low] < hosts->group[high])
                hosts->group[high] = hosts->group[low];
        }
}

/* Writes the hosts whose entry of `of` is `value` as ranges: "0-17,20". Returns their number. */
static int host_ranges(const struct hosts *hosts, const int *of, int value, char *text, size_t size)
{
    int n = 0;
    size_t used = 0;
    text[0] = '\0';
    for (int h = 0; h < hosts->n; h++) {
        int first = h;
        if (of[h] != value)
            continue;
        while (h + 1 < hosts->n && of[h + 1] == value)
            h++;
        n += h - first + 1;
        if (used + 16 < size)
            used += (size_t)snprintf(text + used, size - used, "%s%d", used ? "," : "", first);
        if (h > first && used + 16 < size)
            used += (size_t)snprintf(text + used, size - used, "-%d", h);
    }
    return n;
}

static void add_count(int n, const char *name, char *text, size_t size)
{
    size_t used = strlen(text);
    if (n)
        snprintf(text + used, size - used, "%s%d %s%s", used ? ", " : "", n, name,
                 n == 1 ? "" : "s");
}

static void print_host_kind(const struct hosts *hosts, int kind, FILE *to)
{
    static struct topo one;
    char ranges[200], devices[100] = "";
    int n = host_ranges(hosts, hosts->kind, kind, ranges, sizeof ranges);
    take_host(hosts, kind, &one);
    add_count(one.gpus, "GPU", devices, sizeof devices);
    add_count(one.nics, "NIC", devices, sizeof devices);
    add_count(one.n - one.gpus - one.nics, "disk", devices, sizeof devices);
    if (n == 1)
        columns_print(to, 4, "host %s: %s", ranges, devices);
    else if (n == hosts->n)
        columns_print(to, 4, "%d equal hosts, each with %s:", n, devices);
    else
        columns_print(to, 4, "hosts %s, each with %s:", ranges, devices);
    topo_matrix(&one, to);
}

static void print_host_groups(const struct hosts *hosts, const char *label, FILE *to)
{
    char text[600] = "", ranges[200];
    int groups = 0;
    for (int h = 0; h < hosts->n; h++) {
        if (hosts->group[h] != h || host_ranges(hosts, hosts->group, h, ranges, sizeof ranges) < 2)
            continue;
        size_t used = strlen(text);
        if (groups++ < 8)
            snprintf(text + used, sizeof text - used, "%s%.60s", used ? " and within " : "",
                     ranges);
    }
    if (!*label)
        columns_print(to, 4, "between hosts: NET");
    else if (groups == 1 && host_ranges(hosts, hosts->group, 0, ranges, sizeof ranges) == hosts->n)
        columns_print(to, 4, "between GPUs of different hosts: %s; else NET", label);
    else
        columns_print(to, 4, "between GPUs of different hosts: %s within hosts %s%s; else NET",
                      label, text, groups > 8 ? " and so on" : "");
}

bool topo_host_distances(const struct topo *topo, FILE *to)
{
    static struct hosts hosts;
    char label[64];
    if (!find_hosts(topo, &hosts))
        return false;
    find_host_kinds(&hosts);
    find_host_groups(&hosts, label, sizeof label);
    for (int h = 0; h < hosts.n; h++)
        if (hosts.kind[h] == h)
            print_host_kind(&hosts, h, to);
    print_host_groups(&hosts, label, to);
    return true;
}
