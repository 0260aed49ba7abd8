/* SPDX-License-Identifier: Apache-2.0 */
/* Lists libfabric's providers as entries of choose.h, and finds the rows that all PEs have. It
 * opens nothing. */
#include "path/net/offers.h"

#include "base/config.h"
#include "base/status.h"
#include "base/text.h"
#include "boot/agree.h"
#include "driver/kallsyms.h"
#include "path/net/encrypt.h"
#include "path/net/near.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

enum { API_VERSION = FI_VERSION(1, 11), NET_PROVIDER_BYTES = 128 };

/* ------------------------------------------------------------------------------------ one entry */

/* Whether the network interface is IP over InfiniBand. */
static bool is_ipoib(const char *interface)
{
    char path[128];
    int type = 0;
    snprintf(path, sizeof path, "/sys/class/net/%.64s/type", interface);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool read = fscanf(file, "%d", &type) == 1;
    fclose(file);
    return read && type == ARPHRD_INFINIBAND;
}

static uint32_t find_abilities(const struct fi_info *info)
{
    const uint64_t write = FI_RMA | FI_WRITE | FI_REMOTE_WRITE;
    const uint64_t read = FI_RMA | FI_READ | FI_REMOTE_READ;
    uint32_t abilities = 0;
    if (info->ep_attr->type == FI_EP_RDM)
        abilities |= NET_DATAGRAMS;
    if ((info->caps & (FI_MSG | FI_SEND | FI_RECV)) == (FI_MSG | FI_SEND | FI_RECV))
        abilities |= NET_MESSAGES;
    if ((info->caps & write) == write)
        abilities |= NET_WRITE;
    if ((info->caps & read) == read)
        abilities |= NET_READ;
    if (info->domain_attr->mr_key_size <= 8 && !(info->domain_attr->mr_mode & FI_MR_RAW))
        abilities |= NET_KEYS;
    return abilities;
}

static void find_reach(const struct fi_info *info, struct net_provider_entry *entry)
{
    const struct sockaddr_in *in = info->src_addr;
    const struct sockaddr_in6 *in6 = info->src_addr;
    entry->reach = NET_REACH_OTHERS;
    if (info->addr_format == FI_SOCKADDR_IN && in) {
        entry->family = 4;
        if (ntohl(in->sin_addr.s_addr) >> 24 == 127)
            entry->reach = NET_REACH_NODE;
    } else if (info->addr_format == FI_SOCKADDR_IN6 && in6) {
        entry->family = 6;
        if (IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr))
            entry->reach = NET_REACH_NODE;
        else if (IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
            entry->reach = NET_REACH_LINK;
    }
    if (strncmp(entry->provider, "shm", 3) == 0 || strncmp(entry->provider, "sm2", 3) == 0)
        entry->reach = NET_REACH_NODE;
}

static void find_link_state(const struct fi_info *info, struct net_provider_entry *entry)
{
    const struct fi_link_attr *link = info->nic ? info->nic->link_attr : NULL;
    entry->mbps = (uint32_t)(link && link->speed ? link->speed / 1000000
                                                 : net_get_speed("", entry->interface));
    entry->down = link && link->state == FI_LINK_DOWN;
    entry->down |= net_is_down("", entry->interface);
}

static struct net_provider_entry make_entry(const struct fi_info *info)
{
    struct net_provider_entry entry = {.abilities = find_abilities(info)};
    const char *network = info->fabric_attr->name;
    snprintf(entry.provider, sizeof entry.provider, "%s", info->fabric_attr->prov_name);
    snprintf(entry.interface, sizeof entry.interface, "%s",
             info->domain_attr->name ? info->domain_attr->name : "");
    if (network && strchr(network, '/'))
        snprintf(entry.network, sizeof entry.network, "%s", network);
    find_reach(info, &entry);
    entry.ipoib = is_ipoib(entry.interface);
    find_link_state(info, &entry);
    return entry;
}

/* ------------------------------------------------------------------------ the list of providers */

static void free_entries(const struct fabric *lib, struct net_provider_list *providers)
{
    if (providers->list)
        lib->freeinfo(providers->list);
    free(providers->info);
    free(providers->entry);
}

static weft_status make_entries(struct net_provider_list *providers)
{
    for (const struct fi_info *info = providers->list; info; info = info->next)
        providers->count++;
    providers->info = calloc(providers->count + 1, sizeof *providers->info);
    providers->entry = calloc(providers->count + 1, sizeof *providers->entry);
    if (!providers->info || !providers->entry)
        return base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %zu offers of libfabric",
                         providers->count);
    size_t i = 0;
    for (struct fi_info *info = providers->list; info; info = info->next, i++) {
        providers->info[i] = info;
        providers->entry[i] = make_entry(info);
    }
    return WEFT_OK;
}

