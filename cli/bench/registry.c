/* SPDX-License-Identifier: Apache-2.0 */
/* The table of benchmarks: one row per (bench, scope, target). Only this table decides which
 * benchmarks exist. */
#include "bench/bench.h"
#include "tool/tool.h"

#include <string.h>

const char *const bench_memory_names[MEMORY_COUNT] = {
#define NAME(id, text) text,
    BENCH_MEMORY_LIST(NAME)};
const char *const bench_scope_names[SCOPE_COUNT] = {BENCH_SCOPE_LIST(NAME)};
const char *const bench_target_names[TARGET_COUNT] = {BENCH_TARGET_LIST(NAME)
#undef NAME
};

#define EITHER            (1u << MEMORY_HOST | 1u << MEMORY_GPU)
#define ON_HOST           .scope = SCOPE_HOST, .target = TARGET_HOST, .memories = EITHER
#define ON_HOST_OF_GPU    .scope = SCOPE_HOST, .target = TARGET_HOST, .memories = 1u << MEMORY_GPU
#define FUNCTIONS(prefix) .run = prefix##_run, .check = prefix##_check

/* Rows of device scopes on one target. */
#define DEVICE_ROW(id, scope_id, target_id, kinds, label, about, ...)                              \
    {.name = label,                                                                                \
     .text = about,                                                                                \
     .scope = SCOPE_##scope_id,                                                                    \
     .target = TARGET_##target_id,                                                                 \
     .memories = kinds,                                                                            \
     .floor = FLOOR_NONE,                                                                          \
     FUNCTIONS(id),                                                                                \
     __VA_ARGS__},
#define DEVICE_SCOPE_ROWS(scope, target, kinds)                                                    \
    DEVICE_ROW(device_put, scope, target, kinds, "put",                                            \
               "put_nbi by each unit of the grid, then one quiet", .sized = true, GRIDDED,         \
               .buffer_bytes = device_put_buffer_bytes)                                            \
    DEVICE_ROW(device_get, scope, target, kinds, "get",                                            \
               "get_nbi by each unit of the grid, then one quiet", .sized = true, GRIDDED,         \
               .buffer_bytes = device_get_buffer_bytes)                                            \
    DEVICE_ROW(device_latency_signal, scope, target, kinds, "latency_signal",                      \
               "ping-pong of put_signal and signal_wait, half a round trip", .family = "latency",  \
               .sized = true)                                                                      \
    DEVICE_ROW(device_latency_packet, scope, target, kinds, "latency_packet",                      \
               "ping-pong of put_packet and take_packet, half a round trip", .family = "latency",  \
               .sized = true, .largest = 64 << 10, .buffer_bytes = device_packet_buffer_bytes)     \
    DEVICE_ROW(device_barrier, scope, target, kinds, "barrier",                                    \
               "barrier over all PEs, back to back, by one unit of the scope", .shape = SHAPE_ALL) \
    DEVICE_ROW(device_sync, scope, target, kinds, "sync",                                          \
               "sync over all PEs, back to back, by one unit of the scope", .shape = SHAPE_ALL)
