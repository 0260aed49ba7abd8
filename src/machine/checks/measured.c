/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of measured rates and of peer access tests against the expected results. See checks.h. */
#include "machine/checks/checks.h"

#include <inttypes.h>
#include <string.h>

enum { FAULT_PERCENT = 80 };

int64_t check_threshold(const struct machine *machine, int64_t expected_mbps)
{
    return expected_mbps * number_or(machine->limits.fault_percent, FAULT_PERCENT) / 100;
}

/* --- GPU and host ----------------------------------------------------------------------------- */

/* A GPU lowers the generation of its PCIe link when idle, so only the one under load counts. */
static void check_under_load(const struct machine *machine, const struct machine_gpu *gpu,
                             const struct machine_measured *m, struct findings *findings)
{
    const char *bdf = text_or(gpu->bdf, "");
    const struct machine_pci *pci = machine_find_pci(machine, bdf);
    const char *port = pci && *text_or(pci->parent, "") ? pci->parent.value : bdf;
    if (!m->pcie_gen.known || !gpu->pcie_gen_max.known ||
        m->pcie_gen.value >= gpu->pcie_gen_max.value)
        return;
    finding_repair(finding_add(findings, REASON_PCIE_GEN, WEIGHT_SLOW, port,
                               "gpu%" PRId64 " (%s) stays at PCIe generation %" PRId64
                               " of %" PRId64 " under load",
                               number_or(gpu->index, -1), bdf, m->pcie_gen.value,
                               gpu->pcie_gen_max.value),
                   "set measured[%zu].pcie_gen %" PRId64, (size_t)(m - machine->measured),
                   gpu->pcie_gen_max.value);
}

void check_host_speed(const struct machine *machine, const struct endpoint *gpu,
                      struct findings *findings)
{
    const struct endpoint host = {.kind = ENDPOINT_HOST, .name = "host", .index = -1};
    const struct machine_measured *m = machine_find_measured(machine, gpu->name, host.name);
    const struct machine_gpu *g = machine_find_gpu(machine, gpu->index);
    struct routes routes;
    bool back = !m;
    if (!m)
        m = machine_find_measured(machine, host.name, gpu->name);
    if (!m || !g)
        return;
    check_under_load(machine, g, m, findings);
    routes_between(machine, gpu, &host, &routes);
    int64_t expected = routes.n ? routes.list[0].mbps : 0;
    int64_t to = number_or(back ? m->read_mbps : m->write_mbps, 0);
    int64_t from = number_or(back ? m->write_mbps : m->read_mbps, 0);
    int64_t less = to && (!from || to < from) ? to : from;
    if (!less || !expected || less >= check_threshold(machine, expected))
        return;
    struct finding *f = finding_add(
        findings, REASON_HOST_SLOW, WEIGHT_SLOW, gpu->name,
        "%s: %.1f GB/s to the host, %.1f from it; %.1f expected over %s", gpu->name,
        (double)to / 1000, (double)from / 1000, (double)expected / 1000, routes.list[0].text);
    if (f)
        f->gain_mbps = expected - less;
}

/* --- pairs of GPUs ---------------------------------------------------------------------------- */

static void check_speed(const struct machine *machine, const struct machine_measured *m,
                        const struct machine_measured *back, const struct route *best,
                        const struct endpoint *a, const struct endpoint *b,
                        struct findings *findings)
{
    int64_t out = number_or(m->write_mbps, 0), in = back ? number_or(back->write_mbps, 0) : 0;
    char pair[140];
    snprintf(pair, sizeof pair, "%s %s", a->name, b->name);
    struct finding *f = NULL;
    if (out && best->mbps && out < check_threshold(machine, best->mbps))
        f = finding_add(findings, REASON_P2P_SLOW, WEIGHT_SLOW, pair,
                        "%s: %.1f of %.1f GB/s over %s", pair, (double)out / 1000,
                        (double)best->mbps / 1000, best->text);
    if (f)
        f->gain_mbps = best->mbps - out;
    f = NULL;
    if (out && in && out < check_threshold(machine, in))
        f = finding_add(findings, REASON_P2P_ONE_WAY, WEIGHT_SLOW, pair,
                        "%s to %s %.1f GB/s, the other direction %.1f", a->name, b->name,
                        (double)out / 1000, (double)in / 1000);
    if (f)
        f->gain_mbps = in - out;
    /* Errors are counted for both directions together: both findings name the pair in one order. */
    bool lower = strcmp(a->name, b->name) < 0;
    /* Links correct a few errors without loss; only errors that cost bandwidth are a fault. */
    bool at_speed = out && best->mbps && out >= best->mbps * 95 / 100;
    if (number_or(m->errors_grown, 0) > 0)
        finding_add(findings, REASON_NVLINK_GROWING, at_speed ? WEIGHT_NOTE : WEIGHT_SLOW, a->name,
                    "%" PRId64 " link errors while %s and %s wrote to each other%s%s",
                    m->errors_grown.value, lower ? a->name : b->name, lower ? b->name : a->name,
                    *text_or(m->errors_where, "") ? ": " : "", text_or(m->errors_where, ""));
}

