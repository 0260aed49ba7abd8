/* SPDX-License-Identifier: Apache-2.0 */
/* Shows which NICs a PE opens of those that all PEs have, and how it describes them. The job has
 * one PE; the kernel does not know the NICs. */
#include "path/net/offers.h"

#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static weft_status gather(struct boot *boot, const void *mine, void *all, size_t bytes)
{
    assert_int_equal(boot->npes, 1);
    memcpy(all, mine, bytes);
    return WEFT_OK;
}

static int copies_left;
static struct fi_info copies[8];
static int copied;

static struct fi_info *copy(const struct fi_info *info)
{
    if (!copies_left--)
        return NULL;
    assert_null(info->next);
    copies[copied] = *info;
    return &copies[copied++];
}

enum { NICS = 3 };
static char names[NICS][16] = {"weft-none-0", "weft-none-1", "weft-none-2"};
static struct fi_domain_attr domains[NICS];
static struct fi_fabric_attr fabric = {.prov_name = (char[]){"verbs;ofi_rxm"}};
static struct fi_info infos[NICS];
static struct fi_info *listed[NICS];
static struct net_provider_entry list[NICS];
static int node_of[1];
static const struct boot_ops boot_ops = {.name = "one", .allgather = gather};
static struct boot boot = {.ops = &boot_ops, .npes = 1, .local_npes = 1, .node_of = node_of};
static struct path_world world = {.npes = 1, .boot = &boot};
static const struct fabric lib = {.dupinfo = copy};
static char has[512];

static int prepare(void **state)
{
    static const char *const networks[] = {"10.0.0.0/24", "192.0.2.0/24", ""};
    (void)state;
    for (int i = 0; i < NICS; i++) {
        domains[i] = (struct fi_domain_attr){.name = names[i], .mr_key_size = 8};
        infos[i] = (struct fi_info){.domain_attr = &domains[i],
                                    .fabric_attr = &fabric,
                                    .next = i + 1 < NICS ? &infos[i + 1] : NULL};
        listed[i] = &infos[i];
        list[i] = (struct net_provider_entry){.abilities = NET_NEEDED,
                                              .reach = NET_REACH_OTHERS,
                                              .family = 4,
                                              .mbps = 100000 - (uint32_t)i};
        strcpy(list[i].provider, "verbs;ofi_rxm");
        strcpy(list[i].interface, names[i]);
        strcpy(list[i].network, networks[i]);
    }
    copies_left = 8;
    copied = 0;
    return 0;
}

static struct net_selection *take(size_t count, weft_status expected)
{
    const struct net_config config = {.provider = "", .interface = "", .nodes = true};
    const struct net_provider_list entries = {.info = listed, .entry = list, .count = count};
    struct net_exchange_record both = {0};
    struct net_selection *selection = NULL;
    net_choose_rows(list, count, &config, &both.rows);
    assert_int_equal(
        net_select_nics(&world, &lib, &config, &entries, &both, &selection, has, sizeof has),
        expected);
    return selection;
}

static void the_selection_is_made_of_the_entries(void **state)
{
    (void)state;
    struct net_selection *selection = take(NICS, WEFT_OK);
    assert_int_equal(selection->count, NICS);
    assert_true(selection->first_rail_carries);
    for (int i = 0; i < NICS; i++) {
        assert_int_equal(selection->mbps[i], 100000 - i);
        assert_string_equal(selection->info[i]->domain_attr->name, names[i]);
        assert_int_equal(selection->network[i] != 0, i < 2);
    }
    assert_int_not_equal(selection->network[0], selection->network[1]);
    assert_string_equal(has, "provider verbs;ofi_rxm on weft-none-0 (10.0.0.0/24); one of 3 at "
                             "unknown distance; large transfers over "
                             "weft-none-0,weft-none-1,weft-none-2");
    free(selection);
    selection = take(1, WEFT_OK);
    assert_int_equal(selection->count, 1);
    assert_string_equal(has, "provider verbs;ofi_rxm on weft-none-0 (10.0.0.0/24)");
    free(selection);
}

/* The description warns if memory keys can be guessed, or if the provider chooses them. */
static void what_is_exposed_is_said(void **state)
{
    static const struct {
        int mode;
        size_t bytes;
        const char *words;
    } rows[] = {
        {0, 6, ""},
        {0, 5, "; memory keys of 5 bytes can be guessed: keep untrusted hosts off its network"},
        {FI_MR_PROV_KEY, 8,
         "; it chooses memory keys itself: keep untrusted hosts off its network"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        domains[0].mr_mode = rows[i].mode;
        domains[0].mr_key_size = rows[i].bytes;
        free(take(1, WEFT_OK));
        assert_string_equal(has + strlen("provider verbs;ofi_rxm on weft-none-0 (10.0.0.0/24)"),
                            rows[i].words);
    }
}

static void copies_that_cannot_be_made(void **state)
{
    (void)state;
    copies_left = 2;
    struct net_selection *selection = take(NICS, WEFT_ERR_NO_MEMORY);
    assert_null(selection->info[2]);
    free(selection);
}

static void no_nic_can_be_selected(void **state)
{
    (void)state;
    assert_null(take(0, WEFT_OK));
    assert_int_equal(copied, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_selection_is_made_of_the_entries, prepare),
        cmocka_unit_test_setup(what_is_exposed_is_said, prepare),
        cmocka_unit_test_setup(copies_that_cannot_be_made, prepare),
        cmocka_unit_test_setup(no_nic_can_be_selected, prepare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
