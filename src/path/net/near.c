/* SPDX-License-Identifier: Apache-2.0 */
/* Distances from sysfs. See near.h. */
#include "path/net/near.h"

#include "base/cpus.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { PATH_BYTES = 512, GPUS_MOST = 64, PCI_ADDRESS_BYTES = 16, NUMAS_MOST = 64 };

const char *net_distance_name(enum net_distance distance)
{
    static const char *const names[] = {"PIX", "PXB", "PHB", "NODE", "SYS", "?"};
    return names[distance];
}

/* -------------------------------------------------------------------------------- pure distance */

static int count_links(const char *chain)
{
    int n = 0;
    for (; *chain; chain++)
        n += *chain == '/';
    return n;
}

/* Length of the common start of both chains, in whole links. */
static size_t common_prefix(const char *a, const char *b)
{
    size_t end = 0, i = 0;
    for (; a[i] && a[i] == b[i]; i++)
        if (a[i] == '/')
            end = i;
    if ((!a[i] || a[i] == '/') && (!b[i] || b[i] == '/'))
        end = i;
    return end;
}

/* A PCIe switch is an upstream port with downstream ports, so it is two links above a device below
 * it. */
static enum net_distance compare_chains(const struct net_device_location *a,
                                        const struct net_device_location *b)
{
    enum { BELOW_ONE_SWITCH = 2 };
    size_t common = common_prefix(a->chain, b->chain);
    if (common && memchr(a->chain, '/', common)) {
        int below_a = count_links(a->chain + common), below_b = count_links(b->chain + common);
        return below_a <= BELOW_ONE_SWITCH && below_b <= BELOW_ONE_SWITCH ? NET_DISTANCE_PIX
                                                                          : NET_DISTANCE_PXB;
    }
    if (common)
        return NET_DISTANCE_PHB;
    if (a->numa < 0 || b->numa < 0)
        return NET_DISTANCE_UNKNOWN;
    return a->numa == b->numa ? NET_DISTANCE_NODE : NET_DISTANCE_SYS;
}

enum net_distance net_find_distance(const struct net_pe_location *location,
                                    const struct net_device_location *nic)
{
    if (location->gpu)
        return compare_chains(&location->device, nic);
    if (nic->numa < 0 || nic->numa >= NUMAS_MOST || !location->numas)
        return NET_DISTANCE_UNKNOWN;
    return location->numas >> nic->numa & 1 ? NET_DISTANCE_NODE : NET_DISTANCE_SYS;
}

/* ---------------------------------------------------------------------------------------- sysfs */

/* Reads the first line of a file, without its newline. */
static bool read_line(char *line, size_t bytes, const char *root, const char *folder,
                      const char *name, const char *file)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s%s/%s/%s", root, folder, name, file);
    FILE *stream = fopen(path, "re");
    bool read = stream && fgets(line, (int)bytes, stream);
    if (stream)
        fclose(stream);
    if (read)
        line[strcspn(line, "\n")] = '\0';
    return read;
}

static bool read_value(long *index, const char *root, const char *folder, const char *name,
                       const char *file)
{
    char line[32];
    if (!read_line(line, sizeof line, root, folder, name, file))
        return false;
    *index = strtol(line, NULL, 10);
    return true;
}

static bool is_address(const char *part, size_t length)
{
    unsigned domain, bus, device, function;
    char text[PCI_ADDRESS_BYTES];
    snprintf(text, sizeof text, "%.*s", (int)length, part);
    return sscanf(text, "%x:%x:%x.%x", &domain, &bus, &device, &function) == 4;
}

/* The part of a real path from its PCI root to its last PCI device: ".../0000:01:00.0/virtio3" ends
 * before "virtio3". *address is that device. NULL if the path has none. */
static const char *find_chain(const char *real, size_t *length, const char **address)
{
    const char *root = strstr(real, "/pci"), *part = NULL;
    for (const char *next; (next = strstr(root ? root + 1 : "", "/pci")) != NULL;)
        root = next;
    *address = NULL;
    for (part = root ? root + 1 : ""; *part; part += strspn(part, "/")) {
        size_t bytes = strcspn(part, "/");
        if (is_address(part, bytes)) {
            *address = part;
            *length = (size_t)(part + bytes - (root + 1));
        } else if (*address) {
            break;
        }
        part += bytes;
    }
    return *address ? root + 1 : NULL;
}

