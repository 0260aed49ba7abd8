/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the two capability lists of a PCI configuration space. See pci_config.h. */
#include "machine/pci_config.h"

#include <string.h>

enum {
    HEADER_BYTES = 64,
    STATUS = 0x06,
    STATUS_HAS_LIST = 0x10,
    HEADER_TYPE = 0x0e,
    LIST = 0x34,
    LIST_CARDBUS = 0x14,
    CLASSIC_BYTES = 256,
    CAP_VENDOR = 0x09,
    CAP_EXPRESS = 0x10,
    EXT_CAP_ACS = 0x000d,
    STEPS_MOST = 960, /* (4096 - 256) / 4: a longer list has a loop */
};

static unsigned get16(const uint8_t *b)
{
    return b[0] | (unsigned)b[1] << 8;
}

static uint32_t get32(const uint8_t *b)
{
    return get16(b) | (uint32_t)get16(b + 2) << 16;
}

static struct machine_number known(int64_t value)
{
    return (struct machine_number){.value = value, .known = true};
}

static struct machine_number unknown_number(const char *why)
{
    return (struct machine_number){.why = why};
}

/* Speed or width of a link register; 0 and values above `most` are invalid. */
static struct machine_number link_field(unsigned value, unsigned most)
{
    return value && value <= most ? known(value)
                                  : unknown_number("the link register has no valid value");
}

/* 128 bytes times a power of two, at most 4096. */
static struct machine_number size_field(unsigned exponent)
{
    return exponent <= 5 ? known(128 << exponent)
                         : unknown_number("the device register has no valid size");
}

static void read_express(const uint8_t *cap, size_t left, struct pci_config *out)
{
    unsigned type = (get16(cap + 2) >> 4) & 15;
    out->port_type = known(type);
    if (type == PCI_ROOT_INTEGRATED || left < 0x14) {
        const char *why = left < 0x14 ? "configuration space ends inside the PCI Express capability"
                                      : "root-complex integrated: no link";
        out->gen = out->gen_max = out->width = out->width_max = unknown_number(why);
        return;
    }
    unsigned payload_max = get32(cap + 0x04) & 7, control = get16(cap + 0x08);
    out->payload_max = size_field(payload_max);
    out->payload = size_field((control >> 5) & 7);
    out->read_request = size_field((control >> 12) & 7);
    out->relaxed_ordering = known((control >> 4) & 1);
    uint32_t can = get32(cap + 0x0c);
    unsigned now = get16(cap + 0x12);
    out->gen_max = link_field(can & 15, 7);
    out->width_max = link_field((can >> 4) & 63, 32);
    out->gen = link_field(now & 15, 7);
    out->width = link_field((now >> 4) & 63, 32);
}

/* 'P' '2' 'P', then a 16-bit word: version in bits 2:0 (0), clique id in bits 6:3. */
static void read_vendor(const uint8_t *cap, size_t left, struct pci_config *out)
{
    if (left >= 8 && cap[2] == 8 && memcmp(cap + 3, "P2P", 3) == 0 && (cap[6] & 7) == 0)
        out->p2p_clique = known((cap[6] >> 3) & 15);
}

static void read_classic(const uint8_t *bytes, struct pci_config *out)
{
    const char *absent = "no such capability";
    out->p2p_clique = unknown_number(absent);
    out->port_type = known(-1);
    out->gen = out->gen_max = out->width = out->width_max = unknown_number("not PCI Express");
    out->payload = out->payload_max = unknown_number("not PCI Express");
    out->read_request = out->relaxed_ordering = unknown_number("not PCI Express");
    if (!(get16(bytes + STATUS) & STATUS_HAS_LIST))
        return;
    unsigned at = bytes[(bytes[HEADER_TYPE] & 0x7f) == 2 ? LIST_CARDBUS : LIST] & ~3u;
    for (int steps = 0; at >= HEADER_BYTES && steps < 48; steps++) {
        if (bytes[at] == CAP_EXPRESS)
            read_express(bytes + at, CLASSIC_BYTES - at, out);
        else if (bytes[at] == CAP_VENDOR)
            read_vendor(bytes + at, CLASSIC_BYTES - at, out);
        at = bytes[at + 1] & ~3u;
    }
}

static void read_extended(const uint8_t *bytes, size_t length, struct pci_config *out)
{
    out->acs = known(0);
    out->acs_control = unknown_number("no ACS capability");
    unsigned at = CLASSIC_BYTES;
    for (int steps = 0; at >= CLASSIC_BYTES && at + 4 <= length && steps < STEPS_MOST; steps++) {
        uint32_t header = get32(bytes + at);
        if (header == 0 || header == UINT32_MAX)
            return;
        if ((header & 0xffff) == EXT_CAP_ACS && at + 8 <= length) {
            out->acs = known(1);
            out->acs_control = known(get16(bytes + at + 6) & 0x7f);
            out->acs_offset = (int)at;
        }
        at = (header >> 20) & ~3u;
    }
}

static void set_all_unknown(struct pci_config *out, const char *why)
{
    out->port_type = out->gen = out->gen_max = out->width = out->width_max = unknown_number(why);
    out->acs = out->acs_control = out->p2p_clique = unknown_number(why);
    out->payload = out->payload_max = out->read_request = out->relaxed_ordering =
        unknown_number(why);
}

void pci_config_read(const uint8_t *bytes, size_t length, struct pci_config *out)
{
    memset(out, 0, sizeof *out);
    set_all_unknown(out, "the configuration space could not be read");
    if (length < HEADER_BYTES)
        return;
    if (get16(bytes) == 0xffff) {
        set_all_unknown(out, "the device does not answer (configuration space reads all ones)");
        return;
    }
    if (length < CLASSIC_BYTES) {
        set_all_unknown(out, "reading beyond 64 bytes of PCI configuration space needs root");
        return;
    }
    read_classic(bytes, out);
    if (length > CLASSIC_BYTES)
        read_extended(bytes, length, out);
    else
        out->acs = out->acs_control = unknown_number("no extended configuration space is exposed");
}