/* The requirements that this path can meet, so that providers ask for no more. */
static void fill_hints(struct fi_info *hints)
{
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->av_type = FI_AV_TABLE;
}

struct getinfo_call {
    const struct fabric *lib;
    struct fi_info *hints, **list;
    int error;
};

static void call_getinfo(void *argument)
{
    struct getinfo_call *call = argument;
    call->error = call->lib->getinfo(API_VERSION, NULL, NULL, 0, call->hints, call->list);
}

static bool has_rdma_devices(void)
{
    DIR *devices = opendir("/sys/class/infiniband");
    bool any = false;
    for (const struct dirent *entry; devices && (entry = readdir(devices));)
        any |= entry->d_name[0] != '.';
    if (devices)
        closedir(devices);
    return any;
}

/* At its first call libfabric prepares all providers, whichever the hints or FI_PROVIDER name. Its
 * verbs provider then looks in /proc/kallsyms for what the kernel can do for GPU memory: 0.1 s of a
 * CPU, which matters only where there are RDMA devices. */
static int list_offers(const struct fabric *lib, struct fi_info *hints, struct fi_info **list)
{
    struct getinfo_call call = {.lib = lib, .hints = hints, .list = list};
    if (has_rdma_devices())
        call_getinfo(&call);
    else
        driver_run_without_kallsyms(call_getinfo, &call);
    return call.error;
}

/* Sets variables that libfabric reads once, at its first call in the process, unless the user has.
 * They are unset again, so that children of the application do not inherit them.
 *
 * FI_UNIVERSE_SIZE: the number of peers that libfabric sizes its queues for, by default 256: too
 * many for devices with short queues (soft RoCE), too few for larger jobs. FI_OFI_RXM_MSG_RX_SIZE:
 * receives of 16 KiB that ofi_rxm posts for all connections together, over tcp by default 4096,
 * which are 64 MiB that each PE writes when it starts (64 PEs on 2 CPUs: 10 s in place of 5). As
 * many as over verbs give the same rates of puts and gets. */
static int list_with_variables(const struct fabric *lib, int npes, struct fi_info *hints,
                               struct fi_info **list)
{
    enum { LEAST = 8 };
    char peers[16];
    struct {
        const char *name, *value;
        bool set;
    } variables[] = {{"FI_UNIVERSE_SIZE", peers, false}, {"FI_OFI_RXM_MSG_RX_SIZE", "128", false}};
    enum { VARIABLES = sizeof variables / sizeof variables[0] };
    /* PEs may be threads of one process, which has one environment. */
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    snprintf(peers, sizeof peers, "%d", npes < LEAST ? LEAST : npes);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < VARIABLES; i++) {
        variables[i].set = !getenv(variables[i].name);
        if (variables[i].set)
            setenv(variables[i].name, variables[i].value, 1);
    }
    int error = list_offers(lib, hints, list);
    for (int i = 0; i < VARIABLES; i++)
        if (variables[i].set)
            unsetenv(variables[i].name);
    pthread_mutex_unlock(&lock);
    return error;
}

/* all: every provider, to name those that cannot be used. */
static weft_status list_providers(const struct fabric *lib, int npes, bool all,
                                  struct net_provider_list *providers)
{
    struct fi_info *hints = lib->dupinfo(NULL);
    if (!hints)
        return base_fail(WEFT_ERR_NO_MEMORY, "fi_dupinfo: no memory");
    if (!all)
        fill_hints(hints);
    int error = list_with_variables(lib, npes, all ? NULL : hints, &providers->list);
    lib->freeinfo(hints);
    if (error && error != -FI_ENODATA)
        return base_fail(WEFT_ERR_SYSTEM, "fi_getinfo: %s", lib->strerror(-error));
    return make_entries(providers);
}

/* ------------------------------------------------------------------------ exchange with all PEs */

/* libfabric leaves out provider shm, without an error, if /dev/shm has no space for its file. */
static weft_status add_shm_hint(weft_status status, const struct net_config *config)
{
    enum { FILE_KIB = 16 << 10 };
    struct statvfs space;
    char sentence[512];
    if (strcmp(config->provider, "shm") != 0 || statvfs("/dev/shm", &space))
        return status;
    unsigned long long free_kib = (unsigned long long)space.f_bavail * space.f_frsize / 1024;
    if (free_kib >= FILE_KIB)
        return status;
    base_shorten(sentence, sizeof sentence, base_last_error());
    return base_fail(status,
                     "%s; /dev/shm has %llu KiB free, and provider shm needs %d KiB for each PE",
                     sentence, free_kib, FILE_KIB);
}