static bool locate_device(const char *root, const char *folder, const char *name,
                          const char *device, struct net_device_location *location)
{
    char path[PATH_BYTES], address_text[PCI_ADDRESS_BYTES];
    const char *address, *chain;
    size_t length;
    long numa;
    snprintf(path, sizeof path, "%s%s/%s%s", root, folder, name, device);
    char *real = realpath(path, NULL);
    *location = (struct net_device_location){.numa = -1};
    chain = real ? find_chain(real, &length, &address) : NULL;
    if (chain) {
        snprintf(location->chain, sizeof location->chain, "%.*s", (int)length, chain);
        snprintf(address_text, sizeof address_text, "%.*s", (int)strcspn(address, "/"), address);
        if (read_value(&numa, root, "/sys/bus/pci/devices", address_text, "numa_node") && numa >= 0)
            location->numa = (int)numa;
    }
    free(real);
    return chain != NULL;
}

bool net_locate_pci(const char *root, const char *address, struct net_device_location *location)
{
    return locate_device(root, "/sys/bus/pci/devices", address, "", location);
}

bool net_locate_interface(const char *root, const char *name, struct net_device_location *location)
{
    return !strchr(name, '/') &&
           (locate_device(root, "/sys/class/net", name, "/device", location) ||
            locate_device(root, "/sys/class/infiniband", name, "/device", location));
}

uint64_t net_get_speed(const char *root, const char *name)
{
    long speed;
    return read_value(&speed, root, "/sys/class/net", name, "speed") && speed > 0 ? (uint64_t)speed
                                                                                  : 0;
}

bool net_is_down(const char *root, const char *name)
{
    char state[32];
    return read_line(state, sizeof state, root, "/sys/class/net", name, "operstate") &&
           (strcmp(state, "down") == 0 || strcmp(state, "lowerlayerdown") == 0);
}

/* ----------------------------------------------------------------------------------------- GPUs */

static int compare_addresses(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Whether this process may open the GPU: a container has the device files of its own GPUs only. */
static bool can_open_gpu(const char *root, const char *address)
{
    char path[PATH_BYTES], line[128];
    unsigned minor;
    snprintf(path, sizeof path, "%s/proc/driver/nvidia/gpus/%s/information", root, address);
    FILE *file = fopen(path, "re");
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file))
        found = sscanf(line, "Device Minor: %u", &minor) == 1;
    if (file)
        fclose(file);
    snprintf(path, sizeof path, "%s/dev/nvidia%u", root, found ? minor : 0);
    return found && access(path, R_OK | W_OK) == 0;
}

/* Lists the GPUs in the order of their PCI addresses, which is the driver's order if all are of one
 * model. */
static int list_gpus(const char *root, char gpus[GPUS_MOST][PCI_ADDRESS_BYTES])
{
    char path[PATH_BYTES];
    int n = 0;
    snprintf(path, sizeof path, "%s/proc/driver/nvidia/gpus", root);
    DIR *folder = opendir(path);
    if (!folder)
        return 0;
    for (struct dirent *entry; n < GPUS_MOST && (entry = readdir(folder));)
        if (isxdigit((unsigned char)entry->d_name[0]) &&
            strlen(entry->d_name) < PCI_ADDRESS_BYTES && can_open_gpu(root, entry->d_name))
            strcpy(gpus[n++], entry->d_name);
    closedir(folder);
    qsort(gpus, (size_t)n, sizeof gpus[0], compare_addresses);
    return n;
}

/* Reads the PCI address of a node of AMD's kernel driver that is a GPU this process may open. The
 * file has a line "NAME NUMBER" for each property. */
static bool read_amd_gpu(FILE *file, const char *root, char *address)
{
    unsigned long simds = 0, location = 0, domain = 0, minor = 0, value;
    char path[PATH_BYTES], name[64];
    while (fscanf(file, "%63s %lu", name, &value) == 2)
        if (strcmp(name, "simd_count") == 0)
            simds = value;
        else if (strcmp(name, "location_id") == 0)
            location = value;
        else if (strcmp(name, "domain") == 0)
            domain = value;
        else if (strcmp(name, "drm_render_minor") == 0)
            minor = value;
    snprintf(path, sizeof path, "%s/dev/dri/renderD%lu", root, minor);
    snprintf(address, PCI_ADDRESS_BYTES, "%04lx:%02lx:%02lx.%lx", domain & 0xffff,
             location >> 8 & 0xff, location >> 3 & 31, location & 7);
    return simds && access(path, R_OK | W_OK) == 0;
}

/* Lists AMD's GPUs in HIP's order, that of the nodes. */
static int list_amd_gpus(const char *root, char gpus[GPUS_MOST][PCI_ADDRESS_BYTES])
{
    enum { NODES_MOST = 256 };
    char path[PATH_BYTES];
    int n = 0;
    for (int node = 0; node < NODES_MOST && n < GPUS_MOST; node++) {
        snprintf(path, sizeof path, "%s/sys/class/kfd/kfd/topology/nodes/%d/properties", root,
                 node);
        FILE *file = fopen(path, "re");
        if (!file)
            break;
        n += read_amd_gpu(file, root, gpus[n]);
        fclose(file);
    }
    return n;
}