#define DEVICE_ROWS(target, kinds)                                                                 \
    DEVICE_SCOPE_ROWS(THREAD, target, kinds)                                                       \
    DEVICE_SCOPE_ROWS(WARP, target, kinds)                                                         \
    DEVICE_SCOPE_ROWS(BLOCK, target, kinds)                                                        \
    DEVICE_ROW(device_p, THREAD, target, kinds, "p",                                               \
               "single 8-byte values by each thread of the grid, then one quiet", .bytes = 8,      \
               GRIDDED, .buffer_bytes = device_words_buffer_bytes)                                 \
    DEVICE_ROW(device_p_scattered, THREAD, target, kinds, "p_scattered",                           \
               "the same, neighbouring lanes 128 bytes apart: accesses are not coalesced",         \
               .bytes = 8, GRIDDED, .buffer_bytes = device_words_buffer_bytes)                     \
    DEVICE_ROW(device_g, THREAD, target, kinds, "g",                                               \
               "single 8-byte values read by each thread of the grid", .bytes = 8, GRIDDED,        \
               .buffer_bytes = device_words_buffer_bytes)                                          \
    DEVICE_ROW(device_fetch_add, THREAD, target, kinds, "atomic_fetch_add",                        \
               "64-bit atomics of one thread, each made from the last result", .family = "atomic", \
               .bytes = 8)                                                                         \
    DEVICE_ROW(device_add, THREAD, target, kinds, "atomic_add",                                    \
               "64-bit atomics by each thread of the grid, on neighbouring words",                 \
               .family = "atomic", .bytes = 8, GRIDDED, .buffer_bytes = device_words_buffer_bytes) \
    DEVICE_ROW(device_latency, THREAD, target, kinds, "latency",                                   \
               "ping-pong of p and wait_until, half a round trip", .family = "latency",            \
               .bytes = 8)                                                                         \
    DEVICE_ROW(device_alltoall, BLOCK, target, kinds, "alltoall",                                  \
               "alltoall over all PEs by one block; bytes per pair", .shape = SHAPE_ALL,           \
               .sized = true, .src_per_pe = true, .dst_per_pe = true, .largest = 64 << 10)         \
    DEVICE_ROW(device_jacobi_values, BLOCK, target, kinds, "jacobi_values",                        \
               "a step of a solver over all PEs that puts each halo cell by p", JACOBI_ROW)        \
    DEVICE_ROW(device_jacobi_rows, BLOCK, target, kinds, "jacobi_rows",                            \
               "a step of a solver over all PEs that sends halo rows by put_signal", JACOBI_ROW)   \
    DEVICE_ROW(device_proxy_empty, THREAD, target, kinds, "proxy_empty",                           \
               "empty requests to the proxy by each thread of the grid, then one quiet",           \
               PROXY_ROW, GRIDDED)                                                                 \
    DEVICE_ROW(device_proxy_p, THREAD, target, kinds, "proxy_p",                                   \
               "neighbouring 8-byte values through the proxy, by each thread, then one quiet",     \
               PROXY_ROW, GRIDDED)                                                                 \
    DEVICE_ROW(device_proxy_trip, THREAD, target, kinds, "proxy_trip",                             \
               "an empty request to the proxy and the wait for it, by one thread", PROXY_ROW)      \
    DEVICE_ROW(device_proxy_put, THREAD, target, kinds, "proxy_put",                               \
               "puts of 8 bytes through the proxy, each waited for, by one thread", PROXY_ROW)     \
    DEVICE_ROW(device_proxy_put_signal, THREAD, target, kinds, "proxy_put_signal",                 \
               "put_signal of 8 bytes through the proxy, each waited for, by one thread",          \
               PROXY_ROW)                                                                          \
    DEVICE_ROW(device_proxy_g, THREAD, target, kinds, "proxy_g",                                   \
               "8-byte values read through the proxy by one thread", PROXY_ROW)                    \
    DEVICE_ROW(device_put_quiet, THREAD, target, kinds, "put_quiet",                               \
               "put of 8 bytes and quiet, by one thread", .bytes = 8, .apart = true)               \
    DEVICE_ROW(stream_put, STREAM, target, kinds, "put", "put_on_stream back to back",             \
               .sized = true)                                                                      \
    DEVICE_ROW(stream_get, STREAM, target, kinds, "get", "get_on_stream back to back",             \
               .sized = true)                                                                      \
    DEVICE_ROW(stream_barrier, STREAM, target, kinds, "barrier",                                   \
               "barrier_on_stream over all PEs, back to back", .shape = SHAPE_ALL)

#define GRIDDED    .gridded = true, .by_units = true
#define JACOBI_ROW .family = "jacobi", .apart = true, .shape = SHAPE_ALL
#define PROXY_ROW                                                                                  \
    .family = "proxy", .bytes = 8, .apart = true, .buffer_bytes = device_proxied_buffer_bytes