static weft_status find_rows(const struct fabric *lib, int npes, const struct net_config *config,
                             struct net_provider_list *providers, struct net_exchange_record *mine)
{
    weft_status status = list_providers(lib, npes, false, providers);
    if (!status)
        status = net_choose_rows(providers->entry, providers->count, config, &mine->rows);
    if (status == WEFT_ERR_CONFIG || status == WEFT_ERR_UNSUPPORTED) {
        /* The error text is made from the list of all providers, so that it names what a provider
         * lacks. */
        struct net_provider_list every = {0};
        net_rows none;
        status = list_providers(lib, npes, true, &every);
        if (!status)
            status = net_choose_rows(every.entry, every.count, config, &none);
        if (!status)
            status = base_fail(WEFT_ERR_UNSUPPORTED,
                               "no libfabric provider supports the memory registration that path "
                               "net needs");
        else if (status == WEFT_ERR_CONFIG)
            status = add_shm_hint(status, config);
        free_entries(lib, &every);
    }
    if (!status)
        mine->networks = net_choose_networks(providers->entry, providers->count);
    return status;
}

/* The same at every PE. */
static weft_status compare_encryption(const struct net_exchange_record *all, int npes)
{
    int pe = 0;
    while (pe < npes && all[pe].encrypted == all[0].encrypted)
        pe++;
    if (pe == npes)
        return WEFT_OK;
    return base_fail(WEFT_ERR_CONFIG,
                     "WEFT_FABRIC_PROVIDER has +encrypted at PE %d and not at PE %d: set it to the "
                     "same text for every PE",
                     all[0].encrypted ? 0 : pe, all[0].encrypted ? pe : 0);
}

static weft_status exchange_records(const struct path_world *world,
                                    const struct net_exchange_record *mine,
                                    struct net_exchange_record *all_pes, char *lacks, size_t bytes)
{
    struct net_exchange_record *all = calloc((size_t)world->npes, sizeof *all);
    weft_status status =
        all ? WEFT_OK : base_fail(WEFT_ERR_NO_MEMORY, "no private memory for %d PEs", world->npes);
    status = boot_agree(world->boot, status);
    if (!status)
        status = world->boot->ops->allgather(world->boot, mine, all, sizeof *mine);
    *all_pes = *mine;
    if (!status)
        status = compare_encryption(all, world->npes);
    for (int pe = 0; pe < world->npes && !status; pe++) {
        all_pes->rows &= all[pe].rows;
        all_pes->networks &= all[pe].networks;
        if (!all[pe].rows && !lacks[0])
            snprintf(lacks, bytes, "PE %d: %s", pe, all[pe].lacks);
    }
    free(all);
    if (!status && !all_pes->rows && !lacks[0])
        snprintf(lacks, bytes, "no libfabric provider is available on every PE");
    return status;
}

/* A WEFT_ERR_CONFIG is returned; any other obstacle of this PE goes into its exchange record. */
static weft_status find_providers(const struct net_config *config, int npes,
                                  const struct fabric **lib, struct net_provider_list *providers,
                                  struct net_exchange_record *mine)
{
    weft_status status = fabric_open(lib);
    if (!status)
        status = find_rows(*lib, npes, config, providers, mine);
    if (!status || status == WEFT_ERR_CONFIG)
        return status;
    base_shorten(mine->lacks, sizeof mine->lacks, base_last_error());
    return WEFT_OK;
}

/* --------------------------------------------------------------------------------------- choice */

/* The configured provider without "+encrypted". */
static void copy_provider(char *provider, size_t bytes)
{
    const char *value = config_string(CONFIG_FABRIC_PROVIDER);
    snprintf(provider, bytes, "%.*s", (int)strcspn(value, "+"), value);
}

weft_status net_find_nics(const struct path_world *world, struct net_selection **selection,
                          char *lacks, char *has)
{
    char provider[NET_PROVIDER_BYTES];
    copy_provider(provider, sizeof provider);
    const struct net_config config = {.provider = provider,
                                      .interface = config_string(CONFIG_FABRIC_INTERFACE),
                                      .nodes = world->boot->nodes > 1};
    const struct fabric *lib = NULL;
    struct net_provider_list providers = {0};
    struct net_exchange_record mine = {.encrypted = net_is_encryption_wanted()}, all_pes;
    *selection = NULL;
    lacks[0] = has[0] = '\0';
    weft_status status = mine.encrypted ? net_check_encryption(world) : WEFT_OK;
    if (!status)
        status = find_providers(&config, world->npes, &lib, &providers, &mine);
    status = boot_agree(world->boot, status);
    if (!status)
        status = exchange_records(world, &mine, &all_pes, lacks, PATH_LACKS_BYTES);
    if (!status && !lacks[0])
        status = net_select_nics(world, lib, &config, &providers, &all_pes, selection, has,
                                 sizeof((struct path_found){0}.has));
    free_entries(lib, &providers);
    return status;
}
