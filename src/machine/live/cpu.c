/* SPDX-License-Identifier: Apache-2.0 */
/* CPU packages and NUMA nodes, through hwloc. pci.c reads PCI devices: hwloc's discovery is
 * slower and does not keep ACS and P2P clique ids. */
#include "machine/live/live.h"

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
    char *cpus = NULL;
    number_set(&n->index, node->os_index);
    hwloc_obj_t package = package_of(topology, node);
    if (package)
        number_set(&n->package, package->logical_index);
    else
        number_unknown(machine, &n->package, "the node has no CPU");
    if (hwloc_bitmap_list_asprintf(&cpus, node->cpuset) >= 0)
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

void live_cpu(struct machine *machine, const struct machine_source *source)
{
    hwloc_topology_t topology;
    if (*source->root)
        setenv("HWLOC_FSROOT", source->root, 1);
    if (hwloc_topology_init(&topology) != 0)
        return;
    if (*source->root) /* CPUID of this machine does not describe the machine of another root */
        hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_icache_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
    if (hwloc_topology_load(topology) == 0) {
        read_cpu_identity(machine, topology);
        read_packages(machine, topology);
        for (hwloc_obj_t node = NULL;
             (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node));)
            read_node(machine, source, topology, node);
    }
    hwloc_topology_destroy(topology);
    if (*source->root)
        unsetenv("HWLOC_FSROOT");
}
