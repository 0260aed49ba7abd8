/* SPDX-License-Identifier: Apache-2.0 */
/* Shows which routes large copies between two GPUs use, for a table of machines. Shows also what is
 * read of a machine over the stand-ins of the driver and NVML. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/config.h"
#include "gpu/gpu.h"
#include "gpu/multipath/links.h"
#include "gpu/multipath/stripe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/golden.h"

#define CUBE                                                                                       \
    "0-1:1,0-2:1,0-3:2,0-4:2,1-2:2,1-3:1,1-5:2,2-3:1,"                                             \
    "2-6:2,3-7:2,4-5:1,4-6:1,4-7:2,5-6:2,5-7:1,6-7:1"

/* Makes links from text. "0-1:2": two NVLinks of their own, "0-1:p": PCIe, "0-1:s": NVLink through
 * switches, "0-1:?": NVLink of unknown topology. */
static struct gpu_links machine(int n, const char *text)
{
    struct gpu_links links = {.n = n};
    int a, b, length;
    char what;
    for (; sscanf(text, "%d-%d:%c%n", &a, &b, &what, &length) == 3; text++) {
        struct gpu_link join = {GPU_LINK_NVLINK_PAIR, what - '0'};
        if (what == 'p' || what == 's' || what == '?')
            join = (struct gpu_link){what == 'p'   ? GPU_LINK_PCIE
                                     : what == 's' ? GPU_LINK_NVSWITCH
                                                   : GPU_LINK_NVLINK_UNKNOWN,
                                     0};
        links.link[a][b] = links.link[b][a] = join;
        text += length;
        if (*text != ',')
            break;
    }
    return links;
}

/* Writes routes as text. "d 2 3": direct, over GPU 2, over GPU 3. */
static void spell(const struct gpu_routes *ways, char *text)
{
    text[0] = '\0';
    for (int i = 0; i < ways->n; i++)
        if (ways->via[i] == GPU_ROUTE_DIRECT)
            strcat(text, i ? " d" : "d");
        else
            sprintf(text + strlen(text), i ? " %d" : "%d", ways->via[i]);
}

