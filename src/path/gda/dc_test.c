/* SPDX-License-Identifier: Apache-2.0 */
/* The test of the way to a DC peer at first use, and the words in its memory that it takes: later
 * they are the marks of runs (dc.h), one for each NIC. */
#include "path/gda/dc.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "path/gda/failover.h"

#include <stdio.h>
#include <string.h>

static uint64_t *own_words(const struct gda *gda, int sender)
{
    const struct path_world *world = gda->world;
    return (uint64_t *)(void *)(world->map[world->pe][SEG_SYSTEM] + world->words_offset +
                                (size_t)sender * PATH_WORDS_BYTES);
}

bool gda_dc_is_used_by(const struct gda *gda, int pe)
{
    return __atomic_load_n(own_words(gda, pe), __ATOMIC_RELAXED) != 0;
}

struct weft_dev_gda_place gda_dc_mark_place(const struct gda *gda, int pe, uint32_t adapter)
{
    struct weft_dev_gda_place place = gda_test_word(gda, pe, adapter, 0);
    _Static_assert(GDA_ADAPTERS_MOST * GDA_DC_MARK_BYTES <= PATH_WORDS_BYTES, "a mark for each");
    place.address += (uint64_t)adapter * GDA_DC_MARK_BYTES;
    return place;
}

/* What a test reads and fetches goes to this PE's own row of its own mail, which nothing else
 * uses. */
static weft_status post_dc_test(const struct gda *gda, uint32_t adapter, int pe, uint32_t opcode,
                                uint64_t *into, uint64_t value, uint64_t *end)
{
    struct weft_dev_gda_place own = {0}, its;
    size_t bytes = sizeof *into;
    uint64_t base;
    weft_status status = gda_dc_reserve(gda, adapter, pe, &base);
    if (status)
        return status;
    const struct weft_dev_gda_ring *ring = &gda_initiator_to(gda, adapter, pe)->scratch;
    gda_resolve_local(gda, adapter, into, &bytes, &own);
    its = gda_test_word(gda, pe, adapter, opcode == WEFT_DEV_GDA_FA);
    if (opcode == WEFT_DEV_GDA_WRITE)
        weft_dev_gda_value(ring, base, its, value, sizeof value, 0);
    else if (opcode == WEFT_DEV_GDA_READ)
        weft_dev_gda_move(ring, base, opcode, its, own, sizeof value, 0);
    else
        weft_dev_gda_atomic8(ring, base, WEFT_DEV_GDA_ADD, its, own, value, 0, 0);
    *end = gda_dc_publish(gda, adapter, pe);
    return WEFT_OK;
}

/* Writes a word, reads it back, and adds to another. *sum: what the NICs before this one have added
 * there. */
static weft_status test_adapter(const struct gda *gda, uint32_t adapter, int pe, uint64_t *sum)
{
    uint64_t *test = own_words(gda, gda->world->pe), end = 0;
    const uint64_t value = GDA_TEST_VALUE + adapter;
    const bool adds = !gda->adapters->no_atomics;
    weft_status status = post_dc_test(gda, adapter, pe, WEFT_DEV_GDA_WRITE, test, value, &end);
    if (!status)
        status = post_dc_test(gda, adapter, pe, WEFT_DEV_GDA_READ, test, 0, &end);
    if (!status && adds)
        status = post_dc_test(gda, adapter, pe, WEFT_DEV_GDA_FA, test + 1, value, &end);
    if (!status)
        status = gda_dc_await(gda, gda_initiator_to(gda, adapter, pe), pe, end, BOX_OP_PUT);
    if (status || gda_dc_state_of(gda, pe, adapter) != GDA_DC_WORKS)
        return status;
    bool same = __atomic_load_n(test, __ATOMIC_RELAXED) == value;
    if (!same || (adds && __atomic_load_n(test + 1, __ATOMIC_RELAXED) != *sum))
        return base_fail(WEFT_ERR_PATH, "path gda: the test of DC to PE %d through %s failed: %s",
                         pe, gda->adapters->one[adapter].name,
                         same ? "an atomic returned a wrong value" : "a word came back changed");
    *sum += value;
    return WEFT_OK;
}

