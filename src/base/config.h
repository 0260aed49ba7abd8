/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all configuration variables (environment, prefix WEFT_). Each value is read once, at
 * the first access; config_check() refuses unknown names and bad values before a job starts. */
#ifndef WEFT_BASE_CONFIG_H
#define WEFT_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft.h>

enum config_type {
    CONFIG_STRING,   /* any text */
    CONFIG_INT,      /* whole number */
    CONFIG_POWER,    /* a power of two, 2 to 1M */
    CONFIG_CPUS,     /* near, any, or a list of CPUs such as 0-3,8 */
    CONFIG_SIZE,     /* bytes; suffix K, M, G, T (powers of 1024) */
    CONFIG_DURATION, /* seconds, or with suffix ms, s, m, h; 0 = no limit */
    CONFIG_BOOL,     /* 1, 0, yes, no, on, off, true, false */
    CONFIG_LEVELS,   /* log levels, see log_levels.h; the value is a log_levels */
    CONFIG_PATTERN,  /* a file name, in which %h is the host, %p the process ID, %% a % */
    CONFIG_PROVIDER, /* a provider of libfabric or "", then optionally "+encrypted"; the value is 1
                        with it */
    CONFIG_CHOICE,   /* one of the words a|b|c; the value is its index */
};

/* X(id, type, default, choices or NULL, one sentence). The name is "WEFT_" #id. `weft env` shows
 * them in this order. */
