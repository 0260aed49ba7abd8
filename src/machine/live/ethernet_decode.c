/* SPDX-License-Identifier: Apache-2.0 */
/* Parses link modes of ethtool and answers of rtnetlink. See ethernet_decode.h. Source of the
 * numbers: linux/ethtool.h and linux/dcbnl.h of Linux 6.8. */
#include "machine/live/ethernet_decode.h"

#include <linux/dcbnl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>

/* Each entry is a range of mode bits of one rate; bits in no range (pause, FEC, ports) have no
 * rate. */
int64_t ethernet_fastest_mbit(const uint32_t *modes, int words)
{
    static const struct {
        short first, last;
        int mbit;
    } speeds[] = {
        {0, 1, 10},       {2, 3, 100},      {4, 5, 1000},     {12, 12, 10000},  {15, 15, 2500},
        {17, 17, 1000},   {18, 20, 10000},  {21, 22, 20000},  {23, 26, 40000},  {27, 30, 56000},
        {31, 33, 25000},  {34, 35, 50000},  {36, 39, 100000}, {40, 40, 50000},  {41, 41, 1000},
        {42, 46, 10000},  {47, 47, 2500},   {48, 48, 5000},   {52, 56, 50000},  {57, 61, 100000},
        {62, 66, 200000}, {67, 67, 100},    {68, 68, 1000},   {69, 73, 400000}, {75, 79, 100000},
        {80, 84, 200000}, {85, 89, 400000}, {90, 91, 100},    {92, 92, 10},     {93, 98, 800000},
    };
    int64_t best = 0;
    for (size_t i = 0; i < sizeof speeds / sizeof speeds[0]; i++)
        for (int bit = speeds[i].first; bit <= speeds[i].last && bit / 32 < words; bit++)
            if ((modes[bit / 32] >> (bit % 32) & 1) && speeds[i].mbit > best)
                best = speeds[i].mbit;
    return best;
}

size_t ethernet_pfc_request(const char *interface, void *message, size_t size)
{
    size_t name = strlen(interface) + 1;
    size_t bytes = NLMSG_SPACE(sizeof(struct dcbmsg)) + NLA_ALIGN(NLA_HDRLEN + name);
    if (bytes > size || name > 64)
        return 0;
    memset(message, 0, bytes);
    struct nlmsghdr *header = message;
    *header = (struct nlmsghdr){
        .nlmsg_len = (uint32_t)bytes, .nlmsg_type = RTM_GETDCB, .nlmsg_flags = NLM_F_REQUEST};
    struct dcbmsg *dcb = NLMSG_DATA(header);
    *dcb = (struct dcbmsg){.dcb_family = AF_UNSPEC, .cmd = DCB_CMD_IEEE_GET};
    struct nlattr *attribute = (void *)((char *)message + NLMSG_SPACE(sizeof *dcb));
    *attribute =
        (struct nlattr){.nla_len = (uint16_t)(NLA_HDRLEN + name), .nla_type = DCB_ATTR_IFNAME};
    memcpy((char *)attribute + NLA_HDRLEN, interface, name);
    return bytes;
}

/* Finds the attribute of that type and its length in bytes; NULL when there is no complete one. */
static const unsigned char *find_attribute(const unsigned char *at, size_t bytes, int type,
                                           size_t *length)
{
    while (bytes >= NLA_HDRLEN) {
        struct nlattr attribute;
        memcpy(&attribute, at, sizeof attribute);
        size_t step = NLA_ALIGN(attribute.nla_len);
        if (attribute.nla_len < NLA_HDRLEN || attribute.nla_len > bytes)
            return NULL;
        if ((attribute.nla_type & NLA_TYPE_MASK) == type) {
            *length = attribute.nla_len - (size_t)NLA_HDRLEN;
            return at + NLA_HDRLEN;
        }
        if (step >= bytes)
            return NULL;
        at += step;
        bytes -= step;
    }
    return NULL;
}

bool ethernet_pfc_answer(const void *message, size_t bytes, int64_t *priorities)
{
    const unsigned char *all = message, *ieee, *pfc;
    struct nlmsghdr header;
    const size_t head = NLMSG_SPACE(sizeof(struct dcbmsg));
    size_t length = 0;
    if (bytes < head)
        return false;
    memcpy(&header, message, sizeof header);
    if (header.nlmsg_type != RTM_GETDCB || header.nlmsg_len > bytes || header.nlmsg_len < head)
        return false;
    ieee = find_attribute(all + head, header.nlmsg_len - head, DCB_ATTR_IEEE, &length);
    pfc = ieee ? find_attribute(ieee, length, DCB_ATTR_IEEE_PFC, &length) : NULL;
    if (!pfc || length < offsetof(struct ieee_pfc, mbc))
        return false;
    *priorities = pfc[offsetof(struct ieee_pfc, pfc_en)];
    return true;
}