/* The remedy of the table names P2P-ACS and P2P-IOMMU: another one where neither is a cause. */
static void set_test_remedy(const struct machine *machine, const struct endpoint *a,
                            const struct endpoint *b, struct finding *finding)
{
    struct findings causes = {.n = 0};
    check_pcie_route(machine, a, b, WEIGHT_SLOW, &causes);
    bool known = a->pci && b->pci;
    bool redirected =
        findings_have(&causes, REASON_P2P_ACS) || findings_have(&causes, REASON_P2P_IOMMU);
    if (findings_have(&causes, REASON_PCIE_READ) || !machine->system.iommu_mode.value)
        finding_remedy(finding,
                       "read ACS and IOMMU first: sudo weft explain {dev}; until then Weft does "
                       "not use this peer access",
                       finding->place);
    else if (known && !redirected)
        finding_remedy(finding,
                       "ACS and IOMMU are not the cause here: update driver, firmware and BIOS, "
                       "or report it to NVIDIA; until then NCCL_P2P_DISABLE=1 for NCCL (Weft does "
                       "not use this peer access)",
                       "");
    findings_free(&causes);
}

void check_measured(const struct machine *machine, const struct endpoint *a,
                    const struct endpoint *b, const struct routes *routes,
                    struct findings *findings)
{
    const struct machine_measured *m = machine_find_measured(machine, a->name, b->name);
    const struct route *best = routes_best(routes);
    char pair[140];
    snprintf(pair, sizeof pair, "%s %s", a->name, b->name);
    findings->path = "peer access";
    findings->routes_off = ROUTE_BIT(ROUTE_LINK) | ROUTE_BIT(ROUTE_PEER);
    struct finding *f = NULL;
    if (m && text_is(m->proof, "failed"))
        f = finding_add(findings, REASON_P2P_PROOF, WEIGHT_OFF, pair, "%s: %s", pair,
                        text_or(m->evidence, "the peer access test failed"));
    if (f)
        set_test_remedy(machine, a, b, f);
    if (m && text_is(m->proof, "refused"))
        f = finding_add(findings, REASON_P2P_REFUSED, WEIGHT_OFF, pair, "%s: %s", pair,
                        text_or(m->evidence, "the driver refused"));
    if (m)
        finding_repair(f, "set measured[%zu].proof proven", (size_t)(m - machine->measured));
    if (m && best && (best->kind == ROUTE_LINK || best->kind == ROUTE_PEER)) /* a direct route */
        check_speed(machine, m, machine_find_measured(machine, b->name, a->name), best, a, b,
                    findings);
}

bool check_tested(const struct machine *machine, const struct endpoint *a, const struct endpoint *b,
                  const struct routes *routes, struct findings *findings)
{
    const struct machine_measured *m = machine_find_measured(machine, a->name, b->name);
    const struct route *best = routes_best(routes);
    char pair[140];
    bool direct = best && (best->kind == ROUTE_LINK || best->kind == ROUTE_PEER);
    if (m && m->proof.value && !text_is(m->proof, "not-run"))
        return false;
    /* the driver offers this access, so a test that could not run is a fault */
    const char *why = m && m->evidence.value && *m->evidence.value ? m->evidence.value
                      : m                                          ? m->proof.why
                                                                   : NULL;
    if (!direct && !why)
        return false;
    snprintf(pair, sizeof pair, "%s %s", a->name, b->name);
    findings->path = direct ? best->text : "peer access";
    findings->routes_off = ROUTE_BIT(ROUTE_LINK) | ROUTE_BIT(ROUTE_PEER);
    struct finding *f =
        finding_add(findings, REASON_P2P_UNPROVEN, why ? WEIGHT_OFF : WEIGHT_UNKNOWN, pair,
                    "%s: %s", pair, why ? why : "no test result is recorded");
    if (m)
        finding_repair(f, "set measured[%zu].proof proven", (size_t)(m - machine->measured));
    return !why;
}
