/* SPDX-License-Identifier: BSD-2-Clause */
#include "rsocket/wire.h"

#include "base/bytes.h"

#include <string.h>

#define VERSION    1
#define IS_BIG     0x01u /* flags */
#define HAS_MAP    0x02u
#define HAS_SECOND 0x04u /* this library's own */

/* Up to 128 the number itself; above it in units of 256, with the top bit set. */
#define MAP_DIRECT 128u
#define MAP_UNIT   256u

uint32_t rs_map_size(uint32_t entries)
{
    if (entries <= MAP_DIRECT - 1) {
        return entries;
    }
    return entries <= RS_MAP_MAX ? (entries + MAP_UNIT - 1) / MAP_UNIT * MAP_UNIT : RS_MAP_MAX;
}

static uint8_t map_octet(uint32_t entries)
{
    return (uint8_t)(entries < MAP_DIRECT ? entries : 0x80u | entries / MAP_UNIT);
}

static uint32_t map_of_octet(uint8_t octet)
{
    return octet <= MAP_DIRECT ? octet : (octet & 0x7fu) * MAP_UNIT;
}

static void put_entry(uint8_t *at, const struct rs_entry *entry)
{
    iwarp_put_be64(at, entry->addr);
    iwarp_put_be32(at + 8, entry->stag);
    iwarp_put_be32(at + 12, entry->len);
}

static void get_entry(const uint8_t *at, struct rs_entry *entry)
{
    entry->addr = iwarp_get_be64(at);
    entry->stag = iwarp_get_be32(at + 8);
    entry->len = iwarp_get_be32(at + 12);
}

size_t rs_hello_write(uint8_t *at, const struct rs_hello *hello)
{
    const bool has_second = hello->second.len > 0;

    memset(at, 0, RS_PRIVATE_LEN);
    at[0] = VERSION;
    at[1] = (uint8_t)(HAS_MAP | (hello->big_endian ? IS_BIG : 0) | (has_second ? HAS_SECOND : 0));
    iwarp_put_be16(at + 2, hello->credits);
    at[7] = map_octet(hello->map_entries);
    put_entry(at + 8, &hello->targets);
    put_entry(at + 24, &hello->data);
    if (has_second) {
        put_entry(at + RS_PRIVATE_LEN, &hello->second);
    }
    return has_second ? RS_PRIVATE_MAX : RS_PRIVATE_LEN;
}

const char *rs_hello_read(const uint8_t *at, size_t len, struct rs_hello *hello)
{
    if (len < RS_PRIVATE_LEN) {
        return "private data of an rsocket are 40 octets";
    }
    if (at[0] != VERSION) {
        return "the version of rsockets is not 1";
    }
    hello->big_endian = (at[1] & IS_BIG) != 0;
    hello->credits = iwarp_get_be16(at + 2);
    hello->map_entries = at[1] & HAS_MAP ? map_of_octet(at[7]) : 0;
    get_entry(at + 8, &hello->targets);
    get_entry(at + 24, &hello->data);
    hello->second = (struct rs_entry){0};
    if (at[1] & HAS_SECOND) {
        if (len < RS_PRIVATE_MAX) {
            return "private data of an rsocket with a second half are 56 octets";
        }
        get_entry(at + RS_PRIVATE_LEN, &hello->second);
    }
    if (hello->big_endian != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)) {
        return "rsockets of another byte order are not served";
    }
    if (hello->credits < 2 || hello->targets.len != RS_TARGETS || hello->data.len == 0) {
        return "an rsocket without credits, targets or a buffer";
    }
    return NULL;
}