#define CONFIG_USER_VARS(X)                                                                        \
    X(PATH, CONFIG_STRING, "", NULL,                                                               \
      "Paths that may be used, in this order, e.g. \"p2p,staged\"; \"^p2p\" excludes one.")        \
    X(LOG, CONFIG_LEVELS, "warn", NULL,                                                            \
      "What is logged: error, warn, info or debug; other levels for subsystems, e.g. "             \
      "\"warn,net:debug\".")                                                                       \
    X(LOG_FILE, CONFIG_PATTERN, "", NULL,                                                          \
      "File that log lines are appended to, with %h for the host and %p for the process ID; "      \
      "empty: stderr.")                                                                            \
    X(HEAP_SIZE, CONFIG_SIZE, "4G", NULL,                                                          \
      "Size of each PE's symmetric host heap; only addresses are reserved, pages cost memory "     \
      "when touched.")                                                                             \
    X(GPU_HEAP_SIZE, CONFIG_SIZE, "0", NULL,                                                       \
      "Addresses reserved for each PE's GPU heap; memory is added on demand; 0 = the GPU's "       \
      "memory size.")                                                                              \
    X(GPU, CONFIG_STRING, "", NULL,                                                                \
      "GPUs to use, one per local PE in turn: numbers, GPU-... or MIG-... names, PCI "             \
      "addresses.")                                                                                \
    X(TARGET, CONFIG_CHOICE, "auto", "auto|cuda|simt",                                             \
      "Where kernels run: auto (a GPU if there is one, else CPU threads), cuda (a GPU), simt "     \
      "(CPU threads).")                                                                            \
    X(WAIT_LIMIT, CONFIG_DURATION, "10m", NULL,                                                    \
      "A wait fails when the PEs that it depends on make no progress for this time; 0 = "          \
      "never.")                                                                                    \
    X(FABRIC_PROVIDER, CONFIG_PROVIDER, "", NULL,                                                  \
      "libfabric provider for path net, such as verbs or tcp; empty: the fastest; +encrypted, "    \
      "as in tcp+encrypted: encrypts.")                                                            \
    X(COLL, CONFIG_CHOICE, "auto",                                                                 \
      "auto|packets|two|lines|twolines|direct|scratch|engines|copies",                             \
      "Algorithm of GPU collectives: packets = LL, lines = LL128, two* = two-shot, copies = host " \
      "puts.")                                                                                     \
    X(CHECK, CONFIG_BOOL, "0", NULL,                                                               \
      "Checking mode: compares the arguments of collectives between PEs and reports "              \
      "differences.")                                                                              \
    X(WAIT_WARN, CONFIG_DURATION, "60s", NULL,                                                     \
      "Time after which a wait logs once what it waits for and what that PE does; 0 = never.")     \
    X(FABRIC_INTERFACE, CONFIG_STRING, "", NULL,                                                   \
      "Interfaces that path net may use, such as mlx5_0 or eth0,eth1; empty: those of all "        \
      "nodes.")                                                                                    \
    X(NET_GPU, CONFIG_CHOICE, "auto", "auto|direct|staged",                                        \
      "GPU memory over path net: auto = by the NIC where it can, direct = also by a CPU, "         \
      "staged = never in place.")                                                                  \
    X(RAILS, CONFIG_CHOICE, "0", "0|1|2|3|4|5|6|7|8",                                              \
      "NICs of a PE: path net stripes large transfers over them, path gda its queues; 0 = its "    \
      "share of the nearest.")                                                                     \
    X(HCA, CONFIG_STRING, "auto", NULL,                                                            \
      "Adapters of path gda: auto, soft = the software HCA, or names such as mlx5_0,mlx5_1.")      \
    X(GDA_QUEUES, CONFIG_INT, "0", NULL,                                                           \
      "Queue pairs of device code to each PE over path gda, 1 to 64; 0 = 2, and 1 in jobs of "     \
      "more than 1000 PEs.")                                                                       \
    X(GDA_DOORBELL, CONFIG_CHOICE, "auto", "auto|gpu|cpu",                                         \
      "Who rings the NIC doorbell of path gda: auto (GPU, else a CPU thread), gpu (GPU only), "    \
      "cpu (CPU thread only).")                                                                    \
    X(FILE_BACKEND, CONFIG_CHOICE, "auto", "auto|uring|threads",                                   \
      "How files are read and written: auto (io_uring, else threads), uring, or threads.")         \
    X(FILE_GPU, CONFIG_CHOICE, "auto", "auto|pinned|cufile|compat",                                \
      "How a file transfer reaches GPU memory: auto (cuFile where it is direct, else pinned "      \
      "memory), or only one.")                                                                     \
    X(BOOT, CONFIG_CHOICE, "auto", "auto|weft|pmix|tcp|single",                                    \
      "How the PEs find each other: the launcher's socket, PMIx, RANK and MASTER_ADDR (tcp), "     \
      "or a single PE.")                                                                           \
    X(BOOT_LIMIT, CONFIG_DURATION, "60s", NULL,                                                    \
      "Time limit for finding the PEs and testing paths at start, at most WEFT_WAIT_LIMIT; 0 "     \
      "= that one.")                                                                               \
    X(BOOT_PORT, CONFIG_INT, "0", NULL,                                                            \
      "TCP port at which PE 0 accepts the others with RANK and MASTER_ADDR; 0 = derived from "     \
      "MASTER_PORT.")                                                                              \
    X(SECRET, CONFIG_STRING, "", NULL,                                                             \
      "Secret shared by the PEs of a job, which authenticates TCP connections at start.")          \
    X(SIMT_THREADS, CONFIG_INT, "0", NULL,                                                         \
      "Worker threads of the SIMT executor; 0 = one for each CPU.")                                \
    X(SIMT_STACK, CONFIG_SIZE, "64K", NULL,                                                        \
      "Stack of each lane of the SIMT executor, at least 16K; sanitizers take four times as "      \
      "much.")                                                                                     \
    X(PROXY_THREADS, CONFIG_CHOICE, "1", "1|2|3|4|5|6|7|8",                                        \
      "Threads of the proxy, each with its own ring for some of the PEs.")                         \
    X(PROXY_CPUS, CONFIG_CPUS, "near", NULL,                                                       \
      "CPUs of the proxy's threads: near = those allowed that are nearest to the NIC or GPU, "     \
      "any, or a list.")                                                                           \
    X(COLL_SMS, CONFIG_INT, "64", NULL,                                                            \
      "Most blocks (one per SM) of a collective on GPU memory; 0 = copy engines where "            \
      "possible.")                                                                                 \
    X(COLL_RATES, CONFIG_STRING, "", NULL,                                                         \
      "File with this machine's rates of collectives; empty: that of `weft bench coll "            \
      "--tune`; off = built in.")                                                                  \
    X(STRIPE_HOST, CONFIG_SIZE, "0", NULL,                                                         \
      "Smallest copy over NVLink that may also use host memory, where faster, in bytes; 0 = "      \
      "never.")                                                                                    \
    X(PROVE, CONFIG_CHOICE, "cached", "always|cached|off",                                         \
      "Whether peer access between GPUs is tested at first use: always, cached (trusts an "        \
      "earlier test), off.")                                                                       \
    X(MAP, CONFIG_CHOICE, "auto", "auto|dmabuf|rm|gdrdrv|none",                                    \
      "How the CPU maps GPU memory: auto, dmabuf, rm = the driver's resource manager, gdrdrv, "    \
      "none.")                                                                                     \
    X(FAULT_PERCENT, CONFIG_INT, "80", NULL,                                                       \
      "A measured rate below this percentage of the expected one is reported as a fault, 1 to "    \
      "100.")                                                                                      \
    X(RSH, CONFIG_STRING, "ssh -x -o BatchMode=yes -o ConnectTimeout=10", NULL,                    \
      "Command by which `weft run --hosts` reaches a host; gets the host name and a command.")