/* Keeps the GPUs that the list names by index, in its order. 0 if the list names them otherwise. */
static int select_visible(char gpus[GPUS_MOST][PCI_ADDRESS_BYTES], int n, const char *visible)
{
    char named[GPUS_MOST][PCI_ADDRESS_BYTES];
    int count = 0;
    for (const char *at = visible; *at && count < GPUS_MOST; at += *at == ',') {
        char *end;
        long index = strtol(at, &end, 10);
        if (end == at || (*end && *end != ','))
            return 0;
        if (index < 0 || index >= n)
            break; /* The driver also ends the list here. */
        memcpy(named[count++], gpus[index], PCI_ADDRESS_BYTES);
        at = end;
    }
    memcpy(gpus, named, (size_t)count * PCI_ADDRESS_BYTES);
    return count;
}

/* Index of the GPU that the PE's word of the list names, by index or by address; -1 if none. */
static int select_gpu(char gpus[GPUS_MOST][PCI_ADDRESS_BYTES], int n, int local_pe,
                      const char *requested)
{
    int words = 1;
    for (const char *c = requested; *c; c++)
        words += *c == ',';
    for (int i = 0; i < local_pe % words; i++)
        requested += strcspn(requested, ",") + 1;
    size_t length = strcspn(requested, ",");
    if (length && length < 4 && strspn(requested, "0123456789") == length)
        return atoi(requested) < n ? atoi(requested) : -1;
    for (int i = 0; i < n && length >= 7; i++) {
        size_t have = strlen(gpus[i]);
        if (length <= have && strncasecmp(gpus[i] + have - length, requested, length) == 0)
            return i;
    }
    return -1;
}

static bool locate_gpu(const char *root, int local_pe, const char *requested, const char *visible,
                       struct net_pe_location *location)
{
    char gpus[GPUS_MOST][PCI_ADDRESS_BYTES];
    int n = list_gpus(root, gpus);
    if (!n) {
        const char *rocr = getenv("ROCR_VISIBLE_DEVICES"), *hip = getenv("HIP_VISIBLE_DEVICES");
        n = list_amd_gpus(root, gpus);
        if (rocr)
            n = select_visible(gpus, n, rocr);
        if (hip && !(visible && !*visible)) /* before CUDA_VISIBLE_DEVICES, which HIP obeys too */
            visible = hip;
    }
    if (visible)
        n = select_visible(gpus, n, visible);
    int chosen = n ? *requested ? select_gpu(gpus, n, local_pe, requested) : local_pe % n : -1;
    if (chosen < 0 || !net_locate_pci(root, gpus[chosen], &location->device))
        return false;
    location->gpu = true;
    snprintf(location->text, sizeof location->text, "GPU %s", gpus[chosen]);
    return true;
}

/* ----------------------------------------------------------------------------------------- CPUs */

static bool read_cpus(const char *root, int numa, cpu_set_t *cpus)
{
    char name[16], list[4096];
    snprintf(name, sizeof name, "node%d", numa);
    return read_line(list, sizeof list, root, "/sys/devices/system/node", name, "cpulist") &&
           cpus_parse(list, cpus);
}

bool net_cpus_at(const char *root, const struct net_device_location *location, cpu_set_t *cpus)
{
    return location->numa >= 0 && read_cpus(root, location->numa, cpus);
}

static void locate_cpus(const char *root, const cpu_set_t *cpus, struct net_pe_location *location)
{
    int count = 0, last = 0;
    for (int numa = 0; numa < NUMAS_MOST; numa++) {
        cpu_set_t here;
        if (!read_cpus(root, numa, &here))
            continue;
        CPU_AND(&here, &here, cpus);
        if (!CPU_COUNT(&here))
            continue;
        location->numas |= (uint64_t)1 << numa;
        count++;
        last = numa;
    }
    if (count == 1)
        snprintf(location->text, sizeof location->text, "the CPUs of NUMA node %d", last);
    else
        snprintf(location->text, sizeof location->text, "the CPUs of %d NUMA nodes", count);
}

void net_locate_pe(const char *root, int local_pe, const char *requested, const char *visible,
                   const cpu_set_t *cpus, struct net_pe_location *location)
{
    *location = (struct net_pe_location){0};
    if (!locate_gpu(root, local_pe, requested, visible, location))
        locate_cpus(root, cpus, location);
}