static void which_ways(void **state)
{
    static const struct {
        const char *name;
        int n;
        const char *links;
        int a, b, most;
        bool forced;
        const char *ways, *text;
    } rows[] = {
        /* A hybrid cube mesh: routes with more links come first. Some GPUs of different quads have
         * no direct link. */
        {"cube", 8, CUBE, 0, 1, 8, false, "d 2 3", "direct, over GPU 2, over GPU 3"},
        {"cube", 8, CUBE, 0, 2, 8, false, "d 1 3", "direct, over GPU 1, over GPU 3"},
        {"cube", 8, CUBE, 0, 3, 8, false, "d 1 2", "direct"},
        {"cube", 8, CUBE, 0, 4, 8, false, "d", "no relay GPU has links of its own to both"},
        {"cube", 8, CUBE, 0, 7, 8, false, "3 4", "over GPU 3, over GPU 4"},
        {"cube", 8, CUBE, 7, 0, 8, false, "3 4", "over GPU 3, over GPU 4"},
        {"cube", 8, CUBE, 0, 5, 8, false, "1 4", "over GPU 1, over GPU 4"},
        {"cube", 8, CUBE, 0, 1, 2, false, "d 2", "direct, over GPU 2"},
        {"cube", 8, CUBE, 1, 0, 2, false, "d 2", "direct, over GPU 2"},
        {"cube", 8, CUBE, 2, 3, 8, false, "d 0 1", "direct"},
        {"cube", 8, CUBE, 4, 6, 8, false, "d 5 7", "direct, over GPU 5, over GPU 7"},
        /* The wider bundle of links comes first, whatever its GPU's number. */
        {"mesh", 4, "0-1:2,0-2:1,1-2:1,0-3:4,1-3:3", 0, 1, 8, false, "d 3 2", "over GPU 3, over"},
        {"mesh", 4, "0-1:2,0-2:1,1-2:1,0-3:4,1-3:3", 0, 1, 2, false, "d 3", "direct, over GPU 3"},
        /* PCIe between the two and NVLink over a relay GPU share no wire. */
        {"bridges", 3, "0-1:p,0-2:4,1-2:4", 0, 1, 8, false, "d 2", "direct, over GPU 2"},
        {"bridges", 3, "0-1:p,0-2:4,1-2:p", 0, 1, 8, false, "d", "each GPU has one PCIe link"},
        /* PCIe only: each route uses each GPU's own PCIe link and a shared uplink. */
        {"pcie", 4, "0-1:p,0-2:p,0-3:p,1-2:p,1-3:p,2-3:p", 0, 1, 8, false, "d",
         "each GPU has one PCIe link"},
        {"pcie", 4, "0-1:p,0-2:p,0-3:p,1-2:p,1-3:p,2-3:p", 0, 1, 8, true, "d 2 3", "over GPU 2"},
        /* NVSwitch: all routes share the GPU's links. */
        {"switch", 4, "0-1:s,0-2:s,0-3:s,1-2:s,1-3:s,2-3:s", 0, 1, 8, false, "d", "switches"},
        {"switch", 4, "0-1:s,0-2:s,0-3:s,1-2:s,1-3:s,2-3:s", 1, 3, 8, true, "d 2 0", "over GPU 2"},
        {"switch", 4, "0-1:s,0-2:s,0-3:s,1-2:s,1-3:s,2-3:s", 1, 3, 2, true, "d 2", "direct, over"},
        {"two", 2, "0-1:s", 0, 1, 8, false, "d", "no relay GPU is visible"},
        {"two", 2, "0-1:s", 0, 1, 8, true, "d 1", "direct, over GPU 1"},
        {"two", 2, "0-1:s", 1, 0, 8, true, "d 0", "direct, over GPU 0"},
        {"untold", 3, "0-1:?,0-2:?,1-2:?", 0, 1, 8, false, "d", "unknown"},
        {"untold", 3, "0-1:?,0-2:?,1-2:?", 0, 1, 8, true, "d 2", "over GPU 2"},
        {"untold", 3, "0-1:2,0-2:?,1-2:2", 0, 1, 8, false, "d", "no relay GPU"},
        {"apart", 3, "0-2:1", 0, 1, 8, true, "", "no relay GPU"},
        {"alone", 3, "0-1:1,0-2:1,1-2:1", 0, 0, 8, true, "", "the same GPU"},
        {"hidden", 3, "0-1:1,0-2:1,1-2:1", 0, -1, 8, true, "", "not visible"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct gpu_links links = machine(rows[i].n, rows[i].links);
        struct gpu_routes ways;
        char text[64];
        gpu_routes_find(&links, rows[i].a, rows[i].b, rows[i].most, rows[i].forced, &ways);
        spell(&ways, text);
        if (strcmp(text, rows[i].ways) != 0 || !strstr(ways.text, rows[i].text))
            fail_msg("row %zu, %s: \"%s\" instead of \"%s\" (%s)", i, rows[i].name, text,
                     rows[i].ways, ways.text);
    }
}

/* Host memory is a route only next to NVLink: if no relay GPU helps, or as the first one if routes
 * are forced. */
static void beside_nvlink(void **state)
{
    static const struct {
        int n;
        const char *links;
        bool forced, added;
        const char *ways;
    } rows[] = {
        {2, "0-1:s", false, true, "d -2"},
        {2, "0-1:4", false, true, "d -2"},
        {2, "0-1:?", false, true, "d -2"},
        {2, "0-1:p", false, false, "d"},
        {2, "0-1:p", true, false, "d 1"},
        {2, "0-1:s", true, true, "d -2 1"},
        {3, "0-1:1,0-2:1,1-2:1", false, false, "d 2"},
        {3, "0-1:1,0-2:1,1-2:1", true, true, "d -2 2"},
        {3, "0-2:1,1-2:1", true, false, "2"},
        {3, "0-2:1", false, false, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct gpu_links links = machine(rows[i].n, rows[i].links);
        struct gpu_routes ways;
        char text[64];
        gpu_routes_find(&links, 0, 1, GPU_ROUTES_MOST, rows[i].forced, &ways);
        bool added = gpu_routes_add_host(&links, 0, 1, rows[i].forced, &ways);
        spell(&ways, text);
        if (added != rows[i].added || strcmp(text, rows[i].ways) != 0)
            fail_msg("row %zu: \"%s\" instead of \"%s\"", i, text, rows[i].ways);
        assert_true(!added || strstr(ways.text, "direct, over host memory"));
    }
}

/* "0-5=1": GPU 1 is the relay from GPU 0 to GPU 5. */
static void thirds(void **state)
{
    static const struct {
        int n;
        const char *links;
        uint32_t used;
        bool all;
        const char *expected;
    } rows[] = {
        /* More links come before a smaller number. The smaller of the two bundles counts. */
        {4, "0-2:1,1-2:1,0-3:2,1-3:2", 3, false, "0-1=3 1-0=3"},
        {4, "0-2:4,1-2:1,0-3:2,1-3:2", 3, false, "0-1=3 1-0=3"},
        {4, "0-2:1,1-2:1,0-3:1,1-3:1", 3, false, "0-1=2 1-0=2"},
        /* NVLink comes before PCIe. */
        {4, "0-2:p,1-2:4,0-3:1,1-3:1", 3, false, "0-1=3 1-0=3"},
        {4, "0-2:s,1-2:s,0-3:p,1-3:p", 3, false, "0-1=2 1-0=2"},
        {3, "0-2:p,1-2:p", 3, false, "0-1=2 1-0=2"},
        /* Links that another pair uses already count half. */
        {5, "0-3:2,0-4:1,1-3:2,1-4:2,2-3:2,2-4:2,1-2:1", 7, false, "0-1=3 0-2=3 1-0=3 2-0=3"},
        {5, "0-3:3,0-4:2,1-3:4,1-4:4,2-3:4,2-4:4,1-2:1", 7, false, "0-1=3 0-2=4 1-0=3 2-0=4"},
        /* A pair with access needs no relay, and a GPU without a PE neither. */
        {4, "0-1:1,0-2:1,1-2:1,0-3:1,1-3:1", 3, false, ""},
        {4, "0-1:1,0-2:1,1-2:1,0-3:1,1-3:1", 3, true, "0-1=2 1-0=2"},
        {2, "0-1:1", 3, true, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct gpu_links links = machine(rows[i].n, rows[i].links);
        int third[GPU_LINKS_MOST][GPU_LINKS_MOST];
        char text[256] = "";
        gpu_relays_assign(&links, rows[i].used, rows[i].all, third);
        for (int a = 0; a < GPU_LINKS_MOST; a++)
            for (int b = 0; b < GPU_LINKS_MOST; b++)
                if (third[a][b] >= 0)
                    sprintf(text + strlen(text), "%s%d-%d=%d", *text ? " " : "", a, b, third[a][b]);
        if (strcmp(text, rows[i].expected) != 0)
            fail_msg("row %zu: \"%s\" instead of \"%s\"", i, text, rows[i].expected);
    }
}

/* In a cube mesh each GPU uses a different relay for each GPU that it cannot access. In each
 * direction a bundle of two links carries at most three pairs, and one link carries one. */
static void thirds_of_a_cube(void **state)
{
    struct gpu_links links = machine(8, CUBE);
    int third[GPU_LINKS_MOST][GPU_LINKS_MOST], pairs[8][8] = {{0}};
    (void)state;
    gpu_relays_assign(&links, 0xff, false, third);
    for (int a = 0; a < 8; a++) {
        unsigned taken = 0;
        for (int b = 0; b < 8; b++) {
            int it = third[a][b];
            assert_int_equal(it < 0, a == b || links.link[a][b].kind != GPU_LINK_NONE);
            if (it < 0)
                continue;
            assert_false(taken & 1u << it);
            taken |= 1u << it;
            pairs[a][it]++;
            pairs[it][b]++;
        }
    }
    for (int a = 0; a < 8; a++)
        for (int b = 0; b < 8; b++)
            assert_true(2 * pairs[a][b] <= 3 * links.link[a][b].links);
}

/* No two routes of a pair share a bundle of links, for each pair of the cube mesh. */
static void disjoint(void **state)
{
    struct gpu_links links = machine(8, CUBE);
    (void)state;
    for (int a = 0; a < 8; a++)
        for (int b = 0; b < 8; b++) {
            struct gpu_routes ways;
            unsigned used[8] = {0};
            if (a == b)
                continue;
            gpu_routes_find(&links, a, b, 8, false, &ways);
            assert_true(ways.n > 0);
            for (int i = 0; i < ways.n; i++) {
                int first = ways.via[i] == GPU_ROUTE_DIRECT ? b : ways.via[i];
                assert_int_not_equal(links.link[a][first].links, 0);
                assert_int_not_equal(first == b || links.link[first][b].links, 0);
                assert_false(used[a] & 1u << first);
                used[a] |= 1u << first;
            }
        }
}

static void read_machine(struct gpu_links *links)
{
    struct gpu_api driver;
    assert_int_equal(gpu_api_open(&driver), WEFT_OK);
    struct gpu_device own = {.driver = &driver};
    assert_int_equal(driver.DeviceGetCount(&own.visible), 0);
    gpu_links_read(&own, links);
    gpu_api_close(&driver);
}

static void what_is_read(void **state)
{
    struct gpu_links links;
    (void)state;
    setenv("FAKE_CUDA_DEVICES", "4", 1);
    setenv("FAKE_CUDA_NO_PEER", "0-3", 1);
    setenv("FAKE_CUDA_PCIE", "1-3", 1);
    setenv("FAKE_NVML_LINKS", "0-1:2,0-2:1,1-2:3", 1);
    read_machine(&links);
    assert_int_equal(links.n, 4);
    assert_int_equal(links.link[0][1].kind, GPU_LINK_NVLINK_PAIR);
    assert_int_equal(links.link[0][1].links, 2);
    assert_int_equal(links.link[2][1].links, 3);
    assert_int_equal(links.link[2][0].links, 1);
    assert_int_equal(links.link[0][3].kind, GPU_LINK_NONE);
    assert_int_equal(links.link[1][3].kind, GPU_LINK_PCIE);
    /* The driver reports NVLink, and NVML does not. */
    assert_int_equal(links.link[2][3].kind, GPU_LINK_NVLINK_UNKNOWN);
    unsetenv("FAKE_NVML_LINKS");
    read_machine(&links);
    assert_int_equal(links.link[0][1].kind, GPU_LINK_NVSWITCH);
    assert_int_equal(links.link[1][3].kind, GPU_LINK_PCIE);
    setenv("CUDA_VISIBLE_DEVICES", "2,1,0", 1);
    setenv("FAKE_NVML_LINKS", "0-1:2,0-2:1,1-2:3", 1);
    read_machine(&links);
    assert_int_equal(links.n, 3);
    assert_int_equal(links.link[0][1].links, 3); /* in the driver's numbering */
    assert_int_equal(links.link[1][2].links, 2);
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("FAKE_NVML_LINKS");
    unsetenv("FAKE_CUDA_PCIE");
    unsetenv("FAKE_CUDA_NO_PEER");
}

/* Checks which numbers of routes WEFT_TEST_STRIPES accepts. One route, or a single local PE, needs
 * no stripes. */
static void numbers_of_ways(void **state)
{
    static const struct {
        const char *wanted;
        int pes;
        weft_status status;
        bool made;
    } rows[] = {{"-1", 2, WEFT_ERR_CONFIG, false}, {"9", 2, WEFT_ERR_CONFIG, false},
                {"8", 2, WEFT_OK, true},           {"0", 2, WEFT_OK, true},
                {"1", 2, WEFT_OK, false},          {"2", 1, WEFT_OK, false}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct boot boot = {.npes = 2, .local_npes = rows[i].pes};
        static struct gpu gpu;
        gpu.boot = &boot;
        setenv("WEFT_TEST_STRIPES", rows[i].wanted, 1);
        config_reset();
        assert_int_equal(gpu_stripes_start(&gpu), rows[i].status);
        assert_int_equal(gpu.multipath.stripes != NULL, rows[i].made);
        gpu_stripes_stop(&gpu);
        assert_null(gpu.multipath.stripes);
    }
    unsetenv("WEFT_TEST_STRIPES");
    config_reset();
}

/* Compares all routes and relay GPUs of random machines with all kinds of links to
 * golden/gpu_ways.txt. */
static void as_written(void **state)
{
    (void)state;
    static char text[1 << 17];
    size_t used = 0;
    uint32_t random = 1;
    for (int n = 2; n <= 7; n++) {
        struct gpu_links links = {.n = n};
        for (int i = 0; i < n * n; i++) {
            random = random * 1664525 + 1013904223;
            int a = i / n, b = i % n, kind = (int)(random >> 16) % 7;
            enum gpu_link_kind chosen = kind < 5 ? (enum gpu_link_kind)kind : GPU_LINK_NVLINK_PAIR;
            if (a != b)
                links.link[a][b] = (struct gpu_link){
                    chosen, chosen == GPU_LINK_NVLINK_PAIR ? 1 + (int)(random >> 24) % 4 : 0};
        }
        if (n == 5)
            strcpy(links.unknown, "nobody was asked");
        for (int a = n == 2 ? -1 : 0; a < n + (n == 2); a++)
            for (int b = n == 2 ? -1 : 0; b < n + (n == 2); b++)
                for (int k = 0; k < 3; k++) {
                    struct gpu_routes ways;
                    gpu_routes_find(&links, a, b, k == 2 ? 3 : GPU_ROUTES_MOST, k == 1, &ways);
                    if (!k)
                        used += (size_t)snprintf(text + used, sizeof text - used, "\n%d %d %d:", n,
                                                 a, b);
                    used += (size_t)snprintf(text + used, sizeof text - used, " | %s", ways.text);
                    if (a < 0 || b < 0 || a >= n || b >= n ||
                        !gpu_routes_add_host(&links, a, b, k == 1, &ways))
                        continue;
                    used += (size_t)snprintf(text + used, sizeof text - used, " + %s", ways.text);
                }
        int third[GPU_LINKS_MOST][GPU_LINKS_MOST];
        for (int all = 0; all < 2; all++) {
            gpu_relays_assign(&links, all ? 0xffff : 0xfff6, all, third);
            used += (size_t)snprintf(text + used, sizeof text - used, "\nthirds %d:", n);
            for (int i = 0; i < (n + 1) * (n + 1); i++)
                used += (size_t)snprintf(text + used, sizeof text - used, " %d",
                                         third[i / (n + 1)][i % (n + 1)]);
        }
        used += (size_t)snprintf(text + used, sizeof text - used, "\n");
    }
    golden_is(GOLDEN, text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_written), cmocka_unit_test(numbers_of_ways),
        cmocka_unit_test(which_ways), cmocka_unit_test(beside_nvlink),
        cmocka_unit_test(thirds),     cmocka_unit_test(thirds_of_a_cube),
        cmocka_unit_test(disjoint),   cmocka_unit_test(what_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