/* Writes the first marks, which also let the PE know that it is used. */
static weft_status write_marks(const struct gda *gda, int pe)
{
    const uint64_t four = GDA_DC_MARK_FIRST * (uint64_t)0x0001000100010001;
    const uint64_t marks[PATH_WORDS_BYTES / sizeof four] = {four, four};
    uint32_t adapter = gda_dc_working_adapter(gda, pe, 0);
    uint64_t base;
    adapter = adapter < gda->count ? adapter : 0;
    struct gda_initiator *initiator = gda_initiator_to(gda, adapter, pe);
    weft_status status = gda_dc_reserve(gda, adapter, pe, &base);
    if (status)
        return status;
    weft_dev_gda_inline_head(&initiator->scratch, base, gda_test_word(gda, pe, adapter, 0),
                             sizeof marks, 0);
    memcpy(weft_dev_gda_at(&initiator->scratch, base, WEFT_DEV_GDA_INLINE_AT), marks, sizeof marks);
    return gda_dc_await(gda, initiator, pe, gda_dc_publish(gda, adapter, pe), BOX_OP_PUT);
}

/* The failover thread ends a test that takes too long. */
static weft_status test_adapters(const struct gda *gda, int pe)
{
    struct gda_dc *dc = gda->dc;
    weft_status status = WEFT_OK;
    uint64_t sum = 0;
    dc->test_pe = pe;
    for (uint32_t a = 0; a < gda->count && !status; a++) {
        enum gda_dc_state state = gda_dc_state_of(gda, pe, a);
        if (state == GDA_DC_ENDING || state == GDA_DC_MOVED) /* LOST: the test fails at once */
            continue;
        dc->test_adapter = a;
        atomic_store(&dc->test_ns, clock_now_ns());
        status = test_adapter(gda, a, pe, &sum);
        atomic_store(&dc->test_ns, 0);
    }
    return status || !gda->failover ? status : write_marks(gda, pe);
}

void gda_dc_report_peer(const struct gda *gda, int pe)
{
    const struct path_world *world = gda->world;
    for (int kind = 0; kind < MEMORY_KINDS && world->report_tested && world->report_found; kind++) {
        char found[PATH_FOUND_BYTES] = "by DC";
        if (gda->dc->why_proxy[0])
            snprintf(found, sizeof found, "by DC, requests of device code by the proxy: %.160s",
                     gda->dc->why_proxy);
        gda_dc_describe_failed(gda, pe, found, sizeof found);
        if (!world->choices[kind] || world->choices[kind][pe].path != PATH_GDA)
            continue;
        world->report_tested(world, (weft_kind)kind, pe);
        if (!gda_refine(world, (weft_kind)kind, pe, found, sizeof found)) /* of GPU memory */
            world->report_found(world, (weft_kind)kind, pe, found);
    }
    log_debug(LOG_GDA, "path gda to PE %d: DC tested at first use", pe);
}

weft_status gda_await_dc_peer(const struct gda *gda, int pe)
{
    weft_status status = WEFT_OK;
    if (gda_link_of(gda, pe) == GDA_LINK_DC)
        return WEFT_OK;
    pthread_mutex_lock(&gda->dc->test_lock);
    if (gda_link_of(gda, pe) != GDA_LINK_DC) {
        status = test_adapters(gda, pe);
        if (!status) {
            atomic_store(&gda->links[pe], GDA_LINK_DC);
            gda_dc_publish_device((struct gda *)(uintptr_t)gda, pe);
            gda_dc_report_peer(gda, pe);
        }
    }
    pthread_mutex_unlock(&gda->dc->test_lock);
    return status;
}
