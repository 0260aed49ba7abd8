/* SPDX-License-Identifier: Apache-2.0 */
/* Shows which links between the visible GPUs are found with the driver and with NVML, either of
 * which may report less. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/status.h"
#include "driver/nvml.h"
#include "gpu/multipath/links.h"

#include <stdio.h>
#include <string.h>

enum { GPUS = 4, DEVICE = 200, LINKS = 36, SWITCH = 2, NOBODY = 9 };

static struct gpu_api driver;
static struct gpu_device own = {.driver = &driver, .visible = GPUS};
static struct gpu_links links;
static bool access_to[GPUS][GPUS], nvlink[GPUS][GPUS];
static int to[GPUS]
             [LINKS]; /* each link: 0: inactive, SWITCH + 100, NOBODY, otherwise the peer + 1 */
static int opened, closed, asked;
static bool no_nvml, left_out[8]; /* functions that NVML lacks */
/* GPUs whose PCI address the driver, or NVML, does not report; -1: none. */
static int failing, hidden;

static CUresult device_get(CUdevice *device, int ordinal)
{
    *device = DEVICE + ordinal;
    return CUDA_SUCCESS;
}

static CUresult bus_id(char *text, int bytes, CUdevice device)
{
    snprintf(text, (size_t)bytes, "0001:1%x:0%x.0", device - DEVICE, device % 2);
    return device - DEVICE == failing ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static CUresult can_access(int *can, CUdevice by, CUdevice of)
{
    assert_int_not_equal(by, of);
    if (access_to[by - DEVICE][of - DEVICE])
        *can = 1;
    return CUDA_SUCCESS;
}

static int hops[GPUS][GPUS]; /* AMD */

static CUresult p2p(int *value, int which, CUdevice a, CUdevice b)
{
    if (driver.vendor == GPU_VENDOR_AMD && which == CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK) {
        *value = hops[a - DEVICE][b - DEVICE];
        return *value ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
    }
    assert_int_equal(which, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED);
    if (nvlink[a - DEVICE][b - DEVICE])
        *value = 1;
    return CUDA_SUCCESS;
}

/* NVML has one GPU more and numbers the GPUs in reverse order. */
static nvml_return count(unsigned *n)
{
    *n = GPUS + 1;
    return NVML_OK;
}

static nvml_return by_index(unsigned index, nvml_device *device)
{
    assert_in_range(index, 0, GPUS);
    *device = (nvml_device)(uintptr_t)(DEVICE + GPUS - (int)index);
    return NVML_OK;
}

static int number(nvml_device device)
{
    return (int)(uintptr_t)device - DEVICE;
}

/* GPU 4 differs from GPU 2 only in its PCI domain. */
static void place(int gpu, struct nvml_pci *pci)
{
    pci->domain = gpu == GPUS ? 2 : 1;
    pci->bus = 0x10 + (gpu == GPUS ? 2 : (unsigned)gpu);
    pci->device = gpu % 2;
}

static nvml_return pci_of(nvml_device device, struct nvml_pci *pci)
{
    place(number(device), pci);
    return number(device) == hidden ? NVML_FUNCTION_NOT_FOUND : NVML_OK;
}

static nvml_return link_state(nvml_device device, unsigned link, int *active)
{
    asked++;
    assert_in_range(link, 0, LINKS - 1);
    if (to[number(device)][link])
        *active = 1;
    return to[number(device)][link] < 0 ? NVML_FUNCTION_NOT_FOUND : NVML_OK;
}

static nvml_return link_peer_type(nvml_device device, unsigned link, int *type)
{
    *type = to[number(device)][link] == SWITCH + 100 ? SWITCH : 0;
    return NVML_OK;
}

static nvml_return link_peer(nvml_device device, unsigned link, struct nvml_pci *pci)
{
    place(to[number(device)][link] - 1, pci);
    return to[number(device)][link] == NOBODY ? NVML_FUNCTION_NOT_FOUND : NVML_OK;
}

weft_status __wrap_nvml_open(struct nvml *nvml);
weft_status __wrap_nvml_open(struct nvml *nvml)
{
    if (no_nvml)
        return base_fail(WEFT_ERR_UNSUPPORTED, "no NVML here");
    opened++;
    memset(nvml, 0, sizeof *nvml);
    nvml->count = left_out[0] ? NULL : count;
    nvml->by_index = left_out[1] ? NULL : by_index;
    nvml->pci = left_out[2] ? NULL : pci_of;
    nvml->link_state = left_out[3] ? NULL : link_state;
    nvml->link_peer_type = left_out[4] ? NULL : link_peer_type;
    nvml->link_peer = left_out[5] ? NULL : link_peer;
    return WEFT_OK;
}

void __wrap_nvml_close(struct nvml *nvml);
void __wrap_nvml_close(struct nvml *nvml)
{
    closed++;
}

static void join(int a, int b, bool by_nvlink)
{
    access_to[a][b] = access_to[b][a] = true;
    nvlink[a][b] = nvlink[b][a] = by_nvlink;
}

/* GPU 0 has two NVLinks to GPU 1, one to GPU 2, and PCIe to GPU 3. GPUs 2 and 3 are joined by a
 * switch. */
static int set_up(void **state)
{
    memset(access_to, 0, sizeof access_to);
    memset(nvlink, 0, sizeof nvlink);
    memset(to, 0, sizeof to);
    memset(left_out, 0, sizeof left_out);
    opened = closed = asked = 0;
    failing = hidden = -1;
    no_nvml = false;
    own.visible = GPUS;
    driver = (struct gpu_api){.DeviceGet = device_get,
                              .DeviceGetPCIBusId = bus_id,
                              .DeviceCanAccessPeer = can_access,
                              .DeviceGetP2PAttribute = p2p};
    join(0, 1, true);
    join(0, 2, true);
    join(0, 3, false);
    join(2, 3, true);
    to[0][0] = to[0][35] = 2;
    to[0][17] = 3;
    to[0][5] = -1;
    to[0][6] = NOBODY;
    to[0][7] = 5; /* the GPU that is not visible */
    to[1][1] = to[1][2] = 1;
    to[2][0] = SWITCH + 100;
    to[3][35] = SWITCH + 100;
    to[3][34] = SWITCH + 100;
    return 0;
}

static void expect(int a, int b, int wires, int n)
{
    if ((int)links.link[a][b].kind != wires || links.link[a][b].links != n)
        fail_msg("%d to %d: wires %d, %d links", a, b, (int)links.link[a][b].kind,
                 links.link[a][b].links);
}

static void links_are_counted(void **state)
{
    gpu_links_read(&own, &links);
    assert_int_equal(links.n, GPUS);
    expect(0, 1, GPU_LINK_NVLINK_PAIR, 2);
    expect(1, 0, GPU_LINK_NVLINK_PAIR, 2);
    expect(0, 2, GPU_LINK_NVLINK_PAIR, 1);
    expect(2, 0, GPU_LINK_NVSWITCH, 0);
    expect(2, 3, GPU_LINK_NVSWITCH, 0);
    expect(3, 2, GPU_LINK_NVSWITCH, 0);
    expect(0, 3, GPU_LINK_PCIE, 0);
    expect(3, 0, GPU_LINK_PCIE, 0);
    expect(1, 2, GPU_LINK_NONE, 0);
    expect(0, 0, GPU_LINK_NONE, 0);
    assert_string_equal(links.unknown, "");
    assert_int_equal(asked, GPUS * LINKS);
    assert_true(opened == 1 && closed == 1);
}

static void without_nvml_the_driver_alone_tells(void **state)
{
    no_nvml = true;
    gpu_links_read(&own, &links);
    expect(0, 1, GPU_LINK_NVLINK_UNKNOWN, 0);
    expect(0, 3, GPU_LINK_PCIE, 0);
    assert_string_equal(links.unknown, "the NVLink topology is unknown: no NVML here");
    assert_int_equal(closed, 0);
    for (int i = 0; i < 6; i++) { /* an old library lacks a function */
        set_up(state);
        left_out[i] = true;
        gpu_links_read(&own, &links);
        expect(0, 1, i == 4 ? GPU_LINK_NVLINK_PAIR : GPU_LINK_NVLINK_UNKNOWN, i == 4 ? 2 : 0);
        expect(2, 3, i == 5 ? GPU_LINK_NVSWITCH : GPU_LINK_NVLINK_UNKNOWN, 0);
        assert_int_equal(asked, i < 4 ? 0 : GPUS * LINKS);
        assert_int_equal(closed, 1);
    }
    set_up(state);
    hidden = 0;
    gpu_links_read(&own, &links);
    expect(0, 1, GPU_LINK_NVLINK_UNKNOWN, 0);
    expect(1, 0, GPU_LINK_NVLINK_PAIR, 2);
}

static void two_gpus_or_pcie_need_no_nvml(void **state)
{
    own.visible = 2;
    gpu_links_read(&own, &links);
    expect(0, 1, GPU_LINK_NVLINK_UNKNOWN, 0);
    assert_int_equal(links.n, 2);
    own.visible = 3;
    gpu_links_read(&own, &links);
    expect(0, 1, GPU_LINK_NVLINK_PAIR, 2);
    set_up(state);
    memset(nvlink, 0, sizeof nvlink);
    opened = 0;
    gpu_links_read(&own, &links);
    expect(0, 1, GPU_LINK_PCIE, 0);
    assert_int_equal(opened, 0);
    set_up(state);
    failing = 3;
    gpu_links_read(&own, &links);
    expect(0, 1, GPU_LINK_NONE, 0);
    assert_int_equal(opened, 0);
}

/* In a hive a pair at one hop has its own link. NVML is not asked. */
static void xgmi_of_amd(void **state)
{
    static const int of_gpu[GPUS][GPUS] = {{0, 1, 2, 1}, {1, 0, 0, 0}, {1, 0, 0, 0}, {1, 0, 1, 0}};
    (void)state;
    driver.vendor = GPU_VENDOR_AMD;
    memcpy(hops, of_gpu, sizeof hops);
    gpu_links_read(&own, &links);
    expect(0, 1, GPU_LINK_NVLINK_PAIR, 1);
    expect(1, 0, GPU_LINK_NVLINK_PAIR, 1);
    expect(0, 2, GPU_LINK_NVLINK_UNKNOWN, 0);
    expect(2, 0, GPU_LINK_NVLINK_PAIR, 1);
    expect(2, 3, GPU_LINK_NVLINK_UNKNOWN, 0); /* HIP did not say */
    expect(3, 2, GPU_LINK_NVLINK_PAIR, 1);
    expect(0, 3, GPU_LINK_PCIE, 0);
    expect(1, 2, GPU_LINK_NONE, 0);
    assert_int_equal(opened, 0);
    assert_string_equal(links.unknown, "");
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(links_are_counted),
        TEST(without_nvml_the_driver_alone_tells),
        TEST(two_gpus_or_pcie_need_no_nvml),
        TEST(xgmi_of_amd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
