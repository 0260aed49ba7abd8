/* SPDX-License-Identifier: Apache-2.0 */
/* CPU packages and NUMA nodes, through hwloc. pci.c reads PCI devices: hwloc's discovery is
 * slower and does not keep ACS and P2P clique ids. The name of an Arm CPU is not in /proc/cpuinfo,
 * which has the fields of its main id register (MIDR) instead. */
#include "machine/live/live.h"

#include "machine/facts.h"

#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_packages(struct machine *machine, hwloc_topology_t topology)
{
    for (hwloc_obj_t package = NULL;
         (package = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PACKAGE, package));) {
        struct machine_package *p = machine_add_package(machine);
        number_set(&p->index, package->logical_index);
        number_set(&p->cores, hwloc_get_nbobjs_inside_cpuset_by_type(topology, package->cpuset,
                                                                     HWLOC_OBJ_CORE));
        number_set(&p->threads,
                   hwloc_get_nbobjs_inside_cpuset_by_type(topology, package->cpuset, HWLOC_OBJ_PU));
    }
}

static hwloc_obj_t package_of(hwloc_topology_t topology, hwloc_obj_t node)
{
    for (hwloc_obj_t package = NULL;
         (package = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PACKAGE, package));)
        if (hwloc_bitmap_intersects(package->cpuset, node->cpuset))
            return package;
    return NULL;
}

static void read_node(struct machine *machine, const struct machine_source *source,
                      hwloc_topology_t topology, hwloc_obj_t node)
{
    struct machine_numa *n = machine_add_numa(machine);
    char *cpus = NULL, line[64];
    struct live_path list =
        live_path(source, "sys/devices/system/node/node%u/cpulist", node->os_index);
    number_set(&n->index, node->os_index);
    hwloc_obj_t package = package_of(topology, node);
    if (package)
        number_set(&n->package, package->logical_index);
    else
        number_unknown(machine, &n->package, "the node has no CPU");
    /* hwloc gives a node without CPUs those that are near */
    if (live_line(list.text, line, sizeof line) && !*line)
        text_set(machine, &n->cpus, "");
    else if (hwloc_bitmap_list_asprintf(&cpus, node->cpuset) >= 0)
        text_set(machine, &n->cpus, cpus);
    free(cpus);
    number_set(&n->memory_bytes, (int64_t)node->attr->numanode.local_memory);
    live_text(machine, &n->distances,
              live_path(source, "sys/devices/system/node/node%u/distance", node->os_index).text);
}

static void read_cpu_identity(struct machine *machine, hwloc_topology_t topology)
{
    struct machine_system *s = &machine->system;
    hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
    hwloc_obj_t root = hwloc_get_root_obj(topology);
    for (int i = 0; i < 2; i++) {
        hwloc_obj_t from = i ? package : root;
        const char *value;
        if (!from)
            continue;
        if ((value = hwloc_obj_get_info_by_name(from, "CPUVendor")))
            text_set(machine, &s->cpu_vendor, value);
        if ((value = hwloc_obj_get_info_by_name(from, "CPUModel")))
            text_set(machine, &s->cpu_model, value);
        if ((value = hwloc_obj_get_info_by_name(from, "CPUFamilyNumber")))
            number_set(&s->cpu_family, strtol(value, NULL, 10));
        if ((value = hwloc_obj_get_info_by_name(from, "CPUModelNumber")))
            number_set(&s->cpu_model_number, strtol(value, NULL, 10));
    }
}

/* --- 64-bit Arm ------------------------------------------------------------------------------- */

/* Value of the first line "name : value" of /proc/cpuinfo; -1 without one. */
static long cpuinfo_number(const char *cpuinfo, const char *name)
{
    const char *line = strstr(cpuinfo, name);
    const char *colon = line ? strchr(line, ':') : NULL;
    return colon ? strtol(colon + 1, NULL, 0) : -1;
}

static void read_arm_identity(struct machine *machine, const struct machine_source *source)
{
    char cpuinfo[4096] = "", chip[64] = "";
    long n = live_bytes(live_path(source, "proc/cpuinfo").text, cpuinfo, sizeof cpuinfo - 1);
    cpuinfo[n > 0 ? n : 0] = '\0';
    long implementer = cpuinfo_number(cpuinfo, "CPU implementer");
    if (implementer < 0)
        return;
    live_line(live_path(source, "sys/devices/soc0/soc_id").text, chip, sizeof chip);
    fact_name_arm(machine, implementer, cpuinfo_number(cpuinfo, "CPU part"), chip);
}

void live_cpu(struct machine *machine, const struct machine_source *source)
{
    hwloc_topology_t topology;
    if (*source->root)
        setenv("HWLOC_FSROOT", source->root, 1);
    setenv("HWLOC_KEEP_NVIDIA_GPU_NUMA_NODES", "1", 0); /* it drops them by default up to 2.10 */
    if (hwloc_topology_init(&topology) != 0)
        return;
    if (*source->root) /* CPUID of this machine does not describe the machine of another root */
        hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_icache_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
    if (hwloc_topology_load(topology) == 0) {
        read_cpu_identity(machine, topology);
        read_arm_identity(machine, source);
        read_packages(machine, topology);
        for (hwloc_obj_t node = NULL;
             (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node));)
            read_node(machine, source, topology, node);
    }
    hwloc_topology_destroy(topology);
    if (*source->root)
        unsetenv("HWLOC_FSROOT");
}
