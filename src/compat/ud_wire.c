/* SPDX-License-Identifier: BSD-2-Clause */
/* The 40 octets in front of a datagram: between two ends, and as the program receives them. */
#include "base/bytes.h"
#include "compat/gid.h"
#include "compat/ud.h"

#include <string.h>

#define MAGIC 0x69775544u /* "iwUD" */

enum { AT_MAGIC = 0, AT_FLAGS = 4, AT_CLASS = 5, AT_HOPS = 6, AT_QKEY = 8, AT_IMM = 12 };
enum { HAS_IMM = 1, SOLICITED = 2 };

void ud_wire_put(const struct ud_wire *w, uint8_t octets[UD_HEAD])
{
    memset(octets, 0, UD_HEAD);
    iwarp_put_be32(octets + AT_MAGIC, MAGIC);
    octets[AT_FLAGS] = (uint8_t)((w->has_imm ? HAS_IMM : 0) | (w->solicited ? SOLICITED : 0));
    octets[AT_CLASS] = w->traffic_class;
    octets[AT_HOPS] = w->hop_limit;
    iwarp_put_be32(octets + AT_QKEY, w->qkey);
    iwarp_put_be32(octets + AT_IMM, w->imm);
}

bool ud_wire_get(const uint8_t octets[UD_HEAD], struct ud_wire *w)
{
    if (iwarp_get_be32(octets + AT_MAGIC) != MAGIC) {
        return false;
    }
    *w = (struct ud_wire){.qkey = iwarp_get_be32(octets + AT_QKEY),
                          .imm = iwarp_get_be32(octets + AT_IMM),
                          .traffic_class = octets[AT_CLASS],
                          .hop_limit = octets[AT_HOPS],
                          .has_imm = octets[AT_FLAGS] & HAS_IMM,
                          .solicited = octets[AT_FLAGS] & SOLICITED};
    return true;
}

/* --- GRH ------------------------------------------------------------------------------------- */

enum { NEXT_IS_UDP = 17, IPV4_OCTETS = 20, ROCE_OCTETS = 8 + 12 + 8 + 4 }; /* UDP, BTH, DETH, CRC */

static bool is_mapped(const union ibv_gid *gid)
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

    return memcmp(gid->raw, prefix, sizeof prefix) == 0;
}

static uint16_t checksum(const uint8_t *octets)
{
    uint32_t sum = 0;

    for (int i = 0; i < IPV4_OCTETS; i += 2) {
        sum += iwarp_get_be16(octets + i);
    }
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

static void put_ipv4(const union ibv_gid *from, const union ibv_gid *to, const struct ud_wire *w,
                     uint32_t len, uint8_t *ip)
{
    ip[0] = 0x45;
    ip[1] = w->traffic_class;
    iwarp_put_be16(ip + 2, (uint16_t)(IPV4_OCTETS + ROCE_OCTETS + len));
    ip[6] = 0x40; /* not to be fragmented */
    ip[8] = w->hop_limit;
    ip[9] = NEXT_IS_UDP;
    memcpy(ip + 12, from->raw + 12, 4);
    memcpy(ip + 16, to->raw + 12, 4);
    iwarp_put_be16(ip + 10, checksum(ip));
}

uint8_t ud_grh_put(const struct sockaddr_storage *from, const struct sockaddr_storage *to,
                   const struct ud_wire *w, uint32_t len, uint8_t octets[UD_HEAD])
{
    union ibv_gid source, destination;

    iwarp_compat_gid_of(from, &source);
    iwarp_compat_gid_of(to, &destination);
    memset(octets, 0, UD_HEAD);
    if (is_mapped(&source) && is_mapped(&destination)) {
        put_ipv4(&source, &destination, w, len, octets + UD_HEAD - IPV4_OCTETS);
        return UD_OF_IPV4;
    }
    iwarp_put_be32(octets, 6u << 28 | (uint32_t)w->traffic_class << 20);
    iwarp_put_be16(octets + 4, (uint16_t)(ROCE_OCTETS + len));
    octets[6] = NEXT_IS_UDP;
    octets[7] = w->hop_limit;
    memcpy(octets + 8, source.raw, sizeof source.raw);
    memcpy(octets + 24, destination.raw, sizeof destination.raw);
    return UD_OF_IPV6;
}