/* Switches for tests and measurements. They may change or go without notice. */
#define CONFIG_TEST_VARS(X)                                                                        \
    X(TEST_WAIT_SLICE, CONFIG_DURATION, "100ms", NULL,                                             \
      "Most time that a wait counts between two checks, so that time while stopped does not "      \
      "count.")                                                                                    \
    X(TEST_SLOW, CONFIG_STRING, "", NULL,                                                          \
      "Behaviour of path slow: order=random|given, delay=, seed=, fail=, "                         \
      "lie=NUMBER.")                                                                               \
    X(TEST_NET_SLOT_SIZE, CONFIG_SIZE, "1M", NULL,                                                 \
      "Largest fragment of GPU memory that path net stages through pinned host memory, in "        \
      "bytes.")                                                                                    \
    X(TEST_NET_SLOTS, CONFIG_INT, "8", NULL,                                                       \
      "Staging slots per PE of path net; each takes WEFT_TEST_NET_SLOT_SIZE of pinned host "       \
      "memory there.")                                                                             \
    X(TEST_FABRIC_STRIPE, CONFIG_SIZE, "1M", NULL,                                                 \
      "Smallest transfer that is striped over several NICs, in bytes; 0 = never.")                 \
    X(TEST_HCA_LIB, CONFIG_STRING, "", NULL,                                                       \
      "Folder of libibverbs and libmlx5 for path gda; empty: the system's, or those of soft.")     \
    X(TEST_GDA_DEPTH, CONFIG_POWER, "1024", NULL,                                                  \
      "Depth of each queue pair of path gda in blocks of 64 bytes, a power of 2 from 128 to "      \
      "32768.")                                                                                    \
    X(TEST_GDA_EAGER, CONFIG_INT, "32", NULL,                                                      \
      "PEs of a job up to which path gda connects all queues when the job begins; in larger jobs " \
      "queues to a peer are connected at their first use.")                                        \
    X(TEST_GDA_RC, CONFIG_INT, "-1", NULL,                                                         \
      "PEs that path gda reaches by RC queues, the nearest by number, half below and half above; " \
      "others by DC; -1 = as many as 1 GiB of queues allows.")                                     \
    X(TEST_GDA_INITIATOR, CONFIG_CHOICE, "auto", "auto|cpu",                                       \
      "Who posts work requests of device code to path gda: auto (the GPU, else a proxy "           \
      "thread) or cpu (a proxy thread).")                                                          \
    X(TEST_GDA_QUEUE_MEMORY, CONFIG_CHOICE, "auto", "auto|host|gpu",                               \
      "Memory of device code's queue pairs over path gda: auto (GPU memory, else host "            \
      "memory), host, or gpu.")                                                                    \
    X(TEST_GDA_CHUNK, CONFIG_SIZE, "1G", NULL,                                                     \
      "Segments are registered for path gda in chunks of this size, a power of 2, 64K to 1G.")     \
    X(TEST_GDA, CONFIG_CHOICE, "off", "off|relaxed|apart|both",                                    \
      "Path gda treats host memory as relaxed in order, as separate like a GPU's, "                \
      "or both.")                                                                                  \
    X(TEST_FILE_ROOT, CONFIG_STRING, "", NULL,                                                     \
      "Folder whose proc files say whether this kernel supports cuFile.")                          \
    X(TEST_FILE_DEPTH, CONFIG_INT, "0", NULL,                                                      \
      "Concurrent requests on a file, 1 to 256; 0 = as measured on its file system.")              \
    X(TEST_FILE_CHUNK, CONFIG_SIZE, "0", NULL,                                                     \
      "Largest request on a file in bytes, a multiple of 4K up to 64M; 0 = as measured.")          \
    X(TEST_SPIN, CONFIG_INT, "-1", NULL,                                                           \
      "Polls before a waiting PE yields its CPU; -1 = chosen from the PEs per CPU.")               \
    X(TEST_NODE_PES, CONFIG_INT, "0", NULL,                                                        \
      "Number of PEs that count as a node although they share a kernel; 0 = real "                 \
      "nodes.")                                                                                    \
    X(TEST_SIMT_LANES, CONFIG_INT, "16384", NULL,                                                  \
      "Lanes of the SIMT executor that are resident together; further blocks wait their turn.")    \
    X(TEST_SIMT_EXITED, CONFIG_CHOICE, "report", "report|allow",                                   \
      "Whether a sync that names an exited lane is a fault of the kernel.")                        \
    X(TEST_SIMT_WAVE, CONFIG_CHOICE, "32", "32|64",                                                \
      "Lanes of a warp of the SIMT executor: 32 independent ones, or 64 that leave a wait "        \
      "together, as on AMD GPUs.")                                                                 \
    X(TEST_PROXY_SLOTS, CONFIG_POWER, "4096", NULL,                                                \
      "Operations of device code that a proxy ring holds at the same time, a power of 2.")         \
    X(TEST_PROXY, CONFIG_CHOICE, "auto", "auto|always",                                            \
      "Whether the proxy of device code runs: auto = where a peer needs it, always = for "         \
      "measurements.")                                                                             \
    X(TEST_STRIPES, CONFIG_INT, "0", NULL,                                                         \
      "Routes of a large copy between GPUs: 0 = all that share no link and are faster; n = at "    \
      "most n.")                                                                                   \
    X(TEST_EXPERTS, CONFIG_CHOICE, "auto", "auto|long|short|direct|relay",                         \
      "Form of dispatch and combine: auto (short for few tokens on GPUs, relays between nodes "    \
      "where they save time), long, short where its kernels can, direct (no relays), or relay "    \
      "(relays wherever nodes have several members).")                                             \
    X(TEST_COLL_BUFFER, CONFIG_SIZE, "256K", NULL,                                                 \
      "Largest vector of a reduction that passes through a buffer in host memory where members "   \
      "do not reach each other's memory, in bytes up to 256K.")                                    \
    X(TEST_COLL_PACKED, CONFIG_INT, "20", NULL,                                                    \
      "Messages that each PE saves at least where the small blocks of a node pass together in an " \
      "alltoall of GPU memory; 0 = they pass together however large they are.")                    \
    X(TEST_COPY_THREADS, CONFIG_CHOICE, "auto", "auto|1|2|3|4|5|6|7|8",                            \
      "Threads for large copies between pageable and GPU memory: auto = as measured, 1 = the "     \
      "driver's copy.")