const struct bench_entry bench_entries[] = {
    {.name = "put",
     .text = "put back to back, then one quiet",
     ON_HOST,
     .shape = SHAPE_PAIR,
     .floor = FLOOR_MEMCPY,
     .sized = true,
     FUNCTIONS(host_put)},
    {.name = "get",
     .text = "get back to back",
     ON_HOST,
     .shape = SHAPE_PAIR,
     .floor = FLOOR_MEMCPY,
     .sized = true,
     FUNCTIONS(host_get)},
    {.name = "p",
     .text = "single 8-byte values written back to back, then one quiet",
     ON_HOST,
     .shape = SHAPE_PAIR,
     .bytes = 8,
     .floor = FLOOR_STORE,
     FUNCTIONS(host_p)},
    {.name = "g",
     .text = "single 8-byte values read back to back",
     ON_HOST,
     .shape = SHAPE_PAIR,
     .bytes = 8,
     .floor = FLOOR_LOAD,
     FUNCTIONS(host_g)},
#define MAP_ROW                                                                                    \
    .family = "map", ON_HOST_OF_GPU, .apart = true, .shape = SHAPE_PAIR, .floor = FLOOR_NONE
    {.name = "map_put",
     .text = "put from plain host memory to the peer's GPU memory, back to back, then one quiet",
     MAP_ROW,
     .sized = true,
     FUNCTIONS(map_put)},
    {.name = "map_get",
     .text = "get from the peer's GPU memory to plain host memory, back to back",
     MAP_ROW,
     .sized = true,
     FUNCTIONS(map_get)},
    {.name = "map_copy_to",
     .text = "weft_copy_to() from plain host memory to own GPU memory, back to back",
     MAP_ROW,
     .sized = true,
     FUNCTIONS(map_copy_to)},
    {.name = "map_copy_to_single",
     .text = "a single copy, 2 us after the previous one, without the time of the clock",
     MAP_ROW,
     .sized = true,
     FUNCTIONS(map_copy_to_single)},
    {.name = "map_copy_to_flush",
     .text = "the same, each with weft_copy_flush()",
     MAP_ROW,
     .sized = true,
     FUNCTIONS(map_copy_to_flush)},
    {.name = "map_copy_to_pinned",
     .text = "weft_copy_to() from pinned host memory",
     MAP_ROW,
     .sized = true,
     FUNCTIONS(map_copy_to_pinned)},
    {.name = "map_copy_from",
     .text = "weft_copy_from() from own GPU memory to plain host memory",
     MAP_ROW,
     .sized = true,
     FUNCTIONS(map_copy_from)},
    {.name = "map_copy_from_pinned",
     .text = "weft_copy_from() to pinned host memory",
     MAP_ROW,
     .sized = true,
     FUNCTIONS(map_copy_from_pinned)},
    {.name = "map_driver_to",
     .text = "cuMemcpyHtoD from plain host memory",
     MAP_ROW,
     .sized = true,
     FUNCTIONS(map_driver_to)},
    {.name = "map_driver_to_pinned",
     .text = "cuMemcpyHtoD from pinned host memory",
     MAP_ROW,
     .sized = true,
     FUNCTIONS(map_driver_to_pinned)},
    {.name = "map_driver_from",
     .text = "cuMemcpyDtoH to plain host memory",
     MAP_ROW,
     .sized = true,
     FUNCTIONS(map_driver_from)},
    {.name = "map_driver_from_pinned",
     .text = "cuMemcpyDtoH to pinned host memory",
     MAP_ROW,
     .sized = true,
     FUNCTIONS(map_driver_from_pinned)},
    {.name = "map_flag",
     .text = "a flag to a kernel through the mapping, its answer in pinned memory: round trip",
     MAP_ROW,
     .bytes = 8,
     FUNCTIONS(map_flag)},
    {.name = "map_window",
     .text = "map and unmap 64 MiB of own memory, back to back",
     MAP_ROW,
     .bytes = 64 << 20,
     FUNCTIONS(map_window)},
    {.name = "map_window_first",
     .text = "the same, the first time: nothing cached from an earlier mapping",
     MAP_ROW,
     .bytes = 64 << 20,
     FUNCTIONS(map_window_first)},
    {.name = "map_window_first_plain",
     .text = "the first time for memory of cudaMalloc()",
     MAP_ROW,
     .bytes = 64 << 20,
     FUNCTIONS(map_window_first_plain)},
#define ATOMIC_ROW(op, least)                                                                      \
    {.name = "atomic_" #op,                                                                        \
     .family = "atomic",                                                                           \
     .text = "64-bit atomics back to back on one "                                                 \
             "variable, then one quiet",                                                           \
     ON_HOST,                                                                                      \
     .shape = SHAPE_PAIR,                                                                          \
     .bytes = 8,                                                                                   \
     .floor = least,                                                                               \
     FUNCTIONS(host_atomic_##op)},
    BENCH_ATOMIC_LIST(ATOMIC_ROW)
#undef ATOMIC_ROW
        {.name = "latency",
         .family = "latency",
         .text = "ping-pong of put and wait_until, half a "
                 "round trip",
         ON_HOST,
         .shape = SHAPE_PAIR,
         .bytes = 8,
         .floor = FLOOR_LINES,
         FUNCTIONS(host_latency)},
    {.name = "latency_signal",
     .family = "latency",
     .text = "ping-pong of put_signal and "
             "signal_wait, half a round trip",
     ON_HOST,
     .shape = SHAPE_PAIR,
     .floor = FLOOR_HEARD,
     .sized = true,
     FUNCTIONS(host_latency_signal)},
    {.name = "barrier",
     .text = "barrier over all PEs, back to back",
     ON_HOST,
     .shape = SHAPE_ALL,
     .floor = FLOOR_LINES,
     FUNCTIONS(host_barrier)},
    {.name = "sync",
     .text = "sync over all PEs, back to back",
     ON_HOST,
     .shape = SHAPE_ALL,
     .floor = FLOOR_LINES,
     FUNCTIONS(host_sync)},
    {.name = "alltoall",
     .text = "alltoall; bytes per pair",
     ON_HOST,
     .shape = SHAPE_ALL,
     .src_per_pe = true,
     .dst_per_pe = true,
     .floor = FLOOR_HEARD,
     .sized = true,
     FUNCTIONS(host_alltoall)},
    {.name = "broadcast",
     .text = "broadcast from PE 0",
     ON_HOST,
     .shape = SHAPE_ALL,
     .floor = FLOOR_HEARD,
     .sized = true,
     FUNCTIONS(host_broadcast)},
    {.name = "allgather",
     .text = "allgather; bytes from each PE",
     ON_HOST,
     .shape = SHAPE_ALL,
     .dst_per_pe = true,
     .floor = FLOOR_HEARD,
     .sized = true,
     FUNCTIONS(host_allgather)},
    {.name = "collect",
     .text = "collect; bytes from each PE",
     ON_HOST,
     .shape = SHAPE_ALL,
     .dst_per_pe = true,
     .floor = FLOOR_HEARD,
     .sized = true,
     FUNCTIONS(host_collect)},
    {.name = "allreduce",
     .text = "sum of 64-bit integers over all PEs",
     ON_HOST,
     .shape = SHAPE_ALL,
     .floor = FLOOR_HEARD,
     .sized = true,
     FUNCTIONS(host_reduce)},
    DEVICE_ROWS(SIMT, 1u << MEMORY_HOST) DEVICE_ROWS(CUDA, EITHER)};

const int bench_entry_count = sizeof bench_entries / sizeof bench_entries[0];

static bool name_equals(const char *text, const char *name, size_t length)
{
    return text && strlen(text) == length && memcmp(text, name, length) == 0;
}

static bool name_matches(const char *name, size_t length, const struct bench_entry *entry)
{
    return (name_equals("all", name, length) && !entry->apart) ||
           name_equals(entry->name, name, length) || name_equals(entry->family, name, length);
}

bool bench_name_known(const char *name, size_t length)
{
    for (int i = 0; i < bench_entry_count; i++)
        if (name_matches(name, length, &bench_entries[i]))
            return true;
    return false;
}

const char *bench_nearest(const char *name)
{
    const char *names[256];
    int n = bench_entry_count < 256 ? bench_entry_count : 256;
    for (int i = 0; i < n; i++)
        names[i] = bench_entries[i].name;
    return base_nearest(name, names, (size_t)n);
}

bool bench_names_proxy(const struct bench_options *options)
{
    for (const char *name = options->names; name && *name;) {
        size_t length = strcspn(name, ",");
        for (int i = 0; i < bench_entry_count; i++)
            if (name_equals(bench_entries[i].family, "proxy", 5) &&
                name_matches(name, length, &bench_entries[i]))
                return true;
        name += length + (name[length] == ',');
    }
    return false;
}

int bench_sizes(const struct bench_options *options, const struct bench_entry *entry,
                const size_t **sizes)
{
    static const size_t usual[] = {8, 64, 1 << 10, 8 << 10, 64 << 10, 1 << 20, 4 << 20};
    /* Largest default sizes: one thread moves about 1 GB/s, and a grid of threads needs memory
     * for each. */
    static const size_t largest[SCOPE_COUNT] = {[SCOPE_THREAD] = 8 << 10, [SCOPE_WARP] = 64 << 10};
    size_t limit = entry->largest ? entry->largest : SIZE_MAX;
    int n = 0;
    if (!entry->sized || options->n_sizes) {
        *sizes = entry->sized ? options->sizes : &entry->bytes;
        return entry->sized ? options->n_sizes : 1;
    }
    if (largest[entry->scope] && largest[entry->scope] < limit)
        limit = largest[entry->scope];
    while (n < (int)(sizeof usual / sizeof usual[0]) && usual[n] <= limit)
        n++;
    *sizes = usual;
    return n;
}

static bool fits_options(const struct bench_options *options, const struct bench_entry *entry)
{
    return entry->scope == options->scope && entry->target == options->target &&
           entry->memories & 1u << options->memory;
}

const struct bench_entry *bench_find(const char *name, const struct bench_options *options)
{
    for (int i = 0; i < bench_entry_count; i++)
        if (strcmp(bench_entries[i].name, name) == 0 && fits_options(options, &bench_entries[i]))
            return &bench_entries[i];
    return NULL;
}

bool bench_selected(const struct bench_options *options, const struct bench_entry *entry)
{
    if (!fits_options(options, entry))
        return false;
    for (const char *name = options->names; name && *name;) {
        size_t length = strcspn(name, ",");
        if (name_matches(name, length, entry))
            return true;
        name += length + (name[length] == ',');
    }
    return false;
}
