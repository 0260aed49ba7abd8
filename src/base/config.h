/* SPDX-License-Identifier: Apache-2.0 */
/* The one table of configuration variables (environment, prefix WEFT_). A value is read once, at
 * the first look-up; config_check() refuses unknown names and bad values before a job starts. */
#ifndef WEFT_BASE_CONFIG_H
#define WEFT_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft.h>

enum config_type {
    CONFIG_STRING,   /* taken as it is */
    CONFIG_INT,      /* whole number */
    CONFIG_POWER,    /* a power of two, 2 to 1M */
    CONFIG_CPUS,     /* near, any, or a list of CPUs such as 0-3,8 */
    CONFIG_SIZE,     /* bytes; suffix K, M, G, T (powers of 1024) */
    CONFIG_DURATION, /* seconds, or with suffix ms, s, m, h; 0 = no limit */
    CONFIG_BOOL,     /* 1, 0, yes, no, on, off, true, false */
    CONFIG_CHOICE,   /* one of the words a|b|c; the value is its index */
};

/* X(id, type, default, choices or NULL, one sentence). The name is "WEFT_" #id. */
#define CONFIG_VARS(X)                                                                             \
    X(LOG, CONFIG_CHOICE, "warn", "error|warn|info|debug",                                         \
      "What is logged to stderr: each level includes those before it.")                            \
    X(HEAP_SIZE, CONFIG_SIZE, "4G", NULL,                                                          \
      "Size of each PE's symmetric host heap; a reservation, a page costs memory when touched.")   \
    X(WAIT_WARN, CONFIG_DURATION, "60s", NULL,                                                     \
      "After this time a wait says once what it waits for, and what that PE does; 0 = never.")     \
    X(WAIT_LIMIT, CONFIG_DURATION, "10m", NULL,                                                    \
      "A wait fails when the PEs it depends on have done nothing for this time; 0 = for ever.")    \
    X(WAIT_SLICE, CONFIG_DURATION, "100ms", NULL,                                                  \
      "Time that a wait counts from one look to the next, at most, so that being stopped is "      \
      "none.")                                                                                     \
    X(PATH, CONFIG_STRING, "", NULL,                                                               \
      "Paths that may be used, in this order, e.g. \"p2p,staged\"; \"^p2p\" excludes one.")        \
    X(SLOW, CONFIG_STRING, "", NULL,                                                               \
      "For tests, how path slow works: order=random|given, delay=, seed=, fail=, lie=NUMBER.")     \
    X(FABRIC_PROVIDER, CONFIG_STRING, "", NULL,                                                    \
      "Provider of libfabric that path net uses, such as verbs, tcp or shm; empty: the fastest.")  \
    X(FABRIC_INTERFACE, CONFIG_STRING, "", NULL,                                                   \
      "Interfaces that path net may use, such as mlx5_0 or eth0,eth1; empty: those of all nodes.") \
    X(NET_GPU, CONFIG_CHOICE, "auto", "auto|direct|staged",                                        \
      "GPU memory over path net: in place where the NIC reaches it, also where a CPU moves it, "   \
      "never.")                                                                                    \
    X(NET_LOT, CONFIG_SIZE, "1M", NULL,                                                            \
      "Bytes of GPU memory that path net takes through pinned host memory at a time, at most.")    \
    X(NET_LOTS, CONFIG_INT, "8", NULL,                                                             \
      "How many of them are under way to one PE; each takes WEFT_NET_LOT of host memory there.")   \
    X(FABRIC_RAILS, CONFIG_INT, "0", NULL,                                                         \
      "NICs that large transfers of a PE are spread over, 1 to 8; 0 = its share of the nearest.")  \
    X(FABRIC_STRIPE, CONFIG_SIZE, "1M", NULL,                                                      \
      "Transfers from this size are spread over several NICs; 0 = never.")                         \
    X(HCA, CONFIG_STRING, "auto", NULL,                                                            \
      "Adapters of path gda: auto, soft = the software adapter, or names such as mlx5_0,mlx5_1.")  \
    X(HCA_LIB, CONFIG_STRING, "", NULL,                                                            \
      "Folder of the libibverbs and libmlx5 of path gda; empty: the system's, or what is soft.")   \
    X(GDA_ADAPTERS, CONFIG_INT, "0", NULL,                                                         \
      "Adapters that a PE uses over path gda, 1 to 8; 0 = its share of the nearest.")              \
    X(GDA_QUEUES, CONFIG_INT, "2", NULL,                                                           \
      "Queues of the adapter that device code has to each PE over path gda, 1 to 64.")             \
    X(GDA_DEPTH, CONFIG_POWER, "1024", NULL,                                                       \
      "Blocks of 64 bytes of each queue of path gda, a power of 2 from 128 to 32768.")             \
    X(GDA_INITIATOR, CONFIG_CHOICE, "auto", "auto|cpu",                                            \
      "Who gives requests of device code to path gda: it itself where it can, or the proxy's "     \
      "thread.")                                                                                   \
    X(GDA_DOORBELL, CONFIG_CHOICE, "auto", "auto|gpu|cpu",                                         \
      "Who rings doorbells of path gda for a GPU: it, else a thread; it or nobody; the thread.")   \
    X(GDA_QUEUE_MEMORY, CONFIG_CHOICE, "auto", "auto|host|gpu",                                    \
      "Where queues of a GPU's device code lie over path gda: its memory, else the host's; or "    \
      "one.")                                                                                      \
    X(GDA_CHUNK, CONFIG_SIZE, "1G", NULL,                                                          \
      "Segments are registered for path gda in pieces of this size, a power of 2, 64K to 1G.")     \
    X(TEST_GDA, CONFIG_CHOICE, "off", "off|relaxed|apart|both",                                    \
      "For tests: over path gda memory of the host is relaxed in order, as apart as a GPU's, "     \
      "or both.")                                                                                  \
    X(FILE_BACKEND, CONFIG_CHOICE, "auto", "auto|uring|threads",                                   \
      "By what files are read and written: io_uring, else threads; only io_uring; only threads.")  \
    X(FILE_GPU, CONFIG_CHOICE, "auto", "auto|pinned|cufile|compat",                                \
      "By what a file reaches GPU memory: cuFile where it is direct, else pinned memory; or "      \
      "only one.")                                                                                 \
    X(FILE_ROOT, CONFIG_STRING, "", NULL,                                                          \
      "For tests: the folder whose proc says whether this kernel can carry cuFile.")               \
    X(FILE_DEPTH, CONFIG_INT, "0", NULL,                                                           \
      "Requests on a file under way at once, 1 to 256; 0 = as was measured on its file system.")   \
    X(FILE_CHUNK, CONFIG_SIZE, "0", NULL,                                                          \
      "Bytes of one request on a file, at most, a multiple of 4K up to 64M; 0 = as was measured.") \
    X(CHECK, CONFIG_BOOL, "0", NULL,                                                               \
      "Check that collective calls agree between PEs, and say how they differ.")                   \
    X(SPIN, CONFIG_INT, "-1", NULL,                                                                \
      "Polls before a waiting PE yields its CPU; -1 chooses by PEs per CPU.")                      \
    X(BOOT, CONFIG_CHOICE, "auto", "auto|weft|pmix|tcp|single",                                    \
      "How the PEs find each other: the launcher's socket, PMIx, RANK and MASTER_ADDR, or alone.") \
    X(BOOT_LIMIT, CONFIG_DURATION, "60s", NULL,                                                    \
      "How long PEs look for each other and try paths at start, at most WEFT_WAIT_LIMIT; 0: as "   \
      "it.")                                                                                       \
    X(BOOT_SOCKET, CONFIG_INT, "-1", NULL,                                                         \
      "Set by `weft run`: number of the inherited socket to the launcher.")                        \
    X(BOOT_JOB, CONFIG_STRING, "", NULL,                                                           \
      "Set by `weft run`: marks the processes that come from its job.")                            \
    X(BOOT_NODE, CONFIG_INT, "-1", NULL,                                                           \
      "Set by `weft run --hosts`: number of this PE's host in the list.")                          \
    X(BOOT_HOST, CONFIG_STRING, "", NULL, "Set by `weft run --hosts`: name of this PE's host.")    \
    X(NODE_PES, CONFIG_INT, "0", NULL,                                                             \
      "For tests: so many PEs each count as a node, though they share a kernel; 0 = as it is.")    \
    X(PE, CONFIG_INT, "-1", NULL, "Set by `weft run`: number of this PE, for scripts too.")        \
    X(PES, CONFIG_INT, "0", NULL, "Set by `weft run`: number of PEs in the job.")                  \
    X(BOOT_PORT, CONFIG_INT, "0", NULL,                                                            \
      "Port at which PE 0 meets the others under RANK and MASTER_ADDR; 0 = after MASTER_PORT.")    \
    X(SECRET, CONFIG_STRING, "", NULL,                                                             \
      "Secret shared by the PEs of a job; authenticates TCP connections at start.")                \
    X(TARGET, CONFIG_CHOICE, "auto", "auto|cuda|simt",                                             \
      "Where kernels run: on a GPU if there is one, on a GPU, or on CPU threads.")                 \
    X(SIMT_THREADS, CONFIG_INT, "0", NULL,                                                         \
      "Worker threads of the SIMT executor; 0 = one for each CPU.")                                \
    X(SIMT_STACK, CONFIG_SIZE, "64K", NULL,                                                        \
      "Stack of each lane of the SIMT executor, at least 16K; sanitizers take four times as "      \
      "much.")                                                                                     \
    X(SIMT_LANES, CONFIG_INT, "16384", NULL,                                                       \
      "Lanes of the SIMT executor that are resident together; further blocks wait their turn.")    \
    X(SIMT_EXITED, CONFIG_CHOICE, "report", "report|allow",                                        \
      "Whether a sync that names an exited lane is a fault of the kernel.")                        \
    X(PROXY_SLOTS, CONFIG_POWER, "4096", NULL,                                                     \
      "Operations that device code may have given to the proxy and not had released; a power "     \
      "of 2.")                                                                                     \
    X(PROXY, CONFIG_CHOICE, "auto", "auto|always",                                                 \
      "Whether the proxy of device code runs where a peer needs it, or always, to be measured.")   \
    X(PROXY_THREADS, CONFIG_CHOICE, "1", "1|2|3|4|5|6|7|8",                                        \
      "Threads of the proxy, each with a ring of its own for some of the PEs.")                    \
    X(PROXY_CPUS, CONFIG_CPUS, "near", NULL,                                                       \
      "CPUs of the proxy's threads: near = of those allowed the ones at the NIC or GPU, any, "     \
      "or 0-3,8.")                                                                                 \
    X(GPU, CONFIG_STRING, "", NULL,                                                                \
      "GPUs to use, one per local PE in turn: numbers, GPU-... or MIG-... names, PCI addresses.")  \
    X(GPU_HEAP_SIZE, CONFIG_SIZE, "0", NULL,                                                       \
      "Addresses reserved for each PE's GPU heap; memory comes on demand. 0 = as the GPU has.")    \
    X(COLL, CONFIG_CHOICE, "auto",                                                                 \
      "auto|packets|two|lines|twolines|direct|scratch|engines|copies",                             \
      "Algorithm of GPU collectives: packets = LL, lines = LL128, two* = two-shot, copies = host " \
      "puts.")                                                                                     \
    X(COLL_SMS, CONFIG_INT, "64", NULL,                                                            \
      "Blocks of a collective on GPU memory, at most, each on an SM; 0 = copy engines where "      \
      "they can.")                                                                                 \
    X(COLL_RATES, CONFIG_STRING, "", NULL,                                                         \
      "File with this machine's rates of collectives; empty: as `weft bench coll --tune` kept; "   \
      "off.")                                                                                      \
    X(GPU_STRIPE, CONFIG_SIZE, "0", NULL,                                                          \
      "Host-initiated copies from this size are dealt out over several streams; 0 = never.")       \
    X(STRIPES, CONFIG_INT, "0", NULL,                                                              \
      "Ways of a large copy between GPUs: 0 = what shares no link and is faster; n = up to n.")    \
    X(STRIPE_HOST, CONFIG_SIZE, "0", NULL,                                                         \
      "From this size copies over NVLink may go over host memory too, where faster; 0 = never.")   \
    X(PROVE, CONFIG_CHOICE, "cached", "always|cached|off",                                         \
      "Whether pairs of GPUs prove peer access at first use, or trust an earlier proof.")          \
    X(MAP, CONFIG_CHOICE, "auto", "auto|dmabuf|rm|gdrdrv|none",                                    \
      "How the CPU maps GPU memory: auto, dmabuf, rm = the driver's own interface, gdrdrv, none.") \
    X(COPY_THREADS, CONFIG_CHOICE, "auto", "auto|1|2|3|4|5|6|7|8",                                 \
      "Threads of large copies between plain and GPU memory: auto = where measured; 1 = the "      \
      "driver's.")                                                                                 \
    X(FAULT_PERCENT, CONFIG_INT, "80", NULL,                                                       \
      "A rate that is measured below this percentage of what is expected is a fault, 1 to 100.")   \
    X(RSH, CONFIG_STRING, "ssh -x -o BatchMode=yes -o ConnectTimeout=10", NULL,                    \
      "By what `weft run --hosts` reaches a host: gets its name and a command.")                   \
    X(TEXT_PE, CONFIG_BOOL, "0", NULL, "`weft run` prefixes each output line with its PE.")

enum config_id {
#define ID(id, type, preset, choices, text) CONFIG_##id,
    CONFIG_VARS(ID)
#undef ID
        CONFIG_COUNT
};

struct config_var {
    const char *name; /* with the prefix */
    enum config_type type;
    const char *preset;
    const char *choices;
    const char *text;
};

extern const struct config_var config_vars[CONFIG_COUNT];

const char *config_string(enum config_id id);
int64_t config_int(enum config_id id);
uint64_t config_size(enum config_id id);
uint64_t config_duration_ns(enum config_id id);
bool config_bool(enum config_id id);
int config_choice(enum config_id id);

/* "environment" or "default". */
const char *config_origin(enum config_id id);

/* Checks every WEFT_ variable of the environment: an unknown name fails with the nearest known
 * one, a bad value with the value and what is accepted. WEFT_ERR_CONFIG. */
weft_status config_check(void);

/* Forgets what was read, so that a test or a re-init sees a changed environment. */
void config_reset(void);

/* Parses `text` as bytes ("64", "4K", "1.5G") or as nanoseconds ("60s", "250ms"). False when it
 * is not such a text, or too large. */
bool config_parse_size(const char *text, uint64_t *bytes);
bool config_parse_duration(const char *text, uint64_t *ns);

#endif