/* Set by `weft run` for the PEs of its job. */
#define CONFIG_LAUNCHER_VARS(X)                                                                    \
    X(BOOT_SOCKET, CONFIG_INT, "-1", NULL,                                                         \
      "Set by `weft run`: descriptor of the inherited socket to the launcher.")                    \
    X(BOOT_JOB, CONFIG_STRING, "", NULL,                                                           \
      "Set by `weft run`: identifies the processes of its job.")                                   \
    X(BOOT_NODE, CONFIG_INT, "-1", NULL,                                                           \
      "Set by `weft run --hosts`: index of this PE's host in the list.")                           \
    X(BOOT_HOST, CONFIG_STRING, "", NULL, "Set by `weft run --hosts`: name of this PE's host.")    \
    X(PE, CONFIG_INT, "-1", NULL, "Set by `weft run`: number of this PE, for scripts too.")        \
    X(PES, CONFIG_INT, "0", NULL, "Set by `weft run`: number of PEs in the job.")

#define CONFIG_VARS(X)                                                                             \
    CONFIG_USER_VARS(X)                                                                            \
    CONFIG_TEST_VARS(X)                                                                            \
    CONFIG_LAUNCHER_VARS(X)

enum config_id {
#define ID(id, type, preset, choices, text) CONFIG_##id,
    /* clang-format off */
    CONFIG_USER_VARS(ID)
    CONFIG_USER_COUNT, /* the number of variables for users, with which the others begin */
    CONFIG_USER_LAST = CONFIG_USER_COUNT - 1,
    CONFIG_TEST_VARS(ID)
    CONFIG_LAUNCHER_VARS(ID)
    CONFIG_COUNT
/* clang-format on */
#undef ID
};

struct config_var {
    const char *name; /* with the prefix WEFT_ */
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

/* Checks every WEFT_ variable of the environment. WEFT_ERR_CONFIG: an unknown name (the message
 * contains the nearest known one, or the new one of a renamed variable), or a bad value (the
 * message contains the value and what is accepted). */
weft_status config_check(void);

/* Discards the values that were read, so that a test or a new init sees a changed environment. */
void config_reset(void);

/* Parses `text` as bytes ("64", "4K", "1.5G") or as nanoseconds ("60s", "250ms"). False: it is no
 * such text, or too large. */
bool config_parse_size(const char *text, uint64_t *bytes);
bool config_parse_duration(const char *text, uint64_t *ns);

#endif
